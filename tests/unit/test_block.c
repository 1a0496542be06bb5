/* test_block.c - what is given back is fetched again, and no more of it is kept than is said */
#include "unit.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include <keyhole/base/block.h>

static bool is_storing(void)
{
	size_t size = 4000;
	void *one = kh_block_get(&size);
	kh_block_give(one);
	return size > 4000;
}

static void what_was_given_back_is_fetched_again(void **state)
{
	(void)state;
	if (!is_storing()) {
		print_message("a sanitizer gets all memory back at once\n");
		skip();
	}
	for (size_t wanted = 1; wanted < 17000; wanted += wanted < 1600 ? 60 : 500) {
		size_t first = wanted, again = wanted;
		void *one = kh_block_get(&first);
		assert_non_null(one);
		assert_true(first >= wanted && malloc_usable_size(one) >= first);
		memset(one, 'x', first);
		kh_block_give(one);
		assert_ptr_equal(kh_block_get(&again), one);
		assert_int_equal(again, first);
		kh_block_give(one);
	}
}

/* As many as the streams of one connection. */
static void many_small_ones_are_kept(void **state)
{
	enum { BLOCKS = 64, BYTES = 208 };
	void *blocks[BLOCKS];
	(void)state;
	if (!is_storing())
		skip();
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = kh_block_new(BYTES);
	for (int i = 0; i < BLOCKS; i++) {
		assert_non_null(blocks[i]);
		memset(blocks[i], 'x', BYTES);
	}
	for (int i = 0; i < BLOCKS; i++)
		kh_block_give(blocks[i]);
	for (int i = BLOCKS - 1; i >= 0; i--) {
		char *again = kh_block_new(BYTES);
		assert_ptr_equal(again, blocks[i]);
		for (int at = 0; at < BYTES; at++)
			assert_int_equal(again[at], 0);
	}
	for (int i = 0; i < BLOCKS; i++)
		kh_block_give(blocks[i]);
}

static void other_sizes_are_mallocs(void **state)
{
	(void)state;
	for (size_t size = 1; size < 1u << 20; size *= 4) {
		size_t got = size;
		void *one = kh_block_get(&got);
		assert_non_null(one);
		assert_true(got >= size);
		memset(one, 'x', got);
		free(one); /* as good as kh_block_give */
		one = malloc(size);
		assert_non_null(one);
		memset(one, 'x', size);
		kh_block_give(one);
	}
	kh_block_give(NULL);
}

/* However much is given back, and by whom. */
static void the_store_is_bounded(void **state)
{
	(void)state;
#ifdef __GLIBC__
	enum { BLOCKS = 4000, BYTES = 17000 };
	static void *blocks[BLOCKS];
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (int i = 0; i < BLOCKS; i++) {
		size_t size = BYTES;
		blocks[i] = kh_block_get(&size);
		assert_non_null(blocks[i]);
	}
	for (int i = 0; i < BLOCKS; i++)
		kh_block_give(blocks[i]);
	assert_true(mallinfo2().uordblks + mallinfo2().hblkhd < before + 2u * 1024 * 1024);
#else
	print_message("this libc does not say what is in use\n");
	skip();
#endif
}

static void *fetch(void *arg)
{
	size_t size = 4000;
	void *one = kh_block_get(&size);
	(void)arg;
	kh_block_give(NULL);
	return one;
}

static void a_store_is_one_threads(void **state)
{
	(void)state;
	size_t size = 4000;
	void *mine = kh_block_get(&size), *theirs = NULL;
	pthread_t thread;
	kh_block_give(mine);
	assert_int_equal(pthread_create(&thread, NULL, fetch, NULL), 0);
	assert_int_equal(pthread_join(thread, &theirs), 0);
	assert_non_null(theirs);
	if (is_storing())
		assert_ptr_not_equal(mine, theirs);
	kh_block_give(theirs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_given_back_is_fetched_again),
		cmocka_unit_test(many_small_ones_are_kept),
		cmocka_unit_test(other_sizes_are_mallocs),
		cmocka_unit_test(the_store_is_bounded),
		cmocka_unit_test(a_store_is_one_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
