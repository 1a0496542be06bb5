/* answer.c - parses the head of the proxy's answer to a CONNECT, byte by byte */
#include "answer.h"

#include <keyhole/base/limits.h>

enum init_answered init_answer_take(struct init_answer *answer, const char *bytes, size_t len,
				    size_t *used)
{
	static const char good[] = "HTTP/1.1 200", empty[] = "\r\n\r\n";
	for (*used = 0; *used < len;) {
		char byte = bytes[(*used)++];
		if (answer->seen < sizeof(good) - 1 && byte != good[answer->seen])
			return INIT_ANSWER_REFUSED;
		answer->seen++;
		if (byte == empty[answer->end])
			answer->end++;
		else
			answer->end = byte == '\r';
		if (answer->end == sizeof(empty) - 1)
			return INIT_ANSWER_GOOD;
		if (answer->seen == KH_LIMIT_INIT_ANSWER_BYTES)
			return INIT_ANSWER_REFUSED;
	}
	return INIT_ANSWER_MORE;
}
