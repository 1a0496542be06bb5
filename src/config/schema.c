/*
 * schema.c - a JSON Schema (draft 2020-12) of keyhole.yaml, for editors
 *
 * It is made from the table of options: each row is a property with its description, type, bounds
 * and default. A row with a reader of its own (CUSTOM, NODE) has its schema in `shape`, and
 * `between` has the conditions among the keys of one map. The schema accepts whatever `keyhole
 * check` accepts. It can't express all checks (names that must exist, what a credential is bound
 * to).
 *
 * A scalar is text for keyhole; other readers of YAML make a number or a boolean of it. So where
 * any text is valid, those are valid too.
 */
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"
#include "options_json.h"

#define ID_PATTERN "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#define HOST "(\\\\[[^\\\\]]+\\\\](:[0-9]+)?|[^ /?#@\\\\[\\\\]]+)"
#define RULE \
	"^((\\\\*|[A-Z_-]{1,32}(,[A-Z_-]{1,32})*) )?https?://" HOST "(/[^?#]*)?$|^tcp://" HOST \
	":[0-9]+$"

#define REQUESTS_PATTERN "^[0-9]+[KM]?/(s|min|h|day)$"
#define BYTES_PATTERN "^[0-9]+(B|KiB|MiB|GiB)/(s|min|h|day)$"

#define COUNTRIES \
	"{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"string\"," \
	"\"pattern\":\"^[A-Z]{2}$\"}}"
