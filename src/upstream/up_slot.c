/*
 * up_slot.c - the connections with one key, found through a hash
 *
 * A worker has thousands of connections to upstreams, and a sandbox chooses how many there are: its
 * upstream allows one stream on each. So a request looks neither at connections with another key
 * nor at those that are full. Each key has a slot, with a list for each thing that a request may
 * look for (enum kh_up_list). The list that a connection is in follows from its state. It is put
 * there anew wherever that may have changed: its state is set, a user begins or ceases to wait for
 * it, it was read, its turn has come, or it takes no more streams.
 *
 * Between those, a stream may have taken the last room. Whoever finds that puts the connection into
 * the list of the full ones (up_join.c).
 */

#include "upstream_internal.h"

/* ---- which requests may share a connection ---- */

/* The very same: each was judged by all of them. */
static bool same_lists(const struct kh_geo_levels *a, const struct kh_geo_levels *b)
{
	for (unsigned i = 0; i < KH_GEO_LEVELS; i++)
		if (a->at[i] != b->at[i])
			return false;
	return true;
}

static bool same_credentials(const struct kh_up_key *a, const struct kh_up_key *b)
{
	return a->n_credentials == b->n_credentials &&
	       memcmp(a->credentials, b->credentials, sizeof(a->credentials)) == 0;
}

bool kh_up_same_key(const struct kh_up_key *a, const struct kh_up_key *b)
{
	return a->port == b->port && a->scheme == b->scheme && a->generation == b->generation &&
	       a->tenant == b->tenant && a->identity == b->identity && same_credentials(a, b) &&
	       a->acceptor == b->acceptor && same_lists(&a->geo, &b->geo) &&
	       kh_host_eq(&a->host, &b->host);
}

/* ---- the table ---- */

static uint64_t hash_of(const struct kh_loop *loop, const struct kh_up_key *key)
{
	uint64_t hash = kh_up_mix(
		loop->ups->seed, (uint64_t)key->tenant << 32 | (uint64_t)key->port << 16 |
					 (uint64_t)key->n_credentials << 8 | (uint64_t)key->scheme);

	hash = kh_up_mix(hash, (uint64_t)key->acceptor);
	hash = kh_up_mix(hash, key->generation);
	for (size_t i = 0; i < KH_RULE_CREDENTIALS; i++)
		hash = kh_up_mix(hash, key->credentials[i]);
	for (size_t i = 0; i < key->host.len; i++)
		hash = kh_up_mix(hash, (unsigned char)key->host.text[i]);
	return hash;
}

static struct kh_up_slot *find(struct kh_node *bucket, uint64_t hash, const struct kh_up_key *key)
{
	for (struct kh_node *node = bucket->next; node != bucket; node = node->next) {
		struct kh_up_slot *slot = kh_container_of(node, struct kh_up_slot, link);

		if (slot->hash == hash && kh_up_same_key(&slot->key, key))
			return slot;
	}
	return NULL;
}

struct kh_up_slot *kh_up_slot_find(const struct kh_loop *loop, const struct kh_up_key *key)
{
	uint64_t hash = hash_of(loop, key);

	return find(&loop->ups->slots[hash % KH_UP_BUCKETS], hash, key);
}

bool kh_up_slot_join(struct kh_up *up)
{
	uint64_t hash = hash_of(up->loop, &up->key);
	struct kh_node *bucket = &up->loop->ups->slots[hash % KH_UP_BUCKETS];
	struct kh_up_slot *slot = find(bucket, hash, &up->key);

	if (!slot) {
		slot = calloc(1, sizeof(*slot));
		if (!slot)
			return false;
		slot->hash = hash;
		slot->key = up->key;
		if (slot->key.identity)
			(void)kh_secret_ref(slot->key.identity);
		for (size_t i = 0; i < KH_UP_LISTS; i++)
			kh_list_init(&slot->lists[i]);
		kh_list_append(bucket, &slot->link);
	}
	slot->n_ups++;
	up->slot = slot;
	(void)kh_up_slot_place(up);
	return true;
}

void kh_up_slot_leave(struct kh_up *up)
{
	struct kh_up_slot *slot = up->slot;

	if (!slot)
		return;
	up->slot = NULL;
	(void)kh_up_slot_place(up);
	if (--slot->n_ups > 0)
		return;
	kh_list_remove(&slot->link);
	kh_secret_unref(slot->key.identity);
	free(slot);
}

/* ---- the lists of a slot ---- */

static enum kh_up_list list_of_shared(const struct kh_up *up)
{
	const struct kh_h2 *h2 = up->mux->h2;
	bool has_room = up->n_waiting < KH_UP_MOST_WAITING;

	if (up->mux->lost)
		return KH_UP_LIST_NONE;
	if (!kh_h2_has_settings(h2))
		return has_room ? KH_UP_LIST_BEGUN : KH_UP_LIST_NONE;
	has_room = has_room && kh_h2_capacity(h2) > 0;
	if (kh_h2_has_extended_connect(h2))
		return has_room ? KH_UP_LIST_OPEN_EXTENDED : KH_UP_LIST_FULL_EXTENDED;
	return has_room ? KH_UP_LIST_OPEN : KH_UP_LIST_FULL;
}

static enum kh_up_list list_of(const struct kh_up *up)
{
	switch (up->state) {
	case KH_UP_CONNECTING:
	case KH_UP_HANDSHAKE:
		if (up->key.only_h1 || up->n_waiting >= KH_UP_MOST_WAITING)
			break;
		return up->looks_up ? KH_UP_LIST_LOOKUP : KH_UP_LIST_MADE;
	case KH_UP_SHARED:
		return list_of_shared(up);
	case KH_UP_IDLE:
		return KH_UP_LIST_IDLE;
	case KH_UP_NEW:
	case KH_UP_BUSY:
	case KH_UP_DEAD:
		break;
	}
	return KH_UP_LIST_NONE;
}

enum kh_up_list kh_up_slot_place(struct kh_up *up)
{
	enum kh_up_list list = up->slot ? list_of(up) : KH_UP_LIST_NONE;

	if (list == up->list)
		return list;
	kh_list_remove(&up->slot_link);
	up->list = list;
	if (list == KH_UP_LIST_NONE)
		return list;
	/* Of those that are made the first is the nearest to its end. Of the others the one that
	 * was used last is the likeliest to live. */
	struct kh_node *all = &up->slot->lists[list];
	kh_list_append(list < KH_UP_LIST_OPEN ? all : all->next, &up->slot_link);
	return list;
}

struct kh_up *kh_up_slot_first(const struct kh_up_slot *slot, enum kh_up_list list)
{
	const struct kh_node *all = &slot->lists[list];

	return kh_list_is_empty(all) ? NULL : kh_container_of(all->next, struct kh_up, slot_link);
}
