/* quota.c - takes what an exchange or a connection needs of all its limits, or nothing; and bytes
 * as they flow, as many as are left */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/policy/quota.h>

enum { RATES_MOST = KH_QUOTA_OWNERS * 12 };

bool kh_quota_ledger_map(struct kh_quota_ledger *out, int fd, uint32_t n_slots, unsigned column,
			 struct kh_err *err)
{
	size_t bytes = (size_t)n_slots * sizeof(uint64_t);
	*out = (struct kh_quota_ledger){ .column = column & 1 };
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "mapping the limits' ledger");
	out->slots = out->map = map;
	out->n_slots = n_slots;
	return true;
}

void kh_quota_ledger_unmap(struct kh_quota_ledger *quota_ledger)
{
	if (quota_ledger->map)
		(void)munmap(quota_ledger->map, (size_t)quota_ledger->n_slots * sizeof(uint64_t));
	*quota_ledger = (struct kh_quota_ledger){ 0 };
}

void kh_quota_set(struct kh_quota *quota, enum kh_quota_owner owner, const struct kh_limits *limits)
{
	quota->of[owner] = limits;
	quota->is_any = quota->is_any || limits;
}

/* NULL: it is not counted; a slot that is not there would be a mistake of the keeper's. */
static _Atomic uint64_t *slot_of(const struct kh_quota_ledger *quota_ledger, uint32_t slot)
{
	return quota_ledger->slots && slot >= KH_QUOTA_LEDGER_FIRST_SLOT &&
			       slot < quota_ledger->n_slots
		       ? &quota_ledger->slots[slot]
		       : NULL;
}

/* NULL: there is no such limit, its kind has no places, or they are not counted. */
static _Atomic uint64_t *place_slot(const struct kh_limits *limits, enum kh_quota_kind kind,
				    const struct kh_quota_ledger *quota_ledger)
{
	if (kh_limits_value(limits, kind) == 0)
		return NULL;
	switch (kind) {
	case KH_QUOTA_CONCURRENCY:
		return slot_of(quota_ledger, limits->concurrency_slot);
	case KH_QUOTA_CONNECTIONS:
		return slot_of(quota_ledger, limits->connections_slot);
	case KH_QUOTA_NONE:
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
	case KH_QUOTA_MAX_BODY:
	case KH_QUOTA_TUNNEL_LIFETIME:
	case KH_QUOTA_KINDS:
		break;
	}
	return NULL;
}

static uint64_t load(const _Atomic uint64_t *slot)
{
	return atomic_load_explicit(slot, memory_order_relaxed);
}

/* Read first: the line of memory stays with everybody while nothing is to be said. */
static void mark_changed(struct kh_quota_ledger *quota_ledger)
{
	_Atomic uint64_t *mark = &quota_ledger->slots[KH_QUOTA_LEDGER_CHANGED];
	if (load(mark) == 0)
		atomic_store_explicit(mark, 1, memory_order_relaxed);
}

static bool is_enforced(const struct kh_quota *quota, enum kh_quota_owner owner)
{
	return !quota->observes || owner == KH_OF_SITE || owner == KH_OF_SITE_RULE;
}

/* Of what is only observed the first is told; what refuses comes before that. Return: it does not.
 */
static bool judge_rate(const struct kh_quota *quota, enum kh_quota_owner owner,
		       const struct kh_rate *rate, uint64_t value, uint64_t now_ms, uint64_t n,
		       struct kh_verdict *reached)
{
	bool enforced = is_enforced(quota, owner);
	if (!enforced && reached->kind != KH_QUOTA_NONE)
		return true;
	*reached = (struct kh_verdict){ .kind = rate->kind,
					.owner = owner,
					.rate = *rate,
					.most = rate->burst,
					.used = kh_bucket_used(value, rate, now_ms),
					.wait_ms = kh_bucket_wait_ms(value, rate, now_ms, n),
					.reset_ms = kh_bucket_wait_ms(value, rate, now_ms,
								      rate->burst) };
	return !enforced;
}

