/*
 * launch.c - starts the engine's program, and supervises it until the end
 *
 * launch_child.c runs between fork and exec; launch_end.c derives the result from the end.
 *
 * Then there is one poll loop: signals, the control socket, the engine's standard error, its end,
 * and the terminal. Each gets a bounded share of a turn, so that a flood on one can't keep the
 * launcher from the others and from its timers. Messages on the control socket come from inside the
 * sandbox. They are believed only about what the sandbox may decide: its own exit status and its
 * own terminal.
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

#include <keyhole/base/file.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/screen.h>

#include "launch_internal.h"
#include "rendezvous.h"
#include "outer_namespace_internal.h"

/* More than a socket holds at a time: whoever still writes to it is no keyhole-init of ours. */
enum { LAST_MESSAGES = 1024 };

/* ---- to keyhole-init ---- */

static void send_message(struct kh_running *r, uint32_t type, int value)
{
	struct kh_init_message message = { .type = type, .value = value };
	(void)!send(r->launch->control, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool ends(int signo)
{
	return signo == SIGHUP || signo == SIGINT || signo == SIGQUIT || signo == SIGTERM;
}

/* By force, with whatever it has started itself and that has not gone a way of its own. */
static void end_now(const struct kh_running *r)
{
	if (r->pid <= 0)
		return;
	(void)kill(-r->pid, SIGKILL);
	(void)kill(r->pid, SIGKILL);
}

/* Nothing runs yet, or nobody tells it: the command ends by this signal. */
static void end_by(struct kh_running *r, int signo)
{
	r->exited = true;
	r->command_status = signo;
	end_now(r);
}

/* To the command. What ends is to be passed on soon: keyhole-init may not be up, and its engine
 * hang. */
static void send_signal(struct kh_running *r, int signo)
{
	if (ends(signo) && !r->exited && r->due_ms[KH_CLOCK_HEARD] < 0) {
		r->unheard = signo;
		kh_launch_clock_start(r, KH_CLOCK_HEARD, KH_LIMIT_SANDBOX_HEARD_MS);
	}
	if (r->held && r->launch->engine->connects && ends(signo))
		end_by(r, signo);
	else if (r->held)
		sigaddset(&r->late, signo);
	else
		send_message(r, KH_INIT_SIGNAL, signo);
}

/* What came before keyhole-init listened. */
static void send_late(struct kh_running *r)
{
	for (size_t i = 0; i < KH_LAUNCH_FORWARDED; i++)
		if (sigismember(&r->late, kh_launch_forwarded[i]) == 1)
			send_signal(r, kh_launch_forwarded[i]);
}

/* Return: the engine's program runs (its image has been replaced), or why not. */
static bool start(struct kh_running *r, struct kh_err *err)
{
	int report[2], complaints[2];
	if (pipe2(report, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	if (pipe2(complaints, O_CLOEXEC) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
		close(report[0]);
		close(report[1]);
		return false;
	}
	/* Some open it by its name, as the uid that they are. */
	if (r->launch->idmap)
		(void)!fchown(complaints[1], r->launch->idmap->uid, r->launch->idmap->gid);
	pid_t parent = getpid();
	r->pid = fork();
	if (r->pid == 0)
		kh_launch_child(r->launch, parent, report[1], complaints[1]);
	close(report[1]);
	close(complaints[1]);
	if (r->launch->listener < 0)
		close(kh_steal_fd(&r->launch->control_peer));
	for (int i = 0; i < 2; i++)
		kh_cleanup_close(&r->launch->uplink[i]);
	kh_launch_watch_control(r->launch->control);
	r->complaints = complaints[0];
	(void)kh_file_set_nonblock(r->complaints, true);
	if (r->pid < 0) {
		close(report[0]);
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting the sandbox");
	}
	r->ended = (int)syscall(SYS_pidfd_open, r->pid, 0);
	r->report = report[0];
	(void)kh_file_set_nonblock(r->report, true);
	kh_launch_clock_start(r, KH_CLOCK_START, r->launch->start_ms);
	return r->ended >= 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "watching the sandbox");
}

/* ---- while it runs ---- */

/* The child is the program by now, or says why it could not be. */
static void take_report(struct kh_running *r)
{
	struct kh_err said;
	ssize_t n = read(r->report, &said, sizeof(said));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	close(kh_steal_fd(&r->report));
	if (n != sizeof(said) || r->err.code != KH_ERR_NONE)
		return;
	r->err = said;
	kh_err_wrap(&r->err, "the sandbox");
}

/* Where limits are for the init alone, it is put into its groups before anything runs. */
static void take_ready(struct kh_running *r, pid_t init)
{
	if (!r->held)
		return;
	if (init <= 0 || !kh_bounds_take(r->launch->limits, init, &r->err)) {
		end_now(r);
		return;
	}
	r->held = false;
	send_message(r, KH_INIT_GO, 0);
	send_late(r);
}

/* keyhole-init connects, where it inherited nothing. */
static void accept_init(struct kh_running *r)
{
	struct kh_launch *launch = r->launch;
	bool met;
	bool ok = kh_rendezvous_hand_over(launch->listener, launch->control_peer, launch->stdio,
					  &met, &r->err);
	if (ok && met) {
		launch->listener = -1;
		close(kh_steal_fd(&launch->control_peer));
		r->held = false;
		send_late(r);
	}
	if (!ok)
		end_now(r);
}

static void take_terminal(struct kh_running *r, int fd)
{
	bool wanted = r->launch->tty && r->terminal.master < 0 && !r->started;
	if (fd < 0 || !wanted || !isatty(fd)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (kh_terminal_attach(&r->terminal, fd, &r->err))
		send_message(r, KH_INIT_GO, 0);
	else
		end_now(r);
}

static void take_started(struct kh_running *r, pid_t sender)
{
	struct kh_launch *launch = r->launch;
	/* The one that the engine handed in: it was not to be touched before. */
	int master = kh_steal_fd(&launch->pty_master);
	if (master >= 0 && !kh_terminal_attach(&r->terminal, master, &r->err))
		end_now(r);
	r->started = launch->started = true;
	if (launch->start_pipe >= 0)
		(void)!write(launch->start_pipe, "", 1);
	kh_launch_clock_stop(r, KH_CLOCK_START);
	/* Where it is a kernel that says so, that sees no mounts. */
	launch->guard->served = launch->engine->own_kernel;
	if (r->init < 0)
		r->init = launch->guard->served ? kh_opener_find(r->pid) : sender;
	kh_launch_note_init(r);
	if (launch->engine->called && r->oom < 0)
		r->oom = kh_cgroup_watch_oom(sender);
}

static void take_no_exec(struct kh_running *r, int why)
{
	if (r->started)
		return;
	r->no_exec = true;
	kh_launch_clock_stop(r, KH_CLOCK_START);
	kh_launch_clock_stop(r, KH_CLOCK_HEARD);
	r->exec_errno = why;
}

static void take_exited(struct kh_running *r, int status)
{
	if (!r->started || r->exited)
		return;
	r->exited = true;
	r->command_status = status;
	/* That group is gone with the init. */
	r->oom_kills = kh_cgroup_oom_kills_at(r->oom);
	kh_launch_clock_stop(r, KH_CLOCK_HEARD);
}

/* All but TERMINAL. */
static void take(struct kh_running *r, const struct kh_init_message *message, pid_t sender)
{
	switch ((enum kh_init_type)message->type) {
	case KH_INIT_READY:
		take_ready(r, sender);
		break;
	case KH_INIT_STARTED:
		take_started(r, sender);
		break;
	case KH_INIT_NO_EXEC:
		take_no_exec(r, message->value);
		break;
	case KH_INIT_EXITED:
		take_exited(r, message->value);
		break;
	case KH_INIT_HEARD:
		if (message->value == r->unheard)
			kh_launch_clock_stop(r, KH_CLOCK_HEARD);
		break;
	case KH_INIT_TERMINAL:
	case KH_INIT_GO:
	case KH_INIT_SIGNAL:
	case KH_INIT_PUBLISHED:
	case KH_INIT_TYPED:
	case KH_INIT_MET:
	case KH_INIT_LINKED:
		break;
	}
}

static bool receive(struct kh_running *r)
{
	struct kh_init_message message = { 0 };
	pid_t sender;
	int fd;
	ssize_t n = kh_launch_receive(r->launch->control, &message, &fd, &sender);
	if (n < 0)
		return errno == EINTR;
	if (n == sizeof(message) && message.type == KH_INIT_TERMINAL) {
		take_terminal(r, fd);
		return true;
	}
	if (fd >= 0)
		close(fd);
	if (n != sizeof(message))
		return n > 0;
	take(r, &message, sender);
	return true;
}

/* Once: whoever goes on complaining keeps the launcher from nothing else. Return: there may be
 * more.
 */
static bool listen_to_complaints(struct kh_running *r)
{
	char rest[4096];
	size_t room = sizeof(r->complaint) - 1 - r->complaint_len;
	ssize_t n = read(r->complaints, room ? r->complaint + r->complaint_len : rest,
			 room ? room : sizeof(rest));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return errno == EINTR;
	if (n <= 0) {
		close(r->complaints);
		r->complaints = -1;
		return false;
	}
	if (room)
		r->complaint_len += (size_t)n;
	return true;
}

static bool guards(const struct kh_running *r)
{
	return r->started && r->launch->guard->fd >= 0 && r->err.code == KH_ERR_NONE;
}

static bool stop(struct kh_running *r)
{
	if (guards(r))
		return kh_workspace_guard_stop(r->launch->guard, r->init, &r->err);
	return raise(SIGSTOP) == 0;
}

static void signalled(struct kh_running *r)
{
	/* Each of them waits once, however often it was sent. */
	struct signalfd_siginfo infos[NSIG];
	ssize_t n = read(r->signals, infos, sizeof(infos));
	for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(infos[0]); i++) {
		int signo = (int)infos[i].ssi_signo;
		if (signo == SIGWINCH) {
			/* Without a terminal of its own, the command may have set the caller's. */
			if (r->launch->tty)
				kh_terminal_resize(&r->terminal);
			else
				kh_screen_doubt_columns();
		} else if (signo == SIGTSTP) {
			/* The command leads a session of its own, where SIGTSTP is not heard. */
			send_message(r, KH_INIT_SIGNAL, SIGSTOP);
			if (!stop(r))
				end_now(r);
			if (r->due_ms[KH_CLOCK_START] >= 0)
				kh_launch_clock_start(r, KH_CLOCK_START, r->launch->start_ms);
			send_message(r, KH_INIT_SIGNAL, SIGCONT);
		} else {
			if (signo == SIGCONT && guards(r))
				kh_workspace_guard_doubt(r->launch->guard);
			send_signal(r, signo);
		}
	}
}

/* ---- the time that it has ---- */

/* First it is asked to end, and what doesn't is ended. What keyhole-init has said (`unread`: there
 * is more) may have been said in time: also the launcher can have been stopped for a while. */
static void look_at_clock(struct kh_running *r, bool unread)
{
	/* Without keyhole-init there is nothing to wait for, but for a program that misses it. */
	if (kh_launch_clock_due(r, KH_CLOCK_GONE))
		end_now(r);
	if (!unread && kh_launch_clock_due(r, KH_CLOCK_HEARD))
		end_by(r, r->unheard);
	if (!unread && kh_launch_clock_due(r, KH_CLOCK_START)) {
		kh_launch_too_slow(r);
		end_now(r);
	}
	if (!kh_launch_clock_due(r, KH_CLOCK_TIMEOUT))
		return;
	bool again = r->timed_out || !r->started;
	r->timed_out = true;
	if (again) {
		end_now(r);
		return;
	}
	kh_launch_clock_start(r, KH_CLOCK_TIMEOUT, KH_LIMIT_SANDBOX_GRACE_MS);
	send_signal(r, SIGTERM);
}

static bool awaits_init(const struct kh_running *r)
{
	return r->report < 0 && r->err.code == KH_ERR_NONE;
}

static int wait_ms(const struct kh_running *r)
{
	int left = kh_launch_clock_left(r);
	int guard = guards(r) ? kh_workspace_guard_wait_ms(r->launch->guard) : -1;
	return guard < 0 || (left >= 0 && left < guard) ? left : guard;
}

static void loop(struct kh_running *r)
{
	enum {
		SIGNALS,
		CONTROL,
		COMPLAINTS,
		ENDED,
		REPORT,
		RENDEZVOUS,
		GUARD,
		IN,
		OUT,
		MASTER,
		COUNT
	};
	bool control = true;
	for (;;) {
		struct pollfd p[COUNT] = {
			[SIGNALS] = { r->signals, POLLIN, 0 },
			[CONTROL] = { control ? r->launch->control : -1, POLLIN, 0 },
			[COMPLAINTS] = { r->complaints, POLLIN, 0 },
			[ENDED] = { r->ended, POLLIN, 0 },
			[REPORT] = { r->report, POLLIN, 0 },
			/* The child listens at it, but not yet, nor where it could not start. */
			[RENDEZVOUS] = { awaits_init(r) ? r->launch->listener : -1, POLLIN, 0 },
			/* What came before is still there when it has started. */
			[GUARD] = { r->started ? r->launch->guard->fd : -1, POLLIN, 0 },
			[IN] = { STDIN_FILENO, kh_terminal_wants(&r->terminal, KH_TERMINAL_IN), 0 },
			[OUT] = { r->terminal.out, kh_terminal_wants(&r->terminal, KH_TERMINAL_OUT),
				  0 },
			[MASTER] = { r->terminal.master,
				     kh_terminal_wants(&r->terminal, KH_TERMINAL_MASTER), 0 },
		};
		/* poll reports a hang-up also where nothing was asked for. */
		for (size_t i = IN; i <= MASTER; i++)
			if (!p[i].events)
				p[i].fd = -1;
		if (poll(p, COUNT, wait_ms(r)) < 0) {
			if (errno == EINTR)
				continue;
			end_now(r);
			return;
		}
		if (p[REPORT].revents)
			take_report(r);
		if (p[RENDEZVOUS].revents)
			accept_init(r);
		if (p[CONTROL].revents && !(control = receive(r)))
			kh_launch_clock_start(r, KH_CLOCK_GONE, KH_LIMIT_SANDBOX_GRACE_MS);
		look_at_clock(r, control && (p[CONTROL].revents & POLLIN));
		if (p[COMPLAINTS].revents)
			(void)listen_to_complaints(r);
		if (p[SIGNALS].revents)
			signalled(r);
		if (guards(r) &&
		    (p[GUARD].revents || kh_workspace_guard_wait_ms(r->launch->guard) == 0) &&
		    !p[ENDED].revents &&
		    !kh_workspace_guard_look(r->launch->guard, r->init, &r->err))
			end_now(r);
		/* After the inner side has ended there is nothing to move; its end follows. */
		if (!kh_terminal_move(&r->terminal, p[IN].revents, p[OUT].revents,
				      p[MASTER].revents) &&
		    r->terminal.to_outer_len == 0 && !p[ENDED].revents)
			(void)poll(&p[ENDED], 1, 20);
		if (p[ENDED].revents)
			return;
	}
}

/* ---- the whole ---- */

bool kh_launch(struct kh_launch *launch, int *status, struct kh_err *err)
{
	struct kh_running r = { .launch = launch,
				.pid = -1,
				.init = -1,
				.signals = -1,
				.complaints = -1,
				.ended = -1,
				.oom = -1,
				.init_ended = -1,
				.report = -1 };
	for (size_t i = 0; i < KH_CLOCKS; i++)
		r.due_ms[i] = -1;
	r.held = launch->engine->limits_init || launch->engine->connects;
	sigemptyset(&r.late);
	if (launch->timeout_ms)
		kh_launch_clock_start(&r, KH_CLOCK_TIMEOUT, launch->timeout_ms);
	kh_terminal_init(&r.terminal);
	sigset_t before;
	bool ok = kh_launch_watch_signals(&r, &before, err);
	if (ok)
		ok = start(&r, err);
	if (ok)
		loop(&r);
	else
		end_now(&r);
	int engine_status = 0;
	while (r.pid > 0 && waitpid(r.pid, &engine_status, 0) < 0 && errno == EINTR)
		;
	if (ok && r.report >= 0)
		take_report(&r);
	/* What was said last may still be in the socket and the pipe. */
	for (int i = 0; ok && i < LAST_MESSAGES && launch->control >= 0 && receive(&r); i++)
		;
	while (r.complaints >= 0 && r.complaint_len < sizeof(r.complaint) - 1 &&
	       listen_to_complaints(&r))
		;
	/* Where a daemon has the container, it may outlive the program: keyhole-init ends it now.
	 */
	if (launch->control >= 0)
		(void)shutdown(launch->control, SHUT_RDWR);
	kh_terminal_finish(&r.terminal);
	launch->lingers = !kh_launch_await_init(&r);
	if (ok)
		ok = kh_launch_conclude(&r, engine_status, status, err);
	const int fds[] = { r.report,
			    r.signals,
			    r.complaints,
			    r.ended,
			    r.oom,
			    launch->pty_master,
			    launch->control_peer,
			    r.init_ended,
			    launch->uplink[0],
			    launch->uplink[1] };
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ok;
}
