/* test_decision_work.c - what one decision may cost, in steps, however the request is made */
/* wrap: kh_slice_find kh_spelling_is_field kh_slice_eq_nocase_long */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/spelling.h>
#include <keyhole/exchange/dry_run.h>

/* What is looked for and compared, whether or not anybody counts it as a step. */
static uint64_t looked;

size_t __real_kh_slice_find(struct kh_slice s, char c, size_t from);
size_t __wrap_kh_slice_find(struct kh_slice s, char c, size_t from);
size_t __wrap_kh_slice_find(struct kh_slice s, char c, size_t from)
{
	looked++;
	return __real_kh_slice_find(s, c, from);
}

bool __real_kh_spelling_is_field(struct kh_slice field, struct kh_slice name);
bool __wrap_kh_spelling_is_field(struct kh_slice field, struct kh_slice name);
bool __wrap_kh_spelling_is_field(struct kh_slice field, struct kh_slice name)
{
	looked++;
	return __real_kh_spelling_is_field(field, name);
}

bool __real_kh_slice_eq_nocase_long(struct kh_slice a, struct kh_slice b);
bool __wrap_kh_slice_eq_nocase_long(struct kh_slice a, struct kh_slice b);
bool __wrap_kh_slice_eq_nocase_long(struct kh_slice a, struct kh_slice b)
{
	looked++;
	return __real_kh_slice_eq_nocase_long(a, b);
}

/* `n` denials, each with a number behind `text`, unless that stands for any path, and `more` behind
 * its URL, and what is allowed. */
static struct fixture policy_with(const char *text, const char *more, unsigned n)
{
	struct kh_buf out;
	kh_buf_init(&out, 1024 * 1024);
	assert_true(kh_buf_append_str(&out, "version: 1\ntenants:\n  a:\n    rules:\n"));
	bool any = kh_slice_has_suffix(kh_slice_str(text), KH_SLICE("/**"));
	for (unsigned i = 0; i < n; i++) {
		char number[16] = "";
		if (!any)
			(void)snprintf(number, sizeof(number), "%u/**", i);
		assert_true(
			kh_buf_printf(&out, "      - { deny: \"%s%s\"%s }\n", text, number, more));
	}
	assert_true(kh_buf_append_str(&out, "      - { allow: \"https://api.example\" }\n") &&
		    kh_buf_append_char(&out, '\0'));
	struct fixture f = policy_of(kh_buf_view(&out).ptr);
	kh_buf_fini(&out);
	return f;
}

/* All that multiplies the readings of a request, beside its path. */
static const char *const multipliers[][2] = {
	{ "X-HTTP-Method-Override", "GET" },	{ "X-HTTP-Method-Override", "PUT" },
	{ "X-HTTP-Method-Override", "PURGE" },	{ "X-HTTP-Method-Override", "HEAD" },
	{ "X-Forwarded-Host", "api.example" },	{ "X-Host", "api.example:443" },
	{ "X-Original-URL", "/secret/secret" },
};
enum { NONE = 0, BUT_A_PATH = 6, ALL = 7 };

static struct kh_decision ask(const struct fixture *f, const char *url, size_t n_multipliers)
{
	struct kh_dry_run *q = calloc(1, sizeof(*q));
	struct kh_err err = KH_ERR_INIT;
	struct kh_decision decision, explained;
	assert_non_null(q);
	kh_dry_run_init(q);
	for (size_t i = 0; i < n_multipliers; i++)
		assert_true(kh_dry_run_field(q, kh_slice_str(multipliers[i][0]),
					     kh_slice_str(multipliers[i][1])));
	if (!kh_dry_run_ask(q, KH_SLICE("POST"), kh_slice_str(url), &err))
		fail_msg("%s", err.text);
	kh_policy_decide(f->policy, 0, NULL, &q->view, &decision);
	kh_policy_explain(f->policy, 0, NULL, &q->view, NULL, NULL, &explained);
	assert_int_equal(decision.allow, explained.allow);
	assert_ptr_equal(decision.rule, explained.rule);
	assert_int_equal(decision.reason, explained.reason);
	/* The step that was one too many is a path or a parameter. */
	assert_true(decision.steps <= KH_LIMIT_DECISION_STEPS + 8 * KH_LIMIT_LINE_BYTES);
	kh_dry_run_fini(q);
	free(q);
	return decision;
}

