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
 * Policy, DNS, dialling, SNI, certificates, connection pool and injection all use this form of a
 * host and no other.
 *
 * A name consists of letters, digits, hyphens and underscores, in labels of 1 to 63 bytes that are
 * joined by single dots; it has at most 253 bytes and is put into lower case. Refused, and never
 * repaired: an empty text or label, a trailing dot, a label that begins or ends with a hyphen, a
 * byte ≥ 0x80 (IDNs come as A-labels), a percent sign, NUL, blanks, and a name whose last label is
 * a number or 0x-number unless the whole is a canonical dotted quad (so no octal, hex, short or
 * integer spellings of IPv4: WHATWG's "ends in a number"). An IPv6 literal is what inet_pton
 * accepts (no zone), in the form that inet_ntop writes; brackets belong to the authority
 * (target.h), not to the host.
 */
struct kh_host {
	enum kh_host_kind kind;
	uint8_t len;
	char text[KH_HOST_MAX_BYTES + 1]; /* terminated */
	uint8_t addr[16];		  /* network order; 4 bytes for IPV4 */
};

/* Return: false with KH_ERR_REQUEST_MALFORMED; then `out` is KH_HOST_NONE. */
bool kh_host_parse(struct kh_host *out, struct kh_slice text, struct kh_err *err);
/* False if either is KH_HOST_NONE. */
bool kh_host_eq(const struct kh_host *a, const struct kh_host *b);
static inline struct kh_slice kh_host_view(const struct kh_host *host)
{
	return (struct kh_slice){ host->text, host->len };
}

/* Parses "host", "host:port" or "[v6]:port" of the configuration, exactly as kh_authority_parse
 * (target.h) would. Without a port `default_port` is used; 0: a port is required. Return: false;
 * there is no message, since the text may be a secret in the wrong place. */
bool kh_host_port_parse(struct kh_host *host, uint16_t *port, struct kh_slice text,
			uint16_t default_port);

/* An address range. IPv4 and IPv6 never match each other. */
struct kh_cidr {
	uint8_t family; /* 4 or 6; 0 matches nothing */
	uint8_t prefix_bits;
	uint8_t addr[16];
};

/* "10.0.0.0/8", "fd00::/8", or a bare address (a prefix of all bits). Bits after the prefix must be
 * zero. */
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
/* The same address and port? */
bool kh_sockaddr_eq(const struct kh_sockaddr *a, const struct kh_sockaddr *b);
/* 127.0.0.0/8, ::1. */
bool kh_sockaddr_is_loopback(const struct kh_sockaddr *addr);

/*
 * The IPv4 addresses that an IPv6 address embeds, and that a gateway or the kernel may connect to:
 * at most two. IPv4-mapped and IPv4-compatible (RFC 4291), NAT64 (RFC 6052, RFC 8215), 6to4 (RFC
 * 3056), Teredo (RFC 4380: the client's and the server's). Return: how many.
 */
unsigned kh_address_carried(const uint8_t addr[16], uint8_t out[2][4]);
void kh_host_of_v4(struct kh_host *out, const uint8_t addr[4]);

/* The socket address of a host that is an IP address; len 0 for a name. */
void kh_host_sockaddr(const struct kh_host *host, uint16_t port, struct kh_sockaddr *out);
/* The IP address as a host. Return: false: it is neither IPv4 nor IPv6. */
bool kh_host_of_sockaddr(struct kh_host *out, const struct kh_sockaddr *addr);

#endif
