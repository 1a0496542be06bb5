/*
 * model_json.c - the model's name in a request's content
 *
 * The content goes on byte for byte to a server that reads it with a parser of its own. Parsers
 * differ: of two keys of one name some take the first and some the last, some fold case, all undo
 * escapes, a few take comments, trailing commas, NaN or bytes that are no UTF-8. So this is no
 * parser that makes something of what it reads. It checks that the content is one JSON value by
 * RFC 8259 and nothing else, and looks at the keys of the outermost object: any that some reader
 * may take for `model` must be exactly that, and there may be one.
 *
 * No recursion and no copy: what is open is a bit each (object or array). The work is linear.
 */
#include <keyhole/model.h>

#include <string.h>

enum { MOST_OPEN = KH_LIMIT_JSON_DEPTH, WORD_BITS = 64 };

struct scan {
	struct kh_slice in;
	size_t at;
	const char *why;
	unsigned depth;
	uint64_t objects[MOST_OPEN / WORD_BITS]; /* which of those that are open is one */
	bool found;
	struct kh_model *out;
};

static bool fail(struct scan *s, const char *why)
{
	if (!s->why)
		s->why = why;
	return false;
}

static bool damaged(struct scan *s)
{
	return fail(s, "it is not JSON");
}

static int peek(const struct scan *s)
{
	return s->at < s->in.len ? (unsigned char)s->in.ptr[s->at] : -1;
}

static void skip_blanks(struct scan *s)
{
	for (int c = peek(s); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = peek(s))
		s->at++;
}

/* ---- strings ---- */

/* The first characters of a string, decoded: enough to compare it. */
struct text {
	size_t len;	   /* of all of it */
	bool escaped, odd; /* odd: a character that is no printable ASCII */
	char head[KH_LIMIT_MODEL_BYTES];
};

static void add(struct text *text, uint32_t c)
{
	if (text->len < sizeof(text->head))
		text->head[text->len] = (char)(c < 0x80 ? c : '?');
	text->len++;
	if (c <= 0x20 || c >= 0x7f)
		text->odd = true;
}

static bool take_hex(struct scan *s, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++, s->at++) {
		int value = s->at < s->in.len ? kh_hex_value(s->in.ptr[s->at]) : -1;
		if (value < 0)
			return damaged(s);
		*out = *out * 16 + (uint32_t)value;
	}
	return true;
}

/* Behind the backslash. A surrogate stands only in front of, or behind, its other half. */
static bool take_escape(struct scan *s, struct text *text)
{
	static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	int c = peek(s);
	const char *known = c > 0 ? strchr(plain, c) : NULL;
	uint32_t unit, low;
	text->escaped = true;
	s->at++;
	if (known) {
		add(text, (unsigned char)meant[known - plain]);
		return true;
	}
	if (c != 'u' || !take_hex(s, &unit))
		return damaged(s);
	if (unit >= 0xd800 && unit <= 0xdbff) {
		if (peek(s) != '\\' || s->at + 1 >= s->in.len || s->in.ptr[s->at + 1] != 'u')
			return damaged(s);
		s->at += 2;
		if (!take_hex(s, &low) || low < 0xdc00 || low > 0xdfff)
			return damaged(s);
		unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
	} else if (unit >= 0xdc00 && unit <= 0xdfff) {
		return damaged(s);
	}
	add(text, unit);
	return true;
}

/* One character of UTF-8 (RFC 3629): no form longer than need be, no surrogate, none above
 * U+10FFFF. */
static bool take_utf8(struct scan *s, struct text *text)
{
	const unsigned char *p = (const unsigned char *)s->in.ptr + s->at;
	size_t left = s->in.len - s->at;
	unsigned n = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : 1;
	if (p[0] < 0xc2 || p[0] > 0xf4 || left <= n)
		return damaged(s);
	for (unsigned i = 1; i <= n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return damaged(s);
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return damaged(s);
	s->at += n + 1;
	add(text, 0x80);
	return true;
}

/* Of a long text only its validity matters. */
static void skip_plain(struct scan *s, struct text *text)
{
	size_t from = s->at;
	for (int c = peek(s); c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; c = peek(s))
		s->at++;
	text->len += s->at - from;
}

static bool take_string(struct scan *s, struct text *text)
{
	text->len = 0;
	text->escaped = text->odd = false;
	s->at++; /* the quote */
	for (int c; (c = peek(s)) != '"';) {
		bool ok;
		if (text->len > sizeof(text->head)) {
			skip_plain(s, text);
			c = peek(s);
			if (c == '"')
				break;
		}
		if (c < 0x20)
			return damaged(s);
		if (c < 0x80)
			s->at++;
		if (c == '\\')
			ok = take_escape(s, text);
		else if (c >= 0x80)
			ok = take_utf8(s, text);
		else
			ok = (add(text, (uint32_t)c), true);
		if (!ok)
			return false;
	}
	s->at++;
	return true;
}

/* ---- numbers and words ---- */

static size_t take_digits(struct scan *s)
{
	size_t n = 0;
	for (; peek(s) >= '0' && peek(s) <= '9'; n++)
		s->at++;
	return n;
}

static bool take_number(struct scan *s)
{
	if (peek(s) == '-')
		s->at++;
	bool zero = peek(s) == '0';
	size_t whole = take_digits(s);
	if (whole == 0 || (zero && whole > 1))
		return damaged(s);
	if (peek(s) == '.') {
		s->at++;
		if (take_digits(s) == 0)
			return damaged(s);
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		s->at++;
		if (peek(s) == '+' || peek(s) == '-')
			s->at++;
		if (take_digits(s) == 0)
			return damaged(s);
	}
	return true;
}

static bool take_word(struct scan *s)
{
	static const struct kh_slice words[] = { KH_SLICE_INIT("true"), KH_SLICE_INIT("false"),
						 KH_SLICE_INIT("null") };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (kh_slice_eq(kh_slice_sub(s->in, s->at, s->at + words[i].len), words[i])) {
			s->at += words[i].len;
			return true;
		}
	}
	return damaged(s);
}

