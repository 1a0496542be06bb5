/* show_text.h - prints bytes that an agent wrote, safely */
#ifndef KEYHOLE_CLI_SHOW_TEXT_H
#define KEYHOLE_CLI_SHOW_TEXT_H

#include <stdio.h>

#include <keyhole/base/slice.h>

/*
 * Prints one line, and wraps it itself instead of the terminal: a line wider than the terminal
 * continues after " > ", with which no other line begins, and a tab becomes spaces. The first row
 * on a terminal resets its state, which an agent may have changed (screen.h). Text written to
 * kh_row_open's stream must contain no control character except the tab.
 */
struct kh_row {
	FILE *out, *file;
	char *text;
	size_t len;
};
FILE *kh_row_open(struct kh_row *row, FILE *out);
void kh_row_close(struct kh_row *row);

/*
 * Prints a line of a file, without its line end, on a line of its own. It begins with three columns
 * with which no line of keyhole's output begins. They are blank if the text is unchanged. Otherwise
 * they are " ! ", and control characters except the tab, bidirectional and invisible marks, and
 * bytes that are not UTF-8 are written as \xHH or \u{HEX}, and each backslash twice.
 */
void kh_show_line(FILE *out, struct kh_slice line);
/* Prints a file's name. The same characters, and also the tab, are escaped; a backslash is always
 * written twice. A name with a space or a quotation mark is quoted, so that it can't be mistaken
 * for the rest of a line. */
void kh_show_name(FILE *out, const char *name);

#endif
