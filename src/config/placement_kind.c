/* placement_kind.c - which option selects which kind of placement; which fields a credential may
 * set */
#include <stdlib.h>
#include <string.h>

#include "config_internal.h"

enum { FIELD_NAME_BYTES = 64 };

static const struct {
	const char *key;
	enum kh_placement_kind kind;
} keys[] = {
	{ "header", KH_PLACEMENT_FIELDS }, { "bearer", KH_PLACEMENT_FIELDS },
	{ "basic", KH_PLACEMENT_FIELDS },  { "azure", KH_PLACEMENT_FIELDS },
	{ "query", KH_PLACEMENT_QUERY },   { "cookie", KH_PLACEMENT_COOKIE },
	{ "body", KH_PLACEMENT_BODY },	   { "aws_sigv4", KH_PLACEMENT_SIGV4 },
	{ "mtls", KH_PLACEMENT_MTLS },	   { "hmac", KH_PLACEMENT_HMAC },
};
const char kh_placement_options[] =
	"header, bearer, basic, azure, query, cookie, body, aws_sigv4, mtls, hmac";

const char *kh_placement_find(struct kh_slice key, enum kh_placement_kind kind)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].kind == kind && kh_slice_eq(key, kh_slice_str(keys[i].key)))
			return keys[i].key;
	return NULL;
}

/* "bearer" of "credentials.*.bearer", "basic" of "credentials.*.basic.username". */
static struct kh_slice key_of(const struct kh_option *option)
{
	struct kh_slice path = kh_slice_str(option->path);
	size_t first = kh_slice_find(path, '*', 0) + 2;
	return kh_slice_sub(path, first, kh_slice_find(path, '.', first));
}

struct kh_placement *kh_placement_begin(struct kh_reader *reader, const struct kh_option *option,
					const struct kh_yaml_node *node,
					struct kh_credential_config *credential,
					enum kh_placement_kind kind)
{
	struct kh_slice key = key_of(option);
	if (credential->placement) {
		kh_reader_error(reader, node->key,
				"%s: a credential goes to one place, and this one has %s already",
				option->path, credential->placement->key);
		return NULL;
	}
	struct kh_placement *placement = calloc(1, sizeof(*placement));
	if (!placement)
		return kh_reader_no_memory(reader);
	placement->kind = kind;
	placement->key = kh_placement_find(key, kind);
	credential->placement = placement;
	return placement;
}

bool kh_placement_is_token(struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		if (!kh_is_alpha(c) && !kh_is_digit(c) &&
		    (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return name.len > 0 && name.len <= FIELD_NAME_BYTES;
}

/* What frames a message, or belongs to one hop, is written by the codec alone. */
static bool is_reserved(struct kh_slice name)
{
	static const char *const reserved[] = {
		"host",		  "content-length",   "transfer-encoding",
		"connection",	  "keep-alive",	      "te",
		"trailer",	  "upgrade",	      "expect",
		"http2-settings", "content-encoding", "content-type"
	};
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (kh_slice_eq_nocase(name, kh_slice_str(reserved[i])))
			return true;
	return kh_slice_eq_nocase(kh_slice_sub(name, 0, 6), KH_SLICE("proxy-"));
}

const char *kh_placement_name_fault(struct kh_slice name)
{
	if (!kh_placement_is_token(name))
		return "a field's name must be a token (RFC 9110 section 5.6.2)";
	return is_reserved(name)
		       ? "this field frames or routes the message: no credential goes there"
		       : NULL;
}

bool kh_placement_signs(const struct kh_placement *placement)
{
	switch (kh_placement_kind_of(placement)) {
	case KH_PLACEMENT_SIGV4:
	case KH_PLACEMENT_HMAC:
		return true;
	case KH_PLACEMENT_NONE:
	case KH_PLACEMENT_FIELDS:
	case KH_PLACEMENT_QUERY:
	case KH_PLACEMENT_COOKIE:
	case KH_PLACEMENT_BODY:
	case KH_PLACEMENT_MTLS:
	case KH_PLACEMENT_KINDS:
		break;
	}
	return false;
}

bool kh_placement_is_in_target(const struct kh_placement *placement)
{
	switch (kh_placement_kind_of(placement)) {
	case KH_PLACEMENT_QUERY:
		return true;
	case KH_PLACEMENT_NONE:
	case KH_PLACEMENT_FIELDS:
	case KH_PLACEMENT_COOKIE:
	case KH_PLACEMENT_BODY:
	case KH_PLACEMENT_SIGV4:
	case KH_PLACEMENT_HMAC:
	case KH_PLACEMENT_MTLS:
	case KH_PLACEMENT_KINDS:
		break;
	}
	return false;
}
