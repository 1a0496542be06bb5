/* test_recorded.c - a recorded request is decided as it would be, or not at all */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/file.h>
#include <keyhole/exchange/preset_match.h>
#include <keyhole/exchange/recorded.h>

#define HEAD "version: 1\ntenants:\n  t:\n    rules:\n"
#define KEYS \
	"credentials:\n" \
	"  a: { value: { env: A }, header: { x-a: \"{}\" }, hosts: [ h.example ] }\n" \
	"  b: { value: { env: B }, header: { x-b: \"{}\" }, hosts: [ h.example ] }\n"

static struct kh_recorded request(const char *method, const char *path)
{
	return (struct kh_recorded){ .method = kh_slice_str(method),
				     .scheme = KH_SLICE("https"),
				     .host = KH_SLICE("h.example"),
				     .path = kh_slice_str(path),
				     .port = 443 };
}

static void name(struct kh_recorded *of, const char *parameter)
{
	of->query_names[of->n_query_names++] = kh_slice_str(parameter);
}

/* Under these rules. The needs of what is undecided go to `needs`. */
static enum kh_recorded_fate fate(const struct kh_recorded *of, const char *yaml, unsigned *needs)
{
	struct fixture f = policy_of(yaml);
	struct kh_recorded_question question;
	struct kh_recorded_answer answer;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_recorded_ask(&question, of, &err))
		fail_msg("%s", err.text);
	kh_recorded_decide(&question, f.config, f.policy, 0, NULL, &answer);
	enum kh_recorded_fate found = answer.fate;
	*needs = answer.needs;
	assert_true(found != KH_RECORDED_UNDECIDED || answer.needs != 0);
	kh_recorded_answer_fini(&answer);
	kh_recorded_fini(&question);
	fini(&f);
	return found;
}

static void assert_undecided(const struct kh_recorded *of, const char *yaml, unsigned wanted)
{
	unsigned needs;
	assert_int_equal(fate(of, yaml, &needs), KH_RECORDED_UNDECIDED);
	assert_int_equal(needs, wanted);
}

static void assert_fate(const struct kh_recorded *of, const char *yaml,
			enum kh_recorded_fate wanted)
{
	unsigned needs;
	assert_int_equal(fate(of, yaml, &needs), wanted);
}

static enum kh_recorded_change change(const struct kh_recorded *of, const char *before,
				      const char *after)
{
	struct fixture f[2] = { policy_of(before), policy_of(after) };
	struct kh_recorded_question question;
	struct kh_recorded_answer answers[2];
	assert_true(kh_recorded_ask(&question, of, NULL));
	for (size_t i = 0; i < 2; i++)
		kh_recorded_decide(&question, f[i].config, f[i].policy, 0, NULL, &answers[i]);
	enum kh_recorded_change found = kh_recorded_compare(&answers[0], &answers[1]);
	for (size_t i = 0; i < 2; i++) {
		kh_recorded_answer_fini(&answers[i]);
		fini(&f[i]);
	}
	kh_recorded_fini(&question);
	return found;
}

static void what_the_text_of_rules_says_is_decided(void **state)
{
	struct kh_recorded get = request("GET", "/v1/x");
	(void)state;
	assert_fate(&get, HEAD "      - allow: \"GET https://h.example/v1/*\"\n",
		    KH_RECORDED_ALLOWED);
	assert_fate(&get, HEAD "      - allow: \"POST https://h.example/v1/*\"\n",
		    KH_RECORDED_REFUSED);
	assert_fate(&get,
		    HEAD "      - deny: \"https://h.example/v1/x\"\n"
			 "      - allow: \"https://h.example\"\n",
		    KH_RECORDED_REFUSED);
	assert_fate(&get, HEAD "      []\n", KH_RECORDED_REFUSED);
}

