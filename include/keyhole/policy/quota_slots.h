/* quota_slots.h - the keeper's side of limits: which limit has which slot, across workers and
 * restarts */
#ifndef KEYHOLE_POLICY_QUOTA_SLOTS_H
#define KEYHOLE_POLICY_QUOTA_SLOTS_H

#include <keyhole/base/buf.h>
#include <keyhole/config/config.h>

/*
 * Owns the shared memory of a ledger (quota.h), and knows which limit each slot is for. A limit
 * keeps its count in the next configuration, after a restart and after a handover, if it has the
 * same owner (the site, a tenant's or listener's name, a rule's list and text), kind and period.
 * Its amount and burst may change: the used amount stays the same number.
 *
 * The worker may write anything into the ledger. Here any number in it is valid, and nothing but
 * numbers is read from it.
 */
struct kh_quota_slots;

struct kh_quota_slots *kh_quota_slots_new(struct kh_err *err);
void kh_quota_slots_free(struct kh_quota_slots *quota_slots);

/* Gives each limit of the configuration its slot. Send the configuration to the worker before the
 * next call. */
bool kh_quota_slots_assign(struct kh_quota_slots *quota_slots, struct kh_config *config,
			   uint64_t now_ms, struct kh_err *err);
/* The descriptor of the memory, which `quota_slots` owns; and how many slots it has. */
int kh_quota_slots_fd(const struct kh_quota_slots *quota_slots);
uint32_t kh_quota_slots_slots(const struct kh_quota_slots *quota_slots);
/*
 * Repairs the ledger after a worker has ended, which may have written anything: frees its places,
 * and lets no bucket be used beyond its limit. `alone`: there is no worker of the other column, so
 * all places are freed; else the other column keeps at most as many as the limit allows.
 */
void kh_quota_slots_end_worker(struct kh_quota_slots *quota_slots, unsigned column, bool alone,
			       uint64_t now_ms);

/* Is there any bucket, whose use a restart should restore? */
bool kh_quota_slots_has_buckets(const struct kh_quota_slots *quota_slots);
/* Was anything taken from a bucket since the last call? */
bool kh_quota_slots_has_changed(struct kh_quota_slots *quota_slots);

/*
 * Writes what is in use, for a file: versioned, with a SHA-256 at the end. Times in it are wall_ms,
 * since only the wall clock continues across a restart; if it was set back, buckets do not refill
 * for that time.
 */
bool kh_quota_slots_write(struct kh_quota_slots *quota_slots, uint64_t now_ms, uint64_t wall_ms,
			  struct kh_buf *out);
/* Reads it; call this before the first kh_quota_slots_assign. Return: false: damaged, or another
 * version; then every bucket begins empty, which means that all of it counts as used. */
bool kh_quota_slots_read(struct kh_quota_slots *quota_slots, struct kh_slice bytes, uint64_t now_ms,
			 uint64_t wall_ms, struct kh_err *err);

/* For a handover: writes what the other process needs besides the memory itself; _take reads it
 * there. */
bool kh_quota_slots_offer(const struct kh_quota_slots *quota_slots, struct kh_buf *out);
/* Takes ownership of `fd`, also on failure. Return: NULL with `err`. */
struct kh_quota_slots *kh_quota_slots_take(int fd, struct kh_slice offer, struct kh_err *err);

#endif
