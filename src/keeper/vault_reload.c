/*
 * vault_reload.c - moves values, and what is in progress, to a new configuration
 *
 * First a vault for the next configuration is made beside the one in force, which stays unchanged;
 * the two share their common values. When the rest of the reload has succeeded, the new vault also
 * takes over the jobs that run.
 */

#include "keeper_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/log.h>
#include <keyhole/config/signing.h>

static struct kh_holding *counterpart(struct kh_vault *vault, uint16_t *index, const char *name,
				      const struct kh_holding *holding, const char *tenant)
{
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		struct kh_vault_slot *slot = &vault->slots[i];
		if (strcmp(vault->config->credentials[i].name, name) != 0)
			continue;
		for (size_t j = 0; j < slot->n_holdings; j++) {
			const struct kh_source *source = slot->holdings[j].source;
			*index = (uint16_t)i;
			if (kh_source_eq(source, holding->source) && !source->tenant == !tenant &&
			    (!tenant || strcmp(source->tenant, tenant) == 0))
				return &slot->holdings[j];
		}
	}
	return NULL;
}

static bool same_value(const struct kh_item *a, const struct kh_item *b)
{
	return a->secret && b->secret && kh_secret_same(a->secret, b->secret);
}

static bool share_made(struct kh_holding *to, const struct kh_holding *from)
{
	for (const struct kh_made *made = from->made; made; made = made->next) {
		struct kh_made *copy = calloc(1, sizeof(*copy) + made->scope_len);
		if (!copy)
			return false;
		copy->next = to->made;
		to->made = copy;
		to->n_made++;
		copy->last_use = made->last_use;
		copy->last_use_ms = made->last_use_ms;
		copy->asker = made->asker;
		copy->refused_ms = made->refused_ms;
		copy->scope_len = made->scope_len;
		memcpy(copy->scope, made->scope, made->scope_len);
		if (!kh_item_share(&copy->item, &made->item))
			return false;
	}
	to->refused_ms = from->refused_ms;
	to->installation = from->installation ? strdup(from->installation) : NULL;
	return true;
}

/* Is what was made of the one what is made of the other? A pair is whole in itself, and is held
 * against its files anew when all is adopted: until then the one before serves. */
static bool same_product(const struct kh_credential_config *old,
			 const struct kh_credential_config *new, const struct kh_item *new_raw,
			 const struct kh_item *old_raw)
{
	if (!kh_client_cert_is(old) || !kh_client_cert_is(new))
		return kh_mint_eq(old->mint, new->mint) &&
		       kh_client_cert_is(old) == kh_client_cert_is(new) &&
		       same_value(new_raw, old_raw);
	const char *a = old->placement->mtls->certificate, *b = new->placement->mtls->certificate;
	return new_raw->secret && (a && b ? strcmp(a, b) == 0 : a == b);
}

/* Who asked for what: tenants are numbered anew. */
static void number_askers(struct kh_holding *holding, const struct kh_config *next,
			  const struct kh_config *now)
{
	for (struct kh_made *made = holding->made; made; made = made->next) {
		struct kh_fair_share_asker *asker = &made->asker;
		int tenant = asker->tenant < now->n_tenants
				     ? kh_config_tenant(next, now->tenants[asker->tenant].name)
				     : -1;
		*asker = tenant < 0
				 ? (struct kh_fair_share_asker){ .tenant = KH_NO_TENANT }
				 : (struct kh_fair_share_asker){ asker->number, (uint16_t)tenant };
	}
}

/* Whatever the new configuration says the same of. */
static bool share(struct kh_vault *next, const struct kh_vault *now)
{
	for (size_t i = 0; i < now->config->n_credentials; i++) {
		const struct kh_credential_config *old = &now->config->credentials[i];
		for (size_t j = 0; now->slots && j < now->slots[i].n_holdings; j++) {
			const struct kh_holding *from = &now->slots[i].holdings[j];
			uint16_t index;
			struct kh_holding *to =
				counterpart(next, &index, old->name, from, from->source->tenant);
			if (!to)
				continue;
			const struct kh_credential_config *new = &next->config->credentials[index];
			bool exec = from->source->kind == KH_SOURCE_EXEC;
			if (exec && !kh_item_share(&to->raw, &from->raw))
				return false;
			if (same_product(old, new, &to->raw, &from->raw) && !share_made(to, from))
				return false;
			number_askers(to, next->config, now->config);
		}
	}
	return true;
}

