/* answer.h - the head of the proxy's answer to a CONNECT, byte by byte */
#ifndef KEYHOLE_INIT_ANSWER_H
#define KEYHOLE_INIT_ANSWER_H

#include <stddef.h>
#include <stdint.h>

/* What is known of it; zeroed: nothing yet. */
struct init_answer {
	uint16_t seen; /* bytes */
	uint8_t end;   /* of the empty line that ends it, so many */
};

enum init_answered {
	INIT_ANSWER_REFUSED, /* it is no head that begins with "HTTP/1.1 200", or is too long */
	INIT_ANSWER_MORE,
	INIT_ANSWER_GOOD,
};
/*
 * Takes the bytes that follow. `used`: how many of them are the head's; those behind it are not
 * looked at. No verdict depends on how the bytes are cut.
 */
enum init_answered init_answer_take(struct init_answer *answer, const char *bytes, size_t len,
				    size_t *used);

#endif
