/*
 * child.c - runs a program or a function in a child process, with a deadline
 *
 * Every wait has a bound: the parent polls a pidfd and the pipes of the output, and kills the child
 * with its process group at the deadline. It does not wait for processes that the child left
 * behind, even if they still hold a pipe.
 */
#include <keyhole/sandbox/child.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/program.h>

enum { LOOK_MS = 50, KILLED_MS = 1000, READ_BYTES = 4096, ABOVE = 16, NO_PROGRAM = 127 };
enum { OUTPUT, COMPLAINTS, SAYS };

/* ---- the child ---- */

static bool take_descriptors(const struct kh_child_spec *spec, const int says[SAYS])
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* Any of them may be one of the three. */
	int in = fcntl(spec->input >= 0 ? spec->input : null, F_DUPFD, ABOVE);
	int out = fcntl(says[OUTPUT], F_DUPFD, ABOVE), complaints = -1;
	switch (spec->complaints) {
	case KH_CHILD_DROP:
		complaints = fcntl(null, F_DUPFD, ABOVE);
		break;
	case KH_CHILD_TOGETHER:
		complaints = out;
		break;
	case KH_CHILD_APART:
		complaints = fcntl(says[COMPLAINTS], F_DUPFD, ABOVE);
		break;
	}
	return in >= 0 && out >= 0 && complaints >= 0 && dup2(in, STDIN_FILENO) >= 0 &&
	       dup2(out, STDOUT_FILENO) >= 0 && dup2(complaints, STDERR_FILENO) >= 0 &&
	       syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) == 0;
}

static _Noreturn void become(const struct kh_child_spec *spec, const int says[SAYS], pid_t parent)
{
	sigset_t none;
	sigemptyset(&none);
	(void)setpgid(0, 0);
	char **environment = kh_program_environment(spec->environment);
	/* A change of identity takes the signal of the parent's death back, so that is set last. */
	if (environment && take_descriptors(spec, says) &&
	    (!spec->folder || chdir(spec->folder) == 0) &&
	    (!spec->prepare || spec->prepare(spec->arg)) &&
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent &&
	    sigprocmask(SIG_SETMASK, &none, NULL) == 0)
		(void)execve(spec->program ? spec->program : spec->argv[0], spec->argv,
			     environment);
	_exit(NO_PROGRAM);
}

/* ---- whoever waits for it ---- */

static void close_both(int fds[2])
{
	for (int i = 0; i < 2; i++)
		kh_cleanup_close(&fds[i]);
}

bool kh_child_start(struct kh_child *child, const struct kh_child_spec *spec)
{
	int out[2], apart[2] = { -1, -1 };
	*child = (struct kh_child){ .spec = *spec, .ended = -1, .says = { -1, -1 } };
	if (pipe2(out, O_CLOEXEC) != 0)
		return false;
	if (spec->complaints == KH_CHILD_APART && pipe2(apart, O_CLOEXEC) != 0) {
		close_both(out);
		return false;
	}
	pid_t parent = getpid();
	child->pid = fork();
	if (child->pid == 0)
		become(spec, (const int[SAYS]){ out[1], apart[1] }, parent);
	kh_cleanup_close(&out[1]);
	kh_cleanup_close(&apart[1]);
	child->says[OUTPUT] = out[0];
	child->says[COMPLAINTS] = apart[0];
	if (child->pid < 0) {
		close_both(child->says);
		child->pid = 0;
		return false;
	}
	child->late = kh_clock_mono_ms() + spec->most_ms;
	/* Also without this one, which only wakes us earlier. */
	child->ended = (int)syscall(SYS_pidfd_open, child->pid, 0);
	for (int i = 0; i < SAYS; i++)
		if (child->says[i] >= 0)
			(void)kh_file_set_nonblock(child->says[i], true);
	return true;
}

/* One read. Return: there may be more right now. */
static bool listen_to(int *fd, struct kh_buf *into, bool *cut)
{
	char bytes[READ_BYTES];
	ssize_t n = read(*fd, bytes, sizeof(bytes));
	if (n == 0)
		kh_cleanup_close(fd);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	size_t room = into ? kh_buf_room(into) : 0, fits = (size_t)n < room ? (size_t)n : room;
	if (into && (!kh_buf_append(into, bytes, fits) || fits < (size_t)n))
		*cut = true;
	return true;
}

/* What is in the pipes when it has ended, which is not more than they hold. */
static void listen_to_the_end(struct kh_child *child, struct kh_buf *into[SAYS], bool cut[SAYS])
{
	const int most = 1024 * 1024 / READ_BYTES;
	for (int i = 0; i < SAYS; i++)
		for (int turn = 0; turn < most && child->says[i] >= 0; turn++)
			if (!listen_to(&child->says[i], into[i], &cut[i]))
				break;
}

