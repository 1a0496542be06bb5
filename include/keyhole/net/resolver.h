/* resolver.h - names to addresses, by c-ares, on one thread's event loop */
#ifndef KEYHOLE_NET_RESOLVER_H
#define KEYHOLE_NET_RESOLVER_H

#include <keyhole/base/charge.h>
#include <keyhole/config/config.h>
#include <keyhole/base/limits.h>

struct event_base;
struct kh_resolver;

/*
 * Made before the lock-in, and opens no file: `resolv_conf` and `hosts` are the texts of those
 * files (nameserver and options lines; names of the hosts file are found before DNS is asked).
 * `config` gives the site's pins (first of all; a tenant's are its caller's to find) and
 * nameservers (instead of resolv.conf's); it outlives the resolver or is replaced by
 * kh_resolver_configure.
 */
struct kh_resolver *kh_resolver_new(struct event_base *base, const struct kh_config *config,
				    struct kh_slice resolv_conf, struct kh_slice hosts,
				    struct kh_err *err);
void kh_resolver_configure(struct kh_resolver *resolver, const struct kh_config *config);
void kh_resolver_free(struct kh_resolver *resolver); /* pending lookups end without a callback */

struct kh_addresses {
	struct kh_sockaddr
		list[KH_LIMIT_ADDRESSES]; /* port set; v6 and v4 interleaved, RFC 8305 §4 */
	size_t count;
	bool pinned; /* from upstream.resolve: the pin's own port, and the guard does not judge it
		      */
};

struct kh_lookup;
/* Called once, never before kh_resolver_lookup has returned; `err` (NAME_NOT_FOUND, DNS_ERROR,
 * DNS_TIMEOUT) or addresses. */
typedef void kh_lookup_cb(const struct kh_addresses *addresses, const struct kh_err *err,
			  void *arg);
/* A literal is answered without DNS. Search domains are never appended. Names are cached for their
 * TTL (at most 60 s, failures 1 s). Return: NULL without memory or above KH_LIMIT_RESOLVES. */
struct kh_lookup *kh_resolver_lookup(struct kh_resolver *resolver, const struct kh_host *host,
				     uint16_t port, uint32_t timeout_ms, kh_lookup_cb *cb,
				     void *arg);
/*
 * A question to nameservers may outlive the lookups that waited for its answer: they were
 * cancelled, came to their deadline, or made do with one family. So `charge`, which the caller
 * holds for the lookup and which outlives it, goes over to the question then where nobody else
 * waits for it, and is given back when the question ends: the caller's is zeroed. NULL: nobody is
 * charged, as from the beginning.
 */
void kh_lookup_charge(struct kh_lookup *lookup, struct kh_charge *charge);
void kh_lookup_cancel(struct kh_lookup *lookup); /* the callback will not come */

#endif
