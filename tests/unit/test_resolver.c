/* test_resolver.c - names to addresses, against a nameserver of the test's own */
#include "dns_server.h"

#include <signal.h>
#include <sys/wait.h>

#include <seccomp.h>

#include <keyhole/clock.h>
#include <keyhole/resolver.h>
#include <net/net_internal.h>

static const struct record records[] = {
	{ "both.test", RR_A, "192.0.2.1 192.0.2.2", 30, 0, 0, 0, NULL, 0, 0 },
	{ "both.test", RR_AAAA, "2001:db8::1 2001:db8::2 2001:db8::3", 30, 0, 0, 0, NULL, 0, 0 },
	{ "four.test", RR_A, "192.0.2.4", 30, 0, 0, 0, NULL, 0, 0 },
	{ "four.test", RR_AAAA, "", 30, 0, 0, 0, NULL, 0, 0 },
	{ "alias.test", RR_A, "192.0.2.5", 30, 0, 0, 0, "real.test", 0, 0 },
	{ "alias.test", RR_AAAA, "2001:db8::5", 30, 0, 0, 0, "real.test", 0, 0 },
	{ "empty.test", RR_A, "", 30, 0, 0, 0, NULL, 0, 0 },
	{ "empty.test", RR_AAAA, "", 30, 0, 0, 0, NULL, 0, 0 },
	{ "broken.test", RR_A, "", 30, 2, 0, 0, NULL, 0, 0 },
	{ "broken.test", RR_AAAA, "", 30, 2, 0, 0, NULL, 0, 0 },
	{ "half.test", RR_A, "192.0.2.6", 30, 0, 0, 0, NULL, 0, 0 },
	{ "half.test", RR_AAAA, "", 30, 2, 0, 0, NULL, 0, 0 },
	{ "mute6.test", RR_A, "192.0.2.7", 30, 0, 0, 0, NULL, 0, 0 },
	{ "mute6.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
	{ "mute.test", RR_A, "", 30, 0, true, 0, NULL, 0, 0 },
	{ "mute.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
	{ "large.test", RR_A, "", 30, 0, 0, true, NULL, 100, 0 },
	{ "large.test", RR_AAAA, "", 30, 0, 0, 0, NULL, 0, 0 },
	{ "brief.test", RR_A, "192.0.2.8", 1, 0, 0, 0, NULL, 0, 0 },
	{ "brief.test", RR_AAAA, "", 1, 0, 0, 0, NULL, 0, 0 },
	{ "once.test", RR_A, "192.0.2.9", 0, 0, 0, 0, NULL, 0, 0 },
	{ "once.test", RR_AAAA, "", 0, 0, 0, 0, NULL, 0, 0 },
	{ "spoof.test", RR_A, "192.0.2.66", 30, 0, 0, 0, NULL, 0, true },
	{ "spoof.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
};

static struct event_base *base;
static struct dns_server dns;
static struct kh_config config;
static struct kh_resolver *resolver;

static struct kh_host host_of(const char *text)
{
	struct kh_host host;
	assert_true(kh_host_parse(&host, kh_slice_str(text), NULL));
	return host;
}

static const char hosts_text[] = "127.0.0.1 localhost\n"
				 "# 192.0.2.99 commented.test\n"
				 "192.0.2.10\tstatic.test Static2.TEST # behind\n"
				 "2001:db8::10 static.test\n"
				 "nonsense static3.test\n"
				 "192.0.2.12";

static void make_resolver(const char *resolv_conf)
{
	struct kh_err err = KH_ERR_INIT;
	resolver = kh_resolver_new(base, &config, kh_slice_str(resolv_conf),
				   kh_slice_str(hosts_text), &err);
	if (!resolver)
		fail_msg("%s", err.text);
}

static int setup(void **state)
{
	static struct kh_sockaddr server;
	char text[64];
	(void)state;
	base = event_base_new();
	dns_start(&dns, base, records, sizeof records / sizeof records[0]);
	snprintf(text, sizeof text, "127.0.0.1:%u", dns.port);
	config = (struct kh_config){ .nameservers = &server, .n_nameservers = 1 };
	if (!kh_sockaddr_parse(&server, kh_slice_str(text), 53, NULL))
		return -1;
	make_resolver("search corp.example\noptions timeout:1 attempts:1\n");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kh_resolver_free(resolver);
	dns_stop(&dns);
	event_base_free(base);
	return 0;
}

struct result {
	unsigned calls;
	struct kh_addresses addresses;
	struct kh_err err;
	uint64_t at_ms;
};

static void on_result(const struct kh_addresses *addresses, const struct kh_err *err, void *arg)
{
	struct result *r = arg;
	r->calls++;
	r->at_ms = kh_clock_mono_ms();
	assert_int_equal(addresses != NULL, err == NULL);
	if (addresses)
		r->addresses = *addresses;
	else
		r->err = *err;
}

static void on_pause(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void turn_until(const unsigned *count, unsigned wanted, uint64_t ms)
{
	uint64_t until = kh_clock_mono_ms() + ms;
	while ((!count || *count < wanted) && kh_clock_mono_ms() < until) {
		struct timeval pause = { .tv_usec = 5000 };
		struct event *timer = evtimer_new(base, on_pause, NULL);
		event_add(timer, &pause);
		event_base_loop(base, EVLOOP_ONCE);
		event_free(timer);
	}
}

static struct result resolve(const char *name, uint16_t port)
{
	struct result r = { 0 };
	struct kh_host host = host_of(name);
	struct kh_lookup *lookup = kh_resolver_lookup(resolver, &host, port, 3000, on_result, &r);
	assert_non_null(lookup);
	assert_int_equal(r.calls, 0); /* never from inside the call */
	turn_until(&r.calls, 1, 6000);
	assert_int_equal(r.calls, 1);
	return r;
}

/* "a b c" in the order of the list. */
static void expect(const struct result *r, const char *wanted)
{
	char all[1024] = "";
	if (r->err.code)
		fail_msg("%s", r->err.text);
	for (size_t i = 0; i < r->addresses.count; i++) {
		char one[KH_SOCKADDR_TEXT_BYTES];
		kh_sockaddr_format(&r->addresses.list[i], one);
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", one);
	}
	assert_string_equal(all, wanted);
}

static void test_both_families_come_interleaved_with_the_port(void **state)
{
	(void)state;
	struct result r = resolve("both.test", 8443);
	expect(&r, "[2001:db8::1]:8443 192.0.2.1:8443 [2001:db8::2]:8443 192.0.2.2:8443 "
		   "[2001:db8::3]:8443");
	assert_false(r.addresses.pinned);
	assert_int_equal(dns.edns, dns.questions);
}

static void test_one_family_alone_is_fine(void **state)
{
	(void)state;
	struct result r = resolve("four.test", 443);
	expect(&r, "192.0.2.4:443");
	r = resolve("half.test", 443); /* AAAA fails, A does not */
	expect(&r, "192.0.2.6:443");
}

static void test_a_cname_leads_to_addresses(void **state)
{
	(void)state;
	struct result r = resolve("alias.test", 443);
	expect(&r, "[2001:db8::5]:443 192.0.2.5:443");
}

static void test_failures_are_told_apart(void **state)
{
	(void)state;
	struct result r = resolve("nowhere.test", 443);
	assert_int_equal(r.err.code, KH_ERR_NAME_NOT_FOUND);
	assert_string_equal(r.err.text, "nowhere.test: there is no such name");
	r = resolve("empty.test", 443);
	assert_int_equal(r.err.code, KH_ERR_NAME_NOT_FOUND);
	assert_string_equal(r.err.text, "empty.test: the name has no address");
	r = resolve("broken.test", 443);
	assert_int_equal(r.err.code, KH_ERR_DNS_ERROR);
	r = resolve("mute.test", 443);
	assert_int_equal(r.err.code, KH_ERR_DNS_TIMEOUT);
}

static void test_no_search_domain_is_ever_appended(void **state)
{
	(void)state;
	(void)resolve("nowhere.test", 443);
	(void)resolve("single", 443);
	assert_null(strstr(dns.names, "corp.example"));
	assert_non_null(strstr(dns.names, "single "));
}

static void test_a_truncated_answer_is_asked_for_again_over_tcp(void **state)
{
	(void)state;
	struct result r = resolve("large.test", 443);
	assert_int_equal(r.err.code, KH_ERR_NONE);
	assert_int_equal(r.addresses.count, KH_LIMIT_ADDRESSES);
	assert_int_equal(dns.over_tcp, 1);
}

static void test_a_mute_second_family_costs_no_more_than_a_moment(void **state)
{
	(void)state;
	uint64_t start = kh_clock_mono_ms();
	struct result r = resolve("mute6.test", 443);
	expect(&r, "192.0.2.7:443");
	assert_in_range(r.at_ms - start, 30, 700);
	/* Asked again while the other family is still open: the same answer, no new question. */
	unsigned asked = dns.questions;
	start = kh_clock_mono_ms();
	r = resolve("mute6.test", 443);
	expect(&r, "192.0.2.7:443");
	assert_true(r.at_ms - start < 700);
	assert_int_equal(dns.questions, asked);
}

static void test_the_deadline_of_a_lookup_counts(void **state)
{
	struct result r = { 0 };
	struct kh_host host = host_of("mute.test");
	(void)state;
	uint64_t start = kh_clock_mono_ms();
	assert_non_null(kh_resolver_lookup(resolver, &host, 443, 60, on_result, &r));
	turn_until(&r.calls, 1, 3000);
	assert_int_equal(r.err.code, KH_ERR_DNS_TIMEOUT);
	assert_non_null(strstr(r.err.text, "within 60 ms"));
	assert_in_range(r.at_ms - start, 50, 500);
	turn_until(NULL, 0, 1500); /* the late failure reaches nobody */
	assert_int_equal(r.calls, 1);
}

static void test_answers_are_kept_for_their_ttl_and_failures_for_a_second(void **state)
{
	(void)state;
	struct result r = resolve("brief.test", 443);
	unsigned asked = dns.questions;
	r = resolve("brief.test", 80);
	expect(&r, "192.0.2.8:80"); /* the port is the lookup's, not the cache's */
	assert_int_equal(dns.questions, asked);
	(void)resolve("nowhere.test", 443);
	asked = dns.questions;
	(void)resolve("nowhere.test", 443);
	assert_int_equal(dns.questions, asked);
	turn_until(NULL, 0, 1100);
	(void)resolve("brief.test", 443);
	assert_int_equal(dns.questions, asked + 2);
	(void)resolve("nowhere.test", 443);
	assert_int_equal(dns.questions, asked + 4);
	/* TTL 0: not at all. */
	(void)resolve("once.test", 443);
	asked = dns.questions;
	(void)resolve("once.test", 443);
	assert_int_equal(dns.questions, asked + 2);
}

static void test_lookups_of_one_name_share_one_question(void **state)
{
	enum { MANY = 50 };
	static struct result results[MANY];
	struct kh_host host = host_of("both.test");
	(void)state;
	memset(results, 0, sizeof results);
	for (int i = 0; i < MANY; i++)
		assert_non_null(
			kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &results[i]));
	for (int i = 0; i < MANY; i++)
		turn_until(&results[i].calls, 1, 3000);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(results[i].calls, 1);
		assert_int_equal(results[i].addresses.count, 5);
	}
	assert_int_equal(dns.questions, 2);
}

static void test_the_number_of_lookups_is_bounded(void **state)
{
	static struct kh_lookup *lookups[KH_LIMIT_RESOLVES];
	struct kh_host host = host_of("mute.test");
	struct result r = { 0 };
	(void)state;
	for (int i = 0; i < KH_LIMIT_RESOLVES; i++) {
		lookups[i] = kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r);
		assert_non_null(lookups[i]);
	}
	assert_null(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r));
	for (int i = 0; i < KH_LIMIT_RESOLVES; i++)
		kh_lookup_cancel(lookups[i]);
	assert_int_equal(r.calls, 0);
	kh_lookup_cancel(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r));
}

