/*
 * account.c - how much of the worker's resources each sandbox and tenant holds, and who is refused
 * more
 *
 * A take adds the amount on all three levels first, then checks, and subtracts it again if it is
 * too much. So no thread sees less than there is.
 *
 * A spent amount is kept in one 64-bit number together with the time of its last change, in ticks
 * of a sixteenth of the half-life. Time advances by whole ticks only, so that many small checks
 * forget as much as one.
 */
#include <keyhole/base/account.h>

#include <stdlib.h>
#include <sys/resource.h>

#include <keyhole/base/limits.h>

enum {
	TICKS = 16, /* in a half-life */
	ALONE = 7,  /* times what is left, for a sandbox without others */
	FIRST_SPENT = KH_RESOURCE_SIGNATURES,
	SPENT = KH_RESOURCES - FIRST_SPENT,
};

/* How long until half of what was spent is forgotten. */
static const uint32_t half_life_ms[SPENT] = {
	[KH_RESOURCE_SIGNATURES - FIRST_SPENT] = 2 * 1000,
	[KH_RESOURCE_JOURNAL - FIRST_SPENT] = 32 * 1000,
};

struct kh_account {
	atomic_uint refs;
	atomic_uint children;
	struct kh_account *parent;	  /* a reference; NULL: this is the whole */
	atomic_size_t most[KH_RESOURCES]; /* of the whole */
	atomic_size_t held[FIRST_SPENT];
	atomic_uint_fast64_t spent[SPENT]; /* ticks << 32 | amount */
	atomic_uint_fast64_t refused[KH_RESOURCES];
};

static bool is_spent(enum kh_resource resource)
{
	return resource >= KH_RESOURCE_SIGNATURES;
}

/* ---- life ---- */

struct kh_account *kh_account_new_whole(void)
{
	struct kh_account *account = calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	atomic_init(&account->refs, 1);
	for (size_t i = 0; i < KH_RESOURCES; i++)
		atomic_init(&account->most[i], SIZE_MAX);
	return account;
}

struct kh_account *kh_account_new(struct kh_account *parent)
{
	struct kh_account *account = parent ? kh_account_new_whole() : NULL;

	if (!account)
		return NULL;
	account->parent = kh_account_ref(parent);
	atomic_fetch_add(&parent->children, 1);
	return account;
}

struct kh_account *kh_account_ref(struct kh_account *account)
{
	if (account)
		atomic_fetch_add_explicit(&account->refs, 1, memory_order_relaxed);
	return account;
}

void kh_account_unref(struct kh_account *account)
{
	while (account && atomic_fetch_sub_explicit(&account->refs, 1, memory_order_acq_rel) == 1) {
		struct kh_account *parent = account->parent;
		if (parent)
			atomic_fetch_sub(&parent->children, 1);
		free(account);
		account = parent;
	}
}

struct kh_account *kh_account_parent(const struct kh_account *account)
{
	return account ? account->parent : NULL;
}

static const struct kh_account *whole_of(const struct kh_account *account)
{
	while (account->parent)
		account = account->parent;
	return account;
}

void kh_account_bound(struct kh_account *whole, enum kh_resource resource, size_t most)
{
	if (whole)
		atomic_store(&whole->most[resource], most);
}

size_t kh_account_most(const struct kh_account *account, enum kh_resource resource)
{
	return account ? atomic_load(&whole_of(account)->most[resource]) : SIZE_MAX;
}

/* ---- what is spent ---- */

/* 2 to the power of -ticks/16, of 65536. */
static uint32_t forget(uint32_t amount, uint64_t ticks)
{
	static const uint32_t factors[TICKS] = { 65536, 62757, 60097, 57549, 55109, 52772,
						 50535, 48393, 46341, 44376, 42495, 40693,
						 38968, 37316, 35734, 34219 };
	uint64_t halves = ticks / TICKS;

	return halves > 31
		       ? 0
		       : (uint32_t)((uint64_t)(amount >> halves) * factors[ticks % TICKS] >> 16);
}

static uint32_t ticks_at(enum kh_resource resource, uint64_t now_ms)
{
	return (uint32_t)(now_ms * TICKS / half_life_ms[resource - FIRST_SPENT]);
}

