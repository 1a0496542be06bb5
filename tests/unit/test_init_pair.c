/* test_init_pair.c - two sockets and the bytes between them */
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* keyhole-init is no part of the library. */
#include "init/pair.c" /* NOLINT(bugprone-suspicious-include) */

enum { TURNS = 100000, MANY = KH_LIMIT_INIT_RESTS + 3, MOST = 4 * 1024 * 1024 };

static int epoll_fd, changes;

bool init_watch_add(int fd, struct init_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool init_watch_change(int fd, struct init_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };
	changes++;
	return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0;
}

void init_watch_end(int fd)
{
	assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL), 0);
}

struct line {
	struct init_pair pair;
	int agent, proxy; /* the far ends */
	enum init_pair_state state;
	size_t sent;
};

static void ready(struct init_watch *watch, uint32_t events)
{
	struct line *line = watch->owner;
	if (line->state != INIT_PAIR_GOES_ON)
		return;
	int which = watch == &line->pair.side[DOWN].watch ? DOWN : UP;
	line->state = init_pair_carry(&line->pair, which, events);
	if (line->state != INIT_PAIR_GOES_ON)
		init_pair_close(&line->pair);
}

/* Until nothing is told any more. */
static void settle(void)
{
	struct epoll_event events[16];
	for (int turn = 0; turn < TURNS; turn++) {
		int n = epoll_wait(epoll_fd, events, 16, 0);
		if (n == 0)
			return;
		for (int i = 0; i < n; i++) {
			struct init_watch *watch = events[i].data.ptr;
			watch->ready(watch, events[i].events);
		}
	}
	fail_msg("it spins");
}

static void join(struct line *line)
{
	int down[2], up[2], type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	assert_int_equal(socketpair(AF_UNIX, type, 0, down), 0);
	assert_int_equal(socketpair(AF_UNIX, type, 0, up), 0);
	*line = (struct line){ .pair = { .side = { { .fd = down[0] }, { .fd = up[0] } },
					 .notice = -1 },
			       .agent = down[1],
			       .proxy = up[1] };
	assert_true(init_pair_watch(&line->pair, DOWN, ready, line));
	assert_true(init_pair_watch(&line->pair, UP, ready, line));
	changes = 0;
}

static void part(struct line *line)
{
	init_pair_close(&line->pair);
	if (line->agent >= 0)
		close(line->agent);
	if (line->proxy >= 0)
		close(line->proxy);
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void hear(int fd, const char *text)
{
	char got[64];
	assert_int_equal(recv(fd, got, sizeof(got), 0), strlen(text));
	assert_memory_equal(got, text, strlen(text));
}

/* What stands at each place of a stream that is the line's own. */
static char at(const struct line *line, size_t place)
{
	return (char)(place * 31 + (place >> 12) + (uintptr_t)line / sizeof(*line));
}

/* As much as anybody takes who does not read. */
static void fill(struct line *line, int from)
{
	static char bytes[5000];
	ssize_t n = 1;
	while (n > 0 && line->sent < MOST) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = at(line, line->sent + i);
		n = send(from, bytes, sizeof(bytes), MSG_NOSIGNAL);
		line->sent += n > 0 ? (size_t)n : 0;
		settle();
	}
	assert_true(line->sent < MOST);
}

static void drain(struct line *line, int to)
{
	static char bytes[7000];
	size_t got = 0;
	while (got < line->sent) {
		ssize_t n = recv(to, bytes, sizeof(bytes), 0);
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++)
			if (bytes[i] != at(line, got + (size_t)i))
				fail_msg("another byte at %zu", got + (size_t)i);
		got += (size_t)n;
		settle();
	}
	assert_int_equal(got, line->sent);
}

static size_t kept(void)
{
	size_t free_ones = 0;
	for (const struct init_rest *rest = free_rests; rest; rest = rest->next)
		free_ones++;
	return n_used - free_ones;
}

static int set_up(void **state)
{
	(void)state;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	return close(epoll_fd) || kept() != 0;
}

static void questions_and_answers_pass_without_a_word_to_the_epoll_set(void **state)
{
	(void)state;
	struct line line;
	join(&line);
	for (int i = 0; i < 100; i++) {
		say(line.agent, "question");
		settle();
		hear(line.proxy, "question");
		say(line.proxy, "answer");
		settle();
		hear(line.agent, "answer");
	}
	assert_int_equal(changes, 0);
	part(&line);
}

