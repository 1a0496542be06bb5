/*
 * values.c - credential values in the worker: requested from the keeper once, kept until they
 * expire
 *
 * There is one list per credential, protected by the generation's lock, with a value for each
 * tenant and scope that was asked for. Most credentials have one value. No message is sent with the
 * lock held (leaf_requests.c says why). The keeper answers each request, but maybe much later.
 *
 * Sandboxes choose scopes. So their number is capped (values_list.c), and a sandbox may have only a
 * few requests in progress, and make only a few per second. The configuration determines the values
 * without a scope, so these have no such bounds.
 */
#include "values_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/fair_share.h>
#include <keyhole/base/worker_messages.h>

enum {
	ASK_AGAIN_MS = 1000,
	/* So long before its end a value is asked for anew; of a short-lived one, a fifth of what
	   is left when it comes. */
	AHEAD_MS = 60 * 1000,
};

static uint16_t tenant_of(const struct kh_generation *g, const struct kh_credential_ref *ref)
{
	return g->config->credentials[ref->index].by_tenant ? ref->tenant : KH_NO_TENANT;
}

static bool is_asked_for(const struct kh_credential_value *value)
{
	return value->state == KH_SLOT_ASKED || value->asked;
}

static struct kh_fair_share_asker asker_of(const struct kh_credential_ref *ref,
					   const struct kh_listener_stats *asker)
{
	return (struct kh_fair_share_asker){ asker ? asker->number : KH_FAIR_SHARE_NOBODY,
					     ref->tenant };
}

static struct kh_credential_value *use(struct kh_generation *g, struct kh_credential_value *value,
				       const struct kh_fair_share_asker *asker)
{
	if (!value)
		return NULL;
	value->used = ++g->uses;
	value->used_ms = kh_clock_mono_ms();
	value->asker = *asker;
	return value;
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

/* It serves no more; the one that was asked for meanwhile is waited for. */
static void end_now(struct kh_credential_value *value)
{
	bool asked = value->asked;
	empty(value);
	if (asked)
		value->state = KH_SLOT_ASKED;
}

static void end_if_over(struct kh_credential_value *value)
{
	if (value->state == KH_SLOT_FULL && value->expires_ms &&
	    kh_clock_wall_ms() >= value->expires_ms)
		end_now(value);
}

/* A place behind the other in time, KH_LIMIT_SCOPE_QUESTIONS_BURST of them free at most. */
static bool takes_its_turn(struct kh_listener_stats *asker)
{
	enum { EACH_MS = 1000 / KH_LIMIT_SCOPE_QUESTIONS_PER_SECOND };
	uint64_t now = kh_clock_mono_ms(), next;
	uint64_t before = atomic_load(&asker->scope_questions_ms);
	do {
		next = (before > now ? before : now) + EACH_MS;
		if (next > now + (uint64_t)KH_LIMIT_SCOPE_QUESTIONS_BURST * EACH_MS)
			return false;
	} while (!atomic_compare_exchange_weak(&asker->scope_questions_ms, &before, next));
	return true;
}

/* May it ask for a scope now? Under the lock. */
static bool may_ask(const struct kh_credential_slot *slot, const struct kh_credential_ref *ref,
		    struct kh_listener_stats *asker)
{
	size_t waiting = 0;
	if (ref->scope.len == 0 || !asker)
		return true;
	for (const struct kh_credential_value *v = slot->values; v; v = v->next)
		waiting += v->scope_len > 0 && v->asker.number == asker->number && is_asked_for(v);
	return waiting < KH_LIMIT_SCOPES_ASKED && takes_its_turn(asker);
}

/* Under the lock. *due: the keeper is to be asked. Return: NULL: the asker has had its share, or
 * there is no memory. */
static struct kh_credential_value *look(struct kh_generation *g,
					const struct kh_credential_ref *ref,
					const struct kh_fair_share_asker *whose,
					struct kh_listener_stats *asker, bool *due)
{
	struct kh_credential_slot *slot = &g->slots[ref->index];
	struct kh_credential_value *value = *kh_values_find(slot, ref, ref->tenant);
	if (value)
		end_if_over(value);
	*due = (!value || is_due(value)) && may_ask(slot, ref, asker);
	/* One that is there, or known not to be, serves on as it is. */
	if (!*due && (!value || value->state == KH_SLOT_EMPTY))
		return NULL;
	value = use(g, value ? value : kh_values_make(g, ref, ref->tenant, whose), whose);
	if (!value || !*due)
		return value;
	if (value->state == KH_SLOT_FULL)
		value->asked = true;
	else
		value->state = KH_SLOT_ASKED;
	return value;
}

static enum kh_slot_state too_many(const struct kh_generation *g,
				   const struct kh_credential_ref *ref, struct kh_err *err)
{
	kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
		   "too many values of the credential %s are asked for at a time (wait for "
		   "those under way)",
		   g->config->credentials[ref->index].name);
	return KH_SLOT_MISSING;
}

