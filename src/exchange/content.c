/*
 * content.c - the content that goes upstream: as received, or with a credential in it
 *
 * If a credential goes into the content, all of it passes a filter (body.h). Short content with a
 * Content-Length is held and checked first (BUFFER, body_buffer.c): then its place is known before
 * anything is recorded, dialled or sent, and the length that goes upstream is right. Other content
 * goes upstream as it comes, chunked. A fault that is found on the way aborts the request, so that
 * the upstream never gets a complete one.
 */

#include <string.h>

#include <keyhole/credential/body.h>

#include "exchange_internal.h"

static bool refuse(const struct kh_injected *one, const char *why, struct kh_err *err)
{
	return kh_err_set(
		err, KH_ERR_CREDENTIAL_PLACE,
		"the credential %s goes into the content of the request (at %s), and can't: "
		"%s",
		one->credential->name,
		one->credential->placement->pointer ? one->credential->placement->pointer
						    : one->credential->placement->name,
		why);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for the request's content");
}

/* All of it is held: is the place there? */
static bool look_through(struct kh_exchange *x, const struct kh_injected *one, struct kh_err *err)
{
	struct kh_body *body = kh_body_new(one->credential->placement);

	if (!body)
		return no_memory(err);
	bool ok = kh_body_feed(body, kh_buf_view(&x->content), NULL, NULL) && kh_body_end(body);
	x->replaced_bytes = kh_body_replaced_bytes(body);
	if (!ok)
		(void)refuse(one, kh_body_fault(body), err);
	kh_body_free(body);
	return ok;
}

static bool refuse_token(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_CLIENT_AUTH,
			  "the form in the content carries a token of the client's own "
			  "(access_token), beside the credential that goes in: leave it out");
}

/* Content that a token of the client's own may be in. */
static bool may_carry(const struct kh_exchange *x)
{
	return x->injection.count > 0 && x->message->framing != KH_FRAMING_NONE &&
	       kh_form_is_one(x->message, x->target.query);
}

/* The credential's own place is looked after where it is filled. */
static void begin_form(const struct kh_exchange *x, struct kh_form_carriers *form)
{
	const struct kh_injected *one = kh_injection_body(&x->injection);

	memset(form, 0, sizeof(*form));
	if (one && one->credential->placement->name)
		form->own = kh_slice_str(one->credential->placement->name);
}

static bool is_held(const struct kh_exchange *x)
{
	return x->message->framing == KH_FRAMING_LENGTH &&
	       x->message->content_length <= KH_LIMIT_BODY_HELD_BYTES &&
	       x->message->content_length <= x->gen->config->held_content;
}

/* A short one is held, and refused before anything is dialled; any other is cut off on its way. */
static bool decide_form(struct kh_exchange *x, struct kh_err *err)
{
	if (!may_carry(x))
		return true;
	if (kh_form_is_encoded(x->message))
		return kh_err_set(err, KH_ERR_CLIENT_AUTH,
				  "the form in the content is encoded (Content-Encoding), so it "
				  "can't be looked through for a token of the client's own: send "
				  "it as it is");
	if (!kh_exchange_has_content(x)) {
		x->holds_for_credential = is_held(x);
		return !x->holds_for_credential;
	}
	struct kh_form_carriers form;
	begin_form(x, &form);
	return !(kh_form_carries(&form, kh_buf_view(&x->content)) ||
		 kh_form_carries(&form, KH_SLICE("&"))) ||
	       refuse_token(err);
}

bool kh_content_decide(struct kh_exchange *x, struct kh_err *err)
{
	const struct kh_injected *one = kh_injection_body(&x->injection);
	const struct kh_message *message = x->message;

	x->holds_for_credential = false;
	if (!one)
		return decide_form(x, err);
	const char *fault = kh_body_head_fault(one->credential->placement, message);
	if (fault)
		return refuse(one, fault, err);
	if (kh_exchange_has_content(x))
		return look_through(x, one, err) && decide_form(x, err);
	x->holds_for_credential = is_held(x);
	return !x->holds_for_credential;
}

bool kh_content_drops_field(const struct kh_exchange *x, struct kh_slice name)
{
	return kh_body_is_digest_field(name) && kh_injection_body(&x->injection);
}

enum kh_framing kh_content_framing(const struct kh_exchange *x, uint64_t *length)
{
	*length = x->message->content_length;
	if (!kh_injection_body(&x->injection) || x->message->framing == KH_FRAMING_NONE)
		return x->message->framing;
	if (!kh_exchange_has_content(x) || x->message->framing != KH_FRAMING_LENGTH)
		return KH_FRAMING_CHUNKED;
	*length += x->value_bytes - x->replaced_bytes;
	return KH_FRAMING_LENGTH;
}

bool kh_content_begin(struct kh_exchange *x, struct kh_err *err)
{
	const struct kh_injected *one = kh_injection_body(&x->injection);
	size_t bytes;

	free(x->form);
	x->form = may_carry(x) ? calloc(1, sizeof(*x->form)) : NULL;
	if (!x->form && may_carry(x))
		return no_memory(err);
	if (x->form)
		begin_form(x, x->form);
	if (!one)
		return true;
	if (!kh_body_value_bytes(one->credential->placement, one->secret, &bytes))
		return kh_err_set(
			err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			"credential %s: its value can't go into a request's content (more "
			"than 8 KiB, or no UTF-8)",
			one->credential->name);
	x->value_bytes = bytes;
	/* Another try begins anew. */
	kh_body_free(x->body);
	x->body = kh_body_new(one->credential->placement);
	return x->body || no_memory(err);
}

bool kh_content_put(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err)
{
	const struct kh_injected *one = x->body ? kh_injection_body(&x->injection) : NULL;
	struct kh_buf out;

	if (x->form && kh_form_carries(x->form, piece))
		return refuse_token(err);
	if (!one) {
		x->up.stream->ops->put_content(x->up.stream, piece);
		return true;
	}
	kh_buf_init_wiping(&out, piece.len + 3 * KH_LIMIT_BODY_VALUE_BYTES);
	bool ok = kh_body_feed(x->body, piece, one->secret, &out);
	if (!ok)
		(void)refuse(one, kh_body_fault(x->body), err);
	else if (kh_buf_len(&out) > 0)
		x->up.stream->ops->put_content(x->up.stream, kh_buf_view(&out));
	kh_buf_fini(&out);
	return ok;
}

bool kh_content_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n,
		    struct kh_err *err)
{
	if (x->form && kh_form_carries(x->form, KH_SLICE("&")))
		return refuse_token(err);
	if (x->body && !kh_body_end(x->body))
		return refuse(kh_injection_body(&x->injection), kh_body_fault(x->body), err);
	x->up.stream->ops->put_end(x->up.stream, trailers, n);
	return true;
}

void kh_content_fini(struct kh_exchange *x)
{
	kh_body_free(x->body);
	x->body = NULL;
	free(x->form);
	x->form = NULL;
}
