/* identity.h - a certificate of our own with its key, for an upstream that asks for one (mtls) */
#ifndef KEYHOLE_TLS_IDENTITY_H
#define KEYHOLE_TLS_IDENTITY_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/secret.h>

struct kh_stream;

/*
 * The keeper's side: both are PEM; `certificate` has the leaf first, then what leads to its root,
 * and may be empty, where they stand with the key. They must be there and belong together, and the
 * leaf must be good today; a key with a passphrase, or one that is too weak for TLS here, is
 * refused. `out` is a wiping buffer. *expires_ms: the leaf's end (wall clock). No message shows a
 * byte of the key.
 */
bool kh_identity_pack(struct kh_buf *out, struct kh_slice certificate, struct kh_slice key,
		      uint64_t *expires_ms, struct kh_err *err);
/* The worker's, right behind kh_stream_connect_tls: the upstream gets the certificate if it asks
 * for one. The key is OpenSSL's from here to the end of the handshake. Return: false: `packed` is
 * no such value. */
bool kh_stream_use_identity(struct kh_stream *stream, const struct kh_secret *packed,
			    struct kh_err *err);

#endif
