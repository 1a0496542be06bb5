/*
 * h2_order.c - follows the heads of frames, before nghttp2 has them
 *
 * Frames of a type that RFC 9113 does not name have to be ignored (§4.1, §5.5). nghttp2 does so
 * without a callback. So a caller that asks how far nghttp2 may read is stopped after the head of
 * each such frame, to count it. This holds for frames of clients and of servers.
 *
 * What else is here is for a client's frames: those on streams that it has ended, or skipped.
 * RFC 9113 §5.1 and §5.1.1 make them connection errors: HEADERS and DATA after the client's own
 * END_STREAM or RST_STREAM, and on an identifier lower than one that it has used already. nghttp2
 * ignores such frames: it forgets closed streams, and an endpoint must ignore frames that were on
 * their way when it reset a stream itself. To tell the two cases apart, frames are checked as they
 * begin: which streams the client opened and which of them it ended, for the newest
 * KH_H2_ORDER_STREAMS. Older ones are left to nghttp2.
 *
 * nghttp2 can't be stopped after the end of a request that does not end with its head. So it is
 * given the bytes up to such an end, and then it is asked whether the turn is over (h2.c).
 */
#include "h2_internal.h"

static bool bit_of(const uint64_t *bits, uint32_t id)
{
	uint32_t at = id / 2 % KH_H2_ORDER_STREAMS;

	return bits[at / 64] >> (at % 64) & 1;
}

static void set_bit(uint64_t *bits, uint32_t id, bool value)
{
	uint32_t at = id / 2 % KH_H2_ORDER_STREAMS;
	uint64_t bit = UINT64_C(1) << (at % 64);

	bits[at / 64] = value ? bits[at / 64] | bit : bits[at / 64] & ~bit;
}

/* The identifiers up to this one have their place; those in between were not used. */
static void open(struct kh_h2_order *order, uint32_t id)
{
	uint32_t first = order->highest ? order->highest + 2 : 1;

	if (id - first > 2 * KH_H2_ORDER_STREAMS)
		first = id - 2 * (KH_H2_ORDER_STREAMS - 1);
	for (uint32_t i = first; i <= id; i += 2) {
		set_bit(order->opened, i, i == id);
		set_bit(order->ended, i, false);
	}
	order->highest = id;
}

static bool is_remembered(const struct kh_h2_order *order, uint32_t id)
{
	return id <= order->highest && (order->highest - id) / 2 < KH_H2_ORDER_STREAMS;
}

/* HEADERS or DATA on a stream that has had its turn. */
static uint32_t judge(const struct kh_h2_order *order, uint32_t id)
{
	if (!is_remembered(order, id))
		return NGHTTP2_NO_ERROR;
	if (!bit_of(order->opened, id))
		return NGHTTP2_PROTOCOL_ERROR;
	return bit_of(order->ended, id) ? NGHTTP2_STREAM_CLOSED : NGHTTP2_NO_ERROR;
}

static uint32_t take_frame(struct kh_h2_order *order, uint8_t type, uint8_t flags, uint32_t id)
{
	bool carries = type == NGHTTP2_HEADERS || type == NGHTTP2_DATA;
	uint32_t error = NGHTTP2_NO_ERROR;

	if (type == NGHTTP2_PRIORITY && id == 0)
		return NGHTTP2_PROTOCOL_ERROR; /* §6.3; nghttp2 leaves these frames out */
	if (id % 2 == 0 || (!carries && type != NGHTTP2_RST_STREAM))
		return NGHTTP2_NO_ERROR;
	if (id > order->highest) {
		if (type != NGHTTP2_HEADERS)
			return NGHTTP2_NO_ERROR; /* on an idle stream: nghttp2's */
		open(order, id);
	} else if (carries) {
		error = judge(order, id);
	}
	if (is_remembered(order, id) &&
	    (type == NGHTTP2_RST_STREAM || (carries && (flags & NGHTTP2_FLAG_END_STREAM))))
		set_bit(order->ended, id, true);
	return error;
}

/* As its head says; `known`: its stream was opened before. */
static void look_for_end(struct kh_h2_order *order, uint8_t type, uint8_t flags, bool known)
{
	bool whole = type == NGHTTP2_DATA || (flags & NGHTTP2_FLAG_END_HEADERS);

	if (type != NGHTTP2_CONTINUATION)
		order->in_last = (flags & NGHTTP2_FLAG_END_STREAM) && known &&
				 (type == NGHTTP2_DATA || type == NGHTTP2_HEADERS);
	order->ends = order->in_last && whole;
}

void kh_h2_order_init(struct kh_h2_order *order, enum kh_h2_role role)
{
	memset(order, 0, sizeof(*order));
	order->of_client = role == KH_H2_SERVER;
	order->skip = order->of_client ? NGHTTP2_CLIENT_MAGIC_LEN : 0;
}

/* A frame's head is whole. */
static uint32_t take_head(struct kh_h2_order *order)
{
	const uint8_t *h = order->head;
	uint32_t id =
		((uint32_t)h[5] & 0x7f) << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8];

	order->n_head = 0;
	order->skip = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2];
	order->is_extension = h[3] > NGHTTP2_CONTINUATION;
	order->extension_bytes = order->is_extension ? order->skip : 0;
	if (!order->of_client)
		return NGHTTP2_NO_ERROR;
	look_for_end(order, h[3], h[4], id <= order->highest);
	return take_frame(order, h[3], h[4], id);
}

size_t kh_h2_order_walk(struct kh_h2_order *order, struct kh_slice in, uint32_t *error)
{
	size_t at = 0;

	*error = NGHTTP2_NO_ERROR;
	while (at < in.len && *error == NGHTTP2_NO_ERROR && !order->is_extension) {
		if (order->skip > 0) {
			size_t n = in.len - at < order->skip ? in.len - at : order->skip;
			order->skip -= (uint32_t)n;
			at += n;
		} else {
			order->head[order->n_head++] = (uint8_t)in.ptr[at++];
			if (order->n_head == sizeof(order->head))
				*error = take_head(order);
		}
		if (order->ends && order->skip == 0) {
			order->ends = false;
			break;
		}
	}
	return at;
}
