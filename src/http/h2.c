/*
 * h2.c - one HTTP/2 connection: made, fed, drained, ended
 *
 * Every connection error goes through kh_h2_fail: GOAWAY is queued, each open stream gets RESET
 * with the cause, then KH_H2_ERROR comes; whatever is read after that is dropped. An error that
 * nghttp2 finds by itself is noticed when nghttp2 no longer wants to read.
 */
#include "h2_internal.h"

#include <stdlib.h>

static void free_option(nghttp2_option **option)
{
	nghttp2_option_del(*option);
}

static void free_callbacks(nghttp2_session_callbacks **callbacks)
{
	nghttp2_session_callbacks_del(*callbacks);
}

/* Not each version has it; one that has not does not limit either. */
/* NOLINTNEXTLINE(readability-redundant-declaration): weak, and perhaps not in the header */
void nghttp2_option_set_stream_reset_rate_limit(nghttp2_option *option, uint64_t burst,
						uint64_t rate) __attribute__((weak));

/* How often streams may be given up is h2_guard.c's to say: of thousands of tunnels, all at once.
 */
static void lift_reset_limit(nghttp2_option *option)
{
	enum { MORE_THAN_THAT = 1 << 30 };

	if (nghttp2_option_set_stream_reset_rate_limit)
		nghttp2_option_set_stream_reset_rate_limit(option, MORE_THAN_THAT, MORE_THAN_THAT);
}

static bool make_session(struct kh_h2 *h2)
{
	nghttp2_option *option __attribute__((cleanup(free_option))) = NULL;
	nghttp2_session_callbacks *callbacks __attribute__((cleanup(free_callbacks))) = NULL;

	if (nghttp2_option_new(&option) != 0 || nghttp2_session_callbacks_new(&callbacks) != 0)
		return false;
	kh_h2_set_recv_callbacks(callbacks);
	kh_h2_set_send_callbacks(callbacks);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_max_reserved_remote_streams(option, 0);
	nghttp2_option_set_max_outbound_ack(option, KH_LIMIT_H2_UNSENT_FRAMES);
	lift_reset_limit(option);
	/* A head and a credential of the largest size. */
	nghttp2_option_set_max_send_header_block_length(
		option, 2 * ((size_t)KH_LIMIT_HEAD_BYTES + KH_LIMIT_SECRET_BYTES));
	int rv = h2->settings.role == KH_H2_SERVER
			 ? nghttp2_session_server_new3(&h2->session, callbacks, h2, option,
						       &kh_h2_mem)
			 : nghttp2_session_client_new3(&h2->session, callbacks, h2, option,
						       &kh_h2_mem_client);
	return rv == 0;
}

static bool put_settings(struct kh_h2 *h2)
{
	const struct kh_h2_settings *s = &h2->settings;
	nghttp2_settings_entry entries[8];
	size_t n = 0;

	entries[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
						 s->stream_window_bytes };
	entries[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
						 KH_LIMIT_HEAD_BYTES };
#ifdef NGHTTP2_EXTPRI_DEFAULT_URGENCY
	entries[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES,
						 s->role == KH_H2_SERVER };
#endif
	if (s->role == KH_H2_CLIENT)
		entries[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 };
	else
		entries[n++] = (nghttp2_settings_entry){ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
							 s->max_streams };
	if (s->role == KH_H2_SERVER && s->extended_connect)
		entries[n++] =
			(nghttp2_settings_entry){ NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1 };
	return nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, entries, n) == 0 &&
	       nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
						     (int32_t)s->connection_window_bytes) == 0;
}

struct kh_h2 *kh_h2_new(const struct kh_h2_settings *settings, kh_h2_cb *cb, void *arg)
{
	struct kh_h2 *h2 = calloc(1, sizeof(*h2));

	if (!h2)
		return NULL;
	h2->settings = *settings;
	h2->cb = cb;
	h2->arg = arg;
	kh_list_init(&h2->streams);
	kh_list_init(&h2->writable);
	kh_list_init(&h2->heads);
	kh_h2_guard_init(h2);
	kh_h2_order_init(&h2->order, settings->role);
	if (make_session(h2) && put_settings(h2))
		return h2;
	kh_h2_free(h2);
	return NULL;
}

