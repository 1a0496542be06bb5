/* test_segment.c - a journal that goes on in another file: what the second says of the first */
#include "audit_helpers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit_internal.h"

static struct kh_journal_base base_of(struct kh_journal *journal)
{
	struct kh_journal_base base = { 0 };

	kh_journal_head(journal, &base.seq, base.hash);
	return base;
}

static struct kh_journal_files by_one(int fd)
{
	return (struct kh_journal_files){ fd, fd };
}

static struct kh_journal *continued(int fd, const struct kh_journal_base *base)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_journal *journal =
		kh_journal_open_segment(by_one(fd), KH_DURABILITY_WRITTEN, base, NULL, &err);

	if (!journal)
		fail_msg("%s", err.text);
	return journal;
}

static struct kh_verify_report verified_with(int fd, const struct kh_verify_report *next)
{
	struct kh_verify_report report;

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_true(kh_verify_segment(fd, next, &report, NULL));
	return report;
}

static void assert_joined(int first, int second)
{
	struct kh_verify_report next = verified(second);

	assert_true(next.ok);
	assert_true(next.continues > 0);
	assert_true(next.joined.seq > 0);
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
	assert_int_equal(report.joined.seq, 0);
	assert_int_equal(report.last_seq, cut.seq + 1 + 4);
	assert_true(verified_with(first, &report).ok);
	kh_journal_close(old);
	assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
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
	cut.open = true;
	kh_journal_free(continued(second, &cut));
	/* Its worker died, and the keeper gives the same. */
	struct kh_journal *new = continued(second, &cut);
	report = verified(second);
	assert_true(report.ok);
	assert_int_equal(report.starts, 2);
	assert_int_equal(report.continues, cut.seq);
	kh_journal_close(old);
	assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
	kh_journal_close(new);
	kh_journal_close(opened(second, NULL)); /* and this is a later daemon's */
	report = verified(second);
	assert_true(report.ok);
	assert_int_equal(report.starts, 3);
	close(first);
	close(second);
}

static void assert_verified(int fd, uint64_t last_seq)
{
	struct kh_verify_report report = verified(fd);

	if (!report.ok)
		fail_msg("line %llu: %s", (unsigned long long)report.bad_line, report.problem);
	assert_int_equal(report.continues, 7);
	assert_int_equal(report.last_seq, last_seq);
}

static void a_first_line_that_was_torn_is_begun_again(void **state)
{
	struct kh_journal_base cut = { .seq = 7, .hash = { 1, 2, 3 }, .open = true };
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
		assert_verified(fd, seq);
		/* Also when it ends, and begins once more. */
		kh_journal_close(continued(fd, &cut));
		assert_verified(fd, seq + 2);
		close(fd);
	}
	free(bytes);
	close(whole);
}

