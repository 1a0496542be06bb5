/* test_carry.c - a row of the options is enough to read, to write and to carry one
 *
 * Every option of a file is set by itself to something else than its default. What a row has words,
 * bounds or a default for is made of them; option_samples.h has the others. The file is read,
 * carried to the worker and compared, and carried by a table that lacks the row, which must show.
 */
#include "config_text.h"
#include "option_samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <keyhole/base/writable.h>

#include "config/carry.h"

enum { BYTES = 256 * 1024, TEXT = 4096 };

/* ---- a file for a row ---- */

/* Derived values are told apart from the default by this. */
static uint64_t number_for(const struct kh_option *option)
{
	uint64_t other = 0, number = option->least + 1;
	if (option->fallback && option->type == KH_OPTION_COUNT)
		(void)kh_slice_to_u64(kh_slice_str(option->fallback), &other);
	return number == other ? number + 1 : number;
}

static void put_value(struct kh_buf *text, const struct kh_option *option)
{
	char room[KH_VALUE_BYTES];
	const char *sample = sample_of(option->path);
	size_t n = 0;
	if (sample) {
		assert_true(kh_buf_append_str(text, sample));
		return;
	}
	switch (option->type) {
	case KH_OPTION_BOOL:
		assert_true(kh_buf_append_str(
			text, strcmp(option->fallback, "true") == 0 ? "false" : "true"));
		return;
	case KH_OPTION_COUNT:
		assert_true(kh_buf_printf(text, "%llu", (unsigned long long)number_for(option)));
		return;
	case KH_OPTION_DURATION:
		assert_true(
			kh_buf_append_str(text, kh_value_show_duration(number_for(option), room)));
		return;
	case KH_OPTION_SIZE:
		assert_true(kh_buf_append_str(text, kh_value_show_size(number_for(option), room)));
		return;
	case KH_OPTION_CHOICE:
		while (option->choices[n + 1])
			n++;
		assert_true(kh_buf_append_str(text, option->choices[n]));
		return;
	case KH_OPTION_SECTION:
	case KH_OPTION_LIST:
	case KH_OPTION_MAP:
	case KH_OPTION_TEXT:
	case KH_OPTION_PATH:
	case KH_OPTION_NODE:
	case KH_OPTION_CUSTOM:
		break;
	}
	fail_msg("%s has neither words, bounds nor a default: give it a sample", option->path);
}

/* Where an item's keys begin, and what the item has beside. */
static const struct {
	const char *prefix;
	const char *text;
} places[] = {
	{ "rules[].limits.", "tenants: { t: { rules: [ { " RULE "limits: { " },
	{ "rules[].", "tenants: { t: { rules: [ { " },
	{ "tenants.*.", "tenants: { t: { " },
	{ "credentials.*.value.",
	  "credentials: { c: { hosts: [ a.example ], bearer: true, value: { " },
	{ "credentials.*.hosts", "credentials: { c: { value: { env: SOME }, hosts: " },
	{ "credentials.*.", "credentials: { c: { value: { env: SOME }, hosts: [ a.example ], " },
	{ "listen[].limits.", "listen: [ { unix: s/s, limits: { " },
	{ "listen[].", "listen: [ { " },
	{ "expect[].", "expect: [ { " },
	{ "admin.allow[].", "admin: { allow: [ { " },
};

/* What may be named, where the option's own part does not say it. */
static void put_others(struct kh_buf *text, const char *path)
{
	static const char others[] = "credentials: { other: { value: { env: OTHER }, bearer: true, "
				     "hosts: [ a.example ] } }\n";
	bool ok = kh_buf_append_str(text, strcmp(path, "version") == 0 ? "" : "version: 1\n");
	if (strncmp(path, "credentials", 11) != 0)
		ok = ok && kh_buf_append_str(text, others);
	if (strncmp(path, "tenants", 7) != 0 && strncmp(path, "rules", 5) != 0)
		ok = ok && kh_buf_append_str(text, "tenants: { t: { rules: [] } }\n");
	if (strncmp(path, "upstream", 8) != 0)
		ok = ok &&
		     kh_buf_append_str(text, "upstream: { geo: { country_db: c, asn_db: a } }\n");
	if (strncmp(path, "expect", 6) == 0)
		ok = ok && kh_buf_append_str(text, "listen: [ { unix: s/s, sandbox: box } ]\n");
	assert_true(ok);
}

