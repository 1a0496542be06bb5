/*
 * journal.c - the one writer of a journal
 *
 * Theory of operation. Each thread collects its records in a batch of its own (record.c). A commit
 * takes the lock, gives each record its number and its place in the chain, and writes the whole
 * batch with one write(2). The chain advances only when every byte is in the file (and, with
 * `synced`, on the disk).
 *
 * If a write falls short, the file is cut back to its old length and the batch stays with its
 * caller. If the file can't be cut (a locked-in worker may not, the file is append-only, the disk
 * fails), the whole lines that were written are in the chain and leave the batch. The part of a
 * line after them counts as torn, until another process cuts it off (cut.c). If no process does,
 * the next commit first ends it with a newline and a `recovered` record. That record has the
 * offset, the length and the hash of the torn bytes, so that they can't be changed unnoticed
 * either.
 *
 * A worker that dies leaves torn bytes in the same way; recover.c finds them at the next start.
 *
 * The locked-in worker has one descriptor to append and another to read. The kernel refuses it
 * every other way to change the file (seccomp.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/encode.h>

#include "audit_internal.h"

enum {
	/* A batch and what sealing adds to it: a body has more than 60 bytes, a seal 177. */
	OUT_BYTES = 4 * KH_LIMIT_BATCH_BYTES + 4096,
	KEPT_BYTES = 512 * 1024,
	/* Writes are cut between two pages, of this size or a multiple. */
	PAGE_BYTES = 4096,
};

/* The line that is being added to the chain. */
struct link {
	uint64_t seq;
	char head[KH_HASH_HEX + 1];
};

/* Appends `body` to the journal's `out` as the next line. */
static bool seal(struct kh_journal *journal, struct link *link, struct kh_slice body)
{
	struct kh_buf *out = &journal->out;
	size_t start = kh_buf_len(out);

	if (!kh_buf_append_slice(out, body) || !kh_buf_append_str(out, ",\"seq\":") ||
	    !kh_buf_append_u64(out, link->seq + 1) || !kh_buf_append_str(out, ",\"prev\":\"") ||
	    !kh_buf_append(out, link->head, KH_HASH_HEX) || !kh_buf_append_char(out, '"'))
		return false;
	if (!kh_digest_begin(&journal->digest) ||
	    !kh_digest_add(&journal->digest, kh_slice_sub(kh_buf_view(out), start, SIZE_MAX)) ||
	    !kh_digest_end(&journal->digest, link->head))
		return false;
	link->seq++;
	return kh_buf_append_str(out, ",\"hash\":\"") &&
	       kh_buf_append(out, link->head, KH_HASH_HEX) && kh_buf_append_str(out, "\"}\n");
}

/*
 * What ends the torn bytes. A death between two pages must not leave the newline as the last byte:
 * recovery would take them for a line that was changed. A blank in front moves it into the next
 * page, and is torn with the rest.
 */
static struct kh_slice lead(const struct kh_journal *journal)
{
	if (journal->torn && (journal->end + 1) % PAGE_BYTES == 0)
		return KH_SLICE(" \n");
	return journal->torn || journal->unended ? KH_SLICE("\n") : KH_SLICE("");
}

/* SHA-256 of the torn bytes, as they stand in the file, and of `more`. */
static bool digest_torn(struct kh_journal *journal, struct kh_slice more, char hex[KH_HASH_HEX + 1])
{
	char chunk[4096];
	uint64_t at = journal->end - journal->torn;

	if (!kh_digest_begin(&journal->digest))
		return false;
	while (at < journal->end) {
		uint64_t left = journal->end - at;
		size_t want = left < sizeof(chunk) ? (size_t)left : sizeof(chunk);
		ssize_t n = pread(journal->read_fd, chunk, want, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || !kh_digest_add(&journal->digest, kh_slice_of(chunk, (size_t)n)))
			return false;
		at += (uint64_t)n;
	}
	return kh_digest_add(&journal->digest, more) && kh_digest_end(&journal->digest, hex);
}

