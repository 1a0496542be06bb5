/*
 * up_h2.c - a user's stream on an HTTP/2 connection to an upstream
 *
 * What the user puts goes to the codec, which buffers it until the flow-control windows allow it.
 * Events of the codec become calls on the user. Nothing here writes to the connection or feeds the
 * codec: up_mux.c does that for all streams together. So a stream that is held holds its
 * connection, all of whose users are of one sandbox.
 */

#include <keyhole/base/block.h>

#include "upstream_internal.h"

enum { H2_CANCEL = 8, EXTRA_FIELDS = 8 };

static struct kh_up_h2 *h2_of(struct kh_up_stream *up)
{
	return kh_container_of(up, struct kh_up_h2, stream);
}

/* ---- the request ---- */

struct head {
	struct kh_field fields[KH_LIMIT_FIELDS + EXTRA_FIELDS];
	size_t n, n_secret;
	struct kh_buf target, authority;
	struct kh_buf secret; /* the credentials' lines, as HTTP/1 has them */
	char length[KH_U64_DIGITS];
	struct kh_up_request request;
};

/* "name: value" lines of what put_credentials has written. */
static bool add_credentials(struct head *head)
{
	struct kh_slice rest = kh_buf_view(&head->secret);

	while (rest.len > 0) {
		size_t colon = kh_slice_find(rest, ':', 0);
		size_t end = kh_slice_find(rest, '\r', colon);

		if (end + 2 > rest.len || head->n == sizeof(head->fields) / sizeof(*head->fields))
			return false;
		head->fields[head->n++] =
			(struct kh_field){ kh_slice_sub(rest, 0, colon),
					   kh_slice_trim(kh_slice_sub(rest, colon + 1, end)) };
		head->n_secret++;
		rest = kh_slice_sub(rest, end + 2, rest.len);
	}
	return true;
}

static void add_fields(struct head *head, const struct kh_up_user *user)
{
	const struct kh_message *message = user->message;

	for (size_t i = 0; i < message->n_fields; i++)
		if (user->ops->forwards(user, &message->fields[i]))
			head->fields[head->n++] = message->fields[i];
	/* RFC 9113 §8.2.2: the one value that may be said here; gRPC asks for it. */
	if (message->te_trailers)
		head->fields[head->n++] = (struct kh_field){ KH_SLICE("te"), KH_SLICE("trailers") };
	if (user->upgrades)
		head->n += user->ops->upgrade_fields(user, true, head->fields + head->n);
	if (head->request.framing != KH_FRAMING_LENGTH)
		return;
	head->fields[head->n++] =
		(struct kh_field){ KH_SLICE("content-length"),
				   kh_slice_from_u64(head->request.length, head->length) };
}

static bool too_large(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_REQUEST_HEAD_TOO_LARGE,
			  "the head does not fit into what may be sent upstream");
}

static bool build_head(struct head *head, const struct kh_up_user *user, struct kh_err *err)
{
	user->ops->describe(user, &head->request);
	if (!user->ops->put_target(user, &head->target, err))
		return false;
	if (!user->ops->put_authority(user, &head->authority))
		return too_large(err);
	add_fields(head, user);
	if (!user->ops->put_credentials(user, &head->secret, err))
		return false;
	return add_credentials(head) || too_large(err);
}

static bool is_whole(const struct kh_up_request *request)
{
	return request->framing == KH_FRAMING_NONE ||
	       (request->framing == KH_FRAMING_LENGTH && request->length == 0);
}

static bool send_head(struct kh_up_h2 *s, const struct head *head, struct kh_err *err)
{
	const struct kh_up_user *user = s->stream.user;
	struct kh_up_mux *mux = s->stream.conn->mux;
	const struct kh_h2_request request = {
		.method = user->upgrades ? KH_SLICE("CONNECT") : user->message->method,
		.scheme = kh_slice_str(kh_scheme_name(head->request.scheme)),
		.authority = kh_buf_view(&head->authority),
		.path = kh_buf_view(&head->target),
		.path_is_secret = head->request.target_is_secret,
		.protocol = user->upgrades ? KH_SLICE("websocket") : KH_SLICE(""),
	};

	s->whole = !user->upgrades && is_whole(&head->request);
	s->h2 = kh_h2_put_request(mux->h2, &request, head->fields, head->n, head->n_secret,
				  s->whole);
	if (!s->h2)
		return too_large(err);
	kh_h2_set_user(s->h2, s);
	if (head->request.content_is_secret)
		kh_h2_wipe_content(s->h2);
	kh_up_mux_touch(mux);
	return true;
}

