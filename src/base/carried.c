/*
 * carried.c - the IPv4 addresses that an IPv6 address embeds
 *
 * A connection to one of these IPv6 addresses may end at an IPv4 address, through the kernel, a
 * gateway or a relay. The address guard, and rules that name addresses, check both.
 */
#include <keyhole/base/host.h>

#include <stdio.h>

static bool begins(const uint8_t a[16], const uint8_t *prefix, size_t bytes)
{
	return memcmp(a, prefix, bytes) == 0;
}
#define BEGINS(a, ...) \
	begins(a, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* RFC 6052 §2.2: behind a /48 the address goes around byte 8; or it is a /96. */
static unsigned carried_by_local_nat64(const uint8_t a[16], uint8_t out[2][4])
{
	unsigned n = 0;
	if (a[6] | a[7] | a[9] | a[10]) {
		memcpy(out[n], a + 6, 2);
		memcpy(out[n++] + 2, a + 9, 2);
	}
	if (a[12] | a[13] | a[14] | a[15])
		memcpy(out[n++], a + 12, 4);
	return n;
}

/* RFC 4380 §4: the client inverted, the server as it is. */
static unsigned carried_by_teredo(const uint8_t a[16], uint8_t out[2][4])
{
	for (unsigned i = 0; i < 4; i++)
		out[0][i] = (uint8_t)~a[12 + i];
	memcpy(out[1], a + 4, 4);
	return 2;
}

unsigned kh_address_carried(const uint8_t a[16], uint8_t out[2][4])
{
	bool compatible = BEGINS(a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	if (BEGINS(a, 0, 0x64, 0xff, 0x9b, 0, 1))
		return carried_by_local_nat64(a, out);
	if (BEGINS(a, 0x20, 0x01, 0, 0))
		return carried_by_teredo(a, out);
	/* ::0 and ::1 have classes of their own, nearer to the point than 0.0.0.0/8. */
	if (BEGINS(a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff) ||
	    BEGINS(a, 0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0) ||
	    (compatible && (a[12] | a[13] | a[14]))) {
		memcpy(out[0], a + 12, 4);
		return 1;
	}
	if (BEGINS(a, 0x20, 0x02)) {
		memcpy(out[0], a + 2, 4);
		return 1;
	}
	return 0;
}

void kh_host_of_v4(struct kh_host *out, const uint8_t addr[4])
{
	*out = (struct kh_host){ .kind = KH_HOST_IPV4 };
	int n = snprintf(out->text, sizeof(out->text), "%u.%u.%u.%u", addr[0], addr[1], addr[2],
			 addr[3]);
	out->len = (uint8_t)n;
	memcpy(out->addr, addr, 4);
}
