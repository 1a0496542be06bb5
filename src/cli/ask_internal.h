/* ask_internal.h - how `keyhole ask` shows a question */
#ifndef KEYHOLE_CLI_ASK_INTERNAL_H
#define KEYHOLE_CLI_ASK_INTERNAL_H

#include <stddef.h>

/* ask_question.c; all write to standard output. */

/* Text of the daemon's, with what is not visible ASCII escaped. */
void kh_ask_question_put(const char *text);
/* "METHOD URL", and the end of the line. `id`: its number in front of it; 0: none. `keys`: what
 * follows it; "": nothing. On a terminal no row has a part of a host that fits into one row, and a
 * row that goes on from another says so. */
void kh_ask_question_show(unsigned id, const char *request, const char *keys);
/* The row of the keys over the one from before, in one row of the terminal. */
void kh_ask_question_keys(unsigned seconds, size_t more);

#endif
