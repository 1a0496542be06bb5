/* test_log_hold.c - lines that are kept until nobody waits for us */
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

static int saved = -1, said = -1;

static int begin(void **state)
{
	(void)state;
	int ends[2];
	saved = dup(STDERR_FILENO);
	if (saved < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return -1;
	(void)fcntl(ends[1], F_SETPIPE_SZ, 2 * KH_LIMIT_LOG_HELD_BYTES);
	said = ends[0];
	return dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && close(ends[1]) == 0 ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	kh_log_release_all();
	(void)dup2(saved, STDERR_FILENO);
	close(saved);
	close(said);
	return 0;
}

static char text[4 * KH_LIMIT_LOG_HELD_BYTES];

static const char *read_said(void)
{
	size_t len = 0;
	ssize_t n;
	while ((n = read(said, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return text;
}

static void lines_are_kept_until_as_many_releases_in_their_order(void **state)
{
	(void)state;
	static const char plain[] = "keyhole: plain\n";
	kh_log_warn("one");
	kh_log_hold();
	kh_log_warn("two");
	kh_log_hold();
	kh_log_line(plain, sizeof(plain) - 1);
	kh_log_release();
	assert_string_equal(read_said(), "keyhole: warn: one\n");
	kh_log_release();
	kh_log_release(); /* one too many is none */
	kh_log_warn("three");
	assert_string_equal(read_said(),
			    "keyhole: warn: two\nkeyhole: plain\nkeyhole: warn: three\n");
}

static void all_are_released_however_often_it_was_held(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		kh_log_hold();
	kh_log_warn("kept");
	assert_string_equal(read_said(), "");
	kh_log_release_all();
	assert_string_equal(read_said(), "keyhole: warn: kept\n");
}

static void what_there_is_no_room_for_is_counted(void **state)
{
	(void)state;
	char line[1001];
	memset(line, 'x', sizeof(line) - 2);
	line[sizeof(line) - 2] = '\n';
	line[sizeof(line) - 1] = '\0';
	kh_log_hold();
	/* Each line is kept with a byte that says whether it may be broken. */
	for (size_t i = 0; i < KH_LIMIT_LOG_HELD_BYTES / sizeof(line) + 5; i++)
		kh_log_line(line, sizeof(line) - 1);
	kh_log_release();
	assert_non_null(strstr(read_said(), "5 more lines were not kept\n"));
}

static void a_child_writes_at_once(void **state)
{
	(void)state;
	kh_log_hold();
	kh_log_warn("kept");
	pid_t pid = fork();
	if (pid == 0) {
		kh_log_warn("of the child");
		kh_log_release_all();
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_string_equal(read_said(), "keyhole: warn: of the child\n");
	kh_log_release();
	assert_string_equal(read_said(), "keyhole: warn: kept\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			lines_are_kept_until_as_many_releases_in_their_order, begin, end),
		cmocka_unit_test_setup_teardown(all_are_released_however_often_it_was_held, begin,
						end),
		cmocka_unit_test_setup_teardown(what_there_is_no_room_for_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(a_child_writes_at_once, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
