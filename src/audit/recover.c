/*
 * recover.c - continuing a journal that an earlier life left
 *
 * Theory of operation. From the end of the file backwards: the bytes behind the last newline are
 * torn unless they are a whole record that lacks only its newline. The last whole line must carry a
 * valid hash, or the journal is not continued. One exception: a life that died while it was closing
 * torn bytes leaves them as a line, followed by the beginning of a `recovered` record; then all of
 * it is torn, back to the first line that is sound.
 *
 * Then the beginning of the last life is sought backwards (a line that begins like a `start`
 * record), and that life is read forwards with a set of the ids that are open. What is left in the
 * set has no end. Time and reads are bounded by one life; memory by the exchanges that were open at
 * one moment, and by KH_RECOVER_IDS whatever the file holds: those above are counted, not named.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit_internal.h"

enum {
	CHUNK_BYTES = 64 * 1024,
	/* Times that closing the same torn bytes was cut off by a death of its own. */
	MOST_TRIES = 1024,
	/* Records that are written at a time. */
	ABORTED_AT_ONCE = 4096,
};

static bool read_at(int fd, uint64_t at, char *into, size_t len, struct kh_err *err)
{
	while (len > 0) {
		ssize_t n = pread(fd, into, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: it can't be read");
		if (n == 0)
			return kh_err_set(err, KH_ERR_SYSTEM,
					  "journal: it became shorter while it was read");
		at += (uint64_t)n;
		into += n;
		len -= (size_t)n;
	}
	return true;
}

/* Where the line begins in whose middle or at whose end `from` is: behind the newline before it, or
 * 0. */
static bool find_line(int fd, char *chunk, uint64_t from, uint64_t *begin, struct kh_err *err)
{
	while (from > 0) {
		size_t len = from < CHUNK_BYTES ? (size_t)from : CHUNK_BYTES;
		const char *newline;

		if (!read_at(fd, from - len, chunk, len, err))
			return false;
		newline = memrchr(chunk, '\n', len);
		if (newline) {
			*begin = from - len + (uint64_t)(newline - chunk) + 1;
			return true;
		}
		from -= len;
	}
	*begin = 0;
	return true;
}

/* A line of the file; `ended`: it ends as a record does; `sound`: it is one, and its hash fits. It
 * points into the chunk. */
static bool read_line(struct kh_journal *journal, char *chunk, uint64_t begin, uint64_t end,
		      struct kh_line *line, bool *ended, bool *sound, struct kh_err *err)
{
	struct kh_slice text;

	*ended = false;
	*sound = false;
	if (end - begin > KH_LINE_BYTES)
		return true;
	if (!read_at(journal->fd, begin, chunk, (size_t)(end - begin), err))
		return false;
	text = kh_slice_of(chunk, (size_t)(end - begin));
	*ended = kh_slice_has_suffix(text, KH_SLICE("\"}"));
	*sound = kh_line_parse(line, text) && kh_line_is_sound(&journal->digest, line);
	return true;
}

/* `len` bytes at `at` could be how our line begins: `head`, or as much of it as fits. */
static bool begins_like(int fd, uint64_t at, uint64_t len, struct kh_slice head, bool *like,
			struct kh_err *err)
{
	char bytes[32];
	size_t n = len < head.len ? (size_t)len : head.len;

	if (!read_at(fd, at, bytes, n, err))
		return false;
	*like = n > 0 && memcmp(bytes, head.ptr, n) == 0;
	return true;
}

static bool not_ours(struct kh_err *err, uint64_t begin)
{
	return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			  "journal: the line at offset %llu does not carry a valid hash: it was "
			  "changed, or this is no journal (keep the file, see what `keyhole audit "
			  "verify` says of it, and begin a new one)",
			  (unsigned long long)begin);
}

/* No line of it is sound: it must at least be what our own first write may leave. */
static bool first_line_torn(struct kh_journal *journal, struct kh_err *err)
{
	bool like;

	if (journal->end == 0)
		return true;
	if (!begins_like(journal->fd, 0, journal->end, KH_SLICE("{\"event\":\"start\",\"time\":\""),
			 &like, err))
		return false;
	return like || not_ours(err, 0);
}

/* The last sound line that has a newline; what follows it is torn. */
static bool find_sound_line(struct kh_journal *journal, char *chunk, uint64_t tail,
			    struct kh_err *err)
{
	uint64_t behind = journal->end - tail; /* length of the line that begins at `tail` */

