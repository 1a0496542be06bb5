/*
 * response.c - forwards the response as it comes
 *
 * Interim responses are passed on. The final head, and content after it, are put downstream in the
 * turn in which they came.
 */

#include <stdlib.h>
#include <string.h>

#include "exchange_internal.h"
#include "websocket_internal.h"
#include "signing.h"
#include <keyhole/loop/values.h>

static bool fail(struct kh_exchange *x, enum kh_err_code code, const char *text)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, code, "%s", text);
	kh_exchange_fail(x, &err);
	return false;
}

/* To WebSocket; in HTTP/2 any 2xx is one (RFC 8441 §5), so no 200 of an HTTP/1 upstream is passed
 * on there. */
static bool is_switch(const struct kh_message *response)
{
	return response->h2 ? response->status / 100 == 2 : response->status == 101;
}

static bool put_head(struct kh_exchange *x, const struct kh_message *response)
{
	struct kh_down_stream *down = x->down;
	struct kh_reflection *reflection;

	/* Before it is searched: an upstream may send many. */
	if (response->status < 200 && down->ops->leaves_out &&
	    down->ops->leaves_out(down, response))
		return true;
	if (!kh_reflection_take(x, response, &reflection))
		return false;
	const struct kh_message *head = kh_reflection_head(reflection, response);
	bool ok = response->status < 200 ? down->ops->put_interim(down, head)
					 : down->ops->put_head(down, head);
	kh_reflection_free(reflection);
	return ok;
}

/* Tokens that were made, and what a command printed, may be revoked before their end. This request
 * is not sent anew: what came up with it is gone, and whether it has had an effect is not known. */
static void note_refusal(struct kh_exchange *x, const struct kh_message *response)
{
	for (size_t i = 0; response->status == 401 && i < x->injection.count; i++) {
		const struct kh_injected *one = &x->injection.list[i];
		const struct kh_credential_ref ref = { one->index, x->tenant,
						       kh_slice_str(one->scope) };
		if (one->credential->renewable)
			kh_values_refused(x->side->loop->worker, x->gen, &ref, one->secret);
	}
}

/* The final head. Return: false: the exchange is over. */
static bool begin_answer(struct kh_exchange *x, uint16_t status)
{
	struct kh_err err; /* set where the step can't be made */

	if (!kh_exchange_set_answer(x, KH_ANSWER_BEGUN, &err)) {
		kh_exchange_fail(x, &err);
		return false;
	}
	x->status = status;
	x->first_byte_ms = x->side->loop->now_ms;
	return true;
}

bool kh_response_head(struct kh_exchange *x, const struct kh_message *response)
{
	bool ok;

	kh_exchange_settle(x);
	note_refusal(x, response);
	if (x->websocket && is_switch(response))
		return kh_websocket_answered(x, response);
	if (response->status == 101)
		return fail(x, KH_ERR_RESPONSE_MALFORMED,
			    "the upstream switched protocols, which nobody asked for");
	if (x->websocket && x->message->h2 && response->status / 100 == 2)
		return fail(x, KH_ERR_RESPONSE_MALFORMED,
			    "the upstream answered the WebSocket's request with a response that "
			    "opens none");
	if (response->status < 200) {
		if (++x->interim > KH_LIMIT_INTERIM_RESPONSES)
			return fail(x, KH_ERR_RESPONSE_MALFORMED,
				    "the upstream sends interim responses without end");
		ok = put_head(x, response);
	} else {
		kh_signing_answered(x, response);
		if (!begin_answer(x, response->status))
			return false;
		ok = put_head(x, response);
	}
	return ok || fail(x, KH_ERR_RESPONSE_HEAD_TOO_LARGE, "the response's head is too large");
}

bool kh_response_body(struct kh_exchange *x, struct kh_slice piece)
{
	if (kh_exchange_is_websocket(x))
		return kh_websocket_from_up(x, piece);
	struct kh_err err; /* set where less may go than has come */
	size_t may = kh_exchange_spend(x, KH_QUOTA_BYTES_DOWN, piece.len, &err);
	kh_exchange_moved_down(x, may);
	if (may > 0 && !x->down->ops->put_content(x->down, kh_slice_sub(piece, 0, may)))
		return fail(x, KH_ERR_DOWN_CLOSED, "the sandbox closed the connection");
	if (may == piece.len)
		return true;
	kh_exchange_fail(x, &err);
	return false;
}

/* Fields behind the content are fields: without the key that the target carried. */
static bool put_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n)
{
	struct kh_down_stream *down = x->down;
	struct kh_reflection *reflection = NULL;

	if (n == 0 || n > KH_LIMIT_FIELDS || !kh_request_target_is_secret(x))
		return n <= KH_LIMIT_FIELDS && down->ops->put_end(down, trailers, n);
	struct kh_message *made = calloc(1, sizeof(*made));
	if (!made)
		return false;
	made->reason = KH_SLICE("");
	memcpy(made->fields, trailers, n * sizeof(*trailers));
	made->n_fields = n;
	bool ok = kh_reflection_take(x, made, &reflection) &&
		  down->ops->put_end(down, kh_reflection_head(reflection, made)->fields, n);
	kh_reflection_free(reflection);
	free(made);
	return ok;
}

void kh_response_end(struct kh_exchange *x, const struct kh_field *trailers, size_t n)
{
	struct kh_err err; /* set where it can't end so */

	if (kh_exchange_is_websocket(x)) {
		kh_websocket_up_ended(x, NULL);
		return;
	}
	if ((put_end(x, trailers, n) ||
	     kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for its end")) &&
	    kh_exchange_set_answer(x, KH_ANSWER_DONE, &err)) {
		kh_exchange_end(x, KH_DOWN_WHOLE);
		return;
	}
	/* Whatever came next would be read as its content. */
	kh_exchange_note(x, err.code, err.text);
	kh_exchange_end(x, KH_DOWN_LOST);
}
