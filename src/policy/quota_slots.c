/* quota_slots.c - which limit has which slot of the ledger, from one configuration to the next
 *
 * A limit keeps its slot as long as it is in the configuration with the same amount. When the limit
 * is removed or its amount changes, the slot is not reused at once, since exchanges of the earlier
 * configuration may still count in it for a moment. When it is reused, the used amount is saved
 * ("parked"), in case the limit comes back. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <keyhole/base/limits.h>

#include "quota_slots_internal.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum {
	FIRST_SLOTS = 1024,
	/* A slot rests for so many assignments, and so long. */
	REST_ASSIGNMENTS = 2,
	REST_MS = 60 * 1000,
};

/* ---- the memory ---- */

/* A file that is larger than RLIMIT_FSIZE lets it be would end this process (SIGXFSZ). */
static off_t most_bytes(void)
{
	const rlim_t most = KH_LIMIT_QUOTA_SLOTS * sizeof(uint64_t);
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < most)
		return (off_t)limit.rlim_cur;
	return (off_t)most;
}

/* It has room for so many slots. */
static bool has_room(int fd, uint32_t n_slots)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_size >= 0 &&
	       (uint64_t)st.st_size >= (uint64_t)n_slots * sizeof(uint64_t);
}

/*
 * It is as large as it may ever become, and costs what is used of it. A worker that was taken over
 * can make it neither larger (memory that nobody bounds) nor smaller (SIGBUS for the keeper).
 */
static bool seal(int fd)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const off_t most = most_bytes();
	int there = fcntl(fd, F_GET_SEALS);
	struct stat st;
	if (there >= 0 && (there & seals) == seals)
		return true;
	/* At a handover it comes from another binary, which may have sealed it in another way. */
	return fstat(fd, &st) == 0 && (st.st_size >= most || ftruncate(fd, most) == 0) &&
	       fcntl(fd, F_ADD_SEALS, seals) == 0;
}

bool kh_quota_slots_map(struct kh_quota_slots *quota_slots, uint32_t n_slots, struct kh_err *err)
{
	uint32_t n =
		quota_slots->quota_ledger.n_slots ? quota_slots->quota_ledger.n_slots : FIRST_SLOTS;
	while (n < n_slots)
		n *= 2;
	if (n == quota_slots->quota_ledger.n_slots)
		return true;
	if (!seal(quota_slots->fd))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the limits' ledger");
	if (!has_room(quota_slots->fd, n))
		return kh_err_set(
			err, KH_ERR_LIMIT,
			"the limits' ledger: no room for %u counters (is the size of files "
			"limited? ulimit -f)",
			n);
	struct kh_quota_ledger larger;
	if (!kh_quota_ledger_map(&larger, quota_slots->fd, n, 0, err))
		return false;
	kh_quota_ledger_unmap(&quota_slots->quota_ledger);
	quota_slots->quota_ledger = larger;
	return true;
}

struct kh_quota_slots *kh_quota_slots_new(struct kh_err *err)
{
	struct kh_quota_slots *quota_slots = calloc(1, sizeof(*quota_slots));
	if (!quota_slots) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "the limits' ledger: no memory");
		return NULL;
	}
	quota_slots->next_slot = KH_QUOTA_LEDGER_FIRST_SLOT;
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	quota_slots->fd = memfd_create("keyhole-quota-ledger", flags | MFD_NOEXEC_SEAL);
	if (quota_slots->fd < 0 && errno == EINVAL)
		quota_slots->fd = memfd_create("keyhole-quota-ledger", flags);
	if (quota_slots->fd < 0)
		(void)kh_err_sys(err, KH_ERR_SYSTEM, errno, "the limits' ledger");
	else if (kh_quota_slots_map(quota_slots, FIRST_SLOTS, err))
		return quota_slots;
	kh_quota_slots_free(quota_slots);
	return NULL;
}

void kh_quota_slots_free(struct kh_quota_slots *quota_slots)
{
	if (!quota_slots)
		return;
	kh_quota_ledger_unmap(&quota_slots->quota_ledger);
	if (quota_slots->fd >= 0)
		(void)close(quota_slots->fd);
	free(quota_slots->entries);
	free(quota_slots->index);
	free(quota_slots->left);
	free(quota_slots->free_slots);
	free(quota_slots);
}

