/*
 * body.c - streams content and replaces the text at a credential's place
 *
 * The reader (body_json.c, body_form.c) says for each byte whether it is forwarded. Runs of
 * forwarded bytes are appended at once. The value is written straight into `out` while its pages
 * are open.
 */
#include <stdlib.h>
#include <string.h>

#include "body_internal.h"

#include <keyhole/base/encode.h>
#include <keyhole/http/media_type.h>

struct kh_body {
	bool json;
	union {
		struct kh_body_json as_json;
		struct kh_body_form as_form;
	};
	const char *fault;
	uint64_t replaced;
};

/* ---- the head ---- */

static bool is_type(struct kh_slice value, const char *type)
{
	return kh_slice_eq_nocase(value, kh_slice_str(type));
}

static bool ends_with_json(struct kh_slice type)
{
	enum { SUFFIX = 5 };
	return kh_slice_eq_nocase(kh_slice_sub(type, 0, 12), KH_SLICE("application/")) &&
	       type.len > 12 + SUFFIX &&
	       kh_slice_eq_nocase(kh_slice_sub(type, type.len - SUFFIX, type.len),
				  KH_SLICE("+json"));
}

static const char *type_fault(const struct kh_placement *placement, struct kh_slice value)
{
	struct kh_slice type, charset;
	bool good = kh_media_type_read(value, &type, &charset);
	if (placement->pointer)
		good = good && (is_type(type, "application/json") || ends_with_json(type));
	else
		good = good && is_type(type, "application/x-www-form-urlencoded");
	/* Nothing but charset=utf-8 says how the bytes are read. */
	if (good && (!charset.ptr || is_type(charset, "utf-8") || is_type(charset, "utf8")))
		return NULL;
	return placement->pointer ? "its Content-Type is not JSON in UTF-8"
				  : "its Content-Type is not application/x-www-form-urlencoded in "
				    "UTF-8";
}

const char *kh_body_head_fault(const struct kh_placement *placement,
			       const struct kh_message *message)
{
	size_t types = 0;
	if (message->framing == KH_FRAMING_NONE || message->upgrade || message->protocol.len > 0)
		return "it has no content";
	for (size_t i = 0; i < message->n_fields; i++) {
		const struct kh_field *field = &message->fields[i];
		if (kh_spelling_is_field(field->name, KH_SLICE("content-encoding")) &&
		    !is_type(field->value, "identity"))
			return "its content is encoded (Content-Encoding: send it as it is)";
		if (kh_spelling_is_field(field->name, KH_SLICE("content-range")))
			return "it is a part of a content (Content-Range)";
		if (!kh_spelling_is_field(field->name, KH_SLICE("content-type")))
			continue;
		if (!kh_slice_eq_nocase(field->name, KH_SLICE("content-type")))
			return "the name of its Content-Type is written in another way";
		const char *fault = type_fault(placement, field->value);
		if (fault)
			return fault;
		types++;
	}
	if (types > 1)
		return "it has more than one Content-Type";
	return types == 1 ? NULL : "it has no Content-Type";
}

