/*
 * cgroup_find.h - where this process stands in the hierarchies of control groups
 *
 * Read from two texts of the kernel's, /proc/self/cgroup and /proc/self/mountinfo (proc(5),
 * cgroups(7)); it opens nothing by itself.
 */
#ifndef KEYHOLE_SANDBOX_CGROUP_FIND_H
#define KEYHOLE_SANDBOX_CGROUP_FIND_H

#include <stdbool.h>

#include <keyhole/base/slice.h>

struct kh_cgroup_found {
	bool v2;
	char *top; /* where the hierarchy is mounted. Heap, without a '/' at its end */
	char *own; /* the folder of our group, `top` or below it; NULL: no mount shows it. Heap */
};

/*
 * A controller ("memory") is to be had in one hierarchy only: in that of version 1 which names it,
 * else, if at all, in that of version 2. Of several mounts of it the first that shows our own group
 * is taken, else the first. Return: there is one, and it is mounted. What can't be read as such a
 * text counts as not said.
 */
bool kh_cgroup_find(struct kh_slice groups, struct kh_slice mounts, const char *controller,
		    struct kh_cgroup_found *out);
void kh_cgroup_found_fini(struct kh_cgroup_found *found);

#endif
