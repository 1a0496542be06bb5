/* nearest.h - "did you mean": the known word that is nearest to what was typed */
#ifndef KEYHOLE_BASE_NEAREST_H
#define KEYHOLE_BASE_NEAREST_H

#include <keyhole/base/slice.h>

/* Offer every known word, then ask. `typed` and the words outlive it. */
struct kh_nearest {
	struct kh_slice typed;
	const char *best; /* NULL: none is near */
	unsigned distance;
};
void kh_nearest_init(struct kh_nearest *nearest, struct kh_slice typed);
/* Near: at most a third of what was typed is wrong (one letter of a short word); its end may be
 * missing.
 */
void kh_nearest_offer(struct kh_nearest *nearest, const char *known);
/* `other` is what some people call `known`; it counts only if it is typed exactly, ignoring case.
 * */
void kh_nearest_offer_for(struct kh_nearest *nearest, const char *other, const char *known);
/* " (did you mean \"x\"?)" in `out`, or "" when nothing offered is near. */
enum { KH_NEAREST_BYTES = 128 };
const char *kh_nearest_hint(const struct kh_nearest *nearest, char out[KH_NEAREST_BYTES]);

#endif
