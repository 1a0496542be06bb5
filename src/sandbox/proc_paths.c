/*
 * proc_paths.c - what of /proc speaks of the host, or to it, in every engine
 *
 * Every sandbox has a /proc of its own process namespace, but much of it is the kernel's, which the
 * host and the sandbox share: keys of other users, where the kernel lies in memory, how often which
 * device was heard of. The lists began as those that OCI runtimes are given by the container tools.
 */
#include "sandbox_internal.h"

const char *const kh_proc_masked[] = {
	"/proc/acpi",	       "/proc/asound",	    "/proc/interrupts",	   "/proc/kcore",
	"/proc/keys",	       "/proc/key-users",   "/proc/kallsyms",	   "/proc/kmsg",
	"/proc/latency_stats", "/proc/modules",	    "/proc/scsi",	   "/proc/sched_debug",
	"/proc/timer_list",    "/proc/timer_stats", "/proc/sysrq-trigger", NULL,
};

/* In /proc/sys the sandbox's uid owns what belongs to its network namespace. */
const char *const kh_proc_read_only[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", NULL };