static void put_closers(struct kh_buf *text)
{
	char open[32];
	size_t depth = 0, len = kh_buf_len(text);
	const char *all = kh_buf_cstr(text);
	for (bool quoted = false; *all; all++) {
		quoted ^= *all == '"';
		if (!quoted && strchr("{[", *all))
			open[depth++] = *all;
		else if (!quoted && strchr("}]", *all))
			depth--;
	}
	while (depth > 0)
		assert_true(kh_buf_append_str(text, open[--depth] == '{' ? " }" : " ]"));
	assert_true(kh_buf_len(text) >= len && kh_buf_append_char(text, '\n'));
}

static void put_file(struct kh_buf *text, const struct kh_option *option)
{
	const char *rest = option->path;
	put_others(text, option->path);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t len = strlen(places[i].prefix);
		if (strncmp(option->path, places[i].prefix, len) != 0)
			continue;
		assert_true(kh_buf_append_str(text, places[i].text));
		rest = option->path + len;
		break;
	}
	for (size_t len; (len = strcspn(rest, ".")) < strlen(rest); rest += len + 1)
		assert_true(kh_buf_printf(text, "%.*s: { ", (int)len, rest));
	if (*rest)
		assert_true(kh_buf_printf(text, "%s: ", rest));
	put_value(text, option);
	put_closers(text);
}

/* ---- on its way ---- */

static struct kh_buf bytes_by(const struct kh_options *options, struct kh_config *config)
{
	struct kh_buf out;
	kh_buf_init(&out, BYTES);
	struct kh_carrier c = { .out = &out, .config = config, .options = options };
	kh_carry_config(&c, config);
	assert_false(c.in.bad);
	return out;
}

static void *base_of(const struct kh_config *config, const struct kh_option *option)
{
	const char *path = option->path;
	bool limit = strstr(path, ".limits.") != NULL;
	if (strncmp(path, "rules[].", 8) == 0) {
		struct kh_rule *rule = &config->tenants[0].rules.list[0];
		return limit			    ? (void *)rule->more->limits
		       : option->flags & KH_IN_PART ? (void *)rule->more
						    : rule;
	}
	if (strncmp(path, "tenants.*.", 10) == 0)
		return limit ? (void *)config->tenants[0].limits : &config->tenants[0];
	if (strncmp(path, "listen[].", 9) == 0)
		return limit ? (void *)config->listeners[0].limits : &config->listeners[0];
	if (strncmp(path, "credentials.*.hmac.", 19) == 0)
		return config->credentials[0].placement->hmac;
	if (strncmp(path, "credentials.*.aws_sigv4.", 24) == 0)
		return config->credentials[0].placement->sigv4;
	if (strncmp(path, "credentials.*.", 14) == 0)
		return &config->credentials[0];
	return limit ? (void *)config->site_limits : (void *)(uintptr_t)config;
}

static void assert_member(const struct kh_option *option, const struct kh_config *sent,
			  const struct kh_config *got)
{
	const char *a = (char *)base_of(sent, option) + option->member;
	const char *b = (char *)base_of(got, option) + option->member;
	bool derived = option->carry == kh_carry_value && !sample_of(option->path);
	/* What a sample sets is not zero: another member would be. */
	if (option->carry == kh_carry_flag)
		assert_true(*(const bool *)a);
	else if (!derived && option->type != KH_OPTION_BOOL)
		assert_int_not_equal(*(const uint32_t *)(const void *)a, 0);
	if (option->type <= KH_OPTION_CHOICE)
		assert_int_equal(option->offset, option->member);
	if (option->carry == kh_carry_text || option->type == KH_OPTION_TEXT)
		assert_string_equal(*(char *const *)b, *(char *const *)a);
	else if (option->carry == kh_carry_flag || option->type == KH_OPTION_BOOL)
		assert_int_equal(*(const bool *)b, *(const bool *)a);
	else if (option->carry == kh_carry_size || option->type == KH_OPTION_SIZE)
		assert_true(*(const uint64_t *)b == *(const uint64_t *)a &&
			    (!derived || *(const uint64_t *)b == number_for(option)));
	else
		assert_int_equal(*(const uint32_t *)b, *(const uint32_t *)a);
	if (derived && (option->type == KH_OPTION_COUNT || option->type == KH_OPTION_DURATION))
		assert_int_equal(*(const uint32_t *)b, number_for(option));
}

