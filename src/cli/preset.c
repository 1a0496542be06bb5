/* preset.c - `keyhole preset`: which presets there are, and what is in one */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/config/agent_profile.h>
#include <keyhole/config/config.h>

#include "cli_internal.h"

static const char usage[] =
	"usage: keyhole preset COMMAND [OPTION…] [NAME…]\n"
	"Presets are files of rules and credentials, which `keyhole run` and a configuration use\n"
	"by name. They are in the folder $KEYHOLE_PRESETS, or in keyhole's own.\n\n"
	"  ls           list the presets: what each allows, its parameters with their defaults,\n"
	"               and the variables that give its keys\n"
	"  show         print the file of a preset, or of an agent's profile\n\n"
	"      --json   ls: print JSON\n"
	"  -h, --help   show this\n\n"
	"Exit status: 0 success, 1 failure, 2 wrong usage. The manual: keyhole-preset(1).\n";

static void complain_of(const struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < diags->count; i++)
		kh_cli_complain("preset: %s", diags->list[i].text ? diags->list[i].text : "");
}

/* What was wrong has been said. */
static bool read_about(const char *name, struct kh_preset_about *out)
{
	struct kh_diagnostics diags = { 0 };
	bool ok = kh_preset_about(name, NULL, out, &diags);
	complain_of(&diags);
	kh_diagnostics_fini(&diags);
	return ok;
}

/* ---- ls ---- */

static void print_about(const struct kh_preset_about *about, size_t width)
{
	printf("%-*s  %s\n", (int)width, about->name, kh_esc_str(about->description));
	for (size_t i = 0; i < about->n_parameters; i++) {
		const struct kh_preset_parameter *p = &about->parameters[i];
		printf("%*s  %s=%s", (int)width, "", p->name,
		       p->fallback ? kh_esc_str(p->fallback) : "VALUE (must be set)");
		printf(": %s\n", kh_esc_str(p->doc));
	}
	if (about->n_variables > 0)
		printf("%*s  keys from:", (int)width, "");
	for (size_t i = 0; i < about->n_variables; i++)
		printf("%s %s", i ? "," : "", kh_esc_str(about->variables[i]));
	if (about->n_variables > 0)
		putchar('\n');
}

static json_t *json_of(const struct kh_preset_about *about)
{
	json_t *parameters = json_array(), *variables = json_array();
	for (size_t i = 0; i < about->n_parameters; i++) {
		const struct kh_preset_parameter *p = &about->parameters[i];
		(void)json_array_append_new(
			parameters, json_pack("{s:s, s:s, s:s?, s:s}", "name", p->name, "type",
					      p->type, "default", p->fallback, "doc", p->doc));
	}
	for (size_t i = 0; i < about->n_variables; i++)
		(void)json_array_append_new(variables, json_string(about->variables[i]));
	return json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", about->name, "description",
			 about->description, "file", about->path, "parameters", parameters,
			 "variables", variables);
}

static bool list_one(const char *name, size_t width, json_t *all)
{
	struct kh_preset_about about;
	if (!read_about(name, &about))
		return false;
	if (all)
		(void)json_array_append_new(all, json_of(&about));
	else
		print_about(&about, width);
	kh_preset_about_fini(&about);
	return true;
}

static int list(bool as_json)
{
	size_t n = 0, width = 0;
	char **names = kh_preset_names(NULL, &n);
	json_t *all = as_json ? json_array() : NULL;
	bool ok = n > 0;
	if (n == 0)
		kh_cli_complain("preset: there are no presets in %s", kh_esc_str(kh_preset_dir()));
	for (size_t i = 0; i < n; i++)
		width = strlen(names[i]) > width ? strlen(names[i]) : width;
	for (size_t i = 0; i < n; i++) {
		ok = list_one(names[i], width, all) && ok;
		free(names[i]);
	}
	free(names);
	if (all && n > 0) {
		(void)json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(all);
	return fflush(stdout) == 0 && ok ? 0 : KH_EXIT_FAILED;
}

/* ---- show ---- */

static bool print_file(const char *path)
{
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	kh_buf_init(&text, KH_LIMIT_CONFIG_BYTES);
	bool ok = kh_file_read(path, &text, &err);
	struct kh_slice all = kh_buf_view(&text);
	if (!ok)
		kh_cli_complain_err(&err);
	else
		ok = fwrite(all.ptr, 1, all.len, stdout) == all.len;
	return ok;
}

static bool has_name(char **names, size_t n, const char *name)
{
	bool found = false;
	for (size_t i = 0; i < n; i++) {
		found = found || strcmp(names[i], name) == 0;
		free(names[i]);
	}
	free(names);
	return found;
}

/* The profile of an agent, where no preset has that name. Return: the path of its file, or NULL. */
static char *find_profile(const char *name)
{
	size_t n = 0, n_presets = 0;
	char **names = kh_agent_profile_names(&n);
	bool is_profile = has_name(names, n, name);
	char **presets = is_profile ? kh_preset_names(NULL, &n_presets) : NULL;
	return is_profile && !has_name(presets, n_presets, name)
		       ? kh_strf("%s/agents/%s.yaml", kh_preset_dir(), name)
		       : NULL;
}

static bool show_one(const char *name)
{
	struct kh_preset_about about;
	kh_auto_free char *profile = find_profile(name);
	if (profile) {
		kh_cli_complain("preset show: %s is the profile of an agent and no preset: %s. "
				"`keyhole run %s` uses it; it names the presets that it takes",
				name, kh_esc_str(profile), name);
		return print_file(profile);
	}
	if (!read_about(name, &about))
		return false;
	bool ok = print_file(about.path);
	kh_preset_about_fini(&about);
	return ok;
}

static int show(char *const *names)
{
	bool ok = true;
	if (!*names) {
		kh_cli_complain("preset show: which? (`keyhole preset ls` lists them)");
		return KH_EXIT_USAGE;
	}
	for (; *names; names++)
		ok = show_one(*names) && ok;
	return fflush(stdout) == 0 && ok ? 0 : KH_EXIT_FAILED;
}

int kh_cli_preset(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char *const commands[] = { "ls", "show" };
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
	const char *command = optind < argc ? argv[optind] : "";
	char *const *names = argv + optind + (optind < argc);
	if (strcmp(command, "show") == 0)
		return show(names);
	if (strcmp(command, "ls") == 0 && !*names)
		return list(json);
	if (strcmp(command, "ls") == 0) {
		kh_cli_complain("preset ls: takes no argument, got %s", kh_esc_str(*names));
		return KH_EXIT_USAGE;
	}
	const char *near =
		kh_cli_nearest(command, commands, sizeof(commands) / sizeof(commands[0]));
	kh_cli_complain("preset%s%s%s%s%s: wants one of: ls, show", *command ? " " : "",
			kh_esc_str(command), near ? " (did you mean " : "", near ? near : "",
			near ? "?)" : "");
	return KH_EXIT_USAGE;
}
