/* store_tool.c - one command of a container program, run to its end */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/config.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/slice.h>

#include "store.h"

enum { SAID_BYTES = 2048, LOOK_MS = 50 };

static _Noreturn void become(char *const *argv, int input, int out, int complaints)
{
	sigset_t none;
	sigemptyset(&none);
	/* So that it can be ended with what it has started; and nobody waits for it without us. */
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
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

/* One of those that `keyhole run` holds back until there is somebody to forward them to. Whoever
 * holds back all of them (the watcher) is not to be interrupted. */
static bool is_interrupted(void)
{
	static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	sigset_t pending, blocked;
	bool found = false;
	sigemptyset(&pending);
	(void)sigpending(&pending);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		struct sigaction action;
		found = found ||
			(sigismember(&pending, ending[i]) == 1 &&
			 sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN);
	}
	return found && sigprocmask(SIG_SETMASK, NULL, &blocked) == 0 &&
	       sigismember(&blocked, SIGUSR1) == 0;
}

/* Return: false when it was ended, and err says why. */
static bool wait_for(pid_t pid, const char *name, uint64_t most_ms, int *status, struct kh_err *err)
{
	kh_auto_close int ended = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = ended, .events = POLLIN };
	bool ok = true;
	/* Also without that descriptor, which only wakes us earlier. */
	for (uint64_t passed = 0; ok && waitpid(pid, status, WNOHANG) == 0; passed += LOOK_MS) {
		char text[KH_VALUE_BYTES];
		if (poll(&p, 1, LOOK_MS) > 0)
			continue;
		if (is_interrupted())
			ok = kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: was interrupted");
		else if (passed >= most_ms)
			ok = kh_err_set(
				err, KH_ERR_SYSTEM,
				"the sandbox: %s has not answered in %s and was ended (does "
				"its daemon hang? `systemctl restart %s`)",
				name, kh_value_show_duration(most_ms, text), name);
	}
	if (ok)
		return true;
	(void)kill(-pid, SIGKILL);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return false;
}

bool kh_store_tool(char *const *argv, int input, uint64_t most_ms, struct kh_buf *out,
		   struct kh_err *err)
{
	kh_auto_close int output = memfd_create("keyhole-output", MFD_CLOEXEC);
	kh_auto_close int complaints = memfd_create("keyhole-complaints", MFD_CLOEXEC);
	if (output < 0 || complaints < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "memory for a file");
	pid_t pid = fork();
	if (pid == 0)
		become(argv, input, output, complaints);
	int status = -1;
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
	if (pid < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting %s", name);
	if (!wait_for(pid, name, most_ms, &status, err))
		return false;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return complain(name, complaints, err);
	return !out || take_all(output, out) ||
	       kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s said too much", argv[0]);
}