/* By a table without the row something is missing. */
static void assert_needed(const struct kh_option *option, struct kh_config *config, size_t len)
{
	static struct kh_option rows[1024];
	struct kh_options fewer = { rows, kh_options.count };
	assert_true(kh_options.count <= sizeof(rows) / sizeof(rows[0]));
	for (size_t i = 0; i < kh_options.count; i++) {
		memcpy(&rows[i], &kh_options.rows[i], sizeof(rows[i]));
		if (&kh_options.rows[i] == option)
			rows[i].carry = NULL;
	}
	struct kh_buf bytes = bytes_by(&fewer, config);
	if (kh_buf_len(&bytes) >= len)
		fail_msg("%s: nothing is missing without its row", option->path);
	kh_buf_fini(&bytes);
}

static void try_option(const struct kh_option *option)
{
	struct kh_buf text;
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&text, TEXT);
	put_file(&text, option);
	struct kh_config *sent =
		kh_config_parse("test", kh_buf_view(&text), NULL, "policies", &diags);
	if (!sent) {
		kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
		fail_msg("%s: %s", option->path, kh_buf_cstr(&text));
	}
	kh_diagnostics_fini(&diags);
	struct kh_buf bytes = bytes_by(&kh_options, sent);
	struct kh_config *got = kh_config_decode(kh_buf_view(&bytes), &err);
	if (!got)
		fail_msg("%s: %s", option->path, err.text);
	struct kh_buf again = bytes_by(&kh_options, got);
	assert_true(kh_slice_eq(kh_buf_view(&bytes), kh_buf_view(&again)));
	if (option->carry)
		assert_needed(option, sent, kh_buf_len(&bytes));
	if (option->carry == kh_carry_value || option->carry == kh_carry_text ||
	    option->carry == kh_carry_flag || option->carry == kh_carry_word ||
	    option->carry == kh_carry_number || option->carry == kh_carry_size)
		assert_member(option, sent, got);
	kh_buf_fini(&again);
	kh_buf_fini(&bytes);
	kh_buf_fini(&text);
	kh_config_free(got);
	kh_config_free(sent);
}

static void a_row_is_all_that_an_option_needs(void **state)
{
	(void)state;
	size_t tried = 0;
	for (size_t i = 0; i < kh_options.count; i++) {
		const struct kh_option *option = &kh_options.rows[i];
		bool whole = option->type == KH_OPTION_SECTION || option->items;
		if (!(option->flags & KH_IN_FILE) || (whole && !sample_of(option->path)))
			continue;
		try_option(option);
		tried++;
	}
	assert_true(tried > 150);
}

static void no_row_of_a_path_or_of_a_source_is_carried(void **state)
{
	(void)state;
	for (size_t i = 0; i < kh_options.count; i++) {
		const struct kh_option *option = &kh_options.rows[i];
		if (option->carry &&
		    (option->type == KH_OPTION_PATH ||
		     strncmp(option->path, "credentials.*.value", 19) == 0 ||
		     strstr(option->path, ".token.") || strstr(option->path, ".password") ||
		     !(option->flags & KH_IN_FILE)))
			fail_msg("%s stays with the keeper", option->path);
	}
}

/* --- paths of this host --------------------------------------------------------------------- */

static bool names_path(const struct kh_option *option)
{
	const char *what = option->expects ? option->expects : "";
	return option->type == KH_OPTION_PATH || strcmp(what, "a path") == 0 ||
	       strncmp(what, "the path of", 11) == 0 || strstr(what, "file: PATH") ||
	       strstr(what, "a program");
}

/* In it: work, where a sandbox may write; safe; and a link from each to the other. */
static char ground[] = "/tmp/carry.XXXXXX";
static const char *const inside[] = { "work", "work/away", "safe/to", "safe/to/away" };

/* As `keyhole run` names it: of the item c or t. */
static void put_name(struct kh_buf *name, const char *path)
{
	const char *star = strchr(path, '*');
	if (star)
		assert_true(kh_buf_printf(name, "%.*s%c%s", (int)(star - path), path, path[0],
					  star + 1));
	else
		assert_true(kh_buf_append_str(name, path));
}

static void assert_named(const char *yaml, const char *option, const char *path)
{
	struct kh_config *config = config_in("/work space", yaml);
	for (size_t i = 0; i < config->n_named; i++)
		if (strcmp(config->named[i].option, option) == 0 &&
		    (!path || strcmp(config->named[i].path, path) == 0)) {
			assert_int_equal(config->named[i].path[0], '/');
			kh_config_free(config);
			return;
		}
	fail_msg("nobody is told which path %s names: read it with kh_reader_path", option);
}

