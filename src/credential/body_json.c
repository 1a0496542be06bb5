/*
 * body_json.c - a member of a JSON content, by its pointer (RFC 6901)
 *
 * The content goes on to a server with a parser of its own. Parsers differ: of two keys of one name
 * some take the first and some the last, some fold case (and take U+017F for an s, U+212A for a k,
 * U+0130 and U+0131 for an i), a few take comments, single quotes or NaN. So content that is not
 * JSON by RFC 8259 is refused, and on the way to the place each name that some reader could take
 * for the next step must be exactly that, without an escape, and stand there once.
 *
 * One byte at a time, no recursion and no copy: what is open is a bit each (object or array).
 */
#include <string.h>

#include "body_internal.h"

enum {
	VALUE = 0,  /* a value is due */
	FIRST_ITEM, /* … or the end of the array */
	FIRST_KEY,  /* a key is due, or the end of the object */
	KEY,
	COLON,
	AFTER, /* a comma, or the end of what is open */
	STRING,
	ESCAPE,
	HEX,
	WORD,
	MINUS,
	ZERO,
	DIGITS,
	DOT,
	FRACTION,
	EXP,
	EXP_SIGN,
	EXP_DIGITS,
};

/* What a string is for. */
enum { TEXT = 0, NAME, NAME_ON_PATH, PLACE };

void kh_body_json_init(struct kh_body_json *json, const char *pointer)
{
	*json = (struct kh_body_json){ .state = VALUE };
	for (const char *at = pointer; *at == '/' && json->n_steps < KH_LIMIT_BODY_STEPS;) {
		size_t len = strcspn(++at, "/");
		json->steps[json->n_steps] = at;
		json->step_len[json->n_steps++] = len;
		at += len;
	}
}

static enum kh_body_step fault(const char **why, const char *text)
{
	*why = text;
	return KH_BODY_FAULT;
}

