/* git_ask.h - asks git for the settings of the system and the user, without the repository's */
#ifndef KEYHOLE_SANDBOX_GIT_ASK_H
#define KEYHOLE_SANDBOX_GIT_ASK_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* A user of git in the workspace. */
struct kh_git_person {
	char *home; /* heap; NULL: none is known */
	uid_t uid;
	gid_t gid;
	bool is_owner; /* the workspace's owner, and not the current user */
};
enum { KH_GIT_PERSONS = 2 };
struct kh_git_persons {
	struct kh_git_person list[KH_GIT_PERSONS];
	size_t n;
	uid_t unknown; /* an owner whose settings are unknown; 0: none */
};

/* Finds the current user, and if root runs this in another user's folder, its owner as well.
 * Return: false with `err`: the folder can't be read, or no memory. */
bool kh_git_persons_find(struct kh_git_persons *out, const char *root, struct kh_err *err);
void kh_git_persons_fini(struct kh_git_persons *persons);

/*
 * Gets the settings of the system, of this user and of the environment, as `git config --list -z
 * --show-origin` prints them. git reads no repository, since one could make it fail. Return: false
 * with `err`: no complete answer.
 */
bool kh_git_ask(const char *git, const struct kh_git_person *person, const char *root,
		struct kh_buf *answer, struct kh_err *err);

#endif