/* `begin`, `what` over and over up to a length that a request line may have, and `end`. */
static char *long_url(const char *begin, const char *what, const char *end)
{
	enum { BYTES = 15 * 1024 };
	char *url = malloc(BYTES + 64);
	assert_non_null(url);
	size_t len = (size_t)snprintf(url, 64, "https://api.example/%s", begin);
	while (len + strlen(what) + strlen(end) < BYTES)
		len += (size_t)snprintf(url + len, 32, "%s", what);
	(void)snprintf(url + len, 64, "%s", end);
	return url;
}

static const char *const repeated[] = { "secret/", "s%2F",   "s;/", "a.%2Eb", "s/",  "secrets",
					"%2561/",  "%25%37", "a. ", ":",      "a:$", "/secret/" };

static void many_methods_hosts_and_spellings_cost_no_more_than_one(void **state)
{
	(void)state;
	enum { RULES = 30, READINGS = 64 };
	struct fixture f = policy_with("https://api.example/**/secrets", "", RULES);
	for (size_t i = 0; i < sizeof(repeated) / sizeof(repeated[0]); i++) {
		bool blank = strchr(repeated[i], ' ') != NULL;
		char *url = long_url("", blank ? "a.%20" : repeated[i], "%2F%2561");
		struct kh_decision one = ask(&f, url, NONE);
		struct kh_decision many = ask(&f, url, BUT_A_PATH);
		if (!one.allow || !many.allow)
			fail_msg("%s: should be allowed, in all readings", repeated[i]);
		/* Only what the rules look at beside the path is looked at again. */
		if (many.steps > one.steps + RULES * READINGS)
			fail_msg("%s: %llu steps, and %llu with more methods and hosts",
				 repeated[i], (unsigned long long)one.steps,
				 (unsigned long long)many.steps);
		assert_false(ask(&f, url, ALL).allow);
		free(url);
	}
	fini(&f);
}

static void what_would_take_too_many_steps_is_denied(void **state)
{
	(void)state;
	static const char *const texts[] = { "https://api.example/**/secrets",
					     "https://api.example/**/s*/*t/x",
					     "https://api.example/**s*c*e*t*x" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct fixture f = policy_with(texts[i], "", 2000);
		char *url = long_url("", "/secrets/t/x", "%2F%2561%23a%3Fb");
		struct kh_decision d = ask(&f, url, BUT_A_PATH);
		free(url);
		assert_false(d.allow);
		assert_null(d.rule);
		assert_int_equal(d.reason, KH_ERR_REQUEST_TOO_COMPLEX);
		assert_true(ask(&f, "https://api.example/v1/models?a=1", BUT_A_PATH).allow);
		fini(&f);
	}
}

static void a_long_query_is_held_against_conditions_in_bounded_steps(void **state)
{
	(void)state;
	struct fixture f =
		policy_with("https://api.example/**", ", query: { action: \"*delete*all*\" }", 300);
	static const char *const values[] = { "delet", "%2564elete", "+delete",
					      "delete;action=", "&action=delete&a[]=" };
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char *url = long_url("a0/x?action=", values[i], "");
		struct kh_decision d = ask(&f, url, BUT_A_PATH);
		assert_true(d.allow || d.reason == KH_ERR_REQUEST_TOO_COMPLEX);
		free(url);
	}
	assert_true(ask(&f, "https://api.example/a0/x?action=get", BUT_A_PATH).allow);
	fini(&f);
}

/* A head as full as it may be: what goes on with the connection, and fields without end. */
static void put_many_fields(struct kh_dry_run *q, struct kh_slice options, struct kh_slice members)
{
	static char names[KH_LIMIT_FIELDS][24];
	assert_true(kh_dry_run_field(q, KH_SLICE("Connection"), options));
	for (size_t i = 0; i < BUT_A_PATH; i++)
		assert_true(kh_dry_run_field(q, kh_slice_str(multipliers[i][0]),
					     kh_slice_str(multipliers[i][1])));
	assert_true(kh_dry_run_field(q, KH_SLICE("x-h1"), members));
	assert_true(kh_dry_run_field(q, KH_SLICE("content-type"), members));
	for (size_t i = 0; q->message.n_fields < KH_LIMIT_FIELDS; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "x-%zu", i + 100);
		assert_true(kh_dry_run_field(q, kh_slice_str(names[i]), KH_SLICE("a")));
	}
}

