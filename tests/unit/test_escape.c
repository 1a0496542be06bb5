/* test_escape.c - no byte of a sandbox reaches a terminal or forges a line */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/escape.h>

static void every_byte_is_shown_as_printable_ascii(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		char byte = (char)c, want[8];
		if (c == '\\' || c == '"')
			(void)snprintf(want, sizeof(want), "\\%c", c);
		else if (c >= 0x20 && c < 0x7f)
			(void)snprintf(want, sizeof(want), "%c", c);
		else
			(void)snprintf(want, sizeof(want), "\\x%02x", (unsigned)c);
		assert_string_equal(kh_esc(kh_slice_of(&byte, 1)), want);
	}
	assert_string_equal(kh_esc_str(NULL), "");
	assert_string_equal(kh_esc_str("a\nb"), "a\\x0ab");
}

static void output_is_bounded_and_no_escape_is_cut(void **state)
{
	(void)state;
	char text[1000];
	for (size_t len = 0; len < 400; len++) {
		for (int kind = 0; kind < 3; kind++) {
			memset(text, kind == 0 ? 'a' : kind == 1 ? '\n' : '"', len);
			size_t each = kind == 0 ? 1 : kind == 1 ? 4 : 2;
			const char *out = kh_esc(kh_slice_of(text, len));
			size_t got = strlen(out);
			assert_true(got <= KH_ESC_MAX_BYTES);
			if (len * each <= KH_ESC_MAX_BYTES) {
				assert_int_equal(got, len * each);
			} else {
				assert_string_equal(out + got - 3, "...");
				assert_int_equal((got - 3) % each, 0);
				assert_true(got > KH_ESC_MAX_BYTES - 4);
			}
		}
	}
}

static void a_cut_is_marked_and_leaves_nothing_half(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "", "" },
		{ "ab", "ab" },
		{ "abc", "..." },
		{ "a line that goes", "a line that g..." },
		{ "abc\xe2\x82\xac", "abc..." },
		{ "abc\xe2\x82\xac..", "abc..." },
		{ "ab\\x1babc", "ab\\x1b..." },
		{ "ab\\x1bab", "ab..." },
		{ "ab\\x1ba", "ab..." },
		{ "ab\\x1b", "ab..." },
		{ "ab\\\"cde", "ab\\\"..." },
		{ "ab\\\"cd", "ab..." },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];
		(void)snprintf(text, sizeof(text), "%s", cases[i].text);
		kh_esc_mark_cut(text);
		assert_string_equal(text, cases[i].want);
	}
}

static void eight_results_live_at_a_time(void **state)
{
	(void)state;
	const char *kept[8];
	static const char *const text[8] = { "a", "b", "c", "d", "e", "f", "g", "h" };
	for (int i = 0; i < 8; i++)
		kept[i] = kh_esc_str(text[i]);
	for (int i = 0; i < 8; i++)
		assert_string_equal(kept[i], text[i]);
}

static void check_json(struct kh_slice in, const char *want)
{
	struct kh_buf buf;
	kh_buf_init(&buf, 4096);
	assert_true(kh_json_string(&buf, in));
	assert_string_equal(kh_buf_cstr(&buf), want);
	kh_buf_fini(&buf);
}

