/* test_hello.c - a ClientHello is read as it stands, in whatever pieces, or it is refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <openssl/ssl.h>

#include <keyhole/base/buf.h>
#include <keyhole/tls/hello.h>
#include <keyhole/base/limits.h>

/* From memory of exactly that size, so that a byte read beyond it is seen by ASan. */
static enum kh_hello_status read_exactly(struct kh_hello *hello, struct kh_slice bytes,
					 struct kh_err *err)
{
	char *copy = malloc(bytes.len ? bytes.len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes.ptr, bytes.len);
	enum kh_hello_status status = kh_hello_read(hello, kh_slice_of(copy, bytes.len), err);
	free(copy);
	return status;
}

/* What OpenSSL's client says first. */
static void real_hello(struct kh_buf *out, const char *name)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	char *bytes;
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	if (name)
		assert_int_equal(SSL_set_tlsext_host_name(ssl, name), 1);
	assert_int_equal(SSL_connect(ssl), -1);
	long len = BIO_get_mem_data(SSL_get_wbio(ssl), &bytes);
	kh_buf_init(out, 65536);
	assert_true(kh_buf_append(out, bytes, (size_t)len));
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

static void put(struct kh_buf *out, unsigned value, unsigned bytes)
{
	while (bytes-- > 0)
		assert_true(kh_buf_append_char(out, (char)(value >> 8 * bytes)));
}

/* A record around the bytes of a message. */
static void put_record(struct kh_buf *out, unsigned type, struct kh_slice message)
{
	put(out, type, 1);
	put(out, 0x0301, 2);
	put(out, (unsigned)message.len, 2);
	assert_true(kh_buf_append_slice(out, message));
}

/* The handshake message, with these extensions (or none). */
static void put_message(struct kh_buf *out, const struct kh_buf *extensions)
{
	struct kh_buf body;
	kh_buf_init(&body, 65536);
	put(&body, 0x0303, 2);
	for (int i = 0; i < 32; i++)
		put(&body, 7, 1);
	put(&body, 0, 1);
	put(&body, 2, 2);
	put(&body, 0x1301, 2);
	put(&body, 1, 1);
	put(&body, 0, 1);
	if (extensions) {
		put(&body, (unsigned)kh_buf_len(extensions), 2);
		assert_true(kh_buf_append_slice(&body, kh_buf_view(extensions)));
	}
	put(out, 1, 1);
	put(out, (unsigned)kh_buf_len(&body), 3);
	assert_true(kh_buf_append_slice(out, kh_buf_view(&body)));
	kh_buf_fini(&body);
}

static void put_extension(struct kh_buf *out, unsigned type, struct kh_slice data)
{
	put(out, type, 2);
	put(out, (unsigned)data.len, 2);
	assert_true(kh_buf_append_slice(out, data));
}

static void put_sni(struct kh_buf *out, struct kh_slice name)
{
	struct kh_buf data;
	kh_buf_init(&data, 1024);
	put(&data, (unsigned)name.len + 3, 2);
	put(&data, 0, 1);
	put(&data, (unsigned)name.len, 2);
	assert_true(kh_buf_append_slice(&data, name));
	put_extension(out, 0, kh_buf_view(&data));
	kh_buf_fini(&data);
}

static enum kh_hello_status read_extensions(struct kh_hello *hello, const struct kh_buf *extensions)
{
	struct kh_buf message, record;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&message, 65536);
	kh_buf_init(&record, 65536);
	put_message(&message, extensions);
	put_record(&record, 22, kh_buf_view(&message));
	enum kh_hello_status status = read_exactly(hello, kh_buf_view(&record), &err);
	assert_int_equal(status == KH_HELLO_BAD, err.code == KH_ERR_DOWN_TLS);
	if (status == KH_HELLO_BAD)
		assert_true(hello->sni.kind == KH_HOST_NONE && !hello->encrypted);
	kh_buf_fini(&message);
	kh_buf_fini(&record);
	return status;
}

static void a_real_hello_is_read_at_every_length(void **state)
{
	(void)state;
	struct kh_buf bytes;
	struct kh_hello hello;
	real_hello(&bytes, "API.example.com");
	size_t len = kh_buf_len(&bytes);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(
			read_exactly(&hello, kh_slice_sub(kh_buf_view(&bytes), 0, n), NULL),
			KH_HELLO_NEED_MORE);
	assert_int_equal(read_exactly(&hello, kh_buf_view(&bytes), NULL), KH_HELLO_GOT);
	assert_string_equal(hello.sni.text, "api.example.com");
	assert_false(hello.encrypted);
	/* What comes in further records (early data) is not looked at. */
	put_record(&bytes, 23, KH_SLICE("early"));
	assert_int_equal(read_exactly(&hello, kh_buf_view(&bytes), NULL), KH_HELLO_GOT);
	kh_buf_fini(&bytes);
	real_hello(&bytes, NULL);
	assert_int_equal(read_exactly(&hello, kh_buf_view(&bytes), NULL), KH_HELLO_GOT);
	assert_int_equal(hello.sni.kind, KH_HOST_NONE);
	kh_buf_fini(&bytes);
}

