/* gitlinks.h - symbolic links in the place of submodules */
#ifndef KEYHOLE_SANDBOX_GITLINKS_H
#define KEYHOLE_SANDBOX_GITLINKS_H

#include "concern.h"

/*
 * git enters the path of each submodule that an index has (a gitlink), and there reads the
 * configuration of whatever it finds. So these are concerns: the symbolic links on the way to these
 * paths.
 */
struct kh_gitlinks {
	/* Folders with .git in them, and which git folder that is. */
	struct kh_gitlinks_tree {
		char *path;
		dev_t dev;
		ino_t ino;
	} * list;
	size_t n, alloc, bytes;
	bool too_many;
};
void kh_gitlinks_fini(struct kh_gitlinks *gitlinks);
/* Records one folder of a walk, if it has .git in it. */
bool kh_gitlinks_note(struct kh_gitlinks *gitlinks, const struct kh_walk_folder *folder,
		      struct kh_err *err);
/*
 * After the walk: calls `each` for such links (KH_CONCERN_GITLINK) in the folders that were
 * recorded, and for those of the repositories around the workspace. Each index is read once,
 * whatever number of folders leads to it. `root_fd` is the open workspace, `root` its path.
 * *missed: see struct kh_walk; only set if it was NULL.
 */
bool kh_gitlinks_find(struct kh_gitlinks *gitlinks, int root_fd, const char *root,
		      bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		      void *arg, struct kh_deadline *deadline, char **missed, struct kh_err *err);

#endif
