/* escape.c - makes text that others wrote safe to show */
#include <keyhole/base/escape.h>

#include <stdio.h>

#include <keyhole/base/encode.h>

/* A `...` at the end, and never a cut escape. */
static const char mark[] = "...";
enum { MARK_BYTES = sizeof(mark) - 1, RING = 8 };

static size_t escape_byte(char out[5], unsigned char c)
{
	if (c == '\\' || c == '"') {
		out[0] = '\\';
		out[1] = (char)c;
		return 2;
	}
	if (c >= 0x20 && c < 0x7f) {
		out[0] = (char)c;
		return 1;
	}
	out[0] = '\\';
	out[1] = 'x';
	out[2] = kh_hex_digits[c >> 4];
	out[3] = kh_hex_digits[c & 15];
	return 4;
}

const char *kh_esc(struct kh_slice s)
{
	static _Thread_local char ring[RING][KH_ESC_MAX_BYTES + 1];
	static _Thread_local unsigned turn;
	char *out = ring[turn++ % RING];
	size_t len = 0, whole = 0; /* `whole`: where the mark still fits behind it */
	for (size_t i = 0; i < s.len; i++) {
		char one[5];
		size_t n = escape_byte(one, (unsigned char)s.ptr[i]);
		if (len + n > KH_ESC_MAX_BYTES) {
			memcpy(out + whole, mark, MARK_BYTES);
			len = whole + MARK_BYTES;
			break;
		}
		memcpy(out + len, one, n);
		len += n;
		if (len + MARK_BYTES <= KH_ESC_MAX_BYTES)
			whole = len;
	}
	out[len] = 0;
	return out;
}

const char *kh_esc_str(const char *str)
{
	return kh_esc(kh_slice_str(str));
}

/* No shell reads these as anything else, wherever they are in a word. */
static bool is_plain_in_shell(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!kh_is_alpha(*c) && !kh_is_digit(*c) && !strchr("/._-+,:@", *c))
			return false;
	return *text != '\0';
}

const char *kh_esc_word(const char *str)
{
	static const char quote[] = "'\\''";
	enum { WORDS = 4, QUOTE = sizeof(quote) - 1 };
	static _Thread_local char words[WORDS][QUOTE * KH_ESC_MAX_BYTES + 3];
	static _Thread_local unsigned turn;
	const char *text = kh_esc_str(str);
	if (is_plain_in_shell(text))
		return text;
	char *word = words[turn++ % WORDS], *out = word;
	*out++ = '\'';
	for (; *text; text++) {
		if (*text != '\'') {
			*out++ = *text;
			continue;
		}
		memcpy(out, quote, QUOTE);
		out += QUOTE;
	}
	*out++ = '\'';
	*out = '\0';
	return word;
}

size_t kh_utf8_decode(const unsigned char *s, size_t len, uint32_t *out)
{
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n;
	uint32_t cp;
	if (s[0] < 0x80) {
		*out = s[0];
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		n = 2;
		cp = s[0] & 0x1fu;
	} else if ((s[0] & 0xf0) == 0xe0) {
		n = 3;
		cp = s[0] & 0x0fu;
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		n = 4;
		cp = s[0] & 0x07u;
	} else {
		return 0;
	}
	if (n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3fu);
	}
	if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	*out = cp;
	return n;
}

/* Unicode's Cc, Cf, Zl, Zp and Default_Ignorable_Code_Point, its noncharacters next to them, and
 * characters with a name of their own whose glyph is blank. */
bool kh_utf8_is_unseen(uint32_t cp)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x0, 0x1f },	      { 0x7f, 0x9f },	    { 0xad, 0xad },
		{ 0x34f, 0x34f },     { 0x600, 0x605 },	    { 0x61c, 0x61c },
		{ 0x6dd, 0x6dd },     { 0x70f, 0x70f },	    { 0x890, 0x891 },
		{ 0x8e2, 0x8e2 },     { 0x115f, 0x1160 },   { 0x17b4, 0x17b5 },
		{ 0x180b, 0x180f },   { 0x200b, 0x200f },   { 0x2028, 0x202e },
		{ 0x2060, 0x206f },   { 0x2800, 0x2800 },   { 0x3164, 0x3164 },
		{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },
		{ 0xfff0, 0xfffc },   { 0xfffe, 0xffff },   { 0x1107f, 0x1107f },
		{ 0x110bd, 0x110bd }, { 0x110cd, 0x110cd }, { 0x13430, 0x1343f },
		{ 0x16fe4, 0x16fe4 }, { 0x1bca0, 0x1bca3 }, { 0x1d159, 0x1d159 },
		{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
	};
	if (cp >= 0x20 && cp < 0x7f)
		return false;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]) && cp >= ranges[i].first; i++)
		if (cp <= ranges[i].last)
			return true;
	return false;
}

