/* path.c - the normal form of paths, in which a request's path is compared with a rule's
 *
 * A path is checked in one form and sent as it came. So two things must never happen: that two
 * spellings which a server takes for the same path are different here, and that a server climbs out
 * of the path that was checked. Against the first, escapes that RFC 3986 §6.2.2 says are equivalent
 * are decoded. Against the second, every dot segment that any reading could find is refused.
 */
#include <keyhole/base/path.h>

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/spelling.h>

/* RFC 3986 pchar without the escape, '/', and the brackets, which many clients send as they are. */
static bool is_path_byte(char c)
{
	return kh_is_unreserved(c) || (c != '\0' && strchr("/:@!$&'()*+,;=[]", c) != NULL);
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

/* "." and "..", also with parameters behind them, or with blanks (and dots behind those), which
 * some servers drop before they climb: Windows has "..%20" for "..". A '+' is a blank for servers
 * that decode a path as they decode a query; behind a single dot, which climbs nowhere, it is taken
 * as it is. */
static bool is_dot_segment(struct kh_slice segment)
{
	size_t dots = 0;
	while (dots < segment.len && segment.ptr[dots] == '.')
		dots++;
	if (dots == 0 || dots > 2)
		return false;
	size_t end = dots;
	while (end < segment.len) {
		bool blank = segment.ptr[end] == ' ' || is_escape(segment, end, "20") ||
			     (segment.ptr[end] == '+' && dots == 2);
		if (!blank && (segment.ptr[end] != '.' || end == dots))
			break;
		end += segment.ptr[end] == '%' ? 3 : 1;
	}
	return end == segment.len || segment.ptr[end] == ';' || is_escape(segment, end, "3B");
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
		char c = text[i];
		int byte = c == '%' ? kh_percent_byte(kh_slice_of(text, *len), i) : -1;
		if (byte >= 0) {
			c = (char)byte;
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

/* A byte that begins an overlong form of a dot or slash, and a second one that is no part of it: a
 * decoder that takes any byte there reads what the second one is. */
static bool is_loose_overlong(struct kh_slice normal, size_t at)
{
	return at + 3 < normal.len && is_escape(normal, at, "C0") &&
	       (normal.ptr[at + 3] == '.' || normal.ptr[at + 3] == '/');
}

/* What a server reads that undoes every escape, as often as it is there, and takes overlong and
 * full-width forms for their characters. `to` has room for normal.len bytes. Return: bytes written,
 * SIZE_MAX for a control byte. */
static size_t decode_deeply(struct kh_slice normal, char *to)
{
	size_t len = 0;
	for (size_t at = 0; at < normal.len;) {
		if (is_loose_overlong(normal, at)) {
			to[len++] = normal.ptr[at + 3];
			at += 4;
			continue;
		}
		struct kh_character c = kh_spelling_at(normal, at, KH_PLUS_IS_PLUS);
		bool slash = c.byte == '/' || c.byte == '\\';
		if (c.byte < 0x20 || c.byte == 0x7f)
			return SIZE_MAX;
		if (slash || kh_is_unreserved((char)c.byte)) {
			to[len++] = slash ? '/' : (char)c.byte;
		} else if (c.width <= 3) { /* as the normal form has it */
			memcpy(to + len, normal.ptr + at, c.width);
			len += c.width;
		} else {
			kh_percent_escape(c.byte, to + len);
			len += 3;
		}
		at += c.width;
	}
	return len;
}

/* An escaped percent sign, or one of a byte that may begin a sequence of UTF-8. */
static bool may_decode_further(struct kh_slice normal)
{
	for (size_t i = 0; i + 2 < normal.len; i++)
		if (normal.ptr[i] == '%' &&
		    (is_escape(normal, i, "25") || strchr("CDEF", normal.ptr[i + 1])))
			return true;
	return false;
}

/* As climbs_when_decoded_again, for other spellings of dots: "%C0%AE%C0%AE", full-width ones. */
static const char *climbs_in_another_spelling(struct kh_slice normal)
{
	if (!may_decode_further(normal))
		return NULL;
	char *text = malloc(normal.len);
	if (!text)
		return "no memory to look at its escapes";
	size_t len = decode_deeply(normal, text);
	const char *why = NULL;
	if (len == SIZE_MAX)
		why = "a control byte, once it is decoded again";
	else if (has_dot_segment(kh_slice_of(text, len)))
		why = "a dot segment in another spelling";
	free(text);
	return why;
}

/* Writes one escape (at least a '%') to `to`. Return: bytes written, 0 with *why. */
static size_t put_escape(struct kh_slice raw, size_t at, char *to, const char **why)
{
	int byte = kh_percent_byte(raw, at);
	if (byte < 0) {
		*why = "'%' must be followed by two hex digits";
		return 0;
	}
	if (byte < 0x20 || byte == 0x7f) {
		*why = "an encoded control byte";
		return 0;
	}
	if (byte < 0x80 && kh_is_unreserved((char)byte)) {
		to[0] = (char)byte;
		return 1;
	}
	kh_percent_escape((unsigned char)byte, to);
	return 3;
}

const char *kh_path_misplaced(char out[KH_MISPLACED_BYTES], char c, const char *where)
{
	unsigned byte = (unsigned char)c;
	if (byte > 0x20 && byte < 0x7f)
		(void)snprintf(out, KH_MISPLACED_BYTES,
			       "'%c' has no place in a %s (RFC 3986): write it as %%%02X", c, where,
			       byte);
	else
		(void)snprintf(out, KH_MISPLACED_BYTES,
			       "a byte that has no place in a %s (RFC 3986): write it as %%%02X",
			       where, byte);
	return out;
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
		if (!is_path_byte(c)) {
			char why[KH_MISPLACED_BYTES];
			return refuse(err, raw, kh_path_misplaced(why, c, "path"));
		}
		to[len++] = c;
		i++;
	}
	if (has_dot_segment(kh_slice_of(to, len)))
		return refuse(
			err, raw,
			"a dot segment: send the path that is meant, without \".\" and \"..\"");
	const char *climbs = climbs_when_decoded_again(kh_slice_of(to, len));
	if (!climbs)
		climbs = climbs_in_another_spelling(kh_slice_of(to, len));
	if (climbs)
		return refuse(err, raw, climbs);
	kh_buf_commit(out, len);
	return true;
}

/* Room for normal.len bytes at the end of `out`. `normal` may be a view of `out`, which moves when
 * it grows. Return: NULL over the cap or without memory. */
static char *make_room(struct kh_slice *normal, struct kh_buf *out)
{
	bool inside = out->data && normal->ptr >= out->data && normal->ptr < out->data + out->alloc;
	size_t offset = inside ? (size_t)(normal->ptr - out->data) : 0;
	size_t head = out->head;
	char *to = kh_buf_reserve(out, normal->len);
	if (to && inside)
		normal->ptr = out->data + out->head + (offset - head);
	return to;
}

bool kh_path_slashed(struct kh_slice normal, struct kh_buf *out, bool *differs)
{
	*differs = false;
	for (size_t i = 0; i < normal.len && !*differs; i++)
		*differs = separator(normal, i) == 3;
	if (!*differs)
		return true;
	char *to = make_room(&normal, out);
	if (!to)
		return false;
	size_t len = 0;
	for (size_t i = 0; i < normal.len;) {
		size_t width = separator(normal, i);
		to[len++] = width ? '/' : normal.ptr[i];
		i += width ? width : 1;
	}
	kh_buf_commit(out, len);
	return true;
}

bool kh_path_decoded(struct kh_slice normal, struct kh_buf *out, bool *differs)
{
	*differs = false;
	if (!may_decode_further(normal))
		return true;
	char *to = make_room(&normal, out);
	if (!to)
		return false;
	size_t len = decode_deeply(normal, to);
	/* Of the same length nothing was decoded but single escapes, which the normal form keeps.
	 */
	*differs = len != SIZE_MAX && len != normal.len;
	if (*differs)
		kh_buf_commit(out, len);
	return true;
}

/* Where the first of these marks stands, escaped; path.len: nowhere. *behind: where it ends. */
static size_t find_mark(struct kh_slice path, const char *marks, size_t *behind)
{
	size_t at = kh_slice_find(path, '%', 0);
	while (at < path.len) {
		struct kh_character c = kh_spelling_at(path, at, KH_PLUS_IS_PLUS);
		*behind = at + c.width;
		if (c.byte != '\0' && strchr(marks, c.byte))
			return at;
		at = kh_slice_find(path, '%', *behind);
	}
	return path.len;
}

bool kh_path_cut_query(struct kh_slice normal, struct kh_buf *out, bool *cut)
{
	size_t behind;
	*cut = find_mark(normal, "?#", &behind) < normal.len;
	if (!*cut)
		return true;
	char *to = make_room(&normal, out);
	if (!to)
		return false;
	size_t len = 0;
	for (size_t at = behind; at < normal.len;) {
		struct kh_character c = kh_spelling_at(normal, at, KH_PLUS_IS_PLUS);
		to[len++] = c.byte == '?' || c.byte == '#' ? '&' : (char)c.byte;
		at += c.width;
	}
	kh_buf_commit(out, len);
	return true;
}

void kh_path_cuts_add(struct kh_path_cuts *cuts, struct kh_slice path)
{
	static const char *const marks[] = { "?", "#" };
	for (size_t i = 0; path.ptr && i < sizeof(marks) / sizeof(marks[0]); i++) {
		size_t behind, end = find_mark(path, marks[i], &behind);
		bool there = end == path.len || cuts->n == KH_PATH_CUTS;
		for (size_t j = 0; j < cuts->n && !there; j++)
			there = kh_slice_eq(cuts->list[j].path, kh_slice_sub(path, 0, end));
		if (!there)
			cuts->list[cuts->n++] =
				(struct kh_path_cut){ kh_slice_sub(path, 0, end),
						      kh_slice_sub(path, behind, path.len) };
	}
}

bool kh_path_readings_next(const struct kh_path_readings *readings, size_t *at,
			   struct kh_slice *out)
{
	const struct kh_slice whole[] = { readings->path, readings->slashed, readings->decoded };
	enum { WHOLE = sizeof(whole) / sizeof(whole[0]) };
	while (*at < WHOLE) {
		size_t nth = (*at)++;
		*out = whole[nth];
		if (nth == 0 || out->ptr)
			return true;
	}
	if (!readings->cuts || *at - WHOLE >= readings->cuts->n)
		return false;
	*out = readings->cuts->list[(*at)++ - WHOLE].path;
	return true;
}
