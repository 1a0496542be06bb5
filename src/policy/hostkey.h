/* hostkey.h - hash keys by which an index finds the patterns that match a host */
#ifndef KEYHOLE_POLICY_HOSTKEY_H
#define KEYHOLE_POLICY_HOSTKEY_H

#include <keyhole/config/config.h>

/* Labels of the longest name. */
enum { KH_HOST_LABELS = 127 };

/*
 * A name's own key, and those of the nodes on its way through the trie of labels from the right:
 * for a.example.com that is com, example.com, a.example.com. A key is never 0. Keys may collide:
 * whoever finds one compares the text.
 */
struct kh_host_keys {
	const struct kh_host *host;
	uint32_t exact; /* 0 for an address */
	uint32_t n;
	struct {
		uint32_t key;
		uint32_t begin; /* where this node's name begins in the host's */
	} nodes[KH_HOST_LABELS];
};

/* The seed is random, once per process: a host has the same keys in every index, and nobody who
 * chooses rules or names can construct collisions. Return: false: no random bytes. */
bool kh_hostkey_seed(uint64_t *seed);
void kh_hostkey_find(struct kh_host_keys *out, const struct kh_host *host, uint64_t seed);
uint32_t kh_hostkey_range(const struct kh_cidr *range, uint64_t seed);
uint32_t kh_hostkey_text(struct kh_slice text, uint64_t seed);

#endif
