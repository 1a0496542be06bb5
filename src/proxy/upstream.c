/*
 * upstream.c - connections to upstreams: made, lent to an exchange, closed
 *
 * RESOLVING ─▶ DIALING ─▶ HANDSHAKE ─▶ BUSY ─▶ IDLE ─▶ BUSY … ─▶ DEAD
 *
 * Where upstream.proxy stands in between, up_proxy.c has the part before HANDSHAKE.
 * Those that are IDLE are up_pool.c's.
 *
 * One that turns out to speak HTTP/2 goes from HANDSHAKE to SHARED (up_mux.c).
 */

#include <unistd.h>

#include <keyhole/clock.h>

#include "proxy_internal.h"

enum { UP_IN_BYTES = 64 * 1024, SESSION_KEY_BYTES = KH_HOST_MAX_BYTES + 96 };

/* A WebSocket is an upgrade of HTTP/1.1, unless a connection is there that takes it in a stream, or
 * nothing else is spoken. */
static bool goes_by_h2(const struct kh_exchange *x, const struct kh_up_key *key)
{
	struct kh_loop *loop = x->session->loop;

	return x->websocket && (x->websocket->by_h2 || kh_up_mux_has(loop, key, true) ||
				kh_up_mux_known(loop, key) == KH_UP_SPEAKS_ONLY_H2);
}

static void make_key(const struct kh_exchange *x, struct kh_up_key *key)
{
	const struct kh_door *door = x->session->door;

	*key = (struct kh_up_key){
		.host = x->authority.host,
		.port = x->authority.port,
		.scheme = x->tunnel ? KH_SCHEME_TCP : x->scheme,
		.generation = x->gen->number,
		.tenant = x->tenant,
		.identity = kh_up_identity_of(x),
		.door = x->decision.rule->client_auth_pass ? door->number : -1,
		.geo = x->geo,
	};
	for (size_t i = 0; i < x->injection.count; i++)
		key->credentials[key->n_credentials++] = x->injection.list[i].index;
	/* Without TLS nothing says what the other side speaks. */
	key->only_h1 = x->scheme != KH_SCHEME_HTTPS || !x->gen->config->upstream_http2 ||
		       (x->message->upgrade && !goes_by_h2(x, key));
}

static void free_up(struct kh_grave *grave)
{
	struct kh_up *up = kh_container_of(grave, struct kh_up, grave);

	kh_leg_fini(&up->leg);
	kh_buf_fini(&up->in);
	if (up->h1)
		kh_h1_free(up->h1);
	kh_up_mux_free(up->mux);
	kh_generation_unref(up->geo_gen);
	kh_secret_unref(up->key.identity);
	free(up);
}

/* The lookup is over. */
void kh_up_forget_lookup(struct kh_up *up)
{
	if (up->lookup)
		up->resolving_for->resolving--;
	up->lookup = NULL;
	up->resolving_for = NULL;
}

void kh_up_close(struct kh_up *up)
{
	if (up->state == KH_UP_DEAD)
		return;
	if (up->leg.stream)
		kh_uncount(up->loop, KH_COUNT_UP_OPEN);
	kh_list_remove(&up->link);
	if (up->state == KH_UP_IDLE)
		up->loop->n_idle_ups--;
	up->state = KH_UP_DEAD;
	if (up->lookup)
		kh_lookup_cancel(up->lookup);
	if (up->dial)
		kh_dial_cancel(up->dial);
	kh_up_forget_lookup(up);
	up->dial = NULL;
	kh_up_proxy_end(up);
	if (up->leg.stream)
		kh_stream_watch(up->leg.stream, 0);
	kh_loop_bury(up->loop, &up->grave, free_up);
}

void kh_up_failed(struct kh_up *up, const struct kh_err *err)
{
	struct kh_exchange *x = up->only.exchange;
	struct kh_down_stream *down = x->down;
	struct kh_err copy = *err;
	struct kh_node waiting;

	kh_err_wrap(&copy, "%s", up->key.host.text);
	kh_list_move(&up->waiting, &waiting);
	kh_exchange_up_failed(x, &copy);
	down->ops->turn(down);
	kh_up_mux_fail_waiting(&waiting, &copy);
}

/* The exchange may use it now. */
static void lend(struct kh_up *up)
{
	up->state = KH_UP_BUSY;
	up->answered = false;
	up->reusable = false;
	kh_exchange_up_ready(up->only.exchange);
}

static void ready(struct kh_up *up)
{
	struct kh_down_stream *down = up->only.exchange->down;

	kh_list_remove(&up->link);
	if (kh_stream_is_h2(up->leg.stream)) {
		kh_up_mux_begin(up);
		return;
	}
	/* They make their own: this one is taken. */
	up->state = KH_UP_BUSY;
	kh_up_mux_not(up);
	lend(up);
	down->ops->turn(down);
}

