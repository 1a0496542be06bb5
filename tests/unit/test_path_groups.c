/* test_path_groups.c - many requests as few, and none of them widened by what was not seen */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/limits.h>
#include <keyhole/policy/path_groups.h>
#include <keyhole/policy/policy.h>
#include <keyhole/policy/suggest.h>

static void identifiers_are_numbers_hex_uuids_and_dates(void **state)
{
	static const char *const identifiers[] = {
		"0",
		"42",
		"20260131",
		"00000000000000000000000000000000000000000000000000",
		"1a2b3c4",
		"deadbeef0",
		"DA39A3EE5E6B4B0D3255BFEF95601890AFD80709",
		"3f2504e0-4f89-11d3-9a0c-0305e82c3301",
		"3F2504E0-4F89-11D3-9A0C-0305E82C3301",
		"2026-01-31",
		"2026-01-31T23:59:59Z",
		"2026-01-31T23%3A59%3A59.123+01:00",
	};
	static const char *const names[] = {
		"",
		"v1",
		"*",
		"abc",
		"decade",
		"effaced",
		"1a2b3c",
		"users",
		"left-pad",
		"gpt-4",
		"2026-1-31",
		"2026-01-31x",
		"2026-01-3",
		"1.2.3",
		"%2F",
		"42.json",
		"claude-sonnet-4-5-20250929",
		"-1",
		"0x1a2b3c4",
		"1a2b3c4g",
		"T00",
		"2026-01-31T",
		"..",
		"3f2504e0-4f89-11d3-9a0c-0305e82c330",
		"3f2504e0x4f89-11d3-9a0c-0305e82c3301",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(identifiers) / sizeof(identifiers[0]); i++)
		if (!kh_path_groups_is_identifier(kh_slice_str(identifiers[i])))
			fail_msg("%s is one", identifiers[i]);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (kh_path_groups_is_identifier(kh_slice_str(names[i])))
			fail_msg("%s is none", names[i]);
}

static const struct kh_path_group *add(struct kh_path_groups *groups, const char *method,
				       const char *place, const char *path)
{
	return kh_path_groups_add(groups, "t", method, place, kh_slice_str(path), path);
}

static void paths_that_differ_in_an_identifier_share_a_pattern(void **state)
{
	struct kh_path_groups groups = { 0 };
	(void)state;
	assert_string_equal(add(&groups, "GET", "https://a", "/v1/users/42")->pattern,
			    "/v1/users/42");
	assert_string_equal(add(&groups, "GET", "https://a", "/v1/users/42")->pattern,
			    "/v1/users/42");
	assert_string_equal(add(&groups, "GET", "https://a", "/v1/users/7")->pattern,
			    "/v1/users/*");
	assert_string_equal(add(&groups, "GET", "https://a", "/v1/users/deadbeef1")->pattern,
			    "/v1/users/*");
	assert_int_equal(groups.count, 1);
	assert_int_equal(groups.list[0].requests, 4);
	assert_string_equal(groups.list[0].example, "/v1/users/42");
	/* What nobody saw to differ stays as it is. */
	add(&groups, "GET", "https://a", "/2026-01-31/x/1");
	assert_string_equal(add(&groups, "GET", "https://a", "/2026-01-31/x/2")->pattern,
			    "/2026-01-31/x/*");
	kh_path_groups_fini(&groups);
}

static void paths_without_a_name_are_never_merged(void **state)
{
	static const char *const paths[] = { "/1",	     "/2",	     "/1/2", "/2/2",
					     "/2026-01-31/", "/2026-02-01/", "//1",  "//2" };
	struct kh_path_groups groups = { 0 };
	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_string_equal(add(&groups, "GET", "https://a", paths[i])->pattern, paths[i]);
	assert_int_equal(groups.count, sizeof(paths) / sizeof(paths[0]));
	kh_path_groups_fini(&groups);
}

static void a_name_a_method_a_place_or_a_depth_is_never_merged(void **state)
{
	static const char *const rows[][3] = {
		{ "GET", "https://a", "/v1/users/42" },
		{ "POST", "https://a", "/v1/users/42" },
		{ "GET", "https://b", "/v1/users/42" },
		{ "GET", "http://a", "/v1/users/42" },
		{ "GET", "https://a", "/v1/users/me" },
		{ "GET", "https://a", "/v1/users/42/" },
		{ "GET", "https://a", "/v1/users/42/x" },
		{ "GET", "https://a", "/v1/users" },
		{ "GET", "https://a", "/v2/users/42" },
		{ "GET", "https://a", "/v1//users/42" },
		{ "GET", "https://a", "/" },
		{ "GET", "https://a", "" },
		{ "GET", "https://a", "/v1/users/%2F42" },
	};
	struct kh_path_groups groups = { 0 };
	size_t n = sizeof(rows) / sizeof(rows[0]);
	(void)state;
	for (int again = 0; again < 2; again++)
		for (size_t i = 0; i < n; i++) {
			const struct kh_path_group *group =
				add(&groups, rows[i][0], rows[i][1], rows[i][2]);
			assert_int_equal(group - groups.list, i);
		}
	assert_int_equal(groups.count, n);
	kh_path_groups_fini(&groups);
}

