/* dns.c - parses a DNS query strictly, and writes the answer (RFC 1035) */
#include "dns.h"

#include <stdbool.h>
#include <string.h>

enum { NOERROR = 0, FORMERR = 1, SERVFAIL = 2, NXDOMAIN = 3, NOTIMP = 4, REFUSED = 5 };
enum { TYPE_A = 1, TYPE_AAAA = 28, TYPE_ANY = 255, CLASS_IN = 1, CLASS_ANY = 255 };
enum { HEADER = 12, LABEL_MOST = 63, WIRE_MOST = 255 };
enum { QR = 0x80, OPCODE = 0x78, RD = 0x01, RA = 0x80 };

struct question {
	char name[INIT_DNS_NAME_BYTES]; /* lower case, without the last dot */
	bool is_host;			/* nothing in it that a host's name has not */
	uint16_t type, class;
	size_t end; /* of it, in the query */
};

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint8_t lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

static bool is_host_byte(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool read_name(const uint8_t *query, size_t len, struct question *out)
{
	size_t at = HEADER, used = 0;
	out->is_host = true;
	for (;;) {
		if (at >= len)
			return false;
		size_t label = query[at++];
		if (label == 0)
			break;
		/* A pointer (0xc0) has nothing to point to but itself. */
		if (label > LABEL_MOST || label > len - at || at - HEADER + label + 1 > WIRE_MOST)
			return false;
		if (used > 0)
			out->name[used++] = '.';
		for (size_t i = 0; i < label; i++) {
			uint8_t c = lower(query[at + i]);
			out->is_host = out->is_host && is_host_byte(c);
			out->name[used++] = (char)c;
		}
		at += label;
	}
	out->name[used] = '\0';
	out->end = at;
	return true;
}

static bool read_question(const uint8_t *query, size_t len, struct question *out)
{
	if (get16(query + 4) != 1 || !read_name(query, len, out) || len - out->end < 4)
		return false;
	out->type = get16(query + out->end);
	out->class = get16(query + out->end + 2);
	out->end += 4;
	return true;
}

static bool is_localhost(const char *name)
{
	static const char local[] = "localhost";
	size_t len = strlen(name), tail = sizeof(local) - 1;
	return len >= tail && strcmp(name + len - tail, local) == 0 &&
	       (len == tail || name[len - tail - 1] == '.');
}

/* One record of the name that was asked for. Return: its length. */
static size_t put_record(uint8_t *out, unsigned type, const uint8_t *data, unsigned len)
{
	put16(out, 0xc000 | HEADER); /* the name stands in the question */
	put16(out + 2, type);
	put16(out + 4, CLASS_IN);
	put16(out + 6, 0);
	put16(out + 8, INIT_DNS_TTL_S);
	put16(out + 10, len);
	memcpy(out + 12, data, len);
	return 12 + len;
}

static size_t put_answer(const struct question *q, init_dns_address address, uint8_t *out,
			 unsigned *rcode)
{
	static const uint8_t one[16] = { [15] = 1 };
	bool local = is_localhost(q->name);
	if (q->class != CLASS_IN && q->class != CLASS_ANY) {
		*rcode = REFUSED;
		return 0;
	}
	if (!q->is_host) {
		*rcode = NXDOMAIN;
		return 0;
	}
	if (local && q->type == TYPE_AAAA)
		return put_record(out, TYPE_AAAA, one, sizeof(one));
	if ((q->type != TYPE_A && q->type != TYPE_ANY) || !q->name[0])
		return 0;
	uint32_t ip = local ? 0x7f000001 : address(q->name);
	if (ip == 0) {
		*rcode = SERVFAIL;
		return 0;
	}
	uint8_t bytes[4];
	put16(bytes, ip >> 16);
	put16(bytes + 2, ip & 0xffff);
	return put_record(out, TYPE_A, bytes, sizeof(bytes));
}

size_t init_dns_answer(const uint8_t *query, size_t len, init_dns_address address, uint8_t *out)
{
	if (len < HEADER || (query[2] & QR))
		return 0;
	struct question q = { .end = HEADER };
	unsigned rcode = NOERROR;
	bool asked = false;
	if (query[2] & OPCODE)
		rcode = NOTIMP;
	else if (read_question(query, len, &q))
		asked = true;
	else
		rcode = FORMERR;

	size_t end = asked ? q.end : HEADER, record = 0;
	memset(out, 0, HEADER);
	memcpy(out + HEADER, query + HEADER, end - HEADER);
	if (asked)
		record = put_answer(&q, address, out + end, &rcode);
	memcpy(out, query, 2);
	out[2] = (uint8_t)(QR | (query[2] & (OPCODE | RD)));
	out[3] = (uint8_t)(RA | rcode);
	put16(out + 4, asked ? 1 : 0);
	put16(out + 6, record ? 1 : 0);
	return end + record;
}
