/*
 * fuzz_recover.c - a journal is continued from any end that a death can leave, or not at all
 *
 * An input whose first byte is odd is a file as it is. Else it is a list of deaths: each cuts the
 * journal at a byte behind its last life's beginning, and a new life goes on. Whatever is continued
 * keeps every byte that stood there, and verifies.
 */
#include <string.h>

#include "audit/audit_internal.h"
#include "fuzz_journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEATH_BYTES = 2, MOST_DEATHS = 6 };

/* Goes on in `fd`. Return: false when it is not continued; then nothing of it has changed. */
static bool go_on(int fd, bool must_verify)
{
	struct kh_verify_report report;
	size_t before_len, after_len;
	char *before = fuzz_read(fd, &before_len), *after;
	bool continued = fuzz_life(fd, 1);

	after = fuzz_read(fd, &after_len);
	fuzz_must(after_len >= before_len && memcmp(after, before, before_len) == 0);
	fuzz_must(continued ? after_len > before_len : after_len == before_len);
	if (continued && must_verify) {
		fuzz_must(lseek(fd, 0, SEEK_SET) == 0);
		fuzz_must(kh_verify_within(fd, 0, &report, NULL));
		fuzz_must(report.ok);
		fuzz_must(report.unclosed == 0);
	}
	free(before);
	free(after);
	return continued;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t deaths = size > 0 ? (size - 1) / DEATH_BYTES : 0, whole = 0;
	int fd;

	if (size > 0 && data[0] % 2) {
		fd = fuzz_file((const char *)data + 1, size - 1);
		if (go_on(fd, false))
			fuzz_must(go_on(fd, false));
		(void)close(fd);
		return 0;
	}
	fd = fuzz_file(NULL, 0);
	fuzz_must(go_on(fd, true));
	for (size_t i = 0; i < deaths && i < MOST_DEATHS; i++) {
		struct stat st;
		const uint8_t *at = data + 1 + i * DEATH_BYTES;
		size_t room;

		/* A death takes nothing back that another life has seen. */
		fuzz_must(fstat(fd, &st) == 0);
		room = (size_t)st.st_size - whole + 1;
		fuzz_must(ftruncate(fd, (off_t)(whole + ((size_t)at[0] << 8 | at[1]) % room)) == 0);
		fuzz_must(fstat(fd, &st) == 0);
		whole = (size_t)st.st_size;
		if (!go_on(fd, true))
			break;
	}
	(void)close(fd);
	return 0;
}
