/*
 * schema.c - keyhole.yaml as a JSON Schema (draft 2020-12), for editors
 *
 * Made from the table of options: each row is a property with its description, type, bounds and
 * default. What a row leaves to a reader of its own (CUSTOM, NODE) is said in `shapes` below, and
 * what stands between the keys of one map in `between`. Whatever `keyhole check` takes, the schema
 * takes; it can't say all that check knows (names that must exist, what a credential is bound to).
 *
 * A scalar is text to keyhole, and a number or a truth to other readers of YAML: where any text
 * will do, so will those.
 */
#include <string.h>

#include <keyhole/escape.h>
#include <keyhole/limits.h>

#include "config_internal.h"

struct named {
	const char *path;
	const char *json; /* members of an object, or a whole schema */
};

#define REF(name) "{\"$ref\":\"#/$defs/" name "\"}"
#define ENV "{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][A-Za-z0-9_]{0,127}$\"}"
#define LIST_OF(item) "{\"type\":\"array\",\"items\":" item "}"
#define MAP_OF(item) "{\"type\":\"object\",\"additionalProperties\":" item "}"
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

/* What is said more than once. */
static const char definitions[] =
	"\"geo\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
	"\"allow_countries\":" COUNTRIES ",\"deny_countries\":" COUNTRIES
	",\"allow_asns\":" NETWORKS ",\"deny_asns\":" NETWORKS
	",\"unknown\":{\"enum\":[\"allow\",\"deny\"]}},\"anyOf\":["
	"{\"required\":[\"allow_countries\"]},{\"required\":[\"deny_countries\"]},"
	"{\"required\":[\"allow_asns\"]},{\"required\":[\"deny_asns\"]}]},"
	"\"rate\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"" REQUESTS_PATTERN
	"\"},{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"rate\"],"
	"\"properties\":{\"rate\":{\"type\":\"string\",\"pattern\":\"" REQUESTS_PATTERN
	"\"},\"burst\":{\"type\":[\"integer\",\"string\"],\"minimum\":1}}}]},"
	"\"byte_rate\":{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"" BYTES_PATTERN
	"\"},{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"rate\"],"
	"\"properties\":{\"rate\":{\"type\":\"string\",\"pattern\":\"" BYTES_PATTERN
	"\"},\"burst\":{\"$ref\":\"#/$defs/size\"}}}]},"
	"\"text\":{\"type\":[\"string\",\"number\",\"boolean\"]},"
	"\"duration\":{\"type\":\"string\",\"pattern\":\"^[0-9]+(ms|s|m|h)$\"},"
	"\"size\":{\"type\":\"string\",\"pattern\":\"^[0-9]+(B|KiB|MiB|GiB)$\"},"
	"\"hosts\":{\"anyOf\":[" REF("text") ",{\"type\":\"array\",\"minItems\":1,\"items\":" REF(
		"text") "}]},"
			"\"patterns\":{\"anyOf\":[" REF(
				"text") ",{\"type\":\"array\",\"minItems\":1,\"maxItems\":"
					"32,\"items\":" REF(
						"text") "}]},"
							"\"addresses\":{\"type\":\"array\","
							"\"items\":{\"type\":\"string\","
							"\"pattern\":"
							"\"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$\"}},"
							"\"rule_text\":{\"type\":\"string\","
							"\"pattern\":\"" RULE "\"}";
_Static_assert(KH_LIMIT_QUOTA_PLACES == 1000000, "as it stands in PLACES");
_Static_assert(KH_LIMIT_PRESET_VALUES == 64, "as it stands in rules[].use");
_Static_assert(KH_LIMIT_PATTERNS == 32, "as it stands in `patterns`");

/* A rate is text, or a map of it with its burst; one of them, or a list. */
#define RATES(name) \
	"{\"anyOf\":[" REF(name) ",{\"type\":\"array\",\"minItems\":1,\"items\":" REF(name) "}]}"
#define PLACES \
	"{\"type\":[\"integer\",\"string\"],\"minimum\":1,\"maximum\":1000000," \
	"\"pattern\":\"^[0-9]+$\"}"
#define LIMITS(owner) \
	{ owner ".limits.requests", RATES("rate") }, \
		{ owner ".limits.bytes_up", RATES("byte_rate") }, \
		{ owner ".limits.bytes_down", RATES("byte_rate") }, \
		{ owner ".limits.concurrency", PLACES }, { owner ".limits.connections", PLACES }, \
		{ owner ".limits.max_body", REF("size") }, \
	{ \
		owner ".limits.tunnel_lifetime", REF("duration") \
	}