static void test_a_cancelled_lookup_is_never_answered(void **state)
{
	struct result gone = { 0 }, stays = { 0 };
	struct kh_host host = host_of("both.test"), literal = host_of("192.0.2.77");
	(void)state;
	struct kh_lookup *first = kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &gone);
	assert_non_null(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &stays));
	struct kh_lookup *ready =
		kh_resolver_lookup(resolver, &literal, 443, 3000, on_result, &gone);
	kh_lookup_cancel(first);
	kh_lookup_cancel(ready);
	turn_until(&stays.calls, 1, 3000);
	turn_until(NULL, 0, 50);
	assert_int_equal(gone.calls, 0);
	assert_int_equal(stays.calls, 1);
}

static void test_literals_pins_and_the_hosts_file_ask_nobody(void **state)
{
	struct kh_pin pins[2] = { { .host = host_of("api.example.com") },
				  { .host = host_of("192.0.2.200") } };
	(void)state;
	assert_true(kh_sockaddr_parse(&pins[0].addr, KH_SLICE("127.0.0.1:9443"), 0, NULL));
	assert_true(kh_sockaddr_parse(&pins[1].addr, KH_SLICE("[::1]:9444"), 0, NULL));
	struct kh_config pinned = config;
	pinned.pins = pins;
	pinned.n_pins = 2;
	kh_resolver_configure(resolver, &pinned);
	struct result r = resolve("api.example.com", 443);
	expect(&r, "127.0.0.1:9443");
	assert_true(r.addresses.pinned);
	r = resolve("192.0.2.200", 443);
	expect(&r, "[::1]:9444");
	assert_true(r.addresses.pinned);
	r = resolve("192.0.2.201", 443);
	expect(&r, "192.0.2.201:443");
	assert_false(r.addresses.pinned);
	r = resolve("2001:db8::7", 443);
	expect(&r, "[2001:db8::7]:443");
	r = resolve("static.test", 443);
	expect(&r, "[2001:db8::10]:443 192.0.2.10:443");
	r = resolve("static2.test", 443);
	expect(&r, "192.0.2.10:443");
	r = resolve("localhost", 443);
	expect(&r, "127.0.0.1:443");
	r = resolve("x.localhost", 443);
	expect(&r, "[::1]:443 127.0.0.1:443");
	assert_int_equal(dns.questions, 0);
	(void)resolve("commented.test", 443);
	(void)resolve("static3.test", 443);
	assert_int_equal(dns.questions, 4);
	kh_resolver_configure(resolver, &config);
}

