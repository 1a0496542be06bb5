/* test_config.c - keyhole.yaml is read as it is written, and every mistake in it is shown */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/file.h>
#include <keyhole/limits.h>

#include "config/config_internal.h"

enum { TEXT_BYTES = 16 * 1024 * 1024 };

static struct kh_config *parse(const char *yaml, struct kh_diagnostics *diags)
{
	*diags = (struct kh_diagnostics){ 0 };
	return kh_config_parse("t.yaml", kh_slice_str(yaml), NULL, "policies", diags);
}

static struct kh_config *config_of(const char *yaml)
{
	struct kh_diagnostics diags;
	struct kh_config *config = parse(yaml, &diags);
	if (!config)
		fail_msg("%s", diags.count ? diags.list[0].text : "no configuration");
	kh_diagnostics_fini(&diags);
	return config;
}

/* All diagnostics as `keyhole check` prints them. */
static char *printed(const struct kh_diagnostics *diags)
{
	int fds[2];
	static char text[65536];
	assert_int_equal(pipe(fds), 0);
	kh_diagnostics_print(diags, NULL, fds[1]);
	close(fds[1]);
	size_t len = 0;
	for (ssize_t n; (n = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0;)
		len += (size_t)n;
	close(fds[0]);
	text[len] = '\0';
	return text;
}

static void assert_says(const char *yaml, const char *expected)
{
	struct kh_diagnostics diags;
	struct kh_config *config = parse(yaml, &diags);
	if (diags.errors > 0)
		assert_null(config);
	else
		assert_non_null(config);
	assert_string_equal(printed(&diags), expected);
	kh_diagnostics_fini(&diags);
	kh_config_free(config);
}

#define TENANT "tenants: { t: { rules: [ { deny: \"https://x.example\" } ] } }\n"

static void a_new_configuration_has_every_default(void **state)
{
	(void)state;
	struct kh_config *config = kh_config_new();
	assert_non_null(config);
	assert_true(config->upstream_system_roots);
	assert_true(config->upstream_http2);
	assert_int_equal(config->durability, KH_DURABILITY_WRITTEN);
	assert_int_equal(config->log_level, KH_LOG_INFO);
	assert_int_equal(config->timeouts.header, 30 * 1000);
	assert_int_equal(config->timeouts.response, 10 * 60 * 1000);
	assert_int_equal(config->max_connections, KH_LIMIT_CONNECTIONS_PER_LISTENER);
	assert_int_equal(config->max_exchanges, KH_LIMIT_EXCHANGES_PER_CONNECTION);
	assert_int_equal(config->leaves_per_second, KH_LIMIT_LEAVES_PER_SECOND);
	assert_int_equal(config->threads, 0);
	assert_null(config->ca_key_path);
	assert_null(config->worker_user);
	/* No wait is for ever. */
	const uint32_t *waits = (const uint32_t *)&config->timeouts;
	for (size_t i = 0; i < sizeof(config->timeouts) / sizeof(*waits); i++)
		assert_true(waits[i] > 0);
	kh_config_free(config);
}

static void a_whole_file_is_read(void **state)
{
	(void)state;
	struct kh_config *config = config_of(
		"version: 1\n"
		"authority: { certificate: /a/ca.pem, key: /a/ca.key }\n"
		"listen:\n"
		"  - { unix: /a/s1/s, tenant: two, mode: \"0660\", owner: 1234, group: 0 }\n"
		"  - { unix: /a/s2/s, tenant: one, mode: 0600, sandbox: box }\n"
		"upstream: { system_roots: false, resolve: { A.example: \"127.0.0.1:9\" },\n"
		"  allow_addresses: [ 10.0.0.0/8 ], nameservers: [ 192.0.2.1 ] }\n"
		"audit: { file: /a/j, durability: synced }\n"
		"credentials:\n"
		"  c:\n"
		"    value: { file: /a/secret }\n"
		"    header: { Authorization: \"token {}!\" }\n"
		"    hosts: \"*.c.example\"\n"
		"    placeholder: { env: C_KEY, prefix: c-, alphabet: 0123456789 }\n"
		"  d: { value: { env: D_KEY }, header: { x-d: \"{}\" }, hosts: [ d.example ] }\n"
		"tenants:\n"
		"  one: { rules: [ { allow: \"https://b.c.example\", credential: [ c ] } ] }\n"
		"  two:\n"
		"    rules:\n"
		"      - { allow: \"https://d.example/a\", credential: d, client_auth: refuse }\n"
		"      - { allow: \"https://d.example/b\", client_auth: pass }\n"
		"      - { allow: \"https://d.example/c\", websocket: false }\n"
		"      - { allow: \"https://d.example/d\", websocket: true }\n"
		"timeouts: { connect: 250ms, drain: 24h, websocket: 90s }\n"
		"limits: { connections: 5 }\n"
		"worker: { threads: 2, user: nobody }\n"
		"log: { level: warn }\n");
	assert_string_equal(config->ca_key_path, "/a/ca.key");
	assert_int_equal(config->n_listeners, 2);
	assert_int_equal(config->listeners[0].tenant, 1);
	assert_int_equal(config->listeners[0].mode, 0660);
	assert_int_equal(config->listeners[0].owner, 1234);
	assert_int_equal(config->listeners[0].group, 0);
	assert_string_equal(config->listeners[0].sandbox, "two");
	assert_int_equal(config->listeners[1].mode, 0600);
	assert_true(config->listeners[1].owner == (uid_t)-1);
	assert_string_equal(config->listeners[1].sandbox, "box");
	assert_string_equal(config->pins[0].host.text, "a.example");
	assert_int_equal(ntohs(config->nameservers[0].v4.sin_port), 53);
	assert_int_equal(config->durability, KH_DURABILITY_SYNCED);
	const struct kh_credential_config *c = &config->credentials[0];
	assert_int_equal(c->sources[0].kind, KH_SOURCE_FILE);
	assert_string_equal(c->sources[0].name, "/a/secret");
	assert_string_equal(c->placement->fields[0].name, "Authorization");
	assert_string_equal(c->placement->fields[0].prefix, "token ");
	assert_string_equal(c->placement->fields[0].suffix, "!");
	assert_int_equal(c->hosts[0].match, KH_MATCH_SUFFIX);
	assert_string_equal(c->env_name, "C_KEY");
	assert_string_equal(c->placeholder_alphabet, "0123456789");
	/* Clients look for it where its source is. */
	assert_string_equal(config->credentials[1].env_name, "D_KEY");
	const struct kh_rules *rules = &config->tenants[1].rules;
	assert_int_equal(rules->list[0].n_credentials, 1);
	assert_int_equal(rules->list[0].credentials[0], 1);
	assert_false(rules->list[0].client_auth_pass);
	assert_true(rules->list[1].client_auth_pass);
	assert_false(rules->list[1].no_websocket);
	assert_true(rules->list[2].no_websocket);
	assert_false(rules->list[3].no_websocket);
	assert_int_equal(config->timeouts.connect, 250);
	assert_int_equal(config->timeouts.websocket, 90 * 1000);
	assert_int_equal(config->timeouts.drain, 24 * 60 * 60 * 1000);
	assert_int_equal(config->max_connections, 5);
	assert_int_equal(config->threads, 2);
	assert_int_equal(config->log_level, KH_LOG_WARN);
	assert_int_equal(kh_config_tenant(config, "two"), 1);
	assert_int_equal(kh_config_tenant(config, "three"), -1);
	kh_config_free(config);
}

static void all_errors_are_shown_in_the_order_of_the_file(void **state)
{
	(void)state;
	assert_says("log: { level: lout }\n"
		    "tenants: {}\n"
		    "verson: 1\n"
		    "timeouts: { header: 10 }\n",
		    "t.yaml:1:1: error: version is missing: it is 1\n"
		    "t.yaml:1:15: error: log.level: expected one of error, warn, info, debug, got "
		    "\"lout\"\n"
		    "t.yaml:3:1: error: unknown key \"verson\" (did you mean \"version\"?)\n"
		    "t.yaml:4:21: error: timeouts.header: expected a duration such as 500ms, 10s, "
		    "5m or 24h, got \"10\"\n");
}

static void a_file_of_mistakes_ends_somewhere(void **state)
{
	(void)state;
	struct kh_buf yaml;
	kh_buf_init(&yaml, TEXT_BYTES);
	assert_true(kh_buf_append_str(&yaml, "version: 1\n" TENANT));
	for (unsigned i = 0; i < 5000; i++)
		assert_true(kh_buf_printf(&yaml, "nonsense%u: 1\n", i));
	struct kh_diagnostics diags;
	assert_null(parse(kh_buf_cstr(&yaml), &diags));
	assert_int_equal(diags.errors, 5000);
	assert_int_equal(diags.count, 200);
	kh_diagnostics_fini(&diags);
	kh_buf_fini(&yaml);
}

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
		if (strstr(printed(&diags), "Zm9vYmFy"))
			fail_msg("%s: %s", mistakes[i], printed(&diags));
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
		if (strstr(printed(&diags), "Zm9vYmFy"))
			fail_msg("%s is shown: %s", mistakes[i], printed(&diags));
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
		"t.yaml:3:15: error: credentials.*.value: a secret never stands in this file; "
		"put it into a variable or a file and write { env: NAME } or { file: PATH }\n");
}

