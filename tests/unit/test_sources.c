/* test_sources.c - where values come from, what is refused, and that nobody sees one */
#include "config_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/fair_share.h>

static char folder[] = "/tmp/keyhole-test-sources-XXXXXX";
static char path[64];

static struct kh_source from_env(char *name)
{
	return (struct kh_source){ .kind = KH_SOURCE_ENV, .name = name };
}

static struct kh_source from_file(void)
{
	return (struct kh_source){ .kind = KH_SOURCE_FILE, .name = path };
}

static void write_file(const char *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	assert_int_equal(close(fd), 0);
}

static void gives(struct kh_source c, const char *value)
{
	struct kh_secret *secret = NULL;
	struct kh_err err = KH_ERR_INIT;
	enum kh_source_result result = kh_source_read("main", &c, KH_VALUE_LINE, 0, &secret, &err);
	if (result != KH_SOURCE_GOT)
		print_error("%s\n", err.text);
	assert_int_equal(result, KH_SOURCE_GOT);
	assert_true(kh_secret_equals(secret, kh_slice_str(value)));
	kh_secret_unref(secret);
}

/* The text names the credential and holds `words`, and nothing of the value. */
static void gives_nothing(struct kh_source c, enum kh_source_result expected, const char *words,
			  const char *value)
{
	struct kh_secret *secret = NULL;
	struct kh_err err = KH_ERR_INIT;
	assert_int_equal(kh_source_read("main", &c, KH_VALUE_LINE, 0, &secret, &err), expected);
	assert_null(secret);
	assert_non_null(strstr(err.text, "main"));
	if (!strstr(err.text, words))
		print_error("'%s' has no '%s'\n", err.text, words);
	assert_non_null(strstr(err.text, words));
	assert_true(!value || !strstr(err.text, value));
}

static bool is_zero(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			return false;
	return true;
}

static void a_variables_value_is_read_and_overwritten_in_place(void **state)
{
	(void)state;
	static char entry[] = "KH_TEST_KEY=sk-real-0123456789";
	char *value = strchr(entry, '=') + 1;
	char name[] = "KH_TEST_KEY";
	assert_int_equal(putenv(entry), 0);
	gives(from_env(name), "sk-real-0123456789");
	assert_true(is_zero(value, strlen("sk-real-0123456789")));
	/* and a second reading finds nothing */
	gives_nothing(from_env(name), KH_SOURCE_ABSENT, "KH_TEST_KEY is empty", NULL);
	assert_int_equal(unsetenv(name), 0);
}

static void a_refused_variables_value_is_overwritten_too(void **state)
{
	(void)state;
	static char entry[] = "KH_TEST_KEY=sk-real\nsecond-line";
	char name[] = "KH_TEST_KEY";
	assert_int_equal(putenv(entry), 0);
	gives_nothing(from_env(name), KH_SOURCE_REFUSED, "more than one line", "sk-real");
	assert_true(is_zero(strchr(entry, '=') + 1, strlen("sk-real\nsecond-line")));
	assert_int_equal(unsetenv(name), 0);
}

/* exec may pass a name twice; getenv sees the first. */
static void every_entry_of_the_name_is_overwritten(void **state)
{
	(void)state;
	static char one[] = "KH_TWICE=sk-real-1", two[] = "KH_TWICE=sk-real-2",
		    other[] = "KH_TWICE_MORE=stays";
	char *entries[] = { other, one, two, NULL }, **before = environ, name[] = "KH_TWICE";
	environ = entries;
	gives(from_env(name), "sk-real-1");
	environ = before;
	assert_string_equal(one, "KH_TWICE=");
	assert_string_equal(two, "KH_TWICE=");
	assert_true(is_zero(two + 9, 9));
	assert_string_equal(other, "KH_TWICE_MORE=stays");
}

