/* run_config.c - makes the configuration of one run: its listener, its journal, the forbidden
 * paths */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/nearest.h>
#include <keyhole/base/secret.h>
#include <keyhole/base/writable.h>

#include "ctl_client.h"
#include "run_internal.h"

/* Whose the placeholders are that stay the same: the key is of the place already. */
#define RUN_NAME "run"
enum { DRAIN_MOST_MS = 2000 /* the sandbox is gone: nobody waits for an answer */ };

void kh_run_forbidden_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

/* NULL paths are skipped. */
static bool forbid(char ***list, const char *path)
{
	size_t n = 0;
	while (*list && (*list)[n])
		n++;
	if (!path)
		return true;
	char **more = reallocarray(*list, n + 2, sizeof(*more));
	if (!more)
		return false;
	*list = more;
	more[n] = path[0] == '/' ? strdup(path) : realpath(path, NULL);
	more[n + 1] = NULL;
	return more[n] != NULL;
}

static bool forbid_files_of(char ***list, const struct kh_credential_config *credential)
{
	const struct kh_source *source;
	bool ok = true;
	for (size_t i = 0; ok && (source = kh_source_of_credential(credential, i)); i++)
		ok = source->kind != KH_SOURCE_FILE || forbid(list, source->name);
	/* It may not be there yet, and nothing may be where it will be. */
	return ok && (!credential->mint || forbid(list, credential->mint->state_path));
}

/* The folder is keyhole's own. Where it is absent, an agent that may write to its place could make
 * it, and the next run would believe what is in there. */
static bool forbid_own(char ***list, const char *folder)
{
	bool counts = access(folder, F_OK) == 0 || kh_writable_is(folder, KH_WRITABLE_FOR_ALL);
	return !counts || forbid(list, folder);
}

/* The roots of other sandboxes, and what says which they are. */
static bool forbid_cache(char ***list)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *cache = kh_image_cache(&err);
	/* Without a home there is no folder that holds any. */
	if (!cache)
		return err.code == KH_ERR_USAGE;
	return forbid_own(list, cache);
}

/* What other agents did. */
static bool forbid_reviews(char ***list)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *reviews = kh_review_home(&err);
	/* Without a home there is no folder that holds any. */
	if (!reviews)
		return err.code == KH_ERR_USAGE;
	return forbid_own(list, reviews);
}

/* Where other runs and daemons of this user have their sockets, also those that come later: which
 * folder it is, another environment may decide. */
static bool forbid_sockets(char ***list)
{
	kh_auto_free char *own = kh_strf("/run/user/%u", (unsigned)geteuid());
	const char *folders[] = { own, "/run/keyhole" };
	bool ok = own;

	for (size_t i = 0; ok && i < sizeof(folders) / sizeof(folders[0]); i++)
		ok = access(folders[i], F_OK) != 0 || forbid(list, folders[i]);
	return ok;
}

/* Before the listeners of the file are put aside: a daemon may serve them right now. */
static bool forbid_all(char ***list, const struct kh_run_options *options,
		       const struct kh_config *config, const struct kh_run_folder *folder)
{
	/* One that is trusted is read-only. */
	bool ok = forbid(list, options->trusted ? NULL : options->config_path) &&
		  forbid(list, config->ca_key_path) && forbid(list, config->audit_path) &&
		  forbid(list, folder->socket_path) && forbid(list, folder->ask_path) &&
		  forbid_cache(list) && forbid_reviews(list) && forbid_sockets(list);
	if (ok && config->audit_path) {
		/* A daemon's, of what is used of limits. */
		kh_auto_free char *state = kh_strf("%s.limits", config->audit_path);
		ok = state && forbid(list, state);
	}
	if (ok && config->ca_per_tenant && config->ca_key_path) {
		kh_auto_free char *of_tenants = kh_strf("%s.tenants", config->ca_key_path);
		ok = of_tenants && forbid(list, of_tenants);
	}
	for (size_t i = 0; ok && i < config->n_listeners; i++)
		ok = !config->listeners[i].unix_path ||
		     forbid(list, config->listeners[i].unix_path);
	if (ok && config->admin.unix_path)
		ok = forbid(list, config->admin.unix_path);
	for (size_t i = 0; ok && i < config->n_credentials; i++)
		ok = forbid_files_of(list, &config->credentials[i]);
	return ok;
}

static bool use_presets(struct kh_config *config, size_t tenant,
			const struct kh_run_options *options, struct kh_diagnostics *diags)
{
	/* Each goes in front, so the last comes first. */
	for (size_t i = options->n_presets; i > 0; i--)
		if (!kh_config_use(config, tenant, options->presets[i - 1], NULL, diags))
			return false;
	return true;
}

