/*
 * up_mux.c - HTTP/2 connections to upstreams: one carries all users with its key
 *
 * While a connection is being made, other users with its key wait for it, unless the upstream is
 * known to speak only HTTP/1 (then each makes its own). The handshake decides: all use the
 * connection, or all except the first make their own. The first sends its request before the peer's
 * SETTINGS come, the others wait for them. A connection has at most as many streams as its peer
 * allows; more users go to another one.
 *
 * What users put is written once per turn of the loop (KH_LOOP_UP), so that many heads leave
 * together. When a connection ends, each of its streams gets the reason. A request that the peer
 * has not processed moves to another connection, a few times at most; one that is safe to retry
 * moves once.
 *
 * All users of a connection are of one sandbox (it is in the key): if one of them makes the
 * upstream harm the connection, no other sandbox suffers. Unread bytes of an answer only count
 * against the window of its own stream. Windows grow with what is read, within the sandbox's share
 * (up_h2.c).
 *
 * Before an idle connection is used, its unread bytes are read: they may be a GOAWAY. A connection
 * that has been silent for a while also gets a PING: together with a request that may be repeated,
 * and before one that may not. Without an answer both requests move to another connection. Streams
 * that began before the PING stay: their upstream may be slow, or wait for something itself. Any
 * byte shows that the connection works; if none comes for much longer, all streams end.
 */

#include <keyhole/base/clock.h>

#include "upstream_internal.h"

enum {
	READS_AT_ONCE = 4,
	READ_BYTES = KH_LIMIT_READ_BYTES,
	CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024,
};

/* ---- life ---- */

static bool is_of_now(const struct kh_up *up)
{
	return !up->loop->draining && up->key.generation == up->loop->gen->number;
}

void kh_up_mux_touch(struct kh_up_mux *mux)
{
	if (mux->up->state == KH_UP_SHARED)
		kh_loop_call(mux->up->loop, KH_LOOP_UP, &mux->turn);
}

void kh_up_mux_lose(struct kh_up_mux *mux)
{
	mux->lost = true;
	(void)kh_up_slot_place(mux->up);
}

void kh_up_mux_free(struct kh_up_mux *mux)
{
	if (!mux)
		return;
	kh_list_remove(&mux->turn.link);
	kh_list_remove(&mux->next.link);
	kh_h2_free(mux->h2);
	free(mux);
}

void kh_up_mux_stream_over(struct kh_up_mux *mux)
{
	struct kh_up *up = mux->up;

	if (kh_list_is_empty(&mux->streams))
		up->idle_since_ms = up->loop->now_ms;
	if (kh_list_is_empty(&mux->streams))
		kh_work_place_leave(&up->line);
	/* A RST_STREAM may have to leave, or the connection has to end. */
	kh_up_mux_touch(mux);
}

/* Its streams hear why. An answer that is all here and waits for room stays until it is taken. */
static void end(struct kh_up *up, const struct kh_err *err)
{
	struct kh_up_mux *mux = up->mux;

	if (mux->ended)
		return;
	mux->ended = true;
	kh_up_mux_lose(mux);
	kh_list_remove(&mux->next.link);
	kh_work_place_leave(&up->line);
	kh_stream_watch(up->leg.stream, 0);
	kh_h2_feed_eof(mux->h2, err);
	kh_up_mux_touch(mux);
}

static void on_turn(struct kh_loop_call *call);
static void on_next(struct kh_loop_call *call);

static struct kh_up_mux *new_mux(struct kh_up *up)
{
	const struct kh_h2_settings settings = {
		.role = KH_H2_CLIENT,
		.stream_window_bytes = KH_LIMIT_UP_WINDOW_LEAST,
		.stream_window_most_bytes = KH_LIMIT_UP_WINDOW_MOST,
		.connection_window_bytes = CONNECTION_WINDOW_BYTES,
		.streams_apart = true,
	};
	struct kh_up_mux *mux = calloc(1, sizeof(*mux));

	if (!mux)
		return NULL;
	mux->up = up;
	mux->turn.fn = on_turn;
	mux->next.fn = on_next;
	mux->begun_ms = mux->read_ms = up->loop->now_ms;
	kh_list_init(&mux->streams);
	kh_list_init(&mux->resumes);
	mux->h2 = kh_h2_new(&settings, kh_up_h2_on_event, mux);
	if (mux->h2)
		return mux;
	free(mux);
	return NULL;
}

/* ---- its beginning ---- */

