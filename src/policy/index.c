/*
 * index.c - which rules of a list can concern a host
 *
 * The rules of a list that share a host pattern are a run of matchers in one array, in the order of
 * the list; a hash table over (list, pattern) says where the run is. A host has a handful of
 * patterns that match it (hostset.c), so a list has a handful of runs for it, and they are merged
 * by the rules' places: what comes out is the list without the rules of other hosts. Nothing in it
 * depends on how many rules, lists or tenants there are.
 */
#include "policy_internal.h"

#include <stdlib.h>
#include <string.h>

struct run {
	uint32_t list;
	uint32_t pattern;
	uint32_t first; /* in `matchers` */
	uint32_t count; /* 0: a free slot */
};

struct kh_index {
	struct kh_hostset *hosts;
	struct run *runs;
	size_t n_runs; /* a power of two, never more than half full */
	size_t used;
	struct kh_matcher *matchers;
	size_t n_matchers;
};

enum { FIRST_RUNS = 64 };

static size_t slot_of(uint32_t list, uint32_t pattern)
{
	return (size_t)kh_hostset_mix((uint64_t)list << 32 | pattern, 0x2545f4914f6cdd1du);
}

/* The run of that key, or the free slot where it would be. */
static struct run *find_run(struct run *runs, size_t n_runs, uint32_t list, uint32_t pattern)
{
	for (size_t at = slot_of(list, pattern);; at++) {
		struct run *run = &runs[at & (n_runs - 1)];
		if (run->count == 0 || (run->list == list && run->pattern == pattern))
			return run;
	}
}

static bool grow(struct kh_index *index)
{
	size_t n = index->n_runs ? index->n_runs * 2 : FIRST_RUNS;
	struct run *runs = calloc(n, sizeof(*runs));
	if (!runs)
		return false;
	for (size_t i = 0; i < index->n_runs; i++)
		if (index->runs[i].count > 0)
			*find_run(runs, n, index->runs[i].list, index->runs[i].pattern) =
				index->runs[i];
	free(index->runs);
	index->runs = runs;
	index->n_runs = n;
	return true;
}

static bool count_rule(struct kh_index *index, uint32_t list, uint32_t pattern)
{
	if (2 * (index->used + 1) > index->n_runs && !grow(index))
		return false;
	struct run *run = find_run(index->runs, index->n_runs, list, pattern);
	if (run->count == 0) {
		index->used++;
		run->list = list;
		run->pattern = pattern;
		run->first = UINT32_MAX;
	}
	run->count++;
	return true;
}

uint32_t kh_method_bit(struct kh_slice method)
{
	static const struct kh_slice known[] = {
		KH_SLICE_INIT("GET"),	   KH_SLICE_INIT("POST"),     KH_SLICE_INIT("HEAD"),
		KH_SLICE_INIT("PUT"),	   KH_SLICE_INIT("DELETE"),   KH_SLICE_INIT("PATCH"),
		KH_SLICE_INIT("OPTIONS"),  KH_SLICE_INIT("PROPFIND"), KH_SLICE_INIT("REPORT"),
		KH_SLICE_INIT("MKCOL"),	   KH_SLICE_INIT("MOVE"),     KH_SLICE_INIT("COPY"),
		KH_SLICE_INIT("LOCK"),	   KH_SLICE_INIT("UNLOCK"),   KH_SLICE_INIT("TRACE"),
		KH_SLICE_INIT("PROPPATCH")
	};
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (kh_slice_eq(method, known[i]))
			return UINT32_C(1) << i;
	return KH_METHOD_OTHER;
}

static void fill(struct kh_matcher *matcher, const struct kh_rule *rule, size_t place)
{
	*matcher = (struct kh_matcher){
		.index = (uint32_t)place,
		.path = rule->path,
		.path_len = (uint16_t)(rule->path ? strlen(rule->path) : 0),
		.port = rule->port,
		.scheme = (uint8_t)rule->scheme,
		.allow = rule->allow,
	};
	for (size_t i = 0; i < rule->n_methods; i++)
		matcher->methods |= kh_method_bit(kh_slice_str(rule->methods[i]));
}

/* Runs get their places in the order in which they are first met, so that a list's lie together;
 * a run's count is counted down to nothing and up again while it is filled. */