static bool judge_places(const struct kh_quota *quota, enum kh_quota_owner owner,
			 enum kh_quota_kind kind, uint32_t most, uint64_t value,
			 struct kh_verdict *reached)
{
	enum { A_MOMENT_MS = 1000 }; /* nobody knows when one ends */
	bool enforced = is_enforced(quota, owner);
	if (!enforced && reached->kind != KH_QUOTA_NONE)
		return true;
	*reached = (struct kh_verdict){ .kind = kind,
					.owner = owner,
					.most = most,
					.used = kh_places_taken(value),
					.wait_ms = A_MOMENT_MS };
	return !enforced;
}

/* ---- what was taken, so that it can be given back ---- */

struct taken {
	struct kh_quota_ledger *quota_ledger;
	uint64_t now_ms;
	size_t n;
	struct piece {
		_Atomic uint64_t *slot;
		const struct kh_rate *rate;
		uint64_t upto;
	} pieces[RATES_MOST];
};

/* The clock of no thread that took meanwhile is ahead of this one. */
static void give(struct taken *taken, uint64_t n)
{
	uint64_t now_ms = kh_clock_mono_ms();
	if (now_ms < taken->now_ms)
		now_ms = taken->now_ms;
	for (size_t i = 0; i < taken->n; i++)
		kh_bucket_give(taken->pieces[i].slot, taken->pieces[i].rate, now_ms, n,
			       taken->pieces[i].upto);
}

static uint64_t take_some(struct taken *taken, const struct kh_rate *rate, _Atomic uint64_t *slot,
			  uint64_t n, bool all)
{
	struct piece *piece = &taken->pieces[taken->n];
	*piece = (struct piece){ .slot = slot, .rate = rate };
	uint64_t got = kh_bucket_take(slot, rate, taken->now_ms, n, all, &piece->upto);
	if (got > 0 && taken->n + 1 < RATES_MOST)
		taken->n++;
	return got;
}

/* ---- exchanges ---- */

static uint64_t little_of(const struct kh_rate *rate)
{
	uint64_t little = rate->burst / 16 + 1;
	return little < KH_LIMIT_RELAY_BYTES ? little : KH_LIMIT_RELAY_BYTES;
}

/* How much must be free of it for an exchange to begin. */
static uint64_t needs(const struct kh_rate *rate, uint64_t announced_bytes)
{
	if (!kh_quota_is_bytes(rate->kind))
		return 1;
	if (rate->kind == KH_QUOTA_BYTES_UP && announced_bytes != UINT64_MAX)
		return announced_bytes;
	return little_of(rate);
}

/* Looked at before anything is taken, so that what is refused is in nobody's way meanwhile. Return:
 * false when this one is reached, and enforced. */
static bool look_at_rate(const struct kh_quota *quota, enum kh_quota_owner owner,
			 const struct kh_rate *rate, const struct kh_quota_ledger *quota_ledger,
			 uint64_t now_ms, uint64_t announced_bytes, struct kh_verdict *reached)
{
	const _Atomic uint64_t *slot = slot_of(quota_ledger, rate->slot);
	uint64_t n = needs(rate, announced_bytes);
	if (!slot || kh_bucket_wait_ms(load(slot), rate, now_ms, n) == 0)
		return true;
	return judge_rate(quota, owner, rate, load(slot), now_ms, n, reached);
}

static bool look_at_places(const struct kh_quota *quota, enum kh_quota_owner owner,
			   const struct kh_quota_ledger *quota_ledger, struct kh_verdict *reached)
{
	const struct kh_limits *limits = quota->of[owner];
	const _Atomic uint64_t *slot = place_slot(limits, KH_QUOTA_CONCURRENCY, quota_ledger);
	if (!slot || kh_places_taken(load(slot)) < limits->concurrency)
		return true;
	return judge_places(quota, owner, KH_QUOTA_CONCURRENCY, limits->concurrency, load(slot),
			    reached);
}

static bool look(const struct kh_quota *quota, const struct kh_quota_ledger *quota_ledger,
		 uint64_t now_ms, uint64_t announced_bytes, struct kh_verdict *reached)
{
	for (unsigned i = 0; i < KH_QUOTA_OWNERS; i++) {
		const struct kh_limits *limits = quota->of[i];
		enum kh_quota_owner owner = (enum kh_quota_owner)i;
		for (size_t j = 0; limits && j < limits->n_rates; j++)
			if (!look_at_rate(quota, owner, &limits->rates[j], quota_ledger, now_ms,
					  announced_bytes, reached))
				return false;
		if (limits && !look_at_places(quota, owner, quota_ledger, reached))
			return false;
	}
	return true;
}

