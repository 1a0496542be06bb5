/* test_child_log.c - the standard error of a process that may be taken over */
/* wrap: kh_clock_mono_ms */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keeper/dynamic_sandboxes.h>
#include <keeper/keeper_internal.h>
#include <keyhole/base/limits.h>

static int kept = -1; /* the test's own */

/* It stands: however long the writing takes, there is room for nothing more. */
uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return 1000;
}

static void placeholder(int fd)
{
	kept = kept >= 0 ? kept : dup(STDERR_FILENO);
	assert_true(dup2(fd, STDERR_FILENO) == STDERR_FILENO);
}

static void put_back(void)
{
	(void)dup2(kept, STDERR_FILENO);
}

static size_t read_all(int fd, char *into, size_t room)
{
	size_t len = 0;
	ssize_t n;
	while (len + 1 < room && (n = read(fd, into + len, room - 1 - len)) > 0)
		len += (size_t)n;
	into[len] = '\0';
	return len;
}

static void of_a_file_only_the_end_can_be_written_to(void **state)
{
	(void)state;
	char path[] = "/tmp/kh-child-log-XXXXXX", text[256];
	int file = mkstemp(path); /* for reading and writing, not to append */
	assert_true(file >= 0 && write(file, "earlier\n", 8) == 8);
	placeholder(file);
	int theirs = kh_child_log_open();
	off_t moved = lseek(theirs, 0, SEEK_SET);
	ssize_t wrote = write(theirs, "theirs\n", 7), got = read(theirs, text, 1);
	int why = errno;
	(void)!write(STDERR_FILENO, "ours\n", 5); /* at the end as well, not over it */
	int ours = kh_child_log_ours();
	kh_child_log_close();
	put_back();
	assert_true(theirs > STDERR_FILENO && moved == 0 && wrote == 7 && got < 0);
	assert_int_equal(why, EBADF);
	assert_int_equal(ours, -1);
	assert_int_equal(lseek(file, 0, SEEK_SET), 0);
	(void)read_all(file, text, sizeof(text));
	assert_string_equal(text, "earlier\ntheirs\nours\n");
	(void)close(file);
	(void)unlink(path);
}

static void a_terminal_is_out_of_reach(void **state)
{
	(void)state;
	int far, near;
	char text[256], byte;
	assert_int_equal(openpty(&far, &near, NULL, NULL, NULL), 0);
	placeholder(near);
	int theirs = kh_child_log_open();
	bool terminal = isatty(theirs),
	     can_write = (fcntl(theirs, F_GETFL) & O_ACCMODE) == O_WRONLY;
	/* What is typed stays there. */
	(void)!write(far, "typed\n", 6);
	bool reads = read(theirs, &byte, 1) >= 0;
	static const char rude[] = "\33]0;x\a\33[6n \xc2\x9b"
				   "done\nkeyhole: keeper: error: a lie\n"
				   "keyhole: worker: warn: mine\nno end";
	(void)!write(theirs, rude, sizeof(rude) - 1);
	(void)!write(theirs, "\0nul", 4);
	kh_child_log_end_line();
	kh_child_log_close();
	put_back();
	assert_true(theirs > STDERR_FILENO && !terminal && can_write && !reads);
	assert_true(fcntl(far, F_SETFL, O_NONBLOCK) == 0);
	(void)read_all(far, text, sizeof(text));
	assert_null(strchr(text, '\33'));
	assert_null(strchr(text, '\a'));
	assert_null(strstr(text, "\xc2\x9b"));
	assert_non_null(strstr(text, "keyhole: worker: ?]0;x??[6n ??done"));
	assert_non_null(strstr(text, "keyhole: worker: keyhole: keeper: error: a lie"));
	assert_non_null(strstr(text, "\nkeyhole: worker: warn: mine"));
	assert_non_null(strstr(text, "no end?nul"));
	(void)close(far);
	(void)close(near);
}

static void a_flood_is_bounded_and_counted(void **state)
{
	(void)state;
	enum { LINES = 4 * KH_LIMIT_CHILD_LOG_BYTES / 100 };
	char path[] = "/tmp/kh-child-log-XXXXXX", line[101], longest[3 * KH_LIMIT_CHILD_LINE_BYTES];
	int file = mkstemp(path), pipe_ends[2];
	assert_true(file >= 0 && pipe(pipe_ends) == 0);
	placeholder(pipe_ends[1]); /* so that the lines come by the keeper */
	int theirs = kh_child_log_open();
	placeholder(file); /* and go where they can be counted */
	memset(longest, 'y', sizeof(longest));
	longest[sizeof(longest) - 1] = '\n';
	bool took = write(theirs, longest, sizeof(longest)) == (ssize_t)sizeof(longest);
	kh_child_log_take();
	memset(line, 'x', 100);
	line[99] = '\n';
	for (int i = 0; i < LINES; i++) {
		if (write(theirs, line, 100) < 0)
			kh_child_log_take();
	}
	kh_child_log_end_line();
	kh_child_log_close();
	put_back();
	assert_true(took);
	off_t size = lseek(file, 0, SEEK_END);
	/* With what is put in front of each line. */
	assert_in_range(size, KH_LIMIT_CHILD_LOG_BYTES / 2, 2 * KH_LIMIT_CHILD_LOG_BYTES);
	char tail[256];
	assert_true(pread(file, tail, 255, size - 255) == 255);
	tail[255] = '\0';
	assert_non_null(strstr(tail, "lines of the worker's are left out here"));
	(void)close(file);
	(void)close(pipe_ends[0]);
	(void)close(pipe_ends[1]);
	(void)unlink(path);
}

/* A worker that was taken over adds and removes sandboxes for as long as it runs. */
static void what_a_worker_makes_the_keeper_log_is_bounded_too(void **state)
{
	(void)state;
	enum { ROUNDS = 40000 };
	char path[] = "/tmp/kh-child-log-XXXXXX", tail[256], name[] = "box";
	struct kh_registry_entry entry = { .wish = { .tenant = name, .id = name } };
	int file = mkstemp(path), pipe_ends[2];
	assert_true(file >= 0 && pipe(pipe_ends) == 0);
	placeholder(pipe_ends[1]);
	assert_true(kh_child_log_open() >= 0);
	placeholder(file);
	for (int i = 0; i < ROUNDS; i++) {
		kh_dynamic_sandbox_say_added(&entry, 1);
		kh_dynamic_sandbox_say_removed(&entry, i % 2 ? KH_DYNAMIC_SANDBOX_NO_UID : 1, 1, 1);
	}
	kh_child_log_close();
	put_back();
	off_t size = lseek(file, 0, SEEK_END);
	assert_in_range(size, KH_LIMIT_CHILD_LOG_BYTES / 2, 2 * KH_LIMIT_CHILD_LOG_BYTES);
	assert_true(pread(file, tail, 255, size - 255) == 255);
	tail[255] = '\0';
	assert_non_null(strstr(tail, "lines of the worker's are left out here"));
	(void)close(file);
	(void)close(pipe_ends[0]);
	(void)close(pipe_ends[1]);
	(void)unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_file_only_the_end_can_be_written_to),
		cmocka_unit_test(a_terminal_is_out_of_reach),
		cmocka_unit_test(a_flood_is_bounded_and_counted),
		cmocka_unit_test(what_a_worker_makes_the_keeper_log_is_bounded_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