static void on_stream(struct kh_stream *stream, unsigned events, void *arg)
{
	struct kh_up *up = arg;
	struct kh_exchange *x = up->only.exchange;

	up->loop->now_ms = kh_clock_mono_ms();
	if (up->state == KH_UP_IDLE) {
		kh_up_close(up);
		return;
	}
	if (up->state == KH_UP_SHARED) {
		kh_up_mux_event(up, events);
		return;
	}
	if (!x)
		return;
	if (up->state == KH_UP_TUNNEL) {
		kh_up_proxy_event(up, events);
		return;
	}
	if (events & KH_STREAM_HANDSHAKE_DONE) {
		kh_count(up->loop, kh_stream_is_resumed(stream) ? KH_COUNT_HANDSHAKES_UP_RESUMED
								: KH_COUNT_HANDSHAKES_UP);
		ready(up);
		return;
	}
	struct kh_down_stream *down = x->down;
	if (events & KH_STREAM_HANDSHAKE_FAILED) {
		kh_count(up->loop, KH_COUNT_HANDSHAKES_UP_FAILED);
		if (kh_up_turn_to_h2(up))
			down->ops->turn(down);
		else
			kh_up_failed(up, kh_stream_error(stream));
		return;
	}
	if ((events & KH_STREAM_READABLE) && up->key.scheme == KH_SCHEME_TCP)
		kh_up_raw_readable(up);
	else if (events & KH_STREAM_READABLE)
		kh_up_h1_readable(up);
	else
		x->progress_ms = up->loop->now_ms;
	down->ops->turn(down);
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
		 (long long)up->key.door, up->key.host.text, up->key.port);
	up->state = KH_UP_HANDSHAKE;
	if (!kh_stream_connect_tls(up->leg.stream, up->loop->up_ctx, &up->key.host,
				   up->key.identity ? NULL : up->loop->sessions, key,
				   up->loop->gen->config->timeouts.handshake)) {
		kh_err_set(&none, KH_ERR_NO_MEMORY, "no memory for a TLS connection");
		kh_up_failed(up, &none);
		return;
	}
	if (!kh_up_show_identity(up, &none)) {
		kh_up_failed(up, &none);
		return;
	}
	if (!up->key.only_h1)
		kh_stream_offer_h2(up->leg.stream);
}

void kh_up_note_place(struct kh_up *up, const struct kh_sockaddr *addr)
{
	up->judged = *addr;
	kh_geo_find(up->geo_gen->geo, addr, &up->place);
}

const struct kh_sockaddr *kh_up_address(const struct kh_up *up)
{
	return up->judged.len ? &up->judged : NULL;
}

static void on_dialled(int fd, const struct kh_sockaddr *peer, const struct kh_err *err, void *arg)
{
	struct kh_up *up = arg;
	struct kh_err why = KH_ERR_INIT;

	up->loop->now_ms = kh_clock_mono_ms();
	up->dial = NULL;
	if (fd < 0) {
		why = *err;
		if (up->proxy)
			kh_err_wrap(&why, "upstream proxy");
		kh_up_failed(up, &why);
		return;
	}
	kh_sockaddr_format(peer, up->peer);
	if (!up->proxy)
		kh_up_note_place(up, peer);
	up->leg.stream = kh_stream_new(up->loop->base, fd, on_stream, up);
	if (!up->leg.stream) {
		close(fd);
		kh_err_set(&why, KH_ERR_NO_MEMORY, "no memory for a connection");
		kh_up_failed(up, &why);
		return;
	}
	kh_count(up->loop, KH_COUNT_UP_OPEN);
	kh_count(up->loop, KH_COUNT_UP_OPENED);
	if (up->proxy)
		kh_up_proxy_dialled(up);
	else
		kh_up_connected(up);
}

/* A tenant's number is one of its generation's. */
const struct kh_cidr *kh_up_allowed_addresses(const struct kh_up *up, size_t *n)
{
	const struct kh_generation *gen = up->loop->gen;
	bool same = up->key.generation == gen->number;

	return kh_config_allowed_addresses(gen->config, same ? up->key.tenant : SIZE_MAX, n);
}

void kh_up_dial(struct kh_up *up, const struct kh_addresses *addresses)
{
	const struct kh_config *config = up->loop->gen->config;
	struct kh_err err = KH_ERR_INIT;

	up->state = KH_UP_DIALING;
	size_t n_allow;
	const struct kh_cidr *allow = kh_up_allowed_addresses(up, &n_allow);
	/* Of a proxy's own address nothing is asked; the target's was. */
	struct kh_dial_geo geo = { up->geo_gen->geo, up->key.geo };
	up->dial = kh_dial_start(up->loop->base, addresses, allow, n_allow, up->proxy ? NULL : &geo,
				 config->timeouts.connect, on_dialled, up);
	if (!up->dial) {
		kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for a connection");
		kh_up_failed(up, &err);
	}
}

