/* bounds.c - resource limits of a sandbox: by control groups if available, else by rlimits */
#include "bounds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/log.h>

enum { PERIOD_US = 100 * 1000 };

static bool refused(const char *option, struct kh_err *err)
{
	return kh_err_set(
		err, KH_ERR_SYSTEM,
		"%s: this host lets us make no control group for it (start keyhole as root, "
		"or in `systemd-run --user --scope -p Delegate=yes`; with --best-effort it "
		"runs without this limit)",
		option);
}

static bool failed(const char *option, struct kh_err *err)
{
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s: the control group does not take it",
			  option);
}

static bool set_memory(struct kh_sandbox_bounds *l, uint64_t bytes, struct kh_err *err)
{
	char text[24];
	snprintf(text, sizeof(text), "%" PRIu64, bytes);
	if (!kh_cgroup_make(&l->groups, KH_CGROUP_MEMORY)) {
		l->init_memory_bytes = bytes;
		kh_log_warn("--memory: no control group is to be had, so it bounds each process by "
			    "itself and not all together");
		return true;
	}
	if (!kh_cgroup_write(&l->groups, KH_CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max",
			     text))
		return failed("--memory", err);
	/* A host that doesn't count swap has no such file. */
	(void)kh_cgroup_write(&l->groups, KH_CGROUP_MEMORY, "memory.memsw.limit_in_bytes", NULL,
			      text);
	(void)kh_cgroup_write(&l->groups, KH_CGROUP_MEMORY, NULL, "memory.swap.max", "0");
	return true;
}

/*
 * What so many processes and threads of the command are in the group. keyhole-init and what makes
 * the sandbox are no work of the command's. A kernel in user space (gvisor, platform ptrace) has a
 * process of the host for each address space inside, and in each of these a thread for every thread
 * of its own that has ever run something there: 37 at a start, 192 with 10 processes inside, 1,058
 * with 40, 3,189 with 80. Where it gets none it dies, and the sandbox with it. So there the group
 * is a bound on that kernel, far enough away, and it is the kernel that counts for the command
 * (RLIMIT_NPROC).
 */
static void in_group(unsigned pids, bool own_kernel, char text[24])
{
	uint64_t all = (uint64_t)pids + KH_SANDBOX_OWN_PIDS;
	if (own_kernel)
		all *= all;
	/* More than the kernel can ever have; as a number it takes no such. */
	if (all > KH_SANDBOX_PID_MAX)
		snprintf(text, 24, "max");
	else
		snprintf(text, 24, "%" PRIu64, all);
}

static bool set_pids(struct kh_sandbox_bounds *l, unsigned pids, bool own_kernel,
		     struct kh_err *err)
{
	char text[24];
	in_group(pids, own_kernel, text);
	bool made = kh_cgroup_make(&l->groups, KH_CGROUP_PIDS);
	if (!made || own_kernel)
		l->init_pids = pids + 1;
	if (!made)
		return true;
	return kh_cgroup_write(&l->groups, KH_CGROUP_PIDS, "pids.max", "pids.max", text) ||
	       failed("--pids", err);
}

static bool set_cpus(struct kh_sandbox_bounds *l, const struct kh_sandbox_limits *wanted,
		     struct kh_err *err)
{
	char quota[16], both[32];
	unsigned us = wanted->cpu_milli * (PERIOD_US / 1000);
	snprintf(quota, sizeof(quota), "%u", us);
	snprintf(both, sizeof(both), "%u %d", us, PERIOD_US);
	if (!kh_cgroup_make(&l->groups, KH_CGROUP_CPU)) {
		if (!wanted->best_effort)
			return refused("--cpus", err);
		kh_log_warn("--cpus: no control group is to be had: the sandbox runs without it");
		return true;
	}
	return kh_cgroup_write(&l->groups, KH_CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max",
			       l->groups.of[KH_CGROUP_CPU].v2 ? both : quota) ||
	       failed("--cpus", err);
}

/* At the launcher's end. What it removed itself is not there any more. */
static void remove_groups(void *arg)
{
	const struct kh_sandbox_bounds *limits = arg;
	kh_cgroup_remove(&limits->groups);
}

bool kh_bounds_begin(struct kh_sandbox_bounds *l, const struct kh_sandbox_limits *wanted,
		     bool own_kernel, struct kh_err *err)
{
	bool ok = (!wanted->memory_bytes || set_memory(l, wanted->memory_bytes, err)) &&
		  (!wanted->pids || set_pids(l, wanted->pids, own_kernel, err)) &&
		  (!wanted->cpu_milli || set_cpus(l, wanted, err));
	bool any = false;
	for (size_t i = 0; i < KH_CGROUP_KINDS; i++)
		any = any || l->groups.of[i].path;
	return ok && (!any || kh_child_watch(remove_groups, l, &l->watcher, &l->alive, err));
}

bool kh_bounds_join(const struct kh_sandbox_bounds *l, struct kh_err *err)
{
	return kh_bounds_take(l, 0, err);
}

bool kh_bounds_take(const struct kh_sandbox_bounds *l, pid_t pid, struct kh_err *err)
{
	return kh_cgroup_join(&l->groups, pid) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "joining the control group");
}

void kh_bounds_end(struct kh_sandbox_bounds *l)
{
	kh_cgroup_remove(&l->groups);
	if (l->alive >= 0)
		close(l->alive);
	l->alive = -1;
	kh_child_wait(l->watcher);
	kh_cgroup_fini(&l->groups);
}

void kh_sandbox_try_groups(struct kh_sandbox_groups *out)
{
	struct kh_cgroups groups = { 0 };
	out->memory = kh_cgroup_make(&groups, KH_CGROUP_MEMORY);
	out->pids = kh_cgroup_make(&groups, KH_CGROUP_PIDS);
	out->cpus = kh_cgroup_make(&groups, KH_CGROUP_CPU);
	kh_cgroup_remove(&groups);
	kh_cgroup_fini(&groups);
}
