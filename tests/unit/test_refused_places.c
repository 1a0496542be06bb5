/* test_refused_places.c - what was refused, each place once */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <keyhole/audit/refused_places.h>
#include <keyhole/base/limits.h>
#include <keyhole/policy/telemetry.h>

static struct kh_refused_places places;

static void add(const char *method, const char *host, const char *path)
{
	const struct kh_refused_request request = {
		.method = kh_slice_str(method),
		.scheme = KH_SLICE("https"),
		.host = kh_slice_str(host),
		.path = kh_slice_str(path),
		.port = 443,
		.reason = KH_ERR_NO_RULE,
		.denied_by = KH_SLICE("tenant"),
	};
	kh_refused_places_add(&places, &request);
}

/* "2 GET a.test/x; …" */
static const char *shown(void)
{
	static char text[4096];
	size_t used = 0;
	text[0] = '\0';
	kh_refused_places_settle(&places);
	for (size_t i = 0; i < places.count && used < sizeof(text); i++) {
		const struct kh_refused_place *p = &places.list[i];
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%llu %s %s%s",
					 i ? "; " : "", (unsigned long long)p->count, p->methods,
					 p->host, p->path ? p->path : "");
	}
	return text;
}

static int begin(void **state)
{
	(void)state;
	kh_refused_places_init(&places, NULL, 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	kh_refused_places_fini(&places);
	return 0;
}

static void test_models_are_told_apart_and_a_hidden_text_is_not_shown(void **state)
{
	static const char *const hidden[] = { "sk-fake-1" };
	const char *models[] = { "small", "large", "small", "x-SK-fake-1" };
	(void)state;
	kh_refused_places_init(&places, hidden, 1);
	for (size_t i = 0; i < 4; i++) {
		const struct kh_refused_request request = { .method = KH_SLICE("POST"),
							    .scheme = KH_SLICE("https"),
							    .host = KH_SLICE("a.test"),
							    .path = KH_SLICE("/v1"),
							    .port = 443,
							    .reason = KH_ERR_NO_RULE,
							    .model = kh_slice_str(models[i]),
							    .detail = KH_SLICE("of sk-fake-1") };
		kh_refused_places_add(&places, &request);
	}
	kh_refused_places_settle(&places);
	assert_int_equal(places.count, 3);
	assert_string_equal(places.list[0].model, "small");
	assert_int_equal(places.list[0].count, 2);
	for (size_t i = 0; i < places.count; i++) {
		assert_null(strstr(places.list[i].model, "fake"));
		assert_string_equal(places.list[i].detail, "*");
	}
}

static void test_a_place_is_there_once_with_how_often(void **state)
{
	(void)state;
	add("GET", "a.test", "/x");
	add("POST", "b.test", "/y");
	add("GET", "a.test", "/x");
	add("GET", "a.test", "/x");
	assert_string_equal(shown(), "3 GET a.test/x; 1 POST b.test/y");
	assert_string_equal(places.list[0].example, "/x");
}

static void test_methods_of_one_place_are_joined(void **state)
{
	(void)state;
	add("GET", "a.test", "/x");
	add("HEAD", "a.test", "/x");
	add("GET", "a.test", "/y");
	assert_string_equal(shown(), "2 GET,HEAD a.test/x; 1 GET a.test/y");
}

static void test_a_method_that_no_rule_names_stands_by_itself(void **state)
{
	(void)state;
	add("G'T", "a.test", "/x");
	add("GET", "a.test", "/x");
	add("FROB", "a.test", "/x");
	add("POST", "a.test", "/x");
	assert_string_equal(shown(), "2 GET,POST a.test/x; 1 FROB a.test/x; 1 G'T a.test/x");
}

static void test_many_paths_of_a_host_become_one_pattern(void **state)
{
	(void)state;
	add("GET", "a.test", "/v1/a");
	add("GET", "a.test", "/v1/b/c");
	add("GET", "a.test", "/v1/d");
	add("GET", "a.test", "/v1/e");
	assert_string_equal(shown(), "4 GET a.test/v1/**");
	add("GET", "a.test", "/v1/f/g/h");
	assert_string_equal(shown(), "5 GET a.test/v1/**");
	add("GET", "a.test", "/v2");
	assert_string_equal(shown(), "6 GET a.test/**");
	add("GET", "a.test", "/");
	assert_string_equal(shown(), "7 GET a.test/**");
}

static void test_a_path_and_one_below_it_are_covered_by_what_stands_above_both(void **state)
{
	(void)state;
	add("GET", "a.test", "/v1/a/1");
	add("GET", "a.test", "/v1/a");
	add("GET", "a.test", "/v1/a/b");
	add("GET", "a.test", "/v1/a/c");
	assert_string_equal(shown(), "4 GET a.test/v1/**");
}

static void test_a_segment_that_may_be_a_key_or_a_number_is_a_star(void **state)
{
	static const struct {
		const char *path, *pattern;
	} cases[] = {
		{ "/users/42/keys", "/users/*/keys" },
		{ "/bot81723:AAFx9Qw2_Zk7vLm0pT3rYb8NcD1eUgHsJ/send", "/*/send" },
		{ "/o/6f1c2e04-9b7d-4a55-8e21-3c0d9f7a6b12", "/o/*" },
		{ "/blob/9f86d081884c7d659a2f", "/blob/*" },
		{ "/v1/chat/completions", "/v1/chat/completions" },
		{ "/left-pad/-/left-pad-1.3.0.tgz", "/left-pad/-/left-pad-1.3.0.tgz" },
		{ "/v1beta/models/gemini-2.5-pro:generateContent",
		  "/v1beta/models/gemini-2.5-pro:generateContent" },
		{ "/x/my-placeholder-1234/y", "/x/*/y" },
		{ "/%6dy-placeholder-1234/y", "/*/y" },
	};
	static const char *const hidden[] = { "placeholder-1234" };
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kh_refused_places_fini(&places);
		kh_refused_places_init(&places, hidden, 1);
		add("GET", "a.test", cases[i].path);
		assert_int_equal(places.count, 1);
		assert_string_equal(places.list[0].path, cases[i].pattern);
	}
}

