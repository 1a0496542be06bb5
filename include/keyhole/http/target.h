/* target.h - a request's target: authority, path and query, in one canonical form */
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

/* Parses `host[:port]`, with IPv6 in brackets and without user information. A port is 1-65535, only
 * digits, without a leading zero; `default_port` if there is none (0: one is required, as in
 * CONNECT). */
bool kh_authority_parse(struct kh_authority *out, struct kh_slice text, uint16_t default_port,
			struct kh_err *err);
/* The part of a text, which may be no authority, that may be shown in messages: without user
 * information. A view. */
struct kh_slice kh_authority_shown(struct kh_slice text);
bool kh_authority_eq(const struct kh_authority *a, const struct kh_authority *b);
/* Appends "host:port", without the port if it is `default_port`, with brackets if needed. Return:
 * false as kh_buf_append. */
bool kh_authority_format(struct kh_buf *out, const struct kh_authority *authority,
			 uint16_t default_port);

/* Views of the target as received, and normalised paths in `store`. */
struct kh_target {
	bool absolute; /* absolute-form: scheme and authority are set */
	enum kh_scheme scheme;
	struct kh_authority authority;
	struct kh_slice raw; /* path and query as received, which are sent unchanged; begins with
				'/', or is "*" (OPTIONS) */
	struct kh_slice raw_path;
	struct kh_slice query; /* without '?'; ptr NULL: there is none */
	struct kh_slice path; /* normalised (path.h): unreserved characters decoded, upper-case hex,
				 %2F kept */
	struct kh_slice path_slashed;  /* with %2F as '/'; ptr NULL: it has none */
	struct kh_slice path_decoded;  /* decoded further (path.h); ptr NULL: that is the same */
	struct kh_path_cuts path_cuts; /* if it has an escaped '?' or '#' */
	struct kh_buf store;	       /* kh_target_fini */
};

/*
 * Parses origin-form, absolute-form (http and https), and `*` for OPTIONS (RFC 9112 §3.2). Refused:
 * dot segments (plain or escaped, also between %2F and %5C), a backslash, an escaped control byte
 * or NUL, a bad percent escape, a fragment, user information, any byte that RFC 3986 does not allow
 * in the path or the query (space, quotes, <>, ≥ 0x80), and ^, `, {|} in the path (in a query
 * browsers send them raw). For CONNECT's authority-form call kh_authority_parse. Return: false with
 * `err`. The caller calls kh_target_fini in either case.
 */
bool kh_target_parse(struct kh_target *out, struct kh_slice method, struct kh_slice target,
		     struct kh_err *err);
void kh_target_fini(struct kh_target *target);

static inline struct kh_path_readings kh_target_readings(const struct kh_target *target)
{
	return (struct kh_path_readings){ target->path, target->path_slashed, target->path_decoded,
					  &target->path_cuts };
}

/* Steps through the parameters of a query, split at '&' and ';': name and value still escaped.
 * Return: false at the end. */
bool kh_query_next(struct kh_slice *rest, struct kh_slice *name, struct kh_slice *value);

#endif
