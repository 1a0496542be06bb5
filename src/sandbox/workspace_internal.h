/* workspace_internal.h - shared by the files that protect a workspace */
#ifndef KEYHOLE_SANDBOX_WORKSPACE_INTERNAL_H
#define KEYHOLE_SANDBOX_WORKSPACE_INTERNAL_H

#include "deadline.h"
#include "sandbox_internal.h"

struct kh_work {
	struct kh_view *view;
	const struct kh_run_record *record;
	const char *root;
	const char *source; /* what is mounted at `root`; NULL: that itself */
	struct stat owner;
	unsigned repositories;
	struct kh_err *err;
	struct kh_deadline deadline; /* of all that protects one */
};

/* workspace.c. Each returns false with w->err set. */
bool kh_work_no_memory(struct kh_work *w);
bool kh_work_refuse_link(struct kh_work *w, const char *path);
/* Mounts each folder from below the root down to `path` onto itself, so that none can be renamed.
 */
bool kh_work_pin(struct kh_work *w, const char *path);
/* Read-only; where it is absent, an empty folder that stays empty. A link is refused. */
bool kh_work_protect(struct kh_work *w, const char *path);
/* Does a mount that is read-only already lie over it, or over a folder above? */
bool kh_work_is_covered(const struct kh_work *w, const char *path);
bool kh_work_protect_in(struct kh_work *w, const char *folder, const char *name);
bool kh_work_protect_in_if_there(struct kh_work *w, const char *folder, const char *name);
/* The same; where it is absent, a file with this content. */
bool kh_work_protect_file(struct kh_work *w, const char *path, const char *content);

/* workspace_git.c: all repositories, and what git reads and runs by their configuration. Notes
 * those that are read-only among the digests of before. */
bool kh_work_protect_git(struct kh_work *w, struct kh_survey *survey);

/* workspace_leads.c: what is protected by now is protected under its other names too: where
 * symbolic links in it lead in the workspace, and other hard links to its files. `first`: the first
 * entry of the view that counts. */
bool kh_work_protect_leads(struct kh_work *w, const struct kh_survey *survey, size_t first);

#endif
