/*
 * spelling.c - the other ways in which a server may read a text
 *
 * A character is decoded in three steps. Escapes are undone, also those of the digits of an escape.
 * A UTF-8 sequence is put together, whether or not it is the shortest form. A character that some
 * library takes for an ASCII character becomes that one. Names are then compared character by
 * character.
 */
#include <keyhole/base/spelling.h>

/* How deep the digits of an escape may be escapes themselves. "%2525…" is not bounded by it. */
enum { DEEPEST = 4 };

static struct kh_character byte_at(struct kh_slice text, size_t at, unsigned depth)
{
	struct kh_character out = { 1, at < text.len ? (unsigned char)text.ptr[at] : 0 };
	if (at >= text.len || out.byte != '%' || depth == DEEPEST)
		return out;
	for (;;) {
		/* Most are followed by two plain digits. */
		size_t next = at + out.width;
		if (text.len - next < 2)
			return out;
		struct kh_character high = byte_at(text, next, depth + 1);
		int a = kh_hex_value((char)high.byte);
		if (a < 0 || next + high.width >= text.len)
			return out;
		struct kh_character low = byte_at(text, next + high.width, depth + 1);
		int b = kh_hex_value((char)low.byte);
		if (b < 0)
			return out;
		out.width += high.width + low.width;
		out.byte = (unsigned char)(a * 16 + b);
		if (out.byte != '%')
			return out;
	}
}

/* Alphabets of one character after the other that NFKC folds (Unicode, UnicodeData.txt). */
static unsigned char in_alphabet(uint32_t c)
{
	static const struct {
		uint32_t first, last, period;
		char ascii;
	} alphabets[] = {
		{ 0x2460, 0x2468, 9, '1' },    /* circled digits */
		{ 0x24b6, 0x24e9, 26, 'a' },   /* circled letters */
		{ 0x1d400, 0x1d6a3, 26, 'a' }, /* mathematical letters, large and small by turns */
		{ 0x1d7ce, 0x1d7ff, 10, '0' }, /* mathematical digits */
		{ 0x1f130, 0x1f149, 26, 'a' }, /* squared letters */
	};
	for (size_t i = 0; i < sizeof(alphabets) / sizeof(alphabets[0]); i++)
		if (c >= alphabets[i].first && c <= alphabets[i].last)
			return (unsigned char)((unsigned char)alphabets[i].ascii +
					       (c - alphabets[i].first) % alphabets[i].period);
	return 0;
}

/* U+2025 and U+FE30 are two dots each; one is enough for a dot segment. Blanks are those that .NET
 * and Java trim, which NFKC folds but for U+0085, U+1680, U+2028 and U+2029. */
unsigned char kh_spelling_ascii(uint32_t c)
{
	static const struct {
		uint16_t code;
		char ascii;
	} others[] = { { 0x85, ' ' },	 { 0xa0, ' ' },	  { 0x1680, ' ' }, { 0x2028, ' ' },
		       { 0x2029, ' ' },	 { 0x202f, ' ' }, { 0x205f, ' ' }, { 0xaa, 'a' },
		       { 0xb2, '2' },	 { 0xb3, '3' },	  { 0xb9, '1' },   { 0xba, 'o' },
		       { 0x130, 'i' },	 { 0x131, 'i' },  { 0x17f, 's' },  { 0x2024, '.' },
		       { 0x2025, '.' },	 { 0x2044, '/' }, { 0x212a, 'k' }, { 0x2215, '/' },
		       { 0x2216, '\\' }, { 0x3000, ' ' }, { 0xfe30, '.' }, { 0xfe52, '.' },
		       { 0xfe68, '\\' } };
	if (c < 0x80)
		return (unsigned char)c;
	if (c >= 0xff01 && c <= 0xff5e)
		return (unsigned char)(c - 0xfee0);
	if (c >= 0x2000 && c <= 0x200a)
		return ' ';
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].code == c)
			return (unsigned char)others[i].ascii;
	return in_alphabet(c);
}

/* A sequence that `first` begins, as one ASCII character. Return: whether it is one. */
static bool take_sequence(struct kh_slice text, size_t at, struct kh_character *first)
{
	unsigned char lead = first->byte;
	unsigned more = lead >= 0xf8 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0;
	size_t width = first->width;
	uint32_t code = lead & (0x3fu >> more);
	for (unsigned i = 0; i < more; i++) {
		if (at + width >= text.len)
			return false;
		struct kh_character next = byte_at(text, at + width, 0);
		if ((next.byte & 0xc0) != 0x80)
			return false;
		code = code << 6 | (next.byte & 0x3f);
		width += next.width;
	}
	unsigned char ascii = kh_spelling_ascii(code);
	/* U+0000 in two bytes is a NUL to Java. */
	if (more == 0 || (ascii == 0 && code != 0))
		return false;
	*first = (struct kh_character){ width, ascii };
	return true;
}

