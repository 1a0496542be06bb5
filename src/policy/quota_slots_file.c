/* quota_slots_file.c - encodes what is used of limits, for a file and for a handover
 *
 * The decoder trusts nothing: an input with any error is refused as a whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/wire.h>

#include "quota_slots_internal.h"

enum {
	MAGIC = 0x4b484c31, /* "KHL1" */
	HASH_BYTES = 32,
};

static bool put_hash(struct kh_buf *out)
{
	uint8_t hash[EVP_MAX_MD_SIZE];
	struct kh_slice bytes = kh_buf_view(out);
	return EVP_Digest(bytes.ptr, bytes.len, hash, NULL, EVP_sha256(), NULL) == 1 &&
	       kh_buf_append(out, hash, HASH_BYTES);
}

static bool put_entry(struct kh_buf *out, const struct kh_quota_slots_entry *entry)
{
	return kh_buf_append(out, entry->key, sizeof(entry->key)) &&
	       kh_wire_put_u8(out, (uint8_t)entry->rate.kind) &&
	       kh_wire_put_u32(out, entry->rate.period_ms) &&
	       kh_wire_put_u64(out, entry->rate.amount) && kh_wire_put_u64(out, entry->rate.burst);
}

bool kh_quota_slots_write(struct kh_quota_slots *quota_slots, uint64_t now_ms, uint64_t wall_ms,
			  struct kh_buf *out)
{
	bool ok = kh_wire_put_u32(out, MAGIC) && kh_wire_put_u64(out, wall_ms);
	for (size_t i = 0; ok && i < quota_slots->n_entries; i++) {
		const struct kh_quota_slots_entry *entry = &quota_slots->entries[i];
		uint64_t used = kh_quota_slots_is_bucket(entry)
					? kh_quota_slots_used(quota_slots, entry, now_ms)
					: 0;
		ok = used == 0 || (put_entry(out, entry) && kh_wire_put_u64(out, used));
	}
	return ok && put_hash(out);
}

/* ---- in ---- */

static bool take_raw(struct kh_wire_reader *r, uint8_t *out, size_t n)
{
	if (r->bad || r->rest.len < n) {
		r->bad = true;
		return false;
	}
	memcpy(out, r->rest.ptr, n);
	r->rest = kh_slice_sub(r->rest, n, r->rest.len);
	return true;
}

static void read_entry(struct kh_wire_reader *r, struct kh_quota_slots_entry *entry)
{
	*entry = (struct kh_quota_slots_entry){ 0 };
	(void)take_raw(r, entry->key, sizeof(entry->key));
	uint8_t kind = kh_wire_u8(r);
	entry->rate.kind = kind < KH_QUOTA_KINDS ? (enum kh_quota_kind)kind : KH_QUOTA_NONE;
	entry->rate.period_ms = kh_wire_u32(r);
	entry->rate.amount = kh_wire_u64(r);
	entry->rate.burst = kh_wire_u64(r);
}

/* A rate that some configuration could have had: nothing that is computed with it runs over. */
static bool is_sound(const struct kh_rate *rate)
{
	uint64_t most =
		kh_quota_is_bytes(rate->kind) ? KH_LIMIT_RATE_BYTES : KH_LIMIT_RATE_REQUESTS;
	return kh_quota_is_rate(rate->kind) && rate->period_ms >= 1000 &&
	       rate->period_ms <= 86400000 && rate->amount > 0 && rate->burst > 0 &&
	       rate->burst <= KH_LIMIT_QUOTA_AMOUNT &&
	       rate->amount / (rate->period_ms / 1000) <= most;
}

static bool read_all(struct kh_quota_slots *quota_slots, struct kh_wire_reader *r, uint64_t now_ms,
		     uint64_t wall_ms)
{
	if (kh_wire_u32(r) != MAGIC)
		return false;
	uint64_t then_ms = kh_wire_u64(r);
	uint64_t age_ms = wall_ms > then_ms ? wall_ms - then_ms : 0;
	while (r->rest.len > 0 && !r->bad) {
		struct kh_quota_slots_entry entry;
		read_entry(r, &entry);
		uint64_t used = kh_wire_u64(r);
		if (r->bad || used == 0 || !is_sound(&entry.rate))
			return false;
		/* As much of it has filled again as would have here. */
		uint64_t value = kh_bucket_value(&entry.rate, 0, used);
		struct kh_quota_slots_entry *made =
			kh_quota_slots_find(quota_slots, entry.key)
				? NULL
				: kh_quota_slots_add(quota_slots, entry.key);
		if (!made)
			return false;
		made->rate = entry.rate;
		made->used = kh_bucket_used(value, &entry.rate, age_ms);
		made->used_ms = now_ms;
	}
	return kh_wire_done(r);
}

