/*
 * pump.c - copies bytes between a descriptor of the caller and a pipe, in a process of its own
 *
 * It is used for descriptors that the command must not hold itself (stdio.c). An input pump reads
 * nothing before the command runs: if the command never runs, the caller's input is still there for
 * the next program. An output pump goes on until everything is written; after the command has
 * ended, it waits at most KH_LIMIT_SANDBOX_OUTPUT_MS for a reader that takes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "sandbox_internal.h"

enum { CHUNK_BYTES = 64 * 1024 };
enum { FROM, TO, START }; /* the descriptors of the process */

/* Whoever reads can take some. Return: false where nobody does any more. */
static bool takes_some(void)
{
	struct pollfd p[] = { { .fd = TO, .events = POLLOUT }, { .fd = FROM } };
	for (;;) {
		/* A pipe that nobody writes to any more hangs up, whatever is still in it. */
		bool gone = (p[1].revents & POLLHUP) != 0;
		int n = poll(p, gone ? 1 : 2, gone ? KH_LIMIT_SANDBOX_OUTPUT_MS : -1);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		if (n > 0 && p[0].revents)
			return true;
	}
}

/* No more than there is room for, so that none of it is waited for in the kernel. */
static ssize_t put_some(const char *bytes, size_t len, mode_t type)
{
	if (S_ISSOCK(type))
		return send(TO, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* What can be written to at all takes so much at once. */
	bool whole = S_ISREG(type) || len < PIPE_BUF;
	return write(TO, bytes, whole ? len : PIPE_BUF);
}

/* To the command: it takes what it wants, and when it is gone this process is ended. */
static bool put_input(const char *bytes, size_t len)
{
	return kh_file_write_all(TO, kh_slice_of(bytes, len), NULL);
}

static bool put_output(const char *bytes, size_t len, mode_t type)
{
	while (len > 0) {
		if (!takes_some())
			return false;
		ssize_t n = put_some(bytes, len, type);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		}
	}
	return true;
}

static bool wait_for_bytes(void)
{
	struct pollfd p = { .fd = FROM, .events = POLLIN };
	return poll(&p, 1, -1) > 0 || errno == EINTR;
}

static _Noreturn void carry(int from, int to, int start_pipe, bool input, pid_t parent)
{
	static char chunk[CHUNK_BYTES];
	/* Ctrl-C is the command's, and what it says then is to arrive. */
	(void)setsid();
	(void)signal(SIGPIPE, SIG_IGN);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent ||
	    (start_pipe = fcntl(start_pipe, F_DUPFD, START + 1)) < 0 ||
	    (from = fcntl(from, F_DUPFD, START + 1)) < 0 ||
	    (to = fcntl(to, F_DUPFD, START + 1)) < 0 || dup2(from, FROM) < 0 || dup2(to, TO) < 0 ||
	    dup2(start_pipe, START) < 0)
		_exit(1);
	(void)syscall(SYS_close_range, START + 1u, ~0u, 0u);
	ssize_t n;
	char opened;
	struct stat st;
	if (fstat(TO, &st) != 0)
		_exit(1);
	while (input && (n = read(START, &opened, 1)) != 1)
		if (n == 0 || errno != EINTR)
			_exit(1);
	while ((n = read(FROM, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EAGAIN && wait_for_bytes())
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || !(input ? put_input(chunk, (size_t)n)
				     : put_output(chunk, (size_t)n, st.st_mode)))
			_exit(1);
	}
	_exit(0);
}

bool kh_pump_begin(struct kh_pump *pump, int fd, bool input, int *end, struct kh_err *err)
{
	int ends[2], start_pipe[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	if (pipe2(start_pipe, O_CLOEXEC) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
		close(ends[0]);
		close(ends[1]);
		return false;
	}
	pid_t parent = getpid();
	pump->pid = fork();
	if (pump->pid == 0) {
		close(ends[input ? 0 : 1]);
		close(start_pipe[1]);
		carry(input ? fd : ends[0], input ? ends[1] : fd, start_pipe[0], input, parent);
	}
	pump->input = input;
	pump->start_pipe = start_pipe[1];
	close(start_pipe[0]);
	close(ends[input ? 1 : 0]);
	*end = ends[input ? 0 : 1];
	return pump->pid > 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting a process");
}

void kh_pump_end(struct kh_pump *pump)
{
	if (pump->pid <= 0)
		return;
	/* What nobody reads any more nobody need be given. */
	if (pump->input)
		(void)kill(pump->pid, SIGKILL);
	/* One that somebody has stopped would be waited for without end. */
	(void)kill(pump->pid, SIGCONT);
	while (waitpid(pump->pid, NULL, 0) < 0 && errno == EINTR)
		;
	pump->pid = -1;
	close(pump->start_pipe);
	pump->start_pipe = -1;
}
