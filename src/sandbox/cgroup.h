/*
 * cgroup.h - control groups of this host that limit and count a sandbox's use
 *
 * Supports version 1, version 2, or both at once (hybrid): each controller is used in the hierarchy
 * that has it (cgroup_find.h). A group is made below this process's own group. In version 2 a group
 * that contains processes can't enable controllers for children: then the new group is made beside
 * it. If the group above is not ours, as in a service with Delegate=yes, all processes of our group
 * are first moved into a child group, which stays (KH_CGROUP_REST). There is one new group per
 * hierarchy, since a process can only be in one. If this process may not make a group, there is
 * none; the caller decides whether that is an error (bounds.c).
 */
#ifndef KEYHOLE_SANDBOX_CGROUP_H
#define KEYHOLE_SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KH_CGROUP_REST "keyhole.rest"

enum kh_cgroup_kind { KH_CGROUP_MEMORY, KH_CGROUP_PIDS, KH_CGROUP_CPU, KH_CGROUP_KINDS };

struct kh_cgroups {
	const char *root; /* a prefix of every host path, for tests; NULL: none */
	struct kh_cgroup {
		char *path; /* NULL: none */
		char *top;  /* of its hierarchy */
		bool v2;
	} of[KH_CGROUP_KINDS]; /* several kinds may have the same path */
};

/* Makes a group for this kind. Return: there is one now. */
bool kh_cgroup_make(struct kh_cgroups *groups, enum kh_cgroup_kind kind);
/* Writes to a file of the group: `v2` in version 2, else `v1`. NULL: that version has no such file,
 * and it returns true. */
bool kh_cgroup_write(const struct kh_cgroups *groups, enum kh_cgroup_kind kind, const char *v1,
		     const char *v2, const char *text);
/* Moves a process into all of them; 0: the calling one. */
bool kh_cgroup_join(const struct kh_cgroups *groups, pid_t pid);
/* How many processes in it the kernel has killed because memory ran out. */
uint64_t kh_cgroup_oom_kills(const struct kh_cgroups *groups);
/* The same for a group that others made, the group of a process. It is held by a descriptor, since
 * its path disappears with the process (-1: not visible here). The count is 0 once the group is
 * gone. */
int kh_cgroup_watch_oom(pid_t pid);
uint64_t kh_cgroup_oom_kills_at(int fd);
/* Removes them, waiting a little for processes that are just ending. */
void kh_cgroup_remove(const struct kh_cgroups *groups);
void kh_cgroup_fini(struct kh_cgroups *groups);

#endif
