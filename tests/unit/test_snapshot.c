/* test_snapshot.c - the worker gets what it needs and no more, and believes nothing */
#include "config_text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/config/config.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

enum { SNAPSHOT_BYTES = 1024 * 1024 };

static const char full[] =
	"version: 1\n"
	"authority: { certificate: /secret-place/ca.pem, key: /secret-place/ca.key }\n"
	"listen:\n"
	"  - { unix: /sockets/s1/s, tenant: a, mode: \"0660\" }\n"
	"  - { unix: /sockets/s2/s, tenant: b, sandbox: box-2 }\n"
	"upstream:\n"
	"  ca_file: /secret-place/roots.pem\n"
	"  system_roots: false\n"
	"  http2: false\n"
	"  resolve: { api.example.com: \"127.0.0.1:9443\", v6.example.com: \"[::1]:9444\" }\n"
	"  allow_addresses: [ 127.0.0.0/8, \"::1\" ]\n"
	"  nameservers: [ 192.0.2.1, \"[2001:db8::1]:5353\" ]\n"
	"  proxy:\n"
	"    url: http://api.example.com:3128\n"
	"    username: me\n"
	"    password: { file: /secret-place/password }\n"
	"    no_proxy: [ \"*.direct.example.com\", 10.0.0.0/8 ]\n"
	"    resolve_locally: true\n"
	"  geo: { country_db: /secret-place/countries, asn_db: /secret-place/networks }\n"
	"audit: { file: /secret-place/audit.jsonl, durability: synced, reserve: 7MiB }\n"
	"credentials:\n"
	"  k1:\n"
	"    value: { env: SECRET_VARIABLE }\n"
	"    header: { authorization: \"Bearer {}\", x-extra: \"<{}>\" }\n"
	"    hosts: [ api.example.com, \"*.wild.example.com\" ]\n"
	"    placeholder: { env: API_KEY, prefix: sk-, alphabet: 0123456789abcdef }\n"
	"  k2: { value: { file: /secret-place/k2 }, header: { x-k: \"{}\" }, hosts: [ 127.0.0.1 ] "
	"}\n"
	"site: { geo: { allow_countries: [ DE, FR ], deny_asns: [ 7, AS5 ] }, rules: [ { deny: \"* "
	"https://**/private/**\" }, { allow: \"https://**\" } ] }\n"
	"tenants:\n"
	"  a:\n"
	"    rules:\n"
	"      - { allow: \"GET,POST https://api.example.com/v1/*\", credential: [ k1 ] }\n"
	"      - { allow: \"https://127.0.0.1\", credential: k2,\n"
	"          geo: { deny_countries: [ XX ], unknown: deny } }\n"
	"      - { allow: \"https://other.example.com:8443/**\", client_auth: pass }\n"
	"      - { allow: \"https://pinned.example.com\", tls: passthrough }\n"
	"      - { allow: \"https://plain.example.com\", websocket: false,\n"
	"          reuse_after_content: never }\n"
	"      - { allow: \"tcp://other.example.com:22\" }\n"
	"      - { deny: \"https://[10.0.0.0/8]/x\" }\n"
	"  b: { rules: [ { use: npm } ], geo: { allow_asns: [ 4294967295 ], unknown: allow } }\n"
	"timeouts: { header: 11s, handshake: 12s, connect: 13s, resolve: 14s, response: 15s,\n"
	"  idle_down: 16s, idle_up: 17s, stall: 18s, drain: 19s, handover: 20s,\n"
	"  websocket: 24s, total: 25s, tunnel_idle: 21s, tunnel: 22s }\n"
	"limits: { connections: 21, exchanges: 22, leaves: 23, refusals: 24, refusals_burst: 25 }\n"
	"worker: { memory: 99MiB, threads: 3, user: nobody }\n"
	"log: { level: debug }\n";

static struct kh_buf bytes_of(const struct kh_config *config)
{
	struct kh_buf out;
	kh_buf_init(&out, SNAPSHOT_BYTES);
	assert_true(kh_config_encode(config, &out));
	return out;
}