static enum kh_body_step damaged(const char **why)
{
	return fault(why, "it is not JSON (RFC 8259) in UTF-8");
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- what is open ---- */

static bool in_object(const struct kh_body_json *json)
{
	unsigned top = json->depth - 1;
	return json->objects[top / 64] >> top % 64 & 1;
}

static bool is_on_path(const struct kh_body_json *json)
{
	return json->depth > 0 && json->on_path == json->depth;
}

static enum kh_body_step open_one(struct kh_body_json *json, bool object, const char **why)
{
	uint64_t bit = UINT64_C(1) << json->depth % 64;
	bool leads = json->depth == 0 || json->chosen;
	if (json->depth == KH_LIMIT_JSON_DEPTH)
		return fault(why, "it is nested too deeply");
	if (json->chosen && json->depth == json->n_steps)
		return fault(why, "what stands at the credential's place is no text");
	if (object)
		json->objects[json->depth / 64] |= bit;
	else
		json->objects[json->depth / 64] &= ~bit;
	if (leads) {
		json->seen[json->depth] = false;
		json->index[json->depth] = 0;
		json->on_path = json->depth + 1;
	}
	json->depth++;
	json->chosen = false;
	json->state = object ? FIRST_KEY : FIRST_ITEM;
	return KH_BODY_KEEP;
}

static enum kh_body_step close_one(struct kh_body_json *json, unsigned char c, const char **why)
{
	if (json->depth == 0 || c != (in_object(json) ? '}' : ']'))
		return damaged(why);
	if (is_on_path(json))
		json->on_path--;
	json->depth--;
	json->chosen = false;
	json->state = AFTER;
	return KH_BODY_KEEP;
}

/* ---- the way to the place ---- */

static bool is_index(const struct kh_body_json *json, unsigned level)
{
	uint64_t wanted = 0;
	struct kh_slice step = { json->steps[level], json->step_len[level] };
	if (step.len == 0 || step.len > 9 || (step.len > 1 && step.ptr[0] == '0'))
		return false;
	for (size_t i = 0; i < step.len; i++) {
		if (!kh_is_digit(step.ptr[i]))
			return false;
		wanted = wanted * 10 + (uint64_t)(step.ptr[i] - '0');
	}
	return wanted == json->index[level];
}

/* An element of the open array begins. */
static void choose_element(struct kh_body_json *json)
{
	json->chosen = false;
	if (!is_on_path(json) || in_object(json))
		return;
	unsigned level = json->depth - 1;
	json->chosen = is_index(json, level);
	json->seen[level] = json->seen[level] || json->chosen;
	json->index[level]++;
}

/* One character of a step: "~1" is '/', "~0" is '~'. */
static char step_char(struct kh_slice step, size_t *at)
{
	char c = step.ptr[(*at)++];
	if (c != '~' || *at == step.len)
		return c;
	return step.ptr[(*at)++] == '1' ? '/' : '~';
}

/* Is the name that step to some reader? *exactly: and to all. */
static bool is_step(const struct kh_body_json *json, bool *exactly)
{
	unsigned level = json->depth - 1;
	struct kh_slice step = { json->steps[level], json->step_len[level] };
	size_t at = 0, i = 0;
	*exactly = !json->odd;
	if (json->name.len > sizeof(json->name.text))
		return false;
	for (; at < step.len && i < json->name.len; i++) {
		char want = step_char(step, &at), have = json->name.text[i];
		if (kh_lower(want) != kh_lower(have))
			return false;
		*exactly = *exactly && want == have;
	}
	return at == step.len && i == json->name.len;
}

static enum kh_body_step end_name(struct kh_body_json *json, const char **why)
{
	bool exactly = false;
	json->state = COLON;
	json->chosen = false;
	if (json->role != NAME_ON_PATH || !is_step(json, &exactly))
		return KH_BODY_KEEP;
	if (json->seen[json->depth - 1] || !exactly)
		return fault(why,
			     "a member on the way to the credential's place stands in it twice, "
			     "with an escape, or in another case");
	json->seen[json->depth - 1] = json->chosen = true;
	return KH_BODY_KEEP;
}

/* ---- strings ---- */

static void add(struct kh_body_json *json, char c)
{
	if (json->name.len < sizeof(json->name.text))
		json->name.text[json->name.len] = c;
	json->name.len++;
}

/* The ASCII letter that some reader takes this one for when it folds case, else 0. */
static char folds_to(uint32_t c)
{
	return c == 0x212a ? 'k' : c == 0x17f ? 's' : c == 0x130 || c == 0x131 ? 'i' : '\0';
}

/* A character of a name on the path. A NUL ends it to readers in C. Steps are ASCII: of all else it
 * is enough that it is no such. */
static void add_character(struct kh_body_json *json, uint32_t c)
{
	char folded = folds_to(c);
	if (json->role != NAME_ON_PATH)
		return;
	if (c == 0 || c >= 0x80)
		json->odd = true;
	json->cut = json->cut || c == 0;
	if (!json->cut)
		add(json, c < 0x80 ? (char)c : folded ? folded : (char)0x80);
}

static enum kh_body_step begin_string(struct kh_body_json *json, int role, const char **why)
{
	json->role = role;
	json->state = STRING;
	json->name.len = 0;
	json->odd = json->cut = false;
	json->high = 0;
	if (role != TEXT || !json->chosen)
		return KH_BODY_KEEP;
	json->chosen = false;
	if (json->depth != json->n_steps)
		return fault(why, "the way to the credential's place ends in a text");
	json->role = PLACE;
	json->filled = true;
	return KH_BODY_FILL;
}

static enum kh_body_step end_string(struct kh_body_json *json, const char **why)
{
	bool name = json->role == NAME || json->role == NAME_ON_PATH;
	if (json->high && name)
		return damaged(why);
	if (name)
		return end_name(json, why);
	json->state = AFTER;
	return KH_BODY_KEEP;
}

/* RFC 3629: no form longer than need be, no surrogate, none above U+10FFFF. */
static bool begin_utf8(struct kh_body_json *json, unsigned char c)
{
	if (c < 0xc2 || c > 0xf4)
		return false;
	json->utf8_left = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
	json->utf8_low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	json->utf8_high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	json->character = c & (c >= 0xf0 ? 7u : c >= 0xe0 ? 15u : 31u);
	return true;
}

static bool go_on_utf8(struct kh_body_json *json, unsigned char c)
{
	if (c < json->utf8_low || c > json->utf8_high)
		return false;
	json->utf8_low = 0x80;
	json->utf8_high = 0xbf;
	json->character = json->character << 6 | (c & 63u);
	if (--json->utf8_left == 0)
		add_character(json, json->character);
	return true;
}

/* Behind \uXXXX. Half of a surrogate pair alone is no character: in names it is refused, in other
 * texts nobody minds. */
static bool take_unit(struct kh_body_json *json)
{
	uint32_t unit = json->unit;
	bool low = unit >= 0xdc00 && unit <= 0xdfff, name = json->role == NAME_ON_PATH;
	if (json->high && low)
		unit = 0x10000 + ((json->high - 0xd800) << 10) + (unit - 0xdc00);
	else if (name && (json->high || low))
		return false;
	json->high = unit >= 0xd800 && unit <= 0xdbff ? unit : 0;
	if (!json->high)
		add_character(json, unit);
	return true;
}

static enum kh_body_step string_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	enum kh_body_step inside = json->role == PLACE ? KH_BODY_DROP : KH_BODY_KEEP;
	if (json->utf8_left > 0)
		return go_on_utf8(json, c) ? inside : damaged(why);
	if (c == '\\') {
		json->state = ESCAPE;
		json->odd = true;
		return inside;
	}
	if (json->high && json->role == NAME_ON_PATH)
		return damaged(why);
	json->high = 0;
	if (c == '"')
		return end_string(json, why);
	if (c < 0x20)
		return damaged(why);
	if (c >= 0x80)
		return begin_utf8(json, c) ? inside : damaged(why);
	add_character(json, c);
	return inside;
}