/* What has to stand before the batch: the end of a line that has none, and what it was. */
static bool put_recovered(struct kh_journal *journal, struct link *link)
{
	struct kh_slice end = lead(journal), pad = end;
	char hex[KH_HASH_HEX + 1];
	struct kh_buf body;
	bool ok;

	if (!kh_buf_append_slice(&journal->out, end))
		return false;
	if (!journal->torn)
		return true;
	pad.len--;
	if (!digest_torn(journal, pad, hex))
		return false;
	kh_buf_init(&body, KH_LIMIT_RECORD_BYTES);
	ok = kh_record_begin(&body, "recovered") &&
	     kh_buf_printf(&body, ",\"offset\":%llu,\"bytes\":%llu,\"sha256\":\"%s\"",
			   (unsigned long long)(journal->end - journal->torn),
			   (unsigned long long)(journal->torn + pad.len), hex) &&
	     (link->seq != journal->base || journal->base == 0 ||
	      kh_buf_printf(&body, ",\"continues\":%llu", (unsigned long long)journal->base)) &&
	     seal(journal, link, kh_buf_view(&body));
	kh_buf_fini(&body);
	return ok;
}

/* The first body of a batch. */
static struct kh_slice first_body(struct kh_slice bytes)
{
	uint32_t len;

	memcpy(&len, bytes.ptr, sizeof(len));
	return kh_slice_of(bytes.ptr + sizeof(len), len);
}

/* All that is to be written, in `out`. */
static bool compose(struct kh_journal *journal, const struct kh_batch *batch, struct link *link)
{
	struct kh_slice rest = kh_buf_view(&batch->bytes);

	if (!put_recovered(journal, link))
		return false;
	while (rest.len > 0) {
		struct kh_slice body = first_body(rest);

		if (!seal(journal, link, body))
			return false;
		rest = kh_slice_sub(rest, sizeof(uint32_t) + body.len, rest.len);
	}
	return true;
}

/* Return: how many bytes are in the file; fewer than asked: errno says why. */
static size_t write_out(int fd, struct kh_slice bytes)
{
	size_t done = 0;

	while (done < bytes.len) {
		ssize_t n = write(fd, bytes.ptr + done, bytes.len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : EIO;
			break;
		}
		done += (size_t)n;
	}
	return done;
}

static void stand(struct kh_journal *journal, const struct kh_line *line)
{
	journal->seq = line->seq;
	memcpy(journal->head, line->hash.ptr, KH_HASH_HEX);
}

/* Takes a line off *in into the chain. One that lacks nothing but its newline is whole as well: the
 * next commit ends it. Return: false when there is none; what is left is torn. */
static bool accept_line(struct kh_journal *journal, struct kh_slice *in)
{
	size_t newline = kh_slice_find(*in, '\n', 0);
	struct kh_line line;

	if (!kh_line_parse(&line, kh_slice_sub(*in, 0, newline)))
		return false;
	stand(journal, &line);
	journal->unended = newline == in->len;
	*in = kh_slice_sub(*in, newline + 1, in->len);
	return true;
}

/* `in` is in the file to stay. What is whole of it is in the chain, the rest is torn. */
static void accept_partly(struct kh_journal *journal, struct kh_batch *batch, struct kh_slice in)
{
	uint64_t written = in.len;

	in = kh_slice_sub(in, lead(journal).len, in.len);
	journal->end += written;
	journal->unended = false;
	if (journal->torn && !accept_line(journal, &in)) {
		/* The `recovered` record is itself cut: one more line of what is torn. */
		journal->torn += written;
		return;
	}
	while (accept_line(journal, &in)) {
		struct kh_slice body = first_body(kh_buf_view(&batch->bytes));

		kh_buf_consume(&batch->bytes, sizeof(uint32_t) + body.len);
		batch->count--;
	}
	journal->torn = in.len;
}

/* What one busy moment took is not kept for ever. */
static void empty(struct kh_buf *buf)
{
	kh_buf_clear(buf);
	if (buf->alloc > KEPT_BYTES)
		kh_buf_release(buf);
}

