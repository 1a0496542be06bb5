/*
 * upstream.c - connections to upstreams: made, lent to a user, closed
 *
 * CONNECTING ─▶ HANDSHAKE ─▶ BUSY ─▶ IDLE ─▶ BUSY … ─▶ DEAD
 *
 * In CONNECTING the connector works (up_make.c). IDLE connections are in the pool (up_pool.c).
 *
 * A connection that negotiates HTTP/2 goes from HANDSHAKE to SHARED (up_mux.c).
 */

#include <string.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/tls/identity.h>

#include "upstream_internal.h"

enum { UP_IN_BYTES = 64 * 1024, SESSION_KEY_BYTES = KH_HOST_MAX_BYTES + 96 };

/* A WebSocket is an upgrade of HTTP/1.1, unless a connection is there that takes it in a stream, or
 * nothing else is spoken. */
static bool goes_by_h2(const struct kh_up_user *user, const struct kh_up_key *key)
{
	struct kh_loop *loop = user->loop;

	return user->upgrades && (user->by_h2 || kh_up_mux_has(loop, key, true) ||
				  kh_up_mux_known(loop, key) == KH_UP_SPEAKS_ONLY_H2);
}

static void ask(struct kh_up_user *user, struct kh_up_wish *wish)
{
	struct kh_up_key *key = &wish->key;

	user->ops->wish(user, wish);
	user->whose = wish->whose;
	/* Whatever ends an HTTP/2 connection ends all that runs on it, and a request can make a
	 * server do that. So no sandbox shares one with another. */
	key->acceptor = wish->may_be_h2 ? wish->acceptor : key->session_acceptor;
	key->only_h1 = !wish->may_be_h2 || (user->message->upgrade && !goes_by_h2(user, key));
}

static void free_up(struct kh_deferred_free *deferred_free)
{
	struct kh_up *up = kh_container_of(deferred_free, struct kh_up, deferred_free);

	kh_leg_fini(&up->leg);
	kh_buf_fini(&up->in);
	if (up->h1)
		kh_h1_free(up->h1);
	kh_up_mux_free(up->mux);
	kh_generation_unref(up->geo_gen);
	kh_secret_unref(up->key.identity);
	free(up);
}

void kh_up_close(struct kh_up *up)
{
	if (up->state == KH_UP_DEAD || !kh_up_set_state(up, KH_UP_DEAD, NULL))
		return;
	if (up->leg.stream)
		kh_uncount(up->loop, KH_COUNT_UP_OPEN);
	kh_list_remove(&up->link);
	kh_up_pool_leave(up);
	kh_up_slot_leave(up);
	kh_work_place_leave(&up->line);
	kh_up_made(up); /* a question that goes on takes the charge along */
	kh_charge_release(&up->making);
	if (up->leg.stream)
		kh_stream_watch(up->leg.stream, 0);
	kh_loop_free_later(up->loop, &up->deferred_free, free_up);
}

void kh_up_failed(struct kh_up *up, const struct kh_err *err)
{
	struct kh_up_user *user = up->only.user;
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;
	struct kh_err copy = *err;
	struct kh_node waiting;

	/* What the resolver says begins with the name. */
	size_t len = strlen(up->key.host.text);
	if (strncmp(copy.text, up->key.host.text, len) != 0 || copy.text[len] != ':')
		kh_err_wrap(&copy, "%s", up->key.host.text);
	kh_up_mux_take_waiting(up, &waiting);
	ops->failed(user, &copy);
	ops->turn(side);
	kh_up_mux_fail_waiting(&waiting, &copy);
}

/* The address that it leads to, once that is settled; NULL: it is not yet, or not known. */
static const struct kh_sockaddr *address_of(const struct kh_up *up)
{
	return up->judged.len ? &up->judged : NULL;
}

bool kh_up_is_connected(const struct kh_up_user *user, const struct kh_sockaddr **address)
{
	if (!user->stream || kh_up_is_in_making(user->stream->conn))
		return false;
	*address = address_of(user->stream->conn);
	return true;
}

void kh_up_is_ready(struct kh_up_user *user, const struct kh_up *up)
{
	const struct kh_up_facts facts = {
		.peer = up->peer,
		.address = address_of(up),
		.place = &up->place,
		.tls = kh_stream_tls_version(up->leg.stream),
		.reused = up->reused,
	};

	user->reused = up->reused;
	kh_count(up->loop, up->reused ? KH_COUNT_UP_REUSED : KH_COUNT_UP_NEW);
	*user->progress_ms = up->loop->now_ms;
	user->ops->ready(user, &facts);
}

