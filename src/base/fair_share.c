/* fair_share.c - which entry a full table evicts, when sandboxes share the table */
#include <keyhole/base/fair_share.h>

#include <stdlib.h>

/* The tenants' together, in them the sandboxes'; of one the longest unused first, those that stay
 * last. */
static int compare(const void *a, const void *b)
{
	const struct kh_fair_share_place *x = a, *y = b;
	if (x->tenant != y->tenant)
		return x->tenant < y->tenant ? -1 : 1;
	if (x->whose != y->whose)
		return x->whose < y->whose ? -1 : 1;
	if (x->fixed != y->fixed)
		return x->fixed ? 1 : -1;
	return x->used < y->used ? -1 : x->used > y->used;
}

/* Of what somebody has: what might go, and how much it is. */
struct choice {
	struct kh_fair_share_place *place; /* NULL: nothing might */
	size_t has;
	bool mine; /* the newcomer's own, of which it has `own` */
};

/* The next one instead of the best one? One's own counts as the one more that it would have. */
static void weigh(struct choice *best, struct choice next, size_t own)
{
	next.has += next.mine;
	if (!next.place || next.has <= own || next.has < best->has)
		return;
	/* Of several with the most one's own; else the one that is the longest unused. */
	if (best->place && next.has == best->has && !next.mine &&
	    (best->mine || next.place->used >= best->place->used))
		return;
	*best = next;
}

/* All of one tenant's. */
static struct choice choose_sandbox(struct kh_fair_share_place *places, size_t count, bool mine,
				    uint64_t newcomer)
{
	struct choice best = { 0 };
	size_t own = 0;
	for (size_t i = 0; i < count; i++)
		own += mine && places[i].whose == newcomer;
	for (size_t first = 0, end; first < count; first = end) {
		for (end = first; end < count && places[end].whose == places[first].whose;)
			end++;
		const struct choice next = { places[first].fixed ? NULL : &places[first],
					     end - first, mine && places[first].whose == newcomer };
		weigh(&best, next, own);
	}
	return (struct choice){ best.place, count, mine };
}

static struct kh_fair_share_place *find_nobodys(struct kh_fair_share_place *places, size_t count)
{
	struct kh_fair_share_place *oldest = NULL;
	for (size_t i = 0; i < count; i++)
		if (places[i].whose == KH_FAIR_SHARE_NOBODY && !places[i].fixed &&
		    (!oldest || places[i].used < oldest->used))
			oldest = &places[i];
	return oldest;
}

struct kh_fair_share_place *kh_fair_share_pick(struct kh_fair_share_place *places, size_t count,
					       uint32_t tenant, uint64_t newcomer)
{
	struct kh_fair_share_place *nobodys = find_nobodys(places, count);
	struct choice best = { 0 };
	size_t own = 0;
	if (nobodys)
		return nobodys;
	qsort(places, count, sizeof(*places), compare);
	for (size_t i = 0; i < count; i++)
		own += places[i].tenant == tenant;
	for (size_t first = 0, end; first < count; first = end) {
		for (end = first; end < count && places[end].tenant == places[first].tenant;)
			end++;
		weigh(&best,
		      choose_sandbox(places + first, end - first, places[first].tenant == tenant,
				     newcomer),
		      own);
	}
	return best.place;
}
