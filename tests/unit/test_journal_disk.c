/* test_journal_disk.c - a disk that is full or fails loses no line that was spoken of */
/* wrap: write */
/* wrap: ftruncate */
/* wrap: fdatasync */
#include "journal_faults.h"

static void a_full_disk_leaves_the_file_and_the_batch_as_they_were(void **state)
{
	(void)state;
	for (size_t fit = 0; fit < 900; fit += 13) {
		int fd = new_file();
		struct kh_journal *journal = opened(fd, NULL);
		struct kh_err err = KH_ERR_INIT;
		struct kh_batch batch;
		size_t before, after;
		uint64_t seq, seq_after;
		uint8_t head[32];

		write_exchanges(journal, 1);
		free(read_back(fd, &before));
		kh_journal_head(journal, &seq, head);
		kh_batch_init(&batch);
		put_open(&batch, "x00000000000000aa");
		put_open(&batch, "x00000000000000ab");
		fail_after(fd, fit, false);
		assert_false(kh_journal_commit(journal, &batch, &err));
		assert_int_equal(err.code, KH_ERR_AUDIT_UNAVAILABLE);
		assert_int_equal(err.sys, ENOSPC);
		assert_int_equal(batch.count, 2);
		free(read_back(fd, &after));
		assert_int_equal(before, after);
		kh_journal_head(journal, &seq_after, head);
		assert_int_equal(seq, seq_after);
		work_again();
		committed(journal, &batch);
		assert_chain(fd, seq + 2);
		kh_batch_fini(&batch);
		kh_journal_close(journal);
		close(fd);
	}
}

/* The file takes `fit` bytes of three records and can't be cut back; `again` bytes the next time.
 * Then either the disk has room again, or the process dies and another one comes. */
static void refuse_to_cut(size_t fit, size_t again, bool die)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_batch batch;
	struct kh_verify_report verdict;

	write_exchanges(journal, 1);
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	put_open(&batch, "x00000000000000ab");
	put_open(&batch, "x00000000000000ac");
	fail_after(fd, fit, true);
	assert_false(kh_journal_commit(journal, &batch, NULL));
	fail_after(fd, again, true);
	if (batch.count > 0)
		(void)kh_journal_commit(journal, &batch, NULL);
	work_again();
	if (die) {
		kh_journal_free(journal);
		kh_journal_close(opened(fd, NULL));
	} else {
		committed(journal, &batch);
		/* Each counts once, whatever stood half-written in between. */
		assert_int_equal(verified(fd).opens, 4);
		kh_journal_close(journal);
	}
	verdict = verified(fd);
	if (!verdict.ok)
		fail_msg("%zu and %zu bytes, %s: %s", fit, again, die ? "death" : "life",
			 verdict.problem);
	kh_batch_fini(&batch);
	close(fd);
}

static void what_can_not_be_cut_back_is_closed(void **state)
{
	(void)state;
	for (size_t fit = 0; fit < 1500; fit += 11) {
		for (size_t again = 0; again < 700; again += 37) {
			/* A newline alone behind torn bytes is the page's end, see above. */
			if (again == 1)
				continue;
			refuse_to_cut(fit, again, false);
			refuse_to_cut(fit, again, true);
		}
	}
}

static void synced_counts_only_what_is_on_the_disk(void **state)
{
	int fd = new_file();
	struct kh_err err = KH_ERR_INIT;
	struct kh_journal *journal;
	struct kh_batch batch;
	size_t before, after;

	(void)state;
	syncs = 0;
	journal = kh_journal_open(fd, KH_DURABILITY_SYNCED, NULL, &err);
	assert_non_null(journal);
	assert_true(syncs > 0);
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	free(read_back(fd, &before));
	failing_syncs = 1;
	assert_false(kh_journal_commit(journal, &batch, &err));
	assert_int_equal(err.sys, EIO);
	free(read_back(fd, &after));
	assert_int_equal(before, after);
	assert_int_equal(batch.count, 1);
	syncs = 0;
	committed(journal, &batch);
	assert_int_equal(syncs, 1);
	assert_chain(fd, 2);
	kh_batch_fini(&batch);
	kh_journal_close(journal);
	close(fd);
}

/* Of a segment's first records some find room; it is opened again when there is more. */
static void a_segment_that_began_on_a_full_disk_says_how_the_one_before_ended(void **state)
{
	struct kh_journal_base base = { .seq = 7, .ended = true };
	(void)state;
	memset(base.hash, 0xab, sizeof(base.hash));
	for (size_t fit = 0; fit < 700; fit += 9) {
		int fd = new_file();
		const struct kh_journal_files files = { fd, fd };
		struct kh_journal_report report;
		struct kh_err err = KH_ERR_INIT;
		fail_after(fd, fit, true);
		struct kh_journal *journal =
			kh_journal_open_segment(files, KH_DURABILITY_WRITTEN, &base, &report, &err);
		assert_true(journal || err.sys == ENOSPC);
		if (journal)
			kh_journal_free(journal);
		work_again();
		journal =
			kh_journal_open_segment(files, KH_DURABILITY_WRITTEN, &base, &report, &err);
		assert_non_null(journal);
		kh_journal_close(journal);
		struct kh_verify_report verdict = verified(fd);
		if (!verdict.ok || verdict.joined.seq != 7)
			fail_msg("%zu bytes: %s", fit, verdict.problem);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_disk_leaves_the_file_and_the_batch_as_they_were),
		cmocka_unit_test(what_can_not_be_cut_back_is_closed),
		cmocka_unit_test(synced_counts_only_what_is_on_the_disk),
		cmocka_unit_test(a_segment_that_began_on_a_full_disk_says_how_the_one_before_ended),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