/* The same, for good. */
static bool begin_rate(const struct kh_quota *quota, enum kh_quota_owner owner,
		       const struct kh_rate *rate, struct taken *taken, struct kh_verdict *reached)
{
	_Atomic uint64_t *slot =
		kh_quota_is_bytes(rate->kind) ? NULL : slot_of(taken->quota_ledger, rate->slot);
	if (!slot || take_some(taken, rate, slot, 1, true) == 1)
		return true;
	return judge_rate(quota, owner, rate, load(slot), taken->now_ms, 1, reached);
}

static bool take_place(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		       enum kh_quota_kind kind, enum kh_quota_owner owner,
		       struct kh_verdict *reached)
{
	uint32_t most = (uint32_t)kh_limits_value(quota->of[owner], kind);
	_Atomic uint64_t *slot = place_slot(quota->of[owner], kind, quota_ledger);
	if (!slot || kh_place_take(slot, quota_ledger->column, most))
		return true;
	if (!judge_places(quota, owner, kind, most, load(slot), reached))
		return false;
	kh_place_force(slot, quota_ledger->column);
	return true;
}

/* Of the first `n` owners. */
static void give_places(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
			enum kh_quota_kind kind, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		_Atomic uint64_t *slot =
			quota->of[i] ? place_slot(quota->of[i], kind, quota_ledger) : NULL;
		if (slot)
			kh_place_give(slot, quota_ledger->column);
	}
}

static bool take_places(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
			enum kh_quota_kind kind, struct kh_verdict *reached)
{
	for (unsigned i = 0; i < KH_QUOTA_OWNERS; i++) {
		enum kh_quota_owner owner = (enum kh_quota_owner)i;
		if (quota->of[i] && !take_place(quota, quota_ledger, kind, owner, reached)) {
			give_places(quota, quota_ledger, kind, i);
			return false;
		}
	}
	return true;
}

static void move_places(const struct kh_quota *from, const struct kh_quota *to,
			struct kh_quota_ledger *quota_ledger, enum kh_quota_kind kind)
{
	for (unsigned i = 0; i < KH_QUOTA_OWNERS; i++) {
		_Atomic uint64_t *slot =
			to->of[i] ? place_slot(to->of[i], kind, quota_ledger) : NULL;
		if (slot)
			kh_place_force(slot, quota_ledger->column);
	}
	give_places(from, quota_ledger, kind, KH_QUOTA_OWNERS);
}

bool kh_quota_begin(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		    uint64_t now_ms, uint64_t announced_bytes, struct kh_verdict *reached)
{
	struct taken taken;
	taken.quota_ledger = quota_ledger;
	taken.now_ms = now_ms;
	taken.n = 0;
	if (!look(quota, quota_ledger, now_ms, announced_bytes, reached))
		return false;
	bool ok = true;
	for (unsigned i = 0; ok && i < KH_QUOTA_OWNERS; i++)
		for (size_t j = 0; ok && quota->of[i] && j < quota->of[i]->n_rates; j++)
			ok = begin_rate(quota, (enum kh_quota_owner)i, &quota->of[i]->rates[j],
					&taken, reached);
	ok = ok && take_places(quota, quota_ledger, KH_QUOTA_CONCURRENCY, reached);
	if (!ok)
		give(&taken, 1);
	else if (taken.n > 0)
		mark_changed(quota_ledger);
	return ok;
}

void kh_quota_end(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger)
{
	give_places(quota, quota_ledger, KH_QUOTA_CONCURRENCY, KH_QUOTA_OWNERS);
}

void kh_quota_move(const struct kh_quota *from, const struct kh_quota *to,
		   struct kh_quota_ledger *quota_ledger)
{
	move_places(from, to, quota_ledger, KH_QUOTA_CONCURRENCY);
}

