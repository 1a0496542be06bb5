/*
 * doctor.c - `keyhole doctor`: what works on this host, and which command enables the rest
 *
 * It infers nothing from a file's existence or a version: each engine makes a sandbox and runs a
 * shell in it, each feature of the kernel is used, and a virtual machine is run.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ares.h>
#include <event2/event.h>
#include <jansson.h>
#include <libpsl.h>
#include <maxminddb.h>
#include <nghttp2/nghttp2.h>
#include <openssl/crypto.h>
#include <seccomp.h>
#include <yaml.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/sandbox/sandbox.h>

#include "cli_internal.h"
#include "doctor_internal.h"

enum { VARIABLES_MOST_BYTES = 1024 };

static const char usage[] =
	"usage: keyhole doctor [OPTION…]\n"
	"Tests what works on this host: engines, the kernel, libraries, presets that have a key.\n"
	"For what does not work, it shows the command that repairs it.\n\n"
	"      --json           print JSON\n"
	"  -h, --help           show this\n\n"
	"Exit status: 0 if an engine works, 1 if none does, 2 wrong usage.\n"
	"The manual: keyhole-doctor(1).\n";

void kh_doctor_add(struct kh_doctor_report *report, const char *group, const char *name,
		   enum kh_doctor_state state, const char *fmt, ...)
{
	struct kh_doctor_row *rows =
		reallocarray(report->rows, report->n + 1, sizeof(*report->rows));
	if (!rows) {
		report->failed = true;
		return;
	}
	report->rows = rows;
	struct kh_doctor_row *row = &rows[report->n++];
	*row = (struct kh_doctor_row){ .group = group, .name = strdup(name), .state = state };
	va_list args;
	va_start(args, fmt);
	if (vasprintf(&row->text, fmt, args) < 0)
		row->text = NULL;
	va_end(args);
	report->failed = report->failed || !row->name || !row->text;
}

static void report_fini(struct kh_doctor_report *report)
{
	for (size_t i = 0; i < report->n; i++) {
		free(report->rows[i].name);
		free(report->rows[i].text);
	}
	free(report->rows);
}

/* ---- what is looked at ---- */

/* Return: one works. */
static bool add_engines(struct kh_doctor_report *report)
{
	bool any = false;
	const char *name;
	for (size_t i = 0; (name = kh_sandbox_engine(i)); i++) {
		struct kh_err err = KH_ERR_INIT;
		bool works = kh_sandbox_try(name, &err);
		any = any || works;
		kh_doctor_add(report, "engine", name, works ? KH_DOCTOR_OK : KH_DOCTOR_NO, "%s",
			      works ? "a sandbox was made, and a shell run in it" : err.text);
	}
	return any;
}

static void add_libraries(struct kh_doctor_report *report)
{
	const struct scmp_version *seccomp = seccomp_version();
	static const char group[] = "library";
	kh_doctor_add(report, group, "openssl", KH_DOCTOR_OK, "%s",
		      OpenSSL_version(OPENSSL_VERSION));
	kh_doctor_add(report, group, "libevent", KH_DOCTOR_OK, "%s", event_get_version());
	kh_doctor_add(report, group, "c-ares", KH_DOCTOR_OK, "%s", ares_version(NULL));
	kh_doctor_add(report, group, "nghttp2", KH_DOCTOR_OK, "%s",
		      nghttp2_version(0)->version_str);
	kh_doctor_add(report, group, "libyaml", KH_DOCTOR_OK, "%s", yaml_get_version_string());
	kh_doctor_add(report, group, "libseccomp", KH_DOCTOR_OK, "%u.%u.%u", seccomp->major,
		      seccomp->minor, seccomp->micro);
	kh_doctor_add(report, group, "libpsl", KH_DOCTOR_OK, "%s", psl_get_version());
	kh_doctor_add(report, group, "libmaxminddb", KH_DOCTOR_OK, "%s", MMDB_lib_version());
	kh_doctor_add(report, group, "jansson", KH_DOCTOR_OK, "%s", jansson_version_str());
}