/* ---- what is open ---- */

static bool in_object(const struct scan *s)
{
	unsigned top = s->depth - 1;
	return s->objects[top / WORD_BITS] >> top % WORD_BITS & 1;
}

static bool open_one(struct scan *s, bool object)
{
	uint64_t bit = UINT64_C(1) << s->depth % WORD_BITS;
	if (s->depth == MOST_OPEN)
		return fail(s, "it is nested too deeply");
	if (object)
		s->objects[s->depth / WORD_BITS] |= bit;
	else
		s->objects[s->depth / WORD_BITS] &= ~bit;
	s->depth++;
	s->at++;
	return true;
}

/* ---- keys and values ---- */

/* A key of the outermost object. *is_model: its value is the name. */
static bool look_at_key(struct scan *s, const struct text *key, bool *is_model)
{
	static const struct kh_slice model = KH_SLICE_INIT("model");
	struct kh_slice name = kh_slice_of(key->head, key->len < 8 ? key->len : 8);
	*is_model = false;
	if (key->len != model.len || !kh_slice_eq_nocase(name, model))
		return true;
	if (s->found || key->escaped || !kh_slice_eq(name, model))
		return fail(s, "\"model\" stands in it twice, with an escape, or in another case");
	s->found = *is_model = true;
	return true;
}

static bool take_model(struct scan *s)
{
	struct text name;
	if (peek(s) != '"')
		return fail(s, "its \"model\" is no text");
	if (!take_string(s, &name))
		return false;
	if (name.odd || name.len == 0 || name.len > KH_LIMIT_MODEL_BYTES)
		return fail(s, "its \"model\" is no name");
	memcpy(s->out->name, name.head, name.len);
	s->out->name[name.len] = '\0';
	s->out->len = name.len;
	return true;
}

/* A key with its colon. *is_model as above. */
static bool take_key(struct scan *s, bool *is_model)
{
	struct text key;
	*is_model = false;
	skip_blanks(s);
	if (peek(s) != '"')
		return damaged(s);
	if (!take_string(s, &key) || (s->depth == 1 && !look_at_key(s, &key, is_model)))
		return false;
	skip_blanks(s);
	if (peek(s) != ':')
		return damaged(s);
	s->at++;
	skip_blanks(s);
	return true;
}

/* Closes what is at its end, and goes on behind a comma. Return: another value is due. */
static bool after_value(struct scan *s, bool *is_model)
{
	*is_model = false;
	for (;;) {
		skip_blanks(s);
		if (s->depth == 0)
			return false;
		int c = peek(s);
		if (c == ',') {
			s->at++;
			if (in_object(s))
				return take_key(s, is_model);
			skip_blanks(s);
			return true;
		}
		if (c != (in_object(s) ? '}' : ']'))
			return damaged(s);
		s->depth--;
		s->at++;
	}
}

/* Return: a value is due (the first inside of what was opened), or what was there is taken. */
static bool begin_value(struct scan *s, bool *is_model, bool *due)
{
	struct text text;
	int c = peek(s);
	*due = false;
	if (*is_model)
		return take_model(s);
	if (c == '"')
		return take_string(s, &text);
	if (c == '-' || (c >= '0' && c <= '9'))
		return take_number(s);
	if (c != '{' && c != '[')
		return take_word(s);
	if (!open_one(s, c == '{'))
		return false;
	skip_blanks(s);
	if (peek(s) == (c == '{' ? '}' : ']'))
		return true; /* after_value closes it */
	*due = true;
	return c == '[' || take_key(s, is_model);
}

enum kh_model_state kh_model_in_json(struct kh_slice content, struct kh_model *out,
				     const char **why)
{
	struct scan s = { .in = content, .out = out };
	bool is_model = false, due = true;
	*out = (struct kh_model){ .len = 0 };
	*why = NULL;
	if (content.len == 0)
		return KH_MODEL_NONE;
	skip_blanks(&s);
	if (peek(&s) != '{')
		(void)fail(&s, "it is not a JSON object");
	while (!s.why && due) {
		if (begin_value(&s, &is_model, &due) && !due)
			due = after_value(&s, &is_model);
	}
	if (!s.why && s.at != content.len)
		(void)damaged(&s);
	*why = s.why;
	if (s.why)
		*out = (struct kh_model){ .len = 0 };
	return s.why ? KH_MODEL_UNREAD : s.found ? KH_MODEL_NAMED : KH_MODEL_NONE;
}
