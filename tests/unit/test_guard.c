/* test_guard.c - the address guard, range by range */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <keyhole/net/guard.h>

static struct kh_sockaddr addr_of(const char *text)
{
	struct kh_host host;
	struct kh_sockaddr addr = { 0 };
	if (!kh_host_parse(&host, kh_slice_str(text), NULL))
		fail_msg("%s is no address", text);
	if (host.kind == KH_HOST_IPV4) {
		addr.v4.sin_family = AF_INET;
		memcpy(&addr.v4.sin_addr, host.addr, 4);
		addr.len = sizeof addr.v4;
	} else {
		assert_int_equal(host.kind, KH_HOST_IPV6);
		addr.v6.sin6_family = AF_INET6;
		memcpy(&addr.v6.sin6_addr, host.addr, 16);
		addr.len = sizeof addr.v6;
	}
	return addr;
}

static void expect(const char *text, const char *class_name)
{
	struct kh_sockaddr addr = addr_of(text);
	const char *got = kh_guard_refuses(&addr, NULL, 0);
	if (!class_name != !got || (got && strcmp(got, class_name) != 0))
		fail_msg("%s: %s, expected %s", text, got ? got : "may be dialled",
			 class_name ? class_name : "may be dialled");
}

/* First and last address of a range, and what lies beside it (NULL class: may be dialled). */
struct edge {
	const char *first, *last, *class_name;
	const char *before, *before_class;
	const char *after, *after_class;
};

static void expect_edges(const struct edge *edges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		expect(edges[i].first, edges[i].class_name);
		expect(edges[i].last, edges[i].class_name);
		if (edges[i].before)
			expect(edges[i].before, edges[i].before_class);
		if (edges[i].after)
			expect(edges[i].after, edges[i].after_class);
	}
}

static void test_every_ipv4_range_is_refused_to_its_edges_and_not_beyond(void **state)
{
	static const struct edge edges[] = {
		{ "0.0.0.0", "0.255.255.255", "unspecified", NULL, NULL, "1.0.0.0", NULL },
		{ "10.0.0.0", "10.255.255.255", "private", "9.255.255.255", NULL, "11.0.0.0",
		  NULL },
		{ "100.64.0.0", "100.127.255.255", "cgnat", "100.63.255.255", NULL, "100.128.0.0",
		  NULL },
		{ "127.0.0.0", "127.255.255.255", "loopback", "126.255.255.255", NULL, "128.0.0.0",
		  NULL },
		{ "169.254.0.0", "169.254.255.255", "link_local", "169.253.255.255", NULL,
		  "169.255.0.0", NULL },
		{ "172.16.0.0", "172.31.255.255", "private", "172.15.255.255", NULL, "172.32.0.0",
		  NULL },
		{ "192.0.0.0", "192.0.0.255", "protocol_assignment", "191.255.255.255", NULL,
		  "192.0.1.0", NULL },
		{ "192.0.2.0", "192.0.2.255", "documentation", "192.0.1.255", NULL, "192.0.3.0",
		  NULL },
		{ "192.31.196.0", "192.31.196.255", "protocol_assignment", "192.31.195.255", NULL,
		  "192.31.197.0", NULL },
		{ "192.52.193.0", "192.52.193.255", "protocol_assignment", "192.52.192.255", NULL,
		  "192.52.194.0", NULL },
		{ "192.88.99.0", "192.88.99.255", "6to4", "192.88.98.255", NULL, "192.88.100.0",
		  NULL },
		{ "192.168.0.0", "192.168.255.255", "private", "192.167.255.255", NULL,
		  "192.169.0.0", NULL },
		{ "192.175.48.0", "192.175.48.255", "protocol_assignment", "192.175.47.255", NULL,
		  "192.175.49.0", NULL },
		{ "198.18.0.0", "198.19.255.255", "benchmarking", "198.17.255.255", NULL,
		  "198.20.0.0", NULL },
		{ "198.51.100.0", "198.51.100.255", "documentation", "198.51.99.255", NULL,
		  "198.51.101.0", NULL },
		{ "203.0.113.0", "203.0.113.255", "documentation", "203.0.112.255", NULL,
		  "203.0.114.0", NULL },
		{ "224.0.0.0", "239.255.255.255", "multicast", "223.255.255.255", NULL, "240.0.0.0",
		  "reserved" },
		{ "240.0.0.0", "255.255.255.254", "reserved", "239.255.255.255", "multicast",
		  "255.255.255.255", "broadcast" },
	};
	(void)state;
	expect_edges(edges, sizeof edges / sizeof edges[0]);
}

