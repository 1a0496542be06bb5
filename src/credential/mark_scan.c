/*
 * mark_scan.c - finds marks in content that comes in pieces, in constant memory
 *
 * Each piece is searched by itself. For a mark that begins in the piece before, a copy of that
 * piece's last bytes and this one's first is searched. No encoder escapes capital letters or
 * digits, so an escape of one (%41, \u0041) is an attempt to hide something. From there on the text
 * is also read with its escapes undone, byte by byte, until none has come for a while.
 */
#include "placeholder_internal.h"

enum { PLAIN_MOST = 256 };

/* ---- escapes ---- */

enum escape { ESCAPE_NONE = 0, ESCAPE_PART, ESCAPE_WHOLE };

/* What stands at the beginning: *len bytes that mean *c; or as much as there is of one. Above 0xff
 * nothing is meant that is sought. */
static enum escape read_escape(struct kh_slice text, size_t *len, char *c)
{
	unsigned value = 0;
	size_t at = 1, digits = 2;

	if (text.ptr[0] == '\\') {
		if (text.len < 2)
			return ESCAPE_PART;
		if (text.ptr[1] == '/') {
			*len = 2;
			*c = '/';
			return ESCAPE_WHOLE;
		}
		if (text.ptr[1] != 'u')
			return ESCAPE_NONE;
		at = 2;
		digits = 4;
	} else if (text.ptr[0] != '%') {
		return ESCAPE_NONE;
	}
	for (size_t i = 0; i < digits; i++) {
		if (at + i == text.len)
			return ESCAPE_PART;
		int digit = kh_hex_value(text.ptr[at + i]);
		if (digit < 0)
			return ESCAPE_NONE;
		value = value << 4 | (unsigned)digit;
	}
	*len = at + digits;
	*c = (char)value;
	return value <= 0xff ? ESCAPE_WHOLE : ESCAPE_NONE;
}

static bool is_of_marks(char c)
{
	return (c >= 'A' && c <= 'Z') || kh_is_digit(c);
}

size_t kh_mark_unescape(struct kh_slice text, char *out)
{
	size_t len = 0;
	bool any = false;

	if (text.len == 0 ||
	    (!memchr(text.ptr, '%', text.len) && !memchr(text.ptr, '\\', text.len)))
		return 0;
	for (size_t i = 0; i < text.len;) {
		size_t step = 1;
		char c = text.ptr[i];
		if ((c == '%' || c == '\\') &&
		    read_escape(kh_slice_sub(text, i, text.len), &step, &c) == ESCAPE_WHOLE)
			any = true;
		else
			step = 1;
		out[len++] = c;
		i += step;
	}
	return any ? len : 0;
}

/* ---- with escapes undone ---- */

struct told {
	struct kh_mark_scan *scan;
	kh_mark_fn *fn;
	void *arg;
};

/* All that begin in the first `most` bytes of the text. */
static bool tell_all(const struct told *t, struct kh_slice text, size_t most)
{
	struct kh_mark mark;

	for (size_t at = 0; kh_marks_find(t->scan->marks, text, &at, &mark);) {
		if (mark.begin >= most)
			return true;
		if (!t->fn(&mark, t->arg) || t->scan->eager)
			return false;
	}
	return true;
}

static bool put_window(const struct told *t, char c)
{
	struct kh_mark_scan *scan = t->scan;

	if (scan->window_len == sizeof(scan->window)) {
		if (!tell_all(t, kh_slice_of(scan->window, sizeof(scan->window)), KH_MARK_SPAN))
			return false;
		memmove(scan->window, scan->window + KH_MARK_SPAN, KH_MARK_SPAN);
		scan->window_len = KH_MARK_SPAN;
	}
	scan->window[scan->window_len++] = c;
	return true;
}

static bool flush_window(const struct told *t)
{
	struct kh_slice window = kh_slice_of(t->scan->window, t->scan->window_len);

	return tell_all(t, window, window.len);
}

/* `escape` was the beginning of one, and is none. */
static bool give_back(const struct told *t)
{
	bool ok = true;

	for (size_t i = 0; ok && i < t->scan->escape_len; i++)
		ok = put_window(t, t->scan->escape[i]);
	t->scan->escape_len = 0;
	return ok;
}