static void a_byte_order_mark_is_no_part_of_a_value(void **state)
{
	(void)state;
	static const char with[] = "\357\273\277sk-real-0123456789\r\n";
	static const char only[] = "\357\273\277\n";
	static const char within[] = "sk-real-\357\273\2770123456789";
	write_file(with, sizeof(with) - 1);
	gives(from_file(), "sk-real-0123456789");
	write_file(within, sizeof(within) - 1);
	gives(from_file(), within);
	write_file(only, sizeof(only) - 1);
	gives_nothing(from_file(), KH_SOURCE_ABSENT, "is empty", NULL);
	static const char little[] = "\377\376s\0k\0-\0r\0e\0a\0l\0";
	static const char big[] = "\376\377\0s\0k\0-\0r\0e\0a\0l";
	write_file(little, sizeof(little) - 1);
	gives_nothing(from_file(), KH_SOURCE_REFUSED, "UTF-16", NULL);
	write_file(big, sizeof(big) - 1);
	gives_nothing(from_file(), KH_SOURCE_REFUSED, "write it in UTF-8", NULL);
}

static void a_file_that_may_not_be_read_is_told_of_with_the_user(void **state)
{
	(void)state;
	const uid_t before = geteuid(), other = before ? before : 65534;
	char words[64];
	write_file("sk-real-0123456789", 18);
	assert_int_equal(chmod(path, 0), 0);
	(void)snprintf(words, sizeof(words), "uid %lu may not read the file", (unsigned long)other);
	/* Root may read whatever its mode. */
	assert_int_equal(seteuid(other), 0);
	gives_nothing(from_file(), KH_SOURCE_REFUSED, words, "sk-real");
	assert_int_equal(seteuid(before), 0);
	assert_int_equal(chmod(path, 0600), 0);
}

static void a_missing_or_empty_variable_is_absent(void **state)
{
	(void)state;
	char name[] = "KH_TEST_UNSET";
	gives_nothing(from_env(name), KH_SOURCE_ABSENT, "KH_TEST_UNSET is not set", NULL);
	assert_int_equal(setenv(name, "", 1), 0);
	gives_nothing(from_env(name), KH_SOURCE_ABSENT, "KH_TEST_UNSET is empty", NULL);
	assert_int_equal(unsetenv(name), 0);
}

static void one_line_end_is_taken_off_a_file(void **state)
{
	(void)state;
	static const char *const files[] = { "sk-realer", "sk-realer\n", "sk-realer\r\n" };
	for (size_t i = 0; i < 3; i++) {
		write_file(files[i], strlen(files[i]));
		gives(from_file(), "sk-realer");
	}
}

static void what_a_field_cannot_hold_is_refused_without_showing_it(void **state)
{
	(void)state;
	static const struct {
		const char *content;
		size_t len;
		const char *words;
	} files[] = {
		{ "sk-real\nsecond\n", 15, "more than one line" },
		{ "sk-real\n\n", 9, "more than one line" },
		{ "sk-real\r\nsecond", 15, "more than one line" },
		{ "sk-real\rx", 9, "more than one line" },
		{ "sk-real\0x", 9, "control byte" },
		{ "sk-real\x1b[0m", 11, "control byte" },
		{ "sk-real\tx", 9, "control byte" },
		{ "sk-real\x7f", 8, "control byte" },
		{ " sk-real", 8, "blank" },
		{ "sk-real \n", 9, "blank" },
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		write_file(files[i].content, files[i].len);
		gives_nothing(from_file(), KH_SOURCE_REFUSED, files[i].words, "sk-real");
	}
}

static void an_empty_or_absent_file_is_absent(void **state)
{
	(void)state;
	static const char *const files[] = { "", "\n", "\r\n" };
	for (size_t i = 0; i < 3; i++) {
		write_file(files[i], strlen(files[i]));
		gives_nothing(from_file(), KH_SOURCE_ABSENT, "is empty", NULL);
	}
	assert_int_equal(unlink(path), 0);
	gives_nothing(from_file(), KH_SOURCE_ABSENT, "is not there (put the value into it", NULL);
}

static void a_folder_is_refused(void **state)
{
	(void)state;
	struct kh_source c = from_file();
	c.name = folder;
	gives_nothing(c, KH_SOURCE_REFUSED, "is no file (name the one", NULL);
}

