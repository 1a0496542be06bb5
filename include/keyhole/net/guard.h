/* guard.h - which addresses a sandbox may be connected to */
#ifndef KEYHOLE_NET_GUARD_H
#define KEYHOLE_NET_GUARD_H

#include <keyhole/config/config.h>
#include <keyhole/net/resolver.h>

/*
 * Refuses the special-purpose addresses of IANA's registries (RFC 6890 and updates) and clouds'
 * metadata addresses: loopback, unspecified, private, CGNAT, link-local, ULA, site-local,
 * multicast, broadcast, documentation, benchmark, protocol assignments, reserved. Of an IPv6
 * address that embeds an IPv4 one (v4-mapped, v4-compatible, NAT64 64:ff9b::/96 and 64:ff9b:1::/48,
 * 6to4, Teredo), both are checked. A public address of this host itself is refused too ("local";
 * kh_guard_is_own). An address in a range of `allow` is not refused; a mapped address is compared
 * with v4 ranges too. Return: NULL if it may be dialled, else the name of its class ("loopback",
 * "metadata" …).
 */
const char *kh_guard_refuses(const struct kh_sockaddr *addr, const struct kh_cidr *allow,
			     size_t n_allow);

/* Is it an address of this host, in this process's network namespace? Asks the kernel at each call,
 * and sends nothing. If ip_nonlocal_bind is set, it does not recognise secondary addresses of an
 * interface. Return: false also if no socket can be made. */
bool kh_guard_is_own(const struct kh_sockaddr *addr);

/* The IPv4 addresses, at most two, that an IPv6 address embeds: a gateway or the kernel would
 * connect to them. Return: how many. */
unsigned kh_guard_carried(const struct kh_sockaddr *addr, uint8_t out[2][4]);

/* The address of a host that is known without a lookup: a literal, or localhost, which is loopback
 * (RFC 6761 §6.3; a proxy would take it for its own). Return: false for other names. */
bool kh_guard_known(const struct kh_host *host, uint16_t port, struct kh_sockaddr *out);

/* After a reload: may this tenant's connection to `host` stay? It may if it leads to the address to
 * which `config` pins the host; without a pin, if the guard allows its address. `addr` NULL: it
 * goes through a proxy, and nobody here knows where. */
bool kh_guard_lets_stay(const struct kh_config *config, uint16_t tenant, const struct kh_host *host,
			const struct kh_sockaddr *addr);

/* Return: false with `err` if this address must not be connected to. */
typedef bool kh_guard_judge(void *arg, const struct kh_sockaddr *addr, struct kh_err *err);
/*
 * Chooses the address that a CONNECT to a proxy will name: the first that `judge` accepts, IPv4
 * before IPv6, since not every proxy supports both. `judge` is not called after it accepted one.
 * `err` must be given and empty. Return: false with the last error of `judge`, or UNREACHABLE if
 * the list is empty.
 */
bool kh_guard_choose(const struct kh_addresses *addresses, kh_guard_judge *judge, void *arg,
		     struct kh_host *out, struct kh_err *err);

#endif
