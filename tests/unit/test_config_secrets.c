/* test_config_secrets.c - credentials go to their hosts and no further, and no message shows what
 * may be a secret */
#include "config_said.h"

static void no_message_shows_what_may_be_a_secret(void **state)
{
	(void)state;
#define KEY "sk-ant-api03-Zm9vYmFyYmF6"
	static const char *const mistakes[] = {
		"c: { value: " KEY ", header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: [ " KEY " ], header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { env: " KEY " }, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { env: [ " KEY " ] }, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { " KEY " }, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { " KEY ": 1, " KEY
		": 2 }, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { literal: " KEY " }, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { env: A, file: " KEY
		" }, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { env: A }, header: { x: \"Bearer " KEY "\" }, hosts: [ a.example ] }",
		"c: { value: { env: A }, header: { \"x: " KEY
		"\": \"{}\" }, hosts: [ a.example ] }",
		"c: { value: { env: A }, header: " KEY ", hosts: [ a.example ] }",
		"c: { value: { env: A }, header: { x: \"{}\" }, hosts: [ \"" KEY "/\" ] }",
		"c: { value: { env: A }, header: { x: \"{}\" }, hosts: [ a.example ], " KEY ": 1 }",
		"c: { value: { env: A }, header: { x: \"{}\" }, hosts: [ a.example ],"
		" placeholder: { env: " KEY " } }",
		"c: { value: { env: A }, header: { x: \"{}\" }, hosts: [ a.example ],"
		" placeholder: { prefix: \"" KEY " \" } }",
		"c: { value: { env: A }, header: { x: \"{}\" }, hosts: [ a.example ],"
		" placeholder: { alphabet: " KEY " } }",
		"c: { value: !" KEY " x, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: &" KEY " x, header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: *" KEY " , header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: '" KEY ", header: { x: \"{}\" }, hosts: [ a.example ] }",
		"c: { value: \"\\" KEY "\", header: { x: \"{}\" }, hosts: [ a.example ] }",
	};
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		char yaml[512];
		struct kh_diagnostics diags;
		(void)snprintf(yaml, sizeof(yaml), "version: 1\ncredentials:\n  %s\n" TENANT,
			       mistakes[i]);
		if (parse(yaml, &diags))
			fail_msg("%s is taken", mistakes[i]);
		if (strstr(exec_output(&diags), "Zm9vYmFy"))
			fail_msg("%s: %s", mistakes[i], exec_output(&diags));
		kh_diagnostics_fini(&diags);
	}
}

static void the_password_of_a_proxy_is_a_credential_that_no_rule_can_name(void **state)
{
	(void)state;
	struct kh_diagnostics diags;
	struct kh_config *config =
		parse("version: 1\nupstream:\n  proxy:\n    url: http://[2001:db8::1]:3128/\n"
		      "    username: \"a b\"\n    password: { env: P }\n"
		      "credentials:\n  upstream.proxy:\n    value: { env: Q }\n"
		      "    header: { x: \"{}\" }\n    hosts: [ a.example ]\n"
		      "tenants:\n  t:\n    rules:\n"
		      "      - { allow: \"https://a.example\", credential: upstream.proxy }\n",
		      &diags);
	assert_non_null(config);
	assert_int_equal(config->n_credentials, 2);
	assert_int_equal(kh_config_proxy_password(config), 0);
	const struct kh_credential_config *password = &config->credentials[0];
	assert_true(password->of_proxy);
	assert_string_equal(password->sources[0].name, "P");
	assert_null(password->env_name); /* nothing stands in for it in a sandbox */
	assert_null(password->placement);
	assert_int_equal(password->n_hosts, 1);
	assert_true(kh_host_pattern_matches(&password->hosts[0], &config->proxy.host));
	assert_int_equal(password->hosts[0].range.prefix_bits, 128);
	/* The rule means the one that the file calls so. */
	assert_int_equal(config->tenants[0].rules.list[0].credentials[0], 1);
	assert_int_equal(config->proxy.port, 3128);
	assert_false(config->proxy.resolve_locally);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

static void no_message_about_a_proxy_shows_what_may_be_a_password(void **state)
{
	(void)state;
	static const char *const mistakes[] = {
		"url: http://me:" KEY "@p.example:1",
		"url: http://me:" KEY "@p.example",
		"url: http://p.example:" KEY,
		"url: http://" KEY,
		"url: [ " KEY " ]",
		"url: http://p.example:1, username: \"me:" KEY "\", password: { env: P }",
		"url: http://p.example:1, username: [ " KEY " ], password: { env: P }",
		"url: http://p.example:1, username: me, password: " KEY,
		"url: http://p.example:1, username: me, password: [ " KEY " ]",
		"url: http://p.example:1, username: me, password: { env: " KEY " }",
		"url: http://p.example:1, username: me, password: { " KEY " }",
		"url: http://p.example:1, username: me, password: { literal: " KEY " }",
		"url: http://p.example:1, username: me, password: { env: A, file: " KEY " }",
		"url: http://p.example:1, " KEY ": 1",
		"url: http://p.example:1, pass: " KEY,
	};
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		char yaml[512];
		struct kh_diagnostics diags;
		(void)snprintf(yaml, sizeof(yaml),
			       "version: 1\nupstream: { proxy: { %s } }\n" TENANT, mistakes[i]);
		if (parse(yaml, &diags))
			fail_msg("%s is taken", mistakes[i]);
		if (strstr(exec_output(&diags), "Zm9vYmFy"))
			fail_msg("%s is shown: %s", mistakes[i], exec_output(&diags));
		kh_diagnostics_fini(&diags);
	}
}

