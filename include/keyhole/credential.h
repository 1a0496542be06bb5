/* credential.h - what carries authentication: taken out, and put in */
#ifndef KEYHOLE_CREDENTIAL_H
#define KEYHOLE_CREDENTIAL_H

#include <keyhole/config.h>
#include <keyhole/message.h>
#include <keyhole/secret.h>

/*
 * A field that carries authentication whatever its value: Authorization, Proxy-Authorization,
 * Cookie, x-api-key, api-key, x-goog-api-key, x-amz-security-token, private-token, job-token,
 * x-auth-token … (credential/carriers.c holds the table).
 */
bool kh_carrier_is_field(struct kh_slice name);
/* A query parameter of that kind (key, api_key, access_token, X-Amz-Signature …); the name
 * percent-decoded, any case. */
bool kh_carrier_is_query(struct kh_slice name);
/* Does one of the subprotocols that a WebSocket's handshake offers (Sec-WebSocket-Protocol) hold a
 * key, or announce that the next one is one (subprotocols.c)? */
bool kh_carrier_is_among_protocols(const struct kh_message *message);
/* Appends the others as one list, which may be empty. Return: false as kh_buf_append. */
bool kh_carrier_strip_protocols(struct kh_buf *out, const struct kh_message *message);
/* The first carrier in a request, "" (len 0) when there is none: for refusing it by name. */
struct kh_slice kh_carrier_find(const struct kh_message *message, struct kh_slice query);
/* The same without the field `ours`, which was meant for the proxy. */
struct kh_slice kh_carrier_find_but(const struct kh_message *message, struct kh_slice query,
				    struct kh_slice ours);
/* Appends `raw` (path and query as they came) without the query parameters that carry
 * authentication; all the rest byte for byte. Return: false as kh_buf_append. */
bool kh_carrier_strip_query(struct kh_buf *out, struct kh_slice raw);

/* May this credential go there at all? Asked again at the moment of injection. */
bool kh_credential_may_go_to(const struct kh_credential_config *credential,
			     const struct kh_host *host);
/* Is this field replaced by the credential (so the client's one is dropped)? */
bool kh_credential_sets_field(const struct kh_credential_config *credential, struct kh_slice name);
/* Writes the credential's fields into a head that is being written; `out` must be a wiping buffer.
 * A value with a byte that a field can't hold (CR, LF, NUL, controls) is an error that does not
 * show it. */
bool kh_credential_put_fields(const struct kh_credential_config *credential,
			      const struct kh_secret *secret, struct kh_buf *out,
			      struct kh_err *err);

/* A random stand-in of the given length for the sandbox: the configured prefix, then characters of
 * its alphabet (letters and digits where none is given). At least 16 random characters are kept,
 * also where the real value is short. Heap. */
char *kh_placeholder_new(const struct kh_credential_config *credential, size_t real_len,
			 struct kh_err *err);

#endif