static void a_value_has_its_cap(void **state)
{
	(void)state;
	char *big = malloc(KH_LIMIT_SECRET_BYTES + 2);
	assert_non_null(big);
	memset(big, 'k', KH_LIMIT_SECRET_BYTES + 1);
	big[KH_LIMIT_SECRET_BYTES + 1] = 0;
	write_file(big, KH_LIMIT_SECRET_BYTES + 1);
	gives_nothing(from_file(), KH_SOURCE_REFUSED, "longer than 64 KiB", "kkkkkkkk");
	big[KH_LIMIT_SECRET_BYTES] = '\n';
	write_file(big, KH_LIMIT_SECRET_BYTES + 1);
	big[KH_LIMIT_SECRET_BYTES] = 0;
	gives(from_file(), big);
	/* far more than is read at all */
	int fd = open(path, O_WRONLY);
	assert_int_equal(ftruncate(fd, 1L << 32), 0);
	assert_int_equal(close(fd), 0);
	gives_nothing(from_file(), KH_SOURCE_REFUSED, "longer than 64 KiB", "kkkkkkkk");
	free(big);
}

/* --- all of a configuration ------------------------------------------------------------------- */

static struct kh_config *configure(const char *credentials, const char *rules)
{
	kh_auto_free char *yaml = kh_strf("version: 1\n"
					  "listen: [ { unix: d/s, tenant: acme } ]\n"
					  "credentials: { %s }\n"
					  "tenants: { acme: { rules: [ %s ] } }\n",
					  credentials, rules);
	return config_in(folder, yaml);
}

#define FROM(name, variable) \
	name ": { value: { env: " variable \
	     " }, header: { x-api-key: \"{}\" }, hosts: [ api.test ] }"

/* NULL: there is none. The reference is the vault's. */
static struct kh_secret *value_of(struct kh_vault *vault, size_t index, struct kh_err *err)
{
	const struct kh_credential_ref want = { (uint16_t)index, KH_NO_TENANT, { "", 0 } };
	const struct kh_fair_share_asker nobody = { KH_FAIR_SHARE_NOBODY, KH_NO_TENANT };
	struct kh_value value;
	return kh_vault_get(vault, &want, &nobody, &value, err) == KH_VAULT_GOT ? value.secret
										: NULL;
}

static size_t find(const struct kh_config *config, const char *name)
{
	size_t i = 0;
	while (strcmp(config->credentials[i].name, name) != 0)
		i++;
	return i;
}

static void two_credentials_share_a_variable(void **state)
{
	(void)state;
	struct kh_config *config = configure(FROM("one", "KH_SHARED") ", " FROM("two", "KH_SHARED"),
					     "{ allow: \"https://api.test/a\", credential: one }, "
					     "{ allow: \"https://api.test/b\", credential: two }");
	struct kh_vault vault;
	assert_int_equal(setenv("KH_SHARED", "sk-shared", 1), 0);
	assert_true(kh_vault_open(&vault, config, true, NULL));
	for (uint16_t i = 0; i < 2; i++) {
		assert_true(kh_credential_is_present(&config->credentials[i], 0));
		assert_true(kh_secret_equals(value_of(&vault, i, NULL), KH_SLICE("sk-shared")));
	}
	assert_string_equal(getenv("KH_SHARED"), "");
	kh_vault_close(&vault);
	kh_config_free(config);
}

static void one_run_stops_without_any_of_the_alternatives(void **state)
{
	(void)state;
	const char *rules = "{ allow: \"https://api.test\", credential: [ one, two ] }";
	const char *credentials = FROM("one", "KH_ONE") ", " FROM("two", "KH_TWO");
	struct kh_err err = KH_ERR_INIT;
	struct kh_vault vault;
	struct kh_config *config = configure(credentials, rules);
	assert_false(kh_vault_open(&vault, config, true, &err));
	assert_non_null(strstr(err.text, "KH_ONE or KH_TWO"));
	kh_vault_close(&vault);
	kh_config_free(config);

	config = configure(credentials, rules);
	assert_int_equal(setenv("KH_TWO", "sk-two-value", 1), 0);
	assert_true(kh_vault_open(&vault, config, true, &err));
	assert_false(kh_credential_is_present(&config->credentials[find(config, "one")], 0));
	assert_true(kh_credential_is_present(&config->credentials[find(config, "two")], 0));
	kh_vault_close(&vault);
	kh_config_free(config);
}

static void a_daemon_goes_on_without_a_value(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	struct kh_vault vault;
	struct kh_config *config = configure(FROM("one", "KH_ONE"),
					     "{ allow: \"https://api.test\", credential: one }");
	kh_log_set_level(KH_LOG_ERROR);
	assert_true(kh_vault_open(&vault, config, false, &err));
	assert_false(kh_credential_is_present(&config->credentials[0], 0));
	assert_null(value_of(&vault, 0, &err));
	assert_int_equal(err.code, KH_ERR_CREDENTIAL_UNAVAILABLE);
	kh_vault_close(&vault);
	kh_config_free(config);
}

