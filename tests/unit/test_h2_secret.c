/*
 * test_h2_secret.c - a credential that went through the HTTP/2 codec is nowhere in memory behind it
 *
 * Looks through all of the process's own writable memory, for the value as it is and as HPACK's
 * Huffman code writes it. What is looked for is kept in another form, so that it finds no copy of
 * its own.
 */
#include "h2_drive.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/base/secret.h>
#include <nghttp2/nghttp2.h>

enum { SECRET_BYTES = 40, MASK = 0x5a };

/* "Bearer sk-" and what is drawn from a counter; masked. */
static unsigned char masked[16 + SECRET_BYTES];
static unsigned char masked_code[2 * sizeof(masked)];
static size_t code_len;

static void make_value(void)
{
	static const char alphabet[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	uint32_t x = (uint32_t)getpid() * 2654435761u + 12345u;

	memcpy(masked, "Bearer sk-test--", 16);
	for (size_t i = 16; i < sizeof(masked); i++) {
		x = x * 1664525u + 1013904223u;
		masked[i] = (unsigned char)alphabet[(x >> 16) % (sizeof(alphabet) - 1)];
	}
	for (size_t i = 0; i < sizeof(masked); i++)
		masked[i] ^= MASK;
}

static void unmask(char *to)
{
	for (size_t i = 0; i < sizeof(masked); i++)
		to[i] = (char)(masked[i] ^ MASK);
}

static size_t count_in(const unsigned char *from, size_t len, const unsigned char *what, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; n > 0 && i + n <= len; i++) {
		size_t k = 0;

		while (k < n && (from[i + k] ^ MASK) == what[k])
			k++;
		found += k == n;
	}
	return found;
}

/* All private writable mappings, but this function's own buffer. */
__attribute__((noinline)) static size_t count_in_memory(void)
{
	static unsigned char window[1 << 16];
	enum { STEP = sizeof(window) - 256 };
	FILE *maps = fopen("/proc/self/maps", "r");
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	size_t found = 0;
	char line[512];

	assert_non_null(maps);
	assert_true(mem >= 0);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to;
		char mode[8];

		/* The sanitizer's own map of memory is terabytes of nothing. */
		if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || mode[1] != 'w' ||
		    to - from > (1ul << 30))
			continue;
		for (unsigned long at = from; at < to; at += STEP) {
			size_t want = to - at < sizeof(window) ? to - at : sizeof(window);
			ssize_t got = pread(mem, window, want, (off_t)at);

			if (got <= 0)
				break;
			/* Not the window in itself. */
			if (at + (size_t)got > (uintptr_t)window &&
			    at < (uintptr_t)window + sizeof(window))
				continue;
			found += count_in(window, (size_t)got, masked, sizeof(masked));
			found += count_in(window, (size_t)got, masked_code, code_len);
		}
	}
	fclose(maps);
	close(mem);
	explicit_bzero(window, sizeof(window));
	return found;
}

struct sending {
	struct drive *d;
	struct kh_h2_stream *stream;
};

static bool put_request(struct kh_slice value, void *arg)
{
	struct sending *s = arg;
	const struct kh_h2_request request = { .method = KH_SLICE("POST"),
					       .scheme = KH_SLICE("https"),
					       .authority = KH_SLICE("a.example"),
					       .path = KH_SLICE("/v1") };
	const struct kh_field fields[] = { { KH_SLICE("x-plain"), KH_SLICE("is indexed") },
					   { KH_SLICE("Authorization"), value },
					   { KH_SLICE("x-other"), value } };

	s->stream = kh_h2_put_request(s->d->h2, &request, fields, 3, 2, false);
	return s->stream != NULL;
}

