/* test_verify_parts.c - what `audit verify` says of a journal behind a break, and of its ids */
#include <string.h>

#include <audit/audit_internal.h>

#include "audit_helpers.h"

/* A break behind the second line, and honest lives behind it. */
static int broken_journal(void)
{
	static const char junk[] = "{\"event\":\"open\",\"no\":\"record\"}\n";
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct stat st;

	write_exchanges(journal, 1);
	assert_int_equal(write(fd, junk, sizeof(junk) - 1), sizeof(junk) - 1);
	assert_int_equal(fstat(fd, &st), 0);
	journal->end = (uint64_t)st.st_size;
	write_exchanges(journal, 2);
	kh_journal_close(journal);
	kh_journal_close(opened(fd, NULL));
	return fd;
}

static const struct kh_verify_part *last_part(const struct kh_verify_report *report)
{
	assert_true(report->n_parts > 0 && report->n_parts <= KH_LIMIT_VERIFY_PARTS);
	return &report->parts[report->n_parts - 1];
}

static void what_stands_behind_a_break_has_a_head_too(void **state)
{
	int fd = broken_journal(), changed;
	struct kh_verify_report report = verified(fd), other;
	const struct kh_verify_part *part = last_part(&report);
	size_t len;
	char *bytes = read_back(fd, &len);

	(void)state;
	/* start open close, junk, open close open close stop, start stop: one chain. */
	assert_false(report.ok);
	assert_int_equal(report.bad_line, 4);
	assert_int_equal(report.last_seq, 3);
	assert_int_equal(report.n_parts, 1);
	assert_int_equal(part->lines, 10);
	assert_int_equal(part->first_line, 1);
	assert_int_equal(part->last_line, 11);
	assert_int_equal(part->last_seq, 10);
	assert_non_null(strstr(bytes + len - 80, part->head));
	close(fd);
	/* A line of the later life is changed, or taken out: not the same parts any more. */
	char *line = (char *)memmem(bytes + len / 2, len / 2, "\"status_code\":200", 17);
	if (!line)
		line = (char *)memmem(bytes + len / 2, len / 2, "\"event\":\"", 9);
	assert_non_null(line);
	line[10] ^= 1;
	changed = file_of(bytes, len);
	other = verified(changed);
	assert_false(other.ok);
	assert_true(other.n_parts != report.n_parts ||
		    strcmp(last_part(&other)->head, part->head) != 0 ||
		    last_part(&other)->lines != part->lines);
	close(changed);
	free(bytes);
}

static void parts_that_do_not_hang_together_are_told_apart(void **state)
{
	int fd = new_file(), other = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	size_t len;

	(void)state;
	write_exchanges(journal, 1);
	kh_journal_close(journal);
	journal = opened(other, NULL);
	write_exchanges(journal, 2);
	kh_journal_close(journal);
	char *bytes = read_back(other, &len);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	struct kh_verify_report report = verified(fd);
	assert_false(report.ok);
	assert_int_equal(report.n_parts, 2);
	assert_int_equal(report.parts[0].lines, 4);
	assert_int_equal(report.parts[1].first_line, 5);
	assert_int_equal(report.parts[1].last_seq, 6);
	assert_non_null(strstr(bytes + len - 80, report.parts[1].head));
	/* As many as anybody likes: the last one is always there. */
	for (int i = 0; i < 2 * KH_LIMIT_VERIFY_PARTS; i++)
		assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	report = verified(fd);
	assert_int_equal(report.n_parts, 2 + 2 * KH_LIMIT_VERIFY_PARTS);
	assert_int_equal(report.parts[KH_LIMIT_VERIFY_PARTS - 1].last_line, report.lines);
	free(bytes);
	close(fd);
	close(other);
}

static void an_id_that_is_opened_twice_is_found(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_batch batch;

	(void)state;
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	put_close(&batch, "x00000000000000aa");
	put_open(&batch, "x00000000000000ab");
	committed(journal, &batch);
	assert_verifies(fd);
	put_open(&batch, "x00000000000000ab");
	put_close(&batch, "x00000000000000ab");
	committed(journal, &batch);
	kh_batch_fini(&batch);
	kh_journal_close(journal);
	struct kh_verify_report report = verified(fd);
	assert_false(report.ok);
	assert_int_equal(report.reopened, 1);
	assert_int_equal(report.bad_line, 5);
	assert_non_null(strstr(report.problem, "open already"));
	assert_int_equal(report.last_seq, 7); /* the chain goes on */
	close(fd);
}

/* A death leaves it open; the next life says so, and may open it again. */
static void recoveries_open_no_id_twice(void **state)
{
	int fd = new_file();

	(void)state;
	for (int life = 0; life < 3; life++) {
		struct kh_journal *journal = opened(fd, NULL);
		struct kh_batch batch;
		kh_batch_init(&batch);
		put_open(&batch, "x00000000000000aa");
		committed(journal, &batch);
		kh_batch_fini(&batch);
		kh_journal_free(journal);
	}
	assert_verifies(fd);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_stands_behind_a_break_has_a_head_too),
		cmocka_unit_test(parts_that_do_not_hang_together_are_told_apart),
		cmocka_unit_test(an_id_that_is_opened_twice_is_found),
		cmocka_unit_test(recoveries_open_no_id_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
