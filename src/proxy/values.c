/*
 * values.c - credential values in the worker: asked of the keeper once, kept while they are good
 *
 * One list a credential, under the generation's lock: a value for each tenant and scope that was
 * asked for. Most credentials have one. Nothing is sent with the lock held (asks.c says why). The
 * keeper answers each question, when it knows; a sandbox chooses scopes, so their number is capped,
 * and what has not been used for longest goes first.
 */
#include "values.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/escape.h>
#include <keyhole/limits.h>
#include <keyhole/log.h>

enum {
	ASK_AGAIN_MS = 1000,
	/* So long before its end a value is asked for anew; of a short-lived one, a fifth of what
	   is left when it comes. */
	AHEAD_MS = 60 * 1000,
};

struct kh_credential_value {
	struct kh_credential_value *next;
	enum kh_slot_state state;
	struct kh_secret *secret; /* FULL */
	bool asked;		  /* FULL: for the next one */
	uint64_t expires_ms;	  /* FULL: wall clock; 0: never */
	uint64_t ahead_ms;	  /* FULL: wall clock: when it is asked for anew; 0: never */
	uint64_t asked_ms;	  /* monotonic, of the answer that brought none */
	uint64_t used;		  /* the list's counter */
	char *why;		  /* MISSING */
	uint16_t tenant;
	size_t scope_len;
	char scope[];
};

static uint16_t tenant_of(const struct kh_generation *g, const struct kh_want *want)
{
	return g->config->credentials[want->index].by_tenant ? want->tenant : KH_NO_TENANT;
}

/* Where the pointer to it stands; the end of the list when it is not there. */
static struct kh_credential_value **find(struct kh_credential_slot *slot,
					 const struct kh_want *want, uint16_t tenant)
{
	struct kh_credential_value **at = &slot->values;
	while (*at && ((*at)->tenant != tenant ||
		       !kh_slice_eq(kh_slice_of((*at)->scope, (*at)->scope_len), want->scope)))
		at = &(*at)->next;
	return at;
}

static void free_value(struct kh_credential_value *value)
{
	kh_secret_unref(value->secret);
	free(value->why);
	free(value);
}

static void remove_at(struct kh_credential_slot *slot, struct kh_credential_value **at)
{
	struct kh_credential_value *gone = *at;
	*at = gone->next;
	slot->n_values--;
	free_value(gone);
}

/* Nobody waits for one that is FULL or MISSING. Return: false when there is none such. */
static bool drop_oldest(struct kh_credential_slot *slot)
{
	struct kh_credential_value **oldest = NULL;
	for (struct kh_credential_value **at = &slot->values; *at; at = &(*at)->next)
		if ((*at)->state != KH_SLOT_ASKED && (!oldest || (*at)->used < (*oldest)->used))
			oldest = at;
	if (oldest)
		remove_at(slot, oldest);
	return oldest != NULL;
}

/* Return: NULL: too many are asked for at a time, or there is no memory. */
static struct kh_credential_value *find_or_make(struct kh_credential_slot *slot,
						const struct kh_want *want, uint16_t tenant)
{
	struct kh_credential_value **at = find(slot, want, tenant);
	if (!*at) {
		/* Tenants are the configuration's; only scopes are a sandbox's. */
		if (want->scope.len > 0 && slot->n_values >= KH_LIMIT_SCOPES && !drop_oldest(slot))
			return NULL;
		struct kh_credential_value *value = calloc(1, sizeof(*value) + want->scope.len);
		if (!value)
			return NULL;
		value->tenant = tenant;
		value->scope_len = want->scope.len;
		if (want->scope.len > 0)
			memcpy(value->scope, want->scope.ptr, want->scope.len);
		value->next = slot->values;
		slot->values = value;
		slot->n_values++;
		at = &slot->values;
	}
	(*at)->used = ++slot->uses;
	return *at;
}

static void empty(struct kh_credential_value *value)
{
	kh_secret_unref(value->secret);
	value->secret = NULL;
	value->asked = false;
	value->expires_ms = value->ahead_ms = 0;
	if (value->state == KH_SLOT_FULL)
		value->state = KH_SLOT_EMPTY;
}

static void miss(struct kh_credential_value *value, const char *why)
{
	empty(value);
	free(value->why);
	value->why = why ? strdup(why) : NULL;
	value->state = KH_SLOT_MISSING;
	value->asked_ms = kh_clock_mono_ms();
}

