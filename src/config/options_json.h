/* options_json.h - JSON Schemas for the rows that have a reader of their own
 *
 * Each is the complete schema of its option. `definitions` of schema.c has the parts that occur
 * more than once.
 */
#ifndef KEYHOLE_CONFIG_OPTIONS_JSON_H
#define KEYHOLE_CONFIG_OPTIONS_JSON_H

/* What a row takes: one of these words, or what a schema of its own says. */
#define KH_WORDS(...) \
	.choices = (const char *const[]) \
	{ \
		__VA_ARGS__, NULL \
	}
#define KH_SHAPE(json, text) .shape = json, .takes = text

#define JSON_REF(name) "{\"$ref\":\"#/$defs/" name "\"}"
#define JSON_ENV "{\"type\":\"string\",\"pattern\":\"^[A-Za-z_][A-Za-z0-9_]{0,127}$\"}"
#define JSON_LIST_OF(item) "{\"type\":\"array\",\"items\":" item "}"
#define JSON_MAP_OF(item) "{\"type\":\"object\",\"additionalProperties\":" item "}"
#define JSON_WITH_PORT "{\"type\":\"string\",\"pattern\":\":[0-9]+$\"}"
#define JSON_YES "{\"enum\":[true,\"true\"]}"
#define JSON_MEMBER "{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9._~-]{1,48}$\"}"
#define JSON_TEXTS JSON_LIST_OF("{\"type\":\"string\"}")
#define JSON_NUMBER "{\"type\":[\"integer\",\"string\"]}"
#define JSON_TRUTH "{\"enum\":[true,false,\"true\",\"false\"]}"
#define JSON_ONE_SOURCE "\"minProperties\":1,\"maxProperties\":1"

/* What a part's member is read as (kh_value_part). */
#define KH_PART(kind, type, name) .as = KH_OPTION_##kind, .member = offsetof(struct type, name)
#define KH_PART_DURATION(type, name, low, high) \
	KH_PART(DURATION, type, name), .least = low, .most = high
#define KH_PART_TEXT(type, name, checked) KH_PART(TEXT, type, name), .check = checked
#define KH_PART_NUMBER(type, name, checked) KH_PART_TEXT(type, name, checked), .shape = JSON_NUMBER
#define KH_PART_WORDS(kind, type, name, ...) KH_PART(kind, type, name), KH_WORDS(__VA_ARGS__)

/* A rate is text, or a map of it with its burst; one of them, or a list. */
#define JSON_RATES(name) \
	"{\"anyOf\":[" JSON_REF(name) ",{\"type\":\"array\",\"minItems\":1,\"items\":" JSON_REF( \
		name) "}]}"
#define JSON_PLACES \
	"{\"type\":[\"integer\",\"string\"],\"minimum\":1,\"maximum\":1000000," \
	"\"pattern\":\"^[0-9]+$\"}"

/* Of one option each. */
#define JSON_VALUE_TENANTS \
	"{\"type\":\"object\",\"minProperties\":1,\"additionalProperties\":{\"type\":\"object\"," \
	"\"minProperties\":1}}"
#define JSON_HEADER \
	"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":8,\"additionalProperties\":{" \
	"\"type\":\"string\",\"pattern\":\"^((?!\\\\{\\\\}).)*\\\\{\\\\}((?!\\\\{\\\\}).)*$\"}" \
	"}"
#define JSON_HMAC_HEADER \
	"{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":8,\"additionalProperties\":{" \
	"\"type\":\"string\",\"minLength\":1}}"
#define JSON_RULE_USE \
	"{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[a-z0-9-]{1,64}$\"},{\"type\":" \
	"\"object\"," \
	"\"minProperties\":1,\"maxProperties\":1,\"propertyNames\":{\"pattern\":" \
	"\"^[a-z0-9-]{1,64}$\"},\"additionalProperties\":{\"type\":[\"object\",\"null\"]," \
	"\"propertyNames\":{\"pattern\":\"^[a-z][a-z0-9_]{0,31}$\"},\"additionalProperties\":{" \
	"\"anyOf\":[" JSON_REF("text") ",{\"type\":\"array\",\"minItems\":1,\"maxItems\":64," \
				       "\"items\":" JSON_REF("text") "}]}}}]}"
#define JSON_RULE_CREDENTIAL \
	"{\"anyOf\":[" JSON_REF("text") ",{\"type\":\"array\",\"minItems\":1,\"maxItems\":4," \
					"\"items\":" JSON_REF("text") "}]}"
