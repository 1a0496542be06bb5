/*
 * cgroup.h - groups of this host in which a sandbox's use is bounded and counted
 *
 * Version 1, version 2, or both at once (hybrid): each controller is looked for where the host has
 * it (cgroup_find.h). A group is made below the one that we are in. In version 2 one that holds
 * processes can give its controllers to no child: then ours is made beside it; and where what is
 * above is not ours, as in a service with Delegate=yes, all that runs in our group is moved into a
 * child of it first, which stays (KH_CGROUP_REST). In one hierarchy there is one group of ours,
 * since a process can only be in one. Who may not make one there has none: whether that is an error
 * is the caller's to say (bounds.c).
 */
#ifndef KEYHOLE_SANDBOX_CGROUP_H
#define KEYHOLE_SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KH_CGROUP_REST "keyhole.rest"

enum kh_cgroup_kind { KH_CGROUP_MEMORY, KH_CGROUP_PIDS, KH_CGROUP_CPU, KH_CGROUP_KINDS };

struct kh_cgroups {
	const char *root; /* in front of every path of the host's, for tests; NULL: nothing */
	struct kh_cgroup {
		char *path; /* NULL: none */
		char *top;  /* of its hierarchy */
		bool v2;
	} of[KH_CGROUP_KINDS]; /* the same path several times where a hierarchy has several */
};

/* A group for this kind. Return: there is one now. */
bool kh_cgroup_make(struct kh_cgroups *groups, enum kh_cgroup_kind kind);
/* Writes into a file of it ("memory.max" where it is of version 2, else `v1`; NULL: there is none
 * such file in that version, which is fine). */
bool kh_cgroup_write(const struct kh_cgroups *groups, enum kh_cgroup_kind kind, const char *v1,
		     const char *v2, const char *text);
/* Moves a process into all of them; 0: the calling one. */
bool kh_cgroup_join(const struct kh_cgroups *groups, pid_t pid);
/* How often the kernel ended a process in it for want of memory. */
uint64_t kh_cgroup_oom_kills(const struct kh_cgroups *groups);
/* The same of a group that others made: that of a process, held by a descriptor since its path goes
 * with the process (-1: not to be seen here). It says 0 once the group is gone. */
int kh_cgroup_watch_oom(pid_t pid);
uint64_t kh_cgroup_oom_kills_at(int fd);
/* Removes them, waiting a little for processes that are just ending. */
void kh_cgroup_remove(const struct kh_cgroups *groups);
void kh_cgroup_fini(struct kh_cgroups *groups);

#endif
