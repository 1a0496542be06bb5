/*
 * vault.c - the values of all credentials, in secret pages of the keeper
 *
 * A credential has a holding for each of its sources: one for everybody, or one per tenant. A
 * holding has the raw value and, if tokens are made of it, one token per scope that was asked for.
 * Variables and files are read at the start. A command or a token request is started when its value
 * is first asked for (vault_turn.c), or at the start if it is sure to be needed.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

enum { WAIT_STEP_MS = 20 };

static bool has_listener(const struct kh_config *config, size_t tenant)
{
	for (size_t i = 0; i < config->n_listeners; i++) {
		if (config->listeners[i].tenant == tenant)
			return true;
	}
	return false;
}

static bool each_rule(const struct kh_config *config,
		      bool (*visit)(uint16_t tenant, const struct kh_rule *rule, void *arg),
		      void *arg)
{
	for (size_t t = 0; t < config->n_tenants; t++) {
		const struct kh_rules *rules = &config->tenants[t].rules;
		bool served = has_listener(config, t);
		for (size_t r = 0; served && r < rules->count; r++) {
			if (rules->list[r].n_credentials > 0 &&
			    !visit((uint16_t)t, &rules->list[r], arg))
				return false;
		}
	}
	return true;
}

static bool mark_named(uint16_t tenant, const struct kh_rule *rule, void *arg)
{
	bool *named = arg;
	(void)tenant;
	for (size_t i = 0; i < rule->n_credentials; i++)
		named[rule->credentials[i]] = true;
	return true;
}

/* --- reading ---------------------------------------------------------------------------------- */

bool kh_vault_in_backoff(const struct kh_holding *holding, const struct kh_source *source)
{
	return source->kind == KH_SOURCE_FILE &&
	       kh_vault_pipes_rest(source->name, holding->rests_ms);
}

enum kh_source_result kh_vault_read_source(struct kh_vault *vault, uint16_t index,
					   struct kh_holding *holding,
					   const struct kh_source *source, struct kh_secret **out,
					   struct kh_err *err)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	bool own = source == holding->source;
	enum kh_value_form form = own ? kh_vault_form(credential) : KH_VALUE_LINE;
	enum kh_source_result result;
	if (source->kind == KH_SOURCE_ENV) {
		*out = kh_variables_get(vault, credential->name, source, form, &result, err);
		return result;
	}
	kh_source_warn_of_mode(credential->name, source,
			       own ? &holding->warned : &holding->client_warned);
	uint64_t began_ms = kh_clock_mono_ms();
	uint32_t wait_ms = kh_vault_pipes_wait_ms(vault, holding->rests_ms);
	result = kh_source_read(credential->name, source, form, wait_ms, out, err);
	kh_vault_pipes_waited(vault, began_ms, result != KH_SOURCE_GOT && err->sys == ETIMEDOUT,
			      &holding->rests_ms);
	/* After it: a look that took long is not to be followed by the next at once. */
	holding->tried_ms = kh_clock_mono_ms();
	return result;
}

enum kh_source_result kh_vault_read_client(struct kh_vault *vault, uint16_t index,
					   struct kh_holding *holding, struct kh_err *err)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	const struct kh_mint *mint = credential->mint;
	if (!mint || mint->client_secret.kind == KH_SOURCE_NONE)
		return KH_SOURCE_GOT;
	kh_secret_unref(holding->client_secret);
	holding->client_secret = NULL;
	enum kh_source_result result = kh_vault_read_source(
		vault, index, holding, &mint->client_secret, &holding->client_secret, err);
	free(holding->client_why);
	holding->client_why = result == KH_SOURCE_GOT ? NULL : strdup(err->text);
	return result;
}

