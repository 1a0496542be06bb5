/* test_json_scan.c - what is JSON by RFC 8259, what only resembles it, and what is told of it */
#include "unit.h"

#include <stdio.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/json_scan.h>

/* Writes what it is told: `{` … `}`, `[` … `]`, `T` and `O` for values, names as k(…), texts as
 * t(…), and each with the depth in which it stands. */
struct trace {
	struct kh_buf log;
	bool wants;
	const char *refuse; /* of the kinds, the one at which it stops */
};

static bool told_value(struct kh_json_scan *scan, void *arg, enum kh_json_kind kind,
		       const char **why)
{
	struct trace *trace = arg;
	char letter = "{[TO"[kind];
	assert_true(kh_buf_printf(&trace->log, "%u%c", scan->depth, letter));
	if (trace->refuse && strchr(trace->refuse, letter)) {
		*why = "refused";
		return false;
	}
	scan->wanted = trace->wants;
	return true;
}

static void told_close(struct kh_json_scan *scan, void *arg)
{
	struct trace *trace = arg;
	assert_true(kh_buf_printf(&trace->log, "%u/", scan->depth));
}

static void told_name(struct kh_json_scan *scan, void *arg)
{
	struct trace *trace = arg;
	assert_true(kh_json_scan_in_object(scan));
	assert_true(kh_buf_append_char(&trace->log, 'k'));
	scan->wanted = trace->wants;
}

static void told_character(struct kh_json_scan *scan, void *arg, uint32_t c, bool escaped)
{
	struct trace *trace = arg;
	(void)scan;
	assert_true(trace->wants);
	assert_true(kh_buf_printf(&trace->log, escaped ? "<%x>" : "(%x)", c));
}

static bool told_end(struct kh_json_scan *scan, void *arg, bool name, const char **why)
{
	struct trace *trace = arg;
	(void)scan;
	(void)why;
	assert_true(kh_buf_append_char(&trace->log, name ? ':' : '.'));
	return true;
}

static const struct kh_json_events events = {
	.value = told_value,
	.close = told_close,
	.name = told_name,
	.character = told_character,
	.end = told_end,
};

/* Return: it is JSON; *why is set else. */
static bool scan(struct trace *trace, struct kh_slice text, bool halves, const char **why)
{
	struct kh_json_scan json;
	kh_json_scan_init(&json, &events, halves);
	*why = NULL;
	for (size_t i = 0; i < text.len; i++)
		if (!kh_json_scan_byte(&json, (unsigned char)text.ptr[i], trace, why)) {
			assert_non_null(*why);
			return false;
		}
	bool ok = kh_json_scan_end(&json, why);
	assert_int_equal(ok, *why == NULL);
	return ok;
}

static bool is_json(struct kh_slice text, bool halves)
{
	struct trace trace = { .wants = true };
	const char *why;
	kh_buf_init(&trace.log, 1 << 20);
	bool ok = scan(&trace, text, halves, &why);
	kh_buf_fini(&trace.log);
	return ok;
}

static void what_is_found_is_told_in_order(void **state)
{
	static const struct {
		const char *text;
		bool wants;
		const char *told;
	} rows[] = {
		{ "{}", true, "0{0/" },
		{ " [ ] ", true, "0[0/" },
		{ "\"a\"", true, "0T(61)." },
		{ "-1.5e+3 ", true, "0O" },
		{ "{\"a\":{\"b\":[1,\"\\n\",true]},\"c\":null}", true,
		  "0{k(61):1{k(62):2[3O3T<a>.3O2/1/k(63):1O0/" },
		{ "{\"abc\":\"def\"}", false, "0{k:1T.0/" },
		{ "[\"\\u0041\\ud83d\\ude00\xc3\xa9\xf0\x9f\x98\x80\"]", true,
		  "0[1T<41><1f600>(e9)(1f600).0/" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct trace trace = { .wants = rows[i].wants };
		struct kh_slice text = kh_slice_str(rows[i].text);
		const char *why;
		kh_buf_init(&trace.log, 4096);
		assert_true(scan(&trace, text, false, &why));
		assert_string_equal(kh_buf_cstr(&trace.log), rows[i].told);
		kh_buf_fini(&trace.log);
	}
}

static void what_only_resembles_json_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"{",
		"[",
		"}",
		"]",
		"{]",
		"[}",
		"[1,]",
		"[,1]",
		"[1 2]",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{,}",
		"{a:1}",
		"{'a':1}",
		"{1:1}",
		"{\"a\" 1}",
		"{\"a\"::1}",
		"[1]2",
		"{}{}",
		"1,2",
		"// c\n1",
		"/**/1",
		"nul",
		"nulll",
		"NULL",
		"True",
		"NaN",
		"Infinity",
		"-Infinity",
		"undefined",
		"01",
		"-",
		"-a",
		"+1",
		".5",
		"1.",
		"1.e1",
		"1e",
		"1e+",
		"0x10",
		"1_000",
		"\"",
		"\"a",
		"\"\n\"",
		"\"\t\"",
		"\"\\x\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"\\U0041\"",
		"\"\\'\"",
		"\"\x80\"",
		"\"\xc0\x80\"",
		"\"\xc1\xbf\"",
		"\"\xe0\x80\x80\"",
		"\"\xed\xa0\x80\"",
		"\"\xf0\x80\x80\x80\"",
		"\"\xf4\x90\x80\x80\"",
		"\"\xf5\x80\x80\x80\"",
		"\"\xc3\"",
		"\"\xe2\x82\"",
		"\xef\xbb\xbf{}",
		"{\"\xc3\":1}",
		"\f1",
	};
	static const char *const good[] = {
		"0",
		"-0",
		"0.0",
		"10",
		"1E5",
		"1e-5",
		"-0.1e+10",
		"true",
		"false",
		"null",
		"\"\"",
		"[[]]",
		"[{}]",
		"{\"\":0}",
		"{\"a\":1,\"a\":2}",
		"\r\n\t [\r0\n,\t1 ]\n",
		"\"\x7f\"",
		"\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"",
		"\"\\u0000\"",
		"\"/\\/\"",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (is_json(kh_slice_str(bad[i]), true))
			fail_msg("taken: %s", bad[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!is_json(kh_slice_str(good[i]), false))
			fail_msg("refused: %s", good[i]);
	assert_false(is_json(kh_slice_of("\"a\0b\"", 5), true));
	assert_false(is_json(kh_slice_of("1\0", 2), true));
}

static void half_a_surrogate_pair_stands_in_texts_alone_and_where_that_is_said(void **state)
{
	static const char *const halves[] = { "\\ud83d",	"\\ude00",	   "\\ud83dx",
					      "\\ud83d\\n",	"\\ud83d\\u0041",  "\\ud83d\\ud83d",
					      "\\ude00\\ud83d", "x\\ud83d\xc3\xa9" };
	(void)state;
	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		char text[64], name[64];
		(void)snprintf(text, sizeof(text), "{\"a\":\"%s\"}", halves[i]);
		(void)snprintf(name, sizeof(name), "{\"%s\":1}", halves[i]);
		assert_true(is_json(kh_slice_str(text), true));
		assert_false(is_json(kh_slice_str(text), false));
		assert_false(is_json(kh_slice_str(name), true));
		assert_false(is_json(kh_slice_str(name), false));
	}
}