void kh_h2_free(struct kh_h2 *h2)
{
	if (!h2)
		return;
	while (!kh_list_is_empty(&h2->streams)) {
		struct kh_h2_stream *stream =
			kh_container_of(h2->streams.next, struct kh_h2_stream, link);
		bool open = stream->life != KH_H2_LIFE_CLOSED;

		if (open)
			(void)kh_h2_set_life(stream, KH_H2_LIFE_CLOSED);
		kh_h2_stream_leave(stream);
		if (open)
			kh_h2_stream_unref(stream);
	}
	nghttp2_session_del(h2->session);
	kh_h2_section_rest(h2);
	free(h2);
}

/* Each that loses something by the end hears of it. It is visited once, and is back in its list by
 * then: the callback may let go of any. */
static void reset_all(struct kh_h2 *h2, const struct kh_err *err, uint32_t code)
{
	struct kh_node rest;

	kh_list_move(&h2->streams, &rest);
	while (!kh_list_is_empty(&rest)) {
		struct kh_h2_stream *stream = kh_container_of(rest.next, struct kh_h2_stream, link);

		kh_list_remove(&stream->link);
		kh_list_append(&h2->streams, &stream->link);
		if (stream->life == KH_H2_LIFE_LIVE &&
		    (h2->settings.role == KH_H2_SERVER || !kh_h2_got_end(stream)))
			kh_h2_tell_reset(stream, err, code);
	}
}

void kh_h2_fail(struct kh_h2 *h2, uint32_t code, enum kh_err_code reason, const char *what)
{
	struct kh_h2_event event = { .kind = KH_H2_ERROR, .err = &h2->err, .code = code };

	if (h2->state == KH_H2_STATE_FAILED)
		return;
	/* Who misbehaves is the upstream then, and no limit of the sandbox's. */
	if (h2->settings.role == KH_H2_CLIENT && reason == KH_ERR_LIMIT)
		reason = KH_ERR_RESPONSE_MALFORMED;
	/* A fault of ours came first, and says what it is. */
	if (h2->state == KH_H2_STATE_BROKEN)
		event.code = code = NGHTTP2_INTERNAL_ERROR;
	else
		kh_err_set(&h2->err, reason, "HTTP/2: %s", what);
	(void)kh_h2_set_state(h2, KH_H2_STATE_FAILED);
	(void)nghttp2_session_terminate_session(h2->session, code);
	reset_all(h2, &h2->err, code);
	kh_h2_tell(h2, NULL, &event);
}

static void fail_for_fault(struct kh_h2 *h2)
{
	kh_h2_fail(h2, NGHTTP2_INTERNAL_ERROR, KH_ERR_INTERNAL, "a fault in keyhole");
}

/* Bytes of `in` that nghttp2 may see at once: up to a frame that is out of order or of an
 * extension, or the end of a request. */
static size_t walk(struct kh_h2 *h2, struct kh_slice in)
{
	if (h2->order_error == NGHTTP2_NO_ERROR && h2->walked_bytes == 0)
		h2->walked_bytes = kh_h2_order_walk(&h2->order, in, &h2->order_error);
	return h2->walked_bytes;
}

/* nghttp2 has all that was walked. */
static void count_extension(struct kh_h2 *h2)
{
	if (!h2->order.is_extension || h2->walked_bytes > 0)
		return;
	h2->order.is_extension = false;
	kh_h2_recv_extension(h2, h2->order.extension_bytes);
}

/* Return: what nghttp2 said last: below 0, that it can't go on. */
static ssize_t receive(struct kh_h2 *h2, struct kh_slice in, size_t *taken)
{
	ssize_t rv;

	*taken = 0;
	do {
		struct kh_slice rest = kh_slice_sub(in, *taken, in.len);
		size_t len = walk(h2, rest);

		rv = nghttp2_session_mem_recv(h2->session, (const uint8_t *)rest.ptr, len);
		if (rv < 0)
			break;
		h2->walked_bytes = h2->behind ? len - (size_t)rv : 0;
		*taken += len - h2->walked_bytes;
		count_extension(h2);
		kh_h2_recv_given(h2, (size_t)rv);
		if (!h2->behind && *taken < in.len && h2->order_error == NGHTTP2_NO_ERROR)
			h2->behind = kh_h2_turn_is_over(h2);
	} while (!h2->behind && *taken < in.len && h2->order_error == NGHTTP2_NO_ERROR &&
		 !kh_h2_is_failed(h2));
	if (!h2->behind)
		*taken = in.len;
	return rv;
}

