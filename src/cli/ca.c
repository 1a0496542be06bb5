/* ca.c - `keyhole ca`: makes, shows, exports and rotates the certificate authority */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "ca.h"
#include "cli_internal.h"

enum { P12_BYTES = 1024 * 1024, DAY_S = 24 * 3600, PASSWORD_LEAST = 6 };

static const char *const roles[KH_CA_ROLES] = { "signing", "next", "old" };

static int help(void)
{
	fputs("usage: keyhole ca COMMAND [-c FILE | --certificate FILE --key FILE] [OPTION…]\n"
	      "The certificate authority that sandboxes trust.\n\n"
	      "  init    make it; existing files are not overwritten\n"
	      "  show    its certificates, and the state of a rotation\n"
	      "  bundle  all certificates that a sandbox has to trust now, for trust stores\n"
	      "  rotate  the next step to a new CA: first it is trusted, then it signs\n\n"
	      "  -c, --config FILE       the configuration that names it (authority)\n"
	      "      --tenant NAME       with authority.per_tenant: this tenant's CA\n"
	      "      --certificate FILE  the CA's certificate, instead of a configuration\n"
	      "      --key FILE          the CA's key; bundle and show do not need it\n"
	      "      --json              show: as JSON\n"
	      "      --format FORMAT     bundle: pem (the default), der or pkcs12\n"
	      "      --which ROLE        bundle: only this one: signing, next or old\n"
	      "      --password WORD     bundle: for pkcs12; the default is changeit\n"
	      "  -o, --output FILE       bundle: write to this file, not to standard output\n"
	      "      --now               rotate: at once; the old CA is no longer trusted\n"
	      "      --drop              rotate: no longer trust the old CA, whatever its age\n"
	      "  -h, --help              show this\n\n"
	      "Exit status: 0 success, 1 failure, 2 wrong usage. The manual: keyhole-ca(1).\n",
	      stdout);
	return ferror(stdout) ? KH_EXIT_FAILED : 0;
}

/* ---- where it is ---- */

/* "" where it is the right one; else what is wrong. */
static const char *check_tenant(const struct ca_options *o, const struct kh_config *config)
{
	if (!config->ca_per_tenant)
		return o->tenant ? "one CA signs for all tenants there (authority.per_tenant)" : "";
	if (!o->tenant)
		return "each tenant has a CA of its own there: say which (--tenant NAME)";
	return kh_config_tenant(config, o->tenant) < 0 ? "no such tenant there" : "";
}

static void name_files(struct ca_options *o, const struct kh_config *config)
{
	if (o->tenant) {
		o->certificate_path = kh_ca_tenant_path(config->ca_key_path, o->tenant, "pem");
		o->key_path = kh_ca_tenant_path(config->ca_key_path, o->tenant, "key");
	} else {
		o->certificate_path = strdup(config->ca_certificate_path);
		o->key_path = strdup(config->ca_key_path);
	}
}

