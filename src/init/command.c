/* command.c - starts the command in a session of its own, signals it, and reaps processes */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>

#include "init_internal.h"
#include "pair.h"

enum { FINISH_MS = 500, FINISH_MOST_MS = 2000, OWN_END_MS = 250, REAPED_A_TURN = 64 };

static struct init_command command;
static pid_t child = -1;
static bool started;
static bool unreaped;	     /* somebody has ended, and may be waited for */
static int exit_status = -1; /* the command's, once it has ended */
static struct timespec ended_at, moved_at;
static bool others_ended; /* after the command */
static int signal_fd = -1, terminal_fd = -1;
static char terminal_name[64];
static sigset_t mask_before;
static struct init_watch signal_watch;

static bool wants_terminal(void)
{
	return command.tty[0] || command.tty[1] || command.tty[2];
}

/* In the sandbox's own devpts: what the agent does to it, it does to no terminal of the host. */
static void open_terminal(void)
{
	terminal_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (terminal_fd < 0 || grantpt(terminal_fd) != 0 || unlockpt(terminal_fd) != 0 ||
	    ptsname_r(terminal_fd, terminal_name, sizeof(terminal_name)) != 0)
		init_die("making a terminal: %s", strerror(errno));
}

static bool connect_stdio(void)
{
	int fds[3] = { command.stdio[0], command.stdio[1], command.stdio[2] };
	int slave = -1;
	if (command.own_tty) {
		slave = STDIN_FILENO;
	} else if (wants_terminal()) {
		slave = open(terminal_name, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) != 0)
			return false;
	}
	/* First out of the way of 0, 1 and 2, in case that they stand crosswise. */
	for (int i = 0; i < 3; i++) {
		fds[i] = fcntl(command.tty[i] ? slave : fds[i], F_DUPFD_CLOEXEC, 10);
		if (fds[i] < 0)
			return false;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], i) != i)
			return false;
	/* The inherited ones are not the command's business under their old numbers. */
	for (int i = 0; i < 3; i++)
		if (command.stdio[i] > STDERR_FILENO)
			close(command.stdio[i]);
	return true;
}

/* Who has a hard limit below it is bounded already. */
static bool limit(__rlimit_resource_t resource, unsigned long most)
{
	struct rlimit both;
	if (most == 0)
		return true;
	if (getrlimit(resource, &both) != 0)
		return false;
	if (both.rlim_max == RLIM_INFINITY || both.rlim_max > most)
		both.rlim_max = most;
	both.rlim_cur = both.rlim_max;
	return setrlimit(resource, &both) == 0;
}

/* Signals that wait, timers among them, count for the caller's user on the host: some are left.
 * gVisor, which says EPERM, counts its own. */
static bool leave_signals(void)
{
	struct rlimit both;
	if (getrlimit(RLIMIT_SIGPENDING, &both) != 0)
		return false;
	return both.rlim_max == RLIM_INFINITY || both.rlim_max < 2 ||
	       limit(RLIMIT_SIGPENDING, both.rlim_max / 2) || errno == EPERM;
}

/* A session of its own; where the terminal is the engine's, and the session that goes with it this
 * one's, a group of its own in the foreground (SIGTTOU is blocked as yet). */
static bool own_place(void)
{
	if (!command.own_tty)
		return setsid() >= 0;
	return setpgid(0, 0) == 0 && tcsetpgrp(STDIN_FILENO, getpid()) == 0;
}

/* As the caller has it, but lower than that of whoever passes descriptors for us as the same user
 * of the host (rights.h): several messages may be under way at once that each pass the check. */
static struct rlimit descriptors(void)
{
	unsigned long hard = command.nofile_hard - command.nofile_hard / 4;
	return (struct rlimit){
		.rlim_cur = command.nofile_soft < hard ? command.nofile_soft : hard,
		.rlim_max = hard,
	};
}

static _Noreturn void become_command(int report)
{
	struct rlimit nofile = descriptors();
	if ((!command.apart || init_hardening_no_more()) && own_place() && connect_stdio() &&
	    setrlimit(RLIMIT_NOFILE, &nofile) == 0 && limit(RLIMIT_AS, command.memory_bytes) &&
	    limit(RLIMIT_NPROC, command.pids) && leave_signals() &&
	    sigprocmask(SIG_SETMASK, &mask_before, NULL) == 0 && init_landlock_enter()) {
		init_home_fill();
		execvp(command.argv[0], command.argv);
	}
	int why = errno;
	ssize_t ignored = write(report, &why, sizeof(why));
	(void)ignored;
	_exit(why == ENOENT ? KH_INIT_NOT_FOUND : KH_INIT_NOT_EXECUTABLE);
}

static _Noreturn void could_not_execute(int why)
{
	if (init_control_present())
		init_control_send(KH_INIT_NO_EXEC, why, -1);
	else
		init_complain("%s: %s", command.argv[0], strerror(why));
	_exit(why == ENOENT ? KH_INIT_NOT_FOUND : KH_INIT_NOT_EXECUTABLE);
}

/* The init keeps no end of the command's pipes: else whoever reads from it would never see the end
 * (and a writer never a broken pipe) while the init lives. */
static void let_go_of_stdio(void)
{
	for (int i = 0; i < 3; i++) {
		if (command.stdio[i] > STDERR_FILENO)
			close(command.stdio[i]);
	}
	if (terminal_fd >= 0)
		close(terminal_fd);
	terminal_fd = -1;
}

