/* vault_get.c - a request for a value: it is there, or it is started, or why there is none */

#include "keeper_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/clock.h>
#include <keyhole/credential/credential.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/fair_share.h>

enum { LOOK_AGAIN_MS = 1000 };

struct kh_holding *kh_vault_holding(const struct kh_vault *vault, uint16_t index, uint16_t tenant)
{
	const struct kh_vault_slot *slot = &vault->slots[index];
	bool by_tenant = vault->config->credentials[index].by_tenant;
	for (size_t i = 0; i < slot->n_holdings; i++)
		if (!by_tenant || slot->holdings[i].tenant == tenant)
			return &slot->holdings[i];
	return NULL;
}

static enum kh_vault_answer refuse(const struct kh_item *item, const char *name, struct kh_err *err)
{
	if (item && item->reason)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s", item->reason);
	else
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the credential %s has no value on the host", name);
	return KH_VAULT_NONE;
}

static bool pauses(const struct kh_item *item)
{
	return item->failures > 0 && item->due_ms > kh_clock_mono_ms();
}

static bool may_look(const struct kh_holding *holding, const struct kh_mint *mint)
{
	return holding->source->kind != KH_SOURCE_ENV &&
	       kh_clock_mono_ms() - holding->tried_ms >= LOOK_AGAIN_MS &&
	       !kh_vault_in_backoff(holding, holding->source) &&
	       !(mint && kh_vault_in_backoff(holding, &mint->client_secret));
}

/* A file may have come meanwhile; a command is started. GOT: the raw value is there. */
static enum kh_vault_answer get_raw(struct kh_vault *vault, const struct kh_credential_ref *ref,
				    struct kh_holding *holding, struct kh_err *err)
{
	const char *name = vault->config->credentials[ref->index].name;
	struct kh_err why = KH_ERR_INIT;
	if (kh_item_is_good(&holding->raw) && !kh_item_is_withheld(&holding->raw))
		return KH_VAULT_GOT;
	if (holding->raw.job)
		return KH_VAULT_LATER;
	if (holding->source->kind == KH_SOURCE_EXEC) {
		if (!pauses(&holding->raw) && kh_vault_begin_raw(vault, ref->index, holding, &why))
			return KH_VAULT_LATER;
		return refuse(&holding->raw, name, err);
	}
	if (may_look(holding, vault->config->credentials[ref->index].mint) &&
	    kh_vault_read(vault, ref->index, holding, &why) == KH_SOURCE_GOT) {
		kh_log_info("credential %s has a value now", name);
		kh_vault_raw_came(vault, ref->index, holding, true);
		return KH_VAULT_GOT;
	}
	return refuse(&holding->raw, name, err);
}

static enum kh_vault_answer give(struct kh_item *item, struct kh_value *out)
{
	item->used = item->told = true;
	*out = (struct kh_value){ item->secret, item->expires_ms };
	return KH_VAULT_GOT;
}

static enum kh_vault_answer later(struct kh_item *item)
{
	item->asked = true;
	return KH_VAULT_LATER;
}

static bool is_there(const struct kh_item *item)
{
	return kh_item_is_good(item) && !kh_item_is_withheld(item);
}

static enum kh_vault_answer refuse_too_many(const char *name, struct kh_err *err)
{
	kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
		   "too many values of the credential %s are made at a time", name);
	return KH_VAULT_NONE;
}

static enum kh_vault_answer get_made(struct kh_vault *vault, const struct kh_credential_ref *ref,
				     const struct kh_fair_share_asker *asker,
				     struct kh_holding *holding, struct kh_value *out,
				     struct kh_err *err)
{
	const struct kh_credential_config *credential = &vault->config->credentials[ref->index];
	struct kh_made *made = kh_scopes_find(holding, ref->scope);
	if (ref->scope.len > 0 && !(made && is_there(&made->item)) &&
	    !kh_scopes_take_turn(vault, asker))
		return refuse_too_many(credential->name, err);
	made = kh_scopes_get(vault, ref, asker, holding);
	struct kh_err why = KH_ERR_INIT;
	if (!made)
		return refuse_too_many(credential->name, err);
	if (is_there(&made->item))
		return give(&made->item, out);
	if (made->item.job)
		return later(&made->item);
	if (pauses(&made->item))
		return refuse(&made->item, credential->name, err);
	enum kh_vault_answer raw = get_raw(vault, ref, holding, err);
	if (raw == KH_VAULT_LATER)
		return later(&made->item);
	if (raw != KH_VAULT_GOT)
		return raw;
	if (!kh_vault_begin_made(vault, ref->index, holding, made, &why))
		return refuse(&made->item, credential->name, err);
	return kh_item_is_good(&made->item) ? give(&made->item, out) : later(&made->item);
}

static bool is_of(const struct kh_rule *rule, uint16_t index)
{
	for (size_t i = 0; i < rule->n_credentials; i++)
		if (rule->credentials[i] == index)
			return rule->allow;
	return false;
}

static bool has_rule_for(const struct kh_rules *rules, uint16_t index, struct kh_slice scope)
{
	for (size_t i = 0; i < rules->count; i++)
		if (is_of(&rules->list[i], index) &&
		    kh_repository_may_be_at(scope, rules->list[i].path))
			return true;
	return false;
}

/* Can any request for that repository have the credential, by what it is bound to and by the rules
 * of the tenant (of any, if all have the same value)? */
