/* test_rule.c - a rule says what it says: grammar, hosts, and what is no rule */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <keyhole/config/config.h>

#include "config/config_internal.h"

static struct kh_rule rule_of(const char *text)
{
	struct kh_rule rule;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_rule_parse(&rule, kh_slice_str(text), &err))
		fail_msg("%s: %s", text, err.text);
	return rule;
}

static void assert_no_rule(const char *text, const char *why)
{
	struct kh_rule rule;
	struct kh_err err = KH_ERR_INIT;
	if (kh_rule_parse(&rule, kh_slice_str(text), &err))
		fail_msg("%s is taken", text);
	assert_null(rule.text);
	if (!strstr(err.text, why))
		fail_msg("%s: \"%s\" does not say \"%s\"", text, err.text, why);
}

static struct kh_host host_of(const char *text)
{
	struct kh_host host;
	if (!kh_host_parse(&host, kh_slice_str(text), NULL))
		fail_msg("no host: %s", text);
	return host;
}

static struct kh_host_pattern pattern_of(const char *text)
{
	struct kh_host_pattern pattern;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_host_pattern_parse(&pattern, kh_slice_str(text), &err))
		fail_msg("%s: %s", text, err.text);
	return pattern;
}

static bool host_matches(const char *pattern_text, const char *host_text)
{
	struct kh_host_pattern pattern = pattern_of(pattern_text);
	struct kh_host host = host_of(host_text);
	return kh_host_pattern_matches(&pattern, &host);
}

static bool covers(const char *outer_text, const char *inner_text)
{
	struct kh_host_pattern outer = pattern_of(outer_text), inner = pattern_of(inner_text);
	return kh_host_pattern_covers(&outer, &inner);
}

static void all_parts_of_a_rule_are_read(void **state)
{
	(void)state;
	struct kh_rule rule = rule_of("GET,POST https://API.Example.com:8443/v1/%6dessages/**");
	assert_int_equal(rule.n_methods, 2);
	assert_string_equal(rule.methods[0], "GET");
	assert_string_equal(rule.methods[1], "POST");
	assert_int_equal(rule.scheme, KH_SCHEME_HTTPS);
	assert_int_equal(rule.host.match, KH_MATCH_EXACT);
	assert_string_equal(rule.host.name, "api.example.com");
	assert_int_equal(rule.port, 8443);
	assert_string_equal(rule.path, "/v1/messages/**");
	assert_string_equal(rule.text, "GET,POST https://API.Example.com:8443/v1/%6dessages/**");
	assert_false(rule.allow);
	kh_rule_fini(&rule);
}

static void what_is_left_out_means_any(void **state)
{
	(void)state;
	struct kh_rule rule = rule_of("https://example.com");
	assert_int_equal(rule.n_methods, 0);
	assert_int_equal(rule.port, 443);
	assert_null(rule.path);
	kh_rule_fini(&rule);
	rule = rule_of("* http://example.com/");
	assert_int_equal(rule.n_methods, 0);
	assert_int_equal(rule.port, 80);
	assert_string_equal(rule.path, "/");
	kh_rule_fini(&rule);
}

static void a_rule_over_tcp_is_host_and_port(void **state)
{
	(void)state;
	struct kh_rule rule = rule_of("tcp://*.example.com:22");
	assert_int_equal(rule.scheme, KH_SCHEME_TCP);
	assert_int_equal(rule.port, 22);
	assert_int_equal(rule.host.match, KH_MATCH_SUFFIX);
	assert_true(kh_rule_covers_all(&rule));
	kh_rule_fini(&rule);
	rule = rule_of("tcp://[2001:db8::7]:5432");
	assert_int_equal(rule.host.match, KH_MATCH_RANGE);
	kh_rule_fini(&rule);
	rule = rule_of("* https://example.com/**");
	assert_true(kh_rule_covers_all(&rule));
	kh_rule_fini(&rule);
	rule = rule_of("https://example.com/v1/**");
	assert_false(kh_rule_covers_all(&rule));
	kh_rule_fini(&rule);
	rule = rule_of("GET https://example.com");
	assert_false(kh_rule_covers_all(&rule));
	kh_rule_fini(&rule);
}

