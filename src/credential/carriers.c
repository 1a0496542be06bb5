/*
 * carriers.c - the names of carriers of authentication, and their removal from a query
 *
 * One table of names. A rule without a credential refuses a request with such a carrier; a rule
 * with one removes it. So a key of the sandbox's own is never sent along. Names are compared in
 * every spelling that some server takes for the same (spelling.h).
 */
#include <keyhole/http/target.h>

#include "credential_internal.h"

#define NAME(text) \
	{ \
		text, sizeof(text) - 1 \
	}

static const struct kh_slice fields[] = {
	/* the standard's own */
	NAME("authorization"),
	NAME("proxy-authorization"),
	NAME("cookie"),
	NAME("cookie2"),
	/* passed on by gateways */
	NAME("x-authorization"),
	NAME("x-forwarded-access-token"),
	NAME("x-forwarded-authorization"),
	NAME("x-original-authorization"),
	/* in general use */
	NAME("access-token"),
	NAME("api-key"),
	NAME("api-token"),
	NAME("apikey"),
	NAME("auth-token"),
	NAME("client-secret"),
	NAME("session-token"),
	NAME("token"),
	NAME("x-access-key"),
	NAME("x-access-token"),
	NAME("x-api-key"),
	NAME("x-api-secret"),
	NAME("x-api-token"),
	NAME("x-apikey"),
	NAME("x-auth"),
	NAME("x-auth-key"),
	NAME("x-auth-token"),
	NAME("x-client-secret"),
	NAME("x-secret-key"),
	NAME("x-session-token"),
	NAME("x-subscription-key"),
	NAME("x-subscription-token"),
	NAME("x-token"),
	NAME("x-user-token"),
	/* one service's each */
	NAME("circle-token"),
	NAME("dd-api-key"),
	NAME("dd-application-key"),
	NAME("deploy-token"),
	NAME("job-token"),
	NAME("ocp-apim-subscription-key"),
	NAME("private-token"),
	NAME("x-algolia-api-key"),
	NAME("x-amz-security-token"),
	NAME("x-amz-s3session-token"),
	NAME("x-buildkite-token"),
	NAME("x-consul-token"),
	NAME("x-figma-token"),
	NAME("x-functions-key"),
	NAME("x-github-token"),
	NAME("x-gitlab-token"),
	NAME("x-goog-api-key"),
	NAME("x-goog-iam-authorization-token"),
	NAME("x-honeycomb-team"),
	NAME("x-jfrog-art-api"),
	NAME("x-ms-authorization-auxiliary"),
	NAME("x-ms-copy-source-authorization"),
	NAME("x-ms-file-rename-source-authorization"),
	NAME("x-nomad-token"),
	NAME("x-nuget-apikey"),
	NAME("x-plex-token"),
	NAME("x-postmark-account-token"),
	NAME("x-postmark-server-token"),
	NAME("x-rapidapi-key"),
	NAME("x-registry-auth"),
	NAME("x-sentry-auth"),
	NAME("x-shopify-access-token"),
	NAME("x-tableau-auth"),
	NAME("x-typesense-api-key"),
	NAME("x-vault-token"),
	NAME("xi-api-key"),
};

static const struct kh_slice parameters[] = {
	NAME("$key"),
	NAME("$access-token"),
	NAME("$oauth-token"),
	NAME("$bearer-token"),
	NAME("$httpheaders"), /* any field, Authorization too */
	NAME("access-key"),
	NAME("access-token"),
	NAME("accesskey"),
	NAME("accesstoken"),
	NAME("api-key"),
	NAME("api-secret"),
	NAME("api-token"),
	NAME("apikey"),
	NAME("apitoken"),
	NAME("appkey"),
	NAME("app-key"),
	NAME("auth"),
	NAME("auth-token"),
	NAME("authorization"),
	NAME("authtoken"),
	NAME("awsaccesskeyid"),
	NAME("bearer-token"),
	NAME("client-secret"),
	NAME("googleaccessid"),
	NAME("id-token"),
	NAME("jwt"),
	NAME("key"),
	NAME("oauth-signature"),
	NAME("oauth-token"),
	NAME("password"),
	NAME("private-token"),
	NAME("job-token"),
	NAME("refresh-token"),
	NAME("secret"),
	NAME("session-token"),
	NAME("sig"),
	NAME("signature"),
	NAME("subscription-key"),
	NAME("token"),
};

/* Every parameter of these signatures: AWS Signature 4, Google's V4. */
static const struct kh_slice parameter_prefixes[] = {
	NAME("x-amz-"),
	NAME("x-goog-"),
};

/*
 * What only means authentication beside a signature: Azure's SAS beside `sig`; Expires, Policy and
 * Key-Pair-Id of S3's and CloudFront's older URLs beside `Signature`; OAuth 1. Alone they are
 * ordinary words, and an ordinary request is not cut up for them.
 */
static const struct kh_slice companions[] = {
	NAME("expires"),
	NAME("key-pair-id"),
	NAME("oauth-consumer-key"),
	NAME("oauth-nonce"),
	NAME("oauth-signature-method"),
	NAME("oauth-timestamp"),
	NAME("oauth-version"),
	NAME("policy"),
	NAME("saoid"),
	NAME("scid"),
	NAME("sdd"),
	NAME("se"),
	NAME("si"),
	NAME("sip"),
	NAME("ske"),
	NAME("skoid"),
	NAME("sks"),
	NAME("skt"),
	NAME("sktid"),
	NAME("skv"),
	NAME("sp"),
	NAME("spr"),
	NAME("sr"),
	NAME("srt"),
	NAME("ss"),
	NAME("st"),
	NAME("suoid"),
	NAME("sv"),
};
static const struct kh_slice signatures[] = {
	NAME("oauth-signature"),
	NAME("sig"),
	NAME("signature"),
};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static bool is_one_of(struct kh_slice name, const struct kh_slice *list, size_t n,
		      bool is_same(struct kh_slice, struct kh_slice))
{
	for (size_t i = 0; i < n; i++)
		if (is_same(name, list[i]))
			return true;
	return false;
}

