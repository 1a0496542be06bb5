/* values.h - credential values in the worker: requested from the keeper once, kept until they
 * expire */
#ifndef KEYHOLE_LOOP_VALUES_H
#define KEYHOLE_LOOP_VALUES_H

#include <keyhole/config/credential_ref.h>

#include <keyhole/loop/worker.h>

/*
 * EMPTY: the first use asks the keeper, once for all exchanges that wait, and the state becomes
 * ASKED. The answer makes it FULL, or MISSING for a second, after which the keeper is asked again.
 * FULL ends when the value expires; before that, the keeper is asked for the next value while this
 * one is still used.
 */
enum kh_slot_state { KH_SLOT_EMPTY = 0, KH_SLOT_ASKED, KH_SLOT_FULL, KH_SLOT_MISSING };

/* Gets a value. Safe from any event thread. `ref->tenant` is the exchange's, or KH_NO_TENANT; it
 * is ignored if all tenants have the same value. `asker`: the listener_stats of the sandbox whose
 * share a value with a scope takes (fair_share.h); NULL: no sandbox. FULL: *out is a reference,
 * which the caller drops. ASKED: wait. Every loop is told when the state changes
 * (kh_loop_post_credential); then call this again. MISSING: `err` says why, in words that a sandbox
 * may read. Never returns EMPTY. */
enum kh_slot_state kh_worker_secret(struct kh_worker *worker, struct kh_generation *g,
				    const struct kh_credential_ref *ref,
				    struct kh_listener_stats *asker, struct kh_secret **out,
				    struct kh_err *err);

/* An upstream answered 401 to a request with this token. Drops it and tells the keeper, unless
 * there is another value already, or one was dropped for a 401 a short time ago. Safe from any
 * event thread. */
void kh_values_refused(struct kh_worker *worker, struct kh_generation *g,
		       const struct kh_credential_ref *ref, const struct kh_secret *token);

/* Main thread: take the keeper's messages about values. Return: false: malformed; no keeper sends
 * that. */
bool kh_values_came(struct kh_worker *worker, struct kh_channel_message *message);
bool kh_values_stale(struct kh_worker *worker, const struct kh_channel_message *message);

/* For the operator: has any tenant a value? True if a value is here, or if the keeper has one
 * (`read`) and no tenant's value is MISSING. */
bool kh_values_are_ready(struct kh_generation *g, size_t index, bool read);
/* Stores a value as if the keeper had sent it. Takes ownership of the reference to `secret`.
 * expires_ms: wall clock; 0: never. Return: false without memory. */
bool kh_values_put(struct kh_generation *g, const struct kh_credential_ref *ref,
		   struct kh_secret *secret, uint64_t expires_ms);
/* Frees the values of a generation that ends. */
void kh_values_free(struct kh_generation *g);

#endif