	for (int tries = 0; tail > 0 && tries < MOST_TRIES; tries++) {
		uint64_t begin;
		struct kh_line line;
		bool ended, sound, like;

		if (!find_line(journal->fd, chunk, tail - 1, &begin, err) ||
		    !read_line(journal, chunk, begin, tail - 1, &line, &ended, &sound, err))
			return false;
		if (sound) {
			journal->stopped = kh_slice_eq(line.event, KH_SLICE("stop"));
			journal->seq = line.seq;
			memcpy(journal->head, line.hash.ptr, KH_HASH_HEX);
			journal->torn = journal->end - tail;
			return true;
		}
		/* A cut line has lost its end; one that has it was changed. */
		if (behind == 0 || ended)
			return not_ours(err, begin);
		if (!begins_like(journal->fd, tail, behind,
				 KH_SLICE("{\"event\":\"recovered\",\"time\":\""), &like, err))
			return false;
		if (!like)
			return not_ours(err, begin);
		behind = tail - 1 - begin;
		tail = begin;
	}
	if (tail > 0)
		return not_ours(err, tail);
	journal->torn = journal->end;
	return first_line_torn(journal, err);
}

/* The torn bytes are a record that goes on from the line before: only the newline is missing. */
static bool adopt_unended(struct kh_journal *journal, char *chunk, struct kh_err *err)
{
	uint64_t begin = journal->end - journal->torn;
	struct kh_line line;
	bool ended, sound;

	/* Behind more torn lines it is the record that closes them; see where it begins. */
	if (!find_line(journal->fd, chunk, journal->end, &begin, err) ||
	    !read_line(journal, chunk, begin, journal->end, &line, &ended, &sound, err))
		return false;
	if (!sound || line.seq != journal->seq + 1 ||
	    memcmp(line.prev.ptr, journal->head, KH_HASH_HEX) != 0)
		return true;
	journal->stopped = kh_slice_eq(line.event, KH_SLICE("stop"));
	journal->seq = line.seq;
	memcpy(journal->head, line.hash.ptr, KH_HASH_HEX);
	journal->torn = 0;
	journal->unended = true;
	return true;
}

