/*
 * known_secrets.c - the list of all secrets that the keeper holds or recently held: requests are
 * searched for them
 *
 * Code that takes or drops a secret does not report it here. The list is collected each time from
 * all places that hold secrets (tests/build/test_known_secrets.py finds a missing place). A secret
 * that was in the list and is no longer held becomes a former one. A former token is kept until it
 * expires. keyhole can't know when an old value of a file or command becomes invalid, so some of
 * these are kept as long as the process runs.
 */
#include "mint_internal.h"

#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

struct gathering {
	struct kh_vault *vault;
	uint16_t index, tenant; /* whose it is that is noted */
	struct kh_known_secret *list;
	size_t n;
	size_t cursor; /* in the list before: it was in the same order, mostly */
	bool ok;
};

static struct kh_known_secret *add(struct gathering *g, struct kh_secret *secret)
{
	struct kh_known_secret *more = reallocarray(g->list, g->n + 1, sizeof(*more));

	g->ok = g->ok && more;
	if (!more)
		return NULL;
	g->list = more;
	more[g->n] = (struct kh_known_secret){ .secret = kh_secret_ref(secret) };
	return &more[g->n++];
}

static struct kh_known_secret *find_before(struct gathering *g, const struct kh_secret *secret)
{
	size_t n = g->vault->n_known;

	for (size_t i = 0; i < n; i++) {
		size_t at = (g->cursor + i) % n;
		if (g->vault->known[at].secret != secret)
			continue;
		g->cursor = at + 1;
		return &g->vault->known[at];
	}
	return NULL;
}

/* The token of a listener is the sandbox's own to send. */
static bool is_sandboxs_own(const struct gathering *g)
{
	return g->index != KH_KNOWN_NOBODYS && g->vault->config->credentials[g->index].of_listener;
}

/* `expires_ms`: wall clock; 0: its end is not known. Return: NULL: it is not looked for. */
static struct kh_known_secret *note(struct gathering *g, struct kh_secret *secret,
				    uint64_t expires_ms)
{
	struct kh_known_secret *known = secret && !is_sandboxs_own(g) ? add(g, secret) : NULL;

	if (!known)
		return NULL;
	struct kh_known_secret *before = find_before(g, secret);
	known->expires_ms = expires_ms;
	known->index = g->index;
	known->tenant = g->tenant;
	known->is_new = !before || before->former;
	if (before)
		before->held = true;
	return known;
}

/* ---- the places ---- */

static void note_holding(struct gathering *g, struct kh_holding *holding)
{
	const struct kh_credential_config *credential = &g->vault->config->credentials[g->index];

	g->ok = kh_rotation_look(credential->mint, holding) && g->ok;
	(void)note(g, holding->raw.secret, 0);
	(void)note(g, holding->client_secret, 0);
	(void)note(g, holding->refresh_token, 0);
	/* A key that is computed of the value looks like no text, and is never sent. */
	for (struct kh_made *made = holding->made; made && !kh_derives(credential);
	     made = made->next) {
		struct kh_known_secret *known = note(g, made->item.secret, made->item.expires_ms);
		if (!known)
			continue;
		known->made = true;
		known->scoped = made->scope_len > 0;
		known->asker = made->asker.tenant;
	}
}

static bool passes_on(const struct kh_credential_config *credential, const char *name)
{
	const struct kh_source *source;

	for (size_t i = 0; (source = kh_source_of_credential(credential, i)); i++)
		for (size_t j = 0; source->exec && j < source->exec->n_environment; j++)
			if (strcmp(source->exec->environment[j], name) == 0)
				return true;
	return false;
}

/* A listener's, then any that is made of it, then one whose command gets it. KH_KNOWN_NOBODYS: no
 * longer in the configuration. */
static uint16_t owner_of_variable(const struct kh_config *config, const char *name)
{
	uint16_t owner = KH_KNOWN_NOBODYS;

	for (size_t i = config->n_credentials; i-- > 0;) {
		const struct kh_credential_config *credential = &config->credentials[i];
		bool is_own = kh_source_is_variable(credential, name);
		if (is_own && credential->of_listener)
			return (uint16_t)i;
		if (is_own || (owner == KH_KNOWN_NOBODYS && passes_on(credential, name)))
			owner = (uint16_t)i;
	}
	return owner;
}

static bool is_noted(const struct gathering *g, const struct kh_secret *secret)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->list[i].secret == secret)
			return true;
	return false;
}

static void note_variable(struct gathering *g, const struct kh_variable *variable)
{
	/* A credential's own is there already. */
	if (is_noted(g, variable->secret))
		return;
	g->index = owner_of_variable(g->vault->config, variable->name);
	g->tenant = KH_NO_TENANT;
	struct kh_known_secret *known = note(g, variable->secret, 0);
	if (known)
		known->variable = true;
}