static void a_condition_on_what_is_not_recorded_is_never_guessed(void **state)
{
	static const struct {
		const char *condition;
		unsigned needs;
	} rows[] = {
		{ "headers: { x-beta: \"*\" }", KH_NEEDS_FIELDS },
		{ "content_type: application/json", KH_NEEDS_CONTENT_TYPE },
		{ "models: \"claude-*\"", KH_NEEDS_MODEL },
		{ "models: \"*\"", KH_NEEDS_MODEL },
		{ "headers: { x-a: b }, models: x", KH_NEEDS_FIELDS | KH_NEEDS_MODEL },
	};
	struct kh_recorded post = request("POST", "/v1/x");
	char yaml[512];
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* One that allows, and nothing behind it; one that denies in front of one that
		 * allows. */
		(void)snprintf(yaml, sizeof(yaml),
			       HEAD "      - { allow: \"https://h.example\", %s }\n",
			       rows[i].condition);
		assert_undecided(&post, yaml, rows[i].needs);
		(void)snprintf(yaml, sizeof(yaml),
			       HEAD "      - { deny: \"https://h.example\", %s }\n"
				    "      - { allow: \"https://h.example\" }\n",
			       rows[i].condition);
		assert_undecided(&post, yaml, rows[i].needs);
		/* Whether it denies or not, nothing allows. */
		(void)snprintf(yaml, sizeof(yaml),
			       HEAD "      - { deny: \"https://h.example\", %s }\n",
			       rows[i].condition);
		assert_fate(&post, yaml, KH_RECORDED_REFUSED);
		/* Its path does not match: nothing depends on it. */
		(void)snprintf(yaml, sizeof(yaml),
			       HEAD "      - { deny: \"https://h.example/v2\", %s }\n"
				    "      - { allow: \"https://h.example\" }\n",
			       rows[i].condition);
		assert_fate(&post, yaml, KH_RECORDED_ALLOWED);
	}
}

static void names_of_the_query_are_known_and_values_are_not(void **state)
{
	static const char rules[] =
		HEAD "      - { allow: \"GET https://h.example/s\", query: { v: \"2*\" } }\n";
	static const char any[] =
		HEAD "      - { allow: \"GET https://h.example/s\", query: { v: \"*\" } }\n";
	struct kh_recorded get = request("GET", "/s");
	(void)state;
	assert_fate(&get, rules, KH_RECORDED_REFUSED);
	name(&get, "w");
	assert_fate(&get, rules, KH_RECORDED_REFUSED);
	name(&get, "v");
	assert_undecided(&get, rules, KH_NEEDS_QUERY);
	/* Not even that one matches an encoded control. */
	assert_undecided(&get, any, KH_NEEDS_QUERY);
	struct kh_recorded unshown = request("GET", "/s");
	unshown.query_unshown = 1;
	assert_undecided(&unshown, rules, KH_NEEDS_QUERY);
	/* A pattern that would take the text which stands for a value. */
	assert_undecided(&get,
			 HEAD "      - { allow: \"GET https://h.example/s\", query: { v: \"*e*\" } "
			      "}\n",
			 KH_NEEDS_QUERY);
}

static void what_a_parameter_may_name_is_not_guessed(void **state)
{
	static const char *const names[] = {
		"_method",	 "$httpMethod", "method", "destination", "X-HTTP-Method-Override",
		"x-original-url"
	};
	static const char rules[] = HEAD "      - allow: \"POST https://h.example/v1/**\"\n";
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct kh_recorded post = request("POST", "/v1/x");
		name(&post, names[i]);
		assert_undecided(&post, rules, KH_NEEDS_OVERRIDE);
		/* Nothing is allowed there at all. */
		assert_fate(&post, HEAD "      - allow: \"https://other.example\"\n",
			    KH_RECORDED_REFUSED);
	}
}

static void a_path_that_was_cut_is_not_guessed(void **state)
{
	struct kh_recorded get = request("GET", "/v1/aaaa");
	(void)state;
	get.path_is_cut = true;
	assert_undecided(&get, HEAD "      - allow: \"GET https://h.example/v1/**\"\n",
			 KH_NEEDS_PATH);
}

static void the_size_counts_if_it_is_known(void **state)
{
	static const char rules[] =
		HEAD "      - { allow: \"POST https://h.example\", max_body: 1KiB }\n";
	struct kh_recorded post = request("POST", "/");
	(void)state;
	assert_undecided(&post, rules, KH_NEEDS_SIZE);
	post.has_size = true;
	post.size = 1024;
	assert_fate(&post, rules, KH_RECORDED_ALLOWED);
	post.size = 1025;
	assert_fate(&post, rules, KH_RECORDED_REFUSED);
}