/* No relative path of the file leads to where a sandbox may write. */
static void assert_refused(const char *yaml, const char *option)
{
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		char folder[128];
		struct kh_err err = KH_ERR_INIT;
		(void)snprintf(folder, sizeof(folder), "%s/%s", ground, inside[i]);
		struct kh_config *config = config_in(folder, yaml);
		bool refused = false;
		for (size_t j = 0; j < config->n_named; j++)
			refused = refused || (strcmp(config->named[j].option, option) == 0 &&
					      !kh_writable_check(config->named[j].path, NULL));
		if (!refused || kh_config_check_named(config, &err))
			fail_msg("%s may name what an agent can change, in %s", option, inside[i]);
		kh_config_free(config);
	}
	char safe[128];
	(void)snprintf(safe, sizeof(safe), "%s/safe", ground);
	struct kh_config *config = config_in(safe, yaml);
	assert_true(kh_config_check_named(config, NULL));
	kh_config_free(config);
}

static void make_ground(void)
{
	char path[3][128];
	assert_non_null(mkdtemp(ground));
	(void)snprintf(path[0], sizeof(path[0]), "%s/work", ground);
	(void)snprintf(path[1], sizeof(path[1]), "%s/safe", ground);
	assert_int_equal(mkdir(path[0], 0700), 0);
	assert_int_equal(mkdir(path[1], 0700), 0);
	assert_true(kh_writable_add(path[0], "the workspace", KH_WRITABLE_FOR_ALL));
	(void)snprintf(path[2], sizeof(path[2]), "%s/work/away", ground);
	assert_int_equal(symlink(path[1], path[2]), 0);
	(void)snprintf(path[2], sizeof(path[2]), "%s/safe/to", ground);
	assert_int_equal(symlink(path[0], path[2]), 0);
}

static void remove_ground(void)
{
	static const char *const names[] = { "work/away", "safe/to", "work", "safe", "" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[128];
		(void)snprintf(path, sizeof(path), "%s/%s", ground, names[i]);
		assert_int_equal(remove(path), 0);
	}
}

static void each_path_of_this_host_is_known(void **state)
{
	(void)state;
	make_ground();
	size_t tried = 0;
	for (size_t i = 0; i < kh_options.count; i++) {
		const struct kh_option *option = &kh_options.rows[i];
		struct kh_buf text, name;
		bool whole = option->type == KH_OPTION_SECTION || option->items;
		/* What a section takes, its rows say; that of a client's secret is below. */
		if (!(option->flags & KH_IN_FILE) || whole || !names_path(option) ||
		    strcmp(option->path, "credentials.*.oauth2.client_secret") == 0)
			continue;
		kh_buf_init(&text, 65536);
		kh_buf_init(&name, 256);
		put_file(&text, option);
		put_name(&name, option->path);
		assert_named(kh_buf_cstr(&text), kh_buf_cstr(&name), NULL);
		/* What a command reads a variable for is its own: see below. */
		if (!kh_slice_has_suffix(kh_slice_str(option->path), KH_SLICE(".environment")))
			assert_refused(kh_buf_cstr(&text), kh_buf_cstr(&name));
		kh_buf_fini(&name);
		kh_buf_fini(&text);
		tried++;
	}
	assert_true(tried >= 13);
	remove_ground();
}

#define CREDENTIAL "version: 1\ncredentials: { c: { hosts: [ a.example ], bearer: true, value: "
static void a_path_in_a_command_or_of_a_tenant_is_known(void **state)
{
	(void)state;
	static const char command[] = CREDENTIAL
		"{ exec: [ bin/get, \"--key=/a b/key\", \"-I/i:/j\", e/f, \"-Ig\", \"--f=h/i\", "
		"\". ~/k; . ${HOME}/l\" ], environment: [ "
		"PATH=/bin:/home/bin, LIB=/k ] } } }\n";
	static const char *const words[] = {
		"/work space/bin/get", "/a b/key",   "/i", "/j", "/e/f", "/g", "/h/i",
		"/homes/me/k",	       "/homes/me/l"
	};
	static const char *const variables[] = { "/bin", "/home/bin", "/k" };
	assert_int_equal(setenv("HOME", "/homes/me", 1), 0);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_named(command, "credentials.c.value.exec", words[i]);
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		assert_named(command, "credentials.c.value.environment", variables[i]);
	assert_named(CREDENTIAL "{ tenants: { t: { file: of_t } } } } }\n"
				"tenants: { t: { rules: [] } }\n",
		     "credentials.c.value.file", "/work space/of_t");
	assert_named(CREDENTIAL "{ env: SOME }, oauth2: { grant: refresh_token, state: s, "
				"token_url: \"https://a.example/t\", client_id: me, "
				"client_secret: { file: secret } } } }\n",
		     "credentials.c.oauth2.client_secret", "/work space/secret");
}

