/* test_screen.c - rows are broken by us and not by the terminal */
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/screen.h>

static void put(void *arg, const char *bytes, size_t len)
{
	assert_true(kh_buf_append(arg, bytes, len));
}

static void check(const char *line, size_t columns, const char *want)
{
	struct kh_buf out kh_cleanup(kh_buf_fini);
	kh_buf_init(&out, 4096);
	kh_screen_fold(kh_slice_str(line), columns, put, &out);
	assert_true(kh_slice_eq(kh_buf_view(&out), kh_slice_str(want)));
}

static void no_row_is_longer_than_the_terminal_is_wide(void **state)
{
	(void)state;
	check("", 16, "");
	check("0123456789abcdef", 16, "0123456789abcdef");
	check("0123456789abcdefg", 16, "0123456789abcdef\n > g");
	check("0123456789abcdefghijklmnopqrs+", 16, "0123456789abcdef\n > ghijklmnopqrs\n > +");
	/* What may be two columns wide counts as two, and no character is cut. */
	check("0123456789abcd\xc3\xa9z", 16, "0123456789abcd\xc3\xa9\n > z");
	check("0123456789abcde\xe4\xb8\xad", 16, "0123456789abcde\n > \xe4\xb8\xad");
}

static void a_row_ends_between_words_and_commands_are_words(void **state)
{
	(void)state;
	check("one two three four", 16, "one two three \n > four");
	check("  indented text", 16, "  indented text");
	check("  0123456789abcdef", 16, "  0123456789abcd\n > ef");
	check("see (`a b c d e`) now", 16, "see \n > (`a b c d e`)\n >  now");
	check("first (`a b c`) now", 16, "first (`a b c`) \n > now");
	check("word 0123 (`a b c`) x", 16, "word 0123 \n > (`a b c`) x");
}

static void a_tabulator_is_spaces_wherever_the_stops_are(void **state)
{
	(void)state;
	check("\tx", 80, "        x");
	check("a\tb\t\tc", 80, "a       b               c");
	check("0123456789\tx", 16, "0123456789      \n > x");
	check("0123456789abcde\tx", 16, "0123456789abcde \n > x");
	check("0123456789abcdef\tx", 16, "0123456789abcdef\n >      x");
}

static void what_is_no_terminal_has_no_columns(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(kh_screen_columns(ends[1]), 0);
	kh_screen_reset(ends[1]);
	close(ends[1]);
	char byte;
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
}

static size_t columns_with(int fd, const char *variable)
{
	assert_int_equal(variable ? setenv("COLUMNS", variable, 1) : unsetenv("COLUMNS"), 0);
	size_t columns = kh_screen_columns(fd);
	assert_int_equal(unsetenv("COLUMNS"), 0);
	return columns;
}

/* The last of the tests: the doubt stays. */
static void a_terminal_whose_size_is_doubted_is_no_wider_than_most_windows(void **state)
{
	(void)state;
	static const unsigned short widths[][3] = {
		{ 132, 132, 40 }, { 41, 41, 40 }, { 30, 30, 30 }, { 3, 16, 16 }
	};
	enum { N = sizeof(widths) / sizeof(widths[0]) };
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(terminal >= 0);
	for (size_t i = 0; i < 2 * N; i++) {
		struct winsize size = { .ws_row = 24, .ws_col = widths[i % N][0] };
		if (i == N)
			kh_screen_doubt_columns();
		assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
		assert_int_equal(kh_screen_columns(terminal), widths[i % N][i < N ? 1 : 2]);
	}
	close(terminal);
}

static void a_terminal_without_a_size_is_as_wide_as_the_variable_says(void **state)
{
	(void)state;
	static const struct {
		const char *variable;
		size_t columns;
	} cases[] = { { NULL, 80 },
		      { "132", 132 },
		      { "1", 16 },
		      { "10000", 10000 },
		      { "10001", 80 },
		      { "0", 80 },
		      { "", 80 },
		      { "-132", 80 },
		      { "132x", 80 },
		      { " 132", 80 },
		      { "99999999999999999999", 80 } };
	struct winsize size = { 0 };
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(terminal >= 0);
	assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(columns_with(terminal, cases[i].variable), cases[i].columns);
	/* One that has a size is asked alone. */
	size.ws_col = 100;
	assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
	assert_int_equal(columns_with(terminal, "132"), 100);
	close(terminal);
}

static void a_terminal_without_sequences_is_sent_none(void **state)
{
	(void)state;
	setenv("TERM", "xterm", 1);
	assert_true(kh_screen_reset_text(-1).len > 0);
	setenv("TERM", "dumb", 1);
	assert_int_equal(kh_screen_reset_text(-1).len, 0);
}

static size_t place_of(const char *text, const char *what)
{
	const char *found = strstr(text, what);
	assert_non_null(found);
	return (size_t)(found - text);
}

static void a_reset_leaves_vt52_mode_before_anything_that_is_unknown_there(void **state)
{
	(void)state;
	setenv("TERM", "xterm", 1);
	kh_auto_free char *text = kh_slice_dup(kh_screen_reset_text(-1));
	assert_non_null(text);
	assert_int_equal(place_of(text, "\x18\x1b\\\x1b<\x1b["), 0);
	assert_int_equal(place_of(text, "\x1b<"), 3);
}

