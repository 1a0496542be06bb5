/*
 * pump.c - carries bytes between a regular file and a pipe, in a process of its own
 *
 * For engines whose kernel keeps the position in a file to itself (gvisor): what is appended would
 * be written over the file's beginning. A pipe has no position.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/file.h>

#include "sandbox_internal.h"

enum { CHUNK_BYTES = 64 * 1024 };

static _Noreturn void carry(int from, int to, pid_t parent)
{
	static char chunk[CHUNK_BYTES];
	/* Ctrl-C is the command's, and what it says then is to arrive. */
	(void)setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent ||
	    dup2(from, 0) < 0 || dup2(to, 1) < 0)
		_exit(1);
	(void)syscall(SYS_close_range, 2u, ~0u, 0u);
	ssize_t n;
	while ((n = read(0, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && !kh_file_write_all(1, kh_slice_of(chunk, (size_t)n), NULL))
			_exit(1);
	_exit(n == 0 ? 0 : 1);
}

bool kh_pump_begin(struct kh_pump *pump, int *fd, bool input, struct kh_err *err)
{
	struct stat st;
	if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode))
		return true;
	int pipe_fds[2];
	if (pipe2(pipe_fds, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	pid_t parent = getpid();
	pump->pid = fork();
	if (pump->pid == 0)
		carry(input ? *fd : pipe_fds[0], input ? pipe_fds[1] : *fd, parent);
	pump->input = input;
	close(pipe_fds[input ? 1 : 0]);
	close(*fd);
	*fd = pipe_fds[input ? 0 : 1];
	return pump->pid > 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting a process");
}

void kh_pump_end(struct kh_pump *pump)
{
	if (pump->pid <= 0)
		return;
	/* What nobody reads any more nobody need be given. */
	if (pump->input)
		(void)kill(pump->pid, SIGKILL);
	while (waitpid(pump->pid, NULL, 0) < 0 && errno == EINTR)
		;
	pump->pid = -1;
}
