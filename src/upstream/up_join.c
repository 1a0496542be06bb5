/*
 * up_join.c - which HTTP/2 connection a user goes on, or which one it waits for
 *
 * Users that wait are in a list of the connection: while it is being made, until its SETTINGS have
 * come, or until it was checked for unread bytes. A WebSocket uses a connection that supports them
 * (RFC 8441); if none does, it asks for an HTTP/1.1 connection, as browsers do.
 *
 * Connections are found through the slot of their key (up_slot.c). Only the first one of a list is
 * looked at, so that it does not matter how many connections are full, or go elsewhere: an upstream
 * may allow one stream per connection, and thousands of requests may wait.
 */

#include "upstream_internal.h"

enum { SILENT_MS = 15 * 1000 };

/* ---- what upstreams speak: a hint, by a hash ---- */

/* Of a tenant's upstream: what one tenant's upstream did says nothing to another. The two lowest
 * bits are those of what is noted. */
static uint64_t hash_of(const struct kh_loop *loop, const struct kh_up_key *key)
{
	uint64_t hash = kh_up_mix(loop->ups->seed, (uint64_t)key->tenant << 16 | key->port);

	for (size_t i = 0; i < key->host.len; i++)
		hash = kh_up_mix(hash, (unsigned char)key->host.text[i]);
	return hash & ~(uint64_t)3;
}

static uint64_t *slot_of(struct kh_loop *loop, uint64_t hash)
{
	return &loop->ups->protocols[(hash >> 2) % KH_UP_PROTOCOLS];
}

void kh_up_mux_note(struct kh_loop *loop, const struct kh_up_key *key, enum kh_up_speaks what)
{
	uint64_t hash = hash_of(loop, key), *slot = slot_of(loop, hash);

	/* That it speaks HTTP/2 does not say that it speaks nothing else, nor that it does. */
	if (what != KH_UP_SPEAKS_H2 || *slot != (hash | (uint64_t)KH_UP_SPEAKS_ONLY_H2))
		*slot = hash | (uint64_t)what;
}

enum kh_up_speaks kh_up_mux_known(struct kh_loop *loop, const struct kh_up_key *key)
{
	uint64_t hash = hash_of(loop, key), slot = *slot_of(loop, hash);

	return (slot & ~(uint64_t)3) == hash ? (enum kh_up_speaks)(slot & 3) : KH_UP_SPEAKS_UNKNOWN;
}

/* ---- who goes on it ---- */

bool kh_up_mux_is_silent(const struct kh_up_mux *mux)
{
	return mux->up->loop->now_ms - mux->read_ms >= SILENT_MS;
}

