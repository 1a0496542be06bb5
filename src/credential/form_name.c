/*
 * form_name.c - decodes a name in a form byte by byte
 *
 * An escape is undone as soon as its last digit has come. The result may be a digit or the '%' of
 * an outer escape, so the end of the text is checked again. However long a chain of escapes is,
 * only what it stands for so far is kept.
 */
#include <keyhole/credential/body.h>
#include <keyhole/base/spelling.h>

void kh_form_name_begin(struct kh_form_name *name)
{
	name->len = 0;
	name->full = false;
}

/* A character beyond ASCII at the end, once all of its bytes are there, that is as good as one that
 * may be around a name: taken off. */
static bool take_wide(struct kh_form_name *name, char *c)
{
	enum { WIDEST = 4 }; /* a character in UTF-8 */
	struct kh_slice text = kh_form_name_text(name);
	for (size_t width = 2; width <= WIDEST && width <= text.len; width++) {
		size_t at = text.len - width;
		if ((unsigned char)text.ptr[at] < 0xc0)
			continue;
		struct kh_character wide = kh_spelling_at(text, at, KH_PLUS_IS_PLUS);
		if (wide.width != width || !kh_spelling_is_front((char)wide.byte))
			continue;
		name->len = at;
		*c = (char)wide.byte;
		return true;
	}
	return false;
}

static void put(struct kh_form_name *name, char c)
{
	if (kh_spelling_replaces_front(kh_form_name_text(name), c))
		name->len = 0;
	if (kh_spelling_fills_no_name(kh_form_name_text(name), c))
		return;
	if (name->len == sizeof(name->text)) {
		name->full = true;
		return;
	}
	name->text[name->len++] = c;
}

/* `c` is decoded. */
static void append(struct kh_form_name *name, char c)
{
	put(name, c);
	if ((unsigned char)c >= 0x80 && !name->full && take_wide(name, &c))
		put(name, c);
}

/* "%hh" at the end of the text: takes it off. */
static bool take_escape(struct kh_form_name *name, char *c)
{
	const char *end = name->text + name->len;
	if (name->len < 3 || end[-3] != '%')
		return false;
	int high = kh_hex_value(end[-2]), low = kh_hex_value(end[-1]);
	if (high < 0 || low < 0)
		return false;
	name->len -= 3;
	*c = (char)(high * 16 + low);
	return true;
}

void kh_form_name_byte(struct kh_form_name *name, char c)
{
	if (name->full)
		return;
	append(name, c == '+' ? ' ' : c);
	while ((kh_hex_value(c) >= 0) && take_escape(name, &c))
		append(name, c);
}

bool kh_form_name_is(const struct kh_form_name *name, struct kh_slice wanted)
{
	return kh_spelling_is_form_name(kh_form_name_text(name), wanted);
}

struct kh_slice kh_form_name_text(const struct kh_form_name *name)
{
	return kh_slice_of(name->text, name->len);
}
