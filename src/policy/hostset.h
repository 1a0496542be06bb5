/* hostset.h - every host pattern of a policy has a number, and a host finds those that match it */
#ifndef KEYHOLE_POLICY_HOSTSET_H
#define KEYHOLE_POLICY_HOSTSET_H

#include <keyhole/config.h>

struct kh_hostset;

/* "**", whose number is known; and none, where memory is gone. */
enum { KH_HOSTSET_ANY = 0 };
#define KH_HOSTSET_NONE UINT32_MAX

/* One a label of the longest name, its exact pattern, "**"; an address has at most 129 ranges. */
enum { KH_HOSTSET_MOST = 132 };

struct kh_hostset *kh_hostset_new(void);
void kh_hostset_free(struct kh_hostset *hosts);
/* The number of a pattern, the same for the same pattern. Return: KH_HOSTSET_NONE without memory.
 */
uint32_t kh_hostset_add(struct kh_hostset *hosts, const struct kh_rule_host *pattern);
/*
 * The numbers of all patterns that match the host, "**" first. Nothing is allocated; the work is
 * bounded by the labels of the host that stand in the policy, or by the prefix lengths in it.
 * Return: how many.
 */
size_t kh_hostset_find(const struct kh_hostset *hosts, const struct kh_host *host,
		       uint32_t out[KH_HOSTSET_MOST]);
/* Bytes on the heap. */
size_t kh_hostset_bytes(const struct kh_hostset *hosts);

/* Multiply and fold; seeded, so that who writes rules or asks for names can't choose collisions. */
static inline uint64_t kh_hostset_mix(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide product = (wide)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
