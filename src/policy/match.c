/* match.c - does a rule's path pattern match a path?
 *
 * '*' matches any bytes within a segment, '**' any bytes, every other byte itself. The search
 * remembers the last '*' and the last '**' and backtracks to them, the inner one first. An earlier
 * star never needs to be tried again, since the text between two stars was found at its first
 * position. When a '*' has used up its segment, no other start of the '**' in the same segment can
 * succeed, so the search goes on in the next segment. memchr finds the byte that follows a '**',
 * and a pattern whose longest literal text is not in the path is not searched for at all. Each step
 * is counted, and KH_LIMIT_DECISION_STEPS bounds the steps of a decision.
 *
 * forms.c says which forms of a path a deny rule is compared with. */
#include "policy_internal.h"

#include <string.h>

static size_t stars_at(struct kh_slice pattern, size_t at)
{
	size_t n = 0;
	while (n < 2 && at + n < pattern.len && pattern.ptr[at + n] == '*')
		n++;
	return n;
}

/* Where to go back to: the pattern behind the star, and the path's byte at which to try next. */
struct retry {
	bool set;
	size_t pattern;
	size_t path;
};

/* The '*' takes one more byte. Return: false when it has come to the segment's end. */
static bool grow_star(struct retry *star, struct kh_slice path)
{
	if (!star->set || star->path >= path.len || path.ptr[star->path] == '/')
		return false;
	star->path++;
	return true;
}

/* The '**' takes one byte more, or all up to the next segment where a '*' behind it gave up, and
 * then all up to the next place where what follows it can begin. */
static bool grow_stars(struct retry *stars, bool gave_up, struct kh_slice pattern,
		       struct kh_slice path, struct kh_steps *steps)
{
	if (!stars->set || stars->path >= path.len)
		return false;
	size_t from = stars->path;
	if (gave_up)
		stars->path = kh_slice_find(path, '/', stars->path);
	if (stars->path >= path.len)
		return false;
	stars->path++;
	char next = stars->pattern < pattern.len ? pattern.ptr[stars->pattern] : '*';
	if (next != '*')
		stars->path = kh_slice_find(path, next, stars->path);
	steps->done += (stars->path - from) / 8;
	return next == '*' || stars->path < path.len;
}

static bool ends_at(struct kh_slice path, size_t at, enum kh_path_end end)
{
	return at == path.len ||
	       (end == KH_END_LOOSELY && at + 1 == path.len && path.ptr[at] == '/');
}

static bool search(struct kh_slice pattern, struct kh_slice path, enum kh_path_end end,
		   struct kh_steps *steps)
{
	struct retry star = { 0 }, stars = { 0 };
	size_t p = 0, s = 0;
	for (; !kh_steps_are_over(steps); steps->done++) {
		size_t n = p < pattern.len ? stars_at(pattern, p) : 0;
		if (n > 0) {
			p += n;
			*(n == 2 ? &stars : &star) = (struct retry){ true, p, s };
			if (n == 2)
				star.set = false;
			continue;
		}
		if (p == pattern.len && ends_at(path, s, end))
			return true;
		if (p < pattern.len && s < path.len && pattern.ptr[p] == path.ptr[s]) {
			p++;
			s++;
			continue;
		}
		bool had_star = star.set;
		if (grow_star(&star, path)) {
			p = star.pattern;
			s = star.path;
			continue;
		}
		if (!grow_stars(&stars, had_star, pattern, path, steps))
			return false;
		star.set = false;
		p = stars.pattern;
		s = stars.path;
	}
	return false;
}

/* The longest text between two stars. */
static struct kh_slice longest_literal(struct kh_slice pattern)
{
	struct kh_slice longest = kh_slice_sub(pattern, 0, 0);
	for (size_t at = 0; at < pattern.len;) {
		size_t star = kh_slice_find(pattern, '*', at);
		if (star - at > longest.len)
			longest = kh_slice_sub(pattern, at, star);
		at = star + 1;
	}
	return longest;
}

bool kh_path_search(struct kh_slice pattern, struct kh_slice path, enum kh_path_end end,
		    struct kh_steps *steps)
{
	enum { LONG_BYTES = 64 }; /* a shorter path is searched as soon as it is looked through */
	size_t star = kh_slice_find(pattern, '*', 0);
	steps->done++;
	if (path.len < star || memcmp(path.ptr, pattern.ptr, star) != 0)
		return false;
	if (star == pattern.len)
		return ends_at(path, star, end);
	struct kh_slice behind = kh_slice_sub(path, star, path.len);
	struct kh_slice rest = kh_slice_sub(pattern, star, pattern.len);
	if (behind.len >= LONG_BYTES) {
		struct kh_slice literal = longest_literal(rest);
		steps->done += behind.len / 2;
		if (literal.len > 0 && !memmem(behind.ptr, behind.len, literal.ptr, literal.len))
			return false;
	}
	return search(rest, behind, end, steps);
}

bool kh_path_matches(struct kh_slice pattern, struct kh_slice path)
{
	struct kh_steps steps = { .most = UINT64_MAX };
	return kh_path_search(pattern, path, KH_END_EXACTLY, &steps);
}
