/* test_orphans.c - commands that the keeper may not kill, as sudo is for an ordinary user */
/* wrap: kh_exec_start kill poll kh_clock_mono_ms */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/limits.h>

/* Time goes on where a test says so, and where somebody waits. */
static uint64_t mono_ms = 1000, waited_ms;

uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return mono_ms;
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	waited_ms += (uint64_t)timeout;
	mono_ms += (uint64_t)timeout;
	return __real_poll(fds, n, n > 0 || timeout > 1 ? 0 : timeout);
}

/* What a kill comes to: EPERM of what has become another user, and nothing of what hangs in the
 * kernel. */
static enum { KILLED = 1, REFUSED, HANGS } kills;

int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig)
{
	if (kills == KILLED)
		return __real_kill(pid, sig);
	errno = EPERM;
	return kills == REFUSED ? -1 : 0;
}

static pid_t pids[16];
static unsigned n_pids;

bool __wrap_kh_exec_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err);
bool __wrap_kh_exec_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err)
{
	(void)vault;
	(void)err;
	assert_true(n_pids < 16);
	job->pid = fork();
	if (job->pid == 0)
		for (;;)
			(void)pause();
	pids[n_pids++] = job->pid;
	return job->pid > 0;
}

enum { TIMEOUT_MS = 30 * 1000 };

static char sudo_word[] = "sudo", print_word[] = "print-it", other_word[] = "other";
static char *sudo_argv[] = { sudo_word, print_word, NULL };
static char *same_argv[] = { sudo_word, print_word, NULL };
static char *other_argv[] = { sudo_word, other_word, NULL };
static const struct kh_exec by_sudo = { .argv = sudo_argv, .n_argv = 2 };
static const struct kh_exec the_same = { .argv = same_argv, .n_argv = 2 };
static const struct kh_exec another = { .argv = other_argv, .n_argv = 2 };

static struct kh_jobs jobs;

static int set_up(void **state)
{
	(void)state;
	kills = REFUSED;
	n_pids = 0;
	kh_jobs_init(&jobs);
	/* Whoever waits without bound does not hold up the tests. */
	(void)alarm(20);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kh_jobs_fini(&jobs);
	for (unsigned i = 0; i < n_pids; i++)
		(void)__real_kill(pids[i], SIGKILL);
	kh_orphans_finish();
	(void)alarm(0);
	return 0;
}

static struct kh_job *start(const struct kh_exec *exec)
{
	struct kh_job *job = kh_job_new(TIMEOUT_MS);
	assert_non_null(job);
	job->exec = exec;
	assert_true(kh_jobs_add(&jobs, job, NULL));
	return job;
}

static bool is_alive(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };
	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == 0;
}

/* The job's end, and what is said of it. */
static void ends(struct kh_job *job, const char *words)
{
	char text[KH_ERR_TEXT_BYTES + 64] = "";
	assert_ptr_equal(kh_jobs_turn(&jobs, NULL), job);
	assert_non_null(kh_exec_failure(job, text, sizeof(text)));
	if (!strstr(text, words))
		fail_msg("'%s' has no '%s'", text, words);
	kh_job_free(job);
}

/* Starts one that is given up at its timeout. */
static void give_up_one(const struct kh_exec *exec)
{
	struct kh_job *job = start(exec);
	assert_null(kh_jobs_turn(&jobs, NULL));
	mono_ms += TIMEOUT_MS;
	ends(job, "did not end within 30000 ms, and could not be killed");
}

static void one_that_may_not_be_killed_is_given_up_at_its_timeout(void **state)
{
	(void)state;
	waited_ms = 0;
	give_up_one(&by_sudo);
	assert_int_equal(waited_ms, 0);
	assert_true(is_alive(pids[0]));
	/* It is reaped when it ends by itself. */
	(void)__real_kill(pids[0], SIGKILL);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pids[0], &info, WEXITED | WNOWAIT), 0);
	assert_null(kh_jobs_turn(&jobs, NULL));
	assert_int_equal(waitpid(pids[0], NULL, WNOHANG), -1);
	n_pids = 0;
}

