/*
 * hostset.c - the host patterns of a policy, shared by all of its lists
 *
 * Names stand in a trie of labels, read from the right: "*.example.com" is the node example below
 * the node com. A node's children are found in one hash table over (parent, label), so that a step
 * costs the same however many children there are, and a request's name is walked once for all
 * lists. Ranges stand in a second table over (family, prefix length, address); of each family it is
 * kept which prefix lengths there are, and an address is looked up once for each.
 */
#include "hostset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { FIRST_SLOTS = 64, INLINE_BYTES = 18 };

enum { IS_EXACT = 1, IS_SUFFIX = 2 };

/* Two patterns end at a node: the name itself, and all names below it. */
struct node {
	uint32_t parent;
	uint8_t flags;
	uint8_t len;
	/* A label of up to 18 bytes, else where it stands in `labels`. */
	union {
		char text[INLINE_BYTES];
		uint32_t at;
	};
};

/* number 0: free. */
struct slot {
	uint32_t hash;
	uint32_t number;
};

struct table {
	struct slot *slots;
	size_t n_slots; /* a power of two, never more than half full */
	size_t used;
};

struct kh_hostset {
	uint64_t seed;
	struct table names;
	struct node *nodes; /* 0 is the root */
	size_t n_nodes, room_nodes;
	char *labels;
	size_t n_labels, room_labels;
	struct table range_table;
	struct kh_cidr *ranges; /* 0 is none */
	size_t n_ranges, room_ranges;
	uint64_t prefixes[2][3]; /* which prefix lengths occur: of version 4, of version 6 */
};

/* A pattern's number: node * 4 and the kind; the root has none. */
enum { OF_NAME = 1, OF_SUFFIX = 2, OF_RANGE = 3 };
#define NUMBER(index, kind) ((uint32_t)(index) << 2 | (uint32_t)(kind))
enum { MOST_NUMBERED = 1 << 30 };

/* Room for one more element. */
static bool make_room(void *list, size_t n, size_t *room, size_t size)
{
	void **slot = list;
	if (n < *room)
		return true;
	size_t more = *room ? *room * 2 : 64;
	void *grown = reallocarray(*slot, more, size);
	if (!grown)
		return false;
	*slot = grown;
	*room = more;
	return true;
}

static bool table_grow(struct table *table)
{
	size_t n = table->n_slots ? table->n_slots * 2 : FIRST_SLOTS;
	struct slot *slots = calloc(n, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < table->n_slots; i++) {
		if (table->slots[i].number == 0)
			continue;
		size_t at = table->slots[i].hash & (n - 1);
		while (slots[at].number != 0)
			at = (at + 1) & (n - 1);
		slots[at] = table->slots[i];
	}
	free(table->slots);
	table->slots = slots;
	table->n_slots = n;
	return true;
}

/* The caller has looked: it is not there. */
static bool table_put(struct table *table, uint32_t hash, uint32_t number)
{
	if (2 * (table->used + 1) > table->n_slots && !table_grow(table))
		return false;
	size_t at = hash & (table->n_slots - 1);
	while (table->slots[at].number != 0)
		at = (at + 1) & (table->n_slots - 1);
	table->slots[at] = (struct slot){ hash, number };
	table->used++;
	return true;
}

static uint32_t hash_bytes(uint64_t seed, uint64_t first, const void *bytes, size_t len)
{
	uint64_t h = kh_hostset_mix(seed ^ len, first ^ seed);
	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = 0;
		memcpy(&word, (const char *)bytes + at, len - at < 8 ? len - at : 8);
		h = kh_hostset_mix(h ^ word, seed);
	}
	return (uint32_t)(h ^ h >> 32);
}

struct kh_hostset *kh_hostset_new(void)
{
	struct kh_hostset *hosts = calloc(1, sizeof(*hosts));
	if (!hosts)
		return NULL;
	hosts->n_nodes = hosts->n_ranges = 1;
	if (getrandom(&hosts->seed, sizeof(hosts->seed), 0) != sizeof(hosts->seed) ||
	    !make_room(&hosts->nodes, 1, &hosts->room_nodes, sizeof(*hosts->nodes)) ||
	    !make_room(&hosts->ranges, 1, &hosts->room_ranges, sizeof(*hosts->ranges)) ||
	    !table_grow(&hosts->names) || !table_grow(&hosts->range_table)) {
		kh_hostset_free(hosts);
		return NULL;
	}
	memset(hosts->nodes, 0, sizeof(*hosts->nodes));
	memset(hosts->ranges, 0, sizeof(*hosts->ranges));
	return hosts;
}