static int choose_tenant(const struct kh_run_options *options, const struct kh_config *config)
{
	if (options->tenant) {
		int index = kh_config_tenant(config, options->tenant);
		struct kh_nearest nearest;
		char hint[KH_NEAREST_BYTES];
		kh_nearest_init(&nearest, kh_slice_str(options->tenant));
		for (size_t i = 0; i < config->n_tenants; i++)
			kh_nearest_offer(&nearest, config->tenants[i].name);
		if (index < 0)
			kh_cli_complain("--tenant %s: no such tenant in the configuration%s",
					kh_esc_str(options->tenant),
					kh_nearest_hint(&nearest, hint));
		return index;
	}
	if (config->n_tenants == 1)
		return 0;
	char names[256] = "";
	for (size_t i = 0, used = 0; i < config->n_tenants && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 config->tenants[i].name);
	kh_cli_complain("run: the configuration has %s (say which: --tenant NAME)%s%s",
			config->n_tenants ? "several tenants" : "no tenant",
			config->n_tenants ? "; there are " : "", names);
	return -1;
}

static struct kh_config *load(const struct kh_run_options *options, int *tenant)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = NULL;
	*tenant = -1;
	if (options->config_path) {
		config = kh_config_load_as(options->config_path,
					   options->trusted ? options->trusted_digest : NULL, NULL,
					   &diags);
		*tenant = config ? choose_tenant(options, config) : -1;
		if (*tenant >= 0 && !use_presets(config, (size_t)*tenant, options, &diags))
			*tenant = -1;
	} else {
		config = kh_config_from_presets((const char *const *)options->presets,
						options->n_presets, NULL, &diags);
		*tenant = config ? choose_tenant(options, config) : -1;
	}
	if (*tenant >= 0 && !kh_run_allow_apply(options, config, (size_t)*tenant, &diags))
		*tenant = -1;
	kh_diagnostics_print(&diags, config, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	if (*tenant >= 0)
		return config;
	kh_config_free(config);
	return NULL;
}

/* Where the command keeps what it takes for its keys: these are the same in its next run. */
static bool set_placeholders(struct kh_config *config, const struct kh_run_options *options,
			     char ***forbidden)
{
	const char *place = options->home ? options->home : options->workspace;
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *path = kh_run_placeholder_path(&err);
	/* Another run may use it. */
	if (path && !forbid(forbidden, path))
		return false;
	if (!place)
		return true;
	if (!path || !kh_run_placeholder_key(path, place, &config->placeholder_keys[0], &err)) {
		memset(config->placeholder_keys, 0, sizeof(config->placeholder_keys));
		kh_cli_complain("run: warning: the next run has other placeholders: %s", err.text);
		return true;
	}
	config->listeners[0].placeholder_name = strdup(RUN_NAME);
	return config->listeners[0].placeholder_name != NULL;
}

/* The one socket of this run, in the place of the file's. */
static bool set_listener(struct kh_config *config, int tenant, const struct kh_run_folder *folder)
{
	struct kh_listener_config *one = calloc(1, sizeof(*one));
	if (!one)
		return false;
	one->unix_path = strdup(folder->socket_path);
	one->name = strdup(folder->socket_path);
	one->token = -1;
	one->sandbox = strdup(folder->id);
	one->tenant = (uint16_t)tenant;
	one->mode = 0600;
	one->owner = (uid_t)-1;
	one->group = (gid_t)-1;
	for (size_t i = 0; i < config->n_listeners; i++) {
		free(config->listeners[i].name);
		free(config->listeners[i].unix_path);
		free(config->listeners[i].sandbox);
		kh_rules_fini(&config->listeners[i].narrow);
	}
	free(config->listeners);
	config->listeners = one;
	config->n_listeners = 1;
	kh_admin_config_fini(&config->admin);
	return one->unix_path && one->name && one->sandbox;
}

/* $XDG_STATE_HOME/keyhole/audit/<time>-<id>.jsonl */
static char *new_journal(const struct kh_run_folder *folder, struct kh_err *err)
{
	kh_auto_free char *base = kh_file_state_home(err);
	time_t now = time(NULL);
	struct tm tm;
	char when[32];
	if (!base)
		(void)kh_err_wrap(err, "the journal of the run (--audit FILE names another place)");
	if (!base || !gmtime_r(&now, &tm) ||
	    strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm) == 0)
		return NULL;
	return kh_strf("%s/keyhole/audit/%s-%s.jsonl", base, when, folder->id + strlen("run-"));
}

static bool set_journal(struct kh_config *config, const struct kh_run_options *options,
			const struct kh_run_folder *folder, struct kh_err *err)
{
	if (!options->audit && config->audit_path)
		return true;
	free(config->audit_path);
	config->audit_path = options->audit ? strdup(options->audit) : new_journal(folder, err);
	return config->audit_path != NULL;
}

/* The option that only a private daemon follows, besides --audit; NULL: none was given. */
static const char *private_option(const struct kh_run_options *options)
{
	return options->n_presets > 0 ? "--use"
	       : options->n_allow > 0 ? "--allow"
	       : options->observe     ? "--observe"
	       : options->ask	      ? "--ask"
				      : NULL;
}

