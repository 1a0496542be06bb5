/*
 * supervisor.c - the stand-by process, which waits for the engine's program in its outer namespaces
 * (outer_namespace.c)
 *
 * It passes signals on, and ends with the program's exit status. For an engine with its own kernel
 * it also answers the uplink (uplink.h), as the sandbox's uid on the host, and from outside of the
 * sandbox's process namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"
#include "uplink.h"

static const int passed[] = {
	SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT
};
/* What a terminal says that the program hands on. Not every program passes that on, so keyhole-init
 * is told by ourselves. */
static const int typed[] = { SIGINT, SIGQUIT, SIGTSTP, SIGWINCH };

static void all_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaddset(set, passed[i]);
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++)
		sigaddset(set, typed[i]);
}

void kh_supervisor_prepare(void)
{
	sigset_t set;
	all_signals(&set);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

static void pass_on(pid_t pid, int control, int signo)
{
	bool is_typed = false;
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++)
		is_typed = is_typed || typed[i] == signo;
	struct kh_init_message message = { .type = KH_INIT_TYPED, .value = signo };
	if (is_typed && control >= 0)
		(void)!send(control, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
	else if (signo != SIGWINCH)
		(void)kill(pid, signo);
}

static void hear(pid_t pid, const struct kh_supervisor *supervisor, int signals)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			pass_on(pid, supervisor->control, (int)info.ssi_signo);
}

/* ---- descriptors ---- */

/* Where nothing else is put: below are the standard ones, and what the program complains to. */
enum { FIRST_KEPT = 8 };

/* Those that are given, from FIRST_KEPT on, and no other. */
static bool keep_only(int *const *fds, size_t n)
{
	enum { MOST = 8 };
	int moved[MOST];
	for (size_t i = 0; i < n; i++)
		if (*fds[i] >= 0 &&
		    (moved[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, FIRST_KEPT + MOST)) < 0)
			return false;
	for (size_t i = 0; i < n; i++)
		if (*fds[i] >= 0 && (*fds[i] = dup3(moved[i], FIRST_KEPT + (int)i, O_CLOEXEC)) < 0)
			return false;
	for (size_t i = 0; i < n; i++)
		if (*fds[i] < 0)
			(void)close(FIRST_KEPT + (int)i);
	(void)syscall(SYS_close_range, 0u, (unsigned)FIRST_KEPT - 1, 0u);
	return syscall(SYS_close_range, (unsigned)FIRST_KEPT + (unsigned)n, ~0u, 0u) == 0;
}

/* ---- who brings the uplink, where the program hands in a terminal ---- */

/* In its process. */
static _Noreturn void bring(const struct kh_supervisor *supervisor)
{
	static char *const no_environment[] = { NULL };
	union {
		const char *const *given;
		char *const *argv;
	} words = { .given = supervisor->command->bring };
	sigset_t none;
	sigemptyset(&none);
	if (dup2(supervisor->donated, STDIN_FILENO) == STDIN_FILENO &&
	    dup2(supervisor->complaints, STDOUT_FILENO) == STDOUT_FILENO &&
	    dup2(supervisor->complaints, STDERR_FILENO) == STDERR_FILENO &&
	    dup2(supervisor->complaints, STDERR_FILENO + 1) == STDERR_FILENO + 1 &&
	    sigprocmask(SIG_SETMASK, &none, NULL) == 0)
		(void)syscall(SYS_execveat, supervisor->program, "", words.argv, no_environment,
			      AT_EMPTY_PATH);
	_exit(KH_INIT_FAILED);
}

/* What the program says to the terminal before that is of no use there. Return: the process, when
 * the mark has come; -1. */
static pid_t bring_at_mark(struct kh_supervisor *supervisor)
{
	char said[256];
	ssize_t n = read(supervisor->master, said, sizeof(said));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return -1;
	if (n > 0 && !memchr(said, KH_INIT_MARK, (size_t)n))
		return -1;
	pid_t pid = n > 0 ? fork() : -1;
	if (pid == 0)
		bring(supervisor);
	int *const done[] = { &supervisor->master, &supervisor->donated, &supervisor->complaints,
			      &supervisor->program };
	for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++)
		kh_cleanup_close(done[i]);
	return pid;
}

/* Without the uplink keyhole-init would wait for ever. */
static void await_bringer(pid_t program, pid_t *bringer)
{
	int status;
	if (*bringer <= 0 || waitpid(*bringer, &status, WNOHANG) != *bringer)
		return;
	*bringer = -1;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		(void)kill(program, SIGKILL);
}

/* ---- the whole ---- */

static void wait_and_answer(struct kh_supervisor *supervisor, int signals, short *wants,
			    pid_t *bringer)
{
	enum { SIGNALS, UPLINK, MASTER, COUNT };
	struct pollfd p[COUNT] = {
		[SIGNALS] = { signals, POLLIN, 0 },
		[UPLINK] = { supervisor->uplink, *wants, 0 },
		[MASTER] = { supervisor->master, POLLIN, 0 },
	};
	if (poll(p, COUNT, -1) < 0)
		return;
	if (p[UPLINK].revents &&
	    !kh_uplink_answer(supervisor->uplink, &KH_INIT_SOCKET[sizeof(KH_SANDBOX_RUN)], wants))
		kh_cleanup_close(&supervisor->uplink);
	if (p[MASTER].revents)
		*bringer = bring_at_mark(supervisor);
}

/* As the program ended. */
static _Noreturn void end_as(int status)
{
	if (WIFSIGNALED(status)) {
		sigset_t none;
		kh_core_limit();
		(void)signal(WTERMSIG(status), SIG_DFL);
		sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		(void)raise(WTERMSIG(status));
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : KH_INIT_FAILED);
}

void kh_supervisor_run(pid_t program, const struct kh_supervisor *given)
{
	struct kh_supervisor supervisor = *given;
	int status = 0;
	short wants = POLLIN;
	pid_t ended, bringer = -1;
	sigset_t set;
	all_signals(&set);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	/* Blocked since before the fork: none is missed. */
	int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	/* By a name in the folder that was looked at: nothing inside can put another in its place.
	 */
	bool ok = signals >= 0 && (supervisor.folder < 0 || fchdir(supervisor.folder) == 0);
	int *const kept[] = { &signals,		  &supervisor.control, &supervisor.uplink,
			      &supervisor.master, &supervisor.donated, &supervisor.complaints,
			      &supervisor.program };
	ok = ok && keep_only(kept, sizeof(kept) / sizeof(kept[0]));
	if (!ok)
		(void)kill(program, SIGKILL);
	while ((ended = waitpid(program, &status, ok ? WNOHANG : 0)) == 0 ||
	       (ended < 0 && errno == EINTR)) {
		if (!ok)
			continue;
		wait_and_answer(&supervisor, signals, &wants, &bringer);
		hear(program, &supervisor, signals);
		await_bringer(program, &bringer);
	}
	end_as(status);
}
