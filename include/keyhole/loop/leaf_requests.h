/* leaf_requests.h - leaves that the worker asked the keeper for, and what came of it */
#ifndef KEYHOLE_LOOP_LEAF_REQUESTS_H
#define KEYHOLE_LOOP_LEAF_REQUESTS_H

#include <keyhole/loop/worker.h>

/* Beside kh_worker_want_leaf of worker.h. `config` is there already. */
bool kh_leaf_requests_init(struct kh_worker *worker, struct kh_err *err);
void kh_leaf_requests_fini(struct kh_worker *worker);

/* LEAF's body, from the main thread: stored, and every loop is told. Return: false when it is not
 * what a keeper sends. */
bool kh_leaf_requests_leaf_came(struct kh_worker *worker, struct kh_slice body);
/* ISSUER's body, at the start and at each reload: who signs what comes from now on, for the tenants
 * of `g`, which is in the making; `before` NULL: there was none. */
bool kh_leaf_requests_issuer_came(struct kh_worker *worker, struct kh_generation *g,
				  const struct kh_generation *before, struct kh_slice body,
				  struct kh_err *err);
/* Has each of its tenants a CA that signs? */
bool kh_leaf_requests_issuers_known(const struct kh_worker *worker, const struct kh_generation *g,
				    struct kh_err *err);

#endif