static void fill(struct kh_credential_value *value, struct kh_secret *secret, uint64_t expires_ms)
{
	uint64_t now = kh_clock_wall_ms();
	uint64_t left = expires_ms > now ? expires_ms - now : 0;
	empty(value);
	free(value->why);
	value->why = NULL;
	value->state = KH_SLOT_FULL;
	value->secret = secret;
	value->expires_ms = expires_ms;
	value->ahead_ms = expires_ms ? expires_ms - (left / 5 < AHEAD_MS ? left / 5 : AHEAD_MS) : 0;
}

static bool is_due(const struct kh_credential_value *value)
{
	uint64_t pause = kh_clock_mono_ms() - value->asked_ms;
	switch (value->state) {
	case KH_SLOT_EMPTY:
		return true;
	case KH_SLOT_MISSING:
		return pause >= ASK_AGAIN_MS;
	case KH_SLOT_FULL:
		return value->ahead_ms && !value->asked && pause >= ASK_AGAIN_MS &&
		       kh_clock_wall_ms() >= value->ahead_ms;
	case KH_SLOT_ASKED:
		break;
	}
	return false;
}

/* Under the lock. Return: the keeper is to be asked. */
static bool look(struct kh_credential_value *value)
{
	if (value->state == KH_SLOT_FULL && value->expires_ms &&
	    kh_clock_wall_ms() >= value->expires_ms) {
		bool asked = value->asked;
		empty(value);
		if (asked)
			value->state = KH_SLOT_ASKED;
	}
	if (!is_due(value))
		return false;
	if (value->state == KH_SLOT_FULL)
		value->asked = true;
	else
		value->state = KH_SLOT_ASKED;
	return true;
}

static enum kh_slot_state too_many(const struct kh_generation *g, const struct kh_want *want,
				   struct kh_err *err)
{
	kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
		   "too many values of the credential %s are asked for at a time",
		   g->config->credentials[want->index].name);
	return KH_SLOT_MISSING;
}

static void say_missing(const struct kh_generation *g, const struct kh_want *want, const char *why,
			struct kh_err *err)
{
	if (why)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s", why);
	else
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the credential %s has no value on the host",
			   g->config->credentials[want->index].name);
}

/* Return: the keeper knows of it. */
static bool ask(struct kh_worker *worker, struct kh_generation *g, const struct kh_want *want)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(*want) + KH_LIMIT_SCOPE_BYTES);
	struct kh_err err = KH_ERR_INIT;
	if (kh_want_put(&body, want) &&
	    kh_channel_send(&worker->channel, KH_CHANNEL_CREDENTIAL_WANT, g->number,
			    kh_buf_view(&body), NULL, 0, &err))
		return true;
	kh_log_warn("asking for a credential: %s", err.text);
	pthread_mutex_lock(&g->lock);
	struct kh_credential_value *value = *find(&g->slots[want->index], want, want->tenant);
	if (value && value->state == KH_SLOT_ASKED)
		miss(value, NULL);
	else if (value)
		value->asked = false;
	pthread_mutex_unlock(&g->lock);
	return false;
}

enum kh_slot_state kh_worker_secret(struct kh_worker *worker, struct kh_generation *g,
				    const struct kh_want *want, struct kh_secret **out,
				    struct kh_err *err)
{
	*out = NULL;
	if (want->index >= g->config->n_credentials || !kh_scope_is_good(want->scope)) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "there is no such credential");
		return KH_SLOT_MISSING;
	}
	const struct kh_want asked = { want->index, tenant_of(g, want), want->scope };
	pthread_mutex_lock(&g->lock);
	struct kh_credential_value *value =
		find_or_make(&g->slots[asked.index], &asked, asked.tenant);
	if (!value) {
		pthread_mutex_unlock(&g->lock);
		return too_many(g, want, err);
	}
	bool due = look(value);
	enum kh_slot_state state = value->state;
	if (state == KH_SLOT_FULL)
		*out = kh_secret_ref(value->secret);
	else if (state == KH_SLOT_MISSING)
		say_missing(g, want, value->why, err);
	pthread_mutex_unlock(&g->lock);
	/* The answer may be there before this returns; then its mail is on its way, and ASKED is
	 * right all the same. */
	if (due && !ask(worker, g, &asked) && state == KH_SLOT_ASKED) {
		say_missing(g, want, NULL, err);
		return KH_SLOT_MISSING;
	}
	return state;
}

