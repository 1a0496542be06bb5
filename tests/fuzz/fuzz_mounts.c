/*
 * fuzz_mounts.c - /proc/self/mountinfo, and the names that a folder has by other mounts
 *
 * Input: the number of a mount, a NUL, a folder, a NUL, the table. Names in the table are chosen by
 * whoever makes folders and mounts. Each name that is found begins at the root and is by a mount of
 * the table, at or below its point.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/mounts.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static bool check(void *arg, const char *name, uint64_t id)
{
	const struct kh_mounts *mounts = arg;
	bool found = false;

	require(name[0] == '/');
	for (size_t i = 0; i < mounts->n && !found; i++)
		found = mounts->list[i].id == id &&
			strncmp(name, mounts->list[i].point, strlen(mounts->list[i].point)) == 0;
	require(found);
	return true;
}

static struct kh_slice take(struct kh_slice *rest)
{
	size_t end = kh_slice_find(*rest, '\0', 0);
	struct kh_slice part = kh_slice_sub(*rest, 0, end);

	*rest = kh_slice_sub(*rest, end + 1, SIZE_MAX);
	return part;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice text = kh_slice_of(data, size);
	struct kh_slice number = take(&text), path = take(&text);
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);
	uint64_t id = 0;

	if (!kh_mounts_parse(text, &mounts)) {
		require(mounts.n == 0 && !mounts.list);
		return 0;
	}
	kh_auto_free char *folder = kh_slice_dup(path);
	if (folder && folder[0] == '/' && kh_slice_to_u64(number, &id)) {
		(void)kh_mounts_each_name(&mounts, id, folder, check, &mounts);
		(void)kh_mounts_has_below(&mounts, folder);
	}
	return 0;
}