static void a_literal_secret_is_told_where_to_go(void **state)
{
	(void)state;
	assert_says(
		"version: 1\n"
		"credentials:\n"
		"  c: { value: hunter2, header: { x: \"{}\" }, hosts: [ a.example ] }\n"
		"tenants: { t: { rules: [ { allow: \"https://a.example\", credential: c } ] } }\n",
		"t.yaml:3:15: error: credentials.c.value: a secret is never written in this file; "
		"put it into a variable or a file and write { env: NAME } or { file: PATH }\n");
}

static void a_credential_never_goes_beyond_its_hosts(void **state)
{
	(void)state;
	static const struct {
		const char *rule;
		const char *why;
	} cases[] = {
		{ "https://b.example", "may not go to b.example, which this rule allows: its own "
				       "`hosts` bind it (add b.example to credentials.c.hosts)" },
		{ "https://*.a.example", "(add \"*.a.example\" to credentials.c.hosts)" },
		{ "https://w.example", "(add w.example to credentials.c.hosts)" },
		{ "https://10.0.0.1", "(add 10.0.0.1 to credentials.c.hosts)" },
		{ "https://[fd00::1]", "(add \"[fd00::1]\" to credentials.c.hosts)" },
		{ "https://[10.0.0.0/24]", "a rule for a range can't carry a credential" },
		{ "https://**", "any host" },
		{ "http://a.example", "over plain http" },
		{ "http://x.w.example:443", "over plain http" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char yaml[512];
		struct kh_diagnostics diags;
		(void)snprintf(yaml, sizeof(yaml),
			       "version: 1\n"
			       "credentials:\n"
			       "  c: { value: { env: C }, header: { x: \"{}\" },"
			       " hosts: [ a.example, \"*.w.example\" ] }\n"
			       "tenants: { t: { rules: [ { allow: \"%s\", credential: c } ] } }\n",
			       cases[i].rule);
		if (parse(yaml, &diags))
			fail_msg("%s is taken", cases[i].rule);
		assert_int_equal(diags.errors, 1);
		assert_non_null(strstr(diags.list[0].text, cases[i].why));
		assert_int_equal(diags.list[0].where.line, 4);
		kh_diagnostics_fini(&diags);
	}
	kh_config_free(config_of(
		"version: 1\n"
		"credentials:\n"
		"  c: { value: { env: C }, header: { x: \"{}\" }, hosts: [ a.example, "
		"\"*.w.example\" ] }\n"
		"tenants: { t: { rules: [ { allow: \"https://a.example:8443\", credential: c },\n"
		"  { allow: \"https://*.x.w.example\", credential: c } ] } }\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_message_shows_what_may_be_a_secret),
		cmocka_unit_test(the_password_of_a_proxy_is_a_credential_that_no_rule_can_name),
		cmocka_unit_test(no_message_about_a_proxy_shows_what_may_be_a_password),
		cmocka_unit_test(a_literal_secret_is_told_where_to_go),
		cmocka_unit_test(a_credential_never_goes_beyond_its_hosts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
