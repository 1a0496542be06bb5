/* hostkey.h - the keys under which the patterns that match a host are found */
#ifndef KEYHOLE_POLICY_HOSTKEY_H
#define KEYHOLE_POLICY_HOSTKEY_H

#include <keyhole/config/config.h>

/* Labels of the longest name. */
enum { KH_HOST_LABELS = 127 };

/*
 * A name's own key, and those of the nodes on its way through the trie of labels from the right:
 * for a.example.com that is com, example.com, a.example.com. A key is never 0. Equal keys say
 * "perhaps": whoever finds one compares the text.
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

/* Drawn once a process, so that a host's keys are the same in every index, and that who writes
 * rules or asks for names can't choose collisions. */
bool kh_hostkey_seed(uint64_t *seed);
void kh_hostkey_find(struct kh_host_keys *out, const struct kh_host *host, uint64_t seed);
uint32_t kh_hostkey_range(const struct kh_cidr *range, uint64_t seed);
uint32_t kh_hostkey_text(struct kh_slice text, uint64_t seed);

#endif
