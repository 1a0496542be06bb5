/* test_conditions.c - what a rule asks beside its text: query, headers, content type, size */
#include "unit.h"

#include <stdio.h>

#include <keyhole/policy/policy.h>

#include "config/config_internal.h"

struct fixture {
	struct kh_config *config;
	struct kh_policy *policy;
};

static struct kh_config *parse(const char *rule, struct kh_diagnostics *diags)
{
	char yaml[1024];
	(void)snprintf(yaml, sizeof(yaml), "version: 1\ntenants: { a: { rules: [ %s ] } }\n", rule);
	*diags = (struct kh_diagnostics){ 0 };
	return kh_config_parse("test", kh_slice_str(yaml), NULL, "policies", diags);
}

/* Through the snapshot, as the worker gets it. */
static struct fixture with(const char *rule)
{
	struct fixture f = { 0 };
	struct kh_diagnostics diags;
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf bytes;
	struct kh_config *read = parse(rule, &diags);
	if (!read)
		fail_msg("%s: %s", rule, diags.count ? diags.list[0].text : "no configuration");
	kh_diagnostics_fini(&diags);
	kh_buf_init(&bytes, 65536);
	assert_true(kh_config_encode(read, &bytes));
	f.config = kh_config_decode(kh_buf_view(&bytes), &err);
	if (!f.config)
		fail_msg("%s: %s", rule, err.text);
	kh_buf_fini(&bytes);
	kh_config_free(read);
	f.policy = kh_policy_compile(f.config, &err);
	assert_non_null(f.policy);
	return f;
}

static void fini(struct fixture *f)
{
	kh_policy_unref(f->policy);
	kh_config_free(f->config);
}

/* "name: value" lines. */
static bool next_line(void *head, size_t *at, struct kh_slice *name, struct kh_slice *value)
{
	struct kh_slice all = *(struct kh_slice *)head;
	if (*at >= all.len)
		return false;
	size_t end = kh_slice_find(all, '\n', *at), colon = kh_slice_find(all, ':', *at);
	*name = kh_slice_sub(all, *at, colon);
	*value = kh_slice_trim(kh_slice_sub(all, colon + 1, end));
	*at = end + 1;
	return true;
}

static struct kh_request_view view_of(const struct kh_host *host, const char *query,
				      struct kh_slice *head)
{
	return (struct kh_request_view){
		.method = KH_SLICE("GET"),
		.scheme = KH_SCHEME_HTTPS,
		.host = host,
		.port = 443,
		.path = KH_SLICE("/x"),
		.query = kh_slice_str(query),
		.fields = { head->ptr ? next_line : NULL, head },
	};
}

static bool matches(const struct fixture *f, const char *query, const char *head)
{
	struct kh_host host;
	struct kh_decision decision;
	assert_true(kh_host_parse(&host, KH_SLICE("h.example"), NULL));
	struct kh_slice lines = kh_slice_str(head);
	struct kh_request_view view = view_of(&host, query, &lines);
	kh_policy_decide(f->policy, 0, NULL, &view, &decision);
	return decision.rule == &f->config->tenants[0].rules.list[0];
}

struct sample {
	const char *text;
	bool allowed; /* the rule that allows matches */
	bool denied;  /* so does the one that denies */
};

static void a_query_is_read_strictly_to_allow_and_widely_to_deny(void **state)
{
	(void)state;
	static const struct sample samples[] = {
		{ NULL, false, false },	       { "", false, false },
		{ "v=2", true, true },	       { "v=25", true, true },
		{ "v=3", false, false },       { "v", false, false },
		{ "v=", false, false },	       { "w=2", false, false },
		{ "a=b&v=2&c", true, true },   { "v=2&v=29", true, true },
		{ "v=2&v=3", false, true },    { "v=3&v=2", false, true },
		{ "%76=2", true, true },       { "v=%32x", true, true },
		{ "v=2%00", false, true },     { "v=2%0a3", false, true },
		{ "v=2;v=3", false, true },    { "a=1;v=2", false, true },
		{ "v=2&a=1;b", false, true },  { "V=2", false, true },
		{ "v=2&V=3", false, true },    { "v[]=2", false, true },
		{ "v=2&v[0]=3", false, true }, { "v=2&v%5b%5d=3", false, true },
		{ "vv=2", false, false },      { "v%26=2", false, false },
	};
	struct fixture allow = with("{ allow: \"https://h.example\", query: { v: \"2*\" } }");
	struct fixture deny = with("{ deny: \"https://h.example\", query: { v: \"2*\" } }");
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (matches(&allow, samples[i].text, NULL) != samples[i].allowed)
			fail_msg("allow, ?%s", samples[i].text ? samples[i].text : "(none)");
		if (matches(&deny, samples[i].text, NULL) != samples[i].denied)
			fail_msg("deny, ?%s", samples[i].text ? samples[i].text : "(none)");
	}
	fini(&allow);
	fini(&deny);
}

