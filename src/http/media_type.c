/* media_type.c - parses a Content-Type strictly */
#include <keyhole/http/media_type.h>

#include "chars.h"

/* A token, or a quoted string that needs no quoted pair and holds no separator. */
static bool read_text(struct kh_slice *text)
{
	if (kh_chars_are_token(*text))
		return true;
	if (text->len < 2 || text->ptr[0] != '"' || text->ptr[text->len - 1] != '"')
		return false;
	*text = kh_slice_sub(*text, 1, text->len - 1);
	for (size_t i = 0; i < text->len; i++)
		if (text->ptr[i] < 0x20 || text->ptr[i] >= 0x7f || text->ptr[i] == '"' ||
		    text->ptr[i] == '\\' || text->ptr[i] == ',')
			return false;
	return true;
}

static bool read_parameter(struct kh_slice one, struct kh_slice *charset)
{
	static const struct kh_slice word = KH_SLICE_INIT("charset");
	size_t equals = kh_slice_find(one, '=', 0);
	struct kh_slice name = kh_slice_trim(kh_slice_sub(one, 0, equals));
	struct kh_slice value = kh_slice_trim(kh_slice_sub(one, equals + 1, one.len));
	if (one.len == 0)
		return true;
	if (!kh_chars_are_token(name) || (value.len > 0 && !read_text(&value)))
		return false;
	if (!kh_slice_eq_nocase(kh_slice_sub(name, 0, word.len), word))
		return true;
	if (name.len > word.len || charset->ptr || value.len == 0)
		return false;
	*charset = value;
	return true;
}

bool kh_media_type_read(struct kh_slice value, struct kh_slice *type, struct kh_slice *charset)
{
	size_t end = kh_slice_find(value, ';', 0);
	*type = kh_slice_trim(kh_slice_sub(value, 0, end));
	*charset = kh_slice_of(NULL, 0);
	size_t slash = kh_slice_find(*type, '/', 0);
	if (!kh_chars_are_token(kh_slice_sub(*type, 0, slash)) ||
	    !kh_chars_are_token(kh_slice_sub(*type, slash + 1, type->len)))
		return false;
	while (end < value.len) {
		size_t next = kh_slice_find(value, ';', end + 1);
		if (!read_parameter(kh_slice_trim(kh_slice_sub(value, end + 1, next)), charset))
			return false;
		end = next;
	}
	return true;
}
