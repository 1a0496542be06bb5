/* credential.h - what carries authentication: taken out, and put in */
#ifndef KEYHOLE_CREDENTIAL_CREDENTIAL_H
#define KEYHOLE_CREDENTIAL_CREDENTIAL_H

#include <keyhole/config/config.h>
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/secret.h>
#include <keyhole/credential/placeholder.h>

/*
 * A field that carries authentication whatever its value: Authorization, Proxy-Authorization,
 * Cookie, x-api-key, api-key, x-goog-api-key, x-amz-security-token, private-token, job-token,
 * x-auth-token … (credential/carriers.c holds the table).
 */
bool kh_carrier_is_field(struct kh_slice name);
/* A field that names a path (X-Original-URL and its kin) with authentication in its query. */
bool kh_carrier_is_in_path_field(const struct kh_field *field);
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
/* Of a query alone. */
struct kh_slice kh_carrier_find_in_query(struct kh_slice query);
/* Appends `raw` (path and query as they came) without the query parameters that carry
 * authentication; all the rest byte for byte. Return: false as kh_buf_append. */
bool kh_carrier_strip_query(struct kh_buf *out, struct kh_slice raw);
/* Would a server take a parameter that is written so (escapes and all) for one of that name? */
bool kh_carrier_is_named(struct kh_slice parameter, struct kh_slice name);

/* Is the host one of those that it is bound to? Asked of what goes into no request as well. */
bool kh_credential_may_go_to(const struct kh_credential_config *credential,
			     const struct kh_host *host);
/*
 * Its whole binding, asked again at the moment of injection: https, its hosts, its paths (in every
 * reading), its methods (those that a field or parameter asks for as well), and never TRACE.
 * Return: NULL when it may go, else what it may not go into: "this host", "this path" …
 */
const char *kh_credential_binding_fault(const struct kh_credential_config *credential,
					const struct kh_request_view *request);

/* Is this field replaced by the credential (so the client's one is dropped)? */
bool kh_credential_sets_field(const struct kh_credential_config *credential, struct kh_slice name);
/* Writes the credential's fields into a head that is being written; `out` must be a wiping buffer.
 * A value with a byte that can't stand there (CR, LF, NUL, controls; in a cookie also blanks,
 * quotes and separators) is an error that does not show it. */
bool kh_credential_put_fields(const struct kh_credential_config *credential,
			      const struct kh_secret *secret, struct kh_buf *out,
			      struct kh_err *err);

/*
 * All that goes into one request: the rule's credentials that were chosen, each with its value. A
 * zeroed one is empty: nothing goes in, and what the client brings is judged by the rule.
 */
struct kh_injected {
	uint16_t index; /* into kh_config.credentials */
	const struct kh_credential_config *credential;
	char *scope;		  /* which value (credential_ref.h), owned; NULL: all of it */
	struct kh_secret *secret; /* a reference; NULL until it is in hand */
};
struct kh_injection {
	struct kh_injected list[KH_RULE_CREDENTIALS];
	size_t count;
};

/* Which repository a request to GitHub is for, by its (normalised) path: "owner/name", heap. NULL:
 * it names none, or no memory. */
char *kh_repository_of(struct kh_slice path);
/* Is it such a one, and nothing else? What asks may have been taken over. */
bool kh_repository_is_scope(struct kh_slice scope);

/* The credentials of the rule that allows: of `credential` the first with a value (else the first),
 * of `credentials` all; of what is bare none. What is in there before is gone. */
void kh_injection_choose(struct kh_injection *injection, const struct kh_config *config,
			 const struct kh_decision *decision);
void kh_injection_fini(struct kh_injection *injection); /* unrefs; empty afterwards */
/* As kh_credential_binding_fault, for each. *which: the one that may not. */
const char *kh_injection_binding_fault(const struct kh_injection *injection,
				       const struct kh_request_view *request,
				       const struct kh_credential_config **which);
bool kh_injection_sets_field(const struct kh_injection *injection, struct kh_slice name);
/* kh_credential_put_fields for all of them; several cookies are one Cookie field. */
bool kh_injection_put_fields(const struct kh_injection *injection, struct kh_buf *out,
			     struct kh_err *err);
/* Does a value go into the target? Then the target is a secret: it is written into wiping memory,
 * and no HPACK table gets it. */
bool kh_injection_sets_target(const struct kh_injection *injection);
/*
 * Appends path and query as they go upstream: `raw` without the query parameters that carry
 * authentication, and with ours, percent-encoded: in the place of the client's first of that name
 * (any case; further ones are dropped), else at the end. `out` must be a wiping buffer where
 * kh_injection_sets_target.
 */
bool kh_injection_put_target(const struct kh_injection *injection, struct kh_slice raw,
			     struct kh_buf *out, struct kh_err *err);
/*
 * A value that went into the target comes back where a server sends the client on to a neighbouring
 * address (Location). Appends `text`, each such value in it replaced by the word "keyhole", however
 * its characters are escaped (kh_spelling_at); whoever follows it gets the value anew. `out` is a
 * wiping buffer. *found: there was one. Return: false: a page can't be opened, or no room.
 */
bool kh_injection_hide(const struct kh_injection *injection, struct kh_slice text,
		       struct kh_buf *out, bool *found);
/* The same for one value in hand: what was made for the target (signing.h). */
bool kh_reflection_hide_value(struct kh_slice value, struct kh_slice text, struct kh_buf *out,
			      bool *found);
/* The one that goes into the content; NULL: none does. */
const struct kh_injected *kh_injection_body(const struct kh_injection *injection);
/* "a,b": their names, for the journal. Return: `out`, NULL when there are none. */
const char *kh_injection_names(const struct kh_injection *injection, char *out, size_t size);

/* What the keeper has seen of the value: how it begins, if that is public, and its length. */
void kh_placeholder_see(struct kh_placeholder *placeholder, const struct kh_secret *value);
void kh_placeholder_spec_of(struct kh_placeholder_spec *out,
			    const struct kh_credential_config *credential);
/* Of that sandbox, for that credential, from the key in use. Heap. */
char *kh_placeholder_for(const struct kh_config *config,
			 const struct kh_credential_config *credential, const char *tenant,
			 const char *sandbox, struct kh_err *err);
/*
 * All that a sandbox of that tenant gets into its environment: for each credential that its rules
 * may put in, the variable in which clients look for it (of two with one variable the first), and
 * for one that signs for AWS the two that its clients read. Return: false: `fn` said so, or with
 * `err`.
 */
bool kh_placeholders_each(const struct kh_config *config, uint16_t tenant, const char *sandbox,
			  bool (*fn)(const char *variable, const char *value, void *arg), void *arg,
			  struct kh_err *err);
/* Is there a placeholder without letters? */
bool kh_placeholder_may_have_digits(const struct kh_config *config);

#endif
