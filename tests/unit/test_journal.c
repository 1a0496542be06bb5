/* test_journal.c - what was written stays, in order, and a life goes on where the last one ended */
#include "audit_helpers.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <openssl/sha.h>

#include "audit/audit_internal.h"

/* wrap: write */
/* wrap: ftruncate */
/* wrap: fdatasync */

/* A disk that fills up and a file that can't be cut back, on demand. */
static int failing_fd = -1;
static size_t room = SIZE_MAX;
static bool no_truncate;
static int syncs, failing_syncs;

ssize_t __real_write(int fd, const void *bytes, size_t len);
int __real_ftruncate(int fd, off_t len);

ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
	if (fd == failing_fd && len > room) {
		if (room == 0) {
			errno = ENOSPC;
			return -1;
		}
		len = room;
	}
	if (fd == failing_fd && room != SIZE_MAX)
		room -= len;
	return __real_write(fd, bytes, len);
}

int __wrap_ftruncate(int fd, off_t len)
{
	if (fd == failing_fd && no_truncate) {
		errno = EPERM;
		return -1;
	}
	return __real_ftruncate(fd, len);
}

int __wrap_fdatasync(int fd)
{
	(void)fd;
	syncs++;
	if (failing_syncs > 0) {
		failing_syncs--;
		errno = EIO;
		return -1;
	}
	return 0;
}

static void fail_after(int fd, size_t bytes, bool truncate_fails)
{
	failing_fd = fd;
	room = bytes;
	no_truncate = truncate_fails;
}

static void work_again(void)
{
	failing_fd = -1;
	room = SIZE_MAX;
	no_truncate = false;
}

/* The chain, computed here anew by other means than the product's. */
static void assert_chain(int fd, uint64_t lines)
{
	size_t len;
	char *bytes = read_back(fd, &len), *at = bytes, *newline;
	char prev[65];
	uint64_t seq = 0;

	memset(prev, '0', 64);
	prev[64] = '\0';
	for (; (newline = strchr(at, '\n')); at = newline + 1) {
		unsigned char hash[32];
		char hex[65], want[256];
		char *mark;

		*newline = '\0';
		mark = strstr(at, ",\"hash\":\"");
		assert_non_null(mark);
		SHA256((unsigned char *)at, (size_t)(mark - at), hash);
		for (size_t i = 0; i < 32; i++)
			snprintf(hex + 2 * i, 3, "%02x", hash[i]);
		seq++;
		snprintf(want, sizeof(want), ",\"seq\":%llu,\"prev\":\"%s\",\"hash\":\"%s\"}",
			 (unsigned long long)seq, prev, hex);
		assert_string_equal(strstr(at, ",\"seq\":"), want);
		memcpy(prev, hex, 65);
	}
	assert_int_equal(*at, '\0');
	assert_int_equal(seq, lines);
	free(bytes);
}

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

/* A life that was cut off: start, two exchanges, an open. */
static char *cut_off_life(size_t *len)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_batch batch;
	char *bytes;

	write_exchanges(journal, 2);
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	committed(journal, &batch);
	kh_batch_fini(&batch);
	bytes = read_back(fd, len);
	kh_journal_free(journal);
	close(fd);
	return bytes;
}

static size_t last_line(const char *bytes, size_t len)
{
	size_t at = len - 1;

	while (at > 0 && bytes[at - 1] != '\n')
		at--;
	return at;
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
		kh_id_format((uint64_t)i * 7919u, id);
		put_open(&batch, id);
	}
	/* Every third one stays open. */
	for (unsigned i = 0; i < MANY; i++) {
		kh_id_format((uint64_t)i * 7919u, id);
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

static void opens_above_the_bound_are_counted(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_err err = KH_ERR_INIT;
	struct kh_batch batch;
	char id[KH_EXCHANGE_ID_BYTES];
	uint64_t aborted;

	(void)state;
	kh_batch_init(&batch);
	for (unsigned i = 0; i < 100; i++) {
		kh_exchange_id(id);
		put_open(&batch, id);
	}
	committed(journal, &batch);
	kh_batch_fini(&batch);
	assert_true(kh_recover_opens(journal, 30, &aborted, &err));
	assert_int_equal(aborted, 100);
	assert_int_equal(occurrences(fd, "\"event\":\"aborted\""), 31);
	assert_int_equal(occurrences(fd, "\"count\":70"), 1);
	assert_int_equal(verified(fd).unclosed, 0);
	/* Nothing is left to be marked. */
	assert_true(kh_recover_opens(journal, 30, &aborted, &err));
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
	assert_true(kh_recover_opens(journal, 10, &aborted, &err));
	assert_int_equal(aborted, 20);
	assert_int_equal(verified(fd).unclosed, 0);
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
		cmocka_unit_test(each_line_is_chained_to_the_one_before),
		cmocka_unit_test(a_journal_goes_on_from_life_to_life),
		cmocka_unit_test(the_head_is_that_of_the_last_line),
		cmocka_unit_test(a_line_torn_at_any_byte_is_closed_and_named),
		cmocka_unit_test(torn_bytes_keep_standing),
		cmocka_unit_test(a_death_while_closing_is_closed_too),
		cmocka_unit_test(a_newline_is_never_the_last_byte_of_a_page_behind_torn_bytes),
		cmocka_unit_test(an_open_without_an_end_is_marked_once),
		cmocka_unit_test(many_opens_are_told_apart),
		cmocka_unit_test(opens_above_the_bound_are_counted),
		cmocka_unit_test(only_a_file_is_a_journal),
		cmocka_unit_test(what_is_no_journal_is_not_continued),
		cmocka_unit_test(a_journal_with_a_changed_end_is_not_continued),
		cmocka_unit_test(a_full_disk_leaves_the_file_and_the_batch_as_they_were),
		cmocka_unit_test(what_can_not_be_cut_back_is_closed),
		cmocka_unit_test(synced_counts_only_what_is_on_the_disk),
		cmocka_unit_test(eight_threads_lose_no_line),
		cmocka_unit_test(a_killed_writer_loses_nothing_it_spoke_of),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
