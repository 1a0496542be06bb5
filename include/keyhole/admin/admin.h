/* admin.h - the worker's side of `admin`, as its main thread sees it */
#ifndef KEYHOLE_ADMIN_ADMIN_H
#define KEYHOLE_ADMIN_ADMIN_H

#include <keyhole/loop/worker.h>

/* ADMIN: the acceptors that are open from now on. Without any at first no thread is started;
 * without any later those that were are shut. */
bool kh_admin_take_acceptors(struct kh_worker *worker, struct kh_channel_message *message,
			     struct kh_err *err);
/* Its thread: once the worker is locked in. Does nothing where there are no acceptors. */
bool kh_admin_start(struct kh_worker *worker, struct kh_err *err);
/* FACTS and VERB_DONE. Return: false when it is not what a keeper sends. */
bool kh_admin_take_facts(struct kh_worker *worker, const struct kh_channel_message *message);
bool kh_admin_take_done(struct kh_worker *worker, const struct kh_channel_message *message);
/* DYNAMIC_SANDBOX_DONE. Return: likewise. */
bool kh_admin_take_dynamic_sandbox_done(struct kh_worker *worker,
					const struct kh_channel_message *message);
/* What DYNAMIC_SANDBOX_GONE's ref asked for is done, in all threads. Safe from any of them.
 * `listener_stats`: what it has done; NULL: it was not there. */
void kh_admin_dynamic_sandbox_is_gone(struct kh_worker *worker, uint32_t ref,
				      const struct kh_listener_stats *listener_stats);
/* The generation in force is another one. */
void kh_admin_reload(struct kh_worker *worker);
/* Its thread accepts where the last ADMIN said, and nowhere else. */
bool kh_admin_has_taken(const struct kh_worker *worker);
/* Another process serves from here on: the acceptors are its own. */
void kh_admin_retire(struct kh_worker *worker);
/* Ends the thread, whatever is under way, and frees all of it: the event threads' numbers are about
 * to go. */
void kh_admin_stop(struct kh_worker *worker);

#endif
