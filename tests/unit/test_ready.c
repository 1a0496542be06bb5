/* test_ready.c - what a launcher is told of its daemon, whole or not at all */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/base/wire.h>

enum { PATIENCE_MS = 5000 };

static struct kh_ready_placeholder placeholders[2];
static char names[2][32] = { "ANTHROPIC_API_KEY", "GITHUB_TOKEN" };
static char values[2][32] = { "sk-ant-api03-placeholder", "ghp_placeholder" };
static char ca[] = "-----BEGIN CERTIFICATE-----\n…\n", audit[] = "/tmp/audit.jsonl";

static struct kh_ready good(void)
{
	for (size_t i = 0; i < 2; i++)
		placeholders[i] = (struct kh_ready_placeholder){ names[i], values[i] };
	return (struct kh_ready){ .ok = true,
				  .ca_pem = ca,
				  .audit_path = audit,
				  .placeholders = placeholders,
				  .n_placeholders = 2 };
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	int fds[2];
	struct kh_ready sent = good(), got;
	assert_int_equal(pipe(fds), 0);
	assert_true(kh_ready_write(fds[1], &sent, NULL));
	assert_true(kh_ready_read(fds[0], &got, PATIENCE_MS, NULL));
	assert_true(got.ok);
	assert_null(got.error);
	assert_string_equal(got.ca_pem, ca);
	assert_string_equal(got.audit_path, audit);
	assert_int_equal(got.n_placeholders, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(got.placeholders[i].env_name, names[i]);
		assert_string_equal(got.placeholders[i].value, values[i]);
	}
	kh_ready_fini(&got);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void a_failure_is_told_with_its_reason(void **state)
{
	(void)state;
	int fds[2];
	char why[] = "no value for credential main: set KH_KEY";
	struct kh_ready sent = { .ok = false, .error = why }, got;
	assert_int_equal(pipe(fds), 0);
	assert_true(kh_ready_write(fds[1], &sent, NULL));
	assert_true(kh_ready_read(fds[0], &got, PATIENCE_MS, NULL));
	assert_false(got.ok);
	assert_string_equal(got.error, why);
	kh_ready_fini(&got);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void *write_slowly(void *arg)
{
	const int *fds = arg; /* from, to */
	char byte;
	while (read(fds[0], &byte, 1) == 1) {
		(void)usleep(100);
		(void)!write(fds[1], &byte, 1);
	}
	return NULL;
}

static void it_may_come_in_pieces(void **state)
{
	(void)state;
	int whole[2], pieces[2];
	pthread_t thread;
	struct kh_ready sent = good(), got;
	assert_int_equal(pipe(whole), 0);
	assert_int_equal(pipe(pieces), 0);
	int ends[2] = { whole[0], pieces[1] };
	assert_true(kh_ready_write(whole[1], &sent, NULL));
	(void)close(whole[1]);
	assert_int_equal(pthread_create(&thread, NULL, write_slowly, ends), 0);
	assert_true(kh_ready_read(pieces[0], &got, PATIENCE_MS, NULL));
	assert_string_equal(got.ca_pem, ca);
	kh_ready_fini(&got);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(whole[0]);
	(void)close(pieces[0]);
	(void)close(pieces[1]);
}

static void a_keeper_that_ended_is_not_waited_for(void **state)
{
	(void)state;
	int fds[2];
	struct kh_ready got;
	struct kh_err err = KH_ERR_INIT;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "\0\0\0", 3), 3);
	(void)close(fds[1]);
	uint64_t began = kh_clock_mono_ms();
	assert_false(kh_ready_read(fds[0], &got, PATIENCE_MS, &err));
	assert_true(kh_clock_mono_ms() - began < PATIENCE_MS / 2);
	assert_non_null(strstr(err.text, "ended before it was ready"));
	(void)close(fds[0]);
}

static void a_keeper_that_says_nothing_is_waited_for_so_long(void **state)
{
	(void)state;
	int fds[2];
	struct kh_ready got;
	struct kh_err err = KH_ERR_INIT;
	assert_int_equal(pipe(fds), 0);
	uint64_t began = kh_clock_mono_ms();
	assert_false(kh_ready_read(fds[0], &got, 100, &err));
	uint64_t took = kh_clock_mono_ms() - began;
	assert_true(took >= 100 && took < PATIENCE_MS);
	assert_non_null(strstr(err.text, "in time"));
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static bool reads(const char *bytes, size_t len)
{
	int fds[2];
	struct kh_ready got;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], bytes, len), (ssize_t)len);
	(void)close(fds[1]);
	bool ok = kh_ready_read(fds[0], &got, PATIENCE_MS, NULL);
	kh_ready_fini(&got);
	(void)close(fds[0]);
	return ok;
}

/* Each prefix, and each byte turned around: never a crash, never a leak (the sanitizers look), and
 * what has been cut is not taken for whole. */
static void what_is_damaged_is_not_taken_for_good(void **state)
{
	(void)state;
	int fds[2];
	char bytes[1024];
	struct kh_ready sent = good();
	assert_int_equal(pipe(fds), 0);
	assert_true(kh_ready_write(fds[1], &sent, NULL));
	ssize_t len = read(fds[0], bytes, sizeof(bytes));
	assert_true(len > 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
	assert_true(reads(bytes, (size_t)len));
	for (ssize_t cut = 0; cut < len; cut++)
		assert_false(reads(bytes, (size_t)cut));
	for (ssize_t i = 0; i < len; i++) {
		bytes[i] = (char)~bytes[i];
		(void)reads(bytes, (size_t)len);
		bytes[i] = (char)~bytes[i];
	}
	/* Lengths that are none, or gigabytes. */
	assert_false(reads("\0\0\0\0", 4));
	assert_false(reads("\xff\xff\xff\xff", 4));
	/* Good news without what it is about. */
	struct kh_ready empty = { .ok = true };
	assert_int_equal(pipe(fds), 0);
	assert_true(kh_ready_write(fds[1], &empty, NULL));
	assert_false(kh_ready_read(fds[0], &sent, PATIENCE_MS, NULL));
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void a_launcher_that_is_gone_is_an_error(void **state)
{
	(void)state;
	int fds[2];
	struct kh_ready sent = good();
	struct kh_err err = KH_ERR_INIT;
	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	(void)close(fds[0]);
	assert_false(kh_ready_write(fds[1], &sent, &err));
	(void)close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_failure_is_told_with_its_reason),
		cmocka_unit_test(it_may_come_in_pieces),
		cmocka_unit_test(a_keeper_that_ended_is_not_waited_for),
		cmocka_unit_test(a_keeper_that_says_nothing_is_waited_for_so_long),
		cmocka_unit_test(what_is_damaged_is_not_taken_for_good),
		cmocka_unit_test(a_launcher_that_is_gone_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
