/* test_journal_continued.c - what a dead worker left is followed before anybody goes on from it */
#include <string.h>

#include <audit/audit_internal.h>

#include "audit_helpers.h"

static const char forged[] =
	"{\"event\":\"open\",\"time\":\"2026-11-23T06:00:00.000Z\",\"id\":\"x00000000000000ff\","
	"\"seq\":3,\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\","
	"\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\"}\n";

static bool continued(int fd, struct kh_journal_past past, struct kh_err *err)
{
	bool partly;

	return kh_journal_is_continued(fd, NULL, &past, &partly, err);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_death_leaves_is_continued),
		cmocka_unit_test(a_line_that_is_no_record_ends_the_file_for_good),
		cmocka_unit_test(a_copy_of_the_last_line_hides_no_line_before_it),
		cmocka_unit_test(a_line_that_continues_nothing_is_found),
		cmocka_unit_test(what_is_continued_verifies),
		cmocka_unit_test(a_line_that_was_written_on_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
