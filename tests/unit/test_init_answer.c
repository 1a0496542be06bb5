/* test_init_answer.c - which answer to a CONNECT opens a captured connection */
#include "unit.h"

#include <stdio.h>
#include <string.h>

/* keyhole-init is no part of the library. */
#include "init/answer.c" /* NOLINT(bugprone-suspicious-include) */

static char text[2 * KH_LIMIT_INIT_ANSWER_BYTES];

/* In pieces of this size. Return: what is said at last; `used` of all that was given. */
static enum init_answered give(const char *bytes, size_t len, size_t piece, size_t *used)
{
	struct init_answer answer = { 0 };
	enum init_answered said = INIT_ANSWER_MORE;
	for (*used = 0; *used < len && said == INIT_ANSWER_MORE;) {
		size_t n = len - *used < piece ? len - *used : piece, taken;
		said = init_answer_take(&answer, bytes + *used, n, &taken);
		if (said == INIT_ANSWER_MORE)
			assert_int_equal(taken, n);
		*used += taken;
	}
	return said;
}

static void expect(const char *bytes, enum init_answered wanted, size_t wanted_used)
{
	for (size_t piece = 1; piece <= strlen(bytes) + 1; piece++) {
		size_t used;
		assert_int_equal(give(bytes, strlen(bytes), piece, &used), wanted);
		assert_int_equal(used, wanted_used);
	}
}

static void a_200_is_taken_to_the_end_of_its_head(void **state)
{
	(void)state;
	static const char *const heads[] = {
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200\r\nA: b\r\n\r\n",
		"HTTP/1.1 200 \r\r\nA:\n\r\nB: \r\n\r\r\n\r\n",
	};
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		snprintf(text, sizeof(text), "%sSSH-2.0\r\n\r\nmore", heads[i]);
		expect(text, INIT_ANSWER_GOOD, strlen(heads[i]));
	}
}

static void anything_else_is_refused_at_the_first_wrong_byte(void **state)
{
	(void)state;
	expect("HTTP/1.1 403 Forbidden\r\n\r\n", INIT_ANSWER_REFUSED, 10);
	expect("HTTP/1.0 200 OK\r\n\r\n", INIT_ANSWER_REFUSED, 8);
	expect("SSH-2.0\r\n\r\n", INIT_ANSWER_REFUSED, 1);
	expect("\r\n\r\n", INIT_ANSWER_REFUSED, 1);
}

static void what_is_cut_off_is_not_whole_yet(void **state)
{
	(void)state;
	static const char head[] = "HTTP/1.1 200 OK\r\nA: b\r\n\r\n";
	for (size_t len = 0; len < sizeof(head) - 1; len++) {
		size_t used;
		assert_int_equal(give(head, len, 7, &used), INIT_ANSWER_MORE);
		assert_int_equal(used, len);
	}
}

static void a_head_has_a_length(void **state)
{
	(void)state;
	size_t used;
	memset(text, 'x', sizeof(text));
	memcpy(text, "HTTP/1.1 200 ", 13);
	assert_int_equal(give(text, sizeof(text), sizeof(text), &used), INIT_ANSWER_REFUSED);
	assert_int_equal(used, KH_LIMIT_INIT_ANSWER_BYTES);
	assert_int_equal(give(text, sizeof(text), 1000, &used), INIT_ANSWER_REFUSED);
	assert_int_equal(used, KH_LIMIT_INIT_ANSWER_BYTES);
	memcpy(text + KH_LIMIT_INIT_ANSWER_BYTES - 4, "\r\n\r\n", 4);
	assert_int_equal(give(text, sizeof(text), 1000, &used), INIT_ANSWER_GOOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_200_is_taken_to_the_end_of_its_head),
		cmocka_unit_test(anything_else_is_refused_at_the_first_wrong_byte),
		cmocka_unit_test(what_is_cut_off_is_not_whole_yet),
		cmocka_unit_test(a_head_has_a_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