bool kh_quota_slots_read(struct kh_quota_slots *quota_slots, struct kh_slice bytes, uint64_t now_ms,
			 uint64_t wall_ms, struct kh_err *err)
{
	uint8_t hash[EVP_MAX_MD_SIZE];
	bool ok = bytes.len > HASH_BYTES;
	if (ok) {
		struct kh_slice body = kh_slice_sub(bytes, 0, bytes.len - HASH_BYTES);
		struct kh_wire_reader r = { .rest = body };
		ok = EVP_Digest(body.ptr, body.len, hash, NULL, EVP_sha256(), NULL) == 1 &&
		     memcmp(hash, bytes.ptr + body.len, HASH_BYTES) == 0 &&
		     read_all(quota_slots, &r, now_ms, wall_ms);
	}
	if (ok)
		return true;
	quota_slots->n_entries = 0;
	free(quota_slots->index);
	quota_slots->index = NULL;
	quota_slots->n_index = 0;
	free(quota_slots->entries);
	quota_slots->entries = NULL;
	quota_slots->spent = true;
	return kh_err_set(err, KH_ERR_CONFIG, "it is damaged, or of another version");
}

/* ---- from keeper to keeper ---- */

bool kh_quota_slots_offer(const struct kh_quota_slots *quota_slots, struct kh_buf *out)
{
	uint32_t n = 0;
	for (size_t i = 0; i < quota_slots->n_entries; i++)
		n += quota_slots->entries[i].rate.slot > 0;
	bool ok = kh_wire_put_u32(out, MAGIC) && kh_wire_put_u32(out, quota_slots->next_slot) &&
		  kh_wire_put_u32(out, n);
	for (size_t i = 0; ok && i < quota_slots->n_entries; i++)
		ok = quota_slots->entries[i].rate.slot == 0 ||
		     (put_entry(out, &quota_slots->entries[i]) &&
		      kh_wire_put_u32(out, quota_slots->entries[i].rate.slot));
	return ok;
}

static bool take_entries(struct kh_quota_slots *quota_slots, struct kh_wire_reader *r)
{
	uint32_t n = kh_wire_count(r, KH_LIMIT_QUOTA_SLOTS);
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		struct kh_quota_slots_entry entry;
		read_entry(r, &entry);
		entry.rate.slot = kh_wire_u32(r);
		if (r->bad || (!kh_quota_is_places(entry.rate.kind) && !is_sound(&entry.rate)) ||
		    entry.rate.slot < KH_QUOTA_LEDGER_FIRST_SLOT ||
		    entry.rate.slot >= quota_slots->next_slot ||
		    kh_quota_slots_find(quota_slots, entry.key))
			return false;
		struct kh_quota_slots_entry *made = kh_quota_slots_add(quota_slots, entry.key);
		if (!made)
			return false;
		made->rate = entry.rate;
		made->live = true;
	}
	return kh_wire_done(r);
}

struct kh_quota_slots *kh_quota_slots_take(int fd, struct kh_slice offer, struct kh_err *err)
{
	struct kh_quota_slots *quota_slots = calloc(1, sizeof(*quota_slots));
	struct kh_wire_reader r = { .rest = offer };
	struct stat st;
	if (!quota_slots) {
		(void)close(fd);
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "the limits' ledger: no memory");
		return NULL;
	}
	quota_slots->fd = fd;
	uint32_t magic = kh_wire_u32(&r);
	quota_slots->next_slot = kh_wire_u32(&r);
	if (magic != MAGIC || fstat(fd, &st) != 0 || st.st_size < 0 ||
	    quota_slots->next_slot < KH_QUOTA_LEDGER_FIRST_SLOT ||
	    quota_slots->next_slot > KH_LIMIT_QUOTA_SLOTS ||
	    (uint64_t)st.st_size < (uint64_t)quota_slots->next_slot * sizeof(uint64_t)) {
		(void)kh_err_set(err, KH_ERR_INTERNAL, "the offered ledger is not understood");
	} else if (kh_quota_slots_map(quota_slots, quota_slots->next_slot, err)) {
		if (take_entries(quota_slots, &r))
			return quota_slots;
		(void)kh_err_set(err, KH_ERR_INTERNAL, "the offered ledger is not understood");
	}
	kh_quota_slots_free(quota_slots);
	return NULL;
}
