/*
 * numbers.c - can a line have this number?
 *
 * The writer may have been taken over, and may have given its lines any numbers, with valid hashes.
 * The offset of a line bounds its number, since only so many lines fit before it.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>

#include "audit_internal.h"

enum { FIRST_BYTES = 64 * 1024 };

bool kh_journal_seq_fits(uint64_t seq, uint64_t base, uint64_t end)
{
	return seq >= base && seq - base <= end / KH_JOURNAL_LINE_LEAST;
}

static ssize_t read_first(int fd, char *bytes)
{
	ssize_t n;

	do
		n = pread(fd, bytes, FIRST_BYTES, 0);
	while (n < 0 && errno == EINTR);
	return n;
}

/* Torn bytes may be in front of it: a first write that was cut off. */
static bool find_first(struct kh_digest *digest, struct kh_slice rest, struct kh_line *line)
{
	while (rest.len > 0) {
		size_t newline = kh_slice_find(rest, '\n', 0);

		if (kh_line_parse(line, kh_slice_sub(rest, 0, newline)) &&
		    kh_line_is_sound(digest, line))
			return true;
		rest = kh_slice_sub(rest, newline + 1, rest.len);
	}
	return false;
}

/* `before`: the line that it continues. */
static bool read_line(int fd, bool before, struct kh_journal_base *out)
{
	kh_auto_free char *bytes = malloc(FIRST_BYTES);
	struct kh_digest digest = { NULL, NULL };
	ssize_t n = bytes ? read_first(fd, bytes) : -1;
	struct kh_line line;
	bool found;

	*out = (struct kh_journal_base){ .seq = 0 };
	if (n <= 0 || !kh_digest_init(&digest, NULL))
		return false;
	found = find_first(&digest, kh_slice_of(bytes, (size_t)n), &line) && line.seq > 0 &&
		line.seq <= KH_JOURNAL_BASE_MOST;
	if (found) {
		out->seq = line.seq - before;
		out->set_aside = kh_line_is_true(line.hashed, "set_aside");
		(void)kh_hex_decode(before ? line.prev : line.hash, out->hash, KH_HASH_BYTES);
	}
	kh_digest_fini(&digest);
	return found;
}

bool kh_journal_first_line(int fd, struct kh_journal_base *out)
{
	bool found = read_line(fd, false, out);

	out->set_aside = false;
	return found;
}

bool kh_journal_line_before(int fd, struct kh_journal_base *out)
{
	return read_line(fd, true, out) && out->seq > 0 && !out->set_aside;
}

bool kh_journal_last_line(int fd, struct kh_journal_base *out)
{
	struct kh_journal found = { .read_fd = fd };
	bool ok = kh_digest_init(&found.digest, NULL);

	*out = (struct kh_journal_base){ .seq = 0 };
	kh_journal_stand(&found, NULL);
	ok = ok && kh_recover_tail(&found, NULL) && found.torn == 0 && !found.unended &&
	     found.seq > 0 && found.seq <= KH_JOURNAL_SEQ_MOST && kh_numbers_fit(&found);
	if (ok) {
		out->seq = found.seq;
		(void)kh_hex_decode(kh_slice_of(found.head, KH_HASH_HEX), out->hash, KH_HASH_BYTES);
	}
	kh_digest_fini(&found.digest);
	return ok;
}

bool kh_numbers_fit(const struct kh_journal *journal)
{
	struct kh_journal_base first;
	uint64_t base = journal->base;

	if (base == 0 && kh_journal_first_line(journal->read_fd, &first))
		base = first.seq - 1;
	return kh_journal_seq_fits(journal->seq, base, journal->end);
}
