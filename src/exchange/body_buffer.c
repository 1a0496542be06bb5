/*
 * body_buffer.c - holds a request's content that must be read before the decision
 *
 * There are two reasons to hold content. A credential goes into it, and it is short (content.c). Or
 * the rules come to one with `models`: then the decision waits (BUFFER), the whole content is kept,
 * within limits.held_content and the sandbox's share, and the model's name is read in each piece as
 * it comes, since the thread also serves other exchanges. Then the rules decide again.
 *
 * What was held goes upstream unchanged, before what may still come (a reload can remove the
 * question meanwhile), as the upstream takes it. A client that waits for 100 Continue gets it from
 * keyhole, since there is no upstream yet.
 */

#include "exchange_internal.h"

static bool over_limit(const struct kh_exchange *x, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_CONTENT_TOO_LARGE,
			  "the content is larger than what is held to %s "
			  "(limits.held_content: %llu bytes)",
			  x->decision.asks_model ? "read the model's name in it"
						 : "be hashed for its signature: let the client "
						   "say x-amz-content-sha256, then it streams",
			  (unsigned long long)x->gen->config->held_content);
}

/* A reload may have lowered it below what is held already. */
static bool hold_at_most(struct kh_exchange *x, size_t bytes, struct kh_err *err)
{
	return kh_buf_set_cap(&x->content, bytes) || over_limit(x, err);
}

static bool say_continue(struct kh_exchange *x, struct kh_err *err)
{
	static const struct kh_message go_on = { .status = 100,
						 .reason = KH_SLICE_INIT("Continue"),
						 .minor = 1 };

	if (!x->message->expect_continue || x->continued)
		return true;
	x->continued = true;
	return x->down->ops->put_interim(x->down, &go_on) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for an answer");
}

static bool set_model(struct kh_exchange *x, enum kh_model_state state,
		      const struct kh_model *model, struct kh_err *err)
{
	free(x->model);
	x->model = NULL;
	x->model_state = state;
	if (state != KH_MODEL_NAMED)
		return true;
	x->model = kh_slice_dup(kh_slice_of(model->name, model->len));
	return x->model || kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a model's name");
}

bool kh_body_buffer_look_at_head(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_model model;
	const char *why;
	const struct kh_path_readings path = kh_target_readings(&x->target);
	enum kh_model_state state = kh_model_in_path(&path, &model, &why);

	if (why)
		return kh_body_buffer_refuse(why, err);
	if (state == KH_MODEL_UNREAD && x->message->framing == KH_FRAMING_NONE)
		state = KH_MODEL_NONE;
	return set_model(x, state, &model, err);
}

static bool wait_for_content(struct kh_exchange *x, struct kh_err *err)
{
	if (!kh_exchange_set_state(x, KH_EXCHANGE_BUFFER, err))
		return false;
	kh_exchange_pause(x);
	return say_continue(x, err);
}

/* All of it is there. */
static bool has_come(struct kh_exchange *x, struct kh_err *err)
{
	kh_exchange_go_on(x);
	x->content_bytes = kh_buf_len(&x->content);
	return kh_exchange_set_request(x, KH_REQUEST_HELD, err);
}

/* What is held already, was held for a credential before a reload. */
static bool begin_to_read(struct kh_exchange *x, struct kh_err *err)
{
	if (x->model_reader)
		return true;
	x->model_reader = kh_model_reader_new();
	if (!x->model_reader)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to read the content");
	kh_model_reader_feed(x->model_reader, kh_buf_view(&x->content));
	return true;
}

bool kh_body_buffer_begin(struct kh_exchange *x, struct kh_err *err)
{
	const struct kh_path_readings path = kh_target_readings(&x->target);
	const char *fault = kh_model_path_fault(&path);

	if (!fault)
		fault = kh_model_content_fault(x->message);
	if (fault)
		return kh_body_buffer_refuse(fault, err);
	if (x->message->framing == KH_FRAMING_LENGTH &&
	    x->message->content_length > x->gen->config->held_content)
		return over_limit(x, err);
	return hold_at_most(x, (size_t)x->gen->config->held_content, err) &&
	       begin_to_read(x, err) && wait_for_content(x, err);
}

