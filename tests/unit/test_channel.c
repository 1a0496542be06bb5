/* test_channel.c - a message is whole or it is bad, and no descriptor is lost or kept by mistake */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/channel.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/fetcher/fetch.h>

#include "keeper/handover_messages.h"

/* The types that this channel has. */
enum { ITS = 7, LAST = 63 };
#define TAKES (KH_CHANNEL_BIT(ITS) | KH_CHANNEL_BIT(LAST))

struct ends {
	struct kh_channel here;
	int raw; /* the peer's end, to say what no honest peer says */
	int fds_before;
};

static int setup(void **state)
{
	struct ends *ends = calloc(1, sizeof(*ends));
	if (!ends)
		return -1;
	ends->fds_before = count_fds();
	int fds[2];
	if (!kh_channel_pair(fds, NULL) || !kh_channel_init(&ends->here, fds[0], TAKES, NULL))
		return -1;
	ends->raw = fds[1];
	*state = ends;
	return 0;
}

/* Every test ends with as many descriptors as it began with. */
static int teardown(void **state)
{
	struct ends *ends = *state;
	kh_channel_fini(&ends->here);
	kh_channel_fini(&ends->here);
	if (ends->raw >= 0)
		(void)close(ends->raw);
	int leaked = count_fds() - ends->fds_before;
	free(ends);
	return leaked == 0 ? 0 : -1;
}

static void send_raw(int fd, const void *bytes, size_t len, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 64)];
	} control = { 0 };
	char *copy = malloc(len + 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	struct iovec iov = { copy, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (n_fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(head), fds, sizeof(int) * n_fds);
	}
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), len);
	free(copy);
}

static void a_message_arrives_as_it_was_sent(void **state)
{
	struct ends *ends = *state;
	struct kh_channel there;
	assert_true(kh_channel_init(&there, ends->raw, TAKES, NULL));
	ends->raw = -1;
	char *body = malloc(KH_LIMIT_CHANNEL_BYTES);
	assert_non_null(body);
	memset(body, 'b', KH_LIMIT_CHANNEL_BYTES);
	static const size_t lengths[] = { 0, 1, 1000, KH_LIMIT_CHANNEL_BYTES - 8 };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t ref = 0xf0000000u + (uint32_t)i;
		struct kh_err err = KH_ERR_INIT;
		if (!kh_channel_send(&there, ITS, ref, kh_slice_of(body, lengths[i]), NULL, 0,
				     &err))
			fail_msg("%s", err.text);
		struct kh_channel_message message;
		assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_GOT);
		assert_int_equal(message.type, ITS);
		assert_int_equal(message.ref, ref);
		assert_int_equal(message.n_fds, 0);
		assert_true(kh_slice_eq(message.body, kh_slice_of(body, lengths[i])));
		kh_channel_message_close(&message);
	}
	/* One byte more is not sent. */
	struct kh_err err = KH_ERR_INIT;
	assert_false(kh_channel_send(&there, ITS, 0, kh_slice_of(body, KH_LIMIT_CHANNEL_BYTES - 7),
				     NULL, 0, &err));
	assert_true(strlen(err.text) > 0);
	free(body);
	kh_channel_fini(&there);
	struct kh_channel_message message;
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_CLOSED);
}