void kh_up_mux_not(struct kh_up *up)
{
	struct kh_node waiting;

	if (up->key.only_h1)
		return;
	kh_up_mux_note(up->loop, &up->key, KH_UP_SPEAKS_ONLY_H1);
	kh_up_mux_take_waiting(up, &waiting);
	kh_up_mux_acquire_anew(&waiting);
}

static bool lend(struct kh_up_user *user, struct kh_up *up)
{
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;

	if (!kh_up_h2_new(user, up, &up->mux->streams))
		return false;
	up->whose = user->whose;
	kh_up_is_ready(user, up);
	ops->turn(side);
	return true;
}

void kh_up_mux_begin(struct kh_up *up)
{
	struct kh_up_user *first = up->only.user;
	struct kh_err err = KH_ERR_INIT;
	struct kh_node waiting;

	kh_up_mux_note(up->loop, &up->key, KH_UP_SPEAKS_H2);
	up->mux = new_mux(up);
	if (!up->mux)
		kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for a connection");
	if (!up->mux || !kh_up_set_state(up, KH_UP_SHARED, &err)) {
		kh_up_failed(up, &err);
		return;
	}
	kh_up_mux_take_waiting(up, &waiting);
	up->idle_since_ms = up->loop->now_ms;
	kh_list_append(&up->loop->ups->shared, &up->link);
	kh_h1_free(up->h1);
	up->h1 = NULL;
	up->only.user = NULL;
	first->stream = NULL;
	if (first->upgrades) {
		/* Whether it takes them, its settings say. */
		kh_up_acquire(first, false);
	} else if (!lend(first, up)) {
		const struct kh_up_user_ops *ops = first->ops;
		void *side = first->side;
		kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for a stream");
		ops->failed(first, &err);
		ops->turn(side);
	}
	/* Onto this one, as far as there is room. */
	kh_up_mux_acquire_anew(&waiting);
	kh_up_mux_touch(up->mux);
}

/* ---- the connection ---- */

static void on_end_of_stream(struct kh_up *up, enum kh_io how)
{
	struct kh_err err = KH_ERR_INIT;

	if (how == KH_IO_ERROR)
		err = *kh_stream_error(up->leg.stream);
	else
		kh_err_set(&err, KH_ERR_RESPONSE_INCOMPLETE,
			   "the upstream closed the connection before the response was whole");
	end(up, &err);
}

static bool is_behind(const struct kh_up_mux *mux)
{
	return !mux->ended && kh_h2_is_behind(mux->h2);
}

/* Nothing is read or written: what runs on it is decided again. */
static bool is_held(const struct kh_up_mux *mux)
{
	return mux->n_held > 0;
}

/* What was read, as far as a turn takes heads. Return: more may be read. */
static bool feed(struct kh_up *up, size_t most)
{
	struct kh_up_mux *mux = up->mux;
	struct kh_work_share *share = kh_up_share(up);
	size_t taken;

	most = most < KH_LIMIT_H2_TURN_BYTES ? most : KH_LIMIT_H2_TURN_BYTES;
	bool alive = kh_h2_feed_turn(mux->h2, kh_buf_view(&up->in), most, up->loop->now_ms, &taken);
	if (share)
		kh_work_share_charge(share, KH_LIMIT_WORK_PER_READ + kh_h2_turn_bytes(mux->h2));
	kh_buf_consume(&up->in, taken);
	(void)kh_up_slot_place(up);
	kh_up_mux_touch(mux);
	if (is_behind(mux))
		kh_up_mux_go_on_later(up);
	return alive && !is_behind(mux);
}

static void read_up(struct kh_up *up, bool last)
{
	struct kh_up_mux *mux = up->mux;

	for (int i = 0; i < READS_AT_ONCE && !mux->ended && !is_behind(mux) && !is_held(mux); i++) {
		size_t most = last ? KH_LIMIT_H2_TURN_BYTES : kh_up_may_do(up), got = 0;
		if (most == 0) {
			kh_up_mux_touch(mux); /* which stops reading */
			return;
		}
		char *room = kh_buf_reserve(&up->in, READ_BYTES);
		enum kh_io io =
			room ? kh_stream_read(up->leg.stream, room, READ_BYTES, &got) : KH_IO_ERROR;
		if (io == KH_IO_AGAIN)
			return;
		if (io != KH_IO_OK) {
			on_end_of_stream(up, io);
			return;
		}
		kh_buf_commit(&up->in, got);
		mux->read_ms = up->loop->now_ms;
		mux->ping_ms = 0; /* any byte shows life: PONG may be late after a large answer */
		if (!feed(up, most) ||
		    (got < READ_BYTES / 2 && !kh_stream_has_more(up->leg.stream)))
			return;
	}
}