static bool unescape_byte(const struct told *t, char byte)
{
	struct kh_mark_scan *scan = t->scan;
	size_t len = 0;
	char c = byte;

	if (scan->plain_run < UINT16_MAX)
		scan->plain_run++;
	if (scan->escape_len == 0 && byte != '%' && byte != '\\')
		return put_window(t, byte);
	scan->escape[scan->escape_len++] = byte;
	switch (read_escape(kh_slice_of(scan->escape, scan->escape_len), &len, &c)) {
	case ESCAPE_PART:
		return true;
	case ESCAPE_WHOLE:
		scan->escape_len = 0;
		if (is_of_marks(c))
			scan->plain_run = 0;
		return put_window(t, c);
	case ESCAPE_NONE:
		break;
	}
	if (byte == '%' || byte == '\\') { /* another one may begin with it */
		scan->escape_len--;
		if (!give_back(t))
			return false;
		scan->escape[scan->escape_len++] = byte;
		return true;
	}
	return give_back(t);
}

/* Could an escape of a mark's character begin with this? */
static bool may_escape(struct kh_slice text, size_t at)
{
	if (text.len - at < 3)
		return false;
	if (text.ptr[at] == '%')
		return text.ptr[at + 1] >= '3' && text.ptr[at + 1] <= '5';
	return text.ptr[at + 1] == 'u' && text.ptr[at + 2] == '0';
}

/* Where the first escape of a mark's character begins; text.len: nowhere. */
static size_t find_escape(struct kh_slice text)
{
	static const char lead[] = { '%', '\\' };
	size_t first = text.len;

	for (size_t l = 0; l < sizeof(lead) && text.len > 0; l++) {
		const char *end = text.ptr + first, *at = text.ptr;
		while ((at = memchr(at, lead[l], (size_t)(end - at))) != NULL) {
			size_t len, here = (size_t)(at - text.ptr);
			char c;
			if (may_escape(text, here) &&
			    read_escape(kh_slice_sub(text, here, text.len), &len, &c) ==
				    ESCAPE_WHOLE &&
			    is_of_marks(c)) {
				first = here;
				break;
			}
			at++;
		}
	}
	return first;
}

/* With what may be its mark's beginning: from byte `at` of the piece on, or the piece before. */
static bool begin_unescaping(const struct told *t, size_t at)
{
	struct kh_mark_scan *scan = t->scan;
	bool ok = true;

	scan->unescaping = true;
	scan->plain_run = 0;
	scan->window_len = scan->escape_len = 0;
	for (size_t i = 0; ok && at == 0 && i < scan->tail_len; i++)
		ok = unescape_byte(t, scan->tail[i]);
	return ok;
}

static bool unescape(const struct told *t, struct kh_slice text)
{
	struct kh_mark_scan *scan = t->scan;

	for (size_t i = 0; i < text.len;) {
		if (!scan->unescaping) {
			size_t at = i + find_escape(kh_slice_sub(text, i, text.len));
			if (at == text.len)
				return true;
			i = at > i + KH_MARK_NEEDLE_MOST ? at - KH_MARK_NEEDLE_MOST : i;
			if (!begin_unescaping(t, i))
				return false;
		}
		if (!unescape_byte(t, text.ptr[i++]))
			return false;
		if (scan->plain_run > PLAIN_MOST) {
			scan->unescaping = false;
			if (!flush_window(t))
				return false;
		}
	}
	return !scan->unescaping || !scan->eager || flush_window(t);
}

/* ---- as it is ---- */

static bool is_whole(const struct kh_mark *mark)
{
	const struct kh_mark_form *form = &kh_mark_forms[mark->class];

	return mark->len >= form->owner + form->name;
}

