/* test_hidden.c - what is hidden is read by nobody from outside, and malloc's where there is no
 * room */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/secret.h>

static void need_region(void)
{
	if (kh_hidden_bytes > 0)
		return;
	print_message("no region: a sanitizer, no memfd_secret, or too little may be locked\n");
	skip();
}

static void *get(size_t size, enum kh_hidden_life life)
{
	size_t got = size;
	char *block = kh_hidden_get(&got, life);
	assert_non_null(block);
	assert_true(got >= size);
	assert_true(kh_hidden_usable(block) >= size);
	memset(block, 'x', got);
	return block;
}

/* As a debugger reads it. */
static ssize_t peek(const void *at, char *into, size_t len)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t n = pread(fd, into, len, (off_t)(uintptr_t)at);
	close(fd);
	return n;
}

static void nobody_reads_it_from_outside(void **state)
{
	char text[16], plain[] = "not hidden";
	(void)state;
	need_region();
	char *block = get(100, KH_HIDDEN_BRIEF);
	assert_true(kh_hidden_has(block) && kh_hidden_has(block + 99));
	assert_int_equal(peek(plain, text, sizeof(plain)), sizeof(plain));
	assert_int_equal(peek(block, text, 8), -1);
	assert_int_equal(errno, EIO);
	kh_hidden_give(block);
}

static void blocks_do_not_overlap_and_come_back(void **state)
{
	enum { BLOCKS = 300 };
	static const size_t sizes[] = { 1, 255, 256, 257, 1000, 4096, 17000, 70000 };
	unsigned char *blocks[BLOCKS];
	size_t lens[BLOCKS], used = kh_hidden_used();
	unsigned seed = 7;
	(void)state;
	need_region();
	memset(blocks, 0, sizeof(blocks));
	for (unsigned round = 0; round < 20 * BLOCKS; round++) {
		seed = seed * 1103515245 + 12345;
		unsigned at = seed / 65536 % BLOCKS;
		if (blocks[at]) {
			for (size_t i = 0; i<lens[at]; i += lens[at]> 64 ? 61 : 1)
				assert_int_equal(blocks[at][i], at & 0xff);
			kh_hidden_give(blocks[at]);
			blocks[at] = NULL;
			continue;
		}
		lens[at] = sizes[seed / 256 % 8];
		blocks[at] = get(lens[at], KH_HIDDEN_BRIEF);
		memset(blocks[at], (int)(at & 0xff), lens[at]);
	}
	for (unsigned at = 0; at < BLOCKS; at++)
		kh_hidden_give(blocks[at]);
	assert_int_equal(kh_hidden_used(), used);
}

static void what_has_no_room_is_mallocs(void **state)
{
	enum { MOST = 200, BYTES = 128 * 1024 };
	void *blocks[MOST];
	size_t hidden = 0, before = kh_hidden_used();
	(void)state;
	need_region();
	for (int i = 0; i < MOST; i++) {
		blocks[i] = get(BYTES, KH_HIDDEN_BRIEF);
		hidden += kh_hidden_has(blocks[i]);
	}
	assert_true(hidden > 0 && hidden < MOST);
	assert_true(before + hidden * BYTES > kh_hidden_bytes - 2 * BYTES);
	for (int i = 0; i < MOST; i++)
		kh_hidden_give(blocks[i]);
	assert_int_equal(kh_hidden_used(), before);
	void *huge = get(kh_hidden_bytes, KH_HIDDEN_BRIEF);
	assert_false(kh_hidden_has(huge));
	kh_hidden_give(huge);
}

static void what_lasts_leaves_half_for_the_rest(void **state)
{
	enum { MOST = 2000, BYTES = 16 * 1024 };
	static void *blocks[MOST];
	size_t hidden = 0;
	(void)state;
	need_region();
	for (int i = 0; i < MOST; i++) {
		blocks[i] = get(BYTES, KH_HIDDEN_LASTING);
		hidden += kh_hidden_has(blocks[i]);
	}
	assert_true(hidden * BYTES <= kh_hidden_bytes / 2);
	assert_true(hidden * BYTES > kh_hidden_bytes / 2 - BYTES);
	void *brief = get(BYTES, KH_HIDDEN_BRIEF);
	assert_true(kh_hidden_has(brief));
	kh_hidden_give(brief);
	for (int i = 0; i < MOST; i++)
		kh_hidden_give(blocks[i]);
	void *again = get(BYTES, KH_HIDDEN_LASTING);
	assert_true(kh_hidden_has(again));
	kh_hidden_give(again);
}

