/* admin.h - the admin server of a worker, as the worker's main thread calls it */
#ifndef KEYHOLE_ADMIN_ADMIN_H
#define KEYHOLE_ADMIN_ADMIN_H

#include <keyhole/loop/worker.h>

/* ADMIN: from now on the server accepts on these acceptors and no others. The descriptors are taken
 * out of the message. If the first ADMIN brings none, kh_admin_start starts no thread. Return:
 * false with `err`: the message is malformed, or there is no memory; the descriptors are still the
 * message's. */
bool kh_admin_take_acceptors(struct kh_worker *worker, struct kh_channel_message *message,
			     struct kh_err *err);
/* Starts the server's thread, after the worker's lock-in. Does nothing if there are no acceptors.
 * Return: false with `err`. */
bool kh_admin_start(struct kh_worker *worker, struct kh_err *err);
/* FACTS and VERB_DONE; both are copied. Return: false: a keeper sends no such message. */
bool kh_admin_take_facts(struct kh_worker *worker, const struct kh_channel_message *message);
bool kh_admin_take_done(struct kh_worker *worker, const struct kh_channel_message *message);
/* DYNAMIC_SANDBOX_DONE, as above. */
bool kh_admin_take_dynamic_sandbox_done(struct kh_worker *worker,
					const struct kh_channel_message *message);
/* All event threads have removed the sandbox that DYNAMIC_SANDBOX_GONE with this `ref` named.
 * `listener_stats`: its final counters, which are copied; NULL: this worker did not have it. Safe
 * from any thread. */
void kh_admin_dynamic_sandbox_is_gone(struct kh_worker *worker, uint32_t ref,
				      const struct kh_listener_stats *listener_stats);
/* worker->current is a new generation. */
void kh_admin_reload(struct kh_worker *worker);
/* Does the thread accept on the acceptors of the last ADMIN, and on no others? */
bool kh_admin_has_taken(const struct kh_worker *worker);
/* Another process has taken over: no more connections are accepted here. */
void kh_admin_retire(struct kh_worker *worker);
/* Ends the thread and all its connections, and frees everything. To be called before the event
 * threads' counters are freed. */
void kh_admin_stop(struct kh_worker *worker);

#endif
