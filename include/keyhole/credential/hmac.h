/* hmac.h - signs a request with an HMAC over a template's text (placement `hmac`) */
#ifndef KEYHOLE_CREDENTIAL_HMAC_H
#define KEYHOLE_CREDENTIAL_HMAC_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/secret.h>
#include <keyhole/config/signing.h>

enum { KH_HMAC_NONCE_BYTES = 33 }; /* 16 random bytes in hex, and a NUL */

/* The request as it is sent; views. */
struct kh_hmac_request {
	struct kh_slice method;
	struct kh_slice target; /* path and query */
	struct kh_slice host;	/* with the port, as in the Host field */
	struct kh_slice content;
	uint64_t now_ms; /* wall clock */
	char nonce[KH_HMAC_NONCE_BYTES];
};

/* Does a template use the content? Then all of it must be there first. */
bool kh_hmac_wants_content(const struct kh_hmac_config *config);
/* Does the credential set this field, so that the client's one is dropped? */
bool kh_hmac_sets_field(const struct kh_hmac_config *config, struct kh_slice name);
/* Appends "Name: value\r\n" lines to `out`, a wiping buffer. The key is used only while its pages
 * are open. Return: false with `err`. */
bool kh_hmac_make(struct kh_buf *out, const struct kh_hmac_config *config,
		  const struct kh_hmac_request *request, const struct kh_secret *key,
		  struct kh_err *err);

/* If the value is hex or base64 of the key and can be decoded, calls `use` with the key's bytes, in
 * memory that is wiped. Return: false: `use` returned false. */
bool kh_hmac_use_key(const struct kh_hmac_config *config, struct kh_slice value,
		     bool (*use)(struct kh_slice key, void *arg), void *arg);

#endif
