/* test_journal_continued.c - what a dead worker left is followed before anybody goes on from it */
#include <string.h>

#include <audit/audit_internal.h>

#include "audit_helpers.h"

static const char forged[] =
	"{\"event\":\"open\",\"time\":\"2026-11-23T06:00:00.000Z\",\"id\":\"x00000000000000ff\","
	"\"seq\":3,\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\","
	"\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\"}\n";

/* Of what was followed last: the last line that holds. */
static struct kh_checkpoint last_held;

static bool continued(int fd, struct kh_journal_past past, struct kh_err *err)
{
	enum kh_journal_followed how;
	bool ok = kh_journal_is_continued(fd, NULL, &past, &how, &last_held, err);

	assert_int_equal(how, ok ? KH_FOLLOWED_WHOLE : KH_FOLLOWED_SPOILED);
	return ok;
}

static bool continued_since(int fd, uint64_t since)
{
	return continued(fd, (struct kh_journal_past){ .followed = true, .since = since }, NULL);
}

static uint64_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_size;
}

static void append(int fd, const char *bytes, size_t len)
{
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
}

/* Whole by itself; its last line without its newline. The caller frees. */
static char *a_life(size_t *len)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);

	write_exchanges(journal, 3);
	kh_journal_free(journal);
	char *bytes = read_back(fd, len);
	close(fd);
	return bytes;
}

/* Wherever a death cut it, and wherever the one before had; behind the first line. */
static void what_a_death_leaves_is_continued(void **state)
{
	size_t len;
	char *bytes = a_life(&len);

	(void)state;
	for (size_t first = 300; first < len; first += 37)
		for (size_t back = 0; back < 700; back += 61) {
			int fd = file_of(bytes, first), second;
			assert_true(continued_since(fd, 0));
			kh_journal_close(opened(fd, NULL));
			size_t now;
			char *lives = read_back(fd, &now);
			close(fd);
			size_t then = now > first + back ? now - back : first;
			/* No death leaves the newline behind torn bytes and nothing else. */
			then -= then == first + 1;
			second = file_of(lives, then);
			free(lives);
			struct kh_err err = KH_ERR_INIT;
			struct kh_journal_past past = { .followed = true, .since = first };
			if (!continued(second, past, &err) || !continued_since(second, 0))
				fail_msg("cut at %zu, and then at %zu: %s", first, then, err.text);
			kh_journal_close(opened(second, NULL));
			past.since = then;
			if (!continued(second, past, &err))
				fail_msg("cut at %zu, and then at %zu, now: %s", first, then,
					 err.text);
			assert_true(continued_since(second, 0));
			assert_verifies(second);
			close(second);
		}
	free(bytes);
}

/* The worker that wrote it goes on behind it, and tells of each later line. */
static void a_line_that_is_no_record_ends_the_file_for_good(void **state)
{
	static const char *const lines[] = { forged, "x\n", "\n", "{\"event\":\"open\",\n" };
	struct kh_err err = KH_ERR_INIT;
	struct kh_checkpoint told;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		for (int more = 0; more < 2; more++) {
			int fd = new_file();
			struct kh_journal *journal = opened(fd, NULL);
			write_exchanges(journal, 2);
			uint64_t since = size_of(fd);
			append(fd, lines[i], strlen(lines[i]));
			journal->end = size_of(fd);
			if (more)
				write_exchanges(journal, 3);
			(void)kh_journal_checkpoint(journal, &told);
			kh_journal_free(journal);
			assert_false(
				continued(fd, (struct kh_journal_past){ true, since, told }, &err));
			assert_false(
				continued(fd, (struct kh_journal_past){ true, 0, told }, &err));
			assert_false(verified(fd).ok);
			close(fd);
		}
}

static void a_copy_of_the_last_line_hides_no_line_before_it(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	size_t len;

	(void)state;
	write_exchanges(journal, 2);
	kh_journal_free(journal);
	char *bytes = read_back(fd, &len);
	const char *last = (const char *)memrchr(bytes, '\n', len - 1) + 1;
	append(fd, forged, sizeof(forged) - 1);
	append(fd, last, (size_t)(bytes + len - last));
	assert_false(continued_since(fd, len));
	assert_false(continued_since(fd, 0));
	free(bytes);
	close(fd);
}

/* Sound by itself, of another journal. */
static void a_line_that_continues_nothing_is_found(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_err err = KH_ERR_INIT;
	size_t len;
	char *other = a_life(&len);
	const char *last = (const char *)memrchr(other, '\n', len - 1) + 1;

	(void)state;
	write_exchanges(journal, 2);
	kh_journal_free(journal);
	uint64_t since = size_of(fd);
	append(fd, last, (size_t)(other + len - last));
	assert_false(
		continued(fd, (struct kh_journal_past){ .followed = true, .since = since }, &err));
	assert_non_null(strstr(err.text, "does not continue"));
	free(other);
	close(fd);
}

