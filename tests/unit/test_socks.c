/* test_socks.c - SOCKS5: what is said is read as RFC 1928 has it, and what is wrong is refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <downstream/socks.h>

/* What one connection says, and what it was told. */
struct talk {
	struct kh_socks socks;
	struct kh_buf out;
	struct kh_err err;
	size_t taken;
};

static void talk_init(struct talk *t, bool with_password)
{
	*t = (struct talk){ .socks = { .with_password = with_password } };
	kh_buf_init(&t->out, 4096);
}

/* From memory of exactly that size, so that a byte read beyond it is seen by ASan. */
static enum kh_socks_event say(struct talk *t, const void *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	struct kh_slice in = kh_slice_of(copy, len);
	enum kh_socks_event event = kh_socks_feed(&t->socks, &in, &t->out, &t->err);
	t->taken = len - in.len;
	if (event == KH_SOCKS_NEED_MORE)
		assert_int_equal(t->taken, 0);
	if (event == KH_SOCKS_ERROR)
		assert_true(t->err.code && t->err.text[0]);
	if (event != KH_SOCKS_LOGIN)
		free(copy);
	else
		t->socks.user.ptr = copy; /* for the test to compare and free */
	return event;
}

#define SAY(t, literal) say(t, literal, sizeof(literal) - 1)

static void assert_told(struct talk *t, const void *bytes, size_t len)
{
	assert_int_equal(kh_buf_len(&t->out), len);
	assert_memory_equal(kh_buf_view(&t->out).ptr, bytes, len);
	kh_buf_clear(&t->out);
}

#define TOLD(t, literal) assert_told(t, literal, sizeof(literal) - 1)
#define REPLY(code) "\x05" code "\0\x01\0\0\0\0\0\0"

static void greet(struct talk *t)
{
	talk_init(t, false);
	assert_int_equal(SAY(t, "\x05\x01\0"), KH_SOCKS_AGREED);
	TOLD(t, "\x05\0");
}

static void a_name_is_taken_in_its_canonical_form(void **state)
{
	(void)state;
	struct talk t;
	greet(&t);
	assert_int_equal(SAY(&t, "\x05\x01\0\x03\x08"
				 "API.Test\x01\xbb"
				 "GET"),
			 KH_SOCKS_REQUEST);
	assert_int_equal(t.taken, 15); /* what follows is the tunnel's */
	assert_string_equal(t.socks.target.host.text, "api.test");
	assert_int_equal(t.socks.target.port, 443);
	assert_int_equal(kh_buf_len(&t.out), 0);
	assert_true(kh_socks_put_reply(&t.out, KH_SOCKS_SUCCEEDED));
	TOLD(&t, REPLY("\0"));
	kh_buf_fini(&t.out);
}

static void addresses_of_both_families_are_hosts(void **state)
{
	(void)state;
	struct talk t;
	greet(&t);
	assert_int_equal(SAY(&t, "\x05\x01\0\x01\xc0\0\x02\x07\x1f\x90"), KH_SOCKS_REQUEST);
	assert_int_equal(t.socks.target.host.kind, KH_HOST_IPV4);
	assert_string_equal(t.socks.target.host.text, "192.0.2.7");
	assert_int_equal(t.socks.target.port, 8080);
	kh_buf_fini(&t.out);
	greet(&t);
	assert_int_equal(SAY(&t, "\x05\x01\0\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\0\x16"),
			 KH_SOCKS_REQUEST);
	assert_int_equal(t.socks.target.host.kind, KH_HOST_IPV6);
	assert_string_equal(t.socks.target.host.text, "2001:db8::7");
	assert_int_equal(t.socks.target.port, 22);
	kh_buf_fini(&t.out);
	/* One host has one reading: an address spelled as a name is the address. */
	greet(&t);
	assert_int_equal(SAY(&t, "\x05\x01\0\x03\x09"
				 "192.0.2.7\0\x50"),
			 KH_SOCKS_REQUEST);
	assert_int_equal(t.socks.target.host.kind, KH_HOST_IPV4);
	kh_buf_fini(&t.out);
}