static void a_hello_may_be_spread_over_records(void **state)
{
	(void)state;
	struct kh_buf whole, pieces;
	struct kh_hello hello;
	real_hello(&whole, "a.test");
	struct kh_slice message = kh_slice_sub(kh_buf_view(&whole), 5, kh_buf_len(&whole));
	for (size_t size = 1; size < 40; size++) {
		kh_buf_init(&pieces, 65536);
		for (size_t at = 0; at < message.len; at += size) {
			assert_int_equal(read_exactly(&hello, kh_buf_view(&pieces), NULL),
					 KH_HELLO_NEED_MORE);
			put_record(&pieces, 22, kh_slice_sub(message, at, at + size));
		}
		assert_int_equal(read_exactly(&hello, kh_buf_view(&pieces), NULL), KH_HELLO_GOT);
		assert_string_equal(hello.sni.text, "a.test");
		kh_buf_fini(&pieces);
	}
	kh_buf_fini(&whole);
}

static void what_is_no_hello_is_said_at_once(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
	} cases[] = {
#define CASE(literal) { literal, sizeof(literal) - 1 }
		CASE("\x15"),				    /* an alert */
		CASE("\x17\x03\x03"),			    /* data */
		CASE("\x16\x02"),			    /* SSL 2 */
		CASE("\x16\x03\x01\0\0"),		    /* an empty record */
		CASE("\x16\x03\x01\x40\x01"),		    /* one above 2^14 */
		CASE("\x16\x03\x01\0\x20\x02"),		    /* a ServerHello */
		CASE("\x16\x03\x01\0\x04\x01\xff\xff\xff"), /* 16 MiB */
		CASE("\x16\x03\x01\0\x05\x01\0\0\0"),	    /* a byte behind it in its record */
		CASE("\x16\x03\x01\0\x04\x01\0\0\0"),	    /* nothing in it */
		CASE("\x16\x03\x01\0\x02\x01\0\x14\x03\x03\0\x01\x01"), /* cut by another record */
		CASE("\x80\x2e\x01\x03\x01"),				/* the form of SSL 2 */
		CASE("GET / HTTP/1.1\r\n"),
#undef CASE
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_hello hello;
		struct kh_err err = KH_ERR_INIT;
		assert_int_equal(
			read_exactly(&hello, kh_slice_of(cases[i].bytes, cases[i].len), &err),
			KH_HELLO_BAD);
		assert_int_equal(err.code, KH_ERR_DOWN_TLS);
	}
}

static void an_endless_hello_is_bounded(void **state)
{
	(void)state;
	struct kh_buf bytes;
	struct kh_hello hello;
	kh_buf_init(&bytes, 1 << 20);
	/* A message of 16,000 bytes in records of one: their heads count. */
	put_record(&bytes, 22, KH_SLICE("\x01"));
	put_record(&bytes, 22, KH_SLICE("\0\x3e\x80"));
	while (kh_buf_len(&bytes) <= KH_LIMIT_HELLO_BYTES) {
		assert_int_equal(kh_hello_read(&hello, kh_buf_view(&bytes), NULL),
				 KH_HELLO_NEED_MORE);
		put_record(&bytes, 22, KH_SLICE("x"));
	}
	assert_int_equal(kh_hello_read(&hello, kh_buf_view(&bytes), NULL), KH_HELLO_BAD);
	kh_buf_fini(&bytes);
}

static void the_server_name_is_one_host_name(void **state)
{
	(void)state;
	static const struct {
		const char *data;
		size_t len;
		enum kh_hello_status status;
	} cases[] = {
#define CASE(literal, status) { literal, sizeof(literal) - 1, status }
		CASE("\0\x06\0\0\x03"
		     "a.b",
		     KH_HELLO_GOT),
		CASE("", KH_HELLO_BAD),
		CASE("\0\0", KH_HELLO_BAD),
		CASE("\0\x03\0\0\0", KH_HELLO_BAD),
		CASE("\0\x06\x01\0\x03"
		     "a.b",
		     KH_HELLO_BAD),
		CASE("\0\x07\0\0\x03"
		     "a.b",
		     KH_HELLO_BAD),
		CASE("\0\x06\0\0\x03"
		     "a.bc",
		     KH_HELLO_BAD),
		CASE("\0\x06\0\0\x04"
		     "a.b",
		     KH_HELLO_BAD),
		CASE("\0\x0c\0\0\x03"
		     "a.b\0\0\x03"
		     "c.d",
		     KH_HELLO_BAD),
		CASE("\0\x07\0\0\x04"
		     "a.b.",
		     KH_HELLO_BAD),
		CASE("\0\x07\0\0\x04"
		     "a\0.b",
		     KH_HELLO_BAD),
		CASE("\0\x0a\0\0\x07"
		     "1.2.3.4",
		     KH_HELLO_BAD),
		CASE("\0\x06\0\0\x03"
		     "::1",
		     KH_HELLO_BAD),
#undef CASE
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_buf extensions;
		struct kh_hello hello;
		kh_buf_init(&extensions, 1024);
		put_extension(&extensions, 0, kh_slice_of(cases[i].data, cases[i].len));
		assert_int_equal(read_extensions(&hello, &extensions), cases[i].status);
		kh_buf_fini(&extensions);
	}
}

