/* fuzz_init_dns.c - any bytes as a question: the answer is whole, and a copy of what was asked */
#include <stdlib.h>

#include <keyhole/base/limits.h>

/* keyhole-init is no part of the library. */
#include "init/dns.c"	/* NOLINT(bugprone-suspicious-include) */
#include "init/names.c" /* NOLINT(bugprone-suspicious-include) */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

static uint32_t address(const char *name)
{
	/* What goes into a CONNECT line has nothing in it that ends one. */
	CHECK(*name && strlen(name) < INIT_DNS_NAME_BYTES);
	for (const char *c = name; *c; c++)
		CHECK(is_host_byte((uint8_t)*c) || *c == '.');
	uint32_t found = init_names_address(name);
	CHECK(init_names_in_range(found));
	CHECK(strcmp(init_names_text(init_names_find(found)), name) == 0);
	CHECK(init_names_address(name) == found);
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *out = malloc(INIT_DNS_ANSWER_BYTES);
	size_t n = init_dns_answer(data, size, address, out);
	CHECK(n <= INIT_DNS_ANSWER_BYTES);
	if (n > 0) {
		CHECK(n >= 12 && size >= 12 && memcmp(out, data, 2) == 0 && (out[2] & QR));
		size_t questions = get16(out + 4), answers = get16(out + 6);
		CHECK(questions <= 1 && answers <= questions);
		CHECK((out[3] & 0x0f) == NOERROR || answers == 0);
		if (questions) {
			size_t asked =
				n - (answers ? (n >= 28 && get16(out + n - 6) == 4 ? 16 : 28) : 0);
			CHECK(asked <= size && memcmp(out + 12, data + 12, asked - 12) == 0);
		} else {
			CHECK(n == 12);
		}
	}
	free(out);
	return 0;
}