static void *worker(void *arg)
{
	unsigned char mark = *(unsigned char *)arg;
	for (int i = 0; i < 3000; i++) {
		size_t len = 100 + (size_t)i % 7 * 3000;
		unsigned char *block = get(len, KH_HIDDEN_BRIEF);
		memset(block, mark, len);
		assert_int_equal(block[0] + block[len / 2] + block[len - 1], 3 * mark);
		kh_hidden_give(block);
	}
	return NULL;
}

static void threads_share_it(void **state)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];
	unsigned char marks[THREADS];
	size_t used = kh_hidden_used();
	(void)state;
	for (int i = 0; i < THREADS; i++) {
		marks[i] = (unsigned char)(i + 1);
		assert_int_equal(pthread_create(&threads[i], NULL, worker, &marks[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(kh_hidden_used(), used);
}

static void a_child_reads_it_and_takes_none(void **state)
{
	int status = -1;
	(void)state;
	need_region();
	char *block = get(100, KH_HIDDEN_BRIEF);
	pid_t child = fork();
	if (child == 0) {
		size_t size = 100;
		char *own = kh_hidden_get(&size, KH_HIDDEN_BRIEF);
		bool ok = block[0] == 'x' && own && !kh_hidden_has(own);
		kh_hidden_give(own);
		kh_hidden_give(block);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	size_t used = kh_hidden_used();
	assert_int_equal(block[0], 'x');
	kh_hidden_give(block);
	assert_true(kh_hidden_used() < used);
}

static bool look(struct kh_slice value, void *arg)
{
	(void)value;
	*(bool *)arg = kh_hidden_is_on();
	return true;
}

static void a_window_hides_what_libraries_fetch(void **state)
{
	char text[] = "a value of a credential";
	bool on = false;
	(void)state;
	struct kh_secret *secret = kh_secret_new(text, strlen(text), NULL);
	assert_non_null(secret);
	assert_false(kh_hidden_is_on());
	assert_true(kh_secret_expose(secret, look, &on));
	assert_true(on);
	assert_false(kh_hidden_is_on());
	kh_secret_unref(secret);
}

static void a_buffer_is_hidden_and_no_more(void **state)
{
	struct kh_buf buf;
	(void)state;
	need_region();
	kh_buf_init_wiping(&buf, 100000);
	assert_true(kh_buf_append_str(&buf, "a value"));
	assert_true(kh_hidden_has(buf.data));
	kh_buf_fini(&buf);
	kh_buf_init_wiping(&buf, 100000);
	kh_buf_hide_no_more(&buf);
	assert_true(kh_buf_append_str(&buf, "what is in front, "));
	assert_false(kh_hidden_has(buf.data));
	assert_true(kh_buf_hide(&buf));
	assert_true(kh_hidden_has(buf.data));
	assert_true(kh_buf_append_str(&buf, "and a value"));
	assert_string_equal(kh_buf_cstr(&buf), "what is in front, and a value");
	kh_buf_hide_no_more(&buf);
	assert_true(kh_hidden_has(buf.data));
	kh_buf_clear(&buf);
	kh_buf_release(&buf);
	assert_true(kh_buf_append_str(&buf, "content"));
	assert_false(kh_hidden_has(buf.data));
	kh_buf_fini(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_reads_it_from_outside),
		cmocka_unit_test(blocks_do_not_overlap_and_come_back),
		cmocka_unit_test(what_has_no_room_is_mallocs),
		cmocka_unit_test(what_lasts_leaves_half_for_the_rest),
		cmocka_unit_test(threads_share_it),
		cmocka_unit_test(a_child_reads_it_and_takes_none),
		cmocka_unit_test(a_window_hides_what_libraries_fetch),
		cmocka_unit_test(a_buffer_is_hidden_and_no_more),
	};
	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
