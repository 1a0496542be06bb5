/* check.c - `keyhole check`: prints all errors and warnings about a configuration */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/net/geo.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/lockin/lockin.h>
#include <keyhole/tls/ca.h>
#include <keyhole/base/limits.h>
#include <keyhole/policy/policy.h>

#include "check_cases.h"
#include "check_notes.h"
#include "check_client_certs.h"
#include "check_values.h"
#include "cli_internal.h"

static const char usage[] =
	"usage: keyhole check [-c FILE] [--json]\n"
	"       keyhole check --presets [--json]\n"
	"       keyhole check --schema\n"
	"Reads a configuration and shows every error and warning in it as file:line:column.\n\n"
	"  -c, --config FILE  the configuration; the default is keyhole.yaml in this folder\n"
	"      --json         print the result as one JSON object\n"
	"      --presets      check every preset against its own test cases instead\n"
	"      --schema       print a JSON Schema of keyhole.yaml, for editors\n"
	"  -h, --help         show this\n\n"
	"Exit status: 0 no errors, 1 errors, 2 wrong usage. The manual: keyhole-check(1).\n";

static size_t count_rules(const struct kh_config *config)
{
	size_t n = config->site.count;
	for (size_t i = 0; i < config->n_tenants; i++)
		n += config->tenants[i].rules.count;
	for (size_t i = 0; i < config->n_listeners; i++)
		n += config->listeners[i].narrow.count;
	return n;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static void print_summary(const char *path, const struct kh_config *config,
			  const struct kh_diagnostics *diags)
{
	size_t rules = count_rules(config), warnings = diags->count;
	printf("%s: ok: %zu tenant%s, %zu rule%s, %zu credential%s, %zu listener%s, %zu "
	       "warning%s\n",
	       kh_esc_str(path), config->n_tenants, plural(config->n_tenants), rules, plural(rules),
	       config->n_credentials, plural(config->n_credentials), config->n_listeners,
	       plural(config->n_listeners), warnings, plural(warnings));
}

static bool put_diagnostic(struct kh_buf *out, const struct kh_diagnostics *diags, size_t index)
{
	const struct kh_diagnostic *one = &diags->list[index];
	const char *file = kh_diagnostics_file(diags, one->where.file);
	return kh_buf_append_str(out, index ? "," : "") &&
	       kh_buf_append_str(out, "{\"severity\":") &&
	       kh_buf_append_str(out, one->warning ? "\"warning\"" : "\"error\"") &&
	       kh_buf_append_str(out, ",\"file\":") && kh_json_string(out, kh_slice_str(file)) &&
	       kh_buf_printf(out, ",\"line\":%u,\"column\":%u,\"text\":", one->where.line,
			     one->where.column) &&
	       kh_json_string(out, kh_slice_str(one->text ? one->text : "out of memory")) &&
	       kh_buf_append_char(out, '}');
}

/* The members of an object that was opened, and its end. */
static bool put_result(struct kh_buf *out, const struct kh_config *config,
		       const struct kh_diagnostics *diags)
{
	bool ok = kh_buf_printf(out, "\"ok\":%s,\"diagnostics\":[",
				config && diags->errors == 0 ? "true" : "false");
	for (size_t i = 0; ok && i < diags->count; i++)
		ok = put_diagnostic(out, diags, i);
	struct kh_buf notes;
	kh_buf_init(&notes, KH_LIMIT_CONFIG_BYTES);
	ok = ok && kh_buf_append_char(out, ']') &&
	     (!config || kh_check_notes_put(&notes, config, diags, true));
	if (ok && kh_buf_len(&notes) > 0)
		ok = kh_buf_append_str(out, ",\"notes\":[") &&
		     kh_buf_append_slice(out, kh_buf_view(&notes)) && kh_buf_append_char(out, ']');
	kh_buf_fini(&notes);
	return ok && kh_buf_append_char(out, '}');
}

static bool put_out(struct kh_buf *out)
{
	return fwrite(kh_buf_view(out).ptr, 1, kh_buf_len(out), stdout) == kh_buf_len(out) &&
	       fflush(stdout) == 0;
}

static bool print_json(const struct kh_config *config, const struct kh_diagnostics *diags)
{
	struct kh_buf out;
	kh_buf_init(&out, KH_LIMIT_CONFIG_BYTES);
	bool ok = kh_buf_append_char(&out, '{') && put_result(&out, config, diags) &&
		  kh_buf_append_char(&out, '\n') && put_out(&out);
	kh_buf_fini(&out);
	return ok;
}

static void check_cases(const struct kh_config *config, struct kh_diagnostics *diags)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_policy *policy = kh_policy_compile(config, &err);
	if (!policy)
		kh_diagnostics_add(diags, false, (struct kh_where){ 0 }, "%s", err.text);
	if (policy)
		kh_check_cases(config, policy, diags);
	if (policy)
		kh_policy_inspect(policy, diags);
	kh_policy_unref(policy);
}

