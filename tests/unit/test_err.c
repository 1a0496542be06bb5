/* test_err.c - errors and log lines are one clean, bounded line, whatever goes in */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/base/err.h>
#include <keyhole/base/log.h>

static void an_error_carries_code_errno_and_text(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	assert_false(kh_err_set(&err, KH_ERR_NO_RULE, "no rule for %s", "a.example"));
	assert_int_equal(err.code, KH_ERR_NO_RULE);
	assert_int_equal(err.sys, 0);
	assert_string_equal(err.text, "no rule for a.example");
	assert_false(kh_err_sys(&err, KH_ERR_SYSTEM, ENOENT, "%s", "/x"));
	assert_int_equal(err.sys, ENOENT);
	assert_string_equal(err.text, "/x: No such file or directory");
	assert_false(kh_err_wrap(&err, "line %d", 3));
	assert_string_equal(err.text, "line 3: /x: No such file or directory");
	assert_int_equal(err.code, KH_ERR_SYSTEM);
	assert_int_equal(err.sys, ENOENT);
}

static void nobody_needs_to_listen(void **state)
{
	(void)state;
	assert_false(kh_err_set(NULL, KH_ERR_INTERNAL, "x"));
	assert_false(kh_err_sys(NULL, KH_ERR_INTERNAL, EIO, "x"));
	assert_false(kh_err_wrap(NULL, "x"));
}

static void an_error_may_be_made_from_its_own_text(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	kh_err_set(&err, KH_ERR_CONFIG, "first");
	kh_err_set(&err, KH_ERR_CONFIG, "%s, %s", err.text, err.text);
	assert_string_equal(err.text, "first, first");
	kh_err_wrap(&err, "(%s)", err.text);
	assert_string_equal(err.text, "(first, first): first, first");
}

static void a_long_text_is_cut_and_terminated(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	char *big = malloc(100001);
	assert_non_null(big);
	memset(big, 'a', 100000);
	big[100000] = 0;
	kh_err_set(&err, KH_ERR_CONFIG, "%s", big);
	assert_int_equal(strlen(err.text), KH_ERR_TEXT_BYTES - 1);
	assert_string_equal(err.text + KH_ERR_TEXT_BYTES - 6, "aa...");
	for (int i = 0; i < 1000; i++)
		kh_err_wrap(&err, "%d", i);
	assert_int_equal(strlen(err.text), KH_ERR_TEXT_BYTES - 1);
	assert_memory_equal(err.text, "999: 998: ", 10);
	assert_string_equal(err.text + KH_ERR_TEXT_BYTES - 4, "...");
	kh_err_sys(&err, KH_ERR_SYSTEM, EIO, "%s", big);
	assert_int_equal(strlen(err.text), KH_ERR_TEXT_BYTES - 1);
	assert_string_equal(err.text + KH_ERR_TEXT_BYTES - 6, "aa...");
	/* What just fits is whole. */
	big[KH_ERR_TEXT_BYTES - 1] = 0;
	kh_err_set(&err, KH_ERR_CONFIG, "%s", big);
	assert_string_equal(err.text, big);
	big[KH_ERR_TEXT_BYTES - 1] = 'a';
	kh_err_wrap(&err, "%s", big);
	assert_int_equal(strlen(err.text), KH_ERR_TEXT_BYTES - 1);
	free(big);
}

static void a_text_is_one_line_without_controls(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	kh_err_set(&err, KH_ERR_CONFIG, "a\nb\x1b[2Jc\x7f\xff%s", "\r\n\xc2\x9b");
	assert_string_equal(err.text, "a?b?[2Jc??????");
	kh_err_wrap(&err, "\n");
	assert_string_equal(err.text, "?: a?b?[2Jc??????");
	/* Cut in the middle of a character: no half of it is left. */
	char text[KH_ERR_TEXT_BYTES + 10];
	memset(text, 'x', sizeof(text));
	memcpy(text + KH_ERR_TEXT_BYTES - 3, "\xe2\x82\xac", 4);
	kh_err_set(&err, KH_ERR_CONFIG, "%s", text);
	assert_string_equal(err.text + KH_ERR_TEXT_BYTES - 6, "xx...");
}

static void the_three_names_of_a_code_come_from_one_row(void **state)
{
	(void)state;
	assert_int_equal(kh_err_status(KH_ERR_AUTHORITY_MISMATCH), 421);
	assert_string_equal(kh_err_proxy_status(KH_ERR_DNS_TIMEOUT), "dns_timeout");
	assert_string_equal(kh_err_reason(KH_ERR_AUDIT_UNAVAILABLE), "journal_unavailable");
	/* A refusal by policy must not look like something to retry. */
	static const enum kh_err_code refusals[] = { KH_ERR_DENIED_BY_RULE, KH_ERR_NO_RULE,
						     KH_ERR_CLIENT_AUTH, KH_ERR_ADDRESS_PROHIBITED,
						     KH_ERR_CREDENTIAL_BINDING };
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		assert_int_equal(kh_err_status(refusals[i]), 403);
	for (int code = 0; code < KH_ERR_COUNT; code++) {
		int status = kh_err_status((enum kh_err_code)code);
		assert_true(status == 0 || (status >= 400 && status <= 599));
		assert_true(strlen(kh_err_reason((enum kh_err_code)code)) > 0);
		/* No two codes share a reason: the journal tells them apart. */
		for (int other = 0; other < code; other++)
			assert_string_not_equal(kh_err_reason((enum kh_err_code)code),
						kh_err_reason((enum kh_err_code)other));
	}
	assert_int_equal(kh_err_status((enum kh_err_code)9999), 500);
	assert_string_equal(kh_err_reason((enum kh_err_code) - 1), "internal");
}

