/*
 * reflection.c - removes a value of the target that a server has put into the head of its response
 *
 * A redirect to the same path with a slash at the end returns the whole query, with the key in it.
 * This is not a search of responses for secrets: content, and values that went into fields, are not
 * searched for.
 */
#include "credential_internal.h"

#include <keyhole/base/encode.h>
#include <keyhole/base/spelling.h>

struct hiding {
	struct kh_slice text;
	struct kh_buf *out;
	bool found;
};

/* "&#43;", "&#x2b;" and the five characters that HTML and XML have names for. width 0: none here.
 */
static struct kh_character reference_at(struct kh_slice rest)
{
	static const struct {
		struct kh_slice text;
		unsigned char byte;
	} named[] = { { KH_SLICE_INIT("&amp;"), '&' },
		      { KH_SLICE_INIT("&lt;"), '<' },
		      { KH_SLICE_INIT("&gt;"), '>' },
		      { KH_SLICE_INIT("&quot;"), '"' },
		      { KH_SLICE_INIT("&apos;"), '\'' } };
	enum { DIGITS_MOST = 8 }; /* with the zeros in front */
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		if (kh_slice_has_prefix(rest, named[i].text))
			return (struct kh_character){ named[i].text.len, named[i].byte };
	if (!kh_slice_has_prefix(rest, KH_SLICE("&#")))
		return (struct kh_character){ 0 };
	bool is_hex = rest.len > 2 && (rest.ptr[2] | 0x20) == 'x';
	size_t begin = is_hex ? 3 : 2, end = begin;
	unsigned code = 0;
	for (; end < rest.len && end < begin + DIGITS_MOST; end++) {
		int digit = kh_hex_value(rest.ptr[end]);
		if (digit < 0 || (!is_hex && digit > 9))
			break;
		code = code * (is_hex ? 16 : 10) + (unsigned)digit;
	}
	if (end == begin || code > 0xff)
		return (struct kh_character){ 0 };
	end += end < rest.len && rest.ptr[end] == ';';
	return (struct kh_character){ end, (unsigned char)code };
}

/* "\u002b" as in JSON, "\x2b" as in JavaScript, "\/". width 0: none here. */
static struct kh_character escape_at(struct kh_slice rest)
{
	if (rest.len < 2 || rest.ptr[0] != '\\')
		return (struct kh_character){ 0 };
	size_t digits = rest.ptr[1] == 'u' ? 4 : rest.ptr[1] == 'x' ? 2 : 0;
	if (digits == 0)
		return (struct kh_character){ 2, (unsigned char)rest.ptr[1] };
	if (rest.len < 2 + digits)
		return (struct kh_character){ 0 };
	unsigned code = 0;
	for (size_t i = 0; i < digits; i++) {
		int digit = kh_hex_value(rest.ptr[2 + i]);
		if (digit < 0)
			return (struct kh_character){ 0 };
		code = code * 16 + (unsigned)digit;
	}
	return (struct kh_character){ code > 0xff ? 0 : 2 + digits, (unsigned char)code };
}

/* A form's '+' is a blank, and a server that decodes once more than it encodes makes one of it. */
static bool is_same(unsigned char found, unsigned char wanted)
{
	return found == wanted || (found == '+' && wanted == ' ') ||
	       (found == ' ' && wanted == '+');
}

/* Return: bytes of `text` at `at` that may stand for that byte; 0: they are something else. */
static size_t width_of(struct kh_slice text, size_t at, unsigned char wanted)
{
	struct kh_slice rest = kh_slice_sub(text, at, text.len);
	struct kh_character escaped = rest.ptr[0] == '\\'  ? escape_at(rest)
				      : rest.ptr[0] == '&' ? reference_at(rest)
							   : (struct kh_character){ 0 };
	if (escaped.width > 0 && is_same(escaped.byte, wanted))
		return escaped.width;
	struct kh_character found = kh_spelling_at(text, at, KH_PLUS_IS_PLUS);
	return is_same(found.byte, wanted) ? found.width : 0;
}

/*
 * How many bytes of `text` at `at` a server may have made of `value`; 0: they are something else.
 * Each character may stand as it is or escaped on its own: percent-encoded, once or several times,
 * or as JSON, JavaScript and HTML escape it. A framework encodes '+' and leaves '/', and the
 * address of an address is encoded twice. So both are read with all escapes undone, also those that
 * the value has of itself.
 */
static size_t stands_at(struct kh_slice text, size_t at, struct kh_slice value)
{
	size_t end = at;

	for (size_t i = 0; i < value.len;) {
		if (end >= text.len)
			return 0;
		struct kh_character wanted = kh_spelling_at(value, i, KH_PLUS_IS_PLUS);
		size_t width = width_of(text, end, wanted.byte);

		if (width == 0)
			return 0;
		end += width;
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

bool kh_reflection_hide_value(struct kh_slice value, struct kh_slice text, struct kh_buf *out,
			      bool *found)
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
		if (!kh_placement_is_in_target(one->credential->placement))
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