static void say_missing(const struct kh_generation *g, const struct kh_credential_ref *ref,
			const char *why, struct kh_err *err)
{
	if (why)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s", why);
	else
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the credential %s has no value on the host",
			   g->config->credentials[ref->index].name);
}

/* What the keeper calls that sandbox. Whose listener went with a reload is nobody any more. */
static uint64_t told_number(const struct kh_generation *g, uint64_t number)
{
	if (number & KH_ASKER_DYNAMIC)
		return number;
	for (size_t i = 0; g->listener_stats_list && i < g->config->n_listeners; i++)
		if (g->listener_stats_list[i]->number == number)
			return i + 1;
	return KH_FAIR_SHARE_NOBODY;
}

/* Return: the keeper knows of it. */
static bool ask(struct kh_worker *worker, struct kh_generation *g,
		const struct kh_credential_ref *ref, const struct kh_fair_share_asker *asker)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(*ref) + sizeof(*asker) + KH_LIMIT_SCOPE_BYTES);
	struct kh_err err = KH_ERR_INIT;
	if (kh_credential_ref_put(&body, ref) &&
	    kh_wire_put_u64(&body, told_number(g, asker->number)) &&
	    kh_wire_put_u16(&body, asker->tenant) &&
	    kh_channel_send(&worker->channel, KH_WORKER_MSG_CREDENTIAL_REQUEST, g->number,
			    kh_buf_view(&body), NULL, 0, &err))
		return true;
	kh_log_warn("asking for a credential: %s", err.text);
	pthread_mutex_lock(&g->lock);
	struct kh_credential_value *value =
		*kh_values_find(&g->slots[ref->index], ref, ref->tenant);
	if (value && value->state == KH_SLOT_ASKED)
		miss(value, NULL);
	else if (value)
		value->asked = false;
	pthread_mutex_unlock(&g->lock);
	return false;
}

