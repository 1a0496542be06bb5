/* inlets.h - symbolic links into folders that are exempt from the check of tools' names */
#ifndef KEYHOLE_SANDBOX_INLETS_H
#define KEYHOLE_SANDBOX_INLETS_H

#include "concern.h"

/* Nobody opens an editor below node_modules or .git, unless a link elsewhere leads in there. */
struct kh_inlets {
	char **list; /* the targets of such links, relative to the root */
	size_t n;
	bool too_many;
	bool everywhere; /* a target is unknown: it may be any folder in there */
};
void kh_inlets_fini(struct kh_inlets *inlets);
/* Records those in one folder of a walk; `root_fd` is the open workspace, `root` its path. */
bool kh_inlets_note(struct kh_inlets *inlets, int root_fd, const char *root,
		    const struct kh_walk_folder *folder, struct kh_err *err);
/* Calls `each` for the names (KH_CONCERN_NAME) below their targets, as if those folders were in the
 * place of the links, and records links in there as well. *missed: see struct kh_walk; only set if
 * it was NULL. */
bool kh_inlets_find(struct kh_inlets *inlets, int root_fd, const char *root,
		    bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		    void *arg, struct kh_deadline *deadline, char **missed, struct kh_err *err);

#endif
