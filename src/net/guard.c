/*
 * guard.c - which addresses a sandbox may be connected to
 *
 * A table of ranges is searched from the top; the first range that contains the address gives its
 * class. Narrow ranges (metadata) come before the wide ones that contain them. One rule completes
 * the table for IPv6: nothing outside of 2000::/3 is assigned as global unicast (RFC 4291 §2.4), so
 * all of it is refused, whatever a registry may add later.
 *
 * Some IPv6 ranges embed an IPv4 address that a gateway or the kernel will connect to. That address
 * is checked first, since its class says more. If it is public, the class of the IPv6 range
 * decides: v4-mapped and 64:ff9b::/96 (which DNS64 networks depend on) may be dialled, the
 * deprecated and site-local mechanisms may not.
 *
 * An address that the table does not refuse may still be one of this host's own (own_address.c).
 *
 * Sources: IANA's IPv4 and IPv6 special-purpose address registries, the IPv4 and IPv6 address space
 * registries, and the clouds' own documentation of their metadata services.
 */
#include <keyhole/net/guard.h>

#include <string.h>

struct range {
	uint8_t addr[16];
	uint8_t bits;
	const char *class_name;
};

#define V4(a, b, c, d, prefix, name) \
	{ \
		.addr = { a, b, c, d }, .bits = (prefix), .class_name = (name) \
	}
/* Eight groups, as the address is written in full. */
#define HI(g) (uint8_t)((g) >> 8)
#define LO(g) (uint8_t)((g)&0xff)
#define V6(a, b, c, d, e, f, g, h, prefix, name) \
	{ \
		.addr = { HI(a), LO(a), HI(b), LO(b), HI(c), LO(c), HI(d), LO(d), \
			  HI(e), LO(e), HI(f), LO(f), HI(g), LO(g), HI(h), LO(h) }, \
		.bits = (prefix), .class_name = (name) \
	}

static const struct range v4_ranges[] = {
	/* Services that hand out a machine's own credentials, or configure it. */
	V4(169, 254, 169, 254, 32, "metadata"), /* AWS, Google, Azure, Oracle, DigitalOcean … */
	V4(169, 254, 170, 0, 24, "metadata"),	/* AWS: container credentials, pod identity */
	V4(169, 254, 169, 0, 24, "metadata"),	/* AWS: resolver, time */
	V4(169, 254, 0, 23, 32, "metadata"),	/* Tencent */
	V4(169, 254, 42, 42, 32, "metadata"),	/* Scaleway */
	V4(100, 100, 100, 200, 32, "metadata"), /* Alibaba */
	V4(192, 0, 0, 192, 32, "metadata"),	/* Oracle Classic */
	V4(168, 63, 129, 16, 32, "metadata"),	/* Azure wire server; a public address */

	V4(0, 0, 0, 0, 8, "unspecified"),     /* RFC 791 "this network": Linux dials itself */
	V4(10, 0, 0, 0, 8, "private"),	      /* RFC 1918 */
	V4(100, 64, 0, 0, 10, "cgnat"),	      /* RFC 6598 */
	V4(127, 0, 0, 0, 8, "loopback"),      /* RFC 1122 §3.2.1.3 */
	V4(169, 254, 0, 0, 16, "link_local"), /* RFC 3927 */
	V4(172, 16, 0, 0, 12, "private"),
	V4(192, 0, 0, 0, 24, "protocol_assignment"),	/* RFC 6890 §2.1 */
	V4(192, 0, 2, 0, 24, "documentation"),		/* RFC 5737 */
	V4(192, 31, 196, 0, 24, "protocol_assignment"), /* AS112, RFC 7535 */
	V4(192, 52, 193, 0, 24, "protocol_assignment"), /* AMT, RFC 7450 */
	V4(192, 88, 99, 0, 24, "6to4"),			/* relay anycast, RFC 7526 */
	V4(192, 168, 0, 0, 16, "private"),
	V4(192, 175, 48, 0, 24, "protocol_assignment"), /* AS112, RFC 7534 */
	V4(198, 18, 0, 0, 15, "benchmarking"),		/* RFC 2544 */
	V4(198, 51, 100, 0, 24, "documentation"),
	V4(203, 0, 113, 0, 24, "documentation"),
	V4(224, 0, 0, 0, 4, "multicast"), /* RFC 5771 */
	V4(255, 255, 255, 255, 32, "broadcast"),
	V4(240, 0, 0, 0, 4, "reserved"), /* RFC 1112 §4 */
};

