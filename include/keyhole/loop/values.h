/* values.h - credential values in the worker: asked of the keeper once, kept while they are good */
#ifndef KEYHOLE_LOOP_VALUES_H
#define KEYHOLE_LOOP_VALUES_H

#include <keyhole/config/credential_ref.h>

#include <keyhole/loop/worker.h>

/*
 * EMPTY or unknown: the keeper is asked, once for all who wait: ASKED. Its answer makes it FULL, or
 * MISSING for a second, after which it is asked again. FULL ends with the value's expiry; ahead of
 * that the keeper is asked for the next one while this one still serves.
 */
enum kh_slot_state { KH_SLOT_EMPTY = 0, KH_SLOT_ASKED, KH_SLOT_FULL, KH_SLOT_MISSING };

/* Safe from any event thread. `want->tenant` is the exchange's, or KH_NO_TENANT; it does not matter
 * where all tenants have the same value. `asker`: the sandbox's listener_stats, whose share it is
 * that a scope takes (fair_share.h); NULL: it is for none. FULL: *out is a reference for the
 * caller. ASKED: wait; every loop is told when there is something new about this credential
 * (kh_loop_post_credential), and then it is to be called again. MISSING: `err` says why, for a
 * sandbox to read. */
enum kh_slot_state kh_worker_secret(struct kh_worker *worker, struct kh_generation *g,
				    const struct kh_credential_ref *want,
				    struct kh_listener_stats *asker, struct kh_secret **out,
				    struct kh_err *err);

/* An upstream answered 401 to a request with this token: it is dropped and the keeper told, unless
 * another one is there already, or one was refused a short time ago. Safe from any event thread. */
void kh_values_refused(struct kh_worker *worker, struct kh_generation *g,
		       const struct kh_credential_ref *want, const struct kh_secret *token);

/* Messages of the keeper, from the main thread. Return: false when it is not what a keeper sends.
 */
bool kh_values_came(struct kh_worker *worker, struct kh_channel_message *message);
bool kh_values_stale(struct kh_worker *worker, const struct kh_channel_message *message);

/* Nothing is said to be missing, and something is there or was at the start. */
bool kh_values_are_ready(struct kh_generation *g, size_t index);
/* Takes the secret over, as if the keeper had sent it. Return: false without memory. */
bool kh_values_put(struct kh_generation *g, const struct kh_credential_ref *want,
		   struct kh_secret *secret, uint64_t expires_ms);
/* Of a generation that ends. */
void kh_values_free(struct kh_generation *g);

#endif