struct kh_character kh_spelling_at(struct kh_slice text, size_t at, enum kh_plus plus)
{
	struct kh_character out = byte_at(text, at, 0);
	if (out.byte >= 0xc0)
		(void)take_sequence(text, at, &out);
	else if (text.ptr[at] == '+' && plus == KH_PLUS_IS_BLANK)
		out.byte = ' ';
	return out;
}

bool kh_spelling_is_plain(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] == '%' || (unsigned char)text.ptr[i] >= 0x80)
			return false;
	return true;
}

char kh_spelling_fold(char c)
{
	return c == '_' || c == '.' || c == '[' || c == ' ' ? '-' : kh_lower(c);
}

/* A letter is itself in either case, a digit is itself, and all else is one character. */
static bool is_same_in_field(char c, char of)
{
	if (kh_is_alpha(of))
		return ((c ^ of) & ~('a' ^ 'A')) == 0;
	return c == of || (!kh_is_digit(of) && !kh_is_alpha(c) && !kh_is_digit(c));
}

bool kh_spelling_is_field(struct kh_slice field, struct kh_slice name)
{
	if (field.len != name.len)
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (!is_same_in_field(field.ptr[i], name.ptr[i]))
			return false;
	return true;
}

bool kh_spelling_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Where the text of a name is: in a query, still escaped; in a form, decoded; or it is no
 * parameter's, and decoded. */
enum where { IN_QUERY, IN_FORM, AS_IT_IS };

static struct kh_character name_at(struct kh_slice text, size_t at, enum where where)
{
	if (where == IN_QUERY)
		return kh_spelling_at(text, at, KH_PLUS_IS_BLANK);
	struct kh_character out = { 1, (unsigned char)text.ptr[at] };
	if (out.byte >= 0xc0)
		(void)take_sequence(text, at, &out);
	return out;
}

static size_t skip_blanks(struct kh_slice text, size_t at, enum where where)
{
	while (at < text.len) {
		struct kh_character c = name_at(text, at, where);
		if (!kh_spelling_is_blank((char)c.byte))
			break;
		at += c.width;
	}
	return at;
}

static bool is_name_from(struct kh_slice text, size_t at, struct kh_slice name, enum where where)
{
	for (size_t i = 0; i < name.len; i++) {
		if (at == text.len)
			return false;
		struct kh_character c = name_at(text, at, where);
		if (kh_spelling_fold((char)c.byte) != kh_spelling_fold(name.ptr[i]))
			return false;
		at += c.width;
	}
	at = skip_blanks(text, at, where);
	if (at == text.len)
		return true;
	unsigned char end = name_at(text, at, where).byte;
	return end == '\0' || end == '[' || (end == ']' && where != AS_IT_IS);
}

bool kh_spelling_is_front(char c)
{
	return c == '[' || c == ']' || c == '!' || c == '?' || kh_spelling_is_blank(c);
}

/* Some servers take brackets, a '!' or a '?' in front off, and others take a '[' for an underscore:
 * each number of them that is left out is a reading. */
static bool is_name(struct kh_slice text, struct kh_slice name, enum where where)
{
	size_t at = skip_blanks(text, 0, where);
	while (!is_name_from(text, at, name, where)) {
		if (where == AS_IT_IS || at == text.len)
			return false;
		struct kh_character c = name_at(text, at, where);
		if (!kh_spelling_is_front((char)c.byte))
			return false;
		at = skip_blanks(text, at + c.width, where);
	}
	return true;
}

bool kh_spelling_is_parameter(struct kh_slice parameter, struct kh_slice name)
{
	return is_name(parameter, name, IN_QUERY);
}

bool kh_spelling_is_form_name(struct kh_slice decoded, struct kh_slice name)
{
	return is_name(decoded, name, IN_FORM);
}

bool kh_spelling_is_member(struct kh_slice member, struct kh_slice name)
{
	return is_name(member, name, AS_IT_IS);
}

struct kh_character kh_spelling_in_field(struct kh_slice value, size_t at)
{
	struct kh_character out = { 1, (unsigned char)value.ptr[at] };
	if (out.byte == '\\' && at + 1 < value.len)
		return (struct kh_character){ 2, (unsigned char)value.ptr[at + 1] };
	if (out.byte >= 0xc0)
		(void)take_sequence(value, at, &out);
	else if (out.byte >= 0x80 && kh_spelling_ascii(out.byte)) /* Latin-1 */
		out.byte = kh_spelling_ascii(out.byte);
	return out;
}

/* The same; most characters are themselves. */
static inline struct kh_character value_at(struct kh_slice value, size_t at)
{
	unsigned char c = (unsigned char)value.ptr[at];
	return c < 0x80 && c != '\\' ? (struct kh_character){ 1, c }
				     : kh_spelling_in_field(value, at);
}

