/*
 * model.c - which model a request's path names, and whether its content may name one
 *
 * A form must match the whole path, so that only the API with this form will read it so. For any
 * other path the content names the model.
 */
#include <keyhole/llm/model.h>

#include <string.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/spelling.h>
#include <keyhole/http/media_type.h>

enum { MOST_SEGMENTS = 16 };

/* NAME of `text`, decoded. Return: false when it is none. */
static bool take_name(struct kh_slice text, struct kh_model *out)
{
	size_t n = 0;
	for (size_t at = 0; at < text.len; n++) {
		bool escaped = text.ptr[at] == '%';
		int byte = escaped ? kh_percent_byte(text, at) : (unsigned char)text.ptr[at];
		at += escaped ? 3 : 1;
		/* What comes after a ';', '?' or '#' is not there to many a server, and what
		 * follows a '%' is decoded once more by some. */
		if (n == KH_LIMIT_MODEL_BYTES || byte <= 0x20 || byte >= 0x7f ||
		    strchr(";?#%", byte))
			return false;
		out->name[n] = (char)byte;
	}
	out->name[n] = '\0';
	out->len = n;
	return n > 0;
}

/* NAME of "NAME:VERB"; the colon may be escaped. */
static bool take_before_verb(struct kh_slice segment, struct kh_model *out)
{
	char *colon;
	if (!take_name(segment, out))
		return false;
	colon = strrchr(out->name, ':');
	if (!colon || colon == out->name || colon[1] == '\0')
		return false;
	*colon = '\0';
	out->len = (size_t)(colon - out->name);
	return true;
}

static bool is_version(struct kh_slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (i == 0 ? s.ptr[i] != 'v' : !kh_is_digit(s.ptr[i]) && !kh_is_alpha(s.ptr[i]))
			return false;
	return s.len >= 2 && kh_is_digit(s.ptr[1]);
}

static bool is(struct kh_slice s, const char *word)
{
	return kh_slice_eq(s, kh_slice_str(word));
}

static const char *const bedrock_verbs[] = { "invoke",	     "invoke-with-response-stream",
					     "converse",     "converse-stream",
					     "count-tokens", "invoke-with-bidirectional-stream" };

static bool is_bedrock_verb(struct kh_slice s)
{
	for (size_t i = 0; i < sizeof(bedrock_verbs) / sizeof(bedrock_verbs[0]); i++)
		if (is(s, bedrock_verbs[i]))
			return true;
	return false;
}

static size_t split(struct kh_slice path, struct kh_slice s[MOST_SEGMENTS])
{
	size_t n = 0;
	for (size_t at = 1; at <= path.len && n < MOST_SEGMENTS; n++) {
		size_t end = kh_slice_find(path, '/', at);
		s[n] = kh_slice_sub(path, at, end);
		at = end + 1;
	}
	return n;
}

static bool read_path(struct kh_slice path, struct kh_model *out)
{
	struct kh_slice s[MOST_SEGMENTS];
	size_t n = split(path, s);
	bool found = false;
	*out = (struct kh_model){ .len = 0 };
	if (n == 3 && is_version(s[0]) && (is(s[1], "models") || is(s[1], "tunedModels")))
		found = take_before_verb(s[2], out);
	else if (n == 5 && is_version(s[0]) && is(s[1], "publishers") && is(s[3], "models"))
		found = take_before_verb(s[4], out);
	else if (n == 9 && is_version(s[0]) && is(s[1], "projects") && is(s[3], "locations") &&
		 is(s[5], "publishers") && is(s[7], "models"))
		found = take_before_verb(s[8], out);
	else if (n == 3 && is(s[0], "model") && is_bedrock_verb(s[2]))
		found = take_name(s[1], out);
	else if (n >= 4 && is(s[0], "openai") && is(s[1], "deployments"))
		found = take_name(s[2], out);
	if (!found)
		*out = (struct kh_model){ .len = 0 };
	return found;
}

/* ---- what another server may take for such a form ---- */

/* As the most forgiving server reads it (spelling.h). */
static struct kh_character character_at(struct kh_slice s, size_t at)
{
	struct kh_character c = kh_spelling_at(s, at, KH_PLUS_IS_PLUS);
	c.byte = (unsigned char)kh_lower((char)c.byte);
	return c;
}

static bool is_nearly(struct kh_slice s, const char *word)
{
	size_t at = 0;
	for (; *word && at < s.len; word++) {
		struct kh_character c = character_at(s, at);
		if (c.byte != (unsigned char)kh_lower(*word))
			return false;
		at += c.width;
	}
	return !*word && at == s.len;
}

/* Without parameters, nor dots and blanks at the end. */
static struct kh_slice without_end(struct kh_slice segment)
{
	size_t end = 0;
	for (size_t at = 0; at < segment.len;) {
		struct kh_character c = character_at(segment, at);
		if (c.byte == ';')
			break;
		at += c.width;
		if (c.byte != '.' && c.byte != ' ')
			end = at;
	}
	return kh_slice_sub(segment, 0, end);
}

/* The next segment that is not empty, from the right. */
static bool last_segment(struct kh_slice *path, struct kh_slice *out)
{
	do {
		size_t begin = path->len;
		while (begin > 0 && path->ptr[begin - 1] != '/')
			begin--;
		*out = without_end(kh_slice_sub(*path, begin, path->len));
		*path = kh_slice_sub(*path, 0, begin > 0 ? begin - 1 : 0);
	} while (out->len == 0 && path->len > 0);
	return out->len > 0;
}

