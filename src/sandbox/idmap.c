/*
 * idmap.c - if root starts keyhole: ID-mapped mounts for the sandbox, and its uid on the host
 *
 * The sandbox's uid 1000 is, on the host, the uid of whoever starts it. For root that would be uid
 * 0, which could read /etc/shadow and connect to every socket of the host. So if root starts it,
 * the sandbox runs as a uid that owns nothing. To keep workspace and home usable, they are mounted,
 * in a private mount namespace, with their owner and that uid swapped: files that the agent creates
 * there belong to the folder's owner. Everywhere else the sandbox has the rights of an unrelated
 * user.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

/* Covered by a file system of our own, in the launcher's mount namespace only. */
#define STAGE "/run"

static bool write_map(pid_t pid, const char *name, unsigned a, unsigned b, struct kh_err *err)
{
	const unsigned last = 4294967295u; /* not an id itself */
	if (a > b) {
		unsigned swap = a;
		a = b;
		b = swap;
	}
	char path[64], map[256];
	int n;
	if (a == b)
		n = snprintf(map, sizeof(map), "0 0 %u\n", last);
	else
		n = snprintf(map, sizeof(map), "%u %u 1\n%u %u 1\n%u %u %u\n", a, b, b, a, b + 1,
			     b + 1, last - b - 1);
	if (a != b && a > 0)
		n += snprintf(map + n, sizeof(map) - (size_t)n, "0 0 %u\n", a);
	if (a != b && b > a + 1)
		n += snprintf(map + n, sizeof(map) - (size_t)n, "%u %u %u\n", a + 1, a + 1,
			      b - a - 1);
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	kh_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, (size_t)n) != n)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "mapping owners (%s)", name);
	return true;
}

