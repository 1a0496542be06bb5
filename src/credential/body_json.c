/*
 * body_json.c - finds a member of JSON content by its pointer (RFC 6901)
 *
 * The content goes on to a server with a parser of its own, and parsers differ. Of two equal keys
 * some take the first and some the last; some fold case (and take U+017F for an s, U+212A for a k,
 * U+0130 and U+0131 for an i); some fold '-' and '.' to '_'. So content that is not JSON by RFC
 * 8259 (json_scan.h) is refused. On the way to the place, each name that some parser could take for
 * the next step must be spelled exactly so, without an escape, and must occur only once.
 */
#include <string.h>

#include <keyhole/base/spelling.h>

#include "body_internal.h"

static bool fault(const char **why, const char *text)
{
	*why = text;
	return false;
}

/* ---- the way to the place ---- */

/* Does what is open lead there? */
static bool is_on_path(const struct kh_body_json *json)
{
	return json->scan.depth > 0 && json->on_path == json->scan.depth;
}

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

/* An element of the open array begins. Return: it is the next step. */
static bool choose_element(struct kh_body_json *json)
{
	unsigned level = json->scan.depth - 1;
	if (!is_on_path(json) || kh_json_scan_in_object(&json->scan))
		return false;
	bool chosen = is_index(json, level);
	json->seen[level] = json->seen[level] || chosen;
	json->index[level]++;
	return chosen;
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
	unsigned level = json->scan.depth - 1;
	struct kh_slice raw = { json->steps[level], json->step_len[level] };
	char text[KH_LIMIT_BODY_NAME_BYTES];
	size_t len = 0, known = json->name.len;
	for (size_t at = 0; at < raw.len && len < sizeof(text);)
		text[len++] = step_char(raw, &at);
	if (known > sizeof(json->name.text))
		known = sizeof(json->name.text);
	struct kh_slice step = { text, len }, name = { json->name.text, known };
	*exactly = !json->odd && json->name.len == known && kh_slice_eq(step, name);
	return kh_spelling_is_member(name, step);
}

static bool end_name(struct kh_body_json *json, const char **why)
{
	bool exactly = false;
	if (!json->scan.wanted || !is_step(json, &exactly))
		return true;
	if (json->seen[json->scan.depth - 1] || !exactly)
		return fault(why, "a member on the way to the credential's place is in it twice, "
				  "with an escape, or in another case or spelling");
	json->seen[json->scan.depth - 1] = json->chosen = true;
	return true;
}

/* ---- what the scan finds ---- */

static void name_begins(struct kh_json_scan *scan, void *arg)
{
	struct kh_body_json *json = arg;
	scan->wanted = is_on_path(json);
	json->name.len = 0;
	json->odd = json->cut = false;
}

/* Of a name on the path. A NUL ends it to readers in C. Steps are ASCII: of all else it is enough
 * that it is no such. */
static void take_character(struct kh_json_scan *scan, void *arg, uint32_t c, bool escaped)
{
	struct kh_body_json *json = arg;
	char folded = (char)kh_spelling_ascii(c);
	(void)scan;
	if (c == 0 || c >= 0x80 || escaped)
		json->odd = true;
	json->cut = json->cut || c == 0;
	if (json->cut || (json->name.len == 0 && kh_spelling_is_blank(folded))) {
		json->odd = true;
		return;
	}
	if (json->name.len < sizeof(json->name.text))
		json->name.text[json->name.len] = c < 0x80 ? (char)c : folded ? folded : (char)0x80;
	json->name.len++;
}

static bool value_begins(struct kh_json_scan *scan, void *arg, enum kh_json_kind kind,
			 const char **why)
{
	struct kh_body_json *json = arg;
	bool chosen = choose_element(json) || json->chosen;
	json->chosen = false;
	if (kind == KH_JSON_TEXT && chosen) {
		if (scan->depth != json->n_steps)
			return fault(why, "the way to the credential's place ends in a text");
		json->in_place = json->filled = true;
		return true;
	}
	if (chosen && (kind == KH_JSON_OTHER || scan->depth == json->n_steps))
		return fault(why, "what is at the credential's place is no text");
	if ((kind == KH_JSON_OBJECT || kind == KH_JSON_ARRAY) && (chosen || scan->depth == 0)) {
		json->seen[scan->depth] = false;
		json->index[scan->depth] = 0;
		json->on_path = scan->depth + 1;
	}
	return true;
}

static void closed(struct kh_json_scan *scan, void *arg)
{
	struct kh_body_json *json = arg;
	if (json->on_path == scan->depth + 1)
		json->on_path--;
}

static bool string_ends(struct kh_json_scan *scan, void *arg, bool name, const char **why)
{
	struct kh_body_json *json = arg;
	(void)scan;
	json->in_place = false;
	return !name || end_name(json, why);
}

static const struct kh_json_events events = {
	.value = value_begins,
	.close = closed,
	.name = name_begins,
	.character = take_character,
	.end = string_ends,
};

/* ---- the filter ---- */

void kh_body_json_init(struct kh_body_json *json, const char *pointer)
{
	*json = (struct kh_body_json){ .n_steps = 0 };
	kh_json_scan_init(&json->scan, &events, true);
	for (const char *at = pointer; *at == '/' && json->n_steps < KH_LIMIT_BODY_STEPS;) {
		size_t len = strcspn(++at, "/");
		json->steps[json->n_steps] = at;
		json->step_len[json->n_steps++] = len;
		at += len;
	}
}

enum kh_body_step kh_body_json_byte(struct kh_body_json *json, unsigned char c, const char **why)
{
	bool was = json->in_place;
	if (!kh_json_scan_byte(&json->scan, c, json, why))
		return KH_BODY_FAULT;
	if (!json->in_place)
		return KH_BODY_KEEP;
	return was ? KH_BODY_DROP : KH_BODY_FILL;
}

size_t kh_body_json_plain(const struct kh_body_json *json, struct kh_slice rest)
{
	return json->in_place ? 0 : kh_json_scan_plain(&json->scan, rest);
}

bool kh_body_json_end(struct kh_body_json *json, const char **why)
{
	if (!kh_json_scan_end(&json->scan, why))
		return false;
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
