/* asks.h - what the worker asked the keeper for, and what came of it */
#ifndef KEYHOLE_PROXY_ASKS_H
#define KEYHOLE_PROXY_ASKS_H

#include "worker_internal.h"

/* Beside kh_worker_want_leaf and kh_worker_secret of worker_internal.h. `config` is there already.
 */
bool kh_asks_init(struct kh_worker *worker, struct kh_err *err);
void kh_asks_fini(struct kh_worker *worker);

/* The bodies of LEAF and CREDENTIAL, from the main thread: stored, and every loop is told. Return:
 * false when it is not what a keeper sends. */
bool kh_asks_leaf_came(struct kh_worker *worker, struct kh_slice body);
bool kh_asks_credential_came(struct kh_worker *worker, struct kh_channel_message *message);

#endif
