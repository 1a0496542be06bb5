/*
 * h2_glue.h - one event thread as the worker has it, with pipes in place of sockets
 *
 * From the session down to the upstream's stream all is the real thing: sessions, streams, tunnels,
 * exchanges, policy, journal. Only how a connection is come by (kh_up_acquire) is replaced: one
 * stands in the next turn, and speaks HTTP/2. The far end of a pipe is either what a fuzzer says or
 * a codec that is held to the protocol: what keyhole writes must please it, whatever the other side
 * does.
 */
#ifndef KEYHOLE_FUZZ_H2_GLUE_H
#define KEYHOLE_FUZZ_H2_GLUE_H

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <keyhole/base/clock.h>

#include <keyhole/loop/leaf_requests.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/values.h>
#include <downstream/session_internal.h>
#include <upstream/upstream_internal.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

enum { GLUE_PIPE_BYTES = 64 << 20, GLUE_UPS = 24, GLUE_FAR_STREAMS = 2048, GLUE_CREDENTIAL = 0 };
static const char glue_key[] = "the-real-key-of-this-run";

/* ---- pipes ---- */

struct glue_end {
	struct kh_stream *stream; /* keyhole's; NULL: it let go */
	struct kh_buf in;	  /* what it will read */
	bool in_ended;
	struct kh_buf out; /* what it wrote and nobody has read */
	size_t room;	   /* so much may lie in `out` */
	bool shut;
};

static ssize_t glue_read(void *pipe, void *bytes, size_t room)
{
	struct glue_end *end = pipe;
	struct kh_slice in = kh_buf_view(&end->in);
	size_t n = in.len < room ? in.len : room;

	if (n == 0 && end->in_ended)
		return 0;
	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(bytes, in.ptr, n);
	kh_buf_consume(&end->in, n);
	return (ssize_t)n;
}

static ssize_t glue_write(void *pipe, const void *bytes, size_t len)
{
	struct glue_end *end = pipe;
	size_t used = kh_buf_len(&end->out);
	size_t n = used >= end->room ? 0 : end->room - used;

	CHECK(!end->shut);
	n = len < n ? len : n;
	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	CHECK(kh_buf_append(&end->out, bytes, n));
	return (ssize_t)n;
}

static unsigned glue_ready(const void *pipe)
{
	const struct glue_end *end = pipe;

	return (kh_buf_len(&end->in) || end->in_ended ? KH_STREAM_READABLE : 0u) |
	       (kh_buf_len(&end->out) < end->room ? KH_STREAM_WRITABLE : 0u);
}

static void glue_shut(void *pipe)
{
	((struct glue_end *)pipe)->shut = true;
}

static void glue_close(void *pipe)
{
	((struct glue_end *)pipe)->stream = NULL;
}

static const struct kh_pipe_ops glue_ops = {
	.read = glue_read,
	.write = glue_write,
	.ready = glue_ready,
	.shutdown = glue_shut,
	.close = glue_close,
};

static void glue_end_init(struct glue_end *end)
{
	*end = (struct glue_end){ .room = GLUE_PIPE_BYTES };
	kh_buf_init(&end->in, GLUE_PIPE_BYTES);
	kh_buf_init(&end->out, GLUE_PIPE_BYTES);
}

static void glue_changed(struct glue_end *end)
{
	if (end->stream)
		kh_stream_pipe_changed(end->stream);
}

/* ---- a far server, held to the protocol ---- */

struct glue_far {
	struct glue_end end;
	struct kh_h2 *h2;  /* NULL: a fuzzer speaks */
	bool has_key;	   /* the credential is due on this connection */
	size_t n_requests; /* that arrived */
	struct kh_h2_stream *owned[GLUE_FAR_STREAMS];
	size_t n_owned;
};

struct glue {
	struct kh_worker worker;
	struct kh_generation *gen;
	struct kh_loop *loop;
	struct kh_acceptor acceptor;
	struct glue_end down;
	struct kh_session *session;
	struct glue_far fars[GLUE_UPS];
	size_t n_fars;
	bool hostile_far; /* the first one is the fuzzer's */
};
static struct glue glue;