static bool put_head(struct kh_up_stream *up, struct kh_err *err)
{
	struct head head;

	head.n = head.n_secret = 0;
	kh_buf_init_wiping(&head.target, KH_LIMIT_LINE_BYTES);
	kh_buf_init(&head.authority, KH_HOST_MAX_BYTES + 16);
	kh_buf_init_wiping(&head.secret, KH_LIMIT_HEAD_BYTES + KH_LIMIT_SECRET_BYTES);
	bool ok = build_head(&head, up->user, err) && send_head(h2_of(up), &head, err);
	kh_buf_fini(&head.target);
	kh_buf_fini(&head.authority);
	kh_buf_fini(&head.secret);
	return ok;
}

static void put_content(struct kh_up_stream *up, struct kh_slice piece)
{
	/* An upstream that has given the rest of the request up has answered. */
	(void)kh_h2_put_data(h2_of(up)->h2, piece);
	kh_up_mux_touch(up->conn->mux);
}

static void put_end(struct kh_up_stream *up, const struct kh_field *trailers, size_t n)
{
	struct kh_up_h2 *s = h2_of(up);

	if (s->whole)
		return;
	(void)kh_h2_put_end(s->h2, trailers, n);
	kh_up_mux_touch(up->conn->mux);
}

/* ---- the turn ---- */

static const struct kh_up_h2 *h2_of_const(const struct kh_up_stream *up)
{
	const char *s = (const char *)up - offsetof(struct kh_up_h2, stream);

	return (const struct kh_up_h2 *)(const void *)s;
}

static bool is_full(const struct kh_up_stream *up)
{
	return kh_h2_is_full(h2_of_const(up)->h2);
}

size_t kh_up_h2_line_bytes(const struct kh_up_stream *up)
{
	const struct kh_h2_stream *h2 = h2_of_const(up)->h2;

	return h2 ? kh_h2_head_bytes_in_line(h2) + kh_h2_waiting_bytes(h2) : 0;
}

static void flush(struct kh_up_stream *up)
{
	(void)up; /* with all the others, at the end of the loop's turn */
}

static void hold(struct kh_up_stream *up)
{
	struct kh_up_h2 *s = h2_of(up);

	if (s->held)
		return;
	s->held = true;
	up->conn->mux->n_held++;
	kh_up_mux_touch(up->conn->mux); /* which stops reading */
}

static void go_on(struct kh_up_h2 *s)
{
	struct kh_up_mux *mux = s->stream.conn->mux;

	if (!s->held)
		return;
	s->held = false;
	mux->n_held--;
	mux->look = true;
	kh_up_mux_touch(mux);
}

static void update(struct kh_up_stream *up, bool wanted)
{
	struct kh_up_h2 *s = h2_of(up);

	go_on(s);
	if (!wanted && !s->paused) {
		s->paused = true;
		kh_h2_pause(s->h2);
		kh_list_remove(&s->resume_link);
	} else if (wanted && s->paused && !kh_list_has_node(&s->resume_link)) {
		/* What was kept comes when nobody is in the middle of something. */
		kh_list_append(&up->conn->mux->resumes, &s->resume_link);
		kh_up_mux_touch(up->conn->mux);
	}
}

static void free_stream(struct kh_deferred_free *deferred_free)
{
	kh_block_give(kh_container_of(deferred_free, struct kh_up_h2, deferred_free));
}

static void release(struct kh_up_stream *up, bool clean)
{
	struct kh_up_h2 *s = h2_of(up);
	struct kh_up *conn = up->conn;

	(void)clean;
	go_on(s);
	kh_list_remove(&s->link);
	kh_list_remove(&s->resume_link);
	if (s->waits) {
		s->waits = false;
		conn->n_waiting--;
		(void)kh_up_slot_place(conn);
	}
	kh_charge_release(&s->making);
	kh_charge_release(&s->window);
	if (s->h2 && up->user->switched)
		(void)kh_h2_put_end(s->h2, NULL, 0); /* after the last frame */
	up->user = NULL;
	if (s->h2) {
		kh_h2_set_user(s->h2, NULL);
		kh_h2_release(s->h2);
		s->h2 = NULL;
	}
	kh_loop_free_later(conn->loop, &s->deferred_free, free_stream);
	if (conn->mux)
		kh_up_mux_stream_over(conn->mux);
}

