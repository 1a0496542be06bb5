/* hostkey.c - hash keys by which an index finds the patterns that match a host */
#include "hostkey.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

/* Multiply and fold. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide product = (wide)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_bytes(uint64_t from, uint64_t seed, const char *bytes, size_t len)
{
	uint64_t h = mix(from ^ len, seed);
	for (; len >= 8; bytes += 8, len -= 8) {
		uint64_t word;
		memcpy(&word, bytes, 8);
		h = mix(h ^ word, seed);
	}
	uint64_t word = 0;
	for (size_t i = 0; i < len; i++)
		word = word << 8 | (unsigned char)bytes[i];
	return mix(h ^ word, seed);
}

static uint32_t key_of(uint64_t h)
{
	uint32_t key = (uint32_t)(h ^ h >> 32);
	return key ? key : 1;
}

static uint64_t process_seed;
static bool have_seed;

static void draw_seed(void)
{
	have_seed = getrandom(&process_seed, sizeof(process_seed), 0) == sizeof(process_seed);
}

bool kh_hostkey_seed(uint64_t *seed)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void)pthread_once(&once, draw_seed);
	*seed = process_seed;
	return have_seed;
}

void kh_hostkey_find(struct kh_host_keys *out, const struct kh_host *host, uint64_t seed)
{
	out->host = host;
	out->exact = 0;
	out->n = 0;
	if (host->kind != KH_HOST_NAME)
		return;
	uint64_t h = seed;
	for (size_t end = host->len; out->n < KH_HOST_LABELS;) {
		size_t begin = end;
		while (begin > 0 && host->text[begin - 1] != '.')
			begin--;
		h = hash_bytes(h, seed, host->text + begin, end - begin);
		out->nodes[out->n].key = key_of(h);
		out->nodes[out->n++].begin = (uint32_t)begin;
		if (begin == 0)
			break;
		end = begin - 1;
	}
	out->exact = key_of(mix(h, ~seed));
}

uint32_t kh_hostkey_range(const struct kh_cidr *range, uint64_t seed)
{
	uint64_t kind = (uint64_t)range->family << 8 | range->prefix_bits;
	return key_of(
		hash_bytes(~seed ^ kind, seed, (const char *)range->addr, sizeof(range->addr)));
}

uint32_t kh_hostkey_text(struct kh_slice text, uint64_t seed)
{
	return key_of(hash_bytes(seed, seed, text.ptr, text.len));
}
