/* fuzz_init_answer.c - any bytes as the proxy's answer: one verdict, however they are cut */
#include <stdlib.h>
#include <string.h>

/* keyhole-init is no part of the library. */
#include "init/answer.c" /* NOLINT(bugprone-suspicious-include) */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

/* A copy of each piece, so that a byte too many is seen. */
static enum init_answered give(const uint8_t *data, size_t size, size_t piece, size_t *used)
{
	struct init_answer answer = { 0 };
	enum init_answered said = INIT_ANSWER_MORE;
	for (*used = 0; *used < size && said == INIT_ANSWER_MORE;) {
		size_t n = size - *used < piece ? size - *used : piece, taken;
		char *copy = malloc(n);
		CHECK(copy != NULL);
		memcpy(copy, data + *used, n);
		said = init_answer_take(&answer, copy, n, &taken);
		free(copy);
		CHECK(taken <= n && taken > 0 && (said != INIT_ANSWER_MORE || taken == n));
		*used += taken;
	}
	return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	size_t piece = data[0] % 61u + 1, whole, cut;
	data++, size--;
	enum init_answered said = give(data, size, size ? size : 1, &whole);
	CHECK(give(data, size, piece, &cut) == said && cut == whole);
	CHECK(whole <= KH_LIMIT_INIT_ANSWER_BYTES);
	if (said == INIT_ANSWER_GOOD) {
		CHECK(whole >= 16 && memcmp(data, "HTTP/1.1 200", 12) == 0);
		/* The first empty line, and the last bytes of the head. */
		CHECK(memmem(data, whole - 1, "\r\n\r\n", 4) == NULL);
		CHECK(memcmp(data + whole - 4, "\r\n\r\n", 4) == 0);
	}
	return 0;
}