static void hosts_come_in_four_kinds(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum kh_host_match match;
	} cases[] = {
		{ "https://**", KH_MATCH_ANY },
		{ "https://**/x", KH_MATCH_ANY },
		{ "https://*.example.com", KH_MATCH_SUFFIX },
		{ "https://10.1.2.3:444/x", KH_MATCH_RANGE },
		{ "https://[10.0.0.0/8]:444/x", KH_MATCH_RANGE },
		{ "https://[::1]/x", KH_MATCH_RANGE },
		{ "https://[fd00::/8]/x", KH_MATCH_RANGE },
		{ "https://10.1.2.3/x/8", KH_MATCH_RANGE },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_rule rule = rule_of(cases[i].text);
		assert_int_equal(rule.host.match, cases[i].match);
		kh_rule_fini(&rule);
	}
}

static void what_is_no_rule_is_refused_with_the_reason(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *why;
	} cases[] = {
		{ "", "expected [METHODS] SCHEME:" },
		{ "example.com", "expected [METHODS] SCHEME:" },
		{ "GET example.com/x", "expected [METHODS] SCHEME:" },
		{ "https:/example.com", "expected [METHODS] SCHEME:" },
		{ "HTTPS://example.com", "expected [METHODS] SCHEME:" },
		{ "tcp://example.com", "names its port" },
		{ "tcp://example.com/x", "neither methods nor a path" },
		{ "tcp://example.com:22/", "neither methods nor a path" },
		{ "GET tcp://example.com:22", "neither methods nor a path" },
		{ "* tcp://example.com:22", "neither methods nor a path" },
		{ "tcp://example.com:0", "port" },
		{ "tcp://*.com:22", "one label" },
		{ "ftp://example.com", "expected [METHODS] SCHEME:" },
		{ "GET  https://example.com", "expected [METHODS] SCHEME:" },
		{ " https://example.com", "a method must" },
		{ "GET, POST https://example.com", "a method must" },
		{ "GET,,POST https://example.com", "a method must" },
		{ ",GET https://example.com", "a method must" },
		{ "get https://example.com", "capitals" },
		{ "*,GET https://example.com", "capitals" },
		{ "GET,GET https://example.com", "twice" },
		{ "CONNECT https://example.com", "CONNECT" },
		{ "https://", "host is empty" },
		{ "https:///x", "host is empty" },
		{ "https://example.com:", "port" },
		{ "https://example.com:0", "port" },
		{ "https://example.com:080", "port" },
		{ "https://example.com:65536", "port" },
		{ "https://example.com:+80", "port" },
		{ "https://example.com:80:80", "port" },
		{ "https://user@example.com", "user" },
		{ "https://user:pw@example.com", "user" },
		{ "https://*.com", "one label" },
		{ "https://*.10.0.0.1", "address" },
		{ "https://*", "star" },
		{ "https://*example.com", "star" },
		{ "https://api.*.com", "star" },
		{ "https://**.example.com", "star" },
		{ "https://*.*.example.com", "letters, digits" },
		{ "https://example.com.", "dot" },
		{ "https://exam ple.com", "a blank" },
		{ "https://example.com/a b", "no place in a path" },
		{ "https://ex\xc3\xa4mple.com", "xn--" },
		{ "https://010.1.1.1", "ends in a number" },
		{ "https://0x7f000001", "ends in a number" },
		{ "https://2130706433", "ends in a number" },
		{ "https://[::1", "']'" },
		{ "https://[::1]x", "']'" },
		{ "https://[example.com]", "" },
		{ "https://::1/x", "port" },
		{ "https://10.0.0.0/8", "brackets" },
		{ "https://[10.0.0.1/8]", "" },
		{ "https://example.com/a?b=c", "path only" },
		{ "https://example.com/a#b", "path only" },
		{ "https://example.com?x", "letters, digits" },
		{ "https://example.com/***", "three stars" },
		{ "https://example.com/a/../b", "dot segment" },
		{ "https://example.com/%2e%2e/b", "dot segment" },
		{ "https://example.com/a\\b", "backslash" },
		{ "https://example.com/%zz", "hex digits" },
		{ "https://example.com/%00", "control" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_no_rule(cases[i].text, cases[i].why);
	struct kh_rule rule;
	assert_false(kh_rule_parse(&rule, kh_slice_of("https://a.example/\0x", 20), NULL));
}

static void a_suffix_is_whole_labels_and_never_itself(void **state)
{
	(void)state;
	assert_true(host_matches("*.example.com", "a.example.com"));
	assert_true(host_matches("*.example.com", "a.b.example.com"));
	assert_true(host_matches("*.EXAMPLE.com", "A.example.COM"));
	assert_false(host_matches("*.example.com", "example.com"));
	assert_false(host_matches("*.example.com", "evilexample.com"));
	assert_false(host_matches("*.example.com", "a.example.com.evil.net"));
	assert_false(host_matches("*.example.com", "a.example.co"));
	assert_false(host_matches("*.example.com", "10.0.0.1"));
	assert_true(host_matches("**", "10.0.0.1"));
	assert_true(host_matches("**", "localhost"));
	assert_true(host_matches("example.com", "EXAMPLE.com"));
	assert_false(host_matches("example.com", "a.example.com"));
}

static void ranges_match_addresses_of_their_family(void **state)
{
	(void)state;
	assert_true(host_matches("10.0.0.0/8", "10.255.0.1"));
	assert_false(host_matches("10.0.0.0/8", "11.0.0.1"));
	assert_true(host_matches("127.0.0.1", "127.0.0.1"));
	assert_false(host_matches("127.0.0.1", "::ffff:127.0.0.1"));
	assert_true(host_matches("[::1]", "::1"));
	assert_true(host_matches("fd00::/8", "fd12::1"));
	assert_false(host_matches("fd00::/8", "fe80::1"));
	assert_false(host_matches("10.0.0.0/8", "a10.example.com"));
}

static void a_zeroed_pattern_and_a_zeroed_host_match_nothing(void **state)
{
	(void)state;
	struct kh_host_pattern nothing = { 0 }, any = pattern_of("**");
	struct kh_host host = host_of("example.com"), none = { 0 };
	assert_false(kh_host_pattern_matches(&nothing, &host));
	assert_false(kh_host_pattern_matches(&nothing, &none));
	assert_false(kh_host_pattern_matches(&any, &none));
	assert_false(kh_host_pattern_covers(&any, &nothing));
	assert_false(kh_host_pattern_covers(&nothing, &any));
}

static void a_pattern_covers_only_what_it_matches_entirely(void **state)
{
	(void)state;
	assert_true(covers("a.example.com", "A.example.com"));
	assert_true(covers("*.example.com", "a.example.com"));
	assert_true(covers("*.example.com", "*.example.com"));
	assert_true(covers("*.example.com", "*.b.example.com"));
	assert_true(covers("**", "*.example.com"));
	assert_true(covers("**", "**"));
	assert_true(covers("10.0.0.0/8", "10.1.0.0/16"));
	assert_true(covers("127.0.0.1", "127.0.0.1"));
	assert_false(covers("a.example.com", "*.example.com"));
	assert_false(covers("*.b.example.com", "*.example.com"));
	assert_false(covers("*.example.com", "example.com"));
	assert_false(covers("*.example.com", "*.badexample.com"));
	assert_false(covers("*.example.com", "**"));
	assert_false(covers("10.1.0.0/16", "10.0.0.0/8"));
	assert_false(covers("10.0.0.0/8", "11.0.0.0/8"));
	assert_false(covers("0.0.0.0/0", "::/0"));
	assert_false(covers("*.example.com", "10.0.0.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_parts_of_a_rule_are_read),
		cmocka_unit_test(what_is_left_out_means_any),
		cmocka_unit_test(a_rule_over_tcp_is_host_and_port),
		cmocka_unit_test(hosts_come_in_four_kinds),
		cmocka_unit_test(what_is_no_rule_is_refused_with_the_reason),
		cmocka_unit_test(a_suffix_is_whole_labels_and_never_itself),
		cmocka_unit_test(ranges_match_addresses_of_their_family),
		cmocka_unit_test(a_zeroed_pattern_and_a_zeroed_host_match_nothing),
		cmocka_unit_test(a_pattern_covers_only_what_it_matches_entirely),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