uint64_t kh_quota_take_bytes(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
			     enum kh_quota_kind kind, uint64_t now_ms, uint64_t bytes,
			     struct kh_verdict *reached)
{
	struct taken taken;
	taken.quota_ledger = quota_ledger;
	taken.now_ms = now_ms;
	taken.n = 0;
	for (unsigned i = 0; i < KH_QUOTA_OWNERS; i++) {
		for (size_t j = 0; bytes > 0 && quota->of[i] && j < quota->of[i]->n_rates; j++) {
			const struct kh_rate *rate = &quota->of[i]->rates[j];
			_Atomic uint64_t *slot =
				rate->kind == kind ? slot_of(quota_ledger, rate->slot) : NULL;
			if (!slot)
				continue;
			size_t before = taken.n;
			uint64_t got = take_some(&taken, rate, slot, bytes, false);
			if (got == bytes)
				continue;
			size_t after = taken.n;
			taken.n = before;
			if (judge_rate(quota, (enum kh_quota_owner)i, rate, load(slot), now_ms,
				       little_of(rate), reached))
				continue; /* it gave what it had, and that is that */
			give(&taken, bytes - got);
			taken.n = after;
			bytes = got;
		}
	}
	if (taken.n > 0)
		mark_changed(quota_ledger);
	return bytes;
}

/* ---- connections ---- */

bool kh_quota_connect(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger,
		      struct kh_verdict *reached)
{
	return take_places(quota, quota_ledger, KH_QUOTA_CONNECTIONS, reached);
}

void kh_quota_disconnect(const struct kh_quota *quota, struct kh_quota_ledger *quota_ledger)
{
	give_places(quota, quota_ledger, KH_QUOTA_CONNECTIONS, KH_QUOTA_OWNERS);
}

void kh_quota_reconnect(const struct kh_quota *from, const struct kh_quota *to,
			struct kh_quota_ledger *quota_ledger)
{
	move_places(from, to, quota_ledger, KH_QUOTA_CONNECTIONS);
}

uint64_t kh_quota_least(const struct kh_quota *quota, enum kh_quota_kind kind, bool enforced,
			enum kh_quota_owner *owner)
{
	uint64_t least = 0;
	for (unsigned i = 0; i < KH_QUOTA_OWNERS; i++) {
		const struct kh_limits *limits = quota->of[i];
		if (!limits || (enforced && !is_enforced(quota, (enum kh_quota_owner)i)))
			continue;
		uint64_t value = kh_limits_value(limits, kind);
		if (value > 0 && (least == 0 || value < least)) {
			least = value;
			*owner = (enum kh_quota_owner)i;
		}
	}
	return least;
}

/* ---- for people ---- */

static void look_at_plain(const struct kh_limits *limits, enum kh_quota_owner owner,
			  const struct kh_quota_ledger *quota_ledger,
			  void (*show)(void *arg, const struct kh_verdict *limit), void *arg)
{
	for (enum kh_quota_kind kind = KH_QUOTA_NONE; kind < KH_QUOTA_KINDS; kind++) {
		const _Atomic uint64_t *slot = place_slot(limits, kind, quota_ledger);
		const struct kh_verdict limit = {
			.kind = kind,
			.owner = owner,
			.most = kh_limits_value(limits, kind),
			.used = slot ? kh_places_taken(load(slot)) : 0,
		};
		if (limit.most > 0)
			show(arg, &limit);
	}
}

void kh_quota_look(const struct kh_limits *limits, enum kh_quota_owner owner,
		   const struct kh_quota_ledger *quota_ledger, uint64_t now_ms,
		   void (*show)(void *arg, const struct kh_verdict *limit), void *arg)
{
	for (size_t i = 0; limits && i < limits->n_rates; i++) {
		const struct kh_rate *rate = &limits->rates[i];
		const _Atomic uint64_t *slot = slot_of(quota_ledger, rate->slot);
		uint64_t value = slot ? load(slot) : 0;
		const struct kh_verdict limit = {
			.kind = rate->kind,
			.owner = owner,
			.rate = *rate,
			.most = rate->burst,
			.used = slot ? kh_bucket_used(value, rate, now_ms) : 0,
			.reset_ms = slot ? kh_bucket_wait_ms(value, rate, now_ms, rate->burst) : 0,
		};
		show(arg, &limit);
	}
	if (limits)
		look_at_plain(limits, owner, quota_ledger, show, arg);
}