static void bytes_may_come_one_by_one(void **state)
{
	(void)state;
	static const char all[] = "\x05\x02\x02\0\x05\x01\0\x03\x04"
				  "a.bc\0\x50";
	struct talk t;
	size_t from = 0;
	enum kh_socks_event last = KH_SOCKS_NEED_MORE;
	talk_init(&t, false);
	for (size_t to = 1; to < sizeof(all); to++) {
		last = say(&t, all + from, to - from);
		from += t.taken;
		assert_int_equal(last, to == 4		       ? KH_SOCKS_AGREED
				       : to == sizeof(all) - 1 ? KH_SOCKS_REQUEST
							       : KH_SOCKS_NEED_MORE);
	}
	assert_string_equal(t.socks.target.host.text, "a.bc");
	kh_buf_fini(&t.out);
}

static void a_greeting_without_our_method_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		bool with_password;
		const char *told;
		enum kh_err_code code;
	} cases[] = {
		{ "\x05\0", 2, false, "\x05\xff", KH_ERR_REQUEST_MALFORMED },
		{ "\x05\x01\x02", 3, false, "\x05\xff", KH_ERR_REQUEST_MALFORMED },
		{ "\x05\x01\0", 3, true, "\x05\xff", KH_ERR_PROXY_AUTH },
		{ "\x05\x02\x01\0", 4, true, "\x05\xff", KH_ERR_PROXY_AUTH },
		{ "\x04\x01", 2, false, "", KH_ERR_REQUEST_MALFORMED },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct talk t;
		talk_init(&t, cases[i].with_password);
		assert_int_equal(say(&t, cases[i].bytes, cases[i].len), KH_SOCKS_ERROR);
		assert_int_equal(t.err.code, cases[i].code);
		assert_told(&t, cases[i].told, strlen(cases[i].told));
		assert_int_equal(SAY(&t, "\x05\x01\0"), KH_SOCKS_NEED_MORE);
		kh_buf_fini(&t.out);
	}
}

static void a_login_is_handed_over_and_judged(void **state)
{
	(void)state;
	for (int holds = 0; holds < 2; holds++) {
		struct talk t;
		talk_init(&t, true);
		assert_int_equal(SAY(&t, "\x05\x02\0\x02"), KH_SOCKS_AGREED);
		TOLD(&t, "\x05\x02");
		assert_int_equal(SAY(&t, "\x01\x03"
					 "abc\x02"
					 "p"),
				 KH_SOCKS_NEED_MORE);
		assert_int_equal(SAY(&t, "\x01\x03"
					 "abc\x02"
					 "pw\x05"),
				 KH_SOCKS_LOGIN);
		assert_int_equal(t.taken, 8);
		assert_int_equal(t.socks.user.len, 3);
		assert_true(kh_slice_eq(t.socks.password, KH_SLICE("pw")));
		/* Nothing is read before the verdict. */
		char *copy = (char *)(uintptr_t)t.socks.user.ptr;
		assert_int_equal(SAY(&t, "\x05\x01\0\x01\xc0\0\x02\x07\0\x50"), KH_SOCKS_NEED_MORE);
		assert_true(kh_socks_login(&t.socks, holds, &t.out));
		free(copy);
		if (holds)
			TOLD(&t, "\x01\0");
		else
			TOLD(&t, "\x01\x01");
		assert_int_equal(SAY(&t, "\x05\x01\0\x01\xc0\0\x02\x07\0\x50"),
				 holds ? KH_SOCKS_REQUEST : KH_SOCKS_NEED_MORE);
		kh_buf_fini(&t.out);
	}
	struct talk t;
	talk_init(&t, true);
	assert_int_equal(SAY(&t, "\x05\x01\x02"), KH_SOCKS_AGREED);
	kh_buf_clear(&t.out);
	assert_int_equal(SAY(&t, "\x05"), KH_SOCKS_ERROR);
	TOLD(&t, "\x01\x01");
	kh_buf_fini(&t.out);
}