void kh_esc_clean(char *text)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = kh_utf8_decode((const unsigned char *)text + i, len - i, &cp);
		if (n && !kh_utf8_is_unseen(cp)) {
			i += n;
			continue;
		}
		size_t bad = n ? n : 1;
		memset(text + i, '?', bad);
		i += bad;
	}
}

/* Does an escape that begins before `at` end after it? A backslash before it is taken for one. */
static size_t escape_start(const char *text, size_t at)
{
	if (at >= 1 && text[at - 1] == '\\')
		return at - 1;
	for (size_t back = 2; back <= 3 && back <= at; back++)
		if (text[at - back] == '\\' && text[at - back + 1] == 'x')
			return at - back;
	return at;
}

void kh_esc_mark_cut(char *text)
{
	size_t len = strlen(text);
	if (len < MARK_BYTES)
		return;
	size_t at = len - MARK_BYTES;
	while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	memcpy(text + escape_start(text, at), mark, sizeof(mark));
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* All of these eight? What is not leaves the high bit of its byte set: it is there already, or
 * comes by adding one to DEL, or by a borrow where a byte is too small. A borrow may go on into the
 * next byte, which is then no worse than the one that it came from. */
static bool are_plain(const char *bytes)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t word;
	memcpy(&word, bytes, sizeof(word));
	uint64_t bad = word | (word + ones) | (word - ones * 0x20);
	bad |= ((word ^ (ones * '"')) - ones) | ((word ^ (ones * '\\')) - ones);
	return (bad & (ones * 0x80)) == 0;
}

/* A stretch that stays as it is. */
static size_t plain_run(struct kh_slice s, size_t from)
{
	size_t i = from;
	while (s.len - i >= 8 && are_plain(s.ptr + i))
		i += 8;
	/* The last few bytes as the end of a word that overlaps the one before. */
	if (s.len - i < 8 && s.len - from >= 8 && are_plain(s.ptr + s.len - 8))
		return s.len - from;
	while (i < s.len && is_plain((unsigned char)s.ptr[i]))
		i++;
	return i - from;
}

static bool put_json_escape(struct kh_buf *buf, uint32_t cp)
{
	switch (cp) {
	case '"':
		return kh_buf_append(buf, "\\\"", 2);
	case '\\':
		return kh_buf_append(buf, "\\\\", 2);
	case '\n':
		return kh_buf_append(buf, "\\n", 2);
	case '\r':
		return kh_buf_append(buf, "\\r", 2);
	case '\t':
		return kh_buf_append(buf, "\\t", 2);
	default:
		break;
	}
	if (cp < 0x10000)
		return kh_buf_printf(buf, "\\u%04x", (unsigned)cp);
	cp -= 0x10000;
	return kh_buf_printf(buf, "\\u%04x\\u%04x", (unsigned)(0xd800 | cp >> 10),
			     (unsigned)(0xdc00 | (cp & 0x3ff)));
}

static bool put_json_content(struct kh_buf *buf, struct kh_slice s)
{
	for (size_t i = 0; i < s.len;) {
		size_t run = plain_run(s, i);
		if (run) {
			if (!kh_buf_append(buf, s.ptr + i, run))
				return false;
			i += run;
			continue;
		}
		uint32_t cp = 0;
		size_t n = kh_utf8_decode((const unsigned char *)s.ptr + i, s.len - i, &cp);
		bool ok;
		if (n == 0)
			ok = kh_buf_append(buf, "\xef\xbf\xbd", 3);
		else if (cp == '"' || cp == '\\' || kh_utf8_is_unseen(cp))
			ok = put_json_escape(buf, cp);
		else
			ok = kh_buf_append(buf, s.ptr + i, n);
		if (!ok)
			return false;
		i += n ? n : 1;
	}
	return true;
}

/* Nearly always: nothing to be escaped. */
static bool put_plain(struct kh_buf *buf, struct kh_slice s)
{
	char *at = kh_buf_reserve(buf, s.len + 2);
	if (!at)
		return false;
	*at++ = '"';
	if (s.len)
		memcpy(at, s.ptr, s.len);
	at[s.len] = '"';
	kh_buf_commit(buf, s.len + 2);
	return true;
}

bool kh_json_string(struct kh_buf *buf, struct kh_slice s)
{
	size_t before = kh_buf_len(buf);
	if (plain_run(s, 0) == s.len)
		return put_plain(buf, s);
	if (kh_buf_append_char(buf, '"') && put_json_content(buf, s) &&
	    kh_buf_append_char(buf, '"'))
		return true;
	kh_buf_truncate(buf, before);
	return false;
}
