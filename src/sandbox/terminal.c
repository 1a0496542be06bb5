/*
 * terminal.c - relays between the caller's terminal and one made inside the sandbox
 *
 * The agent never holds the caller's terminal: it gets one of the sandbox's own devpts, and bytes
 * are copied between the two. The outer terminal is in raw mode meanwhile, so Ctrl-C is an ordinary
 * byte that becomes a signal inside. The outer terminal interprets the escape sequences that the
 * agent sends, so at the end the terminal's state is reset (screen.h) and its modes are restored.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>
#include <keyhole/base/screen.h>

#include "sandbox_internal.h"

enum {
	STUCK_MS = 2000,
	FINISH_MS = 10000,
};

void kh_terminal_init(struct kh_terminal *terminal)
{
	memset(terminal, 0, sizeof(*terminal));
	terminal->master = -1;
	terminal->out = STDOUT_FILENO;
}

void kh_terminal_resize(const struct kh_terminal *terminal)
{
	struct winsize size;
	if (terminal->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		(void)ioctl(terminal->master, TIOCSWINSZ, &size);
}

/* An open file of our own: others who have the caller's would have its flags as well. Another
 * user's terminal, as below su, can't be opened. */
static int open_outer(void)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", STDOUT_FILENO);
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? STDOUT_FILENO : fd;
}

/* Called with SIGTTOU blocked: a background process may set the terminal then. */
bool kh_terminal_attach(struct kh_terminal *terminal, int master, struct kh_err *err)
{
	terminal->master = master;
	struct termios outer;
	if (tcgetattr(STDIN_FILENO, &outer) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the terminal");
	// NOLINTNEXTLINE(clang-analyzer-unix.MallocSizeof): opaque in the header
	terminal->termios = malloc(sizeof(outer));
	if (!terminal->termios)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	memcpy(terminal->termios, &outer, sizeof(outer));
	/* The inner one begins as the outer one was. */
	if (tcsetattr(master, TCSANOW, &outer) != 0 || !kh_file_set_nonblock(master, true))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the sandbox's terminal");
	kh_terminal_resize(terminal);
	cfmakeraw(&outer);
	if (tcsetattr(STDIN_FILENO, TCSANOW, &outer) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the terminal");
	terminal->out = open_outer();
	terminal->raw = true;
	terminal->input_open = true;
	return true;
}

short kh_terminal_wants(const struct kh_terminal *t, int which)
{
	if (t->master < 0)
		return 0;
	if (which == KH_TERMINAL_IN)
		return t->input_open && t->to_master_len < sizeof(t->to_master) ? POLLIN : 0;
	if (which == KH_TERMINAL_OUT)
		return t->to_outer_len > 0 ? POLLOUT : 0;
	return (short)((t->to_outer_len < sizeof(t->to_outer) ? POLLIN : 0) |
		       (t->to_master_len > 0 ? POLLOUT : 0));
}

enum moved { MOVED, NOTHING, ENDED };

static enum moved fill(int fd, char *buffer, size_t *len, size_t room)
{
	ssize_t n = read(fd, buffer + *len, room - *len);
	if (n > 0) {
		*len += (size_t)n;
		return MOVED;
	}
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return NOTHING;
	return ENDED;
}

static enum moved drain(int fd, char *buffer, size_t *len)
{
	ssize_t n = write(fd, buffer, *len);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? NOTHING : ENDED;
	memmove(buffer, buffer + n, *len - (size_t)n);
	*len -= (size_t)n;
	return MOVED;
}

bool kh_terminal_move(struct kh_terminal *t, short in, short out, short master)
{
	if (t->master < 0)
		return true;
	if ((in & (POLLIN | POLLHUP | POLLERR)) && t->input_open &&
	    t->to_master_len < sizeof(t->to_master) &&
	    fill(STDIN_FILENO, t->to_master, &t->to_master_len, sizeof(t->to_master)) == ENDED)
		t->input_open = false;
	if ((master & POLLOUT) && t->to_master_len > 0 &&
	    drain(t->master, t->to_master, &t->to_master_len) == ENDED)
		t->to_master_len = 0;
	bool open = true;
	if ((master & (POLLIN | POLLHUP | POLLERR)) && t->to_outer_len < sizeof(t->to_outer))
		open = fill(t->master, t->to_outer, &t->to_outer_len, sizeof(t->to_outer)) != ENDED;
	if ((out & (POLLOUT | POLLERR | POLLHUP)) && t->to_outer_len > 0 &&
	    drain(t->out, t->to_outer, &t->to_outer_len) == ENDED)
		t->to_outer_len = 0;
	return open;
}

/* One that was stopped (Ctrl-S) takes nothing, and is not waited for longer than this. */
static bool takes_more(const struct kh_terminal *t)
{
	struct pollfd p = { .fd = t->out, .events = POLLOUT };
	return poll(&p, 1, STUCK_MS) > 0;
}

void kh_terminal_finish(struct kh_terminal *t)
{
	/* All of the sandbox is gone: what it had written is in the master, and then EIO. That it
	 * is gone, and that somebody reads, is not relied on. */
	uint64_t end_ms = kh_clock_mono_ms() + FINISH_MS;
	while (t->master >= 0 && kh_clock_mono_ms() < end_ms) {
		if (t->to_outer_len > 0 && !takes_more(t))
			break;
		if (t->to_outer_len > 0 && drain(t->out, t->to_outer, &t->to_outer_len) == ENDED)
			break;
		if (t->to_outer_len < sizeof(t->to_outer) &&
		    fill(t->master, t->to_outer, &t->to_outer_len, sizeof(t->to_outer)) != MOVED &&
		    t->to_outer_len == 0)
			break;
	}
	if (t->master >= 0)
		close(t->master);
	t->master = -1;
	if (t->raw) {
		struct termios outer;
		memcpy(&outer, t->termios, sizeof(outer));
		kh_screen_reset(STDOUT_FILENO);
		/* What is there now was meant for the command: keys that it did not take, and what
		 * the terminal answers to it. A shell would take that for its own. TCSAFLUSH would
		 * wait for a terminal that was stopped. */
		(void)tcflush(STDIN_FILENO, TCIFLUSH);
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &outer);
		kh_log_reset_screen();
	}
	t->raw = false;
	if (t->out != STDOUT_FILENO)
		close(t->out);
	t->out = STDOUT_FILENO;
	free(t->termios);
	t->termios = NULL;
}