static void every_path_of_a_group_matches_its_pattern(void **state)
{
	static const char *const segments[] = { "a",	    "b1",	  "7", "1234567",
						"0000000f", "2026-01-31", "",  "x.y" };
	enum { N = sizeof(segments) / sizeof(segments[0]) };
	struct kh_path_groups groups = { 0 };
	char path[128];
	(void)state;
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < (size_t)N * N * N; i++) {
			(void)snprintf(path, sizeof(path), "/%s/%s/%s", segments[i % N],
				       segments[i / N % N], segments[i / N / N]);
			const struct kh_path_group *group = add(&groups, "GET", "https://a", path);
			assert_true(
				kh_path_matches(kh_slice_str(group->pattern), kh_slice_str(path)));
			assert_null(strstr(group->pattern, "**"));
		}
	/* Three names, an empty one, and four identifiers that are one; but where there is no name
	 * each path is for itself. */
	assert_int_equal(groups.count, 5 * 5 * 5 - 2 * 2 * 2 + 5 * 5 * 5);
	kh_path_groups_fini(&groups);
}

static void what_finds_no_room_is_counted(void **state)
{
	struct kh_path_groups groups = { 0 };
	char path[64];
	(void)state;
	for (int i = 0; i < KH_LIMIT_PATH_GROUPS + 10; i++) {
		(void)snprintf(path, sizeof(path), "/n%d", i);
		assert_int_equal(add(&groups, "GET", "https://a", path) != NULL,
				 i < KH_LIMIT_PATH_GROUPS);
	}
	assert_int_equal(groups.left_out, 10);
	/* The groups that are there still take what is theirs. */
	assert_non_null(add(&groups, "GET", "https://a", "/n7"));
	assert_int_equal(groups.list[7].requests, 2);
	kh_path_groups_fini(&groups);
}

static void texts_of_a_megabyte_end_at_the_limit_of_bytes(void **state)
{
	enum { BYTES = 1024 * 1024 };
	struct kh_path_groups groups = { 0 };
	char *path = malloc(BYTES + 1);
	(void)state;
	assert_non_null(path);
	memset(path, 'a', BYTES);
	path[0] = '/';
	path[BYTES] = '\0';
	for (int i = 0; i < 32; i++) {
		path[1] = (char)('A' + i % 26);
		path[2] = (char)('A' + i / 26);
		(void)add(&groups, "GET", "https://a", path);
	}
	assert_true(groups.bytes <= KH_LIMIT_PATH_GROUPS_BYTES);
	assert_int_equal(groups.count + groups.left_out, 32);
	assert_true(groups.left_out > 0);
	kh_path_groups_fini(&groups);
	free(path);
}

/* ---- rules ---- */

static void suggest(const struct kh_path_groups *groups, struct kh_suggestions *out)
{
	assert_true(kh_suggest_rules(groups, "t", out));
}

static void methods_of_one_path_share_a_rule(void **state)
{
	struct kh_path_groups groups = { 0 };
	struct kh_suggestions rules;
	(void)state;
	add(&groups, "POST", "https://b.example", "/x");
	add(&groups, "GET", "https://a.example:8443", "/v1/1");
	add(&groups, "POST", "https://a.example:8443", "/v1/1");
	add(&groups, "GET", "https://a.example:8443", "/v1/2");
	(void)kh_path_groups_add(&groups, "other", "GET", "https://a.example", KH_SLICE("/no"), "");
	suggest(&groups, &rules);
	/* The POST is of one path only, and stays so. */
	assert_int_equal(rules.count, 3);
	assert_string_equal(rules.list[0].text, "GET https://a.example:8443/v1/*");
	assert_int_equal(rules.list[0].requests, 2);
	assert_string_equal(rules.list[1].text, "POST https://a.example:8443/v1/1");
	assert_string_equal(rules.list[2].text, "POST https://b.example/x");
	kh_suggestions_fini(&rules);
	add(&groups, "POST", "https://a.example:8443", "/v1/2");
	suggest(&groups, &rules);
	assert_int_equal(rules.count, 2);
	assert_string_equal(rules.list[0].text, "GET,POST https://a.example:8443/v1/*");
	assert_int_equal(rules.list[0].requests, 4);
	kh_suggestions_fini(&rules);
	kh_path_groups_fini(&groups);
}