/* A private daemon can't write the journal of the one that runs. */
static bool refuse_two_writers(const struct kh_config *config, const char *option)
{
	struct kh_err err = KH_ERR_INIT;
	bool there = false;
	if (!config->audit_path || !kh_ctl_find(config->admin.unix_path, &there, &err) || !there)
		return true; /* the keeper says what is wrong with the journal */
	kh_cli_complain("run: a daemon of this configuration is running and writes its journal %s. "
			"%s needs a proxy of its own for this run, with a journal of its own: add "
			"--audit FILE. Or write the rule into the configuration, and `keyhole ctl "
			"reload`",
			kh_esc_str(config->audit_path), option);
	return false;
}

/* A journal, presets or rules of its own only a private daemon has. */
static bool find_daemon(const struct kh_config *config, size_t tenant,
			const struct kh_run_options *options, struct kh_run_attach *attach)
{
	const char *path = config->admin.unix_path, *option = private_option(options);
	struct kh_err err = KH_ERR_INIT;
	bool there = false;
	if (!path || options->audit)
		return true;
	if (option)
		return refuse_two_writers(config, option);
	if (!kh_ctl_find(path, &there, &err)) {
		kh_cli_complain_err(&err);
		return false;
	}
	if (!there)
		return true;
	attach->socket = strdup(path);
	attach->tenant = strdup(config->tenants[tenant].name);
	attach->base = strdup(config->admin.sandboxes);
	if (attach->socket && attach->tenant && attach->base)
		return true;
	kh_cli_complain("run: no memory");
	return false;
}

struct kh_config *kh_run_config(const struct kh_run_options *options,
				const struct kh_run_folder *folder, char ***forbidden,
				struct kh_run_attach *attach)
{
	int tenant;
	struct kh_err err = KH_ERR_INIT;
	struct kh_config *config = load(options, &tenant);
	if (!config)
		return NULL;
	if (config->timeouts.drain > DRAIN_MOST_MS)
		config->timeouts.drain = DRAIN_MOST_MS;
	/* Before anybody connects to a socket that it names. */
	bool sound = kh_run_names_check_config(config, &err);
	if (sound && !find_daemon(config, (size_t)tenant, options, attach)) {
		kh_config_free(config);
		return NULL; /* it was said why */
	}
	if (sound && set_journal(config, options, folder, &err) &&
	    forbid_all(forbidden, options, config, folder) &&
	    set_listener(config, tenant, folder) && kh_run_ask_apply(options, folder, config) &&
	    set_placeholders(config, options, forbidden))
		return config;
	kh_cli_complain("run: %s", err.code ? err.text : "no memory");
	kh_config_free(config);
	return NULL;
}

/* --env NAME gives the caller's own value. Where NAME is what a preset takes its key from, whoever
 * wrote it may have expected a placeholder. */
static void warn_of_key(const struct kh_env_var *var, const char *preset)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_from_presets(&preset, 1, NULL, &diags);
	kh_diagnostics_fini(&diags);
	for (size_t i = 0; config && i < config->n_credentials; i++)
		if (kh_source_is_variable(&config->credentials[i], var->name)) {
			kh_cli_complain(
				"--env %s: warning: the sandbox gets the real key (--use %s "
				"gives it a placeholder instead)",
				kh_esc_str(var->name), preset);
			break;
		}
	kh_config_free(config);
}

static void warn_of_keys(const struct kh_run_options *options)
{
	size_t n = 0;
	char **presets = NULL;
	for (size_t i = 0; i < options->n_env; i++) {
		const char *own = getenv(options->env[i].name);
		if (!own || !*own || strcmp(own, options->env[i].value) != 0)
			continue;
		if (!presets)
			presets = kh_preset_names(NULL, &n);
		for (size_t p = 0; presets && p < n; p++)
			warn_of_key(&options->env[i], presets[p]);
	}
	for (size_t p = 0; presets && p < n; p++)
		free(presets[p]);
	free(presets);
}

bool kh_run_env_check(const struct kh_run_options *options, const struct kh_config *config,
		      struct kh_err *err)
{
	for (size_t i = 0; i < options->n_env; i++) {
		const char *name = options->env[i].name;
		for (size_t j = 0; j < config->n_credentials; j++) {
			const struct kh_credential_config *c = &config->credentials[j];
			bool source = kh_source_is_variable(c, name);
			if (source && (c->of_proxy || c->of_listener))
				return kh_err_set(
					err, KH_ERR_USAGE,
					"--env %s: contains the password of upstream.proxy "
					"or a listener's token, "
					"and no sandbox gets it",
					kh_esc_str(name));
			if (source || (c->env_name && strcmp(c->env_name, name) == 0))
				return kh_err_set(err, KH_ERR_USAGE,
						  "--env %s: belongs to the credential %s, and the "
						  "sandbox gets a placeholder there",
						  kh_esc_str(name), c->name);
		}
	}
	warn_of_keys(options);
	return true;
}

void kh_run_wipe_environment(const struct kh_config *config)
{
	/* /proc shows the first environment as it is in memory, unset or not. */
	kh_keeper_forget_sources(config);
	for (size_t i = 0; i < config->n_credentials; i++) {
		const struct kh_source *source;
		for (size_t j = 0; (source = kh_source_of_credential(&config->credentials[i], j));
		     j++)
			if (source->kind == KH_SOURCE_ENV)
				unsetenv(source->name);
	}
}