static void one_run_reads_only_what_its_rules_name(void **state)
{
	(void)state;
	struct kh_vault vault;
	struct kh_config *config = configure(FROM("one", "KH_ONE") ", " FROM("other", "KH_OTHER"),
					     "{ allow: \"https://api.test\", credential: one }");
	assert_int_equal(setenv("KH_ONE", "sk-one-value", 1), 0);
	assert_int_equal(setenv("KH_OTHER", "sk-other-value", 1), 0);
	assert_true(kh_vault_open(&vault, config, true, NULL));
	assert_null(value_of(&vault, find(config, "other"), NULL));
	/* and neither is left for anybody who looks at the environment */
	kh_keeper_forget_sources(config);
	assert_string_equal(getenv("KH_ONE"), "");
	assert_string_equal(getenv("KH_OTHER"), "");
	kh_vault_close(&vault);
	kh_config_free(config);
}

static void a_placeholder_is_as_long_as_the_secret_and_is_not_it(void **state)
{
	(void)state;
	static const char value[] = "sk-0123456789abcdefghijklmnopqrstuvwxyz";
	struct kh_vault vault;
	struct kh_ready ready = { .ok = true };
	struct kh_config *config =
		configure(FROM("one", "KH_ONE") ", " FROM("two", "KH_TWO"),
			  "{ allow: \"https://api.test\", credential: [ one, two ] }");
	assert_int_equal(setenv("KH_ONE", value, 1), 0);
	assert_int_equal(setenv("KH_TWO", "sk-two-value", 1), 0);
	assert_true(kh_vault_open(&vault, config, true, NULL));
	assert_true(kh_vault_placeholders(&vault, &ready, NULL));
	/* The second alternative never goes in, so it is not shown either. */
	assert_int_equal(ready.n_placeholders, 1);
	assert_string_equal(ready.placeholders[0].env_name, "KH_ONE");
	assert_int_equal(strlen(ready.placeholders[0].value), strlen(value));
	assert_string_not_equal(ready.placeholders[0].value, value);
	kh_ready_fini(&ready);
	kh_vault_close(&vault);
	kh_config_free(config);
}

static void a_file_that_comes_later_is_found(void **state)
{
	(void)state;
	kh_auto_free char *credential = kh_strf(
		"one: { value: { file: %s }, header: { x-api-key: \"{}\" }, hosts: [ api.test ] }",
		path);
	struct kh_config *config =
		configure(credential, "{ allow: \"https://api.test\", credential: one }");
	struct kh_vault vault;
	(void)unlink(path);
	kh_log_set_level(KH_LOG_ERROR);
	assert_true(kh_vault_open(&vault, config, false, NULL));
	write_file("sk-late-value\n", 14);
	/* It was looked for a moment ago: a worker can't make the keeper read without end. */
	assert_null(value_of(&vault, 0, NULL));
	vault.slots[0].holdings[0].tried_ms -= 1001;
	assert_true(kh_secret_equals(value_of(&vault, 0, NULL), KH_SLICE("sk-late-value")));
	kh_vault_close(&vault);
	kh_config_free(config);
}

/* --- a value for each tenant ------------------------------------------------------------------ */

enum { ACME, GLOBEX, INITECH };

/* acme has a variable, globex the file `path`, initech nothing; sandboxes of `served`. */
static struct kh_config *configure_tenants(const char *served)
{
	static const char rules[] = "[ { allow: \"https://api.test\", credential: [ own, two ] } ]";
	kh_auto_free char *yaml = kh_strf(
		"version: 1\n"
		"listen: [ %s ]\n"
		"credentials:\n"
		"  own: { value: { tenants: { globex: { file: %s }, acme: { env: KH_ONE } } },\n"
		"    header: { x-api-key: \"{}\" }, hosts: [ api.test ] }\n"
		"  " FROM("two", "KH_TWO") "\n"
					   "tenants: { acme: { rules: %s }, globex: { rules: %s }, "
					   "initech: { rules: %s } }\n",
		served, path, rules, rules, rules);
	return config_in(folder, yaml);
}

static const char all_served[] = "{ unix: d/s, tenant: acme }, { unix: e/s, tenant: globex }, { "
				 "unix: f/s, tenant: initech }";

