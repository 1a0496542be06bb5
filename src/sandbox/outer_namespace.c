/*
 * outer_namespace.c - a user, a mount and a process namespace around an engine's program
 *
 * A container runtime needs a finished root in a folder, and a folder for its own state; and when
 * it is killed, its containers go on. So it runs in outer namespaces: root and state are in memory
 * that only it sees, and it is PID 1 of a process namespace, so that the kernel ends everything in
 * it when it ends. Nothing is left behind, however it ended.
 *
 *   launcher --fork--> [idmap.c: the sandbox's uid] --unshare--> waits (supervisor.c)
 *                                                       └──fork──> PID 1: the engine's program
 *
 * The user namespace maps one uid: 0, to the uid that started it. The program needs capabilities
 * for its mounts, and has none over anything else. The sandbox's own user namespace is a child of
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/limits.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"

static bool write_proc(const char *path, const char *text, struct kh_err *err)
{
	kh_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = (ssize_t)strlen(text);
	return (fd >= 0 && write(fd, text, (size_t)len) == len) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
}

/* What is made below counts here too, and this is the most that there may be: the rest of the
 * host's `limit` for one user is for whoever started it. Where /proc/sys can't be written to (in a
 * container) it stays as it is. */
static void keep_watches(const char *name, const char *limit, unsigned part)
{
	kh_auto_free char *path = kh_strf("/proc/sys/user/%s", name);
	kh_auto_close int in = open(limit, O_RDONLY | O_CLOEXEC);
	char text[24];
	ssize_t n = in >= 0 ? read(in, text, sizeof(text) - 1) : -1;
	text[n > 0 ? n : 0] = '\0';
	unsigned long most = strtoul(text, NULL, 10) / part;
	snprintf(text, sizeof(text), "%lu\n", most);
	if (path && most > 0)
		(void)write_proc(path, text, NULL);
}