/* What was warned of is not warned of again, since nothing is another for the files. */
static void share_warned(struct kh_vault *next, const struct kh_vault *now)
{
	for (size_t i = 0; now->slots && i < now->config->n_credentials; i++) {
		const char *name = now->config->credentials[i].name;
		for (size_t j = 0; j < now->slots[i].n_holdings; j++) {
			const struct kh_holding *from = &now->slots[i].holdings[j];
			uint16_t index;
			struct kh_holding *to =
				counterpart(next, &index, name, from, from->source->tenant);
			if (!to)
				continue;
			to->warned = from->warned;
			to->client_warned = from->client_warned;
		}
	}
}

bool kh_vault_reopen(struct kh_vault *next, const struct kh_vault *now, struct kh_config *config,
		     struct kh_err *err)
{
	*next = (struct kh_vault){ .config = config,
				   .serves = true,
				   .pipes_waited_ms = now->pipes_waited_ms,
				   .pipes_at_ms = now->pipes_at_ms };
	if (!kh_vault_make(next, config, err))
		return false;
	if (!kh_variables_share(next, now))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "credentials: no memory");
	share_warned(next, now);
	for (size_t i = 0; i < config->n_credentials; i++) {
		struct kh_err why = KH_ERR_INIT;
		if (kh_vault_read_slot(next, (uint16_t)i, &why) != KH_SOURCE_GOT)
			kh_log_warn("%s; requests that need it are answered with 503", why.text);
	}
	if (!share(next, now))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "credentials: no memory");
	for (size_t i = 0; i < config->n_credentials; i++)
		kh_vault_note_presence(next, (uint16_t)i);
	return true;
}

static struct kh_made *made_like(struct kh_holding *holding, const struct kh_made *made)
{
	for (struct kh_made *one = holding->made; one; one = one->next)
		if (one->scope_len == made->scope_len &&
		    memcmp(one->scope, made->scope, made->scope_len) == 0)
			return one;
	return NULL;
}

/* Return: false: nobody is interested in it any more. */
static bool hand_on(struct kh_vault *next, struct kh_vault *now, struct kh_job *job)
{
	uint16_t index = 0;
	/* Nobody's since a reload before: its credential is of an older configuration. */
	if (!job->holding)
		return false;
	const char *name = now->config->credentials[job->index].name;
	struct kh_holding *to =
		counterpart(next, &index, name, job->holding, job->holding->source->tenant);
	struct kh_made *made = to && job->made ? made_like(to, job->made) : NULL;
	if (!to || (job->made && !made) || (!job->made && !to->source->exec))
		return false;
	job->index = index;
	job->holding = to;
	job->made = made;
	job->exec = made ? NULL : to->source->exec;
	*(made ? &made->item.job : &to->raw.job) = job;
	return true;
}

/* A list's head may not be copied. */
static void move_into(struct kh_vault *to, struct kh_vault *from)
{
	struct kh_node jobs;
	kh_list_move(&from->jobs.list, &jobs);
	*to = *from;
	kh_list_move(&jobs, &to->jobs.list);
	from->slots = NULL;
}

static void take_jobs(struct kh_vault *next, struct kh_vault *now)
{
	struct kh_node rest;
	kh_list_move(&now->jobs.list, &rest);
	/* Nothing runs in `next` yet. */
	if (next->jobs.epoll >= 0)
		(void)close(next->jobs.epoll);
	next->jobs.epoll = now->jobs.epoll;
	now->jobs.epoll = -1;
	while (!kh_list_is_empty(&rest)) {
		struct kh_job *job = kh_container_of(rest.next, struct kh_job, link);
		kh_list_remove(&job->link);
		kh_list_append(&next->jobs.list, &job->link);
		if (!hand_on(next, now, job))
			kh_jobs_disown(job);
	}
}

void kh_vault_adopt(struct kh_vault *now, struct kh_vault *next)
{
	void (*chosen_anew)(void *, uint16_t, uint16_t, bool) = now->chosen_anew;
	next->answer = now->answer;
	next->stale = now->stale;
	next->changed = now->changed;
	next->sandboxes = now->sandboxes;
	next->arg = now->arg;
	next->uses = now->uses;
	next->paces = kh_steal_ptr(&now->paces);
	take_jobs(next, now);
	kh_known_secrets_hand_on(next, now);
	kh_vault_close(now);
	move_into(now, next);
	/* The worker has yet to get the configuration, which says what is there. */
	kh_vault_begin(now);
	now->chosen_anew = chosen_anew;
}