static void a_credential_never_goes_beyond_its_hosts(void **state)
{
	(void)state;
	static const struct {
		const char *rule;
		const char *why;
	} cases[] = {
		{ "https://b.example", "may not go to the hosts" },
		{ "https://*.a.example", "may not go to the hosts" },
		{ "https://w.example", "may not go to the hosts" },
		{ "https://10.0.0.1", "may not go to the hosts" },
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

static void presets_make_a_configuration(void **state)
{
	(void)state;
	static const char *const names[] = { "anthropic", "npm" };
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_from_presets(names, 2, "policies", &diags);
	assert_non_null(config);
	assert_int_equal(diags.count, 0);
	assert_int_equal(config->n_tenants, 1);
	assert_string_equal(config->tenants[0].name, "default");
	const struct kh_rules *rules = &config->tenants[0].rules;
	/* In the order in which they were asked for. */
	assert_string_equal(rules->list[0].preset, "anthropic");
	assert_string_equal(rules->list[rules->count - 1].preset, "npm");
	assert_int_equal(config->n_credentials, 3);
	assert_string_equal(config->credentials[0].preset, "anthropic");
	assert_int_equal(config->timeouts.header, 30000);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

static void a_preset_that_is_not_there_is_named(void **state)
{
	(void)state;
	static const char *const names[] = { "antropic", "../policies/npm", "", "nothing-like-it" };
	struct kh_diagnostics diags = { 0 };
	assert_null(kh_config_from_presets(names, 4, "policies", &diags));
	assert_int_equal(diags.errors, 4);
	const char *all = printed(&diags);
	assert_non_null(
		strstr(all, "no preset is called \"antropic\" (did you mean \"anthropic\"?)"));
	assert_non_null(strstr(all, "preset \"../policies/npm\": a name is small letters"));
	assert_non_null(strstr(all, "no preset is called \"nothing-like-it\";"));
	kh_diagnostics_fini(&diags);
}

/* What is read in the clear is signed; what is not comes after a parameter that says so. */
static bool may_be_plain(const struct kh_rule *rule)
{
	static const char *const signed_ones[] = { "alpine", "debian", "otel-collector", "ubuntu" };
	for (size_t i = 0; i < sizeof(signed_ones) / sizeof(signed_ones[0]); i++)
		if (strcmp(rule->preset, signed_ones[i]) == 0)
			return true;
	return false;
}

static void assert_sound(const struct kh_rule *rule)
{
	if (rule->scheme != KH_SCHEME_HTTPS && (!may_be_plain(rule) || rule->n_credentials > 0))
		fail_msg("%s: \"%s\" is open to whoever listens", rule->preset, rule->text);
	assert_int_not_equal(rule->host.match, KH_MATCH_ANY);
	assert_false(rule->passthrough);
	if (rule->allow && rule->n_methods == 0)
		fail_msg("%s: \"%s\" names no methods", rule->preset, rule->text);
	/* What a client brings itself reads and does not write, but for the key that is a DSN's. */
	for (size_t i = 0; rule->client_auth_pass && i < rule->n_methods; i++)
		if (strcmp(rule->methods[i], "GET") != 0 && strcmp(rule->methods[i], "HEAD") != 0 &&
		    strcmp(rule->preset, "sentry") != 0)
			fail_msg("%s: \"%s\" passes the client's own", rule->preset, rule->text);
}

static void every_preset_is_sound(void **state)
{
	(void)state;
	size_t n;
	char **names = kh_preset_names("policies", &n);
	assert_true(n > 20);
	for (size_t i = 0; i < n; i++) {
		struct kh_diagnostics diags = { 0 };
		struct kh_config *config = kh_preset_cases(names[i], "policies", &diags);
		if (!config || diags.count > 0)
			fail_msg("%s: %s", names[i], diags.list[0].text);
		for (size_t t = 0; t < config->n_tenants; t++)
			for (size_t j = 0; j < config->tenants[t].rules.count; j++)
				assert_sound(&config->tenants[t].rules.list[j]);
		for (size_t j = 0; j < config->n_credentials; j++) {
			assert_int_equal(config->credentials[j].sources[0].kind, KH_SOURCE_ENV);
			for (size_t k = 0; k < config->credentials[j].n_hosts; k++)
				assert_int_equal(config->credentials[j].hosts[k].match,
						 KH_MATCH_EXACT);
		}
		kh_config_free(config);
		kh_diagnostics_fini(&diags);
		free(names[i]);
	}
	free(names);
}

static void use_puts_a_preset_in_front(void **state)
{
	(void)state;
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = config_of("version: 1\n" TENANT);
	assert_true(kh_config_use(config, 0, "npm", "policies", &diags));
	assert_true(kh_config_use(config, 0, "anthropic", "policies", &diags));
	assert_int_equal(config->n_credentials, 3);
	const struct kh_rules *rules = &config->tenants[0].rules;
	assert_string_equal(rules->list[0].preset, "anthropic");
	assert_null(rules->list[rules->count - 1].preset);
	/* Once more: its credentials are there already. */
	assert_true(kh_config_use(config, 0, "anthropic", "policies", &diags));
	assert_int_equal(config->n_credentials, 3);
	size_t before = config->tenants[0].rules.count;
	assert_false(kh_config_use(config, 0, "nonsense", "policies", &diags));
	assert_false(kh_config_use(config, 1, "npm", "policies", &diags));
	assert_int_equal(config->tenants[0].rules.count, before);
	kh_diagnostics_fini(&diags);
	kh_config_free(config);
}

static void a_credential_of_the_file_stands_in_for_the_presets(void **state)
{
	(void)state;
	struct kh_config *config = config_of(
		"version: 1\n"
		"credentials:\n"
		"  anthropic-api-key: { value: { file: /k }, header: { x-api-key: \"{}\" },"
		" hosts: [ api.anthropic.com ] }\n"
		"tenants: { t: { rules: [ { use: anthropic } ] } }\n");
	assert_int_equal(config->n_credentials, 3);
	assert_int_equal(config->credentials[0].sources[0].kind, KH_SOURCE_FILE);
	kh_config_free(config);
	/* And is held to its own hosts there too. */
	struct kh_diagnostics diags;
	assert_null(
		parse("version: 1\n"
		      "credentials:\n"
		      "  anthropic-api-key: { value: { file: /k }, header: { x-api-key: \"{}\" },"
		      " hosts: [ elsewhere.example ] }\n"
		      "tenants: { t: { rules: [ { use: anthropic } ] } }\n",
		      &diags));
	assert_non_null(strstr(printed(&diags), "anthropic.yaml:"));
	assert_non_null(strstr(printed(&diags), "may not go to the hosts of this rule"));
	kh_diagnostics_fini(&diags);
}

static void a_ceiling_of_presets_carries_no_credential(void **state)
{
	(void)state;
	struct kh_config *config =
		config_of("version: 1\nsite: { rules: [ { use: anthropic } ] }\n" TENANT);
	assert_true(config->site.count > 0);
	for (size_t i = 0; i < config->site.count; i++)
		assert_int_equal(config->site.list[i].n_credentials, 0);
	kh_config_free(config);
}

/* A preset of a folder of our own. */
static void assert_preset_says(const char *yaml, const char *what)
{
	char folder[] = "/tmp/kh-preset-XXXXXX";
	static const char *const names[] = { "p" };
	struct kh_diagnostics diags = { 0 };
	assert_non_null(mkdtemp(folder));
	char *path = kh_path_join(folder, "p.yaml");
	assert_true(kh_file_write(path, kh_slice_str(yaml), 0600, NULL));
	struct kh_config *config = kh_config_from_presets(names, 1, folder, &diags);
	if (what) {
		assert_null(config);
		if (!strstr(printed(&diags), what))
			fail_msg("%s", printed(&diags));
	} else if (!config) {
		fail_msg("%s", printed(&diags));
	}
	kh_diagnostics_fini(&diags);
	kh_config_free(config);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	free(path);
}

static void a_preset_is_a_preset_and_nothing_more(void **state)
{
	(void)state;
	assert_preset_says("description: d\nrules: [ { allow: \"GET https://a.example\" } ]\n",
			   NULL);
	assert_preset_says("rules: []\n", "description is missing");
	assert_preset_says("description: d\n", "rules is missing");
	assert_preset_says("description: d\nrules: []\nlisten: []\n", "unknown key \"listen\"");
	assert_preset_says("description: d\nrules: []\nupstream: { system_roots: false }\n",
			   "unknown key \"upstream\"");
	assert_preset_says("description: d\nrules: [ { use: p } ]\n", "a preset uses no other");
	assert_preset_says(
		"description: d\n"
		"credentials: { c: { value: { file: /etc/shadow }, header: { x: \"{}\" },"
		" hosts: [ a.example ] } }\n"
		"rules: []\n",
		"knows no file");
	assert_preset_says("description: d\nrules: [ { allow: \"https://a.example\","
			   " credential: nobodys } ]\n",
			   "no credential is called \"nobodys\"");
	assert_preset_says("", "an empty file");
}

static void durations_and_sizes_have_a_unit(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		long long due;
	} durations[] = { { "500ms", 500 },    { "10s", 10000 }, { "5m", 300000 },
			  { "24h", 86400000 }, { "0s", 0 },	 { "10", -1 },
			  { "", -1 },	       { "s", -1 },	 { "10 s", -1 },
			  { "10S", -1 },       { "1.5s", -1 },	 { "-1s", -1 },
			  { "1h30m", -1 },     { "1d", -1 },	 { "18446744073709551615h", -1 },
			  { "10sx", -1 },      { "0x10s", -1 },	 { "+5s", -1 } },
	  sizes[] = { { "64KiB", 65536 }, { "32MiB", 33554432 }, { "1GiB", 1073741824 },
		      { "7B", 7 },	  { "64", -1 },		 { "64KB", -1 },
		      { "64kib", -1 },	  { "KiB", -1 },	 { "99999999999999GiB", -1 } };
	uint64_t value;
	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
		bool good = kh_value_duration(kh_slice_str(durations[i].text), &value);
		assert_int_equal(good, durations[i].due >= 0);
		if (good)
			assert_int_equal(value, durations[i].due);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		bool good = kh_value_size(kh_slice_str(sizes[i].text), &value);
		assert_int_equal(good, sizes[i].due >= 0);
		if (good)
			assert_int_equal(value, sizes[i].due);
	}
	char shown[KH_VALUE_BYTES];
	assert_string_equal(kh_value_show_duration(300000, shown), "5m");
	assert_string_equal(kh_value_show_duration(1500, shown), "1500ms");
	assert_string_equal(kh_value_show_duration(0, shown), "0ms");
}

static void the_nearest_word_is_near(void **state)
{
	(void)state;
	static const char *const known[] = { "listen", "limits", "tenants", "version", "log" };
	static const struct {
		const char *typed;
		const char *due;
	} cases[] = { { "lisen", "listen" }, { "lsiten", "listen" },  { "LISTEN", "listen" },
		      { "limit", "limits" }, { "tenant", "tenants" }, { "verison", "version" },
		      { "ver", "version" },  { "lgo", "log" },	      { "x", NULL },
		      { "", NULL },	     { "completely", NULL },  { "credentials", NULL } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_nearest nearest;
		kh_nearest_init(&nearest, kh_slice_str(cases[i].typed));
		for (size_t j = 0; j < 5; j++)
			kh_nearest_offer(&nearest, known[j]);
		if (!cases[i].due && nearest.best)
			fail_msg("%s: %s", cases[i].typed, nearest.best);
		if (cases[i].due) {
			assert_non_null(nearest.best);
			assert_string_equal(nearest.best, cases[i].due);
		}
	}
}

static void relative_paths_are_those_of_the_files_folder(void **state)
{
	(void)state;
	char folder[] = "/tmp/kh-config-XXXXXX";
	struct kh_diagnostics diags = { 0 };
	assert_non_null(mkdtemp(folder));
	char *path = kh_path_join(folder, "k.yaml");
	char *key = kh_path_join(folder, "ca.key");
	assert_true(kh_file_write(
		path,
		KH_SLICE("version: 1\n"
			 "authority: { certificate: ca.pem, key: ca.key }\n"
			 "listen: [ { unix: d/s } ]\n"
			 "audit: { file: ./j }\n"
			 "credentials: { c: { value: { file: k }, header: { x: \"{}\" },"
			 " hosts: [ x.example ] } }\n"
			 "tenants: { t: { rules: [ { allow: \"https://x.example\","
			 " credential: c } ] } }\n"),
		0600, NULL));
	struct kh_config *config = kh_config_load(path, "policies", &diags);
	assert_non_null(config);
	assert_string_equal(config->ca_key_path, key);
	assert_int_equal(config->listeners[0].unix_path[0], '/');
	assert_int_equal(config->audit_path[0], '/');
	assert_int_equal(config->credentials[0].sources[0].name[0], '/');
	kh_config_free(config);

	/* A key that others can read ends it. */
	assert_true(kh_file_write(key, KH_SLICE("x"), 0640, NULL));
	assert_null(kh_config_load(path, "policies", &diags));
	assert_non_null(strstr(printed(&diags), "is open to others (mode 0640)"));
	assert_int_equal(chmod(key, 0600), 0);
	kh_diagnostics_fini(&diags);
	config = kh_config_load(path, "policies", &diags);
	assert_non_null(config);
	kh_config_free(config);

	assert_int_equal(unlink(path), 0);
	assert_null(kh_config_load(path, "policies", &diags));
	assert_int_equal(diags.errors, 1);
	assert_non_null(strstr(printed(&diags), "k.yaml: error: "));
	assert_int_equal(unlink(key), 0);
	assert_int_equal(rmdir(folder), 0);
	kh_diagnostics_fini(&diags);
	free(path);
	free(key);
}

static void many_tenants_are_read_in_no_time(void **state)
{
	(void)state;
	struct kh_buf yaml;
	kh_buf_init(&yaml, TEXT_BYTES);
	assert_true(kh_buf_append_str(&yaml, "version: 1\ntenants:\n"));
	for (unsigned i = 0; i < 5000; i++)
		assert_true(kh_buf_printf(&yaml,
					  "  t%u:\n    rules:\n      - use: npm\n"
					  "      - allow: \"GET https://h%u.example/**\"\n",
					  i, i));
	struct kh_diagnostics diags;
	struct kh_config *config = parse(kh_buf_cstr(&yaml), &diags);
	assert_non_null(config);
	assert_int_equal(config->n_tenants, 5000);
	assert_int_equal(config->tenants[4999].rules.count, config->tenants[0].rules.count);
	assert_true(config->tenants[0].rules.count > 2);
	assert_int_equal(config->n_files, 2);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	kh_buf_fini(&yaml);
}

/* A reload asks it of every listener: one after the other it would take minutes. */
static void listeners_are_found_in_another_configuration_by_name(void **state)
{
	(void)state;
	enum { N = 50000, EVERY = 5 };
	struct kh_listener_config *now = calloc(N, sizeof(*now)), *next = calloc(N, sizeof(*next));
	struct kh_config before = { .listeners = now, .n_listeners = N };
	struct kh_config after = { .listeners = next, .n_listeners = N };
	assert_true(now && next);
	for (size_t i = 0; i < N; i++) {
		now[i].name = kh_strf("/run/keyhole/of-some-length/%zu/s", i);
		next[N - 1 - i].name =
			kh_strf("/run/keyhole/of-some-length/%zu/%s", i, i % EVERY ? "s" : "new");
	}
	size_t *found = kh_config_match_listeners(&after, &before);
	size_t *none = kh_config_match_listeners(&(struct kh_config){ 0 }, &before);
	assert_true(found && none);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(found[N - 1 - i], i % EVERY ? i : KH_LISTENER_NONE);
	for (size_t i = 0; i < N; i++) {
		free(now[i].name);
		free(next[i].name);
	}
	free(now);
	free(next);
	free(found);
	free(none);
}

/* A page of the documentation names every option, with its default where it has one. */
static void assert_documented(const char *page, const char *before, const char *after)
{
	struct kh_buf text;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&text, TEXT_BYTES);
	if (!kh_file_read(page, &text, &err))
		fail_msg("%s", err.text);
	const char *all = kh_buf_cstr(&text);
	for (size_t i = 0; i < kh_options_count; i++) {
		const struct kh_option *option = &kh_options[i];
		char name[128];
		(void)snprintf(name, sizeof(name), "%s%s%s", before, option->path, after);
		const char *at = strstr(all, name);
		if (!at) {
			fail_msg("%s says nothing of %s", page, option->path);
			return;
		}
		const char *end = strstr(at + strlen(name), before);
		size_t span = end ? (size_t)(end - at) : strlen(at);
		if (option->fallback &&
		    !memmem(at, span, option->fallback, strlen(option->fallback)))
			fail_msg("%s: the default of %s is %s", page, option->path,
				 option->fallback);
	}
	kh_buf_fini(&text);
}