static void assert_same_rules(const struct kh_rules *a, const struct kh_rules *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct kh_rule *x = &a->list[i], *y = &b->list[i];
		assert_string_equal(x->text, y->text);
		assert_int_equal(x->allow, y->allow);
		assert_int_equal(x->client_auth_pass, y->client_auth_pass);
		assert_int_equal(x->passthrough, y->passthrough);
		assert_int_equal(x->no_websocket, y->no_websocket);
		assert_int_equal(x->exact_spelling, y->exact_spelling);
		assert_int_equal(x->closes_after_content, y->closes_after_content);
		assert_int_equal(!x->preset, !y->preset);
		if (x->preset)
			assert_string_equal(x->preset, y->preset);
		assert_memory_equal(&x->where, &y->where, sizeof(x->where));
		assert_int_equal(x->n_methods, y->n_methods);
		assert_int_equal(x->scheme, y->scheme);
		assert_int_equal(x->host.match, y->host.match);
		assert_int_equal(x->port, y->port);
		assert_int_equal(x->n_credentials, y->n_credentials);
		assert_memory_equal(x->credentials, y->credentials, sizeof(x->credentials));
		assert_true(kh_geo_rules_eq(x->more ? x->more->geo : NULL,
					    y->more ? y->more->geo : NULL));
	}
}

static void nobody_waits_longer_for_an_answer_than_the_limit(void **state)
{
	(void)state;
	struct kh_config *config = config_of(full);
	config->ask_ms = KH_LIMIT_QUESTION_MS + 1;
	struct kh_buf bytes = bytes_of(config);
	assert_null(kh_config_decode(kh_buf_view(&bytes), NULL));
	kh_buf_fini(&bytes);
	kh_config_free(config);
}