/* What the credential's host gets: the key once, and nothing of the client's own. */
static void glue_check_request(const struct glue_far *far, const struct kh_message *m)
{
	size_t keys = 0;

	CHECK(kh_slice_eq(m->scheme, KH_SLICE("https")));
	CHECK(kh_slice_eq(m->host, far->has_key ? KH_SLICE("a.example") : KH_SLICE("b.example")));
	for (size_t i = 0; i < m->n_fields; i++) {
		struct kh_slice name = m->fields[i].name;

		CHECK(!kh_slice_eq(name, KH_SLICE("authorization")));
		CHECK(!kh_slice_eq(name, KH_SLICE("proxy-authorization")));
		CHECK(!kh_slice_eq(name, KH_SLICE("cookie")));
		if (!kh_slice_eq(name, KH_SLICE("x-api-key")))
			continue;
		keys++;
		CHECK(kh_slice_eq(m->fields[i].value, kh_slice_str(glue_key)));
	}
	CHECK(keys == far->has_key);
	for (size_t i = 0; i + 1 < m->target.len; i++)
		CHECK(m->target.ptr[i] > ' ' && m->target.ptr[i] < 0x7f);
}

static void glue_put_pattern(struct kh_h2_stream *stream)
{
	static char pattern[8192];

	while (!kh_h2_is_full(stream))
		if (!kh_h2_put_data(stream, kh_slice_of(pattern, sizeof(pattern))))
			return;
}

/* What a path asks for by its second byte; anything else comes back as it went. */
static void glue_answer(struct glue_far *far, struct kh_h2_stream *stream,
			const struct kh_message *m)
{
	static const struct kh_field fields[] = {
		{ KH_SLICE_INIT("x-field"), KH_SLICE_INIT("value") },
		{ KH_SLICE_INIT("trailer"), KH_SLICE_INIT("x-sum") },
	};
	char kind = m->target.len > 1 ? m->target.ptr[1] : '\0';

	switch (kind) {
	case 'n':
		return; /* no answer */
	case 'r':
		kh_h2_reset(stream, 2);
		return;
	case 'f':
		kh_h2_reset(stream, 7); /* REFUSED_STREAM */
		return;
	case 'e':
		(void)kh_h2_put_response(stream, 413, fields, 2, true);
		return;
	case 'x':
		far->end.in_ended = true;
		return;
	case 'i':
		(void)kh_h2_put_response(stream, 103, fields, 1, false);
		(void)kh_h2_put_response(stream, 103, fields, 1, false);
		break;
	case 'g':
		kh_h2_goaway(far->h2);
		break;
	default:
		break;
	}
	(void)kh_h2_put_response(stream, 200, fields, 2, false);
	if (kind == 'b')
		glue_put_pattern(stream);
}

static void glue_far_event(const struct kh_h2_event *event, void *arg)
{
	static const struct kh_field trailers[] = { { KH_SLICE_INIT("x-sum"),
						      KH_SLICE_INIT("7") } };
	struct glue_far *far = arg;

	switch (event->kind) {
	case KH_H2_HEAD:
		glue_check_request(far, event->message);
		far->n_requests++;
		if (far->n_owned < GLUE_FAR_STREAMS)
			far->owned[far->n_owned++] = event->stream;
		else
			kh_h2_release(event->stream);
		if (kh_h2_message(event->stream))
			glue_answer(far, event->stream, event->message);
		break;
	case KH_H2_REFUSED: /* one more field than a reader takes */
		CHECK(event->err->code == KH_ERR_REQUEST_HEAD_TOO_LARGE ||
		      event->err->code == KH_ERR_REQUEST_URI_TOO_LONG);
		(void)kh_h2_put_response(event->stream, 431, NULL, 0, true);
		kh_h2_release(event->stream);
		break;
	case KH_H2_BODY:
		(void)kh_h2_put_data(event->stream, event->body);
		break;
	case KH_H2_END:
		(void)kh_h2_put_end(event->stream, trailers, 1);
		break;
	case KH_H2_RESET:
		CHECK(!event->err || event->err->code != KH_ERR_REQUEST_MALFORMED);
		break;
	case KH_H2_ERROR: /* of what keyhole does by itself, a flood is the most that may be */
		CHECK(event->err->code == KH_ERR_LIMIT);
		break;
	case KH_H2_WRITABLE:
	case KH_H2_GOAWAY:
	case KH_H2_SETTINGS:
	case KH_H2_PONG:
		break;
	}
}

static void glue_far_init(struct glue_far *far, bool has_key, bool hostile)
{
	const struct kh_h2_settings settings = { .role = KH_H2_SERVER,
						 .max_streams = 16,
						 .stream_window_bytes = 65535,
						 .connection_window_bytes = 1 << 20,
						 .extended_connect = true };

	*far = (struct glue_far){ .has_key = has_key };
	glue_end_init(&far->end);
	if (hostile)
		return;
	far->h2 = kh_h2_new(&settings, glue_far_event, far);
	CHECK(far->h2);
}

