/* fetch_wire.c - encodes and decodes the fetcher's order and its answer */

#include <keyhole/fetcher/fetch.h>

#include <string.h>

#include <keyhole/base/limits.h>

bool kh_fetch_order_put(struct kh_buf *out, const struct kh_fetch_order *order)
{
	bool ok = kh_wire_put_u32(out, order->timeout_ms) && kh_wire_put_str(out, order->user) &&
		  kh_wire_put_bytes(out, kh_host_view(&order->host)) &&
		  kh_wire_put_u16(out, order->port) && kh_wire_put_u8(out, order->post) &&
		  kh_wire_put_bytes(out, order->target) &&
		  kh_wire_put_u8(out, (uint8_t)order->n_fields);
	for (size_t i = 0; ok && i < order->n_fields; i++)
		ok = kh_wire_put_bytes(out, order->fields[i].name) &&
		     kh_wire_put_bytes(out, order->fields[i].value);
	return ok && kh_wire_put_bytes(out, order->body) &&
	       kh_wire_put_bytes(out, order->proxy_auth);
}

bool kh_fetch_order_take(struct kh_slice body, struct kh_fetch_order *out)
{
	struct kh_wire_reader r = { .rest = body };
	*out = (struct kh_fetch_order){ .timeout_ms = kh_wire_u32(&r) };
	out->user = kh_wire_str(&r);
	struct kh_slice host = kh_wire_bytes(&r);
	out->port = kh_wire_u16(&r);
	out->post = kh_wire_u8(&r) == 1;
	out->target = kh_wire_bytes(&r);
	out->n_fields = kh_wire_u8(&r);
	if (out->n_fields > KH_FETCH_FIELDS)
		return false;
	for (size_t i = 0; i < out->n_fields; i++) {
		out->fields[i].name = kh_wire_bytes(&r);
		out->fields[i].value = kh_wire_bytes(&r);
	}
	out->body = kh_wire_bytes(&r);
	out->proxy_auth = kh_wire_bytes(&r);
	return kh_wire_done(&r) && out->timeout_ms > 0 && out->port > 0 && out->target.len > 0 &&
	       kh_host_parse(&out->host, host, NULL);
}

const char *kh_fetch_error_name(enum kh_fetch_error error)
{
	static const char *const names[KH_FETCH_ERRORS] = {
		[KH_FETCH_ERROR_NONE] = "",
		[KH_FETCH_ERROR_INVALID_REQUEST] = "invalid_request",
		[KH_FETCH_ERROR_INVALID_CLIENT] = "invalid_client",
		[KH_FETCH_ERROR_INVALID_GRANT] = "invalid_grant",
		[KH_FETCH_ERROR_UNAUTHORIZED_CLIENT] = "unauthorized_client",
		[KH_FETCH_ERROR_UNSUPPORTED_GRANT_TYPE] = "unsupported_grant_type",
		[KH_FETCH_ERROR_INVALID_SCOPE] = "invalid_scope",
		[KH_FETCH_ERROR_ACCESS_DENIED] = "access_denied",
		[KH_FETCH_ERROR_SERVER_ERROR] = "server_error",
		[KH_FETCH_ERROR_TEMPORARILY_UNAVAILABLE] = "temporarily_unavailable",
		[KH_FETCH_ERROR_OTHER] = "an error of its own",
	};
	return names[error < KH_FETCH_ERRORS ? error : KH_FETCH_ERROR_OTHER];
}

bool kh_fetch_answer_put(struct kh_buf *out, const struct kh_fetch_answer *answer)
{
	return kh_wire_put_u8(out, answer->ok) && kh_wire_put_u16(out, answer->status) &&
	       kh_wire_put_u64(out, answer->date_s) &&
	       kh_wire_put_u8(out, (uint8_t)answer->error) &&
	       kh_wire_put_bytes(out, answer->token) && kh_wire_put_u64(out, answer->lifetime_s) &&
	       kh_wire_put_u64(out, answer->expires_s) && kh_wire_put_bytes(out, answer->refresh) &&
	       kh_wire_put_u64(out, answer->id) && kh_wire_put_bytes(out, answer->why);
}

static bool is_visible(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] <= ' ' || text.ptr[i] > '~')
			return false;
	return text.len <= KH_LIMIT_TOKEN_BYTES;
}

bool kh_fetch_answer_take(struct kh_slice body, struct kh_fetch_answer *out)
{
	struct kh_wire_reader r = { .rest = body };
	*out = (struct kh_fetch_answer){ .ok = kh_wire_u8(&r) == 1 };
	out->status = kh_wire_u16(&r);
	out->date_s = kh_wire_u64(&r);
	uint8_t error = kh_wire_u8(&r);
	out->error = error < KH_FETCH_ERRORS ? (enum kh_fetch_error)error : KH_FETCH_ERROR_OTHER;
	out->token = kh_wire_bytes(&r);
	out->lifetime_s = kh_wire_u64(&r);
	out->expires_s = kh_wire_u64(&r);
	out->refresh = kh_wire_bytes(&r);
	out->id = kh_wire_u64(&r);
	out->why = kh_wire_bytes(&r);
	return kh_wire_done(&r) && is_visible(out->token) && is_visible(out->refresh) &&
	       out->why.len < KH_ERR_TEXT_BYTES;
}