enum kh_source_result kh_vault_read(struct kh_vault *vault, uint16_t index,
				    struct kh_holding *holding, struct kh_err *err)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	struct kh_secret *secret = NULL;
	holding->tried_ms = kh_clock_mono_ms();
	if (holding->source->kind == KH_SOURCE_EXEC) {
		kh_variables_keep(vault, holding->source->exec);
		return kh_vault_read_client(vault, index, holding, err);
	}
	enum kh_source_result result =
		kh_vault_read_source(vault, index, holding, holding->source, &secret, err);
	if (result == KH_SOURCE_GOT &&
	    !kh_account_complete(vault, credential, holding->source, &secret, err))
		result = KH_SOURCE_ABSENT;
	if (result == KH_SOURCE_GOT)
		result = kh_vault_read_client(vault, index, holding, err);
	if (result == KH_SOURCE_GOT)
		kh_item_fill(&holding->raw, secret, 0, 0);
	else
		kh_secret_unref(secret);
	return result;
}

/* What it lacks is said once, not with each question. */
static void note_missing(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			 const struct kh_err *err)
{
	char reason[KH_ERR_TEXT_BYTES];
	const char *name = vault->config->credentials[index].name;
	(void)snprintf(reason, sizeof(reason), "the credential %s has no value on the host", name);
	kh_item_fail(&holding->raw, err->text, reason);
	holding->raw.due_ms = 0;
}

/* Return: the worst that came of it. */
enum kh_source_result kh_vault_read_slot(struct kh_vault *vault, uint16_t index, struct kh_err *err)
{
	struct kh_vault_slot *slot = &vault->slots[index];
	enum kh_source_result worst = slot->n_holdings > 0 ? KH_SOURCE_GOT : KH_SOURCE_REFUSED;
	for (size_t i = 0; i < slot->n_holdings; i++) {
		struct kh_holding *holding = &slot->holdings[i];
		struct kh_err why = KH_ERR_INIT;
		enum kh_source_result result = holding->raw.secret
						       ? KH_SOURCE_GOT
						       : kh_vault_read(vault, index, holding, &why);
		if (result != KH_SOURCE_GOT) {
			note_missing(vault, index, holding, &why);
			*err = why;
		}
		worst = result > worst ? result : worst;
	}
	kh_vault_note_presence(vault, index);
	return worst;
}

/* A daemon serves what it can: the tenants of the other credentials are not to suffer. */
static void read_all(struct kh_vault *vault)
{
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		struct kh_err err = KH_ERR_INIT;
		enum kh_source_result result = kh_vault_read_slot(vault, (uint16_t)i, &err);
		if (result != KH_SOURCE_GOT)
			kh_log(result == KH_SOURCE_REFUSED ? KH_LOG_ERROR : KH_LOG_WARN,
			       "%s; requests that need it are answered with 503", err.text);
	}
}

/* So that a command that can't work is known before somebody needs it. */
static void begin_commands(struct kh_vault *vault)
{
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++) {
			struct kh_holding *holding = &vault->slots[i].holdings[j];
			struct kh_err err = KH_ERR_INIT;
			if (holding->source->kind == KH_SOURCE_EXEC && !holding->raw.secret &&
			    !holding->raw.failures && !holding->raw.job &&
			    !kh_vault_begin_raw(vault, (uint16_t)i, holding, &err))
				kh_vault_raw_failed(vault, (uint16_t)i, holding, err.text,
						    err.text);
		}
	}
}

/* --- one sandbox's own ------------------------------------------------------------------------ */

/* "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN", "look at file /x" */
static void name_sources(const struct kh_vault *vault, uint16_t tenant, const struct kh_rule *rule,
			 char *out, size_t room)
{
	size_t len = 0;
	bool is_set = false;
	out[0] = '\0';
	for (size_t i = 0; i < rule->n_credentials && len + 1 < room; i++) {
		uint16_t index = rule->credentials[i];
		const struct kh_credential_config *c = &vault->config->credentials[index];
		const struct kh_holding *holding = kh_vault_holding(vault, index, tenant);
		const struct kh_source *source = holding ? holding->source : NULL;
		const char *kind = source && source->kind != KH_SOURCE_ENV
					   ? kh_source_kind_name(source->kind)
					   : "";
		const char *before = i > 0 ? " or " : "", *name = c->name;
		int n;
		if (source && source->name)
			name = kh_esc_str(source->name);
		if (c->by_tenant && !holding)
			n = snprintf(out + len, room - len,
				     "%sadd the tenant %s to value.tenants of %s", before,
				     vault->config->tenants[tenant].name, name);
		else if (kind[0])
			n = snprintf(out + len, room - len, "%slook at %s %s", before, kind, name);
		else
			n = snprintf(out + len, room - len, "%s%s%s", before, is_set ? "" : "set ",
				     name);
		is_set = !kind[0] && holding;
		len += n > 0 ? (size_t)n : 0;
	}
}

