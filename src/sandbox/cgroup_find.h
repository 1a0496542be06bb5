/*
 * cgroup_find.h - finds the control groups of this process
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
	char *own; /* the folder of our group, `top` or below it; NULL: not visible in any mount.
		      Heap */
};

/*
 * Finds the hierarchy of a controller ("memory"): the one of version 1 that names it, else that of
 * version 2. Of several mounts it takes the first that shows our own group, else the first. Return:
 * false: there is none, or it is not mounted. Lines that can't be parsed are ignored.
 */
bool kh_cgroup_find(struct kh_slice groups, struct kh_slice mounts, const char *controller,
		    struct kh_cgroup_found *out);
void kh_cgroup_found_fini(struct kh_cgroup_found *found);

#endif