static void the_model_counts_if_it_is_recorded_or_in_the_path(void **state)
{
	static const char rules[] =
		HEAD "      - { allow: \"POST https://h.example/**\", models: \"gemini-*\" }\n";
	struct kh_recorded post = request("POST", "/v1/x");
	(void)state;
	post.model = KH_SLICE("gemini-1");
	assert_fate(&post, rules, KH_RECORDED_ALLOWED);
	post.model = KH_SLICE("other");
	assert_fate(&post, rules, KH_RECORDED_REFUSED);
	post.model = KH_SLICE("(hidden)");
	assert_undecided(&post, rules, KH_NEEDS_MODEL);
	struct kh_recorded in_path =
		request("POST", "/v1beta/models/gemini-2.5-pro:generateContent");
	assert_fate(&in_path, rules, KH_RECORDED_ALLOWED);
}

static void authentication_that_was_removed_is_known(void **state)
{
	static const char without[] = HEAD "      - allow: \"https://h.example\"\n";
	struct kh_recorded get = request("GET", "/");
	(void)state;
	assert_fate(&get, without, KH_RECORDED_ALLOWED);
	get.stripped = KH_SLICE("authorization,cookie");
	assert_fate(&get, without, KH_RECORDED_REFUSED);
	assert_fate(&get, KEYS HEAD "      - { allow: \"https://h.example\", credential: a }\n",
		    KH_RECORDED_ALLOWED);
}

static void an_unread_tunnel_is_decided_as_one(void **state)
{
	struct kh_recorded tunnel = {
		.tunnel = true, .scheme = KH_SLICE("tcp"), .host = KH_SLICE("h.example"), .port = 22
	};
	(void)state;
	assert_fate(&tunnel, HEAD "      - allow: \"tcp://h.example:22\"\n", KH_RECORDED_ALLOWED);
	assert_fate(&tunnel, HEAD "      - deny: \"tcp://h.example:22\"\n", KH_RECORDED_REFUSED);
	assert_fate(&tunnel, HEAD "      []\n", KH_RECORDED_REFUSED);
	assert_undecided(&tunnel, HEAD "      - allow: \"https://h.example:22/x\"\n",
			 KH_NEEDS_TUNNEL);
}

