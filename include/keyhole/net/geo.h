/* geo.h - the country and the network (AS) of an address, from MMDB databases */
#ifndef KEYHOLE_NET_GEO_H
#define KEYHOLE_NET_GEO_H

#include <keyhole/policy/policy.h>

/* The databases of upstream.geo, or one of them. Immutable, shared by threads; reference-counted
 * (atomically). */
struct kh_geo;

/*
 * Opens databases from descriptors of sealed memfds, which stay the caller's; -1: not configured. A
 * database is refused (CONFIG; the message has no file name) if it can't be read, or if its first
 * records have no data of its kind (country.iso_code for countries, autonomous_system_number for
 * networks). Opens /proc/self/fd, or the descriptor lent with kh_file_lend. Return: NULL with
 * `err`.
 */
struct kh_geo *kh_geo_open(int country, int asn, struct kh_err *err);
/* The same from files, which are copied first; NULL: not configured. The error names the option and
 * the file. */
struct kh_geo *kh_geo_load(const char *country, const char *asn, struct kh_err *err);
/* NULL is fine, in both. */
struct kh_geo *kh_geo_ref(struct kh_geo *geo);
void kh_geo_unref(struct kh_geo *geo);

struct kh_place {
	char country[3]; /* two capital letters; "": unknown */
	uint32_t asn;	 /* 0: unknown */
	bool failed;	 /* the lookup failed: a database is damaged */
};

/* The place of an address; for an IPv6 address that embeds an IPv4 one, the place of the IPv4
 * address. `geo` NULL: all is unknown. */
void kh_geo_find(const struct kh_geo *geo, const struct kh_sockaddr *addr, struct kh_place *out);

/*
 * May this address be dialled? If one level denies it, it is denied; so is an address whose lookup
 * fails while any level has a list. Each address that it embeds (kh_guard_carried) must pass too.
 * Return: false with GEO_PROHIBITED, which names place and level.
 */
bool kh_geo_allows(const struct kh_geo *geo, const struct kh_geo_levels *levels,
		   const struct kh_sockaddr *addr, struct kh_err *err);
/* The level that denies this place, as text ("site.geo", "the tenant's geo" …); NULL: none. */
const char *kh_geo_denies(const struct kh_geo_levels *levels, const struct kh_place *place);

#endif
