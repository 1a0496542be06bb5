/* test_tls_stream.c - streams: bytes both ways, ends, events */
#include "tls_world.h"

static void test_both_sides_meet_and_say_what_they_speak(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	assert_false(kh_stream_is_tls(p.up.stream));
	assert_null(kh_stream_tls_version(p.up.stream));
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	assert_int_equal(p.down.calls + p.up.calls, 0); /* nothing from inside the calls */
	finish_handshake(&p);
	assert_string_equal(kh_stream_tls_version(p.up.stream), "TLSv1.3");
	assert_null(kh_stream_sni_mismatch(p.down.stream));
	pair_fini(&p);
}

static void test_large_transfers_go_both_ways_at_once_unchanged(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	p.down.to_write = 9 * 1000 * 1000 + 1;
	p.up.to_write = 7 * 1000 * 1000 + 3;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	/* While writing, both also read. */
	TURN_UNTIL(&w, p.down.read_bytes == p.up.to_write && p.up.read_bytes == p.down.to_write);
	assert_int_equal(p.down.sum, 0);
	assert_int_equal(p.up.sum, 0);
	pair_fini(&p);
}

static void test_a_reader_that_rests_holds_the_writer_back_and_loses_nothing(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	p.down.to_write = 5 * 1000 * 1000;
	p.up.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	turn_for(&w, 100);
	size_t held = p.down.written;
	assert_true(held < p.down.to_write);
	assert_int_equal(p.up.read_bytes, 0);
	turn_for(&w, 50);
	assert_int_equal(p.down.written, held);
	p.up.stop_reading = false;
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	TURN_UNTIL(&w, p.up.read_bytes == p.down.to_write);
	assert_int_equal(p.up.sum, 0);
	pair_fini(&p);
}

/* Reads three bytes an event and counts events. */
struct sipper {
	unsigned events;
	size_t len;
	char all[64];
};

static void on_sip(struct kh_stream *stream, unsigned events, void *arg)
{
	struct sipper *sipper = arg;
	size_t got = 0;
	if (!(events & KH_STREAM_READABLE))
		return;
	sipper->events++;
	assert_true(sipper->len + 3 < sizeof sipper->all);
	assert_int_equal(kh_stream_read(stream, sipper->all + sipper->len, 3, &got), KH_IO_OK);
	sipper->len += got;
}

static void test_readable_is_level_triggered_over_decrypted_bytes_and_never_spurious(void **state)
{
	struct pair p;
	struct sipper sipper = { 0 };
	size_t n;
	(void)state;
	pair_init(&p, &w);
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	kh_stream_set_callback(p.down.stream, on_sip, &sipper);
	kh_stream_watch(p.down.stream, KH_STREAM_READABLE);
	turn_for(&w, 20);
	assert_int_equal(sipper.events, 0);
	assert_int_equal(kh_stream_write(p.up.stream, "abcdefghij", 10, &n), KH_IO_OK);
	assert_int_equal(kh_stream_write(p.up.stream, "klmnopqrst", 10, &n), KH_IO_OK);
	TURN_UNTIL(&w, sipper.len == 20);
	turn_for(&w, 30);
	assert_string_equal(sipper.all, "abcdefghijklmnopqrst");
	assert_int_equal(sipper.events, 8); /* 3+3+3+1 twice: each event had bytes */
	/* Unwatched, it is silent; watched again, it tells. */
	kh_stream_watch(p.down.stream, 0);
	assert_int_equal(kh_stream_write(p.up.stream, "uvw", 3, &n), KH_IO_OK);
	turn_for(&w, 30);
	assert_int_equal(sipper.events, 8);
	kh_stream_watch(p.down.stream, KH_STREAM_READABLE);
	TURN_UNTIL(&w, sipper.events == 9);
	pair_fini(&p);
}