/* What is not forgotten at that tick. Another thread's clock may be a little behind. */
static uint32_t remembered(uint64_t word, uint32_t tick)
{
	uint32_t since = (uint32_t)(word >> 32);

	return (int32_t)(tick - since) > 0 ? forget((uint32_t)word, tick - since) : (uint32_t)word;
}

/* Return: what it comes to. */
static size_t spend(struct kh_account *account, enum kh_resource resource, size_t amount,
		    uint64_t now_ms)
{
	atomic_uint_fast64_t *at = &account->spent[resource - FIRST_SPENT];
	uint32_t tick = ticks_at(resource, now_ms);
	uint64_t word = atomic_load(at), next;
	size_t sum;

	do {
		uint32_t since = (uint32_t)(word >> 32);
		sum = remembered(word, tick);
		sum = amount < UINT32_MAX - sum ? sum + amount : UINT32_MAX;
		next = (uint64_t)((int32_t)(tick - since) > 0 ? tick : since) << 32 | sum;
	} while (!atomic_compare_exchange_weak(at, &word, next));
	return sum;
}

static void unspend(struct kh_account *account, enum kh_resource resource, size_t amount)
{
	atomic_uint_fast64_t *at = &account->spent[resource - FIRST_SPENT];
	uint64_t word = atomic_load(at), next;

	do {
		uint32_t sum = (uint32_t)word;
		next = word - (amount < sum ? amount : sum);
	} while (!atomic_compare_exchange_weak(at, &word, next));
}

/* ---- what is taken ---- */

static size_t add(struct kh_account *account, enum kh_resource resource, size_t amount,
		  uint64_t now_ms)
{
	return is_spent(resource) ? spend(account, resource, amount, now_ms)
				  : atomic_fetch_add(&account->held[resource], amount) + amount;
}

static void take_off(struct kh_account *account, enum kh_resource resource, size_t amount)
{
	if (is_spent(resource))
		unspend(account, resource, amount);
	else
		atomic_fetch_sub(&account->held[resource], amount);
}

static bool has_others(const struct kh_account *parent)
{
	return atomic_load_explicit(&parent->children, memory_order_relaxed) > 1;
}

/* One at least, where there are few of a thing. */
static bool is_floor(size_t amount, size_t most, size_t part)
{
	return amount <= most / part || amount == 1;
}

/* With what is asked for: the sandbox has `own`, its tenant `tenants`, everybody `all`. *who is set
 * where that is too much for somebody. */
static bool is_share(const struct kh_account *account, enum kh_resource resource, size_t own,
		     size_t tenants, size_t all, enum kh_account_level *who)
{
	const struct kh_account *tenant = account->parent, *whole = tenant->parent;
	size_t most = atomic_load_explicit(&whole->most[resource], memory_order_relaxed);

	*who = KH_ACCOUNT_OF_ALL;
	if (all > most)
		return false;
	*who = KH_ACCOUNT_OF_SANDBOX;
	size_t left = most - all;
	bool alone = !has_others(tenant);
	if (!has_others(whole)) {
		if (alone)
			left = left > SIZE_MAX / ALONE ? SIZE_MAX : left * ALONE;
		return own <= left || is_floor(own, most, KH_ACCOUNT_SANDBOX_FLOOR);
	}
	if (tenants > left && !is_floor(tenants, most, KH_ACCOUNT_TENANT_FLOOR)) {
		*who = KH_ACCOUNT_OF_TENANT;
		return false;
	}
	left -= tenants < left ? tenants : left;
	return alone || own <= left || is_floor(own, most, KH_ACCOUNT_SANDBOX_FLOOR);
}

bool kh_account_take(struct kh_account *account, enum kh_resource resource, size_t amount,
		     uint64_t now_ms)
{
	if (!account || amount == 0)
		return true;
	struct kh_account *tenant = account->parent, *whole = tenant->parent;
	size_t all = add(whole, resource, amount, now_ms);
	size_t tenants = add(tenant, resource, amount, now_ms);
	size_t own = add(account, resource, amount, now_ms);
	enum kh_account_level who;

	if (is_share(account, resource, own, tenants, all, &who))
		return true;
	for (struct kh_account *at = account; at; at = at->parent) {
		take_off(at, resource, amount);
		atomic_fetch_add_explicit(&at->refused[resource], 1, memory_order_relaxed);
	}
	return false;
}

