/* test_journal.c - lines that are chained from life to life, and what is no journal */
/* wrap: write */
/* wrap: ftruncate */
/* wrap: fdatasync */
#include "journal_faults.h"

static void each_line_is_chained_to_the_one_before(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);

	(void)state;
	write_exchanges(journal, 20);
	kh_journal_close(journal);
	assert_chain(fd, 42);
	assert_verifies(fd);
	close(fd);
}

static void a_journal_goes_on_from_life_to_life(void **state)
{
	struct kh_journal_report report;
	struct kh_verify_report verdict;
	int fd = new_file();

	(void)state;
	for (int life = 0; life < 5; life++) {
		struct kh_journal *journal = opened(fd, &report);

		assert_int_equal(report.recovered_bytes, 0);
		assert_int_equal(report.aborted, 0);
		assert_int_equal(report.seq, 8 * life + 1);
		write_exchanges(journal, 3);
		kh_journal_close(journal);
	}
	assert_chain(fd, 40);
	verdict = verified(fd);
	assert_true(verdict.ok);
	assert_int_equal(verdict.starts, 5);
	assert_int_equal(verdict.opens, 15);
	assert_int_equal(verdict.closes, 15);
	assert_int_equal(verdict.unclosed, 0);
	close(fd);
}

static void the_head_is_that_of_the_last_line(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_verify_report verdict;
	uint8_t hash[32];
	uint64_t seq;

	(void)state;
	write_exchanges(journal, 2);
	kh_journal_head(journal, &seq, hash);
	verdict = verified(fd);
	assert_int_equal(seq, verdict.last_seq);
	for (size_t i = 0; i < 32; i++) {
		char hex[3];

		snprintf(hex, sizeof(hex), "%02x", hash[i]);
		assert_memory_equal(hex, verdict.head + 2 * i, 2);
	}
	kh_journal_close(journal);
	close(fd);
}

static void only_a_file_is_a_journal(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_null(kh_journal_open(ends[0], KH_DURABILITY_WRITTEN, NULL, &err));
	assert_int_equal(err.code, KH_ERR_CONFIG);
	close(ends[0]);
	close(ends[1]);
}

static void assert_not_continued(const char *bytes, size_t len)
{
	int fd = file_of(bytes, len);
	struct kh_err err = KH_ERR_INIT;
	struct stat st;

	assert_null(kh_journal_open(fd, KH_DURABILITY_WRITTEN, NULL, &err));
	assert_int_equal(err.code, KH_ERR_AUDIT_UNAVAILABLE);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, len);
	close(fd);
}

static void what_is_no_journal_is_not_continued(void **state)
{
	static const char key[] = "-----BEGIN PRIVATE KEY-----", text[] = "hello\nworld\n",
			  log[] = "{\"event\":\"start\"}\n";

	(void)state;
	assert_not_continued(key, sizeof(key) - 1);
	assert_not_continued(text, sizeof(text) - 1);
	assert_not_continued(text, sizeof(text) - 2);
	assert_not_continued(log, sizeof(log) - 1);
	assert_not_continued("\n", 1);
}

static void a_journal_with_a_changed_end_is_not_continued(void **state)
{
	size_t len;
	char *bytes = cut_off_life(&len);

	(void)state;
	for (size_t i = last_line(bytes, len); i < len - 1; i += 7) {
		bytes[i] ^= 1;
		assert_not_continued(bytes, len);
		bytes[i] ^= 1;
	}
	/* Nor where the beginning of another line stands behind it. */
	bytes = realloc(bytes, len + 8);
	memcpy(bytes + len, "{\"event", 8);
	for (size_t i = last_line(bytes, len); i < len - 3; i++) {
		bytes[i] ^= 1;
		assert_not_continued(bytes, len + 7);
		bytes[i] ^= 1;
	}
	free(bytes);
}

enum { THREADS = 8, PER_THREAD = 500 };

static void *write_many(void *journal)
{
	write_exchanges(journal, PER_THREAD);
	return NULL;
}

static void eight_threads_lose_no_line(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_verify_report verdict;
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, journal), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	kh_journal_close(journal);
	assert_chain(fd, 2 + 2 * THREADS * PER_THREAD);
	verdict = verified(fd);
	assert_true(verdict.ok);
	assert_int_equal(verdict.opens, THREADS * PER_THREAD);
	assert_int_equal(verdict.unclosed, 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_is_chained_to_the_one_before),
		cmocka_unit_test(a_journal_goes_on_from_life_to_life),
		cmocka_unit_test(the_head_is_that_of_the_last_line),
		cmocka_unit_test(only_a_file_is_a_journal),
		cmocka_unit_test(what_is_no_journal_is_not_continued),
		cmocka_unit_test(a_journal_with_a_changed_end_is_not_continued),
		cmocka_unit_test(eight_threads_lose_no_line),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
