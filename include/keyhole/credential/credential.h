/* credential.h - carriers of authentication: removing the client's, and injecting credentials */
#ifndef KEYHOLE_CREDENTIAL_CREDENTIAL_H
#define KEYHOLE_CREDENTIAL_CREDENTIAL_H

#include <keyhole/config/config.h>
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/secret.h>
#include <keyhole/credential/placeholder.h>

/*
 * Is it a field that carries authentication, whatever its value: Authorization,
 * Proxy-Authorization, Cookie, x-api-key, api-key, x-goog-api-key, x-amz-security-token,
 * private-token, job-token, x-auth-token …? credential/carriers.c has the table.
 */
bool kh_carrier_is_field(struct kh_slice name);
/* Is it a field that names a path (X-Original-URL and similar) with authentication in its query? */
bool kh_carrier_is_in_path_field(const struct kh_field *field);
/* Is it a query parameter that carries authentication (key, api_key, access_token, X-Amz-Signature
 * …)? The name is still escaped; any case. */
bool kh_carrier_is_query(struct kh_slice name);
/* Does a subprotocol that a WebSocket handshake offers (Sec-WebSocket-Protocol) hold a key, or
 * announce that the next one is a key (subprotocols.c)? */
bool kh_carrier_is_among_protocols(const struct kh_message *message);
/* Appends the other subprotocols as one list, which may be empty. Return: false as kh_buf_append.
 */
bool kh_carrier_strip_protocols(struct kh_buf *out, const struct kh_message *message);
/* The name of the first carrier in a request, for refusing it; "" (len 0): there is none. A view of
 * the message or query. */
struct kh_slice kh_carrier_find(const struct kh_message *message, struct kh_slice query);
/* The same, ignoring the field `ours`, which is for the proxy itself. */
struct kh_slice kh_carrier_find_but(const struct kh_message *message, struct kh_slice query,
				    struct kh_slice ours);
/* The same, in a query only. */
struct kh_slice kh_carrier_find_in_query(struct kh_slice query);
/* Appends `raw` (path and query as received) without the query parameters that carry
 * authentication; the rest stays byte for byte. Return: false as kh_buf_append. */
bool kh_carrier_strip_query(struct kh_buf *out, struct kh_slice raw);
/* Does some server take a parameter in this spelling (still escaped) for one of that name? */
bool kh_carrier_is_named(struct kh_slice parameter, struct kh_slice name);

/* Is it one of the hosts of its binding? Also for a credential that goes into no request. */
bool kh_credential_may_go_to(const struct kh_credential_config *credential,
			     const struct kh_host *host);
/*
 * Checks the whole binding once more at the moment of injection: https, its hosts, its paths (in
 * every reading), its methods (also those that a field or parameter asks for), and never TRACE.
 * Return: NULL: it may go in; else a literal, what it may not go to: "this host", "this path" …
 */
const char *kh_credential_binding_fault(const struct kh_credential_config *credential,
					const struct kh_request_view *request);

/* Does the credential replace this field, so that the client's one is dropped? */
bool kh_credential_sets_field(const struct kh_credential_config *credential, struct kh_slice name);
/* Appends the credential's fields to a head; `out` must be a wiping buffer. Return: false with
 * `err`, also if the value has a byte that is not allowed there (CR, LF, NUL, controls; in a cookie
 * also blanks, quotes and separators). `err` never shows the value. */
bool kh_credential_put_fields(const struct kh_credential_config *credential,
			      const struct kh_secret *secret, struct kh_buf *out,
			      struct kh_err *err);

/*
 * All credentials that go into one request: those that were chosen from the rule's, each with its
 * value. Zeroed: nothing goes in, and the rule decides what becomes of the client's own
 * authentication.
 */
struct kh_injected {
	uint16_t index; /* into kh_config.credentials */
	const struct kh_credential_config *credential;
	char *scope; /* the scope of the value (credential_ref.h), owned; NULL: no scope */
	struct kh_secret *secret; /* a counted reference; NULL until the keeper has sent it */
};
struct kh_injection {
	struct kh_injected list[KH_RULE_CREDENTIALS];
	size_t count;
};

/* Which repository a request to GitHub is for, by its normalised path: "owner/name", on the heap.
 * NULL: it names none, or there is no memory. */
char *kh_repository_of(struct kh_slice path);
/* Is it exactly such a name? For the keeper: the worker that asks may have been taken over. */
bool kh_repository_is_scope(struct kh_slice scope);
/* Is there a path that this pattern matches (NULL: any) and that kh_repository_of reads as this
 * repository? May say yes of a few that it does not, and never no of one that it does. */
