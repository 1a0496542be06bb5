/* test_tls_messages.c - messages without content after the handshake, and what they cost */
#include "tls_client.h"

#include <keyhole/base/limits.h>

#include "../../src/tls/stream_internal.h"

/* What this side of a pair sends is made by OpenSSL, with the state of the connection. */
static void update_keys(SSL *ssl, int type, int times)
{
	for (int i = 0; i < times; i++) {
		assert_int_equal(SSL_key_update(ssl, type), 1);
		assert_int_equal(SSL_do_handshake(ssl), 1);
	}
}

static void send_tickets(SSL *ssl, int times)
{
	for (int i = 0; i < times; i++) {
		assert_int_equal(SSL_new_session_ticket(ssl), 1);
		assert_int_equal(SSL_do_handshake(ssl), 1);
	}
}

static void begin(struct pair *p)
{
	pair_init(p, &w);
	pair_accept(p, &w, "api.example.com");
	pair_connect(p, &w, "api.example.com", "messages");
	finish_handshake(p);
	turn_for(&w, 10);
	(void)kh_stream_take_messages(p->up.stream);
}

static void ends_flooded(struct side *side, unsigned most)
{
	TURN_UNTIL(&w, side->end != 0);
	assert_int_equal(side->end, KH_IO_ERROR);
	assert_non_null(strstr(kh_stream_error(side->stream)->text, "without content"));
	assert_int_equal(side->read_bytes, 0);
	assert_in_range(kh_stream_take_messages(side->stream), most, most + 2);
}

static void test_a_sandbox_that_sends_only_key_updates_loses_its_connection(void **state)
{
	static const int types[] = { SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED };
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair p;
		begin(&p);
		update_keys(p.up.stream->ssl, types[i], 60);
		ends_flooded(&p.down, KH_LIMIT_TLS_MESSAGES_DOWN);
		pair_fini(&p);
	}
}

static void test_an_upstream_that_sends_only_messages_loses_its_connection(void **state)
{
	struct pair p;
	(void)state;
	begin(&p);
	update_keys(p.down.stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED, 60);
	ends_flooded(&p.up, KH_LIMIT_TLS_MESSAGES_UP);
	pair_fini(&p);
	begin(&p);
	send_tickets(p.down.stream->ssl, 60);
	ends_flooded(&p.up, KH_LIMIT_TLS_MESSAGES_UP);
	pair_fini(&p);
}

static void test_content_pays_for_messages_and_none_is_lost(void **state)
{
	enum { BYTES = KH_LIMIT_TLS_CONTENT_PER_MESSAGE * 3, TIMES = 30 };
	struct pair p;
	(void)state;
	begin(&p);
	for (size_t i = 1; i <= TIMES; i++) {
		update_keys(p.up.stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED, 1);
		p.up.to_write = i * BYTES;
		kh_stream_watch(p.up.stream, KH_STREAM_WRITABLE | KH_STREAM_READABLE);
		update_keys(p.down.stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED, 1);
		p.down.to_write = i * BYTES;
		kh_stream_watch(p.down.stream, KH_STREAM_WRITABLE | KH_STREAM_READABLE);
		TURN_UNTIL(&w, p.down.read_bytes == i * BYTES && p.up.read_bytes == i * BYTES);
	}
	assert_int_equal(p.down.sum + p.up.sum, 0);
	/* Those that the test had this side send are among them. */
	assert_int_equal(kh_stream_take_messages(p.down.stream), 2 * TIMES);
	assert_int_equal(kh_stream_take_messages(p.down.stream), 0);
	pair_fini(&p);
}

/* A byte of content after each does not. */
static void test_a_little_content_does_not_pay_for_messages(void **state)
{
	struct pair p;
	(void)state;
	begin(&p);
	for (int i = 0; i < 30; i++) {
		update_keys(p.up.stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED, 1);
		assert_int_equal(SSL_write(p.up.stream->ssl, "x", 1), 1);
	}
	TURN_UNTIL(&w, p.down.end != 0);
	assert_int_equal(p.down.end, KH_IO_ERROR);
	assert_in_range(p.down.read_bytes, 1, KH_LIMIT_TLS_MESSAGES_DOWN);
	pair_fini(&p);
}

/* Whatever a read takes of messages, it comes to the content that follows. */
static void test_content_right_after_messages_is_read(void **state)
{
	struct pair p;
	(void)state;
	begin(&p);
	update_keys(p.up.stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED, 2);
	assert_int_equal(SSL_write(p.up.stream->ssl, "x", 1), 1);
	TURN_UNTIL(&w, p.down.read_bytes == 1);
	update_keys(p.up.stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED, 1);
	turn_for(&w, 10);
	assert_int_equal(SSL_write(p.up.stream->ssl, "x", 1), 1);
	TURN_UNTIL(&w, p.down.read_bytes == 2);
	assert_int_equal(p.down.end, 0);
	pair_fini(&p);
}

/* ---- over a pipe, which says only once that it has bytes ---- */

static size_t piece = 1 << 20; /* of what lies there, a read gets so much */

static ssize_t pipe_read(void *pipe, void *bytes, size_t room)
{
	return recv(*(int *)pipe, bytes, room < piece ? room : piece, MSG_DONTWAIT);
}

static ssize_t pipe_write(void *pipe, const void *bytes, size_t len)
{
	return send(*(int *)pipe, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static unsigned pipe_has(const void *pipe)
{
	char byte;
	bool some = recv(*(const int *)pipe, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0;
	return KH_STREAM_WRITABLE | (some ? KH_STREAM_READABLE : 0u);
}

static void pipe_end(void *pipe)
{
	(void)pipe;
}

static const struct kh_pipe_ops pipe_ops = { pipe_read, pipe_write, pipe_has, pipe_end, pipe_end };

static void test_content_after_messages_is_read_where_no_event_follows(void **state)
{
	enum { RECORD_BYTES = 5 + 5 + 1 + 16 };
	struct pair p;
	(void)state;
	p = (struct pair){ 0 };
	int fd = half_init(&p.up);
	p.down.stream = kh_stream_new_over(w.base, &pipe_ops, &fd, on_side, &p.down);
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	for (int i = 0; i < 4000 && !(p.down.done && p.up.done); i++) {
		kh_stream_pipe_changed(p.down.stream);
		turn(&w, 5);
	}
	assert_true(p.down.done && p.up.done);
	turn_for(&w, 10);
	piece = RECORD_BYTES; /* a read ends where a message does */
	update_keys(p.up.stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED, KH_LIMIT_TLS_MESSAGES_DOWN);
	assert_int_equal(SSL_write(p.up.stream->ssl, "x", 1), 1);
	kh_stream_pipe_changed(p.down.stream);
	TURN_UNTIL(&w, p.down.read_bytes == 1);
	assert_int_equal(p.down.end, 0);
	pair_fini(&p);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_sandbox_that_sends_only_key_updates_loses_its_connection),
		T(test_an_upstream_that_sends_only_messages_loses_its_connection),
		T(test_content_pays_for_messages_and_none_is_lost),
		T(test_a_little_content_does_not_pay_for_messages),
		T(test_content_right_after_messages_is_read),
		T(test_content_after_messages_is_read_where_no_event_follows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
