/*
 * up_join.c - which HTTP/2 connection an exchange goes on, or which one it waits for
 *
 * Those that wait hang on the connection: while it is made, until it has said what it takes, or
 * until it was looked at. A WebSocket goes onto one that offers them (RFC 8441), and asks for an
 * HTTP/1.1 connection where none does, as browsers do.
 */

#include "proxy_internal.h"

enum { SILENT_MS = 15 * 1000, MOST_WAITING = KH_LIMIT_H2_STREAMS };

/* ---- what upstreams speak: a hint, by a hash ---- */

static uint32_t hash_of(const struct kh_up_key *key)
{
	uint32_t hash = 2166136261u ^ key->port;

	for (size_t i = 0; i < key->host.len; i++)
		hash = (hash ^ (unsigned char)key->host.text[i]) * 16777619u;
	return hash;
}

static uint32_t *slot_of(struct kh_loop *loop, const struct kh_up_key *key)
{
	return &loop->protocols[hash_of(key) % KH_LOOP_PROTOCOLS];
}

void kh_up_mux_note(struct kh_loop *loop, const struct kh_up_key *key, enum kh_up_speaks what)
{
	uint32_t hash = hash_of(key) & ~3u, *slot = slot_of(loop, key);

	/* That it speaks HTTP/2 does not say that it speaks nothing else, nor that it does. */
	if (what != KH_UP_SPEAKS_H2 || *slot != (hash | KH_UP_SPEAKS_ONLY_H2))
		*slot = hash | what;
}

enum kh_up_speaks kh_up_mux_known(struct kh_loop *loop, const struct kh_up_key *key)
{
	uint32_t slot = *slot_of(loop, key);

	return (slot & ~3u) == (hash_of(key) & ~3u) ? (enum kh_up_speaks)(slot & 3u)
						    : KH_UP_SPEAKS_UNKNOWN;
}

/* ---- who goes on it ---- */

bool kh_up_mux_is_silent(const struct kh_up_mux *mux)
{
	return mux->up->loop->now_ms - mux->read_ms >= SILENT_MS;
}

static bool is_safe(const struct kh_exchange *x)
{
	struct kh_slice method = x->message->method;

	return kh_slice_eq(method, KH_SLICE("GET")) || kh_slice_eq(method, KH_SLICE("HEAD")) ||
	       kh_slice_eq(method, KH_SLICE("OPTIONS"));
}

static void ask_for_life(struct kh_up_mux *mux)
{
	if (mux->ping_ms == 0 && kh_h2_ping(mux->h2)) {
		mux->ping_ms = mux->up->loop->now_ms;
		kh_up_mux_touch(mux);
	}
}

/* On one that nothing runs on, a goodbye may lie unread. It is read in the connection's own turn.
 */
static bool has_to_be_looked_at(struct kh_up_mux *mux)
{
	if (!kh_list_is_empty(&mux->streams) || !kh_stream_has_news(mux->up->leg.stream))
		return false;
	mux->look = true;
	kh_up_mux_touch(mux);
	return true;
}

static bool has_room(struct kh_up_mux *mux)
{
	return kh_h2_capacity(mux->h2) > 0;
}

/* It waits for this one. */
static bool wait_for(struct kh_exchange *x, struct kh_up *up)
{
	return kh_list_count(&up->waiting) < MOST_WAITING &&
	       kh_up_h2_new(x, up, &up->waiting) != NULL;
}

/* Has the peer said what it takes, and is that so much? */
static bool offers(const struct kh_up_mux *mux, const struct kh_exchange *x)
{
	return !x->websocket || kh_h2_has_extended_connect(mux->h2);
}