static void each_half_ends_by_itself(void **state)
{
	(void)state;
	struct line line;
	join(&line);
	say(line.agent, "all of it");
	shutdown(line.agent, SHUT_WR);
	settle();
	hear(line.proxy, "all of it");
	hear(line.proxy, "");
	assert_int_equal(line.state, INIT_PAIR_GOES_ON);
	say(line.proxy, "late");
	settle();
	hear(line.agent, "late");
	shutdown(line.proxy, SHUT_WR);
	settle();
	assert_int_equal(line.state, INIT_PAIR_OVER);
	part(&line);
}

static void who_does_not_read_is_waited_for_and_nothing_is_lost(void **state)
{
	(void)state;
	for (int way = DOWN; way <= UP; way++) {
		struct line line;
		join(&line);
		int from = way == DOWN ? line.agent : line.proxy;
		int to = way == DOWN ? line.proxy : line.agent;
		fill(&line, from);
		assert_int_equal(kept(), 1);
		say(to, "the other way is open");
		settle();
		hear(from, "the other way is open");
		drain(&line, to);
		assert_int_equal(kept(), 0);
		part(&line);
	}
}

/* The last ones' bytes stay in the kernel. */
static void more_than_there_are_buffers_for_lose_nothing(void **state)
{
	(void)state;
	static struct line lines[MANY];
	for (size_t i = 0; i < MANY; i++) {
		join(&lines[i]);
		int little = 1;
		for (int which = DOWN; which <= UP; which++)
			setsockopt(lines[i].pair.side[which].fd, SOL_SOCKET, SO_SNDBUF, &little,
				   sizeof(little));
		setsockopt(lines[i].agent, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	}
	for (size_t i = 0; i < MANY; i++)
		fill(&lines[i], lines[i].agent);
	assert_int_equal(kept(), KH_LIMIT_INIT_RESTS);
	for (size_t i = MANY; i > 0; i--)
		drain(&lines[i - 1], lines[i - 1].proxy);
	for (size_t i = 0; i < MANY; i++)
		part(&lines[i]);
}

static void a_hang_up_beside_a_slow_reader_does_not_spin(void **state)
{
	(void)state;
	struct line line;
	join(&line);
	fill(&line, line.proxy);
	close(line.proxy);
	line.proxy = -1;
	settle();
	assert_int_equal(line.state, INIT_PAIR_GOES_ON);
	drain(&line, line.agent);
	hear(line.agent, "");
	part(&line);
}

static void an_early_answer_arrives_though_nobody_listens_any_more(void **state)
{
	(void)state;
	struct line line;
	join(&line);
	say(line.proxy, "enough");
	close(line.proxy);
	line.proxy = -1;
	say(line.agent, "more and more");
	settle();
	assert_true(line.pair.side[UP].deaf);
	hear(line.agent, "enough");
	hear(line.agent, "");
	say(line.agent, "and more");
	shutdown(line.agent, SHUT_WR);
	settle();
	assert_int_equal(line.state, INIT_PAIR_OVER);
	part(&line);
}

static void who_goes_on_sending_to_somebody_who_has_gone_is_told_where_either_may_go(void **state)
{
	(void)state;
	for (int either = 0; either < 2; either++) {
		struct line line;
		join(&line);
		line.pair.either_may_go = either;
		close(line.proxy);
		line.proxy = -1;
		settle();
		say(line.agent, "for nobody");
		settle();
		assert_int_equal(line.state, either ? INIT_PAIR_OVER : INIT_PAIR_GOES_ON);
		part(&line);
	}
}

static void nothing_is_kept_for_a_server_that_answered_and_went(void **state)
{
	(void)state;
	struct line line;
	join(&line);
	line.pair.either_may_go = true;
	say(line.agent, "an answer");
	close(line.agent);
	line.agent = -1;
	say(line.proxy, "a question");
	settle();
	hear(line.proxy, "an answer");
	assert_int_equal(line.state, INIT_PAIR_OVER);
	part(&line);
}

/* Return: the far end of the notice. */
static int join_with_notice(struct line *line)
{
	int notice[2], type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	join(line);
	assert_int_equal(socketpair(AF_UNIX, type, 0, notice), 0);
	line->pair.notice = notice[0];
	line->pair.either_may_go = true;
	return notice[1];
}

static bool is_notified(int far)
{
	char byte;
	return recv(far, &byte, 1, 0) == 1;
}

static void a_notice_comes_when_the_last_byte_has_been_given_on_and_not_before(void **state)
{
	(void)state;
	struct line line;
	int far = join_with_notice(&line);
	fill(&line, line.agent);
	shutdown(line.agent, SHUT_WR);
	settle();
	assert_false(is_notified(far));
	drain(&line, line.proxy);
	settle();
	assert_true(is_notified(far));
	hear(line.proxy, "");
	part(&line);
	close(far);
}

/* Of TCP, as the server's is: two ends. */
static void connect_tcp(int ends[2])
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ends[0], (struct sockaddr *)&addr, len), 0);
	ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(ends[1] >= 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	close(listener);
}