static void what_the_worker_needs_comes_through(void **state)
{
	(void)state;
	struct kh_config *config = config_of(full);
	config->credentials[2].present = true;
	config->ask_ms = 1234;
	struct kh_buf bytes = bytes_of(config);
	struct kh_err err = KH_ERR_INIT;
	struct kh_config *back = kh_config_decode(kh_buf_view(&bytes), &err);
	if (!back) {
		fail_msg("%s", err.text);
		return;
	}
	assert_memory_equal(&back->timeouts, &config->timeouts, sizeof(back->timeouts));
	assert_int_equal(back->timeouts.header, 11000);
	assert_int_equal(back->timeouts.drain, 19000);
	assert_int_equal(back->timeouts.handover, 20000);
	assert_int_equal(back->max_connections, 21);
	assert_true(back->says_connections);
	assert_int_equal(back->ask_ms, 1234);
	assert_int_equal(back->max_exchanges, 22);
	assert_int_equal(back->leaves_per_second, 23);
	assert_int_equal(back->refusals_per_second, 24);
	assert_int_equal(back->refusals_burst, 25);
	assert_int_equal(back->audit_reserve, 7 * 1024 * 1024);
	assert_int_equal(back->worker_memory, 99 * 1024 * 1024);
	assert_int_equal(back->threads, 3);
	assert_int_equal(back->log_level, KH_LOG_DEBUG);
	assert_int_equal(back->durability, KH_DURABILITY_SYNCED);
	assert_string_equal(back->worker_user, "nobody");
	assert_false(back->upstream_system_roots);
	assert_false(back->upstream_http2);
	assert_int_equal(back->n_pins, 2);
	assert_true(kh_host_eq(&back->pins[1].host, &config->pins[1].host));
	assert_memory_equal(&back->pins[0].addr.v4, &config->pins[0].addr.v4,
			    sizeof(struct sockaddr_in));
	assert_memory_equal(&back->pins[1].addr.v6, &config->pins[1].addr.v6,
			    sizeof(struct sockaddr_in6));
	assert_int_equal(back->n_allow_addresses, 2);
	assert_memory_equal(back->allow_addresses, config->allow_addresses,
			    2 * sizeof(struct kh_cidr));
	assert_int_equal(back->n_nameservers, 2);
	assert_true(kh_host_eq(&back->proxy.host, &config->proxy.host));
	assert_int_equal(back->proxy.port, 3128);
	assert_string_equal(back->proxy.username, "me");
	assert_true(back->proxy.resolve_locally);
	assert_int_equal(back->proxy.n_no_proxy, 2);
	assert_memory_equal(back->proxy.no_proxy, config->proxy.no_proxy,
			    2 * sizeof(struct kh_host_pattern));
	assert_int_equal(kh_config_proxy_password(back), 0);
	assert_int_equal(back->n_files, config->n_files);
	assert_int_equal(back->n_listeners, 2);
	assert_int_equal(back->listeners[1].tenant, 1);
	assert_string_equal(back->listeners[0].sandbox, "a");
	assert_string_equal(back->listeners[1].sandbox, "box-2");
	assert_int_equal(back->n_credentials, 3);
	assert_string_equal(back->credentials[1].name, "k1");
	assert_int_equal(back->credentials[1].placement->n_fields, 2);
	assert_string_equal(back->credentials[1].placement->fields[0].prefix, "Bearer ");
	assert_string_equal(back->credentials[1].placement->fields[1].suffix, ">");
	assert_int_equal(back->credentials[1].n_hosts, 2);
	assert_memory_equal(back->credentials[1].hosts, config->credentials[1].hosts,
			    2 * sizeof(struct kh_host_pattern));
	assert_string_equal(back->credentials[1].env_name, "API_KEY");
	assert_false(back->credentials[1].present);
	assert_true(back->credentials[2].present);
	assert_true(back->country_db.named && back->asn_db.named);
	assert_int_equal(back->site_geo->allow_countries.count, 2);
	assert_int_equal(back->site_geo->deny_asns.list[0], 5);
	assert_true(kh_geo_rules_eq(back->site_geo, config->site_geo));
	assert_null(back->tenants[0].geo);
	assert_true(back->tenants[1].geo->allow_unknown_asn);
	assert_true(kh_geo_rules_eq(back->tenants[1].geo, config->tenants[1].geo));
	assert_non_null(back->tenants[0].rules.list[1].more->geo);
	assert_same_rules(&back->site, &config->site);
	assert_int_equal(back->n_tenants, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(back->tenants[i].name, config->tenants[i].name);
		assert_same_rules(&back->tenants[i].rules, &config->tenants[i].rules);
	}
	struct kh_buf again = bytes_of(back);
	assert_true(kh_slice_eq(kh_buf_view(&bytes), kh_buf_view(&again)));
	kh_buf_fini(&again);
	kh_buf_fini(&bytes);
	kh_config_free(back);
	kh_config_free(config);
}

static void no_source_of_a_secret_and_no_path_but_a_sockets_goes_to_the_worker(void **state)
{
	(void)state;
	struct kh_config *config = config_of(full);
	struct kh_buf bytes = bytes_of(config);
	struct kh_slice view = kh_buf_view(&bytes);
	assert_null(memmem(view.ptr, view.len, "secret-place", 12));
	assert_null(memmem(view.ptr, view.len, "SECRET_VARIABLE", 15));
	struct kh_config *back = kh_config_decode(view, NULL);
	if (!back) {
		fail();
		return;
	}
	assert_int_equal(back->credentials[1].n_sources, 0);
	assert_null(back->credentials[1].sources);
	assert_null(back->ca_key_path);
	assert_null(back->audit_path);
	assert_null(back->country_db.path);
	assert_null(back->asn_db.path);
	assert_null(back->listeners[0].unix_path);
	assert_string_equal(back->listeners[0].name, config->listeners[0].unix_path);
	kh_config_free(back);
	kh_buf_fini(&bytes);
	kh_config_free(config);
}

