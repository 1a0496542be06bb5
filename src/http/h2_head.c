/*
 * h2_head.c - turns a field section into a message, or says why it is malformed (RFC 9113 §8)
 *
 * nghttp2 checks much of this as well, but how much depends on its version. So everything is
 * checked here.
 */
#include "h2_internal.h"

#include <keyhole/base/block.h>

#include "chars.h"
#include "message_internal.h"

/* The text comes after the fields that there are. */
struct kh_h2_head {
	size_t bytes; /* all of it */
	size_t n_trailers;
	struct kh_field *trailers; /* of a trailer section */
	struct kh_message message; /* of a head */
};

struct reading {
	struct kh_h2_section *section;
	struct kh_message *message;
	struct kh_err *err;
	enum kh_err_code malformed;
	const char *text;
	size_t n_length, n_host, n_expect;
	bool expect_odd;
};

static bool refuse(const struct reading *r, const char *what)
{
	return kh_err_set(r->err, r->malformed, "%s: %s",
			  r->section->is_request ? "request" : "response", what);
}

const struct kh_message *kh_h2_head_message(const struct kh_h2_head *head)
{
	return &head->message;
}

const struct kh_field *kh_h2_head_trailers(const struct kh_h2_head *head, size_t *count)
{
	*count = head ? head->n_trailers : 0;
	return head ? head->trailers : NULL;
}

size_t kh_h2_head_bytes(const struct kh_h2_head *head)
{
	return head ? head->bytes : 0;
}

void kh_h2_head_free(struct kh_h2_head *head)
{
	kh_block_give(head);
}

static bool is_field_name(struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!kh_is_tchar(name.ptr[i]) || (name.ptr[i] >= 'A' && name.ptr[i] <= 'Z'))
			return false;
	return name.len > 0;
}

/* §8.2.1 */
static bool is_field_value(struct kh_slice value)
{
	return kh_chars_clean_run(value.ptr, value.len) == value.len &&
	       kh_slice_trim(value).len == value.len;
}