bool kh_h2_feed_turn(struct kh_h2 *h2, struct kh_slice in, size_t most, uint64_t now_ms,
		     size_t *taken)
{
	*taken = in.len;
	if (h2->state == KH_H2_STATE_BROKEN)
		fail_for_fault(h2);
	if (h2->state == KH_H2_STATE_FAILED)
		return false;
	h2->now_ms = now_ms;
	h2->turn_bytes = 0;
	h2->turn_most = most;
	h2->behind = false;
	ssize_t rv = receive(h2, in, taken);
	if (h2->state == KH_H2_STATE_BROKEN)
		fail_for_fault(h2);
	else if (rv == NGHTTP2_ERR_NOMEM || rv == NGHTTP2_ERR_CALLBACK_FAILURE)
		kh_h2_fail(h2, NGHTTP2_INTERNAL_ERROR, KH_ERR_NO_MEMORY, "no memory");
	else if (rv == NGHTTP2_ERR_FLOODED)
		kh_h2_fail(h2, NGHTTP2_ENHANCE_YOUR_CALM, KH_ERR_LIMIT,
			   "more to be acknowledged than is read");
	else if (rv < 0)
		kh_h2_fail(h2, NGHTTP2_PROTOCOL_ERROR, kh_h2_malformed_code(h2),
			   nghttp2_strerror((int)rv));
	else if (nghttp2_session_want_read(h2->session) == 0 && h2->state == KH_H2_STATE_OPEN)
		kh_h2_fail(h2, NGHTTP2_PROTOCOL_ERROR, kh_h2_malformed_code(h2),
			   "the peer broke the protocol");
	else if (h2->order_error != NGHTTP2_NO_ERROR && !h2->behind)
		kh_h2_fail(h2, h2->order_error, KH_ERR_REQUEST_MALFORMED,
			   "a frame on a stream that its sender has ended or passed over");
	else if (!kh_h2_guard_queue(h2))
		kh_h2_fail(h2, NGHTTP2_ENHANCE_YOUR_CALM, KH_ERR_LIMIT,
			   "more to be said than is read");
	return h2->state != KH_H2_STATE_FAILED;
}

void kh_h2_spend(struct kh_h2 *h2, size_t work)
{
	h2->turn_most -= work < h2->turn_most ? work : h2->turn_most;
}

size_t kh_h2_turn_bytes(const struct kh_h2 *h2)
{
	return h2->turn_bytes;
}

bool kh_h2_is_behind(const struct kh_h2 *h2)
{
	return h2->behind && !kh_h2_is_failed(h2);
}

bool kh_h2_feed(struct kh_h2 *h2, struct kh_slice in, uint64_t now_ms)
{
	size_t taken;
	bool alive;

	do {
		alive = kh_h2_feed_turn(h2, in, KH_LIMIT_H2_TURN_BYTES, now_ms, &taken);
		in = kh_slice_sub(in, taken, in.len);
	} while (alive && kh_h2_is_behind(h2));
	return alive;
}

void kh_h2_feed_eof(struct kh_h2 *h2, const struct kh_err *err)
{
	reset_all(h2, err, NGHTTP2_CANCEL);
}

static void tell_writable(struct kh_h2 *h2)
{
	while (!kh_list_is_empty(&h2->writable)) {
		struct kh_h2_stream *stream =
			kh_container_of(h2->writable.next, struct kh_h2_stream, writable_link);
		struct kh_h2_event event = { .kind = KH_H2_WRITABLE };

		kh_list_remove(&stream->writable_link);
		if (stream->hold == KH_H2_HOLD_HELD && stream->life == KH_H2_LIFE_LIVE)
			kh_h2_tell(h2, stream, &event);
	}
}

bool kh_h2_drain(struct kh_h2 *h2, struct kh_buf *out)
{
	size_t before;
	int rv;

	do {
		before = kh_buf_len(out);
		kh_h2_submit_heads(h2);
		if (h2->n_hidden > 0 && !kh_buf_hide(out)) {
			rv = NGHTTP2_ERR_NOMEM;
			break;
		}
		h2->drain = out;
		rv = nghttp2_session_send(h2->session);
		h2->drain = NULL;
		tell_writable(h2);
	} while (rv == 0 && kh_buf_len(out) != before && kh_buf_len(out) < KH_LIMIT_RELAY_BYTES);
	if (rv == 0 || rv == NGHTTP2_ERR_WOULDBLOCK)
		return true;
	kh_h2_fail(h2, NGHTTP2_INTERNAL_ERROR, KH_ERR_NO_MEMORY, "no memory");
	return false;
}