static void tell_loops(struct kh_worker *worker, const struct kh_generation *g, uint16_t index)
{
	for (unsigned i = 0; i < worker->n_loops; i++)
		kh_loop_post_credential(worker->loops[i], g->number, index);
}

/* Takes the secret over. What is still good stays while no other comes. */
static void settle(struct kh_generation *g, const struct kh_want *want, struct kh_secret *secret,
		   uint64_t expires_ms, const char *why)
{
	pthread_mutex_lock(&g->lock);
	struct kh_credential_value *value = *find(&g->slots[want->index], want, want->tenant);
	bool stays = value && value->state == KH_SLOT_FULL;
	if (value && secret) {
		fill(value, kh_secret_ref(secret), expires_ms);
	} else if (stays) {
		value->asked = false;
		value->asked_ms = kh_clock_mono_ms();
	} else if (value) {
		miss(value, why);
	}
	pthread_mutex_unlock(&g->lock);
	kh_secret_unref(secret);
}

bool kh_values_came(struct kh_worker *worker, struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_want want;
	if (!kh_want_take(&r, &want))
		return false;
	uint32_t len = kh_wire_u32(&r);
	uint64_t expires_ms = kh_wire_u64(&r);
	kh_auto_free char *why = kh_wire_str(&r);
	struct kh_generation *g = worker->current;
	if (!kh_wire_done(&r) || message->n_fds != (len > 0 ? 1U : 0U))
		return false;
	/* Asked before a reload: who waited for it has been decided anew since. */
	if (message->ref != g->number)
		return true;
	if (want.index >= g->config->n_credentials)
		return false;

	struct kh_err err = KH_ERR_INIT;
	struct kh_secret *secret = NULL;
	if (len > 0)
		secret = kh_secret_from_fd(kh_steal_fd(&message->fds[0]), len, &err);
	if (len > 0 && !secret)
		kh_log_error("credential %s: %s", g->config->credentials[want.index].name,
			     err.text);
	settle(g, &want, secret, expires_ms, why);
	tell_loops(worker, g, want.index);
	return true;
}

bool kh_values_stale(struct kh_worker *worker, const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint16_t index = kh_wire_u16(&r);
	struct kh_generation *g = worker->current;
	if (!kh_wire_done(&r) || message->n_fds != 0)
		return false;
	if (message->ref != g->number)
		return true;
	if (index >= g->config->n_credentials)
		return false;
	struct kh_credential_slot *slot = &g->slots[index];
	pthread_mutex_lock(&g->lock);
	/* Those that were asked for are answered with what is new. */
	for (struct kh_credential_value **at = &slot->values; *at;) {
		if ((*at)->state == KH_SLOT_ASKED || (*at)->asked) {
			at = &(*at)->next;
		} else {
			remove_at(slot, at);
		}
	}
	pthread_mutex_unlock(&g->lock);
	tell_loops(worker, g, index);
	return true;
}

bool kh_values_are_ready(struct kh_generation *g, size_t index)
{
	bool full = false, missing = false;
	pthread_mutex_lock(&g->lock);
	for (struct kh_credential_value *v = g->slots[index].values; v; v = v->next) {
		full |= v->state == KH_SLOT_FULL;
		missing |= v->state == KH_SLOT_MISSING;
	}
	pthread_mutex_unlock(&g->lock);
	return full || (!missing && g->config->credentials[index].present);
}

bool kh_values_put(struct kh_generation *g, const struct kh_want *want, struct kh_secret *secret,
		   uint64_t expires_ms)
{
	const struct kh_want whose = { want->index, tenant_of(g, want), want->scope };
	struct kh_credential_value *value =
		find_or_make(&g->slots[whose.index], &whose, whose.tenant);
	if (value)
		fill(value, secret, expires_ms);
	else
		kh_secret_unref(secret);
	return value != NULL;
}

void kh_values_free(struct kh_generation *g)
{
	for (size_t i = 0; g->slots && i < g->config->n_credentials; i++)
		while (g->slots[i].values)
			remove_at(&g->slots[i], &g->slots[i].values);
	free(g->slots);
	g->slots = NULL;
}
