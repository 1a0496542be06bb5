/* test_rights.c - descriptors that go along with a message: those that are expected, or none */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>
#include <keyhole/base/rights.h>

#include "sandbox/sandbox_internal.h"

static int ends[2], files[3];

static int setup(void **state)
{
	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	files[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	files[1] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	files[2] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return files[0] < 0 || files[1] < 0 || files[2] < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++)
		(void)close(ends[i]);
	for (size_t i = 0; i < 3; i++)
		(void)close(files[i]);
	return 0;
}

static void assert_same_file(int a, int b)
{
	struct stat x, y;
	assert_int_equal(fstat(a, &x), 0);
	assert_int_equal(fstat(b, &y), 0);
	assert_int_equal(x.st_ino, y.st_ino);
	assert_int_equal(x.st_dev, y.st_dev);
}

static void test_they_come_in_their_order_and_stay_the_senders(void **state)
{
	(void)state;
	char word[4];
	int fds[3];
	int before = count_fds();
	assert_true(kh_rights_send(ends[0], "abc", 4, files, 3, 0));
	assert_int_equal(kh_rights_receive(ends[1], word, sizeof(word), fds, 3, MSG_CMSG_CLOEXEC),
			 4);
	assert_string_equal(word, "abc");
	for (size_t i = 0; i < 3; i++) {
		assert_same_file(fds[i], files[i]);
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		assert_int_equal(close(fds[i]), 0);
	}
	assert_int_equal(count_fds(), before);
}

static void test_a_message_may_have_none(void **state)
{
	(void)state;
	char word[4];
	int fd = 0;
	assert_true(kh_rights_send(ends[0], "abc", 4, NULL, 0, 0));
	assert_int_equal(kh_rights_receive(ends[1], word, sizeof(word), &fd, 1, 0), 4);
	assert_int_equal(fd, -1);
}

static void test_nothing_there_is_said_and_gives_none(void **state)
{
	(void)state;
	char word[4];
	int fd = 0;
	assert_int_equal(kh_rights_receive(ends[1], word, sizeof(word), &fd, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fd, -1);
}

/* More or fewer than were expected: none is taken, and none is left open. */
static void test_another_number_is_closed(void **state)
{
	(void)state;
	const size_t wanted[] = { 1, 2, 1, 3, 2 }, sent[] = { 2, 3, 3, 1, 1 };
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		char word[4];
		int fds[3] = { 0 };
		int before = count_fds();
		assert_true(kh_rights_send(ends[0], "abc", 4, files, sent[i], 0));
		assert_int_equal(kh_rights_receive(ends[1], word, sizeof(word), fds, wanted[i], 0),
				 4);
		for (size_t k = 0; k < wanted[i]; k++)
			assert_int_equal(fds[k], -1);
		assert_int_equal(count_fds(), before);
	}
}

static void test_more_than_a_message_may_carry_are_not_sent(void **state)
{
	(void)state;
	int many[KH_LIMIT_CHANNEL_FDS + 1];
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		many[i] = files[0];
	assert_false(kh_rights_send(ends[0], "abc", 4, many, KH_LIMIT_CHANNEL_FDS + 1, 0));
	assert_int_equal(errno, EINVAL);
	assert_true(kh_rights_send(ends[0], "abc", 4, many, KH_LIMIT_CHANNEL_FDS, 0));
}

static void test_who_is_gone_is_told_without_a_signal(void **state)
{
	(void)state;
	assert_int_equal(shutdown(ends[1], SHUT_RDWR), 0);
	assert_false(kh_rights_send(ends[0], "abc", 4, files, 1, 0));
	assert_int_equal(errno, EPIPE);
}

/* What a sandbox says to the launcher: it may send two at a time, for ever. */
static void test_the_launcher_keeps_no_descriptor_that_it_did_not_ask_for(void **state)
{
	(void)state;
	const struct kh_init_message sent = { .type = KH_INIT_TERMINAL };
	kh_launch_watch_control(ends[1]);
	for (size_t n = 0; n <= 3; n++) {
		struct kh_init_message got = { 0 };
		pid_t sender = 0;
		int before = count_fds(), fd = 0;
		assert_true(kh_rights_send(ends[0], &sent, sizeof(sent), files, n, 0));
		assert_int_equal(kh_launch_receive(ends[1], &got, &fd, &sender), sizeof(got));
		assert_int_equal(got.type, KH_INIT_TERMINAL);
		assert_int_equal(sender, getpid());
		assert_int_equal(count_fds(), n == 1 ? before + 1 : before);
		if (n == 1) {
			assert_same_file(fd, files[0]);
			assert_int_equal(close(fd), 0);
		} else {
			assert_int_equal(fd, -1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_they_come_in_their_order_and_stay_the_senders,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_message_may_have_none, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_there_is_said_and_gives_none, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_another_number_is_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_more_than_a_message_may_carry_are_not_sent,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_is_gone_is_told_without_a_signal, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_the_launcher_keeps_no_descriptor_that_it_did_not_ask_for, setup,
			teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
