/* test_allow_text.c - a rule as it is written on a command line */
#include "config_text.h"

#include <stdio.h>
#include <string.h>

/* A text that is no such rule: what is said, and the byte that it points to. */
static const struct {
	const char *text, *says;
	size_t at;
} wrong[] = {
	{ "", "expected [METHODS] SCHEME://HOST/PATH", 0 },
	{ "GET", "what the method is for is missing", 3 },
	{ "GET ", "what the method is for is missing", 4 },
	{ "api.example.com", "a scheme is missing in front of \"api.example.com\" (write https://",
	  0 },
	{ "api.example.com:443/x", "a scheme is missing", 0 },
	{ "GET api.example.com/x", "a scheme is missing", 4 },
	{ "GET //api.example.com/x", "a scheme is missing", 4 },
	{ "GTE https://a.test/", "\"GTE\" is no method of HTTP (did you mean \"GET\"?)", 0 },
	{ "GET,PSOT https://a.test/", "(did you mean \"POST\"?)", 4 },
	{ "get https://a.test/", "(did you mean \"GET\"?): methods are written in capitals", 0 },
	{ "FROBNICATE https://a.test/", "is no method of HTTP: ", 0 },
	{ "GET, POST https://a.test/", "a method is missing", 4 },
	{ ",GET https://a.test/", "a method is missing", 0 },
	{ "GET  https://a.test/", "one blank", 4 },
	{ "ftp://a.test/", "scheme \"ftp\": expected https, http or tcp", 0 },
	{ "GET wss://a.test/", "scheme \"wss\"", 4 },
	{ "GET HTTPS://a.test/", "scheme \"HTTPS\"", 4 },
	{ "https:///x", "a host is missing", 8 },
	{ "GET https://", "a host is missing", 12 },
	{ "GET https://*/x", "\"*\" names no host", 12 },
	{ "https://**", "\"**\" names no host", 8 },
	{ "https://**:8443/x", "\"**\" names no host", 8 },
	{ "https://*.com/x", "one label", 8 },
	{ "GET https://a*.test/x", "a star stands for whole labels", 12 },
	{ "GET https://user@a.test/x", "no user or password", 12 },
	{ "GET https://a.test:0/x", "port \"0\"", 12 },
	{ "GET https://[::1/x", "']' is missing", 12 },
	{ "GET https://a.test/x?key=1", "a rule ends with the path", 20 },
	{ "GET https://a.test/x#y", "a rule ends with the path", 20 },
	{ "GET https://a.test/x y", "a rule ends with the path", 20 },
	{ "GET https://a.test/***", "three stars", 18 },
	{ "GET https://a.test/../x", "", 18 },
	{ "GET tcp://a.test:22", "neither methods nor a path", 10 },
	{ "tcp://a.test", "names its port", 6 },
	{ "CONNECT https://a.test", "CONNECT is no method of a rule", 16 },
	{ "GET,GET https://a.test", "is there twice", 16 },
};

static void test_what_is_no_rule_is_said_with_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_rule rule;
		size_t at = SIZE_MAX;
		if (kh_allow_text_parse(&rule, kh_slice_str(wrong[i].text), &at, &err))
			fail_msg("%s: taken", wrong[i].text);
		if (!strstr(err.text, wrong[i].says) || at != wrong[i].at)
			fail_msg("%s: at %zu: %s", wrong[i].text, at, err.text);
		assert_null(rule.text);
	}
}