/* §8.2.2 */
static bool is_of_connection(struct kh_slice name)
{
	static const struct kh_slice names[] = {
		KH_SLICE_INIT("connection"),	   KH_SLICE_INIT("keep-alive"),
		KH_SLICE_INIT("proxy-connection"), KH_SLICE_INIT("transfer-encoding"),
		KH_SLICE_INIT("upgrade"),
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (kh_slice_eq(name, names[i]))
			return true;
	return false;
}

static bool check_field(const struct reading *r, const struct kh_field *field)
{
	if (!is_field_name(field->name))
		return refuse(r, "a field name is no token in lower case");
	if (!is_field_value(field->value))
		return refuse(r, "a field value contains a control byte, or a blank at either end");
	if (is_of_connection(field->name))
		return refuse(r, "a field that speaks of an HTTP/1 connection");
	if (kh_message_is_disguised_framing(field->name))
		return refuse(r, KH_DISGUISED_FRAMING);
	if (kh_slice_eq(field->name, KH_SLICE("te")) &&
	    (!r->section->is_request || !kh_slice_eq_nocase(field->value, KH_SLICE("trailers"))))
		return refuse(r, "TE is not 'trailers'");
	return true;
}

static bool take_length(struct reading *r, struct kh_slice value)
{
	enum { MOST_DIGITS = 19 }; /* those of 2^63 - 1 */
	uint64_t length;

	if (r->n_length++ > 0)
		return refuse(r, "more than one Content-Length");
	if (value.len > MOST_DIGITS || !kh_slice_to_u64(value, &length) || length > INT64_MAX)
		return refuse(r, "Content-Length is not a number below 2^63");
	r->message->has_content_length = true;
	r->message->content_length = length;
	return true;
}

/* Return: false when it is wrong; *keep says whether it stays among the fields. */
static bool sort_field(struct reading *r, const struct kh_field *field, bool *keep)
{
	struct kh_slice name = field->name;

	*keep = true;
	if (kh_slice_eq(name, KH_SLICE("content-length")))
		return take_length(r, field->value);
	if (!r->section->is_request)
		return true;
	if (kh_slice_eq(name, KH_SLICE("te"))) {
		r->message->te_trailers = true;
	} else if (kh_slice_eq(name, KH_SLICE("host"))) {
		*keep = false;
		if (r->n_host++ > 0)
			return refuse(r, "more than one Host");
		if (r->message->host.len > 0 && !kh_slice_eq_nocase(r->message->host, field->value))
			return refuse(r, ":authority and Host differ");
		r->message->host = field->value;
	} else if (kh_slice_eq(name, KH_SLICE("expect"))) {
		r->n_expect++;
		r->expect_odd |= !kh_slice_eq_nocase(field->value, KH_SLICE("100-continue"));
	}
	return true;
}

static struct kh_slice slice_of(const struct reading *r, uint32_t from, uint32_t len)
{
	return kh_slice_of(r->text + from, len);
}

static struct kh_field field_of(const struct reading *r, const struct kh_h2_part *part)
{
	return (struct kh_field){ slice_of(r, part->name, part->name_len),
				  slice_of(r, part->value, part->value_len) };
}

static bool has(const struct reading *r, enum kh_h2_pseudo which)
{
	return r->section->pseudo[which].name_len > 0;
}

static struct kh_slice pseudo(const struct reading *r, enum kh_h2_pseudo which)
{
	const struct kh_h2_part *part = &r->section->pseudo[which];

	return slice_of(r, part->value, part->value_len);
}

static bool is_target(struct kh_slice method, struct kh_slice path)
{
	if (kh_slice_eq(path, KH_SLICE("*")))
		return kh_slice_eq(method, KH_SLICE("OPTIONS"));
	for (size_t i = 0; i < path.len; i++)
		if ((unsigned char)path.ptr[i] < 0x21 || (unsigned char)path.ptr[i] > 0x7e)
			return false;
	return path.len > 0 && path.ptr[0] == '/';
}

/* RFC 3986 §3.1; not empty. */
static bool is_scheme(struct kh_slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!kh_is_alpha(s.ptr[i]) &&
		    (i == 0 || (!kh_is_digit(s.ptr[i]) && !memchr("+-.", s.ptr[i], 3))))
			return false;
	return s.len > 0;
}

static bool is_authority(struct kh_slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c < 0x21 || c > 0x7e || c == '@' || c == '/' || c == '?' || c == '#' ||
		    c == '\\')
			return false;
	}
	return s.len > 0;
}

/* §8.5, RFC 8441 §4. */
static bool read_connect(struct reading *r, const struct kh_h2 *h2)
{
	struct kh_message *message = r->message;

	if (has(r, KH_H2_PROTOCOL)) {
		if (!h2->settings.extended_connect)
			return refuse(r, ":protocol, and Extended CONNECT is not offered");
		return kh_chars_are_token(message->protocol) || refuse(r, ":protocol is no token");
	}
	if (has(r, KH_H2_SCHEME) || has(r, KH_H2_PATH))
		return refuse(r, "CONNECT with :scheme or :path");
	if (message->host.len == 0)
		return refuse(r, "CONNECT without :authority");
	message->target = message->host;
	return true;
}

/* §8.3.1 */
static bool read_request_pseudo(struct reading *r, const struct kh_h2 *h2)
{
	struct kh_message *message = r->message;

	message->method = pseudo(r, KH_H2_METHOD);
	message->scheme = pseudo(r, KH_H2_SCHEME);
	message->host = pseudo(r, KH_H2_AUTHORITY);
	message->protocol = pseudo(r, KH_H2_PROTOCOL);
	message->target = pseudo(r, KH_H2_PATH);
	if (!kh_chars_are_token(message->method))
		return refuse(r, ":method is missing, or no token");
	if (has(r, KH_H2_AUTHORITY) && !is_authority(message->host))
		return refuse(r, ":authority is empty, or contains what none has");
	if (kh_slice_eq(message->method, KH_SLICE("CONNECT"))) {
		if (!read_connect(r, h2))
			return false;
		if (message->protocol.len == 0)
			return true;
	} else if (has(r, KH_H2_PROTOCOL)) {
		return refuse(r, ":protocol without CONNECT");
	}
	if (!is_scheme(message->scheme))
		return refuse(r, ":scheme is missing, or none");
	if (!is_target(message->method, message->target))
		return refuse(r, ":path is missing, or none");
	return true;
}

