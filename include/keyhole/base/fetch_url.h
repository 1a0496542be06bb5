/* fetch_url.h - parses the URL of a token endpoint */
#ifndef KEYHOLE_BASE_FETCH_URL_H
#define KEYHOLE_BASE_FETCH_URL_H

#include <stdint.h>

#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/base/slice.h>

/* "https://host[:port][/path]" and nothing else: no user information, no query, no fragment. An
 * IPv6 address is in brackets. */
struct kh_fetch_url {
	struct kh_host host;
	uint16_t port;
	struct kh_slice path; /* a view of the text; "/" if there is none */
};
bool kh_fetch_url_parse(struct kh_fetch_url *out, struct kh_slice text, struct kh_err *err);

#endif
