/*
 * join.c - ends a segment, and writes its end into the segment that continues it
 *
 * The writer of the segment has ended. If it ended cleanly, the last line is a `stop` record. If it
 * crashed, what it left is first closed, as the next worker on that file would do it: torn bytes by
 * a `recovered` record, exchanges without an end by `aborted` records. Then the last line is final,
 * and a `joined` record in the newer segment pins it.
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

bool kh_join_record(struct kh_batch *batch, uint64_t segment, uint64_t last_seq, const char *head)
{
	struct kh_buf body;
	bool ok;

	kh_buf_init(&body, KH_LIMIT_RECORD_BYTES);
	ok = kh_record_begin(&body, "joined") &&
	     kh_buf_printf(&body, ",\"segment\":%llu,\"last_seq\":%llu,\"head\":\"%s\"",
			   (unsigned long long)segment, (unsigned long long)last_seq, head) &&
	     kh_batch_put(batch, kh_buf_view(&body));
	kh_buf_fini(&body);
	return ok;
}

static bool put_joined(struct kh_journal *journal, const struct kh_journal *segment, uint64_t cut,
		       struct kh_err *err)
{
	struct kh_batch batch;
	bool ok;

	kh_batch_init(&batch);
	ok = kh_join_record(&batch, cut, segment->seq, segment->head)
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

bool kh_journal_join(struct kh_journal *journal, struct kh_journal_files files, uint64_t cut,
		     struct kh_err *err)
{
	struct kh_journal_report report = { 0 };
	struct kh_journal *segment =
		kh_journal_resume(files, journal->durability, NULL, &report, err);
	bool ok;

	if (!segment)
		return kh_err_wrap(err, "the segment before");
	/* The line that was continued must be in it, or it is not that segment. */
	if (segment->seq < cut)
		ok = kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				"journal: the segment before ends at line %llu, and line %llu was "
				"continued",
				(unsigned long long)segment->seq, (unsigned long long)cut);
	else
		ok = end_well(segment, &join_bounds, err) && put_joined(journal, segment, cut, err);
	kh_journal_free(segment);
	return ok;
}