static void descriptors_come_along_and_close_on_exec(void **state)
{
	struct ends *ends = *state;
	struct kh_channel there;
	assert_true(kh_channel_init(&there, ends->raw, TAKES, NULL));
	ends->raw = -1;
	int fds[KH_LIMIT_CHANNEL_FDS];
	for (int i = 0; i < KH_LIMIT_CHANNEL_FDS; i++) {
		char text = (char)('a' + i);
		fds[i] = kh_file_sealed("t", kh_slice_of(&text, 1), NULL);
		assert_true(fds[i] >= 0);
		/* Received ones close on exec whatever the sender's did. */
		assert_true(kh_file_set_cloexec(fds[i], false));
	}
	assert_true(
		kh_channel_send(&there, ITS, 7, KH_SLICE("x"), fds, KH_LIMIT_CHANNEL_FDS, NULL));
	assert_false(kh_channel_send(&there, ITS, 7, KH_SLICE("x"), fds, KH_LIMIT_CHANNEL_FDS + 1,
				     NULL));
	struct kh_channel_message message;
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.n_fds, KH_LIMIT_CHANNEL_FDS);
	for (int i = 0; i < KH_LIMIT_CHANNEL_FDS; i++) {
		char text = 0;
		assert_int_equal(pread(message.fds[i], &text, 1, 0), 1);
		assert_int_equal(text, 'a' + i);
		assert_int_equal(fcntl(message.fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		(void)close(fds[i]);
	}
	/* One is taken, the others are closed. */
	int taken = message.fds[3];
	message.fds[3] = -1;
	kh_channel_message_close(&message);
	assert_int_equal(message.n_fds, 0);
	assert_true(fcntl(taken, F_GETFD) >= 0);
	(void)close(taken);
	kh_channel_fini(&there);
}

static void without_waiting_it_says_again(void **state)
{
	struct ends *ends = *state;
	struct kh_channel_message message;
	assert_int_equal(kh_channel_receive(&ends->here, false, &message), KH_CHANNEL_AGAIN);
	send_raw(ends->raw, "\0\0\0\7\0\0\0\0", 8, NULL, 0);
	assert_int_equal(kh_channel_receive(&ends->here, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, ITS);
	assert_int_equal(kh_channel_receive(&ends->here, false, &message), KH_CHANNEL_AGAIN);
	(void)close(ends->raw);
	ends->raw = -1;
	assert_int_equal(kh_channel_receive(&ends->here, false, &message), KH_CHANNEL_CLOSED);
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_CLOSED);
}

static void what_no_honest_peer_sends_is_bad(void **state)
{
	struct ends *ends = *state;
	static const struct kh_slice bad[] = {
		KH_SLICE_INIT("\0"),
		KH_SLICE_INIT("\0\0\0\7"),
		KH_SLICE_INIT("\0\0\0\7\0\0\0"),
		KH_SLICE_INIT("\0\0\0\0\0\0\0\0"),	   /* type 0 */
		KH_SLICE_INIT("\0\0\0\6\0\0\0\0"),	   /* no type of this channel */
		KH_SLICE_INIT("\0\0\0\x47\0\0\0\0"),	   /* 64 more than its own */
		KH_SLICE_INIT("\x07\0\0\0\0\0\0\0"),	   /* in the other byte order */
		KH_SLICE_INIT("\0\0\1\7\0\0\0\0"),	   /* in the low byte only */
		KH_SLICE_INIT("\xff\xff\xff\xff\0\0\0\0"), /* negative, were it signed */
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
		int before = count_fds();
		send_raw(ends->raw, bad[i].ptr, bad[i].len, &null, 1);
		struct kh_channel_message message;
		assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_BAD);
		/* What came along is closed. */
		assert_int_equal(message.n_fds, 0);
		assert_int_equal(count_fds(), before);
		(void)close(null);
	}
}

static const struct {
	const char *name;
	uint64_t takes;
} kinds[] = {
	{ "of a worker", KH_WORKER_MSG_TO_KEEPER_SET },
	{ "of a worker's keeper", KH_WORKER_MSG_TO_WORKER_SET },
	{ "of a new keeper", KH_HANDOVER_MSG_TO_OLD_SET },
	{ "of an old keeper", KH_HANDOVER_MSG_TO_NEW_SET },
	{ "of a fetcher", KH_FETCH_MSG_TO_KEEPER_SET },
	{ "of a fetcher's keeper", KH_FETCH_MSG_TO_FETCHER_SET },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static enum kh_channel_status receive_type(struct ends *ends, uint32_t type)
{
	const char bytes[8] = { (char)(type >> 24), (char)(type >> 16), (char)(type >> 8),
				(char)type };
	send_raw(ends->raw, bytes, sizeof(bytes), NULL, 0);
	struct kh_channel_message message;
	enum kh_channel_status got = kh_channel_receive(&ends->here, true, &message);
	kh_channel_message_close(&message);
	return got;
}

static void a_type_that_the_peer_may_not_send_is_bad(void **state)
{
	struct ends *ends = *state;
	for (size_t kind = 0; kind < KINDS; kind++) {
		ends->here.takes = kinds[kind].takes;
		for (uint32_t type = 0; type < 300; type++) {
			bool may = type < 64 && (kinds[kind].takes >> type & 1);
			if (receive_type(ends, type) != (may ? KH_CHANNEL_GOT : KH_CHANNEL_BAD))
				fail_msg("type %u %s", (unsigned)type, kinds[kind].name);
		}
	}
}

/* Nor does it take what another channel's peer of the same process says: even kinds are said to a
 * keeper, odd ones to a process that it started. */
static void no_end_takes_a_type_of_the_other_direction_or_of_another_channel(void **state)
{
	(void)state;
	for (size_t i = 0; i < KINDS; i++)
		for (size_t j = 0; j < KINDS; j++)
			if (i != j && (i % 2 == j % 2 || i / 2 == j / 2) &&
			    (kinds[i].takes & kinds[j].takes) != 0)
				fail_msg("a type %s is one %s as well", kinds[i].name,
					 kinds[j].name);
}

/* A table in which two types were the same would have fewer bits than lines. */
static void each_channels_types_are_numbered_without_holes(void **state)
{
	(void)state;
#define ONE(name, value) +1
	static const int lines[KINDS / 2] = {
		0 KH_WORKER_MSG_TO_KEEPER_TABLE(ONE) KH_WORKER_MSG_TO_WORKER_TABLE(ONE),
		0 KH_HANDOVER_MSG_TO_OLD_TABLE(ONE) KH_HANDOVER_MSG_TO_NEW_TABLE(ONE), 2
	};
#undef ONE
	static const int first[KINDS / 2] = { KH_WORKER_MSG_LEAF_KEY, KH_HANDOVER_MSG_HELLO,
					      KH_FETCH_MSG_ORDER };
	for (size_t i = 0; i < KINDS / 2; i++)
		assert_true((kinds[2 * i].takes | kinds[2 * i + 1].takes) ==
			    ((KH_CHANNEL_BIT(lines[i]) - 1) << first[i]));
}

static void an_over_long_message_is_bad(void **state)
{
	struct ends *ends = *state;
	char *big = calloc(1, KH_LIMIT_CHANNEL_BYTES + 1);
	assert_non_null(big);
	big[3] = ITS;
	struct kh_channel_message message;
	send_raw(ends->raw, big, KH_LIMIT_CHANNEL_BYTES, NULL, 0);
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_GOT);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int before = count_fds();
	send_raw(ends->raw, big, KH_LIMIT_CHANNEL_BYTES + 1, &null, 1);
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_BAD);
	assert_int_equal(count_fds(), before);
	(void)close(null);
	free(big);
}