static void test_a_host_or_method_with_a_placeholder_is_not_shown(void **state)
{
	static const char *const hidden[] = { "PlaceHolder-1234" };
	(void)state;
	kh_refused_places_init(&places, hidden, 1);
	add("GET", "placeholder-1234.evil.test", "/x");
	add("PlaceHolder-1234", "evil.test", "/a-PlaceHolder-1234");
	assert_string_equal(shown(), "1 GET */x; 1 * evil.test/*");
}

/* A person pastes it into a shell, and into a rule. */
static void test_no_byte_stays_that_a_shell_or_a_rule_reads_as_more_than_itself(void **state)
{
	static const struct {
		const char *path, *pattern;
	} cases[] = {
		{ "/';reboot;'/x", "/*/x" },
		{ "/$HOME/x", "/*/x" },
		{ "/**", "/*" },
		{ "/a*b/x", "/*/x" },
		{ "/(x)", "/*" },
		{ "/x!y", "/*" },
		{ "/v1/%E2%80%AE/a%20b", "/v1/%E2%80%AE/a%20b" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kh_refused_places_fini(&places);
		add("GET", "a.test", cases[i].path);
		if (!places.list[0].path || strcmp(places.list[0].path, cases[i].pattern) != 0)
			fail_msg("%s: %s", cases[i].path,
				 places.list[0].path ? places.list[0].path : "none");
	}
}

static void test_what_no_rule_can_name_has_no_pattern(void **state)
{
	(void)state;
	add("GET", "a.test", "/../x");
	add("CONNECT", "a.test", "");
	add("CONNECT", "a.test", "");
	assert_int_equal(places.count, 2);
	assert_null(places.list[0].path);
	assert_null(places.list[1].path);
	assert_int_equal(places.list[1].count, 2);
}

/* One request must not make words that open a whole host. */
static void test_a_path_that_no_rule_names_exactly_has_no_pattern(void **state)
{
	static const char *const paths[] = { "/%2a",	 "/a%2Fb/c",  "/v1/@s%2fp/x", "/v1/%2525",
					     "/v1/%3Fx", "/v1/%5B2J", "/v1/%00x" };
	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		kh_refused_places_fini(&places);
		add("DELETE", "a.test", paths[i]);
		assert_int_equal(places.count, 1);
		if (places.list[0].path)
			fail_msg("%s: %s", paths[i], places.list[0].path);
		assert_string_equal(places.list[0].example, paths[i]);
	}
}

