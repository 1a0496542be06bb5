/*
 * core_limit.c - keeps a crash in the sandbox from starting a program on the host
 *
 * If /proc/sys/kernel/core_pattern begins with "|", the kernel starts that program at a crash: as
 * root, outside of the sandbox's namespaces, with data that the crashed process chose (its name,
 * folder and memory). RLIMIT_CORE 0 does not prevent that, but 1 does: the kernel reserves it to
 * detect crashes of the handlers themselves (core(5)). So everything that is started for a sandbox
 * has the limit 1, soft and hard, and the filter keeps it (seccomp.c).
 */
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>

#include "sandbox_internal.h"

void kh_core_limit(void)
{
	const struct rlimit one = { .rlim_cur = 1, .rlim_max = 1 };
	(void)setrlimit(RLIMIT_CORE, &one);
}

void kh_core_warn(void)
{
	char pattern[2] = "";
	kh_auto_close int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	struct rlimit now;
	if (fd < 0 || read(fd, pattern, 1) != 1 || getrlimit(RLIMIT_CORE, &now) != 0)
		return;
	const struct rlimit raised = { .rlim_cur = 0, .rlim_max = 1 };
	if (now.rlim_max == 0 && setrlimit(RLIMIT_CORE, &raised) != 0 && pattern[0] == '|')
		kh_log_warn("a crash in the sandbox starts the host's handler of core files, as "
			    "root: the hard limit of core files is 0 here, which can't be raised "
			    "to 1 (start keyhole where `ulimit -Hc` is more than 0)");
	if (pattern[0] == '@')
		kh_log_warn("a crash in the sandbox is told to the host's handler of core files: "
			    "/proc/sys/kernel/core_pattern names a socket, and no limit stops "
			    "that");
}