int kh_quota_slots_fd(const struct kh_quota_slots *quota_slots)
{
	return quota_slots->fd;
}

uint32_t kh_quota_slots_slots(const struct kh_quota_slots *quota_slots)
{
	return quota_slots->quota_ledger.n_slots;
}

/* ---- entries by their key ---- */

static size_t place_of(const struct kh_quota_slots *quota_slots, const uint8_t *key)
{
	uint64_t hash;
	memcpy(&hash, key, sizeof(hash));
	return (size_t)hash & (quota_slots->n_index - 1);
}

struct kh_quota_slots_entry *kh_quota_slots_find(const struct kh_quota_slots *quota_slots,
						 const uint8_t key[KH_QUOTA_SLOTS_KEY_BYTES])
{
	if (quota_slots->n_index == 0)
		return NULL;
	for (size_t at = place_of(quota_slots, key); quota_slots->index[at];
	     at = (at + 1) & (quota_slots->n_index - 1)) {
		struct kh_quota_slots_entry *entry =
			&quota_slots->entries[quota_slots->index[at] - 1];
		if (memcmp(entry->key, key, KH_QUOTA_SLOTS_KEY_BYTES) == 0)
			return entry;
	}
	return NULL;
}

static void put_index(struct kh_quota_slots *quota_slots, size_t number)
{
	size_t at = place_of(quota_slots, quota_slots->entries[number].key);
	while (quota_slots->index[at])
		at = (at + 1) & (quota_slots->n_index - 1);
	quota_slots->index[at] = (uint32_t)(number + 1);
}

/* At least twice as many places as entries. */
static bool index_anew(struct kh_quota_slots *quota_slots, size_t n_entries)
{
	size_t n = 64;
	while (n < 2 * (n_entries + 1))
		n *= 2;
	uint32_t *index = calloc(n, sizeof(*index));
	if (!index)
		return false;
	free(quota_slots->index);
	quota_slots->index = index;
	quota_slots->n_index = n;
	for (size_t i = 0; i < quota_slots->n_entries; i++)
		put_index(quota_slots, i);
	return true;
}

/* Room for one more: grown when the count is a power of two, which is when it is full. */
static void *grow(void *list, size_t count, size_t size)
{
	return (count & (count - 1)) == 0 ? reallocarray(list, count ? count * 2 : 1, size) : list;
}

struct kh_quota_slots_entry *kh_quota_slots_add(struct kh_quota_slots *quota_slots,
						const uint8_t key[KH_QUOTA_SLOTS_KEY_BYTES])
{
	if (quota_slots->n_entries >= KH_LIMIT_QUOTA_SLOTS)
		return NULL;
	struct kh_quota_slots_entry *entries =
		grow(quota_slots->entries, quota_slots->n_entries, sizeof(*quota_slots->entries));
	if (!entries)
		return NULL;
	quota_slots->entries = entries;
	if (2 * (quota_slots->n_entries + 1) > quota_slots->n_index &&
	    !index_anew(quota_slots, quota_slots->n_entries * 2))
		return NULL;
	struct kh_quota_slots_entry *entry = &entries[quota_slots->n_entries];
	*entry = (struct kh_quota_slots_entry){ 0 };
	memcpy(entry->key, key, KH_QUOTA_SLOTS_KEY_BYTES);
	put_index(quota_slots, quota_slots->n_entries++);
	return entry;
}

uint64_t kh_quota_slots_used(const struct kh_quota_slots *quota_slots,
			     const struct kh_quota_slots_entry *entry, uint64_t now_ms)
{
	const struct kh_rate *rate = &entry->rate;
	if (rate->slot > 0)
		return kh_bucket_used(atomic_load(&quota_slots->quota_ledger.slots[rate->slot]),
				      rate, now_ms);
	/* As a bucket of that number would stand now. */
	return kh_bucket_used(kh_bucket_value(rate, entry->used_ms, entry->used), rate, now_ms);
}

/* ---- slots ---- */