static void what_is_looked_at_in_fields_is_counted_once_a_step(void **state)
{
	(void)state;
	/* Of the message itself: each field against each option and each listed name. */
	enum { ONCE = 4 * KH_LIMIT_FIELDS * KH_LIMIT_CONNECTION_OPTIONS, OPTION_BYTES = 900 };
	static const char *const conditions[] = { ", headers: { x-h1: b }",
						  ", headers: { x-h2: \"*b*\" }",
						  ", content_type: text/x" };
	static const unsigned rules[] = { 30, 300, 2000 };
	static char options[KH_LIMIT_CONNECTION_OPTIONS * (OPTION_BYTES + 1)], members[8192];
	memset(options, 'x', sizeof(options));
	for (size_t i = 0; i < KH_LIMIT_CONNECTION_OPTIONS; i++)
		options[(i + 1) * (OPTION_BYTES + 1) - 1] = ',';
	memset(members, ',', sizeof(members));
	for (size_t i = 0; i < 9; i++) {
		struct fixture f =
			policy_with("https://api.example/**", conditions[i / 3], rules[i % 3]);
		struct kh_dry_run *q = calloc(1, sizeof(*q));
		struct kh_decision d;
		assert_non_null(q);
		kh_dry_run_init(q);
		put_many_fields(q, kh_slice_of(options, sizeof(options)),
				kh_slice_of(members, sizeof(members)));
		assert_true(kh_dry_run_ask(q, KH_SLICE("POST"),
					   KH_SLICE("https://api.example/x/a%252F%2Fb%3Fc"), NULL));
		looked = 0;
		kh_policy_decide(f.policy, 0, NULL, &q->view, &d);
		if (looked > ONCE + d.steps)
			fail_msg("%s, %u rules: looked %llu times in %llu steps", conditions[i / 3],
				 rules[i % 3], (unsigned long long)looked,
				 (unsigned long long)d.steps);
		assert_true(d.steps <= KH_LIMIT_DECISION_STEPS + 8 * KH_LIMIT_LINE_BYTES);
		kh_dry_run_fini(q);
		free(q);
		fini(&f);
	}
}

/* A sandbox chooses how many addresses its host's name has. */
static void all_addresses_of_a_name_share_the_steps_of_one_decision(void **state)
{
	(void)state;
	enum { RULES = 30, ADDRESSES = 16, MANY = 64 };
	struct fixture f = policy_with("https://[10.0.0.0/8]/**/secrets", "", RULES);
	char *url = long_url("", "secret/", "%2F%2561");
	struct kh_dry_run *q = calloc(1, sizeof(*q));
	struct kh_decision d, there;
	struct kh_host addr;
	uint64_t steps = 0, one = 0;
	unsigned asked = 0;
	assert_non_null(q);
	kh_dry_run_init(q);
	assert_true(kh_dry_run_ask(q, KH_SLICE("POST"), kh_slice_str(url), NULL));
	kh_policy_decide(f.policy, 0, NULL, &q->view, &d);
	assert_true(d.allow);
	assert_true(kh_host_parse(&addr, KH_SLICE("10.1.2.3"), NULL));
	while (asked++ < MANY && !kh_policy_denies_address(f.policy, 0, NULL, &q->view, false, &d,
							   &addr, &steps, &there))
		one = one ? one : steps;
	assert_true(one > KH_LIMIT_DECISION_STEPS / ADDRESSES); /* or it shows nothing */
	assert_true(asked > 1 && asked <= ADDRESSES);
	assert_int_equal(there.reason, KH_ERR_REQUEST_TOO_COMPLEX);
	assert_null(there.rule);
	if (steps > KH_LIMIT_DECISION_STEPS + 8 * KH_LIMIT_LINE_BYTES)
		fail_msg("%llu steps", (unsigned long long)steps);
	uint64_t spent = steps; /* and from there on not one step more */
	assert_true(kh_policy_denies_address(f.policy, 0, NULL, &q->view, false, &d, &addr, &steps,
					     &there));
	assert_int_equal(steps, spent);
	kh_dry_run_fini(q);
	free(q);
	free(url);
	fini(&f);
}

