/* test_config_presets.c - presets in a configuration: each is sound, a preset and nothing more */
#include "config_said.h"

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
	const char *all = exec_output(&diags);
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
	assert_non_null(strstr(exec_output(&diags), "anthropic.yaml:"));
	assert_non_null(strstr(exec_output(&diags), "may not go to api.anthropic.com"));
	assert_non_null(strstr(exec_output(&diags), "(add api.anthropic.com to "
						    "credentials.anthropic-api-key.hosts)"));
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
		if (!strstr(exec_output(&diags), what))
			fail_msg("%s", exec_output(&diags));
	} else if (!config) {
		fail_msg("%s", exec_output(&diags));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_make_a_configuration),
		cmocka_unit_test(a_preset_that_is_not_there_is_named),
		cmocka_unit_test(every_preset_is_sound),
		cmocka_unit_test(use_puts_a_preset_in_front),
		cmocka_unit_test(a_credential_of_the_file_stands_in_for_the_presets),
		cmocka_unit_test(a_ceiling_of_presets_carries_no_credential),
		cmocka_unit_test(a_preset_is_a_preset_and_nothing_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