static bool from_config(struct ca_options *o)
{
	struct kh_diagnostics diags = { .count = 0 };
	struct kh_config *config = kh_config_load(o->config, NULL, &diags);
	kh_diagnostics_print(&diags, config, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	if (!config)
		return false;
	const char *wrong = check_tenant(o, config);
	if (!config->ca_certificate_path) {
		kh_cli_complain("ca: %s: has no `authority`: its CA lives as long as the daemon "
				"(name a certificate and a key there)",
				kh_esc_str(o->config));
	} else if (wrong[0]) {
		kh_cli_complain("ca: %s%s%s: %s", kh_esc_str(o->config), o->tenant ? ": " : "",
				o->tenant ? kh_esc_str(o->tenant) : "", wrong);
	} else {
		name_files(o, config);
	}
	kh_config_free(config);
	return o->certificate_path && o->key_path;
}

static bool find(struct ca_options *o, bool needs_key)
{
	if (o->config && (o->certificate || o->key)) {
		kh_cli_complain("ca: -c names both files: take it, or --certificate and --key");
		return false;
	}
	if (o->tenant && !o->config) {
		kh_cli_complain("ca: --tenant goes with -c, which says where its CA is");
		return false;
	}
	if (o->config)
		return from_config(o);
	if (!o->certificate || (needs_key && !o->key)) {
		kh_cli_complain("ca: which one? -c FILE, or --certificate FILE%s",
				needs_key ? " and --key FILE" : "");
		return false;
	}
	o->certificate_path = strdup(o->certificate);
	o->key_path = o->key ? strdup(o->key) : NULL;
	return o->certificate_path != NULL;
}

int kh_cli_ca_failed(const struct kh_err *err)
{
	kh_cli_complain_err(err);
	return KH_EXIT_FAILED;
}

/* ---- init ---- */

static int init(const struct ca_options *o)
{
	struct kh_err err = KH_ERR_INIT;
	if (access(o->certificate_path, F_OK) == 0 || access(o->key_path, F_OK) == 0) {
		kh_cli_complain("ca: %s is there already (`keyhole ca rotate` changes it)",
				kh_esc_str(access(o->certificate_path, F_OK) == 0
						   ? o->certificate_path
						   : o->key_path));
		return KH_EXIT_FAILED;
	}
	struct kh_ca *ca = kh_ca_open(o->certificate_path, o->key_path, &err);
	if (!ca)
		return kh_cli_ca_failed(&err);
	kh_ca_free(ca);
	struct kh_ca_trust trust;
	bool ok = kh_ca_trust_read(&trust, o->certificate_path, &err);
	if (ok)
		printf("%s: %s, its key in %s\n", o->certificate_path,
		       trust.facts[KH_CA_SIGNS].name, o->key_path);
	kh_ca_trust_fini(&trust);
	return ok ? 0 : kh_cli_ca_failed(&err);
}

/* ---- show ---- */

const char *kh_cli_ca_day(int64_t seconds, char out[32])
{
	time_t when = (time_t)seconds;
	struct tm tm;
	if (!gmtime_r(&when, &tm) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		out[0] = '\0';
	return out;
}

static void show_text(const struct kh_ca_trust *trust)
{
	char from[32], until[32];
	for (int i = 0; i < KH_CA_ROLES; i++) {
		const struct kh_ca_facts *facts = &trust->facts[i];
		if (!facts->there)
			continue;
		printf("%s: %s\n  SHA-256 %s\n  valid %s to %s%s\n", roles[i],
		       kh_esc_str(facts->name), facts->sha256,
		       kh_cli_ca_day(facts->not_before, from),
		       kh_cli_ca_day(facts->not_after, until), facts->trusted ? "" : " (expired)");
	}
	if (trust->facts[KH_CA_NEXT].there)
		puts("A change has begun: sandboxes that start from the daemon's next reload on "
		     "trust both. When none\nis left from before, `keyhole ca rotate` has the next "
		     "one sign.");
	if (trust->facts[KH_CA_OLD].there)
		printf("A change is done: the old one stays trusted until `keyhole ca rotate` "
		       "takes "
		       "it out, %s\nat the earliest, when its last leaf has expired.\n",
		       kh_cli_ca_day(trust->old_until, until));
}

static int show_json(const struct kh_ca_trust *trust)
{
	char text[32];
	json_t *out = json_object();
	for (int i = 0; i < KH_CA_ROLES; i++) {
		const struct kh_ca_facts *facts = &trust->facts[i];
		if (!facts->there)
			continue;
		json_t *one = json_object();
		(void)json_object_set_new(one, "name", json_string(facts->name));
		(void)json_object_set_new(one, "sha256", json_string(facts->sha256));
		(void)json_object_set_new(one, "not_before",
					  json_string(kh_cli_ca_day(facts->not_before, text)));
		(void)json_object_set_new(one, "not_after",
					  json_string(kh_cli_ca_day(facts->not_after, text)));
		(void)json_object_set_new(one, "trusted", json_boolean(facts->trusted));
		(void)json_object_set_new(out, roles[i], one);
	}
	if (trust->facts[KH_CA_OLD].there)
		(void)json_object_set_new(out, "old_until",
					  json_string(kh_cli_ca_day(trust->old_until, text)));
	int rc = json_dumpf(out, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(out);
	return rc == 0 && !ferror(stdout) ? 0 : KH_EXIT_FAILED;
}

static int show(const struct ca_options *o)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca_trust trust;
	int status = 0;
	if (!kh_ca_trust_read(&trust, o->certificate_path, &err))
		status = kh_cli_ca_failed(&err);
	else if (o->json)
		status = show_json(&trust);
	else
		show_text(&trust);
	kh_ca_trust_fini(&trust);
	return status;
}

/* ---- bundle ---- */

/* One certificate in PEM. */
static struct kh_slice pem_of(struct kh_slice pem, size_t nth)
{
	static const char begin[] = "-----BEGIN";
	size_t from = 0, seen = 0;
	for (size_t i = 1; i + sizeof(begin) <= pem.len; i++) {
		if (memcmp(pem.ptr + i, begin, sizeof(begin) - 1) != 0)
			continue;
		if (seen++ == nth)
			return kh_slice_sub(pem, from, i);
		from = i;
	}
	return kh_slice_sub(pem, from, pem.len);
}

/* Elements of DER say their length (X.690 §8.1.3): a certificate has two bytes of it. */
static struct kh_slice der_of(struct kh_slice der, size_t nth)
{
	size_t at = 0;
	for (;; nth--) {
		const unsigned char *p = (const unsigned char *)der.ptr + at;
		size_t len = der.len - at > 4 && p[1] == 0x82 ? (size_t)(p[2] << 8 | p[3]) + 4
							      : der.len - at;
		if (nth == 0 || at + len >= der.len)
			return kh_slice_sub(der, at, at + len);
		at += len;
	}
}

/* Its place among those that are trusted; -1: it is not one of them. */
static int place_of(const struct kh_ca_trust *trust, const char *which)
{
	int place = 0;
	for (int i = 0; i < KH_CA_ROLES; i++) {
		if (strcmp(roles[i], which) == 0)
			return trust->facts[i].there && trust->facts[i].trusted ? place : -1;
		place += trust->facts[i].there && trust->facts[i].trusted;
	}
	return -1;
}

static int put_out(const struct ca_options *o, struct kh_slice content, bool binary)
{
	struct kh_err err = KH_ERR_INIT;
	if (o->output)
		return kh_file_write(o->output, content, 0644, &err) ? 0 : kh_cli_ca_failed(&err);
	if (binary && isatty(STDOUT_FILENO)) {
		kh_cli_complain("ca: bundle: this is nothing for a terminal (-o FILE)");
		return KH_EXIT_USAGE;
	}
	return fwrite(content.ptr, 1, content.len, stdout) == content.len && fflush(stdout) == 0
		       ? 0
		       : KH_EXIT_FAILED;
}

static int bundle_of(const struct ca_options *o, const struct kh_ca_trust *trust)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_slice pem = kh_buf_view(&trust->pem), der = kh_buf_view(&trust->der);
	const char *format = o->format ? o->format : "pem";
	int place = o->which ? place_of(trust, o->which) : 0;
	if (place < 0 || trust->count == 0) {
		kh_cli_complain("ca: bundle: there is no %s certificate to be trusted",
				o->which ? o->which : "valid");
		return KH_EXIT_FAILED;
	}
	if (o->which) {
		pem = pem_of(pem, (size_t)place);
		der = der_of(der, (size_t)place);
	}
	if (strcmp(format, "pem") == 0)
		return put_out(o, pem, false);
	if (strcmp(format, "der") == 0 && !o->which && trust->count > 1) {
		kh_cli_complain("ca: bundle: DER holds one certificate, and %zu are to be trusted "
				"now (pem and pkcs12 hold all; --which signing, next or old takes "
				"one)",
				trust->count);
		return KH_EXIT_FAILED;
	}
	if (strcmp(format, "der") == 0)
		return put_out(o, der, true);
	kh_cleanup(kh_buf_fini) struct kh_buf store;
	kh_buf_init(&store, P12_BYTES);
	if (!kh_ca_pkcs12_with(der, o->password ? o->password : "changeit", &store, &err))
		return kh_cli_ca_failed(&err);
	return put_out(o, kh_buf_view(&store), true);
}

static bool is_one_of(const char *word, const char *const *list, size_t n, const char *option)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, list[i]) == 0)
			return true;
	const char *near = kh_cli_nearest(word, list, n);
	char all[128] = "";
	for (size_t i = 0, at = 0; i < n && at < sizeof(all); i++)
		at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", list[i]);
	kh_cli_complain("ca: bundle: %s %s: not known%s%s%s (there is: %s)", option,
			kh_esc_str(word), near ? " (did you mean " : "", near ? near : "",
			near ? "?)" : "", all);
	return false;
}

