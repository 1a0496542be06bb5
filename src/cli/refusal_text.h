/* refusal_text.h - why no new rule opens what was refused for a reason */
#ifndef KEYHOLE_CLI_REFUSAL_TEXT_H
#define KEYHOLE_CLI_REFUSAL_TEXT_H

#include <keyhole/base/err.h>

/* A sentence without its end, in which "it" is the request. Return: NULL: a rule would let it pass,
 * or did, and something else failed. */
const char *kh_refusal_text(enum kh_err_code code);

#endif
