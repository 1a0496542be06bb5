/* test_connector.c - the way to a server, straight or by CONNECT, to a far end played here */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include <keyhole/base/clock.h>
#include <keyhole/upstream/connector.h>

enum { PATIENCE_MS = 5000 };

static struct {
	struct event_base *base;
	struct kh_resolver *resolver;
	struct kh_config *config;
	int listener;
	uint16_t port;
} world;

/* What one connector was asked, and told. */
static struct {
	struct kh_connector *c;
	struct kh_leg leg;
	struct kh_buf in;
	int far;
	bool denies, open; /* the rules; loopback may be connected to */
	enum kh_connector_password password;
	unsigned asked, connected, failed, refused, settled;
	struct kh_err err;
} one;

static struct kh_cidr loopback;

static const struct kh_cidr *allowed(void *arg, size_t *n)
{
	(void)arg;
	*n = one.open ? 1 : 0;
	return &loopback;
}

static bool may_go_to(void *arg, const struct kh_sockaddr *addr, struct kh_err *err)
{
	(void)arg;
	(void)addr;
	return !one.denies || kh_err_set(err, KH_ERR_DENIED_BY_RULE, "a rule denies it");
}

static void settled(void *arg, const struct kh_sockaddr *addr)
{
	(void)arg;
	(void)addr;
	one.settled++;
}

static enum kh_connector_password password(void *arg, struct kh_err *err)
{
	(void)arg;
	(void)err;
	one.asked++;
	return one.password;
}

static bool put_authorization(void *arg, struct kh_buf *out, struct kh_err *err)
{
	(void)arg;
	(void)err;
	return kh_buf_append_str(out, "Proxy-Authorization: Basic eA==\r\n");
}

/* It is freed where it may be. */
static void over(void)
{
	kh_connector_free(one.c);
	one.c = NULL;
}

static void connected(void *arg)
{
	(void)arg;
	one.connected++;
	over();
}

static void failed(void *arg, const struct kh_err *err)
{
	(void)arg;
	one.failed++;
	one.err = *err;
	over();
}

static void refused(void *arg, const struct kh_err *err)
{
	one.refused++;
	failed(arg, err);
}

static void on_stream(struct kh_stream *stream, unsigned events, void *arg)
{
	(void)stream;
	(void)events;
	(void)arg;
}

static const struct kh_connector_ops ops = {
	.allowed = allowed,
	.may_go_to = may_go_to,
	.settled = settled,
	.password = password,
	.put_authorization = put_authorization,
	.connected = connected,
	.refused = refused,
	.failed = failed,
};

static int setup_world(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	world.base = event_base_new();
	world.config = kh_config_parse(
		"test",
		KH_SLICE("version: 1\n"
			 "listen: [ { unix: /nowhere/s, tenant: t } ]\n"
			 "tenants: { t: { rules: [ { allow: \"https://a.example\" } ] } }\n"),
		NULL, "/nowhere", &diags);
	kh_diagnostics_fini(&diags);
	if (!world.config || !kh_cidr_parse(&loopback, KH_SLICE("127.0.0.0/8"), NULL))
		return -1;
	world.resolver =
		kh_resolver_new(world.base, world.config, KH_SLICE(""), KH_SLICE(""), &err);
	world.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (!world.resolver || bind(world.listener, (struct sockaddr *)&addr, len) < 0 ||
	    listen(world.listener, 4) < 0 ||
	    getsockname(world.listener, (struct sockaddr *)&addr, &len) < 0)
		return -1;
	world.port = ntohs(addr.sin_port);
	return 0;
}

static int teardown_world(void **state)
{
	(void)state;
	close(world.listener);
	kh_resolver_free(world.resolver);
	kh_config_free(world.config);
	event_base_free(world.base);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	memset(&one, 0, sizeof(one));
	kh_leg_init(&one.leg, true);
	kh_buf_init(&one.in, 64 * 1024);
	one.far = -1;
	one.open = true;
	one.password = KH_CONNECTOR_GO_ON;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	over();
	kh_leg_fini(&one.leg);
	kh_buf_fini(&one.in);
	if (one.far >= 0)
		close(one.far);
	return 0;
}

