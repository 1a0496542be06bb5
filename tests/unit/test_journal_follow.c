/* test_journal_follow.c - a journal that is read while it is written: each line once, when it is
 * whole */
#include "audit_helpers.h"

#include <string.h>

struct taken {
	size_t lines, pieces;
	uint64_t last;
	bool broken, unended;
};

static void take(void *context, const struct kh_journal_piece *piece)
{
	struct taken *taken = context;

	taken->pieces++;
	taken->lines += piece->ends;
	taken->last = piece->line;
	taken->unended = !piece->ends;
	if (piece->place != KH_JOURNAL_RECORD)
		taken->broken = true;
}

static char *journal_of(int exchanges, size_t *len)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);

	write_exchanges(journal, exchanges);
	kh_journal_close(journal);
	char *bytes = read_back(fd, len);
	assert_int_equal(close(fd), 0);
	return bytes;
}

static size_t count_lines(const char *bytes, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += bytes[i] == '\n';
	return n;
}

static void a_line_is_handed_over_once_when_it_is_whole(void **state)
{
	(void)state;
	size_t len, step = 97;
	char *bytes = journal_of(5, &len);
	int writer = new_file();
	struct taken taken = { 0 };
	struct kh_err err = KH_ERR_INIT;
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", writer);
	int reader = open(path, O_RDONLY | O_CLOEXEC);
	struct kh_journal_follower *follower = kh_journal_follower_new(reader, &err);
	assert_non_null(follower);
	for (size_t at = 0; at < len; at += step) {
		size_t end = at + step < len ? at + step : len;
		assert_int_equal(write(writer, bytes + at, end - at), (ssize_t)(end - at));
		assert_true(kh_journal_follower_read(follower, take, &taken, &err));
		assert_int_equal(taken.lines, count_lines(bytes, end));
		assert_int_equal(taken.pieces, taken.lines);
	}
	assert_false(taken.broken);
	assert_true(kh_journal_follower_end(follower, take, &taken, &err));
	assert_int_equal(taken.pieces, count_lines(bytes, len));
	kh_journal_follower_free(follower);
	assert_int_equal(close(reader) | close(writer), 0);
	free(bytes);
}

static void the_end_hands_over_what_is_left_of_a_line(void **state)
{
	(void)state;
	size_t len;
	char *bytes = journal_of(1, &len);
	int fd = file_of(bytes, len - 1);
	struct taken taken = { 0 };
	struct kh_journal_follower *follower = kh_journal_follower_new(fd, NULL);

	assert_true(kh_journal_follower_read(follower, take, &taken, NULL));
	assert_int_equal(taken.pieces, count_lines(bytes, len) - 1);
	assert_true(kh_journal_follower_end(follower, take, &taken, NULL));
	assert_int_equal(taken.last, count_lines(bytes, len));
	assert_true(taken.unended);
	kh_journal_follower_free(follower);
	assert_int_equal(close(fd), 0);
	free(bytes);
}

static void a_line_longer_than_any_record_comes_in_pieces(void **state)
{
	(void)state;
	enum { LONG = 300 * 1024 };
	char *bytes = malloc(LONG);
	struct taken taken = { 0 };

	assert_non_null(bytes);
	memset(bytes, 'x', LONG);
	int fd = file_of(bytes, LONG);
	struct kh_journal_follower *follower = kh_journal_follower_new(fd, NULL);
	assert_true(kh_journal_follower_read(follower, take, &taken, NULL));
	assert_int_equal(taken.lines, 0);
	assert_int_equal(pwrite(fd, "\n", 1, LONG), 1); /* O_APPEND */
	assert_true(kh_journal_follower_read(follower, take, &taken, NULL));
	assert_int_equal(taken.lines, 1);
	assert_int_equal(taken.last, 1);
	assert_true(taken.broken);
	kh_journal_follower_free(follower);
	assert_int_equal(close(fd), 0);
	free(bytes);
}

static void a_file_that_was_cut_is_read_no_further(void **state)
{
	(void)state;
	size_t len;
	char *bytes = journal_of(2, &len);
	int fd = file_of(bytes, len);
	struct taken taken = { 0 };
	struct kh_err err = KH_ERR_INIT;
	struct kh_journal_follower *follower = kh_journal_follower_new(fd, NULL);

	assert_true(kh_journal_follower_read(follower, take, &taken, NULL));
	assert_int_equal(ftruncate(fd, 10), 0);
	assert_false(kh_journal_follower_read(follower, take, &taken, &err));
	assert_non_null(strstr(err.text, "it was cut to 10 bytes while it was read"));
	kh_journal_follower_free(follower);
	assert_int_equal(close(fd), 0);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_handed_over_once_when_it_is_whole),
		cmocka_unit_test(the_end_hands_over_what_is_left_of_a_line),
		cmocka_unit_test(a_line_longer_than_any_record_comes_in_pieces),
		cmocka_unit_test(a_file_that_was_cut_is_read_no_further),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