enum kh_slot_state kh_worker_secret(struct kh_worker *worker, struct kh_generation *g,
				    const struct kh_credential_ref *ref,
				    struct kh_listener_stats *asker, struct kh_secret **out,
				    struct kh_err *err)
{
	bool due;
	*out = NULL;
	if (ref->index >= g->config->n_credentials ||
	    !kh_credential_ref_scope_is_good(ref->scope)) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "there is no such credential");
		return KH_SLOT_MISSING;
	}
	const struct kh_credential_ref asked = { ref->index, tenant_of(g, ref), ref->scope };
	const struct kh_fair_share_asker whose = asker_of(ref, asker);
	pthread_mutex_lock(&g->lock);
	struct kh_credential_value *value = look(g, &asked, &whose, asker, &due);
	if (!value) {
		pthread_mutex_unlock(&g->lock);
		return too_many(g, ref, err);
	}
	enum kh_slot_state state = value->state;
	if (state == KH_SLOT_FULL)
		*out = kh_secret_ref(value->secret);
	else if (state == KH_SLOT_MISSING)
		say_missing(g, ref, value->why, err);
	pthread_mutex_unlock(&g->lock);
	/* The answer may be there before this returns; then its mail is on its way, and ASKED is
	 * right all the same. */
	if (due && !ask(worker, g, &asked, &whose) && state == KH_SLOT_ASKED) {
		say_missing(g, ref, NULL, err);
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
static void settle(struct kh_generation *g, const struct kh_credential_ref *ref,
		   struct kh_secret *secret, uint64_t expires_ms, const char *why)
{
	pthread_mutex_lock(&g->lock);
	struct kh_credential_value *value =
		*kh_values_find(&g->slots[ref->index], ref, ref->tenant);
	bool stays = value && value->state == KH_SLOT_FULL;
	if (value && secret) {
		fill(value, kh_secret_ref(secret), expires_ms);
		kh_values_bound(g, value);
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
	struct kh_credential_ref ref;
	if (!kh_credential_ref_take(&r, &ref))
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
	if (ref.index >= g->config->n_credentials)
		return false;

	struct kh_err err = KH_ERR_INIT;
	struct kh_secret *secret = NULL;
	if (len > 0)
		secret = kh_secret_from_fd(kh_steal_fd(&message->fds[0]), len, &err);
	if (len > 0 && !secret)
		kh_log_error("credential %s: %s", g->config->credentials[ref.index].name, err.text);
	settle(g, &ref, secret, expires_ms, why);
	tell_loops(worker, g, ref.index);
	return true;
}

/* Under the lock. Return: the keeper is to be told. */
static bool drop_refused(struct kh_credential_value *value, const struct kh_secret *token)
{
	uint64_t now = kh_clock_mono_ms();
	if (!value || value->state != KH_SLOT_FULL || value->secret != token ||
	    (value->refused_ms && now - value->refused_ms < KH_LIMIT_REFUSED_AGAIN_MS))
		return false;
	end_now(value);
	value->refused_ms = now;
	return true;
}

void kh_values_refused(struct kh_worker *worker, struct kh_generation *g,
		       const struct kh_credential_ref *ref, const struct kh_secret *token)
{
	if (ref->index >= g->config->n_credentials)
		return;
	const struct kh_credential_ref whose = { ref->index, tenant_of(g, ref), ref->scope };
	struct kh_err err = KH_ERR_INIT;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(whose) + KH_LIMIT_SCOPE_BYTES);
	pthread_mutex_lock(&g->lock);
	bool dropped =
		drop_refused(*kh_values_find(&g->slots[whose.index], &whose, whose.tenant), token);
	pthread_mutex_unlock(&g->lock);
	if (dropped && (!kh_credential_ref_put(&body, &whose) ||
			!kh_channel_send(&worker->channel, KH_WORKER_MSG_CREDENTIAL_REFUSED,
					 g->number, kh_buf_view(&body), NULL, 0, &err)))
		kh_log_warn("telling of a token that was refused: %s", err.text);
}

bool kh_values_stale(struct kh_worker *worker, const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint8_t whole = kh_wire_u8(&r);
	struct kh_credential_ref ref;
	struct kh_generation *g = worker->current;
	if (!kh_credential_ref_take(&r, &ref) || !kh_wire_done(&r) || whole > 1 ||
	    message->n_fds != 0)
		return false;
	if (message->ref != g->number)
		return true;
	if (ref.index >= g->config->n_credentials)
		return false;
	struct kh_credential_slot *slot = &g->slots[ref.index];
	pthread_mutex_lock(&g->lock);
	/* Those that were asked for are answered with what is new. */
	for (struct kh_credential_value **at = &slot->values; *at;) {
		bool is_meant = whole || kh_values_is_for(*at, &ref, ref.tenant);
		if (is_meant && !is_asked_for(*at)) {
			kh_values_remove_at(slot, at);
			continue;
		}
		if (is_meant && (*at)->state == KH_SLOT_FULL)
			end_now(*at);
		at = &(*at)->next;
	}
	pthread_mutex_unlock(&g->lock);
	tell_loops(worker, g, ref.index);
	return true;
}

bool kh_values_are_ready(struct kh_generation *g, size_t index, bool read)
{
	const struct kh_credential_config *credential = &g->config->credentials[index];
	bool full = false, missing = false;
	pthread_mutex_lock(&g->lock);
	for (struct kh_credential_value *v = g->slots[index].values; v; v = v->next) {
		full |= v->state == KH_SLOT_FULL &&
			(!v->expires_ms || v->expires_ms > kh_clock_wall_ms());
		missing |= v->state == KH_SLOT_MISSING &&
			   kh_credential_is_present(credential, v->tenant);
	}
	pthread_mutex_unlock(&g->lock);
	return full || (!missing && read);
}

bool kh_values_put(struct kh_generation *g, const struct kh_credential_ref *ref,
		   struct kh_secret *secret, uint64_t expires_ms)
{
	const struct kh_credential_ref whose = { ref->index, tenant_of(g, ref), ref->scope };
	struct kh_credential_slot *slot = &g->slots[whose.index];
	struct kh_credential_value *value = *kh_values_find(slot, &whose, whose.tenant);
	const struct kh_fair_share_asker nobody = asker_of(ref, NULL);
	value = use(g, value ? value : kh_values_make(g, &whose, whose.tenant, &nobody), &nobody);
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
			kh_values_remove_at(&g->slots[i], &g->slots[i].values);
	free(g->slots);
	g->slots = NULL;
}
