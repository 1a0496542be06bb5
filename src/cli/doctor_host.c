/* doctor_host.c - tests features of this host's kernel by using them */
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

#include <keyhole/base/account.h>
#include <keyhole/sandbox/child.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/hidden.h>
#include <keyhole/sandbox/sandbox.h>
#include <keyhole/base/secret.h>

#include "doctor_internal.h"

#define GROUP "kernel"

/* Headers may be older than the kernel. */
enum { CALL_LANDLOCK_CREATE_RULESET = 444, CALL_MEMFD_SECRET = 447 };

static bool make_userns(void *arg, struct kh_err *err)
{
	(void)arg;
	return unshare(CLONE_NEWUSER) == 0 || kh_err_set(err, KH_ERR_SYSTEM, "%s", strerror(errno));
}

static void add_userns(struct kh_doctor_report *report)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_child_try(make_userns, NULL, &err))
		kh_doctor_add(report, GROUP, "user-namespaces", KH_DOCTOR_OK, "one was made");
	else
		kh_doctor_add(
			report, GROUP, "user-namespaces", KH_DOCTOR_NO,
			"none can be made: %s (as root: `sysctl "
			"user.max_user_namespaces=10000`, `sysctl "
			"kernel.unprivileged_userns_clone=1` where that exists, and on Ubuntu "
			"24.04 `sysctl kernel.apparmor_restrict_unprivileged_userns=0`)",
			err.text);
}

/* "version 2", as far as /sys/fs/cgroup tells; NULL: nothing is mounted there. */
static const char *cgroup_version(void)
{
	struct statfs fs, unified;
	if (statfs("/sys/fs/cgroup", &fs) != 0)
		return NULL;
	if (fs.f_type == CGROUP2_SUPER_MAGIC)
		return "version 2";
	bool hybrid = statfs("/sys/fs/cgroup/unified", &unified) == 0 &&
		      unified.f_type == CGROUP2_SUPER_MAGIC;
	return hybrid ? "version 1 with version 2 beside it" : "version 1";
}

static void add_cgroups(struct kh_doctor_report *report)
{
	struct kh_sandbox_groups had;
	const char *kind = cgroup_version();
	kh_sandbox_try_groups(&had);
	if (had.memory && had.pids && had.cpus)
		kh_doctor_add(report, GROUP, "cgroups", KH_DOCTOR_OK, "%s; one was made",
			      kind ? kind : "elsewhere than at /sys/fs/cgroup");
	else if (had.memory || had.pids || had.cpus)
		kh_doctor_add(report, GROUP, "cgroups", KH_DOCTOR_WARNING,
			      "%s; one was made, without%s%s%s (see `keyhole run --best-effort`; "
			      "systemd gives a user the controllers that `Delegate=` of "
			      "user@.service names)",
			      kind ? kind : "elsewhere than at /sys/fs/cgroup",
			      had.memory ? "" : " --memory", had.pids ? "" : " --pids",
			      had.cpus ? "" : " --cpus");
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
	struct kh_err err = KH_ERR_INIT;
	kh_secret_prepare();
	if (fd >= 0 && kh_hidden_suffices(&err))
		kh_doctor_add(report, GROUP, "memfd_secret", KH_DOCTOR_OK,
			      "values of credentials are out of root's reach");
	else if (fd >= 0)
		kh_doctor_add(report, GROUP, "memfd_secret", KH_DOCTOR_WARNING, "%s", err.text);
	else
		kh_doctor_add(
			report, GROUP, "memfd_secret", KH_DOCTOR_WARNING,
			"%s: values of credentials can be read by root's debuggers (start the "
			"kernel, 5.14 or newer, with secretmem.enable=1)",
			strerror(errno));
}

/* For a configuration that does not say how many connections a sandbox may have. */
static void add_descriptors(struct kh_doctor_report *report)
{
	enum { CONNECTIONS = 16384 }; /* the default of limits.connections */
	struct kh_err err = KH_ERR_INIT;
	size_t limit = kh_account_descriptor_limit();
	if (kh_account_has_room_for(CONNECTIONS, limit, 0, &err))
		kh_doctor_add(
			report, GROUP, "descriptors", KH_DOCTOR_OK,
			"%zu for a process, enough for limits.connections as it is by default",
			limit);
	else
		kh_doctor_add(report, GROUP, "descriptors", KH_DOCTOR_WARNING, "%s", err.text);
}

void kh_doctor_host(struct kh_doctor_report *report)
{
	add_userns(report);
	add_cgroups(report);
	add_seccomp(report);
	add_landlock(report);
	add_pkeys(report);
	add_memfd_secret(report);
	add_descriptors(report);
}
