/*
 * path_groups.c - groups requests whose paths differ only in identifiers
 *
 * Two paths are of one group if they have as many segments, each pair of segments is equal or two
 * identifiers, and one of the segments is a name. The pattern of a group is its first path; a
 * segment becomes '*' when a path with another one comes. So a group of one request has its path,
 * and nothing is widened that was not seen to differ.
 */
#include <keyhole/policy/path_groups.h>

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/limits.h>

/* A power of two, never half full. */
enum { SLOTS = 4 * KH_LIMIT_PATH_GROUPS, HEX_LEAST = 7 };
_Static_assert((SLOTS & (SLOTS - 1)) == 0, "slots are found by a mask");

static size_t count_digits(struct kh_slice text)
{
	size_t n = 0;
	while (n < text.len && kh_is_digit(text.ptr[n]))
		n++;
	return n;
}

/* Do characters stand where `form` has them: 'h' for a hex digit, 'd' for a decimal one? */
static bool has_form(struct kh_slice text, const char *form)
{
	size_t len = strlen(form);
	for (size_t i = 0; i < len && i < text.len; i++) {
		char c = text.ptr[i];
		if (form[i] == 'h'   ? kh_hex_value(c) < 0
		    : form[i] == 'd' ? !kh_is_digit(c)
				     : c != form[i])
			return false;
	}
	return text.len >= len;
}

static bool is_hex(struct kh_slice text)
{
	bool digit = false;
	for (size_t i = 0; i < text.len; i++) {
		if (kh_hex_value(text.ptr[i]) < 0)
			return false;
		digit = digit || kh_is_digit(text.ptr[i]);
	}
	return digit && text.len >= HEX_LEAST;
}

/* What may follow a date: "T00:00:00Z", "T00%3A00%3A00.000+01:00". */
static bool is_time(struct kh_slice text)
{
	if (text.len < 2 || text.ptr[0] != 'T' || !kh_is_digit(text.ptr[1]))
		return false;
	for (size_t i = 1; i < text.len; i++)
		if (!kh_is_digit(text.ptr[i]) && !strchr(":.+-Z%AB", text.ptr[i]))
			return false;
	return true;
}

bool kh_path_groups_is_identifier(struct kh_slice segment)
{
	static const char uuid[] = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh", date[] = "dddd-dd-dd";
	enum { DATE_BYTES = sizeof(date) - 1 };
	if (segment.len == 0)
		return false;
	if (count_digits(segment) == segment.len || is_hex(segment))
		return true;
	if (segment.len == sizeof(uuid) - 1 && has_form(segment, uuid))
		return true;
	return has_form(segment, date) && (segment.len == DATE_BYTES ||
					   is_time(kh_slice_sub(segment, DATE_BYTES, segment.len)));
}

/* The next segment, without the '/' in front of it. Return: false at the end. */
static bool next_segment(struct kh_slice *rest, struct kh_slice *segment)
{
	if (rest->len == 0)
		return false;
	size_t end = kh_slice_find(*rest, '/', 1);
	*segment = kh_slice_sub(*rest, 1, end);
	*rest = kh_slice_sub(*rest, end, rest->len);
	return true;
}

static bool is_star(struct kh_slice segment)
{
	return kh_slice_eq(segment, KH_SLICE("*"));
}

/* Is there a segment that is a name? Else a pattern of stars alone could cover the whole host. */
static bool has_name(struct kh_slice path)
{
	struct kh_slice segment;
	while (next_segment(&path, &segment))
		if (segment.len > 0 && !is_star(segment) && !kh_path_groups_is_identifier(segment))
			return true;
	return false;
}

/* Is the path of the group with that pattern? */
static bool fits(struct kh_slice pattern, struct kh_slice path)
{
	if (!has_name(path))
		return kh_slice_eq(pattern, path);
	struct kh_slice one, other;
	bool more = true;
	while (more) {
		more = next_segment(&pattern, &one);
		if (next_segment(&path, &other) != more)
			return false;
		if (more && !kh_slice_eq(one, other) &&
		    (!kh_path_groups_is_identifier(other) ||
		     (!is_star(one) && !kh_path_groups_is_identifier(one))))
			return false;
	}
	return true;
}

/* Puts a '*' for each segment of the pattern that the path, which fits, has another one for. It
 * gets no longer. */
