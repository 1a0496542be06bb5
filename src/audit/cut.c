/*
 * cut.c - cuts off the part of a record that a full disk has left
 *
 * Such bytes are no evidence: the record did not count, its exchange did not go on, and the batch
 * that holds the record is kept and written whole when there is room. While the bytes are there,
 * `keyhole audit verify` must report the journal as cut off. The writer can only append. So it asks
 * the keeper to cut, and writes nothing until the keeper answers.
 *
 * A part that a crash has left stays: the record may have been whole in memory. A `recovered`
 * record closes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>

#include "audit_internal.h"

bool kh_journal_ask_cut(struct kh_journal *journal)
{
	(void)pthread_mutex_lock(&journal->lock);
	bool ask = journal->to_cut && !journal->cutting;
	journal->to_cut = false;
	journal->cutting = journal->cutting || ask;
	(void)pthread_mutex_unlock(&journal->lock);
	return ask;
}

void kh_journal_was_cut(struct kh_journal *journal, uint64_t end)
{
	(void)pthread_mutex_lock(&journal->lock);
	if (journal->cutting && end < journal->end && end >= journal->end - journal->torn) {
		journal->torn -= journal->end - end;
		journal->end = end;
	}
	journal->cutting = false;
	(void)pthread_mutex_unlock(&journal->lock);
}

static bool read_tail(int fd, uint64_t from, char *into, size_t len, struct kh_err *err)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, into + done, len - done, (off_t)(from + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, n < 0 ? errno : EIO,
					  "its end can't be read");
		done += (size_t)n;
	}
	return true;
}

/* Where the torn bytes begin; `end`: there are none that may go. */
static bool find_torn(int fd, uint64_t end, uint64_t *begin, struct kh_err *err)
{
	size_t len = end < KH_LINE_BYTES + 1 ? (size_t)end : KH_LINE_BYTES + 1;
	kh_auto_free char *bytes = malloc(KH_LINE_BYTES + 1);
	struct kh_line line;

	*begin = end;
	if (!bytes)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (!read_tail(fd, end - len, bytes, len, err))
		return false;
	const char *newline = memrchr(bytes, '\n', len);
	/* No line of ours is longer. */
	size_t before = newline ? (size_t)(newline - bytes) + 1 : len;
	struct kh_slice tail = kh_slice_of(bytes + before, len - before);
	struct kh_slice head = KH_SLICE("{\"event\":\"");

	if (tail.len > 0 && !kh_line_parse(&line, tail) &&
	    kh_slice_eq(kh_slice_sub(tail, 0, head.len), kh_slice_sub(head, 0, tail.len)))
		*begin = end - tail.len;
	return true;
}

bool kh_journal_cut_torn(int fd, uint64_t least, uint64_t *cut, uint64_t *end, struct kh_err *err)
{
	struct stat st, now;
	uint64_t begin;

	*cut = *end = 0;
	if (fstat(fd, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "its size is not known");
	*end = (uint64_t)st.st_size;
	if (*end <= least)
		return true;
	if (!find_torn(fd, *end, &begin, err))
		return false;
	if (begin < least || begin == *end)
		return true;
	if (fstat(fd, &now) != 0 || now.st_size != st.st_size)
		return kh_err_set(err, KH_ERR_SYSTEM, "it is written to at the same time");
	if (ftruncate(fd, (off_t)begin) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "its end can't be cut off");
	*cut = *end - begin;
	*end = begin;
	return true;
}
