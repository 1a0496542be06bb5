/* git_reads.h - finds what git on the host reads or runs from the workspace */
#ifndef KEYHOLE_SANDBOX_GIT_READS_H
#define KEYHOLE_SANDBOX_GIT_READS_H

#include "sandbox_internal.h"

struct kh_git_read {
	char *path;
	enum kh_git_read_kind {
		KH_GIT_READ_THERE = 1, /* a file that exists */
		KH_GIT_READ_FILE,      /* a file that may not exist yet */
		KH_GIT_READ_FOLDER,    /* a folder that may not exist yet */
	} kind;
};
struct kh_git_reads {
	struct kh_git_read *list;
	size_t n;
	bool failed;
	struct kh_err err;	 /* why */
	struct kh_buf *compared; /* paths that are compared after the run (tree_reads.h) */
	struct kh_buf unknown;	 /* commands that only the shell can expand completely */
	uid_t unknown_owner;	 /* an owner of the workspace whose settings are unknown; 0: none */
};
void kh_git_reads_init(struct kh_git_reads *reads, struct kh_buf *compared);
void kh_git_reads_fini(struct kh_git_reads *reads);
/* Finds them by asking git (git_ask.h), and in the configuration of repositories in the workspace,
 * around it, and outside with a work tree in it. git runs nothing for that. Return: false with
 * `err`: incomplete. */
bool kh_git_reads_find(struct kh_git_reads *out, const char *root, const struct kh_survey *survey,
		       struct kh_err *err);

#endif
