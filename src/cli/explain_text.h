/* explain_text.h - prints the result of `keyhole explain` for people */
#ifndef KEYHOLE_CLI_EXPLAIN_TEXT_H
#define KEYHOLE_CLI_EXPLAIN_TEXT_H

#include <jansson.h>

/* Prints the object that --json would show, as text, on standard output. */
void kh_explain_print(const json_t *out);

#endif
