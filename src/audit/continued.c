/*
 * continued.c - do the lines that a dead worker left continue the journal?
 *
 * A worker that was taken over may have appended lines that are no records, that are valid by
 * themselves and continue nothing, or that continue another line. Recovery looks only at the last
 * line. It would continue from there, and nobody could tell any more whether the lines after the
 * break are as they were written. So each start first follows the chain through all lines that were
 * written since the last worker did so; that worker did it before it read any byte of a sandbox.
 * What the dead worker reported of its lines is trusted only if there are more lines than can be
 * read. Even then nobody writes after them: a new segment continues the last line.
 *
 * A daemon that has just started knows of no such worker. It follows the whole file: whoever wrote
 * a line that continues nothing can have written a `start` record after it. So that its start takes
 * no longer for a file of any size, it goes on in a new segment where the file is too long.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/encode.h>

#include "audit_internal.h"

const struct kh_recover_bounds kh_continued_bounds = { KH_LIMIT_RECOVER_IDS, KH_LIMIT_FOLLOW_BYTES,
						       KH_LIMIT_FOLLOW_MS };

/* A place from which the chain can be followed. */
struct place {
	uint64_t offset;
	uint64_t seq;
	char head[KH_HASH_HEX + 1];
};

/* A line that had no newline then has one now, or nothing behind it. */
static bool was_ended(int fd, uint64_t at, struct kh_err *err)
{
	char byte = '\n';
	ssize_t n;

	do
		n = pread(fd, &byte, 1, (off_t)at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: it can't be read");
	return byte == '\n' ||
	       kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			  "journal: the line that ended at offset %llu was written on",
			  (unsigned long long)at);
}

/* Where the chain stood when the file was so long; torn bytes at its end are to be explained. */
static bool stand_then(struct kh_journal *found, uint64_t since, struct place *out,
		       struct kh_err *err)
{
	if (since > 0 && !kh_recover_tail_at(found, since, err))
		return false;
	*out = (struct place){ .offset = since - found->torn, .seq = found->seq };
	memcpy(out->head, found->head, sizeof(out->head));
	if (!found->unended)
		return true;
	out->offset = since + 1;
	return was_ended(found->read_fd, since, err);
}

/* Would the next writer go on from the last line that holds? */
static bool is_tail(struct kh_journal *found, const struct kh_held *held, struct kh_err *err)
{
	if (!kh_recover_tail(found, err))
		return false;
	return kh_held_is_tail(held, found) ||
	       kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			  "journal: what is at offset %llu does not continue the line before "
			  "it, and no record explains it: whoever wrote it was not keyhole, or was "
			  "taken over",
			  (unsigned long long)held->suspect);
}

/* *last: the last line that holds, where what follows it may not. */
static bool follow(struct kh_journal *found, const struct place *place,
		   const struct kh_recover_bounds *bounds, struct kh_checkpoint *last, bool *whole,
		   struct kh_err *err)
{
	struct kh_verify_report report = { .last_seq = place->seq };
	struct kh_held held = { .seq = 0 };

	memcpy(report.head, place->head, sizeof(report.head));
	if (!kh_verify_behind(found->read_fd, place->offset, bounds, &report, &held.suspect, whole,
			      err))
		return false;
	held.seq = report.last_seq;
	memcpy(held.head, report.head, sizeof(held.head));
	if (held.seq > found->base && held.suspect != UINT64_MAX) {
		*last = (struct kh_checkpoint){ .seq = held.seq, .end = held.suspect };
		(void)kh_hex_decode(kh_slice_of(held.head, KH_HASH_HEX), last->hash, KH_HASH_BYTES);
	}
	return !*whole || is_tail(found, &held, err);
}

static bool too_much(const struct kh_checkpoint *told, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			  "journal: too much was written since line %llu, the last one that the "
			  "keeper was told of",
			  (unsigned long long)told->seq);
}

static bool follow_told(struct kh_journal *found, const struct kh_checkpoint *told,
			const struct kh_recover_bounds *bounds, struct kh_checkpoint *last,
			struct kh_err *err)
{
	struct place place = { .offset = told->end, .seq = told->seq };
	bool whole;

	if (!kh_checkpoint_holds(found->read_fd, told))
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				  "journal: line %llu is not where the keeper was told of it",
				  (unsigned long long)told->seq);
	kh_hex_encode(told->hash, KH_HASH_BYTES, place.head);
	return follow(found, &place, bounds, last, &whole, err) && (whole || too_much(told, err));
}

static bool too_long(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			  "journal: it is too long to be followed at a start");
}

/* Nothing is known of it. */
static bool follow_all(struct kh_journal *found, const struct kh_recover_bounds *bounds,
		       enum kh_journal_followed *how, struct kh_checkpoint *last,
		       struct kh_err *err)
{
	struct place place = { .seq = found->seq };
	bool whole = false;
	struct stat st;

	memcpy(place.head, found->head, sizeof(place.head));
	if (fstat(found->read_fd, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal");
	if ((uint64_t)st.st_size <= bounds->bytes &&
	    !follow(found, &place, bounds, last, &whole, err))
		return false;
	*how = whole ? KH_FOLLOWED_WHOLE : KH_FOLLOWED_TOO_LONG;
	return whole || too_long(err);
}

static bool follow_since(struct kh_journal *found, const struct kh_journal_past *past,
			 const struct kh_recover_bounds *bounds, enum kh_journal_followed *how,
			 struct kh_checkpoint *last, struct kh_err *err)
{
	struct place place;
	bool whole = false;

	if (past->followed && (!stand_then(found, past->since, &place, err) ||
			       !follow(found, &place, bounds, last, &whole, err)))
		return false;
	/* At least what the last line follows from is what the keeper was told of. */
	if (!whole &&
	    !(past->told.end > past->since ? follow_told(found, &past->told, bounds, last, err)
					   : too_much(&past->told, err)))
		return false;
	*how = whole ? KH_FOLLOWED_WHOLE : KH_FOLLOWED_TOO_LONG;
	return whole || too_long(err);
}

bool kh_continued_within(int fd, const struct kh_journal_base *base,
			 const struct kh_journal_past *past, const struct kh_recover_bounds *bounds,
			 enum kh_journal_followed *how, struct kh_checkpoint *last,
			 struct kh_err *err)
{
	bool known = past->followed || past->told.end > 0;
	struct kh_journal found = { .read_fd = fd };
	struct kh_err why = KH_ERR_INIT;
	bool ok = kh_digest_init(&found.digest, &why);

	*how = KH_FOLLOWED_NOT;
	*last = (struct kh_checkpoint){ .seq = 0 };
	kh_journal_stand(&found, base);
	if (!bounds)
		bounds = known ? &kh_recover_bounds : &kh_continued_bounds;
	ok = ok && (known ? follow_since(&found, past, bounds, how, last, &why)
			  : follow_all(&found, bounds, how, last, &why));
	if (!ok && *how == KH_FOLLOWED_NOT && why.code == KH_ERR_AUDIT_UNAVAILABLE)
		*how = KH_FOLLOWED_SPOILED;
	if (!ok && err)
		*err = why;
	kh_digest_fini(&found.digest);
	return ok;
}

bool kh_journal_is_continued(int fd, const struct kh_journal_base *base,
			     const struct kh_journal_past *past, enum kh_journal_followed *how,
			     struct kh_checkpoint *last, struct kh_err *err)
{
	return kh_continued_within(fd, base, past, NULL, how, last, err);
}
