/* test_loop.c - a generation holds when every event thread works by it */
#include "unit.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <keyhole/base/log.h>
#include <keyhole/loop/loop.h>

enum { THREADS = 2 };

static struct kh_worker worker;
static struct kh_loop *loops[THREADS];

/* Nothing is accepted here, and nothing goes upstream. */
static struct kh_ups *make_none(struct kh_loop *of)
{
	(void)of;
	return calloc(1, 1);
}

static void free_none(struct kh_ups *none)
{
	free(none);
}

static void ignore(struct kh_loop *of)
{
	(void)of;
}

static const struct kh_loop_ops ops = {
	.ups_new = make_none,
	.ups_free = free_none,
	.up_tick = ignore,
	.up_close_idle = ignore,
};

static struct kh_generation *generation(uint32_t number)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_generation *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	atomic_init(&g->refs, 1);
	atomic_init(&g->at_acceptors, THREADS);
	pthread_mutex_init(&g->lock, NULL);
	g->number = number;
	g->config = kh_config_parse("test", KH_SLICE("version: 1\ntenants: { t: { rules: [] } }\n"),
				    NULL, "/nowhere", &diags);
	kh_diagnostics_fini(&diags);
	assert_non_null(g->config);
	g->slots = calloc(1, sizeof(*g->slots));
	assert_non_null(g->slots);
	return g;
}

/* As the main thread does it. */
static void reload(uint32_t number)
{
	struct kh_generation *next = generation(number);

	for (unsigned i = 0; i < THREADS; i++)
		kh_loop_post_reload(loops[i], next);
	kh_generation_unref(worker.current);
	worker.current = next;
}

static void turn(struct kh_loop *loop)
{
	assert_true(event_base_loop(loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
	kh_loop_turn_end(loop);
}

/* Return: the main thread was woken since this was asked last. */
static bool is_woken(void)
{
	uint64_t count;

	return read(worker.taken_fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

static int setup(void **state)
{
	(void)state;
	kh_log_set_level(KH_LOG_ERROR);
	worker = (struct kh_worker){ .loops = loops, .n_loops = THREADS };
	worker.taken_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	worker.current = generation(1);
	worker.leaves = kh_leaves_new(NULL);
	worker.roots = kh_roots_new();
	assert_true(worker.taken_fd >= 0 && worker.leaves && worker.roots);
	for (unsigned i = 0; i < THREADS; i++) {
		loops[i] = kh_loop_new(&worker, i, &ops, KH_SLICE(""), KH_SLICE(""), NULL);
		assert_non_null(loops[i]);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		kh_loop_free(loops[i]);
	kh_generation_unref(worker.current);
	kh_leaves_free(worker.leaves);
	kh_roots_free(worker.roots);
	(void)close(worker.taken_fd);
	return 0;
}

static void test_it_is_taken_once_each_thread_has_taken_it(void **state)
{
	(void)state;
	assert_int_equal(kh_loops_taken(&worker), 0);
	reload(2);
	assert_int_equal(kh_loops_taken(&worker), 0);
	assert_false(is_woken());
	turn(loops[0]);
	assert_true(is_woken());
	assert_int_equal(kh_loops_taken(&worker), 0);
	turn(loops[1]);
	assert_true(is_woken());
	assert_int_equal(kh_loops_taken(&worker), 2);
	turn(loops[0]);
	assert_false(is_woken());
}

static void test_of_two_in_a_row_the_slowest_thread_decides(void **state)
{
	(void)state;
	reload(2);
	turn(loops[0]);
	reload(3);
	turn(loops[1]);
	assert_int_equal(kh_loops_taken(&worker), 2);
	assert_true(loops[0]->gen->number == 2 && loops[1]->gen->number == 3);
	turn(loops[0]);
	assert_int_equal(kh_loops_taken(&worker), 3);
}

static void *run(void *arg)
{
	kh_loop_run(arg);
	return NULL;
}

static void test_threads_that_start_take_what_there_is(void **state)
{
	pthread_t threads[THREADS];
	struct pollfd woken = { .fd = worker.taken_fd, .events = POLLIN };

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run, loops[i]), 0);
	while (kh_loops_taken(&worker) == 0) {
		assert_int_equal(poll(&woken, 1, 20 * 1000), 1);
		(void)is_woken();
	}
	assert_int_equal(kh_loops_taken(&worker), 1);
	for (unsigned i = 0; i < THREADS; i++)
		kh_loop_post_drain(loops[i]);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_is_taken_once_each_thread_has_taken_it,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_of_two_in_a_row_the_slowest_thread_decides,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads_that_start_take_what_there_is, setup,
						teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
