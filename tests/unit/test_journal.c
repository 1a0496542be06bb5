/* test_journal.c - what was written stays, in order, and a life goes on where the last one ended */
#include "audit_helpers.h"

#include <string.h>

#include <openssl/sha.h>

/* The chain, computed here anew by other means than the product's. */
static void assert_chain(int fd, uint64_t lines)
{
	size_t len;
	char *bytes = read_back(fd, &len), *at = bytes, *newline;
	char prev[65];
	uint64_t seq = 0;

	memset(prev, '0', 64);
	prev[64] = '\0';
	for (; (newline = strchr(at, '\n')); at = newline + 1) {
		unsigned char hash[32];
		char hex[65], want[256];
		char *mark;

		*newline = '\0';
		mark = strstr(at, ",\"hash\":\"");
		assert_non_null(mark);
		SHA256((unsigned char *)at, (size_t)(mark - at), hash);
		for (int i = 0; i < 32; i++)
			snprintf(hex + 2 * i, 3, "%02x", hash[i]);
		seq++;
		snprintf(want, sizeof(want), ",\"seq\":%llu,\"prev\":\"%s\",\"hash\":\"%s\"}",
			 (unsigned long long)seq, prev, hex);
		assert_string_equal(strstr(at, ",\"seq\":"), want);
		memcpy(prev, hex, 65);
	}
	assert_int_equal(*at, '\0');
	assert_int_equal(seq, lines);
	free(bytes);
}

static void each_line_is_chained_to_the_one_before(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);

	(void)state;
	write_exchanges(journal, 20);
	kh_journal_close(journal);
	assert_chain(fd, 42);
	assert_verifies(fd);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_is_chained_to_the_one_before),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