static void glue_far_fini(struct glue_far *far)
{
	kh_h2_free(far->h2);
	for (size_t i = 0; i < far->n_owned; i++)
		kh_h2_release(far->owned[i]);
	kh_buf_fini(&far->end.in);
	kh_buf_fini(&far->end.out);
}

/* Bytes between a codec and keyhole's end of a pipe. Return: some went. */
static bool glue_pump(struct kh_h2 *h2, struct glue_end *end)
{
	struct kh_slice out = kh_buf_view(&end->out);
	size_t before = kh_buf_len(&end->in);
	bool moved = out.len > 0;

	if (moved)
		(void)kh_h2_feed(h2, out, glue.loop->now_ms);
	kh_buf_consume(&end->out, out.len);
	CHECK(kh_h2_drain(h2, &end->in));
	moved = moved || kh_buf_len(&end->in) != before;
	if (moved)
		glue_changed(end);
	return moved;
}

/* ---- connections to upstreams: made in a turn, without a name and a handshake ---- */

static void glue_up_event(struct kh_stream *stream, unsigned events, void *arg)
{
	struct kh_up *up = arg;

	(void)stream;
	if (up->state == KH_UP_SHARED)
		kh_up_mux_event(up, events);
}

static void glue_connect(struct kh_up_user *user, const struct kh_up_key *key)
{
	struct glue_far *far = &glue.fars[glue.n_fars];
	struct kh_up *up = calloc(1, sizeof(*up));

	glue_far_init(far, key->n_credentials > 0, glue.hostile_far && glue.n_fars == 0);
	glue.n_fars++;
	CHECK(up);
	up->loop = glue.loop;
	up->key = *key;
	up->state = KH_UP_HANDSHAKE;
	up->only = (struct kh_up_stream){ .ops = &kh_up_h1_ops, .conn = up, .user = user };
	up->h1 = kh_h1_new(KH_H1_RESPONSES);
	kh_leg_init(&up->leg, true);
	kh_buf_init(&up->in, 64 * 1024);
	kh_list_init(&up->waiting);
	up->leg.stream =
		kh_stream_new_over(glue.loop->base, &glue_ops, &far->end, glue_up_event, up);
	CHECK(up->h1 && up->leg.stream && kh_up_slot_join(up));
	far->end.stream = up->leg.stream;
	kh_list_append(&glue.loop->ups->made, &up->link);
	user->stream = &up->only;
}

void __wrap_kh_up_acquire(struct kh_up_user *user, bool fresh);
void __wrap_kh_up_acquire(struct kh_up_user *user, bool fresh)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_up_wish wish;
	bool again = true;

	(void)fresh;
	user->ops->wish(user, &wish);
	wish.key.acceptor = wish.key.session_acceptor = -1;
	wish.key.only_h1 = wish.key.scheme != KH_SCHEME_HTTPS;
	if (user->upgrades) { /* nothing else is spoken here */
		user->by_h2 = true;
		again = user->connections++ < KH_LIMIT_MOVES;
	}
	if (kh_up_mux_join(user, &wish.key) || kh_up_mux_wait(user, &wish.key))
		return;
	if (!wish.key.only_h1 && again && glue.n_fars < GLUE_UPS) {
		glue_connect(user, &wish.key);
		return;
	}
	kh_err_set(&err, KH_ERR_UP_CLOSED, "nobody answers");
	user->ops->failed(user, &err);
}

/* A turn later, as a handshake takes. */
static void glue_shake_hands(void)
{
	struct kh_node made;

	kh_list_move(&glue.loop->ups->made, &made);
	while (!kh_list_is_empty(&made)) {
		struct kh_up *up = kh_container_of(made.next, struct kh_up, link);

		kh_list_remove(&up->link);
		kh_up_mux_begin(up);
	}
}

/* ---- the world, made once ---- */

static const char glue_yaml[] =
	"version: 1\n"
	"listen: [ { unix: /nowhere/s, tenant: t } ]\n"
	"credentials: { c: { value: { env: K }, header: { x-api-key: \"{}\" },"
	" hosts: [ a.example ] } }\n"
	"tenants: { t: { rules: [ { allow: \"https://a.example\", credential: c },"
	" { deny: \"* https://b.example/denied\" }, { allow: \"https://b.example\" },"
	" { allow: \"tcp://c.example:22\" } ] } }\n";