struct kh_slice kh_spelling_of_value(struct kh_slice value, enum kh_value_end end)
{
	size_t from = SIZE_MAX, to = 0;
	for (size_t at = 0; at < value.len;) {
		struct kh_character c = value_at(value, at);
		bool blank = kh_spelling_is_blank((char)c.byte);
		if ((c.byte == ';' && end != KH_VALUE_WHOLE) ||
		    (blank && end == KH_VALUE_TO_BLANK && from != SIZE_MAX))
			break;
		if (!blank && c.byte != '"') {
			from = from == SIZE_MAX ? at : from;
			to = at + c.width;
		}
		at += c.width;
	}
	return from == SIZE_MAX ? kh_slice_sub(value, 0, 0) : kh_slice_sub(value, from, to);
}

/* Where the word ends that begins at `at`; SIZE_MAX: there is none. */
static size_t skip_word(struct kh_slice value, size_t at, struct kh_slice word)
{
	for (size_t i = 0; i < word.len; i++) {
		if (at >= value.len)
			return SIZE_MAX;
		struct kh_character c = value_at(value, at);
		if (kh_lower((char)c.byte) != kh_lower(word.ptr[i]))
			return SIZE_MAX;
		at += c.width;
	}
	return at;
}

bool kh_spelling_is_value(struct kh_slice value, struct kh_slice word)
{
	value = kh_spelling_of_value(value, KH_VALUE_WHOLE);
	return skip_word(value, 0, word) == value.len;
}

bool kh_spelling_has_word(struct kh_slice value, struct kh_slice word)
{
	for (size_t at = 0; at < value.len; at++)
		if ((word.len == 0 ||
		     kh_lower((char)value_at(value, at).byte) == kh_lower(word.ptr[0])) &&
		    skip_word(value, at, word) != SIZE_MAX)
			return true;
	return false;
}

bool kh_spelling_fills_no_name(struct kh_slice decoded, char c)
{
	size_t len = decoded.len;
	if (!kh_spelling_is_blank(c))
		return false;
	return len == 0 || (len >= 2 && kh_spelling_is_blank(decoded.ptr[len - 1]) &&
			    kh_spelling_is_blank(decoded.ptr[len - 2]));
}

bool kh_spelling_replaces_front(struct kh_slice decoded, char c)
{
	return decoded.len == 1 && kh_spelling_is_front(decoded.ptr[0]) && kh_spelling_is_front(c);
}

size_t kh_spelling_of_parameter(struct kh_slice parameter, char *out, size_t room)
{
	size_t len = 0;
	for (size_t at = 0; at < parameter.len && len < room;) {
		struct kh_character c = name_at(parameter, at, IN_QUERY);
		if (c.byte == '\0')
			break;
		at += c.width;
		if (kh_spelling_replaces_front(kh_slice_of(out, len), (char)c.byte))
			len = 0;
		if (!kh_spelling_fills_no_name(kh_slice_of(out, len), (char)c.byte))
			out[len++] = kh_lower((char)c.byte);
	}
	while (len > 0 && kh_spelling_is_blank(out[len - 1]))
		len--;
	return len;
}

static bool is_decoded(struct kh_slice decoded, struct kh_slice name)
{
	if (decoded.len < name.len)
		return false;
	size_t at = name.len;
	if (at < decoded.len && decoded.ptr[at] != '[' && decoded.ptr[at] != ']' &&
	    !kh_spelling_is_blank(decoded.ptr[at]))
		return false;
	while (at < decoded.len && kh_spelling_is_blank(decoded.ptr[at]))
		at++;
	return (at == decoded.len || decoded.ptr[at] == '[' || decoded.ptr[at] == ']') &&
	       kh_spelling_is_field(kh_slice_sub(decoded, 0, name.len), name);
}

size_t kh_spelling_front(struct kh_slice decoded)
{
	size_t n = 0;
	while (n < decoded.len && kh_spelling_is_front(decoded.ptr[n]))
		n++;
	return n;
}

bool kh_spelling_is_decoded(struct kh_slice decoded, struct kh_slice name)
{
	size_t front = kh_spelling_front(decoded);
	return is_decoded(decoded, name) ||
	       (front > 0 && is_decoded(kh_slice_sub(decoded, front, decoded.len), name));
}

size_t kh_spelling_of_text(struct kh_slice text, char *out, size_t room)
{
	size_t len = 0;
	for (size_t at = 0; at < text.len && len < room;) {
		struct kh_character c = kh_spelling_at(text, at, KH_PLUS_IS_PLUS);
		out[len++] = kh_spelling_fold((char)c.byte);
		at += c.width;
	}
	return len;
}