bool kh_outer_namespace_unshare(const struct kh_engine_command *command, struct kh_err *err)
{
	int namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
			 (command->own_network ? CLONE_NEWNET : 0);
	char uid[48], gid[48];
	snprintf(uid, sizeof(uid), "0 %u 1\n", (unsigned)geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1\n", (unsigned)getegid());
	/* A change of uid (idmap.c) took it away, and with it our own /proc. An exec would give it
	 * back as well. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a process of its own");
	if (unshare(namespaces) != 0)
		return kh_err_set(err, KH_ERR_SYSTEM, "%s", KH_SANDBOX_NO_USERNS);
	if (!write_proc("/proc/self/setgroups", "deny", err) ||
	    !write_proc("/proc/self/uid_map", uid, err) ||
	    !write_proc("/proc/self/gid_map", gid, err))
		return kh_err_wrap(err, "%s", KH_SANDBOX_NO_USERNS);
	keep_watches("max_inotify_instances", "/proc/sys/fs/inotify/max_user_instances",
		     KH_LIMIT_SANDBOX_INOTIFY_PART);
	keep_watches("max_inotify_watches", "/proc/sys/fs/inotify/max_user_watches",
		     KH_LIMIT_SANDBOX_WATCHES_PART);
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "making the mounts private");
}

int kh_outer_namespace_memory(const char *path)
{
	int fd = kh_mount_plan_tmpfs(0755, 0);
	if (fd >= 0 &&
	    syscall(SYS_move_mount, fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
		kh_cleanup_close(&fd);
		return -1;
	}
	return fd;
}

static bool make_terminals(void)
{
	return mkdir(KH_OUTER_NAMESPACE_TERMINALS, 0755) == 0 &&
	       mount("devpts", KH_OUTER_NAMESPACE_TERMINALS, "devpts", MS_NOSUID | MS_NOEXEC,
		     "newinstance,ptmxmode=0666,mode=0620,max=" KH_TERMINALS_MOST) == 0;
}

static bool put_mounts(const struct kh_engine_command *command, const struct kh_view *view,
		       struct kh_err *err)
{
	static const char *const folders[] = { KH_OUTER_NAMESPACE_BUNDLE, KH_OUTER_NAMESPACE_STATE,
					       KH_OUTER_NAMESPACE "/scratch",
					       KH_OUTER_NAMESPACE_ROOT };
	struct kh_mount_plan plan;
	if (!kh_mount_plan_take(&plan, view, err))
		return false;
	int memory = kh_outer_namespace_memory(KH_OUTER_NAMESPACE);
	bool ok = memory >= 0;
	plan.open_root = command->seals_root;
	plan.own_file = command->own_file;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		ok = ok && mkdir(folders[i], 0755) == 0 && chmod(folders[i], 0755) == 0;
	uint64_t size = 0;
	kh_auto_close int layer = kh_mount_plan_layer(&plan, &size);
	if (ok && layer >= 0 &&
	    (plan.root = kh_overlay_mount(layer, size, KH_OUTER_NAMESPACE_ROOT, err)) < 0)
		return false;
	if (ok && layer < 0)
		plan.root = kh_outer_namespace_memory(KH_OUTER_NAMESPACE_ROOT);
	plan.scratch =
		ok ? open(KH_OUTER_NAMESPACE "/scratch", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (plan.root < 0 || plan.scratch < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "mounting over " KH_OUTER_NAMESPACE);
	if (command->own_terminals && !make_terminals())
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a devpts of its own");
	/* The descriptors and the list end with this process's image. */
	return kh_mount_plan_put(&plan, err);
}

static bool write_bundle(const struct kh_engine_command *command, struct kh_err *err)
{
	for (size_t i = 0; i < sizeof(command->files) / sizeof(command->files[0]); i++) {
		const char *name = command->files[i].name, *text = command->files[i].text;
		if (!text)
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", KH_OUTER_NAMESPACE_BUNDLE, name);
		kh_auto_close int fd =
			path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
		if (fd < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", name);
		if (!kh_file_write_all(fd, kh_slice_str(text), err))
			return false;
	}
	return true;
}

/* Where limits are made is the launcher's matter: the program finds none (crun), or none that it
 * may write to (runc, which looks for those that /proc tells of). */
static bool cover_cgroups(bool hide, struct kh_err *err)
{
	static const char place[] = "/sys/fs/cgroup";
	struct stat st;
	if (stat(place, &st) != 0)
		return true;
	if (hide) {
		kh_auto_close int fd = kh_outer_namespace_memory(place);
		return fd >= 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "covering %s", place);
	}
	kh_auto_close int fd = open(place, O_PATH | O_CLOEXEC);
	kh_auto_close int tree = fd < 0 ? -1
					: (int)syscall(SYS_open_tree, fd, "",
						       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
							       AT_EMPTY_PATH | AT_RECURSIVE);
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	return (tree >= 0 &&
		syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
			sizeof(attr)) == 0 &&
		syscall(SYS_move_mount, tree, "", fd, "",
			MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "covering %s", place);
}

/* `above` ends when the one above has ended: in another process namespace there is no getppid. */
static bool begin_below(int above, struct kh_err *err)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a process of its own");
	/* What a terminal says is for the one above alone: the program's helpers would die of it.
	 */
	if (setsid() < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a session");
	struct pollfd p = { .fd = above, .events = POLLIN };
	if (poll(&p, 1, 0) != 0)
		return kh_err_set(err, KH_ERR_SYSTEM, "the launcher is gone");
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0 ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno,
			  "a /proc of its own (in a container: run it with an unmasked /proc, as "
			  "`--security-opt systempaths=unconfined` does)");
}

bool kh_outer_namespace_enter(const struct kh_engine_command *command, const struct kh_view *view,
			      const struct kh_supervisor *supervisor, struct kh_err *err)
{
	if (!kh_outer_namespace_unshare(command, err) || !put_mounts(command, view, err) ||
	    !write_bundle(command, err) || !cover_cgroups(command->hide_cgroups, err))
		return false;
	kh_supervisor_prepare();
	kh_auto_close int above = (int)syscall(SYS_pidfd_open, getpid(), 0);
	pid_t pid = above < 0 ? -1 : fork();
	if (pid < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a process of its own");
	if (pid > 0)
		kh_supervisor_run(pid, supervisor);
	return begin_below(above, err);
}
