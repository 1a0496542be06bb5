/* show_text.h - bytes that an agent wrote, for somebody's eyes */
#ifndef KEYHOLE_CLI_SHOW_TEXT_H
#define KEYHOLE_CLI_SHOW_TEXT_H

#include <stdio.h>

#include <keyhole/base/slice.h>

/*
 * One line of what is shown, and none that a terminal makes of it: one that is longer than the
 * terminal is wide goes on after " > ", with which no line begins, and a tabulator is spaces. The
 * first row on a terminal sets back what an agent may have left in it (screen.h). What is written
 * to kh_row_open's stream has no control but the tabulator in it.
 */
struct kh_row {
	FILE *out, *file;
	char *text;
	size_t len;
};
FILE *kh_row_open(struct kh_row *row, FILE *out);
void kh_row_close(struct kh_row *row);

/*
 * A line of a file, without its end, as a line of its own. It begins with three columns that no
 * line of keyhole's begins with: blank where all that follows is as it is in the file. Else they
 * are " ! ", and in this line controls but the tabulator, marks that turn the direction of text or
 * can't be seen, and bytes that are not UTF-8 are written as \xHH or \u{HEX}, and each backslash
 * twice.
 */
void kh_show_line(FILE *out, struct kh_slice line);
/* A file's name. The same is written so, a tabulator as well, and a backslash always twice. One
 * with a space or a quotation mark in it is quoted, so that none can be taken for the rest of a
 * line. */
void kh_show_name(FILE *out, const char *name);

#endif
