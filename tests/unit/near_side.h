/* near_side.h - the sandbox's side of one exchange, as a test plays it (core_world.h) */
#ifndef KEYHOLE_TESTS_NEAR_SIDE_H
#define KEYHOLE_TESTS_NEAR_SIDE_H

#include "core_world.h"

#include <stdio.h>

#include <exchange/exchange_internal.h>

static struct {
	struct kh_down_side side;
	struct kh_down_stream stream;
	struct kh_message message;
	unsigned interims, heads, answers, ends, overs;
	uint16_t status;     /* of the last head or answer */
	size_t bytes;	     /* of content */
	size_t answer_bytes; /* of answers of our own */
	enum kh_down_end end;
	enum kh_err_code reason; /* as it was when it was over */
	bool can_take_back, is_full;
	void (*in_over)(struct kh_exchange *x); /* or NULL */
} near;

static inline bool near_put_interim(struct kh_down_stream *down, const struct kh_message *head)
{
	(void)down;
	near.interims++;
	near.status = head->status;
	return true;
}

static inline bool near_put_head(struct kh_down_stream *down, const struct kh_message *head)
{
	(void)down;
	near.heads++;
	near.status = head->status;
	return true;
}

static inline bool near_put_content(struct kh_down_stream *down, struct kh_slice piece)
{
	(void)down;
	near.bytes += piece.len;
	return true;
}

static inline bool near_put_end(struct kh_down_stream *down, const struct kh_field *trailers,
				size_t n)
{
	(void)down;
	(void)trailers;
	(void)n;
	near.ends++;
	return true;
}

static inline bool near_put_answer(struct kh_down_stream *down, const struct kh_answer *answer)
{
	(void)down;
	near.answers++;
	near.status = answer->status;
	near.answer_bytes += answer->content.len;
	return true;
}

static inline bool near_take_back(struct kh_down_stream *down)
{
	(void)down;
	return near.can_take_back;
}

static inline bool near_is_full(struct kh_down_stream *down)
{
	(void)down;
	return near.is_full;
}

static inline void near_over(struct kh_down_stream *down, const struct kh_exchange *x,
			     enum kh_down_end end)
{
	assert_null(down->exchange);
	assert_int_equal(x->state, KH_EXCHANGE_ENDED);
	near.overs++;
	near.end = end;
	near.reason = x->reason;
	if (near.in_over)
		near.in_over((void *)(uintptr_t)x);
}

static inline void near_turn(struct kh_down_stream *down)
{
	if (down->exchange)
		kh_exchange_flush(down->exchange);
	if (down->exchange)
		kh_exchange_update(down->exchange);
}

static const struct kh_down_ops near_ops = {
	.put_interim = near_put_interim,
	.put_head = near_put_head,
	.put_content = near_put_content,
	.put_end = near_put_end,
	.put_answer = near_put_answer,
	.take_back = near_take_back,
	.is_full = near_is_full,
	.over = near_over,
	.turn = near_turn,
	.touch = near_turn,
};

/* A refusal is in the journal: its answer may leave. */
static inline void near_answer(struct kh_loop_call *call)
{
	(void)call;
}

static const struct kh_loop_ops near_loop_ops = {
	.ups_new = kh_ups_new,
	.ups_free = kh_ups_free,
	.up_tick = kh_up_tick,
	.up_close_idle = kh_up_close_idle,
	.up_close_of_acceptor = kh_up_close_of_acceptor,
};

/* A connection, in a TLS tunnel to that host. */
static inline void near_begin(const char *host)
{
	world_begin(&near_loop_ops);
	memset(&near, 0, sizeof(near));
	near.side.loop = world.loop;
	near.side.answer.fn = near_answer;
	near.side.acceptor = &world.acceptor;
	near.side.tunnel = near.side.tls = true;
	assert_true(kh_authority_parse(&near.side.authority, kh_slice_str(host), 443, NULL));
	near.stream.ops = &near_ops;
}

static inline void near_add_field(const char *name, const char *value)
{
	struct kh_message *m = &near.message;

	m->fields[m->n_fields++] = (struct kh_field){ kh_slice_str(name), kh_slice_str(value) };
}

/* The head of a request there. `length`: of its content; -1: it has none. */
static inline struct kh_message *near_request(const char *method, const char *target, int length)
{
	struct kh_message *m = &near.message;

	*m = (struct kh_message){
		.method = kh_slice_str(method),
		.target = kh_slice_str(target),
		.host = kh_slice_str(near.side.authority.host.text),
		.minor = 1,
		.keep_alive = true,
	};
	if (length >= 0) {
		m->framing = KH_FRAMING_LENGTH;
		m->content_length = (uint64_t)length;
		m->has_content_length = true;
		near_add_field("Content-Type", "application/json");
	}
	return m;
}

/* What was made with near_request; one without content is whole. Return: NULL: it is over. */
static inline struct kh_exchange *near_send(void)
{
	assert_true(kh_exchange_begin(&near.stream, &near.side, &near.message));
	if (near.stream.exchange && near.message.framing == KH_FRAMING_NONE)
		kh_exchange_request_end(near.stream.exchange, NULL, 0);
	return near.stream.exchange;
}

static inline struct kh_exchange *near_ask(const char *method, const char *target)
{
	(void)near_request(method, target, -1);
	return near_send();
}

#endif
