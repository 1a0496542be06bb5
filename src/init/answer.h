/* answer.h - parses the head of the proxy's answer to a CONNECT, byte by byte */
#ifndef KEYHOLE_INIT_ANSWER_H
#define KEYHOLE_INIT_ANSWER_H

#include <stddef.h>
#include <stdint.h>

/* The parser's state; zeroed at first. */
struct init_answer {
	uint16_t seen; /* bytes */
	uint8_t end;   /* how many bytes of the final CRLF CRLF have matched */
};

enum init_answered {
	INIT_ANSWER_REFUSED, /* it does not begin with "HTTP/1.1 200", or is too long */
	INIT_ANSWER_MORE,
	INIT_ANSWER_GOOD,
};
/*
 * Takes the next bytes. *used: how many of them belong to the head; bytes after it are not read.
 * The result does not depend on how the bytes are split.
 */
enum init_answered init_answer_take(struct init_answer *answer, const char *bytes, size_t len,
				    size_t *used);

#endif
