/*
 * marks.c - finds the mark that all placeholders of a daemon have in common
 *
 * The search texts are the mark of each key and class itself, and the three texts that base64 makes
 * of it, by its offset in a group of three bytes. None is shorter than 9 bytes. So only every
 * eighth pair of bytes is looked at: one of these is inside of each occurrence. A bitmap says which
 * pairs are possible; only then are texts compared.
 */
#include "placeholder_internal.h"

#include <stdlib.h>

#include <keyhole/base/encode.h>

enum {
	ALIGNMENTS = 3,
	STRIDE = 8, /* the shortest needle less one */
	NEEDLES = KH_MARK_KEYS * KH_MARK_CLASSES * (1 + ALIGNMENTS),
	PLAIN = ALIGNMENTS, /* in place of an alignment */
};

struct needle {
	char text[KH_MARK_NEEDLE_MOST];
	uint8_t len;
	uint8_t key;
	uint8_t class;
	uint8_t alignment;
};

struct kh_marks {
	uint64_t pairs[65536 / 64];
	struct needle needles[NEEDLES];
	size_t n_needles;
};

/* Bits of the mark's first byte that share a character with what is before it. */
static const uint8_t skipped_bits[ALIGNMENTS] = { 0, 4, 2 };

static unsigned bits_at(const uint8_t *bytes, size_t bit)
{
	unsigned two = (unsigned)bytes[bit / 8] << 8 | (bit % 8 > 2 ? bytes[bit / 8 + 1] : 0);

	return two >> (10 - bit % 8) & 0x3f;
}

static void add(struct kh_marks *marks, const struct needle *needle)
{
	for (size_t i = 0; i + 1 < needle->len; i++) {
		uint16_t pair;
		memcpy(&pair, needle->text + i, sizeof(pair));
		marks->pairs[pair / 64] |= UINT64_C(1) << pair % 64;
	}
	marks->needles[marks->n_needles++] = *needle;
}

static void add_mark(struct kh_marks *marks, const struct kh_placeholder_key *key, uint8_t index,
		     enum kh_mark_class class)
{
	struct needle plain = { .len = kh_mark_forms[class].mark,
				.key = index,
				.class = (uint8_t) class,
				.alignment = PLAIN };
	uint8_t bytes[KH_MARK_MOST];

	kh_mark_make(plain.text, key, class);
	memcpy(bytes, plain.text, plain.len);
	add(marks, &plain);
	for (unsigned a = 0; a < ALIGNMENTS; a++) {
		struct needle needle = plain;

		needle.alignment = (uint8_t)a;
		needle.len = 0;
		for (size_t bit = skipped_bits[a]; bit + 6 <= (size_t)plain.len * 8; bit += 6)
			needle.text[needle.len++] = kh_base64_digits[bits_at(bytes, bit)];
		add(marks, &needle);
	}
}

struct kh_marks *kh_marks_new(const struct kh_placeholder_key *keys, size_t n_keys, bool digits,
			      struct kh_err *err)
{
	struct kh_marks *marks = n_keys <= KH_MARK_KEYS ? calloc(1, sizeof(*marks)) : NULL;

	if (!marks) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "placeholders: no memory");
		return NULL;
	}
	for (size_t i = 0; i < n_keys; i++) {
		add_mark(marks, &keys[i], (uint8_t)i, KH_MARK_LETTERS);
		if (digits)
			add_mark(marks, &keys[i], (uint8_t)i, KH_MARK_DIGITS);
	}
	return marks;
}

void kh_marks_free(struct kh_marks *marks)
{
	free(marks);
}