static bool is_safe(const struct kh_up_user *user)
{
	struct kh_slice method = user->message->method;

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

/* On one that nothing runs on, a goodbye may be unread. It is read in the connection's own turn.
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
static bool wait_for(struct kh_up_user *user, struct kh_up *up)
{
	struct kh_up_h2 *s =
		up->n_waiting < KH_UP_MOST_WAITING ? kh_up_h2_new(user, up, &up->waiting) : NULL;

	if (!s)
		return false;
	s->waits = true;
	up->n_waiting++;
	(void)kh_up_slot_place(up);
	return true;
}

void kh_up_mux_take_waiting(struct kh_up *up, struct kh_node *waiting)
{
	kh_list_move(&up->waiting, waiting);
	for (struct kh_node *node = waiting->next; node != waiting; node = node->next)
		kh_container_of(node, struct kh_up_h2, link)->waits = false;
	up->n_waiting = 0;
	(void)kh_up_slot_place(up);
}

/* Has the peer said what it takes, and is that so much? */
static bool offers(const struct kh_up_mux *mux, const struct kh_up_user *user)
{
	return !user->upgrades || kh_h2_has_extended_connect(mux->h2);
}

static bool join(struct kh_up_user *user, struct kh_up *up)
{
	struct kh_up_mux *mux = up->mux;

	up->reused = true;
	/* How many it takes, and of which kind, is about to be said. */
	if (!kh_h2_has_settings(mux->h2) && (user->upgrades || !has_room(mux)))
		return wait_for(user, up);
	if (!has_room(mux) || !offers(mux, user))
		return false;
	if (kh_up_mux_is_silent(mux)) {
		ask_for_life(mux);
		/* Not on one that may be gone, what could not be said twice. */
		if (!is_safe(user))
			return wait_for(user, up);
	}
	if (has_to_be_looked_at(mux))
		return wait_for(user, up);
	struct kh_up_h2 *s = kh_up_h2_new(user, up, &mux->streams);
	if (!s)
		return false;
	s->ping_ms = mux->ping_ms;
	up->whose = user->whose;
	kh_up_is_ready(user, up);
	return true;
}

/* One that turns out to have no room any more leaves the list, and the next one is the first. */
static bool join_one_of(struct kh_up_user *user, const struct kh_up_slot *slot,
			enum kh_up_list list)
{
	struct kh_up *up;

	while ((up = kh_up_slot_first(slot, list))) {
		if (join(user, up))
			return true;
		if (kh_up_slot_place(up) == list)
			return false; /* without memory */
	}
	return false;
}

bool kh_up_mux_join(struct kh_up_user *user, const struct kh_up_key *key)
{
	const struct kh_up_slot *slot = key->only_h1 ? NULL : kh_up_slot_find(user->loop, key);

	return slot && ((!user->upgrades && join_one_of(user, slot, KH_UP_LIST_OPEN)) ||
			join_one_of(user, slot, KH_UP_LIST_OPEN_EXTENDED) ||
			join_one_of(user, slot, KH_UP_LIST_BEGUN));
}

bool kh_up_mux_has(const struct kh_loop *loop, const struct kh_up_key *key, bool extended_connect)
{
	const struct kh_up_slot *slot = kh_up_slot_find(loop, key);

	if (!slot)
		return false;
	return extended_connect ? kh_up_slot_first(slot, KH_UP_LIST_OPEN_EXTENDED) ||
					  kh_up_slot_first(slot, KH_UP_LIST_FULL_EXTENDED)
				: kh_up_slot_first(slot, KH_UP_LIST_OPEN) ||
					  kh_up_slot_first(slot, KH_UP_LIST_FULL);
}

static struct kh_up_h2 *first_of(const struct kh_node *waiting)
{
	return kh_container_of(waiting->next, struct kh_up_h2, link);
}

/* Each is charged for itself: whoever takes the connection over brings its own charge along. */
static bool wait_until_made(struct kh_up_user *user, struct kh_up *up)
{
	struct kh_charge making = { 0 };

	if (up->looks_up && !kh_charge_take(&making, user->account, KH_RESOURCE_LOOKUPS, 1))
		return false;
	if (!wait_for(user, up)) {
		kh_charge_release(&making);
		return false;
	}
	kh_charge_move(&kh_container_of(up->waiting.prev, struct kh_up_h2, link)->making, &making);
	return true;
}

void kh_up_mux_is_resolved(struct kh_up *up)
{
	up->looks_up = false;
	(void)kh_up_slot_place(up);
	kh_charge_release(&up->making);
	for (struct kh_node *node = up->waiting.next; node != &up->waiting; node = node->next)
		kh_charge_release(&kh_container_of(node, struct kh_up_h2, link)->making);
}

bool kh_up_mux_wait(struct kh_up_user *user, const struct kh_up_key *key)
{
	struct kh_loop *loop = user->loop;

	if (key->only_h1 || kh_up_mux_known(loop, key) == KH_UP_SPEAKS_ONLY_H1)
		return false;
	const struct kh_up_slot *slot = kh_up_slot_find(loop, key);
	struct kh_up *up = slot ? kh_up_slot_first(slot, KH_UP_LIST_MADE) : NULL;
	/* Whoever may not wait for one lookup may not wait for another. */
	if (slot && !up)
		up = kh_up_slot_first(slot, KH_UP_LIST_LOOKUP);
	return up && wait_until_made(user, up);
}

/* Takes a waiting one out. Its user has no stream then. */
static struct kh_up_user *pop_waiting(struct kh_node *waiting)
{
	struct kh_up_user *user = first_of(waiting)->stream.user;

	user->stream->ops->release(user->stream, false);
	user->stream = NULL;
	return user;
}

void kh_up_mux_acquire_anew(struct kh_node *waiting)
{
	while (!kh_list_is_empty(waiting)) {
		struct kh_up_user *user = pop_waiting(waiting);
		const struct kh_up_user_ops *ops = user->ops;
		void *side = user->side;

		kh_up_acquire(user, false);
		ops->turn(side);
	}
}

/* Elsewhere; an upstream that goes away each time is not asked for ever. */
void kh_up_mux_move_waiting(struct kh_node *waiting)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, KH_ERR_UP_CLOSED, "the upstream closed the connection without an answer");
	while (!kh_list_is_empty(waiting)) {
		struct kh_up_user *user = pop_waiting(waiting);
		const struct kh_up_user_ops *ops = user->ops;
		void *side = user->side;

		if (user->moves++ < KH_LIMIT_MOVES)
			kh_up_acquire(user, true);
		else
			ops->failed(user, &err);
		ops->turn(side);
	}
}

void kh_up_mux_fail_waiting(struct kh_node *waiting, const struct kh_err *err)
{
	while (!kh_list_is_empty(waiting)) {
		struct kh_up_user *user = pop_waiting(waiting);
		const struct kh_up_user_ops *ops = user->ops;
		void *side = user->side;

		ops->failed(user, err);
		ops->turn(side);
	}
}

bool kh_up_mux_promote(struct kh_up *up)
{
	if (kh_list_is_empty(&up->waiting))
		return false;
	kh_charge_move(&up->making, &first_of(&up->waiting)->making);
	struct kh_up_user *user = pop_waiting(&up->waiting);
	user->stream = &up->only;
	up->only.user = user;
	if (up->connector)
		kh_connector_charge_anew(up->connector);
	return true;
}