static void a_server_that_resets(bool is_written_to_before_it_is_read)
{
	const struct linger abort = { .l_onoff = 1, .l_linger = 0 };
	struct line line;
	int far = join_with_notice(&line), ends[2];
	connect_tcp(ends);
	close(line.pair.side[DOWN].fd);
	close(line.agent);
	line.agent = ends[1];
	line.pair.side[DOWN] =
		(struct init_side){ .fd = ends[0], .held = is_written_to_before_it_is_read };
	assert_true(init_pair_watch(&line.pair, DOWN, ready, &line));
	say(line.agent, "a part");
	assert_int_equal(setsockopt(line.agent, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort)), 0);
	close(line.agent);
	line.agent = -1;
	if (is_written_to_before_it_is_read) {
		say(line.proxy, "more");
		settle();
		line.pair.side[DOWN].held = false;
		assert_true(init_pair_watch_anew(&line.pair));
	}
	settle();
	hear(line.proxy, "a part");
	assert_int_equal(line.state,
			 is_written_to_before_it_is_read ? INIT_PAIR_OVER : INIT_PAIR_DOWN_BROKE);
	assert_false(is_notified(far));
	part(&line);
	close(far);
}

static void an_end_by_a_reset_has_no_notice(void **state)
{
	(void)state;
	a_server_that_resets(false);
	a_server_that_resets(true);
}

static void what_is_closed_or_in_doubt_has_no_notice(void **state)
{
	(void)state;
	struct line line;
	int far = join_with_notice(&line);
	line.pair.cut = true;
	say(line.agent, "a part");
	shutdown(line.agent, SHUT_WR);
	settle();
	hear(line.proxy, "a part");
	assert_false(is_notified(far));
	part(&line);
	close(far);
	far = join_with_notice(&line);
	say(line.agent, "a part");
	settle();
	init_pair_close(&line.pair);
	assert_false(is_notified(far));
	part(&line);
	close(far);
}

/* With something unread, the kernel tells the other end of it. */
static void who_broke_is_told(void **state)
{
	(void)state;
	for (int way = DOWN; way <= UP; way++) {
		struct line line;
		join(&line);
		say(line.proxy, "unread");
		say(line.agent, "unread");
		settle();
		int *broken = way == DOWN ? &line.agent : &line.proxy;
		close(*broken);
		*broken = -1;
		settle();
		assert_int_equal(line.state,
				 way == DOWN ? INIT_PAIR_DOWN_BROKE : INIT_PAIR_UP_BROKE);
		part(&line);
	}
}

static void what_is_held_waits(void **state)
{
	(void)state;
	struct line line;
	join(&line);
	line.pair.side[DOWN].held = true;
	assert_true(init_pair_watch_anew(&line.pair));
	say(line.agent, "early");
	settle();
	char byte;
	assert_int_equal(recv(line.proxy, &byte, 1, 0), -1);
	line.pair.side[DOWN].held = false;
	assert_true(init_pair_watch_anew(&line.pair));
	settle();
	hear(line.proxy, "early");
	part(&line);
}

static void what_is_closed_is_told_of_no_more_where_another_has_the_same_sockets(void **state)
{
	(void)state;
	struct line line;
	struct epoll_event event;
	join(&line);
	/* As the command has them before its exec, and the launcher what it handed in. */
	int others[2] = { dup(line.pair.side[DOWN].fd), dup(line.pair.side[UP].fd) };
	init_pair_close(&line.pair);
	say(line.agent, "x");
	say(line.proxy, "x");
	assert_int_equal(epoll_wait(epoll_fd, &event, 1, 0), 0);
	for (int i = 0; i < 2; i++)
		close(others[i]);
	part(&line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			questions_and_answers_pass_without_a_word_to_the_epoll_set, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(each_half_ends_by_itself, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_does_not_read_is_waited_for_and_nothing_is_lost,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(more_than_there_are_buffers_for_lose_nothing,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_hang_up_beside_a_slow_reader_does_not_spin,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			an_early_answer_arrives_though_nobody_listens_any_more, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_goes_on_sending_to_somebody_who_has_gone_is_told_where_either_may_go,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_is_kept_for_a_server_that_answered_and_went,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_notice_comes_when_the_last_byte_has_been_given_on_and_not_before, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(an_end_by_a_reset_has_no_notice, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_closed_or_in_doubt_has_no_notice, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(who_broke_is_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_held_waits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_is_closed_is_told_of_no_more_where_another_has_the_same_sockets,
			set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