static void assert_present(const struct kh_vault *vault, bool acme, bool globex, bool initech)
{
	const struct kh_credential_config *own =
		&vault->config->credentials[find(vault->config, "own")];
	assert_int_equal(kh_credential_is_present(own, ACME), acme);
	assert_int_equal(kh_credential_is_present(own, GLOBEX), globex);
	assert_int_equal(kh_credential_is_present(own, INITECH), initech);
	assert_false(kh_credential_is_present(own, INITECH + 1));
	assert_false(kh_credential_is_present(own, KH_NO_TENANT));
}

static unsigned n_chosen;

static void note_chosen(void *arg, uint16_t index, uint16_t tenant, bool present)
{
	const struct kh_vault *vault = arg;
	assert_int_equal(index, find(vault->config, "own"));
	assert_int_equal(tenant, GLOBEX);
	assert_true(present);
	n_chosen++;
}

static void each_tenant_has_a_value_or_none(void **state)
{
	(void)state;
	struct kh_config *config = configure_tenants(all_served), *next;
	struct kh_err err = KH_ERR_INIT;
	struct kh_vault vault, later;
	(void)unlink(path);
	kh_log_set_level(KH_LOG_ERROR);
	assert_int_equal(setenv("KH_ONE", "sk-one-value", 1), 0);
	assert_true(kh_vault_open(&vault, config, false, &err));
	assert_present(&vault, true, false, false);

	/* What comes later is told of, of the tenant whose value it is. */
	n_chosen = 0;
	vault.chosen_anew = note_chosen;
	vault.arg = &vault;
	write_file("sk-late-value\n", 14);
	struct kh_holding *holding =
		kh_vault_holding(&vault, (uint16_t)find(config, "own"), GLOBEX);
	assert_non_null(holding);
	assert_int_equal(kh_vault_read(&vault, (uint16_t)find(config, "own"), holding, &err),
			 KH_SOURCE_GOT);
	kh_vault_raw_came(&vault, (uint16_t)find(config, "own"), holding, true);
	assert_int_equal(n_chosen, 1);
	assert_present(&vault, true, true, false);

	/* A reload finds the file gone, and tells nobody: the worker gets all of it. */
	assert_int_equal(unlink(path), 0);
	next = configure_tenants(all_served);
	assert_true(kh_vault_reopen(&later, &vault, next, &err));
	kh_vault_adopt(&vault, &later);
	kh_config_free(config);
	assert_present(&vault, true, false, false);
	assert_int_equal(n_chosen, 1);
	assert_ptr_equal(vault.chosen_anew, note_chosen);
	kh_vault_close(&vault);
	kh_config_free(next);
}

static void one_run_needs_a_value_of_its_own_tenant(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	struct kh_vault vault;
	/* acme's would do, and the file of globex is no good: neither is this sandbox's. */
	write_file("two\nlines\n", 10);
	struct kh_config *config = configure_tenants("{ unix: f/s, tenant: initech }");
	assert_int_equal(setenv("KH_ONE", "sk-one-value", 1), 0);
	assert_false(kh_vault_open(&vault, config, true, &err));
	assert_non_null(strstr(err.text, "add the tenant initech to value.tenants of own"));
	assert_non_null(strstr(err.text, "KH_TWO"));
	kh_vault_close(&vault);
	kh_config_free(config);

	config = configure_tenants("{ unix: f/s, tenant: initech }");
	assert_int_equal(setenv("KH_TWO", "sk-two-value", 1), 0);
	assert_true(kh_vault_open(&vault, config, true, &err));
	assert_present(&vault, false, false, false);
	kh_vault_close(&vault);
	kh_config_free(config);

	config = configure_tenants("{ unix: d/s, tenant: acme }");
	assert_int_equal(setenv("KH_ONE", "sk-one-value", 1), 0);
	assert_int_equal(setenv("KH_TWO", "sk-two-value", 1), 0);
	assert_true(kh_vault_open(&vault, config, true, &err));
	assert_present(&vault, true, false, false);
	kh_vault_close(&vault);
	kh_config_free(config);
}

