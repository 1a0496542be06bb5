/* stores.h - object folders elsewhere in a workspace that its repositories use (alternates) */
#ifndef KEYHOLE_SANDBOX_STORES_H
#define KEYHOLE_SANDBOX_STORES_H

#include "concern.h"

struct kh_store {
	char *path;
	char *origin; /* the list of alternates that names it */
	bool is_old;  /* that list was there before the run */
};
struct kh_stores {
	const char *root;
	struct kh_store *list;
	size_t n;
	bool failed; /* not everything that was there before could be recorded */
};
void kh_stores_fini(struct kh_stores *stores);
/* Adds the folders of the workspace that this list of alternates names. Other concerns name none.
 * Return: false: no memory, or too many. */
bool kh_stores_add(struct kh_stores *stores, const struct kh_concern *c, bool is_old);
/*
 * Calls `each` for each symbolic link and each list of alternates that git would read in these
 * folders. The survey itself does not recognise these folders by name. `each` may add more folders.
 * Return: false with `err`: not everything could be checked.
 */
bool kh_stores_walk(struct kh_stores *stores, struct kh_deadline *deadline,
		    bool (*each)(void *arg, size_t store, const struct kh_concern *c), void *arg,
		    struct kh_err *err);

#endif
