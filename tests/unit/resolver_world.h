/* resolver_world.h - a nameserver of our own, and a resolver that asks it */
#ifndef KEYHOLE_TESTS_RESOLVER_WORLD_H
#define KEYHOLE_TESTS_RESOLVER_WORLD_H

#include "dns_server.h"

#include <signal.h>
#include <sys/wait.h>
#include <seccomp.h>
#include <net/net_internal.h>

#include <keyhole/base/clock.h>
#include <keyhole/net/resolver.h>

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
	{ "mute2.test", RR_A, "", 30, 0, true, 0, NULL, 0, 0 },
	{ "mute2.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
	{ "mute3.test", RR_A, "", 30, 0, true, 0, NULL, 0, 0 },
	{ "mute3.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
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

static inline struct kh_host host_of(const char *text)
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

static inline void make_resolver(const char *resolv_conf)
{
	struct kh_err err = KH_ERR_INIT;
	resolver = kh_resolver_new(base, &config, kh_slice_str(resolv_conf),
				   kh_slice_str(hosts_text), &err);
	if (!resolver)
		fail_msg("%s", err.text);
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
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

static inline void on_result(const struct kh_addresses *addresses, const struct kh_err *err,
			     void *arg)
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

static inline void on_pause(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static inline void turn_until(const unsigned *count, unsigned wanted, uint64_t ms)
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

static inline struct result resolve(const char *name, uint16_t port)
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
static inline void expect(const struct result *r, const char *wanted)
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

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