static enum kh_body_step escape_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	enum kh_body_step inside = json->role == PLACE ? KH_BODY_DROP : KH_BODY_KEEP;
	const char *known = c ? strchr(plain, c) : NULL;
	if (c == 'u') {
		json->state = HEX;
		json->hex_left = 4;
		json->unit = 0;
		return inside;
	}
	if (!known || (json->high && json->role == NAME_ON_PATH))
		return damaged(why);
	json->high = 0;
	json->state = STRING;
	add_character(json, (unsigned char)meant[known - plain]);
	return inside;
}

static enum kh_body_step hex_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	int digit = kh_hex_value((char)c);
	if (digit < 0)
		return damaged(why);
	json->unit = json->unit << 4 | (uint32_t)digit;
	if (--json->hex_left == 0) {
		json->state = STRING;
		if (!take_unit(json))
			return damaged(why);
	}
	return json->role == PLACE ? KH_BODY_DROP : KH_BODY_KEEP;
}

/* ---- numbers ---- */

enum { ENDED = -1, NONE = -2 };

/* Behind the 'e'. */
static int exponent_state(int state, unsigned char c)
{
	if (c >= '0' && c <= '9')
		return EXP_DIGITS;
	if (state == EXP && (c == '+' || c == '-'))
		return EXP_SIGN;
	return state == EXP_DIGITS ? ENDED : NONE;
}

/* Return: the state behind `c`, ENDED where the number ends in front of it, NONE where it is none.
 */
static int number_state(int state, unsigned char c)
{
	bool digit = c >= '0' && c <= '9', e = c == 'e' || c == 'E';
	if (state >= EXP)
		return exponent_state(state, c);
	if (e)
		return state == MINUS || state == DOT ? NONE : EXP;
	switch (state) {
	case MINUS:
		return c == '0' ? ZERO : digit ? DIGITS : NONE;
	case ZERO:
		return c == '.' ? DOT : digit ? NONE : ENDED;
	case DIGITS:
		return digit ? DIGITS : c == '.' ? DOT : ENDED;
	case DOT:
		return digit ? FRACTION : NONE;
	default:
		return digit ? FRACTION : ENDED;
	}
}

