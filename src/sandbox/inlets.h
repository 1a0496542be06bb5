/* inlets.h - symbolic links into folders that are exempt from the check of tools' names */
#ifndef KEYHOLE_SANDBOX_INLETS_H
#define KEYHOLE_SANDBOX_INLETS_H

#include "concern.h"

/* Nobody opens an editor below node_modules or .git, unless a link elsewhere stands for something
 * in there. */
struct kh_inlets {
	char **list; /* where such links lead, from the root */
	size_t n;
	bool too_many;
	bool everywhere; /* where one of them leads is not known: it may be any folder in there */
};
void kh_inlets_fini(struct kh_inlets *inlets);
/* Notes those of one folder of a walk; `root_fd` is the workspace, held, and `root` its path. */
bool kh_inlets_note(struct kh_inlets *inlets, int root_fd, const char *root,
		    const struct kh_walk_folder *folder, struct kh_err *err);
/* Gives `each` the names (KH_CONCERN_NAME) below where they lead, as if those folders lay where the
 * links are, and notes links in there as well. *missed as in struct kh_walk; it is set only where
 * it was NULL. */
bool kh_inlets_find(struct kh_inlets *inlets, int root_fd, const char *root,
		    bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		    void *arg, struct kh_deadline *deadline, char **missed, struct kh_err *err);

#endif
