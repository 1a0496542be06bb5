/* quota.h - how much of each limit is used: take from it, give back, look */
#ifndef KEYHOLE_POLICY_QUOTA_H
#define KEYHOLE_POLICY_QUOTA_H

#include <stdatomic.h>

#include <keyhole/config/config.h>

/*
 * Counts are kept in a ledger: shared memory, one 64-bit number per limit. Every thread of every
 * worker maps it (during a handover there are two workers), so a limit is one for all of them. It
 * outlives the worker, and the keeper (quota_slots.h) decides which limit has which slot.
 * Everything here is lock-free, allocates nothing, and is exact: threads that ask at the same time
 * together get no more, and no less, than there is.
 *
 * Time is kh_clock_mono_ms, which is the same for all processes. A thread whose clock is behind
 * gets less, never more.
 *
 * There are two kinds of number:
 * - A bucket (struct kh_rate). GCRA, counted in amounts instead of time: on a line on which the
 *   clock moves `amount` in each period, the number is the position up to which everything has been
 *   taken. If it is behind the clock, the bucket is full; the distance by which it is ahead is in
 *   use; at `burst` ahead the bucket is empty. Requests are counted in units of 1/65536.
 * - Places (concurrency, connections): how many are taken, by the workers of either column. The
 *   keeper clears the column of a worker that has ended.
 */
struct kh_quota_ledger {
	_Atomic uint64_t *slots; /* NULL: nothing is counted */
	void *map;
	uint32_t n_slots;
	unsigned column; /* 0 or 1: which of two workers this is */
};

/* Slots before those that limits get. CHANGED is set if something was taken from a bucket since the
 * keeper looked; it has a cache line of its own. */
enum { KH_QUOTA_LEDGER_CHANGED = 0, KH_QUOTA_LEDGER_FIRST_SLOT = 8 };

/* Maps the `n_slots` slots of `fd`, which stays the caller's. Return: false with `err`. */
bool kh_quota_ledger_map(struct kh_quota_ledger *out, int fd, uint32_t n_slots, unsigned column,
			 struct kh_err *err);
void kh_quota_ledger_unmap(struct kh_quota_ledger *quota_ledger);

/* ---- one bucket ---- */

/* Takes `n`, or as many as there are (with `all`: `n` or nothing). Return: how many were taken;
 * *upto is for kh_bucket_give. */
uint64_t kh_bucket_take(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms,
			uint64_t n, bool all, uint64_t *upto);
/* Gives back some of what that call has just taken. Does nothing once the clock has reached `upto`,
 * since by then the bucket has refilled by itself, and would get it twice. The calling thread's
 * clock must not be behind that of a thread that took. */
void kh_bucket_give(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms, uint64_t n,
		    uint64_t upto);
/* How much of `burst` is in use. */
uint64_t kh_bucket_used(uint64_t value, const struct kh_rate *rate, uint64_t now_ms);
/* How long until `n` may be taken at once, in milliseconds; UINT64_MAX: never. */
uint64_t kh_bucket_wait_ms(uint64_t value, const struct kh_rate *rate, uint64_t now_ms, uint64_t n);
/* Corrects a number that a worker may have damaged: no more than `burst` is in use afterwards. */
void kh_bucket_hold(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms);
/* The number of a bucket of which `used` is in use. */
uint64_t kh_bucket_value(const struct kh_rate *rate, uint64_t now_ms, uint64_t used);

/* ---- places ---- */

bool kh_place_take(_Atomic uint64_t *slot, unsigned column, uint32_t most);
/* Takes a place even if there is none. */
void kh_place_force(_Atomic uint64_t *slot, unsigned column);
void kh_place_give(_Atomic uint64_t *slot, unsigned column);
uint32_t kh_places_taken(uint64_t value);
/* Clears this column and leaves the other. */
void kh_places_clear(_Atomic uint64_t *slot, unsigned column);
/* Corrects a column: it has at most `most` afterwards. */
void kh_places_hold(_Atomic uint64_t *slot, unsigned column, uint32_t most);

/* ---- all limits of an exchange ---- */

/* Whose limit it is, the narrowest first. Limits are taken in this order, so that a request that
 * its own narrower limit refuses never takes from a limit that others share. The values are stored
 * in the keeper's file: do not change them. */
