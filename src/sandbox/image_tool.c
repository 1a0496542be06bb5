/*
 * image_tool.c - runs a program that reads untrusted images, watched and bounded
 *
 * skopeo, umoci and tar read images, which anybody may have made. They run without a network and
 * can gain no privilege; if root started keyhole, as the sandboxes' uid in a mount namespace
 * (idmap.c), with the two folders that they need. The bytes that they write are counted while they
 * write, since a small layer can unpack to any size. Files, time and free disk space are bounded
 * too.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/close_range.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include <keyhole/config/config.h>
#include <keyhole/base/program.h>

#include "image_internal.h"

enum { LOOK_MS = 50, GRACE_MS = 5000, LAST_WORDS = 256 };

bool kh_tool_need(const char *program, struct kh_err *err)
{
	kh_auto_free char *path = kh_program_find(program);
	return path || kh_err_set(err, KH_ERR_SYSTEM,
				  "--image: %s is not on the PATH (install it: `apt install %s`, "
				  "`dnf install %s`)",
				  program, program, program);
}

/* ---- the child ---- */

static bool write_map(const char *path, unsigned id, struct kh_err *err)
{
	char text[48];
	int n = snprintf(text, sizeof(text), "%u %u 1\n", id, id);
	kh_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
	return (fd >= 0 && write(fd, text, (size_t)n) == n) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
}

/* The network goes, and with it the privilege that it takes to make it go. */
static bool lock_in(const struct kh_tool *tool, struct kh_err *err)
{
	unsigned uid = geteuid(), gid = getegid();
	if (tool->idmap)
		return (unshare(CLONE_NEWNET) == 0 ||
			kh_err_sys(err, KH_ERR_SYSTEM, errno, "a network namespace")) &&
		       kh_idmap_enter(tool->idmap, err);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return kh_err_set(err, KH_ERR_SYSTEM, "%s", KH_SANDBOX_NO_USERNS);
	kh_auto_close int groups = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
	return ((groups >= 0 && write(groups, "deny", 4) == 4) ||
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "/proc/self/setgroups")) &&
	       write_map("/proc/self/uid_map", uid, err) &&
	       write_map("/proc/self/gid_map", gid, err);
}

static bool limit(const struct kh_tool *tool)
{
	const struct rlimit file = { tool->options->most_bytes, tool->options->most_bytes };
	return setrlimit(RLIMIT_FSIZE, &file) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

static _Noreturn void be_tool(const struct kh_tool *tool, const char *path, pid_t parent, int out,
			      int report)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *home = kh_strf("HOME=%s", tool->folder);
	kh_auto_free char *temporary = kh_strf("TMPDIR=%s", tool->folder);
	char programs[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", language[] = "LANG=C.UTF-8";
	char *const variables[] = { home, temporary, programs, language, NULL };
	sigset_t none;
	sigemptyset(&none);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	kh_core_limit(); /* while this may still be root */
	bool ok = home && temporary && setpgid(0, 0) == 0 && null >= 0 &&
		  (!tool->locked_in || lock_in(tool, &err));
	ok = ok && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent &&
	     (!tool->locked_in || limit(tool)) && dup2(null, STDIN_FILENO) >= 0 &&
	     dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0 &&
	     syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) == 0 &&
	     sigprocmask(SIG_SETMASK, &none, NULL) == 0;
	/* What is left of it when it is killed lies where it is swept away. */
	ok = ok && (tool->locked_in || geteuid() != 0 || setenv("TMPDIR", tool->folder, 1) == 0);
	char **environment = kh_program_environment(tool->locked_in ? variables : NULL);
	if (ok && environment)
		execve(path, (char *const *)(uintptr_t)tool->argv, environment);
	if (err.code == KH_ERR_NONE)
		kh_err_sys(&err, KH_ERR_SYSTEM, errno, "starting %s", tool->argv[0]);
	(void)!write(report, &err, sizeof(err));
	_exit(125);
}

/* ---- watching it ---- */

struct watched {
	const struct kh_tool *tool;
	pid_t pid;
	int ended, out;
	char *said;
	size_t len;
	uint64_t files_before;
	int64_t deadline_ms;
};

static int64_t now_ms(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The end of it is what says why it ended. */
static bool listen_to(struct watched *w)
{
	char some[512];
	ssize_t n = read(w->out, some, sizeof(some));
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	size_t room = KH_TOOL_SAID_BYTES - 1, add = (size_t)n;
	if (w->len + add > room) {
		size_t keep = room - add;
		memmove(w->said, w->said + w->len - keep, keep);
		w->len = keep;
	}
	memcpy(w->said + w->len, some, add);
	w->len += add;
	w->said[w->len] = '\0';
	return true;
}

/* What it has handed to write(2) so far; 0 where the kernel doesn't count. */
static uint64_t written_by(pid_t pid)
{
	char path[48], text[512];
	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	kh_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	const char *line = strstr(text, "wchar: ");
	return line ? strtoull(line + strlen("wchar: "), NULL, 10) : 0;
}

static bool is_too_much(const struct watched *w, uint64_t written, struct kh_err *err)
{
	char size[KH_VALUE_BYTES];
	uint64_t most = w->tool->options->most_bytes;
	if (!w->tool->locked_in || written <= most)
		return false;
	kh_err_set(err, KH_ERR_USAGE,
		   "--image: unpacks to more than %s, which is the most that an image may have",
		   kh_value_show_size(most, size));
	return true;
}

static bool is_within_bounds(const struct watched *w, struct kh_err *err)
{
	const struct kh_image_options *options = w->tool->options;
	struct statvfs fs;
	if (options->is_over && options->is_over(options->arg))
		return kh_err_set(err, KH_ERR_SYSTEM, "--image: was interrupted");
	if (now_ms() > w->deadline_ms)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "--image: %s took more than %d minutes and was ended",
				  w->tool->argv[0], KH_LIMIT_IMAGE_MS / 60000);
	if (is_too_much(w, written_by(w->pid), err))
		return false;
	if (statvfs(w->tool->watched, &fs) != 0)
		return true;
	if (w->files_before > fs.f_ffree && w->files_before - fs.f_ffree > KH_LIMIT_IMAGE_FILES)
		return kh_err_set(err, KH_ERR_USAGE,
				  "--image: has more than %d files, which is the most that an "
				  "image may have",
				  KH_LIMIT_IMAGE_FILES);
	return (uint64_t)fs.f_bavail * fs.f_frsize > KH_LIMIT_IMAGE_FREE_BYTES ||
	       kh_err_set(err, KH_ERR_SYSTEM,
			  "--image: the disk of %s is nearly full (`keyhole image prune` makes "
			  "room)",
			  kh_esc_str(w->tool->watched));
}

