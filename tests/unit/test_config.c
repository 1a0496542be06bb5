/* test_config.c - a file is read whole, every mistake in it is shown, and what it leaves out has a
 * value */
#include <keyhole/base/cleanup.h>

#include "config_said.h"

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
	/* A credential goes into a WebSocket's handshake only where the rule says so. */
	assert_true(rules->list[0].no_websocket);
	assert_true(rules->list[0].websocket_unsaid);
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
	assert_non_null(strstr(exec_output(&diags), "is open to others (mode 0640)"));
	assert_int_equal(chmod(key, 0600), 0);
	kh_diagnostics_fini(&diags);
	config = kh_config_load(path, "policies", &diags);
	assert_non_null(config);
	kh_config_free(config);

	assert_int_equal(unlink(path), 0);
	assert_null(kh_config_load(path, "policies", &diags));
	assert_int_equal(diags.errors, 1);
	assert_non_null(strstr(exec_output(&diags), "/k.yaml: error: No such file or directory\n"));
	assert_int_equal(unlink(key), 0);
	assert_int_equal(rmdir(folder), 0);
	kh_diagnostics_fini(&diags);
	free(path);
	free(key);
}

/* Return: the mark of a file with this text, whose presets are in `folder`. */
static char *mark_of(const char *folder, const char *text)
{
	struct kh_diagnostics diags = { 0 };
	kh_cleanup(kh_buf_fini) struct kh_buf mark;
	char *path = kh_path_join(folder, "k.yaml");
	kh_buf_init(&mark, 1024);
	assert_true(kh_file_write(path, kh_slice_str(text), 0600, NULL));
	struct kh_config *config = kh_config_load(path, folder, &diags);
	assert_non_null(config);
	assert_true(kh_config_put_mark(config, &mark));
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	assert_int_equal(unlink(path), 0);
	free(path);
	return kh_slice_dup(kh_buf_view(&mark));
}

/* What a handover compares: whatever else reads the same is the same configuration. */
static void the_texts_of_a_configuration_have_a_mark(void **state)
{
	static const char with_authority[] = "version: 1\n"
					     "authority: { certificate: ca.pem, key: ca.key }\n"
					     "listen: [ { unix: d/s } ]\n"
					     "audit: { file: ./j }\n"
					     "tenants: { t: { rules: [ { use: own } ] } }\n";
	static const char denies[] =
		"version: 1\n"
		"authority: { certificate: ca.pem, key: ca.key }\n"
		"listen: [ { unix: d/s } ]\n"
		"audit: { file: ./j }\n"
		"tenants: { t: { rules: [ { deny: \"https://x.example\" } ] } }\n";
	static const char alone[] = "version: 1\n"
				    "listen: [ { unix: d/s } ]\n"
				    "audit: { file: ./j }\n"
				    "tenants: { t: { rules: [ { use: own } ] } }\n";
	char folder[] = "/tmp/keyhole-mark-XXXXXX";
	char *marks[5];
	(void)state;
	assert_non_null(mkdtemp(folder));
	char *preset = kh_path_join(folder, "own.yaml");
	assert_true(kh_file_write(
		preset, KH_SLICE("description: A\nrules: [ { allow: \"https://x.example\" } ]\n"),
		0644, NULL));
	marks[0] = mark_of(folder, with_authority);
	marks[1] = mark_of(folder, with_authority);
	marks[2] = mark_of(folder, denies);
	marks[4] = mark_of(folder, alone);
	assert_true(kh_file_write(
		preset, KH_SLICE("description: A\nrules: [ { deny: \"https://x.example\" } ]\n"),
		0644, NULL));
	marks[3] = mark_of(folder, with_authority);
	assert_string_equal(marks[0], marks[1]);
	assert_string_not_equal(marks[0], marks[2]);
	assert_string_not_equal(marks[0], marks[3]);
	assert_string_equal(marks[4], ""); /* nobody takes it over */
	assert_int_equal(unlink(preset), 0);
	assert_int_equal(rmdir(folder), 0);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		free(marks[i]);
	free(preset);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_configuration_has_every_default),
		cmocka_unit_test(a_whole_file_is_read),
		cmocka_unit_test(all_errors_are_shown_in_the_order_of_the_file),
		cmocka_unit_test(a_file_of_mistakes_ends_somewhere),
		cmocka_unit_test(durations_and_sizes_have_a_unit),
		cmocka_unit_test(the_nearest_word_is_near),
		cmocka_unit_test(relative_paths_are_those_of_the_files_folder),
		cmocka_unit_test(the_texts_of_a_configuration_have_a_mark),
		cmocka_unit_test(many_tenants_are_read_in_no_time),
		cmocka_unit_test(listeners_are_found_in_another_configuration_by_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