#define NETWORKS \
	"{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":[\"integer\",\"string\"]," \
	"\"minimum\":1,\"maximum\":4294967295,\"pattern\":\"^(AS)?[0-9]+$\"}}"

#define REF_TEXT JSON_REF("text")
/* What is said more than once. */
static const char *const definitions[] = {
	"\"geo\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"allow_"
	"countries\":" COUNTRIES ",\"deny_countries\":" COUNTRIES ",\"allow_asns\":" NETWORKS
	",\"deny_asns\":" NETWORKS
	",\"unknown\":{\"enum\":[\"allow\",\"deny\"]}},\"anyOf\":[{\"required\":[\"allow_"
	"countries\"]},{\"required\":[\"deny_countries\"]},{\"required\":[\"allow_asns\"]},{"
	"\"required\":[\"deny_asns\"]}]}",
	"\"rate\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"" REQUESTS_PATTERN
	"\"},{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"rate\"],"
	"\"properties\":{\"rate\":{\"type\":\"string\",\"pattern\":\"" REQUESTS_PATTERN
	"\"},\"burst\":{\"type\":[\"integer\",\"string\"],\"minimum\":1}}}]}",
	"\"byte_rate\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"" BYTES_PATTERN
	"\"},{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"rate\"],"
	"\"properties\":{\"rate\":{\"type\":\"string\",\"pattern\":\"" BYTES_PATTERN
	"\"},\"burst\":{\"$ref\":\"#/$defs/size\"}}}]}",
	"\"text\":{\"type\":[\"string\",\"number\",\"boolean\"]}",
	"\"duration\":{\"type\":\"string\",\"pattern\":\"^[0-9]+(ms|s|m|h)$\"}",
	"\"size\":{\"type\":\"string\",\"pattern\":\"^[0-9]+(B|KiB|MiB|GiB)$\"}",
	"\"hosts\":{\"anyOf\":[" REF_TEXT ",{\"type\":\"array\",\"minItems\":1,\"items\":" REF_TEXT
	"}]}",
	"\"patterns\":{\"anyOf\":[" REF_TEXT
	",{\"type\":\"array\",\"minItems\":1,\"maxItems\":32,\"items\":" REF_TEXT "}]}",
	"\"addresses\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[0-9A-Fa-"
	"f:.]+(/[0-9]{1,3})?$\"}}",
	"\"rule_text\":{\"type\":\"string\",\"pattern\":\"" RULE "\"}",
};
_Static_assert(KH_LIMIT_QUOTA_PLACES == 1000000, "as it stands in JSON_PLACES");
_Static_assert(KH_LIMIT_PRESET_VALUES == 64, "as it stands in JSON_RULE_USE");
_Static_assert(KH_LIMIT_PATTERNS == 32, "as it stands in `patterns`");

/* How the keys of a map stand to each other: of a section, or of the items of a list. */
static const char *between(const struct kh_options *options, const char *prefix)
{
	for (size_t i = 0; i < options->count; i++) {
		const struct kh_option *option = &options->rows[i];
		const char *map = option->items ? option->items : option->path;
		if (option->between && strcmp(map, prefix) == 0)
			return option->between;
	}
	return NULL;
}

static bool put(struct kh_buf *out, const char *text)
{
	return kh_buf_append_str(out, text);
}

static bool put_str(struct kh_buf *out, const char *text)
{
	return kh_json_string(out, kh_slice_str(text));
}

/* A definition's name: "rules[]" is rules__, "tenants.*" is tenants__. */
static bool put_name(struct kh_buf *out, const char *items)
{
	bool ok = true;
	for (; ok && *items; items++)
		ok = kh_buf_append_char(out, strchr(".[]*", *items) ? '_' : *items);
	return ok;
}

static bool put_map(const struct kh_options *options, struct kh_buf *out, const char *prefix);

static const char *pattern_of(const struct kh_option *option)
{
	if (option->check == kh_value_check_id || option->check == kh_value_check_user)
		return ID_PATTERN;
	return option->check == kh_value_check_env ? "^[A-Za-z_][A-Za-z0-9_]{0,127}$" : NULL;
}

static bool put_choices(struct kh_buf *out, const struct kh_option *option)
{
	bool ok = put(out, "\"enum\":[");
	for (size_t i = 0; ok && option->choices[i]; i++)
		ok = put(out, i ? "," : "") && put_str(out, option->choices[i]);
	return ok && put(out, "]");
}

/* Items of a list or of a named map. */
static bool put_items(struct kh_buf *out, const struct kh_option *option)
{
	bool list = option->type == KH_OPTION_LIST;
	const char *fewer = option->less;
	return put(out, list ? "\"type\":\"array\",\"items\":"
			     : "\"type\":\"object\",\"propertyNames\":{\"pattern\":\"" ID_PATTERN
			       "\"},\"additionalProperties\":") &&
	       put(out, fewer ? "{\"allOf\":[{\"$ref\":\"#/$defs/" : "{\"$ref\":\"#/$defs/") &&
	       put_name(out, option->items) && put(out, "\"}") &&
	       (!fewer || (put(out, ",{") && put(out, fewer) && put(out, "}]}")));
}

static bool put_type(const struct kh_options *options, struct kh_buf *out,
		     const struct kh_option *option)
{
	const char *shape = option->shape, *pattern = pattern_of(option);
	switch (option->type) {
	case KH_OPTION_SECTION:
		return put_map(options, out, option->path);
	case KH_OPTION_LIST:
	case KH_OPTION_MAP:
		return put_items(out, option);
	case KH_OPTION_BOOL:
		return put(out, "\"type\":\"boolean\"");
	case KH_OPTION_COUNT:
		return kh_buf_printf(out,
				     "\"type\":[\"integer\",\"string\"],\"minimum\":%llu,"
				     "\"maximum\":%llu,\"pattern\":\"^[0-9]+$\"",
				     (unsigned long long)option->least,
				     (unsigned long long)option->most);
	case KH_OPTION_DURATION:
		return put(out, "\"$ref\":\"#/$defs/duration\"");
	case KH_OPTION_SIZE:
		return put(out, "\"$ref\":\"#/$defs/size\"");
	case KH_OPTION_CHOICE:
		return put_choices(out, option);
	case KH_OPTION_TEXT:
	case KH_OPTION_PATH:
		return put(out, "\"$ref\":\"#/$defs/text\"") &&
		       (!pattern || (put(out, ",\"pattern\":") && put_str(out, pattern)));
	case KH_OPTION_NODE:
	case KH_OPTION_CUSTOM:
		break;
	}
	if (!shape && option->choices)
		return put_choices(out, option);
	if (!shape && option->as)
		shape = option->as == KH_OPTION_BOOL	   ? JSON_TRUTH
			: option->as == KH_OPTION_DURATION ? JSON_REF("duration")
							   : JSON_REF("text");
	/* Without a shape anything may stand there. */
	return !shape || (kh_buf_append_slice(out, kh_slice_of(shape + 1, strlen(shape) - 2)));
}

static bool put_default(struct kh_buf *out, const struct kh_option *option)
{
	if (!option->fallback)
		return true;
	bool literal = option->type == KH_OPTION_BOOL || option->type == KH_OPTION_COUNT;
	return put(out, ",\"default\":") &&
	       (literal ? put(out, option->fallback) : put_str(out, option->fallback));
}

static bool put_property(const struct kh_options *options, struct kh_buf *out,
			 const struct kh_option *option, const char *name)
{
	if (!put_str(out, name) || !put(out, ":{\"description\":") || !put_str(out, option->doc))
		return false;
	size_t before = kh_buf_len(out);
	if (!put(out, ","))
		return false;
	size_t comma = kh_buf_len(out);
	if (!put_type(options, out, option))
		return false;
	if (kh_buf_len(out) == comma)
		kh_buf_truncate(out, before);
	return put_default(out, option) && put(out, "}");
}

static const char *below(const struct kh_option *option, const char *prefix)
{
	const char *rest = option->path;
	size_t len = strlen(prefix);
	if (!(option->flags & KH_IN_FILE))
		return NULL;
	if (len > 0) {
		if (strncmp(rest, prefix, len) != 0 || rest[len] != '.')
			return NULL;
		rest += len + 1;
	}
	return strpbrk(rest, ".[*") ? NULL : rest;
}

/* The members of a map's schema. */
static bool put_map(const struct kh_options *options, struct kh_buf *out, const char *prefix)
{
	bool ok = put(out, "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
	const char *name, *more = between(options, prefix);
	unsigned n = 0;
	for (size_t i = 0; ok && i < options->count; i++)
		if ((name = below(&options->rows[i], prefix)))
			ok = put(out, n++ ? "," : "") &&
			     put_property(options, out, &options->rows[i], name);
	ok = ok && put(out, "}");
	n = 0;
	for (size_t i = 0; ok && i < options->count; i++)
		if ((name = below(&options->rows[i], prefix)) &&
		    (options->rows[i].flags & KH_IS_REQUIRED))
			ok = put(out, n++ ? "," : ",\"required\":[") && put_str(out, name);
	ok = ok && (n == 0 || put(out, "]"));
	return ok && (!more || (put(out, ",") && put(out, more)));
}

/* Each kind of item once, wherever it is used. */
static bool put_definitions(const struct kh_options *options, struct kh_buf *out)
{
	bool ok = put(out, "\"$defs\":{");
	for (size_t i = 0; ok && i < sizeof(definitions) / sizeof(definitions[0]); i++)
		ok = put(out, i ? "," : "") && put(out, definitions[i]);
	for (size_t i = 0; ok && i < options->count; i++) {
		const char *items = options->rows[i].items;
		bool said = !items || !(options->rows[i].flags & KH_IN_FILE);
		for (size_t j = 0; j < i && !said; j++)
			said = options->rows[j].items && (options->rows[j].flags & KH_IN_FILE) &&
			       strcmp(options->rows[j].items, items) == 0;
		ok = said || (put(out, ",\"") && put_name(out, items) && put(out, "\":{") &&
			      put_map(options, out, items) && put(out, "}"));
	}
	return ok && put(out, "}");
}

bool kh_options_schema(const struct kh_options *options, struct kh_buf *out)
{
	return put(out, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
			"\"title\":\"keyhole.yaml\",") &&
	       put_map(options, out, "") && put(out, ",") && put_definitions(options, out) &&
	       put(out, "}\n");
}

bool kh_config_schema(struct kh_buf *out)
{
	return kh_options_schema(&kh_options, out);
}
