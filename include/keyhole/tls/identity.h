/* identity.h - a certificate of our own with its key, for an upstream that asks for one (mtls) */
#ifndef KEYHOLE_TLS_IDENTITY_H
#define KEYHOLE_TLS_IDENTITY_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/secret.h>

struct kh_stream;

/*
 * The keeper's side. Both are PEM. `certificate` has the leaf first, then the intermediates; it may
 * be empty if `key` contains them. Key and leaf must match, and the leaf must be valid now. A key
 * with a passphrase, or one that is too weak for TLS, is refused. `out` is a wiping buffer.
 * *expires_ms: when the leaf expires (wall clock). No error message contains a byte of the key.
 */
bool kh_identity_pack(struct kh_buf *out, struct kh_slice certificate, struct kh_slice key,
		      uint64_t *expires_ms, struct kh_err *err);
/* Is the first certificate in `pem` one of a CA (RFC 5280 §4.2.1.9)? */
bool kh_identity_is_ca(struct kh_slice pem);
/* The worker's side, right after kh_stream_connect_tls: sends the certificate if the upstream asks
 * for one. OpenSSL holds the key until the end of the handshake. Return: false with `err`: `packed`
 * was not made by kh_identity_pack. */
bool kh_stream_use_identity(struct kh_stream *stream, const struct kh_secret *packed,
			    struct kh_err *err);

#endif