void kh_up_mux_go_on(struct kh_up *up)
{
	struct kh_up_mux *mux = up->mux;
	size_t most;

	if (is_held(mux))
		return; /* `turn` calls for it again */
	up->loop->now_ms = kh_clock_mono_ms();
	kh_up_mux_touch(mux);
	if (!is_behind(mux) || ((most = kh_up_may_do(up)) > 0 && feed(up, most)))
		read_up(up, false);
}

static void on_next(struct kh_loop_call *call)
{
	kh_up_mux_go_on(kh_container_of(call, struct kh_up_mux, next)->up);
}

void kh_up_mux_event(struct kh_up *up, unsigned events)
{
	if (events & KH_STREAM_READABLE)
		read_up(up, false);
	else
		kh_up_mux_touch(up->mux);
}

static void resume_all(struct kh_up_mux *mux)
{
	struct kh_node due;

	kh_list_move(&mux->resumes, &due);
	while (!kh_list_is_empty(&due)) {
		struct kh_up_h2 *s = kh_container_of(due.next, struct kh_up_h2, resume_link);

		kh_list_remove(&s->resume_link);
		s->paused = false;
		if (s->stream.user && s->stream.user->work && kh_h2_kept_content(s->h2) > 0)
			kh_work_share_charge(s->stream.user->work,
					     kh_work_of_piece(kh_h2_kept_content(s->h2)));
		kh_h2_resume(s->h2);
	}
}

/* Return: false when the connection failed. */
static bool write_out(struct kh_up *up)
{
	do {
		if (!kh_h2_drain(up->mux->h2, &up->leg.out) || !kh_leg_flush(&up->leg))
			return false;
	} while (kh_buf_len(&up->leg.out) == 0 && kh_h2_wants_drain(up->mux->h2));
	return true;
}

static bool is_idle(const struct kh_up *up)
{
	return kh_list_is_empty(&up->mux->streams) && kh_list_is_empty(&up->waiting);
}

/* Nothing runs on `up`. As many rest as the pool of HTTP/1 keeps, in the same shares; those that
 * something runs on take nobody's place. */
static bool may_stay(const struct kh_up *up)
{
	return kh_list_has_node(&up->kept) || kh_up_pool_has_room(up);
}

static void rest(struct kh_up *up)
{
	struct kh_up_mux *mux = up->mux;
	bool waits = kh_buf_len(&up->leg.out) > 0 && !mux->ended && !is_held(mux);

	if (is_idle(up)) {
		if ((!waits && mux->lost) || !is_of_now(up) || kh_h2_is_over(mux->h2) ||
		    !may_stay(up)) {
			kh_up_close(up);
			return;
		}
		kh_up_pool_enter(up);
		if (!is_behind(mux))
			kh_buf_release(&up->in);
		kh_buf_release(&up->leg.out);
	}
	if (mux->ended)
		return;
	bool reads = !is_behind(mux) && !is_held(mux) && !kh_up_is_in_line(up);
	kh_stream_watch(up->leg.stream, (reads ? (unsigned)KH_STREAM_READABLE : 0u) |
						(waits ? (unsigned)KH_STREAM_WRITABLE : 0u));
}

static void turn(struct kh_up *up)
{
	struct kh_up_mux *mux = up->mux;
	struct kh_err err = KH_ERR_INIT;
	struct kh_node waiting;

	if (mux->look && !mux->ended)
		read_up(up, false);
	mux->look = mux->look && is_held(mux);
	if (!is_held(mux))
		resume_all(mux);
	if (!is_held(mux) && is_behind(mux))
		kh_up_mux_go_on_later(up);
	/* Where the write failed, what was read would be lost: it is taken first. */
	if (!mux->ended && !is_behind(mux) && !is_held(mux) && !write_out(up)) {
		/* What the upstream said last may still be there. */
		read_up(up, true);
		kh_err_set(&err, KH_ERR_RESPONSE_INCOMPLETE, "the upstream closed the connection");
		end(up, &err);
	}
	if (kh_h2_error(mux->h2)) {
		err = *kh_h2_error(mux->h2);
		end(up, &err);
	}
	bool knows = kh_h2_has_settings(mux->h2) && !kh_up_mux_is_silent(mux);
	if (mux->lost || knows)
		kh_up_mux_take_waiting(up, &waiting);
	else
		(void)kh_up_slot_place(up);
	if (mux->lost)
		kh_up_mux_move_waiting(&waiting);
	else if (knows)
		kh_up_mux_acquire_anew(&waiting);
	if (up->state == KH_UP_SHARED)
		rest(up);
}

