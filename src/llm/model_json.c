/*
 * model_json.c - the model's name in a request's content
 *
 * The content is forwarded byte for byte to a server with a parser of its own, and parsers differ.
 * If a key occurs twice, some take the first and some the last. Some ignore case, all decode
 * escapes, and a few accept comments, trailing commas, NaN or invalid UTF-8. So the content must be
 * exactly one JSON value by RFC 8259 (json_scan.h). A key of the outermost object that some parser
 * may take for `model` must be spelled exactly so, and may occur only once.
 */
#include <keyhole/llm/model.h>

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/json_scan.h>
#include <keyhole/base/spelling.h>

/* The first characters of a string: enough to compare it. */
struct text {
	size_t len;	   /* of all of it */
	bool escaped, odd; /* odd: a character that is no printable ASCII */
	char head[KH_LIMIT_MODEL_BYTES];
};

struct find {
	struct text text; /* of the string that is wanted */
	bool found;
	bool due; /* the value behind this key is the name */
	struct kh_model *out;
};

static bool fail(const char **why, const char *text)
{
	*why = text;
	return false;
}

static void begin_text(struct kh_json_scan *scan, struct find *find)
{
	scan->wanted = true;
	find->text.len = 0;
	find->text.escaped = find->text.odd = false;
}

static void take_character(struct kh_json_scan *scan, void *arg, uint32_t c, bool escaped)
{
	struct text *text = &((struct find *)arg)->text;
	unsigned char ascii = kh_spelling_ascii(c);
	(void)scan;
	/* However many blanks stand in front, the name behind them is seen. */
	if (text->len == 0 && kh_spelling_is_blank((char)ascii)) {
		text->odd = true;
		return;
	}
	if (text->len < sizeof(text->head))
		text->head[text->len] = (char)(ascii || c == 0 ? ascii : '?');
	text->len++;
	text->escaped = text->escaped || escaped;
	if (c <= 0x20 || c >= 0x7f)
		text->odd = true;
}

/* Of the outermost object. */
static void name_begins(struct kh_json_scan *scan, void *arg)
{
	if (scan->depth == 1)
		begin_text(scan, arg);
}

static bool value_begins(struct kh_json_scan *scan, void *arg, enum kh_json_kind kind,
			 const char **why)
{
	struct find *find = arg;
	if (scan->depth == 0 && kind != KH_JSON_OBJECT)
		return fail(why, "it is not a JSON object");
	if (!find->due)
		return true;
	if (kind != KH_JSON_TEXT)
		return fail(why, "its \"model\" is no text");
	begin_text(scan, find);
	return true;
}

/* Members by which other services name it, or the models to which they fall back (OpenRouter,
 * LiteLLM, the gateways of Vercel and Cloudflare). */
static bool names_it_otherwise(struct kh_slice name)
{
	static const char *const others[] = { "modelId", "model_id", "modelArn", "model_arn",
					      "engine",	 "models",   "fallbacks" };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (kh_spelling_is_member(name, kh_slice_str(others[i])))
			return true;
	return false;
}

static bool look_at_key(struct find *find, const char **why)
{
	static const struct kh_slice model = KH_SLICE_INIT("model");
	const struct text *key = &find->text;
	size_t known = key->len < sizeof(key->head) ? key->len : sizeof(key->head);
	struct kh_slice name = kh_slice_of(key->head, known);
	if (names_it_otherwise(name))
		return fail(why, "a member other than \"model\" may name it");
	/* To some reader: without case, blanks around it, or what follows a NUL. */
	if (!kh_spelling_is_member(name, model))
		return true;
	if (find->found || key->escaped || key->odd || !kh_slice_eq(name, model))
		return fail(why, "\"model\" is in it twice, with an escape, or in another "
				 "spelling");
	find->found = find->due = true;
	return true;
}

static bool take_model(struct find *find, const char **why)
{
	const struct text *name = &find->text;
	if (name->odd || name->len == 0 || name->len > KH_LIMIT_MODEL_BYTES)
		return fail(why, "its \"model\" is no name");
	memcpy(find->out->name, name->head, name->len);
	find->out->name[name->len] = '\0';
	find->out->len = name->len;
	find->due = false;
	return true;
}

static bool string_ends(struct kh_json_scan *scan, void *arg, bool name, const char **why)
{
	if (!scan->wanted)
		return true;
	return name ? look_at_key(arg, why) : take_model(arg, why);
}

static const struct kh_json_events events = {
	.value = value_begins,
	.name = name_begins,
	.character = take_character,
	.end = string_ends,
};

struct kh_model_reader {
	struct kh_json_scan scan;
	struct find find;
	struct kh_model model;
	uint64_t bytes;
	const char *why; /* not NULL: it can't be read, whatever still comes */
};

static void begin(struct kh_model_reader *reader)
{
	*reader = (struct kh_model_reader){ .find = { .out = &reader->model } };
	kh_json_scan_init(&reader->scan, &events, false);
}

struct kh_model_reader *kh_model_reader_new(void)
{
	struct kh_model_reader *reader = malloc(sizeof(*reader));
	if (reader)
		begin(reader);
	return reader;
}

void kh_model_reader_free(struct kh_model_reader *reader)
{
	free(reader);
}

void kh_model_reader_feed(struct kh_model_reader *reader, struct kh_slice piece)
{
	reader->bytes += piece.len;
	for (size_t at = 0; at < piece.len && !reader->why; at++) {
		at += kh_json_scan_plain(&reader->scan, kh_slice_sub(piece, at, piece.len));
		if (at < piece.len)
			(void)kh_json_scan_byte(&reader->scan, (unsigned char)piece.ptr[at],
						&reader->find, &reader->why);
	}
}

uint64_t kh_model_reader_bytes(const struct kh_model_reader *reader)
{
	return reader->bytes;
}

enum kh_model_state kh_model_reader_end(struct kh_model_reader *reader, struct kh_model *out,
					const char **why)
{
	*out = (struct kh_model){ .len = 0 };
	*why = NULL;
	if (reader->bytes == 0)
		return KH_MODEL_NONE;
	if (!reader->why)
		(void)kh_json_scan_end(&reader->scan, &reader->why);
	*why = reader->why;
	if (*why)
		return KH_MODEL_UNREAD;
	*out = reader->model;
	return reader->find.found ? KH_MODEL_NAMED : KH_MODEL_NONE;
}

enum kh_model_state kh_model_in_json(struct kh_slice content, struct kh_model *out,
				     const char **why)
{
	struct kh_model_reader reader;
	begin(&reader);
	kh_model_reader_feed(&reader, content);
	return kh_model_reader_end(&reader, out, why);
}
