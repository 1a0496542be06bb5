/*
 * values_list.c - the lists of credential values in the worker: find, add, evict
 *
 * There is one list per credential. A value with a scope takes a locked page, and sandboxes choose
 * scopes. So there is a bound per credential and one for all together
 * (kh_secret_scoped_most_bytes). fair_share.h decides which value is evicted: shares are divided
 * among tenants first.
 */
#include "values_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

bool kh_values_is_for(const struct kh_credential_value *value, const struct kh_credential_ref *ref,
		      uint16_t tenant)
{
	return value->tenant == tenant &&
	       kh_slice_eq(kh_slice_of(value->scope, value->scope_len), ref->scope);
}

struct kh_credential_value **kh_values_find(struct kh_credential_slot *slot,
					    const struct kh_credential_ref *ref, uint16_t tenant)
{
	struct kh_credential_value **at = &slot->values;
	while (*at && !kh_values_is_for(*at, ref, tenant))
		at = &(*at)->next;
	return at;
}

static void free_value(struct kh_credential_value *value)
{
	kh_secret_unref(value->secret);
	free(value->why);
	free(value);
}

void kh_values_remove_at(struct kh_credential_slot *slot, struct kh_credential_value **at)
{
	struct kh_credential_value *gone = *at;
	*at = gone->next;
	slot->n_values--;
	free_value(gone);
}

static uint64_t owner_of(const struct kh_credential_value *value)
{
	bool idle = kh_clock_mono_ms() - value->used_ms > KH_FAIR_SHARE_IDLE_MS;
	bool ended = value->state == KH_SLOT_FULL && value->expires_ms &&
		     kh_clock_wall_ms() >= value->expires_ms;
	return idle || ended ? KH_FAIR_SHARE_NOBODY : value->asker.number;
}

/* What has a scope. */
struct count {
	struct kh_fair_share_place *places; /* NULL: it is only counted */
	const struct kh_credential_value *stays;
	size_t n, bytes;
};

static void count_slot(struct count *count, const struct kh_credential_slot *slot)
{
	for (struct kh_credential_value *v = slot->values; v; v = v->next) {
		if (v->scope_len == 0)
			continue;
		if (count->places)
			count->places[count->n] = (struct kh_fair_share_place){
				.tenant = v->asker.tenant,
				.whose = owner_of(v),
				.used = v->used,
				.fixed = v->state == KH_SLOT_ASKED || v == count->stays,
				.at = v,
			};
		count->n++;
		count->bytes += kh_secret_locked_bytes(v->secret);
	}
}

/* `only` NULL: of all credentials. */
static void count_all(struct count *count, const struct kh_generation *g,
		      const struct kh_credential_slot *only)
{
	count->n = count->bytes = 0;
	for (size_t i = 0; g->slots && i < g->config->n_credentials; i++)
		if (!only || only == &g->slots[i])
			count_slot(count, &g->slots[i]);
}

static void drop(struct kh_generation *g, const struct kh_credential_value *gone)
{
	for (size_t i = 0; i < g->config->n_credentials; i++)
		for (struct kh_credential_value **at = &g->slots[i].values; *at; at = &(*at)->next)
			if (*at == gone) {
				kh_values_remove_at(&g->slots[i], at);
				return;
			}
}

/* Return: false: the newcomer has its share, all that might go is waited for, or there is no
 * memory. */
static bool give_up_one(struct kh_generation *g, const struct kh_credential_slot *only, size_t n,
			const struct kh_fair_share_asker *newcomer,
			const struct kh_credential_value *stays)
{
	struct count count = { .stays = stays };
	struct kh_fair_share_place *place = NULL;

	if (n > 0)
		count.places = calloc(n, sizeof(*count.places));
	if (count.places) {
		count_all(&count, g, only);
		place = kh_fair_share_pick(count.places, count.n, newcomer->tenant,
					   newcomer->number);
	}
	if (place)
		drop(g, place->at);
	free(count.places);
	return place != NULL;
}

/* Return: there is room for one more scope. */
static bool make_room(struct kh_generation *g, const struct kh_credential_slot *slot,
		      const struct kh_fair_share_asker *newcomer)
{
	const size_t most = kh_secret_scoped_most_bytes(), page = kh_secret_locked_bytes(NULL);

	for (;;) {
		struct count own = { 0 }, all = { 0 };
		count_all(&own, g, slot);
		count_all(&all, g, NULL);
		bool crowded = own.n >= KH_LIMIT_SCOPES;
		if (!crowded && all.bytes + page <= most)
			return true;
		if (!give_up_one(g, crowded ? slot : NULL, crowded ? own.n : all.n, newcomer, NULL))
			return false;
	}
}

void kh_values_bound(struct kh_generation *g, const struct kh_credential_value *newcomer)
{
	struct count all = { 0 };

	if (newcomer->scope_len == 0)
		return;
	do
		count_all(&all, g, NULL);
	while (all.bytes > kh_secret_scoped_most_bytes() &&
	       give_up_one(g, NULL, all.n, &newcomer->asker, newcomer));
}

struct kh_credential_value *kh_values_make(struct kh_generation *g,
					   const struct kh_credential_ref *ref, uint16_t tenant,
					   const struct kh_fair_share_asker *asker)
{
	struct kh_credential_slot *slot = &g->slots[ref->index];
	if (ref->scope.len > 0 && !make_room(g, slot, asker))
		return NULL;
	struct kh_credential_value *value = calloc(1, sizeof(*value) + ref->scope.len);
	if (!value)
		return NULL;
	value->tenant = tenant;
	value->scope_len = ref->scope.len;
	if (ref->scope.len > 0)
		memcpy(value->scope, ref->scope.ptr, ref->scope.len);
	value->next = slot->values;
	slot->values = value;
	slot->n_values++;
	return value;
}