static void note_all(struct gathering *g)
{
	struct kh_vault *vault = g->vault;

	for (size_t i = 0; vault->slots && i < vault->config->n_credentials; i++)
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++) {
			g->index = (uint16_t)i;
			g->tenant = vault->slots[i].holdings[j].tenant;
			note_holding(g, &vault->slots[i].holdings[j]);
		}
	for (size_t i = 0; i < vault->n_variables; i++)
		note_variable(g, &vault->variables[i]);
}

/* ---- former ones ---- */

static bool same_owner(const struct kh_known_secret *a, const struct kh_known_secret *b)
{
	return a->index == b->index && a->tenant == b->tenant;
}

/* A file is read anew, and holds what it held. */
static bool is_held_again(const struct gathering *g, size_t n_held,
			  const struct kh_known_secret *before)
{
	for (size_t i = 0; i < n_held; i++)
		if (same_owner(&g->list[i], before) && (g->list[i].is_new || !before->former) &&
		    kh_secret_same(g->list[i].secret, before->secret))
			return true;
	return false;
}

static void note_former(struct gathering *g, size_t n_held, const struct kh_known_secret *before)
{
	uint64_t end_ms = before->expires_ms ? before->expires_ms + KH_LIMIT_FORMER_SECRET_MS : 0;

	if (before->held || (end_ms && end_ms < kh_clock_wall_ms()) ||
	    is_held_again(g, n_held, before))
		return;
	struct kh_known_secret *known = add(g, before->secret);
	if (!known)
		return;
	*known = *before;
	known->former = true;
}

static void note_former_of(struct gathering *g, size_t n_held, bool former)
{
	for (size_t i = 0; i < g->vault->n_known; i++)
		if (g->vault->known[i].former == former)
			note_former(g, n_held, &g->vault->known[i]);
}

/* Who chose that there is such a value. */
static uint16_t chooser_of(const struct kh_known_secret *known)
{
	return known->scoped ? known->asker : known->tenant;
}

static bool is_of_chooser(const struct kh_known_secret *known, const struct kh_known_secret *like)
{
	return chooser_of(known) == chooser_of(like);
}

/* One that has the same as `like`: what ends first, else the oldest. Return: the bytes that it
 * locked. */
static size_t drop_one(struct gathering *g, size_t n_held, const struct kh_known_secret *like,
		       bool (*has)(const struct kh_known_secret *known,
				   const struct kh_known_secret *like))
{
	size_t victim = g->n;

	for (size_t i = n_held; i < g->n; i++) {
		uint64_t end_ms = g->list[i].expires_ms;
		if (!has(&g->list[i], like))
			continue;
		if (victim == g->n || (end_ms && (!g->list[victim].expires_ms ||
						  end_ms < g->list[victim].expires_ms)))
			victim = i;
	}
	size_t bytes = kh_secret_locked_bytes(g->list[victim].secret);
	kh_secret_unref(g->list[victim].secret);
	memmove(&g->list[victim], &g->list[victim + 1],
		(--g->n - victim) * sizeof(g->list[victim]));
	return bytes;
}

/* How much each tenant's former values lock. */
struct weights {
	size_t all, of[UINT16_MAX + 1];
};

static void weigh(struct weights *weights, const struct gathering *g, size_t n_held)
{
	for (size_t i = n_held; i < g->n; i++) {
		size_t bytes = kh_secret_locked_bytes(g->list[i].secret);
		weights->of[chooser_of(&g->list[i])] += bytes;
		weights->all += bytes;
	}
}

/* One value of the tenant whose values take the most. */
static const struct kh_known_secret *of_heaviest(const struct gathering *g, size_t n_held,
						 const struct weights *weights)
{
	const struct kh_known_secret *heaviest = &g->list[n_held];

	for (size_t i = n_held; i < g->n; i++)
		if (weights->of[chooser_of(&g->list[i])] > weights->of[chooser_of(heaviest)])
			heaviest = &g->list[i];
	return heaviest;
}

/* No tenant's values push out those of one that has less. */
static void bound_all_former(struct gathering *g, size_t n_held)
{
	size_t most_bytes = kh_secret_scoped_most_bytes() / 2;
	struct weights *weights = calloc(1, sizeof(*weights));

	g->ok = g->ok && weights;
	if (g->ok)
		weigh(weights, g, n_held);
	while (g->ok && g->n > n_held &&
	       (g->n - n_held > KH_LIMIT_FORMER_SECRETS_ALL || weights->all > most_bytes)) {
		const struct kh_known_secret like = *of_heaviest(g, n_held, weights);
		size_t bytes = drop_one(g, n_held, &like, is_of_chooser);
		weights->of[chooser_of(&like)] -= bytes;
		weights->all -= bytes;
	}
	free(weights);
}