/* What is behind it may still come. Return: it waits for that. */
static bool hold(struct kh_mark_scan *scan, const struct kh_mark *mark, struct kh_slice text)
{
	size_t len = text.len - mark->begin;

	if (scan->eager || is_whole(mark) || len >= KH_MARK_SPAN)
		return false;
	for (size_t i = 0; i < KH_MARK_PENDING; i++) {
		if (scan->pending_len[i] > 0)
			continue;
		memcpy(scan->pending[i], text.ptr + mark->begin, len);
		scan->pending_len[i] = (uint8_t)len;
		return true;
	}
	return false;
}

/* Marks that begin before `most` and end behind `least`. */
static bool search(const struct told *t, struct kh_slice text, size_t least, size_t most)
{
	struct kh_mark_scan *scan = t->scan;
	struct kh_mark mark;

	for (size_t at = 0; kh_marks_find(scan->marks, text, &at, &mark);) {
		if (mark.begin >= most)
			break;
		if (at <= least || hold(scan, &mark, text))
			continue;
		if (!t->fn(&mark, t->arg) || scan->eager)
			return false;
	}
	return true;
}

static bool complete_one(const struct told *t, size_t i, struct kh_slice piece)
{
	struct kh_mark_scan *scan = t->scan;
	size_t len = scan->pending_len[i], room = KH_MARK_SPAN - len;
	size_t take = piece.len < room ? piece.len : room;
	struct kh_mark mark;
	size_t at = 0;

	if (len == 0)
		return true;
	if (take > 0)
		memcpy(scan->pending[i] + len, piece.ptr, take);
	len += take;
	scan->pending_len[i] = (uint8_t)len;
	if (len < KH_MARK_SPAN && !scan->ended)
		return true;
	scan->pending_len[i] = 0;
	return !kh_marks_find(scan->marks, kh_slice_of(scan->pending[i], len), &at, &mark) ||
	       t->fn(&mark, t->arg);
}

/* Return: false: no more. */
static bool complete(const struct told *t, struct kh_slice piece)
{
	bool ok = true;

	for (size_t i = 0; ok && i < KH_MARK_PENDING; i++)
		ok = complete_one(t, i, piece);
	return ok;
}

static void keep_tail(struct kh_mark_scan *scan, struct kh_slice piece)
{
	if (piece.len >= sizeof(scan->tail)) {
		memcpy(scan->tail, piece.ptr + piece.len - sizeof(scan->tail), sizeof(scan->tail));
		scan->tail_len = sizeof(scan->tail);
		return;
	}
	size_t over = scan->tail_len + piece.len > sizeof(scan->tail)
			      ? scan->tail_len + piece.len - sizeof(scan->tail)
			      : 0;
	memmove(scan->tail, scan->tail + over, scan->tail_len - over);
	memcpy(scan->tail + scan->tail_len - over, piece.ptr, piece.len);
	scan->tail_len = (uint8_t)(scan->tail_len - over + piece.len);
}

bool kh_mark_scan_feed(struct kh_mark_scan *scan, struct kh_slice piece, kh_mark_fn *fn, void *arg)
{
	struct told t = { scan, fn, arg };
	char joint[KH_MARK_NEEDLE_MOST + KH_MARK_SPAN];
	size_t head = piece.len < KH_MARK_SPAN ? piece.len : KH_MARK_SPAN;
	size_t before = scan->tail_len;

	if (piece.len == 0)
		return true;
	memcpy(joint, scan->tail, before);
	memcpy(joint + before, piece.ptr, head);
	struct kh_slice both = kh_slice_of(joint, before + head);
	/* An escape that the edge cuts is seen in the joint; what is undone goes on from there. */
	bool cut = !scan->unescaping && before > 0 && find_escape(both) < before;
	bool ok = complete(&t, piece) && (before == 0 || search(&t, both, before, before)) &&
		  search(&t, piece, 0, piece.len) && (!cut || begin_unescaping(&t, 0)) &&
		  unescape(&t, piece);
	keep_tail(scan, piece);
	return ok;
}

bool kh_mark_scan_end(struct kh_mark_scan *scan, kh_mark_fn *fn, void *arg)
{
	struct told t = { scan, fn, arg };

	scan->ended = true;
	return complete(&t, kh_slice_of("", 0)) &&
	       (!scan->unescaping || (give_back(&t) && flush_window(&t)));
}
