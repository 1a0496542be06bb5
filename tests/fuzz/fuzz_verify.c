/*
 * fuzz_verify.c - verification reads anything, and accepts nothing but what was written
 *
 * An input whose first byte is odd is a file as it is. Else it is a list of edits of a good
 * journal, and what verifies afterwards must be that journal or a beginning of it: a chain can't
 * show that its end is missing, and must show everything else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit_internal.h"
#include "fuzz_journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *good;
static size_t good_len;

/* Two lives, the first of which ended in torn bytes. */
static void make_good(void)
{
	int fd = fuzz_file(NULL, 0);

	fuzz_life(fd, 2);
	good = fuzz_read(fd, &good_len);
	(void)close(fd);
	fd = fuzz_file(good, good_len - 100);
	free(good);
	fuzz_life(fd, 1);
	good = fuzz_read(fd, &good_len);
	(void)close(fd);
}

/* Each edit has six bytes: what, how many, where, a value. */
enum { EDIT_BYTES = 6, MOST_EDITS = 8 };

static size_t edit(char *bytes, size_t len, const uint8_t *e)
{
	size_t at = ((size_t)e[2] << 8 | e[3]) % (len + 1), n = e[1], from;

	switch (e[0] % 5) {
	case 0: /* change */
		if (at < len)
			bytes[at] = (char)(bytes[at] ^ e[4]);
		return len;
	case 1: /* take out */
		n = n < len - at ? n : len - at;
		memmove(bytes + at, bytes + at + n, len - at - n);
		return len - n;
	case 2: /* put in */
		memmove(bytes + at + n, bytes + at, len - at);
		memset(bytes + at, e[4], n);
		return len + n;
	case 3: /* copy a piece to another place */
		n *= 4;
		from = ((size_t)e[4] << 8 | e[5]) % (len + 1);
		n = n < len - from ? n : len - from;
		n = n < len - at ? n : len - at;
		memmove(bytes + at, bytes + from, n);
		return len;
	default: /* cut off */
		return at;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_verify_report report;
	char *bytes;
	size_t len, edits;
	bool raw = size > 0 && data[0] % 2;
	int fd;

	if (!good)
		make_good();
	if (raw) {
		fd = fuzz_file((const char *)data + 1, size - 1);
		fuzz_must(kh_verify_within(fd, 0, &report, NULL));
		fuzz_must(report.ok == (report.problem[0] == '\0'));
		(void)close(fd);
		return 0;
	}
	bytes = malloc(good_len + (size_t)MOST_EDITS * 256);
	fuzz_must(bytes != NULL);
	memcpy(bytes, good, good_len);
	len = good_len;
	edits = size > 0 ? (size - 1) / EDIT_BYTES : 0;
	for (size_t i = 0; i < edits && i < MOST_EDITS; i++)
		len = edit(bytes, len, data + 1 + i * EDIT_BYTES);
	fd = fuzz_file(bytes, len);
	fuzz_must(kh_verify_within(fd, 0, &report, NULL));
	if (report.ok)
		fuzz_must(len <= good_len && memcmp(bytes, good, len) == 0);
	else
		fuzz_must(report.problem[0] != '\0');
	(void)close(fd);
	free(bytes);
	return 0;
}
