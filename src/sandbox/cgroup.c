/* cgroup.c - makes control groups, on cgroup version 1, version 2 or both */
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

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "cgroup_find.h"

enum {
	REMOVE_TRIES = 100,
	REMOVE_PAUSE_MS = 20,
	MOVE_TRIES = 16,
	TEXT_MOST_BYTES = 1024 * 1024,
	EVENTS_BYTES = 4096
};

static const struct {
	const char *name, *files[2]; /* of the controller; a file that it brings in version 1, 2 */
} kinds[KH_CGROUP_KINDS] = {
	[KH_CGROUP_MEMORY] = { "memory", { "memory.limit_in_bytes", "memory.max" } },
	[KH_CGROUP_PIDS] = { "pids", { "pids.max", "pids.max" } },
	[KH_CGROUP_CPU] = { "cpu", { "cpu.cfs_quota_us", "cpu.max" } },
};

static bool read_text(const char *folder, const char *name, struct kh_buf *out)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	kh_buf_init(out, TEXT_MOST_BYTES);
	return path && kh_file_read(path, out, NULL);
}

/* The next of what is between blanks and line ends. */
static struct kh_slice take_word(struct kh_slice *rest)
{
	size_t from = 0, to;
	while (from < rest->len && (rest->ptr[from] == ' ' || rest->ptr[from] == '\n'))
		from++;
	for (to = from; to < rest->len && rest->ptr[to] != ' ' && rest->ptr[to] != '\n';)
		to++;
	struct kh_slice word = kh_slice_sub(*rest, from, to);
	*rest = kh_slice_sub(*rest, to, SIZE_MAX);
	return word;
}

/* Of the process whose groups are in this file. */
static bool find_of(const char *root, const char *file, enum kh_cgroup_kind kind,
		    struct kh_cgroup_found *out)
{
	struct kh_buf own kh_cleanup(kh_buf_fini), mounts kh_cleanup(kh_buf_fini);
	bool read = read_text(root, file, &own);
	read = read_text(root, "proc/self/mountinfo", &mounts) && read;
	return read &&
	       kh_cgroup_find(kh_buf_view(&own), kh_buf_view(&mounts), kinds[kind].name, out);
}

static bool find(const struct kh_cgroups *groups, enum kh_cgroup_kind kind,
		 struct kh_cgroup_found *out)
{
	return find_of(groups->root ? groups->root : "", "proc/self/cgroup", kind, out);
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

static bool has_kind(const char *folder, enum kh_cgroup_kind kind, bool v2)
{
	return has_file(folder, kinds[kind].files[v2]);
}

/* Lets the children of a group of version 2 have the controller. */
static bool give(const char *folder, enum kh_cgroup_kind kind)
{
	char word[16];
	snprintf(word, sizeof(word), "+%s", kinds[kind].name);
	return write_file(folder, "cgroup.subtree_control", word);
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
	if (v2 && !has_kind(path, kind, true))
		(void)give(folder, kind);
	if (has_kind(path, kind, v2))
		return kh_steal_ptr(&path);
	(void)rmdir(path);
	return NULL;
}

/* Heap; NULL: it is the top. */
static char *above(const struct kh_cgroup_found *at)
{
	const char *slash = strrchr(at->own, '/');
	return strlen(at->own) > strlen(at->top) && slash
		       ? kh_slice_dup(kh_slice_of(at->own, (size_t)(slash - at->own)))
		       : NULL;
}

static bool may_have(const char *folder, enum kh_cgroup_kind kind)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct kh_slice rest, word;
	if (!read_text(folder, "cgroup.controllers", &text))
		return false;
	for (rest = kh_buf_view(&text); (word = take_word(&rest)).len > 0;)
		if (kh_slice_eq(word, kh_slice_str(kinds[kind].name)))
			return true;
	return false;
}