static bool may_open(const struct kh_config *config, const struct kh_credential_ref *ref)
{
	const struct kh_credential_config *credential = &config->credentials[ref->index];
	bool bound = credential->n_paths == 0;
	for (size_t i = 0; !bound && i < credential->n_paths; i++)
		bound = kh_repository_may_be_at(ref->scope, credential->paths[i]);
	for (size_t i = 0; bound && i < config->n_tenants; i++)
		if ((!credential->by_tenant || i == ref->tenant) &&
		    has_rule_for(&config->tenants[i].rules, ref->index, ref->scope))
			return true;
	return false;
}

enum kh_vault_answer kh_vault_get(struct kh_vault *vault, const struct kh_credential_ref *ref,
				  const struct kh_fair_share_asker *asker, struct kh_value *out,
				  struct kh_err *err)
{
	const struct kh_credential_config *credential = &vault->config->credentials[ref->index];
	struct kh_holding *holding = kh_vault_holding(vault, ref->index, ref->tenant);
	bool derives = kh_derives(credential);
	*out = (struct kh_value){ .secret = NULL };
	if (!holding) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   credential->by_tenant ? "the credential %s has no value for this tenant"
						 : "the credential %s has no value on the host",
			   credential->name);
		return KH_VAULT_NONE;
	}
	if (ref->scope.len > 0 && (!derives || kh_client_cert_is(credential)) &&
	    !credential->by_repository) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the credential %s is not made for a part of what it opens",
			   credential->name);
		return KH_VAULT_NONE;
	}
	/* Without one the token would open every repository of the installation. */
	if (credential->by_repository && !kh_repository_is_scope(ref->scope)) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the credential %s is made for one repository at a time, and none was "
			   "named",
			   credential->name);
		return KH_VAULT_NONE;
	}
	/* Also of one that was made already: the hosts and the rules may be others since a reload.
	 */
	if (credential->by_repository && !may_open(vault->config, ref)) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "no rule lets the credential %s open this repository", credential->name);
		return KH_VAULT_NONE;
	}
	if (!kh_derives_for(credential, ref->scope, err))
		return KH_VAULT_NONE;
	if (derives || credential->mint)
		return get_made(vault, ref, asker, holding, out, err);
	enum kh_vault_answer raw = get_raw(vault, ref, holding, err);
	return raw == KH_VAULT_GOT     ? give(&holding->raw, out)
	       : raw == KH_VAULT_LATER ? later(&holding->raw)
				       : raw;
}

static bool may_renew(const struct kh_holding *holding, const struct kh_made *made)
{
	uint64_t now = kh_clock_mono_ms();
	return kh_item_is_good(&made->item) && made->item.told && !made->item.job &&
	       (!made->refused_ms || now - made->refused_ms >= KH_LIMIT_REFUSED_AGAIN_MS) &&
	       (!holding->refused_ms || now - holding->refused_ms >= KH_LIMIT_REFUSED_OTHER_MS);
}

/* A value that never changes is not asked for again: a 401 says nothing new of it. */
static void renew_raw(struct kh_vault *vault, uint16_t index, struct kh_holding *holding)
{
	const struct kh_exec *exec = holding->source->exec;
	struct kh_item *raw = &holding->raw;
	uint64_t now = kh_clock_mono_ms();
	struct kh_err err = KH_ERR_INIT;
	if (!exec || (!exec->refresh_ms && !raw->expires_ms) || raw->job || !kh_item_is_good(raw) ||
	    (holding->refused_ms && now - holding->refused_ms < KH_LIMIT_REFUSED_AGAIN_MS))
		return;
	kh_log_info(
		"credential %s: an upstream answered 401 to its value: its command is run again",
		vault->config->credentials[index].name);
	holding->refused_ms = now;
	if (kh_vault_begin_raw(vault, index, holding, &err))
		kh_item_withhold(raw);
	else
		kh_log_warn("%s", err.text);
}

void kh_vault_refused(struct kh_vault *vault, const struct kh_credential_ref *ref)
{
	struct kh_holding *holding = kh_vault_holding(vault, ref->index, ref->tenant);
	struct kh_err err = KH_ERR_INIT;
	if (holding && !vault->config->credentials[ref->index].mint)
		renew_raw(vault, ref->index, holding);
	if (!vault->config->credentials[ref->index].mint)
		return;
	struct kh_made *made = holding ? kh_scopes_find(holding, ref->scope) : NULL;
	if (!made || !may_renew(holding, made) || !kh_item_is_good(&holding->raw))
		return;
	kh_log_info(
		"credential %s: an upstream answered 401 to its token: another one is asked for",
		vault->config->credentials[ref->index].name);
	made->refused_ms = holding->refused_ms = kh_clock_mono_ms();
	if (kh_vault_begin_made(vault, ref->index, holding, made, &err))
		kh_item_withhold(&made->item);
}

void kh_vault_forget_worker(struct kh_vault *vault)
{
	for (size_t i = 0; vault->slots && i < vault->config->n_credentials; i++) {
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++) {
			struct kh_holding *holding = &vault->slots[i].holdings[j];
			holding->raw.asked = holding->raw.told = holding->made_told = false;
			for (struct kh_made *made = holding->made; made; made = made->next)
				made->item.asked = made->item.told = false;
		}
	}
	/* The paces go on: a worker that was taken over could end to have more. */
	(void)kh_scopes_relieve(vault);
	kh_scopes_reap(vault);
}