/* Each field behind the content is held against the conditions of all rules for the host. */
static void fields_behind_the_content_share_the_steps_of_a_decision(void **state)
{
	(void)state;
	enum { RULES = 4000, FIELDS = KH_LIMIT_FIELDS };
	struct fixture f = policy_with("https://api.example/p", ", headers: { x-beta: v }", RULES);
	struct kh_host host;
	uint64_t steps = 0;
	unsigned asked = 0;
	assert_true(kh_host_parse(&host, KH_SLICE("api.example"), NULL));
	const struct kh_request_view view = { .scheme = KH_SCHEME_HTTPS,
					      .host = &host,
					      .port = 443 };
	looked = 0;
	assert_false(
		kh_policy_looks_at_field(f.policy, 0, NULL, &view, KH_SLICE("y-0001"), &steps));
	assert_true(looked >= RULES && steps >= looked);
	while (asked++ < FIELDS &&
	       !kh_policy_looks_at_field(f.policy, 0, NULL, &view, KH_SLICE("y-0001"), &steps))
		continue;
	assert_true(asked < FIELDS);
	assert_true(steps > KH_LIMIT_DECISION_STEPS && steps >= looked);
	uint64_t before = looked; /* and from there on nothing is compared */
	assert_true(kh_policy_looks_at_field(f.policy, 0, NULL, &view, KH_SLICE("y-0001"), &steps));
	assert_int_equal(looked, before);
	fini(&f);
}

/* Each parameter is held against all names that speak of a method, host or path. */
static void each_parameter_of_each_query_is_counted(void **state)
{
	(void)state;
	enum { MANY = 1000 };
	struct fixture f = policy_with("https://api.example/**", "", 1);
	char url[64 + 2 * MANY], value[3 + 2 * MANY] = "/?";
	uint64_t steps[3];
	for (size_t i = 0; i < MANY; i++)
		memcpy(value + 2 + 2 * i, "a&", sizeof("a&"));
	value[1 + 2 * MANY] = '\0'; /* no empty one at the end */
	for (size_t i = 0; i < 3; i++) {
		struct kh_dry_run *q = calloc(1, sizeof(*q));
		struct kh_decision d;
		assert_non_null(q);
		kh_dry_run_init(q);
		(void)snprintf(url, sizeof(url), "https://api.example%s", i == 0 ? "/" : value);
		if (i == 2)
			assert_true(kh_dry_run_field(q, KH_SLICE("X-Original-URL"),
						     kh_slice_str(value)));
		assert_true(kh_dry_run_ask(q, KH_SLICE("GET"), kh_slice_str(url), NULL));
		kh_policy_decide(f.policy, 0, NULL, &q->view, &d);
		steps[i] = d.steps;
		kh_dry_run_fini(q);
		free(q);
	}
	assert_true(steps[1] >= steps[0] + (uint64_t)MANY * KH_LIMIT_PARAMETER_STEPS);
	assert_true(steps[2] >= steps[1] + (uint64_t)MANY * KH_LIMIT_PARAMETER_STEPS);
	fini(&f);
}

static void an_ordinary_request_takes_a_few_steps_a_rule(void **state)
{
	(void)state;
	enum { RULES = 100, STEPS_A_RULE = 128 };
	struct fixture f = policy_with("https://api.example/**/secrets", "", RULES);
	static const char *const urls[] = { "https://api.example/v1/chat/completions",
					    "https://api.example/Org/App.git/info/refs?x=1",
					    "https://api.example/a%20file/of%20mine" };
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++)
		assert_true(ask(&f, urls[i], NONE).steps < (uint64_t)RULES * STEPS_A_RULE);
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_methods_hosts_and_spellings_cost_no_more_than_one),
		cmocka_unit_test(what_would_take_too_many_steps_is_denied),
		cmocka_unit_test(a_long_query_is_held_against_conditions_in_bounded_steps),
		cmocka_unit_test(what_is_looked_at_in_fields_is_counted_once_a_step),
		cmocka_unit_test(all_addresses_of_a_name_share_the_steps_of_one_decision),
		cmocka_unit_test(fields_behind_the_content_share_the_steps_of_a_decision),
		cmocka_unit_test(each_parameter_of_each_query_is_counted),
		cmocka_unit_test(an_ordinary_request_takes_a_few_steps_a_rule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
