/* sandboxes.c - clients: requests by proxy, in tunnels, over HTTP/2; and those that go away */

#include <keyhole/http/h1.h>
#include <keyhole/http/h2.h>

#include "simulation.h"

enum { CLIENTS = 10, ASKED = 64, CONTENT_BYTES = 40 * 1000 };

enum phase {
	PHASE_SOCKS = 1, /* so are the two answers of SOCKS5 */
	PHASE_CONNECT,	 /* the answer to CONNECT is awaited */
	PHASE_TLS,	 /* … and the handshake */
	PHASE_REQUESTS,
	PHASE_WEBSOCKET,
	PHASE_RAW,
	PHASE_OVER, /* says nothing more */
};

struct asked {
	unsigned serial;
	bool head;   /* HEAD */
	bool tunnel; /* CONNECT, by HTTP/2 */
	struct kh_h2_stream *h2;
};

struct sim_client {
	struct sim_pipe *pipe;
	enum phase phase;
	int host;
	bool tls, wants_h2, stuck;
	struct kh_h1 *h1; /* reads answers */
	struct kh_h2 *h2;
	struct asked asked[ASKED];
	size_t n_asked, n_answered;
	size_t n_open;		 /* streams */
	unsigned char socks[12]; /* what it was answered */
	size_t n_socks;
};

static unsigned serials;

/* ---- what they say ---- */

static void say(struct sim_client *client, const char *text)
{
	sim_pipe_say(client->pipe, text, strlen(text));
}

static void over(struct sim_client *client)
{
	client->phase = PHASE_OVER;
	sim_pipe_end(client->pipe);
}

/* The next answer is one to this. */
static void expect(struct sim_client *client)
{
	if (client->n_answered < client->n_asked)
		kh_h1_expect_response_to(client->h1, client->asked[client->n_answered].head
							     ? KH_SLICE("HEAD")
							     : KH_SLICE("GET"));
}

/* As much of `len` bytes as `part`: JSON that names a model, where there is room for it. */
static void say_content(struct sim_client *client, size_t len, size_t part)
{
	static const char begin[] = "{\"model\":\"good-1\",\"pad\":\"", end[] = "\"}";
	static char filler[CONTENT_BYTES];

	memset(filler, 'x', sizeof(filler));
	if (len >= sizeof(begin) + sizeof(end)) {
		memcpy(filler, begin, sizeof(begin) - 1);
		memcpy(filler + len - 2, end, 2);
	}
	sim_pipe_say(client->pipe, filler, part);
}

/* Where more than one rule speaks of the host. */
static const char *folder(const struct sim_client *client)
{
	if (client->host == SIM_HOST_FREE && sim_one_in(8))
		return "/denied";
	return client->host == SIM_HOST_SHARED && sim_one_in(2) ? "/free" : "";
}