static const struct range v6_ranges[] = {
	V6(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0, 32, "metadata"),	       /* AWS */
	V6(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254, 128, "metadata"),       /* Google */
	V6(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe, 128, "metadata"), /* Oracle */
	V6(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42, 128, "metadata"),	       /* Scaleway */
	V6(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe, 128, "metadata"),    /* OpenStack */

	V6(0, 0, 0, 0, 0, 0, 0, 0, 128, "unspecified"),
	V6(0, 0, 0, 0, 0, 0, 0, 1, 128, "loopback"),
	V6(0, 0, 0, 0, 0, 0, 0, 0, 96, "v4_compatible"),	    /* RFC 4291 §2.5.5.1 */
	V6(0x64, 0xff9b, 1, 0, 0, 0, 0, 0, 48, "nat64"),	    /* local use, RFC 8215 */
	V6(0x100, 0, 0, 0, 0, 0, 0, 0, 64, "discard"),		    /* RFC 6666 */
	V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 32, "teredo"),		    /* RFC 4380 */
	V6(0x2001, 2, 0, 0, 0, 0, 0, 0, 48, "benchmarking"),	    /* RFC 5180 */
	V6(0x2001, 0, 0, 0, 0, 0, 0, 0, 23, "protocol_assignment"), /* RFC 2928 */
	V6(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0, 32, "documentation"),   /* RFC 3849 */
	V6(0x2002, 0, 0, 0, 0, 0, 0, 0, 16, "6to4"),		    /* RFC 3056, RFC 7526 */
	V6(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0, 48, "protocol_assignment"), /* AS112 */
	V6(0x3fff, 0, 0, 0, 0, 0, 0, 0, 20, "documentation"),		    /* RFC 9637 */
	V6(0x5f00, 0, 0, 0, 0, 0, 0, 0, 16, "segment_routing"),		    /* RFC 9602 */
	V6(0xfc00, 0, 0, 0, 0, 0, 0, 0, 7, "unique_local"),		    /* RFC 4193 */
	V6(0xfe80, 0, 0, 0, 0, 0, 0, 0, 10, "link_local"),		    /* RFC 4291 */
	V6(0xfec0, 0, 0, 0, 0, 0, 0, 0, 10, "site_local"),		    /* RFC 3879 */
	V6(0xff00, 0, 0, 0, 0, 0, 0, 0, 8, "multicast"),
};

static const struct range global_unicast = V6(0x2000, 0, 0, 0, 0, 0, 0, 0, 3, NULL);
static const struct range v4_mapped = V6(0, 0, 0, 0, 0, 0xffff, 0, 0, 96, NULL);
static const struct range nat64 = V6(0x64, 0xff9b, 0, 0, 0, 0, 0, 0, 96, NULL);

static bool holds(const struct range *range, const uint8_t *addr)
{
	size_t whole = range->bits / 8, rest = range->bits % 8;
	if (memcmp(range->addr, addr, whole) != 0)
		return false;
	if (rest == 0)
		return true;
	uint8_t mask = (uint8_t)(0xff << (8 - rest));
	return (range->addr[whole] & mask) == (addr[whole] & mask);
}

static const char *search(const struct range *ranges, size_t n, const uint8_t *addr)
{
	for (size_t i = 0; i < n; i++) {
		if (holds(&ranges[i], addr))
			return ranges[i].class_name;
	}
	return NULL;
}

static const char local_address[] = "local";

static const char *judge_v4(const uint8_t addr[4])
{
	struct kh_sockaddr whole = { .len = sizeof whole.v4 };
	const char *refused = search(v4_ranges, sizeof v4_ranges / sizeof v4_ranges[0], addr);
	if (refused)
		return refused;
	whole.v4.sin_family = AF_INET;
	memcpy(&whole.v4.sin_addr, addr, 4);
	return kh_guard_is_own(&whole) ? local_address : NULL;
}