/* What is behind the mark whose needle stands at the beginning of `text`. */
static uint8_t read_behind(const struct needle *needle, struct kh_slice text, char *out,
			   uint8_t most)
{
	uint8_t len = 0;

	if (needle->alignment == PLAIN) {
		struct kh_slice behind = kh_slice_sub(text, needle->len, text.len);
		len = behind.len < most ? (uint8_t)behind.len : most;
		if (len > 0)
			memcpy(out, behind.ptr, len);
		return len;
	}
	/* The first character's first bit is this one of the mark. */
	size_t bit = skipped_bits[needle->alignment];
	size_t mark_bits = (size_t)kh_mark_forms[needle->class].mark * 8;
	unsigned held = 0, n_held = 0;
	for (size_t i = 0; i < text.len && len < most; i++, bit += 6) {
		int value = kh_base64_value(text.ptr[i]);
		if (value < 0)
			break;
		held = held << 6 | (unsigned)value;
		n_held = bit + 6 > mark_bits ? n_held + 6 : 0;
		if (n_held > 6 && bit < mark_bits)
			n_held = 6;
		if (bit < mark_bits && bit + 6 > mark_bits)
			n_held = (unsigned)(bit + 6 - mark_bits);
		if (n_held >= 8) {
			n_held -= 8;
			out[len++] = (char)(held >> n_held & 0xff);
		}
	}
	return len;
}

static inline bool may_lie_over(const struct kh_marks *marks, const char *at)
{
	uint16_t pair;

	memcpy(&pair, at, sizeof(pair));
	return marks->pairs[pair / 64] >> pair % 64 & 1;
}

/* The first place, by strides from `at` on, where something may be; text.len or more: none. */
static size_t skip(const struct kh_marks *marks, struct kh_slice text, size_t at)
{
	while (at + 3 * STRIDE + 1 < text.len) {
		const char *p = text.ptr + at;
		/* All four, without a branch between them. */
		unsigned any = (unsigned)may_lie_over(marks, p) |
			       (unsigned)may_lie_over(marks, p + STRIDE) |
			       (unsigned)may_lie_over(marks, p + 2 * STRIDE) |
			       (unsigned)may_lie_over(marks, p + 3 * STRIDE);
		if (any)
			break;
		at += 4 * STRIDE;
	}
	while (at + 1 < text.len && !may_lie_over(marks, text.ptr + at))
		at += STRIDE;
	return at;
}

/* The first needle that is over the pair at `at`. */
static const struct needle *compare(const struct kh_marks *marks, struct kh_slice text, size_t at,
				    size_t least, size_t *begin)
{
	const struct needle *found = NULL;

	for (size_t n = 0; n < marks->n_needles; n++) {
		const struct needle *needle = &marks->needles[n];
		for (size_t back = 0; back + 1 < needle->len && back < STRIDE; back++) {
			if (back > at || at - back < least)
				break;
			if (needle->text[back] != text.ptr[at] ||
			    needle->text[back + 1] != text.ptr[at + 1])
				continue;
			size_t start = at - back;
			if (text.len - start < needle->len || (found && start >= *begin) ||
			    memcmp(text.ptr + start, needle->text, needle->len) != 0)
				continue;
			found = needle;
			*begin = start;
		}
	}
	return found;
}

bool kh_marks_find(const struct kh_marks *marks, struct kh_slice text, size_t *from,
		   struct kh_mark *out)
{
	size_t begin = 0;

	for (size_t at = skip(marks, text, *from); at + 1 < text.len;
	     at = skip(marks, text, at + STRIDE)) {
		const struct needle *needle = compare(marks, text, at, *from, &begin);
		if (!needle)
			continue;
		const struct kh_mark_form *form = &kh_mark_forms[needle->class];
		out->begin = begin;
		out->key = needle->key;
		out->class = needle->class;
		out->len = read_behind(needle, kh_slice_sub(text, begin, text.len), out->behind,
				       (uint8_t)(form->owner + form->name));
		*from = begin + needle->len;
		return true;
	}
	*from = text.len;
	return false;
}

bool kh_mark_is_of(const struct kh_mark *mark, const struct kh_owner_tag *owner)
{
	size_t len = kh_mark_forms[mark->class].owner;

	return mark->len >= len && memcmp(mark->behind, owner->text[mark->class], len) == 0;
}

bool kh_mark_is_named(const struct kh_mark *mark, const struct kh_name_tag *name)
{
	const struct kh_mark_form *form = &kh_mark_forms[mark->class];

	return mark->len >= form->owner + form->name &&
	       memcmp(mark->behind + form->owner, name->text[mark->class], form->name) == 0;
}
