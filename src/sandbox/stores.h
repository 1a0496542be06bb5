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
	bool failed; /* not all of what was there before could be noted */
};
void kh_stores_fini(struct kh_stores *stores);
/* The folders of the workspace that this list of alternates names. Other concerns name none.
 * Return: false without memory, or where there are more than can be looked through. */
bool kh_stores_add(struct kh_stores *stores, const struct kh_concern *c, bool is_old);
/*
 * Gives each symbolic link and each list of alternates where git reads them in these folders. They
 * have no name that says what they are, so the survey itself passes them over. `each` may add more
 * meanwhile. Return: false where not all could be looked through.
 */
bool kh_stores_walk(struct kh_stores *stores, struct kh_deadline *deadline,
		    bool (*each)(void *arg, size_t store, const struct kh_concern *c), void *arg,
		    struct kh_err *err);

#endif