/* It says which bytes were torn: of others it makes no beginning. */
static void what_explains_other_bytes_begins_no_segment(void **state)
{
	static const char torn[] = "{\"event\":\"start\",\"time\":\"2026";
	struct kh_journal_base cut = { .seq = 7, .hash = { 1, 2, 3 } };
	int fd = file_of(torn, sizeof(torn) - 1);
	size_t len;
	char *bytes;

	(void)state;
	kh_journal_free(continued(fd, &cut));
	bytes = read_back(fd, &len);
	for (size_t i = 0; i < sizeof(torn); i++) {
		int shorter = file_of(bytes + i + 1, len - i - 1);
		assert_false(verified(shorter).ok);
		assert_int_equal(verified(shorter).continues, 0);
		close(shorter);
	}
	bytes[3] ^= 1;
	int other = file_of(bytes, len);
	assert_false(verified(other).ok);
	assert_int_equal(verified(other).continues, 0);
	close(other);
	free(bytes);
	close(fd);
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
		assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
		/* Once more, as after a death between the record and its being told. */
		assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
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
	assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
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

/* The worker that was to write it was taken over, and said that it had. */
static void a_joined_record_that_is_due_and_missing_is_found(void **state)
{
	int first = new_file(), second = new_file(), third = new_file();
	struct kh_journal *old = opened(first, NULL), *new;
	struct kh_journal_base cut = base_of(old), end;
	struct kh_verify_report report, next;

	(void)state;
	new = continued(second, &cut);
	kh_journal_close(old);
	assert_true(verified(second).ok); /* it may still be written */
	end = base_of(new);
	kh_journal_free(new);
	/* The segment was continued. */
	new = continued(third, &end);
	assert_true(kh_journal_join(new, by_one(second), &end, NULL));
	kh_journal_close(new);
	next = verified(third);
	assert_true(next.ok);
	report = verified_with(second, &next);
	assert_false(report.ok);
	assert_non_null(strstr(report.problem, "nothing protects the end of the segment before"));
	/* Another worker serves; one that was taken over gains nothing by a start of its own. */
	new = continued(second, &cut);
	kh_journal_free(new);
	cut.open = true;
	kh_journal_free(continued(second, &cut));
	report = verified(second);
	assert_false(report.ok);
	assert_non_null(strstr(report.problem, "no `joined` record"));
	assert_int_equal(report.bad_line, report.joined_due_line);
	/* As the next worker does. */
	new = opened(second, NULL);
	assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
	assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
	kh_journal_close(new);
	assert_joined(first, second);
	close(first);
	close(second);
	close(third);
}

/* The second segment became too long while the first still had a writer: the third says how the
 * first one ended. */
static void the_end_of_a_segment_may_be_said_in_a_later_one(void **state)
{
	(void)state;
	for (int lies = 0; lies < 3; lies++) {
		int first = new_file(), second = new_file(), third = new_file();
		struct kh_journal *old = opened(first, NULL), *new;
		struct kh_journal_base cut = base_of(old), end;
		struct kh_verify_report last, middle;

		cut.open = true;
		new = continued(second, &cut);
		write_exchanges(new, 2);
		/* A worker that was taken over names another end. */
		if (lies == 1) {
			struct kh_batch batch;
			kh_batch_init(&batch);
			assert_true(kh_join_record(&batch, cut.seq, cut.seq, new->head));
			committed(new, &batch);
			kh_batch_fini(&batch);
		}
		end = base_of(new);
		end.ended = end.open = true;
		kh_journal_free(new);
		new = continued(third, &end);
		last = verified(third);
		assert_true(last.ok && last.unjoined);
		assert_true(verified_with(second, &last).ok); /* it may still be written */
		kh_journal_close(old);
		/* Or one says that it did, and has not. */
		if (lies != 2)
			assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
		kh_journal_free(new);
		end.open = false;
		kh_journal_close(continued(third, &end));
		last = verified(third);
		assert_true(last.ok);
		middle = verified_with(second, &last);
		assert_int_equal(middle.ok, lies == 0);
		if (lies == 0) {
			assert_true(verified_with(first, &middle).ok);
			assert_int_equal(ftruncate(first, lseek(first, 0, SEEK_END) - 1), 0);
			assert_false(verified_with(first, &middle).ok);
		}
		close(first);
		close(second);
		close(third);
	}
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
	assert_false(kh_journal_join(new, by_one(first), &cut, NULL));
	kh_journal_close(new);
	assert_int_equal(verified(second).joined.seq, 0);
	close(first);
	close(second);
}

static struct kh_line last_line(int fd, char **bytes)
{
	struct kh_line line;
	size_t len;

	*bytes = read_back(fd, &len);
	assert_true(len > 0 && (*bytes)[len - 1] == '\n');
	(*bytes)[--len] = '\0';
	char *newline = memrchr(*bytes, '\n', len);
	char *begin = newline ? newline + 1 : *bytes;
	assert_true(kh_line_parse(&line, kh_slice_of(begin, (size_t)(*bytes + len - begin))));
	return line;
}

/* A sound line behind the last one, of any number. */
static void append_line(int fd, uint64_t seq)
{
	struct kh_digest digest;
	char *bytes, text[512], hex[KH_HASH_HEX + 1];
	struct kh_line last = last_line(fd, &bytes);

	int n = snprintf(text, sizeof(text),
			 "{\"event\":\"stop\",\"time\":\"2026-01-01T00:00:00.000Z\",\"seq\":%llu,"
			 "\"prev\":\"%.64s\"",
			 (unsigned long long)seq, last.hash.ptr);
	assert_true(kh_digest_init(&digest, NULL) && kh_digest_begin(&digest) &&
		    kh_digest_add(&digest, kh_slice_of(text, (size_t)n)) &&
		    kh_digest_end(&digest, hex));
	assert_true(dprintf(fd, "%s,\"hash\":\"%s\"}\n", text, hex) > 0);
	kh_digest_fini(&digest);
	free(bytes);
}

/* With and without what the keeper knows of the file's beginning. */
static void a_last_line_of_a_number_that_can_not_be_is_not_continued(void **state)
{
	static const uint64_t numbers[] = { 1,
					    12000000,
					    (uint64_t)1 << 62,
					    INT64_MAX - 1,
					    INT64_MAX,
					    (uint64_t)INT64_MAX + 1,
					    UINT64_MAX - 1,
					    UINT64_MAX };
	const struct kh_journal_base far = { .seq = 10000000, .hash = { 1 } };

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(numbers) / sizeof(numbers[0]); i++) {
		int fd = new_file();
		struct kh_journal_report report = { 0 };
		struct kh_err err = KH_ERR_INIT;
		struct kh_journal *journal = continued(fd, &far);
		off_t end;

		write_exchanges(journal, 5);
		kh_journal_close(journal);
		/* As it was left it goes on, whether its base is known or not. */
		kh_journal_close(opened(fd, NULL));
		kh_journal_close(continued(fd, &far));
		end = lseek(fd, 0, SEEK_END);
		append_line(fd, numbers[i / 2]);
		assert_null(kh_journal_open_segment(by_one(fd), KH_DURABILITY_WRITTEN,
						    i % 2 ? &far : NULL, &report, &err));
		assert_int_equal(err.code, KH_ERR_AUDIT_UNAVAILABLE);
		assert_true(report.spoiled);
		assert_int_equal(ftruncate(fd, end), 0);
		kh_journal_close(opened(fd, NULL));
		close(fd);
	}
}

