/* leg.h - a connection with what waits to be written to it */
#ifndef KEYHOLE_LOOP_LEG_H
#define KEYHOLE_LOOP_LEG_H

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/tls/tls.h>

struct kh_leg {
	struct kh_stream *stream; /* NULL: not connected */
	struct kh_buf out;
	uint64_t written_bytes;
	bool failed; /* a write failed: nothing more is written */
};

/* What one side may read ahead before it has to wait for the other. */
enum { KH_LEG_HIGH_BYTES = KH_LIMIT_RELAY_BYTES, KH_LEG_READ_BYTES = 16 * 1024 };

void kh_leg_init(struct kh_leg *leg, bool wiping);
void kh_leg_fini(struct kh_leg *leg);
/* Writes now what goes when nothing waits, keeps the rest. Return: false when the connection failed
 * or the cap is reached. */
bool kh_leg_put(struct kh_leg *leg, struct kh_slice bytes);
/* Writes what waits. Return: false when the connection failed. */
bool kh_leg_flush(struct kh_leg *leg);
/* Before a credential is put: until all has been written, what waits is hidden (hidden.h). What
 * comes out of hidden memory says so by itself. Return: false without memory. */
bool kh_leg_hide(struct kh_leg *leg);
/* Position behind all that was put. */
uint64_t kh_leg_position(const struct kh_leg *leg);
/* Takes back what was put since, if none of it has left. */
bool kh_leg_rewind(struct kh_leg *leg, uint64_t position);
static inline bool kh_leg_is_full(const struct kh_leg *leg)
{
	return kh_buf_len(&leg->out) >= KH_LEG_HIGH_BYTES;
}

#endif
