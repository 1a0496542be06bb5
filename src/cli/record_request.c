/* record_request.c - what a record says of its request */
#include "record_request.h"

#include "record_text.h"

static bool has(const json_t *record, const char *key)
{
	return json_object_get(record, key) != NULL;
}

bool kh_record_is_request(const struct kh_journal_exchange *exchange)
{
	return !kh_slice_eq(kh_record_text(exchange->open, "server.address"),
			    KH_SLICE("keyhole.internal")) &&
	       !kh_slice_eq(kh_record_text(exchange->close, "reason"),
			    kh_slice_str(kh_err_reason(KH_ERR_DECIDED_ANEW)));
}

void kh_record_request(const struct kh_journal_exchange *exchange, struct kh_recorded *out)
{
	const json_t *open = exchange->open, *close = exchange->close;
	const json_t *names = json_object_get(open, "url.query.names");

	*out = (struct kh_recorded){
		.method = kh_record_text(open, "http.request.method"),
		.scheme = kh_record_text(open, "url.scheme"),
		.host = kh_record_text(open, "server.address"),
		.path = kh_record_text(open, "url.path"),
		.port = kh_record_number(open, "server.port"),
		.path_is_cut = has(open, "url.path_bytes"),
		.tunnel = has(open, "tunnel"),
		.websocket = has(close, "websocket.close.code"),
		.query_unshown = kh_record_number(open, "url.query.unshown"),
		.model = kh_record_text(open, "gen_ai.request.model"),
		.stripped = kh_record_text(open, "stripped"),
		.has_size = json_is_true(json_object_get(close, "complete")),
		.size = kh_record_number(close, "http.request.body.size"),
	};
	for (size_t i = 0; i < json_array_size(names) && i < KH_LIMIT_AUDIT_QUERY_NAMES; i++) {
		const json_t *name = json_array_get(names, i);

		if (json_is_string(name))
			out->query_names[out->n_query_names++] =
				kh_slice_of(json_string_value(name), json_string_length(name));
	}
}

void kh_record_put_request(struct kh_buf *out, const struct kh_journal_exchange *exchange)
{
	kh_record_put(out, "", kh_record_text(exchange->open, "http.request.method"));
	if (kh_buf_len(out) > 0)
		(void)kh_buf_append_char(out, ' ');
	kh_record_put_url(out, exchange->open);
}
