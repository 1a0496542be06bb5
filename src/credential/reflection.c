/*
 * reflection.c - a value of the target that a server has put into the head of its answer
 *
 * A redirect to the same path with a slash behind it brings the whole query back, the key in it.
 * This is no search of answers for secrets: content is not looked at, nor what went into fields.
 */
#include "credential_internal.h"

#include <keyhole/spelling.h>

struct hiding {
	struct kh_slice text;
	struct kh_buf *out;
	bool found;
};

/*
 * How many bytes of `text` at `at` a server may have made of `value`; 0: they are something else.
 * Each character may stand as it is or escaped, once or several times, on its own: a framework
 * encodes '+' and leaves '/', and the address of an address is encoded twice. So both are read with
 * all escapes undone, also those that the value has of itself.
 */
static size_t stands_at(struct kh_slice text, size_t at, struct kh_slice value)
{
	size_t end = at;

	for (size_t i = 0; i < value.len;) {
		if (end >= text.len)
			return 0;
		struct kh_character found = kh_spelling_at(text, end, KH_PLUS_IS_PLUS);
		struct kh_character wanted = kh_spelling_at(value, i, KH_PLUS_IS_PLUS);

		if (found.byte != wanted.byte && (found.byte != '+' || wanted.byte != ' '))
			return 0;
		end += found.width;
		i += wanted.width;
	}
	return end - at;
}

/* The whole in one pass: what is found is as long as it is, so no byte is looked at again. */
static bool hide(struct kh_slice value, void *arg)
{
	struct hiding *h = arg;
	size_t from = 0, at = 0;

	while (value.len > 0 && at < h->text.len) {
		struct kh_slice rest = kh_slice_sub(h->text, at, h->text.len);
		size_t len = kh_slice_has_prefix(rest, value) ? value.len
							      : stands_at(h->text, at, value);

		if (len == 0) {
			at++;
			continue;
		}
		if (!kh_buf_append_slice(h->out, kh_slice_sub(h->text, from, at)) ||
		    !kh_buf_append_str(h->out, "keyhole"))
			return false;
		h->found = true;
		from = at += len;
	}
	return kh_buf_append_slice(h->out, kh_slice_sub(h->text, from, h->text.len));
}

bool kh_hide_value(struct kh_slice value, struct kh_slice text, struct kh_buf *out, bool *found)
{
	struct hiding h = { .text = text, .out = out };
	bool ok = hide(value, &h);

	*found = h.found;
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
