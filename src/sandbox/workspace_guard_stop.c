/*
 * workspace_guard_stop.c - keeps names protected while the launcher is stopped (Ctrl-Z)
 *
 * The launcher stops with the shell's job, but nothing makes sure that all of the sandbox does: a
 * process in a session of its own goes on, and a timer continues a stopped one. So a child of the
 * launcher guards meanwhile. If it can't protect a name again, it wakes the launcher, which ends
 * the sandbox.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/sandbox/child.h>

#include "sandbox_internal.h"

enum { WAKE_MS = 50, END_MS = 2000 };

struct stopped {
	struct kh_workspace_guard *guard;
	pid_t init, launcher;
};

/* In the child, until the launcher goes on or has ended. */
static int guard_meanwhile(void *arg, int alive)
{
	const struct stopped *stopped = arg;
	struct kh_err err = KH_ERR_INIT;
	bool holds = true;
	for (;;) {
		struct pollfd p[] = { { alive, POLLIN, 0 },
				      { holds ? stopped->guard->fd : -1, POLLIN, 0 } };
		int wait_ms = holds ? kh_workspace_guard_wait_ms(stopped->guard) : WAKE_MS;
		if (poll(p, 2, wait_ms) < 0 && errno != EINTR)
			holds = false;
		if (p[0].revents)
			return holds ? 0 : 1;
		holds = holds && kh_workspace_guard_look(stopped->guard, stopped->init, &err);
		/* It may not have stopped yet. */
		if (!holds && getppid() == stopped->launcher)
			(void)kill(stopped->launcher, SIGCONT);
	}
}

bool kh_workspace_guard_stop(struct kh_workspace_guard *guard, pid_t init, struct kh_err *err)
{
	struct stopped stopped = { guard, init, getpid() };
	kh_auto_close int alive = -1;
	pid_t pid;
	if (!kh_child_fork(guard_meanwhile, &stopped, &pid, &alive, err))
		return false;
	(void)raise(SIGSTOP);
	kh_cleanup_close(&alive);
	int status = kh_child_status(pid, END_MS);
	/* What the child has heard, we have not; and if it has not lived, nobody has. */
	if (status != 0)
		kh_workspace_guard_doubt(guard);
	kh_workspace_guard_touch_all(guard);
	/* Each of them twice at most: who goes on replacing files doesn't keep us from signals. */
	for (size_t i = 0; i < 2 * guard->view->n; i++) {
		int wait_ms = kh_workspace_guard_wait_ms(guard);
		if (wait_ms < 0)
			break;
		(void)poll(NULL, 0, wait_ms);
		if (!kh_workspace_guard_look(guard, init, err))
			return false;
	}
	return status == 0 ||
	       kh_err_set(err, KH_ERR_SYSTEM,
			  "a protected file was replaced on the host while this was stopped, and "
			  "could not be protected again; the sandbox was ended");
}
