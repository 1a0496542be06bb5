/* test_preset.c - what a use of a preset may say, and what it can never make of the preset */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/policy/policy.h>

#include "../src/config/config_internal.h"

enum { TEXT_BYTES = 64 * 1024 };

static const char preset[] =
	"description: d\n"
	"parameters:\n"
	"  repos: { type: repo, default: [ \"*/*\" ], doc: which }\n"
	"  groups: { type: project, default: [ a/b ], doc: which }\n"
	"  regions: { type: label, default: eu-1, doc: where }\n"
	"  hosts: { type: host, default: [ h.example ], doc: where }\n"
	"  parts: { type: segment, default: [ \"*\" ], doc: which }\n"
	"  kinds: { type: word, values: [ small, large ], default: [ small ], doc: which }\n"
	"  push: { type: boolean, default: false, doc: may write }\n"
	"  quiet: { type: boolean, default: true, doc: says less }\n"
	"credentials:\n"
	"  key: { value: { env: K }, header: { x-k: \"{}\" },"
	" hosts: [ \"a.{regions}.example.com\" ] }\n"
	"  spare: { value: { env: S }, header: { x-s: \"{}\" }, hosts: [ g.example ] }\n"
	"rules:\n"
	"  - { when: push, allow: \"POST https://g.example/{repos}/push\", credential: spare }\n"
	"  - { when: not push, deny: \"POST https://g.example/**\" }\n"
	"  - { when: [ push, not quiet ], allow: \"PUT https://g.example/loud\" }\n"
	"  - { allow: \"GET https://g.example/{repos}/x/{kinds}\" }\n"
	"  - { allow: \"GET https://l.example/{groups}/-/{parts}\" }\n"
	"  - { allow: \"GET https://a.{regions}.example.com/{regions}/y\", credential: key }\n"
	"  - { allow: \"GET https://{hosts}:8443/z\" }\n"
	"files:\n"
	"  - { path: .k, needs: K, content: \"${K}\" }\n"
	"  - { path: .s/s, needs: S, when: [ push, not quiet ], content: \"{push}\" }\n";

static char folder[] = "/tmp/kh-preset-XXXXXX";

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	char *path = kh_path_join(folder, "p.yaml");
	bool ok = kh_file_write(path, kh_slice_str(preset), 0600, NULL);
	free(path);
	return ok ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	char *path = kh_path_join(folder, "p.yaml");
	(void)unlink(path);
	free(path);
	return rmdir(folder);
}

/* A configuration of two tenants with these uses; the second may be NULL. */
static struct kh_config *read_uses(const char *first, const char *second,
				   struct kh_diagnostics *diags)
{
	struct kh_buf yaml;
	kh_buf_init(&yaml, TEXT_BYTES);
	assert_true(kh_buf_printf(&yaml,
				  "version: 1\ntenants:\n  a: { rules: [ { use: %s } ] }\n"
				  "  b: { rules: [ { use: %s } ] }\n",
				  first, second ? second : "p"));
	*diags = (struct kh_diagnostics){ 0 };
	struct kh_config *config = kh_config_parse("t", kh_buf_view(&yaml), NULL, folder, diags);
	kh_buf_fini(&yaml);
	return config;
}

/* The texts of a tenant's rules, a line each. */
static void assert_rules(const struct kh_config *config, size_t tenant, const char *due)
{
	struct kh_buf text;
	kh_buf_init(&text, TEXT_BYTES);
	const struct kh_rules *rules = &config->tenants[tenant].rules;
	for (size_t i = 0; i < rules->count; i++) {
		assert_string_equal(rules->list[i].preset, "p");
		assert_true(kh_buf_printf(&text, "%u %s\n", rules->list[i].where.line,
					  rules->list[i].text));
	}
	if (strcmp(kh_buf_cstr(&text), due) != 0)
		fail_msg("%s", kh_buf_cstr(&text));
	kh_buf_fini(&text);
}