static void what_was_never_a_request_is_not_asked(void **state)
{
	static const struct {
		const char *method, *scheme, *host, *path;
		uint64_t port;
	} rows[] = {
		{ "", "https", "h.example", "/", 443 },
		{ "GET", "https", "", "/", 443 },
		{ "GET", "https", "h.example", "", 443 },
		{ "GET", "https", "h.example", "/", 0 },
		{ "GET", "", "h.example", "/", 443 },
		{ "GET", "ftp", "h.example", "/", 21 },
		{ "GET", "https", "(hidden)", "/", 443 },
		{ "GET", "https", "h.example", "/(hidden)", 443 },
		{ "(hidden)", "https", "h.example", "/", 443 },
		{ "GET", "https", "h.example/x@y", "/", 443 },
		{ "GET", "https", "h.example", "/x?y", 443 },
		{ "GET", "https", "h.example", "/x#y", 443 },
		{ "GET", "https", "h.example:443/x?", "/y", 443 },
		{ "GET", "https://other.example", "h.example", "/", 443 },
		{ "GET", "https", "h.example", "/../x", 443 },
		{ "GET", "https", "h.example", "/\n", 443 },
		{ "GET", "https", "h.example", "/\xff", 443 },
		{ "GET", "https", "h.example", "/", 70000 },
		{ "GET", "https", "keyhole.internal", "/", 443 },
		{ "CONNECT", "https", "h.example", "/", 443 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct kh_recorded of = { .method = kh_slice_str(rows[i].method),
						.scheme = kh_slice_str(rows[i].scheme),
						.host = kh_slice_str(rows[i].host),
						.path = kh_slice_str(rows[i].path),
						.port = rows[i].port };
		struct kh_recorded_question question;
		struct kh_err err = KH_ERR_INIT;
		if (kh_recorded_ask(&question, &of, &err))
			fail_msg("row %zu was asked", i);
		assert_true(err.code != KH_ERR_NONE);
		kh_recorded_fini(&question);
	}
}

#define ALLOW(text, more) "      - { allow: \"" text "\"" more " }\n"

static void a_change_is_named_for_what_it_is(void **state)
{
	static const char open[] = HEAD ALLOW("GET https://h.example/**", "");
	static const char other[] = HEAD ALLOW("GET,HEAD https://h.example/**", "");
	static const char none[] = HEAD ALLOW("POST https://h.example/**", "");
	static const char denies[] = HEAD "      - { deny: \"https://h.example\" }\n";
	static const char with_a[] = KEYS HEAD ALLOW("GET https://h.example/**", ", credential: a");
	static const char with_b[] = KEYS HEAD ALLOW("GET https://h.example/**", ", credential: b");
	static const char pass[] = HEAD ALLOW("GET https://h.example/**", ", client_auth: pass");
	struct kh_recorded get = request("GET", "/x");
	(void)state;
	assert_int_equal(change(&get, open, open), KH_CHANGE_NONE);
	assert_int_equal(change(&get, none, none), KH_CHANGE_NONE);
	assert_int_equal(change(&get, open, none), KH_CHANGE_REFUSES);
	assert_int_equal(change(&get, none, open), KH_CHANGE_ALLOWS);
	assert_int_equal(change(&get, open, other), KH_CHANGE_RULE);
	assert_int_equal(change(&get, none, denies), KH_CHANGE_RULE);
	assert_int_equal(change(&get, with_a, with_b), KH_CHANGE_RULE);
	assert_int_equal(change(&get, open, with_a), KH_CHANGE_RULE);
	assert_int_equal(change(&get, open, pass), KH_CHANGE_RULE);
}

static void one_configuration_decides_like_itself_whatever_is_not_recorded(void **state)
{
	static const char *const rules[] = {
		ALLOW("https://h.example/**", ", headers: { x-a: b }"),
		ALLOW("https://h.example/**", ", query: { v: \"1\" }"),
		ALLOW("https://h.example/**", ", models: \"a*\"") ALLOW("https://h.example/**", ""),
		ALLOW("https://h.example/**", ", max_body: 1KiB"),
		"      - { deny: \"https://h.example\", content_type: text/plain }\n" ALLOW(
			"https://h.example/v1/**", ""),
	};
	static const char site[] =
		"version: 1\nsite: { rules: [ { allow: \"https://h.example\", headers: { x-a: b } "
		"} ] "
		"}\ntenants:\n  t:\n    rules:\n      - allow: \"https://h.example\"\n";
	static const char narrower_site[] =
		"version: 1\nsite: { rules: [ { allow: \"https://h.example\", headers: { x-a: b } "
		"} ] "
		"}\ntenants:\n  t:\n    rules:\n      - allow: \"GET https://h.example\"\n";
	char yaml[1024], more[1024];
	(void)state;
	for (int kind = 0; kind < 4; kind++) {
		struct kh_recorded post = request("POST", kind == 1 ? "/v1/a%2Fb" : "/v1/x");
		if (kind == 2)
			name(&post, "_method");
		post.path_is_cut = kind == 3;
		name(&post, "v");
		for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
			(void)snprintf(yaml, sizeof(yaml), HEAD "%s", rules[i]);
			assert_int_equal(change(&post, yaml, yaml), KH_CHANGE_NONE);
			/* Rules of other hosts change nothing here. */
			(void)snprintf(more, sizeof(more),
				       HEAD ALLOW("https://other.example", "") "%s", rules[i]);
			assert_int_equal(change(&post, yaml, more), KH_CHANGE_NONE);
		}
		assert_int_equal(change(&post, site, site), KH_CHANGE_NONE);
	}
	/* What holds for an address that another one carries has a say there. */
	static const char v6[] =
		HEAD ALLOW("POST https://[64:ff9b::a01:203]", ", headers: { x-a: b }");
	static const char v4[] = HEAD "      - deny: \"https://[10.0.0.0/8]\"\n" ALLOW(
		"POST https://[64:ff9b::a01:203]", ", headers: { x-a: b }");
	struct kh_recorded carries = request("POST", "/v1/x");
	carries.host = KH_SLICE("64:ff9b::a01:203");
	assert_int_equal(change(&carries, v6, v6), KH_CHANGE_NONE);
	assert_int_equal(change(&carries, v6, v4), KH_CHANGE_UNDECIDED);
	/* The site's rule may allow it, and then the tenant's decides. */
	struct kh_recorded post = request("POST", "/v1/x");
	assert_int_equal(change(&post, site, narrower_site), KH_CHANGE_UNDECIDED);
}

