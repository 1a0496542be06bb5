/* runs_lock.c - the lock of the runs' records, and which process holds it */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/lock_file.h>

#include "runs.h"

/* Who has it, for those who wait. */
static void sign(int fd)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, text, (size_t)n, 0);
}

static void say_busy(const char *path, int fd, bool signalled, struct kh_err *err)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	text[strspn(text, "0123456789")] = '\0';
	kh_auto_free char *who = *text ? kh_strf("process %s", text) : NULL;
	kh_err_set(err, KH_ERR_SYSTEM,
		   signalled
			   ? "a signal ended the wait for another keyhole (%s), which looks "
			     "through a workspace and holds %s"
			   : "another keyhole (%s) looks through a workspace, or starts or ends a "
			     "sandbox in one, and has held %s too long (try again when it has "
			     "ended)",
		   who ? who : "its process is not known", kh_esc_str(path));
}

int kh_run_records_lock(const char *state, uint64_t wait_ms, bool *signalled, struct kh_err *err)
{
	kh_auto_free char *path = kh_strf("%s/workspaces/lock", state);
	kh_auto_close int fd = path ? kh_lock_file_open(path, err) : -1;
	if (!path)
		kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	if (fd < 0)
		return -1;
	struct kh_deadline deadline;
	kh_deadline_start(&deadline, wait_ms, signalled != NULL);
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
		bool busy = errno == EWOULDBLOCK || errno == EINTR;
		if (busy && !kh_deadline_passed(&deadline)) {
			(void)nanosleep(&pause, NULL);
			continue;
		}
		if (signalled)
			*signalled = deadline.signalled;
		if (busy)
			say_busy(path, fd, deadline.signalled, err);
		else
			kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
		return -1;
	}
	sign(fd);
	return kh_steal_fd(&fd);
}