bool kh_recover_tail(struct kh_journal *journal, struct kh_err *err)
{
	char *chunk;
	struct stat st;
	uint64_t tail;
	bool ok;

	if (fstat(journal->fd, &st) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal");
	if (!S_ISREG(st.st_mode))
		return kh_err_set(err, KH_ERR_CONFIG, "journal: it is not a regular file");
	journal->end = (uint64_t)st.st_size;
	chunk = malloc(CHUNK_BYTES);
	if (!chunk)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	ok = find_line(journal->fd, chunk, journal->end, &tail, err) &&
	     find_sound_line(journal, chunk, tail, err) &&
	     (journal->torn == 0 || adopt_unended(journal, chunk, err));
	free(chunk);
	return ok;
}

/* Where the last life begins: its `start` record, or the file's first byte. */
static bool find_life(struct kh_journal *journal, uint64_t *begin, struct kh_err *err)
{
	static const char head[] = "\n{\"event\":\"start\",";
	enum { HEAD_BYTES = sizeof(head) - 1 };
	char *chunk = malloc(CHUNK_BYTES + HEAD_BYTES);
	uint64_t from = journal->end;

	*begin = 0;
	if (!chunk)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	while (from > 0 && *begin == 0) {
		size_t len = from < CHUNK_BYTES ? (size_t)from : CHUNK_BYTES;
		size_t over = journal->end - from < HEAD_BYTES ? (size_t)(journal->end - from)
							       : HEAD_BYTES;
		size_t look = len;
		const char *newline;

		if (!read_at(journal->fd, from - len, chunk, len + over, err)) {
			free(chunk);
			return false;
		}
		while ((newline = memrchr(chunk, '\n', look))) {
			look = (size_t)(newline - chunk);
			if (len + over - look >= HEAD_BYTES &&
			    memcmp(newline, head, HEAD_BYTES) == 0) {
				*begin = from - len + look + 1;
				break;
			}
		}
		from -= len;
	}
	free(chunk);
	return true;
}

/*
 * The ids that are open: open addressing, linear probing, at most half full. An id is random
 * enough to be its own hash. Zero marks a free place, so the id zero is counted with those that
 * have no place.
 */
struct ids {
	uint64_t *slots;
	size_t size, used, most;
	uint64_t unnamed;
};

static size_t place(const struct ids *ids, uint64_t id)
{
	size_t at = (size_t)(id * 0x9e3779b97f4a7c15u >> 32) & (ids->size - 1);

	while (ids->slots[at] != 0 && ids->slots[at] != id)
		at = (at + 1) & (ids->size - 1);
	return at;
}

static bool grow(struct ids *ids)
{
	struct ids wider = { .size = ids->size ? 2 * ids->size : 1024, .used = ids->used };

	wider.slots = calloc(wider.size, sizeof(*wider.slots));
	if (!wider.slots)
		return false;
	for (size_t i = 0; i < ids->size; i++)
		if (ids->slots[i] != 0)
			wider.slots[place(&wider, ids->slots[i])] = ids->slots[i];
	free(ids->slots);
	ids->slots = wider.slots;
	ids->size = wider.size;
	return true;
}

static void ids_add(struct ids *ids, uint64_t id)
{
	size_t at;

	if (id == 0 || ids->used >= ids->most || (2 * ids->used >= ids->size && !grow(ids))) {
		ids->unnamed++;
		return;
	}
	at = place(ids, id);
	if (ids->slots[at] == 0) {
		ids->slots[at] = id;
		ids->used++;
	}
}

static void ids_remove(struct ids *ids, uint64_t id)
{
	size_t at;

	if (id == 0 || ids->size == 0 || ids->slots[at = place(ids, id)] == 0) {
		ids->unnamed -= ids->unnamed > 0;
		return;
	}
	ids->slots[at] = 0;
	ids->used--;
	/* Those behind it find their place anew, or a search would end at the hole. */
	for (;;) {
		uint64_t moving;

		at = (at + 1) & (ids->size - 1);
		moving = ids->slots[at];
		if (moving == 0)
			return;
		ids->slots[at] = 0;
		ids->slots[place(ids, moving)] = moving;
	}
}

static void follow(struct ids *ids, struct kh_slice text)
{
	struct kh_line line;
	uint64_t id, count;

	/* A line that was torn may begin like a record; it never became one. */
	if (!kh_line_parse(&line, text))
		return;
	if (kh_slice_eq(line.event, KH_SLICE("open"))) {
		(void)kh_line_id(text, &id);
		ids_add(ids, id);
	} else if (kh_slice_eq(line.event, KH_SLICE("close"))) {
		(void)kh_line_id(text, &id);
		ids_remove(ids, id);
	} else if (kh_slice_eq(line.event, KH_SLICE("aborted"))) {
		if (kh_line_id(text, &id))
			ids_remove(ids, id);
		else if (kh_line_number(text, KH_SLICE(",\"count\":"), &count))
			ids->unnamed -= count < ids->unnamed ? count : ids->unnamed;
	}
}

static bool read_life(struct kh_journal *journal, struct ids *ids, struct kh_err *err)
{
	struct kh_lines lines;
	struct kh_lines_piece piece;
	enum kh_lines_status status;
	uint64_t begin;

	if (!find_life(journal, &begin, err) ||
	    !kh_lines_init(&lines, journal->fd, true, begin, err))
		return false;
	while ((status = kh_lines_next(&lines, &piece, err)) == KH_LINES_PIECE)
		if (piece.begins && (piece.ends || journal->unended))
			follow(ids, piece.bytes);
	kh_lines_fini(&lines);
	return status == KH_LINES_END;
}

static bool put_aborted(struct kh_batch *batch, uint64_t id, uint64_t count)
{
	char text[KH_EXCHANGE_ID_BYTES];
	struct kh_buf body;
	bool ok;

	kh_buf_init(&body, KH_LIMIT_RECORD_BYTES);
	kh_id_format(id, text);
	ok = kh_record_begin(&body, "aborted") &&
	     (count ? kh_buf_printf(&body, ",\"count\":%llu", (unsigned long long)count)
		    : kh_buf_printf(&body, ",\"id\":\"%s\"", text)) &&
	     kh_batch_put(batch, kh_buf_view(&body));
	kh_buf_fini(&body);
	return ok;
}

static bool write_aborted(struct kh_journal *journal, const struct ids *ids, struct kh_batch *batch,
			  struct kh_err *err)
{
	for (size_t i = 0; i < ids->size; i++) {
		if (ids->slots[i] == 0)
			continue;
		if (!put_aborted(batch, ids->slots[i], 0))
			return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
		if (batch->count == ABORTED_AT_ONCE && !kh_journal_commit(journal, batch, err))
			return false;
	}
	if (ids->unnamed > 0 && !put_aborted(batch, 0, ids->unnamed))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	return kh_journal_commit(journal, batch, err);
}

bool kh_recover_opens(struct kh_journal *journal, size_t most_ids, uint64_t *aborted,
		      struct kh_err *err)
{
	struct ids ids = { .most = most_ids };
	struct kh_batch batch;
	bool ok;

	kh_batch_init(&batch);
	ok = read_life(journal, &ids, err) && write_aborted(journal, &ids, &batch, err);
	*aborted = ids.used + ids.unnamed;
	kh_batch_fini(&batch);
	free(ids.slots);
	return ok;
}