/* A form's '+' is a blank; to other servers it is a plus. */
static void a_denial_takes_a_plus_for_either(void **state)
{
	(void)state;
	struct fixture plus = with("{ deny: \"https://h.example\", query: { v: \"a+b\" } }");
	struct fixture blank = with("{ deny: \"https://h.example\", query: { v: \"a b\" } }");
	assert_true(matches(&plus, "v=a+b", NULL) && matches(&plus, "v=A%2bb", NULL));
	assert_true(matches(&blank, "v=a+b", NULL) && matches(&blank, "v=a%20b", NULL));
	assert_false(matches(&plus, "v=a%20b", NULL) || matches(&blank, "v=a%2Bb", NULL));
	fini(&plus);
	fini(&blank);
}

static void each_member_of_a_field_must_match_to_allow_and_one_to_deny(void **state)
{
	(void)state;
	static const struct sample samples[] = {
		{ "", false, false },
		{ "x-other: read", false, false },
		{ "x-mode: read", true, true },
		{ "X-MODE: read", true, true },
		{ "x-mode: read, read-only", true, true },
		{ "x-mode: read, write", false, true },
		{ "x-mode: write, read", false, true },
		{ "x-mode: read\nx-mode: write", false, true },
		{ "x-mode: READ", false, true },
		{ "x-mode: ", false, false },
		{ "x-mode: read,", false, true },
		{ "x-mode: bread", false, false },
	};
	struct fixture allow =
		with("{ allow: \"https://h.example\", headers: { x-mode: \"read*\" } }");
	struct fixture deny =
		with("{ deny: \"https://h.example\", headers: { x-mode: \"read*\" } }");
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		if (matches(&allow, NULL, samples[i].text) != samples[i].allowed)
			fail_msg("allow, %s", samples[i].text);
		if (matches(&deny, NULL, samples[i].text) != samples[i].denied)
			fail_msg("deny, %s", samples[i].text);
	}
	assert_false(matches(&allow, NULL, NULL));
	fini(&allow);
	fini(&deny);
}

static void a_media_type_is_compared_without_parameters_and_case(void **state)
{
	(void)state;
	struct fixture f = with("{ allow: \"https://h.example\", content_type: [ application/json, "
				"\"image/*\" ] }");
	assert_true(matches(&f, NULL, "content-type: application/json"));
	assert_true(matches(&f, NULL, "Content-Type: Application/JSON ; charset=utf-8"));
	assert_true(matches(&f, NULL, "content-type: image/png"));
	assert_false(matches(&f, NULL, "content-type: text/plain"));
	assert_false(matches(&f, NULL, "content-type: application/jsonx"));
	assert_false(matches(&f, NULL, "content-type: text/plain; application/json"));
	assert_false(matches(&f, NULL, "content-type: application/json\ncontent-type: text/plain"));
	assert_false(matches(&f, NULL, "content-type: application/json, text/plain"));
	assert_false(matches(&f, NULL, "accept: application/json"));
	assert_false(matches(&f, NULL, NULL));
	fini(&f);
}

