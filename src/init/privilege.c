/*
 * privilege.c - drops the privileges that keyhole-init has at its start
 *
 * An engine starts it as uid 0 of the user namespace that owns the sandbox's network, with
 * CAP_NET_BIND_SERVICE (ports 53, 80, 443), CAP_NET_ADMIN (the local route) and CAP_SETFCAP (to map
 * its uid 0 into a child namespace). After it has bound its ports, it enters a second user
 * namespace, in which it has an ordinary uid, and drops all capabilities there. Then it has no
 * capability over the first namespace, which owns the network, and can't get one back. Finally it
 * loads the filter. All of this is done and verified before the command's process is made.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/limits.h>

#include "init_internal.h"

enum { CAPABILITIES = 64 };

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = (ssize_t)strlen(text);
	if (fd < 0 || write(fd, text, (size_t)len) != len)
		init_die("%s: %s", path, strerror(errno));
	close(fd);
}

static void map(const char *path, unsigned inside, unsigned outside)
{
	char line[48];
	snprintf(line, sizeof(line), "%u %u 1\n", inside, outside);
	write_file(path, line);
}

/* Of the host's `name`, this much at most may be used below this user namespace: the rest is for
 * whoever started it, whose own count goes up with it. Where /proc/sys can't be written to (in a
 * container) it stays as it is. */
static void keep_watches(const char *name, const char *host, unsigned part)
{
	char path[64], text[24];
	int in = open(host, O_RDONLY | O_CLOEXEC);
	ssize_t n = in >= 0 ? read(in, text, sizeof(text) - 1) : -1;
	if (in >= 0)
		close(in);
	text[n > 0 ? n : 0] = '\0';
	unsigned long most = strtoul(text, NULL, 10) / part;
	if (most == 0)
		return;
	snprintf(path, sizeof(path), "/proc/sys/user/%s", name);
	snprintf(text, sizeof(text), "%lu\n", most);
	int out = open(path, O_WRONLY | O_CLOEXEC);
	if (out < 0)
		return;
	(void)!write(out, text, strlen(text));
	close(out);
}

void init_privilege_become(unsigned uid, unsigned gid)
{
	if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 ||
	    setresuid(uid, uid, uid) != 0)
		init_die("--become %u:%u: %s", uid, gid, strerror(errno));
	if (setuid(0) == 0 || geteuid() != uid || getegid() != gid)
		init_die("--become %u:%u: root could be had again", uid, gid);
	/* A change of uid took it away, and with it our own /proc. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
		init_die("--become: %s", strerror(errno));
}

void init_privilege_user(unsigned uid, unsigned gid, bool groups)
{
	unsigned outer_uid = geteuid(), outer_gid = getegid();
	if (unshare(CLONE_NEWUSER) != 0)
		init_die("--user: a second user namespace: %s", strerror(errno));
	/* Hides names alone: what the kernel lacks is not missed. */
	if (groups)
		(void)!unshare(CLONE_NEWCGROUP);
	/* The engine may have written it already, and then it can't be opened. */
	int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t ignored = write(fd, "deny", 4);
		(void)ignored;
		close(fd);
	}
	map("/proc/self/uid_map", uid, outer_uid);
	map("/proc/self/gid_map", gid, outer_gid);
	keep_watches("max_inotify_instances", "/proc/sys/fs/inotify/max_user_instances",
		     KH_LIMIT_SANDBOX_INOTIFY_PART);
	keep_watches("max_inotify_watches", "/proc/sys/fs/inotify/max_user_watches",
		     KH_LIMIT_SANDBOX_WATCHES_PART);
	/* The real one is another where it is --apart. */
	if (geteuid() != uid || getgid() != gid || getegid() != gid)
		init_die("--user: still uid %u, gid %u", geteuid(), getegid());
}

void init_privilege_drop(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } }, left[2];
	for (unsigned long cap = 0; cap < CAPABILITIES; cap++)
		/* EINVAL: more than the kernel has; EPERM: without a capability it has no say. */
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EINVAL && errno != EPERM)
			init_die("dropping capability %lu: %s", cap, strerror(errno));
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &header, none) != 0 || syscall(SYS_capget, &header, left) != 0)
		init_die("dropping capabilities: %s", strerror(errno));
	for (int i = 0; i < 2; i++)
		if (left[i].effective | left[i].permitted | left[i].inheritable)
			init_die("capabilities are left (%x)", left[i].permitted);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		init_die("no new privileges: %s", strerror(errno));
}

/* At 1 the kernel writes no core file and starts no handler that the host's core_pattern names; at
 * 0 it would start it (core(5)). What is 0 already nobody here can raise, and the launcher has said
 * so. */
void init_privilege_core(void)
{
	const struct rlimit one = { .rlim_cur = 1, .rlim_max = 1 };
	struct rlimit now;
	if (setrlimit(RLIMIT_CORE, &one) != 0 &&
	    (getrlimit(RLIMIT_CORE, &now) != 0 || now.rlim_max != 0))
		init_die("the limit of core files: %s", strerror(errno));
}

void init_privilege_filter(const char *path)
{
	/* The kernel takes 4096 instructions. */
	static struct sock_filter program[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, program, sizeof(program)) : -1;
	if (n <= 0 || n % (ssize_t)sizeof(program[0]) != 0 || n == (ssize_t)sizeof(program))
		init_die("--seccomp %s: %s", path, n < 0 ? strerror(errno) : "not a filter");
	close(fd);
	struct sock_fprog filter = {
		.len = (unsigned short)((size_t)n / sizeof(program[0])),
		.filter = program,
	};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		init_die("--seccomp %s: %s", path, strerror(errno));
}