/* "NAME:VERB". */
static bool has_verb(struct kh_slice s)
{
	for (size_t at = 0; at < s.len;) {
		struct kh_character c = character_at(s, at);
		if (c.byte == ':' && at > 0 && at + c.width < s.len)
			return true;
		at += c.width;
	}
	return false;
}

static bool is_nearly_a_bedrock_verb(struct kh_slice s)
{
	for (size_t i = 0; i < sizeof(bedrock_verbs) / sizeof(bedrock_verbs[0]); i++)
		if (is_nearly(s, bedrock_verbs[i]))
			return true;
	return false;
}

/* A form with more slashes, with parameters, in other letters, behind another prefix. */
static bool is_nearly_a_form(struct kh_slice path)
{
	struct kh_slice one, last = KH_SLICE(""), last_but_one = KH_SLICE("");
	for (size_t n = 0; last_segment(&path, &one); n++) {
		if (n == 1 && has_verb(last) &&
		    (is_nearly(one, "models") || is_nearly(one, "tunedModels")))
			return true;
		if (n == 2 && is_nearly(one, "model") && is_nearly_a_bedrock_verb(last_but_one))
			return true;
		if (n >= 3 && is_nearly(one, "openai") && is_nearly(last, "deployments"))
			return true;
		last_but_one = last;
		last = one;
	}
	return false;
}

/* May a server that reads `other` for the path find another model there? */
static bool may_be_another(struct kh_slice other, bool found, const struct kh_model *model)
{
	struct kh_model named;
	if (read_path(other, &named))
		return !found || strcmp(model->name, named.name) != 0;
	return !found && is_nearly_a_form(other);
}

enum kh_model_state kh_model_in_path(const struct kh_path_readings *path, struct kh_model *out,
				     const char **why)
{
	struct kh_slice reading;
	size_t at = 0;
	bool found = read_path(path->path, out), differ = false;
	*why = NULL;
	while (!differ && kh_path_readings_next(path, &at, &reading))
		differ = may_be_another(reading, found, out);
	if (differ) {
		*why = "its path may be read as one that names a model";
		*out = (struct kh_model){ .len = 0 };
		return KH_MODEL_UNREAD;
	}
	return found ? KH_MODEL_NAMED : KH_MODEL_UNREAD;
}

/* ---- what only may name a model: the content is not believed there ---- */

static bool is_nearly_one_of(struct kh_slice s, const char *const *words)
{
	for (; *words; words++)
		if (is_nearly(s, *words))
			return true;
	return false;
}

/* Vertex serves OpenAI's API there, whose content names the model. */
static bool is_openapi(struct kh_slice collection, struct kh_slice name)
{
	return is(collection, "endpoints") && is(name, "openapi");
}

static bool may_name(struct kh_slice path)
{
	static const char *const collections[] = {
		"models",    "model",  "tunedModels",	    "engines", "deployments",
		"endpoints", "agents", "serving-endpoints", "run",     NULL
	};
	/* Their content names it by another member. */
	static const char *const calls[] = { "async-invoke", "model-invocation-job", "predictions",
					     NULL };
	struct kh_slice one, last = KH_SLICE("");

	for (size_t n = 0; last_segment(&path, &one); n++) {
		if (has_verb(one) || (n == 0 && is_nearly_one_of(one, calls)))
			return true;
		if (n > 0 && is_nearly_one_of(one, collections) && !is_openapi(one, last))
			return true;
		last = one;
	}
	return false;
}

const char *kh_model_path_fault(const struct kh_path_readings *path)
{
	struct kh_slice reading;
	for (size_t at = 0; kh_path_readings_next(path, &at, &reading);)
		if (may_name(reading))
			return "its path may name another model than its content";
	return NULL;
}

/* A charset but UTF-8 makes other characters of the same bytes. */
static bool is_json(struct kh_slice value)
{
	struct kh_slice type, charset;
	if (!kh_media_type_read(value, &type, &charset) ||
	    (charset.ptr && !kh_slice_eq_nocase(charset, KH_SLICE("utf-8"))))
		return false;
	bool plus = type.len > 5 && kh_slice_eq_nocase(kh_slice_sub(type, type.len - 5, type.len),
						       KH_SLICE("+json"));
	return plus || kh_slice_eq_nocase(type, KH_SLICE("application/json"));
}

/* A name in another spelling is seen by some servers, and by others not. */
const char *kh_model_content_fault(const struct kh_message *request)
{
	static const struct kh_slice name = KH_SLICE_INIT("content-type");
	size_t types = 0;
	for (size_t i = 0; i < request->n_fields; i++) {
		const struct kh_field *field = &request->fields[i];
		if (kh_spelling_is_field(field->name, KH_SLICE("content-encoding")) &&
		    !kh_slice_eq_nocase(field->value, KH_SLICE("identity")))
			return "it has a Content-Encoding";
		if (!kh_spelling_is_field(field->name, name))
			continue;
		if (++types > 1 || !kh_slice_eq_nocase(field->name, name) || !is_json(field->value))
			return "its Content-Type is not JSON in UTF-8";
	}
	return types == 1 ? NULL : "its Content-Type is not JSON in UTF-8";
}