static void an_encrypted_hello_is_seen_whatever_its_kind(void **state)
{
	(void)state;
	static const struct {
		unsigned type;
		bool encrypted;
	} cases[] = {
		{ 0xfe0d, true },  { 0xfe08, true },  { 0xfe0a, true },	 { 0xffce, true },
		{ 0xfe0e, false }, { 0xfe07, false }, { 0x0a0a, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_buf extensions;
		struct kh_hello hello;
		kh_buf_init(&extensions, 1024);
		put_extension(&extensions, cases[i].type, KH_SLICE("\0\0\x01"));
		put_sni(&extensions, KH_SLICE("outer.test"));
		assert_int_equal(read_extensions(&hello, &extensions), KH_HELLO_GOT);
		assert_int_equal(hello.encrypted, cases[i].encrypted);
		assert_string_equal(hello.sni.text, "outer.test");
		kh_buf_fini(&extensions);
	}
}

static void no_extension_stands_there_twice(void **state)
{
	(void)state;
	struct kh_buf extensions;
	struct kh_hello hello;
	kh_buf_init(&extensions, 1024);
	put_sni(&extensions, KH_SLICE("a.test"));
	put_extension(&extensions, 0xabcd, KH_SLICE(""));
	assert_int_equal(read_extensions(&hello, &extensions), KH_HELLO_GOT);
	put_sni(&extensions, KH_SLICE("a.test"));
	assert_int_equal(read_extensions(&hello, &extensions), KH_HELLO_BAD);
	kh_buf_clear(&extensions);
	put_extension(&extensions, 0xabcd, KH_SLICE(""));
	put_extension(&extensions, 0xabcd, KH_SLICE(""));
	assert_int_equal(read_extensions(&hello, &extensions), KH_HELLO_BAD);
	kh_buf_fini(&extensions);
	assert_int_equal(read_extensions(&hello, NULL), KH_HELLO_GOT);
	assert_int_equal(hello.sni.kind, KH_HOST_NONE);
}

static void a_byte_more_or_less_is_not_read_past(void **state)
{
	(void)state;
	struct kh_buf bytes;
	real_hello(&bytes, "api.example.com");
	for (size_t at = 0; at < kh_buf_len(&bytes); at++) {
		for (unsigned change = 1; change < 256; change <<= 1) {
			struct kh_hello hello;
			bytes.data[bytes.head + at] ^= (char)change;
			(void)read_exactly(&hello, kh_buf_view(&bytes), NULL);
			bytes.data[bytes.head + at] ^= (char)change;
		}
	}
	kh_buf_fini(&bytes);
}

static void its_length_is_known_from_the_header(void **state)
{
	(void)state;
	struct kh_buf real;
	real_hello(&real, "api.example.com");
	struct kh_slice hello = kh_buf_view(&real);
	for (size_t n = 0; n <= hello.len; n++)
		assert_int_equal(kh_hello_length(kh_slice_sub(hello, 0, n)),
				 n < 9 ? 0 : hello.len - 5);
	kh_buf_fini(&real);
	assert_int_equal(kh_hello_length(kh_slice_of("\x16\3\1\0\xff\1\xff\xff\xff", 9)),
			 4 + 0xffffff);
	/* The header itself is in pieces. */
	static const char pieces[] = "\x16\3\1\0\1\1\x16\3\1\0\1\0\x16\3\1\0\1\2\x16\3\1\0\2\x10";
	for (size_t n = 0; n < sizeof(pieces); n++)
		assert_int_equal(kh_hello_length(kh_slice_of(pieces, n)),
				 n < sizeof(pieces) - 1 ? 0 : 4 + 0x210);
	assert_int_equal(kh_hello_length(kh_slice_of("\x16\3\1\0\0", 5)), SIZE_MAX);
}

static void an_alert_is_one_record(void **state)
{
	(void)state;
	unsigned char bytes[KH_ALERT_BYTES];
	kh_alert_format(KH_ALERT_UNRECOGNIZED_NAME, bytes);
	assert_memory_equal(bytes, "\x15\x03\x03\0\x02\x02\x70", sizeof(bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_real_hello_is_read_at_every_length),
		cmocka_unit_test(a_hello_may_be_spread_over_records),
		cmocka_unit_test(what_is_no_hello_is_said_at_once),
		cmocka_unit_test(an_endless_hello_is_bounded),
		cmocka_unit_test(the_server_name_is_one_host_name),
		cmocka_unit_test(an_encrypted_hello_is_seen_whatever_its_kind),
		cmocka_unit_test(no_extension_stands_there_twice),
		cmocka_unit_test(a_byte_more_or_less_is_not_read_past),
		cmocka_unit_test(its_length_is_known_from_the_header),
		cmocka_unit_test(an_alert_is_one_record),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
