/* lines.c - reads a descriptor line by line, in bounded memory */
#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include <keyhole/base/cleanup.h>

#include "audit_internal.h"

/* Several records fit; a line that does not is none of ours. */
enum { WINDOW_BYTES = 128 * 1024, PAUSE_MS = 20 };

bool kh_lines_init(struct kh_lines *lines, int fd, bool at, uint64_t from, struct kh_err *err)
{
	struct stat st;

	*lines = (struct kh_lines){ .fd = fd, .at = at, .next = from, .most = UINT64_MAX };
	/* What is appended while we read is the next reader's affair, or we might never end. */
	if (fstat(fd, &st) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal");
	if (S_ISREG(st.st_mode))
		lines->most = (uint64_t)st.st_size;
	lines->bytes = malloc(WINDOW_BYTES);
	if (!lines->bytes)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	return true;
}

bool kh_lines_more(struct kh_lines *lines, struct kh_err *err)
{
	struct stat st;

	if (fstat(lines->fd, &st) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal");
	if (!S_ISREG(st.st_mode))
		return true;
	if ((uint64_t)st.st_size < lines->next)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "journal: it was cut to %llu bytes while it was read; %llu were "
				  "read of it",
				  (unsigned long long)st.st_size, (unsigned long long)lines->next);
	lines->most = (uint64_t)st.st_size;
	return true;
}

void kh_lines_fini(struct kh_lines *lines)
{
	free(lines->bytes);
	lines->bytes = NULL;
}

static ssize_t read_some(struct kh_lines *lines)
{
	char *into = lines->bytes + lines->to;
	size_t room = WINDOW_BYTES - lines->to;
	ssize_t n;

	do {
		n = lines->at ? pread(lines->fd, into, room, (off_t)lines->next)
			      : read(lines->fd, into, room);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		lines->next += (uint64_t)n;
		lines->to += (size_t)n;
	}
	return n;
}

/* A writer that lives ends its line within moments; one that died never does. */
static bool wait_for_more(struct kh_lines *lines)
{
	struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };

	if (lines->wait_ms < PAUSE_MS)
		return false;
	lines->wait_ms -= PAUSE_MS;
	(void)nanosleep(&pause, NULL);
	return true;
}

static void give(struct kh_lines *lines, size_t len, bool ends, struct kh_lines_piece *out)
{
	out->begins = !lines->inside;
	out->ends = ends;
	out->offset = lines->next - (lines->to - lines->from);
	out->bytes = kh_slice_of(lines->bytes + lines->from, len);
	lines->from += len + (ends ? 1 : 0);
	lines->inside = !ends;
}

enum kh_lines_status kh_lines_next(struct kh_lines *lines, struct kh_lines_piece *out,
				   struct kh_err *err)
{
	size_t seen = 0;

	if (!lines->inside && lines->next - (lines->to - lines->from) >= lines->most)
		return KH_LINES_END;
	for (;;) {
		size_t held = lines->to - lines->from;
		const char *newline = memchr(lines->bytes + lines->from + seen, '\n', held - seen);
		ssize_t n;

		if (newline) {
			give(lines, (size_t)(newline - lines->bytes) - lines->from, true, out);
			return KH_LINES_PIECE;
		}
		if (held == WINDOW_BYTES) {
			give(lines, held, false, out);
			return KH_LINES_PIECE;
		}
		if (lines->from > 0) {
			memmove(lines->bytes, lines->bytes + lines->from, held);
			lines->from = 0;
			lines->to = held;
		}
		seen = held;
		n = read_some(lines);
		if (n < 0) {
			kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: it can't be read");
			return KH_LINES_FAILED;
		}
		if (n == 0 && (held == 0 || lines->keeps || !wait_for_more(lines))) {
			if (held == 0 || lines->keeps)
				return KH_LINES_END;
			give(lines, held, false, out);
			return KH_LINES_PIECE;
		}
	}
}