static void json_strings_are_json(void **state)
{
	(void)state;
	check_json(KH_SLICE(""), "\"\"");
	check_json(kh_slice_str(NULL), "\"\"");
	check_json(KH_SLICE("plain"), "\"plain\"");
	check_json(KH_SLICE("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
	check_json(KH_SLICE("\n\r\t\b\0\x1b\x7f"), "\"\\n\\r\\t\\u0008\\u0000\\u001b\\u007f\"");
	check_json(KH_SLICE("\xc3\xbc\xe2\x82\xac\xf0\x9f\x94\x91"),
		   "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x94\x91\"");
	/* C1 controls, line separators, marks that turn the text round. */
	check_json(KH_SLICE("\xc2\x9b\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae\xef\xbb\xbf"),
		   "\"\\u009b\\u2028\\u2029\\u202e\\ufeff\"");
	check_json(KH_SLICE("\xc2\xa0"), "\"\xc2\xa0\"");
}

static void what_is_not_utf8_becomes_the_replacement(void **state)
{
	(void)state;
#define R "\xef\xbf\xbd"
	check_json(KH_SLICE("\x80"), "\"" R "\"");
	check_json(KH_SLICE("\xff\xfe"), "\"" R R "\"");
	check_json(KH_SLICE("\xc3"), "\"" R "\"");
	check_json(KH_SLICE("\xe2\x82"), "\"" R R "\"");
	check_json(KH_SLICE("\xe2\x82x"), "\"" R R "x\"");
	check_json(KH_SLICE("\xc0\xaf"), "\"" R R "\"");	     /* overlong '/' */
	check_json(KH_SLICE("\xe0\x80\xaf"), "\"" R R R "\"");	     /* overlong, three bytes */
	check_json(KH_SLICE("\xf0\x80\x80\xaf"), "\"" R R R R "\""); /* four */
	check_json(KH_SLICE("\xed\xa0\x80"), "\"" R R R "\"");	     /* a surrogate */
	check_json(KH_SLICE("\xf4\x90\x80\x80"), "\"" R R R R "\""); /* past U+10FFFF */
	check_json(KH_SLICE("\xf4\x8f\xbf\xbf"), "\"\xf4\x8f\xbf\xbf\"");
	/* A quote behind half a character still is one. */
	check_json(KH_SLICE("\xe2\x82\""), "\"" R R "\\\"\"");
#undef R
}

/* Whatever goes in: no control, no bare quote, valid UTF-8, and nothing at all when it won't fit.
 */
static void any_bytes_make_a_whole_string_or_none(void **state)
{
	(void)state;
	uint32_t seed = 7;
	for (int round = 0; round < 20000; round++) {
		char in[24];
		for (size_t i = 0; i < sizeof(in); i++) {
			seed = seed * 1664525u + 1013904223u;
			in[i] = (char)(seed >> 23);
		}
		struct kh_buf buf;
		kh_buf_init(&buf, (seed >> 8) % 100);
		bool room_for_x = kh_buf_append_char(&buf, 'x');
		bool ok = kh_json_string(&buf, kh_slice_of(in, seed % sizeof(in)));
		struct kh_slice out = kh_buf_view(&buf);
		if (!ok) {
			assert_int_equal(out.len, room_for_x ? 1 : 0);
		} else {
			assert_true(out.len >= 3 && out.ptr[1] == '"' &&
				    out.ptr[out.len - 1] == '"');
			for (size_t i = 2; i + 1 < out.len; i++) {
				unsigned char c = (unsigned char)out.ptr[i];
				assert_true(c >= 0x20 && c != 0x7f && c != '"');
				if (c == '\\')
					i++; /* what it escapes */
			}
			char *clean = kh_slice_dup(out);
			assert_non_null(clean);
			char *again = kh_slice_dup(out);
			assert_non_null(again);
			kh_esc_clean(clean); /* finds nothing to mend */
			assert_string_equal(clean, again);
			free(clean);
			free(again);
		}
		kh_buf_fini(&buf);
	}
}

static void a_cleaned_line_has_no_control_left(void **state)
{
	(void)state;
	char line[] = "ok \xe2\x82\xac\n\x1b\x7f\xc2\x85\xe2\x80\xae\xff end";
	kh_esc_clean(line);
	assert_string_equal(line, "ok \xe2\x82\xac????????? end");
}

static void what_shows_nothing_is_written_out(void **state)
{
	(void)state;
	static const uint32_t unseen[] = { 0x1b,    0x85,    0xad,    0x200d,  0x202e,
					   0x2800,  0x3164,  0xfeff,  0xfffc,  0x1107f,
					   0x13430, 0x1343f, 0x16fe4, 0x1bca0, 0x1bca3,
					   0x1d159, 0x1d173, 0xe0001, 0xe0fff };
	static const uint32_t seen[] = { ' ',	 'a',	 '~',	 0xa0,	  0xe9,
					 0x20ac, 0x4e00, 0xfffd, 0x1f600, 0xe1000 };
	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++)
		assert_true(kh_utf8_is_unseen(unseen[i]));
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		assert_false(kh_utf8_is_unseen(seen[i]));
	check_json(KH_SLICE("a\xe2\xa0\x80\xf0\x9b\xb2\xa0z"), "\"a\\u2800\\ud82f\\udca0z\"");
}

/* What a shell makes of it is the text again, and it runs nothing. */
static void a_word_to_paste_is_one_word_whatever_it_holds(void **state)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
		{ "/home/me/a-b_c.d/keyhole.yaml", "/home/me/a-b_c.d/keyhole.yaml" },
		{ "/x y", "'/x y'" },
		{ "", "''" },
		{ "a'b'$(id>pwn)'c'd", "'a'\\''b'\\''$(id>pwn)'\\''c'\\''d'" },
		{ "`id`", "'`id`'" },
		{ "~/x", "'~/x'" },
		{ "a\nb", "'a\\x0ab'" },
	};
	char quotes[400];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(kh_esc_word(cases[i].text), cases[i].word);
	memset(quotes, '\'', sizeof(quotes) - 1);
	quotes[sizeof(quotes) - 1] = '\0';
	assert_int_equal(strlen(kh_esc_word(quotes)), 4 * (KH_ESC_MAX_BYTES - 3) + 3 + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_shown_as_printable_ascii),
		cmocka_unit_test(output_is_bounded_and_no_escape_is_cut),
		cmocka_unit_test(a_cut_is_marked_and_leaves_nothing_half),
		cmocka_unit_test(eight_results_live_at_a_time),
		cmocka_unit_test(a_word_to_paste_is_one_word_whatever_it_holds),
		cmocka_unit_test(json_strings_are_json),
		cmocka_unit_test(what_is_not_utf8_becomes_the_replacement),
		cmocka_unit_test(any_bytes_make_a_whole_string_or_none),
		cmocka_unit_test(a_cleaned_line_has_no_control_left),
		cmocka_unit_test(what_shows_nothing_is_written_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
