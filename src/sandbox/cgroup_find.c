/* cgroup_find.c - finds the control groups of this process */
#include "cgroup_find.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "sandbox_internal.h"

/* What is in front of the next `end`, and then it is after it. */
static struct kh_slice take(struct kh_slice *rest, char end)
{
	size_t at = kh_slice_find(*rest, end, 0);
	struct kh_slice part = kh_slice_sub(*rest, 0, at);
	*rest = kh_slice_sub(*rest, at + 1, SIZE_MAX);
	return part;
}

/* Is `word` one of those in `list` with commas between? */
static bool has_word(struct kh_slice list, const char *word)
{
	while (list.len > 0)
		if (kh_slice_eq(take(&list, ','), kh_slice_str(word)))
			return true;
	return false;
}

/* Which group are we in? "4:memory,cpu:/a/b", "0::/a/b". */
static bool own_path(struct kh_slice groups, const char *controller, bool *v2,
		     struct kh_slice *path)
{
	bool found = false;
	while (groups.len > 0) {
		struct kh_slice line = take(&groups, '\n');
		struct kh_slice number = take(&line, ':'), names = take(&line, ':');
		if (line.len == 0 || line.ptr[0] != '/')
			continue;
		bool unified = names.len == 0 && kh_slice_eq(number, KH_SLICE("0"));
		if (!unified && !has_word(names, controller))
			continue;
		found = true;
		*v2 = unified;
		*path = line;
		if (!unified)
			break;
	}
	return found;
}

/* One that shows a hierarchy: "36 35 0:30 /root /place options [more…] - cgroup source options". */
struct mounted {
	struct kh_slice root, place; /* as the kernel writes them: with \040 for a blank */
};

static bool read_mount(struct kh_slice line, const char *controller, bool v2, struct mounted *out)
{
	for (int i = 0; i < 3; i++)
		(void)take(&line, ' ');
	out->root = take(&line, ' ');
	out->place = take(&line, ' ');
	while (line.len > 0 && !kh_slice_eq(take(&line, ' '), KH_SLICE("-")))
		;
	struct kh_slice type = take(&line, ' ');
	(void)take(&line, ' ');
	if (out->root.len == 0 || out->place.len == 0 || out->place.ptr[0] != '/')
		return false;
	return v2 ? kh_slice_eq(type, KH_SLICE("cgroup2"))
		  : kh_slice_eq(type, KH_SLICE("cgroup")) && has_word(line, controller);
}

/* Heap. */
static char *plain(struct kh_slice text)
{
	char *copy = kh_slice_dup(text);
	if (copy)
		kh_forbidden_unescape(copy);
	return copy;
}

/* A group's path as this mount shows it, which begins at `root`. NULL: it does not. */
static const char *path_within(const char *path, const char *root)
{
	size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len] != '\0'))
		return NULL;
	path += len;
	/* "/..": of a group outside of our namespace. */
	bool outside = strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0');
	return outside ? NULL : path;
}

static bool take_mount(const struct mounted *m, const char *path, struct kh_cgroup_found *out)
{
	kh_auto_free char *root = plain(m->root), *place = plain(m->place);
	const char *below = root && place ? path_within(path, root) : NULL;
	if (!root || !place || (out->top && !below))
		return false;
	size_t len = strlen(place);
	while (len > 1 && place[len - 1] == '/')
		place[--len] = '\0';
	free(out->top);
	out->own = below ? kh_strf("%s%s", place, strcmp(below, "/") == 0 ? "" : below) : NULL;
	out->top = kh_steal_ptr(&place);
	return out->own != NULL;
}

bool kh_cgroup_find(struct kh_slice groups, struct kh_slice mounts, const char *controller,
		    struct kh_cgroup_found *out)
{
	struct kh_slice in;
	*out = (struct kh_cgroup_found){ 0 };
	if (!own_path(groups, controller, &out->v2, &in))
		return false;
	kh_auto_free char *path = kh_slice_dup(in);
	while (path && mounts.len > 0) {
		struct mounted m;
		if (read_mount(take(&mounts, '\n'), controller, out->v2, &m) &&
		    take_mount(&m, path, out))
			break;
	}
	return out->top != NULL;
}

void kh_cgroup_found_fini(struct kh_cgroup_found *found)
{
	free(found->top);
	free(found->own);
	*found = (struct kh_cgroup_found){ 0 };
}