static void place_rules(struct kh_index *index, const struct kh_rules *const *lists,
			const uint32_t *patterns, size_t n_lists)
{
	uint32_t next = 0;
	size_t nth = 0;
	for (size_t l = 0; l < n_lists; l++)
		for (size_t r = 0; r < lists[l]->count; r++, nth++) {
			struct run *run =
				find_run(index->runs, index->n_runs, (uint32_t)l, patterns[nth]);
			if (run->first == UINT32_MAX) {
				run->first = next;
				next += run->count;
			}
			fill(&index->matchers[run->first++], &lists[l]->list[r], r);
		}
	for (size_t i = 0; i < index->n_runs; i++)
		if (index->runs[i].count > 0)
			index->runs[i].first -= index->runs[i].count;
}

static bool build(struct kh_index *index, const struct kh_rules *const *lists, size_t n_lists,
		  uint32_t *patterns, struct kh_err *err)
{
	size_t nth = 0;
	for (size_t l = 0; l < n_lists; l++)
		for (size_t r = 0; r < lists[l]->count; r++, nth++) {
			const struct kh_rule *rule = &lists[l]->list[r];
			if (rule->path && strlen(rule->path) > UINT16_MAX)
				return kh_err_set(err, KH_ERR_CONFIG, "policy: a path too long");
			patterns[nth] = kh_hostset_add(index->hosts, &rule->host);
			if (patterns[nth] == KH_HOSTSET_NONE ||
			    !count_rule(index, (uint32_t)l, patterns[nth]))
				return kh_err_set(err, KH_ERR_NO_MEMORY, "policy: out of memory");
		}
	place_rules(index, lists, patterns, n_lists);
	return true;
}

struct kh_index *kh_index_new(const struct kh_rules *const *lists, size_t n_lists,
			      struct kh_err *err)
{
	struct kh_index *index = calloc(1, sizeof(*index));
	size_t n = 0;
	for (size_t i = 0; i < n_lists; i++)
		n += lists[i]->count;
	uint32_t *patterns = NULL;
	bool ok = index && n < UINT32_MAX / 2 && grow(index) && (index->hosts = kh_hostset_new()) &&
		  (index->matchers = calloc(n + 1, sizeof(*index->matchers))) &&
		  (patterns = calloc(n + 1, sizeof(*patterns)));
	if (ok) {
		index->n_matchers = n;
		ok = build(index, lists, n_lists, patterns, err);
	} else {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "policy: out of memory");
	}
	free(patterns);
	if (ok)
		return index;
	kh_index_free(index);
	return NULL;
}

void kh_index_free(struct kh_index *index)
{
	if (!index)
		return;
	kh_hostset_free(index->hosts);
	free(index->runs);
	free(index->matchers);
	free(index);
}

size_t kh_index_bytes(const struct kh_index *index)
{
	return sizeof(*index) + index->n_runs * sizeof(*index->runs) +
	       index->n_matchers * sizeof(*index->matchers) + kh_hostset_bytes(index->hosts);
}

void kh_index_find(const struct kh_index *index, const struct kh_host *host,
		   struct kh_index_host *out)
{
	out->n = kh_hostset_find(index->hosts, host, out->ids);
}

void kh_walk_begin(struct kh_walk *walk, const struct kh_index *index, size_t list,
		   const struct kh_index_host *host)
{
	walk->n = 0;
	for (size_t i = 0; i < host->n; i++) {
		const struct run *run =
			find_run(index->runs, index->n_runs, (uint32_t)list, host->ids[i]);
		if (run->count == 0)
			continue;
		walk->runs[walk->n].next = &index->matchers[run->first];
		walk->runs[walk->n++].end = &index->matchers[run->first + run->count];
	}
}

const struct kh_matcher *kh_walk_next(struct kh_walk *walk)
{
	size_t best = walk->n;
	for (size_t i = 0; i < walk->n; i++) {
		if (walk->runs[i].next != walk->runs[i].end &&
		    (best == walk->n || walk->runs[i].next->index < walk->runs[best].next->index))
			best = i;
	}
	return best < walk->n ? walk->runs[best].next++ : NULL;
}