static void what_is_no_request_is_refused_with_its_code(void **state)
{
	(void)state;
	static char long_name[4 + 1 + 254 + 2] = "\x05\x01\0\x03\xfe";
	memset(long_name + 5, 'a', 254);
	static const struct {
		const char *bytes;
		size_t len;
		unsigned reply;
	} cases[] = {
#define CASE(literal, reply) { literal, sizeof(literal) - 1, reply }
		CASE("\x04\x01", KH_SOCKS_FAILURE),
		CASE("\x05\x02", KH_SOCKS_COMMAND_UNSUPPORTED), /* BIND */
		CASE("\x05\x03", KH_SOCKS_COMMAND_UNSUPPORTED), /* UDP ASSOCIATE */
		CASE("\x05\0", KH_SOCKS_COMMAND_UNSUPPORTED),
		CASE("\x05\xf0", KH_SOCKS_COMMAND_UNSUPPORTED), /* RESOLVE, as Tor has it */
		CASE("\x05\x01\x01", KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x02", KH_SOCKS_ADDRESS_UNSUPPORTED),
		CASE("\x05\x01\0\0", KH_SOCKS_ADDRESS_UNSUPPORTED),
		CASE("\x05\x01\0\x03\0\0\x50", KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x03\x09"
		     "api.t\0est\x01\xbb",
		     KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x03\x09"
		     "api.test\0\x01\xbb",
		     KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x03\x09"
		     "api .test\x01\xbb",
		     KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x03\x09"
		     "api.test.\x01\xbb",
		     KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x03\x0a"
		     "2130706433\x01\xbb",
		     KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x03\x05"
		     "[::1]\x01\xbb",
		     KH_SOCKS_FAILURE),
		CASE("\x05\x01\0\x03\x03"
		     "a.b\0\0",
		     KH_SOCKS_FAILURE),
		{ long_name, sizeof(long_name), KH_SOCKS_FAILURE },
#undef CASE
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct talk t;
		greet(&t);
		assert_int_equal(say(&t, cases[i].bytes, cases[i].len), KH_SOCKS_ERROR);
		assert_int_equal(kh_buf_len(&t.out), 10);
		assert_int_equal(kh_buf_view(&t.out).ptr[1], cases[i].reply);
		assert_int_equal(
			kh_socks_feed(&t.socks, &(struct kh_slice){ "\x05", 1 }, &t.out, NULL),
			KH_SOCKS_NEED_MORE);
		kh_buf_fini(&t.out);
	}
}

static void every_failure_has_a_reply(void **state)
{
	(void)state;
	assert_int_equal(kh_socks_reply_for(KH_ERR_NO_RULE), KH_SOCKS_NOT_ALLOWED);
	assert_int_equal(kh_socks_reply_for(KH_ERR_DENIED_BY_RULE), KH_SOCKS_NOT_ALLOWED);
	assert_int_equal(kh_socks_reply_for(KH_ERR_ADDRESS_PROHIBITED), KH_SOCKS_NOT_ALLOWED);
	assert_int_equal(kh_socks_reply_for(KH_ERR_CONNECT_REFUSED), KH_SOCKS_REFUSED);
	assert_int_equal(kh_socks_reply_for(KH_ERR_UNREACHABLE), KH_SOCKS_NETWORK_UNREACHABLE);
	assert_int_equal(kh_socks_reply_for(KH_ERR_NAME_NOT_FOUND), KH_SOCKS_HOST_UNREACHABLE);
	assert_int_equal(kh_socks_reply_for(KH_ERR_CONNECT_TIMEOUT), KH_SOCKS_HOST_UNREACHABLE);
	for (int code = KH_ERR_NONE + 1; code < KH_ERR_COUNT; code++)
		assert_int_not_equal(kh_socks_reply_for((enum kh_err_code)code),
				     KH_SOCKS_SUCCEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_taken_in_its_canonical_form),
		cmocka_unit_test(addresses_of_both_families_are_hosts),
		cmocka_unit_test(bytes_may_come_one_by_one),
		cmocka_unit_test(a_greeting_without_our_method_is_refused),
		cmocka_unit_test(a_login_is_handed_over_and_judged),
		cmocka_unit_test(what_is_no_request_is_refused_with_its_code),
		cmocka_unit_test(every_failure_has_a_reply),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
