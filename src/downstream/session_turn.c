/*
 * session_turn.c - what a session does in its turn, and the events that lead to one
 *
 * Every event ends in kh_session_turn, which computes from the state what to wait for.
 */

#include <unistd.h>

#include <keyhole/base/clock.h>

#include "session_internal.h"

enum { READS_AT_ONCE = 4 };

/* Return: false when the session is dead. */
static bool flush_both(struct kh_session *session)
{
	struct kh_exchange *x = kh_session_exchange(session);
	uint64_t before = session->leg.written_bytes;

	if (x)
		kh_exchange_flush(x);
	if (session->state == KH_SESSION_DEAD)
		return false;
	if (session->state == KH_SESSION_HANDSHAKE || kh_buf_len(&session->leg.out) == 0 ||
	    kh_list_has_node(&session->side.answer.link))
		return true;
	if (kh_leg_flush(&session->leg)) {
		if (session->state == KH_SESSION_LINGER && session->leg.written_bytes != before)
			session->deadline_ms = 0; /* a new wait */
		return true;
	}
	kh_session_kill(session, KH_ERR_DOWN_CLOSED, "the sandbox closed the connection");
	return false;
}

/* What was read waits for what is to be written. */
static bool is_blocked(const struct kh_session *session)
{
	if (session->state == KH_SESSION_RAW)
		return kh_raw_is_blocked(session);
	/* Also when all was read: the codec may still owe the end of it. */
	if (session->state == KH_SESSION_EXCHANGE)
		return !kh_exchange_takes_body(kh_session_exchange(session));
	if (kh_buf_len(&session->in) == 0)
		return false;
	if (session->state == KH_SESSION_TUNNEL)
		return kh_buf_len(&session->leg.out) > 0;
	return kh_session_awaits_head(session) && kh_leg_is_full(&session->leg);
}

/* Nothing more will be said, and all of it is out. */
static bool says_last(const struct kh_session *session)
{
	if (kh_buf_len(&session->leg.out))
		return false;
	return session->state == KH_SESSION_LINGER ||
	       (session->state == KH_SESSION_RAW &&
		kh_exchange_has_answer(kh_session_exchange(session)));
}

void kh_session_turn(struct kh_session *session)
{
	enum kh_session_state state;
	size_t left;
	bool blocked;

	if (session->state == KH_SESSION_DEAD)
		return;
	if (session->state == KH_SESSION_H2) {
		kh_mux_turn(session);
		if (session->state == KH_SESSION_H2 && !kh_session_may_keep(session))
			return;
		if (session->state == KH_SESSION_H2)
			kh_session_update(session);
		if (session->state != KH_SESSION_LINGER)
			return;
	}
	/* Taken first and written then, so that a head and its content leave together. What was
	 * written may make room for more of what was read, and no event would say so. */
	do {
		state = session->state;
		left = kh_buf_len(&session->in);
		kh_session_process(session);
		if (session->state == KH_SESSION_DEAD)
			return;
		blocked = is_blocked(session);
		if (!flush_both(session))
			return;
	} while (session->state != state || kh_buf_len(&session->in) != left ||
		 (blocked && !is_blocked(session)));
	if (says_last(session) && !session->fin_sent) {
		session->fin_sent = true;
		session->deadline_ms = 0;
		kh_stream_shutdown_write(session->leg.stream);
	}
	if (session->state == KH_SESSION_LINGER && session->fin_sent && session->eof) {
		kh_session_kill(session, KH_ERR_NONE, NULL);
		return;
	}
	if (session->state == KH_SESSION_HEAD && kh_buf_len(&session->in) == 0) {
		kh_buf_release(&session->in);
		kh_buf_release(&session->leg.out);
		if (session->h1)
			kh_h1_release(session->h1);
	}
	/* Ten thousand of them idle. */
	struct kh_exchange *x = kh_session_exchange(session);
	if (x && kh_exchange_is_websocket(x))
		kh_buf_release(&session->leg.out);
	if (kh_session_may_keep(session))
		kh_session_update(session);
}

/* ---- events ---- */

/* The sandbox has sent its last byte. */
static void on_eof(struct kh_session *session, enum kh_io how)
{
	const struct kh_exchange *x = kh_session_exchange(session);

	session->eof = true;
	/* What was read before goes its way first (session_take.c). */
	if (x && kh_exchange_is_websocket(x))
		return;
	if (session->state == KH_SESSION_RAW && how == KH_IO_EOF)
		return; /* what was read goes up first */
	/* On a plain connection a half-close is a way to say "that was all"; on TLS clients end so
	 * when they have gone. Who has shut both ways has gone in any case. */
	if (x && session->state == KH_SESSION_EXCHANGE && how == KH_IO_EOF && !session->side.tls &&
	    (kh_exchange_has_request(x) || kh_buf_len(&session->in)) &&
	    !kh_session_is_abandoned(session)) {
		session->closing = kh_session_has_said_all(session);
		return;
	}
	if (session->state == KH_SESSION_LINGER && kh_buf_len(&session->leg.out))
		return;
	/* The same, a moment later: the last answer is not all out yet. */
	if (session->state == KH_SESSION_HEAD && how == KH_IO_EOF && !session->side.tls &&
	    kh_buf_len(&session->leg.out)) {
		session->closing = true;
		return;
	}
	kh_session_kill(session, KH_ERR_DOWN_CLOSED,
			x ? "the sandbox went away before the response was complete" : NULL);
}

