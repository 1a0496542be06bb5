/* path.c - the one normal form in which request paths and rule paths meet
 *
 * A path is checked in one form and sent as it came, so two things must never happen: that two
 * spellings which a server takes for the same are different here, and that a server climbs out of
 * what was checked. The first is answered by decoding what RFC 3986 §6.2.2 says may always be
 * decoded; the second by refusing every dot segment that any reading could find.
 */
#include <keyhole/path.h>

#include <stdlib.h>

#include <keyhole/escape.h>

static bool is_unreserved(char c)
{
	return kh_is_alpha(c) || kh_is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

/* RFC 3986 pchar without the escape, '/', and the brackets, which many clients send as they are. */
static bool is_path_byte(char c)
{
	return is_unreserved(c) || (c != '\0' && strchr("/:@!$&'()*+,;=[]", c) != NULL);
}

static bool refuse(struct kh_err *err, struct kh_slice raw, const char *why)
{
	return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "path \"%s\": %s", kh_esc(raw), why);
}

static bool is_escape(struct kh_slice s, size_t at, const char *digits)
{
	return s.len - at >= 3 && s.ptr[at] == '%' && memcmp(s.ptr + at + 1, digits, 2) == 0;
}

/* Bytes of the separator at `at` in a normal form, counting those that a server may decode. */
static size_t separator(struct kh_slice s, size_t at)
{
	if (s.ptr[at] == '/')
		return 1;
	return is_escape(s, at, "2F") || is_escape(s, at, "5C") ? 3 : 0;
}

/* "." and "..", also with parameters behind them, which some servers drop before they climb. */
static bool is_dot_segment(struct kh_slice segment)
{
	size_t dots = 0;
	while (dots < segment.len && segment.ptr[dots] == '.')
		dots++;
	if (dots == 0 || dots > 2)
		return false;
	return dots == segment.len || segment.ptr[dots] == ';' || is_escape(segment, dots, "3B");
}

static bool has_dot_segment(struct kh_slice normal)
{
	size_t start = 0;
	for (size_t i = 0; i < normal.len;) {
		size_t width = separator(normal, i);
		if (width == 0) {
			i++;
			continue;
		}
		if (is_dot_segment(kh_slice_sub(normal, start, i)))
			return true;
		i += width;
		start = i;
	}
	return is_dot_segment(kh_slice_sub(normal, start, normal.len));
}

/* Decodes every escape in place, and a backslash is a slash. Return: whether there was an escape.
 */
static bool decode_again(char *text, size_t *len)
{
	bool any = false;
	size_t to = 0;
	for (size_t i = 0; i < *len; i++) {
		int high = *len - i >= 3 ? kh_hex_value(text[i + 1]) : -1;
		int low = *len - i >= 3 ? kh_hex_value(text[i + 2]) : -1;
		char c = text[i];
		if (c == '%' && high >= 0 && low >= 0) {
			c = (char)(high * 16 + low);
			i += 2;
			any = true;
		}
		text[to++] = c == '\\' ? '/' : c;
	}
	*len = to;
	return any;
}

/*
 * Some servers decode what a front end has decoded already: "%252e%252e" climbs there. An escaped
 * percent sign is rare; behind one, what further decodings would make is looked at too, and a path
 * that is not plain after a few of them is nothing that a client means.
 */
static const char *climbs_when_decoded_again(struct kh_slice normal)
{
	enum { MOST_TIMES = 4 };
	if (!memmem(normal.ptr, normal.len, "%25", 3))
		return NULL;
	char *text = malloc(normal.len);
	if (!text)
		return "no memory to look at its escapes";
	memcpy(text, normal.ptr, normal.len);
	size_t len = normal.len;
	const char *why = NULL;
	for (int times = 0; !why && decode_again(text, &len); times++) {
		if (times == MOST_TIMES)
			why = "escaped over and over";
		else if (has_dot_segment(kh_slice_of(text, len)))
			why = "a dot segment, once it is decoded again";
	}
	free(text);
	return why;
}

/* Writes one escape (at least a '%') to `to`. Return: bytes written, 0 with *why. */
static size_t put_escape(struct kh_slice raw, size_t at, char *to, const char **why)
{
	int high = raw.len - at >= 3 ? kh_hex_value(raw.ptr[at + 1]) : -1;
	int low = raw.len - at >= 3 ? kh_hex_value(raw.ptr[at + 2]) : -1;
	if (high < 0 || low < 0) {
		*why = "'%' must be followed by two hex digits";
		return 0;
	}
	int byte = high * 16 + low;
	if (byte < 0x20 || byte == 0x7f) {
		*why = "an encoded control byte";
		return 0;
	}
	if (byte < 0x80 && is_unreserved((char)byte)) {
		to[0] = (char)byte;
		return 1;
	}
	to[0] = '%';
	to[1] = "0123456789ABCDEF"[high];
	to[2] = "0123456789ABCDEF"[low];
	return 3;
}

bool kh_path_normalise(struct kh_slice raw, struct kh_buf *out, struct kh_err *err)
{
	if (raw.len == 0 || raw.ptr[0] != '/')
		return refuse(err, raw, "must begin with '/'");
	char *to = kh_buf_reserve(out, raw.len);
	if (!to)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "path of %zu bytes: no room", raw.len);
	size_t len = 0;
	for (size_t i = 0; i < raw.len;) {
		char c = raw.ptr[i];
		if (c == '%') {
			const char *why = NULL;
			size_t wrote = put_escape(raw, i, to + len, &why);
			if (wrote == 0)
				return refuse(err, raw, why);
			len += wrote;
			i += 3;
			continue;
		}
		if (c == '\\')
			return refuse(err, raw, "a backslash");
		if (!is_path_byte(c))
			return refuse(err, raw, "a byte that has no place in a path (RFC 3986)");
		to[len++] = c;
		i++;
	}
	if (has_dot_segment(kh_slice_of(to, len)))
		return refuse(err, raw, "a dot segment");
	const char *climbs = climbs_when_decoded_again(kh_slice_of(to, len));
	if (climbs)
		return refuse(err, raw, climbs);
	kh_buf_commit(out, len);
	return true;
}

bool kh_path_slashed(struct kh_slice normal, struct kh_buf *out, bool *differs)
{
	*differs = false;
	for (size_t i = 0; i < normal.len && !*differs; i++)
		*differs = separator(normal, i) == 3;
	if (!*differs)
		return true;
	/* `normal` may be a view of `out`, which moves when it grows. */
	bool inside = out->data && normal.ptr >= out->data && normal.ptr < out->data + out->alloc;
	size_t offset = inside ? (size_t)(normal.ptr - out->data) : 0;
	size_t head = out->head;
	char *to = kh_buf_reserve(out, normal.len);
	if (!to)
		return false;
	if (inside)
		normal.ptr = out->data + out->head + (offset - head);
	size_t len = 0;
	for (size_t i = 0; i < normal.len;) {
		size_t width = separator(normal, i);
		to[len++] = width ? '/' : normal.ptr[i];
		i += width ? width : 1;
	}
	kh_buf_commit(out, len);
	return true;
}
