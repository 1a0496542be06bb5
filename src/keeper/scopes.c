/*
 * scopes.c - bounds the number and rate of values for scopes, which sandboxes choose
 *
 * Each value takes a page of locked memory, which is scarce. So there is one bound for all
 * credentials together (kh_secret_scoped_most_bytes), besides one per credential. fair_share.h
 * decides which value is dropped: shares are divided among tenants first. The configuration
 * determines the number of values without a scope, so they are not bounded here.
 *
 * The worker tells which sandbox asks, and asker.c checks that it exists. A worker that was taken
 * over can ask in the name of each sandbox. So there is a rate per tenant, too: what all its
 * sandboxes may have together.
 */
#include "keeper_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/fair_share.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/lru.h>

/* Of one that is being made, as much as it may come to. */
static size_t cost_of(const struct kh_credential_config *credential,
		      const struct kh_holding *holding, const struct kh_made *made)
{
	size_t page = kh_secret_locked_bytes(NULL);

	if (made && made->item.secret)
		return kh_secret_locked_bytes(made->item.secret);
	if (credential->mint)
		return (KH_LIMIT_TOKEN_BYTES + page - 1) / page * page;
	return kh_secret_locked_bytes(holding->raw.secret);
}

static uint64_t owner_of(const struct kh_made *made)
{
	bool idle = kh_clock_mono_ms() - made->last_use_ms > KH_FAIR_SHARE_IDLE_MS;
	bool ended = made->item.secret && !kh_item_is_good(&made->item);
	return idle || ended ? KH_FAIR_SHARE_NOBODY : made->asker.number;
}

/* What there is, of one holding or of all. */
struct count {
	struct kh_fair_share_place *places; /* NULL: it is only counted */
	size_t n, bytes;
};

static void count_holding(struct count *count, const struct kh_credential_config *credential,
			  struct kh_holding *holding)
{
	for (struct kh_made **at = &holding->made; *at; at = &(*at)->next) {
		if ((*at)->scope_len == 0)
			continue;
		if (count->places)
			count->places[count->n] = (struct kh_fair_share_place){
				.tenant = (*at)->asker.tenant,
				.whose = owner_of(*at),
				.used = (*at)->last_use,
				.fixed = (*at)->item.job || (*at)->item.asked,
				.at = *at,
			};
		count->n++;
		count->bytes += cost_of(credential, holding, *at);
	}
}

/* `only` NULL: of all. */
static struct count count_all(struct kh_vault *vault, const struct kh_holding *only,
			      struct kh_fair_share_place *places)
{
	struct count count = { .places = places };

	for (size_t i = 0; i < vault->config->n_credentials; i++)
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++)
			if (!only || only == &vault->slots[i].holdings[j])
				count_holding(&count, &vault->config->credentials[i],
					      &vault->slots[i].holdings[j]);
	return count;
}

static bool drop_from(struct kh_holding *holding, const struct kh_made *gone)
{
	for (struct kh_made **at = &holding->made; *at; at = &(*at)->next)
		if (*at == gone) {
			struct kh_made *made = *at;
			*at = made->next;
			holding->n_made--;
			holding->made_told |= made->item.told;
			kh_item_fini(&made->item);
			free(made);
			return true;
		}
	return false;
}

static void drop(struct kh_vault *vault, const struct kh_made *gone)
{
	for (size_t i = 0; i < vault->config->n_credentials; i++)
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++)
			if (drop_from(&vault->slots[i].holdings[j], gone))
				return;
}

/* One place of `only` (NULL: of any). Return: false: the newcomer has its share, all that might go
 * is waited for, or there is no memory. */
static bool give_up_one(struct kh_vault *vault, const struct kh_holding *only, size_t n,
			const struct kh_fair_share_asker *newcomer)
{
	kh_auto_free struct kh_fair_share_place *places = calloc(n, sizeof(*places));

	if (!places)
		return false;
	(void)count_all(vault, only, places);
	struct kh_fair_share_place *place =
		kh_fair_share_pick(places, n, newcomer->tenant, newcomer->number);
	if (place)
		drop(vault, place->at);
	return place != NULL;
}

/* Return: there is room for one more scope. */
static bool make_room(struct kh_vault *vault, const struct kh_credential_config *credential,
		      const struct kh_holding *holding, const struct kh_fair_share_asker *newcomer)
{
	const size_t most = kh_secret_scoped_most_bytes();

	kh_scopes_reap(vault);
	for (;;) {
		struct count own = count_all(vault, holding, NULL);
		struct count all = count_all(vault, NULL, NULL);
		bool crowded = own.n >= KH_LIMIT_SCOPES;
		if (!crowded && all.bytes + cost_of(credential, holding, NULL) <= most)
			return true;
		if (all.n == 0 || !give_up_one(vault, crowded ? holding : NULL,
					       crowded ? own.n : all.n, newcomer))
			return false;
	}
}

struct kh_made *kh_scopes_find(const struct kh_holding *holding, struct kh_slice scope)
{
	struct kh_made *made = holding->made;

	while (made && !kh_slice_eq(kh_slice_of(made->scope, made->scope_len), scope))
		made = made->next;
	return made;
}