static void turn(void)
{
	struct timeval pause = { .tv_usec = 2000 };

	event_base_loopexit(world.base, &pause);
	event_base_loop(world.base, EVLOOP_ONCE);
	if (one.far < 0)
		one.far = accept4(world.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* `proxy` NULL: straight to the target. Return: what begin says. */
static bool begin(const char *target, const struct kh_proxy_config *proxy, bool may_speak_first)
{
	struct kh_connector_way way = {
		.ops = &ops,
		.base = world.base,
		.resolver = world.resolver,
		.proxy = proxy,
		.resolve_ms = PATIENCE_MS,
		.connect_ms = PATIENCE_MS,
		.leg = &one.leg,
		.in = &one.in,
		.on_stream = on_stream,
		.may_speak_first = may_speak_first,
	};

	assert_true(kh_authority_parse(&way.target, kh_slice_str(target), world.port, &one.err));
	one.c = kh_connector_new(&way);
	assert_non_null(one.c);
	return kh_connector_begin(one.c, NULL, &one.err);
}

static struct kh_proxy_config proxy_here(void)
{
	struct kh_proxy_config proxy = { .port = world.port };

	assert_true(kh_host_parse(&proxy.host, KH_SLICE("127.0.0.1"), NULL));
	return proxy;
}

/* Until the proxy has the whole head. */
static void read_connect(char *head, size_t size)
{
	uint64_t until = kh_clock_mono_ms() + PATIENCE_MS;
	size_t len = 0;

	head[0] = '\0';
	while (!strstr(head, "\r\n\r\n") && kh_clock_mono_ms() < until) {
		turn();
		ssize_t got = one.far < 0 ? -1 : read(one.far, head + len, size - 1 - len);
		len += got > 0 ? (size_t)got : 0;
		head[len] = '\0';
	}
}

static void answer(const char *text)
{
	uint64_t until = kh_clock_mono_ms() + PATIENCE_MS;

	assert_int_equal(write(one.far, text, strlen(text)), strlen(text));
	while (one.c && kh_clock_mono_ms() < until)
		turn();
}

static void wait_for_end(void)
{
	uint64_t until = kh_clock_mono_ms() + PATIENCE_MS;

	while (one.c && kh_clock_mono_ms() < until)
		turn();
}

static void it_goes_straight_to_where_no_proxy_is(void **state)
{
	(void)state;
	assert_true(begin("127.0.0.1", NULL, false));
	wait_for_end();
	assert_int_equal(one.connected, 1);
	assert_int_equal(one.settled, 1);
	assert_non_null(one.leg.stream);
	assert_int_equal(one.asked, 0);
}

static void what_the_guard_forbids_is_not_dialled(void **state)
{
	(void)state;
	one.open = false;
	assert_true(begin("127.0.0.1", NULL, false));
	wait_for_end();
	assert_int_equal(one.failed, 1);
	assert_int_equal(one.err.code, KH_ERR_ADDRESS_PROHIBITED);
	assert_null(one.leg.stream);
}

static void what_the_rules_deny_is_refused_and_not_dialled(void **state)
{
	(void)state;
	one.denies = true;
	assert_true(begin("127.0.0.1", NULL, false));
	wait_for_end();
	assert_int_equal(one.refused, 1);
	assert_int_equal(one.err.code, KH_ERR_DENIED_BY_RULE);
	assert_int_equal(one.settled, 0);
	assert_null(one.leg.stream);
}

static void a_proxy_is_asked_for_the_target_by_name(void **state)
{
	const struct kh_proxy_config proxy = proxy_here();
	char head[512];

	(void)state;
	assert_true(begin("a.example:443", &proxy, false));
	read_connect(head, sizeof(head));
	assert_string_equal(head, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n"
				  "Proxy-Authorization: Basic eA==\r\n\r\n");
	assert_int_equal(one.connected, 0);
	answer("HTTP/1.1 200 OK\r\n\r\n");
	assert_int_equal(one.connected, 1);
	assert_int_equal(kh_buf_len(&one.in), 0);
}

/* The proxy would go anywhere. */
static void an_address_is_judged_though_a_proxy_goes_there(void **state)
{
	const struct kh_proxy_config proxy = proxy_here();

	(void)state;
	one.open = false;
	assert_false(begin("169.254.169.254:80", &proxy, false));
	assert_int_equal(one.err.code, KH_ERR_ADDRESS_PROHIBITED);
	assert_int_equal(one.failed, 0); /* it has not begun */
}

static void nothing_is_dialled_before_the_password_is_there(void **state)
{
	const struct kh_proxy_config proxy = proxy_here();
	char head[512];

	(void)state;
	one.password = KH_CONNECTOR_WAIT;
	assert_true(begin("a.example:443", &proxy, false));
	assert_true(kh_connector_waits_for_password(one.c));
	for (int i = 0; i < 10; i++)
		turn();
	assert_int_equal(one.far, -1);
	one.password = KH_CONNECTOR_GO_ON;
	kh_connector_go_on(one.c);
	assert_int_equal(one.asked, 2);
	read_connect(head, sizeof(head));
	assert_non_null(strstr(head, "CONNECT a.example:443"));
}

static void another_answer_is_a_failure_that_names_it(void **state)
{
	const struct kh_proxy_config proxy = proxy_here();
	char head[512];

	(void)state;
	assert_true(begin("a.example:443", &proxy, false));
	read_connect(head, sizeof(head));
	answer("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(one.failed, 1);
	assert_int_equal(one.err.code, KH_ERR_UP_PROXY);
	assert_non_null(strstr(one.err.text, "answered CONNECT with 407"));
}

/* They would be taken for the server's words. */
static void bytes_behind_the_answer_are_a_failure(void **state)
{
	const struct kh_proxy_config proxy = proxy_here();
	char head[512];

	(void)state;
	assert_true(begin("a.example:443", &proxy, false));
	read_connect(head, sizeof(head));
	answer("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n");
	assert_int_equal(one.failed, 1);
	assert_int_equal(one.connected, 0);
}

static void a_server_that_speaks_first_may_have_done_so(void **state)
{
	const struct kh_proxy_config proxy = proxy_here();
	char head[512];

	(void)state;
	assert_true(begin("a.example:22", &proxy, true));
	read_connect(head, sizeof(head));
	answer("HTTP/1.1 200 OK\r\n\r\n");
	assert_int_equal(one.connected, 1);
}

static void an_end_without_an_answer_is_a_failure(void **state)
{
	const struct kh_proxy_config proxy = proxy_here();
	char head[512];

	(void)state;
	assert_true(begin("a.example:443", &proxy, false));
	read_connect(head, sizeof(head));
	close(one.far);
	one.far = -1;
	wait_for_end();
	assert_int_equal(one.failed, 1);
	assert_int_equal(one.err.code, KH_ERR_UP_CLOSED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(it_goes_straight_to_where_no_proxy_is),
		CASE(what_the_guard_forbids_is_not_dialled),
		CASE(what_the_rules_deny_is_refused_and_not_dialled),
		CASE(a_proxy_is_asked_for_the_target_by_name),
		CASE(an_address_is_judged_though_a_proxy_goes_there),
		CASE(nothing_is_dialled_before_the_password_is_there),
		CASE(another_answer_is_a_failure_that_names_it),
		CASE(bytes_behind_the_answer_are_a_failure),
		CASE(a_server_that_speaks_first_may_have_done_so),
		CASE(an_end_without_an_answer_is_a_failure),
	};
	return cmocka_run_group_tests(tests, setup_world, teardown_world);
}