static void more_descriptors_than_fit_are_bad_and_closed(void **state)
{
	struct ends *ends = *state;
	int fds[KH_LIMIT_CHANNEL_FDS * 2];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		fds[i] = null;
	for (size_t n = KH_LIMIT_CHANNEL_FDS + 1; n <= sizeof(fds) / sizeof(fds[0]); n++) {
		int before = count_fds();
		send_raw(ends->raw, "\0\0\0\7\0\0\0\0", 8, fds, n);
		struct kh_channel_message message;
		assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_BAD);
		assert_int_equal(count_fds(), before);
	}
	(void)close(null);
}

static void an_empty_datagram_leaks_nothing(void **state)
{
	struct ends *ends = *state;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int before = count_fds();
	struct kh_channel_message message;
	send_raw(ends->raw, "", 0, &null, 1);
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_BAD);
	assert_int_equal(count_fds(), before);
	send_raw(ends->raw, "", 0, NULL, 0);
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_CLOSED);
	(void)close(null);
}

static void credentials_of_a_process_are_not_descriptors(void **state)
{
	struct ends *ends = *state;
	const int on = 1;
	assert_int_equal(setsockopt(ends->here.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	send_raw(ends->raw, "\0\0\0\7\0\0\0\0", 8, NULL, 0);
	struct kh_channel_message message;
	assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_BAD);
}

static void a_peer_that_is_gone_is_an_error_and_no_signal(void **state)
{
	struct ends *ends = *state;
	(void)close(ends->raw);
	ends->raw = -1;
	struct kh_err err = KH_ERR_INIT;
	assert_false(kh_channel_send(&ends->here, ITS, 0, KH_SLICE(""), NULL, 0, &err));
	assert_int_equal(err.sys, EPIPE);
}

/* A worker that stops reading must not stop the keeper for ever. */
static void a_peer_that_never_reads_is_given_up(void **state)
{
	struct ends *ends = *state;
	const struct timeval soon = { .tv_usec = 50000 };
	assert_int_equal(setsockopt(ends->here.fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon)),
			 0);
	char *body = calloc(1, 60000);
	assert_non_null(body);
	struct kh_err err = KH_ERR_INIT;
	int sent = 0;
	while (sent < 10000 &&
	       kh_channel_send(&ends->here, ITS, 0, kh_slice_of(body, 60000), NULL, 0, &err))
		sent++;
	assert_in_range(sent, 1, 9999);
	assert_int_equal(err.sys, ETIMEDOUT);
	free(body);
}

static void both_ends_close_on_exec(void **state)
{
	(void)state;
	int fds[2];
	assert_true(kh_channel_pair(fds, NULL));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		(void)close(fds[i]);
	}
}

/* Senders of several threads: no message is torn or mixed. */
enum { THREADS = 4, EACH = 500 };
struct sender {
	struct kh_channel *channel;
	uint32_t number;
	bool ok;
};

static void *send_many(void *arg)
{
	struct sender *sender = arg;
	char body[300];
	memset(body, 'A' + (int)sender->number, sizeof(body));
	sender->ok = true;
	for (uint32_t i = 0; i < EACH && sender->ok; i++)
		sender->ok = kh_channel_send(sender->channel, ITS, sender->number << 16 | i,
					     kh_slice_of(body, i % 300), NULL, 0, NULL);
	return NULL;
}