static int patience(const struct kh_child *child)
{
	uint64_t now = kh_clock_mono_ms(), left = child->late > now ? child->late - now : 0;
	bool looks = child->spec.is_over || child->ended < 0 || left > INT32_MAX;
	return looks && left > LOOK_MS ? LOOK_MS : (int)left;
}

/* Return: how it came to its end; *status is waitpid's where it ended by itself. */
static enum kh_child_end attend(struct kh_child *child, struct kh_buf *into[SAYS], int *status,
				bool cut[SAYS])
{
	for (;;) {
		struct pollfd p[] = { { .fd = child->says[OUTPUT], .events = POLLIN },
				      { .fd = child->says[COMPLAINTS], .events = POLLIN },
				      { .fd = child->ended, .events = POLLIN } };
		(void)poll(p, 3, patience(child));
		for (int i = 0; i < SAYS; i++)
			if (p[i].revents)
				(void)listen_to(&child->says[i], into[i], &cut[i]);
		if (cut[OUTPUT] && child->spec.end_when_full)
			return KH_CHILD_FULL;
		if (waitpid(child->pid, status, WNOHANG) == child->pid) {
			listen_to_the_end(child, into, cut);
			return KH_CHILD_ENDED;
		}
		if (child->spec.is_over && child->spec.is_over(child->spec.arg))
			return KH_CHILD_OVER;
		if (kh_clock_mono_ms() >= child->late)
			return KH_CHILD_LATE;
	}
}

bool kh_child_finish(struct kh_child *child, struct kh_buf *output, struct kh_buf *complaints,
		     struct kh_child_result *result)
{
	int status = -1;
	bool cut[SAYS] = { false, false };
	*result = (struct kh_child_result){ .end = KH_CHILD_NOT_STARTED, .status = -1 };
	if (child->pid <= 0)
		return false;
	result->end = attend(child, (struct kh_buf *[]){ output, complaints }, &status, cut);
	result->cut = cut[OUTPUT];
	if (result->end != KH_CHILD_ENDED) {
		(void)kill(-child->pid, SIGKILL);
		(void)kill(child->pid, SIGKILL);
		kh_child_wait(child->pid);
	} else if (WIFEXITED(status)) {
		result->status = WEXITSTATUS(status);
	}
	close_both(child->says);
	kh_cleanup_close(&child->ended);
	child->pid = 0;
	return result->end == KH_CHILD_ENDED && result->status == 0 && !result->cut;
}

bool kh_child_run(const struct kh_child_spec *spec, struct kh_buf *output,
		  struct kh_buf *complaints, struct kh_child_result *result)
{
	struct kh_child child;
	*result = (struct kh_child_result){ .end = KH_CHILD_NOT_STARTED, .status = -1 };
	return kh_child_start(&child, spec) && kh_child_finish(&child, output, complaints, result);
}

static bool bound(__rlimit_resource_t what, rlim_t most)
{
	struct rlimit now;
	if (getrlimit(what, &now) != 0)
		return false;
	/* RLIM_INFINITY is above every other. */
	if (now.rlim_max < most)
		most = now.rlim_max;
	now = (struct rlimit){ most, most };
	return setrlimit(what, &now) == 0;
}

bool kh_child_bound(uint64_t memory_bytes, unsigned cpu_seconds)
{
	return bound(RLIMIT_DATA, memory_bytes) && bound(RLIMIT_CPU, cpu_seconds);
}

/* ---- functions ---- */

void kh_child_wait(pid_t pid)
{
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* In the child: who it ends with. */
static pid_t trial_parent;

bool kh_child_ends_with_parent(void)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == trial_parent;
}

struct trial {
	bool (*what)(void *arg, struct kh_err *err);
	void *arg;
	uint64_t most_ms;
	int report;
};

/* A clock of its own: a change of identity takes the signal of the parent's death back. */
static void end_in_time(uint64_t most_ms)
{
	const struct itimerval most = { .it_value = { .tv_sec = (time_t)(most_ms / 1000) + 1 } };
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, SIGALRM);
	(void)signal(SIGALRM, SIG_DFL);
	(void)sigprocmask(SIG_UNBLOCK, &one, NULL);
	(void)setitimer(ITIMER_REAL, &most, NULL);
}

static _Noreturn void do_trial(const struct trial *trial, pid_t parent)
{
	struct kh_err why = KH_ERR_INIT;
	(void)setpgid(0, 0);
	trial_parent = parent;
	end_in_time(trial->most_ms);
	if (!kh_child_ends_with_parent())
		_exit(1);
	if (trial->what(trial->arg, &why))
		_exit(0);
	(void)!write(trial->report, &why, sizeof(why));
	_exit(1);
}

