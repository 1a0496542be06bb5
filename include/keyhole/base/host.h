/* host.h - the one canonical form of a host */
#ifndef KEYHOLE_BASE_HOST_H
#define KEYHOLE_BASE_HOST_H

#include <netinet/in.h>
#include <stdint.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/* Zero is no kind, so that a zeroed host matches nothing. */
enum kh_host_kind { KH_HOST_NONE = 0, KH_HOST_NAME, KH_HOST_IPV4, KH_HOST_IPV6 };

enum { KH_HOST_MAX_BYTES = 253 };

/*
 * Policy, DNS, dialling, SNI, certificate, pool and injection all take this and nothing else.
 *
 * A name is letters, digits, hyphens and underscores in labels of 1 to 63 bytes joined by single
 * dots, at most 253 bytes, put into lower case. Refused, never repaired: an empty text or label, a
 * trailing dot, a label that begins or ends with a hyphen, a byte ≥ 0x80 (IDNs come as A-labels), a
 * percent sign, NUL, blanks, and a name whose last label is a number or 0x-number without being a
 * canonical dotted quad (octal, hex, short and integer spellings of IPv4: WHATWG's "ends in a
 * number"). An IPv6 literal is what inet_pton takes (no zone), written back by inet_ntop; brackets
 * are the authority's affair (target.h), not the host's.
 */
struct kh_host {
	enum kh_host_kind kind;
	uint8_t len;
	char text[KH_HOST_MAX_BYTES + 1]; /* terminated */
	uint8_t addr[16];		  /* network order; 4 bytes for IPV4 */
};

bool kh_host_parse(struct kh_host *out, struct kh_slice text, struct kh_err *err);
bool kh_host_eq(const struct kh_host *a, const struct kh_host *b);
static inline struct kh_slice kh_host_view(const struct kh_host *host)
{
	return (struct kh_slice){ host->text, host->len };
}

/* "host", "host:port", "[v6]:port" of an operator's: what kh_authority_parse (target.h) takes of
 * them, and nothing else. Without a port `default_port`; 0: one must be written. Says no words,
 * since it may be a secret in the wrong place. */
bool kh_host_port_parse(struct kh_host *host, uint16_t *port, struct kh_slice text,
			uint16_t default_port);

/* An address range: v4 and v6 are different families and never match each other. */
struct kh_cidr {
	uint8_t family; /* 4 or 6; 0 matches nothing */
	uint8_t prefix_bits;
	uint8_t addr[16];
};

/* "10.0.0.0/8", "fd00::/8", or a bare address (all its bits). Bits behind the prefix must be zero.
 */
bool kh_cidr_parse(struct kh_cidr *out, struct kh_slice text, struct kh_err *err);
bool kh_cidr_has(const struct kh_cidr *range, uint8_t family, const uint8_t *addr);

/* An address and a port to dial. */
struct kh_sockaddr {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

/* "127.0.0.1:9443", "[::1]:53"; without a port `default_port`. */
bool kh_sockaddr_parse(struct kh_sockaddr *out, struct kh_slice text, uint16_t default_port,
		       struct kh_err *err);
/* "127.0.0.1:9443" or "[::1]:9443". */
enum { KH_SOCKADDR_TEXT_BYTES = 64 };
void kh_sockaddr_format(const struct kh_sockaddr *addr, char out[KH_SOCKADDR_TEXT_BYTES]);
/* 127.0.0.0/8, ::1. */
bool kh_sockaddr_is_loopback(const struct kh_sockaddr *addr);

/*
 * The IPv4 addresses that an IPv6 one carries, which a gateway or the kernel will connect to: at
 * most two. v4-mapped and v4-compatible (RFC 4291), NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056),
 * Teredo (RFC 4380: the client's and the server's). Return: how many.
 */
unsigned kh_address_carried(const uint8_t addr[16], uint8_t out[2][4]);
void kh_host_of_v4(struct kh_host *out, const uint8_t addr[4]);

/* Of a host that is an address; an empty one (len 0) of a name. */
void kh_host_sockaddr(const struct kh_host *host, uint16_t port, struct kh_sockaddr *out);
/* The address as a host. Return: false when it is of neither version. */
bool kh_host_of_sockaddr(struct kh_host *out, const struct kh_sockaddr *addr);

#endif