static void policy_is_what_keyhole_refuses_and_not_what_failed(void **state)
{
	(void)state;
	static const enum kh_err_code others[] = {
		KH_ERR_NONE,	       KH_ERR_INTERNAL,	   KH_ERR_PROXY_AUTH,
		KH_ERR_LIMIT,	       KH_ERR_NO_PAGE,	   KH_ERR_AUTHORITY_MISMATCH,
		KH_ERR_NAME_NOT_FOUND, KH_ERR_DOWN_CLOSED, KH_ERR_CREDENTIAL_UNAVAILABLE
	};
	static const enum kh_err_code refusals[] = {
		KH_ERR_DENIED_BY_RULE,	   KH_ERR_NO_RULE,	  KH_ERR_EXFILTRATION,
		KH_ERR_ADDRESS_PROHIBITED, KH_ERR_GEO_PROHIBITED, KH_ERR_LIMIT_SPENT,
		KH_ERR_CREDENTIAL_BINDING
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(kh_err_is_policy(others[i]));
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		assert_true(kh_err_is_policy(refusals[i]));
	assert_false(kh_err_is_policy((enum kh_err_code)9999));
}

/* What a call of `speak` writes to standard error. */
static ssize_t capture(void (*speak)(void), char *out, size_t room)
{
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	int keep = dup(STDERR_FILENO);
	assert_true(keep >= 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	speak();
	assert_int_equal(dup2(keep, STDERR_FILENO), STDERR_FILENO);
	(void)close(keep);
	(void)close(fds[1]);
	ssize_t len = 0, n;
	while ((n = read(fds[0], out + len, room - (size_t)len - 1)) > 0)
		len += n;
	(void)close(fds[0]);
	out[len] = 0;
	return len;
}

static void speak_levels(void)
{
	kh_log_set_role("worker");
	kh_log_set_level(KH_LOG_WARN);
	kh_log_info("not this");
	kh_log_debug("nor this");
	errno = EBADF;
	kh_log_warn("%s", "careful");
	assert_int_equal(errno, EBADF);
	kh_log_set_level(KH_LOG_DEBUG);
	kh_log_debug("two\nlines\x1b[1m");
	kh_log_set_role(NULL);
	kh_log_error("bad");
	kh_log((enum kh_log_level)99, "no such level");
	kh_log_set_level(KH_LOG_INFO);
}

static void a_log_line_is_levelled_and_one_line(void **state)
{
	(void)state;
	char out[4096];
	capture(speak_levels, out, sizeof(out));
	assert_string_equal(out, "keyhole: worker: warn: careful\n"
				 "keyhole: worker: debug: two?lines?[1m\n"
				 "keyhole: error: bad\n");
}

static void speak_long(void)
{
	char text[5000];
	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	kh_log_error("%s", text);
}

static void a_long_log_line_is_cut_with_a_mark(void **state)
{
	(void)state;
	char out[8192];
	ssize_t len = capture(speak_long, out, sizeof(out));
	assert_true(len <= 1024);
	assert_string_equal(out + len - 5, "y...\n");
	assert_ptr_equal(strchr(out, '\n'), out + len - 1);
}

static void levels_have_names(void **state)
{
	(void)state;
	enum kh_log_level level = KH_LOG_ERROR;
	assert_true(kh_log_level_parse(KH_SLICE("debug"), &level));
	assert_int_equal(level, KH_LOG_DEBUG);
	assert_false(kh_log_level_parse(KH_SLICE("Debug"), &level));
	assert_false(kh_log_level_parse(KH_SLICE(""), &level));
	assert_false(kh_log_level_parse(KH_SLICE("info "), &level));
	assert_int_equal(level, KH_LOG_DEBUG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_carries_code_errno_and_text),
		cmocka_unit_test(nobody_needs_to_listen),
		cmocka_unit_test(an_error_may_be_made_from_its_own_text),
		cmocka_unit_test(a_long_text_is_cut_and_terminated),
		cmocka_unit_test(a_text_is_one_line_without_controls),
		cmocka_unit_test(the_three_names_of_a_code_come_from_one_row),
		cmocka_unit_test(policy_is_what_keyhole_refuses_and_not_what_failed),
		cmocka_unit_test(a_log_line_is_levelled_and_one_line),
		cmocka_unit_test(a_long_log_line_is_cut_with_a_mark),
		cmocka_unit_test(levels_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
