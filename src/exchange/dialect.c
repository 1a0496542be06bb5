/*
 * dialect.c - a refusal in the form in which the client of an API expects errors
 *
 * The host, and fields that only one kind of client sends, tell which client it is. If nothing
 * tells, the form is an "error" with "type" and "message", which most clients look for. All forms
 * have the same message, and a member "keyhole" for programs. denial.c adds that, so each form here
 * leaves its object open.
 *
 *   Anthropic  platform.claude.com/docs/en/api/errors
 *   OpenAI     platform.openai.com/docs/guides/error-codes
 *   Google     cloud.google.com/apis/design/errors
 *   GitHub     docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api
 *   npm        its client (npm-registry-fetch) prints "error" of the body, if that is a string
 */

#include "exchange_internal.h"

enum dialect { GENERAL = 0, GOOGLE, GITHUB, NPM };

static bool is_host(const struct kh_exchange *x, const char *name)
{
	return kh_slice_eq(kh_host_view(&x->authority.host), kh_slice_str(name));
}

static bool begins(const struct kh_exchange *x, const char *field, const char *prefix)
{
	const struct kh_field *found = kh_message_field(x->message, kh_slice_str(field));
	return found && kh_slice_has_prefix(found->value, kh_slice_str(prefix));
}

static enum dialect dialect_of(const struct kh_exchange *x)
{
	if (begins(x, "user-agent", "npm/") || begins(x, "user-agent", "pnpm/") ||
	    is_host(x, "registry.npmjs.org"))
		return NPM;
	if (kh_slice_has_suffix(kh_host_view(&x->authority.host), KH_SLICE(".googleapis.com")) ||
	    kh_message_field(x->message, KH_SLICE("x-goog-api-client")) ||
	    kh_message_field(x->message, KH_SLICE("x-goog-api-key")))
		return GOOGLE;
	if (is_host(x, "api.github.com") || begins(x, "accept", "application/vnd.github"))
		return GITHUB;
	return GENERAL;
}

static void put_general(struct kh_buf *out, struct kh_slice message, const struct kh_err *err)
{
	int status = kh_err_status(err->code);
	const char *type = status == 403		   ? "permission_error"
			   : status == 429		   ? "rate_limit_error"
			   : status >= 400 && status < 500 ? "invalid_request_error"
							   : "api_error";

	kh_buf_printf(out,
		      "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"code\":\"keyhole_%s\","
		      "\"message\":",
		      type, kh_err_reason(err->code));
	kh_json_string(out, message);
	kh_buf_append_char(out, '}');
}

/* google.rpc.Code */
static const char *google_status(int status)
{
	switch (status) {
	case 401:
		return "UNAUTHENTICATED";
	case 403:
		return "PERMISSION_DENIED";
	case 404:
		return "NOT_FOUND";
	case 429:
		return "RESOURCE_EXHAUSTED";
	case 503:
		return "UNAVAILABLE";
	case 504:
		return "DEADLINE_EXCEEDED";
	default:
		return status >= 400 && status < 500 ? "INVALID_ARGUMENT" : "INTERNAL";
	}
}

static void put_google(struct kh_buf *out, struct kh_slice message, const struct kh_err *err)
{
	int status = kh_err_status(err->code);

	kh_buf_printf(out, "{\"error\":{\"code\":%d,\"message\":", status);
	kh_json_string(out, message);
	kh_buf_printf(out,
		      ",\"status\":\"%s\",\"details\":[{\"@type\":\"type.googleapis.com/"
		      "google.rpc.ErrorInfo\",\"reason\":\"%s\",\"domain\":\"keyhole.internal\"}]}",
		      google_status(status), kh_err_reason(err->code));
}

static void put_github(struct kh_buf *out, struct kh_slice message, const struct kh_err *err)
{
	kh_buf_append_str(out, "{\"message\":");
	kh_json_string(out, message);
	kh_buf_printf(out, ",\"documentation_url\":\"http://keyhole.internal/\",\"status\":\"%d\"",
		      kh_err_status(err->code));
}

static void put_npm(struct kh_buf *out, struct kh_slice message)
{
	kh_buf_append_str(out, "{\"error\":");
	kh_json_string(out, message);
}

void kh_dialect_put(struct kh_buf *out, const struct kh_exchange *x, struct kh_slice message,
		    const struct kh_err *err)
{
	switch (x ? dialect_of(x) : GENERAL) {
	case GOOGLE:
		put_google(out, message, err);
		break;
	case GITHUB:
		put_github(out, message, err);
		break;
	case NPM:
		put_npm(out, message);
		break;
	case GENERAL:
		put_general(out, message, err);
		break;
	}
}
