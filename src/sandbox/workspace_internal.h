/* workspace_internal.h - shared by the files that protect a workspace */
#ifndef KEYHOLE_SANDBOX_WORKSPACE_INTERNAL_H
#define KEYHOLE_SANDBOX_WORKSPACE_INTERNAL_H

#include "deadline.h"
#include "sandbox_internal.h"

struct kh_work {
	struct kh_view *view;
	const struct kh_run_record *record;
	const char *root;
	const char *source; /* what is mounted at `root`; NULL: `root` itself */
	struct stat owner;
	unsigned repositories;
	struct kh_err *err;
	struct kh_deadline deadline; /* of all work to protect one workspace */
};

/* workspace.c. Each returns false with w->err set. */
bool kh_work_no_memory(struct kh_work *w);
bool kh_work_refuse_link(struct kh_work *w, const char *path);
/* Mounts each folder below the root, down to `path`, onto itself, so that none can be renamed. */
bool kh_work_pin(struct kh_work *w, const char *path);
/* Makes it read-only; if it is absent, puts an empty read-only folder there. Refuses a symbolic
 * link. */
bool kh_work_protect(struct kh_work *w, const char *path);
/* Is it, or a folder above it, already covered by a read-only mount? */
bool kh_work_is_covered(const struct kh_work *w, const char *path);
bool kh_work_protect_in(struct kh_work *w, const char *folder, const char *name);
bool kh_work_protect_in_if_there(struct kh_work *w, const char *folder, const char *name);
/* The same; if it is absent, puts a read-only file with this content there. */
bool kh_work_protect_file(struct kh_work *w, const char *path, const char *content);

/* workspace_git.c: protects all repositories, and what git reads and runs by their configuration.
 * Records read-only ones in the survey's digests. */
bool kh_work_protect_git(struct kh_work *w, struct kh_survey *survey);

/* workspace_leads.c: protects the other names of everything that is protected so far: targets of
 * its symbolic links in the workspace, and other hard links to its files. `first`: the first entry
 * of the view to consider. */
bool kh_work_protect_leads(struct kh_work *w, const struct kh_survey *survey, size_t first);

#endif
