/* fetch.h - asking a token endpoint, in a process of its own that holds no key */
#ifndef KEYHOLE_FETCH_H
#define KEYHOLE_FETCH_H

#include <keyhole/buf.h>
#include <keyhole/err.h>
#include <keyhole/host.h>

/* "https://host[:port][/path]", nothing else: no user, no query, no fragment. */
struct kh_fetch_url {
	struct kh_host host;
	uint16_t port;
	struct kh_slice path; /* a view; "/" where there is none */
};
bool kh_fetch_url_parse(struct kh_fetch_url *out, struct kh_slice text, struct kh_err *err);

#endif
