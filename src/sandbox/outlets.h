/* outlets.h - symbolic links that lead out of a workspace, to where sandboxes can write */
#ifndef KEYHOLE_SANDBOX_OUTLETS_H
#define KEYHOLE_SANDBOX_OUTLETS_H

#include "concern.h"

/* Folders outside of a workspace to which a sandbox can or could write. */
struct kh_outlets {
	struct kh_outlet {
		dev_t dev;
		ino_t ino;
	} * list;
	size_t n;
};
void kh_outlets_fini(struct kh_outlets *outlets);
/* Adds a folder, unless it is absent, or it and the workspace (NULL: none) are in each other: then
 * it is surveyed itself, and the workspace is on the way to everything in it. Both are resolved.
 */
bool kh_outlets_add(struct kh_outlets *outlets, const char *path, const char *workspace,
		    struct kh_err *err);
/* Adds what is held, if it is a folder. */
bool kh_outlets_add_held(struct kh_outlets *outlets, int fd, struct kh_err *err);
/* As kh_outlets_add, for each folder that runs have had as their home. */
bool kh_outlets_add_homes(struct kh_outlets *outlets, const char *state, const char *workspace,
			  struct kh_err *err);
/* Calls `each` for each of them. Return: false with `err`: also if `each` returned false. */
bool kh_outlets_each_home(const char *state,
			  bool (*each)(void *arg, const char *home, struct kh_err *err), void *arg,
			  struct kh_err *err);
/* The same for keyhole's folders: `state`, the state folders of this user, of the workspace's owner
 * and of the system, with the files of reviews and what was set aside, and /run/keyhole. `folder`:
 * a descriptor of the workspace. */
bool kh_outlets_add_own(struct kh_outlets *outlets, const char *state, const char *workspace,
			int folder, struct kh_err *err);
/* Records a folder (without links) as a home. Call it with the lock of the records held. */
bool kh_outlets_note_home(const char *state, const char *home, struct kh_err *err);
/* May a run write to this workspace (resolved)? Not if a folder that a run has had as its home is
 * in it, or around it, by any mount: what is in a home counts as what was there before. `state` may
 * be NULL. Return: false with `err`. */
bool kh_outlets_check_homes(const char *state, const char *workspace, struct kh_err *err);
/* Has a run had this folder (resolved) as its home? */
bool kh_outlets_was_home(const char *state, const char *home);
/*
 * Why the link `name` in the folder `dir` must not be there: it leads into such a folder or through
 * one, whether there is something at its end or not; or only the process that follows it knows
 * where it leads. NULL: neither.
 */
const char *kh_outlets_why(const struct kh_outlets *outlets, int dir, const char *name);
/* Does it lead into such a folder or through one, as far as that can be told? */
bool kh_outlets_holds(const struct kh_outlets *outlets, int dir, const char *name);
/* The digest of a link: its path, what it says, and where it leads by now. */
bool kh_outlets_digest(const char *path, int dir, const char *name,
		       unsigned char out[KH_CONCERN_DIGEST_BYTES]);

#endif
