/*
 * ids.c - the set of exchanges that are open, for recovery and verification
 *
 * Open addressing, linear probing, at most half full. A worker that was taken over chose the ids,
 * so they are hashed under a random key of each run, and collisions can't be precomputed. Zero
 * marks a free place, so the id zero is counted with the ids that found no place.
 */
#include <stdlib.h>
#include <sys/random.h>

#include "audit_internal.h"

bool kh_ids_init(struct kh_ids *ids, size_t most)
{
	*ids = (struct kh_ids){ .most = most };
	return getrandom(ids->key, sizeof(ids->key), 0) == (ssize_t)sizeof(ids->key);
}

void kh_ids_clear(struct kh_ids *ids)
{
	free(ids->slots);
	ids->slots = NULL;
	ids->size = ids->used = 0;
	ids->unnamed = 0;
}

static size_t place(const struct kh_ids *ids, uint64_t id)
{
	uint64_t hash = (id ^ ids->key[0]) * (ids->key[1] | 1);

	hash = (hash ^ hash >> 32) * (ids->key[2] | 1);
	size_t at = (size_t)(hash >> 32) & (ids->size - 1);

	while (ids->slots[at] != 0 && ids->slots[at] != id)
		at = (at + 1) & (ids->size - 1);
	return at;
}

static bool grow(struct kh_ids *ids)
{
	struct kh_ids wider = *ids;

	wider.size = ids->size ? 2 * ids->size : 1024;
	wider.slots = calloc(wider.size, sizeof(*wider.slots));
	if (!wider.slots)
		return false;
	for (size_t i = 0; i < ids->size; i++)
		if (ids->slots[i] != 0)
			wider.slots[place(&wider, ids->slots[i])] = ids->slots[i];
	free(ids->slots);
	ids->slots = wider.slots;
	ids->size = wider.size;
	return true;
}

bool kh_ids_add(struct kh_ids *ids, uint64_t id)
{
	size_t at;

	if (id == 0 || ids->used >= ids->most || (2 * ids->used >= ids->size && !grow(ids))) {
		ids->unnamed++;
		return true;
	}
	at = place(ids, id);
	if (ids->slots[at] != 0)
		return false;
	ids->slots[at] = id;
	ids->used++;
	return true;
}

bool kh_ids_remove(struct kh_ids *ids, uint64_t id)
{
	size_t at;

	if (id == 0 || ids->size == 0 || ids->slots[at = place(ids, id)] == 0) {
		bool unnamed = ids->unnamed > 0;
		ids->unnamed -= unnamed;
		return unnamed;
	}
	ids->slots[at] = 0;
	ids->used--;
	/* Those behind it find their place anew, or a search would end at the hole. */
	for (;;) {
		uint64_t moving;

		at = (at + 1) & (ids->size - 1);
		moving = ids->slots[at];
		if (moving == 0)
			return true;
		ids->slots[at] = 0;
		ids->slots[place(ids, moving)] = moving;
	}
}

enum kh_ids_fault kh_ids_follow(struct kh_ids *ids, const struct kh_line *line,
				struct kh_slice text)
{
	bool aborted = kh_slice_eq(line->event, KH_SLICE("aborted"));
	uint64_t id, count;

	if (kh_slice_eq(line->event, KH_SLICE("open"))) {
		(void)kh_line_id(text, &id);
		return kh_ids_add(ids, id) ? KH_IDS_NONE : KH_IDS_REOPENED;
	}
	if (!aborted && !kh_slice_eq(line->event, KH_SLICE("close")))
		return KH_IDS_NONE;
	if (kh_line_id(text, &id) || !aborted)
		return kh_ids_remove(ids, id) ? KH_IDS_NONE : KH_IDS_UNMATCHED;
	/* It ends those that have no place, never one that has. */
	if (kh_line_number(text, "count", &count))
		ids->unnamed -= count < ids->unnamed ? count : ids->unnamed;
	return KH_IDS_NONE;
}