/* A preset's credentials by the variables that they come from; never a value. Any one of them will
 * do. */
static void add_preset(struct kh_doctor_report *report, const char *name)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_from_presets(&name, 1, NULL, &diags);
	kh_diagnostics_fini(&diags);
	struct kh_buf wanted kh_cleanup(kh_buf_fini);
	kh_buf_init(&wanted, VARIABLES_MOST_BYTES);
	const char *there = NULL;
	for (size_t i = 0; config && i < config->n_credentials; i++) {
		const struct kh_source *source = config->credentials[i].sources;
		if (!source || source->kind != KH_SOURCE_ENV)
			continue;
		const char *value = getenv(source->name);
		if (value && *value && !there)
			there = source->name;
		(void)kh_buf_printf(&wanted, "%s%s", kh_buf_len(&wanted) ? " or " : "",
				    source->name);
	}
	if (there)
		kh_doctor_add(report, "preset", name, KH_DOCTOR_OK, "%s is set", there);
	else if (kh_buf_len(&wanted) > 0)
		kh_doctor_add(report, "preset", name, KH_DOCTOR_ABSENT,
			      "no key: export %s before `keyhole run --use %s`",
			      kh_buf_cstr(&wanted), name);
	kh_config_free(config);
}

static void add_presets(struct kh_doctor_report *report)
{
	size_t n = 0;
	char **names = kh_preset_names(NULL, &n);
	if (!names) {
		kh_doctor_add(report, "preset", "all", KH_DOCTOR_NO,
			      "%s: no presets there (is keyhole installed as a whole?)",
			      kh_preset_dir());
		return;
	}
	for (size_t i = 0; i < n; i++) {
		add_preset(report, names[i]);
		free(names[i]);
	}
	free(names);
}

/* ---- how it is told ---- */

static const char *const marks[] = { "ok", "-", "warn", "NO" };
static const char *const states[] = { "ok", "absent", "warning", "no" };

static void print_table(const struct kh_doctor_report *report)
{
	const char *group = "";
	for (size_t i = 0; i < report->n; i++) {
		const struct kh_doctor_row *row = &report->rows[i];
		if (strcmp(group, row->group) != 0)
			printf("%s%s\n", i ? "\n" : "", row->group);
		group = row->group;
		printf("  %-4s  %-16s  %s\n", marks[row->state], row->name, row->text);
	}
}

static void print_json(const struct kh_doctor_report *report, bool works)
{
	json_t *list = json_array();
	for (size_t i = 0; i < report->n; i++) {
		const struct kh_doctor_row *row = &report->rows[i];
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "group", row->group,
						      "name", row->name, "state",
						      states[row->state], "text", row->text));
	}
	json_t *all = json_pack("{s:s, s:b, s:o}", "version", KH_VERSION, "works", (int)works,
				"checks", list);
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
}

int kh_cli_doctor(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool json = false;
	for (int option; (option = kh_cli_option(argc, argv, "h", longs)) != -1;) {
		if (option == 'h') {
			fputs(usage, stdout);
			return ferror(stdout) ? KH_EXIT_FAILED : 0;
		}
		if (option != 'j')
			return KH_EXIT_USAGE;
		json = true;
	}
	if (optind < argc) {
		kh_cli_complain("doctor: takes no argument, got %s", kh_esc_str(argv[optind]));
		return KH_EXIT_USAGE;
	}
	if (!kh_cli_avoid_sandboxes())
		return KH_EXIT_FAILED;
	struct kh_doctor_report report kh_cleanup(report_fini) = { 0 };
	bool works = add_engines(&report);
	kh_doctor_host(&report);
	kh_doctor_kvm(&report);
	kh_doctor_image(&report);
	add_libraries(&report);
	add_presets(&report);
	if (report.failed) {
		kh_cli_complain("doctor: no memory");
		return KH_EXIT_FAILED;
	}
	if (json)
		print_json(&report, works);
	else
		print_table(&report);
	return works && fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}
