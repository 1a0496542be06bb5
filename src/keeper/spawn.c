/* spawn.c - starts a worker: executes this binary again, so that it inherits no memory of the
 * keeper */

/*
 * exec gives the worker new memory, so that nothing that the keeper read (keys, the environment) is
 * in it. The worker gets no environment, /dev/null on 0 and 1 (so that a connection never has one
 * of these numbers), a standard error that it can only write to (child_log.c), and the channel.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/worker/worker.h>

#include "handover_internal.h"

/* Close-on-exec of all above; old kernels have no close_range, then each is asked. */
static bool shut_above(int last)
{
	if (syscall(SYS_close_range, (unsigned)last + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
		return true;
	long most = sysconf(_SC_OPEN_MAX);
	for (int fd = last + 1; fd < (most > 0 ? most : 65536); fd++) {
		int flags = fcntl(fd, F_GETFD);
		if (flags >= 0 && fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
			return false;
	}
	return true;
}

static bool arrange_descriptors(int channel, int log)
{
	/* Out of the way of the numbers that are to be given out. */
	int high = fcntl(channel, F_DUPFD_CLOEXEC, KH_WORKER_CHANNEL_FD + 1);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	return high >= 0 && null >= 0 && dup2(log >= 0 ? log : null, STDERR_FILENO) >= 0 &&
	       dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
	       dup2(high, KH_WORKER_CHANNEL_FD) >= 0 && shut_above(KH_WORKER_CHANNEL_FD);
}

static void default_signals(void)
{
	sigset_t none;
	(void)sigemptyset(&none);
	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	/* Meant for the keeper, and sent to all processes of a unit at once. */
	(void)signal(SIGUSR2, SIG_IGN);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Ours at the start, which is what programs of others expect. */
static struct rlimit descriptors;
static bool has_raised;

void kh_spawn_raise_descriptors(void)
{
	if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0 ||
	    descriptors.rlim_cur >= descriptors.rlim_max)
		return;
	const struct rlimit all = { descriptors.rlim_max, descriptors.rlim_max };
	has_raised = setrlimit(RLIMIT_NOFILE, &all) == 0;
}

void kh_spawn_restore_descriptors(void)
{
	if (has_raised)
		(void)setrlimit(RLIMIT_NOFILE, &descriptors);
}

bool kh_spawn_bare(int keep)
{
	default_signals();
	if (keep >= 0)
		return arrange_descriptors(keep, kh_child_log_theirs());
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && shut_above(STDERR_FILENO);
}

/*
 * A function of a library that is bound at its first call is bound by code that saves the registers
 * on the stack, and in them may be the secret that was copied last. So all are bound at the start:
 * the program's own (it is linked so) and, by this variable, those that libraries call.
 */
void kh_spawn_self(char *verb)
{
	static char name[] = "keyhole", bind_now[] = "LD_BIND_NOW=1";
	char *argv[] = { name, verb, NULL };
	char *environment[] = { bind_now, NULL };

	(void)execve("/proc/self/exe", argv, environment);
}

__attribute__((noreturn)) static void child(int channel, int log, pid_t keeper)
{
	static char verb[] = "worker";

	default_signals();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == keeper &&
	    arrange_descriptors(channel, log))
		kh_spawn_self(verb);
	_exit(KH_WORKER_EXIT_NO_EXEC);
}

pid_t kh_spawn_worker(int channel, struct kh_err *err)
{
	pid_t keeper = getpid();
	int log = kh_child_log_open();
	pid_t pid = fork();
	if (pid == 0)
		child(channel, log, keeper);
	if (pid < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting a worker");
	return pid;
}

/* --- another keeper --------------------------------------------------------------------------- */

/* The arguments of main, with the option behind the subcommand's name. */
static char **heirs_arguments(char **argv)
{
	static char option[] = KH_KEEPER_HANDOVER_OPTION;
	size_t n = 0, to = 0;
	while (argv[n])
		n++;
	char **out = calloc(n + 2, sizeof(*out));
	for (size_t i = 0; out && i < n; i++) {
		if (i == 2)
			out[to++] = option;
		if (strcmp(argv[i], option) != 0)
			out[to++] = argv[i];
	}
	return out;
}

/* The path stands for whatever file is there now. Until it has a loop of its own, the signals that
 * are meant for its predecessor do not end it. Its environment is ours: the values of secrets are
 * overwritten in it. */
__attribute__((noreturn)) static void become_heir(int channel, const char *path, char **argv)
{
	default_signals();
	(void)signal(SIGHUP, SIG_IGN);
	int high = fcntl(channel, F_DUPFD_CLOEXEC, KH_KEEPER_HANDOVER_FD + 1);
	if (high >= 0 && dup2(high, KH_KEEPER_HANDOVER_FD) >= 0 &&
	    shut_above(KH_KEEPER_HANDOVER_FD)) {
		kh_spawn_restore_descriptors();
		(void)execve(path, argv, environ);
	}
	_exit(KH_WORKER_EXIT_NO_EXEC);
}

pid_t kh_spawn_heir(int channel, char **argv, struct kh_err *err)
{
	/* As execve was given it; argv[0] can be anything, and /proc/self/exe is the old file. */
	const char *path = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr)
	kh_auto_free char **arguments = heirs_arguments(argv);
	if (!path || !arguments) {
		kh_err_set(err, KH_ERR_SYSTEM, "the path of this program is not known");
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0)
		become_heir(channel, path, arguments);
	if (pid < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting %s", path);
	return pid;
}