/* The user may use it now. */
static void lend(struct kh_up *up)
{
	struct kh_up_user *user = up->only.user;
	struct kh_err err; /* set where the step can't be made */

	up->whose = user->whose;
	up->reusable = false;
	if (kh_up_set_answer(up, KH_UP_ANSWER_NONE, &err))
		kh_up_is_ready(user, up);
	else
		user->ops->failed(user, &err);
}

static void ready(struct kh_up *up)
{
	const struct kh_up_user_ops *ops = up->only.user->ops;
	void *side = up->only.user->side;
	struct kh_err err = KH_ERR_INIT;

	kh_list_remove(&up->link);
	if (kh_stream_is_h2(up->leg.stream)) {
		kh_up_mux_begin(up);
		return;
	}
	/* They make their own: this one is taken. */
	if (!kh_up_set_state(up, KH_UP_BUSY, &err)) {
		kh_up_failed(up, &err);
		return;
	}
	kh_up_mux_not(up);
	lend(up);
	ops->turn(side);
}

void kh_up_on_stream(struct kh_stream *stream, unsigned events, void *arg)
{
	struct kh_up *up = arg;
	struct kh_up_user *user = up->only.user;

	up->loop->now_ms = kh_clock_mono_ms();
	if (up->state == KH_UP_IDLE) {
		kh_up_close(up);
		return;
	}
	if (up->state == KH_UP_SHARED) {
		kh_up_mux_event(up, events);
		return;
	}
	if (!user)
		return;
	if (events & KH_STREAM_HANDSHAKE_DONE) {
		kh_count(up->loop, kh_stream_is_resumed(stream) ? KH_COUNT_HANDSHAKES_UP_RESUMED
								: KH_COUNT_HANDSHAKES_UP);
		ready(up);
		return;
	}
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;
	if (events & KH_STREAM_HANDSHAKE_FAILED) {
		kh_count(up->loop, KH_COUNT_HANDSHAKES_UP_FAILED);
		if (kh_up_turn_to_h2(up))
			ops->turn(side);
		else
			kh_up_failed(up, kh_stream_error(stream));
		return;
	}
	if ((events & KH_STREAM_READABLE) && up->key.scheme == KH_SCHEME_TCP)
		kh_up_raw_readable(up);
	else if (events & KH_STREAM_READABLE)
		kh_up_h1_readable(up);
	else
		*user->progress_ms = up->loop->now_ms;
	ops->turn(side);
}

void kh_up_connected(struct kh_up *up)
{
	struct kh_err none = KH_ERR_INIT;
	char key[SESSION_KEY_BYTES];
	_Static_assert(KH_RULE_CREDENTIALS == 4, "as the session's key has it");

	if (up->key.scheme != KH_SCHEME_HTTPS) {
		ready(up);
		return;
	}
	/* A ticket of one tenant or credential never resumes another's session. */
	const uint16_t *of = up->key.credentials;
	snprintf(key, sizeof(key), "%u/%u/%u:%u,%u,%u,%u/%lld/%s:%u", up->key.generation,
		 up->key.tenant, up->key.n_credentials, of[0], of[1], of[2], of[3],
		 (long long)up->key.session_acceptor, up->key.host.text, up->key.port);
	if (!kh_up_set_state(up, KH_UP_HANDSHAKE, &none)) {
		kh_up_failed(up, &none);
		return;
	}
	kh_up_charge_handshake(up);
	if (!kh_stream_connect_tls(up->leg.stream, up->loop->up_ctx, &up->key.host,
				   up->key.identity ? NULL : up->loop->sessions, key,
				   up->loop->gen->config->timeouts.handshake)) {
		kh_err_set(&none, KH_ERR_NO_MEMORY, "no memory for a TLS connection");
		kh_up_failed(up, &none);
		return;
	}
	/* A connection belongs to the client certificate that it was made with (up_slot.c). Its
	 * session is not resumed: a ticket stands for the one of its first handshake. */
	if (up->key.identity && !kh_stream_use_identity(up->leg.stream, up->key.identity, &none)) {
		kh_up_failed(up, &none);
		return;
	}
	if (!up->key.only_h1)
		kh_stream_offer_h2(up->leg.stream);
}

void kh_up_refused(struct kh_up *up, const struct kh_err *err)
{
	struct kh_up_user *user = up->only.user;
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;
	struct kh_node waiting;

	kh_up_mux_take_waiting(up, &waiting);
	ops->failed(user, err);
	ops->turn(side);
	kh_up_mux_acquire_anew(&waiting);
}