static void senders_of_several_threads_do_not_mix(void **state)
{
	struct ends *ends = *state;
	struct kh_channel there;
	assert_true(kh_channel_init(&there, ends->raw, TAKES, NULL));
	ends->raw = -1;
	pthread_t threads[THREADS];
	struct sender senders[THREADS];
	for (uint32_t i = 0; i < THREADS; i++) {
		senders[i] = (struct sender){ &there, i, false };
		assert_int_equal(pthread_create(&threads[i], NULL, send_many, &senders[i]), 0);
	}
	uint32_t next[THREADS] = { 0 };
	for (int n = 0; n < THREADS * EACH; n++) {
		struct kh_channel_message message;
		assert_int_equal(kh_channel_receive(&ends->here, true, &message), KH_CHANNEL_GOT);
		uint32_t who = message.ref >> 16, i = message.ref & 0xffff;
		assert_in_range(who, 0, THREADS - 1);
		assert_int_equal(i, next[who]++);
		assert_int_equal(message.body.len, i % 300);
		for (size_t at = 0; at < message.body.len; at++)
			assert_int_equal(message.body.ptr[at], 'A' + (int)who);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_true(senders[i].ok);
	}
	kh_channel_fini(&there);
}

struct slow_reader {
	int fd;
	atomic_bool over;
};

/* Each message is read long before it would be given up by itself. */
static void *read_slowly(void *arg)
{
	struct slow_reader *reader = arg;
	while (!atomic_load(&reader->over)) {
		char byte;
		(void)recv(reader->fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC);
		(void)poll(NULL, 0, 100);
	}
	return NULL;
}

enum { MANY = 200, SENDS_MS = 5000 };

/* Return: how long it took until one could not be sent. */
static uint64_t send_until_given_up(struct kh_channel *channel)
{
	static char body[32 * 1024];
	struct kh_err err = KH_ERR_INIT;
	uint64_t began = kh_clock_mono_ms(), took = 0;
	for (int i = 0; i < MANY && !err.code && took < SENDS_MS; i++) {
		(void)kh_channel_send(channel, ITS, 0, kh_slice_of(body, sizeof(body)), NULL, 0,
				      &err);
		took = kh_clock_mono_ms() - began;
	}
	assert_int_equal(err.sys, ETIMEDOUT);
	return took;
}

static void a_peer_that_reads_slowly_has_one_budget_for_all_messages(void **state)
{
	struct ends *ends = *state;
	struct slow_reader reader = { .fd = ends->raw };
	pthread_t thread;
	assert_true(kh_channel_patience(&ends->here, 500, NULL));
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	uint64_t took = send_until_given_up(&ends->here);
	atomic_store(&reader.over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(took, 400, SENDS_MS - 1);
	/* Nothing is left of it, and little has come back. */
	assert_in_range(ends->here.patience_ms, 0, 200);
}

static void a_process_that_is_told_to_end_waits_for_no_slow_peer(void **state)
{
	struct ends *ends = *state;
	sigset_t end, before;
	int got;
	assert_int_equal(sigemptyset(&end) | sigaddset(&end, SIGTERM), 0);
	assert_int_equal(sigprocmask(SIG_BLOCK, &end, &before), 0);
	assert_int_equal(raise(SIGTERM), 0);
	assert_true(kh_channel_patience(&ends->here, KH_LIMIT_CHANNEL_PATIENCE_MS, NULL));
	uint64_t took = send_until_given_up(&ends->here);
	assert_int_equal(sigwait(&end, &got), 0);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
	assert_in_range(took, KH_LIMIT_CHANNEL_ENDING_MS, SENDS_MS - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_arrives_as_it_was_sent),
		TEST(descriptors_come_along_and_close_on_exec),
		TEST(without_waiting_it_says_again),
		TEST(what_no_honest_peer_sends_is_bad),
		TEST(a_type_that_the_peer_may_not_send_is_bad),
		cmocka_unit_test(no_end_takes_a_type_of_the_other_direction_or_of_another_channel),
		cmocka_unit_test(each_channels_types_are_numbered_without_holes),
		TEST(an_over_long_message_is_bad),
		TEST(more_descriptors_than_fit_are_bad_and_closed),
		TEST(an_empty_datagram_leaks_nothing),
		TEST(credentials_of_a_process_are_not_descriptors),
		TEST(a_peer_that_is_gone_is_an_error_and_no_signal),
		TEST(a_peer_that_never_reads_is_given_up),
		TEST(a_peer_that_reads_slowly_has_one_budget_for_all_messages),
		TEST(a_process_that_is_told_to_end_waits_for_no_slow_peer),
		cmocka_unit_test(both_ends_close_on_exec),
		TEST(senders_of_several_threads_do_not_mix),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
