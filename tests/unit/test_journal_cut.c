/* test_journal_cut.c - what a full disk has left is cut off, and nothing else; what a start
 * continues */
/* wrap: write */
/* wrap: ftruncate */
/* wrap: fdatasync */
#include "journal_faults.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

/* As the keeper has it. */
static int open_for_cutting(int fd)
{
	char path[48];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int other = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
	assert_true(other >= 0);
	return other;
}

static bool verifies(int fd)
{
	struct kh_verify_report report;
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_true(kh_journal_verify(fd, &report, NULL));
	return report.ok;
}

/* Return: there was something to be cut off. */
static bool fill_up(size_t fit)
{
	int fd = new_file(), other = open_for_cutting(fd), event = eventfd(0, EFD_NONBLOCK);
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_checkpoint told, last;
	struct kh_batch batch;
	uint64_t cut, end, seq;
	uint8_t head[32];
	enum kh_journal_followed how;

	kh_journal_wake(journal, event);
	write_exchanges(journal, 1);
	assert_true(kh_journal_checkpoint(journal, &told));
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	put_open(&batch, "x00000000000000ab");
	fail_after(fd, fit, true);
	assert_false(kh_journal_commit(journal, &batch, NULL));
	bool torn = kh_journal_ask_cut(journal);
	if (torn) {
		assert_false(verifies(other));
		assert_false(kh_journal_ask_cut(journal));
		/* Nothing is written while another process may cut. */
		work_again();
		assert_false(kh_journal_commit(journal, &batch, NULL));
		assert_true(kh_journal_cut_torn(other, told.end, &cut, &end, NULL));
		assert_true(cut > 0 && end >= told.end);
		kh_journal_was_cut(journal, end);
		assert_true(verifies(other));
	}
	work_again();
	if (batch.count > 0)
		committed(journal, &batch);
	assert_true(kh_journal_is_continued(
		other, NULL, &(struct kh_journal_past){ .followed = true, .told = told }, &how,
		&last, NULL));
	kh_journal_head(journal, &seq, head);
	assert_int_equal(seq, told.seq + 2); /* and no `recovered` record */
	assert_chain(fd, seq);
	kh_batch_fini(&batch);
	kh_journal_close(journal);
	close(event);
	close(other);
	close(fd);
	return torn;
}

static void a_part_of_a_record_is_cut_off_and_the_journal_is_whole_again(void **state)
{
	(void)state;
	unsigned torn = 0;
	for (size_t fit = 1; fit < 700; fit += 7)
		torn += fill_up(fit);
	assert_true(torn > 50);
}

static void expect_uncut(const char *tail, uint64_t least_behind)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_checkpoint told;
	struct stat before, after;
	uint64_t cut, end;

	write_exchanges(journal, 1);
	assert_true(kh_journal_checkpoint(journal, &told));
	kh_journal_free(journal);
	int other = open_for_cutting(fd);
	assert_int_equal(write(other, tail, strlen(tail)), strlen(tail));
	assert_int_equal(fstat(fd, &before), 0);
	assert_true(kh_journal_cut_torn(other, told.end + least_behind, &cut, &end, NULL));
	assert_int_equal(fstat(fd, &after), 0);
	assert_int_equal(cut, 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(end, after.st_size);
	close(other);
	close(fd);
}

#define HASH64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void nothing_is_cut_that_may_be_a_record_or_is_none_of_ours(void **state)
{
	(void)state;
	expect_uncut("", 0);
	expect_uncut("{\"event\":\"stop\",\"time\":\"2026-01-02T03:04:05.678Z\",\"seq\":9,\"prev\":"
		     "\"" HASH64 "\",\"hash\":\"" HASH64 "\"}",
		     0);
	expect_uncut("something else", 0);
	expect_uncut("{\"event\":\"open\",\"ti", 1); /* in front of what was told */
	static char longest[KH_LINE_BYTES + 100];
	memset(longest, 'x', sizeof(longest) - 1);
	memcpy(longest, "{\"event\":\"", 10);
	expect_uncut(longest, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_of_a_record_is_cut_off_and_the_journal_is_whole_again),
		cmocka_unit_test(nothing_is_cut_that_may_be_a_record_or_is_none_of_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
