/* vault.c - the values of all credentials, in the keeper's secret pages */

#include "keeper_internal.h"

#include <stdio.h>
#include <string.h>

#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/credential.h>
#include <keyhole/escape.h>
#include <keyhole/log.h>

enum { LOOK_AGAIN_MS = 1000 };

static bool has_listener(const struct kh_config *config, size_t tenant)
{
	for (size_t i = 0; i < config->n_listeners; i++) {
		if (config->listeners[i].tenant == tenant)
			return true;
	}
	return false;
}

/* Runs `visit` on every rule of the tenants that have a sandbox here, until one returns false. */
static bool each_rule(const struct kh_config *config,
		      bool (*visit)(const struct kh_rule *rule, void *arg), void *arg)
{
	for (size_t t = 0; t < config->n_tenants; t++) {
		const struct kh_rules *rules = &config->tenants[t].rules;
		bool served = has_listener(config, t);
		for (size_t r = 0; served && r < rules->count; r++) {
			if (rules->list[r].n_credentials > 0 && !visit(&rules->list[r], arg))
				return false;
		}
	}
	return true;
}

static bool mark_named(const struct kh_rule *rule, void *arg)
{
	bool *named = arg;
	for (size_t i = 0; i < rule->n_credentials; i++)
		named[rule->credentials[i]] = true;
	return true;
}

/* Two credentials may name one variable, which is overwritten at its first reading. */
static struct kh_secret *same_variable(const struct kh_vault *vault, size_t index)
{
	const struct kh_credential_config *list = vault->config->credentials;
	for (size_t i = 0; i < index; i++) {
		if (vault->slots[i].secret && list[i].source == KH_SOURCE_ENV &&
		    list[index].source == KH_SOURCE_ENV &&
		    strcmp(list[i].source_name, list[index].source_name) == 0)
			return kh_secret_ref(vault->slots[i].secret);
	}
	return NULL;
}

static enum kh_source_result read_slot(struct kh_vault *vault, size_t index, struct kh_err *err)
{
	struct kh_credential_config *credential = &vault->config->credentials[index];
	struct kh_vault_slot *slot = &vault->slots[index];
	slot->tried_ms = kh_clock_mono_ms();
	slot->secret = same_variable(vault, index);
	enum kh_source_result result =
		slot->secret ? KH_SOURCE_GOT : kh_source_read(credential, &slot->secret, err);
	credential->present = slot->secret != NULL;
	return result;
}

/* A daemon serves what it can: the tenants of the other credentials are not to suffer. */
static void read_all(struct kh_vault *vault)
{
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		struct kh_err err = KH_ERR_INIT;
		enum kh_source_result result = read_slot(vault, i, &err);
		if (result != KH_SOURCE_GOT)
			kh_log(result == KH_SOURCE_REFUSED ? KH_LOG_ERROR : KH_LOG_WARN,
			       "%s; requests that need it are answered with 503", err.text);
	}
}

/* "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN" */
static void name_sources(const struct kh_config *config, const struct kh_rule *rule, char *out,
			 size_t room)
{
	size_t len = 0;
	out[0] = '\0';
	for (size_t i = 0; i < rule->n_credentials && len + 1 < room; i++) {
		const struct kh_credential_config *c = &config->credentials[rule->credentials[i]];
		int n = snprintf(out + len, room - len, "%s%s%s", i > 0 ? " or " : "",
				 c->source == KH_SOURCE_FILE ? "file " : "",
				 c->source_name ? kh_esc_str(c->source_name) : c->name);
		len += n > 0 ? (size_t)n : 0;
	}
}

struct check {
	const struct kh_config *config;
	struct kh_err *err;
};

static bool check_rule(const struct kh_rule *rule, void *arg)
{
	struct check *check = arg;
	for (size_t i = 0; i < rule->n_credentials; i++) {
		if (check->config->credentials[rule->credentials[i]].present)
			return true;
	}
	char sources[256];
	name_sources(check->config, rule, sources, sizeof(sources));
	const char *name = check->config->credentials[rule->credentials[0]].name;
	if (!rule->preset)
		return kh_err_set(check->err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "no value for credential %s: set %s", name, sources);
	return kh_err_set(check->err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "no value for a credential of preset %s: set %s", rule->preset, sources);
}

/* Nothing but what this sandbox can use. */
static bool read_named(struct kh_vault *vault, struct kh_err *err)
{
	struct kh_config *config = vault->config;
	kh_auto_free bool *named = calloc(config->n_credentials, sizeof(*named));
	if (!named)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "credentials: no memory");
	(void)each_rule(config, mark_named, named);
	for (size_t i = 0; i < config->n_credentials; i++) {
		config->credentials[i].present = false;
		if (!named[i] && !config->credentials[i].of_proxy)
			continue;
		enum kh_source_result result = read_slot(vault, i, err);
		if (result == KH_SOURCE_REFUSED ||
		    (result == KH_SOURCE_ABSENT && config->credentials[i].of_proxy))
			return false;
	}
	struct check check = { config, err };
	return each_rule(config, check_rule, &check);
}

