/*
 * run_agent.c - the profile of the agent that is run
 *
 * Where the command is a known agent, its profile says what the options leave open, so that
 * `keyhole run claude` is enough. Everything that it does is in a file that people can read and
 * copy, and one line says which.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/nearest.h>
#include <keyhole/sandbox/workspace.h>

#include "run_internal.h"

/* ---- which one ---- */

static const char *base_of(const char *command)
{
	const char *slash = strrchr(command, '/');
	return slash ? slash + 1 : command;
}

static bool is_for(const struct kh_agent_profile *profile, const char *command)
{
	for (size_t i = 0; i < profile->commands.count; i++)
		if (strcmp(profile->commands.list[i], command) == 0)
			return true;
	return false;
}

/* Return: NULL where there is none, or it has errors, which are shown. */
static struct kh_agent_profile *load(const char *name, bool *wrong)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_agent_profile *profile = kh_agent_profile_load(name, &diags);
	kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	*wrong = *wrong || !profile;
	return profile;
}

static struct kh_agent_profile *find(const struct kh_run_options *o, bool *wrong)
{
	const char *command = o->command[0] ? base_of(o->command[0]) : NULL;
	struct kh_agent_profile *found = NULL;
	size_t n;
	char **names = kh_agent_profile_names(&n);
	bool known = false;
	for (size_t i = 0; i < n && !found; i++) {
		bool named = o->agent && strcmp(o->agent, names[i]) == 0;
		known = known || named;
		if (named || (!o->agent && command))
			found = load(names[i], wrong);
		if (found && !named && !is_for(found, command)) {
			kh_agent_profile_free(found);
			found = NULL;
		}
	}
	if (o->agent && !known) {
		const char *near = kh_cli_nearest(o->agent, (const char *const *)names, n);
		kh_cli_complain("--agent %s: no such profile%s%s%s (profiles are in %s/agents)",
				kh_esc_str(o->agent), near ? " (did you mean " : "",
				near ? near : "", near ? "?)" : "", kh_preset_dir());
		*wrong = true;
	}
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return found;
}

/* ---- what it says ---- */

static bool has_key(const struct kh_agent_preset *preset)
{
	for (size_t i = 0; i < preset->keys.count; i++) {
		const char *value = getenv(preset->keys.list[i]);
		if (value && *value)
			return true;
	}
	return preset->keys.count == 0;
}

/* By --use already, maybe with parameters. */
static bool is_used(const struct kh_run_options *o, const char *preset)
{
	size_t len = strcspn(preset, ":");
	for (size_t i = 0; i < o->n_presets; i++)
		if (strcspn(o->presets[i], ":") == len && strncmp(o->presets[i], preset, len) == 0)
			return true;
	return false;
}

/* The variables of its presets, each of which would do as a key. Return: how many bytes. */
static size_t put_keys(const struct kh_agent_profile *profile, char *out, size_t size)
{
	size_t used = 0;
	for (size_t i = 0; i < profile->n_presets; i++)
		for (size_t k = 0; k < profile->presets[i].keys.count && used < size; k++)
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
						 profile->presets[i].keys.list[k]);
	return used;
}

/* Is it the same but for its middle, or nearly the same: OPENAI_KEY, ANTHROPIC_APIKEY? */
static bool resembles(struct kh_slice name, const char *key)
{
	struct kh_slice wanted = kh_slice_str(key);
	size_t first = kh_slice_find(wanted, '_', 0) + 1, last = strcspn(key, "_");
	for (size_t i = first; i < wanted.len; i++)
		if (wanted.ptr[i] == '_')
			last = i;
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, name);
	kh_nearest_offer(&nearest, key);
	return (nearest.best && nearest.distance <= 2) ||
	       (kh_slice_has_prefix(name, kh_slice_sub(wanted, 0, first)) &&
		kh_slice_has_suffix(name, kh_slice_sub(wanted, last + 1, SIZE_MAX)));
}

/* What may have been meant for a key: a variable without a value, or of a name like one. */
static const char *missed(const struct kh_agent_profile *profile, char *out, size_t size)
{
	for (size_t i = 0; i < profile->n_presets; i++)
		for (size_t k = 0; k < profile->presets[i].keys.count; k++) {
			const char *key = profile->presets[i].keys.list[k];
			if (getenv(key)) {
				(void)snprintf(out, size, " (%s is set, but empty)", key);
				return out;
			}
			for (char *const *var = environ; *var; var++) {
				size_t len = strcspn(*var, "=");
				struct kh_slice name = { *var, len };
				if (!(*var)[len] || !(*var)[len + 1] || !resembles(name, key))
					continue;
				(void)snprintf(out, size, " (%s is set: is it meant for %s?)",
					       kh_esc(name), key);
				return out;
			}
		}
	return "";
}