static bool leave_slot(struct kh_quota_slots *quota_slots, uint32_t slot, uint64_t now_ms)
{
	struct kh_quota_slots_left *left =
		grow(quota_slots->left, quota_slots->n_left, sizeof(*left));
	if (!left)
		return false; /* it is lost, which is no harm */
	quota_slots->left = left;
	left[quota_slots->n_left++] =
		(struct kh_quota_slots_left){ slot, quota_slots->assignments, now_ms };
	return true;
}

static bool has_rested(const struct kh_quota_slots *quota_slots, uint32_t since, uint64_t since_ms,
		       uint64_t now_ms)
{
	return quota_slots->assignments - since >= REST_ASSIGNMENTS && now_ms - since_ms >= REST_MS;
}

static void free_slot(struct kh_quota_slots *quota_slots, uint32_t slot)
{
	uint32_t *slots = grow(quota_slots->free_slots, quota_slots->n_free, sizeof(*slots));
	if (!slots)
		return;
	quota_slots->free_slots = slots;
	slots[quota_slots->n_free++] = slot;
}

/* What has rested may be given out again; limits that went, and of which nothing is in use any
 * more, are forgotten. */
static void sweep(struct kh_quota_slots *quota_slots, uint64_t now_ms)
{
	size_t kept = 0;
	for (size_t i = 0; i < quota_slots->n_left; i++) {
		if (has_rested(quota_slots, quota_slots->left[i].since,
			       quota_slots->left[i].since_ms, now_ms))
			free_slot(quota_slots, quota_slots->left[i].slot);
		else
			quota_slots->left[kept++] = quota_slots->left[i];
	}
	quota_slots->n_left = kept;
	kept = 0;
	for (size_t i = 0; i < quota_slots->n_entries; i++) {
		struct kh_quota_slots_entry *entry = &quota_slots->entries[i];
		if (!entry->live && entry->rate.slot > 0 &&
		    has_rested(quota_slots, entry->died, entry->died_ms, now_ms)) {
			entry->used = kh_quota_slots_is_bucket(entry)
					      ? kh_quota_slots_used(quota_slots, entry, now_ms)
					      : 0;
			entry->used_ms = now_ms;
			free_slot(quota_slots, entry->rate.slot);
			entry->rate.slot = 0;
		}
		if (!entry->live && entry->rate.slot == 0 &&
		    (!kh_quota_slots_is_bucket(entry) ||
		     kh_quota_slots_used(quota_slots, entry, now_ms) == 0))
			continue;
		quota_slots->entries[kept++] = *entry;
	}
	bool fewer = kept < quota_slots->n_entries;
	/* `grow` counts on it: between two powers of two the list has room for the larger one. */
	if (fewer && kept > 0) {
		size_t room = 1;
		while (room < kept)
			room *= 2;
		struct kh_quota_slots_entry *entries =
			reallocarray(quota_slots->entries, room, sizeof(*entries));
		quota_slots->entries = entries ? entries : quota_slots->entries;
	}
	quota_slots->n_entries = kept;
	if (fewer) {
		memset(quota_slots->index, 0, quota_slots->n_index * sizeof(*quota_slots->index));
		for (size_t i = 0; i < kept; i++)
			put_index(quota_slots, i);
	}
}

/* Return: 0 when there is none left. */
static uint32_t new_slot(struct kh_quota_slots *quota_slots, struct kh_err *err)
{
	if (quota_slots->n_free > 0)
		return quota_slots->free_slots[--quota_slots->n_free];
	if (quota_slots->next_slot >= KH_LIMIT_QUOTA_SLOTS) {
		(void)kh_err_set(err, KH_ERR_CONFIG, "more than %d limits that are counted",
				 KH_LIMIT_QUOTA_SLOTS);
		return 0;
	}
	return kh_quota_slots_map(quota_slots, quota_slots->next_slot + 1, err)
		       ? quota_slots->next_slot++
		       : 0;
}

/* ---- the configuration's limits ---- */

struct assignment {
	struct kh_quota_slots *quota_slots;
	uint64_t now_ms;
	EVP_MD_CTX *md;
	struct kh_err *err;
};

