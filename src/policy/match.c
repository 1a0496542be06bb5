/* match.c - does a rule's path pattern match a path?
 *
 * '*' stands for any bytes of one segment, '**' for any bytes at all, every other byte for itself.
 * The search remembers the last '*' and the last '**' and goes back to them, the inner one first:
 * an earlier star never needs to be tried again, since what stands between two stars was found at
 * its first place. When a '*' has used up its segment, no start of the '**' in the same segment can
 * do better, so the search goes on in the next: the whole is bounded by the pattern's length times
 * the path's.
 *
 * A rule that denies reads leniently: what most servers take for the same is the same to it. An
 * escape of a reserved character is that character, and several '/' are one. So no spelling slips
 * past a denial, while a rule that allows stays with the exact normal form.
 */
#include "policy_internal.h"

#include <string.h>

/* One character of a text at `at`: its width there, and the byte that it stands for; a byte that
 * was an escape and stays one is told apart. */
struct unit {
	size_t width;
	int code;
};

static struct unit strict_unit(struct kh_slice text, size_t at)
{
	return (struct unit){ 1, (unsigned char)text.ptr[at] };
}

static struct unit lenient_unit(struct kh_slice text, size_t at)
{
	struct unit unit = strict_unit(text, at);
	if (text.ptr[at] == '/') {
		while (at + unit.width < text.len && text.ptr[at + unit.width] == '/')
			unit.width++;
		return unit;
	}
	if (text.ptr[at] != '%' || text.len - at < 3)
		return unit;
	int high = kh_hex_value(text.ptr[at + 1]), low = kh_hex_value(text.ptr[at + 2]);
	if (high < 0 || low < 0)
		return unit;
	unit.width = 3;
	unit.code = high * 16 + low;
	if (unit.code >= 0x80 || unit.code == '\0' || !strchr(":@!$&'()*+,;=[]", unit.code))
		unit.code += 0x100; /* stays an escape; %2F is the other reading's affair */
	return unit;
}

static struct unit unit_at(struct kh_slice text, size_t at, bool lenient)
{
	return lenient ? lenient_unit(text, at) : strict_unit(text, at);
}

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
static bool grow_star(struct retry *star, struct kh_slice path, bool lenient)
{
	if (!star->set || star->path >= path.len || path.ptr[star->path] == '/')
		return false;
	star->path += unit_at(path, star->path, lenient).width;
	return true;
}

/* The '**' takes one byte more, or all up to the next segment where a '*' behind it gave up. */
static bool grow_stars(struct retry *stars, bool gave_up, struct kh_slice path, bool lenient)
{
	if (!stars->set || stars->path >= path.len)
		return false;
	while (gave_up && path.ptr[stars->path] != '/') {
		stars->path += unit_at(path, stars->path, lenient).width;
		if (stars->path >= path.len)
			return false;
	}
	stars->path += unit_at(path, stars->path, lenient).width;
	return true;
}

static bool matches(struct kh_slice pattern, struct kh_slice path, bool lenient)
{
	struct retry star = { 0 }, stars = { 0 };
	size_t p = 0, s = 0;
	for (;;) {
		size_t n = p < pattern.len ? stars_at(pattern, p) : 0;
		if (n > 0) {
			p += n;
			*(n == 2 ? &stars : &star) = (struct retry){ true, p, s };
			if (n == 2)
				star.set = false;
			continue;
		}
		if (p == pattern.len && s == path.len)
			return true;
		if (p < pattern.len && s < path.len) {
			struct unit want = unit_at(pattern, p, lenient);
			struct unit have = unit_at(path, s, lenient);
			if (want.code == have.code) {
				p += want.width;
				s += have.width;
				continue;
			}
		}
		bool had_star = star.set;
		if (grow_star(&star, path, lenient)) {
			p = star.pattern;
			s = star.path;
			continue;
		}
		if (!grow_stars(&stars, had_star, path, lenient))
			return false;
		star.set = false;
		p = stars.pattern;
		s = stars.path;
	}
}

bool kh_path_matches(struct kh_slice pattern, struct kh_slice path)
{
	return matches(pattern, path, false);
}

bool kh_path_matches_leniently(struct kh_slice pattern, struct kh_slice path)
{
	return matches(pattern, path, false) || matches(pattern, path, true);
}
