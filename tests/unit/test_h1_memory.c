/* wrap: malloc */
/* wrap: calloc */
/* test_h1_memory.c - a codec without memory says so, and one at rest holds next to none */
#include "base/sanitized.h"
#include "h1_drive.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);

static int left = -1; /* allocations until one fails; negative: none does */
static size_t given;

static bool fails(void)
{
	return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size)
{
	given += size;
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	given += n * size;
	return fails() ? NULL : __real_calloc(n, size);
}

/* Feeds all; the events but the last are of no interest. */
static enum kh_h1_event feed_all(struct kh_h1 *h1, struct kh_slice in)
{
	enum kh_h1_event event, last = KH_H1_NEED_MORE;
	struct kh_slice body;

	while ((event = kh_h1_feed(h1, &in, &body)) != KH_H1_NEED_MORE && event != KH_H1_ERROR)
		last = event;
	return event == KH_H1_ERROR ? event : last;
}

static void test_every_allocation_may_fail(void **state)
{
	struct kh_buf text;
	bool whole = false;

	(void)state;
	kh_buf_init(&text, 64 << 10);
	kh_buf_append_str(&text, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n");
	for (int i = 0; i < 100; i++)
		kh_buf_printf(&text, "X-%d: 0123456789012345678901234567890123456789\r\n", i);
	kh_buf_append_str(&text, "\r\n1\r\nx\r\n0\r\nT: 1\r\n\r\n");
	for (int n = 0; !whole; n++) {
		assert_true(n < 100);
		struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);

		assert_non_null(h1);
		left = n;
		enum kh_h1_event last = feed_all(h1, kh_buf_view(&text));
		whole = left >= 0; /* none has failed */
		left = -1;
		assert_int_equal(last, whole ? KH_H1_END : KH_H1_ERROR);
		if (!whole) {
			assert_int_equal(kh_h1_error(h1)->code, KH_ERR_NO_MEMORY);
			assert_null(kh_h1_message(h1));
		}
		kh_h1_free(h1);
	}
	left = 0;
	assert_null(kh_h1_new(KH_H1_REQUESTS));
	left = -1;
	kh_buf_fini(&text);
}

static void test_a_codec_at_rest_is_small(void **state)
{
	struct kh_slice in = KH_SLICE("GET / HTTP/1.1\r\nHost: a\r\n\r\n");

	(void)state;
	given = 0;
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);
	assert_true(given < 100);
	assert_int_equal(feed_all(h1, in), KH_H1_END);
	assert_true(given < 8 << 10);
	/* A second message needs nothing new. */
	given = 0;
	assert_int_equal(feed_all(h1, in), KH_H1_END);
	assert_int_equal(given, 0);
	/* After a release the codec allocates again. Without a sanitizer the thread's store of
	   blocks serves it, and malloc is not asked. */
	kh_h1_release(h1);
	assert_int_equal(feed_all(h1, in), KH_H1_END);
	assert_int_equal(given > 0, KH_SANITIZED);
	kh_h1_free(h1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_allocation_may_fail),
		cmocka_unit_test(test_a_codec_at_rest_is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
