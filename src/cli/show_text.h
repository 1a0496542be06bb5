/* show_text.h - bytes that an agent wrote, for somebody's eyes */
#ifndef KEYHOLE_CLI_SHOW_TEXT_H
#define KEYHOLE_CLI_SHOW_TEXT_H

#include <stdio.h>

#include <keyhole/base/slice.h>

/* Text of a line, without its end. Printable UTF-8 stays. Controls but the tabulator, marks that
 * turn the direction of text or can't be seen, and bytes that are not UTF-8 become \xHH or
 * \u{HEX}. */
void kh_show_text(FILE *out, struct kh_slice text);
/* The same of a file's name, in which a tabulator and a backslash are written so as well. One with
 * a space or a quotation mark in it is quoted, so that none can be taken for the rest of a line. */
void kh_show_name(FILE *out, const char *name);

#endif
