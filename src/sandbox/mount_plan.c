/*
 * mount_plan.c - mounts a view under a folder, for engines that need a finished root
 *
 * It runs in outer namespaces (outer_namespace.c): nobody else sees these mounts, and they end with
 * the last process. There are two steps, since the folder for the root covers a part of the host.
 * First every tree of the host is opened as a detached mount, with its flags set already. Then
 * everything is mounted in the view's order.
 *
 * An agent may have written to the folders of targets. So each target is looked up below the root
 * and never through a symbolic link, and the folder that is mounted is the very one whose
 * descriptor the view holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"

/* ---- places under the root ---- */

/* The folder that holds `target`, and its name there. */
static int open_parent(int root, const char *target, const char **name)
{
	const char *slash = strrchr(target, '/');
	kh_auto_free char *parent = strndup(target, (size_t)(slash - target));
	*name = slash + 1;
	int fd = parent ? kh_file_open_below(root, parent, O_PATH | O_DIRECTORY) : -1;
	return fd;
}

static bool make_dir(int root, const char *target, mode_t mode)
{
	const char *name;
	kh_auto_close int parent = open_parent(root, target, &name);
	if (parent < 0)
		return false;
	if (!*name)
		return true; /* the root itself */
	kh_auto_close int made = kh_file_mkdirat(parent, name, mode);
	if (made >= 0)
		return true;
	struct stat st;
	if (errno != EEXIST || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	errno = ENOTDIR;
	return S_ISDIR(st.st_mode);
}

static bool make_link(int root, const char *target, const char *text)
{
	const char *name;
	kh_auto_close int parent = open_parent(root, target, &name);
	return parent >= 0 && symlinkat(text, parent, name) == 0;
}

static bool copy_all(int from, int to)
{
	off_t at = 0;
	ssize_t n;
	while ((n = sendfile(to, from, &at, 1 << 20)) > 0)
		;
	return n == 0;
}

static int make_file(int root, const char *target, mode_t mode)
{
	const char *name;
	kh_auto_close int parent = open_parent(root, target, &name);
	int fd = parent < 0 ? -1
			    : openat(parent, name,
				     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && fchmod(fd, mode) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Where something is to be mounted: what is there, or an empty one. */
static int open_target(int root, const char *target, bool is_dir)
{
	int fd = kh_file_open_below(root, target, O_PATH | O_NOFOLLOW);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	if (is_dir) {
		if (!make_dir(root, target, 0755))
			return -1;
	} else {
		int file = make_file(root, target, 0644);
		if (file < 0)
			return -1;
		close(file);
	}
	return kh_file_open_below(root, target, O_PATH | O_NOFOLLOW);
}

/* ---- mounts ---- */

static bool restrict_tree(int tree, uint64_t attributes, bool recursive)
{
	struct mount_attr attr = { .attr_set = attributes };
	return syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0),
		       &attr, sizeof(attr)) == 0;
}

static bool put(int root, int tree, const char *target, bool is_dir)
{
	kh_auto_close int place = open_target(root, target, is_dir);
	return place >= 0 && syscall(SYS_move_mount, tree, "", place, "",
				     MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
}

static int clone_of(int fd, bool recursive)
{
	return (int)syscall(SYS_open_tree, fd, "",
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
				    (recursive ? AT_RECURSIVE : 0));
}

int kh_mount_plan_tmpfs(mode_t mode, uint64_t bytes)
{
	char text[16], size[24];
	snprintf(text, sizeof(text), "%04o", (unsigned)mode);
	snprintf(size, sizeof(size), "%" PRIu64, bytes);
	kh_auto_close int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", text, 0) != 0 ||
	    (bytes && syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", size, 0) != 0) ||
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* What the view held is of the mount namespace that we have left: it is looked up again. */
static int take_tree(const struct kh_mount *m, struct kh_err *err)
{
	/* The host's own alone may be a link, as /etc/alternatives. */
	kh_auto_close int fd = m->fd >= 0 || m->tree != KH_TREE_HOST
				       ? kh_file_hold(m->source)
				       : open(m->source, O_PATH | O_CLOEXEC);
	struct stat now, before;
	if (fd < 0 || fstat(fd, &now) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(m->target)), -1;
	if (m->fd >= 0 && (fstat(m->fd, &before) != 0 || now.st_dev != before.st_dev ||
			   now.st_ino != before.st_ino)) {
		kh_err_set(err, KH_ERR_SYSTEM,
			   "%s was replaced in that moment (is another sandbox at work in the same "
			   "folder?)",
			   kh_esc_str(m->target));
		return -1;
	}
	int tree = clone_of(fd, true);
	uint64_t attributes =
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
		(m->kind == KH_MOUNT_WRITE || m->kind == KH_MOUNT_UPPER ? 0 : MOUNT_ATTR_RDONLY);
	if (tree >= 0 && restrict_tree(tree, attributes, true))
		return tree;
	kh_err_sys(err, KH_ERR_SYSTEM, errno, "mounting %s", kh_esc_str(m->target));
	if (tree >= 0)
		close(tree);
	return -1;
}

bool kh_mount_plan_take(struct kh_mount_plan *plan, const struct kh_view *view, struct kh_err *err)
{
	*plan = (struct kh_mount_plan){ .view = view, .root = -1, .scratch = -1 };
	plan->trees = calloc(view->n + 1, sizeof(*plan->trees));
	if (!plan->trees)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox's root: no memory");
	for (size_t i = 0; i < view->n; i++)
		plan->trees[i] = -1;
	for (size_t i = 0; i < view->n; i++)
		if (kh_mount_is_tree(&view->list[i]) &&
		    (plan->trees[i] = take_tree(&view->list[i], err)) < 0)
			return false;
	return true;
}

int kh_mount_plan_layer(struct kh_mount_plan *plan, uint64_t *size)
{
	for (size_t i = 0; i < plan->view->n; i++) {
		if (plan->view->list[i].kind != KH_MOUNT_LAYER)
			continue;
		plan->layered = true;
		*size = plan->view->list[i].size;
		return kh_steal_fd(&plan->trees[i]);
	}
	return -1;
}

/* A file of the root with the content of a descriptor. */
static bool put_content(int root, const char *target, mode_t mode, int content)
{
	kh_auto_close int fd = make_file(root, target, mode);
	return fd >= 0 && copy_all(content, fd);
}

/* A file over one that is there, out of the folder for such. */
static bool put_over(const struct kh_mount_plan *plan, const struct kh_mount *m, size_t i)
{
	char name[24];
	snprintf(name, sizeof(name), "/%zu", i);
	if (!put_content(plan->scratch, name, m->mode ? m->mode : 0444, m->fd))
		return false;
	kh_auto_close int fd = kh_file_open_below(plan->scratch, name, O_PATH | O_NOFOLLOW);
	kh_auto_close int tree = fd < 0 ? -1 : clone_of(fd, false);
	return tree >= 0 && restrict_tree(tree, MOUNT_ATTR_RDONLY, false) &&
	       put(plan->root, tree, m->target, false);
}

static bool put_tmpfs(int root, const struct kh_mount *m, bool read_only)
{
	kh_auto_close int tree = kh_mount_plan_tmpfs(read_only ? 0555 : m->mode, m->size);
	bool ok = tree >= 0;
	if (ok && read_only && m->fd >= 0)
		ok = put_content(tree, "/" KH_BLANK_FILE, 0444, m->fd);
	return ok && (!read_only || restrict_tree(tree, MOUNT_ATTR_RDONLY, false)) &&
	       put(root, tree, m->target, true);
}

static bool seal(int root, const char *target)
{
	kh_auto_close int fd = kh_file_open_below(root, target, O_PATH | O_NOFOLLOW);
	return fd >= 0 && restrict_tree(fd, MOUNT_ATTR_RDONLY, false);
}

static bool is_dir(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* What goes there is a folder, or something mounted over one. */
static bool wants_dir(const struct kh_mount *m, int tree)
{
	switch (m->kind) {
	case KH_MOUNT_LINK:
	case KH_MOUNT_FILE:
	case KH_MOUNT_EMPTY:
	case KH_MOUNT_SOCKET:
		return false;
	case KH_MOUNT_READ:
	case KH_MOUNT_WRITE:
		return is_dir(tree);
	case KH_MOUNT_DIR:
	case KH_MOUNT_BLANK:
	case KH_MOUNT_TMPFS:
	case KH_MOUNT_PROC:
	case KH_MOUNT_DEV:
	case KH_MOUNT_LAYER:
	case KH_MOUNT_UPPER:
	case KH_MOUNT_OVERLAY:
	case KH_MOUNT_SEAL:
		break;
	}
	return true;
}

static bool put_overlay(const struct kh_mount_plan *plan, size_t i)
{
	const struct kh_mount *m = &plan->view->list[i];
	size_t upper = i;
	while (upper > 0 && plan->view->list[upper].kind != KH_MOUNT_UPPER)
		upper--;
	kh_auto_close int tree =
		kh_review_mount_overlay(plan->trees[i], plan->trees[upper], m->read_only);
	return tree >= 0 && put(plan->root, tree, m->target, true);
}

static bool put_one(const struct kh_mount_plan *plan, size_t i)
{
	const struct kh_mount *m = &plan->view->list[i];
	int root = plan->root, tree = plan->trees[i];
	if (plan->layered && !kh_overlay_clear(root, m->target, wants_dir(m, tree)))
		return false;
	switch (m->kind) {
	case KH_MOUNT_DIR:
		return make_dir(root, m->target, m->mode);
	case KH_MOUNT_LINK:
		return make_link(root, m->target, m->source);
	case KH_MOUNT_FILE:
		return put_content(root, m->target, m->mode, m->fd);
	case KH_MOUNT_READ:
	case KH_MOUNT_WRITE:
		return put(root, tree, m->target, is_dir(tree));
	case KH_MOUNT_BLANK:
	case KH_MOUNT_TMPFS:
		return put_tmpfs(root, m, m->kind == KH_MOUNT_BLANK);
	case KH_MOUNT_EMPTY:
		return put_over(plan, m, i);
	case KH_MOUNT_LAYER: /* it is the root */
	case KH_MOUNT_UPPER: /* it is for the one after it */
		return true;
	case KH_MOUNT_OVERLAY:
		return put_overlay(plan, i);
	case KH_MOUNT_SOCKET:
		errno = ENOTSUP; /* of engines that are called alone */
		return false;
	case KH_MOUNT_SEAL:
		return strcmp(m->target, "/dev") == 0 ||
		       (plan->open_root && strcmp(m->target, "/") == 0) || seal(root, m->target);
	case KH_MOUNT_PROC:
	case KH_MOUNT_DEV:
		return make_dir(root, m->target, 0755); /* the engine's program mounts them */
	}
	return false;
}

static bool fail(const struct kh_mount_plan *plan, const char *target, struct kh_err *err)
{
	/* What would be copied into the layer has an owner who is not in the sandbox. */
	if (plan->layered && (errno == EOVERFLOW || errno == EACCES))
		return kh_err_set(err, KH_ERR_USAGE,
				  "laying %s: the root's folder there is another's, by owner or "
				  "group (give all of the root to whoever starts keyhole: `chown "
				  "-hR USER: DIR` as root)",
				  kh_esc_str(target));
	if (plan->layered && (errno == ENOTEMPTY || errno == EEXIST))
		return kh_err_set(err, KH_ERR_USAGE,
				  "laying %s: the root has a folder there that is not empty, where "
				  "every sandbox has a file (take it out of the image, or of the "
				  "folder that --rootfs names)",
				  kh_esc_str(target));
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "laying %s", kh_esc_str(target));
}

bool kh_mount_plan_put(const struct kh_mount_plan *plan, struct kh_err *err)
{
	for (size_t i = 0; i < plan->view->n; i++) {
		const char *target = plan->view->list[i].target;
		/* What is in /dev comes with it, from the engine's program. */
		if (strncmp(target, "/dev/", 5) != 0 && !put_one(plan, i))
			return fail(plan, target, err);
	}
	return !plan->layered || !plan->own_file ||
	       kh_overlay_clear(plan->root, plan->own_file, false) ||
	       fail(plan, plan->own_file, err);
}