static struct kh_up *new_up(struct kh_loop *loop, const struct kh_up_key *key,
			    struct kh_generation *geo_gen)
{
	struct kh_up *up = calloc(1, sizeof(*up));

	if (!up)
		return NULL;
	up->loop = loop;
	up->key = *key;
	up->only = (struct kh_up_stream){ .ops = key->scheme == KH_SCHEME_TCP ? &kh_up_raw_ops
									      : &kh_up_h1_ops,
					  .conn = up };
	up->line.fn = kh_up_on_line;
	up->h1 = kh_h1_new(KH_H1_RESPONSES);
	kh_leg_init(&up->leg, true);
	kh_buf_init(&up->in, UP_IN_BYTES);
	kh_list_init(&up->waiting);
	if (!up->h1 || !kh_up_slot_join(up)) {
		kh_h1_free(up->h1);
		free(up);
		return NULL;
	}
	up->geo_gen = kh_generation_ref(geo_gen);
	up->key.identity = key->identity ? kh_secret_ref(key->identity) : NULL;
	return up;
}

bool kh_up_turn_to_h2(struct kh_up *up)
{
	struct kh_up_user *user = up->only.user;
	struct kh_up_wish wish;

	if (!user->upgrades || user->by_h2 || !kh_stream_lacks_protocol(up->leg.stream) ||
	    !user->ops->may_repeat(user))
		return false;
	ask(user, &wish);
	if (!wish.may_be_h2)
		return false;
	user->by_h2 = true;
	kh_up_mux_note(up->loop, &up->key, KH_UP_SPEAKS_ONLY_H2);
	user->ops->retry(user);
	return true;
}

/* Connections of HTTP/2 say what they take when they are made. Return: false: none of them takes
 * it. */
static bool may_make_another(struct kh_up_user *user, const struct kh_up_key *key,
			     struct kh_err *err)
{
	if (!user->upgrades || key->only_h1)
		return true;
	if (user->connections++ < KH_LIMIT_MOVES &&
	    (kh_up_mux_has(user->loop, key, true) || !kh_up_mux_has(user->loop, key, false)))
		return true;
	return kh_err_set(err, KH_ERR_UPGRADE_UNSUPPORTED,
			  "%s speaks HTTP/2 only, and takes no WebSocket over it: send an "
			  "ordinary request instead",
			  key->host.text);
}

static void borrow(struct kh_up_user *user, struct kh_up *up)
{
	user->stream = &up->only;
	up->only.user = user;
}

/* One of its own. */
static void make(struct kh_up_user *user, const struct kh_up_wish *wish)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_up *up = may_make_another(user, &wish->key, &err)
				   ? new_up(user->loop, &wish->key, wish->geo_gen)
				   : NULL;

	if (up) {
		kh_list_append(&user->loop->ups->made, &up->link);
		borrow(user, up);
		if (kh_up_set_out(up, wish, &err))
			return;
	}
	if (!err.code)
		kh_err_set(
			&err, KH_ERR_NO_MEMORY,
			"too many names are being resolved by all sandboxes, or no memory is left");
	user->ops->failed(user, &err);
}

void kh_up_acquire(struct kh_up_user *user, bool fresh)
{
	struct kh_loop *loop = user->loop;
	struct kh_up_wish wish;

	ask(user, &wish);
	if (kh_up_mux_join(user, &wish.key))
		return;
	struct kh_up *up = fresh ? NULL : kh_up_take_idle(loop, &wish.key);
	if (up) {
		borrow(user, up);
		up->reused = true;
		lend(up);
		return;
	}
	if (!kh_up_mux_wait(user, &wish.key))
		make(user, &wish);
}

size_t kh_up_kept_bytes(const struct kh_up_user *user)
{
	const struct kh_up *up = user->stream ? user->stream->conn : NULL;

	if (!user->stream)
		return 0;
	/* Not connected yet, or one of many on a connection. */
	if (!up || up->mux)
		return KH_LIMIT_H2_KEPT_PER_EXCHANGE + kh_up_h2_line_bytes(user->stream);
	return KH_LIMIT_KEPT_CONNECTION + up->in.alloc + up->leg.out.alloc +
	       (up->key.scheme == KH_SCHEME_HTTPS ? (size_t)KH_LIMIT_KEPT_TLS : 0) +
	       (up->h1 ? kh_h1_kept_bytes(up->h1) : 0);
}