bool kh_body_buffer_begin_for_credential(struct kh_exchange *x, struct kh_err *err)
{
	/* What a credential goes into is known to be short; what is signed may be as long as any.
	 */
	if (x->signing && x->message->framing == KH_FRAMING_LENGTH &&
	    x->message->content_length > x->gen->config->held_content)
		return over_limit(x, err);
	size_t most = x->signing ? (size_t)x->gen->config->held_content : KH_LIMIT_BODY_HELD_BYTES;
	return hold_at_most(x, most, err) && wait_for_content(x, err);
}

bool kh_body_buffer_end_for_credential(struct kh_exchange *x, size_t n_trailers, struct kh_err *err)
{
	if (!has_come(x, err))
		return false;
	return n_trailers == 0 ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_PLACE,
			  "a credential goes into the content, or signs it, and there are fields "
			  "after it");
}

bool kh_body_buffer_refuse(const char *why, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_MODEL_UNREADABLE,
			  "a rule asks which model the request is for, and it does not say it "
			  "plainly: %s",
			  why);
}

/* The sandbox's, over all its connections and threads. */
static bool take_share(struct kh_exchange *x, size_t bytes, struct kh_err *err)
{
	struct kh_listener_stats *listener_stats = x->side->acceptor->listener_stats;
	uint64_t most = x->gen->config->held_content * KH_LIMIT_HELD_CONTENTS;

	if (atomic_fetch_add(&listener_stats->held_bytes, bytes) + bytes <= most) {
		x->share += bytes;
		return true;
	}
	atomic_fetch_sub(&listener_stats->held_bytes, bytes);
	return kh_err_set(err, KH_ERR_LIMIT,
			  "%llu bytes of content are held for this sandbox already (%d times "
			  "limits.held_content)",
			  (unsigned long long)most, KH_LIMIT_HELD_CONTENTS);
}

void kh_body_buffer_let_go(struct kh_exchange *x)
{
	if (x->share > 0)
		atomic_fetch_sub(&x->side->acceptor->listener_stats->held_bytes, x->share);
	x->share = 0;
	kh_buf_fini(&x->content);
}

bool kh_body_buffer_take(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err)
{
	if (piece.len > kh_buf_room(&x->content))
		return over_limit(x, err);
	if (!take_share(x, piece.len, err))
		return false;
	if (!kh_buf_append_slice(&x->content, piece))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to hold the content");
	if (x->model_reader)
		kh_model_reader_feed(x->model_reader, piece);
	return true;
}

bool kh_body_buffer_read(struct kh_exchange *x, size_t n_trailers, struct kh_err *err)
{
	struct kh_model model;
	const char *why = NULL;

	if (!has_come(x, err))
		return false;
	/* They would have to be held as well, and no API has any. */
	if (n_trailers > 0)
		return kh_body_buffer_refuse("there are fields after it", err);
	if (!x->model_reader || kh_model_reader_bytes(x->model_reader) != x->content_bytes)
		return kh_body_buffer_refuse("it was not read", err);
	enum kh_model_state state = kh_model_reader_end(x->model_reader, &model, &why);
	return state == KH_MODEL_UNREAD ? kh_body_buffer_refuse(why, err)
					: set_model(x, state, &model, err);
}

/* What was not announced turns out larger than the max_body of a rule that allowed it. Return: that
 * rule. */
static const struct kh_rule *too_large_for(const struct kh_exchange *x, struct kh_slice piece)
{
	const struct kh_rule *rule = kh_decision_max_body(&x->ruling.decision);

	return rule && x->up_bytes + piece.len > rule->more->max_body ? rule : NULL;
}

bool kh_exchange_is_within_max_body(const struct kh_exchange *x, struct kh_slice piece,
				    struct kh_err *err)
{
	const struct kh_rule *rule = too_large_for(x, piece);

	return !rule || kh_err_set(err, KH_ERR_CONTENT_TOO_LARGE,
				   "the content is larger than the rule '%s' lets through "
				   "(max_body: %llu bytes)",
				   rule->text, (unsigned long long)rule->more->max_body);
}

bool kh_body_buffer_has(const struct kh_exchange *x)
{
	return kh_buf_len(&x->content) > 0 || x->request_state == KH_REQUEST_HELD;
}

void kh_body_buffer_fini(struct kh_exchange *x)
{
	kh_body_buffer_let_go(x);
	kh_model_reader_free(x->model_reader);
	free(x->model);
}