static void test_an_answer_to_another_question_is_not_taken(void **state)
{
	(void)state;
	struct result r = resolve("spoof.test", 443);
	assert_int_not_equal(r.err.code, KH_ERR_NONE);
}

static void test_a_nameserver_that_is_not_there_is_an_error_and_not_a_wait(void **state)
{
	struct kh_sockaddr nobody;
	struct kh_config other = config;
	(void)state;
	/* A port that was free a moment ago. */
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof addr;
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	close(fd);
	nobody = (struct kh_sockaddr){ .v4 = addr, .len = sizeof addr };
	other.nameservers = &nobody;
	kh_resolver_configure(resolver, &other);
	struct result r = resolve("both.test", 443);
	if (r.err.code != KH_ERR_DNS_ERROR)
		fail_msg("%s", r.err.text);
	/* And back again: the servers follow the configuration. */
	kh_resolver_configure(resolver, &config);
	r = resolve("both.test", 443);
	assert_int_equal(r.addresses.count, 5);
}

static void test_a_reload_asks_the_new_nameservers_what_is_open(void **state)
{
	static const struct record mute[] = {
		{ "both.test", RR_A, "", 30, 0, true, 0, NULL, 0, 0 },
		{ "both.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
	};
	struct dns_server old;
	struct kh_sockaddr server;
	struct kh_config other = config;
	struct result r = { 0 };
	struct kh_host host = host_of("both.test");
	char text[64];
	(void)state;
	dns_start(&old, base, mute, 2);
	snprintf(text, sizeof text, "127.0.0.1:%u", old.port);
	assert_true(kh_sockaddr_parse(&server, kh_slice_str(text), 53, NULL));
	other.nameservers = &server;
	kh_resolver_configure(resolver, &other);
	assert_non_null(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r));
	turn_until(&old.questions, 2, 1000);
	assert_int_equal(r.calls, 0);
	kh_resolver_configure(resolver, &config);
	turn_until(&r.calls, 1, 500);
	assert_int_equal(r.calls, 1);
	assert_int_equal(r.addresses.count, 5);
	dns_stop(&old);
}