/* A sandbox that asks for another host each time, and then for many paths of one. */
static void test_there_is_an_end_to_places(void **state)
{
	char host[32], path[32];
	(void)state;
	for (unsigned i = 0; i < KH_LIMIT_REFUSED_PLACES + 10; i++) {
		(void)snprintf(host, sizeof(host), "h%u.test", i);
		add("GET", host, "/x");
	}
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(path, sizeof(path), "/p/x%u", i);
		add("GET", "h0.test", path);
	}
	assert_int_equal(places.count, KH_LIMIT_REFUSED_PLACES);
	assert_int_equal(places.others, 10);
	kh_refused_places_settle(&places);
	assert_string_equal(places.list[0].host, "h0.test");
	assert_int_equal(places.list[0].count, 101);
}

static void test_a_path_that_is_too_long_has_no_pattern(void **state)
{
	char path[1024] = "";
	(void)state;
	for (unsigned i = 0; i < 60; i++)
		memcpy(path + (size_t)i * 10, "/abcdefgh-", 10);
	add("GET", "a.test", path);
	assert_null(places.list[0].path);
	path[200] = '\0';
	add("GET", "a.test", path);
	assert_int_equal(places.count, 2);
	assert_string_equal(places.list[1].path, path);
}

static const char *telemetry(const char *host, const char *path)
{
	return kh_telemetry_of(kh_slice_str(host), kh_slice_str(path));
}

static void test_known_telemetry_is_told_from_what_an_agent_needs(void **state)
{
	(void)state;
	assert_string_equal(telemetry("api.anthropic.com", "/api/event_logging/v2/batch"),
			    "Claude Code");
	assert_string_equal(telemetry("statsig.anthropic.com", "/v1/rgstr"), "Claude Code");
	assert_string_equal(telemetry("play.googleapis.com", "/log"), "Gemini CLI");
	assert_string_equal(telemetry("ab.chatgpt.com", "/otlp/v1/metrics"), "Codex");
	assert_null(telemetry("api.anthropic.com", "/v1/messages"));
	assert_null(telemetry("api.anthropic.com", "/api/event_logging"));
	assert_null(telemetry("play.googleapis.com", "/log/x"));
	assert_null(telemetry("xplay.googleapis.com", "/log"));
	assert_null(telemetry("", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_models_are_told_apart_and_a_hidden_text_is_not_shown,
					  end),
		cmocka_unit_test_setup_teardown(test_a_place_is_there_once_with_how_often, begin,
						end),
		cmocka_unit_test_setup_teardown(test_methods_of_one_place_are_joined, begin, end),
		cmocka_unit_test_setup_teardown(test_a_method_that_no_rule_names_stands_by_itself,
						begin, end),
		cmocka_unit_test_setup_teardown(test_many_paths_of_a_host_become_one_pattern, begin,
						end),
		cmocka_unit_test_setup_teardown(
			test_a_path_and_one_below_it_are_covered_by_what_stands_above_both, begin,
			end),
		cmocka_unit_test_setup_teardown(
			test_a_segment_that_may_be_a_key_or_a_number_is_a_star, begin, end),
		cmocka_unit_test_setup_teardown(
			test_a_host_or_method_with_a_placeholder_is_not_shown, begin, end),
		cmocka_unit_test_setup_teardown(
			test_no_byte_stays_that_a_shell_or_a_rule_reads_as_more_than_itself, begin,
			end),
		cmocka_unit_test_setup_teardown(
			test_a_path_that_no_rule_names_exactly_has_no_pattern, begin, end),
		cmocka_unit_test_setup_teardown(test_what_no_rule_can_name_has_no_pattern, begin,
						end),
		cmocka_unit_test_setup_teardown(test_there_is_an_end_to_places, begin, end),
		cmocka_unit_test_setup_teardown(test_a_path_that_is_too_long_has_no_pattern, begin,
						end),
		cmocka_unit_test(test_known_telemetry_is_told_from_what_an_agent_needs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