static void a_cut_snapshot_is_refused_wherever_it_is_cut(void **state)
{
	(void)state;
	struct kh_config *config = config_of(full);
	struct kh_buf bytes = bytes_of(config);
	struct kh_slice view = kh_buf_view(&bytes);
	for (size_t len = 0; len < view.len; len++) {
		struct kh_err err = KH_ERR_INIT;
		char *exact = malloc(len ? len : 1); /* ends where ASan sees it */
		memcpy(exact, view.ptr, len);
		assert_null(kh_config_decode(kh_slice_of(exact, len), &err));
		assert_int_equal(err.code, KH_ERR_INTERNAL);
		free(exact);
	}
	assert_true(kh_buf_append_char(&bytes, 'x'));
	assert_null(kh_config_decode(kh_buf_view(&bytes), NULL));
	kh_buf_fini(&bytes);
	kh_config_free(config);
}

/* What must hold of any configuration, however it came. */
static void assert_sound(const struct kh_config *config)
{
	for (size_t i = 0; i < config->n_listeners; i++)
		assert_true(config->listeners[i].tenant < config->n_tenants);
	for (size_t t = 0; t < config->n_tenants; t++)
		for (size_t i = 0; i < config->tenants[t].rules.count; i++) {
			const struct kh_rule *rule = &config->tenants[t].rules.list[i];
			assert_true(rule->text && rule->port && rule->scheme && rule->host.match);
			assert_true(rule->n_credentials <= KH_RULE_CREDENTIALS);
			for (size_t j = 0; j < rule->n_credentials; j++)
				assert_true(rule->credentials[j] < config->n_credentials);
		}
	for (size_t i = 0; i < config->n_credentials; i++)
		assert_true(config->credentials[i].n_hosts &&
			    (config->credentials[i].placement || config->credentials[i].of_proxy));
}

static void a_changed_byte_gives_a_sound_configuration_or_none(void **state)
{
	(void)state;
	static const unsigned char values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	struct kh_config *config = config_of(full);
	struct kh_buf bytes = bytes_of(config);
	size_t refused = 0, len = kh_buf_len(&bytes);
	for (size_t i = 0; i < len; i++)
		for (size_t v = 0; v < sizeof(values); v++) {
			char kept = bytes.data[bytes.head + i];
			bytes.data[bytes.head + i] = (char)values[v];
			struct kh_config *back = kh_config_decode(kh_buf_view(&bytes), NULL);
			if (back)
				assert_sound(back);
			refused += !back;
			kh_config_free(back);
			bytes.data[bytes.head + i] = kept;
		}
	assert_true(refused > len); /* most of it is structure */
	kh_buf_fini(&bytes);
	kh_config_free(config);
}

static void a_writer_that_lies_is_not_believed(void **state)
{
	(void)state;
	for (unsigned lie = 0; lie < 17; lie++) {
		struct kh_config *config = config_of(full);
		struct kh_rule *rule = &config->tenants[0].rules.list[0];
		struct kh_credential_config *credential = &config->credentials[1];
		enum kh_host_match match = credential->hosts[0].match;
		size_t n_hosts = credential->n_hosts;
		switch (lie) {
		case 0:
			rule->credentials[0] = 3;
			break;
		case 1:
			rule->client_auth_pass = true; /* beside a credential */
			break;
		case 2:
			rule->allow = false;
			break;
		case 3:
			config->listeners[0].tenant = 2;
			break;
		case 4:
			credential->hosts[0].match = KH_MATCH_ANY;
			break;
		case 5:
			credential->hosts[0].match = KH_MATCH_NOTHING;
			break;
		case 6:
			credential->n_hosts = 0;
			break;
		case 7:
			config->allow_addresses[0].prefix_bits = 33;
			break;
		case 8:
			rule->text[strlen(rule->text) - 9] = ' ';
			break;
		case 9:
			rule->credentials[0] = 2; /* which is bound to another host */
			break;
		case 10:
			rule->credentials[0] = 0; /* the proxy's password */
			break;
		case 11:
			config->credentials[0].of_proxy = false;
			break;
		case 12:
			config->credentials[1].of_proxy = true; /* another one */
			break;
		case 13:
			config->proxy.host = config->pins[1].host; /* not the password's */
			break;
		case 14:
			config->proxy.host.kind = KH_HOST_NONE; /* a password of no proxy's */
			break;
		case 15:
			config->proxy.port = 0;
			break;
		case 16:
			config->proxy.username[1] = ':';
			break;
		default:
			fail();
		}
		struct kh_buf bytes = bytes_of(config);
		if (kh_config_decode(kh_buf_view(&bytes), NULL))
			fail_msg("lie %u is believed", lie);
		kh_buf_fini(&bytes);
		credential->hosts[0].match = match;
		credential->n_hosts = n_hosts;
		kh_config_free(config);
	}
}