struct kh_made *kh_scopes_get(struct kh_vault *vault, const struct kh_credential_ref *ref,
			      const struct kh_fair_share_asker *asker, struct kh_holding *holding)
{
	struct kh_made *made = kh_scopes_find(holding, ref->scope);

	if (!made) {
		if (ref->scope.len > 0 &&
		    !make_room(vault, &vault->config->credentials[ref->index], holding, asker))
			return NULL;
		made = calloc(1, sizeof(*made) + ref->scope.len);
		if (!made)
			return NULL;
		made->scope_len = ref->scope.len;
		if (ref->scope.len > 0)
			memcpy(made->scope, ref->scope.ptr, ref->scope.len);
		made->next = holding->made;
		holding->made = made;
		holding->n_made++;
	}
	made->last_use = ++vault->uses;
	made->last_use_ms = kh_clock_mono_ms();
	made->asker = *asker;
	return made;
}

/* ---- how often ---- */

/* When the next one is due, with `n` sandboxes that share the rate; 0: it is too early. As in the
 * worker (values.c), whose questions may come closer together than it asked them: so with room for
 * twice as many at once. */
static uint64_t next_turn(uint64_t next_us, size_t n)
{
	static const uint64_t each_us = 1000000 / KH_LIMIT_SCOPE_QUESTIONS_PER_SECOND,
			      ahead_us = 2 * KH_LIMIT_SCOPE_QUESTIONS_BURST * each_us;
	uint64_t now = kh_clock_mono_ms() * 1000;
	uint64_t next = (next_us > now ? next_us : now) + each_us / n;

	return next > now + ahead_us ? 0 : next;
}

/* It is used up until then, in microseconds of the monotonic clock. Return: NULL without memory. */
static uint64_t *pace_of(struct kh_vault *vault, const struct kh_fair_share_asker *whose)
{
	char bytes[sizeof(whose->number) + sizeof(whose->tenant)];
	const struct kh_slice key = kh_slice_of(bytes, sizeof(bytes));
	uint64_t *next_us;

	memcpy(bytes, &whose->number, sizeof(whose->number));
	memcpy(bytes + sizeof(whose->number), &whose->tenant, sizeof(whose->tenant));
	next_us = kh_lru_get(vault->paces, key);
	if (next_us)
		return next_us;
	next_us = calloc(1, sizeof(*next_us));
	if (next_us && kh_lru_put(vault->paces, key, next_us))
		return next_us;
	free(next_us);
	return NULL;
}

bool kh_scopes_take_turn(struct kh_vault *vault, const struct kh_fair_share_asker *asker)
{
	/* No sandbox has that number. */
	const struct kh_fair_share_asker all = { UINT64_MAX, asker->tenant };
	size_t n = vault->sandboxes ? vault->sandboxes(vault->arg, asker->tenant) : 0;

	if (n < KH_LIMIT_SCOPE_SANDBOXES_LEAST)
		n = KH_LIMIT_SCOPE_SANDBOXES_LEAST;
	if (!vault->paces && !(vault->paces = kh_lru_new(KH_LIMIT_SCOPE_ASKERS, free)))
		return false;
	/* The tenant's is used each time, so that it is never the one that is dropped. */
	uint64_t *own_us = pace_of(vault, asker), *tenants_us = pace_of(vault, &all);
	uint64_t own = own_us ? next_turn(*own_us, 1) : 0;
	uint64_t tenants = tenants_us ? next_turn(*tenants_us, n) : 0;
	if (!own || !tenants)
		return false;
	*own_us = own;
	*tenants_us = tenants;
	return true;
}

/* ---- what costs nothing to make again ---- */

/* Whoever is answered just now may walk these entries: only the pages are given back at once. */
static bool relieve_holding(struct kh_vault *vault, struct kh_holding *holding)
{
	bool any = false;

	for (struct kh_made *made = holding->made; made; made = made->next) {
		struct kh_item *item = &made->item;
		if (made->scope_len == 0 || item->asked || item->job ||
		    (item->secret && kh_secret_is_shared(item->secret)))
			continue;
		any |= item->secret != NULL;
		kh_secret_unref(item->secret);
		item->secret = NULL;
		holding->made_told |= item->told;
		item->used = item->told = false;
		item->due_ms = 0;
		made->relieved = vault->relieved = true;
	}
	return any;
}

bool kh_scopes_relieve(struct kh_vault *vault)
{
	bool any = false;

	for (size_t i = 0; vault->slots && i < vault->config->n_credentials; i++)
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++)
			if (kh_derives(&vault->config->credentials[i]))
				any |= relieve_holding(vault, &vault->slots[i].holdings[j]);
	return any;
}

static void reap_holding(struct kh_holding *holding)
{
	struct kh_made *next;

	for (struct kh_made *made = holding->made; made; made = next) {
		next = made->next;
		bool idle = !made->item.secret && !made->item.asked && !made->item.job;
		if (made->relieved && idle)
			(void)drop_from(holding, made);
		else
			made->relieved = false;
	}
}

void kh_scopes_reap(struct kh_vault *vault)
{
	for (size_t i = 0; vault->relieved && vault->slots && i < vault->config->n_credentials; i++)
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++)
			reap_holding(&vault->slots[i].holdings[j]);
	vault->relieved = false;
}

void kh_scopes_forget_askers(struct kh_vault *vault)
{
	kh_lru_free(vault->paces);
	vault->paces = NULL;
}