static void ask_for_websocket(struct sim_client *client)
{
	struct asked *asked = &client->asked[client->n_asked++];
	char head[512], base[64] = "";

	*asked = (struct asked){ .serial = ++serials };
	if (!client->tls)
		(void)snprintf(base, sizeof(base), "http://%s", sim_host_names[client->host]);
	(void)snprintf(head, sizeof(head),
		       "GET %s%s/r%u HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
		       "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		       base, folder(client), asked->serial, sim_host_names[client->host]);
	say(client, head);
	sim_trace("down %d: asks for a WebSocket, r%u", (int)(client->pipe - sim_pipes),
		  asked->serial);
	expect(client);
}

static void ask_h1(struct sim_client *client)
{
	static const char *const methods[] = { "GET", "GET", "POST", "PUT", "HEAD", "DELETE" };
	uint64_t which = sim_below(6);
	struct asked *asked = &client->asked[client->n_asked++];
	bool has_content = which == 2 || which == 3;
	size_t content = has_content ? sim_below(sim_one_in(4) ? CONTENT_BYTES : 100) : 0;
	char head[512], framing[96] = "", base[64] = "";

	*asked = (struct asked){ .serial = ++serials, .head = which == 4 };
	if (has_content)
		(void)snprintf(framing, sizeof(framing),
			       "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			       content);
	if (!client->tls)
		(void)snprintf(base, sizeof(base), "http://%s", sim_host_names[client->host]);
	(void)snprintf(head, sizeof(head), "%s %s%s/r%u HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n",
		       methods[which], base, folder(client), asked->serial,
		       sim_host_names[client->host], framing,
		       sim_one_in(4) ? "x-api-key: mine\r\n" : "",
		       has_content && sim_one_in(4) ? "Expect: 100-continue\r\n" : "");
	say(client, head);
	sim_trace("down %d: asks %s for r%u", (int)(client->pipe - sim_pipes), methods[which],
		  asked->serial);
	/* Some never say it all, and nothing else. */
	client->stuck = content > 1 && sim_one_in(12);
	say_content(client, content, client->stuck ? content / 2 : content);
	if (client->n_asked == client->n_answered + 1)
		expect(client);
}

static void flush_h2(struct sim_client *client)
{
	struct kh_buf out;

	kh_buf_init(&out, 4 << 20);
	SIM_CHECK(kh_h2_drain(client->h2, &out), "no memory");
	sim_pipe_say(client->pipe, kh_buf_view(&out).ptr, kh_buf_len(&out));
	kh_buf_fini(&out);
}

static void ask_h2(struct sim_client *client)
{
	static const char filler[CONTENT_BYTES];
	bool post = sim_one_in(3), whole = !post;
	char path[32];

	(void)snprintf(path, sizeof(path), "%s/r%u", folder(client), ++serials);
	const struct kh_h2_request request = {
		.method = post ? KH_SLICE("POST") : KH_SLICE("GET"),
		.scheme = client->tls ? KH_SLICE("https") : KH_SLICE("http"),
		.authority = kh_slice_str(sim_host_names[client->host]),
		.path = kh_slice_str(path),
	};
	struct kh_h2_stream *stream =
		kh_h2_capacity(client->h2) > 0
			? kh_h2_put_request(client->h2, &request, NULL, 0, 0, whole)
			: NULL;
	if (!stream)
		return;
	struct asked *asked = &client->asked[client->n_asked++];
	*asked = (struct asked){ .serial = serials, .h2 = stream };
	kh_h2_set_user(stream, asked);
	client->n_open++;
	sim_trace("down %d: asks for r%u by HTTP/2", (int)(client->pipe - sim_pipes), serials);
	if (post && kh_h2_put_data(stream, kh_slice_of(filler, sim_below(sizeof(filler)))) &&
	    !sim_one_in(6))
		(void)kh_h2_put_end(stream, NULL, 0);
	flush_h2(client);
}

static void ask_for_stream_tunnel(struct sim_client *client)
{
	static const char *const to[] = { "raw.example:22", "key.example:443",
					  "other.example:443" };
	const struct kh_h2_request request = { .method = KH_SLICE("CONNECT"),
					       .authority = kh_slice_str(to[sim_below(3)]) };
	struct kh_h2_stream *stream =
		kh_h2_capacity(client->h2) > 0
			? kh_h2_put_request(client->h2, &request, NULL, 0, 0, false)
			: NULL;

	if (!stream)
		return;
	struct asked *asked = &client->asked[client->n_asked++];
	*asked = (struct asked){ .serial = ++serials, .h2 = stream, .tunnel = true };
	kh_h2_set_user(stream, asked);
	client->n_open++;
	sim_trace("down %d: asks for a tunnel in a stream", (int)(client->pipe - sim_pipes));
}

/* In a stream's tunnel: a handshake, a request, whatever. */
static void speak_in_tunnel(struct asked *asked)
{
	char request[128];

	switch (sim_below(6)) {
	case 0:
		(void)kh_h2_put_end(asked->h2, NULL, 0);
		break;
	case 1:
		kh_h2_reset(asked->h2, 8);
		break;
	case 2:
	case 3:
		(void)kh_h2_put_data(asked->h2, KH_SLICE("\x16"));
		break;
	default:
		(void)snprintf(request, sizeof(request),
			       "GET /r%u HTTP/1.1\r\nHost: %s.example\r\n\r\n", ++serials,
			       sim_one_in(2) ? "key" : "other");
		(void)kh_h2_put_data(asked->h2, kh_slice_str(request));
		break;
	}
}

static void use_streams(struct sim_client *client)
{
	struct asked *one = client->n_asked ? &client->asked[sim_below(client->n_asked)] : NULL;

	if (one && one->tunnel && one->h2)
		speak_in_tunnel(one);
	else if (!client->tls && sim_one_in(3))
		ask_for_stream_tunnel(client);
	else
		ask_h2(client);
	flush_h2(client);
}

/* ---- what they hear ---- */

static void check_serial(const struct asked *asked, const struct kh_message *m)
{
	const struct kh_field *serial = kh_message_field(m, KH_SLICE("x-serial"));
	char mine[16];

	/* An answer of keyhole's own has none. */
	(void)snprintf(mine, sizeof(mine), "r%u", asked->serial);
	SIM_CHECK(!serial || kh_slice_eq(serial->value, kh_slice_str(mine)),
		  "the answer to %.*s comes for r%u", (int)serial->value.len, serial->value.ptr,
		  asked->serial);
}

static void enter_tunnel(struct sim_client *client)
{
	kh_h1_free(client->h1);
	client->h1 = kh_h1_new(KH_H1_RESPONSES);
	SIM_CHECK(client->h1, "no memory");
	if (client->host == SIM_HOST_RAW) {
		client->phase = PHASE_RAW;
		say(client, "hello, is anybody there?");
		return;
	}
	client->phase = PHASE_TLS;
	sim_handshake_want_h2(client->pipe->stream, client->wants_h2);
	sim_pipe_say(client->pipe, "\x16", 1);
}

/* Return: the bytes behind it are no HTTP/1. */
static bool take_head(struct sim_client *client)
{
	const struct kh_message *m = kh_h1_message(client->h1);

	if (m->status < 200)
		return false;
	if (client->phase == PHASE_CONNECT && m->status == 200) {
		if (client->pipe->stream)
			enter_tunnel(client);
		else
			over(client);
		return true;
	}
	if (client->phase != PHASE_REQUESTS)
		return false;
	if (m->status == 101) {
		client->phase = PHASE_WEBSOCKET;
		return true;
	}
	SIM_CHECK(client->n_answered < client->n_asked || m->status >= 400,
		  "an answer to nothing, %u", m->status);
	if (client->n_answered < client->n_asked)
		check_serial(&client->asked[client->n_answered], m);
	return false;
}

static void take_end(struct sim_client *client)
{
	const struct kh_message *m = kh_h1_message(client->h1);
	bool keeps = m && m->keep_alive && m->status >= 100;

	if (client->phase == PHASE_CONNECT || !keeps) {
		over(client);
		return;
	}
	if (client->n_answered < client->n_asked)
		client->n_answered++;
	expect(client);
}

static void read_h1(struct sim_client *client, struct kh_slice bytes)
{
	struct kh_slice body;

	sim_trace("down %d: hears \"%.*s\"", (int)(client->pipe - sim_pipes),
		  (int)(bytes.len < 400 ? bytes.len : 400), bytes.ptr);
	while (client->phase == PHASE_CONNECT || client->phase == PHASE_REQUESTS) {
		enum kh_h1_event event = kh_h1_feed(client->h1, &bytes, &body);
		if (event == KH_H1_NEED_MORE)
			return;
		SIM_CHECK(event != KH_H1_ERROR, "what comes down is no answer: %s",
			  kh_h1_error(client->h1)->text);
		if (event == KH_H1_HEAD && take_head(client))
			return;
		if (event == KH_H1_END)
			take_end(client);
	}
}

static void let_go(struct sim_client *client, struct asked *asked)
{
	kh_h2_release(asked->h2);
	asked->h2 = NULL;
	client->n_open--;
}

static void on_event(const struct kh_h2_event *event, void *arg)
{
	struct sim_client *client = arg;
	struct asked *asked = event->stream ? kh_h2_user(event->stream) : NULL;

	SIM_CHECK(event->kind != KH_H2_ERROR, "what comes down is no HTTP/2: %s", event->err->text);
	if (event->kind == KH_H2_HEAD && asked && event->message->status >= 200)
		check_serial(asked, event->message);
	if (event->kind == KH_H2_RESET && event->err)
		SIM_CHECK(event->err->code != KH_ERR_RESPONSE_MALFORMED,
			  "what comes down is no answer: %s", event->err->text);
	if ((event->kind == KH_H2_END || event->kind == KH_H2_RESET) && asked && asked->h2)
		let_go(client, asked);
}

static void begin_h2(struct sim_client *client)
{
	static const struct kh_h2_settings settings = { .role = KH_H2_CLIENT,
							.stream_window_bytes = 65535,
							.connection_window_bytes = 1 << 20 };

	client->h2 = kh_h2_new(&settings, on_event, client);
	SIM_CHECK(client->h2, "no memory");
	flush_h2(client);
}

void sim_sandbox_has_tls(struct sim_pipe *pipe)
{
	struct sim_client *client = pipe->far;

	if (!client || client->phase != PHASE_TLS)
		return;
	client->phase = PHASE_REQUESTS;
	client->tls = true;
	if (client->wants_h2)
		begin_h2(client);
}

static void read_socks(struct sim_client *client, struct kh_slice bytes)
{
	while (bytes.len > 0 && client->n_socks < sizeof(client->socks)) {
		client->socks[client->n_socks++] = (unsigned char)bytes.ptr[0];
		bytes = kh_slice_sub(bytes, 1, bytes.len);
	}
	if (client->n_socks < sizeof(client->socks))
		return;
	SIM_CHECK(client->socks[0] == 5 && client->socks[2] == 5, "what comes down is no SOCKS5");
	if (client->socks[3] == 0 && client->pipe->stream)
		enter_tunnel(client);
	else
		over(client);
}

static void read_some(struct sim_client *client)
{
	struct sim_pipe *pipe = client->pipe;
	struct kh_slice bytes = kh_buf_view(&pipe->out);
	size_t n = bytes.len > 1 && sim_one_in(3) ? 1 + sim_below(bytes.len) : bytes.len;

	bytes = kh_slice_sub(bytes, 0, n);
	if (client->phase == PHASE_SOCKS) {
		read_socks(client, bytes);
	} else if (client->phase == PHASE_CONNECT ||
		   (client->phase == PHASE_REQUESTS && !client->h2)) {
		read_h1(client, bytes);
	} else if (client->h2 && client->phase == PHASE_REQUESTS) {
		(void)kh_h2_feed(client->h2, bytes, sim_now_ms());
		flush_h2(client);
	}
	if (!pipe->reset)
		kh_buf_consume(&pipe->out, n);
	sim_pipe_changed(pipe);
}

bool sim_sandboxes_read(void)
{
	struct sim_client *ready[SIM_PIPES];
	size_t n = 0;

	for (size_t i = 0; i < SIM_PIPES; i++) {
		struct sim_pipe *pipe = &sim_pipes[i];
		struct sim_client *client = pipe->far;
		if (!pipe->used || pipe->up || !client)
			continue;
		if (kh_buf_len(&pipe->out) > 0)
			ready[n++] = client;
		else if (pipe->shut && client->phase != PHASE_OVER)
			over(client);
	}
	if (n)
		read_some(ready[sim_below(n)]);
	return n > 0;
}

/* ---- their life ---- */

static void ask_for_tunnel(struct sim_client *client)
{
	const char *name = sim_host_names[client->host];
	unsigned port = client->host == SIM_HOST_RAW ? 22 : 443;
	char text[256];

	if (sim_one_in(6)) {
		client->phase = PHASE_SOCKS;
		int len = snprintf(text, sizeof(text), "\x05\x01%c\x05\x01%c\x03%c%s%c%c", 0, 0,
				   (int)strlen(name), name, (int)(port >> 8), (int)(port & 255));
		sim_pipe_say(client->pipe, text, (size_t)len);
		return;
	}
	client->phase = PHASE_CONNECT;
	kh_h1_expect_response_to(client->h1, KH_SLICE("CONNECT"));
	(void)snprintf(text, sizeof(text), "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n\r\n", name,
		       port, name, port);
	say(client, text);
}

static void begin(struct sim_client *client, bool globex)
{
	static const int hosts[2][6] = {
		{ SIM_HOST_KEY, SIM_HOST_SHARED, SIM_HOST_MODELS, SIM_HOST_FREE, SIM_HOST_RAW,
		  SIM_HOST_FORBIDDEN },
		{ SIM_HOST_OTHER, SIM_HOST_SHARED, SIM_HOST_OTHER, SIM_HOST_SHARED, SIM_HOST_KEY,
		  SIM_HOST_FORBIDDEN },
	};

	if (!sim.mood.one_host && sim_one_in(3)) {
		client->phase = PHASE_REQUESTS;
		client->host = SIM_HOST_PLAIN;
		if (sim_one_in(3)) /* with prior knowledge */
			begin_h2(client);
		return;
	}
	client->host = hosts[globex][sim.mood.one_host ? sim.mood.host : sim_below(6)];
	client->wants_h2 = sim_one_in(2);
	ask_for_tunnel(client);
}

static bool come(void)
{
	bool globex = false;
	struct kh_acceptor *acceptor = sim_keeper_acceptor(&globex);
	size_t n = 0;

	for (size_t i = 0; i < SIM_PIPES; i++)
		n += sim_pipes[i].used && !sim_pipes[i].up && !sim_pipes[i].closed;
	if (!acceptor || n >= CLIENTS || !kh_acceptor_take_place(acceptor))
		return false;
	struct sim_pipe *pipe =
		kh_account_take(acceptor->account, KH_RESOURCE_DESCRIPTORS, 1, sim.loop->now_ms)
			? sim_pipe_new(false)
			: NULL;
	if (!pipe) {
		kh_acceptor_left(acceptor);
		return false;
	}
	struct sim_client *client = calloc(1, sizeof(*client));
	SIM_CHECK(client, "no memory");
	client->pipe = pipe;
	client->h1 = kh_h1_new(KH_H1_RESPONSES);
	SIM_CHECK(client->h1, "no memory");
	pipe->far = client;
	const struct kh_peer peer = { .pid = 1 };
	sim_trace("down %d: comes to %s", (int)(pipe - sim_pipes), acceptor->config->sandbox);
	begin(client, globex);
	(void)sim_faults_set(true);
	sim.loop->ops->accepted(acceptor, sim_pipe_fd(pipe), &peer);
	(void)sim_faults_set(false);
	return true;
}

static void do_something(struct sim_client *client)
{
	if (sim_one_in(10)) {
		client->phase = PHASE_OVER;
		sim_trace("down %d: goes", (int)(client->pipe - sim_pipes));
		if (sim_one_in(2))
			sim_pipe_reset(client->pipe);
		else
			sim_pipe_end(client->pipe);
		return;
	}
	if (client->phase == PHASE_RAW)
		say(client, "more");
	if (client->phase == PHASE_WEBSOCKET)
		sim_pipe_say(client->pipe,
			     sim_one_in(4) ? "\x88\x82"
					     "mask\x6e\x89"
					   : "\x81\x82"
					     "mask\x05\x08",
			     8);
	if (client->phase != PHASE_REQUESTS || client->n_asked == ASKED || client->stuck)
		return;
	if (client->h2)
		use_streams(client);
	else if (client->n_asked == client->n_answered && sim_one_in(8))
		ask_for_websocket(client);
	else if (client->n_asked == client->n_answered || sim_one_in(4))
		ask_h1(client);
}

bool sim_sandboxes_act(void)
{
	struct sim_client *clients[SIM_PIPES];
	size_t n = 0;

	if (sim.calm)
		return false;
	for (size_t i = 0; i < SIM_PIPES; i++) {
		struct sim_pipe *pipe = &sim_pipes[i];
		struct sim_client *client = pipe->far;
		if (pipe->used && !pipe->up && !pipe->closed && client &&
		    client->phase != PHASE_OVER)
			clients[n++] = client;
	}
	if (n == 0 || sim_one_in(4))
		return come();
	do_something(clients[sim_below(n)]);
	return true;
}

void sim_sandboxes_leave(void)
{
	for (size_t i = 0; i < SIM_PIPES; i++)
		if (sim_pipes[i].used && !sim_pipes[i].up && sim_one_in(2))
			over(sim_pipes[i].far);
}

void sim_sandbox_free(struct sim_pipe *pipe)
{
	struct sim_client *client = pipe->far;

	kh_h1_free(client->h1);
	kh_h2_free(client->h2);
	for (size_t i = 0; i < client->n_asked; i++)
		if (client->asked[i].h2)
			kh_h2_release(client->asked[i].h2);
	free(client);
	pipe->far = NULL;
}

void sim_sandboxes_reset(void)
{
	serials = 0;
}
