/*
 * recover.c - continues a journal that an earlier writer left
 *
 * Theory of operation. The file is read backwards from its end. Bytes after the last newline are
 * torn, unless they are a whole record that lacks only its newline. The last whole line must have a
 * valid hash, or the journal is not continued. There is one exception: a writer that died while it
 * closed torn bytes leaves them as a line, followed by the beginning of a `recovered` record. Then
 * all of that is torn, back to the last valid line before it.
 *
 * Then the beginning of the last writer's lines is searched backwards: a line that begins like a
 * `start` record. From there the chain is followed (chain.c) to the last line, with a set of the
 * ids that are open. An id that is left in the set has no end. If the chain does not lead to the
 * last line, that `start` was torn, and the one before it is tried.
 *
 * A worker that was taken over may have written the file, so nothing in the file bounds the work.
 * KH_LIMIT_TORN_BYTES bounds the torn bytes (more are an error). KH_LIMIT_RECOVER_BYTES bounds how
 * many bytes are read (the `start` record says how many were not). KH_LIMIT_RECOVER_IDS bounds the
 * memory (ids above that are counted, not named). KH_LIMIT_RECOVER_MS bounds the time (lines that
 * take longer count as not read). MOST_LIVES bounds how often the same lines are read.
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
	/* `start` records that the last line does not follow from. A worker that was taken over can
	   write any number of them before a break, and each would be followed up to that break. */
	MOST_LIVES = 8,
	/* Records that are written at a time. */
	ABORTED_AT_ONCE = 4096,
};

const struct kh_recover_bounds kh_recover_bounds = { KH_LIMIT_RECOVER_IDS, KH_LIMIT_RECOVER_BYTES,
						     KH_LIMIT_RECOVER_MS };

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

static bool not_ours(struct kh_err *err, uint64_t begin)
{
	return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			  "journal: the line at offset %llu does not carry a valid hash: it was "
			  "changed, or this is no journal (keep the file, see what `keyhole audit "
			  "verify` says of it, and begin a new one)",
			  (unsigned long long)begin);
}

/* Where the line begins in whose middle or at whose end `from` is: behind the newline before it, or
 * 0. */
