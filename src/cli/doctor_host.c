/* doctor_host.c - what the kernel of this host lets us do, each found out by doing it */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/magic.h>
#include <linux/seccomp.h>

#include <keyhole/cleanup.h>
#include <keyhole/file.h>

#include "doctor_internal.h"

#define GROUP "kernel"

/* Headers may be older than the kernel. */
enum { CALL_LANDLOCK_CREATE_RULESET = 444, CALL_MEMFD_SECRET = 447 };

static void add_userns(struct kh_doctor_report *report)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
	int status = 0;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		kh_doctor_add(report, GROUP, "user-namespaces", KH_DOCTOR_OK, "one was made");
	else
		kh_doctor_add(
			report, GROUP, "user-namespaces", KH_DOCTOR_NO,
			"none can be made: %s (as root: `sysctl "
			"user.max_user_namespaces=10000`, `sysctl "
			"kernel.unprivileged_userns_clone=1` where that exists, and on Ubuntu "
			"24.04 `sysctl kernel.apparmor_restrict_unprivileged_userns=0`)",
			strerror(pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EPERM));
}

/* Where we are in a hierarchy, out of /proc/self/cgroup: "5:memory:/a" or "0::/a". Heap. */
static char *own_cgroup(const char *controller)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[4096];
	char *found = NULL;
	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		const char *name = strchr(line, ':');
		const char *path = name ? strchr(name + 1, ':') : NULL;
		size_t len = path ? (size_t)(path - name - 1) : 0;
		if (path && len == strlen(controller) && memcmp(name + 1, controller, len) == 0)
			found = strdup(path + 1);
	}
	if (file)
		(void)fclose(file);
	return found;
}

static bool can_make_cgroup(const char *mount, const char *controller)
{
	kh_auto_free char *own = own_cgroup(controller);
	kh_auto_free char *path =
		own ? kh_strf("%s%s/keyhole-doctor-%d", mount, own, (int)getpid()) : NULL;
	if (!path || mkdir(path, 0755) != 0)
		return false;
	(void)rmdir(path);
	return true;
}

static void add_cgroups(struct kh_doctor_report *report)
{
	struct statfs fs, unified;
	const char *kind;
	bool delegated;
	if (statfs("/sys/fs/cgroup", &fs) != 0) {
		kind = NULL;
		delegated = false;
	} else if (fs.f_type == CGROUP2_SUPER_MAGIC) {
		kind = "version 2";
		delegated = can_make_cgroup("/sys/fs/cgroup", "");
	} else {
		bool hybrid = statfs("/sys/fs/cgroup/unified", &unified) == 0 &&
			      unified.f_type == CGROUP2_SUPER_MAGIC;
		kind = hybrid ? "version 1 with version 2 beside it" : "version 1";
		delegated = can_make_cgroup("/sys/fs/cgroup/memory", "memory");
	}
	if (delegated)
		kh_doctor_add(report, GROUP, "cgroups", KH_DOCTOR_OK, "%s; one was made", kind);
	else
		kh_doctor_add(report, GROUP, "cgroups", KH_DOCTOR_WARNING,
			      "%s; none can be made by you (start keyhole by `systemd-run --user "
			      "--scope -p Delegate=yes`, or as root)",
			      kind ? kind : "not mounted");
}

static void add_seccomp(struct kh_doctor_report *report)
{
	unsigned action = SECCOMP_RET_KILL_PROCESS;
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
		kh_doctor_add(report, GROUP, "seccomp", KH_DOCTOR_OK, "filters");
	else
		kh_doctor_add(report, GROUP, "seccomp", KH_DOCTOR_NO,
			      "no filters: %s (a kernel of 4.14 or newer with "
			      "CONFIG_SECCOMP_FILTER is needed)",
			      strerror(errno));
}

static void add_landlock(struct kh_doctor_report *report)
{
	long abi = syscall(CALL_LANDLOCK_CREATE_RULESET, NULL, 0, 1);
	if (abi > 0)
		kh_doctor_add(report, GROUP, "landlock", KH_DOCTOR_OK, "ABI %ld", abi);
	else
		kh_doctor_add(report, GROUP, "landlock", KH_DOCTOR_WARNING,
			      "%s: what a command may write is kept by the mounts alone (a kernel "
			      "of 5.13 or newer, started with `landlock` in its option lsm=)",
			      strerror(errno));
}

static void add_pkeys(struct kh_doctor_report *report)
{
	long key = syscall(SYS_pkey_alloc, 0, 0);
	if (key >= 0) {
		(void)syscall(SYS_pkey_free, key);
		kh_doctor_add(report, GROUP, "pkeys", KH_DOCTOR_OK,
			      "a page of a secret opens without a system call");
	} else {
		kh_doctor_add(report, GROUP, "pkeys", KH_DOCTOR_WARNING,
			      "%s: pages of secrets are shut by mprotect, which is slower (it is a "
			      "feature of the processor)",
			      strerror(errno));
	}
}

static void add_memfd_secret(struct kh_doctor_report *report)
{
	kh_auto_close int fd = (int)syscall(CALL_MEMFD_SECRET, (unsigned)O_CLOEXEC);
	if (fd >= 0)
		kh_doctor_add(report, GROUP, "memfd_secret", KH_DOCTOR_OK,
			      "values of credentials are out of root's reach");
	else
		kh_doctor_add(
			report, GROUP, "memfd_secret", KH_DOCTOR_WARNING,
			"%s: values of credentials can be read by root's debuggers (start the "
			"kernel, 5.14 or newer, with secretmem.enable=1)",
			strerror(errno));
}

void kh_doctor_host(struct kh_doctor_report *report)
{
	add_userns(report);
	add_cgroups(report);
	add_seccomp(report);
	add_landlock(report);
	add_pkeys(report);
	add_memfd_secret(report);
}