unsigned kh_guard_carried(const struct kh_sockaddr *addr, uint8_t out[2][4])
{
	return addr->any.sa_family == AF_INET6 ? kh_address_carried(addr->v6.sin6_addr.s6_addr, out)
					       : 0;
}

/* The class of an IPv4 address that `a` carries; NULL: none is carried, or a public one. */
static const char *judge_embedded(const uint8_t a[16])
{
	uint8_t v4[2][4];
	unsigned n = kh_address_carried(a, v4);
	const char *refused = NULL;
	for (unsigned i = 0; i < n && !refused; i++)
		refused = judge_v4(v4[i]);
	return refused;
}

static const char *judge_v6(const uint8_t a[16])
{
	const char *refused = judge_embedded(a);
	if (refused)
		return refused;
	if (holds(&v4_mapped, a) || holds(&nat64, a))
		return NULL;
	refused = search(v6_ranges, sizeof v6_ranges / sizeof v6_ranges[0], a);
	if (refused)
		return refused;
	if (!holds(&global_unicast, a))
		return "reserved";
	struct kh_sockaddr whole = { .len = sizeof whole.v6 };
	whole.v6.sin6_family = AF_INET6;
	memcpy(&whole.v6.sin6_addr, a, sizeof whole.v6.sin6_addr);
	return kh_guard_is_own(&whole) ? local_address : NULL;
}

static bool opened(const struct kh_cidr *allow, size_t n, uint8_t family, const uint8_t *addr)
{
	for (size_t i = 0; i < n; i++) {
		if (kh_cidr_has(&allow[i], family, addr))
			return true;
	}
	return false;
}

const char *kh_guard_refuses(const struct kh_sockaddr *addr, const struct kh_cidr *allow,
			     size_t n_allow)
{
	if (addr->any.sa_family == AF_INET) {
		uint8_t a[4];
		memcpy(a, &addr->v4.sin_addr, sizeof a);
		return opened(allow, n_allow, 4, a) ? NULL : judge_v4(a);
	}
	if (addr->any.sa_family == AF_INET6) {
		const uint8_t *a = addr->v6.sin6_addr.s6_addr;
		if (opened(allow, n_allow, 6, a))
			return NULL;
		if (holds(&v4_mapped, a) && opened(allow, n_allow, 4, a + 12))
			return NULL;
		return judge_v6(a);
	}
	return "unknown_family";
}

bool kh_guard_known(const struct kh_host *host, uint16_t port, struct kh_sockaddr *out)
{
	static const struct kh_host loopback = { .kind = KH_HOST_IPV4, .addr = { 127, 0, 0, 1 } };
	struct kh_slice name = kh_host_view(host);
	bool local = kh_slice_eq(name, KH_SLICE("localhost")) ||
		     kh_slice_has_suffix(name, KH_SLICE(".localhost"));
	if (host->kind == KH_HOST_NAME && !local)
		return false;
	kh_host_sockaddr(local ? &loopback : host, port, out);
	return true;
}

bool kh_guard_choose(const struct kh_addresses *addresses, kh_guard_judge *judge, void *arg,
		     struct kh_host *out, struct kh_err *err)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		for (size_t i = 0; i < addresses->count; i++) {
			const struct kh_sockaddr *addr = &addresses->list[i];
			if (addr->any.sa_family == families[f] && judge(arg, addr, err) &&
			    kh_host_of_sockaddr(out, addr))
				return true;
		}
	}
	return err->code ? false
			 : kh_err_set(err, KH_ERR_UNREACHABLE, "there is no address to connect to");
}

bool kh_guard_lets_stay(const struct kh_config *config, uint16_t tenant, const struct kh_host *host,
			const struct kh_sockaddr *addr)
{
	const struct kh_pin *pin = kh_config_pin(config, tenant, host);
	size_t n;

	if (pin)
		return addr && kh_sockaddr_eq(&pin->addr, addr);
	const struct kh_cidr *allow = kh_config_allowed_addresses(config, tenant, &n);
	return !addr || !kh_guard_refuses(addr, allow, n);
}