bool kh_vault_open(struct kh_vault *vault, struct kh_config *config, bool one_run,
		   struct kh_err *err)
{
	*vault = (struct kh_vault){ .config = config };
	if (config->n_credentials == 0)
		return true;
	vault->slots = calloc(config->n_credentials, sizeof(*vault->slots));
	if (!vault->slots)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "credentials: no memory");
	if (one_run)
		return read_named(vault, err);
	read_all(vault);
	return true;
}

static bool carry_over(struct kh_vault *next, size_t index, const struct kh_vault *now)
{
	const struct kh_credential_config *credential = &next->config->credentials[index];
	for (size_t i = 0; i < now->config->n_credentials; i++) {
		const struct kh_credential_config *old = &now->config->credentials[i];
		if (old->source == KH_SOURCE_ENV && now->slots[i].secret &&
		    strcmp(old->source_name, credential->source_name) == 0) {
			next->slots[index].secret = kh_secret_ref(now->slots[i].secret);
			return true;
		}
	}
	return false;
}

bool kh_vault_reopen(struct kh_vault *next, const struct kh_vault *now, struct kh_config *config,
		     struct kh_err *err)
{
	*next = (struct kh_vault){ .config = config };
	next->slots = calloc(config->n_credentials + 1, sizeof(*next->slots));
	if (!next->slots)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "credentials: no memory");
	for (size_t i = 0; i < config->n_credentials; i++) {
		struct kh_err why = KH_ERR_INIT;
		if (config->credentials[i].source == KH_SOURCE_ENV && carry_over(next, i, now))
			config->credentials[i].present = true;
		else if (read_slot(next, i, &why) != KH_SOURCE_GOT)
			kh_log_warn("%s; requests that need it are answered with 503", why.text);
	}
	return true;
}

void kh_vault_close(struct kh_vault *vault)
{
	for (size_t i = 0; vault->slots && i < vault->config->n_credentials; i++)
		kh_secret_unref(vault->slots[i].secret), kh_secret_unref(vault->slots[i].derived);
	free(vault->slots);
	vault->slots = NULL;
}

bool kh_vault_get(struct kh_vault *vault, const struct kh_want *want, struct kh_value *out,
		  struct kh_err *err)
{
	const struct kh_credential_config *credential = &vault->config->credentials[want->index];
	struct kh_vault_slot *slot = &vault->slots[want->index];
	uint64_t now = kh_clock_mono_ms();
	*out = (struct kh_value){ .secret = slot->secret };
	if (want->scope.len > 0 && !kh_derives(credential))
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "the credential %s is not made for a part of what it opens",
				  credential->name);
	if (!slot->secret && credential->source == KH_SOURCE_FILE &&
	    now - slot->tried_ms >= LOOK_AGAIN_MS) {
		struct kh_err why = KH_ERR_INIT;
		slot->tried_ms = now;
		if (kh_source_read(credential, &slot->secret, &why) == KH_SOURCE_GOT)
			kh_log_info("credential %s has a value now", credential->name);
		out->secret = slot->secret;
	}
	if (out->secret && kh_derives(credential)) {
		kh_secret_unref(slot->derived);
		bool ok = kh_derive(credential, want->scope, slot->secret, &slot->derived,
				    &out->expires_ms, err);
		out->secret = slot->derived;
		return ok;
	}
	return out->secret ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "the credential %s has no value on the host", credential->name);
}

void kh_vault_each_value(const struct kh_vault *vault,
			 void (*fn)(uint16_t index, const struct kh_secret *value, void *arg),
			 void *arg)
{
	for (size_t i = 0; vault->slots && i < vault->config->n_credentials; i++)
		if (vault->slots[i].secret)
			fn((uint16_t)i, vault->slots[i].secret, arg);
}

void kh_vault_see(const struct kh_vault *vault)
{
	for (size_t i = 0; vault->slots && i < vault->config->n_credentials; i++)
		kh_stand_in_see(&vault->config->credentials[i].stand_in, vault->slots[i].secret);
}

static bool add_placeholder(const char *variable, const char *value, void *arg)
{
	struct kh_ready *ready = arg;
	struct kh_ready_placeholder *p = &ready->placeholders[ready->n_placeholders];
	p->env_name = strdup(variable);
	p->value = strdup(value);
	ready->n_placeholders++;
	return p->env_name && p->value;
}

bool kh_vault_placeholders(const struct kh_vault *vault, struct kh_ready *ready, struct kh_err *err)
{
	const struct kh_config *config = vault->config;
	if (config->n_credentials == 0 || config->n_listeners == 0)
		return true;
	kh_vault_see(vault);
	/* One may have two. */
	ready->placeholders = calloc(2 * config->n_credentials, sizeof(*ready->placeholders));
	const struct kh_listener_config *sandbox = &config->listeners[0];
	kh_err_set(err, KH_ERR_NO_MEMORY, "no memory"); /* unless something else is said */
	return (ready->placeholders &&
		kh_placeholders_each(config, sandbox->tenant, sandbox->sandbox, add_placeholder,
				     ready, err)) ||
	       kh_err_wrap(err, "placeholders");
}