static void a_reset_erases_what_was_guarded_too(void **state)
{
	(void)state;
	setenv("TERM", "xterm", 1);
	kh_auto_free char *text = kh_slice_dup(kh_screen_reset_text(-1));
	assert_non_null(text);
	size_t guard = place_of(text, "\x1b[0\"q");
	/* ESC 7 would keep it. */
	assert_true(guard < place_of(text, "\x1b"
					   "7"));
	assert_true(guard < place_of(text, "\x1b[J"));
	/* A status line that is written to would get the rest. */
	assert_true(place_of(text, "\x1b[0$}") < guard);
}

static void a_reset_ends_reports_of_the_mouse_and_of_the_window(void **state)
{
	(void)state;
	setenv("TERM", "xterm", 1);
	kh_auto_free char *text = kh_slice_dup(kh_screen_reset_text(-1));
	assert_non_null(text);
	(void)place_of(text, "\x1b[?9;1000;1001;1002;1003;1004;1005;1006;1015;1016;2004l");
	(void)place_of(text, "\x1b[?2031l");
	(void)place_of(text, "\x1b[?2048l");
}

static void a_reset_has_the_keys_type_what_they_did(void **state)
{
	static const char flags[] = "\x1b[<99u\x1b[=0u";
	(void)state;
	setenv("TERM", "xterm", 1);
	kh_auto_free char *text = kh_slice_dup(kh_screen_reset_text(-1));
	assert_non_null(text);
	/* Those of the other screen, and those of this one. */
	size_t main_screen = place_of(text, "\x1b[?1047l");
	assert_true(place_of(text, flags) < main_screen);
	(void)place_of(text + main_screen, flags);
	(void)place_of(text, "\x1b[?1l\x1b>");
	/* Who reads it as attributes has them set back afterwards. */
	assert_true(place_of(text, "\x1b[>m\x1b[>4m") < place_of(text, "\x1b[m"));
}

static void a_reset_clears_the_texts_of_keys_and_closes_a_link(void **state)
{
	(void)state;
	setenv("TERM", "xterm", 1);
	kh_auto_free char *text = kh_slice_dup(kh_screen_reset_text(-1));
	assert_non_null(text);
	/* Where it is shown, the cursor goes back, and it is erased. */
	size_t keys = place_of(text, "\x1bP0;1|\x1b\\"), back = place_of(text, "\x1b"
									       "8");
	assert_true(place_of(text, "\x1b"
				   "7") < keys &&
		    keys < back);
	/* ESC 8 may open it again. */
	assert_true(back < place_of(text, "\x1b]8;;\x1b\\"));
	assert_true(back < place_of(text, "\x1b[J"));
	(void)place_of(text, "\x1b]22;\x1b\\");
	(void)place_of(text, "\x1b[?5l");
}

static void a_reset_prints_nothing_more_and_names_no_folder(void **state)
{
	(void)state;
	setenv("TERM", "xterm", 1);
	kh_auto_free char *text = kh_slice_dup(kh_screen_reset_text(-1));
	assert_non_null(text);
	/* All that comes before goes to the printer; in a VT52's mode the digits would be shown. */
	static const char first[] = "\x18\x1b\\\x1b<\x1b[4i\x1b[?4i";
	assert_int_equal(place_of(text, first), 0);
	/* Where such a string is shown, that is erased. */
	assert_true(place_of(text, "\x1b]7;\x1b\\") < place_of(text, "\x1b[J"));
}

static void backspace_types_what_the_terminal_takes_for_it(void **state)
{
	static const struct {
		cc_t erases;
		const char *end;
	} rows[] = { { 0x7f, "\x1b[J" }, { '\b', "\x1b[J\x1b[?67h" } };
	(void)state;
	setenv("TERM", "xterm", 1);
	int ours = posix_openpt(O_RDWR | O_NOCTTY), theirs;
	assert_true(ours >= 0 && grantpt(ours) == 0 && unlockpt(ours) == 0);
	theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
	assert_true(theirs >= 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct termios modes;
		assert_int_equal(tcgetattr(theirs, &modes), 0);
		modes.c_cc[VERASE] = rows[i].erases;
		assert_int_equal(tcsetattr(theirs, TCSANOW, &modes), 0);
		kh_auto_free char *text = kh_slice_dup(kh_screen_reset_text(theirs));
		assert_non_null(text);
		size_t len = strlen(rows[i].end);
		assert_true(place_of(text, "\x1b[?67l") < strlen(text) - len);
		assert_string_equal(text + strlen(text) - len, rows[i].end);
	}
	close(theirs);
	close(ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_row_is_longer_than_the_terminal_is_wide),
		cmocka_unit_test(a_row_ends_between_words_and_commands_are_words),
		cmocka_unit_test(a_tabulator_is_spaces_wherever_the_stops_are),
		cmocka_unit_test(what_is_no_terminal_has_no_columns),
		cmocka_unit_test(a_terminal_without_a_size_is_as_wide_as_the_variable_says),
		cmocka_unit_test(a_terminal_without_sequences_is_sent_none),
		cmocka_unit_test(a_reset_leaves_vt52_mode_before_anything_that_is_unknown_there),
		cmocka_unit_test(a_reset_erases_what_was_guarded_too),
		cmocka_unit_test(a_reset_ends_reports_of_the_mouse_and_of_the_window),
		cmocka_unit_test(a_reset_has_the_keys_type_what_they_did),
		cmocka_unit_test(a_reset_clears_the_texts_of_keys_and_closes_a_link),
		cmocka_unit_test(a_reset_prints_nothing_more_and_names_no_folder),
		cmocka_unit_test(backspace_types_what_the_terminal_takes_for_it),
		cmocka_unit_test(a_terminal_whose_size_is_doubted_is_no_wider_than_most_windows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
