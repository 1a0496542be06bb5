/* quota.h - limits being used up: how much is left, take it, give it back */
#ifndef KEYHOLE_POLICY_QUOTA_H
#define KEYHOLE_POLICY_QUOTA_H

#include <stdatomic.h>

#include <keyhole/config/config.h>

/*
 * What is counted stands in a ledger: shared memory, one number of 64 bits a limit. Every thread of
 * every worker maps it (at a handover there are two), so a limit is one for all of them; it
 * outlives the worker, and the keeper (quota_slots.h) says which limit has which slot. Everything
 * here is lock-free, takes no memory, and is exact: of any number of threads that ask at the same
 * time, as many get something as there is something to be had.
 *
 * Time is kh_clock_mono_ms, the same for all processes; a thread whose clock is behind is given
 * less, never more.
 *
 * Two kinds of number:
 * - A bucket (struct kh_rate). GCRA, counted in what is taken instead of in time: on a line on
 * which the clock moves `amount` in each period, the number is the place up to which everything has
 * been taken. Where it is behind the clock the bucket is full; as far as it is ahead, so much is in
 *   use; `burst` ahead, and the bucket is empty. Requests are counted in 65536ths.
 * - Places (concurrency, connections): how many are taken, by the workers of either column. The
 *   keeper clears the column of a worker that has ended.
 */
struct kh_quota_ledger {
	_Atomic uint64_t *slots; /* NULL: nothing is counted */
	void *map;
	uint32_t n_slots;
	unsigned column; /* 0 or 1: which of two workers this is */
};

/* In front of the slots that are given out. The first is set where something was taken from a
 * bucket since the keeper looked; a cache line of its own. */
enum { KH_QUOTA_LEDGER_CHANGED = 0, KH_QUOTA_LEDGER_FIRST_SLOT = 8 };

/* Maps what `fd` (which stays the caller's) has of slots. */
bool kh_quota_ledger_map(struct kh_quota_ledger *out, int fd, uint32_t n_slots, unsigned column,
			 struct kh_err *err);
void kh_quota_ledger_unmap(struct kh_quota_ledger *quota_ledger);

/* ---- one bucket ---- */

/* Takes `n`, or what there is of it (`all`: or nothing). Return: how many it got; *upto is for
 * kh_bucket_give. */
uint64_t kh_bucket_take(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms,
			uint64_t n, bool all, uint64_t *upto);
/* Gives back some of what that call has just taken. Since what fills itself again must not be given
 * twice, nothing is once the clock (of no thread behind any that took) has come to `upto`. */
void kh_bucket_give(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms, uint64_t n,
		    uint64_t upto);
/* How many of `burst` are in use. */
uint64_t kh_bucket_used(uint64_t value, const struct kh_rate *rate, uint64_t now_ms);
/* Until `n` may be taken at once; UINT64_MAX: never. */
uint64_t kh_bucket_wait_ms(uint64_t value, const struct kh_rate *rate, uint64_t now_ms, uint64_t n);
/* Whatever somebody wrote there, no more than `burst` are in use now. */
void kh_bucket_hold(_Atomic uint64_t *slot, const struct kh_rate *rate, uint64_t now_ms);
/* The number of a bucket of which `used` are in use. */
uint64_t kh_bucket_value(const struct kh_rate *rate, uint64_t now_ms, uint64_t used);

/* ---- places ---- */

bool kh_place_take(_Atomic uint64_t *slot, unsigned column, uint32_t most);
/* Whether there is one or not. */
void kh_place_force(_Atomic uint64_t *slot, unsigned column);
void kh_place_give(_Atomic uint64_t *slot, unsigned column);
uint32_t kh_places_taken(uint64_t value);
/* Of both columns only the other one is left. */
void kh_places_clear(_Atomic uint64_t *slot, unsigned column);
/* That column has no more than `most`. */
void kh_places_hold(_Atomic uint64_t *slot, unsigned column, uint32_t most);

/* ---- all limits of an exchange ---- */

/* Whose they are, the narrowest first, which is the order in which they are asked: what a wider one
 * refuses has taken from no other's. The numbers stand in the keeper's file. */
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
	bool is_any;				     /* one of them is not NULL */
	bool observes; /* the tenant does: only what the site says is enforced */
};
void kh_quota_set(struct kh_quota *quota, enum kh_quota_owner owner,
		  const struct kh_limits *limits);

/* What was reached. It points at nothing: what it was read from may go before it. */
struct kh_verdict {
	enum kh_quota_kind kind; /* NONE: nothing was */
	enum kh_quota_owner owner;
	struct kh_rate rate; /* with `kind`; without one (NONE): a limit without a period */
	uint64_t most, used;
	uint64_t wait_ms;  /* until what was asked for may be had; UINT64_MAX: never */
	uint64_t reset_ms; /* until nothing of it is in use; 0: not known */
};
/* 429 where waiting helps, else 403; 413 for content. */
enum kh_err_code kh_verdict_code(const struct kh_verdict *verdict);
/* "requests 600/min", "concurrency 64". */
enum { KH_VERDICT_LIMIT_BYTES = 128 };
const char *kh_verdict_limit(const struct kh_verdict *verdict, char out[KH_VERDICT_LIMIT_BYTES]);
/* All of it as an error, with whose limit it is (`name`: of the owner), how much is used and when
 * it is to be had again. */
void kh_verdict_text(const struct kh_verdict *verdict, const char *name, struct kh_err *err);

/*
 * The first thing that an exchange takes, all or nothing: a request of each bucket, a place of
 * each `concurrency`. Content is held against what is there: as many bytes up as are announced,
 * a little of bytes down. Return: false: *reached says what; nothing was taken. With `observes`,
 * what only the tenant limits is passed over: true, and *reached says what would have refused it.
 */
bool kh_quota_begin(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		    uint64_t now_ms, uint64_t announced_bytes, struct kh_verdict *reached);
/* Gives the places back. */
void kh_quota_end(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger);
/* Other limits are in force for what runs: places only, whether there are any or not. */
void kh_quota_move(const struct kh_quota *from, const struct kh_quota *to,
		   struct kh_quota_ledger *quota_ledger);
/*
 * Content that is about to go: KH_QUOTA_BYTES_UP or DOWN. Return: how many bytes of it may; fewer
 * than asked for: *reached says why, and that is its end. With `observes` as above.
 */
uint64_t kh_quota_take_bytes(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
			     enum kh_quota_kind kind, uint64_t now_ms, uint64_t bytes,
			     struct kh_verdict *reached);
/* A connection: a place of each `connections`, all or nothing. */
bool kh_quota_connect(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		      struct kh_verdict *reached);
void kh_quota_disconnect(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger);
void kh_quota_reconnect(const struct kh_quota *from, const struct kh_quota *to,
			struct kh_quota_ledger *quota_ledger);
/* For people: each limit of `limits` with what of it is used now, and until when (`wait_ms` is not
 * set). */
void kh_quota_look(const struct kh_limits *limits, enum kh_quota_owner owner,
		   const struct kh_quota_ledger *quota_ledger, uint64_t now_ms,
		   void (*show)(void *arg, const struct kh_verdict *limit), void *arg);
/* The smallest max_body, tunnel_lifetime (0: none), and whose it is. `enforced`: of what is only
 * observed nothing. */
uint64_t kh_quota_least(const struct kh_quota *quota, enum kh_quota_kind kind, bool enforced,
			enum kh_quota_owner *owner);

#endif