/* Return: it has ended, and *status is waitpid's. */
static bool has_ended_within(pid_t pid, int process, uint64_t most_ms, int *status)
{
	uint64_t late = kh_clock_mono_ms() + most_ms;
	for (;;) {
		pid_t ended = waitpid(pid, status, WNOHANG);
		uint64_t now = kh_clock_mono_ms();
		if (ended == pid || (ended < 0 && errno != EINTR))
			return ended == pid;
		if (now >= late)
			return false;
		struct pollfd p = { .fd = process, .events = POLLIN };
		uint64_t left = late - now;
		(void)poll(&p, 1, process < 0 && left > LOOK_MS ? LOOK_MS : (int)left);
	}
}

/* One that hangs in the kernel does not end when it is killed, and is not waited for. */
static void end_trial(pid_t pid, int process)
{
	int status;
	(void)kill(-pid, SIGKILL);
	(void)kill(pid, SIGKILL);
	(void)has_ended_within(pid, process, KILLED_MS, &status);
}

bool kh_child_try_within(bool (*what)(void *arg, struct kh_err *err), void *arg, uint32_t most_ms,
			 struct kh_err *err)
{
	int report[2], status = 1;
	struct kh_err why = KH_ERR_INIT;
	if (pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	const struct trial trial = { what, arg, most_ms, report[1] };
	pid_t parent = getpid(), pid = fork();
	if (pid == 0)
		do_trial(&trial, parent);
	int failed = errno;
	kh_auto_close int says = report[0];
	close(report[1]);
	if (pid < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, failed, "a process");
	kh_auto_close int process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (!has_ended_within(pid, process, most_ms, &status)) {
		end_trial(pid, process);
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the trial took longer than %u seconds, and was ended",
				  most_ms / 1000);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (read(says, &why, sizeof(why)) != (ssize_t)sizeof(why))
		return kh_err_set(err, KH_ERR_SYSTEM, "the trial was ended");
	if (err)
		*err = why;
	return false;
}

bool kh_child_try(bool (*what)(void *arg, struct kh_err *err), void *arg, struct kh_err *err)
{
	return kh_child_try_within(what, arg, KH_LIMIT_TRIAL_MS, err);
}

static _Noreturn void watch(void (*then)(void *arg), void *arg, int ended)
{
	sigset_t all;
	char byte;
	(void)setsid();
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (ended != STDIN_FILENO)
		(void)dup2(ended, STDIN_FILENO);
	(void)dup2(null, STDOUT_FILENO);
	(void)dup2(null, STDERR_FILENO);
	(void)syscall(SYS_close_range, 3u, ~0u, 0u);
	while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
		;
	then(arg);
	_exit(0);
}

/* *other: in the child, the end that tells of this process. */
static bool fork_with_pipe(pid_t *pid, int *alive, int *other, struct kh_err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	*pid = fork();
	if (*pid == 0) {
		close(ends[1]);
		*other = ends[0];
		return true;
	}
	int failed = errno;
	close(ends[0]);
	if (*pid < 0) {
		*pid = 0;
		close(ends[1]);
		return kh_err_sys(err, KH_ERR_SYSTEM, failed, "a process");
	}
	*alive = ends[1];
	return true;
}

bool kh_child_watch(void (*then)(void *arg), void *arg, pid_t *pid, int *alive, struct kh_err *err)
{
	int other = -1;
	if (!fork_with_pipe(pid, alive, &other, err))
		return false;
	if (other >= 0)
		watch(then, arg, other);
	return true;
}

bool kh_child_fork(int (*what)(void *arg, int alive), void *arg, pid_t *pid, int *ours,
		   struct kh_err *err)
{
	int other = -1;
	if (!fork_with_pipe(pid, ours, &other, err))
		return false;
	if (other >= 0) {
		(void)setsid();
		_exit(what(arg, other));
	}
	return true;
}

int kh_child_status(pid_t pid, uint32_t most_ms)
{
	enum { AGAIN_MS = 2 };
	int status = 0;
	for (uint32_t waited = 0;; waited += AGAIN_MS) {
		pid_t ended = waitpid(pid, &status, waited < most_ms ? WNOHANG : 0);
		if (ended == pid)
			break;
		if (ended < 0 && errno != EINTR)
			return -1;
		if (ended == 0)
			(void)poll(NULL, 0, AGAIN_MS);
		if (waited + AGAIN_MS >= most_ms)
			(void)kill(pid, SIGKILL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
