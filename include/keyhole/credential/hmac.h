/* hmac.h - a request with an HMAC over what a template says (placement `hmac`) */
#ifndef KEYHOLE_CREDENTIAL_HMAC_H
#define KEYHOLE_CREDENTIAL_HMAC_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/secret.h>
#include <keyhole/config/signing.h>

enum { KH_HMAC_NONCE_BYTES = 33 }; /* 16 random bytes in hex, and a NUL */

/* As it goes out. */
struct kh_hmac_request {
	struct kh_slice method;
	struct kh_slice target; /* path and query */
	struct kh_slice host;	/* with the port, where it is written */
	struct kh_slice content;
	uint64_t now_ms; /* wall clock */
	char nonce[KH_HMAC_NONCE_BYTES];
};

/* Does a template speak of the content? Then all of it has to be there first. */
bool kh_hmac_wants_content(const struct kh_hmac_config *config);
/* A field that the credential sets: the client's own is dropped. */
bool kh_hmac_sets_field(const struct kh_hmac_config *config, struct kh_slice name);
/* Appends "Name: value\r\n" lines to `out`, a wiping buffer. The key does not leave its window. */
bool kh_hmac_make(struct kh_buf *out, const struct kh_hmac_config *config,
		  const struct kh_hmac_request *request, const struct kh_secret *key,
		  struct kh_err *err);

/* Runs `use` on the bytes that the value stands for, where it is hex or base64 of the key and can
 * be decoded. In wiping memory. Return: false: `use` said so. */
bool kh_hmac_use_key(const struct kh_hmac_config *config, struct kh_slice value,
		     bool (*use)(struct kh_slice key, void *arg), void *arg);

#endif
