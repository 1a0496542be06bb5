/* mint_internal.h - the parts of asking for a token */
#ifndef KEYHOLE_KEEPER_MINT_INTERNAL_H
#define KEYHOLE_KEEPER_MINT_INTERNAL_H

#include "keeper_internal.h"

#include <keyhole/fetcher/fetch.h>

/* jwt.c: appends header.claims.signature; the key is an RSA key in PEM. */
bool kh_jwt_put(struct kh_buf *out, struct kh_slice pem, struct kh_slice claims,
		struct kh_err *err);

/* rotation.c: the refresh token of the day, in a file */
struct kh_rotation {
	char *path;
	int lock;	 /* held while somebody asks with the token; -1: not */
	char origin[65]; /* SHA-256 of the token that the configuration gives, hexadecimal */
};
/* NULL without memory. `raw` is the token of the configuration. */
struct kh_rotation *kh_rotation_new(const char *path, const struct kh_secret *raw);
/* The token that was given last in its place, into `out` (wiping). Return: false: there is none,
 * and the configuration's own is the one. An unreadable file is an error (err->code). */
bool kh_rotation_read(const struct kh_rotation *rotation, struct kh_buf *out, struct kh_err *err);
/* Takes the token that is in the state now, if one is, into holding->refresh_token. Return: false:
 * no memory. */
bool kh_rotation_look(const struct kh_mint *mint, struct kh_holding *holding);
/* Whole or not at all, and on the disk before it returns. */
bool kh_rotation_write(const struct kh_rotation *rotation, struct kh_slice token,
		       struct kh_err *err);

/* mint_order.c: the question. Its views are of `store`, which wipes. */
bool kh_mint_compose(const struct kh_config *config, struct kh_job *job, struct kh_fetch_order *out,
		     struct kh_buf *store, struct kh_err *err);
/* Where it is asked. */
bool kh_mint_url(const struct kh_mint *mint, const struct kh_holding *holding, struct kh_buf *out,
		 struct kh_err *err);

#endif
