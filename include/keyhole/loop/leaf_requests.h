/* leaf_requests.h - requests for leaves to the keeper, and its answers */
#ifndef KEYHOLE_LOOP_LEAF_REQUESTS_H
#define KEYHOLE_LOOP_LEAF_REQUESTS_H

#include <keyhole/loop/worker.h>

/* See also kh_worker_request_leaf in worker.h. Called after the configuration has come. */
bool kh_leaf_requests_init(struct kh_worker *worker, struct kh_err *err);
void kh_leaf_requests_fini(struct kh_worker *worker);

/* Main thread: stores the leaf in the body of a LEAF message, and tells every loop. Return: false:
 * malformed; no keeper sends that. */
bool kh_leaf_requests_leaf_came(struct kh_worker *worker, struct kh_slice body);
/* Takes the body of an ISSUER message, at the start and at each reload: the CA that signs from now
 * on, for the tenants of `g`, the next generation. `before`: the one in force, or NULL. */
bool kh_leaf_requests_issuer_came(struct kh_worker *worker, struct kh_generation *g,
				  const struct kh_generation *before, struct kh_slice body,
				  struct kh_err *err);
/* Does each tenant of `g` have an issuer? */
bool kh_leaf_requests_issuers_known(const struct kh_worker *worker, const struct kh_generation *g,
				    struct kh_err *err);

#endif