static void check_database(const char *country, const char *asn, struct kh_where where,
			   struct kh_diagnostics *diags)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_geo *geo = kh_geo_load(country, asn, &err);
	if (!geo)
		kh_diagnostics_add(diags, false, where, "%s", err.text);
	kh_geo_unref(geo);
}

/* The file that the daemon is to write its records to. */
static void check_journal(const struct kh_config *config, struct kh_diagnostics *diags)
{
	struct kh_err err = KH_ERR_INIT;
	if (!config->audit_path)
		return;
	enum kh_journal_verdict verdict = kh_journal_look(config->audit_path, &err);
	if (verdict == KH_JOURNAL_OTHERS)
		kh_diagnostics_add(diags, true, (struct kh_where){ 0 },
				   "audit.file: %s; that is fine where the daemon runs as that "
				   "user, and a daemon of root's would not start",
				   err.text);
	else if (verdict == KH_JOURNAL_BAD)
		kh_diagnostics_add(diags, false, (struct kh_where){ 0 },
				   "audit.file: %s; the daemon would not start", err.text);
}

/* Files that the daemon reads at its start. What this user may not read may be the daemon's. */
static void check_start(const struct kh_config *config, struct kh_diagnostics *diags)
{
	const char *certificate = config->ca_certificate_path, *key = config->ca_key_path;
	struct kh_err err = KH_ERR_INIT;
	if (config->upstream_ca_file && !kh_roots_look(config->upstream_ca_file, &err) &&
	    err.sys != EACCES)
		kh_diagnostics_add(diags, false, (struct kh_where){ 0 },
				   "%s; the daemon would not start", err.text);
	err = (struct kh_err)KH_ERR_INIT;
	/* Neither is there before the first start, which makes both. */
	bool made = certificate && key && access(certificate, F_OK) == 0 && access(key, F_OK) == 0;
	struct kh_ca *ca = made ? kh_ca_load(certificate, key, &err) : NULL;
	kh_ca_free(ca);
	if (made && !ca && err.sys != EACCES)
		kh_diagnostics_add(diags, false, (struct kh_where){ 0 },
				   "authority: %s (certificate: %s; key: %s); the daemon would not "
				   "start",
				   err.text, kh_esc_str(certificate), kh_esc_str(key));
	err = (struct kh_err)KH_ERR_INIT;
	if (config->worker_user && !kh_lockin_user_look(config->worker_user, &err))
		kh_diagnostics_add(diags, false, (struct kh_where){ 0 },
				   "worker.user: %s; a daemon of root's would not start", err.text);
}

static void print_notes(const struct kh_config *config, const struct kh_diagnostics *diags)
{
	struct kh_buf out;
	kh_buf_init(&out, KH_LIMIT_CONFIG_BYTES);
	if (kh_check_notes_put(&out, config, diags, false))
		(void)put_out(&out);
	kh_buf_fini(&out);
}