static bool read_status(struct reading *r)
{
	struct kh_slice status = pseudo(r, KH_H2_STATUS);
	uint64_t value;

	/* §8.6: 101 has no place here. */
	if (status.len != 3 || !kh_slice_to_u64(status, &value) || value < 100 || value > 599 ||
	    value == 101)
		return refuse(r, ":status is missing, or none");
	r->message->status = (uint16_t)value;
	r->message->reason = KH_SLICE("");
	return true;
}

static bool read_fields(struct reading *r)
{
	for (size_t i = 0; i < r->section->n_fields; i++) {
		struct kh_field field = field_of(r, &r->section->fields[i]);
		bool keep;

		if (!check_field(r, &field) || !sort_field(r, &field, &keep))
			return false;
		if (keep)
			r->message->fields[r->message->n_fields++] = field;
	}
	return true;
}

static bool decide_request(struct reading *r, bool end)
{
	struct kh_message *message = r->message;
	bool connect = kh_slice_eq(message->method, KH_SLICE("CONNECT"));

	if (message->host.len == 0)
		return refuse(r, "neither :authority nor Host");
	if (!is_authority(message->host))
		return refuse(r, "Host contains what none has");
	/* RFC 9110 §9.3.6: what follows is the tunnel's. */
	if (connect && message->has_content_length)
		return refuse(r, "CONNECT with Content-Length");
	if (end && message->content_length > 0)
		return refuse(r, "Content-Length, and no content");
	if (r->n_expect > 0) {
		if (r->expect_odd)
			return kh_err_set(r->err, KH_ERR_EXPECTATION_FAILED,
					  "request: Expect is not '100-continue'");
		message->expect_continue = !end;
	}
	if (message->has_content_length)
		message->framing = KH_FRAMING_LENGTH;
	else
		message->framing = end ? KH_FRAMING_NONE : KH_FRAMING_CHUNKED;
	return true;
}

static bool decide_response(struct reading *r, const struct kh_h2_stream *stream, bool end)
{
	struct kh_message *message = r->message;
	unsigned status = message->status;

	if (status < 200) {
		if (end)
			return refuse(r, "an interim response ends the stream");
		if (message->content_length > 0)
			return refuse(r, "a status that has no content announces some");
		return true;
	}
	if (status == 204 && message->content_length > 0)
		return refuse(r, "a status that has no content announces some");
	if (status == 204 || status == 304 || stream->asked == KH_H2_ASKED_HEAD)
		return true;
	if (stream->asked == KH_H2_ASKED_CONNECT && status < 300) {
		message->framing = end ? KH_FRAMING_NONE : KH_FRAMING_CHUNKED;
		return true;
	}
	if (end && message->content_length > 0)
		return refuse(r, "Content-Length, and no content");
	if (message->has_content_length)
		message->framing = KH_FRAMING_LENGTH;
	else
		message->framing = end ? KH_FRAMING_NONE : KH_FRAMING_CHUNKED;
	return true;
}

/* With room for trailers, and a copy of the section's text behind them. */
static struct kh_h2_head *make(struct reading *r, size_t n_trailers)
{
	struct kh_slice text = kh_buf_view(&r->section->text);
	size_t bytes = sizeof(struct kh_h2_head) + n_trailers * sizeof(struct kh_field) + text.len;
	struct kh_h2_head *head = kh_block_get(&bytes);

	if (!head)
		return NULL;
	/* Not cleared as a whole: the fields alone are 4 KiB. */
	memset(head, 0, offsetof(struct kh_h2_head, message.fields));
	head->bytes = bytes;
	head->message.n_fields = 0;
	head->trailers = (void *)(head + 1);
	char *copy = (void *)(head->trailers + n_trailers);
	if (text.len > 0)
		memcpy(copy, text.ptr, text.len);
	r->text = copy;
	r->message = &head->message;
	return head;
}

