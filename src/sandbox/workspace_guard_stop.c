/*
 * workspace_guard_stop.c - keeps names protected while the launcher is stopped (Ctrl-Z)
 *
 * The launcher stops with the shell's job, but nothing makes sure that all of the sandbox does: a
 * process in a session of its own goes on, and a timer continues a stopped one. So a child of the
 * launcher guards meanwhile. If it can't protect a name again, it wakes the launcher, which ends
 * the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>

#include "sandbox_internal.h"

enum { WAKE_MS = 50 };

/* In the child, until the launcher goes on or has ended. */
static void guard_meanwhile(struct kh_guard *guard, pid_t init, pid_t launcher, int alive)
{
	struct kh_err err = KH_ERR_INIT;
	bool holds = true;
	(void)setsid();
	for (;;) {
		struct pollfd p[] = { { alive, POLLIN, 0 }, { holds ? guard->fd : -1, POLLIN, 0 } };
		int wait_ms = !holds ? WAKE_MS : kh_guard_waits(guard) ? 0 : -1;
		if (poll(p, 2, wait_ms) < 0 && errno != EINTR)
			holds = false;
		if (p[0].revents)
			_exit(holds ? 0 : 1);
		holds = holds && kh_guard_look(guard, init, &err);
		/* It may not have stopped yet. */
		if (!holds && getppid() == launcher)
			(void)kill(launcher, SIGCONT);
	}
}

bool kh_guard_stop(struct kh_guard *guard, pid_t init, struct kh_err *err)
{
	int ends[2];
	pid_t launcher = getpid();
	if (pipe2(ends, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	pid_t pid = fork();
	if (pid == 0) {
		close(ends[1]);
		guard_meanwhile(guard, init, launcher, ends[0]);
	}
	int failed = errno;
	close(ends[0]);
	kh_auto_close int alive = ends[1];
	if (pid < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, failed, "a process");
	(void)raise(SIGSTOP);
	kh_cleanup_close(&alive);
	int status = -1;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* What the child has heard, we have not. */
	kh_guard_touch_all(guard);
	while (kh_guard_waits(guard))
		if (!kh_guard_look(guard, init, err))
			return false;
	return status == 0 ||
	       kh_err_set(err, KH_ERR_SYSTEM,
			  "a protected file was replaced on the host while this was stopped, and "
			  "could not be protected again; the sandbox was ended");
}
