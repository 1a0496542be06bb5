/* cgroup.c - finds the hierarchies of control groups, and makes groups in them */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/file.h>
#include <keyhole/slice.h>

enum { REMOVE_TRIES = 100, REMOVE_PAUSE_MS = 20, LINES_MOST_BYTES = 1024 * 1024 };

static const struct {
	const char *name, *v2_file; /* of the controller; a file that it brings in version 2 */
} kinds[KH_CGROUP_KINDS] = {
	[KH_CGROUP_MEMORY] = { "memory", "memory.max" },
	[KH_CGROUP_PIDS] = { "pids", "pids.max" },
	[KH_CGROUP_CPU] = { "cpu", "cpu.max" },
};

/* Is `word` one of those in `list` with commas between? */
static bool has_word(struct kh_slice list, const char *word)
{
	for (size_t at = 0; at <= list.len;) {
		size_t end = kh_slice_find(list, ',', at);
		if (kh_slice_eq(kh_slice_sub(list, at, end), kh_slice_str(word)))
			return true;
		at = end + 1;
	}
	return false;
}

/* The n-th part of a line between blanks, from 0. */
static struct kh_slice part(struct kh_slice line, unsigned n)
{
	size_t at = 0;
	for (; n > 0; n--)
		at = kh_slice_find(line, ' ', at) + 1;
	return kh_slice_sub(line, at, kh_slice_find(line, ' ', at));
}

static bool read_lines(const char *path, struct kh_buf *out)
{
	kh_buf_init(out, LINES_MOST_BYTES);
	return kh_file_read(path, out, NULL);
}

/* Which group are we in? "4:memory:/a/b", "0::/a/b". */
static bool own_path(const char *controller, bool *v2, struct kh_slice *path, struct kh_buf *text)
{
	bool found = false;
	struct kh_slice all = kh_buf_view(text);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\n', at);
		struct kh_slice line = kh_slice_sub(all, at, end);
		size_t one = kh_slice_find(line, ':', 0), two = kh_slice_find(line, ':', one + 1);
		struct kh_slice names = kh_slice_sub(line, one + 1, two);
		bool unified = names.len == 0 && kh_slice_has_prefix(line, KH_SLICE("0:"));
		if (has_word(names, controller) || (unified && !found)) {
			found = true;
			*v2 = unified;
			*path = kh_slice_sub(line, two + 1, SIZE_MAX);
			if (!unified)
				return true;
		}
		at = end + 1;
	}
	return found;
}

/* Where is that hierarchy mounted, and from which of its folders on? */
static bool mounted_at(const char *controller, bool v2, struct kh_slice *root,
		       struct kh_slice *place, const struct kh_buf *text)
{
	struct kh_slice all = kh_buf_view(text);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\n', at);
		struct kh_slice line = kh_slice_sub(all, at, end);
		at = end + 1;
		/* Behind " - ": the file system, the source, its options. */
		size_t dash = 0;
		while (dash < line.len &&
		       !kh_slice_has_prefix(kh_slice_sub(line, dash, SIZE_MAX), KH_SLICE(" - ")))
			dash++;
		struct kh_slice rest = kh_slice_sub(line, dash + 3, SIZE_MAX);
		struct kh_slice type = part(rest, 0);
		if (v2 ? kh_slice_eq(type, KH_SLICE("cgroup2"))
		       : kh_slice_eq(type, KH_SLICE("cgroup")) &&
				    has_word(part(rest, 2), controller)) {
			*root = part(line, 3);
			*place = part(line, 4);
			return true;
		}
	}
	return false;
}

/* The folder of the group that we are in; the top of what is mounted where that can't be seen. */
static char *own_folder(const char *controller, bool *v2)
{
	struct kh_buf groups kh_cleanup(kh_buf_fini), mounts kh_cleanup(kh_buf_fini);
	struct kh_slice path, root, place;
	bool read = read_lines("/proc/self/cgroup", &groups);
	read = read_lines("/proc/self/mountinfo", &mounts) && read;
	if (!read || !own_path(controller, v2, &path, &groups) ||
	    !mounted_at(controller, *v2, &root, &place, &mounts))
		return NULL;
	if (root.len > 1 && kh_slice_has_prefix(path, root))
		path = kh_slice_sub(path, root.len, SIZE_MAX);
	kh_auto_free char *folder =
		kh_strf("%.*s%.*s", (int)place.len, place.ptr, (int)path.len, path.ptr);
	if (folder && access(folder, F_OK) == 0)
		return kh_steal_ptr(&folder);
	return kh_slice_dup(place);
}

