/*
 * fuzz_h2_up.c - an upstream's frames through streams and exchanges, down to a client that is held
 * to the protocol
 *
 * Nothing that the upstream writes may make keyhole break HTTP/2 towards the sandbox, give one
 * message two ends, leave an exchange without its end in the journal, or leave anything behind.
 * Connections beyond the first lead to a good server: what is tried again arrives.
 *
 * The first byte says how: in pieces (bit 0), to a client that pauses (bit 1), gives up half-way
 * (bit 2), takes little (bit 3), with an hour's silence (bit 4) or the connection's end (bit 5)
 * behind.
 */
/* wrap: kh_up_acquire */
#include "h2_glue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	INPUT_BYTES = 64 * 1024,
	TURNS = 6,
	PIECE_BYTES = 23,
	LITTLE_BYTES = 2000,
	REQUESTS = 8,
};

struct asked {
	struct kh_h2_stream *h2; /* NULL: over */
	unsigned interim;
	bool head, end;
	uint64_t bytes;
};

struct client {
	struct kh_h2 *h2;
	struct asked asked[REQUESTS];
	bool pauses;
};

static void on_event(const struct kh_h2_event *event, void *arg)
{
	struct client *client = arg;
	struct asked *asked = event->user;

	CHECK(event->kind != KH_H2_ERROR);
	CHECK(event->kind != KH_H2_RESET || !event->err ||
	      event->err->code != KH_ERR_RESPONSE_MALFORMED);
	if (!asked)
		return;
	switch (event->kind) {
	case KH_H2_HEAD:
		CHECK(!asked->head && !asked->end);
		if (event->message->status < 200)
			CHECK(++asked->interim <= KH_LIMIT_INTERIM_RESPONSES);
		else
			asked->head = true;
		if (asked->head && client->pauses)
			kh_h2_pause(event->stream);
		break;
	case KH_H2_BODY:
		CHECK(asked->head && !asked->end);
		asked->bytes += event->body.len;
		break;
	case KH_H2_END:
		CHECK(asked->head && !asked->end);
		asked->end = true;
		kh_h2_release(event->stream);
		asked->h2 = NULL;
		break;
	case KH_H2_RESET:
		CHECK(!asked->end);
		kh_h2_release(event->stream);
		asked->h2 = NULL;
		break;
	case KH_H2_REFUSED:
	case KH_H2_WRITABLE:
	case KH_H2_GOAWAY:
	case KH_H2_SETTINGS:
	case KH_H2_PONG:
	case KH_H2_ERROR:
		break;
	}
}

static void take_turns(struct client *client)
{
	for (int i = 0; i < TURNS; i++) {
		bool moved = glue.down.stream && glue_pump(client->h2, &glue.down);

		moved |= glue_turn();
		if (!moved)
			break;
	}
}

static void ask_all(struct client *client)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "POST" };
	static const struct kh_field trailers[] = { { KH_SLICE_INIT("x-sum"),
						      KH_SLICE_INIT("7") } };

	for (size_t i = 0; i < REQUESTS; i++) {
		bool whole = i % 4 < 2;
		const struct kh_h2_request request = {
			.method = kh_slice_str(methods[i % 4]),
			.scheme = KH_SLICE("https"),
			.authority = KH_SLICE("a.example"),
			.path = KH_SLICE("/"),
		};
		struct kh_h2_stream *stream =
			kh_h2_put_request(client->h2, &request, NULL, 0, 0, whole);

		CHECK(stream);
		client->asked[i].h2 = stream;
		kh_h2_set_user(stream, &client->asked[i]);
		if (whole)
			continue;
		CHECK(kh_h2_put_data(stream, KH_SLICE("content")));
		if (i % 4 == 2) /* the other kind stays open */
			CHECK(kh_h2_put_end(stream, trailers, 1));
	}
}

static void give_up_some(struct client *client)
{
	for (size_t i = 0; i < REQUESTS; i += 3) {
		if (client->asked[i].h2)
			kh_h2_release(client->asked[i].h2);
		client->asked[i].h2 = NULL;
	}
}

static void resume_all(struct client *client)
{
	client->pauses = false;
	for (size_t i = 0; i < REQUESTS; i++)
		if (client->asked[i].h2)
			kh_h2_resume(client->asked[i].h2);
}

/* The upstream says it. */
static void say(struct client *client, struct kh_slice bytes)
{
	struct glue_end *end = &glue.fars[0].end;

	CHECK(kh_buf_append_slice(&end->in, bytes));
	glue_changed(end);
	take_turns(client);
	kh_buf_clear(&end->out);
	glue_changed(end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct kh_h2_settings settings = { .role = KH_H2_CLIENT,
						 .stream_window_bytes = 65535,
						 .connection_window_bytes = 1 << 20 };
	struct client client = { 0 };

	if (size == 0 || size > INPUT_BYTES)
		return 0;
	uint8_t how = data[0];
	struct kh_slice in = kh_slice_of(data + 1, size - 1);
	size_t half = in.len / 2;

	glue_begin(true);
	glue_enter_tunnel("a.example");
	client.pauses = how & 2;
	client.h2 = kh_h2_new(&settings, on_event, &client);
	CHECK(client.h2);
	take_turns(&client); /* both have said what they allow */
	ask_all(&client);
	take_turns(&client);
	CHECK(glue.n_fars >= 1);
	if (how & 8)
		glue.down.room = LITTLE_BYTES;
	say(&client, KH_SLICE("\0\0\0\4\0\0\0\0\0"));
	while (in.len > 0 && glue.fars[0].end.stream) {
		struct kh_slice piece = kh_slice_sub(in, 0, how & 1 ? PIECE_BYTES : in.len);

		say(&client, piece);
		in = kh_slice_sub(in, piece.len, in.len);
		if ((how & 4) && in.len <= half) {
			how &= (uint8_t)~4u;
			give_up_some(&client);
		}
	}
	resume_all(&client);
	take_turns(&client);
	if (how & 16)
		glue_let_time_pass();
	if (how & 32) {
		glue.fars[0].end.in_ended = true;
		glue_changed(&glue.fars[0].end);
	}
	take_turns(&client);
	glue_finish();
	kh_h2_free(client.h2);
	for (size_t i = 0; i < REQUESTS; i++)
		if (client.asked[i].h2)
			kh_h2_release(client.asked[i].h2);
	return 0;
}
