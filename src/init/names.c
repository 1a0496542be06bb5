/*
 * names.c - the table of names and addresses: two hashes and an LRU list over one array
 *
 * Places are numbered from 1, so that a zeroed array is empty. The list goes from the most recently
 * used place (ends[NEWEST]) to the least recently used one. Unused places are taken before any is
 * reused.
 */
#include "names.h"

#include <string.h>

#include <keyhole/base/limits.h>

enum { BUCKETS = 2 * KH_LIMIT_INIT_NAMES };
enum { NEWEST, OLDEST };
enum { BY_NAME, BY_ADDRESS };

static struct place {
	uint32_t address;
	uint32_t connections;
	uint16_t next[2]; /* in the bucket, BY_NAME and BY_ADDRESS */
	uint16_t newer, older;
	char name[INIT_DNS_NAME_BYTES];
} places[KH_LIMIT_INIT_NAMES + 1];
_Static_assert(KH_LIMIT_INIT_NAMES < UINT16_MAX, "places are numbered in 16 bits");
_Static_assert(KH_LIMIT_INIT_NAMES > KH_LIMIT_INIT_CONNECTIONS,
	       "there is always a place without a connection");

static uint16_t buckets[2][BUCKETS];
static uint16_t ends[2];
static unsigned n_used;
static uint32_t range_first = INIT_NAMES_ADDRESS;
static uint32_t range_last = INIT_NAMES_ADDRESS + (UINT32_MAX >> INIT_NAMES_PREFIX_BITS);
static uint32_t last_address = INIT_NAMES_ADDRESS;

void init_names_set_range(uint32_t address, unsigned prefix_bits)
{
	range_first = last_address = address;
	range_last = address + (UINT32_MAX >> prefix_bits);
}

bool init_names_in_range(uint32_t address)
{
	return address >= range_first && address <= range_last;
}

static uint16_t *bucket_of_name(const char *name)
{
	uint32_t hash = 2166136261u;
	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619u;
	return &buckets[BY_NAME][hash % BUCKETS];
}

static uint16_t *bucket_of_address(uint32_t address)
{
	return &buckets[BY_ADDRESS][address % BUCKETS];
}

static void unlink_from(uint16_t *bucket, int which, uint16_t place)
{
	while (*bucket != place)
		bucket = &places[*bucket].next[which];
	*bucket = places[place].next[which];
}

static void link_into(uint16_t *bucket, int which, uint16_t place)
{
	places[place].next[which] = *bucket;
	*bucket = place;
}

static void leave_list(uint16_t at)
{
	const struct place *p = &places[at];
	*(p->newer ? &places[p->newer].older : &ends[NEWEST]) = p->older;
	*(p->older ? &places[p->older].newer : &ends[OLDEST]) = p->newer;
}

static void join_list(uint16_t at)
{
	struct place *p = &places[at];
	p->newer = 0;
	p->older = ends[NEWEST];
	*(p->older ? &places[p->older].newer : &ends[OLDEST]) = at;
	ends[NEWEST] = at;
}

static void used(uint16_t at)
{
	if (ends[NEWEST] == at)
		return;
	leave_list(at);
	join_list(at);
}

unsigned init_names_find(uint32_t address)
{
	uint16_t at = *bucket_of_address(address);
	while (at && places[at].address != address)
		at = places[at].next[BY_ADDRESS];
	return at;
}

/* An empty place, or that of the name used longest ago without a connection. */
static uint16_t take_place(void)
{
	if (n_used < KH_LIMIT_INIT_NAMES)
		return (uint16_t)++n_used;
	uint16_t at = ends[OLDEST];
	while (at && places[at].connections > 0)
		at = places[at].newer;
	if (!at)
		return 0;
	unlink_from(bucket_of_name(places[at].name), BY_NAME, at);
	unlink_from(bucket_of_address(places[at].address), BY_ADDRESS, at);
	leave_list(at);
	return at;
}

/* Neither the first of the block nor the last: some take these for the network and a broadcast. */
static uint32_t next_address(void)
{
	do {
		if (++last_address >= range_last)
			last_address = range_first + 1;
	} while (init_names_find(last_address));
	return last_address;
}

uint32_t init_names_address(const char *name)
{
	uint16_t *bucket = bucket_of_name(name), at = *bucket;
	while (at && strcmp(places[at].name, name) != 0)
		at = places[at].next[BY_NAME];
	if (at) {
		used(at);
		return places[at].address;
	}
	size_t len = strnlen(name, INIT_DNS_NAME_BYTES);
	if (len == INIT_DNS_NAME_BYTES || !(at = take_place()))
		return 0;
	struct place *p = &places[at];
	memcpy(p->name, name, len + 1);
	p->connections = 0;
	p->address = next_address();
	link_into(bucket, BY_NAME, at);
	link_into(bucket_of_address(p->address), BY_ADDRESS, at);
	join_list(at);
	return p->address;
}

const char *init_names_text(unsigned place)
{
	return places[place].name;
}

void init_names_hold(unsigned place)
{
	places[place].connections++;
	used((uint16_t)place);
}

void init_names_release(unsigned place)
{
	places[place].connections--;
	used((uint16_t)place);
}