static void a_rule_that_asks_for_more_makes_it_undecided(void **state)
{
	static const char before[] = HEAD ALLOW("POST https://h.example/**", "");
	static const char after[] = HEAD ALLOW("POST https://h.example/**", ", models: \"a*\"");
	struct kh_recorded post = request("POST", "/v1/x");
	(void)state;
	assert_int_equal(change(&post, before, after), KH_CHANGE_UNDECIDED);
	post.model = KH_SLICE("abc");
	assert_int_equal(change(&post, before, after), KH_CHANGE_RULE);
	post.model = KH_SLICE("xyz");
	assert_int_equal(change(&post, before, after), KH_CHANGE_REFUSES);
}

/* ---- all that is decided is what a whole request would be told ---- */

enum { ROUNDS = 3000 };

static uint64_t seed;

/* xorshift64: a failing round can be run again. */
static size_t below(size_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (size_t)(seed % n);
}

#define ONE_OF(list) list[below(sizeof(list) / sizeof(list[0]))]

/* What a journal has of it, and what it has not. */
struct whole {
	const char *method, *path, *parameter, *value, *beta, *type;
	size_t size;
	bool said; /* the record has the size */
};

static struct whole random_request(void)
{
	static const char *const methods[] = { "GET", "POST", "DELETE" };
	static const char *const paths[] = { "/a", "/a/b", "/a%2Fb", "/c", "/%61", "/A", "/c%3Fx" };
	static const char *const parameters[] = { "", "", "v", "V", "w", "_method" };
	static const char *const values[] = { "1", "2", "22", "DELETE", "", "%00" };
	static const char *const betas[] = { "", "", "on", "off" };
	static const char *const types[] = { "", "text/plain", "application/json" };
	return (struct whole){ .method = ONE_OF(methods),
			       .path = ONE_OF(paths),
			       .parameter = ONE_OF(parameters),
			       .value = ONE_OF(values),
			       .beta = ONE_OF(betas),
			       .type = ONE_OF(types),
			       .size = below(2) * 2048,
			       .said = below(2) };
}

static size_t put_rules(char *yaml, size_t len, size_t room)
{
	static const char *const methods[] = { "", "GET ", "POST ", "GET,POST ", "DELETE " };
	static const char *const hosts[] = { "h.example", "*.example", "h.example", "g.example" };
	static const char *const paths[] = { "", "/a", "/a/**", "/*", "/**", "/c" };
	static const char *const conditions[] = {
		"",
		"",
		", query: { v: \"1\" }",
		", query: { v: \"2*\" }",
		", query: { v: \"*\" }",
		", headers: { x-beta: \"on\" }",
		", headers: { x-beta: \"*\" }",
		", content_type: text/plain",
		", query: { w: \"*\" }, headers: { x-beta: \"o*\" }",
		", spelling: exact",
	};
	size_t n = below(6) + 1;
	for (size_t i = 0; i < n; i++) {
		bool allow = below(3) > 0;
		const char *host = ONE_OF(hosts);
		const char *more = ONE_OF(conditions);
		if (host[0] == '*')
			host = "**";
		if (allow && below(5) == 0)
			more = ", max_body: 1KiB";
		len += (size_t)snprintf(
			yaml + len, room - len, "      - { %s: \"%shttps://%s%s\"%s }\n",
			allow ? "allow" : "deny", ONE_OF(methods), host, ONE_OF(paths), more);
	}
	return len;
}

/* With a ceiling now and then. */
static void random_rules(char *yaml, size_t room)
{
	size_t len = put_rules(yaml, (size_t)snprintf(yaml, room, HEAD), room);
	if (below(3) == 0)
		(void)put_rules(
			yaml, len + (size_t)snprintf(yaml + len, room - len, "site:\n    rules:\n"),
			room);
}