/* A user namespace that nobody lives in: all that counts is its maps. */
static int make_userns(const struct stat *owner, uid_t uid, gid_t gid, struct kh_err *err)
{
	int made[2], hold[2];
	if (pipe2(made, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe"), -1;
	if (pipe2(hold, O_CLOEXEC) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
		close(made[0]);
		close(made[1]);
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0) {
		char byte = unshare(CLONE_NEWUSER) == 0;
		close(hold[1]);
		if (write(made[1], &byte, 1) == 1)
			(void)!read(hold[0], &byte, 1);
		_exit(0);
	}
	char ok = 0;
	int fd = -1;
	close(made[1]);
	if (pid < 0 || read(made[0], &ok, 1) != 1 || !ok) {
		kh_err_set(err, KH_ERR_SYSTEM, "no user namespace to map owners with");
	} else if (write_map(pid, "uid_map", owner->st_uid, uid, err) &&
		   write_map(pid, "gid_map", owner->st_gid, gid, err)) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
	}
	close(made[0]);
	close(hold[0]);
	close(hold[1]);
	if (pid > 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	return fd;
}

static bool add_tree(struct kh_idmap *idmap, const struct kh_mount *m, struct kh_err *err)
{
	struct stat st;
	if (m->fd >= 0 ? fstat(m->fd, &st) != 0 : stat(m->source, &st) != 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "%s", kh_esc_str(m->source));
	struct kh_idmap_tree *list = reallocarray(idmap->list, idmap->n + 1, sizeof(*list));
	if (!list)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	idmap->list = list;
	struct kh_idmap_tree *tree = &list[idmap->n];
	*tree = (struct kh_idmap_tree){ .fd = m->fd, .userns = -1, .is_dir = S_ISDIR(st.st_mode) };
	tree->source = strdup(m->source);
	tree->staged = kh_strf(STAGE "/%zu", idmap->n);
	idmap->n++;
	if (!tree->source || !tree->staged)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (m->tree != KH_TREE_AS_OWNER || (st.st_uid == idmap->uid && st.st_gid == idmap->gid))
		return true;
	tree->userns = make_userns(&st, idmap->uid, idmap->gid, err);
	return tree->userns >= 0 || kh_err_wrap(err, "%s", kh_esc_str(m->source));
}

/* Where `source` is below STAGE: in the last tree that holds it. */
static char *staged_path(const struct kh_idmap *idmap, const char *source)
{
	for (size_t i = idmap->n; i > 0; i--) {
		const struct kh_idmap_tree *tree = &idmap->list[i - 1];
		size_t len = strlen(tree->source);
		if (strncmp(source, tree->source, len) == 0 &&
		    (source[len] == '/' || source[len] == '\0'))
			return kh_strf("%s%s", tree->staged, source + len);
	}
	return NULL;
}

bool kh_idmap_plan(struct kh_idmap *idmap, struct kh_view *view, uid_t uid, gid_t gid,
		   struct kh_err *err)
{
	*idmap = (struct kh_idmap){ .view = view, .uid = uid, .gid = gid };
	for (size_t i = 0; i < view->n; i++) {
		struct kh_mount *m = &view->list[i];
		if (!kh_mount_is_tree(m))
			continue;
		if (m->tree != KH_TREE_HOST && !add_tree(idmap, m, err))
			return false;
		char *staged = staged_path(idmap, m->source);
		if (staged) {
			free(m->source);
			m->source = staged;
		}
	}
	return true;
}

void kh_idmap_fini(struct kh_idmap *idmap)
{
	for (size_t i = 0; i < idmap->n; i++) {
		free(idmap->list[i].source);
		free(idmap->list[i].staged);
		if (idmap->list[i].userns >= 0)
			close(idmap->list[i].userns);
	}
	free(idmap->list);
	*idmap = (struct kh_idmap){ 0 };
}

static bool is_same(int a, int b)
{
	struct stat sa, sb;
	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

static bool replaced(const char *path, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_SYSTEM,
			  "%s was replaced in that moment (is another sandbox at work in the same "
			  "folder?)",
			  kh_esc_str(path));
}

static int clone_tree(const struct kh_idmap_tree *tree, struct kh_err *err)
{
	/* What was held is of the mount namespace that we have left: it is looked up again. */
	kh_auto_close int held = kh_file_hold(tree->source);
	if (held < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(tree->source)), -1;
	if (tree->fd >= 0 && !is_same(held, tree->fd))
		return replaced(tree->source, err), -1;
	int fd = (int)syscall(SYS_open_tree, held, "",
			      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(tree->source)), -1;
	struct mount_attr attr = { .attr_set = (uint64_t)MOUNT_ATTR_IDMAP,
				   .userns_fd = (unsigned long long)tree->userns };
	if (tree->userns < 0 || syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE,
					&attr, sizeof(attr)) == 0)
		return fd;
	kh_err_sys(
		err, KH_ERR_SYSTEM, errno,
		"%s: its file system can't show the folder as the sandbox's own (start keyhole as "
		"the folder's owner, or give it to uid %u)",
		kh_esc_str(tree->source), (unsigned)KH_SANDBOX_HOST_UID);
	close(fd);
	return -1;
}

static bool put_tree(const struct kh_idmap_tree *tree, int fd, struct kh_err *err)
{
	kh_auto_close int file = -1;
	if (tree->is_dir ? mkdir(tree->staged, 0755) != 0
			 : (file = open(tree->staged, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
					0644)) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", tree->staged);
	if (syscall(SYS_move_mount, fd, "", AT_FDCWD, tree->staged, MOVE_MOUNT_F_EMPTY_PATH) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "mounting %s",
				  kh_esc_str(tree->source));
	return true;
}

/* Every tree is taken hold of before its path may be covered. */
static bool put_trees(const struct kh_idmap *idmap, struct kh_err *err)
{
	int *fds = calloc(idmap->n + 1, sizeof(*fds));
	if (!fds)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	bool ok = true;
	for (size_t i = 0; ok && i < idmap->n; i++)
		ok = (fds[i] = clone_tree(&idmap->list[i], err)) >= 0;
	if (ok && mount("keyhole", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") != 0)
		ok = kh_err_sys(err, KH_ERR_SYSTEM, errno, "mounting over " STAGE);
	for (size_t i = 0; ok && i < idmap->n; i++)
		ok = put_tree(&idmap->list[i], fds[i], err);
	/* The descriptors end with this process's image. */
	free(fds);
	return ok;
}

/* Replaces the view's descriptors, whose numbers the engine was told, with the same files in the
 * ID-mapped trees. */
static bool replace_descriptors(const struct kh_idmap *idmap, struct kh_err *err)
{
	for (size_t i = 0; i < idmap->view->n; i++) {
		const struct kh_mount *m = &idmap->view->list[i];
		if (m->fd < 0 || !kh_mount_is_tree(m))
			continue;
		kh_auto_close int fd = kh_file_hold(m->source);
		if (fd < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(m->target));
		if (!is_same(fd, m->fd))
			return replaced(m->target, err);
		if (dup3(fd, m->fd, O_CLOEXEC) < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(m->target));
	}
	return true;
}

/* For good: no way back, no group, no capability that an exec could revive. */
static bool become(uid_t uid, gid_t gid, struct kh_err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
	    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0 || setgroups(0, NULL) != 0 ||
	    setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0 ||
	    syscall(SYS_capset, &header, none) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "becoming uid %u", (unsigned)uid);
	if (setuid(0) == 0 || geteuid() != uid || getegid() != gid)
		return kh_err_set(err, KH_ERR_SYSTEM, "becoming uid %u: root could be had again",
				  (unsigned)uid);
	return true;
}

bool kh_idmap_enter(const struct kh_idmap *idmap, struct kh_err *err)
{
	if (unshare(CLONE_NEWNS) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno,
				  "a mount namespace (root in a container needs CAP_SYS_ADMIN; or "
				  "start keyhole as an ordinary user)");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "making the mounts private");
	return put_trees(idmap, err) && replace_descriptors(idmap, err) &&
	       become(idmap->uid, idmap->gid, err);
}
