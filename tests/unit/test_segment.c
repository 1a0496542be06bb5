/* test_segment.c - a journal that goes on in another file: what the second says of the first */
#include "audit_helpers.h"

#include <string.h>

#include "audit/audit_internal.h"

static struct kh_journal_base base_of(struct kh_journal *journal)
{
	struct kh_journal_base base;

	kh_journal_head(journal, &base.seq, base.hash);
	return base;
}

static struct kh_journal *continued(int fd, const struct kh_journal_base *base)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_journal *journal =
		kh_journal_open_segment(fd, KH_DURABILITY_WRITTEN, base, NULL, &err);

	if (!journal)
		fail_msg("%s", err.text);
	return journal;
}

static struct kh_verify_report verified_with(int fd, const struct kh_verify_report *next)
{
	struct kh_verify_report report;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_true(kh_segment_verify(fd, next, &report, NULL));
	return report;
}

static void assert_joined(int first, int second)
{
	struct kh_verify_report next = verified(second);

	assert_true(next.ok);
	assert_true(next.continues > 0);
	assert_true(next.joined_seq > 0);
	if (!verified_with(first, &next).ok)
		fail_msg("%s", verified_with(first, &next).problem);
}

static void a_segment_goes_on_from_the_line_that_it_names(void **state)
{
	int first = new_file(), second = new_file();
	struct kh_journal *old = opened(first, NULL), *new;
	struct kh_journal_base cut;
	struct kh_verify_report report;

	(void)state;
	write_exchanges(old, 3);
	cut = base_of(old);
	new = continued(second, &cut);
	write_exchanges(old, 2); /* it still finishes */
	write_exchanges(new, 2);
	report = verified(second);
	assert_true(report.ok);
	assert_int_equal(report.continues, cut.seq);
	assert_int_equal(report.joined_seq, 0);
	assert_int_equal(report.last_seq, cut.seq + 1 + 4);
	assert_true(verified_with(first, &report).ok);
	kh_journal_close(old);
	assert_true(kh_journal_join(new, first, cut.seq, NULL));
	kh_journal_close(new);
	assert_joined(first, second);
	close(first);
	close(second);
}

static void a_second_life_of_a_segment_is_no_beginning(void **state)
{
	int first = new_file(), second = new_file();
	struct kh_journal *old = opened(first, NULL);
	struct kh_journal_base cut = base_of(old);
	struct kh_verify_report report;

	(void)state;
	kh_journal_free(continued(second, &cut));
	kh_journal_free(
		continued(second, &cut));	/* its worker died, and the keeper gives the same */
	kh_journal_close(opened(second, NULL)); /* and this is a later daemon's */
	report = verified(second);
	assert_true(report.ok);
	assert_int_equal(report.starts, 3);
	assert_int_equal(report.continues, cut.seq);
	kh_journal_close(old);
	close(first);
	close(second);
}

static void a_first_line_that_was_torn_is_begun_again(void **state)
{
	struct kh_journal_base cut = { .seq = 7, .hash = { 1, 2, 3 } };
	int whole = new_file();
	size_t len;
	char *bytes;

	(void)state;
	kh_journal_free(continued(whole, &cut));
	bytes = read_back(whole, &len);
	for (size_t kept = 1; kept < len; kept += 7) {
		int fd = file_of(bytes, kept);
		struct kh_journal *journal = continued(fd, &cut);
		uint64_t seq;
		uint8_t hash[32];

		kh_journal_head(journal, &seq, hash);
		assert_true(seq == 9 || seq == 10);
		kh_journal_free(journal);
		close(fd);
	}
	free(bytes);
	close(whole);
}

/* The beginning of a journal taken away up to a start record is no segment. */
static void a_journal_without_its_beginning_is_no_segment(void **state)
{
	int fd = new_file(), cut;
	size_t len;
	char *bytes, *second;

	(void)state;
	kh_journal_close(opened(fd, NULL));
	kh_journal_close(opened(fd, NULL));
	bytes = read_back(fd, &len);
	second = strstr(bytes + 1, "{\"event\":\"start\"");
	assert_non_null(second);
	cut = file_of(second, len - (size_t)(second - bytes));
	assert_false(verified(cut).ok);
	assert_int_equal(verified(cut).continues, 0);
	free(bytes);
	close(cut);
	close(fd);
}

