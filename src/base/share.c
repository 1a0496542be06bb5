/* share.c - who gives up a place, where sandboxes fill a table that has an end */
#include <keyhole/share.h>

#include <stdlib.h>

/* Whoever's they are together, the longest unused first, those that stay last. */
static int compare(const void *a, const void *b)
{
	const struct kh_share_place *x = a, *y = b;
	if (x->whose != y->whose)
		return x->whose < y->whose ? -1 : 1;
	if (x->fixed != y->fixed)
		return x->fixed ? 1 : -1;
	return x->used < y->used ? -1 : x->used > y->used;
}

static size_t end_of_group(const struct kh_share_place *places, size_t count, size_t first)
{
	size_t end = first;
	while (end < count && places[end].whose == places[first].whose)
		end++;
	return end;
}

struct kh_share_place *kh_share_pick(struct kh_share_place *places, size_t count, uint64_t newcomer)
{
	struct kh_share_place *best = NULL;
	size_t own = 0, most = 0;
	qsort(places, count, sizeof(*places), compare);
	for (size_t i = 0; i < count; i++)
		own += places[i].whose == newcomer;
	for (size_t first = 0, end; first < count; first = end) {
		end = end_of_group(places, count, first);
		size_t has = places[first].whose == KH_SHARE_NOBODY ? SIZE_MAX : end - first;
		bool mine = places[first].whose == newcomer;
		/* Its own counts as the one more that it would have. */
		has += mine && has != SIZE_MAX;
		if (places[first].fixed || has <= own || has < most)
			continue;
		/* Of several with the most its own; else the one that is the longest unused. */
		if (best && has == most && !mine &&
		    (best->whose == newcomer || places[first].used >= best->used))
			continue;
		most = has;
		best = &places[first];
	}
	return best;
}
