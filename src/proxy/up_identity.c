/*
 * up_identity.c - the client certificate of a connection to an upstream (mtls)
 *
 * A connection belongs to the certificate that it was made with: the value is part of the pool's
 * key, so that what was replaced serves nobody any more. TLS sessions of such connections are not
 * resumed: a ticket stands for the certificate of its first handshake.
 */
#include <keyhole/identity.h>

#include "proxy_internal.h"

struct kh_secret *kh_up_identity_of(const struct kh_exchange *x)
{
	for (size_t i = 0; i < x->injection.count; i++) {
		const struct kh_placement *placement = x->injection.list[i].credential->placement;

		if (placement && placement->kind == KH_PLACEMENT_MTLS)
			return x->injection.list[i].secret;
	}
	return NULL;
}

bool kh_up_show_identity(struct kh_up *up, struct kh_err *err)
{
	return !up->key.identity || kh_stream_use_identity(up->leg.stream, up->key.identity, err);
}
