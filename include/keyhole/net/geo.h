/* geo.h - where an address lies: its country and its network, by databases (MMDB) */
#ifndef KEYHOLE_NET_GEO_H
#define KEYHOLE_NET_GEO_H

#include <keyhole/policy/policy.h>

/* The databases of upstream.geo, or one of them. Immutable, shared by threads; reference-counted
 * (atomically). */
struct kh_geo;

/*
 * From descriptors of sealed memfds, which stay the caller's; -1: that one is not there. A database
 * that can't be read, or in whose first records nothing of its kind stands (countries:
 * country.iso_code; networks: autonomous_system_number), is refused: CONFIG, without its name.
 * Opens /proc/self/fd, or what kh_file_lend stands for.
 */
struct kh_geo *kh_geo_open(int country, int asn, struct kh_err *err);
/* The same from files, copied first; NULL: not there. The error names the option and the file. */
struct kh_geo *kh_geo_load(const char *country, const char *asn, struct kh_err *err);
/* NULL is taken. */
struct kh_geo *kh_geo_ref(struct kh_geo *geo);
void kh_geo_unref(struct kh_geo *geo);

struct kh_place {
	char country[3]; /* two capital letters; "": not known */
	uint32_t asn;	 /* 0: not known */
	bool failed;	 /* a database is damaged there */
};

/* Where it lies; of an IPv6 address that stands for an IPv4 one, that one's place. `geo` NULL:
 * nothing is known. */
void kh_geo_find(const struct kh_geo *geo, const struct kh_sockaddr *addr, struct kh_place *out);

/*
 * May an address be dialled that lies there? What one of the levels denies is denied, and so is
 * what can't be looked up where a level asks anything. With kh_guard_carried, every address that it
 * stands for has to pass. Return: false with GEO_PROHIBITED, naming place and level.
 */
bool kh_geo_allows(const struct kh_geo *geo, const struct kh_geo_levels *levels,
		   const struct kh_sockaddr *addr, struct kh_err *err);
/* "site.geo", "the tenant's geo" …: the level that denies it; NULL: none. */
const char *kh_geo_denies(const struct kh_geo_levels *levels, const struct kh_place *place);

#endif
