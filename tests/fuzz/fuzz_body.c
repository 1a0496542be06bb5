/* fuzz_body.c - content with a credential's place in it: however it comes in pieces, it becomes the
 * same; and what another reader finds at that place is the value */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/credential/body.h>
#include <keyhole/base/limits.h>

#define CHECK(what) \
	do { \
		if (!(what)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char value[] = "the\"va\\l&ue=\xc3\xa9";

static struct kh_secret *secret(void)
{
	static struct kh_secret *one;
	char copy[sizeof(value)];

	if (!one) {
		kh_secret_prepare();
		memcpy(copy, value, sizeof(value));
		one = kh_secret_new(copy, sizeof(value) - 1, NULL);
		CHECK(one);
	}
	return one;
}

/* Return: it was taken. */
static bool filter(const struct kh_placement *place, struct kh_slice content, size_t step,
		   const struct kh_secret *with, struct kh_buf *all, uint64_t *replaced)
{
	struct kh_body *body = kh_body_new(place);
	bool ok = true;

	CHECK(body);
	for (; ok && content.len > 0; content = kh_slice_sub(content, step, content.len)) {
		struct kh_slice piece = kh_slice_sub(content, 0, step);
		struct kh_buf out;
		kh_buf_init_wiping(&out, piece.len + 3 * KH_LIMIT_BODY_VALUE_BYTES);
		ok = kh_body_feed(body, piece, with, &out);
		CHECK(kh_buf_append_slice(all, kh_buf_view(&out)));
		kh_buf_fini(&out);
	}
	ok = ok && kh_body_end(body);
	CHECK(ok == !kh_body_fault(body));
	*replaced = kh_body_replaced_bytes(body);
	kh_body_free(body);
	return ok;
}

/* Another parser's way to the place, by exact names; of two it takes the last. */
static void check_json(const struct kh_placement *place, struct kh_slice made)
{
	json_error_t why;
	json_t *root = json_loadb(made.ptr, made.len, JSON_ALLOW_NUL, &why), *at = root;

	if (!root)
		return; /* numbers too large, halves of surrogate pairs */
	for (const char *step = place->pointer; at && *step == '/';) {
		char name[64];
		size_t len = strcspn(++step, "/");
		CHECK(len < sizeof(name));
		memcpy(name, step, len);
		name[len] = '\0';
		step += len;
		at = json_is_array(at) ? json_array_get(at, name[0] == '1')
				       : json_object_get(at, name);
	}
	CHECK(at && json_is_string(at) && strcmp(json_string_value(at), value) == 0);
	json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char pointers[][8] = { "/key", "/a/key", "/a/1", "/0/key" };
	static char name[] = "key";
	struct kh_placement place = { .kind = KH_PLACEMENT_BODY };
	struct kh_buf whole, pieces;
	uint64_t replaced, again;
	size_t bytes = 0;

	if (size < 2 || size > 4096)
		return 0;
	if (data[0] % 5 < 4)
		place.pointer = pointers[data[0] % 5];
	else
		place.name = name;
	struct kh_slice content = kh_slice_of((const char *)data + 2, size - 2);
	kh_buf_init_wiping(&whole, 1 << 20);
	kh_buf_init_wiping(&pieces, 1 << 20);
	bool ok = filter(&place, content, size, secret(), &whole, &replaced);
	CHECK(filter(&place, content, 1 + data[1] % 16, secret(), &pieces, &again) == ok);
	/* What comes out in front of a fault depends on the pieces. */
	CHECK(!ok || replaced == again);
	CHECK(!ok || kh_slice_eq(kh_buf_view(&whole), kh_buf_view(&pieces)));
	/* Looking finds the same. */
	kh_buf_clear(&pieces);
	CHECK(filter(&place, content, size, NULL, &pieces, &again) == ok && replaced == again);
	CHECK(kh_buf_len(&pieces) == 0);
	if (ok) {
		CHECK(kh_body_value_bytes(&place, secret(), &bytes));
		CHECK(kh_buf_len(&whole) == content.len + bytes - replaced);
		if (place.pointer)
			check_json(&place, kh_buf_view(&whole));
	}
	kh_buf_fini(&whole);
	kh_buf_fini(&pieces);
	return 0;
}