struct check {
	const struct kh_vault *vault;
	struct kh_err *err;
};

static bool check_rule(uint16_t tenant, const struct kh_rule *rule, void *arg)
{
	struct check *check = arg;
	const struct kh_config *config = check->vault->config;
	const char *failed = NULL;
	for (size_t i = 0; i < rule->n_credentials; i++) {
		uint16_t index = rule->credentials[i];
		const struct kh_holding *holding = kh_vault_holding(check->vault, index, tenant);
		if (kh_credential_is_present(&config->credentials[index], tenant))
			return true;
		if (!holding)
			continue;
		if (kh_client_cert_is(&config->credentials[index]))
			failed = kh_client_cert_fault(holding);
		else if (holding->source->kind == KH_SOURCE_EXEC)
			failed = holding->raw.why;
	}
	if (failed)
		return kh_err_set(check->err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s", failed);
	char sources[256];
	name_sources(check->vault, tenant, rule, sources, sizeof(sources));
	const char *name = config->credentials[rule->credentials[0]].name;
	if (!rule->preset)
		return kh_err_set(check->err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "no value for credential %s: %s", name, sources);
	return kh_err_set(check->err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "no value for a credential of preset %s: %s", rule->preset, sources);
}

/* Until no command runs any more: each has its own end. */
static void wait_for_commands(struct kh_vault *vault)
{
	while (!kh_list_is_empty(&vault->jobs.list)) {
		struct pollfd fd = { .fd = vault->jobs.epoll, .events = POLLIN };
		(void)poll(&fd, 1, WAIT_STEP_MS);
		kh_vault_turn(vault);
	}
}

/* Drops the holdings of tenants without a sandbox here: they have nothing yet. */
static void drop_of_others(const struct kh_config *config, struct kh_vault_slot *slot)
{
	size_t n = 0;
	for (size_t i = 0; i < slot->n_holdings; i++)
		if (slot->holdings[i].tenant == KH_NO_TENANT ||
		    has_listener(config, slot->holdings[i].tenant))
			slot->holdings[n++] = slot->holdings[i];
	slot->n_holdings = n;
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
		struct kh_vault_slot *slot = &vault->slots[i];
		if (!named[i] && !config->credentials[i].of_proxy) {
			slot->n_holdings = 0; /* they have nothing yet */
			continue;
		}
		drop_of_others(config, slot);
		if (config->credentials[i].by_tenant && slot->n_holdings == 0)
			continue;
		enum kh_source_result result = kh_vault_read_slot(vault, (uint16_t)i, err);
		if (result == KH_SOURCE_REFUSED ||
		    (result == KH_SOURCE_ABSENT && config->credentials[i].of_proxy))
			return false;
	}
	begin_commands(vault);
	wait_for_commands(vault);
	kh_client_certs_renew(vault);
	struct check check = { vault, err };
	return each_rule(config, check_rule, &check);
}

/* --- life ------------------------------------------------------------------------------------- */

static bool make_holdings(struct kh_vault *vault, size_t index)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	struct kh_vault_slot *slot = &vault->slots[index];
	slot->holdings = calloc(credential->n_sources + 1, sizeof(*slot->holdings));
	if (!slot->holdings)
		return false;
	slot->n_holdings = credential->n_sources;
	for (size_t i = 0; i < credential->n_sources; i++) {
		slot->holdings[i].source = &credential->sources[i];
		slot->holdings[i].tenant =
			credential->by_tenant ? credential->sources[i].whose : KH_NO_TENANT;
	}
	return true;
}