static void wake(struct kh_journal *journal)
{
	const uint64_t one = 1;

	if (journal->wake >= 0 && !journal->woken)
		journal->woken = write(journal->wake, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

/* Who waits for checkpoints asks for it. */
static void want_cut(struct kh_journal *journal)
{
	const uint64_t one = 1;

	journal->to_cut = journal->wake >= 0 &&
			  write(journal->wake, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

static bool write_batch(struct kh_journal *journal, struct kh_batch *batch, struct kh_err *err)
{
	struct link link = { .seq = journal->seq };
	struct kh_slice out;
	size_t done;
	bool ok;

	memcpy(link.head, journal->head, sizeof(link.head));
	if (!compose(journal, batch, &link))
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				  "journal: the records can't be made (memory, or torn bytes that "
				  "can't be read)");
	out = kh_buf_view(&journal->out);
	done = write_out(journal->fd, out);
	ok = done == out.len;
	if (ok && journal->durability == KH_DURABILITY_SYNCED)
		ok = fdatasync(journal->fd) == 0;
	if (!ok) {
		kh_err_sys(err, KH_ERR_AUDIT_UNAVAILABLE, errno,
			   "journal: %zu of %zu bytes written", done, out.len);
		if (done > 0 && ftruncate(journal->fd, (off_t)journal->end) < 0) {
			bool was_torn = journal->torn > 0;

			accept_partly(journal, batch, kh_slice_sub(out, 0, done));
			if (!was_torn && journal->torn > 0)
				want_cut(journal);
		}
		return false;
	}
	journal->end += out.len;
	journal->seq = link.seq;
	memcpy(journal->head, link.head, sizeof(link.head));
	journal->torn = 0;
	journal->unended = false;
	empty(&batch->bytes);
	batch->count = 0;
	wake(journal);
	return true;
}

bool kh_journal_commit(struct kh_journal *journal, struct kh_batch *batch, struct kh_err *err)
{
	bool ok;

	if (batch->count == 0)
		return true;
	if (kh_journal_is_held(journal))
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				  "journal: its file was moved, deleted or replaced");
	(void)pthread_mutex_lock(&journal->lock);
	ok = journal->cutting ? kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
					   "journal: a record that found no room is being cut off")
			      : write_batch(journal, batch, err);
	empty(&journal->out);
	(void)pthread_mutex_unlock(&journal->lock);
	return ok;
}

void kh_journal_hold(struct kh_journal *journal, bool hold)
{
	atomic_store(&journal->held, hold);
}

bool kh_journal_is_held(const struct kh_journal *journal)
{
	return atomic_load(&journal->held);
}

static bool put_start(struct kh_journal *journal, uint64_t unread, struct kh_batch *batch)
{
	struct kh_buf body;
	bool ok;

	kh_buf_init(&body, KH_LIMIT_RECORD_BYTES);
	ok = kh_record_begin(&body, "start") &&
	     kh_buf_printf(&body, ",\"format\":1,\"version\":\"%s\",\"process.pid\":%ld",
			   KH_VERSION, (long)getpid()) &&
	     kh_buf_printf(&body, ",\"durability\":\"%s\"",
			   journal->durability == KH_DURABILITY_SYNCED ? "synced" : "written") &&
	     (!journal->base || journal->seq != journal->base ||
	      (kh_buf_printf(&body, ",\"continues\":%llu", (unsigned long long)journal->base) &&
	       (!journal->set_aside || kh_buf_append_str(&body, ",\"set_aside\":true")))) &&
	     (!journal->before_open || (journal->seq == journal->base && !journal->before_ended) ||
	      kh_buf_append_str(&body, ",\"unjoined\":true")) &&
	     (!unread || kh_buf_printf(&body, ",\"unread\":%llu", (unsigned long long)unread)) &&
	     kh_batch_put(batch, kh_buf_view(&body));
	kh_buf_fini(&body);
	return ok;
}

/* Where the segment before ends, if that is known already. Each life of this segment says it: of
 * what the first one had to write, a full disk may have taken the start alone. */
static bool put_end_before(const struct kh_journal *journal, struct kh_batch *batch)
{
	return !journal->before_ended || !journal->base ||
	       kh_join_record(batch, journal->base, journal->base, journal->base_head);
}

static bool write_start(struct kh_journal *journal, uint64_t unread, struct kh_err *err)
{
	struct kh_batch batch;
	bool ok;

	kh_batch_init(&batch);
	ok = put_start(journal, unread, &batch) && put_end_before(journal, &batch)
		     ? kh_journal_commit(journal, &batch, err)
		     : kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	kh_batch_fini(&batch);
	return ok;
}

void kh_journal_free(struct kh_journal *journal)
{
	kh_digest_fini(&journal->digest);
	kh_buf_fini(&journal->out);
	(void)pthread_mutex_destroy(&journal->lock);
	free(journal);
}

void kh_journal_stand(struct kh_journal *journal, const struct kh_journal_base *base)
{
	memcpy(journal->head, kh_audit_genesis_hex, sizeof(journal->head));
	if (!base || base->seq == 0)
		return;
	journal->base = journal->seq = base->seq;
	journal->set_aside = base->set_aside;
	journal->before_ended = base->ended;
	journal->before_open = base->open;
	kh_hex_encode(base->hash, KH_HASH_BYTES, journal->head);
	memcpy(journal->base_head, journal->head, sizeof(journal->base_head));
}

struct kh_journal *kh_journal_resume(struct kh_journal_files files, enum kh_durability durability,
				     const struct kh_journal_base *base,
				     struct kh_journal_report *report, struct kh_err *err)
{
	struct kh_journal *journal = calloc(1, sizeof(*journal));

	if (!journal) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
		return NULL;
	}
	(void)pthread_mutex_init(&journal->lock, NULL);
	journal->fd = files.append;
	journal->read_fd = files.read;
	journal->wake = -1;
	journal->durability = durability;
	kh_buf_init(&journal->out, OUT_BYTES);
	kh_journal_stand(journal, base);
	struct kh_err why = KH_ERR_INIT;
	if (!kh_digest_init(&journal->digest, &why) || !kh_recover_tail(journal, &why)) {
		report->spoiled = why.code == KH_ERR_AUDIT_UNAVAILABLE;
		if (err)
			*err = why;
		kh_journal_free(journal);
		return NULL;
	}
	report->spoiled = !kh_numbers_fit(journal);
	if (report->spoiled) {
		kh_err_set(
			err, KH_ERR_AUDIT_UNAVAILABLE,
			"journal: its last line has number %llu, and so many lines are not there: "
			"whoever wrote it was not keyhole, or was taken over",
			(unsigned long long)journal->seq);
		kh_journal_free(journal);
		return NULL;
	}
	if (journal->torn) {
		report->recovered_offset = journal->end - journal->torn;
		report->recovered_bytes = journal->torn;
	}
	return journal;
}