static void assert_says(const char *use, const char *what)
{
	struct kh_diagnostics diags;
	struct kh_config *config = read_uses(use, NULL, &diags);
	bool said = false;
	for (size_t i = 0; i < diags.count; i++)
		said = said || strstr(diags.list[i].text, what);
	if (config || !said)
		fail_msg("%s: expected \"%s\", got \"%s\"", use, what,
			 diags.count ? diags.list[0].text : "nothing");
	assert_true(diags.list[0].where.line == 3 && diags.list[0].where.column > 1);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

static void each_tenant_has_its_own_parameters(void **state)
{
	(void)state;
	struct kh_diagnostics diags;
	struct kh_config *config =
		read_uses("{ p: { repos: [ o/x, \"o/*\" ], push: true, regions: [ us-1, us-2 ], "
			  "kinds: [ small, large ] } }",
			  "{ p: { quiet: false, hosts: other.example } }", &diags);
	if (!config)
		fail_msg("%s", diags.list[0].text);
	assert_rules(config, 0,
		     "15 POST https://g.example/o/x/push\n"
		     "15 POST https://g.example/o/*/push\n"
		     "18 GET https://g.example/o/x/x/small\n"
		     "18 GET https://g.example/o/x/x/large\n"
		     "18 GET https://g.example/o/*/x/small\n"
		     "18 GET https://g.example/o/*/x/large\n"
		     "19 GET https://l.example/a/b/-/*\n"
		     "20 GET https://a.us-1.example.com/us-1/y\n"
		     "20 GET https://a.us-2.example.com/us-2/y\n"
		     "21 GET https://h.example:8443/z\n");
	assert_rules(config, 1,
		     "16 POST https://g.example/**\n"
		     "18 GET https://g.example/*/*/x/small\n"
		     "19 GET https://l.example/a/b/-/*\n"
		     "20 GET https://a.eu-1.example.com/eu-1/y\n"
		     "21 GET https://other.example:8443/z\n");
	/* One credential, for the hosts of all that use it. */
	assert_int_equal(config->n_credentials, 2);
	assert_int_equal(config->credentials[0].n_hosts, 3);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

static void a_credential_without_a_rule_is_left_out(void **state)
{
	(void)state;
	struct kh_diagnostics diags;
	struct kh_config *config = read_uses("p", "{ p: { push: false } }", &diags);
	assert_non_null(config);
	assert_int_equal(config->n_credentials, 1);
	assert_string_equal(config->credentials[0].name, "key");
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

static void its_files_go_with_the_rules_of_the_tenant(void **state)
{
	(void)state;
	struct kh_diagnostics diags;
	struct kh_config *config = read_uses("{ p: { push: true, quiet: false } }", NULL, &diags);
	assert_non_null(config);
	const struct kh_home_templates *all = &config->tenants[0].rules.files;
	assert_int_equal(all->count, 2);
	assert_string_equal(all->list[0].path, ".k");
	assert_string_equal(all->list[0].needs, "K");
	assert_string_equal(all->list[1].path, ".s/s");
	assert_string_equal(all->list[1].content, "{push}");
	assert_int_equal(config->tenants[1].rules.files.count, 1);
	assert_true(kh_config_use(config, 1, "p:push=true,quiet=false", folder, &diags));
	assert_int_equal(config->tenants[1].rules.files.count, 3);
	assert_string_equal(config->tenants[1].rules.files.list[1].path, ".s/s");
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

static void what_is_wrong_is_said_where_it_stands(void **state)
{
	(void)state;
	assert_says("{ p: { repo: o/x } }",
		    "preset \"p\" has no parameter \"repo\" (did you mean \"repos\"?)");
	assert_says("{ p: { push: yes } }", "p.push: expected true or false, got \"yes\"");
	assert_says("{ p: { push: \"true\" } }", "p.push: expected true or false");
	assert_says("{ p: { push: [ true ] } }", "p.push: expected true or false, got a list");
	assert_says("{ p: { repos: [] } }", "p.repos: expected 1 to 64 values, got 0");
	assert_says("{ p: { repos: { a: b } } }", "p.repos: expected text, got a map");
	assert_says("{ p: { repos: [ o/x, [] ] } }", "p.repos: expected text, got a list");
	assert_says("{ p: { repos: } }", "p.repos: expected text, got nothing");
	assert_says("{ p: { repos: [ o/x, o/x ] } }", "\"o/x\" is there twice");
	assert_says("{ p: { kinds: larg } }",
		    "expected one of its words, got \"larg\" (did you mean \"large\"?)");
	assert_says("{ p: [ repos ] }", "expected a map of parameters, got a list");
	assert_says("{ p: {}, npm: {} }",
		    "expected a preset's name, got a map (each has a rule of its own)");
	assert_says("{ q: { repos: o/x } }", "no preset is called \"q\"");
	assert_says("{ \"../p\": {} }", "a name is small letters, digits and '-', and no path");
}

struct place {
	const char *parameter;
	const char *before, *after; /* of the value in the text of a rule */
	unsigned labels;	    /* of the rule's host; 0: it is the value */
	char good[24];
};

static const struct place places[] = {
	{ "repos", "GET https://g.example/", "/x/small", 2, "owner/name" },
	{ "groups", "GET https://l.example/", "/-/*", 2, "group/sub/name" },
	{ "parts", "GET https://l.example/a/b/-/", "", 2, "part" },
	{ "regions", "GET https://a.", ".example.com/", 4, "us-east-1" },
	{ "hosts", "GET https://", ":8443/z", 0, "a.host.example" },
	{ "kinds", "GET https://g.example/*/*/x/", "", 2, "small" },
};

/* The rule that the value made is the one of the preset with nothing but the value in it. */
static void assert_kept(const struct place *place, const char *value,
			const struct kh_config *config)
{
	const struct kh_rules *rules = &config->tenants[0].rules;
	size_t found = 0;
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		size_t before = strlen(place->before), len = strlen(value);
		if (strncmp(rule->text, place->before, before) != 0 ||
		    strncmp(rule->text + before, value, len) != 0 ||
		    strncmp(rule->text + before + len, place->after, strlen(place->after)) != 0)
			continue;
		found++;
		unsigned labels = 1;
		if (place->labels == 0)
			assert_string_equal(rule->host.name, value);
		assert_int_equal(rule->host.match, KH_MATCH_EXACT);
		for (const char *p = rule->host.name; *p; p++)
			labels += *p == '.';
		if (place->labels > 0)
			assert_int_equal(labels, place->labels);
		assert_int_equal(rule->n_methods, 1);
		assert_int_equal(rule->scheme, KH_SCHEME_HTTPS);
		assert_int_equal(rule->port, strcmp(place->parameter, "hosts") == 0 ? 8443 : 443);
		assert_null(strstr(rule->path, "**"));
	}
	if (found != 1)
		fail_msg("%s: %s: %zu rules", place->parameter, value, found);
}

/* Return: the value was taken. */
static bool try_value(const struct place *place, const char *value, size_t len)
{
	struct kh_buf use;
	struct kh_diagnostics diags;
	kh_buf_init(&use, TEXT_BYTES);
	/* In double quotes, every byte that YAML takes as an escape. */
	assert_true(kh_buf_printf(&use, "{ p: { %s: \"", place->parameter));
	for (size_t i = 0; i < len; i++)
		assert_true(kh_buf_printf(&use, "\\x%02x", (unsigned char)value[i]));
	assert_true(kh_buf_append_str(&use, "\" } }"));
	struct kh_config *config = read_uses(kh_buf_cstr(&use), NULL, &diags);
	assert_int_equal(config == NULL, diags.errors > 0);
	bool taken = config != NULL;
	if (taken)
		assert_kept(place, value, config);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	kh_buf_fini(&use);
	return taken;
}

void test_no_value_leaves_the_place_that_it_was_given(void **state);
void test_no_value_leaves_the_place_that_it_was_given(void **state)
{
	(void)state;
	static const char *const hostile[] = {
		"",	     ".",	 "..",	    "a/..",   "../a/b", "a//b",	     "/a/b",
		"a/b/",	     "a/b/c",	 "**",	    "a/**",   "**/b",	"a/b#",	     "a/b?x=y",
		"a/b%2f",    "a/b/../c", "a/b.git", "a.b.c.", ".a.b",	"a..b",	     "*.a.b",
		"a.*",	     "a.b:80",	 "a.b/c",   "u@a.b",  "[::1]",	"127.0.0.1", "-a",
		"a-",	     "A",	 "{repos}", "a{b}",   "a b",	"a,POST b",  "a\nb",
		"xn--p1ai.", "a/.../b",	 "./b",	    "a/-b"
	};
	static const char *const odd[] = { "\xc3\xa9", "\xef\xbc\x8f", "\xe3\x80\x82" };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct place *place = &places[i];
		assert_true(try_value(place, place->good, strlen(place->good)));
		for (size_t j = 0; j < sizeof(hostile) / sizeof(hostile[0]); j++)
			(void)try_value(place, hostile[j], strlen(hostile[j]));
		for (size_t j = 0; j < sizeof(odd) / sizeof(odd[0]); j++)
			assert_false(try_value(place, odd[j], strlen(odd[j])));
		/* Every byte in every position of a good one. */
		for (size_t at = 0; at <= strlen(place->good); at++)
			for (unsigned byte = 1; byte < 128; byte++) {
				char value[32];
				size_t len = strlen(place->good);
				memcpy(value, place->good, at);
				value[at] = (char)byte;
				memcpy(value + at + 1, place->good + at, len - at + 1);
				bool taken = try_value(place, value, len + 1);
				if (taken && !kh_is_alpha(value[at]) && !kh_is_digit(value[at]) &&
				    !strchr("-._/", value[at]))
					fail_msg("%s took \"%s\"", place->parameter, value);
			}
	}
	assert_false(try_value(&places[0], "a/b\0c", 5));
}

static void assert_preset_says(const char *yaml, const char *what)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_preset_cases_parse("mine", kh_slice_str(yaml), &diags);
	const char *said = diags.count ? diags.list[0].text : "nothing";
	if (what ? (config || !strstr(said, what)) : !config)
		fail_msg("%s\nexpected \"%s\", got \"%s\"", yaml, what ? what : "no error", said);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

#define WITH(parameters, rules) "description: d\nparameters: " parameters "\nrules: [ " rules " ]\n"
#define RULE "{ allow: \"GET https://a.example\" }"
#define LABEL "{ r: { type: label, default: x, doc: d } }"

static void a_presets_own_mistakes_are_said(void **state)
{
	(void)state;
	assert_preset_says(WITH("{ Rs: { type: label, doc: d } }", RULE),
			   "a name is small letters");
	assert_preset_says(WITH("{ r: { type: lable, doc: d } }", RULE),
			   "(did you mean \"label\"?)");
	assert_preset_says(WITH("{ r: { doc: d } }", RULE), "parameters.r.type is missing");
	assert_preset_says(WITH("{ r: { type: label } }", RULE), "parameters.r.doc is missing");
	assert_preset_says(WITH("{ r: { type: label, default: a.b, doc: d } }", RULE),
			   "parameters.r: expected one label");
	assert_preset_says(WITH("{ r: { type: label, default: {}, doc: d } }", RULE),
			   "expected text, got a map");
	assert_preset_says(WITH("{ r: { type: boolean, default: 1, doc: d } }", RULE),
			   "expected true or false");
	assert_preset_says(WITH("{ r: { type: word, doc: d } }", RULE), "goes with the type word");
	assert_preset_says(WITH("{ r: { type: word, values: [ a/b ], doc: d } }", RULE),
			   "is a list of words");
	assert_preset_says(WITH("{ r: { type: word, values: [ \"*\" ], doc: d } }", RULE),
			   "is a list of words");
	assert_preset_says(WITH("{ r: { type: label, values: [ a ], doc: d } }", RULE),
			   "goes with the type word");
	assert_preset_says(WITH("[ r ]", RULE), "parameters: expected a map, got a list");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.{s}.example\" }"),
			   "no parameter is called \"s\"");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.{r.example\" }"),
			   "a brace without its other half");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.r}.example\" }"),
			   "a brace without its other half");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET {r}://a.example\" }"),
			   "a value can only be in a host or in a path");
	assert_preset_says(WITH(LABEL, "{ allow: \"{r} https://a.example\" }"),
			   "a value can only be in a host or in a path");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.example:{r}/\" }"),
			   "a value can only be in a host or in a path");
	assert_preset_says(WITH("{ r: { type: segment, default: x, doc: d } }",
				"{ allow: \"GET https://{r}.example.com/\" }"),
			   "in a host a value is a label or a host");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.example/*{r}\" }"),
			   "beside a star or another value");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.example/{r}{r}\" }"),
			   "beside a star or another value");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.example\", when: r }"),
			   "expected the name of a boolean parameter");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.example\", when: s }"),
			   "no parameter is called \"s\"");
	assert_preset_says(WITH(LABEL, "{ allow: \"GET https://a.example\", when: {} }"),
			   "expected the name of a boolean parameter");
	assert_preset_says("description: d\nsource: http://a.example\nrules: []\n",
			   "source: expected the address of a page");
	assert_preset_says("description: d\nsource: []\nrules: []\n", "source: expected");
	assert_preset_says("description: d\nrules: []\nexpect: [ { tenant: t, deny: \"GET "
			   "https://a.example/\" } ]\n",
			   "unknown key \"tenant\" in expect[]");
#define FILES(files) "description: d\nrules: []\nfiles: [ { " files " } ]\n"
	assert_preset_says(FILES("path: /etc/passwd, needs: A, content: a"),
			   "must be a path below the home");
	assert_preset_says(FILES("path: a/../../b, needs: A, content: a"),
			   "must be a path below the home");
	assert_preset_says(FILES("path: a, content: a"), "files[].needs is missing");
	assert_preset_says(FILES("path: a, needs: A"), "files[].content is missing");
	assert_preset_says(FILES("path: a, needs: A, content: a, when: s"),
			   "files[].when: no parameter is called \"s\"");
	assert_preset_says(FILES("path: a, needs: A, content: a, mode: 0644"),
			   "unknown key \"mode\" in files[]");
	assert_preset_says("description: d\nrules: []\nfiles: {}\n", "files: expected a list");
	assert_preset_says("[]", "expected a map at the top");
	assert_preset_says(WITH(LABEL, RULE), NULL);
}

static void lists_do_not_multiply_without_end(void **state)
{
	(void)state;
	struct kh_buf yaml;
	kh_buf_init(&yaml, TEXT_BYTES);
	assert_true(kh_buf_append_str(&yaml, "description: d\nparameters:\n"));
	for (int name = 'a'; name < 'e'; name++) {
		assert_true(
			kh_buf_printf(&yaml, "  %c: { type: segment, doc: d, default: [ x0", name));
		for (unsigned i = 1; i < 64; i++)
			assert_true(kh_buf_printf(&yaml, ", x%u", i));
		assert_true(kh_buf_append_str(&yaml, " ] }\n"));
	}
	assert_true(kh_buf_append_str(
		&yaml, "rules: [ { allow: \"GET https://a.example/{a}/{b}/{c}/{d}\" } ]\n"));
	assert_preset_says(kh_buf_cstr(&yaml), "more than 4096 rules and hosts");
	kh_buf_fini(&yaml);
}

static void a_credential_goes_to_no_end_of_hosts(void **state)
{
	(void)state;
	struct kh_buf yaml;
	struct kh_diagnostics diags = { 0 };
	kh_buf_init(&yaml, 1024 * 1024);
	assert_true(kh_buf_append_str(&yaml, "version: 1\ntenants: { t: { rules: [\n"));
	for (unsigned i = 0; i < 70; i++) {
		assert_true(kh_buf_printf(&yaml, "  { use: { p: { regions: [ r%u-0", i));
		for (unsigned j = 1; j < 60; j++)
			assert_true(kh_buf_printf(&yaml, ", r%u-%u", i, j));
		assert_true(kh_buf_append_str(&yaml, " ] } } },\n"));
	}
	assert_true(kh_buf_append_str(&yaml, "] } }\n"));
	assert_null(kh_config_parse("t", kh_buf_view(&yaml), NULL, folder, &diags));
	assert_non_null(strstr(diags.list[0].text, "more than 4096 hosts"));
	kh_diagnostics_fini(&diags);
	kh_buf_fini(&yaml);
}

static void a_preset_is_told_what_it_lacks(void **state)
{
	(void)state;
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config =
		kh_preset_cases_parse("mine", KH_SLICE("description: d\nrules: []\n"), &diags);
	assert_non_null(config);
	assert_int_equal(diags.count, 2);
	assert_non_null(strstr(diags.list[0].text, "names no `source` of its hosts"));
	assert_non_null(strstr(diags.list[1].text, "has no cases (`expect`)"));
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	assert_preset_says("description: d\nparameters: { r: { type: label, doc: \"the r\" } }\n"
			   "rules: [ { allow: \"GET https://{r}.example\" } ]\n"
			   "expect: [ { allow: \"GET https://a.example/\" } ]\n",
			   "preset \"mine\" needs the parameter \"r\" (the r)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_tenant_has_its_own_parameters),
		cmocka_unit_test(a_credential_without_a_rule_is_left_out),
		cmocka_unit_test(its_files_go_with_the_rules_of_the_tenant),
		cmocka_unit_test(what_is_wrong_is_said_where_it_stands),
		cmocka_unit_test(test_no_value_leaves_the_place_that_it_was_given),
		cmocka_unit_test(a_presets_own_mistakes_are_said),
		cmocka_unit_test(lists_do_not_multiply_without_end),
		cmocka_unit_test(a_credential_goes_to_no_end_of_hosts),
		cmocka_unit_test(a_preset_is_told_what_it_lacks),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