/* Whose a limit is: what it is of, a name, and which of several (rules may have one text). */
struct owner {
	enum kh_quota_owner kind;
	const char *list; /* of a rule: its tenant's name */
	const char *name;
	uint32_t nth;
};

static bool key_of(const struct assignment *a, const struct owner *owner, enum kh_quota_kind kind,
		   uint32_t period_ms, uint8_t key[KH_QUOTA_SLOTS_KEY_BYTES])
{
	uint8_t hash[EVP_MAX_MD_SIZE];
	const uint32_t numbers[] = { (uint32_t)owner->kind, owner->nth, (uint32_t)kind, period_ms };
	const char *list = owner->list ? owner->list : "", *name = owner->name ? owner->name : "";
	bool ok = EVP_DigestInit_ex(a->md, EVP_sha256(), NULL) == 1 &&
		  EVP_DigestUpdate(a->md, numbers, sizeof(numbers)) == 1 &&
		  EVP_DigestUpdate(a->md, list, strlen(list) + 1) == 1 &&
		  EVP_DigestUpdate(a->md, name, strlen(name) + 1) == 1 &&
		  EVP_DigestFinal_ex(a->md, hash, NULL) == 1;
	memcpy(key, hash, KH_QUOTA_SLOTS_KEY_BYTES);
	return ok || kh_err_set(a->err, KH_ERR_NO_MEMORY, "limits: no memory");
}

/* The entry has a slot, that counts by the rate's own amount. */
static bool settle(const struct assignment *a, struct kh_quota_slots_entry *entry,
		   const struct kh_rate *rate, bool fresh)
{
	struct kh_quota_slots *quota_slots = a->quota_slots;
	bool bucket = kh_quota_is_rate(rate->kind);
	if (entry->rate.slot > 0 && (!bucket || entry->rate.amount == rate->amount)) {
		entry->rate.burst = rate->burst;
		return true;
	}
	uint64_t used = fresh || !bucket ? 0 : kh_quota_slots_used(quota_slots, entry, a->now_ms);
	if (fresh && quota_slots->spent)
		used = rate->burst;
	uint32_t slot = new_slot(quota_slots, a->err);
	if (slot == 0)
		return false;
	if (entry->rate.slot > 0)
		(void)leave_slot(quota_slots, entry->rate.slot, a->now_ms);
	entry->rate = *rate;
	entry->rate.slot = slot;
	atomic_store(&quota_slots->quota_ledger.slots[slot],
		     bucket ? kh_bucket_value(rate, a->now_ms, used) : 0);
	return true;
}

static bool assign_one(const struct assignment *a, struct owner owner, const struct kh_rate *rate,
		       uint32_t *slot)
{
	uint8_t key[KH_QUOTA_SLOTS_KEY_BYTES];
	struct kh_quota_slots_entry *entry;
	do {
		if (!key_of(a, &owner, rate->kind, rate->period_ms, key))
			return false;
		entry = kh_quota_slots_find(a->quota_slots, key);
		owner.nth++;
	} while (entry && entry->live);
	bool fresh = !entry;
	if (fresh && !(entry = kh_quota_slots_add(a->quota_slots, key)))
		return kh_err_set(a->err, KH_ERR_CONFIG, "too many limits, or no memory for them");
	entry->live = true;
	if (!settle(a, entry, rate, fresh))
		return false;
	*slot = entry->rate.slot;
	return true;
}

static bool assign(const struct assignment *a, struct owner owner, struct kh_limits *limits)
{
	for (size_t i = 0; limits && i < limits->n_rates; i++)
		if (!assign_one(a, owner, &limits->rates[i], &limits->rates[i].slot))
			return false;
	if (!limits)
		return true;
	const struct kh_rate exchanges = { .kind = KH_QUOTA_CONCURRENCY,
					   .burst = limits->concurrency },
			     connections = { .kind = KH_QUOTA_CONNECTIONS,
					     .burst = limits->connections };
	return ((!limits->concurrency ||
		 assign_one(a, owner, &exchanges, &limits->concurrency_slot)) &&
		(!limits->connections ||
		 assign_one(a, owner, &connections, &limits->connections_slot)));
}

