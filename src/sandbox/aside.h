/* aside.h - moves what could run on the host out of a workspace, and back */
#ifndef KEYHOLE_SANDBOX_ASIDE_H
#define KEYHOLE_SANDBOX_ASIDE_H

#include <sys/stat.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/* The things of one run: STATE/set-aside/RUN/N, mode 0700, each with its path and the reason. */
struct kh_aside {
	const char *state;
	const char *run;
	unsigned n;	 /* set aside so far */
	unsigned failed; /* and what could not be */
	unsigned gone;	 /* without content, and removed (kh_aside_drop) */
};

/* Moves the entry `name` of the folder `dir`, whose absolute path is `path`. It says one line, also
 * where it fails; of many, kh_aside_end says how many more there were. `replacement` (NULL: none)
 * takes the place of a regular file. */
void kh_aside_take(struct kh_aside *aside, int dir, const char *name, const char *path,
		   const char *reason, const struct kh_slice *replacement);

/* The same for a socket, a named pipe or a device that an agent has made. A hundred are kept; of
 * more nothing is, since nothing is in them, and an agent makes as many as it likes. */
void kh_aside_drop(struct kh_aside *aside, int dir, const char *name, const char *path,
		   const char *reason);

/* One line for what had none. */
void kh_aside_end(const struct kh_aside *aside);

/* mountpoint.c: opens the folder above the last component of an absolute path, without following
 * any link; *name is that component, in `path`. Return: -1 with errno. */
int kh_mountpoint_open_parent(const char *path, const char **name);

#endif
