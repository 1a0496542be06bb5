/* store_tool.c - one command of a container program, run to its end */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/slice.h>

#include "store.h"

enum { SAID_BYTES = 2048 };

static _Noreturn void become(char *const *argv, int input, int out, int complaints)
{
	sigset_t none;
	sigemptyset(&none);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(input >= 0 ? input : null, 0) == 0 && dup2(out, 1) == 1 &&
	    dup2(complaints, 2) == 2 && syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		execv(argv[0], argv);
	_exit(127);
}

static bool take_all(int fd, struct kh_buf *out)
{
	return lseek(fd, 0, SEEK_SET) == 0 && kh_file_read_fd(fd, out, NULL);
}

static bool complain(const char *name, int complaints, struct kh_err *err)
{
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, SAID_BYTES);
	(void)take_all(complaints, &said);
	struct kh_slice text = kh_buf_view(&said);
	while (text.len > 0 && text.ptr[text.len - 1] == '\n')
		text.len--;
	const char *line = text.len > 0 ? kh_esc(text) : "failed, and does not say why";
	if (strstr(line, "annot connect to the Docker daemon") ||
	    strstr(line, "ermission denied while trying to connect"))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox: no daemon of %s's answers (start it: `systemctl "
				  "start docker`; be in its group: `usermod -aG docker USER`): %s",
				  name, line);
	return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s: %s", name, line);
}

bool kh_store_tool(char *const *argv, int input, struct kh_buf *out, struct kh_err *err)
{
	kh_auto_close int output = memfd_create("keyhole-output", MFD_CLOEXEC);
	kh_auto_close int complaints = memfd_create("keyhole-complaints", MFD_CLOEXEC);
	if (output < 0 || complaints < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "memory for a file");
	pid_t pid = fork();
	if (pid == 0)
		become(argv, input, output, complaints);
	int status = -1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	const char *slash = strrchr(argv[0], '/');
	if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return complain(slash ? slash + 1 : argv[0], complaints, err);
	return !out || take_all(output, out) ||
	       kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s said too much", argv[0]);
}