static int bundle(const struct ca_options *o)
{
	static const char *const formats[] = { "pem", "der", "pkcs12" };
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca_trust trust;
	if ((o->format && !is_one_of(o->format, formats, 3, "--format")) ||
	    (o->which && !is_one_of(o->which, roles, KH_CA_ROLES, "--which")))
		return KH_EXIT_USAGE;
	if (o->password && strlen(o->password) < PASSWORD_LEAST) {
		kh_cli_complain("ca: bundle: --password: Java takes none under %d characters",
				PASSWORD_LEAST);
		return KH_EXIT_USAGE;
	}
	int status = kh_ca_trust_read(&trust, o->certificate_path, &err) ? bundle_of(o, &trust)
									 : kh_cli_ca_failed(&err);
	kh_ca_trust_fini(&trust);
	return status;
}

/* ---- the whole ---- */

/* Where an option that takes a text has it; NULL: it takes none. */
static const char **text_of(struct ca_options *o, int option)
{
	switch (option) {
	case 'c':
		return &o->config;
	case 't':
		return &o->tenant;
	case 'C':
		return &o->certificate;
	case 'K':
		return &o->key;
	case 'f':
		return &o->format;
	case 'w':
		return &o->which;
	case 'p':
		return &o->password;
	case 'o':
		return &o->output;
	default:
		return NULL;
	}
}