/* Whatever byte of it is another one: it is not continued, or what goes on from it verifies. */
static void what_is_continued_verifies(void **state)
{
	size_t len;
	char *bytes = a_life(&len);
	unsigned refused = 0;

	(void)state;
	for (size_t at = 0; at < len; at += 3) {
		char was = bytes[at];
		bytes[at] = at % 2 ? '\n' : (char)(was ^ 1);
		int fd = file_of(bytes, len);
		bytes[at] = was;
		if (!continued_since(fd, 0)) {
			refused++;
		} else {
			kh_journal_close(opened(fd, NULL));
			assert_verifies(fd);
		}
		close(fd);
	}
	assert_true(refused > len / 4);
	free(bytes);
}

/* It had no newline; the next writer gives it one, and nothing else. */
static void a_line_that_was_written_on_is_found(void **state)
{
	size_t len;
	char *bytes = a_life(&len);
	int fd = file_of(bytes, len - 1);

	(void)state;
	append(fd, " \n", 2);
	assert_false(continued_since(fd, len - 1));
	close(fd);
	free(bytes);
}

/* --- nothing is known of the file: a daemon has just started -------------------------------- */

static enum kh_journal_followed followed(int fd, uint64_t most_bytes)
{
	const struct kh_recover_bounds bounds = { 1000, most_bytes, 60000 };
	const struct kh_journal_past nothing = { .followed = false };
	enum kh_journal_followed how;
	struct kh_err err = KH_ERR_INIT;
	bool ok = kh_continued_within(fd, NULL, &nothing, &bounds, &how, &last_held, &err);

	assert_int_equal(ok, how == KH_FOLLOWED_WHOLE);
	assert_int_equal(ok, err.code == KH_ERR_NONE);
	return how;
}

struct link {
	uint64_t seq;
	char head[65];
};

/* The next line of a chain, or of a fork of it. */
static void go_on(int fd, struct link *at, const char *event)
{
	struct kh_digest digest;
	char text[512], hex[65];
	int n = snprintf(text, sizeof(text),
			 "{\"event\":\"%s\",\"time\":\"2026-11-23T06:00:00.000Z\",\"seq\":%llu,"
			 "\"prev\":\"%s\"",
			 event, (unsigned long long)++at->seq, at->head);

	assert_true(kh_digest_init(&digest, NULL));
	assert_true(kh_digest_begin(&digest));
	assert_true(kh_digest_add(&digest, kh_slice_of(text, (size_t)n)));
	assert_true(kh_digest_end(&digest, hex));
	kh_digest_fini(&digest);
	n += snprintf(text + n, sizeof(text) - (size_t)n, ",\"hash\":\"%s\"}\n", hex);
	append(fd, text, (size_t)n);
	memcpy(at->head, hex, sizeof(hex));
}

static struct link end_of(struct kh_journal *journal)
{
	struct link out = { .seq = journal->seq };

	memcpy(out.head, journal->head, sizeof(out.head));
	return out;
}

static void a_start_behind_a_line_that_continues_nothing_hides_no_break(void **state)
{
	(void)state;
	/* How many lines follow it; the first of them is a `start`. */
	for (int more = 0; more < 4; more++) {
		int fd = new_file();
		struct kh_journal *journal = opened(fd, NULL);

		write_exchanges(journal, 2);
		struct link fork = end_of(journal);
		kh_journal_free(journal);
		assert_int_equal(followed(fd, UINT64_MAX), KH_FOLLOWED_WHOLE);
		memset(fork.head, 'a', 64);
		go_on(fd, &fork, "stop");
		for (int i = 0; i < more; i++)
			go_on(fd, &fork, i == 0 ? "start" : "stop");
		assert_int_equal(followed(fd, UINT64_MAX), KH_FOLLOWED_SPOILED);
		assert_false(verified(fd).ok);
		close(fd);
	}
}

static void an_end_without_a_valid_hash_is_spoiled(void **state)
{
	static const char *const ends[] = { forged, "{\"event\":\"x\"}\n", "x\n", "\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		int fd = new_file();
		struct kh_journal *journal = opened(fd, NULL);
		struct kh_journal_report report = { 0 };

		write_exchanges(journal, 2);
		kh_journal_free(journal);
		struct kh_verify_report honest = verified(fd);
		uint64_t end = size_of(fd);
		append(fd, ends[i], strlen(ends[i]));
		assert_int_equal(followed(fd, UINT64_MAX), KH_FOLLOWED_SPOILED);
		/* It is said up to where nothing is wrong. */
		assert_int_equal(last_held.seq, honest.last_seq);
		assert_int_equal(last_held.end, end);
		assert_true(kh_checkpoint_holds(fd, &last_held));
		assert_null(kh_journal_open(fd, KH_DURABILITY_WRITTEN, &report, NULL));
		assert_true(report.spoiled);
		close(fd);
	}
}

