/* git_ask.h - asks git for the settings of the system and the user, without the repository's */
#ifndef KEYHOLE_SANDBOX_GIT_ASK_H
#define KEYHOLE_SANDBOX_GIT_ASK_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* Somebody who uses git in the workspace. */
struct kh_git_person {
	char *home; /* heap; NULL: none is known */
	uid_t uid;
	gid_t gid;
	bool is_owner; /* of the workspace, and not whoever runs this */
};
enum { KH_GIT_PERSONS = 2 };
struct kh_git_persons {
	struct kh_git_person list[KH_GIT_PERSONS];
	size_t n;
	uid_t unknown; /* an owner whose settings can't be known; 0: there is none */
};

/* Whoever runs this, and where root does that in somebody else's folder, its owner as well. Return:
 * false where the folder can't be looked at, or without memory. */
bool kh_git_persons_find(struct kh_git_persons *out, const char *root, struct kh_err *err);
void kh_git_persons_fini(struct kh_git_persons *persons);

/*
 * The settings of the system, of this person and of the environment, as `git config --list -z
 * --show-origin` gives them. No repository is read, so that none can have git fail. Return: false
 * where git did not answer in full.
 */
bool kh_git_ask(const char *git, const struct kh_git_person *person, const char *root,
		struct kh_buf *answer, struct kh_err *err);

#endif