bool kh_body_is_digest_field(struct kh_slice name)
{
	static const char *const names[] = { "content-md5",
					     "content-digest",
					     "repr-digest",
					     "digest",
					     "x-amz-content-sha256",
					     "x-content-sha256",
					     "x-amz-checksum-crc32",
					     "x-amz-checksum-crc32c",
					     "x-amz-checksum-crc64nvme",
					     "x-amz-checksum-sha1",
					     "x-amz-checksum-sha256",
					     "x-ms-content-sha256" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (kh_slice_eq_nocase(name, kh_slice_str(names[i])))
			return true;
	return false;
}

/* ---- the value ---- */

static bool is_valid_utf8(struct kh_slice value)
{
	struct kh_body_json probe;
	const char *why = NULL;
	kh_body_json_init(&probe, "/x");
	bool ok = kh_body_json_byte(&probe, '"', &why) != KH_BODY_FAULT;
	for (size_t i = 0; ok && i < value.len; i++) {
		unsigned char c = (unsigned char)value.ptr[i];
		/* What is escaped when it is written is plain to this. */
		ok = kh_body_json_byte(&probe, c == '"' || c == '\\' ? 'x' : c, &why) !=
		     KH_BODY_FAULT;
	}
	/* The last character is whole. */
	return ok && kh_body_json_byte(&probe, '"', &why) != KH_BODY_FAULT;
}

struct put {
	const struct kh_placement *placement;
	bool json;
	struct kh_buf *out;
	const char *fault;
};

static bool put_value(struct kh_slice value, void *arg)
{
	struct put *put = arg;
	put->fault = NULL;
	if (value.len > KH_LIMIT_BODY_VALUE_BYTES)
		put->fault = "its value is too long for a request's content (8 KiB at most)";
	else if (put->json && !is_valid_utf8(value))
		put->fault = "its value is no UTF-8, and JSON allows nothing else";
	else if (!(put->json ? kh_body_json_put(put->out, value)
			     : kh_percent_encode(put->out, value, "")))
		put->fault = "no room for it in the request's content";
	return !put->fault;
}

bool kh_body_value_bytes(const struct kh_placement *placement, const struct kh_secret *secret,
			 size_t *out)
{
	struct kh_buf room;
	kh_buf_init_wiping(&room, KH_LIMIT_BODY_VALUE_BYTES * 3);
	struct put put = { .json = placement->pointer != NULL, .out = &room };
	bool ok = kh_secret_expose(secret, put_value, &put);
	*out = kh_buf_len(&room);
	kh_buf_fini(&room);
	return ok;
}

/* ---- the filter ---- */

struct kh_body *kh_body_new(const struct kh_placement *placement)
{
	struct kh_body *body = calloc(1, sizeof(*body));
	if (!body)
		return NULL;
	body->json = placement->pointer != NULL;
	if (body->json)
		kh_body_json_init(&body->as_json, placement->pointer);
	else
		kh_body_form_init(&body->as_form, placement->name);
	return body;
}

void kh_body_free(struct kh_body *body)
{
	free(body);
}

static bool fill(struct kh_body *body, const struct kh_secret *secret, struct kh_buf *out)
{
	struct put put = { .json = body->json, .out = out, .fault = "its page can't be read" };
	if (!secret || kh_secret_expose(secret, put_value, &put))
		return true;
	body->fault = put.fault;
	return false;
}

static bool keep(struct kh_body *body, struct kh_slice bytes, const struct kh_secret *secret,
		 struct kh_buf *out)
{
	if (!secret || kh_buf_append_slice(out, bytes))
		return true;
	body->fault = "no room for it in the request's content";
	return false;
}

bool kh_body_feed(struct kh_body *body, struct kh_slice piece, const struct kh_secret *secret,
		  struct kh_buf *out)
{
	size_t from = 0; /* of the run that goes on */
	if (!body->fault && secret && !out->wipe)
		body->fault = "its content is not written into a wiping buffer";
	for (size_t i = 0; !body->fault && i < piece.len; i++) {
		struct kh_slice rest = kh_slice_sub(piece, i, piece.len);
		i += body->json ? kh_body_json_plain(&body->as_json, rest)
				: kh_body_form_plain(&body->as_form, rest);
		if (i == piece.len)
			break;
		unsigned char c = (unsigned char)piece.ptr[i];
		enum kh_body_step step =
			body->json ? kh_body_json_byte(&body->as_json, c, &body->fault)
				   : kh_body_form_byte(&body->as_form, c, &body->fault);
		if (step == KH_BODY_FILL) {
			if (!keep(body, kh_slice_sub(piece, from, i + 1), secret, out) ||
			    !fill(body, secret, out))
				return false;
			from = i + 1;
		} else if (step == KH_BODY_DROP) {
			if (i > from && !keep(body, kh_slice_sub(piece, from, i), secret, out))
				return false;
			from = i + 1;
			body->replaced++;
		}
	}
	return !body->fault && keep(body, kh_slice_sub(piece, from, piece.len), secret, out);
}

bool kh_body_end(struct kh_body *body)
{
	return !body->fault && (body->json ? kh_body_json_end(&body->as_json, &body->fault)
					   : kh_body_form_end(&body->as_form, &body->fault));
}

const char *kh_body_fault(const struct kh_body *body)
{
	return body->fault;
}

uint64_t kh_body_replaced_bytes(const struct kh_body *body)
{
	return body->replaced;
}