static int check(const char *path, bool json)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_load(path, NULL, &diags);
	if (config) {
		check_cases(config, &diags);
		check_database(config->country_db.path, NULL, config->country_db.where, &diags);
		check_database(NULL, config->asn_db.path, config->asn_db.where, &diags);
		kh_check_client_certs(config, &diags);
		kh_check_values(config, false, &diags);
		check_journal(config, &diags);
		check_start(config, &diags);
		kh_config_inspect(config, &diags);
	}
	bool good = config != NULL && diags.errors == 0;
	if (json) {
		good = print_json(config, &diags) && good;
	} else {
		kh_diagnostics_print(&diags, config, STDERR_FILENO);
		if (good)
			print_summary(path, config, &diags);
		if (good)
			print_notes(config, &diags);
	}
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	return good ? EXIT_SUCCESS : KH_EXIT_FAILED;
}

/* One preset, by the cases that stand in it. */
static bool check_preset(const char *name, struct kh_buf *json)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_preset_cases(name, NULL, &diags);
	if (config)
		check_cases(config, &diags);
	bool good = config != NULL && diags.errors == 0;
	size_t n = config ? config->n_expectations : 0;
	if (json)
		good = kh_buf_append_str(json, kh_buf_len(json) > 1 ? "," : "") &&
		       kh_buf_printf(json, "{\"preset\":\"%s\",\"cases\":%zu,", name, n) &&
		       put_result(json, config, &diags) && good;
	else
		kh_diagnostics_print(&diags, config, STDERR_FILENO);
	if (!json && good)
		printf("%s: ok: %zu case%s\n", name, n, plural(n));
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
	return good;
}

static int check_presets(bool json)
{
	size_t n;
	char **names = kh_preset_names(NULL, &n);
	struct kh_buf out;
	kh_buf_init(&out, KH_LIMIT_CONFIG_BYTES);
	bool good = n > 0 && kh_buf_append_char(&out, '[');
	if (n == 0)
		kh_cli_complain("check: there is no preset in %s", kh_esc_str(kh_preset_dir()));
	for (size_t i = 0; i < n; i++) {
		good = check_preset(names[i], json ? &out : NULL) && good;
		free(names[i]);
	}
	if (json && n > 0)
		good = kh_buf_append_str(&out, "]\n") && put_out(&out) && good;
	free(names);
	kh_buf_fini(&out);
	return good ? EXIT_SUCCESS : KH_EXIT_FAILED;
}

static int print_schema(void)
{
	struct kh_buf out;
	kh_buf_init(&out, KH_LIMIT_CONFIG_BYTES);
	bool ok = kh_config_schema(&out) && put_out(&out);
	kh_buf_fini(&out);
	return ok ? EXIT_SUCCESS : KH_EXIT_FAILED;
}

int kh_cli_check(int argc, char **argv)
{
	enum { OPT_JSON = 256, OPT_SCHEMA, OPT_PRESETS };
	static const struct option options[] = { { "config", required_argument, NULL, 'c' },
						 { "json", no_argument, NULL, OPT_JSON },
						 { "schema", no_argument, NULL, OPT_SCHEMA },
						 { "presets", no_argument, NULL, OPT_PRESETS },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	const char *path = NULL;
	bool json = false, schema = false, presets = false;
	for (int opt; (opt = kh_cli_option(argc, argv, "c:h", options)) != -1;) {
		switch (opt) {
		case 'c':
			path = optarg;
			break;
		case OPT_JSON:
			json = true;
			break;
		case OPT_SCHEMA:
			schema = true;
			break;
		case OPT_PRESETS:
			presets = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return KH_EXIT_USAGE; /* it was said why */
		}
	}
	if (optind < argc) {
		kh_cli_complain("check: unexpected argument \"%s\" (the file is given with -c)",
				kh_esc_str(argv[optind]));
		return KH_EXIT_USAGE;
	}
	if (presets && (path || schema)) {
		kh_cli_complain("check: --presets checks the presets: give it neither -c nor "
				"--schema");
		return KH_EXIT_USAGE;
	}
	if (schema && (path || json)) {
		kh_cli_complain(
			"check: --schema is the same for every file: give it no other option");
		return KH_EXIT_USAGE;
	}
	if (schema)
		return print_schema();
	if (presets)
		return check_presets(json);
	path = path ? path : kh_cli_config_here();
	if (!path) {
		kh_cli_complain("check: no file is given, and there is no keyhole.yaml here (write "
				"keyhole check -c FILE)");
		return KH_EXIT_USAGE;
	}
	return check(path, json);
}
