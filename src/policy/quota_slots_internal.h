/* quota_slots_internal.h - which limit has which slot */
#ifndef KEYHOLE_POLICY_QUOTA_SLOTS_INTERNAL_H
#define KEYHOLE_POLICY_QUOTA_SLOTS_INTERNAL_H

#include <keyhole/policy/quota_slots.h>
#include <keyhole/policy/quota.h>

enum { KH_QUOTA_SLOTS_KEY_BYTES = 16 };

/* A limit that is, or was, in the configuration. */
struct kh_quota_slots_entry {
	uint8_t key[KH_QUOTA_SLOTS_KEY_BYTES]; /* of owner, kind and period: its identity */
	struct kh_rate rate; /* of places: kind and burst, how many; `slot` 0: parked */
	bool live;	     /* in the configuration that was assigned last */
	uint32_t died;	     /* not live: the assignment that removed it, and when */
	uint64_t died_ms;
	uint64_t used, used_ms; /* parked: so many were in use at that time */
};

/* A slot that no limit has any more, but that exchanges of an earlier configuration may still
 * use. */
struct kh_quota_slots_left {
	uint32_t slot;
	uint32_t since; /* assignment */
	uint64_t since_ms;
};

struct kh_quota_slots {
	int fd;
	struct kh_quota_ledger quota_ledger;
	struct kh_quota_slots_entry *entries;
	size_t n_entries;
	uint32_t *index; /* by key: number of the entry + 1 */
	size_t n_index;	 /* a power of two */
	struct kh_quota_slots_left *left;
	size_t n_left;
	uint32_t *free_slots;
	size_t n_free;
	uint32_t next_slot; /* above every slot that was ever given out */
	uint32_t assignments;
	bool spent; /* the stored state was damaged: buckets begin empty */
};

static inline bool kh_quota_slots_is_bucket(const struct kh_quota_slots_entry *entry)
{
	return kh_quota_is_rate(entry->rate.kind);
}

/* quota_slots.c */
/* NULL without memory, or above KH_LIMIT_QUOTA_SLOTS. `key` must not be there. */
struct kh_quota_slots_entry *kh_quota_slots_add(struct kh_quota_slots *quota_slots,
						const uint8_t key[KH_QUOTA_SLOTS_KEY_BYTES]);
struct kh_quota_slots_entry *kh_quota_slots_find(const struct kh_quota_slots *quota_slots,
						 const uint8_t key[KH_QUOTA_SLOTS_KEY_BYTES]);
/* How much of a bucket is in use now. */
uint64_t kh_quota_slots_used(const struct kh_quota_slots *quota_slots,
			     const struct kh_quota_slots_entry *entry, uint64_t now_ms);
/* Maps at least so many slots; `fd` grows where it is smaller. */
bool kh_quota_slots_map(struct kh_quota_slots *quota_slots, uint32_t n_slots, struct kh_err *err);

#endif