static bool parse(struct ca_options *o, int argc, char **argv, bool *helped)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "tenant", required_argument, NULL, 't' },
		{ "certificate", required_argument, NULL, 'C' },
		{ "key", required_argument, NULL, 'K' },
		{ "json", no_argument, NULL, 'j' },
		{ "format", required_argument, NULL, 'f' },
		{ "which", required_argument, NULL, 'w' },
		{ "password", required_argument, NULL, 'p' },
		{ "output", required_argument, NULL, 'o' },
		{ "now", no_argument, NULL, 'n' },
		{ "drop", no_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;
	while ((option = kh_cli_option(argc, argv, "c:o:h", options)) != -1) {
		const char **slot = text_of(o, option);
		if (slot)
			*slot = optarg;
		else if (option == 'j')
			o->json = true;
		else if (option == 'n')
			o->now = true;
		else if (option == 'd')
			o->drop = true;
		else if (option == 'h')
			*helped = true;
		else
			return false;
	}
	return true;
}

static const struct command {
	const char *name;
	int (*run)(const struct ca_options *o);
	bool needs_key;
} commands[] = {
	{ "init", init, true },
	{ "show", show, false },
	{ "bundle", bundle, false },
	{ "rotate", kh_cli_ca_rotate, true },
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

int kh_cli_ca(int argc, char **argv)
{
	struct ca_options o = { .config = NULL };
	bool helped = false;
	if (!parse(&o, argc, argv, &helped))
		return KH_EXIT_USAGE;
	if (helped)
		return help();
	const char *name = optind < argc ? argv[optind] : NULL;
	const struct command *command = NULL;
	const char *names[N_COMMANDS];
	for (size_t i = 0; i < N_COMMANDS; i++) {
		names[i] = commands[i].name;
		if (name && strcmp(name, names[i]) == 0)
			command = &commands[i];
	}
	if (!command || optind + 1 < argc) {
		const char *near =
			name && !command ? kh_cli_nearest(name, names, N_COMMANDS) : NULL;
		if (near)
			kh_cli_complain("ca: %s: no such command (did you mean `keyhole ca %s`?)",
					kh_esc_str(name), near);
		else
			kh_cli_complain("ca: expected one of init, show, bundle, rotate");
		return KH_EXIT_USAGE;
	}
	int status = find(&o, command->needs_key)	    ? command->run(&o)
		     : o.config && !o.certificate && !o.key ? KH_EXIT_FAILED
							    : KH_EXIT_USAGE;
	free(o.certificate_path);
	free(o.key_path);
	return status;
}
