/* override_name.c - is this the name of a field or parameter that asks for another method, host or
 * path? */
#include "override_name.h"

#include <keyhole/base/spelling.h>

static const struct {
	struct kh_slice name;
	enum kh_override_kind kind;
	unsigned where;
} names[] = {
#define ROW(name, kind, where) { KH_SLICE_INIT(name), KH_OVERRIDE_##kind, KH_OVERRIDE_IN_##where },
	KH_OVERRIDE_NAMES(ROW)
};

static const struct {
	struct kh_slice ending;
	enum kh_override_kind kind;
} endings[] = {
#define ENDING(ending, kind) { KH_SLICE_INIT(ending), KH_OVERRIDE_##kind },
	KH_OVERRIDE_ENDINGS(ENDING)
};

/* A parameter is read so far; no name is as long. */
enum { LONGEST = 63 };
#define IS_SHORT(name, kind, where) _Static_assert(sizeof(name) <= LONGEST, name);
KH_OVERRIDE_NAMES(IS_SHORT)

/* Most names end here: which letters and lengths there are, of which the compiler makes numbers.
 * What begins with no letter may be an escape, or any of what servers take for '-'. */
#define IN(where, mask, bit) (((where) & (mask)) ? UINT64_C(1) << (bit) : 0)
#define FIELD_LETTER(name, kind, where) \
	| IN(KH_OVERRIDE_IN_##where, KH_OVERRIDE_IN_FIELD, (name)[0] & 31)
#define QUERY_LETTER(name, kind, where) \
	| IN(KH_OVERRIDE_IN_##where, KH_OVERRIDE_IN_QUERY, (name)[0] & 31)
#define FIELD_LENGTH(name, kind, where) \
	| IN(KH_OVERRIDE_IN_##where, KH_OVERRIDE_IN_FIELD, sizeof(name) - 1)
#define QUERY_LENGTH(name, kind, where) \
	| IN(KH_OVERRIDE_IN_##where, KH_OVERRIDE_IN_QUERY, sizeof(name) - 1)

static bool is_letter_of(uint64_t letters, struct kh_slice name)
{
	return name.len > 0 &&
	       (!kh_is_alpha(name.ptr[0]) || (letters >> (name.ptr[0] & 31) & 1) != 0);
}

/* Wherever this parameter's name, decoded, may end. */
static bool is_length_of(uint64_t lengths, struct kh_slice name)
{
	size_t front = kh_spelling_front(name);
	for (size_t at = 0; at <= name.len; at++) {
		char c = at < name.len ? name.ptr[at] : '[';
		if ((c == '[' || c == ']' || kh_spelling_is_blank(c)) &&
		    ((at <= LONGEST && (lengths >> at & 1) != 0) ||
		     (at >= front && at - front <= LONGEST && (lengths >> (at - front) & 1) != 0)))
			return true;
	}
	return false;
}

static enum kh_override_kind find(struct kh_slice name, unsigned where,
				  bool is_same(struct kh_slice, struct kh_slice))
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if ((names[i].where & where) != 0 && is_same(name, names[i].name))
			return names[i].kind;
	return KH_OVERRIDE_NONE;
}

static enum kh_override_kind find_ending(struct kh_slice name)
{
	if (name.len == 0 || kh_lower(name.ptr[0]) != 'x')
		return KH_OVERRIDE_NONE;
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		size_t len = endings[i].ending.len;
		if (name.len > len &&
		    kh_spelling_is_field(kh_slice_sub(name, name.len - len, name.len),
					 endings[i].ending))
			return endings[i].kind;
	}
	return KH_OVERRIDE_NONE;
}

enum kh_override_kind kh_override_of_field(struct kh_slice name)
{
	const uint64_t letters = 0 KH_OVERRIDE_NAMES(FIELD_LETTER);
	const uint64_t lengths = 0 KH_OVERRIDE_NAMES(FIELD_LENGTH);
	if (!is_letter_of(letters, name))
		return KH_OVERRIDE_NONE;
	enum kh_override_kind kind = KH_OVERRIDE_NONE;
	if (name.len <= LONGEST && (lengths >> name.len & 1) != 0)
		kind = find(name, KH_OVERRIDE_IN_FIELD, kh_spelling_is_field);
	return kind ? kind : find_ending(name);
}

enum kh_override_kind kh_override_of_parameter(struct kh_slice parameter)
{
	const uint64_t letters = 0 KH_OVERRIDE_NAMES(QUERY_LETTER);
	const uint64_t lengths = 0 KH_OVERRIDE_NAMES(QUERY_LENGTH);
	if (!is_letter_of(letters, parameter))
		return KH_OVERRIDE_NONE;
	char text[LONGEST + 1];
	struct kh_slice name =
		kh_slice_of(text, kh_spelling_of_parameter(parameter, text, sizeof(text)));
	enum kh_override_kind kind = KH_OVERRIDE_NONE;
	if (is_length_of(lengths, name))
		kind = find(name, KH_OVERRIDE_IN_QUERY, kh_spelling_is_decoded);
	if (!kind)
		kind = find_ending(name);
	if (kind)
		return kind;
	name = kh_slice_sub(name, kh_spelling_front(name), name.len);
	size_t end = kh_slice_find(name, '[', 0), close = kh_slice_find(name, ']', 0);
	end = end < close ? end : close;
	while (end > 0 && end <= name.len && kh_spelling_is_blank(name.ptr[end - 1]))
		end--;
	return find_ending(kh_slice_sub(name, 0, end));
}