/* Of this process, in all. */
static uint64_t bytes_read(void)
{
	char text[64] = "";
	FILE *file = fopen("/proc/self/io", "re");

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	(void)fclose(file);
	assert_memory_equal(text, "rchar: ", 7);
	return strtoull(text + 7, NULL, 10);
}

/* A worker of the version before that was taken over can't hold up the worker that joins. */
static void a_segment_of_many_starts_before_a_break_is_read_a_few_times(void **state)
{
	enum { STARTS = 1000, MOST_TIMES = 30 };
	int first = new_file(), second = new_file();
	struct kh_journal *old = opened(first, NULL), *new;
	struct kh_journal_base cut = base_of(old);
	uint64_t before, size;

	(void)state;
	kh_journal_free(old);
	for (int i = 0; i < STARTS; i++)
		kh_journal_free(opened(first, NULL));
	/* A line that continues nothing, and what makes recovery look for open exchanges. */
	append_line(first, STARTS);
	assert_true(dprintf(first, "{\"event\":\"open\"") > 0);
	new = continued(second, &cut);
	size = (uint64_t)lseek(first, 0, SEEK_END);
	before = bytes_read();
	assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
	assert_true(bytes_read() - before < MOST_TIMES * size);
	kh_journal_free(new);
	close(first);
	close(second);
}

/* What a worker that was taken over may leave after it handed over; the last line may be sound. */
static void break_chain(int fd, int how, const char *cut_line, uint64_t seq)
{
	if (how == 0)
		assert_true(dprintf(fd, "no record\n") > 0);
	if (how == 1)
		assert_true(dprintf(fd, "%s\n", cut_line) > 0);
	if (how == 2)
		append_line(fd, seq + 7);
	if (how == 3) {
		append_line(fd, seq + 7);
		append_line(fd, seq + 8);
	}
	/* The copy, and what continues it. */
	if (how == 4) {
		struct kh_line line;

		assert_true(dprintf(fd, "%s\n", cut_line) > 0);
		assert_true(kh_line_parse(&line, kh_slice_str(cut_line)));
		append_line(fd, line.seq + 1);
	}
}