/* /proc/1/environ: where the kernel is the engine's own everybody may read it. */
static void forget_variables(void)
{
	for (char **variable = environ; *variable; variable++)
		memset(*variable, 0, strlen(*variable));
}

void init_command_go(void)
{
	if (started)
		return;
	started = true;
	int report[2];
	if (pipe2(report, O_CLOEXEC) != 0)
		init_die("a pipe: %s", strerror(errno));
	child = fork();
	if (child < 0)
		init_die("starting a process: %s", strerror(errno));
	if (child == 0)
		become_command(report[1]);
	close(report[1]);
	if (command.apart)
		forget_variables();
	int why = 0;
	ssize_t n;
	while ((n = read(report[0], &why, sizeof(why))) < 0 && errno == EINTR)
		;
	close(report[0]);
	if (n == sizeof(why))
		could_not_execute(why);
	init_control_send(KH_INIT_STARTED, (int)child, -1);
	let_go_of_stdio();
}

bool init_command_signal(int signo)
{
	return child > 0 && signo > 0 && signo < NSIG && kill(-child, signo) == 0;
}

void init_command_typed(int signo)
{
	pid_t group = command.own_tty ? tcgetpgrp(STDIN_FILENO) : -1;
	if (group > 1 && signo > 0 && signo < NSIG)
		kill(-group, signo);
}

static long passed_ms(const struct timespec *from, const struct timespec *to)
{
	return (to->tv_sec - from->tv_sec) * 1000 + (to->tv_nsec - from->tv_nsec) / 1000000;
}

static bool is_alone(void)
{
	return kill(-1, 0) != 0 && errno == ESRCH;
}

/*
 * What the command had sent when it ended is still delivered, as a kernel would do: every other
 * process is ended, which closes its connections, and the relay may finish. What waits for an
 * answer has nobody left to give it to.
 *
 * The kernel closes a killed server's connections as if the server had closed them. So the others
 * are only stopped as long as a published connection may still show the end that the command gave
 * it; an end that comes after they were killed is not told to be one.
 */
static void end_others(const struct timespec *now)
{
	bool alone = is_alone();
	if (!alone && init_relay_serves() && passed_ms(&moved_at, now) < OWN_END_MS) {
		kill(-1, SIGSTOP);
		return;
	}
	if (!alone)
		init_relay_cut();
	kill(-1, SIGKILL);
	others_ended = true;
}

static void end_with(int status)
{
	init_control_send(KH_INIT_EXITED, status, -1);
	exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	clock_gettime(CLOCK_MONOTONIC, &ended_at);
	moved_at = ended_at;
	child = -1;
	end_others(&ended_at);
}

/* What moves is given time, and what does not move less of it. */
bool init_command_finish(void)
{
	static unsigned long moved;
	if (exit_status < 0)
		return false;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (init_pair_moved() != moved) {
		moved = init_pair_moved();
		moved_at = now;
	}
	if (!others_ended)
		end_others(&now);
	if (!init_relay_pending() || passed_ms(&moved_at, &now) >= FINISH_MS ||
	    passed_ms(&ended_at, &now) >= FINISH_MOST_MS)
		_exit(exit_status);
	return true;
}

/* What leads a session of its own hears none of the terminal's wishes that it stop, since there is
 * nobody who would let it go on. In this one it does, so it is let. */
static void go_on_after(int signo)
{
	if (signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU)
		kill(-child, SIGCONT);
}

/* Every orphan of the sandbox becomes a child of PID 1. So many a turn: who makes orphans all the
 * time keeps nothing else waiting. */
static void reap(void)
{
	unreaped = true;
	for (int i = 0; i < REAPED_A_TURN; i++) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG | (command.own_tty ? WUNTRACED : 0));
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0) {
			unreaped = false;
			return;
		}
		/* Whoever asks to be traced by its parent is not: it would wait for ever. */
		if (WIFSTOPPED(status)) {
			/* That of an exec is the tracer's alone. */
			intptr_t signo = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
			if (ptrace(PTRACE_DETACH, pid, NULL, (void *)signo) == 0)
				continue;
		}
		if (pid != child)
			continue;
		if (WIFSTOPPED(status))
			go_on_after(WSTOPSIG(status));
		else
			end_with(status);
	}
}

static void signalled(struct init_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	static struct signalfd_siginfo infos[NSIG];
	ssize_t n = read(signal_fd, infos, sizeof(infos));
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(infos[0]); i++) {
		if (infos[i].ssi_signo == SIGCHLD)
			unreaped = true;
		else
			(void)init_command_signal((int)infos[i].ssi_signo);
	}
}

bool init_command_turn(void)
{
	if (unreaped)
		reap();
	return unreaped;
}

void init_command_prepare(const struct init_command *wanted)
{
	command = *wanted;
	sigset_t all;
	sigfillset(&all);
	/* Faults of this program stay faults. */
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	if (sigprocmask(SIG_BLOCK, &all, &mask_before) != 0)
		init_die("blocking signals: %s", strerror(errno));
	signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	signal_watch.ready = signalled;
	if (signal_fd < 0 || !init_watch_add(signal_fd, &signal_watch, EPOLLIN))
		init_die("watching signals: %s", strerror(errno));
	if (wants_terminal() && !command.own_tty) {
		open_terminal();
		init_control_send(KH_INIT_TERMINAL, 0, terminal_fd);
		if (init_control_present())
			return; /* until GO */
	}
	init_command_go();
}