static const struct kh_up_ops up_h2_ops = {
	.put_head = put_head,
	.put_content = put_content,
	.put_end = put_end,
	.is_full = is_full,
	.flush = flush,
	.update = update,
	.hold = hold,
	.release = release,
	.says_unread = true,
};

struct kh_up_h2 *kh_up_h2_new(struct kh_up_user *user, struct kh_up *up, struct kh_node *list)
{
	struct kh_up_h2 *s = kh_block_new(sizeof(*s));

	if (!s)
		return NULL;
	s->stream = (struct kh_up_stream){ .ops = &up_h2_ops, .conn = up, .user = user };
	user->stream = &s->stream;
	bool is_first = up->mux && list == &up->mux->streams && kh_list_is_empty(list);
	kh_list_append(list, &s->link);
	if (is_first)
		kh_up_leave_line(up);
	kh_up_pool_leave(up);
	return s;
}

/* ---- the response ---- */

/* A sandbox that has read a whole window may have twice as much sent ahead, within its share. One
 * that does not read keeps the least. */
static void widen(struct kh_up_h2 *s, const struct kh_up_user *user, size_t read)
{
	size_t window = KH_LIMIT_UP_WINDOW_LEAST + s->window.amount;

	s->read_bytes += read;
	if (s->read_bytes < window || window >= KH_LIMIT_UP_WINDOW_MOST)
		return;
	s->read_bytes = 0;
	bool may =
		kh_charge_holds(&s->window)
			? kh_charge_resize(&s->window, s->window.amount + window)
			: kh_charge_take(&s->window, user->account, KH_RESOURCE_UP_WINDOW, window);
	if (may)
		(void)kh_h2_widen(s->h2, (uint32_t)(2 * window));
}

static void take_body(struct kh_up_h2 *s, struct kh_slice body)
{
	struct kh_up_user *user = s->stream.user;

	if (!user->ops->body(user, body))
		return;
	if (user->ops->is_full(user->side)) {
		s->paused = true;
		kh_h2_pause(s->h2);
	} else if (s->h2) {
		widen(s, user, body.len);
	}
}

static void fail(struct kh_up_user *user, const struct kh_err *err, bool answered)
{
	struct kh_err why = *err;

	/* What ended the connection does not know how far this one was. */
	if (!answered && why.code == KH_ERR_RESPONSE_INCOMPLETE)
		why.code = KH_ERR_UP_CLOSED;
	user->ops->broken(user, &why);
}

/* RFC 9113 §8.7 for what was not processed; RFC 9110 §9.2.2 for what may have been. */
static void take_reset(struct kh_up_h2 *s, const struct kh_h2_event *event)
{
	struct kh_up_user *user = s->stream.user;

	if (user->switched) {
		user->ops->lost(user, event->err);
		return;
	}
	if (event->unprocessed)
		kh_up_mux_lose(s->stream.conn->mux);
	if (!s->answered && (event->unprocessed ? user->ops->may_repeat(user)
						: user->reused && user->ops->may_retry(user)))
		user->ops->retry(user);
	else
		fail(user, event->err, s->answered);
}

void kh_up_h2_on_event(const struct kh_h2_event *event, void *arg)
{
	struct kh_up_mux *mux = arg;
	struct kh_up_h2 *s = event->user;

	if (event->kind == KH_H2_GOAWAY || event->kind == KH_H2_ERROR)
		kh_up_mux_lose(mux);
	else if (event->kind == KH_H2_SETTINGS)
		(void)kh_up_slot_place(mux->up);
	if (!s)
		return;
	struct kh_up_user *user = s->stream.user;
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;
	*user->progress_ms = mux->up->loop->now_ms;
	switch (event->kind) {
	case KH_H2_HEAD:
		s->answered = true;
		(void)ops->head(user, event->message);
		break;
	case KH_H2_BODY:
		take_body(s, event->body);
		break;
	case KH_H2_END:
		ops->end(user, event->trailers, event->n_trailers);
		break;
	case KH_H2_RESET:
		take_reset(s, event);
		break;
	case KH_H2_REFUSED:
	case KH_H2_WRITABLE:
	case KH_H2_GOAWAY:
	case KH_H2_SETTINGS:
	case KH_H2_PONG:
	case KH_H2_ERROR:
		break;
	}
	ops->touch(side); /* at the end of this turn */
}
