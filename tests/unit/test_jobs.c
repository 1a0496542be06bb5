/* test_jobs.c - the keeper's children that bring values: which of those that wait may start */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/fair_share.h>

/* wrap: kh_exec_start kh_fetch_start */
static int next_pipe[2] = { -1, -1 }; /* the next child's pipe, if there is one */

/* Children that wait until they are killed, as one does whose endpoint or command hangs. */
static bool hang(struct kh_job *job)
{
	job->out = next_pipe[0];
	next_pipe[0] = -1;
	job->pid = fork();
	if (job->pid == 0)
		for (;;)
			(void)pause();
	return job->pid > 0;
}

bool __wrap_kh_exec_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err);
bool __wrap_kh_fetch_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err);
bool __wrap_kh_exec_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err)
{
	(void)vault;
	(void)err;
	return hang(job);
}
bool __wrap_kh_fetch_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err)
{
	(void)vault;
	(void)err;
	return hang(job);
}

enum { LONG_MS = 600 * 1000, EVIL = 1, GOOD = 2 };

static struct kh_jobs jobs;

static int set_up(void **state)
{
	(void)state;
	kh_jobs_init(&jobs);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kh_jobs_fini(&jobs);
	return 0;
}

static struct kh_job *add(const struct kh_exec *exec, uint16_t index, uint64_t asker)
{
	struct kh_job *job = kh_job_new(LONG_MS);
	assert_non_null(job);
	job->exec = exec;
	job->index = index;
	job->asker = asker;
	assert_true(kh_jobs_add(&jobs, job, NULL));
	return job;
}

static unsigned running(void)
{
	unsigned n = 0;
	assert_null(kh_jobs_turn(&jobs, NULL));
	for (struct kh_node *node = jobs.list.next; node != &jobs.list; node = node->next)
		n += kh_container_of(node, struct kh_job, link)->state == KH_JOB_RUNNING;
	return n;
}

static void one_sandboxs_scopes_leave_the_others_their_turn(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		(void)add(NULL, 0, EVIL);
	assert_int_equal(running(), KH_LIMIT_FETCHERS_PER_SANDBOX);
	/* Of the same credential, behind all of those. */
	const struct kh_job *good = add(NULL, 0, GOOD);
	assert_int_equal(running(), KH_LIMIT_FETCHERS_PER_SANDBOX + 1);
	assert_int_equal(good->state, KH_JOB_RUNNING);
}

static void one_credentials_endpoint_leaves_the_others_their_turn(void **state)
{
	(void)state;
	for (uint16_t index = 0; index < 4; index++) {
		for (uint64_t asker = 1; asker <= 2 * KH_LIMIT_FETCHERS; asker++)
			(void)add(NULL, index, asker);
		(void)running();
	}
	/* A half, a quarter, an eighth, … and some are left. */
	assert_int_equal(running(), 16 + 8 + 4 + 2);
	const struct kh_job *fifth = add(NULL, 4, 999);
	(void)running();
	assert_int_equal(fifth->state, KH_JOB_RUNNING);
}

static void commands_and_fetchers_do_not_wait_for_each_other(void **state)
{
	(void)state;
	static const struct kh_exec exec;
	for (int i = 0; i < 2 * KH_LIMIT_FETCHERS; i++)
		(void)add(NULL, (uint16_t)i, KH_FAIR_SHARE_NOBODY);
	assert_int_equal(running(), KH_LIMIT_FETCHERS);
	for (int i = 0; i < 2 * KH_LIMIT_COMMANDS; i++)
		(void)add(&exec, 0, KH_FAIR_SHARE_NOBODY);
	assert_int_equal(running(), KH_LIMIT_FETCHERS + KH_LIMIT_COMMANDS);
}

static void a_pipe_that_was_closed_wakes_nobody_where_a_child_has_it_too(void **state)
{
	(void)state;
	static const struct kh_exec exec;
	assert_int_equal(pipe2(next_pipe, O_CLOEXEC | O_NONBLOCK), 0);
	struct kh_job *job = add(&exec, 0, KH_FAIR_SHARE_NOBODY), *ended = NULL;
	int shared = dup(next_pipe[0]); /* as a child has it before its exec */
	assert_int_equal(running(), 1);
	/* The job's own child has the other end as well: what it prints is too much. */
	static const char much[4096];
	while (job->out >= 0) {
		(void)!write(next_pipe[1], much, sizeof(much));
		ended = kh_jobs_turn(&jobs, NULL);
	}
	assert_true(write(next_pipe[1], much, 1) == 1);
	struct pollfd p = { .fd = jobs.epoll, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	if (ended)
		kh_job_free(ended); /* it was killed, and has gone already */
	(void)close(shared);
	(void)close(next_pipe[1]);
	next_pipe[1] = -1;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(one_sandboxs_scopes_leave_the_others_their_turn),
		TEST(one_credentials_endpoint_leaves_the_others_their_turn),
		TEST(commands_and_fetchers_do_not_wait_for_each_other),
		TEST(a_pipe_that_was_closed_wakes_nobody_where_a_child_has_it_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
