/*
 * proc_paths.c - the files of /proc that show or change something of the host; masked in every
 * engine
 *
 * Every sandbox has a /proc of its own process namespace, but much of it is about the kernel, which
 * host and sandbox share: keys of other users, addresses of the kernel, counts of interrupts. The
 * lists are based on those that container tools give to OCI runtimes.
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