static void a_placeholder_is_of_what_goes_in_for_the_tenant(void **state)
{
	(void)state;
	static const struct {
		const char *served, *variable;
	} cases[] = { { "{ unix: d/s, tenant: acme }", "KH_OWN" },
		      { "{ unix: f/s, tenant: initech }", "KH_TWO" } };
	(void)unlink(path);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_vault vault;
		struct kh_ready ready = { .ok = true };
		struct kh_config *config = configure_tenants(cases[i].served);
		free(config->credentials[find(config, "own")].env_name);
		config->credentials[find(config, "own")].env_name = strdup("KH_OWN");
		assert_int_equal(setenv("KH_ONE", "sk-one-value-of-acme", 1), 0);
		assert_int_equal(setenv("KH_TWO", "sk-two-value-of-all", 1), 0);
		kh_log_set_level(KH_LOG_ERROR);
		assert_true(kh_vault_open(&vault, config, false, NULL));
		assert_true(kh_vault_placeholders(&vault, &ready, NULL));
		assert_int_equal(ready.n_placeholders, 1);
		assert_string_equal(ready.placeholders[0].env_name, cases[i].variable);
		kh_ready_fini(&ready);
		kh_vault_close(&vault);
		kh_config_free(config);
	}
}

static void states_that_find_no_room_are_counted(void **state)
{
	(void)state;
	struct kh_vault vault;
	uint32_t left_out;
	struct kh_config *config = configure(FROM("one", "KH_ONE") ", " FROM("two", "KH_TWO"),
					     "{ allow: \"https://api.test/a\", credential: one }");
	kh_log_set_level(KH_LOG_ERROR);
	assert_true(kh_vault_open(&vault, config, false, NULL));
	kh_auto_free char *all = kh_credential_status_of(&vault, 64 * 1024, &left_out);
	assert_int_equal(left_out, 0);
	assert_non_null(strstr(all, "\"name\":\"one\""));
	assert_non_null(strstr(all, "\"name\":\"two\""));
	kh_auto_free char *some = kh_credential_status_of(&vault, strlen(all) - 1, &left_out);
	assert_int_equal(left_out, 1);
	assert_memory_equal(some, all, strlen(some) - 1);
	assert_int_equal(some[strlen(some) - 1], ']');
	kh_auto_free char *none = kh_credential_status_of(&vault, 10, &left_out);
	assert_int_equal(left_out, 2);
	assert_string_equal(none, "[]");
	kh_vault_close(&vault);
	kh_config_free(config);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/value", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(folder);
}

static int forget_variables(void **state)
{
	static const char *const names[] = { "KH_ONE", "KH_TWO", "KH_OTHER", "KH_SHARED" };
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unsetenv(names[i]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_variables_value_is_read_and_overwritten_in_place),
		cmocka_unit_test(a_refused_variables_value_is_overwritten_too),
		cmocka_unit_test(every_entry_of_the_name_is_overwritten),
		cmocka_unit_test(a_byte_order_mark_is_no_part_of_a_value),
		cmocka_unit_test(a_file_that_may_not_be_read_is_told_of_with_the_user),
		cmocka_unit_test(a_missing_or_empty_variable_is_absent),
		cmocka_unit_test(one_line_end_is_taken_off_a_file),
		cmocka_unit_test(what_a_field_cannot_hold_is_refused_without_showing_it),
		cmocka_unit_test(an_empty_or_absent_file_is_absent),
		cmocka_unit_test(a_folder_is_refused),
		cmocka_unit_test(a_value_has_its_cap),
		cmocka_unit_test_teardown(two_credentials_share_a_variable, forget_variables),
		cmocka_unit_test_teardown(one_run_stops_without_any_of_the_alternatives,
					  forget_variables),
		cmocka_unit_test_teardown(a_daemon_goes_on_without_a_value, forget_variables),
		cmocka_unit_test_teardown(one_run_reads_only_what_its_rules_name, forget_variables),
		cmocka_unit_test_teardown(a_placeholder_is_as_long_as_the_secret_and_is_not_it,
					  forget_variables),
		cmocka_unit_test(a_file_that_comes_later_is_found),
		cmocka_unit_test_teardown(each_tenant_has_a_value_or_none, forget_variables),
		cmocka_unit_test_teardown(one_run_needs_a_value_of_its_own_tenant,
					  forget_variables),
		cmocka_unit_test_teardown(a_placeholder_is_of_what_goes_in_for_the_tenant,
					  forget_variables),
		cmocka_unit_test(states_that_find_no_room_are_counted),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
