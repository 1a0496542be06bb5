/* explain_text.h - what `keyhole explain` found out, for people */
#ifndef KEYHOLE_CLI_EXPLAIN_TEXT_H
#define KEYHOLE_CLI_EXPLAIN_TEXT_H

#include <jansson.h>

/* The object that --json shows, on standard output. */
void kh_explain_print(const json_t *out);

#endif
