/* lockin_open.c - open(2) and fstat(3) in a worker that may open nothing by name */

/*
 * A library that reads a file takes its name, but a locked-in worker has only a descriptor (a
 * database that the keeper sent at a reload). So for open and openat the filter sends a signal
 * (SIGSYS). Its handler returns a duplicate of the descriptor that the thread was lent
 * (kh_file_lend), or EPERM if there is none. It ignores the name and makes no system call except
 * fcntl, so the worker gets nothing this way that it does not hold already.
 *
 * fstat(3) makes the call newfstatat with an empty path. A filter can't see that the path is empty,
 * and with another path the call would tell which files exist. The handler calls fstat instead,
 * which has no path.
 *
 * The handler writes the result into the thread's registers, whose names depend on the
 * architecture. On an architecture that is not listed here, the calls fail like all others; a
 * worker that gets a new database then exits, and the next one opens it before its lock-in.
 */

#include "lockin_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <keyhole/base/file.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

#if defined(__x86_64__)
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_RAX])
#define FIRST(context) ((context)->uc_mcontext.gregs[REG_RDI])
#define THIRD(context) ((context)->uc_mcontext.gregs[REG_RDX])
#define FOURTH(context) ((context)->uc_mcontext.gregs[REG_R10])
#elif defined(__i386__)
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_EAX])
#elif defined(__aarch64__)
#define RESULT(context) ((context)->uc_mcontext.regs[0])
#define FIRST(context) ((context)->uc_mcontext.regs[0])
#define THIRD(context) ((context)->uc_mcontext.regs[2])
#define FOURTH(context) ((context)->uc_mcontext.regs[3])
#elif defined(__riscv)
#define RESULT(context) ((context)->uc_mcontext.__gregs[REG_A0])
#define FIRST(context) ((context)->uc_mcontext.__gregs[REG_A0])
#define THIRD(context) ((context)->uc_mcontext.__gregs[REG_A0 + 2])
#define FOURTH(context) ((context)->uc_mcontext.__gregs[REG_A0 + 3])
#endif

#ifdef RESULT
#if defined(SYS_newfstatat) && defined(FIRST)
static bool is_fstat(const siginfo_t *info)
{
	return info->si_syscall == SYS_newfstatat;
}

static long do_fstat(const ucontext_t *context)
{
	if (FOURTH(context) != AT_EMPTY_PATH || (int)FIRST(context) < 0)
		return -EPERM;
	long rc = syscall(SYS_fstat, (int)FIRST(context), THIRD(context));
	return rc < 0 ? -errno : rc;
}
#else
static bool is_fstat(const siginfo_t *info)
{
	(void)info;
	return false;
}

static long do_fstat(const ucontext_t *context)
{
	(void)context;
	return -ENOSYS;
}
#endif

static void on_trap(int sig, siginfo_t *info, void *arg)
{
	ucontext_t *context = arg;
	int before = errno, fd = kh_file_lent();
	long result = -EPERM;

	if (info->si_code != SYS_SECCOMP) { /* somebody's kill(2): as if there were no handler */
		(void)signal(sig, SIG_DFL);
		(void)raise(sig);
		return;
	}
	if (is_fstat(info)) {
		result = do_fstat(context);
	} else if (fd >= 0) {
		int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		result = copy >= 0 ? copy : -errno;
	}
	errno = before;
	RESULT(context) = (__typeof__(RESULT(context)))result;
}
#endif

bool kh_lockin_lends(void)
{
#ifdef RESULT
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART };

	(void)sigemptyset(&action.sa_mask);
	return sigaction(SIGSYS, &action, NULL) == 0;
#else
	return false;
#endif
}
