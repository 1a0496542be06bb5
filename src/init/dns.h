/*
 * dns.h - answers DNS queries; pure functions, no socket
 *
 * Names are never resolved. A name gets an address inside the sandbox (names.h); a connection to it
 * is relayed with the name, and the proxy decides. So the answer does not depend on whether the
 * name exists, and no query leaves the sandbox.
 *
 *   A, ANY of a host name     NOERROR, one A record (TTL below); SERVFAIL where there is no address
 *   any other type            NOERROR and empty (AAAA, HTTPS, MX, PTR …)
 *   localhost, *.localhost    127.0.0.1 and ::1 (RFC 6761, 6.3)
 *   a name of other bytes     NXDOMAIN (letters, digits, - and _ make a host)
 *   another class             REFUSED
 *   another opcode            NOTIMP
 *   not exactly one question,
 *   cut off, compressed       FORMERR
 *   an answer, under 12 bytes nothing at all
 *
 * Sections after the question (EDNS) are ignored, and the answer has no OPT record: RFC 6891, 6.2.2
 * allows that.
 */
#ifndef KEYHOLE_INIT_DNS_H
#define KEYHOLE_INIT_DNS_H

#include <stddef.h>
#include <stdint.h>

enum {
	INIT_DNS_NAME_BYTES = 254, /* the longest name as text, with its NUL (RFC 1035, 2.3.4) */
	INIT_DNS_ANSWER_BYTES = 12 + 255 + 4 + 28,
	INIT_DNS_TTL_S = 30,
};

/* Returns the address of a name (in lower case), in host byte order; 0: none is free. */
typedef uint32_t (*init_dns_address)(const char *name);

/* Return: the length of the answer in `out` (room for INIT_DNS_ANSWER_BYTES); 0: send no answer. */
size_t init_dns_answer(const uint8_t *query, size_t len, init_dns_address address, uint8_t *out);

#endif