bool kh_carrier_is_field(struct kh_slice name)
{
	return is_one_of(name, fields, COUNT(fields), kh_spelling_is_field);
}

enum { NAME_BYTES = 64 }; /* more than the longest name of the tables */

/* A parameter's name as a server may come to see it. What does not fit the buffer is no name of
 * ours; its beginning is kept for the prefixes. */
static struct kh_slice decode(struct kh_slice name, char buffer[NAME_BYTES])
{
	return kh_slice_of(buffer, kh_spelling_of_parameter(name, buffer, NAME_BYTES));
}

static bool is_parameter(struct kh_slice decoded)
{
	size_t front = kh_spelling_front(decoded);

	for (size_t i = 0; i < COUNT(parameter_prefixes); i++) {
		struct kh_slice prefix = parameter_prefixes[i];

		if (kh_spelling_is_field(kh_slice_sub(decoded, front, front + prefix.len), prefix))
			return true;
	}
	return is_one_of(decoded, parameters, COUNT(parameters), kh_spelling_is_decoded);
}

bool kh_carrier_is_query(struct kh_slice name)
{
	char buffer[NAME_BYTES];

	return is_parameter(decode(name, buffer));
}

bool kh_carrier_is_in_path_field(const struct kh_field *field)
{
	struct kh_slice query;

	if (!kh_override_has_path(field, &query))
		return false;
	return kh_carrier_find_in_query(query).len > 0;
}

struct kh_slice kh_carrier_find_in_query(struct kh_slice query)
{
	struct kh_slice name, value;

	while (kh_query_next(&query, &name, &value))
		if (kh_carrier_is_query(name))
			return name;
	return KH_SLICE("");
}

struct kh_slice kh_carrier_find_but(const struct kh_message *message, struct kh_slice query,
				    struct kh_slice ours)
{
	for (size_t i = 0; i < message->n_fields; i++)
		if ((kh_carrier_is_field(message->fields[i].name) &&
		     !kh_slice_eq_nocase(message->fields[i].name, ours)) ||
		    kh_carrier_is_in_path_field(&message->fields[i]))
			return message->fields[i].name;
	if (kh_carrier_is_among_protocols(message))
		return KH_SLICE("sec-websocket-protocol");
	return kh_carrier_find_in_query(query);
}

struct kh_slice kh_carrier_find(const struct kh_message *message, struct kh_slice query)
{
	return kh_carrier_find_but(message, query, KH_SLICE(""));
}

bool kh_carrier_is_signature(struct kh_slice name)
{
	char buffer[NAME_BYTES];

	return is_one_of(decode(name, buffer), signatures, COUNT(signatures),
			 kh_spelling_is_decoded);
}

static bool is_signed(struct kh_slice query)
{
	struct kh_slice name, value;

	while (kh_query_next(&query, &name, &value))
		if (kh_carrier_is_signature(name))
			return true;
	return false;
}

bool kh_carrier_is_named(struct kh_slice parameter, struct kh_slice name)
{
	return kh_spelling_is_parameter(parameter, name);
}

bool kh_carrier_goes(struct kh_slice name, bool with_companions)
{
	char buffer[NAME_BYTES];
	struct kh_slice decoded = decode(name, buffer);

	return is_parameter(decoded) ||
	       (with_companions &&
		is_one_of(decoded, companions, COUNT(companions), kh_spelling_is_decoded));
}

/*
 * Both '&' and ';' part parameters, since servers differ; of the separators around what was taken
 * out the '&' stays, which all of them know, so that no two parameters become one.
 */
static bool put_kept(struct kh_buf *out, struct kh_slice query, bool with_companions)
{
	struct kh_slice rest = query, name, value;
	bool first = true;
	char separator = '\0';

	while (kh_query_next(&rest, &name, &value)) {
		const char *start = name.ptr;
		size_t len = value.ptr == name.ptr + name.len ? name.len : name.len + 1 + value.len;
		char behind = rest.ptr ? start[len] : '\0';

		if (!kh_carrier_goes(name, with_companions)) {
			if (!first && !kh_buf_append_char(out, separator))
				return false;
			if (!kh_buf_append(out, start, len))
				return false;
			first = false;
			separator = behind;
		} else if (separator != '&') {
			separator = behind;
		}
	}
	return true;
}

bool kh_carrier_strip_query(struct kh_buf *out, struct kh_slice raw)
{
	size_t mark = kh_slice_find(raw, '?', 0), before = kh_buf_len(out);
	struct kh_slice query = kh_slice_sub(raw, mark + 1, raw.len);
	struct kh_slice rest = query, name, value;
	bool any = false, with_companions = mark < raw.len && is_signed(query);

	while (mark < raw.len && !any && kh_query_next(&rest, &name, &value))
		any = kh_carrier_goes(name, with_companions);
	if (!any)
		return kh_buf_append_slice(out, raw);
	size_t path_end = before + mark;
	if (!kh_buf_append_slice(out, kh_slice_sub(raw, 0, mark + 1)) ||
	    !put_kept(out, query, with_companions)) {
		kh_buf_truncate(out, before);
		return false;
	}
	if (kh_buf_len(out) == path_end + 1)
		kh_buf_truncate(out, path_end);
	return true;
}
