/*
 * up_raw.c - the upstream side of raw tunnels: tcp:// rules and TLS passthrough
 *
 * There are no messages: what either side sends is content. Each direction ends by itself; the end
 * that the user puts is sent after everything that was put before it.
 */

#include "upstream_internal.h"

enum { READS_AT_ONCE = 4 };

/* There is none: the user is told that the connection stands, and gets what was said on it. */
static bool put_head(struct kh_up_stream *up, struct kh_err *err)
{
	struct kh_up_user *user = up->user;
	struct kh_buf *in = &up->conn->in;

	if (!user->ops->connected(user, kh_buf_view(in), err))
		return false;
	kh_buf_clear(in);
	return true;
}

static void put_content(struct kh_up_stream *up, struct kh_slice piece)
{
	struct kh_leg *leg = &up->conn->leg;

	if (!kh_leg_put(leg, piece))
		leg->failed = true; /* it shows when it is read */
}

static void flush(struct kh_up_stream *up)
{
	struct kh_up *conn = up->conn;

	(void)kh_leg_flush(&conn->leg);
	if (conn->fin_state == KH_UP_FIN_WANTED &&
	    (kh_buf_len(&conn->leg.out) == 0 || conn->leg.failed) &&
	    kh_up_set_fin(conn, KH_UP_FIN_SENT))
		kh_stream_shutdown_write(conn->leg.stream);
}

static void put_end(struct kh_up_stream *up, const struct kh_field *trailers, size_t n)
{
	(void)trailers;
	(void)n;
	if (kh_up_set_fin(up->conn, KH_UP_FIN_WANTED))
		flush(up);
}

static bool is_full(const struct kh_up_stream *up)
{
	return kh_leg_is_full(&up->conn->leg);
}

static void update(struct kh_up_stream *up, bool wanted)
{
	const struct kh_leg *leg = &up->conn->leg;
	bool waits = kh_buf_len(&leg->out) && !leg->failed;

	wanted = wanted && up->conn->answer_state != KH_UP_ANSWER_ENDED &&
		 !kh_up_is_in_line(up->conn);
	kh_stream_watch(leg->stream,
			(waits ? KH_STREAM_WRITABLE : 0u) | (wanted ? KH_STREAM_READABLE : 0u));
}

static void hold(struct kh_up_stream *up)
{
	kh_stream_watch(up->conn->leg.stream, 0);
}

static void release(struct kh_up_stream *up, bool clean)
{
	(void)clean;
	up->user = NULL;
	kh_up_close(up->conn);
}

static bool is_out(const struct kh_up_stream *up)
{
	return up->conn->fin_state == KH_UP_FIN_SENT;
}

const struct kh_up_ops kh_up_raw_ops = {
	.put_head = put_head,
	.put_content = put_content,
	.put_end = put_end,
	.is_full = is_full,
	.flush = flush,
	.update = update,
	.hold = hold,
	.release = release,
	.is_out = is_out,
};

/* Return: false: there is nothing more to read, or nobody to read it for. */
static bool take(struct kh_up *up, enum kh_io io, size_t got)
{
	struct kh_up_user *user = up->only.user;
	struct kh_err err = KH_ERR_INIT;

	if (user->work)
		kh_work_share_charge(user->work, KH_LIMIT_WORK_PER_READ + kh_work_of_piece(got));
	switch (io) {
	case KH_IO_OK:
		*user->progress_ms = up->loop->now_ms;
		if (!user->ops->body(user, kh_slice_sub(kh_buf_view(&up->in), 0, got)))
			return false;
		kh_buf_clear(&up->in);
		return got >= KH_LEG_READ_BYTES / 2;
	case KH_IO_AGAIN:
		return false;
	case KH_IO_EOF:
		if (kh_up_set_answer(up, KH_UP_ANSWER_ENDED, &err))
			user->ops->end(user, NULL, 0);
		else
			user->ops->broken(user, &err);
		return false;
	case KH_IO_TRUNCATED:
	case KH_IO_ERROR:
		break;
	}
	user->ops->broken(user, kh_stream_error(up->leg.stream));
	return false;
}

void kh_up_raw_readable(struct kh_up *up)
{
	for (int i = 0; i < READS_AT_ONCE; i++) {
		struct kh_up_user *user = up->only.user;
		struct kh_err err = KH_ERR_INIT;
		size_t got = 0;
		if (up->answer_state == KH_UP_ANSWER_ENDED || user->ops->is_full(user->side) ||
		    kh_up_may_do(up) == 0)
			return;
		char *room = kh_buf_reserve(&up->in, KH_LEG_READ_BYTES);
		if (!room) {
			kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for what comes");
			user->ops->broken(user, &err);
			return;
		}
		enum kh_io io = kh_stream_read(up->leg.stream, room, KH_LEG_READ_BYTES, &got);
		if (io == KH_IO_OK)
			kh_buf_commit(&up->in, got);
		if (!take(up, io, got))
			return;
	}
}
