/* fuzz_marks.c - a placeholder in any text, cut anywhere: it is found, and nothing else is */
#include <stdlib.h>

#include <keyhole/credential/placeholder.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

static const struct kh_placeholder_key key = { { 1, 2, 3 } };
static struct kh_marks *marks;
static char *made;

static bool count(const struct kh_mark *mark, void *arg)
{
	struct kh_owner_tag tag;

	kh_owner_tag_make(&tag, &key, "t", "s");
	*(size_t *)arg += kh_mark_is_of(mark, &tag);
	CHECK(mark->len <= sizeof(mark->behind));
	return true;
}

static size_t scan(struct kh_slice text, size_t piece, bool eager)
{
	struct kh_mark_scan s = { .marks = marks, .eager = eager };
	size_t found = 0;

	for (size_t at = 0; at < text.len; at += piece) {
		struct kh_slice part = kh_slice_sub(text, at, at + piece);
		char *copy = malloc(part.len);

		CHECK(copy);
		memcpy(copy, part.ptr, part.len);
		bool more = kh_mark_scan_feed(&s, kh_slice_of(copy, part.len), count, &found);
		free(copy);
		if (!more)
			return SIZE_MAX; /* eager, and there is one */
	}
	if (!kh_mark_scan_end(&s, count, &found))
		return SIZE_MAX;
	return found;
}

/* How long a piece is, where the placeholder is put (a byte each), and the text around it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!marks) {
		struct kh_placeholder_spec spec = { .shape = KH_SHAPE_GITHUB };
		struct kh_placeholder_owner owner = { "t", "s", "c" };

		marks = kh_marks_new(&key, 1, true, NULL);
		made = kh_placeholder_make(&key, &spec, &owner, NULL);
		CHECK(marks && made);
	}
	if (size < 2 || size > 4096)
		return 0;
	size_t piece = data[0] + 1U, at = data[1], len = strlen(made);
	data += 2;
	size -= 2;
	if (at > size)
		at = size;
	char *text = malloc(size + len + 1), *out = malloc(size + len + 1);
	CHECK(text && out);
	memcpy(text, data, size);
	struct kh_slice plain = kh_slice_of(text, size);
	size_t before = scan(plain, piece, false);
	CHECK(before != SIZE_MAX);
	(void)kh_mark_unescape(plain, out);

	memcpy(text, data, at);
	memcpy(text + at, made, len);
	memcpy(text + at + len, data + at, size - at);
	struct kh_slice with = kh_slice_of(text, size + len);
	size_t after = scan(with, piece, false);
	CHECK(after != SIZE_MAX && after >= 1);
	CHECK(scan(with, piece, true) == SIZE_MAX);
	CHECK(kh_mark_unescape(with, out) <= with.len);
	free(text);
	free(out);
	return 0;
}
