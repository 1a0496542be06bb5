/* test_tls_chaos.c - streams used in every order: nothing is lost, nothing comes after the end */
#include "tls_pair.h"

static struct world w;
static uint32_t seed;

static unsigned dice(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 16) % n;
}

/* One end: what it has sent and got, and whether it still lives. */
struct end {
	struct kh_stream *stream;
	size_t sent, got, to_send;
	bool open, finished, saw_end;
	bool freed;
	enum kh_io how;
	bool reckless; /* frees itself at any time */
};

static void let_go(struct end *e)
{
	kh_stream_free(e->stream);
	e->stream = NULL;
	e->freed = true;
}

static void take_some(struct end *e)
{
	uint8_t bytes[9000];
	for (unsigned i = 0; i < 1 + dice(3) && e->stream; i++) {
		size_t got = 0, room = 1 + dice(sizeof bytes);
		enum kh_io io = kh_stream_read(e->stream, bytes, room, &got);
		if (io == KH_IO_AGAIN)
			return;
		if (io != KH_IO_OK) {
			e->saw_end = true;
			e->how = io;
			return;
		}
		for (size_t k = 0; k < got; k++)
			assert_int_equal(bytes[k], pattern_at(e->got + k));
		e->got += got;
	}
}

static void give_some(struct end *e)
{
	static uint8_t bytes[40000];
	if (e->finished)
		return;
	size_t left = e->to_send - e->sent, put = 0;
	size_t n = left < sizeof bytes ? left : sizeof bytes;
	for (size_t k = 0; k < n; k++)
		bytes[k] = pattern_at(e->sent + k);
	if (n > 0 && kh_stream_write(e->stream, bytes, n, &put) == KH_IO_ERROR)
		e->finished = true;
	e->sent += put;
	if (!e->finished && e->sent == e->to_send && dice(2)) {
		kh_stream_shutdown_write(e->stream);
		e->finished = true;
	}
}

static void on_chaos(struct kh_stream *stream, unsigned events, void *arg)
{
	struct end *e = arg;
	assert_false(e->freed);
	assert_ptr_equal(stream, e->stream);
	if (events & KH_STREAM_HANDSHAKE_DONE)
		e->open = true;
	if (events & KH_STREAM_HANDSHAKE_FAILED)
		e->saw_end = e->finished = true;
	if (e->reckless && dice(12) == 0) {
		let_go(e);
		return;
	}
	if (events & KH_STREAM_READABLE) {
		assert_true(e->open);
		take_some(e);
	}
	if (events & KH_STREAM_WRITABLE)
		give_some(e);
	unsigned watch = 0;
	if (!e->saw_end && dice(4))
		watch |= KH_STREAM_READABLE;
	if (!e->finished && dice(4))
		watch |= KH_STREAM_WRITABLE;
	kh_stream_watch(stream, watch);
	if (dice(20) == 0)
		(void)kh_stream_is_alive(stream);
}

static struct kh_stream *new_end(struct end *e, int fd, bool reckless)
{
	*e = (struct end){ .to_send = dice(4) ? dice(300000) : 0, .reckless = reckless };
	e->stream = kh_stream_new(w.base, fd, on_chaos, e);
	assert_non_null(e->stream);
	return e->stream;
}

/* What stopped watching is set going again, as a timer or the other side would. */
static void nudge(struct end *e)
{
	if (e->stream && e->open)
		kh_stream_watch(e->stream, (e->saw_end ? 0u : KH_STREAM_READABLE) |
						   (e->finished ? 0u : KH_STREAM_WRITABLE));
}

static bool is_over(const struct end *e)
{
	return e->freed || (e->saw_end && e->finished);
}

static void run_one(bool tls, bool reckless)
{
	struct kh_host host = host_of("api.example.com");
	struct end a, b;
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	new_end(&a, fds[0], reckless);
	new_end(&b, fds[1], reckless && dice(2));
	if (tls) {
		assert_true(kh_stream_accept_tls(a.stream, w.down, KH_SLICE(""), &host, 5000));
		assert_true(kh_stream_connect_tls(b.stream, w.up, &host, w.sessions, "k", 5000));
	} else {
		a.open = b.open = true;
	}
	for (int i = 0; i < 4000 && !(is_over(&a) && is_over(&b)); i++) {
		if (dice(3) == 0)
			nudge(dice(2) ? &a : &b);
		turn(&w, 1);
		/* Once everything is written, an end that never said so says it now. */
		for (int k = 0; k < 2; k++) {
			struct end *e = k ? &a : &b;
			if (e->stream && e->open && !e->finished && e->sent == e->to_send) {
				kh_stream_shutdown_write(e->stream);
				e->finished = true;
			}
		}
	}
	assert_true(is_over(&a) && is_over(&b));
	if (!reckless) {
		assert_int_equal(a.got, b.to_send);
		assert_int_equal(b.got, a.to_send);
		assert_int_equal(a.how, KH_IO_EOF);
		assert_int_equal(b.how, KH_IO_EOF);
	}
	if (!a.freed)
		let_go(&a);
	if (!b.freed)
		let_go(&b);
	turn(&w, 1);
}

static int setup(void **state)
{
	(void)state;
	world_init(&w);
	world_trust(&w, kh_ca_pem(w.ca));
	world_mint(&w, "api.example.com");
	seed = 20261120;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_fini(&w);
	return 0;
}

static void test_all_that_was_sent_arrives_in_whatever_order_things_are_done(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++)
		run_one(i % 4 != 0, false);
}

static void test_ends_that_vanish_at_any_moment_harm_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++)
		run_one(i % 4 != 0, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_all_that_was_sent_arrives_in_whatever_order_things_are_done, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_ends_that_vanish_at_any_moment_harm_nothing,
						setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
