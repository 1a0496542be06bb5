/* git_names.h - finds the paths in the workspace that a variable of git's configuration names */
#ifndef KEYHOLE_SANDBOX_GIT_NAMES_H
#define KEYHOLE_SANDBOX_GIT_NAMES_H

#include "git_config.h"
#include "git_reads.h"

struct kh_git_finding {
	struct kh_git_reads *out;
	const char *root;
	const char *home;    /* of who uses git; NULL: unknown */
	const char *tree;    /* where git is when it runs something */
	const char *origin;  /* the folder of the file that says so */
	const char *git_dir; /* the one that says so; "": the user; NULL: that is noted already */
	int depth;	     /* of includes */
};

/* What is not known in full is not to be relied on; the first reason counts. */
void kh_git_names_fail(struct kh_git_reads *out, const char *what, const char *why);
void kh_git_names_no_memory(struct kh_git_reads *out);
/* As git reads a path in its configuration. Heap. */
char *kh_git_names_expand(const struct kh_git_finding *f, const char *base, const char *value);
/* A place that git will look at, whether it exists or not: by the name, and where that leads. */
void kh_git_names_look(struct kh_git_finding *f, const char *base, const char *value,
		       enum kh_git_read_kind kind);
/* core.hooksPath and the like: whatever is in that folder. */
void kh_git_names_hooks(struct kh_git_finding *f, const char *value);
/* Where links in a folder outside of the workspace lead in it: a hook may be one. */
void kh_git_names_links(struct kh_git_finding *f, const char *folder);
/* The paths in the value of any other variable. */
void kh_git_names_words(struct kh_git_finding *f, const struct kh_git_config_entry *e);

#endif