static void test_a_record_cut_in_half_neither_wakes_nor_spins(void **state)
{
	struct pair p;
	struct sipper sipper = { 0 };
	int raw[2];
	(void)state;
	/* A man in the middle that holds the second half of a record back. */
	pair_init(&p, &w);
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, raw), 0);
	/* Put the pair of sockets between them: up's descriptor now leads to raw[0]. */
	assert_true(dup2(raw[0], p.up_fd) >= 0);
	int down_end = dup(p.down_fd);
	assert_true(down_end >= 0);
	int cut[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, cut), 0);
	kh_stream_watch(p.down.stream, 0);
	turn_for(&w, 5);
	assert_true(dup2(cut[0], p.down_fd) >= 0);
	kh_stream_set_callback(p.down.stream, on_sip, &sipper);
	kh_stream_watch(p.down.stream, KH_STREAM_READABLE);

	size_t n;
	char record[256];
	assert_int_equal(kh_stream_write(p.up.stream, "xyz", 3, &n), KH_IO_OK);
	ssize_t len = read(raw[1], record, sizeof record);
	assert_true(len > 10);
	assert_int_equal(write(cut[1], record, 9), 9);
	turn_for(&w, 50);
	assert_int_equal(sipper.events, 0);
	assert_int_equal(write(cut[1], record + 9, (size_t)len - 9), len - 9);
	TURN_UNTIL(&w, sipper.events == 1);
	assert_string_equal(sipper.all, "xyz");
	pair_fini(&p);
	close(raw[0]);
	close(raw[1]);
	close(cut[0]);
	close(cut[1]);
	close(down_end);
}

/* ---- ends ---- */

static void test_close_notify_is_an_end_and_its_absence_is_not(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair p;
		pair_init(&p, &w);
		p.down.to_write = 100 * 1000;
		pair_accept(&p, &w, "api.example.com");
		pair_connect(&p, &w, "api.example.com", NULL);
		TURN_UNTIL(&w, p.up.read_bytes == p.down.to_write);
		if (i == 0)
			kh_stream_shutdown_write(p.down.stream);
		else
			assert_int_equal(shutdown(p.down_fd, SHUT_WR), 0);
		TURN_UNTIL(&w, p.up.end != 0);
		assert_int_equal(p.up.end, i == 0 ? KH_IO_EOF : KH_IO_TRUNCATED);
		/* The end stays the end. */
		char byte;
		size_t got;
		assert_int_equal(kh_stream_read(p.up.stream, &byte, 1, &got), p.up.end);
		/* The other direction still works in both cases. */
		p.up.to_write = 50 * 1000;
		kh_stream_watch(p.up.stream, KH_STREAM_WRITABLE);
		TURN_UNTIL(&w, p.down.read_bytes == p.up.to_write);
		assert_int_equal(p.down.sum, 0);
		pair_fini(&p);
	}
}

static void test_what_was_written_arrives_though_the_stream_is_freed_at_once(void **state)
{
	struct pair p;
	size_t put = 0;
	(void)state;
	pair_init(&p, &w);
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	/* Unread bytes of the other side must not turn the close into a reset. */
	assert_int_equal(kh_stream_write(p.up.stream, "unread request body", 19, &put), KH_IO_OK);
	uint8_t bytes[3000];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = pattern_at(i);
	assert_int_equal(kh_stream_write(p.down.stream, bytes, sizeof bytes, &put), KH_IO_OK);
	assert_int_equal(put, sizeof bytes);
	kh_stream_free(p.down.stream);
	p.down.stream = NULL;
	TURN_UNTIL(&w, p.up.end != 0);
	assert_int_equal(p.up.end, KH_IO_EOF);
	assert_int_equal(p.up.read_bytes, sizeof bytes);
	assert_int_equal(p.up.sum, 0);
	pair_fini(&p);
}

static void test_shutdown_behind_a_full_socket_is_sent_when_there_is_room(void **state)
{
	struct pair p;
	size_t put = 0, sent = 0;
	char bytes[16384] = { 0 };
	(void)state;
	pair_init(&p, &w);
	p.up.stop_reading = true;
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	/* Leave no room for the alert: fill the raw socket behind whole records. */
	while (kh_stream_write(p.down.stream, bytes, 1, &put) == KH_IO_OK)
		sent += put;
	assert_true(sent > 0);
	p.up.stop_reading = false;
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	TURN_UNTIL(&w, p.up.read_bytes == sent);
	/* The byte that was left over has to be given again before anything else may follow. */
	assert_int_equal(kh_stream_write(p.down.stream, bytes, 1, &put), KH_IO_OK);
	kh_stream_shutdown_write(p.down.stream);
	TURN_UNTIL(&w, p.up.end != 0);
	assert_int_equal(p.up.end, KH_IO_EOF);
	assert_int_equal(p.up.read_bytes, sent + 1);
	pair_fini(&p);
}

