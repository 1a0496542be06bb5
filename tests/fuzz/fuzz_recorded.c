/*
 * fuzz_recorded.c - a request as a journal has it, decided again and made into a rule
 *
 * The input is the fields of a record, a line each: method, scheme, host, port, path, model,
 * removed authentication, flags, then names of the query. What is asked is what was recorded. One
 * configuration decides like itself. A rule that is made of it names one method, one host and a
 * path that matches, and allows the request.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/exchange/recorded.h>
#include <keyhole/policy/suggest.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static const char yaml[] =
	"version: 1\n"
	"tenants:\n"
	"  t:\n"
	"    rules:\n"
	"      - { deny: \"https://h.example/secret/**\" }\n"
	"      - { allow: \"GET https://h.example/s\", query: { v: \"2*\" } }\n"
	"      - { deny: \"https://h.example\", headers: { x-beta: \"*\" } }\n"
	"      - { allow: \"POST https://h.example/v1/**\", models: [ \"a*\" ], max_body: 1KiB }\n"
	"      - { allow: \"GET,POST https://h.example/v1/**\" }\n"
	"      - { allow: \"tcp://h.example:22\" }\n";

static struct kh_config *config;
static struct kh_policy *policy;

static void begin(void)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;
	if (config)
		return;
	config = kh_config_parse("f.yaml", kh_slice_str(yaml), NULL, NULL, &diags);
	kh_diagnostics_fini(&diags);
	require(config != NULL);
	policy = kh_policy_compile(config, &err);
	require(policy != NULL);
}

static struct kh_slice next_line(struct kh_slice *rest)
{
	size_t end = kh_slice_find(*rest, '\n', 0);
	struct kh_slice line = kh_slice_sub(*rest, 0, end);
	*rest = kh_slice_sub(*rest, end + 1, rest->len);
	return line;
}

static void read_record(struct kh_slice rest, struct kh_recorded *out)
{
	struct kh_slice flags;
	*out = (struct kh_recorded){ .method = next_line(&rest),
				     .scheme = next_line(&rest),
				     .host = next_line(&rest) };
	if (!kh_slice_to_u64(next_line(&rest), &out->port))
		out->port = 443;
	out->path = next_line(&rest);
	out->model = next_line(&rest);
	out->stripped = next_line(&rest);
	flags = next_line(&rest);
	out->path_is_cut = kh_slice_find(flags, 'c', 0) < flags.len;
	out->tunnel = kh_slice_find(flags, 't', 0) < flags.len;
	out->websocket = kh_slice_find(flags, 'w', 0) < flags.len;
	out->has_size = kh_slice_find(flags, 's', 0) < flags.len;
	out->query_unshown = kh_slice_find(flags, 'u', 0) < flags.len;
	out->size = flags.len * 512;
	while (rest.len > 0 && out->n_query_names < KH_LIMIT_AUDIT_QUERY_NAMES)
		out->query_names[out->n_query_names++] = next_line(&rest);
}

static void decide_twice(const struct kh_recorded_question *question)
{
	struct kh_recorded_answer answers[2];
	for (size_t i = 0; i < 2; i++)
		kh_recorded_decide(question, config, policy, 0, NULL, &answers[i]);
	require(answers[0].fate == answers[1].fate && answers[0].needs == answers[1].needs);
	require(answers[0].fate != KH_RECORDED_UNDECIDED || answers[0].needs != 0);
	require(answers[0].open || kh_recorded_compare(&answers[0], &answers[1]) == KH_CHANGE_NONE);
	require(answers[0].fate != KH_RECORDED_ALLOWED || answers[0].outcome.allow);
	for (size_t i = 0; i < 2; i++)
		kh_recorded_answer_fini(&answers[i]);
}

/* Is the request allowed by that rule alone? */
static bool allows(const char *rule, const struct kh_dry_run *ask)
{
	struct kh_buf text;
	struct kh_diagnostics diags = { 0 };
	struct kh_decision decision;
	kh_buf_init(&text, 64 * 1024);
	require(kh_buf_append_str(&text, "version: 1\ntenants: { t: { rules: [ { allow: \"") &&
		kh_buf_append_str(&text, rule) && kh_buf_append_str(&text, "\" } ] } }\n"));
	struct kh_config *one = kh_config_parse("r.yaml", kh_buf_view(&text), NULL, NULL, &diags);
	kh_diagnostics_fini(&diags);
	kh_buf_fini(&text);
	require(one != NULL);
	struct kh_policy *made = kh_policy_compile(one, NULL);
	require(made != NULL);
	kh_policy_decide(made, 0, NULL, &ask->view, &decision);
	bool allowed = decision.allow;
	kh_policy_unref(made);
	kh_config_free(one);
	return allowed;
}

static void suggest(const struct kh_recorded_question *question)
{
	const struct kh_dry_run *ask = &question->ask;
	struct kh_path_groups groups = { 0 };
	struct kh_suggestions rules;
	struct kh_buf place;
	char *method = kh_slice_dup(ask->message.method);
	kh_buf_init(&place, 1024);
	require(kh_buf_printf(&place, "%s://", kh_scheme_name(ask->scheme)) &&
		(ask->authority.host.kind != KH_HOST_IPV4 || kh_buf_append_char(&place, '[')));
	if (ask->authority.host.kind == KH_HOST_IPV4)
		require(kh_buf_printf(&place, "%s]:%u", ask->authority.host.text,
				      (unsigned)ask->authority.port));
	else
		require(kh_authority_format(&place, &ask->authority, 0));
	if (method && kh_slice_find(ask->target.path, '*', 0) == ask->target.path.len) {
		require(kh_path_groups_add(&groups, "t", method, kh_buf_cstr(&place),
					   ask->target.path, "") != NULL);
		require(kh_suggest_rules(&groups, "t", &rules));
		require(rules.count + rules.unwritten == 1);
		require(rules.count == 0 || allows(rules.list[0].text, ask));
		kh_suggestions_fini(&rules);
	}
	kh_path_groups_fini(&groups);
	kh_buf_fini(&place);
	free(method);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_recorded recorded;
	struct kh_recorded_question question;
	struct kh_err err = KH_ERR_INIT;
	begin();
	read_record(kh_slice_of(data, size), &recorded);
	if (kh_recorded_ask(&question, &recorded, &err)) {
		require(question.ask.tunnel == recorded.tunnel);
		require(question.ask.authority.port == recorded.port);
		require(recorded.tunnel ||
			kh_slice_eq(question.ask.target.raw_path, recorded.path));
		decide_twice(&question);
		if (!recorded.tunnel && kh_recorded_has_one_reading(&question))
			suggest(&question);
	} else {
		require(err.code != KH_ERR_NONE);
	}
	kh_recorded_fini(&question);
	return 0;
}