static void charge_messages(struct kh_session *session)
{
	unsigned messages = kh_stream_take_messages(session->leg.stream);

	if (messages)
		kh_session_charge(session, (size_t)messages * KH_LIMIT_WORK_PER_TLS_MESSAGE);
}

static void read_down(struct kh_session *session)
{
	if (session->state == KH_SESSION_DEAD || session->state == KH_SESSION_HANDSHAKE)
		return;
	kh_session_charge(session, KH_LIMIT_WORK_PER_READ);
	for (int i = 0; i < READS_AT_ONCE && session->state != KH_SESSION_DEAD; i++) {
		size_t got = 0;
		if (session->eof || !(kh_session_down_watch(session) & KH_STREAM_READABLE))
			return;
		char *room = kh_buf_reserve(&session->in, KH_LEG_READ_BYTES);
		if (!room) {
			if (kh_session_exchange(session)) /* full of what is not taken yet */
				return;
			kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
			return;
		}
		enum kh_io io = kh_stream_read(session->leg.stream, room, KH_LEG_READ_BYTES, &got);
		charge_messages(session);
		if (io == KH_IO_AGAIN)
			return;
		if (io != KH_IO_OK) {
			on_eof(session, io);
			return;
		}
		kh_buf_commit(&session->in, got);
		struct kh_exchange *x = kh_session_exchange(session);
		if (x && !kh_exchange_has_request(x))
			x->progress_ms = session->side.loop->now_ms;
		kh_session_process(session);
		if (got < KH_LEG_READ_BYTES / 2 && !kh_stream_has_more(session->leg.stream))
			return; /* most likely all there is */
	}
}

/* What a read leads to shows only in the read, so it has a share left first. */
static bool may_read(void *arg)
{
	struct kh_session *session = arg;

	session->unread = !kh_session_may_work(session);
	if (session->unread)
		kh_session_update(session);
	return !session->unread;
}

static void did_step(void *arg, size_t bytes, unsigned keys)
{
	kh_session_charge(arg, KH_LIMIT_WORK_PER_READ + bytes +
				       keys * (size_t)KH_LIMIT_WORK_PER_HANDSHAKE);
}

static const struct kh_stream_gate gate = { .may_read = may_read, .did_step = did_step };

static void on_stream(struct kh_stream *stream, unsigned events, void *arg)
{
	struct kh_session *session = arg;
	struct kh_exchange *x = kh_session_exchange(session);

	(void)stream;
	session->side.loop->now_ms = kh_clock_mono_ms();
	if (events & (KH_STREAM_HANDSHAKE_DONE | KH_STREAM_HANDSHAKE_FAILED | KH_STREAM_WANTS_LEAF))
		kh_tunnel_event(session, events);
	else if (events & KH_STREAM_READABLE)
		read_down(session);
	else if (x)
		x->progress_ms = session->side.loop->now_ms;
	kh_session_turn(session);
}

/* ---- what the loop says ---- */

static void drain(struct kh_session *session)
{
	session->closing = true;
	if (session->state == KH_SESSION_H2) {
		kh_mux_drain(session);
		kh_session_turn(session);
		return;
	}
	if (kh_session_awaits_head(session) || session->state == KH_SESSION_SOCKS ||
	    session->state == KH_SESSION_HELLO || session->state == KH_SESSION_TUNNEL ||
	    session->state == KH_SESSION_HANDSHAKE)
		kh_session_kill(session, KH_ERR_DRAINING, NULL);
	else
		kh_session_turn(session);
}

/* Other rules are in force (exchanges are asked by themselves). A tunnel to where nothing is
 * allowed any more has no use but to wait. */
static void recheck(struct kh_session *session)
{
	const struct kh_standing now = kh_acceptor_standing(session->side.acceptor);
	const struct kh_policy *policy = now.gen->policy;

	kh_down_change_limits(&session->side);
	bool runs = kh_session_exchange(session) || (session->mux && session->mux->n_streams > 0);

	if (session->side.tunnel && !runs &&
	    !kh_policy_knows_host(policy, now.tenant, now.narrowing, KH_SCHEME_HTTPS,
				  &session->side.authority.host, session->side.authority.port) &&
	    !kh_policy_knows_host(policy, now.tenant, now.narrowing, KH_SCHEME_HTTP,
				  &session->side.authority.host, session->side.authority.port))
		kh_session_kill(session, KH_ERR_ABORTED, "the rules changed");
}

static struct kh_session *session_of(struct kh_loop_member *member)
{
	return kh_container_of(member, struct kh_session, member);
}

static void on_reload(struct kh_loop_member *member)
{
	recheck(session_of(member));
}

static void on_drain(struct kh_loop_member *member)
{
	drain(session_of(member));
}