static void glue_make_generation(void)
{
	struct kh_generation *g = calloc(1, sizeof(*g));
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;
	char key[sizeof(glue_key)];

	CHECK(g);
	atomic_init(&g->refs, 1);
	pthread_mutex_init(&g->lock, NULL);
	g->number = 1;
	g->config = kh_config_parse("fuzz", kh_slice_str(glue_yaml), NULL, "/nowhere", &diags);
	for (size_t i = 0; i < diags.count; i++)
		(void)fprintf(stderr, "%s\n", diags.list[i].text);
	CHECK(g->config);
	kh_diagnostics_fini(&diags);
	g->policy = kh_policy_compile(g->config, &err);
	g->listener_stats_list = calloc(2, sizeof(*g->listener_stats_list));
	g->slots = calloc(g->config->n_credentials + 1, sizeof(*g->slots));
	CHECK(g->policy && g->listener_stats_list && g->slots);
	g->listener_stats_list[0] = calloc(1, sizeof(**g->listener_stats_list));
	CHECK(g->listener_stats_list[0]);
	memcpy(key, glue_key, sizeof(key));
	const struct kh_credential_ref want = { GLUE_CREDENTIAL, KH_NO_TENANT, { "", 0 } };
	struct kh_secret *secret = kh_secret_new(key, sizeof(key) - 1, &err);
	CHECK(secret && kh_values_put(g, &want, secret, 0));
	glue.gen = g;
}

static const struct kh_loop_ops glue_loop_ops = {
	.accepted = kh_session_new,
	.acceptor_ended = kh_session_end_of_acceptor,
	.ups_new = kh_ups_new,
	.ups_free = kh_ups_free,
	.up_tick = kh_up_tick,
	.up_close_idle = kh_up_close_idle,
	.up_close_of_acceptor = kh_up_close_of_acceptor,
};

static void glue_make_world(void)
{
	struct kh_worker *w = &glue.worker;
	struct kh_err err = KH_ERR_INIT;

	if (glue.loop)
		return;
	kh_log_set_level(KH_LOG_ERROR);
	kh_secret_prepare();
	glue_make_generation();
	w->channel.fd = w->taken_fd = -1;
	w->current = glue.gen;
	w->leaves = kh_leaves_new(&err);
	w->roots = kh_roots_new();
	w->n_loops = 1;
	CHECK(w->leaves && w->roots && kh_leaf_requests_init(w, &err)); /* which nobody answers */
	glue.loop = kh_loop_new(w, 0, &glue_loop_ops, KH_SLICE(""), KH_SLICE(""), &err);
	CHECK(glue.loop);
	glue.acceptor = (struct kh_acceptor){ .loop = glue.loop,
					      .gen = glue.gen,
					      .listener_stats = glue.gen->listener_stats_list[0],
					      .config = &glue.gen->config->listeners[0] };
	kh_list_init(&glue.acceptor.sessions);
	kh_work_share_init(&glue.acceptor.work, glue.loop);
}

/* ---- one run ---- */

static void glue_begin(bool hostile_far)
{
	struct kh_journal_report report = { .seq = 0 };
	const struct kh_peer peer = { .pid = 1 };
	struct kh_err err = KH_ERR_INIT;

	glue_make_world();
	glue.loop->now_ms = kh_clock_mono_ms();
	glue.worker.journal_fd = memfd_create("journal", MFD_CLOEXEC);
	CHECK(glue.worker.journal_fd >= 0);
	glue.worker.journal =
		kh_journal_open(glue.worker.journal_fd, KH_DURABILITY_WRITTEN, &report, &err);
	CHECK(glue.worker.journal);
	glue.hostile_far = hostile_far;
	glue.n_fars = 0;
	glue_end_init(&glue.down);
	CHECK(kh_acceptor_take_place(&glue.acceptor));
	glue.session = kh_session_new_over(&glue.acceptor, &glue_ops, &glue.down, &peer);
	CHECK(glue.session);
	glue.down.stream = glue.session->leg.stream;
	kh_session_turn(glue.session);
}

/* As it is behind CONNECT and a handshake. */
static void glue_enter_tunnel(const char *authority)
{
	struct kh_session *session = glue.session;
	struct kh_err err = KH_ERR_INIT;

	CHECK(kh_authority_parse(&session->side.authority, kh_slice_str(authority), 443, &err));
	session->side.tunnel = session->side.tls = true;
	session->came_by = KH_PROTOCOL_SNIFF_HTTP;
	CHECK(kh_session_set_tunnel(session, KH_TUNNEL_ACCEPTED));
	CHECK(kh_mux_begin(session));
}