#define JSON_RULE_CREDENTIALS \
	"{\"type\":\"array\",\"minItems\":1,\"maxItems\":4,\"items\":" JSON_REF("text") "}"
#define JSON_RULE_QUERY \
	"{\"type\":\"object\",\"minProperties\":1,\"additionalProperties\":" JSON_REF( \
		"patterns") "}"
#define JSON_RULE_HEADERS \
	"{\"type\":\"object\",\"minProperties\":1,\"propertyNames\":{\"pattern\":\"^[^A-Z]+$\"}," \
	"\"additionalProperties\":" JSON_REF("patterns") "}"
#define JSON_AUTHORITY_KEYS \
	"\"dependentRequired\":{\"certificate\":[\"key\"],\"key\":[\"certificate\"]" \
	"}"
#define JSON_UPSTREAM_PROXY_KEYS \
	"\"dependentRequired\":{\"username\":[\"password\"],\"password\":[" \
	"\"username\"]}"
#define JSON_CREDENTIAL_KEYS \
	"\"oneOf\":[{\"required\":[\"header\"]},{\"required\":[\"bearer\"]},{\"required\":[" \
	"\"basic\"]},{\"required\":[\"azure\"]},{\"required\":[\"query\"]},{\"required\":[" \
	"\"cookie\"]},{\"required\":[\"body\"]},{\"required\":[\"aws_sigv4\"]},{\"required\":[" \
	"\"mtls\"]},{\"required\":[\"hmac\"]}," \
	"{\"anyOf\":[{\"required\":[\"gcp_service_account\"]},{\"required\":[\"github_app\"]},{" \
	"\"required\":[\"oauth2\"]}]," \
	"\"not\":{\"anyOf\":[{\"required\":[\"header\"]},{\"required\":[\"bearer\"]},{" \
	"\"required\":[\"basic\"]},{\"required\":[\"azure\"]},{\"required\":[\"query\"]},{" \
	"\"required\":[\"cookie\"]},{\"required\":[\"body\"]},{\"required\":[\"aws_sigv4\"]},{" \
	"\"required\":[\"mtls\"]},{\"required\":[\"hmac\"]}]}}]"
#define JSON_VALUE_KEYS \
	"\"oneOf\":[{\"required\":[\"env\"]},{\"required\":[\"file\"]},{" \
	"\"required\":[\"exec\"]},{" \
	"\"required\":[\"systemd\"]},{\"required\":[\"tenants\"]}]"
#define JSON_RULE_KEYS \
	"\"oneOf\":[{\"required\":[\"allow\"],\"properties\":{\"deny\":false,\"use\":false," \
	"\"mode\":{\"const\":\"enforce\"}}},{\"required\":[\"deny\"],\"properties\":{" \
	"\"allow\":false,\"use\":false,\"credential\":false,\"credentials\":false,\"client_" \
	"auth\":false,\"tls\":false," \
	"\"websocket\":false,\"placeholder\":false,\"public_suffix\":false,\"max_body\":false," \
	"\"geo\":false,\"reuse_after_content\":false," \
	"\"limits\":{\"maxProperties\":0}}},{\"required\":[\"use\"]," \
	"\"maxProperties\":1}" \
	"]"
#define JSON_LISTENER_KEYS \
	"\"oneOf\":[{\"required\":[\"unix\"],\"properties\":{\"vsock\":false,\"tcp\":false," \
	"\"cid\":false,\"token\":false}},{\"required\":[\"vsock\",\"cid\"],\"properties\":{" \
	"\"unix\":false,\"tcp\":false,\"token\":false}},{\"required\":[\"tcp\",\"token\"]," \
	"\"properties\":{\"unix\":false,\"vsock\":false,\"cid\":false}}]"
#define JSON_SITE_RULES_LESS \
	"\"properties\":{\"credential\":false,\"credentials\":false,\"client_" \
	"auth\":false,\"placeholder\":false,\"tls\":{" \
	"\"const\":\"intercept\"}}"
#define JSON_LISTENER_NARROW_LESS \
	"\"properties\":{\"credential\":false,\"credentials\":false,\"client_" \
	"auth\":false,\"placeholder\":false,\"limits\":{" \
	"\"maxProperties\":0},\"tls\":{\"const\":\"intercept\"},\"mode\":{" \
	"\"const\":\"enforce\"},\"geo\":false}"

#endif