static void on_resolved(const struct kh_addresses *addresses, const struct kh_err *err, void *arg)
{
	struct kh_up *up = arg;

	up->loop->now_ms = kh_clock_mono_ms();
	kh_up_forget_lookup(up);
	if (addresses)
		kh_up_dial(up, addresses);
	else
		kh_up_failed(up, err);
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
	up->h1 = kh_h1_new(KH_H1_RESPONSES);
	kh_leg_init(&up->leg, true);
	kh_buf_init(&up->in, UP_IN_BYTES);
	kh_list_init(&up->waiting);
	if (!up->h1) {
		free(up);
		return NULL;
	}
	up->geo_gen = kh_generation_ref(geo_gen);
	up->key.identity = key->identity ? kh_secret_ref(key->identity) : NULL;
	return up;
}

bool kh_up_look_up(struct kh_up *up, const struct kh_host *host, uint16_t port, kh_lookup_cb *cb)
{
	struct kh_loop *loop = up->loop;
	struct kh_door *door = up->only.exchange->session->door;

	up->state = KH_UP_RESOLVING;
	if (door->resolving >= KH_LIMIT_RESOLVES_PER_LISTENER)
		return false;
	up->lookup = kh_resolver_lookup(loop->resolver, host, port,
					loop->gen->config->timeouts.resolve, cb, up);
	if (!up->lookup)
		return false;
	up->resolving_for = door;
	door->resolving++;
	return true;
}

bool kh_up_turn_to_h2(struct kh_up *up)
{
	struct kh_exchange *x = up->only.exchange;

	if (!x->websocket || x->websocket->by_h2 || !x->gen->config->upstream_http2 ||
	    up->key.scheme != KH_SCHEME_HTTPS || !kh_stream_lacks_protocol(up->leg.stream) ||
	    !kh_exchange_may_repeat(x))
		return false;
	x->websocket->by_h2 = true;
	kh_up_mux_note(up->loop, &up->key, KH_UP_SPEAKS_ONLY_H2);
	kh_exchange_retry(x);
	return true;
}

/* Connections of HTTP/2 say what they take when they are made. Return: false: none of them takes
 * it. */
static bool may_make_another(struct kh_exchange *x, const struct kh_up_key *key, struct kh_err *err)
{
	if (!x->websocket || key->only_h1)
		return true;
	if (x->websocket->connections++ < KH_LIMIT_MOVES &&
	    (kh_up_mux_has(x->session->loop, key, true) ||
	     !kh_up_mux_has(x->session->loop, key, false)))
		return true;
	return kh_err_set(err, KH_ERR_UPGRADE_UNSUPPORTED,
			  "%s speaks HTTP/2 only, and takes no WebSocket over it: use plain HTTP",
			  key->host.text);
}

static void borrow(struct kh_exchange *x, struct kh_up *up)
{
	x->up = &up->only;
	up->only.exchange = x;
}

void kh_up_acquire(struct kh_exchange *x, bool fresh)
{
	struct kh_loop *loop = x->session->loop;
	struct kh_err err = KH_ERR_INIT;
	struct kh_up_key key;

	make_key(x, &key);
	if (kh_up_mux_join(x, &key))
		return;
	struct kh_up *up = fresh ? NULL : kh_up_take_idle(loop, &key);
	if (up) {
		borrow(x, up);
		up->reused = true;
		lend(up);
		return;
	}
	if (kh_up_mux_wait(x, &key))
		return;
	up = may_make_another(x, &key, &err) ? new_up(loop, &key, x->geo_gen) : NULL;
	if (up) {
		kh_list_append(&loop->made_ups, &up->link);
		borrow(x, up);
		if (kh_config_goes_by_proxy(loop->gen->config, &key.host)
			    ? kh_up_proxy_begin(up, &err)
			    : kh_up_look_up(up, &key.host, key.port, on_resolved))
			return;
	}
	if (!err.code)
		kh_err_set(&err, KH_ERR_NO_MEMORY,
			   "too much is being resolved, or no memory is left");
	kh_exchange_up_failed(x, &err);
}

void kh_up_recheck(struct kh_exchange *x, const struct kh_geo_levels *before)
{
	if (!x->up || !kh_up_is_in_making(x->up->conn))
		return;
	/* The keeper answers no question of an older configuration. */
	if (x->up->conn->state != KH_UP_PASSWORD && !kh_geo_asks(before) && !kh_geo_asks(&x->geo))
		return;
	x->up->ops->release(x->up, false);
	x->up = NULL;
	kh_up_acquire(x, true);
}