/* Whoever's rules they are: sandboxes come while it runs. */
static void find_alternatives(struct kh_vault *vault)
{
	const struct kh_config *config = vault->config;
	for (size_t t = 0; t < config->n_tenants; t++) {
		const struct kh_rules *rules = &config->tenants[t].rules;
		for (size_t r = 0; r < rules->count; r++) {
			const struct kh_rule *rule = &rules->list[r];
			for (size_t i = 0; i < rule->n_credentials; i++)
				vault->slots[rule->credentials[i]].alternative |=
					rule->n_credentials > 1 && !rule->all_credentials;
		}
	}
}

/* What a command will say is not known: it counts as there. A key without its certificate is no
 * value. */
static bool counts_as_there(const struct kh_credential_config *credential,
			    const struct kh_holding *holding)
{
	bool unknown = holding->source->kind == KH_SOURCE_EXEC && !holding->raw.failures;
	bool no_pair = kh_client_cert_is(credential) && kh_client_cert_fault(holding) &&
		       !holding->made->item.secret;
	return (holding->raw.secret || unknown) && !no_pair;
}

void kh_vault_note_presence(struct kh_vault *vault, uint16_t index)
{
	struct kh_credential_config *credential = &vault->config->credentials[index];
	const struct kh_vault_slot *slot = &vault->slots[index];
	for (size_t i = 0; i < slot->n_holdings; i++) {
		const struct kh_holding *holding = &slot->holdings[i];
		bool now = counts_as_there(credential, holding);
		if (kh_credential_set_present(credential, holding->tenant, now) &&
		    slot->alternative && vault->chosen_anew)
			vault->chosen_anew(vault->arg, index, holding->tenant, now);
	}
}

bool kh_vault_make(struct kh_vault *vault, struct kh_config *config, struct kh_err *err)
{
	vault->config = config;
	kh_jobs_init(&vault->jobs);
	vault->slots = calloc(config->n_credentials + 1, sizeof(*vault->slots));
	bool ok = vault->slots != NULL;
	for (size_t i = 0; ok && i < config->n_credentials; i++)
		ok = make_holdings(vault, i);
	if (ok)
		find_alternatives(vault);
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "credentials: no memory");
}

void kh_vault_begin(struct kh_vault *vault)
{
	vault->serves = true;
	begin_commands(vault);
	kh_client_certs_renew(vault);
	kh_watch_begin(vault);
	kh_vault_due(vault, kh_clock_mono_ms());
}

bool kh_vault_open(struct kh_vault *vault, struct kh_config *config, bool one_run,
		   struct kh_err *err)
{
	*vault = (struct kh_vault){ .config = config };
	if (!kh_vault_make(vault, config, err))
		return false;
	if (one_run && !read_named(vault, err))
		return false;
	if (!one_run)
		read_all(vault);
	kh_vault_begin(vault);
	return true;
}

static void free_made(struct kh_holding *holding)
{
	while (holding->made) {
		struct kh_made *gone = holding->made;
		holding->made = gone->next;
		kh_item_fini(&gone->item);
		free(gone);
	}
	holding->n_made = 0;
}

void kh_vault_close(struct kh_vault *vault)
{
	if (!vault->slots)
		return;
	kh_watch_end(vault);
	kh_scopes_forget_askers(vault);
	kh_jobs_fini(&vault->jobs);
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		struct kh_vault_slot *slot = &vault->slots[i];
		for (size_t j = 0; slot->holdings && j < vault->config->credentials[i].n_sources;
		     j++) {
			kh_item_fini(&slot->holdings[j].raw);
			kh_secret_unref(slot->holdings[j].client_secret);
			kh_secret_unref(slot->holdings[j].refresh_token);
			free(slot->holdings[j].client_why);
			free(slot->holdings[j].installation);
			free_made(&slot->holdings[j]);
		}
		free(slot->holdings);
	}
	kh_variables_fini(vault);
	kh_known_secrets_fini(vault);
	free(vault->slots);
	vault->slots = NULL;
}
