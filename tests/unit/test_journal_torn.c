/* test_journal_torn.c - a death in the middle of a line or of a request is closed and named */
/* wrap: write */
/* wrap: ftruncate */
/* wrap: fdatasync */
#include "journal_faults.h"

#include <fcntl.h>

/* How often `what` stands in the journal. */
static int occurrences(int fd, const char *what)
{
	size_t len;
	char *bytes = read_back(fd, &len), *at = bytes;
	int n = 0;

	for (; (at = strstr(at, what)); at += strlen(what))
		n++;
	free(bytes);
	return n;
}

static void a_line_torn_at_any_byte_is_closed_and_named(void **state)
{
	size_t len, begin;
	char *bytes = cut_off_life(&len);

	(void)state;
	begin = last_line(bytes, len);
	for (size_t cut = begin; cut <= len; cut++) {
		int fd = file_of(bytes, cut);
		struct kh_journal_report report;
		struct kh_journal *journal = opened(fd, &report);
		struct kh_verify_report verdict;
		/* One that lacks only its newline is whole; an empty rest is no line. */
		bool torn = cut > begin && cut < len - 1;
		char named[96];

		assert_int_equal(report.recovered_bytes, torn ? cut - begin : 0);
		assert_int_equal(report.recovered_offset, torn ? begin : 0);
		assert_int_equal(report.aborted, cut >= len - 1);
		write_exchanges(journal, 1);
		kh_journal_close(journal);
		verdict = verified(fd);
		if (!verdict.ok)
			fail_msg("cut at %zu of %zu: %s", cut - begin, len - begin,
				 verdict.problem);
		assert_int_equal(verdict.recovered, torn);
		assert_int_equal(verdict.unclosed, 0);
		snprintf(named, sizeof(named), "\"event\":\"recovered\",\"time\":\"");
		assert_int_equal(occurrences(fd, named), torn);
		/* With the blank that keeps the newline from the end of a page. */
		snprintf(named, sizeof(named), ",\"offset\":%zu,\"bytes\":%zu,", begin,
			 cut - begin + ((cut + 1) % 4096 == 0));
		assert_int_equal(occurrences(fd, named), torn);
		close(fd);
	}
	free(bytes);
}

static void torn_bytes_keep_standing(void **state)
{
	size_t len, now_len, begin;
	char *bytes = cut_off_life(&len), *now;
	int fd = file_of(bytes, len - 40);

	(void)state;
	begin = last_line(bytes, len);
	kh_journal_close(opened(fd, NULL));
	now = read_back(fd, &now_len);
	assert_true(now_len > len);
	assert_memory_equal(now, bytes, len - 40);
	/* And can't be changed any more without a trace. */
	now[begin + 20] ^= 1;
	close(fd);
	fd = file_of(now, now_len);
	assert_false(verified(fd).ok);
	close(fd);
	free(now);
	free(bytes);
}

/* Dies while it closes torn bytes, and again while it closes those. */
static void a_death_while_closing_is_closed_too(void **state)
{
	size_t len, first_len, second_len;
	char *bytes = cut_off_life(&len), *first, *second;
	int fd = file_of(bytes, len - 100);

	(void)state;
	kh_journal_close(opened(fd, NULL));
	first = read_back(fd, &first_len);
	close(fd);
	/* Cut anywhere behind the newline in front of the recovered record, up to its end. */
	for (size_t cut = len - 100 + 2; cut < len + 300; cut += 3) {
		struct kh_verify_report verdict;

		fd = file_of(first, cut);
		kh_journal_close(opened(fd, NULL));
		verdict = verified(fd);
		if (!verdict.ok)
			fail_msg("cut at %zu: %s", cut - len + 100, verdict.problem);
		assert_true(verdict.recovered >= 1);
		second = read_back(fd, &second_len);
		close(fd);
		if (cut + 80 >= second_len) {
			free(second);
			continue;
		}
		fd = file_of(second, cut + 80);
		kh_journal_close(opened(fd, NULL));
		assert_verifies(fd);
		close(fd);
		free(second);
	}
	free(first);
	free(bytes);
}