static void a_segment_is_followed_from_the_line_that_it_names(void **state)
{
	struct kh_journal_base base = { .seq = 41, .hash = { 1, 2, 3 } };
	struct kh_journal_report report;
	int fd = new_file();

	(void)state;
	assert_int_equal(followed(fd, UINT64_MAX), KH_FOLLOWED_WHOLE);
	struct kh_journal *journal = kh_journal_open_segment(
		(struct kh_journal_files){ fd, fd }, KH_DURABILITY_WRITTEN, &base, &report, NULL);
	assert_non_null(journal);
	write_exchanges(journal, 2);
	kh_journal_free(journal);
	assert_int_equal(followed(fd, UINT64_MAX), KH_FOLLOWED_WHOLE);
	close(fd);
}

/* Its end is closed, and the next segment says which line it is. */
static void what_is_too_long_ends_well_and_goes_on_in_a_segment(void **state)
{
	(void)state;
	for (int torn = 0; torn < 3; torn++) {
		int fd = new_file(), next = new_file();
		struct kh_journal_files files = { fd, fd };
		struct kh_journal *journal = opened(fd, NULL);
		struct kh_journal_report report;
		struct kh_journal_base line;
		struct kh_batch batch;
		bool spoiled;

		write_exchanges(journal, 5);
		kh_batch_init(&batch);
		put_open(&batch, "x00000000000000aa");
		committed(journal, &batch);
		kh_batch_fini(&batch);
		kh_journal_free(journal);
		uint64_t size = size_of(fd) - (torn == 1 ? 30 : torn == 2 ? 1 : 0);
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		assert_int_equal(kh_journal_last_line(fd, &line), torn == 0);

		assert_int_equal(followed(fd, size - 1), KH_FOLLOWED_TOO_LONG);
		assert_int_equal(size_of(fd), size);
		assert_true(
			kh_journal_end_file(files, KH_DURABILITY_WRITTEN, NULL, &spoiled, NULL));
		assert_false(spoiled);
		assert_verifies(fd);
		assert_int_equal(verified(fd).unclosed, 0);
		assert_true(kh_journal_last_line(fd, &line));
		assert_int_equal(line.seq, verified(fd).last_seq);
		line.ended = true;
		journal = kh_journal_open_segment((struct kh_journal_files){ next, next },
						  KH_DURABILITY_WRITTEN, &line, &report, NULL);
		assert_non_null(journal);
		write_exchanges(journal, 1);
		kh_journal_close(journal);
		struct kh_verify_report now = verified(next), before;
		assert_true(now.ok);
		assert_int_equal(now.continues, line.seq);
		assert_int_equal(now.joined.seq, line.seq);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_true(kh_verify_segment(fd, &now, &before, NULL));
		assert_true(before.ok);
		/* Whatever is appended to it now shows. */
		append(fd, forged, sizeof(forged) - 1);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_true(kh_verify_segment(fd, &now, &before, NULL));
		assert_false(before.ok);
		close(next);
		close(fd);
	}
}

/* A worker wrote more than the next one can follow: that one does not write behind it. */
static void what_a_worker_wrote_too_much_of_is_not_gone_on_in(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_journal_past past = { .followed = true, .since = size_of(fd) };
	enum kh_journal_followed how;

	(void)state;
	write_exchanges(journal, 20);
	assert_true(kh_journal_checkpoint(journal, &past.told));
	write_exchanges(journal, 1);
	struct kh_recover_bounds bounds = { 1000, size_of(fd) - past.told.end, 60000 };
	assert_false(kh_continued_within(fd, NULL, &past, &bounds, &how, &last_held, NULL));
	assert_int_equal(how, KH_FOLLOWED_TOO_LONG);
	/* Nor is what follows the checkpoint short enough. */
	write_exchanges(journal, 2);
	assert_false(kh_continued_within(fd, NULL, &past, &bounds, &how, &last_held, NULL));
	assert_int_equal(how, KH_FOLLOWED_SPOILED);
	/* All of it is. */
	bounds.bytes = UINT64_MAX;
	assert_true(kh_continued_within(fd, NULL, &past, &bounds, &how, &last_held, NULL));
	assert_int_equal(how, KH_FOLLOWED_WHOLE);
	kh_journal_free(journal);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_death_leaves_is_continued),
		cmocka_unit_test(a_line_that_is_no_record_ends_the_file_for_good),
		cmocka_unit_test(a_copy_of_the_last_line_hides_no_line_before_it),
		cmocka_unit_test(a_line_that_continues_nothing_is_found),
		cmocka_unit_test(what_is_continued_verifies),
		cmocka_unit_test(a_line_that_was_written_on_is_found),
		cmocka_unit_test(a_start_behind_a_line_that_continues_nothing_hides_no_break),
		cmocka_unit_test(an_end_without_a_valid_hash_is_spoiled),
		cmocka_unit_test(a_segment_is_followed_from_the_line_that_it_names),
		cmocka_unit_test(what_is_too_long_ends_well_and_goes_on_in_a_segment),
		cmocka_unit_test(what_a_worker_wrote_too_much_of_is_not_gone_on_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