static void one_that_nobody_needs_any_more_is_not_waited_for(void **state)
{
	(void)state;
	struct kh_job *job = start(&by_sudo);
	assert_null(kh_jobs_turn(&jobs, NULL));
	waited_ms = 0;
	kh_jobs_disown(job); /* as a reload does */
	assert_int_equal(waited_ms, 0);
	assert_true(is_alive(pids[0]));
}

static void one_that_is_killed_in_vain_is_given_up_a_little_later(void **state)
{
	(void)state;
	kills = HANGS;
	struct kh_job *job = start(&by_sudo);
	assert_null(kh_jobs_turn(&jobs, NULL));
	mono_ms += TIMEOUT_MS;
	assert_null(kh_jobs_turn(&jobs, NULL));
	uint64_t due = kh_jobs_deadline(&jobs);
	assert_in_range(due, mono_ms + 1, mono_ms + 5000);
	mono_ms = due;
	ends(job, "could not be killed");
	/* and a bounded time where nobody needs it */
	job = start(&another);
	assert_null(kh_jobs_turn(&jobs, NULL));
	waited_ms = 0;
	kh_jobs_disown(job);
	assert_in_range(waited_ms, 1, 200);
}

static void a_command_is_not_started_beside_four_that_are_left(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KH_LIMIT_COMMANDS_LEFT; i++)
		give_up_one(i % 2 ? &by_sudo : &the_same);
	ends(start(&by_sudo), "can't be started: 4 of its processes did not end in time");
	assert_int_equal(n_pids, KH_LIMIT_COMMANDS_LEFT);
	/* Another command is no worse for that. */
	struct kh_job *other = start(&another);
	assert_null(kh_jobs_turn(&jobs, NULL));
	assert_int_equal(other->state, KH_JOB_RUNNING);
	/* One of them has ended. */
	siginfo_t info;
	(void)__real_kill(pids[2], SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pids[2], &info, WEXITED | WNOWAIT), 0);
	struct kh_job *next = start(&by_sudo);
	assert_null(kh_jobs_turn(&jobs, NULL));
	assert_int_equal(next->state, KH_JOB_RUNNING);
}

static void the_keepers_end_waits_half_a_second_for_all_of_them(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KH_LIMIT_COMMANDS_LEFT; i++)
		give_up_one(&by_sudo);
	(void)start(&another);
	assert_null(kh_jobs_turn(&jobs, NULL));
	waited_ms = 0;
	kh_jobs_fini(&jobs);
	kh_orphans_finish();
	assert_in_range(waited_ms, 1, KH_LIMIT_COMMANDS_LEFT_END_MS);
	kh_jobs_init(&jobs);
	for (unsigned i = 0; i < n_pids; i++) {
		(void)__real_kill(pids[i], SIGKILL);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
	n_pids = 0;
}

static void one_that_may_be_killed_is_reaped_where_it_is_let_go(void **state)
{
	(void)state;
	kills = KILLED;
	struct kh_job *job = start(&by_sudo);
	assert_null(kh_jobs_turn(&jobs, NULL));
	kh_jobs_disown(job);
	kh_orphans_finish();
	assert_int_equal(waitpid(pids[0], NULL, WNOHANG), -1);
	n_pids = 0;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(one_that_may_not_be_killed_is_given_up_at_its_timeout),
		TEST(one_that_nobody_needs_any_more_is_not_waited_for),
		TEST(one_that_is_killed_in_vain_is_given_up_a_little_later),
		TEST(a_command_is_not_started_beside_four_that_are_left),
		TEST(the_keepers_end_waits_half_a_second_for_all_of_them),
		TEST(one_that_may_be_killed_is_reaped_where_it_is_let_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
