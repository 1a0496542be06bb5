/*
 * fuzz_cgroup.c - /proc/self/cgroup and /proc/self/mountinfo, as far as control groups go
 *
 * Input: the one text, a NUL, the other. Names in them are chosen by whoever mounts and makes
 * groups. What is found is a path from the root, and our own group never lies above its hierarchy.
 */
#include <stdlib.h>
#include <string.h>

#include "sandbox/cgroup_find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const controllers[] = { "memory", "pids", "cpu" };
	struct kh_slice all = kh_slice_of(data, size);
	size_t end = kh_slice_find(all, '\0', 0);
	struct kh_slice groups = kh_slice_sub(all, 0, end),
			mounts = kh_slice_sub(all, end + 1, SIZE_MAX);
	for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++) {
		struct kh_cgroup_found found;
		bool is = kh_cgroup_find(groups, mounts, controllers[i], &found);
		require(is == (found.top != NULL));
		require(!is || found.top[0] == '/');
		require(!found.own ||
			(is && strncmp(found.own, found.top, strlen(found.top)) == 0));
		kh_cgroup_found_fini(&found);
	}
	return 0;
}
