/*
 * join.c - ends a segment, and writes its end into the segment that continues it
 *
 * The writer of the segment has ended. If it ended cleanly, the last line is a `stop` record. If it
 * crashed, what it left is first closed, as the next worker on that file would do it: torn bytes by
 * a `recovered` record, exchanges without an end by `aborted` records. Then the last line is final,
 * and a `joined` record in the newer segment pins it.
 *
 * A writer that was taken over may have left lines that do not continue the chain. Then nothing is
 * written after them: the `joined` record pins the last line whose chain holds, and says how many
 * bytes are left after it.
 */
#include "audit_internal.h"

/* Recovery of a segment runs while requests are served, on the thread that takes the keeper's
 * answers: leaves and credentials wait for it. */
static const struct kh_recover_bounds join_bounds = { KH_LIMIT_RECOVER_IDS, KH_LIMIT_RECOVER_BYTES,
						      1000 };

/* Torn bytes, and a newline that is missing, are closed by the first record that is written. */
static bool end_well(struct kh_journal *segment, const struct kh_recover_bounds *bounds,
		     struct kh_err *err)
{
	struct kh_batch batch;
	struct kh_buf body;
	uint64_t aborted, unread;
	bool ok;

	if (segment->stopped && !segment->torn && !segment->unended)
		return true;
	if (!kh_recover_opens(segment, bounds, &aborted, &unread, err))
		return false;
	kh_batch_init(&batch);
	kh_buf_init(&body, KH_LIMIT_RECORD_BYTES);
	ok = kh_record_begin(&body, "stop") && kh_batch_put(&batch, kh_buf_view(&body))
		     ? kh_journal_commit(segment, &batch, err)
		     : kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	kh_buf_fini(&body);
	kh_batch_fini(&batch);
	return ok;
}

/* What is known of it beside its last line; at most one is not 0. */
struct end {
	uint64_t left;	 /* bytes after that line which continue nothing */
	uint64_t unread; /* bytes whose chain was not followed: too many */
};

static bool put_end(struct kh_buf *body, const struct end *end)
{
	return (!end->left ||
		kh_buf_printf(body, ",\"left\":%llu", (unsigned long long)end->left)) &&
	       (!end->unread ||
		kh_buf_printf(body, ",\"unread\":%llu", (unsigned long long)end->unread));
}

static bool put_record(struct kh_batch *batch, uint64_t segment, uint64_t last_seq,
		       const char *head, const struct end *end)
{
	struct kh_buf body;
	bool ok;

	kh_buf_init(&body, KH_LIMIT_RECORD_BYTES);
	ok = kh_record_begin(&body, "joined") &&
	     kh_buf_printf(&body, ",\"segment\":%llu,\"last_seq\":%llu,\"head\":\"%s\"",
			   (unsigned long long)segment, (unsigned long long)last_seq, head) &&
	     put_end(&body, end) && kh_batch_put(batch, kh_buf_view(&body));
	kh_buf_fini(&body);
	return ok;
}

bool kh_join_record(struct kh_batch *batch, uint64_t segment, uint64_t last_seq, const char *head)
{
	return put_record(batch, segment, last_seq, head, &(struct end){ .left = 0 });
}

static bool put_joined(struct kh_journal *journal, uint64_t cut, uint64_t last_seq,
		       const char *head, const struct end *end, struct kh_err *err)
{
	struct kh_batch batch;
	bool ok;

	kh_batch_init(&batch);
	ok = put_record(&batch, cut, last_seq, head, end)
		     ? kh_journal_commit(journal, &batch, err)
		     : kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	kh_batch_fini(&batch);
	return ok;
}

bool kh_journal_end_file(struct kh_journal_files files, enum kh_durability durability,
			 const struct kh_journal_base *base, bool *spoiled, struct kh_err *err)
{
	struct kh_journal_report report = { 0 };
	struct kh_journal *journal = kh_journal_resume(files, durability, base, &report, err);
	bool ok = journal && end_well(journal, &kh_recover_bounds, err);

	*spoiled = report.spoiled;
	if (journal)
		kh_journal_free(journal);
	return ok;
}

/* All that its writer left can be continued, or nothing is known against it. */
static bool join_whole(struct kh_journal *journal, struct kh_journal *segment, uint64_t cut,
		       const struct end *end, struct kh_err *err)
{
	/* The line that was continued must be in it, or it is not that segment. */
	if (segment->seq < cut)
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				  "journal: the segment before ends at line %llu, and line %llu "
				  "was continued",
				  (unsigned long long)segment->seq, (unsigned long long)cut);
	return end_well(segment, &join_bounds, err) &&
	       put_joined(journal, cut, segment->seq, segment->head, end, err);
}

bool kh_journal_join(struct kh_journal *journal, struct kh_journal_files files,
		     const struct kh_journal_base *cut, struct kh_err *err)
{
	struct kh_journal_report report = { 0 };
	struct kh_err why = KH_ERR_INIT;
	struct kh_held held;
	bool ok;

	if (!kh_held_since(files.read, cut, &join_bounds, &held, err))
		return kh_err_wrap(err, "the segment before");
	struct kh_journal *segment =
		kh_journal_resume(files, journal->durability, NULL, &report, &why);
	if (held.whole && (segment ? !kh_held_is_tail(&held, segment) : report.spoiled)) {
		uint64_t from = held.suspect < held.size ? held.suspect : held.size;
		ok = put_joined(journal, cut->seq, held.seq, held.head,
				&(struct end){ .left = held.size - from }, err);
	} else if (segment) {
		ok = join_whole(journal, segment, cut->seq,
				&(struct end){ .unread = held.whole ? 0 : held.size }, err);
	} else {
		if (err)
			*err = why;
		ok = kh_err_wrap(err, "the segment before");
	}
	if (segment)
		kh_journal_free(segment);
	return ok;
}