/* What the request itself is told. */
static struct kh_outcome outcome(const struct fixture *f, const struct whole *w)
{
	char url[256];
	struct kh_dry_run ask;
	struct kh_outcome out;
	kh_dry_run_init(&ask);
	(void)snprintf(url, sizeof(url), "https://h.example%s%s%s%s%s", w->path,
		       w->parameter[0] ? "?" : "", w->parameter, w->parameter[0] ? "=" : "",
		       w->parameter[0] ? w->value : "");
	if (w->beta[0])
		(void)kh_dry_run_field(&ask, KH_SLICE("x-beta"), kh_slice_str(w->beta));
	if (w->type[0])
		(void)kh_dry_run_field(&ask, KH_SLICE("content-type"), kh_slice_str(w->type));
	if (w->size)
		kh_dry_run_body(&ask, w->size);
	if (kh_dry_run_ask(&ask, kh_slice_str(w->method), kh_slice_str(url), NULL))
		kh_dry_run_answer(&ask, f->config, f->policy, 0, NULL, &out);
	else
		out = (struct kh_outcome){ .reason = KH_ERR_REQUEST_MALFORMED };
	kh_dry_run_fini(&ask);
	return out;
}

static struct kh_recorded record_of(const struct whole *w)
{
	struct kh_recorded of = request(w->method, w->path);
	if (w->parameter[0])
		name(&of, w->parameter);
	of.has_size = w->said;
	of.size = w->size;
	return of;
}

static const char *text_of(const struct kh_outcome *o)
{
	return o->decision.rule ? o->decision.rule->text : "";
}

static void what_is_decided_is_what_a_whole_request_is_told(void **state)
{
	size_t decided = 0, same = 0;
	(void)state;
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		char yaml[2][4096];
		seed = round * 0x9e3779b97f4a7c15u;
		random_rules(yaml[0], sizeof(yaml[0]));
		if (below(3) == 0)
			memcpy(yaml[1], yaml[0], sizeof(yaml[0]));
		else
			random_rules(yaml[1], sizeof(yaml[1]));
		struct fixture f[2] = { policy_of(yaml[0]), policy_of(yaml[1]) };
		for (int i = 0; i < 4; i++) {
			struct whole w = random_request();
			struct kh_outcome told[2] = { outcome(&f[0], &w), outcome(&f[1], &w) };
			struct kh_recorded of = record_of(&w);
			struct kh_recorded_question question;
			struct kh_recorded_answer answers[2];
			/* An encoded NUL is no request, and has no record like one. */
			if (told[0].reason == KH_ERR_REQUEST_MALFORMED)
				continue;
			assert_true(kh_recorded_ask(&question, &of, NULL));
			for (size_t k = 0; k < 2; k++) {
				kh_recorded_decide(&question, f[k].config, f[k].policy, 0, NULL,
						   &answers[k]);
				if (answers[k].fate == KH_RECORDED_UNDECIDED)
					continue;
				decided++;
				if (told[k].allow != (answers[k].fate == KH_RECORDED_ALLOWED))
					fail_msg("round %llu: %s %s?%s=%s under\n%s",
						 (unsigned long long)round, w.method, w.path,
						 w.parameter, w.value, yaml[k]);
			}
			if (kh_recorded_compare(&answers[0], &answers[1]) == KH_CHANGE_NONE) {
				same++;
				if (told[0].allow != told[1].allow ||
				    (told[0].allow &&
				     strcmp(text_of(&told[0]), text_of(&told[1])) != 0))
					fail_msg("round %llu: %s %s?%s=%s is not alike under\n%s%s",
						 (unsigned long long)round, w.method, w.path,
						 w.parameter, w.value, yaml[0], yaml[1]);
			}
			for (size_t k = 0; k < 2; k++)
				kh_recorded_answer_fini(&answers[k]);
			kh_recorded_fini(&question);
		}
		fini(&f[0]);
		fini(&f[1]);
	}
	/* Both happen often enough to mean something. */
	assert_true(decided > ROUNDS && same > ROUNDS);
}

/* ---- presets ---- */

static size_t bit_of(const struct kh_preset_match *match, const char *preset)
{
	for (size_t i = 0; i < kh_preset_match_count(match); i++)
		if (strcmp(kh_preset_match_name(match, i), preset) == 0)
			return i;
	fail_msg("no preset %s", preset);
	return 0;
}