enum kh_quota_owner {
	KH_OF_SANDBOX = 0,
	KH_OF_RULE = 1,
	KH_OF_TENANT = 2,
	KH_OF_SITE_RULE = 3,
	KH_OF_SITE = 4,
	KH_QUOTA_OWNERS = 5,
};
/* "site", "tenant", "sandbox", "site_rule", "rule". */
const char *kh_quota_owner_name(enum kh_quota_owner owner);

struct kh_quota {
	const struct kh_limits *of[KH_QUOTA_OWNERS]; /* NULL: none */
	bool is_any;				     /* at least one is not NULL */
	bool observes; /* the tenant is in mode observe: only the limits of the site and of its
			* rules are enforced */
};
void kh_quota_set(struct kh_quota *quota, enum kh_quota_owner owner,
		  const struct kh_limits *limits);

/* The limit that was reached. It has no pointers, so it may outlive the configuration. */
struct kh_verdict {
	enum kh_quota_kind kind; /* NONE: no limit was reached */
	enum kh_quota_owner owner;
	struct kh_rate rate; /* a limit with a period; its kind is NONE for a limit without one */
	uint64_t most, used;
	uint64_t wait_ms;  /* until what was asked for is available; UINT64_MAX: never */
	uint64_t reset_ms; /* until nothing of it is in use; 0: unknown */
};
/* The error for it: 429 if it is available again within KH_LIMIT_PATIENCE_MS, else 403; 413 for
 * max_body, 403 for tunnel_lifetime. */
enum kh_err_code kh_verdict_code(const struct kh_verdict *verdict);
/* "requests 600/min", "concurrency 64". */
enum { KH_VERDICT_LIMIT_BYTES = 128 };
const char *kh_verdict_limit(const struct kh_verdict *verdict, char out[KH_VERDICT_LIMIT_BYTES]);
/* Fills `err`: whose limit it is (`name`: of the owner), how much is used, and when it is available
 * again. */
void kh_verdict_text(const struct kh_verdict *verdict, const char *name, struct kh_err *err);

/*
 * Takes what an exchange needs at its start, all or nothing: one request of each bucket of
 * requests, one place of each `concurrency`. Of bytes it takes nothing, but there must be enough:
 * as many up as announced (a little, if the size is not announced), and a little down. Return:
 * false: *reached says which limit; nothing was taken. With `observes`, only the limits of the site
 * and of its rules refuse. For another one: true, and *reached says which would have refused.
 */
bool kh_quota_begin(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		    uint64_t now_ms, uint64_t announced_bytes, struct kh_verdict *reached);
/* Gives the places back. */
void kh_quota_end(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger);
/* Moves a running exchange to other limits. Only moves its places, even if there is none in
 * `to`. */
void kh_quota_move(const struct kh_quota *from, const struct kh_quota *to,
		   struct kh_quota_ledger *quota_ledger);
/*
 * Takes bytes before content is sent: KH_QUOTA_BYTES_UP or DOWN. Return: how many may be sent. If
 * fewer than asked for, *reached says why, and the content must end there. `observes`: as above.
 */
uint64_t kh_quota_take_bytes(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
			     enum kh_quota_kind kind, uint64_t now_ms, uint64_t bytes,
			     struct kh_verdict *reached);
/* Takes a place of each `connections` for a connection, all or nothing. */
bool kh_quota_connect(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		      struct kh_verdict *reached);
void kh_quota_disconnect(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger);
void kh_quota_reconnect(const struct kh_quota *from, const struct kh_quota *to,
			struct kh_quota_ledger *quota_ledger);
/* For people: shows each limit of `limits` with how much is used now, and until when (`wait_ms` is
 * not set). */
void kh_quota_look(const struct kh_limits *limits, enum kh_quota_owner owner,
		   const struct kh_quota_ledger *quota_ledger, uint64_t now_ms,
		   void (*show)(void *arg, const struct kh_verdict *limit), void *arg);
/* The smallest limit of a kind without a count (max_body, tunnel_lifetime), and whose it is; 0:
 * none, *owner unchanged. `enforced`: ignore limits that are only observed. */
uint64_t kh_quota_least(const struct kh_quota *quota, enum kh_quota_kind kind, bool enforced,
			enum kh_quota_owner *owner);

#endif
