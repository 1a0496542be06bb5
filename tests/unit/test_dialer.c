/* test_dialer.c - connections: the guard at the last moment, and the first address that answers */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <event2/event.h>

#include <keyhole/base/clock.h>
#include <keyhole/net/dialer.h>

static struct event_base *base;
static struct kh_cidr loopback[2];

static int setup(void **state)
{
	(void)state;
	base = event_base_new();
	return kh_cidr_parse(&loopback[0], KH_SLICE("127.0.0.0/8"), NULL) &&
			       kh_cidr_parse(&loopback[1], KH_SLICE("::1"), NULL)
		       ? 0
		       : -1;
}

static int teardown(void **state)
{
	(void)state;
	event_base_free(base);
	return 0;
}

struct result {
	unsigned calls;
	int fd;
	struct kh_sockaddr peer;
	struct kh_err err;
	uint64_t at_ms;
};

static void on_dial(int fd, const struct kh_sockaddr *peer, const struct kh_err *err, void *arg)
{
	struct result *r = arg;
	r->calls++;
	r->fd = fd;
	r->at_ms = kh_clock_mono_ms();
	assert_int_equal(fd >= 0, err == NULL);
	if (fd >= 0)
		r->peer = *peer;
	else
		r->err = *err;
}

static void on_pause(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void turn_until(const unsigned *count, uint64_t ms)
{
	uint64_t until = kh_clock_mono_ms() + ms;
	while ((!count || *count < 1) && kh_clock_mono_ms() < until) {
		struct timeval pause = { .tv_usec = 5000 };
		struct event *timer = evtimer_new(base, on_pause, NULL);
		event_add(timer, &pause);
		event_base_loop(base, EVLOOP_ONCE);
		event_free(timer);
	}
}

static void add(struct kh_addresses *list, const char *text)
{
	assert_true(list->count < KH_LIMIT_ADDRESSES);
	if (!kh_sockaddr_parse(&list->list[list->count], kh_slice_str(text), 443, NULL))
		fail_msg("%s", text);
	list->count++;
}

static struct result dial(const struct kh_addresses *list, const struct kh_cidr *allow, size_t n,
			  uint32_t ms)
{
	struct result r = { .fd = -1 };
	struct kh_dial *d = kh_dial_start(base, list, allow, n, NULL, ms, on_dial, &r);
	assert_non_null(d);
	assert_int_equal(r.calls, 0); /* never from inside the call */
	turn_until(&r.calls, 10000);
	assert_int_equal(r.calls, 1);
	return r;
}

/* Listens on a loopback address; `port` 0: any, and says which. */
static int listen_on(const char *address, uint16_t *port, int backlog)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(*port) };
	socklen_t len = sizeof addr;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(inet_pton(AF_INET, address, &addr.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(listen(fd, backlog), 0);
	*port = ntohs(addr.sin_port);
	return fd;
}

static uint16_t free_port(void)
{
	uint16_t port = 0;
	close(listen_on("127.0.0.1", &port, 1));
	return port;
}

static void add_loopback(struct kh_addresses *list, const char *address, uint16_t port)
{
	char text[64];
	snprintf(text, sizeof text, "%s:%u", address, port);
	add(list, text);
}

static bool was_connected_to(int listener)
{
	int fd = accept(listener, NULL, NULL);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void test_a_connection_is_nonblocking_nodelay_kept_alive_and_closed_on_exec(void **state)
{
	uint16_t port = 0;
	int on = 0;
	socklen_t len = sizeof on;
	struct kh_addresses list = { 0 };
	char text[KH_SOCKADDR_TEXT_BYTES], wanted[64];
	(void)state;
	int listener = listen_on("127.0.0.1", &port, 8);
	add_loopback(&list, "127.0.0.1", port);
	struct result r = dial(&list, loopback, 2, 2000);
	if (r.fd < 0)
		fail_msg("%s", r.err.text);
	assert_int_equal(fcntl(r.fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fcntl(r.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(getsockopt(r.fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
	assert_true(on);
	on = 0;
	assert_int_equal(getsockopt(r.fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
	assert_true(on);
	kh_sockaddr_format(&r.peer, text);
	snprintf(wanted, sizeof wanted, "127.0.0.1:%u", port);
	assert_string_equal(text, wanted);
	assert_true(was_connected_to(listener));
	close(r.fd);
	close(listener);
}

/* The list says nothing about having been checked: whatever a name resolved to a moment ago, what
 * is dialled is judged. */
static void test_an_address_that_came_to_be_loopback_is_not_dialled(void **state)
{
	uint16_t port = 0;
	struct kh_addresses list = { 0 };
	struct kh_cidr other;
	(void)state;
	int listener = listen_on("127.0.0.1", &port, 8);
	add_loopback(&list, "127.0.0.1", port);
	struct result r = dial(&list, NULL, 0, 2000);
	assert_int_equal(r.err.code, KH_ERR_ADDRESS_PROHIBITED);
	assert_non_null(strstr(r.err.text, "loopback"));
	assert_non_null(strstr(r.err.text, "127.0.0.1:"));
	assert_false(was_connected_to(listener));
	/* An exception for something else opens nothing. */
	assert_true(kh_cidr_parse(&other, KH_SLICE("10.0.0.0/8"), NULL));
	r = dial(&list, &other, 1, 2000);
	assert_int_equal(r.err.code, KH_ERR_ADDRESS_PROHIBITED);
	assert_false(was_connected_to(listener));
	close(listener);
}

static void test_a_v4_mapped_loopback_is_not_dialled_either(void **state)
{
	uint16_t port = 0;
	struct kh_addresses list = { 0 };
	char text[64];
	(void)state;
	int listener = listen_on("127.0.0.1", &port, 8);
	snprintf(text, sizeof text, "[::ffff:127.0.0.1]:%u", port);
	add(&list, text);
	struct result r = dial(&list, NULL, 0, 2000);
	assert_int_equal(r.err.code, KH_ERR_ADDRESS_PROHIBITED);
	assert_false(was_connected_to(listener));
	close(listener);
}

static void test_in_a_mixed_list_only_what_may_be_dialled_is(void **state)
{
	uint16_t port = 0;
	struct kh_addresses list = { 0 };
	struct kh_cidr second;
	(void)state;
	int forbidden = listen_on("127.0.0.1", &port, 8);
	int allowed = listen_on("127.0.0.2", &port, 8);
	assert_true(kh_cidr_parse(&second, KH_SLICE("127.0.0.2"), NULL));
	add(&list, "169.254.169.254:80");
	add(&list, "[::1]:80");
	add_loopback(&list, "127.0.0.1", port);
	add_loopback(&list, "127.0.0.2", port);
	uint64_t start = kh_clock_mono_ms();
	struct result r = dial(&list, &second, 1, 2000);
	if (r.fd < 0)
		fail_msg("%s", r.err.text);
	assert_true(r.at_ms - start < 200); /* what is refused costs no pause */
	assert_false(was_connected_to(forbidden));
	assert_true(was_connected_to(allowed));
	close(r.fd);
	close(forbidden);
	close(allowed);
}

static void test_the_class_of_a_refusal_is_named(void **state)
{
	static const char *const pairs[][2] = {
		{ "169.254.169.254:80", "metadata" }, { "10.0.0.1:443", "private" },
		{ "100.64.0.1:443", "cgnat" },	      { "[fd00::1]:443", "unique_local" },
		{ "[fe80::1]:443", "link_local" },    { "0.0.0.0:443", "unspecified" },
		{ "224.0.0.1:443", "multicast" },     { "[64:ff9b::7f00:1]:443", "loopback" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		struct kh_addresses list = { 0 };
		add(&list, pairs[i][0]);
		struct result r = dial(&list, loopback, 1, 2000);
		assert_int_equal(r.err.code, KH_ERR_ADDRESS_PROHIBITED);
		if (!strstr(r.err.text, pairs[i][1]))
			fail_msg("%s", r.err.text);
	}
}

static void test_pinned_addresses_are_the_operators_word(void **state)
{
	uint16_t port = 0;
	struct kh_addresses list = { .pinned = true };
	(void)state;
	int listener = listen_on("127.0.0.1", &port, 8);
	add_loopback(&list, "127.0.0.1", port);
	struct result r = dial(&list, NULL, 0, 2000);
	assert_true(r.fd >= 0);
	assert_true(was_connected_to(listener));
	close(r.fd);
	close(listener);
}

static void test_a_refused_address_gives_way_to_the_next_at_once(void **state)
{
	uint16_t port = 0, dead = free_port();
	struct kh_addresses list = { 0 };
	(void)state;
	int listener = listen_on("127.0.0.1", &port, 8);
	add_loopback(&list, "127.0.0.1", dead);
	add_loopback(&list, "127.0.0.1", port);
	uint64_t start = kh_clock_mono_ms();
	struct result r = dial(&list, loopback, 1, 2000);
	assert_true(r.fd >= 0);
	assert_true(r.at_ms - start < 200);
	close(r.fd);
	close(listener);
}

/* A listener whose queue is full: what comes next is neither accepted nor refused. */
static int mute_listener(uint16_t *port, int *stuffing, size_t n)
{
	int fd = listen_on("127.0.0.1", port, 0);
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(*port) };
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (size_t i = 0; i < n; i++) {
		stuffing[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(stuffing[i], (struct sockaddr *)&addr, sizeof addr);
	}
	turn_until(NULL, 20);
	return fd;
}

static void test_a_mute_address_gives_way_to_the_next_after_a_quarter_second(void **state)
{
	uint16_t port = 0, mute = 0;
	struct kh_addresses list = { 0 };
	int stuffing[4];
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	int listener = listen_on("127.0.0.1", &port, 8);
	add_loopback(&list, "127.0.0.1", mute);
	add_loopback(&list, "127.0.0.1", port);
	uint64_t start = kh_clock_mono_ms();
	struct result r = dial(&list, loopback, 1, 4000);
	if (r.fd < 0)
		fail_msg("%s", r.err.text);
	assert_in_range(r.at_ms - start, 240, 900);
	assert_int_equal(ntohs(r.peer.v4.sin_port), port);
	close(r.fd);
	close(listener);
	close(silent);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

static void test_the_deadline_is_for_all_addresses_together(void **state)
{
	uint16_t mute = 0;
	struct kh_addresses list = { 0 };
	int stuffing[4];
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	for (int i = 0; i < 8; i++)
		add_loopback(&list, "127.0.0.1", mute);
	uint64_t start = kh_clock_mono_ms();
	struct result r = dial(&list, loopback, 1, 400);
	assert_int_equal(r.err.code, KH_ERR_CONNECT_TIMEOUT);
	assert_non_null(strstr(r.err.text, "within 400 ms"));
	assert_in_range(r.at_ms - start, 390, 1200);
	close(silent);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* What answers stands behind fifteen that do not: it is reached, and no crowd of sockets waits. */
static void test_few_of_many_mute_addresses_are_dialled_at_a_time(void **state)
{
	uint16_t port = 0, mute = 0;
	struct kh_addresses list = { 0 };
	struct result r = { .fd = -1 };
	int stuffing[4];
	unsigned most = 0;
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	int listener = listen_on("127.0.0.1", &port, 8);
	while (list.count < KH_LIMIT_ADDRESSES - 1)
		add_loopback(&list, "127.0.0.1", mute);
	add_loopback(&list, "127.0.0.1", port);
	unsigned before = count_descriptors();
	struct kh_dial *d = kh_dial_start(base, &list, loopback, 1, NULL, 10000, on_dial, &r);
	assert_non_null(d);
	for (int i = 0; i < 400 && !r.calls; i++) {
		turn_until(&r.calls, 25);
		unsigned now = count_descriptors() - before;
		most = now > most ? now : most;
	}
	assert_int_equal(r.calls, 1);
	if (r.fd < 0)
		fail_msg("%s", r.err.text);
	assert_int_equal(ntohs(r.peer.v4.sin_port), port);
	assert_int_equal(most, KH_LIMIT_DIAL_ATTEMPTS);
	close(r.fd);
	assert_int_equal(count_descriptors(), before);
	close(silent);
	close(listener);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

/* An answer after more than a second, to a SYN that was sent twice, still counts. */
static void test_an_attempt_outlives_a_lost_packet_before_it_gives_way(void **state)
{
	uint16_t mute = 0, late = 0;
	struct kh_addresses list = { 0 };
	struct result r = { .fd = -1 };
	int stuffing[4], late_stuffing[4];
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	int slow = mute_listener(&late, late_stuffing, 4);
	add_loopback(&list, "127.0.0.1", late);
	while (list.count < KH_LIMIT_ADDRESSES)
		add_loopback(&list, "127.0.0.1", mute);
	struct kh_dial *d = kh_dial_start(base, &list, loopback, 1, NULL, 10000, on_dial, &r);
	assert_non_null(d);
	turn_until(&r.calls, 300); /* its first SYN went nowhere */
	while (was_connected_to(slow))
		;
	for (int i = 0; i < 4; i++)
		close(late_stuffing[i]);
	turn_until(&r.calls, 1300);
	assert_int_equal(r.calls, 1);
	assert_int_equal(ntohs(r.peer.v4.sin_port), late);
	close(r.fd);
	close(slow);
	close(silent);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

static void test_failures_are_told_apart(void **state)
{
	struct kh_addresses list = { 0 }, none = { 0 };
	(void)state;
	add_loopback(&list, "127.0.0.1", free_port());
	struct result r = dial(&list, loopback, 1, 2000);
	assert_int_equal(r.err.code, KH_ERR_CONNECT_REFUSED);
	/* The most telling failure of a mixed list. */
	add(&list, "10.0.0.1:443");
	r = dial(&list, loopback, 1, 2000);
	assert_int_equal(r.err.code, KH_ERR_CONNECT_REFUSED);
	r = dial(&none, loopback, 1, 2000);
	assert_int_equal(r.err.code, KH_ERR_UNREACHABLE);
	/* The kernel itself has no way: port 0 of a broadcast address is no destination. */
	struct kh_cidr any;
	assert_true(kh_cidr_parse(&any, KH_SLICE("0.0.0.0/0"), NULL));
	struct kh_addresses nowhere = { 0 };
	add(&nowhere, "255.255.255.255:9");
	r = dial(&nowhere, &any, 1, 2000);
	assert_int_equal(r.err.code, KH_ERR_UNREACHABLE);
}

static void test_a_cancelled_dial_calls_nobody_and_leaves_no_descriptor(void **state)
{
	uint16_t port = 0, mute = 0;
	struct kh_addresses list = { 0 };
	struct result r = { .fd = -1 };
	int stuffing[4];
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	int listener = listen_on("127.0.0.1", &port, 8);
	int before = dup(0);
	close(before);
	add_loopback(&list, "127.0.0.1", mute);
	add_loopback(&list, "127.0.0.1", port);
	kh_dial_cancel(kh_dial_start(base, &list, loopback, 1, NULL, 2000, on_dial, &r));
	struct kh_dial *d = kh_dial_start(base, &list, loopback, 1, NULL, 2000, on_dial, &r);
	turn_until(NULL, 30); /* under way */
	kh_dial_cancel(d);
	turn_until(NULL, 400);
	assert_int_equal(r.calls, 0);
	int after = dup(0);
	close(after);
	assert_int_equal(after, before);
	close(silent);
	close(listener);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

/* ---- who pays ---- */

/* Two sandboxes of one tenant, and a tenant beside it. */
struct payers {
	struct kh_account *whole, *tenant, *other, *a, *b;
};

static struct payers make_payers(size_t most)
{
	struct payers p = { .whole = kh_account_new_whole() };
	kh_account_bound(p.whole, KH_RESOURCE_DESCRIPTORS, most);
	p.tenant = kh_account_new(p.whole);
	p.other = kh_account_new(p.whole);
	p.a = kh_account_new(p.tenant);
	p.b = kh_account_new(p.tenant);
	return p;
}

static void drop_payers(struct payers *p)
{
	assert_int_equal(kh_account_held(p->whole, KH_RESOURCE_DESCRIPTORS, 0), 0);
	kh_account_unref(p->a);
	kh_account_unref(p->b);
	kh_account_unref(p->other);
	kh_account_unref(p->tenant);
	kh_account_unref(p->whole);
}

static size_t paid(const struct kh_account *account)
{
	return kh_account_held(account, KH_RESOURCE_DESCRIPTORS, 0);
}

static void test_each_further_attempt_is_paid_for_and_given_back(void **state)
{
	uint16_t mute = 0;
	struct kh_addresses list = { 0 };
	struct result r = { .fd = -1 };
	int stuffing[4];
	struct payers p = make_payers(1000);
	size_t most = 0;
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	while (list.count < KH_LIMIT_ADDRESSES)
		add_loopback(&list, "127.0.0.1", mute);
	unsigned before = count_descriptors();
	struct kh_dial *d = kh_dial_start(base, &list, loopback, 1, NULL, 10000, on_dial, &r);
	kh_dial_charge(d, p.a);
	for (int i = 0; i < 80; i++) {
		turn_until(&r.calls, 25);
		unsigned now = count_descriptors() - before;
		assert_int_equal(paid(p.a), now > 0 ? now - 1 : 0);
		most = paid(p.a) > most ? paid(p.a) : most;
	}
	assert_int_equal(most, KH_LIMIT_DIAL_ATTEMPTS - 1);
	kh_dial_charge(d, p.b); /* whoever it is made for now */
	assert_int_equal(paid(p.a), 0);
	assert_int_equal(paid(p.b), count_descriptors() - before - 1);
	kh_dial_cancel(d);
	assert_int_equal(paid(p.b), 0);
	drop_payers(&p);
	close(silent);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

/* Without room for a second one, the addresses get their turn one after the other. */
static void test_a_dial_that_gets_no_further_descriptor_still_tries_all_addresses(void **state)
{
	uint16_t port = 0, mute = 0;
	struct kh_addresses list = { 0 };
	struct result r = { .fd = -1 };
	int stuffing[4];
	struct payers p = make_payers(100);
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	int listener = listen_on("127.0.0.1", &port, 8);
	add_loopback(&list, "127.0.0.1", mute);
	add_loopback(&list, "127.0.0.1", mute);
	add_loopback(&list, "127.0.0.1", port);
	kh_account_put(p.a, KH_RESOURCE_DESCRIPTORS, 60);
	unsigned before = count_descriptors();
	struct kh_dial *d = kh_dial_start(base, &list, loopback, 1, NULL, 10000, on_dial, &r);
	kh_dial_charge(d, p.a);
	for (int i = 0; i < 400 && !r.calls; i++) {
		turn_until(&r.calls, 25);
		assert_in_range(count_descriptors() - before, 0, 1);
		assert_int_equal(paid(p.a), 60);
	}
	assert_int_equal(r.calls, 1);
	if (r.fd < 0)
		fail_msg("%s", r.err.text);
	assert_int_equal(ntohs(r.peer.v4.sin_port), port);
	close(r.fd);
	kh_account_give(p.a, KH_RESOURCE_DESCRIPTORS, 60);
	drop_payers(&p);
	close(silent);
	close(listener);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

static void test_attempts_end_that_the_next_payer_has_no_room_for(void **state)
{
	uint16_t mute = 0;
	struct kh_addresses list = { 0 };
	struct result r = { .fd = -1 };
	int stuffing[4];
	struct payers p = make_payers(100);
	(void)state;
	int silent = mute_listener(&mute, stuffing, 4);
	while (list.count < KH_LIMIT_ADDRESSES)
		add_loopback(&list, "127.0.0.1", mute);
	unsigned before = count_descriptors();
	struct kh_dial *d = kh_dial_start(base, &list, loopback, 1, NULL, 10000, on_dial, &r);
	kh_dial_charge(d, p.a);
	turn_until(&r.calls, 1000);
	assert_int_equal(paid(p.a), KH_LIMIT_DIAL_ATTEMPTS - 1);
	kh_account_put(p.b, KH_RESOURCE_DESCRIPTORS, 60);
	kh_dial_charge(d, p.b);
	assert_int_equal(paid(p.a), 0);
	assert_int_equal(paid(p.b), 60);
	assert_int_equal(count_descriptors() - before, 1);
	kh_dial_cancel(d);
	kh_account_give(p.b, KH_RESOURCE_DESCRIPTORS, 60);
	drop_payers(&p);
	close(silent);
	for (int i = 0; i < 4; i++)
		close(stuffing[i]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_connection_is_nonblocking_nodelay_kept_alive_and_closed_on_exec),
		T(test_an_address_that_came_to_be_loopback_is_not_dialled),
		T(test_a_v4_mapped_loopback_is_not_dialled_either),
		T(test_in_a_mixed_list_only_what_may_be_dialled_is),
		T(test_the_class_of_a_refusal_is_named),
		T(test_pinned_addresses_are_the_operators_word),
		T(test_a_refused_address_gives_way_to_the_next_at_once),
		T(test_a_mute_address_gives_way_to_the_next_after_a_quarter_second),
		T(test_the_deadline_is_for_all_addresses_together),
		T(test_few_of_many_mute_addresses_are_dialled_at_a_time),
		T(test_an_attempt_outlives_a_lost_packet_before_it_gives_way),
		T(test_failures_are_told_apart),
		T(test_a_cancelled_dial_calls_nobody_and_leaves_no_descriptor),
		T(test_each_further_attempt_is_paid_for_and_given_back),
		T(test_a_dial_that_gets_no_further_descriptor_still_tries_all_addresses),
		T(test_attempts_end_that_the_next_payer_has_no_room_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