/* Rows with a reader of their own: the whole of what stands there. */
static const struct named shapes[] = {
	{ "version", "{\"enum\":[1,\"1\"]}" },
	{ "upstream.resolve", MAP_OF("{\"type\":\"string\",\"pattern\":\":[0-9]+$\"}") },
	{ "upstream.allow_addresses", REF("addresses") },
	{ "tenants.*.allow_addresses", REF("addresses") },
	{ "upstream.nameservers", LIST_OF("{\"type\":\"string\"}") },
	{ "upstream.proxy.url", "{\"type\":\"string\",\"pattern\":\"^http://[^/@]+:[0-9]+/?$\"}" },
	{ "upstream.proxy.password.env", ENV },
	{ "upstream.proxy.password.file", REF("text") },
	{ "upstream.proxy.no_proxy", LIST_OF(REF("text")) },
	{ "upstream.geo.country_db", REF("text") },
	{ "upstream.geo.asn_db", REF("text") },
	{ "site.geo", REF("geo") },
	{ "tenants.*.geo", REF("geo") },
	{ "rules[].geo", REF("geo") },
	{ "credentials.*.value.env", ENV },
	{ "credentials.*.value.file", REF("text") },
	{ "credentials.*.value.exec", LIST_OF("{\"type\":\"string\"}") },
	{ "credentials.*.value.systemd", REF("text") },
	{ "credentials.*.value.refresh", REF("duration") },
	{ "credentials.*.value.timeout", REF("duration") },
	{ "credentials.*.value.max_age", REF("duration") },
	{ "credentials.*.value.environment", LIST_OF("{\"type\":\"string\"}") },
	{ "credentials.*.value.json", REF("text") },
	{ "credentials.*.value.expires", REF("text") },
	{ "credentials.*.value.first_line", "{\"enum\":[true,false,\"true\",\"false\"]}" },
	{ "credentials.*.value.format", "{\"enum\":[\"auto\",\"text\",\"json\"]}" },
	{ "credentials.*.value.tenants",
	  "{\"type\":\"object\",\"minProperties\":1,\"additionalProperties\":{\"type\":\"object\","
	  "\"minProperties\":1}}" },
	{ "credentials.*.gcp_service_account.scopes", LIST_OF("{\"type\":\"string\"}") },
	{ "credentials.*.gcp_service_account.token_url", REF("text") },
	{ "credentials.*.gcp_service_account.timeout", REF("duration") },
	{ "credentials.*.github_app.app_id", "{\"type\":[\"integer\",\"string\"]}" },
	{ "credentials.*.github_app.installation_id", "{\"type\":[\"integer\",\"string\"]}" },
	{ "credentials.*.github_app.owner", REF("text") },
	{ "credentials.*.github_app.per_repository", "{\"enum\":[true,false,\"true\",\"false\"]}" },
	{ "credentials.*.github_app.api_url", REF("text") },
	{ "credentials.*.github_app.timeout", REF("duration") },
	{ "credentials.*.oauth2.grant", "{\"enum\":[\"client_credentials\",\"refresh_token\"]}" },
	{ "credentials.*.oauth2.token_url", REF("text") },
	{ "credentials.*.oauth2.client_id", REF("text") },
	{ "credentials.*.oauth2.client_auth", "{\"enum\":[\"basic\",\"body\"]}" },
	{ "credentials.*.oauth2.client_secret",
	  "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":1}" },
	{ "credentials.*.oauth2.scopes", LIST_OF("{\"type\":\"string\"}") },
	{ "credentials.*.oauth2.audience", REF("text") },
	{ "credentials.*.oauth2.state", REF("text") },
	{ "credentials.*.oauth2.timeout", REF("duration") },
	{ "credentials.*.header",
	  "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":8,\"additionalProperties\":{"
	  "\"type\":\"string\",\"pattern\":\"^((?!\\\\{\\\\}).)*\\\\{\\\\}((?!\\\\{\\\\}).)*$\"}"
	  "}" },
	{ "credentials.*.bearer", "{\"enum\":[true,\"true\"]}" },
	{ "credentials.*.azure", "{\"enum\":[true,\"true\"]}" },
	{ "credentials.*.basic.username",
	  "{\"type\":[\"string\",\"number\"],\"pattern\":\"^[^:]+$\"}" },
	{ "credentials.*.query", "{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9._~-]{1,48}$\"}" },
	{ "credentials.*.cookie", "{\"type\":\"string\",\"minLength\":1,\"maxLength\":48}" },
	{ "credentials.*.aws_sigv4.region", REF("text") },
	{ "credentials.*.aws_sigv4.service", REF("text") },
	{ "credentials.*.aws_sigv4.access_key_id", ENV },
	{ "credentials.*.aws_sigv4.session_token", ENV },
	{ "credentials.*.mtls.certificate", REF("text") },
	{ "credentials.*.hmac.algorithm",
	  "{\"enum\":[\"sha256\",\"sha384\",\"sha512\",\"sha1\"]}" },
	{ "credentials.*.hmac.key", "{\"enum\":[\"text\",\"base64\",\"hex\"]}" },
	{ "credentials.*.hmac.encoding", "{\"enum\":[\"hex\",\"base64\"]}" },
	{ "credentials.*.hmac.timestamp", "{\"enum\":[\"s\",\"ms\",\"http\",\"iso\"]}" },
	{ "credentials.*.hmac.sign", "{\"type\":\"string\",\"minLength\":1,\"maxLength\":1024}" },
	{ "credentials.*.hmac.header",
	  "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":8,\"additionalProperties\":{"
	  "\"type\":\"string\",\"minLength\":1}}" },
	{ "credentials.*.hosts", REF("hosts") },
	{ "credentials.*.body.json", "{\"type\":\"string\",\"pattern\":\"^/[^/]\"}" },
	{ "credentials.*.body.form",
	  "{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9._~-]{1,48}$\"}" },
	{ "credentials.*.paths", REF("hosts") },
	{ "credentials.*.methods", REF("hosts") },
	{ "rules[].allow", REF("rule_text") },
	{ "rules[].deny", REF("rule_text") },
	{ "rules[].use",
	  "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[a-z0-9-]{1,64}$\"},{\"type\":"
	  "\"object\","
	  "\"minProperties\":1,\"maxProperties\":1,\"propertyNames\":{\"pattern\":"
	  "\"^[a-z0-9-]{1,64}$\"},\"additionalProperties\":{\"type\":[\"object\",\"null\"],"
	  "\"propertyNames\":{\"pattern\":\"^[a-z][a-z0-9_]{0,31}$\"},\"additionalProperties\":{"
	  "\"anyOf\":[" REF("text") ",{\"type\":\"array\",\"minItems\":1,\"maxItems\":64,"
				    "\"items\":" REF("text") "}]}}}]}" },
	{ "rules[].credential",
	  "{\"anyOf\":[" REF("text") ",{\"type\":\"array\",\"minItems\":1,\"maxItems\":4,"
				     "\"items\":" REF("text") "}]}" },
	{ "rules[].credentials",
	  "{\"type\":\"array\",\"minItems\":1,\"maxItems\":4,\"items\":" REF("text") "}" },
	{ "rules[].client_auth", "{\"enum\":[\"refuse\",\"pass\"]}" },
	{ "rules[].tls", "{\"enum\":[\"intercept\",\"passthrough\"]}" },
	{ "rules[].websocket", "{\"enum\":[true,false,\"true\",\"false\"]}" },
	{ "rules[].placeholder", "{\"enum\":[\"mark\",\"refuse\"]}" },
	{ "rules[].public_suffix", "{\"const\":\"allow\"}" },
	{ "rules[].query", "{\"type\":\"object\",\"minProperties\":1,\"additionalProperties\":" REF(
				   "patterns") "}" },
	{ "rules[].headers",
	  "{\"type\":\"object\",\"minProperties\":1,\"propertyNames\":{\"pattern\":\"^[^A-Z]+$\"},"
	  "\"additionalProperties\":" REF("patterns") "}" },
	{ "rules[].content_type", REF("patterns") },
	{ "rules[].models", REF("patterns") },
	{ "rules[].max_body", REF("size") },
	{ "rules[].mode", "{\"enum\":[\"enforce\",\"observe\"]}" },
	{ "listen[].tcp", "{\"type\":\"string\",\"pattern\":\":[0-9]+$\"}" },
	{ "listen[].token.env", ENV },
	{ "listen[].token.file", REF("text") },
	{ "listen[].tenant", REF("text") },
	{ "listen[].mode", "{\"type\":[\"string\",\"integer\"],\"pattern\":\"^[0-7]{3,4}$\"}" },
	{ "listen[].owner", REF("text") },
	{ "listen[].group", REF("text") },
	{ "admin.metrics", "{\"type\":\"string\",\"pattern\":\":[0-9]+$\"}" },
	{ "admin.allow[].user", REF("text") },
	{ "admin.allow[].tenants", REF("hosts") },
	{ "expect[].tenant", REF("text") },
	{ "expect[].sandbox", REF("text") },
	{ "expect[].allow", REF("text") },
	{ "expect[].deny", REF("text") },
	{ "expect[].model", REF("text") },
	{ "expect[].headers", MAP_OF(REF("text")) },
	LIMITS("site"),
	LIMITS("tenants.*"),
	LIMITS("listen[]"),
	LIMITS("rules[]"),
};

