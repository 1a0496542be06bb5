/* test_uplink.c - connections that are handed into a sandbox: one for each question, few at a time
 */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/rights.h>

#include "sandbox/uplink.h"

enum { OURS, INSIDE, MANY = 200 };

static char folder[] = "/tmp/kh-uplink.XXXXXX";
static int pair[2], server, given[4], before;

static int listen_here(int backlog)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "s" };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)unlink("s");
	if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    listen(fd, backlog) != 0)
		return -1;
	return fd;
}

static int setup(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	if (!mkdtemp(folder) || chdir(folder) != 0 || (server = listen_here(4096)) < 0)
		return -1;
	for (size_t i = 0; i < 4; i++)
		if ((given[i] = open(i ? "/dev/null" : "/dev/zero", O_RDWR | O_CLOEXEC)) < 0)
			return -1;
	if (!kh_uplink_make(pair, given[0], &given[1], &err))
		return -1;
	before = count_fds();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		(void)close(given[i]);
	(void)close(pair[OURS]);
	(void)close(pair[INSIDE]);
	(void)close(server);
	return unlink("s") != 0 || chdir("/") != 0 || rmdir(folder) != 0 ? -1 : 0;
}

/* The first message, which is there before anybody asks. */
static void take_given(void)
{
	struct kh_init_message message = { 0 };
	int fds[KH_INIT_GIVEN];
	assert_int_equal(kh_rights_receive(pair[INSIDE], &message, sizeof(message), fds,
					   KH_INIT_GIVEN, MSG_DONTWAIT),
			 sizeof(message));
	assert_int_equal(message.type, KH_INIT_MET);
	for (size_t i = 0; i < KH_INIT_GIVEN; i++) {
		struct stat a, b;
		assert_int_equal(fstat(fds[i], &a), 0);
		assert_int_equal(fstat(given[i], &b), 0);
		assert_int_equal(a.st_rdev, b.st_rdev);
		assert_int_equal(close(fds[i]), 0);
	}
}

/* As the process that stands by does, until it would wait. Return: there is somebody. */
static bool answer_all(void)
{
	short wants = POLLIN;
	for (int i = 0; i < 4 * MANY; i++) {
		struct pollfd p = { .fd = pair[OURS], .events = wants };
		if (poll(&p, 1, 0) != 1)
			return true;
		if (!kh_uplink_answer(pair[OURS], "s", &wants))
			return false;
	}
	fail_msg("it goes on without end");
	return false;
}

static int accepted(void)
{
	int n = 0, fd;
	while ((fd = accept4(server, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		n++;
		(void)close(fd);
	}
	return n;
}

static int receive(int *value)
{
	struct kh_init_message answer = { 0 };
	int fd;
	assert_int_equal(kh_rights_receive(pair[INSIDE], &answer, sizeof(answer), &fd, 1,
					   MSG_DONTWAIT | MSG_CMSG_CLOEXEC),
			 sizeof(answer));
	assert_int_equal(answer.type, KH_INIT_LINKED);
	*value = answer.value;
	return fd;
}

static void test_each_question_is_answered_with_a_connection_of_its_own(void **state)
{
	(void)state;
	int value;
	take_given();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send(pair[INSIDE], "", 1, 0), 1);
		assert_true(answer_all());
		int fd = receive(&value);
		int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
		char word[4];
		assert_int_equal(value, 0);
		assert_true(fd >= 0 && peer >= 0);
		assert_int_equal(write(peer, "hey", 4), 4);
		assert_int_equal(read(fd, word, sizeof(word)), 4);
		assert_string_equal(word, "hey");
		(void)close(peer);
		(void)close(fd);
	}
	assert_int_equal(count_fds(), before);
}

static void test_who_asks_and_takes_nothing_is_given_no_more_than_a_few(void **state)
{
	(void)state;
	int value, sent = 0, n = 0;
	while (sent < MANY && send(pair[INSIDE], "", 1, MSG_DONTWAIT) == 1)
		sent++;
	assert_int_equal(sent, MANY);
	/* Behind what it was given at first, which it has not taken either. */
	assert_true(answer_all());
	assert_true(accepted() <= KH_LIMIT_UPLINK_WAITING);
	take_given();
	assert_true(answer_all());
	int waiting = accepted();
	assert_true(waiting >= 1 && waiting <= KH_LIMIT_UPLINK_WAITING);
	/* Who takes them is given the others. */
	for (; n < MANY; n++) {
		assert_true(answer_all());
		int fd = receive(&value);
		assert_true(fd >= 0);
		(void)close(fd);
		assert_true(accepted() <= KH_LIMIT_UPLINK_WAITING);
	}
	assert_int_equal(count_fds(), before);
}

static void test_no_descriptor_gets_out_and_nothing_that_is_said_matters(void **state)
{
	(void)state;
	static const char large[4000] = { 1, 2, 3 };
	int value;
	take_given();
	assert_true(kh_rights_send(pair[INSIDE], large, sizeof(large), given, 4, 0));
	assert_true(answer_all());
	assert_int_equal(count_fds(), before);
	int fd = receive(&value);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(accepted(), 1);
	assert_int_equal(count_fds(), before);
}

static void test_a_proxy_that_is_not_there_is_said_and_dialled_anew_when_it_is(void **state)
{
	(void)state;
	int value;
	take_given();
	(void)close(server);
	assert_int_equal(send(pair[INSIDE], "", 1, 0), 1);
	assert_true(answer_all());
	assert_int_equal(receive(&value), -1);
	assert_int_equal(value, ECONNREFUSED);
	assert_int_equal(unlink("s"), 0);
	assert_int_equal(send(pair[INSIDE], "", 1, 0), 1);
	assert_true(answer_all());
	assert_int_equal(receive(&value), -1);
	assert_int_equal(value, ENOENT);
	/* Another one, and with a queue that is full after the first. */
	server = listen_here(0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send(pair[INSIDE], "", 1, 0), 1);
		assert_true(answer_all());
		int fd = receive(&value);
		if (i == 0)
			assert_true(fd >= 0);
		if (fd >= 0)
			(void)close(fd);
	}
	assert_int_equal(value, EAGAIN);
	assert_int_equal(count_fds(), before);
}

static void test_it_ends_when_nobody_is_there_any_more(void **state)
{
	(void)state;
	take_given();
	assert_true(answer_all());
	(void)close(pair[INSIDE]);
	assert_false(answer_all());
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_each_question_is_answered_with_a_connection_of_its_own),
		T(test_who_asks_and_takes_nothing_is_given_no_more_than_a_few),
		T(test_no_descriptor_gets_out_and_nothing_that_is_said_matters),
		T(test_a_proxy_that_is_not_there_is_said_and_dialled_anew_when_it_is),
		T(test_it_ends_when_nobody_is_there_any_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