/* As the worker is locked in: an open(2) of any kind would end the process. */
static void test_nothing_is_opened_once_the_resolver_is_made(void **state)
{
	static const char *const names[] = { "both.test",  "nowhere.test", "broken.test",
					     "large.test", "mute6.test",   "static.test",
					     "localhost",  "single",	   "192.0.2.1" };
	int status = 0;
	(void)state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
		const int calls[] = { SCMP_SYS(open),	SCMP_SYS(openat), SCMP_SYS(openat2),
				      SCMP_SYS(creat),	SCMP_SYS(stat),	  SCMP_SYS(newfstatat),
				      SCMP_SYS(access), SCMP_SYS(execve) };
		event_reinit(base);
		for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
			(void)seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, calls[i], 0);
		if (seccomp_load(filter) < 0)
			_exit(1);
		for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
			struct result r = { 0 };
			struct kh_host host;
			if (!kh_host_parse(&host, kh_slice_str(names[i]), NULL) ||
			    !kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r))
				_exit(2);
			turn_until(&r.calls, 1, 6000);
			if (r.calls != 1 || (i == 0 && r.addresses.count != 5))
				_exit(3);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		fail_msg("killed by signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void on_result_free(const struct kh_addresses *addresses, const struct kh_err *err,
			   void *arg)
{
	(void)addresses;
	(void)err;
	++*(unsigned *)arg;
	kh_resolver_free(resolver);
	resolver = NULL;
}

