/* upstreams.c - servers: good ones, and those that answer early, late, wrongly, or not at all */

#include <keyhole/http/h1.h>
#include <keyhole/http/h2.h>
#include <keyhole/http/ws.h>

#include "simulation.h"

enum { STREAMS = 512, LARGE_BYTES = 200 * 1000 };

/* How a request is answered. */
enum plan {
	PLAN_GOOD = 0,
	PLAN_GOOD_TOO,
	PLAN_CHUNKED,
	PLAN_NO_CONTENT,
	PLAN_LARGE,
	PLAN_UNTIL_END,
	PLAN_LAST, /* Connection: close */
	PLAN_EARLY,
	PLAN_INTERIM,
	PLAN_REFUSED, /* 401 */
	PLAN_HALF,
	PLAN_GARBAGE,
	PLAN_END,
	PLAN_RESET,
	PLAN_SILENT,
	PLANS
};

struct sim_server {
	struct sim_pipe *pipe;
	struct kh_h1 *h1;
	struct kh_h2 *h2;
	bool begun, broken, switched;
	enum plan plan;
	bool answered;
	char serial[16];
	bool head; /* the request was HEAD */
	struct kh_h2_stream *streams[STREAMS];
	size_t n_streams;
};

/* ---- what may arrive ---- */

static void check_request(const struct sim_server *server, const struct kh_message *m)
{
	int host = server->pipe->host;
	size_t seen = 0;

	for (size_t i = 0; i < m->n_fields; i++)
		seen += memmem(m->fields[i].value.ptr, m->fields[i].value.len, sim_value_mark,
			       strlen(sim_value_mark)) != NULL;
	sim_trace("up %d: %.*s %.*s arrives", (int)(server->pipe - sim_pipes), (int)m->method.len,
		  m->method.ptr, (int)m->target.len, m->target.ptr);
	SIM_CHECK(kh_slice_eq(m->host, kh_slice_str(sim_host_names[host])), "%.*s arrives at %s",
		  (int)m->host.len, m->host.ptr, sim_host_names[host]);
	const char *due = sim_journal_allows_request(server->pipe, m->target, seen > 0);
	for (size_t i = 0; i < m->n_fields; i++) {
		struct kh_slice name = m->fields[i].name, value = m->fields[i].value;
		bool is_ours = memmem(value.ptr, value.len, sim_value_mark,
				      strlen(sim_value_mark)) != NULL;
		SIM_CHECK(!kh_slice_eq(name, KH_SLICE("proxy-authorization")),
			  "what was meant for keyhole goes up");
		SIM_CHECK(!is_ours || (due && kh_slice_eq(value, kh_slice_str(due))),
			  "a value goes to %s, where it is not bound", sim_host_names[host]);
	}
	SIM_CHECK(seen == (due != NULL), "%zu values go to %s", seen, sim_host_names[host]);
}

/* "/free/r17" */
static void note_serial(struct sim_server *server, const struct kh_message *m)
{
	size_t at = m->target.len;

	while (at > 0 && m->target.ptr[at - 1] != '/')
		at--;
	(void)snprintf(server->serial, sizeof(server->serial), "%.*s", (int)(m->target.len - at),
		       m->target.ptr + at);
	server->head = kh_slice_eq(m->method, KH_SLICE("HEAD"));
}

static enum plan choose(void)
{
	return sim_one_in(2) ? PLAN_GOOD : (enum plan)sim_below(PLANS);
}

/* ---- HTTP/1 ---- */

static void say(struct sim_server *server, const char *text)
{
	sim_pipe_say(server->pipe, text, strlen(text));
}

static void say_head(struct sim_server *server, const char *status, const char *fields)
{
	char head[256];

	(void)snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nx-serial: %s\r\n%s\r\n", status,
		       server->serial, fields);
	say(server, head);
}

static void say_filler(struct sim_server *server, size_t len)
{
	static const char filler[1024];

	for (; len > sizeof(filler) && !server->head; len -= sizeof(filler))
		sim_pipe_say(server->pipe, filler, sizeof(filler));
	if (!server->head)
		sim_pipe_say(server->pipe, filler, len);
}

static void end(struct sim_server *server)
{
	server->broken = true;
	sim_pipe_end(server->pipe);
}

static void answer_wrongly(struct sim_server *server)
{
	switch ((unsigned)server->plan) {
	case PLAN_HALF:
		say_head(server, "200 OK", "content-length: 100\r\n");
		say_filler(server, 50);
		end(server);
		break;
	case PLAN_GARBAGE:
		say(server, "HTTP/1.1 2000 What\r\n: x\r\n\r\n");
		break;
	case PLAN_RESET:
		server->broken = true;
		sim_pipe_reset(server->pipe);
		break;
	case PLAN_END:
		end(server);
		break;
	default: /* silent */
		break;
	}
}

