/*
 * json_scan.c - a streaming JSON scanner (RFC 8259)
 *
 * `state` says what must come next. Each open object or array is one bit. A number ends only with
 * the byte after it, so that byte is processed twice.
 */
#include <keyhole/base/json_scan.h>

enum {
	VALUE = 0,  /* a value is due */
	FIRST_ITEM, /* … or the end of the array */
	FIRST_NAME, /* a name is due, or the end of the object */
	NAME,
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

/* A byte, and whom it is for. */
struct step {
	struct kh_json_scan *scan;
	void *arg;
	const char **why;
};

void kh_json_scan_init(struct kh_json_scan *scan, const struct kh_json_events *events, bool halves)
{
	*scan = (struct kh_json_scan){ .events = events, .halves = halves, .state = VALUE };
}

static bool fault(const struct step *step, const char *why)
{
	*step->why = why;
	return false;
}

static bool damaged(const struct step *step)
{
	return fault(step, "it is not JSON (RFC 8259) in UTF-8");
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- strings ---- */

static void tell(const struct step *step, uint32_t c, bool escaped)
{
	if (step->scan->wanted)
		step->scan->events->character(step->scan, step->arg, c, escaped);
}

static void begin_string(const struct step *step, bool name)
{
	step->scan->in_name = name;
	step->scan->state = STRING;
	step->scan->high = 0;
}

static bool halves_are_taken(const struct kh_json_scan *scan)
{
	return scan->halves && !scan->in_name;
}

static bool end_string(const struct step *step)
{
	struct kh_json_scan *scan = step->scan;
	scan->state = scan->in_name ? COLON : AFTER;
	return scan->events->end(scan, step->arg, scan->in_name, step->why);
}

/* No form longer than need be, no surrogate, none above U+10FFFF. */
static bool begin_utf8(struct kh_json_scan *scan, unsigned char c)
{
	if (c < 0xc2 || c > 0xf4)
		return false;
	scan->utf8_left = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
	scan->utf8_low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	scan->utf8_high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	scan->code = c & (c >= 0xf0 ? 7u : c >= 0xe0 ? 15u : 31u);
	return true;
}

static bool go_on_utf8(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	if (c < scan->utf8_low || c > scan->utf8_high)
		return damaged(step);
	scan->utf8_low = 0x80;
	scan->utf8_high = 0xbf;
	scan->code = scan->code << 6 | (c & 63u);
	if (--scan->utf8_left == 0)
		tell(step, scan->code, false);
	return true;
}

static bool string_byte(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	if (scan->utf8_left > 0)
		return go_on_utf8(step, c);
	if (c == '\\') {
		scan->state = ESCAPE;
		return true;
	}
	if (c < 0x20 || (scan->high && !halves_are_taken(scan)))
		return damaged(step);
	scan->high = 0;
	if (c == '"')
		return end_string(step);
	if (c >= 0x80)
		return begin_utf8(scan, c) || damaged(step);
	tell(step, c, false);
	return true;
}

static bool escape_byte(const struct step *step, unsigned char c)
{
	static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	struct kh_json_scan *scan = step->scan;
	const char *known = c ? strchr(plain, c) : NULL;
	if (c == 'u') {
		scan->state = HEX;
		scan->hex_left = 4;
		scan->unit = 0;
		return true;
	}
	if (!known || (scan->high && !halves_are_taken(scan)))
		return damaged(step);
	scan->high = 0;
	scan->state = STRING;
	tell(step, (unsigned char)meant[known - plain], true);
	return true;
}

/* Behind \uXXXX. */
static bool take_unit(const struct step *step)
{
	struct kh_json_scan *scan = step->scan;
	uint32_t unit = scan->unit;
	bool low = unit >= 0xdc00 && unit <= 0xdfff;
	if (scan->high && low)
		unit = 0x10000 + ((scan->high - 0xd800) << 10) + (unit - 0xdc00);
	else if ((scan->high || low) && !halves_are_taken(scan))
		return damaged(step);
	scan->high = unit >= 0xd800 && unit <= 0xdbff ? unit : 0;
	if (!scan->high)
		tell(step, unit, true);
	return true;
}

static bool hex_byte(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	int digit = kh_hex_value((char)c);
	if (digit < 0)
		return damaged(step);
	scan->unit = scan->unit << 4 | (uint32_t)digit;
	if (--scan->hex_left > 0)
		return true;
	scan->state = STRING;
	return take_unit(step);
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

static bool open_one(const struct step *step, bool object)
{
	struct kh_json_scan *scan = step->scan;
	uint64_t bit = UINT64_C(1) << scan->depth % 64;
	if (scan->depth == KH_LIMIT_JSON_DEPTH)
		return fault(step, "it is nested too deeply");
	if (!scan->events->value(scan, step->arg, object ? KH_JSON_OBJECT : KH_JSON_ARRAY,
				 step->why))
		return false;
	if (object)
		scan->objects[scan->depth / 64] |= bit;
	else
		scan->objects[scan->depth / 64] &= ~bit;
	scan->depth++;
	scan->state = object ? FIRST_NAME : FIRST_ITEM;
	return true;
}

static bool close_one(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	if (scan->depth == 0 || c != (kh_json_scan_in_object(scan) ? '}' : ']'))
		return damaged(step);
	scan->depth--;
	scan->state = AFTER;
	if (scan->events->close)
		scan->events->close(scan, step->arg);
	return true;
}

static bool value_byte(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	enum kh_json_kind kind = KH_JSON_OTHER;
	scan->wanted = false;
	if (c == '{' || c == '[')
		return open_one(step, c == '{');
	scan->word = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : NULL;
	if (c == '"') {
		kind = KH_JSON_TEXT;
		begin_string(step, false);
	} else if (scan->word) {
		scan->state = WORD;
	} else if (c == '-') {
		scan->state = MINUS;
	} else if (c >= '0' && c <= '9') {
		scan->state = c == '0' ? ZERO : DIGITS;
	} else {
		return damaged(step);
	}
	return scan->events->value(scan, step->arg, kind, step->why);
}

static bool after_byte(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	if (is_blank(c))
		return true;
	if (c != ',')
		return close_one(step, c);
	if (scan->depth == 0)
		return damaged(step);
	scan->state = kh_json_scan_in_object(scan) ? NAME : VALUE;
	return true;
}

static bool name_byte(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	if (c == '}' && scan->state == FIRST_NAME)
		return close_one(step, c);
	if (c != '"')
		return damaged(step);
	scan->wanted = false;
	begin_string(step, true);
	scan->events->name(scan, step->arg);
	return true;
}

/* Where blanks may stand between. */
static bool between_byte(const struct step *step, unsigned char c)
{
	if (is_blank(c))
		return true;
	switch (step->scan->state) {
	case FIRST_ITEM:
		return c == ']' ? close_one(step, c) : value_byte(step, c);
	case VALUE:
		return value_byte(step, c);
	case COLON:
		step->scan->state = VALUE;
		return c == ':' || damaged(step);
	default:
		return name_byte(step, c);
	}
}

static bool word_byte(const struct step *step, unsigned char c)
{
	struct kh_json_scan *scan = step->scan;
	if ((unsigned char)*scan->word++ != c)
		return damaged(step);
	if (*scan->word == '\0')
		scan->state = AFTER;
	return true;
}

bool kh_json_scan_byte(struct kh_json_scan *scan, unsigned char c, void *arg, const char **why)
{
	const struct step step = { scan, arg, why };
	switch (scan->state) {
	case STRING:
		return string_byte(&step, c);
	case ESCAPE:
		return escape_byte(&step, c);
	case HEX:
		return hex_byte(&step, c);
	case AFTER:
		return after_byte(&step, c);
	case WORD:
		return word_byte(&step, c);
	default:
		break;
	}
	if (scan->state < MINUS)
		return between_byte(&step, c);
	int next = number_state(scan->state, c);
	if (next == NONE)
		return damaged(&step);
	scan->state = next == ENDED ? AFTER : next;
	return next != ENDED || after_byte(&step, c);
}

size_t kh_json_scan_plain(const struct kh_json_scan *scan, struct kh_slice rest)
{
	size_t n = 0;
	if (scan->state != STRING || scan->wanted || scan->utf8_left > 0 || scan->high)
		return 0;
	while (n < rest.len && (unsigned char)rest.ptr[n] >= 0x20 &&
	       (unsigned char)rest.ptr[n] < 0x80 && rest.ptr[n] != '"' && rest.ptr[n] != '\\')
		n++;
	return n;
}

bool kh_json_scan_end(const struct kh_json_scan *scan, const char **why)
{
	const struct step step = { NULL, NULL, why };
	bool number = scan->state >= MINUS && number_state(scan->state, ' ') == ENDED;
	return (scan->depth == 0 && (scan->state == AFTER || number)) || damaged(&step);
}