#define ONE_SOURCE "\"minProperties\":1,\"maxProperties\":1"

/* How the keys of a map stand to each other: further members of its schema. */
static const struct named between[] = {
	{ "authority", "\"dependentRequired\":{\"certificate\":[\"key\"],\"key\":[\"certificate\"]"
		       "}" },
	{ "upstream.proxy", "\"dependentRequired\":{\"username\":[\"password\"],\"password\":["
			    "\"username\"]}" },
	{ "upstream.proxy.password", ONE_SOURCE },
	{ "credentials.*",
	  "\"oneOf\":[{\"required\":[\"header\"]},{\"required\":[\"bearer\"]},{\"required\":["
	  "\"basic\"]},{\"required\":[\"azure\"]},{\"required\":[\"query\"]},{\"required\":["
	  "\"cookie\"]},{\"required\":[\"body\"]},{\"required\":[\"aws_sigv4\"]},{\"required\":["
	  "\"mtls\"]},{\"required\":[\"hmac\"]},"
	  "{\"anyOf\":[{\"required\":[\"gcp_service_account\"]},{\"required\":[\"github_app\"]},{"
	  "\"required\":[\"oauth2\"]}],"
	  "\"not\":{\"anyOf\":[{\"required\":[\"header\"]},{\"required\":[\"bearer\"]},{"
	  "\"required\":[\"basic\"]},{\"required\":[\"azure\"]},{\"required\":[\"query\"]},{"
	  "\"required\":[\"cookie\"]},{\"required\":[\"body\"]},{\"required\":[\"aws_sigv4\"]},{"
	  "\"required\":[\"mtls\"]},{\"required\":[\"hmac\"]}]}}]" },
	{ "credentials.*.body", ONE_SOURCE },
	{ "credentials.*.hmac", "\"required\":[\"sign\",\"header\"]" },
	{ "credentials.*.value", "\"oneOf\":[{\"required\":[\"env\"]},{\"required\":[\"file\"]},{"
				 "\"required\":[\"exec\"]},{"
				 "\"required\":[\"systemd\"]},{\"required\":[\"tenants\"]}]" },
	{ "listen[].token", ONE_SOURCE },
	{ "rules[]",
	  "\"oneOf\":[{\"required\":[\"allow\"],\"properties\":{\"deny\":false,\"use\":false,"
	  "\"mode\":{\"const\":\"enforce\"}}},{\"required\":[\"deny\"],\"properties\":{"
	  "\"allow\":false,\"use\":false,\"credential\":false,\"credentials\":false,\"client_"
	  "auth\":false,\"tls\":false,"
	  "\"websocket\":false,\"placeholder\":false,\"public_suffix\":false,\"max_body\":false,"
	  "\"geo\":false,"
	  "\"limits\":{\"maxProperties\":0}}},{\"required\":[\"use\"],"
	  "\"maxProperties\":1}"
	  "]" },
	{ "listen[]",
	  "\"oneOf\":[{\"required\":[\"unix\"],\"properties\":{\"vsock\":false,\"tcp\":false,"
	  "\"cid\":false,\"token\":false}},{\"required\":[\"vsock\",\"cid\"],\"properties\":{"
	  "\"unix\":false,\"tcp\":false,\"token\":false}},{\"required\":[\"tcp\",\"token\"],"
	  "\"properties\":{\"unix\":false,\"vsock\":false,\"cid\":false}}]" },
	{ "admin", "\"dependentRequired\":{\"allow\":[\"unix\"]}" },
	{ "expect[]", "\"oneOf\":[{\"required\":[\"allow\"]},{\"required\":[\"deny\"]}]" },
};

