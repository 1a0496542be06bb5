/* target.h - what a request names: authority, path, query, in one canonical reading */
#ifndef KEYHOLE_HTTP_TARGET_H
#define KEYHOLE_HTTP_TARGET_H

#include <keyhole/base/buf.h>
#include <keyhole/config/config.h>
#include <keyhole/base/host.h>
#include <keyhole/base/path.h>

struct kh_authority {
	struct kh_host host;
	uint16_t port;
};

/* `host[:port]`, IPv6 in brackets, no userinfo. A port is 1-65535, digits only, no leading zero;
 * `default_port` where none is written (0: one must be written, as in CONNECT). */
bool kh_authority_parse(struct kh_authority *out, struct kh_slice text, uint16_t default_port,
			struct kh_err *err);
/* What of a text that may be none may be shown: the user information that somebody wrote into it is
 * left out. */
struct kh_slice kh_authority_shown(struct kh_slice text);
bool kh_authority_eq(const struct kh_authority *a, const struct kh_authority *b);
/* "host:port", or without the port where it is `default_port`; brackets where needed. */
bool kh_authority_format(struct kh_buf *out, const struct kh_authority *authority,
			 uint16_t default_port);

/* Views into the target as it came, and normalised paths in `store`. */
struct kh_target {
	bool absolute; /* absolute-form: scheme and authority are set */
	enum kh_scheme scheme;
	struct kh_authority authority;
	struct kh_slice raw; /* path and query as they came, to be sent so: begins with '/'; or "*"
				(OPTIONS) */
	struct kh_slice raw_path;
	struct kh_slice query; /* without '?'; ptr NULL where there is none */
	struct kh_slice path;  /* normalised: unreserved decoded, hex in upper case, %2F kept */
	struct kh_slice path_slashed;  /* %2F as '/', where there is one, else ptr NULL */
	struct kh_slice path_decoded;  /* decoded further (path.h), where that differs, else NULL */
	struct kh_path_cuts path_cuts; /* where it has an escaped '?' or '#' */
	struct kh_buf store;	       /* kh_target_fini */
};

/*
 * origin-form, absolute-form (http and https) and `*` for OPTIONS. Refused: dot segments (plain or
 * encoded, also those that %2F and %5C would make), a backslash, an encoded control byte or NUL, a
 * bad percent escape, a fragment, userinfo, any byte outside RFC 3986's (space, quotes, <>,
 * ≥ 0x80) in the path and the query; ^, `, {|} in the path (in a query browsers send them raw).
 * CONNECT's target is kh_authority_parse's affair.
 */
bool kh_target_parse(struct kh_target *out, struct kh_slice method, struct kh_slice target,
		     struct kh_err *err);
void kh_target_fini(struct kh_target *target);

static inline struct kh_path_readings kh_target_readings(const struct kh_target *target)
{
	return (struct kh_path_readings){ target->path, target->path_slashed, target->path_decoded,
					  &target->path_cuts };
}

/* Steps through a query: name and value as they came. Return: false at the end. */
bool kh_query_next(struct kh_slice *rest, struct kh_slice *name, struct kh_slice *value);

#endif
