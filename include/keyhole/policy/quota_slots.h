/* quota_slots.h - the keeper's side of what limits count: which slot is whose, over workers and
 * restarts
 */
#ifndef KEYHOLE_POLICY_QUOTA_SLOTS_H
#define KEYHOLE_POLICY_QUOTA_SLOTS_H

#include <keyhole/base/buf.h>
#include <keyhole/config/config.h>

/*
 * These own the shared memory of a ledger (quota.h) and know which limit each slot is for. A
 * limit is the same one in the next configuration, after a restart and after a handover, if it has
 * the same owner (the site, a tenant's or listener's name, a rule's list and text), kind and
 * period. Its amount and burst may be others: what was used stays used, as a number.
 *
 * The worker may write whatever it likes into the ledger; here each number is one that any limit
 * could have, and nothing else is read from it.
 */
struct kh_quota_slots;

struct kh_quota_slots *kh_quota_slots_new(struct kh_err *err);
void kh_quota_slots_free(struct kh_quota_slots *quota_slots);

/* Gives each limit of the configuration its slot. The worker is told before the next call. */
bool kh_quota_slots_assign(struct kh_quota_slots *quota_slots, struct kh_config *config,
			   uint64_t now_ms, struct kh_err *err);
/* The memory, which stays theirs; and how many slots are in it. */
int kh_quota_slots_fd(const struct kh_quota_slots *quota_slots);
uint32_t kh_quota_slots_slots(const struct kh_quota_slots *quota_slots);
/*
 * A worker has ended, and may have written anything: its places are free, and of no bucket more is
 * in use than the limit allows. `alone`: there is no worker of the other column, so all places are
 * free; else that one has as many as the limit allows at most.
 */
void kh_quota_slots_end_worker(struct kh_quota_slots *quota_slots, unsigned column, bool alone,
			       uint64_t now_ms);

/* Is there anything that a restart should find again? */
bool kh_quota_slots_has_buckets(const struct kh_quota_slots *quota_slots);
/* Was anything taken from a bucket since this was asked last? */
bool kh_quota_slots_has_changed(struct kh_quota_slots *quota_slots);

/*
 * What is in use, for a file: versioned, with a SHA-256 behind it. Times are wall_ms, since no
 * other clock goes on over a restart; one that was set back fills nothing again.
 */
bool kh_quota_slots_write(struct kh_quota_slots *quota_slots, uint64_t now_ms, uint64_t wall_ms,
			  struct kh_buf *out);
/* Before the first kh_quota_slots_assign. Return: false: it is damaged, or of another version; then
 * every bucket begins empty: all of it counts as used. */
bool kh_quota_slots_read(struct kh_quota_slots *quota_slots, struct kh_slice bytes, uint64_t now_ms,
			 uint64_t wall_ms, struct kh_err *err);

/* At a handover: what the other process needs beside the memory itself, and back. */
bool kh_quota_slots_offer(const struct kh_quota_slots *quota_slots, struct kh_buf *out);
/* `fd` is taken over. */
struct kh_quota_slots *kh_quota_slots_take(int fd, struct kh_slice offer, struct kh_err *err);

#endif