static void on_turn(struct kh_loop_call *call)
{
	struct kh_up_mux *mux = kh_container_of(call, struct kh_up_mux, turn);

	if (mux->up->state == KH_UP_SHARED)
		turn(mux->up);
}

/* ---- time ---- */

/* One that went there along with the PING that has no answer. */
static struct kh_up_user *take_asker(const struct kh_up_mux *mux)
{
	for (struct kh_node *node = mux->streams.next; node != &mux->streams; node = node->next) {
		struct kh_up_h2 *s = kh_container_of(node, struct kh_up_h2, link);
		if (s->ping_ms && s->ping_ms == mux->ping_ms) {
			s->ping_ms = 0;
			return s->stream.user;
		}
	}
	return NULL;
}

static bool has_older(const struct kh_up_mux *mux)
{
	for (struct kh_node *node = mux->streams.next; node != &mux->streams; node = node->next)
		if (kh_container_of(node, struct kh_up_h2, link)->ping_ms != mux->ping_ms)
			return true;
	return false;
}

/* Who waits for it, or went there to ask, goes elsewhere. */
static void leave_those_that_run(struct kh_up_mux *mux, const struct kh_err *err)
{
	struct kh_up_user *user;

	kh_up_mux_lose(mux);
	while ((user = take_asker(mux))) {
		const struct kh_up_user_ops *ops = user->ops;
		void *side = user->side;

		if (user->reused && ops->may_retry(user))
			ops->retry(user);
		else
			ops->broken(user, err);
		ops->turn(side);
	}
	kh_up_mux_touch(mux);
}

static void has_no_pong(struct kh_up *up, uint64_t waited_ms)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, KH_ERR_UP_CLOSED, "the upstream's connection does not answer any more");
	if (waited_ms >= KH_LIMIT_UP_SILENT_MS || !has_older(up->mux))
		end(up, &err);
	else
		leave_those_that_run(up->mux, &err);
}

void kh_up_mux_tick(struct kh_loop *loop, uint64_t now_ms)
{
	uint32_t idle = loop->gen->config->timeouts.idle_up;
	struct kh_err err = KH_ERR_INIT;
	struct kh_node *next;

	for (struct kh_node *node = loop->ups->shared.next; node != &loop->ups->shared;
	     node = next) {
		struct kh_up *up = kh_container_of(node, struct kh_up, link);
		next = node->next;
		if (is_held(up->mux) || kh_up_is_in_line(up))
			continue; /* whatever came is not read */
		if (up->mux->ping_ms && now_ms - up->mux->ping_ms >= KH_LIMIT_UP_PONG_MS) {
			has_no_pong(up, now_ms - up->mux->ping_ms);
		} else if (!kh_h2_has_settings(up->mux->h2) &&
			   now_ms - up->mux->begun_ms >= loop->gen->config->timeouts.handshake) {
			kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT,
				   "the upstream does not begin to speak HTTP/2");
			end(up, &err);
		} else if (is_idle(up) && now_ms - up->idle_since_ms >= idle) {
			kh_up_close(up);
		}
	}
}

/* Nothing new goes over it, and it ends with what does. */
static void leave(struct kh_up *up)
{
	kh_up_mux_lose(up->mux);
	if (is_idle(up))
		kh_up_close(up);
	else
		kh_up_mux_touch(up->mux);
}

void kh_up_mux_close_idle(struct kh_loop *loop)
{
	struct kh_node *next;

	for (struct kh_node *node = loop->ups->shared.next; node != &loop->ups->shared;
	     node = next) {
		next = node->next;
		leave(kh_container_of(node, struct kh_up, link));
	}
}

void kh_up_mux_close_of_acceptor(struct kh_loop *loop, int64_t acceptor)
{
	struct kh_node *next;

	for (struct kh_node *node = loop->ups->shared.next; node != &loop->ups->shared;
	     node = next) {
		struct kh_up *up = kh_container_of(node, struct kh_up, link);
		next = node->next;
		if (up->key.acceptor == acceptor)
			leave(up);
	}
}