static int wait_for(pid_t pid)
{
	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* First asked, since one that mounts wants to unmount. */
static void end_it(const struct watched *w)
{
	struct pollfd p = { .fd = w->ended, .events = POLLIN };
	if (!w->tool->locked_in) {
		(void)kill(-w->pid, SIGTERM);
		(void)poll(&p, 1, GRACE_MS);
	}
	(void)kill(-w->pid, SIGKILL);
	(void)kill(w->pid, SIGKILL);
}

static bool watch(struct watched *w, bool *failed, struct kh_err *err)
{
	bool open = true, within = true;
	uint64_t before = written_by(getpid());
	struct pollfd p[2] = { { .fd = w->ended, .events = POLLIN },
			       { .fd = w->out, .events = POLLIN } };
	while (within) {
		p[1].fd = open ? w->out : -1;
		(void)poll(p, 2, LOOK_MS);
		if (p[1].revents)
			open = listen_to(w);
		within = is_within_bounds(w, err);
		if (p[0].revents)
			break;
	}
	if (!within)
		end_it(w);
	int status = wait_for(w->pid);
	/* What it wrote since the last look: nobody may read that of one that has ended, but it is
	 * added to ours. */
	uint64_t after = written_by(getpid());
	within = within && !is_too_much(w, after > before ? after - before : 0, err);
	/* What it left behind may hold the pipe, and go on. */
	for (int i = 0; i < LAST_WORDS && within && open && poll(&p[1], 1, 0) > 0; i++)
		open = listen_to(w);
	if (!within)
		return false;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ)
		return kh_err_set(err, KH_ERR_USAGE,
				  "--image: has a file that is larger than an "
				  "image may be");
	*failed = true;
	return false;
}

bool kh_tool_run(const struct kh_tool *tool, char said[KH_TOOL_SAID_BYTES], bool *failed,
		 struct kh_err *err)
{
	int out[2], report[2];
	*failed = false;
	said[0] = '\0';
	if (!kh_tool_need(tool->argv[0], err))
		return false;
	kh_auto_free char *path = kh_program_find(tool->argv[0]);
	if (!path || pipe2(out, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	kh_auto_close int hear = out[0], speak = out[1];
	if (pipe2(report, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	kh_auto_close int told = report[0], tell = report[1];
	struct statvfs fs = { 0 };
	(void)statvfs(tool->watched, &fs);
	struct watched w = { .tool = tool,
			     .out = hear,
			     .said = said,
			     .files_before = fs.f_ffree,
			     .deadline_ms = now_ms() + KH_LIMIT_IMAGE_MS };
	pid_t parent = getpid();
	w.pid = fork();
	if (w.pid == 0)
		be_tool(tool, path, parent, speak, tell);
	kh_cleanup_close(&speak);
	kh_cleanup_close(&tell);
	kh_auto_close int ended = w.pid > 0 ? (int)syscall(SYS_pidfd_open, w.pid, 0) : -1;
	if (w.pid < 0 || ended < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting %s", tool->argv[0]);
	w.ended = ended;
	(void)kh_file_set_nonblock(hear, true);
	struct kh_err why;
	if (read(told, &why, sizeof(why)) == sizeof(why)) {
		*err = why;
		(void)wait_for(w.pid);
		return kh_err_wrap(err, "--image");
	}
	return watch(&w, failed, err);
}

/* \" and \\, in place. */
static void unquote(char *text)
{
	char *out = text;
	for (; *text; text++) {
		if (*text == '\\' && text[1])
			text++;
		*out++ = *text;
	}
	*out = '\0';
}

const char *kh_tool_last_words(char said[KH_TOOL_SAID_BYTES])
{
	size_t len = strlen(said);
	while (len > 0 && (said[len - 1] == '\n' || said[len - 1] == ' '))
		said[--len] = '\0';
	char *line = strrchr(said, '\n');
	line = line ? line + 1 : said;
	/* skopeo: time="…" level=fatal msg="…" */
	char *msg = strstr(line, "msg=\"");
	if (msg) {
		line = msg + strlen("msg=\"");
		len = strlen(line);
		if (len > 0 && line[len - 1] == '"')
			line[len - 1] = '\0';
		unquote(line);
	}
	return kh_esc_str(line);
}