static void widen(char *pattern, struct kh_slice path)
{
	struct kh_slice rest = kh_slice_str(pattern), one, other;
	char *end = pattern;
	while (next_segment(&rest, &one) && next_segment(&path, &other)) {
		struct kh_slice kept = kh_slice_eq(one, other) ? one : KH_SLICE("*");
		*end++ = '/';
		memmove(end, kept.ptr, kept.len);
		end += kept.len;
	}
	*end = '\0';
}

static uint64_t hash_more(uint64_t h, struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		h = (h ^ (unsigned char)text.ptr[i]) * 0x100000001b3u;
	return (h ^ 0xff) * 0x100000001b3u;
}

/* FNV-1a. Who makes texts that collide makes SLOTS / 4 of them collide at most. */
static size_t hash(const char *kind, const char *method, const char *place, struct kh_slice path)
{
	uint64_t h = hash_more(0xcbf29ce484222325u, kh_slice_str(kind));
	struct kh_slice segment;
	bool merges = has_name(path);
	h = hash_more(hash_more(h, kh_slice_str(method)), kh_slice_str(place));
	while (next_segment(&path, &segment))
		h = hash_more(h, merges && kh_path_groups_is_identifier(segment) ? KH_SLICE("*")
										 : segment);
	return (size_t)(h ^ h >> 32);
}

static char *copy(char **room, const char *text, size_t len)
{
	char *at = *room;
	memcpy(at, text, len);
	at[len] = '\0';
	*room += len + 1;
	return at;
}

static struct kh_path_group *make(struct kh_path_groups *groups, const char *kind,
				  const char *method, const char *place, struct kh_slice path,
				  const char *example)
{
	size_t bytes =
		strlen(kind) + strlen(method) + strlen(place) + path.len + strlen(example) + 5;
	char *room = groups->count < KH_LIMIT_PATH_GROUPS &&
				     bytes <= KH_LIMIT_PATH_GROUPS_BYTES - groups->bytes
			     ? malloc(bytes)
			     : NULL;
	if (!room)
		return NULL;
	groups->bytes += bytes;
	struct kh_path_group *group = &groups->list[groups->count++];
	*group = (struct kh_path_group){ .kind = copy(&room, kind, strlen(kind)) };
	group->method = copy(&room, method, strlen(method));
	group->place = copy(&room, place, strlen(place));
	group->pattern = copy(&room, path.len ? path.ptr : "", path.len);
	group->example = copy(&room, example, strlen(example));
	return group;
}

static bool is_same(const struct kh_path_group *group, const char *kind, const char *method,
		    const char *place, struct kh_slice path)
{
	return strcmp(group->kind, kind) == 0 && strcmp(group->method, method) == 0 &&
	       strcmp(group->place, place) == 0 && fits(kh_slice_str(group->pattern), path);
}

static struct kh_path_group *find(struct kh_path_groups *groups, const char *kind,
				  const char *method, const char *place, struct kh_slice path,
				  const char *example)
{
	for (size_t at = hash(kind, method, place, path);; at++) {
		uint32_t *slot = &groups->slots[at & (SLOTS - 1)];
		if (*slot == 0) {
			struct kh_path_group *made =
				make(groups, kind, method, place, path, example);
			*slot = made ? (uint32_t)groups->count : 0;
			return made;
		}
		struct kh_path_group *group = &groups->list[*slot - 1];
		if (is_same(group, kind, method, place, path)) {
			widen(group->pattern, path);
			return group;
		}
	}
}

struct kh_path_group *kh_path_groups_add(struct kh_path_groups *groups, const char *kind,
					 const char *method, const char *place,
					 struct kh_slice path, const char *example)
{
	if (!groups->slots)
		groups->slots = calloc(SLOTS, sizeof(*groups->slots));
	if (!groups->list)
		groups->list = calloc(KH_LIMIT_PATH_GROUPS, sizeof(*groups->list));
	struct kh_path_group *group = groups->slots && groups->list
					      ? find(groups, kind, method, place, path, example)
					      : NULL;
	if (group)
		group->requests++;
	else
		groups->left_out++;
	return group;
}

void kh_path_groups_fini(struct kh_path_groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		free(groups->list[i].kind); /* the others are in the same memory */
	free(groups->list);
	free(groups->slots);
	*groups = (struct kh_path_groups){ 0 };
}