static bool write_file(const char *folder, const char *name, const char *text)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	kh_auto_close int fd = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	size_t len = strlen(text);
	return fd >= 0 && write(fd, text, len) == (ssize_t)len;
}

static bool has_file(const char *folder, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	return path && access(path, W_OK) == 0;
}

/* Below `folder`, with the controller in it. Heap; NULL. */
static char *make_below(const char *folder, enum kh_cgroup_kind kind, bool v2)
{
	unsigned number;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return NULL;
	kh_auto_free char *path = kh_strf("%s/keyhole-%08x", folder, number);
	if (!path || mkdir(path, 0755) != 0)
		return NULL;
	if (v2 && !has_file(path, kinds[kind].v2_file)) {
		char word[16];
		snprintf(word, sizeof(word), "+%s", kinds[kind].name);
		(void)write_file(folder, "cgroup.subtree_control", word);
	}
	if (!v2 || has_file(path, kinds[kind].v2_file))
		return kh_steal_ptr(&path);
	(void)rmdir(path);
	return NULL;
}

bool kh_cgroup_make(struct kh_cgroups *groups, enum kh_cgroup_kind kind)
{
	struct kh_cgroup *group = &groups->of[kind];
	kh_auto_free char *folder = own_folder(kinds[kind].name, &group->v2);
	if (!folder)
		return false;
	/* One of version 2 has them all, as far as it has them. */
	for (size_t i = 0; group->v2 && i < KH_CGROUP_KINDS; i++) {
		const struct kh_cgroup *other = &groups->of[i];
		if (other->path && other->v2 && has_file(other->path, kinds[kind].v2_file)) {
			group->path = strdup(other->path);
			return group->path != NULL;
		}
	}
	group->path = make_below(folder, kind, group->v2);
	char *slash = strrchr(folder, '/');
	if (!group->path && group->v2 && slash > folder) {
		*slash = '\0';
		group->path = make_below(folder, kind, true);
	}
	return group->path != NULL;
}

bool kh_cgroup_write(const struct kh_cgroups *groups, enum kh_cgroup_kind kind, const char *v1,
		     const char *v2, const char *text)
{
	const struct kh_cgroup *group = &groups->of[kind];
	const char *name = group->v2 ? v2 : v1;
	return !name || write_file(group->path, name, text);
}

bool kh_cgroup_join(const struct kh_cgroups *groups, pid_t pid)
{
	char text[16];
	snprintf(text, sizeof(text), "%d", (int)pid);
	for (size_t i = 0; i < KH_CGROUP_KINDS; i++)
		if (groups->of[i].path && !write_file(groups->of[i].path, "cgroup.procs", text))
			return false;
	return true;
}

uint64_t kh_cgroup_oom_kills(const struct kh_cgroups *groups)
{
	const struct kh_cgroup *group = &groups->of[KH_CGROUP_MEMORY];
	if (!group->path)
		return 0;
	kh_auto_free char *path =
		kh_strf("%s/%s", group->path, group->v2 ? "memory.events" : "memory.oom_control");
	struct kh_buf text kh_cleanup(kh_buf_fini);
	uint64_t kills = 0;
	if (!path || !read_lines(path, &text))
		return 0;
	struct kh_slice all = kh_buf_view(&text);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\n', at);
		struct kh_slice line = kh_slice_sub(all, at, end);
		if (kh_slice_eq(part(line, 0), KH_SLICE("oom_kill")) &&
		    !kh_slice_to_u64(part(line, 1), &kills))
			kills = 0;
		at = end + 1;
	}
	return kills;
}

void kh_cgroup_remove(const struct kh_cgroups *groups)
{
	struct timespec pause = { .tv_nsec = REMOVE_PAUSE_MS * 1000 * 1000 };
	for (size_t i = 0; i < KH_CGROUP_KINDS; i++)
		for (int n = 0; groups->of[i].path && n < REMOVE_TRIES; n++) {
			if (rmdir(groups->of[i].path) == 0 || errno == ENOENT)
				break;
			(void)nanosleep(&pause, NULL);
		}
}

void kh_cgroup_fini(struct kh_cgroups *groups)
{
	for (size_t i = 0; i < KH_CGROUP_KINDS; i++)
		free(groups->of[i].path);
	*groups = (struct kh_cgroups){ 0 };
}