static void answer(struct sim_server *server)
{
	server->answered = true;
	switch ((unsigned)server->plan) {
	case PLAN_GOOD:
	case PLAN_GOOD_TOO:
		say_head(server, "200 OK", "content-length: 5\r\n");
		say_filler(server, 5);
		break;
	case PLAN_INTERIM:
		say(server, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n");
		say_head(server, "200 OK", "content-length: 5\r\n");
		say_filler(server, 5);
		break;
	case PLAN_CHUNKED:
		say_head(server, "200 OK", "transfer-encoding: chunked\r\n");
		if (!server->head)
			say(server, "5\r\nhello\r\n1\r\n!\r\n0\r\nx-trailer: t\r\n\r\n");
		break;
	case PLAN_NO_CONTENT:
		say_head(server, "204 No Content", "");
		break;
	case PLAN_LARGE:
		say_head(server, "200 OK", "content-length: 200000\r\n");
		say_filler(server, LARGE_BYTES);
		break;
	case PLAN_UNTIL_END:
		say_head(server, "200 OK", "");
		say_filler(server, 3000);
		end(server);
		break;
	case PLAN_LAST:
		say_head(server, "200 OK", "connection: close\r\ncontent-length: 5\r\n");
		say_filler(server, 5);
		end(server);
		break;
	case PLAN_EARLY:
		say_head(server, "413 Too Large", "content-length: 0\r\n");
		break;
	case PLAN_REFUSED:
		say_head(server, "401 Unauthorized", "content-length: 5\r\n");
		say_filler(server, 5);
		break;
	default:
		answer_wrongly(server);
		break;
	}
}

/* A WebSocket: a few frames, and perhaps a close frame. */
static void switch_over(struct sim_server *server, const struct kh_message *m)
{
	const struct kh_field *key = kh_message_field(m, KH_SLICE("sec-websocket-key"));
	char accept[KH_WS_ACCEPT_BYTES], fields[128];

	SIM_CHECK(key && kh_ws_accept_for(key->value, accept), "a WebSocket without a key");
	(void)snprintf(fields, sizeof(fields),
		       "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: %s\r\n",
		       accept);
	say_head(server, "101 Switching Protocols", fields);
	server->switched = true;
	sim_pipe_say(server->pipe, "\x81\x05hello\x89\x00", 9);
	if (sim_one_in(3))
		sim_pipe_say(server->pipe, "\x88\x02\x03\xe8", 4);
	if (sim_one_in(6))
		end(server);
}

static void read_h1(struct sim_server *server, struct kh_slice bytes)
{
	struct kh_slice body;

	while (!server->broken) {
		enum kh_h1_event event = kh_h1_feed(server->h1, &bytes, &body);
		if (event == KH_H1_NEED_MORE)
			return;
		SIM_CHECK(event != KH_H1_ERROR, "what goes to %s is no request: %s",
			  sim_host_names[server->pipe->host], kh_h1_error(server->h1)->text);
		if (event == KH_H1_HEAD) {
			check_request(server, kh_h1_message(server->h1));
			note_serial(server, kh_h1_message(server->h1));
			server->plan = choose();
			server->answered = false;
			if (server->plan == PLAN_EARLY)
				answer(server);
			else if (kh_h1_message(server->h1)->upgrade && server->plan == PLAN_GOOD)
				switch_over(server, kh_h1_message(server->h1));
			if (server->switched)
				return;
		} else if (event == KH_H1_END && !server->answered) {
			answer(server);
		}
	}
}

/* ---- HTTP/2 ---- */

static void answer_h2(struct sim_server *server, struct kh_h2_stream *stream)
{
	const struct kh_field field = { KH_SLICE("x-serial"), kh_slice_str(server->serial) };
	static const char filler[LARGE_BYTES / 8];
	const struct kh_slice small = KH_SLICE("hello");

	switch ((unsigned)choose()) {
	case PLAN_SILENT:
		return;
	case PLAN_RESET:
		kh_h2_reset(stream, 2);
		return;
	case PLAN_EARLY:
		kh_h2_reset(stream, 7); /* not looked at */
		return;
	case PLAN_END:
		end(server);
		return;
	case PLAN_LAST:
		kh_h2_goaway(server->h2);
		break;
	case PLAN_NO_CONTENT:
		(void)kh_h2_put_response(stream, 204, &field, 1, true);
		return;
	case PLAN_REFUSED:
		(void)kh_h2_put_response(stream, 401, &field, 1, true);
		return;
	case PLAN_INTERIM:
		(void)kh_h2_put_response(stream, 103, NULL, 0, false);
		break;
	case PLAN_LARGE:
		(void)kh_h2_put_response(stream, 200, &field, 1, false);
		(void)kh_h2_put_data(stream, kh_slice_of(filler, sizeof(filler)));
		(void)kh_h2_put_end(stream, NULL, 0);
		return;
	case PLAN_HALF:
		(void)kh_h2_put_response(stream, 200, &field, 1, false);
		return;
	default:
		break;
	}
	(void)kh_h2_put_response(stream, 200, &field, 1, false);
	if (!server->head)
		(void)kh_h2_put_data(stream, small);
	(void)kh_h2_put_end(stream, NULL, 0);
}

static void on_event(const struct kh_h2_event *event, void *arg)
{
	struct sim_server *server = arg;

	switch ((unsigned)event->kind) {
	case KH_H2_HEAD:
		check_request(server, event->message);
		note_serial(server, event->message);
		SIM_CHECK(server->n_streams < STREAMS, "too many streams");
		server->streams[server->n_streams++] = event->stream;
		answer_h2(server, event->stream);
		break;
	case KH_H2_REFUSED:
		sim_fail("what goes to %s is no request: %s", sim_host_names[server->pipe->host],
			 event->err->text);
	case KH_H2_ERROR:
		SIM_CHECK(event->err->code == KH_ERR_LIMIT, "what goes to %s is no HTTP/2: %s",
			  sim_host_names[server->pipe->host], event->err->text);
		break;
	default:
		break;
	}
}

static void talk_h2(struct sim_server *server, struct kh_slice bytes)
{
	struct kh_buf out;

	if (bytes.len)
		(void)kh_h2_feed(server->h2, bytes, sim_now_ms());
	kh_buf_init(&out, 4 << 20);
	SIM_CHECK(kh_h2_drain(server->h2, &out), "no memory");
	sim_pipe_say(server->pipe, kh_buf_view(&out).ptr, kh_buf_len(&out));
	kh_buf_fini(&out);
}

/* ---- their life ---- */

void sim_upstream_new(struct sim_pipe *pipe)
{
	struct sim_server *server = calloc(1, sizeof(*server));

	SIM_CHECK(server, "no memory");
	server->pipe = pipe;
	pipe->far = server;
}

static void begin(struct sim_server *server)
{
	static const struct kh_h2_settings settings = { .role = KH_H2_SERVER,
							.max_streams = 4,
							.stream_window_bytes = 65535,
							.connection_window_bytes = 1 << 20 };

	server->begun = true;
	if (server->pipe->h2)
		server->h2 = kh_h2_new(&settings, on_event, server);
	else
		server->h1 = kh_h1_new(KH_H1_REQUESTS);
	SIM_CHECK(server->h1 || server->h2, "no memory");
}

static void read_some(struct sim_server *server)
{
	struct sim_pipe *pipe = server->pipe;
	struct kh_slice bytes = kh_buf_view(&pipe->out);
	size_t n = bytes.len > 1 && sim_one_in(3) ? 1 + sim_below(bytes.len) : bytes.len;

	bytes = kh_slice_sub(bytes, 0, n);
	if (!server->begun && pipe->host != SIM_HOST_RAW)
		begin(server);
	if (server->broken || server->switched)
		n = bytes.len; /* thrown away */
	else if (pipe->host == SIM_HOST_RAW)
		sim_pipe_say(pipe, bytes.ptr, bytes.len);
	else if (server->h2)
		talk_h2(server, bytes);
	else
		read_h1(server, bytes);
	if (!pipe->reset)
		kh_buf_consume(&pipe->out, n);
	sim_pipe_changed(pipe);
}

bool sim_upstreams_read(void)
{
	struct sim_server *ready[SIM_PIPES];
	size_t n = 0;

	for (size_t i = 0; i < SIM_PIPES; i++) {
		struct sim_pipe *pipe = &sim_pipes[i];
		struct sim_server *server = pipe->far;
		if (!pipe->used || !pipe->up || !server)
			continue;
		if (kh_buf_len(&pipe->out) > 0)
			ready[n++] = server;
		else if (pipe->shut && !pipe->end_coming)
			end(server);
	}
	if (n)
		read_some(ready[sim_below(n)]);
	return n > 0;
}

void sim_upstream_free(struct sim_pipe *pipe)
{
	struct sim_server *server = pipe->far;

	kh_h1_free(server->h1);
	kh_h2_free(server->h2);
	for (size_t i = 0; i < server->n_streams; i++)
		kh_h2_release(server->streams[i]);
	free(server);
	pipe->far = NULL;
}
