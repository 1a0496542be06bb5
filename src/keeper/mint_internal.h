/* mint_internal.h - the parts of requesting a token */
#ifndef KEYHOLE_KEEPER_MINT_INTERNAL_H
#define KEYHOLE_KEEPER_MINT_INTERNAL_H

#include "keeper_internal.h"

#include <keyhole/fetcher/fetch.h>

/* jwt.c: appends header.claims.signature; the key is an RSA key in PEM. */
bool kh_jwt_put(struct kh_buf *out, struct kh_slice pem, struct kh_slice claims,
		struct kh_err *err);

/* rotation.c: the latest refresh token, in a file */
struct kh_rotation {
	char *path;
	int lock;	 /* held during a request with the token; -1: not held */
	char origin[65]; /* SHA-256 of the token that the configuration gives, hexadecimal */
};
/* `raw`: the configured token. Return: NULL without memory. */
struct kh_rotation *kh_rotation_new(const char *path, const struct kh_secret *raw);
/* Reads the latest token into `out` (wiping). Return: false: there is none, so the configured token
 * is used; or the file is unreadable, and err->code is set. */
bool kh_rotation_read(const struct kh_rotation *rotation, struct kh_buf *out, struct kh_err *err);
/* Copies the token in the state file, if there is one, into holding->refresh_token. Return: false:
 * no memory. */
bool kh_rotation_look(const struct kh_mint *mint, struct kh_holding *holding);
/* Replaces the file atomically; it is synced to disk before this returns. */
bool kh_rotation_write(const struct kh_rotation *rotation, struct kh_slice token,
		       struct kh_err *err);

/* mint_order.c: composes the request. Its views point into `store`, a wiping buffer. */
bool kh_mint_compose(const struct kh_config *config, struct kh_job *job, struct kh_fetch_order *out,
		     struct kh_buf *store, struct kh_err *err);
/* The URL of the token endpoint. */
bool kh_mint_url(const struct kh_mint *mint, const struct kh_holding *holding, struct kh_buf *out,
		 struct kh_err *err);

#endif
