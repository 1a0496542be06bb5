/* test_line_json.c - what of a journal's line is JSON that every program reads alike */
#include "audit_helpers.h"

#include "audit/audit_internal.h"

static void what_json_allows_is_allowed(void **state)
{
	static const char *const good[] = {
		"{}",
		"{\"a\":[],\"b\":{},\"c\":[[1],{\"a\":1,\"a\":2}]}",
		"{\"a\":-0.5e+10,\"b\":0,\"c\":1E3,\"d\":true,\"e\":false,\"f\":null}",
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
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		if (!kh_line_is_json(kh_slice_str(good[i])))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (kh_line_is_json(kh_slice_str(bad[i])))
			fail_msg("taken: %s", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_json_allows_is_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