void kh_hostset_free(struct kh_hostset *hosts)
{
	if (!hosts)
		return;
	free(hosts->names.slots);
	free(hosts->range_table.slots);
	free(hosts->nodes);
	free(hosts->labels);
	free(hosts->ranges);
	free(hosts);
}

static struct kh_slice label_of(const struct kh_hostset *hosts, const struct node *node)
{
	const char *text = node->len <= INLINE_BYTES ? node->text : hosts->labels + node->at;
	return kh_slice_of(text, node->len);
}

/* Return: the child, 0 when there is none. */
static uint32_t find_child(const struct kh_hostset *hosts, uint32_t parent, struct kh_slice label,
			   uint32_t hash)
{
	const struct table *table = &hosts->names;
	for (size_t at = hash;; at++) {
		const struct slot *slot = &table->slots[at & (table->n_slots - 1)];
		if (slot->number == 0)
			return 0;
		if (slot->hash != hash)
			continue;
		const struct node *node = &hosts->nodes[slot->number];
		if (node->parent == parent && kh_slice_eq(label_of(hosts, node), label))
			return slot->number;
	}
}

static bool set_label(struct kh_hostset *hosts, struct node *node, struct kh_slice label)
{
	node->len = (uint8_t)label.len;
	if (label.len <= INLINE_BYTES) {
		memcpy(node->text, label.ptr, label.len);
		return true;
	}
	while (hosts->room_labels - hosts->n_labels < label.len)
		if (!make_room(&hosts->labels, hosts->room_labels, &hosts->room_labels, 1))
			return false;
	node->at = (uint32_t)hosts->n_labels;
	memcpy(hosts->labels + hosts->n_labels, label.ptr, label.len);
	hosts->n_labels += label.len;
	return true;
}

static uint32_t add_child(struct kh_hostset *hosts, uint32_t parent, struct kh_slice label)
{
	uint32_t hash = hash_bytes(hosts->seed, parent, label.ptr, label.len);
	uint32_t found = find_child(hosts, parent, label, hash);
	if (found)
		return found;
	if (hosts->n_nodes >= MOST_NUMBERED || hosts->n_labels >= UINT32_MAX - 64 ||
	    !make_room(&hosts->nodes, hosts->n_nodes, &hosts->room_nodes, sizeof(*hosts->nodes)))
		return 0;
	struct node node = { .parent = parent };
	uint32_t number = (uint32_t)hosts->n_nodes;
	if (!set_label(hosts, &node, label) || !table_put(&hosts->names, hash, number))
		return 0;
	hosts->nodes[hosts->n_nodes++] = node;
	return number;
}

/* The label that ends at `end`, and where it begins. */
static struct kh_slice label_before(struct kh_slice name, size_t end, size_t *begin)
{
	size_t from = end;
	while (from > 0 && name.ptr[from - 1] != '.')
		from--;
	*begin = from;
	return kh_slice_sub(name, from, end);
}

static uint32_t add_name(struct kh_hostset *hosts, struct kh_slice name, bool suffix)
{
	uint32_t at = 0;
	for (size_t end = name.len;;) {
		size_t begin;
		struct kh_slice label = label_before(name, end, &begin);
		at = add_child(hosts, at, label);
		if (at == 0)
			return KH_HOSTSET_NONE;
		if (begin == 0)
			break;
		end = begin - 1;
	}
	hosts->nodes[at].flags |= suffix ? IS_SUFFIX : IS_EXACT;
	return NUMBER(at, suffix ? OF_SUFFIX : OF_NAME);
}

static uint32_t hash_range(const struct kh_hostset *hosts, const struct kh_cidr *range)
{
	return hash_bytes(hosts->seed, (uint64_t)range->family << 8 | range->prefix_bits,
			  range->addr, sizeof(range->addr));
}