static void test_what_a_file_takes_is_taken_with_its_methods_and_patterns(void **state)
{
	static const struct {
		const char *text;
		size_t n_methods;
		enum kh_scheme scheme;
		uint16_t port;
		const char *path;
	} good[] = {
		{ "GET https://a.test/v1/*", 1, KH_SCHEME_HTTPS, 443, "/v1/*" },
		{ "GET,POST https://*.b.test:8443/**", 2, KH_SCHEME_HTTPS, 8443, "/**" },
		{ "* http://10.0.0.1/x", 0, KH_SCHEME_HTTP, 80, "/x" },
		{ "https://[::1]/x:y", 0, KH_SCHEME_HTTPS, 443, "/x:y" },
		{ "https://[10.0.0.0/8]", 0, KH_SCHEME_HTTPS, 443, NULL },
		{ "PROPFIND https://dav.test/", 1, KH_SCHEME_HTTPS, 443, "/" },
		{ "tcp://a.test:22", 0, KH_SCHEME_TCP, 22, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_rule rule;
		size_t at;
		if (!kh_allow_text_parse(&rule, kh_slice_str(good[i].text), &at, &err))
			fail_msg("%s: %s", good[i].text, err.text);
		assert_int_equal(rule.n_methods, good[i].n_methods);
		assert_int_equal(rule.scheme, good[i].scheme);
		assert_int_equal(rule.port, good[i].port);
		assert_int_equal(rule.n_credentials, 0);
		if (good[i].path)
			assert_string_equal(rule.path, good[i].path);
		else
			assert_null(rule.path);
		kh_rule_fini(&rule);
	}
}

/* ---- in a configuration ---- */

static const char file[] = "version: 1\n"
			   "credentials:\n"
			   "  key: { value: { env: K }, bearer: true, hosts: [ api.test ] }\n"
			   "tenants:\n"
			   "  a:\n"
			   "    rules:\n"
			   "      - deny: \"https://api.test/admin/**\"\n"
			   "      - { allow: \"GET https://api.test/**\", credential: key }\n";

static bool allow(struct kh_config *config, const char *text, const char *says)
{
	struct kh_diagnostics diags = { 0 };
	bool ok = kh_config_allow(config, 0, text, &diags);
	assert_int_equal(ok, diags.errors == 0);
	if (says) {
		assert_int_equal(diags.count, 1);
		if (!strstr(diags.list[0].text, says))
			fail_msg("%s: %s", text, diags.list[0].text);
		assert_string_equal(kh_diagnostics_file(&diags, diags.list[0].where.file),
				    KH_ALLOW_FILE);
	}
	kh_diagnostics_fini(&diags);
	return ok;
}

static void test_it_stands_behind_the_others_and_carries_nothing(void **state)
{
	struct kh_config *config = config_of(file);
	(void)state;
	assert_true(allow(config, "https://api.test/**", NULL));
	assert_true(allow(config, " POST https://other.test/x ", NULL));
	const struct kh_rules *rules = &config->tenants[0].rules;
	assert_int_equal(rules->count, 4);
	assert_int_equal(rules->list[1].n_credentials, 1);
	assert_string_equal(rules->list[2].text, "https://api.test/**");
	assert_string_equal(rules->list[3].text, "POST https://other.test/x");
	for (size_t i = 2; i < 4; i++) {
		assert_true(rules->list[i].allow);
		assert_int_equal(rules->list[i].n_credentials, 0);
		assert_false(rules->list[i].client_auth_pass);
		assert_int_equal(rules->list[i].where.line, 0);
		assert_string_equal(config->files[rules->list[i].where.file], KH_ALLOW_FILE);
	}
	assert_int_equal(rules->list[2].where.file, rules->list[3].where.file);
	kh_config_free(config);
}

static void test_a_wildcard_over_what_anybody_can_have_is_refused(void **state)
{
	struct kh_config *config = config_of(file);
	(void)state;
	assert_false(allow(config, "https://*.co.uk", "public suffix of a registry"));
	assert_false(allow(config, "https://*.github.io", "public suffix"));
	assert_false(allow(config, "api.test", "a scheme is missing"));
	assert_int_equal(config->tenants[0].rules.count, 2);
	kh_config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_no_rule_is_said_with_its_place),
		cmocka_unit_test(test_what_a_file_takes_is_taken_with_its_methods_and_patterns),
		cmocka_unit_test(test_it_stands_behind_the_others_and_carries_nothing),
		cmocka_unit_test(test_a_wildcard_over_what_anybody_can_have_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
