/*
 * record_text.c - formats a record of the journal for people
 *
 * Text in a record may come from a sandbox or an upstream, so all of it passes kh_esc.
 */
#include "record_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/escape.h>

struct kh_slice kh_record_text(const json_t *record, const char *key)
{
	const json_t *value = json_object_get(record, key);

	if (!json_is_string(value))
		return (struct kh_slice){ "", 0 };
	return kh_slice_of(json_string_value(value), json_string_length(value));
}

uint64_t kh_record_number(const json_t *record, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(record, key));

	return value > 0 ? (uint64_t)value : 0;
}

void kh_record_put(struct kh_buf *row, const char *before, struct kh_slice text)
{
	if (text.len == 0)
		return;
	(void)kh_buf_append_str(row, before);
	(void)kh_buf_append_str(row, kh_esc(text));
}

void kh_record_put_whole(struct kh_buf *row, const char *before, struct kh_slice text)
{
	/* Each byte becomes four at most. */
	enum { PIECE = KH_ESC_MAX_BYTES / 4 };

	for (size_t at = 0; at < text.len; at += PIECE)
		kh_record_put(row, at ? "" : before, kh_slice_sub(text, at, at + PIECE));
}

void kh_record_put_time(struct kh_buf *row, const json_t *record)
{
	struct kh_slice time = kh_record_text(record, "time");

	kh_record_put(row, "", kh_slice_sub(time, 0, 10));
	kh_record_put(row, " ", kh_slice_sub(time, 11, 19));
}

void kh_record_put_url(struct kh_buf *row, const json_t *record)
{
	const json_t *names = json_object_get(record, "url.query.names");
	struct kh_slice scheme = kh_record_text(record, "url.scheme");
	struct kh_slice host = kh_record_text(record, "server.address");
	bool v6 = kh_slice_find(host, ':', 0) < host.len;
	uint64_t port = kh_record_number(record, "server.port");
	bool usual = kh_slice_eq(scheme, KH_SLICE("https")) ? port == 443 : port == 80;

	kh_record_put(row, "", scheme);
	if (scheme.len > 0)
		(void)kh_buf_append_str(row, "://");
	kh_record_put(row, v6 ? "[" : "", host);
	if (v6)
		(void)kh_buf_append_char(row, ']');
	if (port > 0 && !(usual && scheme.len > 0))
		(void)kh_buf_printf(row, ":%" PRIu64, port);
	kh_record_put(row, "", kh_record_text(record, "url.path"));
	if (kh_record_number(record, "url.path_bytes") > 0)
		(void)kh_buf_append_str(row, "...");
	for (size_t i = 0; i < json_array_size(names); i++) {
		const json_t *name = json_array_get(names, i);

		kh_record_put(row, i ? "&" : "?",
			      kh_slice_of(json_string_value(name), json_string_length(name)));
	}
}

bool kh_record_wants_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && no[0]) && term && strcmp(term, "dumb") != 0;
}
