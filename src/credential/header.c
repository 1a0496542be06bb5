/*
 * header.c - writes the credential's own fields while its pages are open
 *
 * While the pages are open, only the copy into the head is made. The head must be a wiping buffer,
 * else nothing is written. Base64 is encoded there as well, three bytes at a time: `user:password`
 * is never in memory as one text.
 */
#include <stdint.h>

#include <keyhole/base/encode.h>
#include <keyhole/credential/hmac.h>
#include <keyhole/credential/re_sign.h>

#include "credential_internal.h"

struct job {
	const struct kh_placement *placement;
	struct kh_buf *out;
	const char *fault;
};

bool kh_credential_sets_field(const struct kh_credential_config *credential, struct kh_slice name)
{
	const struct kh_placement *placement = credential->placement;

	for (size_t i = 0; placement && i < placement->n_fields; i++)
		if (kh_spelling_is_field(kh_slice_str(placement->fields[i].name), name))
			return true;
	switch (kh_placement_kind_of(placement)) {
	case KH_PLACEMENT_SIGV4:
		return kh_re_sign_replaces(name);
	case KH_PLACEMENT_HMAC:
		return kh_hmac_sets_field(placement->hmac, name);
	case KH_PLACEMENT_COOKIE:
		return kh_spelling_is_field(KH_SLICE("cookie"), name);
	case KH_PLACEMENT_NONE:
	case KH_PLACEMENT_FIELDS:
	case KH_PLACEMENT_QUERY:
	case KH_PLACEMENT_BODY:
	case KH_PLACEMENT_MTLS:
	case KH_PLACEMENT_KINDS:
		break;
	}
	return false;
}

/* RFC 9110 §5.5: visible bytes, and blanks only between them (a reader drops the others, and the
 * value would not be what was meant). */
static bool is_field_content(struct kh_slice value)
{
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.ptr[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return value.len > 0 && kh_slice_trim(value).len == value.len;
}

/* RFC 6265 §4.1.1, cookie-octet. */
static bool is_cookie_value(struct kh_slice value)
{
	for (size_t i = 0; i < value.len; i++) {
		char c = value.ptr[i];

		if (c < 0x21 || c > 0x7e || c == '"' || c == ',' || c == ';' || c == '\\')
			return false;
	}
	return value.len > 0;
}

/* RFC 7617 §2. */
static bool put_basic(struct kh_buf *out, const struct kh_credential_field *field,
		      struct kh_slice value)
{
	const struct kh_slice parts[] = { kh_slice_str(field->username), KH_SLICE(":"), value };

	return field->username ? kh_base64_put(out, parts, 3, KH_BASE64)
			       : kh_base64_put(out, &value, 1, KH_BASE64);
}

static bool put_field(struct kh_buf *out, const struct kh_credential_field *field,
		      struct kh_slice value)
{
	return kh_buf_append_str(out, field->name) && kh_buf_append_str(out, ": ") &&
	       kh_buf_append_str(out, field->prefix) &&
	       (field->form == KH_FIELD_BASIC ? put_basic(out, field, value)
					      : kh_buf_append_slice(out, value)) &&
	       kh_buf_append_str(out, field->suffix) && kh_buf_append_str(out, "\r\n");
}

static const char *value_fault(const struct kh_placement *placement, struct kh_slice value)
{
	if (!is_field_content(value))
		return "its value contains a byte that a header can't, or a blank at either end";
	if (placement->kind == KH_PLACEMENT_COOKIE && !is_cookie_value(value))
		return "its value contains a byte that a cookie can't (a blank, a quote, a comma, "
		       "a "
		       "semicolon, a backslash, or what is no ASCII)";
	for (size_t i = 0; i < placement->n_fields; i++)
		if (placement->fields[i].form == KH_FIELD_BASIC && !placement->fields[i].username &&
		    kh_slice_find(value, ':', 0) == value.len)
			return "its value is no user:password (name the user: basic: { username: "
			       "... })";
	return NULL;
}

/* A cookie that follows another one continues its line. */
static bool put_cookie(struct kh_buf *out, const char *name, struct kh_slice value)
{
	return kh_buf_append_str(out, name) && kh_buf_append_char(out, '=') &&
	       kh_buf_append_slice(out, value);
}

static bool put_all(struct kh_slice value, void *arg)
{
	struct job *job = arg;
	const struct kh_placement *placement = job->placement;
	size_t before = kh_buf_len(job->out);
	bool ok = true;

	job->fault = value_fault(placement, value);
	if (job->fault)
		return false;
	if (placement->kind == KH_PLACEMENT_COOKIE)
		ok = put_cookie(job->out, placement->name, value);
	for (size_t i = 0; ok && i < placement->n_fields; i++)
		ok = put_field(job->out, &placement->fields[i], value);
	if (ok)
		return true;
	kh_buf_truncate(job->out, before);
	job->fault = "no room for it in the request's head";
	return false;
}

/* The field lines, or the pair of a cookie without its line. */
static bool put_value(const struct kh_credential_config *credential, const struct kh_secret *secret,
		      struct kh_buf *out, struct kh_err *err)
{
	struct job job = { .placement = credential->placement,
			   .out = out,
			   .fault = "its page can't be read" };

	if (!out->wipe)
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "credential %s: the head is not written into a wiping buffer",
				  credential->name);
	if (!kh_secret_expose(secret, put_all, &job))
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s",
				  credential->name, job.fault);
	return true;
}

static bool no_room(const struct kh_credential_config *credential, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "credential %s: no room for it in the request's head", credential->name);
}

bool kh_credential_put_fields(const struct kh_credential_config *credential,
			      const struct kh_secret *secret, struct kh_buf *out,
			      struct kh_err *err)
{
	const struct kh_placement *placement = credential->placement;
	bool cookie = placement && placement->kind == KH_PLACEMENT_COOKIE;

	if (!placement || (placement->n_fields == 0 && !cookie))
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: it sets no header", credential->name);
	if (!cookie)
		return put_value(credential, secret, out, err);
	return kh_credential_put_cookies(
		&(const struct kh_injection){
			.list = { { .credential = credential,
				    .secret = (struct kh_secret *)(uintptr_t)secret } },
			.count = 1 },
		out, err);
}

bool kh_credential_put_cookies(const struct kh_injection *injection, struct kh_buf *out,
			       struct kh_err *err)
{
	size_t before = kh_buf_len(out), n = 0;

	for (size_t i = 0; i < injection->count; i++) {
		const struct kh_injected *one = &injection->list[i];

		if (one->credential->placement->kind != KH_PLACEMENT_COOKIE)
			continue;
		if (!kh_buf_append_str(out, n++ ? "; " : "Cookie: ")) {
			kh_buf_truncate(out, before);
			return no_room(one->credential, err);
		}
		if (!put_value(one->credential, one->secret, out, err)) {
			kh_buf_truncate(out, before);
			return false;
		}
	}
	if (n == 0 || kh_buf_append_str(out, "\r\n"))
		return true;
	kh_buf_truncate(out, before);
	return no_room(injection->list[0].credential, err);
}