bool kh_h2_wants_drain(const struct kh_h2 *h2)
{
	return !kh_list_is_empty(&h2->heads) || nghttp2_session_want_write(h2->session) != 0;
}

bool kh_h2_is_over(const struct kh_h2 *h2)
{
	return nghttp2_session_want_read(h2->session) == 0 && !kh_h2_wants_drain(h2);
}

const struct kh_err *kh_h2_error(const struct kh_h2 *h2)
{
	return h2->state == KH_H2_STATE_FAILED ? &h2->err : NULL;
}

size_t kh_h2_streams(const struct kh_h2 *h2)
{
	return h2->n_streams;
}

size_t kh_h2_capacity(const struct kh_h2 *h2)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	if (h2->state != KH_H2_STATE_OPEN ||
	    nghttp2_session_check_request_allowed(h2->session) == 0)
		return 0;
	/* One goes ahead of what the peer allows; it would allow none only to be odd. */
	if (h2->peer == KH_H2_PEER_UNKNOWN)
		most = 1;
	else if (most > KH_LIMIT_H2_STREAMS)
		most = KH_LIMIT_H2_STREAMS;
	return h2->n_streams < most ? most - h2->n_streams : 0;
}

size_t kh_h2_kept_bytes(const struct kh_h2 *h2)
{
	return h2->head_bytes + h2->in_bytes + h2->out_bytes + h2->line_bytes;
}

bool kh_h2_has_settings(const struct kh_h2 *h2)
{
	return h2->peer != KH_H2_PEER_UNKNOWN;
}

bool kh_h2_has_extended_connect(const struct kh_h2 *h2)
{
	return h2->peer == KH_H2_PEER_EXTENDED;
}

bool kh_h2_ping(struct kh_h2 *h2)
{
	return !kh_h2_is_failed(h2) &&
	       nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL) == 0;
}

void kh_h2_goaway(struct kh_h2 *h2)
{
	bool first = h2->state == KH_H2_STATE_OPEN || h2->state == KH_H2_STATE_PEER_LEAVES;

	if (kh_h2_is_failed(h2) ||
	    (first && !kh_h2_set_state(h2, h2->state == KH_H2_STATE_OPEN ? KH_H2_STATE_WE_LEAVE
									 : KH_H2_STATE_BOTH_LEAVE)))
		return;
	if (h2->settings.role == KH_H2_SERVER && first) {
		(void)nghttp2_submit_shutdown_notice(h2->session);
		return;
	}
	(void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(h2->session),
				    NGHTTP2_NO_ERROR, NULL, 0);
}

void kh_h2_reset(struct kh_h2_stream *stream, uint32_t code)
{
	/* After RESET its end is on its way already, and counted as the peer's doing. */
	if (!stream->h2 || stream->life != KH_H2_LIFE_LIVE)
		return;
	kh_h2_drop_head(stream);
	(void)kh_h2_set_life(stream, KH_H2_LIFE_DROPPED);
	(void)nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, code);
}

void kh_h2_release(struct kh_h2_stream *stream)
{
	/* Released before, it may not be let go of again. */
	if (!kh_h2_set_hold(stream, KH_H2_HOLD_RELEASED))
		return;
	stream->user = NULL;
	if (stream->h2 && stream->life != KH_H2_LIFE_CLOSED) {
		bool server = stream->h2->settings.role == KH_H2_SERVER;

		/* An answer that is all in line goes out first, and so does what a tunnel's client
		   has said. */
		if (!kh_h2_has_put_end(stream) ||
		    !(server || stream->asked == KH_H2_ASKED_CONNECT || kh_h2_got_end(stream)))
			kh_h2_reset(stream, NGHTTP2_CANCEL);
		else if (stream->sent == KH_H2_SENT_END && !kh_h2_got_end(stream))
			kh_h2_reset(stream, server ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
	} else if (stream->h2) {
		kh_h2_stream_leave(stream);
	}
	kh_h2_stream_unref(stream);
}