static bool assign_rules(const struct assignment *a, enum kh_quota_owner kind, const char *list,
			 const struct kh_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		if (!rule->more || !rule->more->limits)
			continue;
		const struct owner owner = { .kind = kind, .list = list, .name = rule->text };
		if (!assign(a, owner, rule->more->limits))
			return false;
	}
	return true;
}

static bool assign_all(const struct assignment *a, struct kh_config *config)
{
	const struct owner site = { .kind = KH_OF_SITE };
	if (!assign(a, site, config->site_limits) ||
	    !assign_rules(a, KH_OF_SITE_RULE, NULL, &config->site))
		return false;
	for (size_t i = 0; i < config->n_tenants; i++) {
		struct kh_tenant_config *tenant = &config->tenants[i];
		const struct owner owner = { .kind = KH_OF_TENANT, .name = tenant->name };
		if (!assign(a, owner, tenant->limits) ||
		    !assign_rules(a, KH_OF_RULE, tenant->name, &tenant->rules))
			return false;
	}
	for (size_t i = 0; i < config->n_listeners; i++) {
		const struct owner owner = { .kind = KH_OF_SANDBOX,
					     .name = config->listeners[i].name };
		if (!assign(a, owner, config->listeners[i].limits))
			return false;
	}
	return true;
}

bool kh_quota_slots_assign(struct kh_quota_slots *quota_slots, struct kh_config *config,
			   uint64_t now_ms, struct kh_err *err)
{
	struct assignment a = { quota_slots, now_ms, EVP_MD_CTX_new(), err };
	if (!a.md)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "limits: no memory");
	quota_slots->assignments++;
	for (size_t i = 0; i < quota_slots->n_entries; i++) {
		struct kh_quota_slots_entry *entry = &quota_slots->entries[i];
		if (entry->live) {
			entry->died = quota_slots->assignments;
			entry->died_ms = now_ms;
		}
		entry->live = false;
	}
	bool ok = assign_all(&a, config);
	EVP_MD_CTX_free(a.md);
	if (ok)
		sweep(quota_slots, now_ms);
	if (ok && quota_slots->spent)
		atomic_store(&quota_slots->quota_ledger.slots[KH_QUOTA_LEDGER_CHANGED], 1);
	quota_slots->spent = quota_slots->spent && !ok;
	return ok;
}

static void hold_places(_Atomic uint64_t *slot, const struct kh_rate *rate, unsigned column,
			bool alone)
{
	unsigned other = 1 - column;
	kh_places_clear(slot, column);
	if (alone)
		kh_places_clear(slot, other);
	else
		kh_places_hold(slot, other,
			       rate->burst < UINT32_MAX ? (uint32_t)rate->burst : UINT32_MAX);
}

void kh_quota_slots_end_worker(struct kh_quota_slots *quota_slots, unsigned column, bool alone,
			       uint64_t now_ms)
{
	for (size_t i = 0; i < quota_slots->n_entries; i++) {
		const struct kh_quota_slots_entry *entry = &quota_slots->entries[i];
		if (entry->rate.slot == 0)
			continue;
		_Atomic uint64_t *slot = &quota_slots->quota_ledger.slots[entry->rate.slot];
		if (kh_quota_slots_is_bucket(entry))
			kh_bucket_hold(slot, &entry->rate, now_ms);
		else
			hold_places(slot, &entry->rate, column, alone);
	}
	/* What stands there may be another number now; whoever wrote it need not have said so. */
	if (kh_quota_slots_has_buckets(quota_slots))
		atomic_store(&quota_slots->quota_ledger.slots[KH_QUOTA_LEDGER_CHANGED], 1);
}

bool kh_quota_slots_has_buckets(const struct kh_quota_slots *quota_slots)
{
	for (size_t i = 0; i < quota_slots->n_entries; i++)
		if (kh_quota_slots_is_bucket(&quota_slots->entries[i]))
			return true;
	return false;
}

bool kh_quota_slots_has_changed(struct kh_quota_slots *quota_slots)
{
	return atomic_exchange(&quota_slots->quota_ledger.slots[KH_QUOTA_LEDGER_CHANGED], 0) != 0;
}