static void on_retire(struct kh_loop_member *member)
{
	struct kh_session *session = session_of(member);

	if (session->state == KH_SESSION_H2)
		kh_mux_drain(session);
	kh_session_turn(session);
}

static void on_cut_off(struct kh_loop_member *member)
{
	kh_session_kill(session_of(member), KH_ERR_DRAINING,
			"another process has taken over, and its rules apply now");
}

/* Also for those that wait for the keeper to have signed others. */
static void on_tick(struct kh_loop_member *member)
{
	struct kh_session *session = session_of(member);

	kh_session_tick(session);
	if (session->leaf_state == KH_LEAF_STATE_UNASKED)
		kh_tunnel_ask_again(session);
}

static void on_leaf(struct kh_loop_member *member, const struct kh_host *host, const char *signer,
		    bool found)
{
	struct kh_session *session = session_of(member);
	const struct kh_standing now = kh_acceptor_standing(session->side.acceptor);
	bool same = kh_host_eq(&session->side.authority.host, host) &&
		    strcmp(kh_generation_signer(now.gen, now.tenant), signer) == 0;

	if (kh_session_awaits_leaf(session) && same)
		kh_tunnel_leaf(session, found);
	else if (session->leaf_state == KH_LEAF_STATE_UNASKED)
		kh_tunnel_ask_again(session);
}

static const struct kh_loop_member_ops member_ops = {
	.reload = on_reload,
	.drain = on_drain,
	.retire = on_retire,
	.cut_off = on_cut_off,
	.tick = on_tick,
	.leaf_came = on_leaf,
};

static void on_touched(struct kh_loop_call *call)
{
	kh_session_turn(kh_container_of(call, struct kh_session, touched));
}

static void on_held(struct kh_loop_call *call)
{
	kh_session_turn(kh_container_of(call, struct kh_session, side.answer));
}

/* Its turn in its sandbox's line. */
static void on_place(struct kh_work_place *place)
{
	struct kh_session *session = kh_container_of(place, struct kh_session, place);
	struct kh_exchange *x = kh_session_exchange(session);

	session->side.loop->now_ms = kh_clock_mono_ms();
	if (x && session->state == KH_SESSION_EXCHANGE && !kh_exchange_has_request(x))
		x->progress_ms = session->side.loop->now_ms;
	/* In an event of its own it may find no share left again. */
	if (session->unread) {
		session->unread = false;
		kh_stream_go_on(session->leg.stream);
		read_down(session);
	}
	kh_session_turn(session);
}

/* ---- its beginning ---- */

static struct kh_session *new_session(struct kh_acceptor *acceptor, const struct kh_peer *peer)
{
	struct kh_session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->member.ops = &member_ops;
	session->touched.fn = on_touched;
	session->side.answer.fn = on_held;
	session->place.fn = on_place;
	session->side.loop = acceptor->loop;
	session->side.acceptor = acceptor;
	session->side.account = kh_account_ref(acceptor->account);
	session->side.peer = *peer;
	session->only.stream =
		(struct kh_down_stream){ .ops = &kh_down_h1_ops, .session = session };
	kh_leg_init(&session->leg, false);
	kh_buf_init(&session->in, KH_SESSION_IN_BYTES);
	event_assign(&session->timer, acceptor->loop->base, -1, 0, kh_session_on_timer, session);
	return session;
}

/* One that was never begun. */
static void discard_session(struct kh_session *session)
{
	if (session)
		kh_account_unref(session->side.account);
	free(session);
}

static void begin_session(struct kh_session *session, struct kh_stream *stream)
{
	session->leg.stream = stream;
	kh_stream_set_gate(stream, &gate);
	kh_list_append(&session->side.loop->live, &session->member.link);
	kh_list_append(&session->side.acceptor->sessions, &session->acceptor_link);
	session->side.loop->n_live++;
	(void)kh_session_set_state(session, KH_SESSION_HEAD);
}

void kh_session_new(struct kh_acceptor *acceptor, int fd, const struct kh_peer *peer)
{
	struct kh_session *session = new_session(acceptor, peer);
	struct kh_stream *stream =
		session ? kh_stream_new(acceptor->loop->base, fd, on_stream, session) : NULL;

	if (!stream) {
		discard_session(session);
		close(fd);
		kh_account_give(acceptor->account, KH_RESOURCE_DESCRIPTORS, 1);
		kh_acceptor_left(acceptor);
		return;
	}
	kh_charge_adopt(&session->descriptor, session->side.account, KH_RESOURCE_DESCRIPTORS, 1);
	begin_session(session, stream);
	/* One too many is told so when it asks for something. */
	(void)kh_down_take_place(&session->side, NULL);
	kh_session_turn(session);
}

struct kh_session *kh_session_new_over(struct kh_acceptor *acceptor, const struct kh_pipe_ops *ops,
				       void *pipe, const struct kh_peer *peer)
{
	struct kh_session *session = new_session(acceptor, peer);
	struct kh_stream *stream =
		session ? kh_stream_new_over(acceptor->loop->base, ops, pipe, on_stream, session)
			: NULL;

	if (!stream) {
		discard_session(session);
		return NULL;
	}
	begin_session(session, stream);
	return session;
}