void kh_account_put(struct kh_account *account, enum kh_resource resource, size_t amount)
{
	for (; account; account = account->parent)
		(void)add(account, resource, amount, 0);
}

void kh_account_give(struct kh_account *account, enum kh_resource resource, size_t amount)
{
	for (; account && amount > 0; account = account->parent)
		take_off(account, resource, amount);
}

bool kh_account_resize(struct kh_account *account, enum kh_resource resource, size_t *held,
		       size_t now)
{
	if (now > *held && !kh_account_take(account, resource, now - *held, 0))
		return false;
	if (now < *held)
		kh_account_give(account, resource, *held - now);
	*held = now;
	return true;
}

/* ---- what is asked ---- */

size_t kh_account_held(const struct kh_account *account, enum kh_resource resource, uint64_t now_ms)
{
	if (!account)
		return 0;
	if (!is_spent(resource))
		return atomic_load(&account->held[resource]);
	return remembered(atomic_load(&account->spent[resource - FIRST_SPENT]),
			  ticks_at(resource, now_ms));
}

enum kh_account_level kh_account_full(const struct kh_account *account, enum kh_resource resource,
				      size_t amount, uint64_t now_ms)
{
	const struct kh_account *tenant = account ? account->parent : NULL;
	enum kh_account_level who = KH_ACCOUNT_OF_SANDBOX;

	if (!tenant || !tenant->parent)
		return who;
	size_t own = kh_account_held(account, resource, now_ms) + amount;
	size_t tenants = kh_account_held(tenant, resource, now_ms) + amount;
	size_t all = kh_account_held(tenant->parent, resource, now_ms) + amount;
	return is_share(account, resource, own, tenants, all, &who) ? KH_ACCOUNT_OF_SANDBOX : who;
}

uint64_t kh_account_refused(const struct kh_account *account, enum kh_resource resource)
{
	return account ? atomic_load(&account->refused[resource]) : 0;
}

const char *kh_resource_name(enum kh_resource resource)
{
	static const char *const names[KH_RESOURCES] = {
		[KH_RESOURCE_MEMORY] = "memory",
		[KH_RESOURCE_DESCRIPTORS] = "descriptors",
		[KH_RESOURCE_LOOKUPS] = "lookups",
		[KH_RESOURCE_UP_WINDOW] = "upstream windows",
		[KH_RESOURCE_LEAVES] = "leaves asked for",
		[KH_RESOURCE_SIGNATURES] = "signatures",
		[KH_RESOURCE_JOURNAL] = "journal bytes",
	};

	return names[resource];
}

/* ---- descriptors ---- */

size_t kh_account_descriptor_limit(void)
{
	const rlim_t nobody_has_more = 1 << 30;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	return (size_t)(limit.rlim_max < nobody_has_more ? limit.rlim_max : nobody_has_more);
}

size_t kh_account_lookups(size_t limit, size_t sockets)
{
	size_t spare = (limit - kh_account_descriptors(limit)) / 2;
	size_t n = sockets > 0 ? spare / sockets : KH_LIMIT_RESOLVES;

	if (n > KH_LIMIT_RESOLVES)
		return KH_LIMIT_RESOLVES;
	return n > 0 ? n : 1;
}

bool kh_account_has_room_for(uint32_t connections, size_t limit, size_t begun, struct kh_err *err)
{
	size_t shared = kh_account_descriptors(limit);
	size_t room = begun < shared ? shared - begun : 0;

	return connections <= room ||
	       kh_err_set(err, KH_ERR_LIMIT,
			  "limits.connections is %u, and %zu descriptors (RLIMIT_NOFILE) leave "
			  "room for %zu, of which each sandbox has a share (LimitNOFILE= of the "
			  "unit, or `ulimit -n`, gives more)",
			  connections, limit, room);
}