static struct reading begin(const struct kh_h2 *h2, struct kh_err *err)
{
	return (struct reading){ .section = h2->section,
				 .err = err,
				 .malformed = kh_h2_malformed_code(h2) };
}

static enum kh_h2_verdict too_large(const struct reading *r)
{
	kh_err_set(r->err,
		   r->section->is_request ? KH_ERR_REQUEST_HEAD_TOO_LARGE
					  : KH_ERR_RESPONSE_HEAD_TOO_LARGE,
		   "%s: the head is too large", r->section->is_request ? "request" : "response");
	return r->section->is_request ? KH_H2_TO_REFUSE : KH_H2_MALFORMED;
}

static bool read_message(struct reading *r, const struct kh_h2 *h2,
			 const struct kh_h2_stream *stream, bool end)
{
	r->message->h2 = true;
	r->message->minor = 1;
	r->message->keep_alive = true;
	if (r->section->is_request)
		return read_request_pseudo(r, h2) && read_fields(r) && decide_request(r, end);
	return read_status(r) && read_fields(r) && decide_response(r, stream, end);
}

enum kh_h2_verdict kh_h2_head_read(struct kh_h2 *h2, const struct kh_h2_stream *stream, bool end,
				   struct kh_h2_head **out, struct kh_err *err)
{
	struct reading r = begin(h2, err);

	*out = NULL;
	kh_h2_section_join_cookies(r.section);
	if (r.section->wrong) {
		refuse(&r, r.section->wrong);
		return KH_H2_MALFORMED;
	}
	if (r.section->too_large)
		return too_large(&r);
	struct kh_h2_head *head = make(&r, 0);
	if (!head) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a message head");
		return KH_H2_NO_MEMORY;
	}
	if (!read_message(&r, h2, stream, end)) {
		kh_h2_head_free(head);
		return err->code == KH_ERR_EXPECTATION_FAILED ? KH_H2_TO_REFUSE : KH_H2_MALFORMED;
	}
	if (r.section->is_request && head->message.target.len > KH_LIMIT_LINE_BYTES) {
		kh_h2_head_free(head);
		kh_err_set(err, KH_ERR_REQUEST_URI_TOO_LONG, "request: the target is too long");
		return KH_H2_TO_REFUSE;
	}
	*out = head;
	return KH_H2_FINE;
}

/* What a response's trailers must not say is left out (RFC 9110 §6.5.1); a request that tries is
 * malformed. */
static bool read_trailers(const struct reading *r, struct kh_h2_head *head)
{
	for (size_t i = 0; i < r->section->n_fields; i++) {
		struct kh_field field = field_of(r, &r->section->fields[i]);

		if (!check_field(r, &field))
			return false;
		if (r->section->is_request ? kh_message_is_no_trailer(field.name)
					   : kh_message_is_listed_no_trailer(field.name)) {
			if (r->section->is_request)
				return refuse(r,
					      "the trailers have a field that must not be there");
			continue;
		}
		head->trailers[head->n_trailers++] = field;
	}
	return true;
}

enum kh_h2_verdict kh_h2_trailers_read(struct kh_h2 *h2, struct kh_h2_head **out,
				       struct kh_err *err)
{
	struct reading r = begin(h2, err);

	*out = NULL;
	for (size_t i = 0; i < KH_H2_PSEUDOS; i++)
		if (r.section->pseudo[i].name_len > 0)
			r.section->wrong = "a pseudo-field in the trailers";
	kh_h2_section_join_cookies(r.section);
	if (r.section->wrong) {
		refuse(&r, r.section->wrong);
		return KH_H2_MALFORMED;
	}
	if (r.section->too_large || kh_buf_len(&r.section->text) > KH_LIMIT_TRAILER_BYTES) {
		(void)too_large(&r);
		return KH_H2_MALFORMED;
	}
	struct kh_h2_head *head = make(&r, r.section->n_fields);
	if (!head) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for trailers");
		return KH_H2_NO_MEMORY;
	}
	if (!read_trailers(&r, head)) {
		kh_h2_head_free(head);
		return KH_H2_MALFORMED;
	}
	*out = head;
	return KH_H2_FINE;
}