static void bound_former(struct gathering *g, size_t n_held)
{
	for (size_t i = n_held; i < g->n; i++) {
		const struct kh_known_secret like = g->list[i];
		size_t others = 0;
		for (size_t j = n_held; j < i; j++)
			others += same_owner(&g->list[j], &like);
		if (others < KH_LIMIT_FORMER_SECRETS)
			continue;
		(void)drop_one(g, n_held, &like, same_owner);
		i--;
	}
	bound_all_former(g, n_held);
}

static void free_list(struct kh_known_secret *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		kh_secret_unref(list[i].secret);
	free(list);
}

static bool gather(struct kh_vault *vault)
{
	struct gathering g = { .vault = vault, .ok = true };

	for (size_t i = 0; i < vault->n_known; i++)
		vault->known[i].held = false;
	note_all(&g);
	size_t n_held = g.n;
	note_former_of(&g, n_held, true); /* the oldest first */
	note_former_of(&g, n_held, false);
	bound_former(&g, n_held);
	if (!g.ok) {
		free_list(g.list, g.n);
		return false;
	}
	free_list(vault->known, vault->n_known);
	vault->known = g.list;
	vault->n_known = g.n;
	return true;
}

/* ---- in which order ---- */

/* There is room for so many in what the worker is told, and the first come first. What nobody but
 * the operator decides on comes before what sandboxes have made, as many as they like. Of that each
 * tenant's first comes before any tenant's second. */
struct turn {
	const struct kh_known_secret *known;
	unsigned rank;
	size_t round, at;
};

static unsigned rank_of(const struct kh_known_secret *known)
{
	enum { GIVEN, MADE, FORMER, CHOSEN };

	return known->scoped ? CHOSEN : known->former ? FORMER : known->made ? MADE : GIVEN;
}

static int compare(const void *one, const void *other)
{
	const struct turn *a = one, *b = other;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->round != b->round)
		return a->round < b->round ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

/* `counts`: one for each tenant, and one for all others. */
static void put_in_order(struct kh_vault *vault, struct turn *turns, size_t *counts)
{
	for (size_t i = 0; i < vault->n_known; i++) {
		const struct kh_known_secret *known = &vault->known[i];
		size_t tenant = known->asker < vault->config->n_tenants ? known->asker
									: vault->config->n_tenants;
		turns[i] = (struct turn){ .known = known, .rank = rank_of(known), .at = i };
		if (known->scoped)
			turns[i].round = counts[tenant]++;
	}
	qsort(turns, vault->n_known, sizeof(*turns), compare);
}

static void use_all(const struct kh_vault *vault, const struct turn *turns,
		    void (*use)(const struct kh_known_secret *known, void *arg),
		    bool (*again)(void *arg), void *arg)
{
	do {
		for (size_t i = 0; i < vault->n_known; i++)
			use(turns[i].known, arg);
	} while (again && again(arg));
}

bool kh_known_secrets_each(struct kh_vault *vault,
			   void (*use)(const struct kh_known_secret *known, void *arg),
			   bool (*again)(void *arg), void *arg)
{
	if (!gather(vault))
		return false;
	struct turn *turns = calloc(vault->n_known + 1, sizeof(*turns));
	size_t *counts = calloc(vault->config->n_tenants + 1, sizeof(*counts));
	bool ok = turns && counts;
	if (ok)
		put_in_order(vault, turns, counts);
	free(counts);
	if (ok)
		use_all(vault, turns, use, again, arg);
	free(turns);
	return ok;
}

/* ---- another configuration ---- */

static uint16_t index_of(const struct kh_config *config, const char *name)
{
	for (size_t i = 0; i < config->n_credentials; i++)
		if (strcmp(config->credentials[i].name, name) == 0)
			return (uint16_t)i;
	return KH_KNOWN_NOBODYS;
}

static uint16_t tenant_of(const struct kh_config *config, const char *name)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (strcmp(config->tenants[i].name, name) == 0)
			return (uint16_t)i;
	return KH_NO_TENANT;
}

void kh_known_secrets_hand_on(struct kh_vault *next, struct kh_vault *now)
{
	for (size_t i = 0; i < now->n_known; i++) {
		struct kh_known_secret *known = &now->known[i];
		if (known->index != KH_KNOWN_NOBODYS)
			known->index =
				index_of(next->config, now->config->credentials[known->index].name);
		if (known->asker < now->config->n_tenants)
			known->asker =
				tenant_of(next->config, now->config->tenants[known->asker].name);
		if (known->tenant != KH_NO_TENANT)
			known->tenant =
				tenant_of(next->config, now->config->tenants[known->tenant].name);
	}
	next->known = kh_steal_ptr(&now->known);
	next->n_known = now->n_known;
	now->n_known = 0;
}

void kh_known_secrets_fini(struct kh_vault *vault)
{
	free_list(vault->known, vault->n_known);
	vault->known = NULL;
	vault->n_known = 0;
}