/* Those for which there is a key, beside those of --use; with none, what would be one is said. */
static bool take_presets(struct kh_run_options *o)
{
	const struct kh_agent_profile *profile = o->profile;
	char wanted[512] = "";
	size_t used = put_keys(profile, wanted, sizeof(wanted)), taken = o->n_presets;
	for (size_t i = 0; i < profile->n_presets; i++) {
		const struct kh_agent_preset *preset = &profile->presets[i];
		if (!has_key(preset) || is_used(o, preset->use))
			continue;
		taken += preset->keys.count > 0;
		if (!kh_run_add_preset(o, preset->use))
			return false;
	}
	if (taken > 0 || used == 0)
		return true;
	char hint[KH_ERR_TEXT_BYTES];
	kh_cli_complain(
		"run: %s has no key: set one of %s, or say what it may reach with -c FILE or "
		"--use PRESET%s",
		profile->name, wanted, missed(profile, hint, sizeof(hint)));
	return false;
}

static bool take_variables(struct kh_run_options *o)
{
	const struct kh_agent_profile *profile = o->profile;
	bool ok = true;
	for (size_t i = profile->pass.count; ok && i > 0; i--) {
		const char *name = profile->pass.list[i - 1], *value = getenv(name);
		ok = !value || kh_run_add_variable(o, name, value);
	}
	for (size_t i = profile->n_variables; ok && i > 0; i--)
		ok = kh_run_add_variable(o, profile->variables[i - 1].name,
					 profile->variables[i - 1].value);
	if (!ok)
		kh_cli_complain("run: no memory");
	return ok;
}

static bool take_capture_range(struct kh_run_options *o)
{
	const char *range = o->profile->capture_range;
	return !range || o->capture_range.family || kh_run_set_capture_range(o, range);
}

/* The current folder, unless it is a home or above one: then there is none. */
static bool take_workspace(struct kh_run_options *o)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *here = getcwd(NULL, 0);
	kh_auto_free char *real = here ? realpath(here, NULL) : NULL;
	if (o->workspace || o->no_workspace || !real)
		return true;
	if (!kh_workspace_may_be(real, &err))
		return true;
	o->workspace_held = kh_file_hold_again(real, NULL, &err);
	if (o->workspace_held < 0) {
		kh_cli_complain("run: the current folder: %s", err.text);
		return false;
	}
	o->workspace = kh_steal_ptr(&real);
	return true;
}

static void warn_of_behind(const struct kh_run_options *o, const char *option)
{
	kh_cli_complain("run: warning: %s comes after the command, so %s gets it (write keyhole "
			"run %s … %s)",
			option, o->profile ? o->profile->name : kh_esc_str(o->command[0]), option,
			kh_esc_str(o->command[0]));
}

/* "npm:x=y,github": is the first of it a preset? */
static bool names_preset(const char *text)
{
	size_t n = 0, len = strcspn(text, ":,{");
	char **names = kh_preset_names(NULL, &n);
	bool named = false;
	for (size_t i = 0; names && i < n; i++) {
		named = named || (strlen(names[i]) == len && strncmp(text, names[i], len) == 0);
		free(names[i]);
	}
	free(names);
	return named;
}

/* The words that a run has said at its end, where another command may have taken them without a
 * word. They are read as ours only with a value that can be nobody else's. */
static void warn_of_words_behind(const struct kh_run_options *o)
{
	char *const *word = o->command;
	for (word += *word != NULL; word[0] && word[1] && strcmp(word[0], "--") != 0; word++)
		if (strcmp(word[0], "--use") == 0 && names_preset(word[1]))
			warn_of_behind(o, "--use");
		else if (strcmp(word[0], "--allow") == 0 && strstr(word[1], "://"))
			warn_of_behind(o, "--allow");
}

/* What comes after the agent's name is the agent's, who may take it without a word. */
static void warn_of_options_behind(const struct kh_run_options *o)
{
	static const char *const ours[] = { "--workspace", "--no-workspace", "--use",	 "--allow",
					    "--observe",   "--mask-env",     "--engine", "--ro" };
	for (char *const *word = o->command + 1; *o->command && *word; word++) {
		if (strcmp(*word, "--") == 0)
			return;
		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
			size_t len = strlen(ours[i]);
			if (strncmp(*word, ours[i], len) == 0 &&
			    (!(*word)[len] || (*word)[len] == '='))
				warn_of_behind(o, ours[i]);
		}
	}
}

/* `keyhole run claude -- -p …`: nothing of ours can stand behind the name, and the agent would take
 * what follows for a prompt. */