/* ---- values ---- */

static enum kh_body_step value_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	if (c == '"')
		return begin_string(json, TEXT, why);
	if (c == '{' || c == '[')
		return open_one(json, c == '{', why);
	if (json->chosen)
		return fault(why, "what stands at the credential's place is no text");
	json->word = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : NULL;
	if (json->word)
		json->state = WORD;
	else if (c == '-')
		json->state = MINUS;
	else if (c >= '0' && c <= '9')
		json->state = c == '0' ? ZERO : DIGITS;
	else
		return damaged(why);
	return KH_BODY_KEEP;
}

static enum kh_body_step after_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	if (is_blank(c))
		return KH_BODY_KEEP;
	if (c != ',')
		return close_one(json, c, why);
	if (json->depth == 0)
		return damaged(why);
	json->state = in_object(json) ? KEY : VALUE;
	choose_element(json);
	return KH_BODY_KEEP;
}

static enum kh_body_step key_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	if (c == '}' && json->state == FIRST_KEY)
		return close_one(json, c, why);
	if (c != '"')
		return damaged(why);
	return begin_string(json, is_on_path(json) ? NAME_ON_PATH : NAME, why);
}

/* Where blanks may stand between. */
static enum kh_body_step between_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	if (is_blank(c))
		return KH_BODY_KEEP;
	switch (json->state) {
	case FIRST_ITEM:
		if (c == ']')
			return close_one(json, c, why);
		choose_element(json);
		return value_byte(json, c, why);
	case VALUE:
		return value_byte(json, c, why);
	case COLON:
		json->state = VALUE;
		return c == ':' ? KH_BODY_KEEP : damaged(why);
	default:
		return key_byte(json, c, why);
	}
}

enum kh_body_step kh_body_json_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	switch (json->state) {
	case STRING:
		return string_byte(json, c, why);
	case ESCAPE:
		return escape_byte(json, c, why);
	case HEX:
		return hex_byte(json, c, why);
	case AFTER:
		return after_byte(json, c, why);
	case WORD:
		if ((unsigned char)*json->word++ != c)
			return damaged(why);
		if (*json->word == '\0')
			json->state = AFTER;
		return KH_BODY_KEEP;
	default:
		break;
	}
	if (json->state < MINUS)
		return between_byte(json, c, why);
	int next = number_state(json->state, c);
	if (next == NONE)
		return damaged(why);
	json->state = next == ENDED ? AFTER : next;
	return next == ENDED ? after_byte(json, c, why) : KH_BODY_KEEP;
}

size_t kh_body_json_plain(const struct kh_body_json *json, struct kh_slice rest)
{
	size_t n = 0;
	if (json->state != STRING || json->role != TEXT || json->utf8_left > 0 || json->high)
		return 0;
	while (n < rest.len && (unsigned char)rest.ptr[n] >= 0x20 &&
	       (unsigned char)rest.ptr[n] < 0x80 && rest.ptr[n] != '"' && rest.ptr[n] != '\\')
		n++;
	return n;
}

bool kh_body_json_end(struct kh_body_json *json, const char **why)
{
	bool number = json->state >= MINUS && number_state(json->state, ' ') == ENDED;
	if (json->depth > 0 || (json->state != AFTER && !number)) {
		(void)damaged(why);
		return false;
	}
	if (!json->filled)
		*why = "the credential's place is not in it";
	return json->filled;
}

bool kh_body_json_put(struct kh_buf *out, struct kh_slice value)
{
	for (size_t i = 0; i < value.len; i++) {
		char c = value.ptr[i];
		if (((c == '"' || c == '\\') && !kh_buf_append_char(out, '\\')) ||
		    !kh_buf_append_char(out, c))
			return false;
	}
	return true;
}
