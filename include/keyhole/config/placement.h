/* placement.h - where the value of a credential goes in a request */
#ifndef KEYHOLE_CONFIG_PLACEMENT_H
#define KEYHOLE_CONFIG_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

struct kh_sigv4_config;
struct kh_hmac_config;
struct kh_mtls_config;

/* One per credential. The configuration knows only kinds that are built in. */
enum kh_placement_kind {
	KH_PLACEMENT_NONE = 0,
	KH_PLACEMENT_FIELDS, /* header, bearer, basic, azure: fields of the request's head */
	KH_PLACEMENT_QUERY,  /* a parameter of the target's query */
	KH_PLACEMENT_COOKIE, /* a cookie; the client's own are removed */
	KH_PLACEMENT_BODY,   /* a declared place in a JSON or form body */
	KH_PLACEMENT_SIGV4,  /* aws_sigv4: the request is signed again */
	KH_PLACEMENT_HMAC,   /* hmac: an HMAC of the request, by a template */
	KH_PLACEMENT_MTLS,   /* mtls: a certificate in the handshake with the upstream */
	KH_PLACEMENT_KINDS,
};

/* How a value becomes part of a field. */
enum kh_field_form {
	KH_FIELD_PLAIN = 0, /* as it is, between prefix and suffix */
	KH_FIELD_BASIC,	    /* base64 of `username:value` (RFC 7617), or of a value that is
			       `user:password` */
	KH_FIELD_FORMS,
};

/* A field that a credential sets. The template in the configuration has one `{}`, which stands for
 * the value. */
struct kh_credential_field {
	char *name;
	char *prefix; /* before the value, "" for none: "Bearer " */
	char *suffix;
	enum kh_field_form form;
	char *username; /* BASIC; NULL: the value is user:password */
};

enum { KH_PLACEMENT_FIELDS_MOST = 8 };

/* Only the members of its kind are set. */
struct kh_placement {
	enum kh_placement_kind kind;
	const char *key; /* the option in the configuration, "bearer": a literal */
	struct kh_credential_field *fields; /* FIELDS */
	size_t n_fields;
	char *name;    /* QUERY, COOKIE: the parameter's or the cookie's; BODY: a form's member */
	char *pointer; /* BODY: in JSON, an RFC 6901 pointer; else NULL */
	struct kh_sigv4_config *sigv4; /* SIGV4 (signing.h) */
	struct kh_hmac_config *hmac;   /* HMAC */
	struct kh_mtls_config *mtls;   /* MTLS */
};

static inline enum kh_placement_kind kh_placement_kind_of(const struct kh_placement *placement)
{
	return placement ? placement->kind : KH_PLACEMENT_NONE;
}
/* Does it sign the request? NULL: no. */
bool kh_placement_signs(const struct kh_placement *placement);
/* Does the value itself go into the request's target? NULL: no. */
bool kh_placement_is_in_target(const struct kh_placement *placement);

/* Does it replace a part of the request's head where a client can put a placeholder, so that the
 * placeholder can be required? NULL: yes. */
static inline int kh_placement_shows_placeholder(const struct kh_placement *placement)
{
	return !placement ||
	       (placement->kind != KH_PLACEMENT_BODY && placement->kind != KH_PLACEMENT_MTLS &&
		placement->kind != KH_PLACEMENT_HMAC);
}

/* NULL is fine. */
void kh_placement_free(struct kh_placement *placement);

#endif