static uint32_t find_range(const struct kh_hostset *hosts, const struct kh_cidr *range,
			   uint32_t hash)
{
	const struct table *table = &hosts->range_table;
	for (size_t at = hash;; at++) {
		const struct slot *slot = &table->slots[at & (table->n_slots - 1)];
		if (slot->number == 0)
			return 0;
		const struct kh_cidr *there = &hosts->ranges[slot->number];
		if (slot->hash == hash && there->family == range->family &&
		    there->prefix_bits == range->prefix_bits &&
		    memcmp(there->addr, range->addr, sizeof(there->addr)) == 0)
			return slot->number;
	}
}

static uint32_t add_range(struct kh_hostset *hosts, const struct kh_cidr *range)
{
	uint32_t hash = hash_range(hosts, range);
	uint32_t found = find_range(hosts, range, hash);
	if (found)
		return NUMBER(found, OF_RANGE);
	if (hosts->n_ranges >= MOST_NUMBERED ||
	    !make_room(&hosts->ranges, hosts->n_ranges, &hosts->room_ranges,
		       sizeof(*hosts->ranges)) ||
	    !table_put(&hosts->range_table, hash, (uint32_t)hosts->n_ranges))
		return KH_HOSTSET_NONE;
	hosts->prefixes[range->family == 6][range->prefix_bits / 64] |= UINT64_C(1)
									<< range->prefix_bits % 64;
	hosts->ranges[hosts->n_ranges] = *range;
	return NUMBER(hosts->n_ranges++, OF_RANGE);
}

uint32_t kh_hostset_add(struct kh_hostset *hosts, const struct kh_rule_host *pattern)
{
	switch (pattern->match) {
	case KH_MATCH_ANY:
		return KH_HOSTSET_ANY;
	case KH_MATCH_EXACT:
	case KH_MATCH_SUFFIX:
		return add_name(hosts, kh_slice_str(pattern->name),
				pattern->match == KH_MATCH_SUFFIX);
	case KH_MATCH_RANGE:
		return add_range(hosts, &pattern->range);
	case KH_MATCH_NOTHING:
		break;
	}
	return KH_HOSTSET_NONE;
}

static size_t find_name(const struct kh_hostset *hosts, struct kh_slice name, uint32_t *out)
{
	size_t n = 0;
	uint32_t at = 0;
	for (size_t end = name.len;;) {
		size_t begin;
		struct kh_slice label = label_before(name, end, &begin);
		at = find_child(hosts, at, label,
				hash_bytes(hosts->seed, at, label.ptr, label.len));
		if (at == 0)
			return n;
		uint8_t flags = hosts->nodes[at].flags;
		if (begin == 0) {
			if (flags & IS_EXACT)
				out[n++] = NUMBER(at, OF_NAME);
			return n;
		}
		if (flags & IS_SUFFIX)
			out[n++] = NUMBER(at, OF_SUFFIX);
		end = begin - 1;
	}
}

static size_t find_address(const struct kh_hostset *hosts, const struct kh_host *host,
			   uint32_t *out)
{
	bool six = host->kind == KH_HOST_IPV6;
	size_t n = 0;
	for (unsigned bits = 0; bits <= (six ? 128u : 32u); bits++) {
		if (!(hosts->prefixes[six][bits / 64] >> bits % 64 & 1))
			continue;
		struct kh_cidr range = { .family = six ? 6 : 4, .prefix_bits = (uint8_t)bits };
		memcpy(range.addr, host->addr, (bits + 7) / 8);
		if (bits % 8)
			range.addr[bits / 8] &= (uint8_t)(0xff << (8 - bits % 8));
		uint32_t found = find_range(hosts, &range, hash_range(hosts, &range));
		if (found)
			out[n++] = NUMBER(found, OF_RANGE);
	}
	return n;
}

size_t kh_hostset_find(const struct kh_hostset *hosts, const struct kh_host *host,
		       uint32_t out[KH_HOSTSET_MOST])
{
	if (host->kind == KH_HOST_NONE)
		return 0;
	out[0] = KH_HOSTSET_ANY;
	return 1 + (host->kind == KH_HOST_NAME ? find_name(hosts, kh_host_view(host), out + 1)
					       : find_address(hosts, host, out + 1));
}

size_t kh_hostset_bytes(const struct kh_hostset *hosts)
{
	return sizeof(*hosts) + hosts->room_nodes * sizeof(*hosts->nodes) + hosts->room_labels +
	       hosts->room_ranges * sizeof(*hosts->ranges) +
	       (hosts->names.n_slots + hosts->range_table.n_slots) * sizeof(struct slot);
}