static void drop_separator(struct kh_run_options *o)
{
	if (!o->command[0] || !o->command[1] || strcmp(o->command[1], "--") != 0)
		return;
	o->command[1] = o->command[0];
	o->command++;
}

bool kh_run_agent_choose(struct kh_run_options *o)
{
	bool wrong = false;
	if (o->agent && strcmp(o->agent, "none") == 0)
		return kh_run_trust_find(o);
	o->profile = find(o, &wrong);
	if (wrong || (o->profile && !take_workspace(o)) || !kh_run_trust_find(o))
		return false;
	if (!o->profile) {
		warn_of_words_behind(o);
		return true;
	}
	if (!o->config_path && !take_presets(o))
		return false;
	warn_of_options_behind(o);
	drop_separator(o);
	return take_capture_range(o) && take_variables(o);
}

void kh_run_agent_say(const struct kh_run_options *o)
{
	if (!o->profile || o->quiet)
		return;
	char presets[256] = "";
	for (size_t i = 0, used = 0; i < o->n_presets && used < sizeof(presets); i++)
		used += (size_t)snprintf(presets + used, sizeof(presets) - used, "%s%s",
					 i ? ", " : "", kh_esc_str(o->presets[i]));
	const char *way = o->workspace	    ? ""
			  : o->no_workspace ? ""
					    : " (the current folder is a home, above one, or the "
					      "system's: go to a project, or name one with "
					      "--workspace DIR)";
	kh_cli_complain("run: %s; workspace %s%s; rules of %s%s%s; profile %s (--agent none: "
			"without it)",
			o->profile->description, o->workspace ? kh_esc_str(o->workspace) : "none",
			o->review		 ? " (review)"
			: o->workspace_read_only ? " (read-only)"
						 : way,
			presets, *presets && o->config_path ? ", " : "",
			o->config_path ? kh_esc_str(o->config_path) : "",
			kh_esc_str(o->profile->path));
}

/* ---- a file that has no rule for it ---- */

/* Does a credential stand for what the preset would inject: by its name, or by a variable of the
 * run's or the sandbox's? */
static bool serves(const struct kh_credential_config *credential,
		   const struct kh_agent_preset *preset)
{
	if (credential->preset &&
	    strncmp(credential->preset, preset->use, strcspn(preset->use, ":")) == 0)
		return true;
	for (size_t k = 0; k < preset->keys.count; k++)
		if (kh_source_is_variable(credential, preset->keys.list[k]) ||
		    (credential->env_name &&
		     strcmp(credential->env_name, preset->keys.list[k]) == 0))
			return true;
	return false;
}

static bool is_served(const struct kh_config *config, const struct kh_agent_profile *profile)
{
	for (size_t i = 0; i < profile->n_presets; i++)
		for (size_t c = 0; c < config->n_credentials; c++)
			if (profile->presets[i].keys.count == 0 ||
			    serves(&config->credentials[c], &profile->presets[i]))
				return true;
	return false;
}

/* With a credential of its own, or one that its client brings along. */
static bool has_another_way(const struct kh_config *config)
{
	for (size_t c = 0; c < config->n_credentials; c++)
		if (config->credentials[c].placement)
			return true;
	for (size_t t = 0; t < config->n_tenants; t++)
		for (size_t i = 0; i < config->tenants[t].rules.count; i++)
			if (config->tenants[t].rules.list[i].client_auth_pass)
				return true;
	return false;
}

void kh_run_agent_check(const struct kh_run_options *o, const struct kh_config *config)
{
	const struct kh_agent_profile *profile = o->profile;
	char wanted[512] = "";
	bool set = false;
	if (!profile || !o->config_path || o->quiet || is_served(config, profile))
		return;
	for (size_t i = 0; i < profile->n_presets; i++) {
		const struct kh_agent_preset *preset = &profile->presets[i];
		for (size_t k = 0; k < preset->keys.count; k++) {
			const char *value = getenv(preset->keys.list[k]);
			if (!value || !*value)
				continue;
			set = true;
			kh_cli_complain("run: %s is set, but no rule of %s uses it (--use %s, or "
					"\"- use: %s\" in the file)",
					preset->keys.list[k], kh_esc_str(base_of(o->config_path)),
					preset->use, preset->use);
		}
	}
	if (!set && !has_another_way(config) && put_keys(profile, wanted, sizeof(wanted)) > 0)
		kh_cli_complain("run: %s has no key: set one of %s, and let a rule of %s use it "
				"(--use PRESET, or \"- use: PRESET\" in the file)",
				profile->name, wanted, kh_esc_str(base_of(o->config_path)));
}