static struct kh_preset_matches matches(const struct kh_preset_match *match, const char *method,
					const char *host, const char *path, const char *parameter)
{
	struct kh_recorded of = request(method, path);
	struct kh_recorded_question question;
	struct kh_preset_matches found;
	of.host = kh_slice_str(host);
	if (parameter)
		name(&of, parameter);
	assert_true(kh_recorded_ask(&question, &of, NULL));
	kh_preset_match_ask(match, &question, &found);
	kh_recorded_fini(&question);
	return found;
}

static void a_preset_that_would_allow_it_is_found(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_preset_match *match = kh_preset_match_new("policies", &err);
	(void)state;
	assert_non_null(match);
	uint64_t npm = UINT64_C(1) << bit_of(match, "npm");
	uint64_t github = UINT64_C(1) << bit_of(match, "github");
	uint64_t anthropic = UINT64_C(1) << bit_of(match, "anthropic");
	struct kh_preset_matches got =
		matches(match, "GET", "registry.npmjs.org", "/left-pad", NULL);
	assert_int_equal(got.allow, npm);
	assert_int_equal(got.may | got.deny, 0);
	assert_int_equal(got.refuse, 0);
	got = matches(match, "PUT", "registry.npmjs.org", "/left-pad", NULL);
	assert_int_equal(got.allow | got.may | got.deny, 0);
	assert_int_equal(got.refuse, npm);
	got = matches(match, "GET", "github.com", "/a/b.git/info/refs", "service");
	assert_int_equal(got.allow, 0);
	assert_int_equal(got.may, github);
	got = matches(match, "POST", "github.com", "/a/b.git/git-receive-pack", NULL);
	assert_int_equal(got.allow | got.may, 0);
	assert_int_equal(got.deny, github);
	got = matches(match, "POST", "api.anthropic.com", "/v1/messages", NULL);
	assert_int_equal(got.allow, anthropic);
	got = matches(match, "GET", "h.example", "/", NULL);
	assert_int_equal(got.allow | got.may | got.deny, 0);
	/* Those that need a parameter are not there. */
	for (size_t i = 0; i < kh_preset_match_count(match); i++) {
		assert_string_not_equal(kh_preset_match_name(match, i), "azure-openai");
		assert_int_equal(kh_preset_match_config(match, i)->n_tenants, 1);
	}
	kh_preset_match_free(match);
}

/* Heap. */
static char *narrowed(struct kh_preset_match *match, const char *preset, const char *host,
		      const char *path)
{
	struct kh_recorded of = request(strstr(path, "-pack") ? "POST" : "GET", path);
	struct kh_recorded_question question;
	of.host = kh_slice_str(host);
	assert_true(kh_recorded_ask(&question, &of, NULL));
	char *value = kh_preset_match_narrow(match, bit_of(match, preset), &question);
	kh_recorded_fini(&question);
	return value;
}

static void what_a_request_is_about_is_what_answers_it_alike(void **state)
{
	static const struct {
		const char *preset, *host, *path, *value;
	} cases[] = {
		{ "github", "github.com", "/a/b/wiki", "a/b" },
		{ "github", "github.com", "/a/b.git/git-upload-pack", "a/b" },
		{ "github", "api.github.com", "/repos/c/d/issues", "c/d" },
		{ "github", "objects.githubusercontent.com", "/x/y", "" },
		{ "github", "github.com", "/a/%41,b/wiki", NULL },
		{ "go", "proxy.golang.org", "/golang.org/x/text/@v/list", "golang.org/x" },
		{ "npm", "registry.npmjs.org", "/left-pad", "" },
	};
	struct kh_err err = KH_ERR_INIT;
	struct kh_preset_match *match = kh_preset_match_new("policies", &err);
	(void)state;
	assert_non_null(match);
	assert_string_equal(kh_preset_match_narrowed_by(match, bit_of(match, "github")), "repos");
	assert_null(kh_preset_match_narrowed_by(match, bit_of(match, "npm")));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *value = narrowed(match, cases[i].preset, cases[i].host, cases[i].path);
		if ((!value) != (!cases[i].value))
			fail_msg("%s: %s", cases[i].path, value ? value : "none");
		if (value)
			assert_string_equal(value, cases[i].value);
		free(value);
	}
	/* Whoever asks for one repository after the other makes no more of them than there is room
	 * for. */
	for (int i = 0; i < 200; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/a%d/b/wiki", i);
		free(narrowed(match, "github", "github.com", path));
	}
	assert_null(narrowed(match, "github", "github.com", "/z/z/wiki"));
	kh_preset_match_free(match);
}

