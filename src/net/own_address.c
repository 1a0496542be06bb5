/*
 * own_address.c - is an address one of this host's own?
 *
 * A service that listens on a public address of the host often trusts clients on the host itself.
 * Addresses change (DHCP, IPv6 privacy addresses, floating addresses), so keyhole keeps no list and
 * asks the kernel each time. This sends nothing.
 *
 * It makes two tests, because neither is complete. (1) A socket can be bound only to an address of
 * the host, unless net.ipv4.ip_nonlocal_bind or its IPv6 counterpart is set; then documentation
 * addresses can be bound too, and the test is ignored. (2) A packet to an address of the host has
 * the same address as its source, except for secondary addresses of an interface.
 *
 * Where the kernel can't be asked, because there is no descriptor or port left for instance, the
 * address counts as the host's own.
 */
#include <keyhole/net/guard.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>

/* The address with another port; 0 lets the kernel choose where it is bound. */
static struct kh_sockaddr with_port(const struct kh_sockaddr *addr, uint16_t port)
{
	struct kh_sockaddr copy = *addr;
	if (copy.any.sa_family == AF_INET)
		copy.v4.sin_port = htons(port);
	else
		copy.v6.sin6_port = htons(port);
	return copy;
}

static bool same_host(const struct kh_sockaddr *a, const struct kh_sockaddr *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	return a->any.sa_family == AF_INET
		       ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
		       : memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

enum answer { NO = 1, YES, UNKNOWN };

/* By what a call has set errno to: is the address no own one, or is something lacking that the
 * question takes? */
static enum answer answer_of_errno(void)
{
	switch (errno) {
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case ENODEV:
	case EINVAL:
	case EACCES:
	case EPERM:
		return NO;
	default:
		return UNKNOWN;
	}
}

static enum answer can_bind(const struct kh_sockaddr *addr)
{
	struct kh_sockaddr any_port = with_port(addr, 0);
	kh_auto_close int fd = socket(addr->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && bind(fd, &any_port.any, any_port.len) == 0 ? YES : answer_of_errno();
}

/* 192.0.2.1 (RFC 5737) and 2001:db8::1 (RFC 3849) are no host's. */
static enum answer can_bind_anything(sa_family_t family)
{
	struct kh_sockaddr addr = { 0 };
	addr.any.sa_family = family;
	if (family == AF_INET) {
		addr.v4.sin_addr.s_addr = htonl(0xc0000201);
		addr.len = sizeof addr.v4;
	} else {
		static const uint8_t documentation[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };
		memcpy(&addr.v6.sin6_addr, documentation, sizeof documentation);
		addr.len = sizeof addr.v6;
	}
	return can_bind(&addr);
}

/* connect(2) of a datagram socket sends nothing. */
static enum answer is_its_own_source(const struct kh_sockaddr *addr)
{
	struct kh_sockaddr to = with_port(addr, 9), from = { .len = sizeof from.v6 };
	kh_auto_close int fd = socket(addr->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, &to.any, to.len) != 0 ||
	    getsockname(fd, &from.any, &from.len) != 0)
		return answer_of_errno();
	return same_host(&from, addr) ? YES : NO;
}

bool kh_guard_is_own(const struct kh_sockaddr *addr)
{
	if (is_its_own_source(addr) != NO)
		return true;
	return can_bind(addr) != NO && can_bind_anything(addr->any.sa_family) != YES;
}