static void a_newline_is_never_the_last_byte_of_a_page_behind_torn_bytes(void **state)
{
	int fd = new_file(), cut_fd;
	struct kh_journal *journal = opened(fd, NULL);
	size_t len;
	char *bytes;

	(void)state;
	write_exchanges(journal, 10);
	bytes = read_back(fd, &len);
	kh_journal_free(journal);
	close(fd);
	/* The torn bytes end one short of a page; the write stops at its end, and so do we. */
	assert_true(len > 4096);
	assert_int_not_equal(bytes[4094], '\n');
	cut_fd = file_of(bytes, 4095);
	fail_after(cut_fd, 1, true);
	assert_null(kh_journal_open(cut_fd, KH_DURABILITY_WRITTEN, NULL, NULL));
	work_again();
	kh_journal_close(opened(cut_fd, NULL));
	assert_verifies(cut_fd);
	close(cut_fd);
	free(bytes);
}

static void an_open_without_an_end_is_marked_once(void **state)
{
	size_t len;
	char *bytes = cut_off_life(&len);
	int fd = file_of(bytes, len);
	struct kh_journal_report report;
	struct kh_verify_report verdict;

	(void)state;
	kh_journal_close(opened(fd, &report));
	assert_int_equal(report.aborted, 1);
	kh_journal_close(opened(fd, &report));
	assert_int_equal(report.aborted, 0);
	assert_int_equal(occurrences(fd, "\"id\":\"x00000000000000aa\""), 2);
	verdict = verified(fd);
	assert_true(verdict.ok);
	assert_int_equal(verdict.aborted, 1);
	assert_int_equal(verdict.unclosed, 0);
	close(fd);
	free(bytes);
}

static void many_opens_are_told_apart(void **state)
{
	enum { MANY = 5000 };
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_journal_report report;
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];

	(void)state;
	kh_batch_init(&batch);
	for (unsigned i = 0; i < MANY; i++) {
		kh_id_format((uint64_t)(i + 1) * 7919u, id);
		put_open(&batch, id);
	}
	/* Every third one stays open. */
	for (unsigned i = 0; i < MANY; i++) {
		kh_id_format((uint64_t)(i + 1) * 7919u, id);
		if (i % 3)
			put_close(&batch, id);
	}
	committed(journal, &batch);
	kh_batch_fini(&batch);
	kh_journal_free(journal);
	journal = opened(fd, &report);
	assert_int_equal(report.aborted, (MANY + 2) / 3);
	kh_journal_close(journal);
	assert_int_equal(verified(fd).unclosed, 0);
	close(fd);
}

/* Ids of one place, for a hash without a key: their products with its multiplier are small. */
static void ids_that_were_chosen_to_collide_take_no_time(void **state)
{
	enum { MANY = 60000, AT_ONCE = 4000 };
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_journal_report report;
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];
	uint64_t inverse = 1, began;

	(void)state;
	for (int i = 0; i < 6; i++) /* of an odd number, modulo 2^64; bits double in each turn */
		inverse *= 2 - 0x9e3779b97f4a7c15u * inverse;
	kh_batch_init(&batch);
	for (uint64_t i = 1; i <= MANY; i++) {
		kh_id_format(inverse * i, id);
		put_open(&batch, id);
		if (i % AT_ONCE == 0)
			committed(journal, &batch);
	}
	kh_batch_fini(&batch);
	kh_journal_free(journal);
	began = kh_clock_thread_ns(); /* what others take of the processor does not count */
	journal = opened(fd, &report);
	assert_true(kh_clock_thread_ns() - began < UINT64_C(3000) * 1000 * 1000);
	assert_int_equal(report.aborted, MANY);
	assert_int_equal(report.unread, 0);
	kh_journal_close(journal);
	close(fd);
}