/* What HPACK makes of it. */
static void note_code(void)
{
	static const char name[] = "x-other";
	nghttp2_hd_deflater *deflater;
	char value[sizeof(masked)];
	uint8_t bytes[512];

	unmask(value);
	nghttp2_nv nv = { .name = (uint8_t *)(uintptr_t)name,
			  .namelen = sizeof(name) - 1,
			  .value = (uint8_t *)value,
			  .valuelen = sizeof(value),
			  .flags = NGHTTP2_NV_FLAG_NO_INDEX };
	assert_int_equal(nghttp2_hd_deflate_new(&deflater, 4096), 0);
	ssize_t len = nghttp2_hd_deflate_hd(deflater, bytes, sizeof(bytes), &nv, 1);
	nghttp2_hd_deflate_del(deflater);
	/* The code stands at the end, behind its length in one byte; a byte of the code may look
	   like the length of what is behind it, so the first one counts. */
	for (ssize_t i = 1; i < len && code_len == 0; i++)
		if (bytes[i] == (0x80 | (unsigned)(len - i - 1)))
			code_len = (size_t)(len - i - 1);
	assert_true(code_len > 20 && code_len < sizeof(masked_code));
	for (size_t i = 0; i < code_len; i++)
		masked_code[i] = bytes[(size_t)len - code_len + i] ^ MASK;
	explicit_bzero(bytes, sizeof(bytes));
	explicit_bzero(value, sizeof(value));
}

static struct kh_secret *new_secret(void)
{
	char value[sizeof(masked)];

	unmask(value);
	struct kh_secret *secret = kh_secret_new(value, sizeof(value), NULL);
	assert_non_null(secret);
	return secret;
}

static void test_nothing_of_it_stays(void **state)
{
	struct kh_secret *secret = new_secret();
	struct drive d;

	(void)state;
	drive_init(&d, KH_H2_CLIENT);
	assert_true(kh_h2_feed(d.h2, KH_SLICE("\0\0\0\4\0\0\0\0\0"), 0));
	for (int i = 0; i < 3; i++) {
		struct sending s = { .d = &d };

		assert_true(kh_secret_expose(secret, put_request, &s));
		assert_true(kh_h2_put_data(s.stream, KH_SLICE("content")));
		/* On its way it is there: the look finds what there is. */
		(void)kh_h2_drain(d.h2, &d.out);
		assert_true(count_in_memory() > 0);
		kh_buf_consume(&d.out, kh_buf_len(&d.out));
		assert_int_equal(count_in_memory(), 0);
		kh_h2_release(s.stream);
		drive_drain(&d);
	}
	/* One that was put in line and never went. */
	struct sending s = { .d = &d };
	assert_true(kh_secret_expose(secret, put_request, &s));
	kh_h2_release(s.stream);
	drive_fini(&d);
	assert_int_equal(count_in_memory(), 0);
	kh_secret_unref(secret);
}

/* The peer's decoder is told never to index it either, and the table does not hold it: each time it
 * is written out in full. */
static void test_it_is_never_indexed(void **state)
{
	struct kh_secret *secret = new_secret();
	size_t lengths[3];
	struct drive d;

	(void)state;
	drive_init(&d, KH_H2_CLIENT);
	assert_true(kh_h2_feed(d.h2, KH_SLICE("\0\0\0\4\0\0\0\0\0"), 0));
	(void)kh_h2_drain(d.h2, &d.out);
	kh_buf_consume(&d.out, kh_buf_len(&d.out));
	for (int i = 0; i < 3; i++) {
		struct sending s = { .d = &d };

		assert_true(kh_secret_expose(secret, put_request, &s));
		(void)kh_h2_drain(d.h2, &d.out);
		lengths[i] = kh_buf_len(&d.out);
		/* 0x10 in front: a literal that is never indexed; with the static table's name for
		 * Authorization (23). */
		struct kh_slice out = kh_buf_view(&d.out);
		bool never = false;
		for (size_t at = 9; at + 1 < out.len; at++)
			never |= (unsigned char)out.ptr[at] == 0x1f && out.ptr[at + 1] == 8;
		assert_true(never);
		kh_buf_consume(&d.out, kh_buf_len(&d.out));
		kh_h2_release(s.stream);
	}
	assert_int_equal(lengths[1], lengths[2]);
	assert_true(lengths[1] > 2 * code_len);
	drive_fini(&d);
	kh_secret_unref(secret);
}

int main(int argc, char **argv)
{
	(void)argc;
	/* As the worker runs (src/keeper/spawn.c): else nghttp2's first call of a function may
	   leave it on the stack. */
	if (!getenv("LD_BIND_NOW")) {
		setenv("LD_BIND_NOW", "1", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_of_it_stays),
		cmocka_unit_test(test_it_is_never_indexed),
	};

	make_value();
	note_code();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
