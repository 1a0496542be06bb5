/* wrap: malloc */
/* wrap: calloc */
/* test_h2_memory.c - connections that run out of memory end, and nothing is freed twice */
#include "h2_pair.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

static int left = -1; /* allocations until one fails; negative: none does */

static bool fails(void)
{
	return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

/* An answer with content, in whose making the n-th allocation fails. Return: none was left to. */
static bool answer_failing_at(int n)
{
	struct pair p;

	pair_init(&p);
	ask(&p, "GET", NULL, 0, true);
	left = n;
	if (kh_h2_put_response(p.down.last, 200, NULL, 0, false) &&
	    kh_h2_put_data(p.down.last, KH_SLICE("content")))
		(void)kh_h2_put_end(p.down.last, NULL, 0);
	(void)kh_h2_drain(p.down.h2, &p.down.out);
	bool all = left > 0;
	left = -1;
	(void)kh_h2_drain(p.down.h2, &p.down.out);
	pair_fini(&p);
	return all;
}

static void test_every_allocation_of_an_answer_may_fail(void **state)
{
	int n = 0;

	(void)state;
	while (!answer_failing_at(n))
		assert_true(++n < 200);
	assert_true(n > 1); /* optimised code asks twice, other code more often */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_allocation_of_an_answer_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
