/* guard.h - which addresses a sandbox may be connected to */
#ifndef KEYHOLE_NET_GUARD_H
#define KEYHOLE_NET_GUARD_H

#include <keyhole/config/config.h>
#include <keyhole/net/resolver.h>

/*
 * The special-purpose registries of IANA (RFC 6890 and updates) and clouds' metadata addresses:
 * loopback, unspecified, private, CGNAT, link-local, ULA, site-local, multicast, broadcast,
 * documentation, benchmark, protocol assignments, reserved; and an IPv6 address that embeds an IPv4
 * one (v4-mapped, v4-compatible, NAT64 64:ff9b::/96 and 64:ff9b:1::/48, 6to4, Teredo) is judged by
 * both. An address that is public and this host's own is refused too ("local"; kh_guard_is_own).
 * `allow` opens exact ranges; a mapped address is held against v4 ranges too. Return: NULL
 * when it may be dialled, else the name of its class ("loopback", "metadata" …).
 */
const char *kh_guard_refuses(const struct kh_sockaddr *addr, const struct kh_cidr *allow,
			     size_t n_allow);

/* Is it an address of this host, in the network namespace that this process is in? Asks the kernel
 * at each call, and sends nothing. With ip_nonlocal_bind set, an interface's secondary addresses
 * are not recognised. Return: false where no socket can be made. */
bool kh_guard_is_own(const struct kh_sockaddr *addr);

/* The IPv4 addresses, two at most, that an IPv6 one stands for to a gateway or to the kernel: what
 * is reached by it. Return: how many. */
unsigned kh_guard_carried(const struct kh_sockaddr *addr, uint8_t out[2][4]);

/* Where a host lies as far as it is known without a look-up: a literal, or localhost, which is
 * loopback (RFC 6761 §6.3; behind a proxy it would be the proxy's). Return: false of other names.
 */
bool kh_guard_known(const struct kh_host *host, uint16_t port, struct kh_sockaddr *out);

/* Return: false with `err` where nobody is to be connected there. */
typedef bool kh_guard_judge(void *arg, const struct kh_sockaddr *addr, struct kh_err *err);
/*
 * The address that a CONNECT will name: the first that may be dialled, of version 4 where there is
 * one, since not every proxy speaks both. It is the last that was judged. Return: false with what
 * was said last of one, or UNREACHABLE where there is none.
 */
bool kh_guard_choose(const struct kh_addresses *addresses, kh_guard_judge *judge, void *arg,
		     struct kh_host *out, struct kh_err *err);

#endif