static void a_boolean_that_would_allow_it_is_found(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_preset_match *match = kh_preset_match_new("policies", &err);
	struct kh_recorded of = request("POST", "/a/b.git/git-receive-pack");
	struct kh_recorded_question question;
	(void)state;
	assert_non_null(match);
	uint64_t github = UINT64_C(1) << bit_of(match, "github");
	of.host = KH_SLICE("github.com");
	assert_true(kh_recorded_ask(&question, &of, NULL));
	assert_int_equal(kh_preset_match_turned(match, 0, &question), 0);
	uint64_t found = kh_preset_match_turned(match, github, &question);
	size_t nth = 0;
	while (nth < 64 && !(found & UINT64_C(1) << nth))
		nth++;
	assert_int_equal(found, UINT64_C(1) << nth);
	assert_string_equal(kh_preset_match_turned_text(match, nth), "github: { push: true }");
	assert_int_equal(kh_preset_match_turned(match, ~github, &question), 0);
	kh_recorded_fini(&question);
	kh_preset_match_free(match);
}

static void more_presets_than_a_mask_has_bits_are_counted(void **state)
{
	enum { MANY = KH_PRESET_MATCH_MOST + 3 };
	char folder[] = "/tmp/kh-presets-XXXXXX", path[64];
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_non_null(mkdtemp(folder));
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(path, sizeof(path), "%s/p%d.yaml", folder, i);
		assert_true(kh_file_write(path,
					  KH_SLICE("description: d\nrules:\n"
						   "  - allow: \"GET https://h.example/**\"\n"),
					  0600, NULL));
	}
	struct kh_preset_match *match = kh_preset_match_new(folder, &err);
	assert_non_null(match);
	assert_int_equal(kh_preset_match_count(match), KH_PRESET_MATCH_MOST);
	assert_int_equal(kh_preset_match_left_out(match), 3);
	assert_int_equal(matches(match, "GET", "h.example", "/", NULL).allow, UINT64_MAX);
	kh_preset_match_free(match);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(path, sizeof(path), "%s/p%d.yaml", folder, i);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(folder), 0);
}

static void a_folder_without_presets_matches_nothing(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_preset_match *match = kh_preset_match_new("/nonexistent", &err);
	(void)state;
	assert_non_null(match);
	assert_int_equal(kh_preset_match_count(match), 0);
	struct kh_preset_matches got = matches(match, "GET", "h.example", "/", NULL);
	assert_int_equal(got.allow | got.may | got.deny, 0);
	kh_preset_match_free(match);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_text_of_rules_says_is_decided),
		cmocka_unit_test(a_condition_on_what_is_not_recorded_is_never_guessed),
		cmocka_unit_test(names_of_the_query_are_known_and_values_are_not),
		cmocka_unit_test(what_a_parameter_may_name_is_not_guessed),
		cmocka_unit_test(a_path_that_was_cut_is_not_guessed),
		cmocka_unit_test(the_size_counts_if_it_is_known),
		cmocka_unit_test(the_model_counts_if_it_is_recorded_or_in_the_path),
		cmocka_unit_test(authentication_that_was_removed_is_known),
		cmocka_unit_test(an_unread_tunnel_is_decided_as_one),
		cmocka_unit_test(what_was_never_a_request_is_not_asked),
		cmocka_unit_test(a_change_is_named_for_what_it_is),
		cmocka_unit_test(one_configuration_decides_like_itself_whatever_is_not_recorded),
		cmocka_unit_test(a_rule_that_asks_for_more_makes_it_undecided),
		cmocka_unit_test(what_is_decided_is_what_a_whole_request_is_told),
		cmocka_unit_test(a_preset_that_would_allow_it_is_found),
		cmocka_unit_test(what_a_request_is_about_is_what_answers_it_alike),
		cmocka_unit_test(a_boolean_that_would_allow_it_is_found),
		cmocka_unit_test(more_presets_than_a_mask_has_bits_are_counted),
		cmocka_unit_test(a_folder_without_presets_matches_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
