/*
 * reflection.c - a value of the target that a server has put into the head of its answer
 *
 * A redirect to the same path with a slash behind it brings the whole query back, the key in it.
 * This is no search of answers for secrets: content is not looked at, nor what went into fields.
 */
#include "credential_internal.h"

struct hiding {
	struct kh_slice text;
	struct kh_buf *out;
	bool found;
};

/* Where `needle` begins in `text` from `at` on; its length where it does not. */
static size_t find(struct kh_slice text, size_t at, struct kh_slice needle)
{
	const char *hit = needle.len > 0 && at + needle.len <= text.len
				  ? memmem(text.ptr + at, text.len - at, needle.ptr, needle.len)
				  : NULL;
	return hit ? (size_t)(hit - text.ptr) : text.len;
}

/* The same without regard to case: "%2f" is "%2F" (RFC 3986 §2.1). */
static size_t find_nocase(struct kh_slice text, size_t at, struct kh_slice needle)
{
	for (; needle.len > 0 && at + needle.len <= text.len; at++)
		if (kh_slice_eq_nocase(kh_slice_sub(text, at, at + needle.len), needle))
			return at;
	return text.len;
}

static bool replace(struct hiding *h, struct kh_slice plain, struct kh_slice encoded)
{
	size_t at = 0;

	while (at < h->text.len) {
		size_t one = find(h->text, at, plain), other = find_nocase(h->text, at, encoded);
		size_t next = one < other ? one : other;

		if (!kh_buf_append_slice(h->out, kh_slice_sub(h->text, at, next)))
			return false;
		if (next == h->text.len)
			return true;
		if (!kh_buf_append_str(h->out, "keyhole"))
			return false;
		h->found = true;
		at = next + (next == other && encoded.len >= plain.len ? encoded.len : plain.len);
	}
	return true;
}

static bool hide(struct kh_slice value, void *arg)
{
	struct kh_buf encoded;

	kh_buf_init_wiping(&encoded, 3 * value.len);
	bool ok = kh_put_percent(&encoded, value) && replace(arg, value, kh_buf_view(&encoded));
	kh_buf_fini(&encoded);
	return ok;
}

bool kh_injection_hide(const struct kh_injection *injection, struct kh_slice text,
		       struct kh_buf *out, bool *found)
{
	struct kh_buf made;
	bool ok = true;

	*found = false;
	kh_buf_init_wiping(&made, out->cap);
	ok = kh_buf_append_slice(&made, text);
	for (size_t i = 0; ok && i < injection->count; i++) {
		const struct kh_injected *one = &injection->list[i];
		if (!one->credential->placement ||
		    one->credential->placement->kind != KH_PLACEMENT_QUERY)
			continue;
		struct kh_buf next;
		kh_buf_init_wiping(&next, out->cap);
		struct hiding h = { .text = kh_buf_view(&made), .out = &next };
		ok = kh_secret_expose(one->secret, hide, &h);
		*found = *found || h.found;
		kh_buf_fini(&made);
		made = next;
	}
	ok = ok && kh_buf_append_slice(out, kh_buf_view(&made));
	kh_buf_fini(&made);
	return ok;
}