static void test_the_callback_may_free_the_stream_at_any_event(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct pair p;
		pair_init(&p, &w);
		if (i == 0)
			p.down.free_on_event = true; /* WANTS_LEAF */
		pair_accept(&p, &w, i == 0 ? "never.example.com" : "api.example.com");
		pair_connect(&p, &w, i == 1 ? "wrong.example.com" : "api.example.com", NULL);
		if (i == 1)
			p.up.free_on_event = true; /* HANDSHAKE_FAILED */
		if (i == 2)
			p.up.free_on_event = true; /* HANDSHAKE_DONE */
		if (i == 3) {
			p.down.to_write = 10;
			finish_handshake(&p);
			p.up.free_on_event = true; /* READABLE */
		}
		TURN_UNTIL(&w, !p.down.stream || !p.up.stream);
		turn_for(&w, 20);
		pair_fini(&p);
	}
}

/* ---- idle connections ---- */

static void test_an_idle_connection_is_alive_until_something_comes(void **state)
{
	struct pair p;
	size_t n;
	(void)state;
	/* The ticket that follows the handshake is nothing to read. */
	pair_init(&p, &w);
	p.up.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", "k");
	finish_handshake(&p);
	turn_for(&w, 10);
	assert_true(kh_stream_is_alive(p.up.stream));
	assert_true(kh_stream_is_alive(p.up.stream));
	unsigned calls = p.up.calls;
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	turn_for(&w, 20);
	assert_int_equal(p.up.calls, calls);
	kh_stream_watch(p.up.stream, 0);
	assert_int_equal(kh_stream_write(p.down.stream, "x", 1, &n), KH_IO_OK);
	assert_false(kh_stream_is_alive(p.up.stream));
	assert_true(kh_stream_is_alive(p.down.stream));
	kh_stream_shutdown_write(p.up.stream);
	assert_false(kh_stream_is_alive(p.down.stream));
	pair_fini(&p);
	/* Half a record may be of anything: an answer, or the end. */
	pair_init(&p, &w);
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", "half");
	finish_handshake(&p);
	turn_for(&w, 10);
	assert_true(kh_stream_is_alive(p.up.stream));
	assert_false(kh_stream_has_news(p.up.stream));
	assert_int_equal(write(kh_stream_fd(p.down.stream), "\x15\x03\x03", 3), 3);
	assert_true(kh_stream_has_news(p.up.stream));
	assert_false(kh_stream_is_alive(p.up.stream));
	assert_false(kh_stream_is_alive(p.up.stream)); /* it was read by now */
	assert_false(kh_stream_has_news(p.up.stream));
	assert_int_equal(write(kh_stream_fd(p.down.stream), "\0", 1), 1);
	assert_true(kh_stream_has_news(p.up.stream));
	pair_fini(&p);
	/* Plain ones too. */
	pair_init(&p, &w);
	assert_true(kh_stream_is_alive(p.up.stream));
	assert_int_equal(kh_stream_write(p.down.stream, "x", 1, &n), KH_IO_OK);
	assert_false(kh_stream_is_alive(p.up.stream));
	kh_stream_shutdown_write(p.up.stream);
	assert_false(kh_stream_is_alive(p.down.stream));
	pair_fini(&p);
}

static void test_a_plain_stream_reads_writes_ends_and_fails(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	p.down.to_write = 3 * 1000 * 1000;
	p.down.close_when_written = true;
	kh_stream_watch(p.down.stream, KH_STREAM_WRITABLE);
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	TURN_UNTIL(&w, p.up.end != 0);
	assert_int_equal(p.up.end, KH_IO_EOF);
	assert_int_equal(p.up.read_bytes, p.down.to_write);
	assert_int_equal(p.up.sum, 0);
	kh_stream_free(p.down.stream);
	p.down.stream = NULL;
	size_t n;
	assert_int_equal(kh_stream_write(p.up.stream, "x", 1, &n), KH_IO_ERROR);
	assert_int_equal(kh_stream_error(p.up.stream)->code, KH_ERR_UP_CLOSED);
	pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_both_sides_meet_and_say_what_they_speak),
		T(test_large_transfers_go_both_ways_at_once_unchanged),
		T(test_a_reader_that_rests_holds_the_writer_back_and_loses_nothing),
		T(test_readable_is_level_triggered_over_decrypted_bytes_and_never_spurious),
		T(test_a_record_cut_in_half_neither_wakes_nor_spins),
		T(test_close_notify_is_an_end_and_its_absence_is_not),
		T(test_what_was_written_arrives_though_the_stream_is_freed_at_once),
		T(test_shutdown_behind_a_full_socket_is_sent_when_there_is_room),
		T(test_the_callback_may_free_the_stream_at_any_event),
		T(test_an_idle_connection_is_alive_until_something_comes),
		T(test_a_plain_stream_reads_writes_ends_and_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
