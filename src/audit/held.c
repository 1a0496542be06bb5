/*
 * held.c - up to which line does the chain of a segment hold?
 *
 * The writer of a segment that was continued may have been taken over. What it wrote after the line
 * that was continued may be no record, or may continue nothing. Whoever then looks only at the last
 * line may continue a line that comes after a break. So the chain is followed from the line that
 * was continued.
 *
 * That line is known by its number and hash, not by its place. It is searched from the beginning of
 * what may be read: the writer could have put a copy of it after a break.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>

#include "audit_internal.h"

enum { CHUNK_BYTES = 256 * 1024 };

/* How our line with that hash ends. */
struct needle {
	char text[KH_HASH_HEX + 16];
	size_t len;
};

static struct needle needle_of(const char head[KH_HASH_HEX + 1])
{
	struct needle needle = { .len = 0 };

	needle.len = (size_t)snprintf(needle.text, sizeof(needle.text), "\"hash\":\"%s\"}\n", head);
	return needle;
}

static ssize_t read_some(int fd, char *into, size_t len, uint64_t at)
{
	ssize_t n;

	do
		n = pread(fd, into, len, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n;
}

/* *end: behind the first such line's newline; 0: there is none in what was read. *whole: up to
 * `size` there is none. */
static bool find(int fd, const struct needle *needle, uint64_t at, uint64_t size, uint64_t until,
		 uint64_t *end, bool *whole, struct kh_err *err)
{
	kh_auto_free char *chunk = malloc(CHUNK_BYTES);
	size_t kept = 0;

	*end = 0;
	*whole = false;
	if (!chunk)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	while (at < size && kh_clock_mono_ms() <= until) {
		ssize_t n = read_some(fd, chunk + kept, CHUNK_BYTES - kept, at);
		if (n <= 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, n < 0 ? errno : EIO,
					  "journal: it can't be read");
		size_t len = kept + (size_t)n;
		const char *found = memmem(chunk, len, needle->text, needle->len);
		if (found) {
			*end = at - kept + (uint64_t)(found - chunk) + needle->len;
			return true;
		}
		at += (uint64_t)n;
		kept = len < needle->len ? len : needle->len - 1;
		memmove(chunk, chunk + len - kept, kept);
	}
	*whole = at >= size;
	return true;
}

static bool not_there(const struct kh_journal_base *line, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			  "journal: line %llu, which was continued, is not in the segment before",
			  (unsigned long long)line->seq);
}

bool kh_held_since(int fd, const struct kh_journal_base *line,
		   const struct kh_recover_bounds *bounds, struct kh_held *held, struct kh_err *err)
{
	uint64_t until = kh_clock_mono_ms() + bounds->ms;
	struct kh_verify_report report = { .last_seq = line->seq };
	struct kh_recover_bounds rest = *bounds;
	struct needle needle;
	uint64_t end;
	struct stat st;

	*held = (struct kh_held){ .suspect = UINT64_MAX };
	kh_hex_encode(line->hash, KH_HASH_BYTES, report.head);
	needle = needle_of(report.head);
	if (fstat(fd, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal");
	held->size = (uint64_t)st.st_size;
	uint64_t least = held->size > bounds->bytes ? held->size - bounds->bytes : 0;
	if (!find(fd, &needle, least, held->size, until, &end, &held->whole, err))
		return false;
	if (end == 0)
		return (held->whole && least == 0) ? not_there(line, err) : !(held->whole = false);
	uint64_t now = kh_clock_mono_ms();
	rest.ms = now < until ? until - now : 0;
	if (!kh_verify_behind(fd, end, &rest, &report, &held->suspect, &held->whole, err))
		return false;
	held->seq = report.last_seq;
	memcpy(held->head, report.head, sizeof(held->head));
	return true;
}

bool kh_held_is_tail(const struct kh_held *held, const struct kh_journal *found)
{
	/* A copy of that line may stand at the end, too. */
	uint64_t torn = found->torn ? found->end - found->torn : UINT64_MAX;

	return torn == held->suspect && found->seq == held->seq &&
	       memcmp(found->head, held->head, KH_HASH_HEX) == 0;
}