static void what_a_dead_writer_left_is_closed_before_it_is_joined(void **state)
{
	(void)state;
	for (size_t torn = 0; torn < 300; torn += 13) {
		int first = new_file(), second = new_file();
		struct kh_journal *old = opened(first, NULL), *new;
		struct kh_journal_base cut = base_of(old);
		struct kh_batch batch;
		struct kh_verify_report report;
		off_t end;

		kh_batch_init(&batch);
		put_open(&batch, "x00000000000000a1");
		committed(old, &batch);
		end = lseek(first, 0, SEEK_END);
		put_open(&batch, "x00000000000000a2");
		committed(old, &batch);
		if (torn > 0)
			assert_int_equal(ftruncate(first, end + (off_t)torn), 0);
		kh_journal_free(old);
		new = continued(second, &cut);
		assert_true(kh_journal_join(new, first, cut.seq, NULL));
		/* Once more, as after a death between the record and its being told. */
		assert_true(kh_journal_join(new, first, cut.seq, NULL));
		kh_journal_close(new);
		assert_joined(first, second);
		report = verified(first);
		assert_int_equal(report.unclosed, 0);
		assert_int_equal(report.aborted, torn > 0 ? 1 : 2);
		assert_int_equal(report.recovered, torn > 0 ? 1 : 0);
		kh_batch_fini(&batch);
		close(first);
		close(second);
	}
}

static void every_line_that_is_cut_off_is_missed(void **state)
{
	int first = new_file(), second = new_file();
	struct kh_journal *old = opened(first, NULL), *new;
	struct kh_journal_base cut;
	struct kh_verify_report next;
	size_t len;
	char *bytes;

	(void)state;
	write_exchanges(old, 2);
	cut = base_of(old);
	new = continued(second, &cut);
	write_exchanges(old, 2);
	kh_journal_close(old);
	assert_true(kh_journal_join(new, first, cut.seq, NULL));
	kh_journal_close(new);
	next = verified(second);
	bytes = read_back(first, &len);
	for (size_t kept = 1; kept < len; kept++) {
		int fd;

		if (bytes[kept - 1] != '\n')
			continue;
		fd = file_of(bytes, kept);
		assert_true(verified(fd).ok); /* a chain alone does not show it */
		assert_false(verified_with(fd, &next).ok);
		close(fd);
	}
	free(bytes);
	close(first);
	close(second);
}

static void another_journal_is_not_the_one_before(void **state)
{
	int first = new_file(), second = new_file(), other = new_file();
	struct kh_journal *old = opened(first, NULL), *foreign = opened(other, NULL), *new;
	struct kh_journal_base cut;
	struct kh_verify_report next;

	(void)state;
	write_exchanges(old, 2);
	write_exchanges(foreign, 9);
	cut = base_of(old);
	new = continued(second, &cut);
	kh_journal_close(old);
	kh_journal_close(foreign);
	kh_journal_close(new);
	next = verified(second);
	assert_true(verified_with(first, &next).ok);
	assert_false(verified_with(other, &next).ok);
	close(first);
	close(second);
	close(other);
}

static void a_segment_that_ends_before_its_cut_is_not_joined(void **state)
{
	int first = new_file(), second = new_file();
	struct kh_journal *new;
	struct kh_journal_base cut = { .seq = 40 };

	(void)state;
	kh_journal_close(opened(first, NULL));
	new = continued(second, &cut);
	assert_false(kh_journal_join(new, first, cut.seq, NULL));
	kh_journal_close(new);
	assert_int_equal(verified(second).joined_seq, 0);
	close(first);
	close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_goes_on_from_the_line_that_it_names),
		cmocka_unit_test(a_second_life_of_a_segment_is_no_beginning),
		cmocka_unit_test(a_first_line_that_was_torn_is_begun_again),
		cmocka_unit_test(a_journal_without_its_beginning_is_no_segment),
		cmocka_unit_test(what_a_dead_writer_left_is_closed_before_it_is_joined),
		cmocka_unit_test(every_line_that_is_cut_off_is_missed),
		cmocka_unit_test(another_journal_is_not_the_one_before),
		cmocka_unit_test(a_segment_that_ends_before_its_cut_is_not_joined),
	};

	return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
