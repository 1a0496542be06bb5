/* nearest.c - "did you mean": the known word that is closest to what was written */
#include <keyhole/base/nearest.h>

#include <stdio.h>

enum { WORD_BYTES = 48 };

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Damerau's distance: how often to insert, delete, replace, or swap two neighbours, to make one of
 * two short words of the other; without case. */
static unsigned edits(struct kh_slice a, struct kh_slice b)
{
	unsigned rows[3][WORD_BYTES + 1];
	for (unsigned j = 0; j <= b.len; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= a.len; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
		row[0] = i;
		for (unsigned j = 1; j <= b.len; j++) {
			bool same = kh_lower(a.ptr[i - 1]) == kh_lower(b.ptr[j - 1]);
			unsigned cost = above[j - 1] + (same ? 0 : 1);
			cost = least(cost, least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && kh_lower(a.ptr[i - 1]) == kh_lower(b.ptr[j - 2]) &&
			    kh_lower(a.ptr[i - 2]) == kh_lower(b.ptr[j - 1]))
				cost = least(cost, two_above[j - 2] + 1);
			row[j] = cost;
		}
	}
	return rows[a.len % 3][b.len];
}

void kh_nearest_init(struct kh_nearest *nearest, struct kh_slice typed)
{
	*nearest = (struct kh_nearest){ .typed = typed };
	/* A third of the word may be wrong, and one letter of a short one. */
	nearest->distance = (unsigned)(typed.len < 6 ? 2 : least((unsigned)typed.len / 3, 5) + 1);
}

/* The first letter is seldom the wrong one. */
static bool begins_alike(const struct kh_nearest *nearest, const char *known)
{
	return kh_lower(nearest->typed.ptr[0]) == kh_lower(known[0]);
}

void kh_nearest_offer(struct kh_nearest *nearest, const char *known)
{
	struct kh_slice word = kh_slice_str(known);
	if (nearest->typed.len == 0 || nearest->typed.len > WORD_BYTES || word.len > WORD_BYTES)
		return;
	unsigned distance = edits(nearest->typed, word);
	/* A word that was not written to its end. */
	if (nearest->typed.len >= 3 && distance > 1 &&
	    kh_slice_eq_nocase(kh_slice_sub(word, 0, nearest->typed.len), nearest->typed))
		distance = 1;
	bool is_better = distance < nearest->distance ||
			 (distance == nearest->distance && nearest->best &&
			  begins_alike(nearest, known) && !begins_alike(nearest, nearest->best));
	/* A word of one letter is never meant by another one. */
	if (is_better && distance < word.len) {
		nearest->distance = distance;
		nearest->best = known;
	}
}

void kh_nearest_offer_for(struct kh_nearest *nearest, const char *other, const char *known)
{
	if (!kh_slice_eq_nocase(nearest->typed, kh_slice_str(other)))
		return;
	nearest->distance = 0;
	nearest->best = known;
}

const char *kh_nearest_hint(const struct kh_nearest *nearest, char out[KH_NEAREST_BYTES])
{
	out[0] = '\0';
	if (nearest->best)
		(void)snprintf(out, KH_NEAREST_BYTES, " (did you mean \"%s\"?)", nearest->best);
	return out;
}
