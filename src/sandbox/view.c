/* view.c - the view: what a sandbox sees, as a list of mounts and files in mounting order */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

void kh_view_fini(struct kh_view *view)
{
	for (size_t i = 0; i < view->n; i++) {
		free(view->list[i].source);
		free(view->list[i].target);
		if (view->list[i].fd >= 0)
			close(view->list[i].fd);
	}
	free(view->list);
	*view = (struct kh_view){ 0 };
}

bool kh_view_has(const struct kh_view *view, const char *target)
{
	for (size_t i = 0; i < view->n; i++)
		if (strcmp(view->list[i].target, target) == 0)
			return true;
	return false;
}

/* Takes `fd` over. */
static void push(struct kh_view *view, const struct kh_mount *what)
{
	if (view->n == view->alloc) {
		size_t alloc = view->alloc ? view->alloc * 2 : 64;
		struct kh_mount *list = reallocarray(view->list, alloc, sizeof(*list));
		if (!list) {
			view->failed = true;
			if (what->fd >= 0)
				close(what->fd);
			return;
		}
		view->list = list;
		view->alloc = alloc;
	}
	struct kh_mount *entry = &view->list[view->n++];
	*entry = *what;
	entry->target = strdup(what->target);
	entry->source = what->source ? strdup(what->source) : NULL;
	if (!entry->target || (what->source && !entry->source))
		view->failed = true;
}

/* Is `path` inside of something of the host, where nothing is to be made? */
static bool is_covered(const struct kh_view *view, const char *path)
{
	for (size_t i = view->n; i > 0; i--) {
		const struct kh_mount *m = &view->list[i - 1];
		if (m->kind != KH_MOUNT_READ && m->kind != KH_MOUNT_WRITE &&
		    m->kind != KH_MOUNT_TMPFS)
			continue;
		size_t len = strlen(m->target);
		if (strncmp(path, m->target, len) == 0 && (path[len] == '/' || !path[len]))
			return m->kind != KH_MOUNT_TMPFS;
	}
	return false;
}

/* Each folder above `target` gets an entry of its own: an engine that makes them by itself makes
 * them unreadable for others. */
static void parents(struct kh_view *view, const char *target)
{
	const char *last = strrchr(target, '/');
	size_t len = last ? (size_t)(last - target) : 0;
	if (len == 0)
		return;
	if (view->n > 0) {
		const char *before = view->list[view->n - 1].target;
		const char *end = strrchr(before, '/');
		if (end && (size_t)(end - before) == len && memcmp(before, target, len) == 0)
			return;
	}
	kh_auto_free char *parent = kh_slice_dup(kh_slice_of(target, len));
	if (!parent) {
		view->failed = true;
		return;
	}
	if (kh_view_has(view, parent) || is_covered(view, parent))
		return;
	kh_view_dir(view, parent, 0755);
}

void kh_view_dir(struct kh_view *view, const char *target, mode_t mode)
{
	parents(view, target);
	struct kh_mount m = { .kind = KH_MOUNT_DIR, .fd = -1, .mode = mode };
	m.target = (char *)(uintptr_t)target;
	push(view, &m);
}

void kh_view_link(struct kh_view *view, const char *text, const char *target)
{
	parents(view, target);
	struct kh_mount m = { .kind = KH_MOUNT_LINK, .fd = -1 };
	m.source = (char *)(uintptr_t)text;
	m.target = (char *)(uintptr_t)target;
	push(view, &m);
}

void kh_view_bind(struct kh_view *view, enum kh_mount_kind kind, const char *source,
		  const char *target, enum kh_tree tree)
{
	kh_view_bind_fd(view, kind, source, target, tree, -1);
}

void kh_view_bind_fd(struct kh_view *view, enum kh_mount_kind kind, const char *source,
		     const char *target, enum kh_tree tree, int fd)
{
	parents(view, target);
	struct kh_mount m = { .kind = kind, .fd = fd, .tree = tree };
	m.source = (char *)(uintptr_t)source;
	m.target = (char *)(uintptr_t)target;
	push(view, &m);
}

void kh_view_socket(struct kh_view *view, const char *target, int fd)
{
	parents(view, target);
	struct kh_mount m = { .kind = KH_MOUNT_SOCKET, .fd = fd };
	m.target = (char *)(uintptr_t)target;
	push(view, &m);
}

bool kh_view_bind_held(struct kh_view *view, enum kh_mount_kind kind, const char *source,
		       const char *target, enum kh_tree tree, struct kh_err *err)
{
	return kh_view_bind_again(view, kind, source, target, tree, NULL, err);
}

bool kh_view_bind_again(struct kh_view *view, enum kh_mount_kind kind, const char *source,
			const char *target, enum kh_tree tree, const int *held, struct kh_err *err)
{
	int fd = kh_file_hold_again(source, held, err);
	if (fd < 0)
		return false;
	kh_view_bind_fd(view, kind, source, target, tree, fd);
	return true;
}

void kh_view_over(struct kh_view *view, enum kh_mount_kind kind, const char *target, mode_t mode)
{
	if (kind != KH_MOUNT_SEAL)
		parents(view, target);
	struct kh_mount m = { .kind = kind, .fd = -1, .mode = mode };
	m.target = (char *)(uintptr_t)target;
	push(view, &m);
}

bool kh_view_file(struct kh_view *view, const char *target, mode_t mode, struct kh_slice content,
		  struct kh_err *err)
{
	parents(view, target);
	int fd = kh_file_sealed("keyhole-view", content, err);
	if (fd < 0)
		return kh_err_wrap(err, "%s", target);
	struct kh_mount m = { .kind = KH_MOUNT_FILE, .fd = fd, .mode = mode };
	m.target = (char *)(uintptr_t)target;
	push(view, &m);
	return true;
}

void kh_view_copied(struct kh_view *view, const char *source, const struct stat *st)
{
	struct kh_mount *m = view->failed || view->n == 0 ? NULL : &view->list[view->n - 1];
	if (!m)
		return;
	m->source = strdup(source);
	m->dev = st->st_dev;
	m->ino = st->st_ino;
	view->failed = !m->source;
}