static void a_body_that_is_announced_too_large_does_not_match(void **state)
{
	(void)state;
	struct fixture f = with("{ allow: \"https://h.example\", max_body: 1KiB }");
	struct kh_host host;
	struct kh_decision decision;
	assert_true(kh_host_parse(&host, KH_SLICE("h.example"), NULL));
	struct kh_slice none = kh_slice_of(NULL, 0);
	struct kh_request_view view = view_of(&host, NULL, &none);
	kh_policy_decide(f.policy, 0, NULL, &view, &decision);
	assert_true(decision.allow); /* nothing is announced */
	view.has_length = true;
	view.length = 1024;
	kh_policy_decide(f.policy, 0, NULL, &view, &decision);
	assert_true(decision.allow);
	view.length = 1025;
	kh_policy_decide(f.policy, 0, NULL, &view, &decision);
	assert_false(decision.allow);
	assert_null(decision.rule);
	fini(&f);
}

static void all_conditions_must_hold(void **state)
{
	(void)state;
	struct fixture f = with("{ allow: \"https://h.example\", query: { a: \"1\", b: \"*\" }, "
				"headers: { x: y } }");
	assert_true(matches(&f, "a=1&b=", "x: y"));
	assert_false(matches(&f, "a=1", "x: y"));
	assert_false(matches(&f, "a=1&b=2", "x: z"));
	assert_false(matches(&f, "a=1&b=2", NULL));
	fini(&f);
}

/* Both stars and both lengths grow: a search that goes back over all stars would not end. */
static void a_long_value_against_many_stars_is_quick(void **state)
{
	(void)state;
	static char pattern[600], query[16000];
	memset(query, 'a', sizeof(query) - 1);
	memcpy(query, "v=", 2);
	size_t len = 0;
	for (unsigned i = 0; i < 100; i++)
		len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "*a");
	char rule[800];
	(void)snprintf(rule, sizeof(rule),
		       "{ allow: \"https://h.example\", query: { v: \"%sb\" } }", pattern);
	struct fixture f = with(rule);
	for (unsigned i = 0; i < 20; i++)
		assert_false(matches(&f, query, NULL));
	fini(&f);
}

static void a_condition_that_makes_no_sense_is_an_error(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"{ allow: \"https://h.example\", query: {} }",
		"{ allow: \"https://h.example\", query: [ v ] }",
		"{ allow: \"https://h.example\", query: { v: \"\" } }",
		"{ allow: \"https://h.example\", query: { v: [] } }",
		"{ allow: \"https://h.example\", query: { v: { a: b } } }",
		"{ allow: \"https://h.example\", query: { \"\": a } }",
		"{ allow: \"https://h.example\", headers: { X-Mode: a } }",
		"{ allow: \"https://h.example\", headers: { host: a } }",
		"{ allow: \"https://h.example\", headers: { connection: a } }",
		"{ allow: \"https://h.example\", headers: { proxy-authorization: a } }",
		"{ allow: \"https://h.example\", headers: { content-type: a } }",
		"{ allow: \"https://h.example\", headers: { \"a b\": a } }",
		"{ allow: \"https://h.example\", headers: { a: \"b,c\" } }",
		"{ allow: \"https://h.example\", content_type: \"text/html; charset=utf-8\" }",
		"{ allow: \"https://h.example\", content_type: { a: b } }",
		"{ allow: \"https://h.example\", content_type: json }",
		"{ allow: \"https://h.example\", max_body: 12 }",
		"{ allow: \"https://h.example\", max_body: [ 1KiB ] }",
		"{ deny: \"https://h.example\", max_body: 1KiB }",
		"{ use: npm, query: { v: \"1\" } }",
		"{ use: npm, max_body: 1KiB }",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kh_diagnostics diags;
		struct kh_config *config = parse(bad[i], &diags);
		if (config)
			fail_msg("%s is taken", bad[i]);
		assert_true(diags.count > 0 && diags.list[0].where.line == 2);
		kh_diagnostics_fini(&diags);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_query_is_read_strictly_to_allow_and_widely_to_deny),
		cmocka_unit_test(a_denial_takes_a_plus_for_either),
		cmocka_unit_test(each_member_of_a_field_must_match_to_allow_and_one_to_deny),
		cmocka_unit_test(a_media_type_is_compared_without_parameters_and_case),
		cmocka_unit_test(a_body_that_is_announced_too_large_does_not_match),
		cmocka_unit_test(all_conditions_must_hold),
		cmocka_unit_test(a_long_value_against_many_stars_is_quick),
		cmocka_unit_test(a_condition_that_makes_no_sense_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
