/* exec_failure.c - why a command gave no value, in words for the operator */

#include "job_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/writable.h>

/* How a command of a run differs from the same one by hand (exec_cover.c). */
static const char *covered(void)
{
	return kh_writable_any() ? "; in a run bubblewrap starts it, which `keyhole doctor` tries, "
				   "and folders that agents write are empty"
				 : "";
}

/* Of the program itself. */
static const char *not_executed(const struct kh_job *job)
{
	switch (job->report->sys) {
	case ENOENT:
		return "there is no such file (or it names an interpreter that is not there)";
	case EACCES:
		return "it may not be executed (chmod +x it? or is it no program?)";
	default:
		return strerror(job->report->sys);
	}
}

static void not_started(const struct kh_job *job, char *text, size_t size)
{
	const char *why = strerror(job->report->sys);

	switch (job->report->step) {
	case KH_EXEC_FINDING:
		why = "there is no such program in PATH (write its whole path)";
		break;
	case KH_EXEC_PROGRAM:
		why = not_executed(job);
		break;
	case KH_EXEC_COVER:
		(void)snprintf(text, size,
			       "can't be started: bubblewrap, which starts it in a run, can't be "
			       "executed: %s (`keyhole doctor` tries it)",
			       why);
		return;
	case KH_EXEC_COVERING:
		(void)snprintf(text, size, "%s", job->report->why);
		return;
	case KH_EXEC_STARTED:
	case KH_EXEC_PREPARING:
		break;
	}
	(void)snprintf(text, size, "can't be started: %s", why);
}

const char *kh_exec_failure(const struct kh_job *job, char *text, size_t size)
{
	if (job->trouble[0])
		(void)snprintf(text, size, "can't be started: %s", job->trouble);
	else if (job->report && job->report->step != KH_EXEC_STARTED)
		not_started(job, text, size);
	else if (job->too_long)
		(void)snprintf(text, size, "prints more than %d bytes, and %s",
			       (int)KH_LIMIT_SECRET_BYTES,
			       job->left ? "could not be killed" : "was killed");
	else if (job->left)
		(void)snprintf(text, size,
			       "did not end within %u ms, and could not be killed (has it become "
			       "another user, as sudo does, and waits for a password? limit its "
			       "time: sudo timeout 10 COMMAND)",
			       job->timeout_ms);
	else if (job->late)
		(void)snprintf(text, size,
			       "did not end within %u ms, and was killed (does it wait for an "
			       "answer? raise timeout?)",
			       job->timeout_ms);
	else if (WIFSIGNALED(job->status))
		(void)snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(job->status),
			       strsignal(WTERMSIG(job->status)));
	else if (WEXITSTATUS(job->status) != 0 && job->complained == 0)
		(void)snprintf(text, size,
			       "ended with status %d, and said nothing about it (run it by hand%s)",
			       WEXITSTATUS(job->status), covered());
	else if (WEXITSTATUS(job->status) != 0)
		(void)snprintf(text, size,
			       "ended with status %d (the %llu bytes that it wrote to standard "
			       "error are not shown, they may hold the value: run it by hand%s)",
			       WEXITSTATUS(job->status), (unsigned long long)job->complained,
			       covered());
	else
		return NULL;
	return text;
}