/* All that runs in the group itself goes into a child of it. New ones come while we look. */
static bool move_aside(const char *folder)
{
	kh_auto_free char *rest = kh_strf("%s/" KH_CGROUP_REST, folder);
	if (!rest || (mkdir(rest, 0755) != 0 && errno != EEXIST))
		return false;
	for (int n = 0; n < MOVE_TRIES; n++) {
		struct kh_buf text kh_cleanup(kh_buf_fini);
		struct kh_slice pids, pid;
		if (!read_text(folder, "cgroup.procs", &text))
			break;
		pids = kh_buf_view(&text);
		if (pids.len == 0)
			return true;
		/* One that we do not see has the number 0, which would mean ourselves. */
		while ((pid = take_word(&pids)).len > 0 && pid.len < 16) {
			char number[16] = "";
			memcpy(number, pid.ptr, pid.len);
			if (strcmp(number, "0") != 0)
				(void)write_file(rest, "cgroup.procs", number);
		}
	}
	(void)rmdir(rest); /* where nothing was moved */
	return false;
}

static char *make(const struct kh_cgroup_found *at, enum kh_cgroup_kind kind)
{
	bool seen = at->own && access(at->own, F_OK) == 0;
	char *made = make_below(seen ? at->own : at->top, kind, at->v2);
	if (made || !at->v2 || !seen)
		return made;
	kh_auto_free char *folder = above(at);
	made = folder ? make_below(folder, kind, true) : NULL;
	if (!made && may_have(at->own, kind) && move_aside(at->own))
		made = make_below(at->own, kind, true);
	return made;
}

/* The one that was made in the same hierarchy before, as far as it has this controller too. */
static char *share(const struct kh_cgroup *other, enum kh_cgroup_kind kind)
{
	kh_auto_free char *folder = strdup(other->path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	if (slash && other->v2 && !has_kind(other->path, kind, true)) {
		*slash = '\0';
		(void)give(folder, kind);
	}
	return has_kind(other->path, kind, other->v2) ? strdup(other->path) : NULL;
}

/* Puts the root in front. */
static bool on_host(const char *root, char **path)
{
	if (!root || !*path)
		return true;
	char *whole = kh_strf("%s%s", root, *path);
	free(*path);
	*path = whole;
	return whole != NULL;
}

bool kh_cgroup_make(struct kh_cgroups *groups, enum kh_cgroup_kind kind)
{
	struct kh_cgroup *group = &groups->of[kind];
	struct kh_cgroup_found at kh_cleanup(kh_cgroup_found_fini) = { 0 };
	if (!find(groups, kind, &at) || !on_host(groups->root, &at.top) ||
	    !on_host(groups->root, &at.own))
		return false;
	const struct kh_cgroup *other = NULL;
	for (size_t i = 0; i < KH_CGROUP_KINDS; i++)
		if (groups->of[i].path && strcmp(groups->of[i].top, at.top) == 0)
			other = &groups->of[i];
	group->path = other ? share(other, kind) : make(&at, kind);
	group->v2 = at.v2;
	group->top = kh_steal_ptr(&at.top);
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

static int open_events(const char *folder, bool v2)
{
	kh_auto_free char *path =
		kh_strf("%s/%s", folder, v2 ? "memory.events" : "memory.oom_control");
	return path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

uint64_t kh_cgroup_oom_kills(const struct kh_cgroups *groups)
{
	const struct kh_cgroup *group = &groups->of[KH_CGROUP_MEMORY];
	kh_auto_close int fd = group->path ? open_events(group->path, group->v2) : -1;
	return kh_cgroup_oom_kills_at(fd);
}

int kh_cgroup_watch_oom(pid_t pid)
{
	kh_auto_free char *file = kh_strf("proc/%d/cgroup", (int)pid);
	struct kh_cgroup_found found kh_cleanup(kh_cgroup_found_fini) = { 0 };
	return file && find_of("", file, KH_CGROUP_MEMORY, &found) && found.own
		       ? open_events(found.own, found.v2)
		       : -1;
}

uint64_t kh_cgroup_oom_kills_at(int fd)
{
	char said[EVENTS_BYTES];
	uint64_t kills = 0;
	ssize_t n = fd >= 0 ? pread(fd, said, sizeof(said), 0) : 0;
	struct kh_slice rest = kh_slice_of(said, n > 0 ? (size_t)n : 0), word;
	while ((word = take_word(&rest)).len > 0)
		if (kh_slice_eq(word, KH_SLICE("oom_kill")) &&
		    !kh_slice_to_u64(take_word(&rest), &kills))
			kills = 0;
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
	for (size_t i = 0; i < KH_CGROUP_KINDS; i++) {
		free(groups->of[i].path);
		free(groups->of[i].top);
	}
	*groups = (struct kh_cgroups){ 0 };
}