static bool join(struct kh_exchange *x, struct kh_up *up)
{
	struct kh_up_mux *mux = up->mux;

	up->reused = true;
	/* How many it takes, and of which kind, is about to be said. */
	if (!kh_h2_has_settings(mux->h2) && (x->websocket || !has_room(mux)))
		return wait_for(x, up);
	if (!has_room(mux) || !offers(mux, x))
		return false;
	if (kh_up_mux_is_silent(mux)) {
		ask_for_life(mux);
		/* Not on one that may be gone, what could not be said twice. */
		if (!is_safe(x))
			return wait_for(x, up);
	}
	if (has_to_be_looked_at(mux))
		return wait_for(x, up);
	if (!kh_up_h2_new(x, up, &mux->streams))
		return false;
	kh_exchange_up_ready(x);
	return true;
}

bool kh_up_mux_join(struct kh_exchange *x, const struct kh_up_key *key)
{
	struct kh_loop *loop = x->session->loop;

	if (key->only_h1)
		return false;
	for (struct kh_node *node = loop->shared_ups.next; node != &loop->shared_ups;
	     node = node->next) {
		struct kh_up *up = kh_container_of(node, struct kh_up, link);

		if (!up->mux->lost && kh_up_same_key(&up->key, key) && join(x, up))
			return true;
	}
	return false;
}

bool kh_up_mux_has(const struct kh_loop *loop, const struct kh_up_key *key, bool extended_connect)
{
	for (struct kh_node *node = loop->shared_ups.next; node != &loop->shared_ups;
	     node = node->next) {
		const struct kh_up *up = kh_container_of(node, struct kh_up, link);

		if (!up->mux->lost && kh_up_same_key(&up->key, key) &&
		    kh_h2_has_settings(up->mux->h2) &&
		    kh_h2_has_extended_connect(up->mux->h2) == extended_connect)
			return true;
	}
	return false;
}

bool kh_up_mux_wait(struct kh_exchange *x, const struct kh_up_key *key)
{
	struct kh_loop *loop = x->session->loop;

	if (key->only_h1 || kh_up_mux_known(loop, key) == KH_UP_SPEAKS_ONLY_H1)
		return false;
	for (struct kh_node *node = loop->made_ups.next; node != &loop->made_ups;
	     node = node->next) {
		struct kh_up *up = kh_container_of(node, struct kh_up, link);

		if (!up->key.only_h1 && kh_up_same_key(&up->key, key) && wait_for(x, up))
			return true;
	}
	return false;
}

/* Takes a waiting one out. Its exchange has no up stream then. */
static struct kh_exchange *pop_waiting(struct kh_node *waiting)
{
	struct kh_up_h2 *s = kh_container_of(waiting->next, struct kh_up_h2, link);
	struct kh_exchange *x = s->stream.exchange;

	x->up->ops->release(x->up, false);
	x->up = NULL;
	return x;
}

void kh_up_mux_acquire_anew(struct kh_node *waiting)
{
	while (!kh_list_is_empty(waiting)) {
		struct kh_exchange *x = pop_waiting(waiting);
		struct kh_down_stream *down = x->down;

		kh_up_acquire(x, false);
		down->ops->turn(down);
	}
}

/* Elsewhere; an upstream that goes away each time is not asked for ever. */
void kh_up_mux_move_waiting(struct kh_node *waiting)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, KH_ERR_UP_CLOSED, "the upstream closed the connection without an answer");
	while (!kh_list_is_empty(waiting)) {
		struct kh_exchange *x = pop_waiting(waiting);
		struct kh_down_stream *down = x->down;

		if (x->moves++ < KH_LIMIT_MOVES)
			kh_up_acquire(x, true);
		else
			kh_exchange_up_failed(x, &err);
		down->ops->turn(down);
	}
}

void kh_up_mux_fail_waiting(struct kh_node *waiting, const struct kh_err *err)
{
	while (!kh_list_is_empty(waiting)) {
		struct kh_exchange *x = pop_waiting(waiting);
		struct kh_down_stream *down = x->down;

		kh_exchange_up_failed(x, err);
		down->ops->turn(down);
	}
}

bool kh_up_mux_promote(struct kh_up *up)
{
	if (kh_list_is_empty(&up->waiting))
		return false;
	struct kh_exchange *x = pop_waiting(&up->waiting);
	x->up = &up->only;
	up->only.exchange = x;
	return true;
}