/* Lists whose items may hold less than others of their kind: they open nothing. */
static const struct named less[] = {
	{ "site.rules", "\"properties\":{\"credential\":false,\"credentials\":false,\"client_"
			"auth\":false,\"placeholder\":false,\"tls\":{"
			"\"const\":\"intercept\"}}" },
	{ "listen[].narrow", "\"properties\":{\"credential\":false,\"credentials\":false,\"client_"
			     "auth\":false,\"placeholder\":false,\"limits\":{"
			     "\"maxProperties\":0},\"tls\":{\"const\":\"intercept\"},\"mode\":{"
			     "\"const\":\"enforce\"},\"geo\":false}" },
};

static const char *find(const struct named *list, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].path, path) == 0)
			return list[i].json;
	return NULL;
}
#define FIND(list, path) find(list, sizeof(list) / sizeof((list)[0]), path)

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

static bool put_map(struct kh_buf *out, const char *prefix);

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
	const char *fewer = FIND(less, option->path);
	return put(out, list ? "\"type\":\"array\",\"items\":"
			     : "\"type\":\"object\",\"propertyNames\":{\"pattern\":\"" ID_PATTERN
			       "\"},\"additionalProperties\":") &&
	       put(out, fewer ? "{\"allOf\":[{\"$ref\":\"#/$defs/" : "{\"$ref\":\"#/$defs/") &&
	       put_name(out, option->items) && put(out, "\"}") &&
	       (!fewer || (put(out, ",{") && put(out, fewer) && put(out, "}]}")));
}