/* A word of 4 KiB can have a thousand paths: in a file that an agent wrote and a person checks,
 * they would fill the memory. */
static void more_paths_than_the_bound_are_an_error(void **state)
{
	enum { CREDENTIALS = 20, WORDS = 60, PATHS = 1300 };
	struct kh_diagnostics diags = { 0 };
	struct kh_buf text;
	bool said = false;

	(void)state;
	kh_buf_init(&text, 8 * 1024 * 1024);
	bool ok = kh_buf_append_str(&text, "version: 1\ncredentials:\n");
	for (int i = 0; i < CREDENTIALS; i++) {
		ok = ok && kh_buf_printf(&text,
					 "  k%d: { hosts: [ a.example ], bearer: true, "
					 "value: { exec: [ x",
					 i);
		for (int j = 0; j < WORDS; j++) {
			ok = ok && kh_buf_append_str(&text, ", \"");
			for (int k = 0; k < PATHS; k++)
				ok = ok && kh_buf_append_str(&text, "/a ");
			ok = ok && kh_buf_append_str(&text, "\"");
		}
		ok = ok && kh_buf_append_str(&text, " ] } }\n");
	}
	assert_true(ok);
	struct kh_config *config =
		kh_config_parse("test", kh_buf_view(&text), NULL, "/work", &diags);
	for (size_t i = 0; i < diags.count; i++)
		said = said || strstr(diags.list[i].text, "too many paths");
	assert_null(config);
	assert_true(said);
	kh_diagnostics_fini(&diags);
	kh_buf_fini(&text);
}

/* A number, a word or a text that the worker does not get is as good as not written. */
static void what_is_no_path_is_carried(void **state)
{
	(void)state;
	for (size_t i = 0; i < kh_options.count; i++) {
		const struct kh_option *option = &kh_options.rows[i];
		bool plain = option->type >= KH_OPTION_TEXT && option->type <= KH_OPTION_CHOICE &&
			     option->type != KH_OPTION_PATH;
		/* The port is in the listener's name, by which the worker knows it. */
		if (plain && option->flags & KH_IN_FILE && !option->carry &&
		    strcmp(option->path, "listen[].vsock") != 0)
			fail_msg("%s says not how it goes to the worker", option->path);
	}
}

/* Where the path of the item ends. */
static size_t item_of(const char *path)
{
	size_t end = 0;
	for (size_t i = 0; path[i]; i++)
		if (path[i] == ']' || path[i] == '*')
			end = i + 1;
	return end;
}

static void no_two_rows_have_one_member(void **state)
{
	(void)state;
	for (size_t i = 0; i < kh_options.count; i++)
		for (size_t j = 0; j < i; j++) {
			const struct kh_option *a = &kh_options.rows[i], *b = &kh_options.rows[j];
			size_t item = item_of(a->path);
			if (a->carry == kh_carry_value && b->carry == kh_carry_value &&
			    item_of(b->path) == item && strncmp(a->path, b->path, item) == 0 &&
			    a->member == b->member)
				fail_msg("%s and %s have one member", a->path, b->path);
		}
}

/* What is written so is never taken. */
static void a_value_out_of_its_bounds_is_not_taken(void **state)
{
	(void)state;
	size_t tried = 0;
	for (size_t i = 0; i < kh_options.count; i++) {
		const struct kh_option *option = &kh_options.rows[i];
		struct kh_config *config = config_of("version: 1\ntenants: { t: { rules: [] } }\n");
		bool count = option->type == KH_OPTION_COUNT || option->type == KH_OPTION_DURATION;
		if (option->carry == kh_carry_value && count && !strchr(option->path, '[') &&
		    option->most < UINT32_MAX) {
			*(uint32_t *)(void *)((char *)config + option->member) =
				(uint32_t)option->most + 1;
			struct kh_buf bytes = bytes_by(&kh_options, config);
			assert_null(kh_config_decode(kh_buf_view(&bytes), NULL));
			kh_buf_fini(&bytes);
			tried++;
		}
		kh_config_free(config);
	}
	assert_true(tried > 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_is_all_that_an_option_needs),
		cmocka_unit_test(no_row_of_a_path_or_of_a_source_is_carried),
		cmocka_unit_test(each_path_of_this_host_is_known),
		cmocka_unit_test(a_path_in_a_command_or_of_a_tenant_is_known),
		cmocka_unit_test(more_paths_than_the_bound_are_an_error),
		cmocka_unit_test(what_is_no_path_is_carried),
		cmocka_unit_test(no_two_rows_have_one_member),
		cmocka_unit_test(a_value_out_of_its_bounds_is_not_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
