/*
 * mounts_below.c - read-only mounts for what is mounted below a read-only tree of the view
 *
 * A daemon of docker's before 25 makes a bind mount read-only, but not the mounts below it: an
 * agent could change modes, owners and times there, and Landlock stops none of that. So each of
 * them gets an entry of its own in the view. Then keyhole-init expects it as well, as it does every
 * mount of such an engine.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/mounts.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

/* What follows in `path` below `folder`; NULL: it is not below. */
static const char *rest_below(const char *path, const char *folder)
{
	size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
	return strncmp(path, folder, len) == 0 && path[len] == '/' && path[len + 1] ? path + len
										    : NULL;
}

/* Does a later entry cover the place? */
static bool is_covered(const struct kh_view *view, size_t at, const char *target)
{
	for (size_t i = at + 1; i < view->n; i++)
		if (strcmp(view->list[i].target, target) == 0 ||
		    rest_below(target, view->list[i].target))
			return true;
	return false;
}

/* Return: the top mount at this place, held; -1 with errno 0: another mount hides it. */
static int hold(const struct kh_mounts_entry *m)
{
	uint64_t id;
	int fd = kh_file_hold(m->point);
	if (fd < 0 && errno == ENOENT)
		errno = 0;
	if (fd < 0 || !kh_mounts_id(fd, &id) || id == m->id)
		return fd;
	close(fd);
	errno = 0;
	return -1;
}

/* At once after the tree, so that what covers a part of it still does. */
static void move_after(struct kh_view *view, size_t at)
{
	struct kh_mount last = view->list[view->n - 1];
	memmove(&view->list[at + 2], &view->list[at + 1],
		(view->n - at - 2) * sizeof(view->list[0]));
	view->list[at + 1] = last;
}

static bool plan_one(struct kh_view *view, size_t at, const char *rest,
		     const struct kh_mounts_entry *m, struct kh_err *err)
{
	const struct kh_mount *tree = &view->list[at];
	kh_auto_free char *target =
		kh_strf("%s%s", strcmp(tree->target, "/") == 0 ? "" : tree->target, rest);
	if (!target)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
	if (is_covered(view, at, target))
		return true;
	int fd = hold(m);
	if (fd < 0)
		return errno == 0 ||
		       kh_err_sys(
			       err, KH_ERR_USAGE, errno,
			       "%s, which is mounted in a folder that the sandbox sees read-only",
			       kh_esc_str(m->point));
	size_t before = view->n;
	kh_view_bind_fd(view, KH_MOUNT_READ, m->point, target, tree->tree, fd);
	if (!view->failed && view->n == before + 1)
		move_after(view, at);
	return !view->failed || kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
}

/* From the last mount to the first: each is put at once after the tree. */
static bool plan_tree(struct kh_view *view, size_t at, const struct kh_mounts *mounts,
		      unsigned *covers, struct kh_err *err)
{
	const struct kh_mount *tree = &view->list[at];
	kh_auto_free char *source =
		tree->fd >= 0 ? kh_file_held_path(tree->fd) : realpath(tree->source, NULL);
	if (!source)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(tree->source));
	bool ok = true;
	for (size_t i = mounts->n; ok && i > 0; i--) {
		const struct kh_mounts_entry *m = &mounts->list[i - 1];
		const char *rest = rest_below(m->point, source);
		if (!rest)
			continue;
		ok = ++*covers <= KH_LIMIT_SANDBOX_TREE_COVERS
			     ? plan_one(view, at, rest, m, err)
			     : kh_err_set(err, KH_ERR_USAGE,
					  "%s: more than %d file systems are mounted in what the "
					  "sandbox sees read-only (name a smaller folder)",
					  kh_esc_str(source), KH_LIMIT_SANDBOX_TREE_COVERS);
	}
	return ok;
}

bool kh_mounts_below_plan(struct kh_view *view, struct kh_err *err)
{
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini) = { 0 };
	unsigned covers = 0;
	bool ok = kh_mounts_read(&mounts, err);
	for (size_t i = view->n; ok && !view->failed && i > 0; i--)
		if (view->list[i - 1].kind == KH_MOUNT_READ)
			ok = plan_tree(view, i - 1, &mounts, &covers, err);
	return ok;
}
