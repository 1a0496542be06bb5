/*
 * fuzz_h2.c - frames in, messages out, both roles: however cut, the same events; and every message
 * can be written as HTTP/1 and is read back there as what it was
 *
 * The first byte says the role (bit 0) and who pauses (bit 1); the rest comes behind the preface.
 */
#include "h1_trace.h"

#include <keyhole/http/h2.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REQUESTS = 8 };

struct run {
	struct kh_h2 *h2;
	struct kh_buf log;
	struct kh_buf
		content[64]; /* by stream: counts at its END, since a reset may cut it anywhere */
	bool server;
	bool pauses;
	bool goodbye;
	struct kh_h2_stream *owned[1024];
	size_t n_owned;
};

/* Through the HTTP/1 codec: nothing in it means anything else there. */
static void check_as_h1(const struct kh_message *m)
{
	bool request = m->method.len > 0;
	struct kh_h1 *h1 = kh_h1_new(request ? KH_H1_REQUESTS : KH_H1_RESPONSES);
	struct kh_slice body;
	struct kh_buf out;
	size_t n = 0;

	kh_buf_init(&out, 1 << 20);
	if (request) {
		CHECK(kh_h1_put_request_line(&out, m->method, m->target));
		CHECK(kh_h1_put_field(&out, KH_SLICE("Host"), m->host));
		n++;
	} else {
		CHECK(kh_h1_put_status_line(&out, m->status, m->reason));
	}
	for (size_t i = 0; i < m->n_fields; i++) {
		if (kh_message_is_hop_field(m, &m->fields[i]))
			continue;
		CHECK(kh_h1_put_field(&out, m->fields[i].name, m->fields[i].value));
		n++;
	}
	CHECK(kh_h1_put_end(&out));
	struct kh_slice in = kh_buf_view(&out);
	/* Both readers have the same caps, but for the line's ends. */
	if (h1 && n <= KH_LIMIT_FIELDS && in.len < KH_LIMIT_HEAD_BYTES - 1024 &&
	    m->target.len < KH_LIMIT_LINE_BYTES / 2) {
		enum kh_h1_event event = kh_h1_feed(h1, &in, &body);
		const struct kh_message *again = kh_h1_message(h1);

		if (event == KH_H1_HEAD) {
			CHECK(again->n_fields == n && in.len == 0);
			CHECK(kh_slice_eq(again->method, m->method));
			CHECK(kh_slice_eq(again->target, m->target));
			CHECK(again->status == m->status);
			CHECK(!request || again->host.len == m->host.len);
		} else {
			CHECK(event == KH_H1_ERROR);
			CHECK(kh_h1_error(h1)->code == KH_ERR_REQUEST_HEAD_TOO_LARGE ||
			      kh_h1_error(h1)->code == KH_ERR_RESPONSE_HEAD_TOO_LARGE);
		}
	}
	kh_h1_free(h1);
	kh_buf_fini(&out);
}

static void log_fields(struct run *r, const struct kh_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kh_buf_append_slice(&r->log, fields[i].name);
		kh_buf_append_str(&r->log, "=");
		kh_buf_append_slice(&r->log, fields[i].value);
		kh_buf_append_str(&r->log, "\n");
	}
}

static struct kh_buf *content_of(struct run *r, uint32_t id)
{
	return &r->content[id / 2 % (sizeof(r->content) / sizeof(*r->content))];
}

static void on_event(const struct kh_h2_event *event, void *arg)
{
	struct run *r = arg;
	uint32_t id = event->stream ? kh_h2_id(event->stream) : 0;

	if (event->kind == KH_H2_BODY) {
		CHECK(event->body.len > 0 && id > 0);
		kh_buf_append_slice(content_of(r, id), event->body);
		return;
	}
	r->goodbye |= event->kind == KH_H2_GOAWAY;
	kh_buf_printf(&r->log, "\n%d %u %d\n", (int)event->kind, id,
		      event->err ? (int)event->err->code : 0);
	if (event->kind == KH_H2_HEAD) {
		const struct kh_message *m = event->message;

		CHECK(m->h2 && (m->method.len > 0) == r->server);
		CHECK(m->n_fields <= KH_LIMIT_FIELDS && m->content_length <= INT64_MAX);
		CHECK(!r->server || m->host.len > 0);
		kh_buf_append_slice(&r->log, m->method);
		kh_buf_append_slice(&r->log, m->target);
		kh_buf_append_slice(&r->log, m->host);
		kh_buf_printf(&r->log, "%u %d\n", m->status, (int)m->framing);
		log_fields(r, m->fields, m->n_fields);
		check_as_h1(m);
		if (r->pauses)
			kh_h2_pause(event->stream);
	}
	if (r->server && (event->kind == KH_H2_HEAD || event->kind == KH_H2_REFUSED)) {
		if (r->n_owned < sizeof(r->owned) / sizeof(*r->owned))
			r->owned[r->n_owned++] = event->stream;
		else
			kh_h2_release(event->stream);
	}
	if (event->kind == KH_H2_END) {
		kh_buf_append_slice(&r->log, kh_buf_view(content_of(r, id)));
		kh_buf_clear(content_of(r, id));
	}
	log_fields(r, event->trailers, event->n_trailers);
}