static const char by_tenant[] =
	"version: 1\n"
	"credentials:\n"
	"  own:\n"
	"    value: { tenants: { c: { env: C }, a: { env: A } } }\n"
	"    header: { x-a: \"{}\" }\n"
	"    hosts: [ api.example.com ]\n"
	"  all: { value: { env: ALL }, header: { x-a: \"{}\" }, hosts: [ api.example.com ] }\n"
	"tenants: { a: { rules: [] }, b: { rules: [] }, c: { rules: [] } }\n";

static void which_tenants_have_a_value_comes_through(void **state)
{
	(void)state;
	struct kh_config *config = config_of(by_tenant);
	assert_true(kh_credential_set_present(&config->credentials[0], 2, true));
	assert_false(kh_credential_set_present(&config->credentials[0], 2, true));
	/* Without a source of its own; no tenant; everybody. */
	assert_false(kh_credential_set_present(&config->credentials[0], 1, true));
	assert_false(kh_credential_set_present(&config->credentials[0], 3, true));
	assert_false(kh_credential_set_present(&config->credentials[0], KH_NO_TENANT, true));
	assert_true(kh_credential_set_present(&config->credentials[1], KH_NO_TENANT, true));
	struct kh_buf bytes = bytes_of(config);
	struct kh_config *back = kh_config_decode(kh_buf_view(&bytes), NULL);
	assert_non_null(back);
	static const uint16_t tenants[] = { 0, 1, 2, 3, KH_NO_TENANT };
	for (size_t i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++) {
		assert_int_equal(kh_credential_is_present(&back->credentials[0], tenants[i]),
				 tenants[i] == 2);
		assert_true(kh_credential_is_present(&back->credentials[1], tenants[i]));
	}
	assert_true(kh_credential_is_present_for_any(&back->credentials[0]));
	assert_true(kh_credential_set_present(&back->credentials[0], 2, false));
	assert_false(kh_credential_is_present_for_any(&back->credentials[0]));
	kh_config_free(back);
	kh_buf_fini(&bytes);
	kh_config_free(config);
}

static void a_lie_about_who_has_a_value_is_not_believed(void **state)
{
	(void)state;
	for (unsigned lie = 0; lie < 6; lie++) {
		struct kh_config *config = config_of(by_tenant);
		struct kh_credential_config *own = &config->credentials[0];
		switch (lie) {
		case 0:
			own->tenants[1].tenant = 3; /* there is none */
			break;
		case 1:
			own->tenants[0].tenant = 2; /* twice */
			break;
		case 2:
			own->tenants[1].tenant = 0; /* likewise */
			break;
		case 3:
			own->by_tenant = false;
			break;
		case 4:
			own->present = true;
			break;
		default:
			own->tenants[0].tenant = 2; /* in another order */
			own->tenants[1].tenant = 0;
		}
		struct kh_buf bytes = bytes_of(config);
		if (kh_config_decode(kh_buf_view(&bytes), NULL))
			fail_msg("lie %u is believed", lie);
		kh_buf_fini(&bytes);
		kh_config_free(config);
	}
}