static void a_rule_that_another_covers_is_left_out_and_counted_there(void **state)
{
	struct kh_path_groups groups = { 0 };
	struct kh_suggestions rules;
	(void)state;
	add(&groups, "GET", "https://a.example", "/v1/me");
	add(&groups, "GET", "https://a.example", "/v1/1");
	add(&groups, "GET", "https://a.example", "/v1/2");
	add(&groups, "PUT", "https://a.example", "/v1/me");
	suggest(&groups, &rules);
	assert_int_equal(rules.count, 2);
	assert_string_equal(rules.list[0].text, "GET https://a.example/v1/*");
	assert_int_equal(rules.list[0].requests, 3);
	assert_string_equal(rules.list[1].text, "PUT https://a.example/v1/me");
	kh_suggestions_fini(&rules);
	kh_path_groups_fini(&groups);
}

static void no_rule_is_wider_than_a_host_a_method_and_a_path(void **state)
{
	static const char *const rows[][3] = {
		{ "GET", "https://**", "/x" },
		{ "GET", "https://*.example.com", "/x" },
		{ "GET", "https://[10.0.0.0/8]", "/x" },
		{ "GET", "https://a.example", "/**" },
		{ "GET", "https://a.example", "" },
		{ "*", "https://a.example", "/x" },
		{ "", "https://a.example", "/x" },
		{ "get", "https://a.example", "/x" },
		{ "CONNECT", "https://a.example", "/x" },
		{ "GET", "tcp://a.example:22", "" },
		{ "GET", "https://a.example", "/x y" },
		{ "GET", "https://a.example", "/x?y" },
		{ "GET", "https://a.example", "/x\ny" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kh_path_groups groups = { 0 };
		struct kh_suggestions rules;
		add(&groups, rows[i][0], rows[i][1], rows[i][2]);
		suggest(&groups, &rules);
		if (rules.count != 0)
			fail_msg("a rule was made: %s", rules.list[0].text);
		assert_int_equal(rules.unwritten, 1);
		kh_suggestions_fini(&rules);
		kh_path_groups_fini(&groups);
	}
}

static void a_method_that_no_rule_can_name_takes_no_rule_from_others(void **state)
{
	static const char *const methods[] = { "GET", "*", "G T", "GET,POST", "get", "POST", "" };
	struct kh_path_groups groups = { 0 };
	struct kh_suggestions rules;
	char method[8] = "MAA";
	(void)state;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		add(&groups, methods[i], "https://a.example", "/x");
	suggest(&groups, &rules);
	assert_int_equal(rules.count, 1);
	assert_string_equal(rules.list[0].text, "GET,POST https://a.example/x");
	assert_int_equal(rules.list[0].requests, 2);
	assert_int_equal(rules.unwritten, 5);
	kh_suggestions_fini(&rules);
	/* A rule has 32 methods at most. */
	for (int i = 0; i < 40; i++) {
		method[1] = (char)('A' + i % 26);
		method[2] = (char)('A' + i / 26);
		add(&groups, method, "https://a.example", "/x");
	}
	suggest(&groups, &rules);
	assert_int_equal(rules.count, 2);
	assert_int_equal(rules.list[0].requests + rules.list[1].requests, 42);
	kh_suggestions_fini(&rules);
	kh_path_groups_fini(&groups);
}

static void an_address_is_a_host(void **state)
{
	struct kh_path_groups groups = { 0 };
	struct kh_suggestions rules;
	(void)state;
	add(&groups, "GET", "http://10.1.2.3:8080", "/metrics");
	add(&groups, "GET", "https://[2001:db8::7]", "/status");
	groups.list[1].refused = 1;
	groups.list[1].with_credential = 1;
	suggest(&groups, &rules);
	assert_int_equal(rules.count, 2);
	assert_string_equal(rules.list[0].text, "GET http://10.1.2.3:8080/metrics");
	assert_string_equal(rules.list[1].text, "GET https://[2001:db8::7]/status");
	assert_int_equal(rules.list[1].refused, 1);
	assert_int_equal(rules.list[1].with_credential, 1);
	kh_suggestions_fini(&rules);
	groups.list[0].apart = true;
	suggest(&groups, &rules);
	assert_int_equal(rules.count, 1);
	kh_suggestions_fini(&rules);
	kh_path_groups_fini(&groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identifiers_are_numbers_hex_uuids_and_dates),
		cmocka_unit_test(paths_that_differ_in_an_identifier_share_a_pattern),
		cmocka_unit_test(paths_without_a_name_are_never_merged),
		cmocka_unit_test(a_name_a_method_a_place_or_a_depth_is_never_merged),
		cmocka_unit_test(every_path_of_a_group_matches_its_pattern),
		cmocka_unit_test(what_finds_no_room_is_counted),
		cmocka_unit_test(texts_of_a_megabyte_end_at_the_limit_of_bytes),
		cmocka_unit_test(methods_of_one_path_share_a_rule),
		cmocka_unit_test(a_rule_that_another_covers_is_left_out_and_counted_there),
		cmocka_unit_test(no_rule_is_wider_than_a_host_a_method_and_a_path),
		cmocka_unit_test(a_method_that_no_rule_can_name_takes_no_rule_from_others),
		cmocka_unit_test(an_address_is_a_host),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
