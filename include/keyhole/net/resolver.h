/* resolver.h - names to addresses, by c-ares, on one thread's event loop */
#ifndef KEYHOLE_NET_RESOLVER_H
#define KEYHOLE_NET_RESOLVER_H

#include <keyhole/base/charge.h>
#include <keyhole/config/config.h>
#include <keyhole/base/limits.h>

struct event_base;
struct kh_resolver;

/*
 * Made before the lock-in, and opens no file: `resolv_conf` and `hosts` are the contents of those
 * files. Only nameserver and options lines count; the hosts file is searched before DNS. `config`
 * gives the site's pins, which are searched first (the caller looks up a tenant's pins), and the
 * nameservers, which replace those of resolv.conf. It must outlive the resolver, or be replaced by
 * kh_resolver_configure. Return: NULL with `err`.
 */
struct kh_resolver *kh_resolver_new(struct event_base *base, const struct kh_config *config,
				    struct kh_slice resolv_conf, struct kh_slice hosts,
				    struct kh_err *err);
void kh_resolver_configure(struct kh_resolver *resolver, const struct kh_config *config);
void kh_resolver_free(struct kh_resolver *resolver); /* frees pending lookups, without a callback */

struct kh_addresses {
	struct kh_sockaddr
		list[KH_LIMIT_ADDRESSES]; /* with the port; v6 and v4 interleaved (RFC 8305 §4) */
	size_t count;
	bool pinned; /* from upstream.resolve: has the pin's own port, and the guard does not check
			it */
};

struct kh_lookup;
/* Called once, never before kh_resolver_lookup has returned, with either `addresses` or `err`
 * (NAME_NOT_FOUND, DNS_ERROR, DNS_TIMEOUT); the other is NULL. Both are views until it returns. */
typedef void kh_lookup_cb(const struct kh_addresses *addresses, const struct kh_err *err,
			  void *arg);
/* A literal needs no DNS. Search domains are never appended. Answers are cached for their TTL (at
 * most 60 s), failures for 1 s. The lookup is freed before its callback. Return: NULL without
 * memory or if KH_LIMIT_RESOLVES lookups are in progress. */
struct kh_lookup *kh_resolver_lookup(struct kh_resolver *resolver, const struct kh_host *host,
				     uint16_t port, uint32_t timeout_ms, kh_lookup_cb *cb,
				     void *arg);
/* How many sockets to nameservers a lookup may have to itself; 0: all lookups share a few. */
size_t kh_resolver_sockets_of_a_lookup(void);
/*
 * A query to nameservers may outlive the lookups that wait for it, since these may be cancelled,
 * time out, or be satisfied with one address family. `charge` is the caller's charge for this
 * lookup, and must outlive it. If the last lookup leaves while the query goes on, its charge moves
 * to the query (the caller's is zeroed) and is released when the query ends. NULL: nobody is
 * charged, as at the beginning.
 */
void kh_lookup_charge(struct kh_lookup *lookup, struct kh_charge *charge);
void kh_lookup_cancel(struct kh_lookup *lookup); /* frees it; no callback follows */

#endif