static bool put_type(struct kh_buf *out, const struct kh_option *option)
{
	const char *shape = FIND(shapes, option->path), *pattern = pattern_of(option);
	switch (option->type) {
	case KH_OPTION_SECTION:
		return put_map(out, option->path);
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

static bool put_property(struct kh_buf *out, const struct kh_option *option, const char *name)
{
	if (!put_str(out, name) || !put(out, ":{\"description\":") || !put_str(out, option->doc))
		return false;
	size_t before = kh_buf_len(out);
	if (!put(out, ","))
		return false;
	size_t comma = kh_buf_len(out);
	if (!put_type(out, option))
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
static bool put_map(struct kh_buf *out, const char *prefix)
{
	bool ok = put(out, "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
	const char *name, *more = FIND(between, prefix);
	unsigned n = 0;
	for (size_t i = 0; ok && i < kh_options_count; i++)
		if ((name = below(&kh_options[i], prefix)))
			ok = put(out, n++ ? "," : "") && put_property(out, &kh_options[i], name);
	ok = ok && put(out, "}");
	n = 0;
	for (size_t i = 0; ok && i < kh_options_count; i++)
		if ((name = below(&kh_options[i], prefix)) &&
		    (kh_options[i].flags & KH_IS_REQUIRED))
			ok = put(out, n++ ? "," : ",\"required\":[") && put_str(out, name);
	ok = ok && (n == 0 || put(out, "]"));
	return ok && (!more || (put(out, ",") && put(out, more)));
}

/* Each kind of item once, wherever it is used. */
static bool put_definitions(struct kh_buf *out)
{
	bool ok = put(out, "\"$defs\":{") && put(out, definitions);
	for (size_t i = 0; ok && i < kh_options_count; i++) {
		const char *items = kh_options[i].items;
		bool said = !items || !(kh_options[i].flags & KH_IN_FILE);
		for (size_t j = 0; j < i && !said; j++)
			said = kh_options[j].items && (kh_options[j].flags & KH_IN_FILE) &&
			       strcmp(kh_options[j].items, items) == 0;
		ok = said || (put(out, ",\"") && put_name(out, items) && put(out, "\":{") &&
			      put_map(out, items) && put(out, "}"));
	}
	return ok && put(out, "}");
}

bool kh_config_schema(struct kh_buf *out)
{
	return put(out, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
			"\"title\":\"keyhole.yaml\",") &&
	       put_map(out, "") && put(out, ",") && put_definitions(out) && put(out, "}\n");
}

const char *kh_config_schema_shape(const char *path)
{
	return FIND(shapes, path);
}
