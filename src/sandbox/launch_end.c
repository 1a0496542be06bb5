/* launch_end.c - the end of a sandbox: its exit status, and a line of explanation if one is
 * needed */
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

#include "launch_internal.h"
#include "runs.h"

enum { TIMED_OUT = 124 /* as timeout(1) has it */ };

static int as_shell(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* One line: what was said, without the line ends and the program's name. */
static bool explain(struct kh_running *r, struct kh_err *err)
{
	r->complaint[r->complaint_len] = '\0';
	struct kh_slice said = kh_slice_of(r->complaint, r->complaint_len);
	while (said.len > 0 && said.ptr[said.len - 1] == '\n')
		said.len--;
	return r->launch->engine->explain(kh_esc(said), err);
}

void kh_launch_too_slow(struct kh_running *r)
{
	char text[KH_VALUE_BYTES];
	r->complaint[r->complaint_len] = '\0';
	struct kh_slice said = kh_slice_str(r->complaint);
	while (said.len > 0 && said.ptr[said.len - 1] == '\n')
		said.len--;
	kh_err_set(
		&r->err, KH_ERR_SYSTEM,
		"the sandbox: %s has not brought it up in %s and was ended (is this host "
		"overloaded, or does something not answer? `keyhole doctor` tries each engine)%s%s",
		kh_esc_str(r->launch->command->argv[0]),
		kh_value_show_duration(r->launch->start_ms, text), said.len ? ": " : "",
		kh_esc(said));
}

static bool is_out_of_memory(const struct kh_running *r)
{
	return r->oom_kills > 0 || kh_cgroup_oom_kills(&r->launch->limits->groups) > 0;
}

static void say_out_of_memory(struct kh_err *err)
{
	kh_err_set(err, KH_ERR_SYSTEM,
		   "the sandbox ran out of memory, and the kernel ended the command (give it more: "
		   "--memory)");
}

/* Not up, and not by what the program can say itself. */
static bool explain_start(struct kh_running *r, struct kh_err *err)
{
	if (is_out_of_memory(r))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox ran out of memory before the command began (give it "
				  "more: --memory)");
	return explain(r, err);
}

void kh_launch_note_init(struct kh_running *r)
{
	if (r->init <= 0 || r->init_ended >= 0)
		return;
	r->init_ended = (int)syscall(SYS_pidfd_open, r->init, 0);
	if (r->launch->record)
		kh_run_record_started(r->launch->record, r->init);
}

bool kh_launch_await_init(const struct kh_running *r)
{
	struct pollfd p = { .fd = r->init_ended, .events = POLLIN };
	int n;
	if (r->init_ended < 0)
		return true;
	do
		n = poll(&p, 1, KH_LIMIT_SANDBOX_REMOVE_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

bool kh_launch_conclude(struct kh_running *r, int engine_status, int *status, struct kh_err *err)
{
	if (r->err.code != KH_ERR_NONE) {
		*err = r->err;
		return false;
	}
	if (r->no_exec) {
		bool absent = r->exec_errno == ENOENT;
		*status = absent ? KH_INIT_NOT_FOUND : KH_INIT_NOT_EXECUTABLE;
		kh_err_sys(err, KH_ERR_USAGE, r->exec_errno, "%s", kh_esc_str(r->launch->name));
		return true;
	}
	if (r->timed_out) {
		char text[KH_VALUE_BYTES];
		*status = TIMED_OUT;
		kh_err_set(err, KH_ERR_SYSTEM,
			   "the command was ended: its time was up (--timeout %s)",
			   kh_value_show_duration(r->launch->timeout_ms, text));
		return true;
	}
	if (r->exited) {
		*status = as_shell(r->command_status);
		if (*status == 128 + SIGKILL && is_out_of_memory(r))
			say_out_of_memory(err);
		return true;
	}
	if (!r->started)
		return explain_start(r, err);
	*status = as_shell(engine_status);
	/* The init was killed, and with it everything: by the kernel for want of memory, or by
	 * somebody on the host. */
	if (is_out_of_memory(r)) {
		*status = 128 + SIGKILL;
		say_out_of_memory(err);
		return true;
	}
	kh_err_set(err, KH_ERR_SYSTEM, "the sandbox was ended from outside (status %d%s)", *status,
		   *status == 137 ? "; out of memory?" : "");
	return true;
}