/* Return: something moved. */
static bool glue_turn(void)
{
	size_t before = kh_buf_len(&glue.down.in) + kh_buf_len(&glue.down.out);
	bool moved = !kh_list_is_empty(&glue.loop->ups->made);

	CHECK(event_base_loop(glue.loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
	glue_shake_hands();
	kh_loop_turn_end(glue.loop);
	for (size_t i = 0; i < glue.n_fars; i++) {
		struct glue_far *far = &glue.fars[i];

		if (far->h2 && far->end.stream)
			moved |= glue_pump(far->h2, &far->end);
	}
	return moved || before != kh_buf_len(&glue.down.in) + kh_buf_len(&glue.down.out);
}

static size_t glue_count(struct kh_slice text, const char *what)
{
	struct kh_slice rest = text;
	size_t n = 0, len = strlen(what);

	for (const char *at; (at = memmem(rest.ptr, rest.len, what, len)); n++)
		rest = kh_slice_sub(rest, (size_t)(at - rest.ptr) + len, rest.len);
	return n;
}

/* Each exchange that was opened was closed. */
static void glue_check_journal(void)
{
	off_t len = lseek(glue.worker.journal_fd, 0, SEEK_END);

	kh_journal_close(glue.worker.journal);
	glue.worker.journal = NULL;
	if (len > 0) {
		void *map =
			mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, glue.worker.journal_fd, 0);
		CHECK(map != MAP_FAILED);
		struct kh_slice text = kh_slice_of(map, (size_t)len);
		CHECK(glue_count(text, "\"event\":\"open\"") ==
		      glue_count(text, "\"event\":\"close\""));
		munmap(map, (size_t)len);
	}
	close(glue.worker.journal_fd);
}

/* An hour later, for all that waits. */
static void glue_let_time_pass(void)
{
	struct kh_node *next;

	glue.loop->now_ms += 60 * 60 * 1000;
	for (struct kh_node *node = glue.loop->live.next; node != &glue.loop->live; node = next) {
		struct kh_session *session = kh_container_of(node, struct kh_session, member.link);

		next = node->next;
		if (session->state == KH_SESSION_H2) {
			kh_mux_timed_out(session);
			kh_session_touch(session);
		}
	}
	kh_up_mux_tick(glue.loop, glue.loop->now_ms);
	kh_loop_turn_end(glue.loop);
}

/* The sandbox goes, then the upstreams; nothing may be left. */
static void glue_finish(void)
{
	enum { TURNS = 16 };
	struct kh_loop *loop = glue.loop;

	glue.down.in_ended = true;
	glue_changed(&glue.down);
	for (int i = 0; i < TURNS && !kh_list_is_empty(&loop->live); i++) {
		kh_buf_clear(&glue.down.out);
		(void)glue_turn();
	}
	while (!kh_list_is_empty(&loop->live))
		kh_session_kill(kh_container_of(loop->live.next, struct kh_session, member.link),
				KH_ERR_NONE, NULL);
	for (size_t i = 0; i < glue.n_fars; i++) {
		glue.fars[i].end.in_ended = true;
		glue_changed(&glue.fars[i].end);
	}
	kh_loop_turn_end(loop);
	kh_up_close_idle(loop);
	for (int i = 0; i < TURNS; i++)
		(void)glue_turn();
	CHECK(loop->n_live == 0 && kh_list_is_empty(&loop->exchanges));
	CHECK(kh_list_is_empty(&loop->ups->made) && kh_list_is_empty(&loop->ups->shared));
	for (enum kh_loop_when when = KH_LOOP_DOWN; when < KH_LOOP_WHENS; when++)
		CHECK(kh_list_is_empty(&loop->calls[when]));
	CHECK(kh_list_is_empty(&loop->deferred_frees));
	CHECK(atomic_load(&glue.acceptor.listener_stats->connections) == 0);
	CHECK(loop->batch.count == 0 && !glue.down.stream);
	for (size_t i = 0; i < glue.n_fars; i++) {
		CHECK(!glue.fars[i].end.stream);
		glue_far_fini(&glue.fars[i]);
	}
	kh_buf_fini(&glue.down.in);
	kh_buf_fini(&glue.down.out);
	glue_check_journal();
}

#endif