static void test_every_ipv6_range_is_refused_to_its_edges_and_not_beyond(void **state)
{
	static const struct edge edges[] = {
		{ "::", "::", "unspecified", NULL, NULL, "::1", "loopback" },
		{ "::1", "::1", "loopback", NULL, NULL, NULL, NULL },
		{ "64:ff9b:1::808:808", "64:ff9b:1:808:8:800::", "nat64", NULL, NULL,
		  "64:ff9b:2::", "reserved" },
		{ "100::", "100::ffff:ffff:ffff:ffff", "discard", "ff:ffff::", "reserved",
		  "100:0:0:1::", "reserved" },
		{ "2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", "benchmarking",
		  "2001:1:ffff:ffff:ffff:ffff:ffff:ffff", "protocol_assignment",
		  "2001:2:1::", "protocol_assignment" },
		{ "2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "protocol_assignment", NULL,
		  NULL, "2001:200::", NULL },
		{ "2001:10::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff", "protocol_assignment", NULL,
		  NULL, NULL, NULL }, /* ORCHID, ORCHIDv2, drone ids */
		{ "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation",
		  "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "2001:db9::", NULL },
		{ "2002:808:808::", "2002:909:909:ffff:ffff:ffff:ffff:ffff", "6to4",
		  "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "2003::", NULL },
		{ "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", "protocol_assignment",
		  "2620:4f:7fff::", NULL, "2620:4f:8001::", NULL },
		{ "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "documentation",
		  "3ffe:ffff:ffff::", NULL, "3fff:1000::", NULL },
		{ "4000::", "5eff:ffff::", "reserved", "3fff:ffff:ffff::", NULL, NULL, NULL },
		{ "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "segment_routing", NULL,
		  NULL, "5f01::", "reserved" },
		{ "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "unique_local",
		  "fbff:ffff::", "reserved", "fe00::", "reserved" },
		{ "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link_local",
		  "fe7f:ffff::", "reserved", "fec0::", "site_local" },
		{ "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "site_local", NULL, NULL,
		  "ff00::", "multicast" },
		{ "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast", NULL, NULL,
		  NULL, NULL },
	};
	(void)state;
	expect_edges(edges, sizeof edges / sizeof edges[0]);
}

static void test_public_addresses_may_be_dialled(void **state)
{
	static const char *const list[] = { "1.1.1.1",
					    "8.8.8.8",
					    "160.79.104.10",
					    "104.18.6.192",
					    "172.217.0.0",
					    "192.30.255.113",
					    "2606:4700:4700::1111",
					    "2a00:1450:4001:80e::200a",
					    "2001:4860:4860::8888",
					    "2000::1" };
	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
		expect(list[i], NULL);
}

static void test_metadata_services_are_named_as_such(void **state)
{
	static const char *const list[] = {
		"169.254.169.254",	  "169.254.170.2",	"169.254.170.23",
		"169.254.169.253",	  "169.254.0.23",	"169.254.42.42",
		"100.100.100.200",	  "192.0.0.192",	"168.63.129.16",
		"fd00:ec2::254",	  "fd00:ec2::23",	"fd20:ce::254",
		"fd00:c1::a9fe:a9fe",	  "fd00:42::42",	"fe80::a9fe:a9fe",
		"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"
	};
	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
		expect(list[i], "metadata");
	expect("168.63.129.15", NULL);
	expect("168.63.129.17", NULL);
	expect("100.100.100.199", "cgnat");
}

static void test_an_embedded_ipv4_address_is_judged_in_every_carrier(void **state)
{
	(void)state;
	/* v4-mapped */
	expect("::ffff:127.0.0.1", "loopback");
	expect("::ffff:10.1.2.3", "private");
	expect("::ffff:0.0.0.0", "unspecified");
	expect("::ffff:8.8.8.8", NULL);
	/* v4-compatible */
	expect("::7f00:1", "loopback");
	expect("::0a01:203", "private");
	expect("::808:808", "v4_compatible");
	expect("::2", "v4_compatible");
	/* NAT64, both prefixes; the second also with the address around byte 8 */
	expect("64:ff9b::7f00:1", "loopback");
	expect("64:ff9b::c0a8:101", "private");
	expect("64:ff9b::808:808", NULL);
	expect("64:ff9b:1::7f00:1", "loopback");
	expect("64:ff9b:1:7f00:0:100:808:808", "loopback");
	expect("64:ff9b:1:808:8:800:808:808", "nat64");
	/* SIIT's ::ffff:0:a.b.c.d is in no use outside */
	expect("::ffff:0:808:808", "reserved");
	/* 6to4 */
	expect("2002:7f00:1::", "loopback");
	expect("2002:c0a8:101::1", "private");
	expect("2002:808:808::1", "6to4");
	/* Teredo: server as it is, client inverted */
	expect("2001:0:7f00:1::f7f7:f7f7", "loopback");
	expect("2001:0:808:808::80ff:fffe", "loopback");
	expect("2001:0:808:808::f7f7:f7f7", "teredo");
}

static struct kh_cidr range_of(const char *text)
{
	struct kh_cidr range;
	assert_true(kh_cidr_parse(&range, kh_slice_str(text), NULL));
	return range;
}

static bool passes(const char *addr, const char *allow)
{
	struct kh_sockaddr a = addr_of(addr);
	struct kh_cidr range = range_of(allow);
	return kh_guard_refuses(&a, &range, 1) == NULL;
}

static void test_an_exception_opens_its_own_range_and_nothing_more(void **state)
{
	(void)state;
	assert_true(passes("127.0.0.1", "127.0.0.1/32"));
	assert_false(passes("127.0.0.2", "127.0.0.1/32"));
	assert_true(passes("10.9.8.7", "10.0.0.0/8"));
	assert_false(passes("169.254.169.254", "10.0.0.0/8"));
	assert_true(passes("::ffff:127.0.0.1", "127.0.0.1/32"));
	assert_false(passes("::ffff:127.0.0.2", "127.0.0.1/32"));
	assert_true(passes("fd00::1", "fd00::/8"));
	assert_false(passes("fe80::1", "fd00::/8"));
	assert_false(passes("::1", "127.0.0.0/8"));
	/* Only the mapped form is the same destination; the other carriers are not opened. */
	assert_false(passes("64:ff9b::7f00:1", "127.0.0.0/8"));
	assert_false(passes("2002:7f00:1::", "127.0.0.0/8"));
	/* A range of one family holds nothing of the other. */
	assert_false(passes("127.0.0.1", "::/0"));
	assert_false(passes("::1", "0.0.0.0/0"));
}

static void test_what_is_no_internet_address_is_refused(void **state)
{
	struct kh_sockaddr addr = { 0 };
	struct kh_cidr all[2] = { range_of("0.0.0.0/0"), range_of("::/0") };
	(void)state;
	addr.any.sa_family = AF_UNIX;
	assert_non_null(kh_guard_refuses(&addr, NULL, 0));
	assert_non_null(kh_guard_refuses(&addr, all, 2));
	addr.any.sa_family = AF_UNSPEC;
	assert_non_null(kh_guard_refuses(&addr, all, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_ipv4_range_is_refused_to_its_edges_and_not_beyond),
		cmocka_unit_test(test_every_ipv6_range_is_refused_to_its_edges_and_not_beyond),
		cmocka_unit_test(test_public_addresses_may_be_dialled),
		cmocka_unit_test(test_metadata_services_are_named_as_such),
		cmocka_unit_test(test_an_embedded_ipv4_address_is_judged_in_every_carrier),
		cmocka_unit_test(test_an_exception_opens_its_own_range_and_nothing_more),
		cmocka_unit_test(test_what_is_no_internet_address_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
