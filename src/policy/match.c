/* match.c - does a rule's path pattern match a path?
 *
 * '*' stands for any bytes of one segment, '**' for any bytes at all, every other byte for itself.
 * The search remembers the last '*' and the last '**' and goes back to them, the inner one first:
 * an earlier star never needs to be tried again, since what stands between two stars was found at
 * its first place. When a '*' has used up its segment, no start of the '**' in the same segment can
 * do better, so the search goes on in the next: the whole is bounded by the pattern's length times
 * the path's.
 *
 * A rule that denies reads leniently: what many servers take for the same is the same to it. An
 * escape of a reserved character is that character, several '/' are one, and what follows a ';' in
 * a segment (its parameters) may not be there at all. So no spelling slips past a denial, while a
 * rule that allows stays with the exact normal form.
 */
#include "policy_internal.h"

#include <string.h>

/* One character of a text at `at`: its width there, and the byte that it stands for; a byte that
 * was an escape and stays one is told apart. */
struct unit {
	size_t width;
	int code;
};

enum reading { STRICT, LENIENT, WITHOUT_PARAMETERS };

/* An escape as the byte that it stands for, where that is a reserved one. */
static struct unit escape_at(struct kh_slice text, size_t at)
{
	int high = text.len - at >= 3 ? kh_hex_value(text.ptr[at + 1]) : -1;
	int low = text.len - at >= 3 ? kh_hex_value(text.ptr[at + 2]) : -1;
	if (high < 0 || low < 0)
		return (struct unit){ 1, '%' };
	int byte = high * 16 + low;
	bool reserved = byte != '\0' && byte < 0x80 && strchr(":@!$&'()*+,;=[]", byte);
	/* Any other stays an escape; %2F is the other reading's affair. */
	return (struct unit){ 3, reserved ? byte : byte + 0x100 };
}

static struct unit plain_unit(struct kh_slice text, size_t at, enum reading reading)
{
	if (reading != STRICT && text.ptr[at] == '%')
		return escape_at(text, at);
	return (struct unit){ 1, (unsigned char)text.ptr[at] };
}

/* With what this reading does not see behind it: more slashes, and parameters. */
static struct unit unit_at(struct kh_slice text, size_t at, enum reading reading)
{
	struct unit unit = plain_unit(text, at, reading);
	while (reading != STRICT && at + unit.width < text.len) {
		size_t next = at + unit.width;
		if (unit.code == '/' && text.ptr[next] == '/')
			unit.width++;
		else if (reading == WITHOUT_PARAMETERS &&
			 plain_unit(text, next, reading).code == ';')
			unit.width = kh_slice_find(text, '/', next) - at;
		else
			break;
	}
	return unit;
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
static bool grow_star(struct retry *star, struct kh_slice path, enum reading reading)
{
	if (!star->set || star->path >= path.len || path.ptr[star->path] == '/')
		return false;
	star->path += unit_at(path, star->path, reading).width;
	return true;
}

/* The '**' takes one byte more, or all up to the next segment where a '*' behind it gave up. */
static bool grow_stars(struct retry *stars, bool gave_up, struct kh_slice path,
		       enum reading reading)
{
	if (!stars->set || stars->path >= path.len)
		return false;
	while (gave_up && path.ptr[stars->path] != '/') {
		stars->path += unit_at(path, stars->path, reading).width;
		if (stars->path >= path.len)
			return false;
	}
	stars->path += unit_at(path, stars->path, reading).width;
	return true;
}

static bool matches(struct kh_slice pattern, struct kh_slice path, enum reading reading)
{
	struct retry star = { 0 }, stars = { 0 };
	/* A rule that names parameters means them. */
	enum reading by_pattern = reading == STRICT ? STRICT : LENIENT;
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
			struct unit want = unit_at(pattern, p, by_pattern);
			struct unit have = unit_at(path, s, reading);
			if (want.code == have.code) {
				p += want.width;
				s += have.width;
				continue;
			}
		}
		bool had_star = star.set;
		if (grow_star(&star, path, reading)) {
			p = star.pattern;
			s = star.path;
			continue;
		}
		if (!grow_stars(&stars, had_star, path, reading))
			return false;
		star.set = false;
		p = stars.pattern;
		s = stars.path;
	}
}

bool kh_path_matches(struct kh_slice pattern, struct kh_slice path)
{
	return matches(pattern, path, STRICT);
}

/* What begins with two slashes is an authority and a path to servers that read the target as a
 * reference (RFC 3986 §4.2). Return: the path behind it. */
static struct kh_slice behind_authority(struct kh_slice path)
{
	size_t end = kh_slice_find(path, '/', 2);
	return end < path.len ? kh_slice_sub(path, end, path.len) : KH_SLICE("/");
}

static bool matches_loosely(struct kh_slice pattern, struct kh_slice path)
{
	return matches(pattern, path, LENIENT) || matches(pattern, path, WITHOUT_PARAMETERS);
}

bool kh_path_is_plain(struct kh_slice path)
{
	for (size_t i = 0; i < path.len; i++)
		if (path.ptr[i] == '%' || path.ptr[i] == ';' ||
		    (path.ptr[i] == '/' && i + 1 < path.len && path.ptr[i + 1] == '/'))
			return false;
	return true;
}

bool kh_path_matches_leniently(struct kh_slice pattern, struct kh_slice path)
{
	return matches(pattern, path, STRICT) || matches_loosely(pattern, path) ||
	       (kh_slice_has_prefix(path, KH_SLICE("//")) &&
		matches_loosely(pattern, behind_authority(path)));
}