static void no_join_is_written_behind_a_break(void **state)
{
	(void)state;
	for (int how = 0; how < 5; how++) {
		int first = new_file(), second = new_file();
		struct kh_journal *old = opened(first, NULL), *new;
		struct kh_journal_base cut, end;
		struct kh_verify_report next;
		char *bytes;

		write_exchanges(old, 3);
		cut = base_of(old);
		struct kh_line line = last_line(first, &bytes);
		char *cut_line = strndup(line.hashed.ptr, KH_LINE_BYTES);
		assert_non_null(cut_line);
		new = continued(second, &cut);
		write_exchanges(old, 2);
		end = base_of(old);
		kh_journal_free(old);
		off_t held = lseek(first, 0, SEEK_END);
		break_chain(first, how, cut_line, end.seq);
		off_t size = lseek(first, 0, SEEK_END);
		assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
		assert_true(kh_journal_join(new, by_one(first), &cut, NULL));
		kh_journal_close(new);
		/* Nobody wrote behind it, and what is before it is protected. */
		assert_int_equal(lseek(first, 0, SEEK_END), size);
		next = verified(second);
		assert_true(next.ok);
		assert_int_equal(next.joined.seq, end.seq);
		assert_int_equal(next.joined.left, size - held);
		assert_false(verified_with(first, &next).ok);
		/* Taken away, it is not forgotten. */
		assert_int_equal(ftruncate(first, held), 0);
		assert_true(verified(first).ok);
		assert_false(verified_with(first, &next).ok);
		assert_non_null(strstr(verified_with(first, &next).problem, "are gone"));
		free(cut_line);
		free(bytes);
		close(first);
		close(second);
	}
}

static void a_file_begins_with_no_number_near_the_last(void **state)
{
	const struct kh_journal_base most = { .seq = KH_JOURNAL_BASE_MOST },
				     none = { .seq = UINT64_MAX - 100 };
	struct kh_journal_base first;
	struct kh_journal_report report = { 0 };
	int fd = new_file(), far = new_file();

	(void)state;
	kh_journal_close(continued(fd, &most));
	assert_false(kh_journal_first_line(fd, &first));
	kh_journal_close(continued(far, &none));
	assert_false(kh_journal_first_line(far, &first));
	assert_int_equal(first.seq, 0);
	assert_null(
		kh_journal_open_segment(by_one(far), KH_DURABILITY_WRITTEN, NULL, &report, NULL));
	assert_true(report.spoiled);
	close(fd);
	close(far);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_goes_on_from_the_line_that_it_names),
		cmocka_unit_test(a_second_life_of_a_segment_is_no_beginning),
		cmocka_unit_test(a_first_line_that_was_torn_is_begun_again),
		cmocka_unit_test(what_explains_other_bytes_begins_no_segment),
		cmocka_unit_test(a_journal_without_its_beginning_is_no_segment),
		cmocka_unit_test(what_a_dead_writer_left_is_closed_before_it_is_joined),
		cmocka_unit_test(every_line_that_is_cut_off_is_missed),
		cmocka_unit_test(a_joined_record_that_is_due_and_missing_is_found),
		cmocka_unit_test(the_end_of_a_segment_may_be_said_in_a_later_one),
		cmocka_unit_test(another_journal_is_not_the_one_before),
		cmocka_unit_test(a_last_line_of_a_number_that_can_not_be_is_not_continued),
		cmocka_unit_test(a_segment_of_many_starts_before_a_break_is_read_a_few_times),
		cmocka_unit_test(no_join_is_written_behind_a_break),
		cmocka_unit_test(a_file_begins_with_no_number_near_the_last),
		cmocka_unit_test(a_segment_that_ends_before_its_cut_is_not_joined),
	};

	return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