static void every_option_is_documented(void **state)
{
	(void)state;
	assert_documented("docs/configuration.md", "\n| `", "`");
	assert_documented("docs/man/keyhole.yaml.5", "\n.It Cm ", "\n");
}

static void the_table_of_options_holds_together(void **state)
{
	(void)state;
	for (size_t i = 0; i < kh_options_count; i++) {
		const struct kh_option *option = &kh_options[i];
		assert_non_null(option->doc);
		assert_true(option->flags & (KH_IN_FILE | KH_IN_PRESET));
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(option->path, kh_options[j].path);
		/* Whatever stands in a section or an item: that stands above it. */
		char parent[64];
		(void)snprintf(parent, sizeof(parent), "%s", option->path);
		char *dot = strrchr(parent, '.');
		bool found = dot == NULL;
		if (dot)
			*dot = '\0';
		for (size_t j = 0; j < i && !found; j++) {
			const struct kh_option *other = &kh_options[j];
			found = strcmp(other->path, parent) == 0 ||
				(other->items && strcmp(other->items, parent) == 0);
		}
		if (!found)
			fail_msg("%s has no section above it", option->path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_configuration_has_every_default),
		cmocka_unit_test(a_whole_file_is_read),
		cmocka_unit_test(all_errors_are_shown_in_the_order_of_the_file),
		cmocka_unit_test(a_file_of_mistakes_ends_somewhere),
		cmocka_unit_test(no_message_shows_what_may_be_a_secret),
		cmocka_unit_test(the_password_of_a_proxy_is_a_credential_that_no_rule_can_name),
		cmocka_unit_test(no_message_about_a_proxy_shows_what_may_be_a_password),
		cmocka_unit_test(a_literal_secret_is_told_where_to_go),
		cmocka_unit_test(a_credential_never_goes_beyond_its_hosts),
		cmocka_unit_test(presets_make_a_configuration),
		cmocka_unit_test(a_preset_that_is_not_there_is_named),
		cmocka_unit_test(every_preset_is_sound),
		cmocka_unit_test(use_puts_a_preset_in_front),
		cmocka_unit_test(a_credential_of_the_file_stands_in_for_the_presets),
		cmocka_unit_test(a_ceiling_of_presets_carries_no_credential),
		cmocka_unit_test(a_preset_is_a_preset_and_nothing_more),
		cmocka_unit_test(durations_and_sizes_have_a_unit),
		cmocka_unit_test(the_nearest_word_is_near),
		cmocka_unit_test(relative_paths_are_those_of_the_files_folder),
		cmocka_unit_test(many_tenants_are_read_in_no_time),
		cmocka_unit_test(listeners_are_found_in_another_configuration_by_name),
		cmocka_unit_test(every_option_is_documented),
		cmocka_unit_test(the_table_of_options_holds_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