static void a_snapshot_that_does_not_fit_is_an_error(void **state)
{
	(void)state;
	struct kh_config *config = config_of(full);
	struct kh_buf bytes;
	kh_buf_init(&bytes, 512);
	assert_false(kh_config_encode(config, &bytes));
	kh_buf_fini(&bytes);
	kh_config_free(config);
}

static void test_a_tenant_opens_addresses_for_itself_alone(void **state)
{
	(void)state;
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_parse(
		"test",
		KH_SLICE("version: 1\n"
			 "upstream: { allow_addresses: [ 10.0.0.0/8 ] }\n"
			 "tenants:\n"
			 "  a: { mode: observe, allow_addresses: [ 127.0.0.1, \"fd00::/8\" ], "
			 "rules: [] }\n"
			 "  b: { rules: [ { deny: \"https://h.example\", mode: observe } ] }\n"),
		NULL, NULL, &diags);
	assert_non_null(config);
	kh_diagnostics_fini(&diags);
	struct kh_buf bytes;
	kh_buf_init(&bytes, 65536);
	assert_true(kh_config_encode(config, &bytes));
	struct kh_config *back = kh_config_decode(kh_buf_view(&bytes), NULL);
	assert_non_null(back);
	size_t n;
	const struct kh_cidr *list = kh_config_allowed_addresses(back, 0, &n);
	assert_int_equal(n, 3); /* its own, and behind them upstream's */
	assert_int_equal(list[0].addr[0], 127);
	assert_int_equal(list[1].family, 6);
	assert_int_equal(list[2].addr[0], 10);
	list = kh_config_allowed_addresses(back, 1, &n);
	assert_int_equal(n, 1);
	assert_int_equal(list[0].addr[0], 10);
	list = kh_config_allowed_addresses(back, SIZE_MAX, &n);
	assert_int_equal(n, 1);
	assert_int_equal(back->tenants[0].mode, KH_MODE_OBSERVE);
	assert_int_equal(back->tenants[1].mode, KH_MODE_ENFORCE);
	assert_true(back->tenants[1].rules.list[0].more->observe);
	kh_config_free(back);
	kh_config_free(config);
	kh_buf_fini(&bytes);
}

/* Else the fuzzer changes bytes of what no reader takes any more: make fuzz-snapshots. */
static void the_snapshots_to_fuzz_from_are_of_todays_format(void **state)
{
	(void)state;
	static const char folder[] = "tests/fuzz/corpus/snapshot";
	DIR *dir = opendir(folder);
	size_t n = 0;
	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		char path[512];
		struct kh_err err = KH_ERR_INIT;
		struct kh_buf bytes;
		if (strncmp(entry->d_name, "doc-", 4) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		kh_buf_init(&bytes, SNAPSHOT_BYTES);
		assert_true(kh_file_read(path, &bytes, &err));
		struct kh_config *config = kh_config_decode(kh_buf_view(&bytes), &err);
		if (!config)
			fail_msg("%s: %s", path, err.text);
		kh_config_free(config);
		kh_buf_fini(&bytes);
		n++;
	}
	closedir(dir);
	assert_true(n >= 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tenant_opens_addresses_for_itself_alone),
		cmocka_unit_test(what_the_worker_needs_comes_through),
		cmocka_unit_test(nobody_waits_longer_for_an_answer_than_the_limit),
		cmocka_unit_test(
			no_source_of_a_secret_and_no_path_but_a_sockets_goes_to_the_worker),
		cmocka_unit_test(a_cut_snapshot_is_refused_wherever_it_is_cut),
		cmocka_unit_test(a_changed_byte_gives_a_sound_configuration_or_none),
		cmocka_unit_test(a_writer_that_lies_is_not_believed),
		cmocka_unit_test(which_tenants_have_a_value_comes_through),
		cmocka_unit_test(a_lie_about_who_has_a_value_is_not_believed),
		cmocka_unit_test(a_snapshot_that_does_not_fit_is_an_error),
		cmocka_unit_test(the_snapshots_to_fuzz_from_are_of_todays_format),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