static void test_the_resolver_may_be_freed_under_its_lookups(void **state)
{
	struct kh_host mute = host_of("mute.test"), literal = host_of("192.0.2.1");
	struct result r = { 0 };
	unsigned calls = 0;
	(void)state;
	assert_non_null(kh_resolver_lookup(resolver, &mute, 443, 3000, on_result, &r));
	assert_non_null(kh_resolver_lookup(resolver, &literal, 443, 3000, on_result_free, &calls));
	assert_non_null(kh_resolver_lookup(resolver, &literal, 443, 3000, on_result, &r));
	turn_until(&calls, 1, 1000);
	assert_int_equal(calls, 1);
	assert_null(resolver);
	turn_until(NULL, 0, 50);
	assert_int_equal(r.calls, 0);
}

/* ---- the texts ---- */

static void test_resolv_conf_is_read_as_it_is_written(void **state)
{
	struct kh_resolv_conf conf;
	char text[KH_SOCKADDR_TEXT_BYTES];
	(void)state;
	kh_resolv_conf_parse(&conf, KH_SLICE("# comment\n"
					     "nameserver 192.0.2.53\n"
					     "  nameserver\t2001:db8::53 # behind\r\n"
					     "nameserver nonsense\n"
					     "; nameserver 192.0.2.54\n"
					     "search a.example b.example\n"
					     "options ndots:5 timeout:2 attempts:9 rotate edns0\n"
					     "nameserver 192.0.2.55"));
	assert_int_equal(conf.n_servers, 3);
	kh_sockaddr_format(&conf.servers[0], text);
	assert_string_equal(text, "192.0.2.53:53");
	kh_sockaddr_format(&conf.servers[1], text);
	assert_string_equal(text, "[2001:db8::53]:53");
	kh_sockaddr_format(&conf.servers[2], text);
	assert_string_equal(text, "192.0.2.55:53");
	assert_int_equal(conf.timeout_s, 2);
	assert_int_equal(conf.attempts, 5); /* as far as the manual goes */
	assert_true(conf.rotate);
	kh_resolv_conf_parse(&conf, KH_SLICE(""));
	assert_int_equal(conf.n_servers, 1);
	kh_sockaddr_format(&conf.servers[0], text);
	assert_string_equal(text, "127.0.0.1:53");
	/* More than there is room for. */
	char many[4096] = "";
	for (int i = 0; i < 40; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many), "nameserver 192.0.2.%d\n",
			 i);
	kh_resolv_conf_parse(&conf, kh_slice_str(many));
	assert_int_equal(conf.n_servers, KH_NAMESERVERS_MOST);
}

