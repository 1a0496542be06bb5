/* test_lru.c - the bounded map */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <keyhole/base/lru.h>

static unsigned dropped;

static void drop(void *value)
{
	dropped++;
	free(value);
}

static int *number(int n)
{
	int *value = malloc(sizeof *value);
	assert_non_null(value);
	*value = n;
	return value;
}

static struct kh_slice key_of(int n, char room[32])
{
	return kh_slice_of(room, (size_t)snprintf(room, 32, "key-%d", n));
}

static void test_what_was_not_asked_for_longest_leaves_first(void **state)
{
	char room[32];
	struct kh_lru *lru = kh_lru_new(3, drop);
	(void)state;
	dropped = 0;
	for (int i = 0; i < 3; i++)
		assert_true(kh_lru_put(lru, key_of(i, room), number(i)));
	assert_int_equal(*(int *)kh_lru_get(lru, key_of(0, room)), 0);
	assert_true(kh_lru_put(lru, key_of(3, room), number(3)));
	assert_int_equal(dropped, 1);
	assert_null(kh_lru_get(lru, key_of(1, room)));
	assert_non_null(kh_lru_get(lru, key_of(0, room)));
	assert_int_equal(kh_lru_count(lru), 3);
	kh_lru_free(lru);
	assert_int_equal(dropped, 4);
}

static void test_a_key_holds_one_value_and_taking_hands_it_over(void **state)
{
	struct kh_lru *lru = kh_lru_new(3, drop);
	(void)state;
	dropped = 0;
	assert_true(kh_lru_put(lru, KH_SLICE("a"), number(1)));
	assert_true(kh_lru_put(lru, KH_SLICE("a"), number(2)));
	assert_int_equal(dropped, 1);
	assert_int_equal(kh_lru_count(lru), 1);
	int *value = kh_lru_take(lru, KH_SLICE("a"));
	assert_int_equal(*value, 2);
	free(value);
	assert_null(kh_lru_take(lru, KH_SLICE("a")));
	assert_null(kh_lru_get(lru, KH_SLICE("")));
	assert_int_equal(dropped, 1);
	assert_true(kh_lru_put(lru, KH_SLICE(""), number(3)));
	assert_non_null(kh_lru_get(lru, KH_SLICE("")));
	kh_lru_clear(lru);
	assert_int_equal(kh_lru_count(lru), 0);
	kh_lru_free(lru);
}

static void test_it_agrees_with_an_array_over_a_long_and_mixed_use(void **state)
{
	enum { KEYS = 600, MOST = 5000, STEPS = 60000 };
	static int model[KEYS];
	char room[32];
	uint32_t seed = 12345;
	struct kh_lru *lru = kh_lru_new(MOST, drop);
	(void)state;
	memset(model, 0, sizeof model);
	for (int step = 1; step <= STEPS; step++) {
		seed = seed * 1664525u + 1013904223u;
		int k = (int)(seed >> 8) % KEYS;
		if ((seed & 3) == 0) {
			int *value = kh_lru_take(lru, key_of(k, room));
			assert_int_equal(value != NULL, model[k] != 0);
			free(value);
			model[k] = 0;
		} else if ((seed & 3) == 1) {
			int *value = kh_lru_get(lru, key_of(k, room));
			assert_int_equal(value ? *value : 0, model[k]);
		} else {
			assert_true(kh_lru_put(lru, key_of(k, room), number(step)));
			model[k] = step;
		}
	}
	kh_lru_free(lru);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_not_asked_for_longest_leaves_first),
		cmocka_unit_test(test_a_key_holds_one_value_and_taking_hands_it_over),
		cmocka_unit_test(test_it_agrees_with_an_array_over_a_long_and_mixed_use),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