/* Nothing is called aborted whose end may be in what was not read. */
static void a_life_that_takes_too_long_to_read_counts_as_not_read(void **state)
{
	const struct kh_recover_bounds no_time = { 30, UINT64_MAX, 0 };
	enum { MANY = 40000, AT_ONCE = 4000 };
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];
	uint64_t aborted, unread;

	(void)state;
	kh_batch_init(&batch);
	for (unsigned i = 1; i <= MANY; i++) {
		kh_exchange_id(id);
		put_open(&batch, id);
		if (i % AT_ONCE == 0)
			committed(journal, &batch);
	}
	kh_batch_fini(&batch);
	assert_true(kh_recover_opens(journal, &no_time, &aborted, &unread, NULL));
	assert_int_equal(aborted, 0);
	assert_int_equal(unread, lseek(fd, 0, SEEK_END));
	assert_int_equal(occurrences(fd, "\"event\":\"aborted\""), 0);
	kh_journal_free(journal);
	close(fd);
}

static void opens_above_the_bound_are_counted(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_err err = KH_ERR_INIT;
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];
	const struct kh_recover_bounds thirty = { 30, UINT64_MAX, 60000 },
				       ten = { 10, UINT64_MAX, 60000 };
	uint64_t aborted, unread;

	(void)state;
	kh_batch_init(&batch);
	for (unsigned i = 0; i < 100; i++) {
		kh_exchange_id(id);
		put_open(&batch, id);
	}
	committed(journal, &batch);
	kh_batch_fini(&batch);
	assert_true(kh_recover_opens(journal, &thirty, &aborted, &unread, &err));
	assert_int_equal(aborted, 100);
	assert_int_equal(occurrences(fd, "\"event\":\"aborted\""), 31);
	assert_int_equal(occurrences(fd, "\"count\":70"), 1);
	/* A count ends none that verification has a name for, and it has more names than this. */
	assert_int_equal(verified(fd).unclosed, 70);
	/* Nothing is left to be marked. */
	assert_true(kh_recover_opens(journal, &thirty, &aborted, &unread, &err));
	assert_int_equal(aborted, 0);
	/* A close ends one of those that have no name, too. */
	kh_batch_init(&batch);
	for (unsigned i = 0; i < 50; i++) {
		kh_id_format(1000 + i, id);
		put_open(&batch, id);
	}
	for (unsigned i = 20; i < 50; i++) {
		kh_id_format(1000 + i, id);
		put_close(&batch, id);
	}
	committed(journal, &batch);
	kh_batch_fini(&batch);
	assert_true(kh_recover_opens(journal, &ten, &aborted, &unread, &err));
	assert_int_equal(aborted, 20);
	assert_int_equal(verified(fd).unclosed, 80);
	kh_journal_close(journal);
	close(fd);
}

/* A life that is longer than may be read: what began before that part is not known. */
static void of_a_long_life_the_end_is_read(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_err err = KH_ERR_INIT;
	struct kh_batch batch;
	uint64_t aborted, unread;
	size_t len;

	(void)state;
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	committed(journal, &batch);
	write_exchanges(journal, 50);
	put_open(&batch, "x00000000000000ab");
	committed(journal, &batch);
	kh_batch_fini(&batch);
	free(read_back(fd, &len));
	const struct kh_recover_bounds few = { 30, 3000, 60000 };
	assert_true(kh_recover_opens(journal, &few, &aborted, &unread, &err));
	assert_int_equal(aborted, 1);
	assert_int_equal(unread, len - 3000);
	assert_int_equal(occurrences(fd, "\"event\":\"aborted\""), 1);
	assert_true(verified(fd).ok);
	kh_journal_close(journal);
	close(fd);
}

/* A worker that was taken over wrote without a newline: that much is not ours, and is not read. */
static void a_tail_that_no_writer_leaves_is_not_continued(void **state)
{
	int fd = new_file();
	struct kh_err err = KH_ERR_INIT;
	off_t end;

	(void)state;
	kh_journal_close(opened(fd, NULL));
	end = lseek(fd, 0, SEEK_END);
	assert_int_equal(ftruncate(fd, end + 3 * (off_t)KH_LIMIT_TORN_BYTES), 0);
	assert_null(kh_journal_open(fd, KH_DURABILITY_WRITTEN, NULL, &err));
	assert_int_equal(err.code, KH_ERR_AUDIT_UNAVAILABLE);
	/* What a death may leave is. */
	assert_int_equal(ftruncate(fd, end), 0);
	assert_int_equal(ftruncate(fd, end + 100), 0);
	kh_journal_close(opened(fd, NULL));
	close(fd);
}