static void test_a_large_hosts_file_is_found_in(void **state)
{
	size_t size = 3 * 1000 * 1000, len = 0;
	char *text = malloc(size);
	struct kh_ip ip;
	(void)state;
	for (int i = 0; i < 60000; i++)
		len += (size_t)snprintf(text + len, size - len, "10.%d.%d.%d n%d.test\n", i >> 16,
					i >> 8 & 255, i & 255, i);
	struct kh_hosts *hosts = kh_hosts_new(kh_slice_of(text, len));
	free(text);
	assert_non_null(hosts);
	for (int i = 0; i < 60000; i += 997) {
		char name[32];
		snprintf(name, sizeof name, "n%d.test", i);
		assert_int_equal(kh_hosts_find(hosts, kh_slice_str(name), &ip, 1), 1);
		assert_int_equal(ip.addr[3], i & 255);
	}
	assert_int_equal(kh_hosts_find(hosts, KH_SLICE("n60000.test"), &ip, 1), 0);
	assert_int_equal(kh_hosts_find(hosts, KH_SLICE(""), &ip, 1), 0);
	kh_hosts_free(hosts);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_both_families_come_interleaved_with_the_port),
		T(test_one_family_alone_is_fine),
		T(test_a_cname_leads_to_addresses),
		T(test_failures_are_told_apart),
		T(test_no_search_domain_is_ever_appended),
		T(test_a_truncated_answer_is_asked_for_again_over_tcp),
		T(test_a_mute_second_family_costs_no_more_than_a_moment),
		T(test_the_deadline_of_a_lookup_counts),
		T(test_answers_are_kept_for_their_ttl_and_failures_for_a_second),
		T(test_lookups_of_one_name_share_one_question),
		T(test_the_number_of_lookups_is_bounded),
		T(test_a_cancelled_lookup_is_never_answered),
		T(test_literals_pins_and_the_hosts_file_ask_nobody),
		T(test_an_answer_to_another_question_is_not_taken),
		T(test_a_nameserver_that_is_not_there_is_an_error_and_not_a_wait),
		T(test_a_reload_asks_the_new_nameservers_what_is_open),
		T(test_nothing_is_opened_once_the_resolver_is_made),
		T(test_the_resolver_may_be_freed_under_its_lookups),
		cmocka_unit_test(test_resolv_conf_is_read_as_it_is_written),
		cmocka_unit_test(test_a_large_hosts_file_is_found_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
