/* check_values.c - `keyhole check`: are the current values of the sources usable, and hard enough
 * to guess to be searched for in requests? */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/base/limits.h>
#include <keyhole/credential/parts.h>
#include <keyhole/base/secret.h>

#include "check_values.h"

/* Whoever reads a pipe takes the value away. */
static bool is_file(const struct kh_source *source)
{
	struct stat st;

	return source->kind == KH_SOURCE_FILE && stat(source->name, &st) == 0 &&
	       S_ISREG(st.st_mode);
}

/* How much of it is searched for in requests. */
struct recognised {
	bool guessable;
	size_t lines;
};

static void look(const struct kh_credential_config *credential, const struct kh_source *source,
		 struct recognised *out)
{
	struct kh_buf content;

	kh_buf_init_wiping(&content, KH_LIMIT_SECRET_BYTES);
	const char *variable = source->kind == KH_SOURCE_ENV ? getenv(source->name) : NULL;
	bool read = variable ? kh_buf_append_str(&content, variable)
			     : is_file(source) && kh_file_read(source->name, &content, NULL);
	struct kh_slice value = kh_slice_chomp(kh_buf_view(&content));
	if (read && value.len > 0) {
		size_t lines = kh_parts_lines(credential, value);
		out->guessable = out->guessable || kh_parts_guessable(credential, value);
		out->lines = lines > out->lines ? lines : out->lines;
	}
	kh_buf_fini(&content);
}

static bool is_overwritten(const struct kh_source *source)
{
	const char *value = source->kind == KH_SOURCE_ENV ? getenv(source->name) : NULL;

	return value && !value[0];
}

/* Can the values of all its sources be used now? */
static bool can_be_used(const struct kh_credential_config *credential, bool in_daemon,
			struct kh_err *why)
{
	const struct kh_source *source;

	for (size_t i = 0; (source = kh_source_of_credential(credential, i)); i++)
		if (!(in_daemon && is_overwritten(source)) &&
		    !kh_source_can_be_used(credential, source, why))
			return false;
	return true;
}

/* Of alternatives one will do. */
static bool rule_needs(const struct kh_rule *rule, size_t credential, const bool *usable)
{
	bool named = false, other = false;

	for (size_t i = 0; i < rule->n_credentials; i++) {
		named = named || rule->credentials[i] == credential;
		other = other || usable[rule->credentials[i]];
	}
	return named && (rule->all_credentials || !other);
}

static bool is_needed(const struct kh_config *config, size_t credential, const bool *usable)
{
	const struct kh_credential_config *one = &config->credentials[credential];
	bool needed = one->of_proxy || one->of_listener;

	for (size_t t = 0; t < config->n_tenants; t++)
		for (size_t i = 0; i < config->tenants[t].rules.count && !needed; i++)
			needed = rule_needs(&config->tenants[t].rules.list[i], credential, usable);
	return needed;
}

static void warn(const struct kh_credential_config *credential, const char *why,
		 struct kh_diagnostics *diags)
{
	kh_diagnostics_add(diags, true, credential->where, "%s; %s", why,
			   credential->of_listener ? "nobody can use that listener"
						   : "requests that need it are answered with 503");
}

static void warn_if_not_recognised(const struct kh_credential_config *one,
				   struct kh_diagnostics *diags)
{
	struct recognised it = { .lines = 0 };

	for (size_t j = 0; j < one->n_sources && !one->of_listener; j++)
		look(one, &one->sources[j], &it);
	if (it.guessable)
		kh_diagnostics_add(diags, true, one->where,
				   "credentials.%s: its value is easy to guess, so it is "
				   "not looked for in what sandboxes send (take a random "
				   "one of 16 characters or more)",
				   one->name);
	if (it.lines > KH_PARTS_LINES_MOST)
		kh_diagnostics_add(diags, true, one->where,
				   "credentials.%s: its private keys have %zu lines, and the first "
				   "%d are looked for in what sandboxes send (take a shorter key, "
				   "such as Ed25519, or one key per file)",
				   one->name, it.lines, KH_PARTS_LINES_MOST);
}

static void warn_if_for_all(const struct kh_credential_config *one, struct kh_diagnostics *diags)
{
	const struct kh_source *source;
	struct stat st;

	for (size_t i = 0; (source = kh_source_of_credential(one, i)); i++)
		if (kh_source_is_for_all(source, &st))
			kh_diagnostics_add(diags, true, one->where,
					   "credentials.%s: everybody on this host may use the "
					   "file %s (mode %04o; chmod 600 %s)",
					   one->name, kh_esc_str(source->name),
					   (unsigned)(st.st_mode & 07777),
					   kh_esc_str(source->name));
}

void kh_check_values(const struct kh_config *config, bool in_daemon, struct kh_diagnostics *diags)
{
	size_t n = config->n_credentials;
	kh_auto_free bool *usable = calloc(n + 1, sizeof(*usable));

	for (size_t i = 0; usable && i < n; i++)
		usable[i] = can_be_used(&config->credentials[i], in_daemon, NULL);
	for (size_t i = 0; usable && i < n; i++) {
		struct kh_err err = KH_ERR_INIT;
		warn_if_for_all(&config->credentials[i], diags);
		if (usable[i])
			warn_if_not_recognised(&config->credentials[i], diags);
		else if (!can_be_used(&config->credentials[i], in_daemon, &err) &&
			 (err.code == KH_ERR_CONFIG || is_needed(config, i, usable)))
			warn(&config->credentials[i], err.text, diags);
	}
}