static bool find_line(int fd, char *chunk, uint64_t from, uint64_t *begin, struct kh_err *err)
{
	uint64_t least = from > KH_LIMIT_TORN_BYTES ? from - KH_LIMIT_TORN_BYTES : 0;

	while (from > 0) {
		if (from <= least)
			return not_ours(err, from);
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
	if (!read_at(journal->read_fd, begin, chunk, (size_t)(end - begin), err))
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

/* No line of it is sound: it must at least be what our own first write may leave. */
static bool first_line_torn(struct kh_journal *journal, struct kh_err *err)
{
	bool like;

	if (journal->end == 0)
		return true;
	if (!begins_like(journal->read_fd, 0, journal->end,
			 KH_SLICE("{\"event\":\"start\",\"time\":\""), &like, err))
		return false;
	return like || not_ours(err, 0);
}

/* The last sound line that has a newline; what follows it is torn. */
static bool find_sound_line(struct kh_journal *journal, char *chunk, uint64_t tail,
			    struct kh_err *err)
{
	uint64_t behind = journal->end - tail; /* length of the line that begins at `tail` */

	for (int tries = 0; tail > 0 && tries < MOST_TRIES; tries++) {
		if (journal->end - tail > KH_LIMIT_TORN_BYTES)
			return not_ours(err, tail);
		uint64_t begin;
		struct kh_line line;
		bool ended, sound, like;

		if (!find_line(journal->read_fd, chunk, tail - 1, &begin, err) ||
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
		if (!begins_like(journal->read_fd, tail, behind,
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
	if (!find_line(journal->read_fd, chunk, journal->end, &begin, err) ||
	    !read_line(journal, chunk, begin, journal->end, &line, &ended, &sound, err))
		return false;
	if (!sound)
		return true;
	/* No death leaves it, and it is not to be declared torn (chain.c). */
	if (line.seq != journal->seq + 1 || memcmp(line.prev.ptr, journal->head, KH_HASH_HEX) != 0)
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				  "journal: the line at offset %llu is a record, but does not "
				  "continue the one before it: whoever wrote it was not keyhole, "
				  "or was taken over",
				  (unsigned long long)begin);
	journal->stopped = kh_slice_eq(line.event, KH_SLICE("stop"));
	journal->seq = line.seq;
	memcpy(journal->head, line.hash.ptr, KH_HASH_HEX);
	journal->torn = 0;
	journal->unended = true;
	return true;
}

bool kh_recover_tail_at(struct kh_journal *journal, uint64_t end, struct kh_err *err)
{
	char *chunk;
	uint64_t tail;
	bool ok;

	journal->end = end;
	chunk = malloc(CHUNK_BYTES);
	if (!chunk)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	ok = find_line(journal->read_fd, chunk, journal->end, &tail, err) &&
	     find_sound_line(journal, chunk, tail, err) &&
	     (journal->torn == 0 || adopt_unended(journal, chunk, err));
	free(chunk);
	return ok;
}

bool kh_recover_tail(struct kh_journal *journal, struct kh_err *err)
{
	struct stat st;

	if (fstat(journal->read_fd, &st) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal");
	if (!S_ISREG(st.st_mode))
		return kh_err_set(err, KH_ERR_CONFIG, "journal: it is not a regular file");
	return kh_recover_tail_at(journal, (uint64_t)st.st_size, err);
}

/* Where a life begins before `from`: at a line that begins like a `start` record, or the file's
 * first byte, but not before `least`. */
static bool find_life(struct kh_journal *journal, uint64_t least, uint64_t from, uint64_t *begin,
		      struct kh_err *err)
{
	static const char head[] = "\n{\"event\":\"start\",";
	enum { HEAD_BYTES = sizeof(head) - 1 };
	char *chunk = malloc(CHUNK_BYTES + HEAD_BYTES);

	*begin = least;
	if (!chunk)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	while (from > least && *begin == least) {
		size_t len = from < CHUNK_BYTES ? (size_t)from : CHUNK_BYTES;
		size_t over = journal->end - from < HEAD_BYTES ? (size_t)(journal->end - from)
							       : HEAD_BYTES;
		size_t look = len;
		const char *newline;

		if (!read_at(journal->read_fd, from - len, chunk, len + over, err)) {
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

/* Of a life that is being read. */
struct life {
	struct kh_chain chain;
	struct kh_ids *ids;
	uint64_t begin;
	uint64_t until; /* monotonic, in ms */
	bool anchored;	/* the chain stands somewhere */
	bool cut;	/* it may begin in the middle of a line */
};

/* A life that begins in the middle of a file has its first sound record for a beginning; whether
 * that is one of the journal's is known when the last line follows from it. */
static void anchor(struct life *life, const struct kh_lines_piece *piece)
{
	struct kh_line line;

	life->anchored = piece->begins && kh_line_parse(&line, piece->bytes) &&
			 kh_line_is_sound(&life->chain.digest, &line) && line.seq > 0;
	if (life->anchored)
		kh_chain_stand(&life->chain, 1, line.seq - 1, line.prev);
}

static bool is_last(const struct kh_journal *journal, const struct kh_chain *chain)
{
	return chain->seq == journal->seq && memcmp(chain->head, journal->head, KH_HASH_HEX) == 0;
}

/* *follows: the journal's last line follows from what begins there, so that all that was taken in
 * is of its chain. */
static bool follow_life(struct kh_journal *journal, struct life *life, bool *follows,
			struct kh_err *err)
{
	enum kh_lines_status status = KH_LINES_END;
	struct kh_lines_piece piece;
	struct kh_lines lines;
	struct kh_line line;
	const char *fault;

	*follows = false;
	if (!kh_lines_init(&lines, journal->read_fd, true, life->begin, err))
		return false;
	while (!*follows && kh_clock_mono_ms() <= life->until && !kh_chain_is_lost(&life->chain) &&
	       (status = kh_lines_next(&lines, &piece, err)) == KH_LINES_PIECE) {
		if (!life->anchored)
			anchor(life, &piece);
		if (!life->anchored && life->cut)
			continue;
		if (!life->anchored)
			break;
		enum kh_chain_place place = kh_chain_take(&life->chain, &piece, &line, &fault);
		/* A line that was torn may begin like a record; it never became one. */
		if (place == KH_CHAIN_NEXT || place == KH_CHAIN_RECOVERED)
			(void)kh_ids_follow(life->ids, &line, piece.bytes);
		*follows = is_last(journal, &life->chain);
	}
	kh_lines_fini(&lines);
	return status != KH_LINES_FAILED;
}

static bool read_from(struct kh_journal *journal, struct life *life, bool *follows,
		      struct kh_err *err)
{
	bool ok = kh_chain_init(&life->chain, err);

	life->chain.adopts = journal->unended;
	/* At the file's beginning the chain knows where it is. */
	life->anchored = life->begin == 0;
	kh_ids_clear(life->ids);
	ok = ok && follow_life(journal, life, follows, err);
	kh_chain_fini(&life->chain);
	return ok;
}

/* A `start` that was torn begins no life, whatever it says: then the one before it is sought. */
static bool read_life(struct kh_journal *journal, const struct kh_recover_bounds *bounds,
		      struct kh_ids *ids, uint64_t *unread, struct kh_err *err)
{
	uint64_t least = journal->end > bounds->bytes ? journal->end - bounds->bytes : 0;
	uint64_t from = journal->end;
	struct life life = { .ids = ids, .until = kh_clock_mono_ms() + bounds->ms };
	bool follows = false;

	*unread = 0;
	/* No line of it is a record. */
	if (journal->torn == journal->end)
		return true;
	for (int lives = 0;
	     !follows && from > least && lives < MOST_LIVES && kh_clock_mono_ms() <= life.until;
	     lives++) {
		if (!find_life(journal, least, from, &life.begin, err))
			return false;
		life.cut = life.begin == least;
		if (!read_from(journal, &life, &follows, err))
			return false;
		/* Before the newline in front of it. */
		from = life.begin > least ? life.begin - 1 : least;
	}
	if (follows && life.begin == least)
		*unread = least;
	if (!follows) {
		/* An end may follow that was not read. */
		kh_ids_clear(ids);
		*unread = journal->end;
	}
	return true;
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

static bool write_aborted(struct kh_journal *journal, const struct kh_ids *ids,
			  struct kh_batch *batch, struct kh_err *err)
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

bool kh_recover_opens(struct kh_journal *journal, const struct kh_recover_bounds *bounds,
		      uint64_t *aborted, uint64_t *unread, struct kh_err *err)
{
	struct kh_ids ids;
	struct kh_batch batch;
	bool ok;

	if (!kh_ids_init(&ids, bounds->ids))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: no random key");
	kh_batch_init(&batch);
	ok = read_life(journal, bounds, &ids, unread, err) &&
	     write_aborted(journal, &ids, &batch, err);
	*aborted = ids.used + ids.unnamed;
	kh_batch_fini(&batch);
	kh_ids_clear(&ids);
	return ok;
}