/* A checkpoint holds as long as the line is where it was, and no longer. */
static void a_checkpoint_tells_a_journal_that_was_changed(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_checkpoint at;
	char byte;

	(void)state;
	write_exchanges(journal, 3);
	assert_true(kh_journal_checkpoint(journal, &at));
	assert_true(kh_checkpoint_holds(fd, &at));
	write_exchanges(journal, 3);
	assert_true(kh_checkpoint_holds(fd, &at));
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0); /* or pwrite would append */
	for (off_t back = 1; back <= 67; back += 11) {
		assert_int_equal(pread(fd, &byte, 1, (off_t)at.end - back), 1);
		byte ^= 1;
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at.end - back), 1);
		assert_false(kh_checkpoint_holds(fd, &at));
		byte ^= 1;
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at.end - back), 1);
	}
	assert_int_equal(ftruncate(fd, (off_t)at.end - 1), 0);
	assert_false(kh_checkpoint_holds(fd, &at));
	kh_journal_free(journal);
	close(fd);
}

/* What was said to be in the journal is in it, though the writer is killed at any moment. */
static void a_killed_writer_loses_nothing_it_spoke_of(void **state)
{
	int fd = new_file();

	(void)state;
	for (int life = 0; life < 10; life++) {
		int said[2];
		char id[KH_EXCHANGE_ID_BYTES], *bytes;
		size_t len;
		pid_t pid;

		assert_int_equal(pipe(said), 0);
		pid = fork();
		if (pid == 0) {
			struct kh_journal *journal =
				kh_journal_open(fd, KH_DURABILITY_WRITTEN, NULL, NULL);
			struct kh_batch batch;

			kh_batch_init(&batch);
			while (journal) {
				/* The parent must not learn the same ids life after life. */
				kh_exchange_id(id);
				put_open(&batch, id);
				if (!kh_journal_commit(journal, &batch, NULL) ||
				    write(said[1], id, sizeof(id)) != sizeof(id))
					break;
			}
			_exit(1);
		}
		close(said[1]);
		for (int i = 0; i < 40 + 13 * life; i++)
			assert_int_equal(read(said[0], id, sizeof(id)), sizeof(id));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		bytes = read_back(fd, &len);
		do
			assert_non_null(strstr(bytes, id));
		while (read(said[0], id, sizeof(id)) == sizeof(id));
		free(bytes);
		close(said[0]);
	}
	kh_journal_close(opened(fd, NULL));
	assert_verifies(fd);
	assert_int_equal(verified(fd).unclosed, 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_torn_at_any_byte_is_closed_and_named),
		cmocka_unit_test(torn_bytes_keep_standing),
		cmocka_unit_test(a_death_while_closing_is_closed_too),
		cmocka_unit_test(a_newline_is_never_the_last_byte_of_a_page_behind_torn_bytes),
		cmocka_unit_test(an_open_without_an_end_is_marked_once),
		cmocka_unit_test(many_opens_are_told_apart),
		cmocka_unit_test(ids_that_were_chosen_to_collide_take_no_time),
		cmocka_unit_test(a_life_that_takes_too_long_to_read_counts_as_not_read),
		cmocka_unit_test(opens_above_the_bound_are_counted),
		cmocka_unit_test(of_a_long_life_the_end_is_read),
		cmocka_unit_test(a_tail_that_no_writer_leaves_is_not_continued),
		cmocka_unit_test(a_checkpoint_tells_a_journal_that_was_changed),
		cmocka_unit_test(a_killed_writer_loses_nothing_it_spoke_of),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