static void a_text_that_is_cut_off_is_not_whole(void **state)
{
	struct kh_slice text = KH_SLICE("{\"a\":[1.5e3,\"\\u0041\xc3\xa9\",{\"b\":false}]}");
	(void)state;
	for (size_t len = 0; len < text.len; len++)
		assert_false(is_json(kh_slice_sub(text, 0, len), true));
	assert_true(is_json(text, true));
}

static void what_is_open_has_a_bound(void **state)
{
	char text[2 * KH_LIMIT_JSON_DEPTH + 2];
	const size_t most = KH_LIMIT_JSON_DEPTH;
	(void)state;
	memset(text, '[', most);
	memset(text + most, ']', most);
	assert_true(is_json(kh_slice_of(text, 2 * most), true));
	memset(text, '[', most + 1);
	memset(text + most + 1, ']', most + 1);
	assert_false(is_json(kh_slice_of(text, 2 * most + 2), true));
}

static void whoever_is_told_may_end_it(void **state)
{
	const char *why;
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		static const char *const refused[] = { "{", "[", "T", "O" };
		struct trace trace = { .refuse = refused[i] };
		kh_buf_init(&trace.log, 4096);
		assert_false(scan(&trace, KH_SLICE("{\"a\":[\"b\",1]}"), true, &why));
		assert_string_equal(why, "refused");
		kh_buf_fini(&trace.log);
	}
}

static void plain_bytes_are_skipped_only_in_a_string_that_is_not_wanted(void **state)
{
	struct kh_slice text = KH_SLICE("[\"plain \\n\xc3\xa9more\"]");
	struct trace trace = { .wants = false };
	struct kh_json_scan json;
	const char *why;
	size_t skipped = 0;
	(void)state;
	kh_buf_init(&trace.log, 4096);
	kh_json_scan_init(&json, &events, true);
	for (size_t i = 0; i < text.len; i++) {
		size_t n = kh_json_scan_plain(&json, kh_slice_sub(text, i, text.len));
		skipped += n;
		i += n;
		assert_true(kh_json_scan_byte(&json, (unsigned char)text.ptr[i], &trace, &why));
	}
	assert_true(kh_json_scan_end(&json, &why));
	assert_int_equal(skipped, strlen("plain ") + strlen("more"));
	trace.wants = true;
	kh_json_scan_init(&json, &events, true);
	for (size_t i = 0; i < text.len; i++) {
		assert_int_equal(kh_json_scan_plain(&json, kh_slice_sub(text, i, text.len)), 0);
		assert_true(kh_json_scan_byte(&json, (unsigned char)text.ptr[i], &trace, &why));
	}
	kh_buf_fini(&trace.log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_found_is_told_in_order),
		cmocka_unit_test(what_only_resembles_json_is_refused),
		cmocka_unit_test(
			half_a_surrogate_pair_stands_in_texts_alone_and_where_that_is_said),
		cmocka_unit_test(a_text_that_is_cut_off_is_not_whole),
		cmocka_unit_test(what_is_open_has_a_bound),
		cmocka_unit_test(whoever_is_told_may_end_it),
		cmocka_unit_test(plain_bytes_are_skipped_only_in_a_string_that_is_not_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
