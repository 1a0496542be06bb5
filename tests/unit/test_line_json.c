/* test_line_json.c - what of a journal's line is JSON that every program reads alike */
#include "audit_helpers.h"

#include <string.h>

#include <jansson.h>

#include "audit/audit_internal.h"

static void what_json_allows_is_allowed(void **state)
{
	static const char *const good[] = {
		"{}",
		"{\"a\":[{\"a\":1},{\"a\":2}],\"b\":{},\"c\":[[1],{\"a\":{\"a\":1},\"b\":2}]}",
		"{\"a\":-0.5e+10,\"b\":0,\"c\":1E3,\"d\":true,\"e\":false,\"f\":null}",
		"{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":1e99}",
		"{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\ud83d\\ude00\xc3\xa9\"}",
	};
	static const char *const bad[] = {
		"",
		"[]",
		"1",
		"{",
		"}",
		"{}{}",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{a:1}",
		"{\"a\":.5}",
		"{\"a\":+1}",
		"{\"a\":1.}",
		"{\"a\":1e}",
		"{\"a\":tru}",
		"{\"a\":\"}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12g4\"}",
		"{\"a\":\"\\udc00\"}",
		"{\"a\":\"\\ud800\\ud800\"}",
		"{\"a\":\"\xc0\xaf\"}",
		"{\"a\":[[[[[[[[[1]]]]]]]]]}",
		"{\"a\":1,\"a\":2}",
		"{\"b\":[[1],{\"a\":1,\"a\":2}]}",
		"{\"b\":{\"a\":{\"c\":1},\"a\":2}}",
		"{\"b\":{\"\\u0061\":1}}",
		"{\"a\":9223372036854775808}",
		"{\"a\":-9223372036854775809}",
		"{\"a\":99999999999999999999}",
		"{\"a\":1e999}",
		"{\"a\":1.5E+100}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (!kh_line_is_json(kh_slice_str(good[i])))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (kh_line_is_json(kh_slice_str(bad[i])))
			fail_msg("taken: %s", bad[i]);
}

/* What `keyhole audit show` reads with, whatever is done to a line. */
static void what_is_taken_is_read_by_jansson(void **state)
{
	static const char *const lines[] = {
		"{\"event\":\"open\",\"id\":\"x0\",\"port\":443,\"a\":{\"b\":[1,2.5,{\"c\":null}],"
		"\"d\":true}}",
		"{\"a\":-9223372036854775807,\"b\":1.25e+10,\"c\":\"\\u0041\\ud83d\\ude00\\n\"}",
		"{\"a\":{\"a\":{\"a\":{\"a\":0}},\"b\":{\"a\":0}},\"b\":[[],{},[{}]]}",
	};
	static const char *const pieces[] = { "9",
					      "0",
					      "00",
					      "1e",
					      "E+",
					      "e9",
					      ".",
					      "-",
					      "\"",
					      "\\",
					      "\\u0000",
					      "\\ud800",
					      "\xff",
					      "\xc3\xa9",
					      "\xef\xbf\xbf",
					      "{",
					      "}",
					      "[",
					      "]",
					      ",",
					      ":",
					      "a",
					      "b",
					      "\"a\":1,",
					      "\"a\":",
					      "99999999999999999999",
					      " ",
					      "\t",
					      "\x7f" };
	enum { TRIALS = 300000, MOST = 512 };
	char line[MOST + 64];
	size_t taken = 0;

	(void)state;
	srandom(20240611);
	for (int t = 0; t < TRIALS; t++) {
		const char *first = lines[random() % 3];
		size_t len = strlen(first);
		memcpy(line, first, len);
		for (long n = random() % 4; n > 0; n--) {
			const char *piece =
				pieces[(size_t)random() % (sizeof(pieces) / sizeof(*pieces))];
			size_t at = (size_t)random() % (len + 1), cut = (size_t)random() % 3;
			cut = cut < len - at ? cut : len - at;
			memmove(line + at + strlen(piece), line + at + cut, len - at - cut);
			memcpy(line + at, piece, strlen(piece));
			len += strlen(piece) - cut;
		}
		if (!kh_line_is_json(kh_slice_of(line, len)))
			continue;
		json_t *read = json_loadb(line, len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
		if (!json_is_object(read))
			fail_msg("taken, and not read: %.*s", (int)len, line);
		json_decref(read);
		taken++;
	}
	assert_true(taken > TRIALS / 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_json_allows_is_allowed),
		cmocka_unit_test(what_is_taken_is_read_by_jansson),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