static void run(struct run *r, struct kh_slice in, uint8_t options, size_t piece)
{
	const struct kh_h2_settings settings = { .role = options & 1 ? KH_H2_CLIENT : KH_H2_SERVER,
						 .max_streams = 16,
						 .stream_window_bytes = 65535,
						 .connection_window_bytes = 1 << 20,
						 .extended_connect = options & 4 };
	static const char *const methods[] = { "GET", "HEAD", "POST", "CONNECT" };
	struct kh_buf out;
	bool alive = true;

	*r = (struct run){ .server = settings.role == KH_H2_SERVER, .pauses = options & 2 };
	kh_buf_init(&r->log, 64 << 20);
	for (size_t i = 0; i < sizeof(r->content) / sizeof(*r->content); i++)
		kh_buf_init(&r->content[i], 64 << 20);
	kh_buf_init(&out, 64 << 20);
	r->h2 = kh_h2_new(&settings, on_event, r);
	CHECK(r->h2 && kh_h2_drain(r->h2, &out));
	if (r->server)
		alive = kh_h2_feed(r->h2, KH_SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0);
	alive = alive && kh_h2_feed(r->h2, KH_SLICE("\0\0\0\4\0\0\0\0\0"), 0);
	CHECK(alive);
	for (size_t i = 0; !r->server && i < REQUESTS; i++) {
		bool connect = i % 4 == 3;
		const struct kh_h2_request request = {
			.method = kh_slice_str(methods[i % 4]),
			.scheme = connect ? KH_SLICE("") : KH_SLICE("https"),
			.authority = KH_SLICE("a.example"),
			.path = connect ? KH_SLICE("") : KH_SLICE("/"),
		};
		struct kh_h2_stream *stream =
			kh_h2_put_request(r->h2, &request, NULL, 0, 0, i % 4 < 2);

		CHECK(stream);
		r->owned[r->n_owned++] = stream;
	}
	CHECK(kh_h2_drain(r->h2, &out));
	while (in.len > 0 && alive) {
		struct kh_slice part = kh_slice_sub(in, 0, piece ? piece : in.len);

		alive = kh_h2_feed(r->h2, part, 0);
		in = kh_slice_sub(in, part.len, in.len);
	}
	for (size_t i = 0; r->server && i < r->n_owned; i++) {
		kh_h2_resume(r->owned[i]);
		if (kh_h2_put_response(r->owned[i], 200, NULL, 0, false)) {
			(void)kh_h2_put_data(r->owned[i], KH_SLICE("content"));
			(void)kh_h2_put_end(r->owned[i], NULL, 0);
			if (i % 3 == 0) {
				CHECK(kh_h2_take_back(r->owned[i]));
				CHECK(kh_h2_put_response(r->owned[i], 502, NULL, 0, i % 2));
			}
		}
	}
	for (size_t i = 0; !r->server && i < r->n_owned; i++)
		kh_h2_resume(r->owned[i]);
	(void)kh_h2_drain(r->h2, &out);
	/* Half of them before the connection, half behind it. */
	for (size_t i = 0; i < r->n_owned; i += 2)
		kh_h2_release(r->owned[i]);
	(void)kh_h2_drain(r->h2, &out);
	CHECK(kh_h2_kept_bytes(r->h2) < (size_t)64 * 1024 * 1024);
	kh_h2_free(r->h2);
	for (size_t i = 1; i < r->n_owned; i += 2)
		kh_h2_release(r->owned[i]);
	kh_buf_fini(&out);
	for (size_t i = 0; i < sizeof(r->content) / sizeof(*r->content); i++)
		kh_buf_fini(&r->content[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run whole, cut;

	if (size == 0)
		return 0;
	run(&whole, kh_slice_of(data + 1, size - 1), data[0], 0);
	run(&cut, kh_slice_of(data + 1, size - 1), data[0], 3);
	/* Behind a goodbye nghttp2 may or may not look at what else there is. */
	if (!whole.goodbye)
		CHECK(kh_slice_eq(kh_buf_view(&whole.log), kh_buf_view(&cut.log)));
	kh_buf_fini(&whole.log);
	kh_buf_fini(&cut.log);
	return 0;
}