bool kh_repository_may_be_at(struct kh_slice scope, const char *pattern);

/* Chooses among the credentials of the deciding rule: of `credential` the first with a value for
 * this tenant (if none has one, the first), of `credentials` all; none if the decision is `bare`.
 * What `injection` held before is released. */
void kh_injection_choose(struct kh_injection *injection, const struct kh_config *config,
			 uint16_t tenant, const struct kh_decision *decision);
/* The same for a request that has gone up with `had`: if the rule names that credential among
 * others, it is chosen again, whether one before it has a value by now or not. */
void kh_injection_choose_again(struct kh_injection *injection, const struct kh_injection *had,
			       const struct kh_config *config, uint16_t tenant,
			       const struct kh_decision *decision);
void kh_injection_fini(struct kh_injection *injection); /* releases the values; empty afterwards */
/* As kh_credential_binding_fault, for each credential. *which: the one that may not go in. */
const char *kh_injection_binding_fault(const struct kh_injection *injection,
				       const struct kh_request_view *request,
				       const struct kh_credential_config **which);
/* A request has gone up with `injection`, and `chosen` is what other rules have chosen for it
 * (kh_injection_choose). Do they still put in each of these credentials: by its name, with a source
 * for this tenant of theirs (the value may be on its way), within its binding, and without
 * requiring a placeholder that was not required before? */
bool kh_injection_is_kept(const struct kh_injection *injection, const struct kh_injection *chosen,
			  uint16_t tenant, const struct kh_request_view *request);
bool kh_injection_sets_field(const struct kh_injection *injection, struct kh_slice name);
/* kh_credential_put_fields for all of them; several cookies become one Cookie field. */
bool kh_injection_put_fields(const struct kh_injection *injection, struct kh_buf *out,
			     struct kh_err *err);
/* Does a value go into the target? Then the target is a secret: it is written only to wiping
 * memory, and never indexed by HPACK. */
bool kh_injection_sets_target(const struct kh_injection *injection);
/*
 * Appends the path and query that go upstream: `raw` without the query parameters that carry
 * authentication, and with ours, percent-encoded. Ours takes the place of the client's first
 * parameter of that name (any spelling; further ones are dropped), else it is added at the end. If
 * kh_injection_sets_target, `out` must be a wiping buffer. Return: false with `err`.
 */
bool kh_injection_put_target(const struct kh_injection *injection, struct kh_slice raw,
			     struct kh_buf *out, struct kh_err *err);
/*
 * If a server redirects the client to a similar URL (Location), a value from the target comes back
 * in it. Appends `text` with each such value replaced by the word "keyhole", however its characters
 * are escaped (kh_spelling_at); a client that follows the redirect gets the value injected again.
 * `out` is a wiping buffer. *found: there was one. Return: false: the pages can't be opened, or no
 * room.
 */
bool kh_injection_hide(const struct kh_injection *injection, struct kh_slice text,
		       struct kh_buf *out, bool *found);
/* The same for one value in memory: one that was made for the target (signing.h). */
bool kh_reflection_hide_value(struct kh_slice value, struct kh_slice text, struct kh_buf *out,
			      bool *found);
/* The credential that goes into the content; NULL: none. */
const struct kh_injected *kh_injection_body(const struct kh_injection *injection);
/* Writes "a,b", their names, for the journal. Return: `out`; NULL: there are none. */
const char *kh_injection_names(const struct kh_injection *injection, char *out, size_t size);

/* Notes what the keeper may pass on about the value: its public prefix's shape, and its length. */
void kh_placeholder_see(struct kh_placeholder *placeholder, const struct kh_secret *value);
void kh_placeholder_spec_of(struct kh_placeholder_spec *out,
			    const struct kh_credential_config *credential);
/* The placeholder of that sandbox for that credential, from the key in use. On the heap. Return:
 * NULL with `err`. */
char *kh_placeholder_for(const struct kh_config *config,
			 const struct kh_credential_config *credential, const char *tenant,
			 const char *sandbox, struct kh_err *err);
/*
 * Calls `fn` for each environment variable that a sandbox of that tenant gets: for each credential
 * that its rules may inject, the variable that clients read (if two have the same variable, only
 * the first); for one that signs for AWS, the two variables that AWS clients read. Return: false:
 * `fn` returned false, or with `err`.
 */
bool kh_placeholders_each(const struct kh_config *config, uint16_t tenant, const char *sandbox,
			  bool (*fn)(const char *variable, const char *value, void *arg), void *arg,
			  struct kh_err *err);
/* May some placeholder have no letters? */
bool kh_placeholder_may_have_digits(const struct kh_config *config);

#endif
