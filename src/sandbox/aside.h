/* aside.h - moves what could run on the host out of a workspace, and back */
#ifndef KEYHOLE_SANDBOX_ASIDE_H
#define KEYHOLE_SANDBOX_ASIDE_H

#include <sys/stat.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

#include "walk.h"

/* The things of one run: STATE/set-aside/RUN/N, mode 0700, each with its path and the reason. */
struct kh_aside {
	const char *state;
	const char *run;
	unsigned n;	 /* how many were set aside so far */
	unsigned failed; /* and how many could not be */
	unsigned gone;	 /* without content, and removed (kh_aside_drop) */
};

/* Moves the entry `name` of the folder `dir` out of the workspace; `path` is its absolute path.
 * Logs one line, also on failure; if there are many, kh_aside_end logs how many more. `replacement`
 * (NULL: none) is the new content of a regular file. */
void kh_aside_take(struct kh_aside *aside, int dir, const char *name, const char *path,
		   const char *reason, const struct kh_slice *replacement);

/* The same for an entry that a walk has found. A folder that can't be moved stays, under another
 * name, and the walk goes on in it, since it may hold anything. */
void kh_aside_take_entry(struct kh_aside *aside, int dir, struct kh_walk_entry *entry,
			 const char *path, const char *reason);

/* The same for a socket, a named pipe or a device that an agent has made. A hundred are kept; more
 * are just removed, since they have no content and an agent can make any number. */
void kh_aside_drop(struct kh_aside *aside, int dir, const char *name, const char *path,
		   const char *reason);

/* Logs one line for all that had none. */
void kh_aside_end(const struct kh_aside *aside);

/* mountpoint.c: opens the folder above the last component of an absolute path, without following
 * any link; *name is that component, in `path`. Return: -1 with errno. */
int kh_mountpoint_open_parent(const char *path, const char **name);

#endif