struct kh_journal *kh_journal_open_segment(struct kh_journal_files files,
					   enum kh_durability durability,
					   const struct kh_journal_base *base,
					   struct kh_journal_report *report, struct kh_err *err)
{
	struct kh_journal_report found = { 0 };
	struct kh_journal *journal = kh_journal_resume(files, durability, base, &found, err);

	if (report)
		report->spoiled = found.spoiled;
	if (!journal)
		return NULL;
	if (!kh_recover_opens(journal, &kh_recover_bounds, &found.aborted, &found.unread, err) ||
	    !write_start(journal, found.unread, err)) {
		kh_journal_free(journal);
		return NULL;
	}
	found.seq = journal->seq;
	if (report)
		*report = found;
	return journal;
}

struct kh_journal *kh_journal_open(int fd, enum kh_durability durability,
				   struct kh_journal_report *report, struct kh_err *err)
{
	return kh_journal_open_segment((struct kh_journal_files){ fd, fd }, durability, NULL,
				       report, err);
}

void kh_journal_close(struct kh_journal *journal)
{
	struct kh_batch batch;
	struct kh_buf body;

	if (!journal)
		return;
	kh_batch_init(&batch);
	kh_buf_init(&body, KH_LIMIT_RECORD_BYTES);
	/* Without it the next start sees a life that was cut off, which is what it then was. */
	if (kh_record_begin(&body, "stop") && kh_batch_put(&batch, kh_buf_view(&body)))
		(void)kh_journal_commit(journal, &batch, NULL);
	kh_buf_fini(&body);
	kh_batch_fini(&batch);
	kh_journal_free(journal);
}

void kh_journal_head(struct kh_journal *journal, uint64_t *seq, uint8_t hash[32])
{
	(void)pthread_mutex_lock(&journal->lock);
	*seq = journal->seq;
	(void)kh_hex_decode(kh_slice_of(journal->head, KH_HASH_HEX), hash, KH_HASH_BYTES);
	(void)pthread_mutex_unlock(&journal->lock);
}

bool kh_journal_checkpoint(struct kh_journal *journal, struct kh_checkpoint *out)
{
	(void)pthread_mutex_lock(&journal->lock);
	bool clean = journal->torn == 0 && !journal->unended;
	*out = (struct kh_checkpoint){ .seq = journal->seq, .end = journal->end };
	(void)kh_hex_decode(kh_slice_of(journal->head, KH_HASH_HEX), out->hash, KH_HASH_BYTES);
	journal->woken = false;
	(void)pthread_mutex_unlock(&journal->lock);
	return clean;
}

void kh_journal_wake(struct kh_journal *journal, int eventfd)
{
	(void)pthread_mutex_lock(&journal->lock);
	journal->wake = eventfd;
	(void)pthread_mutex_unlock(&journal->lock);
}
