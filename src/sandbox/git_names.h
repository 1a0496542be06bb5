/* git_names.h - finds the paths in the workspace that a variable of git's configuration names */
#ifndef KEYHOLE_SANDBOX_GIT_NAMES_H
#define KEYHOLE_SANDBOX_GIT_NAMES_H

#include "git_config.h"
#include "git_reads.h"

struct kh_git_finding {
	struct kh_git_reads *out;
	const char *root;
	const char *home;    /* of the user of git; NULL: unknown */
	const char *tree;    /* the folder in which git runs something */
	const char *origin;  /* the folder of the configuration file */
	const char *git_dir; /* the git folder with the setting; "": the user's configuration; NULL:
				recorded already */
	int depth;	     /* of includes */
};

/* Marks the result as incomplete, so that it is not used; the first reason is kept. */
void kh_git_names_fail(struct kh_git_reads *out, const char *what, const char *why);
void kh_git_names_no_memory(struct kh_git_reads *out);
/* Expands a path as git does in its configuration. Heap. */
char *kh_git_names_expand(const struct kh_git_finding *f, const char *base, const char *value);
/* Records a place that git will read, whether it exists or not: the name, and its resolved
 * target. */
void kh_git_names_look(struct kh_git_finding *f, const char *base, const char *value,
		       enum kh_git_read_kind kind);
/* Records everything in a folder of hooks (core.hooksPath and the like). */
void kh_git_names_hooks(struct kh_git_finding *f, const char *value);
/* Records where links from a folder outside of the workspace lead inside it: a hook may be such a
 * link. */
void kh_git_names_links(struct kh_git_finding *f, const char *folder);
/* Records the paths in the value of any other variable. */
void kh_git_names_words(struct kh_git_finding *f, const struct kh_git_config_entry *e);

#endif
