/* wrap: kh_h2_waiting_bytes kh_exchange_timed_out */
/* test_mux_time.c - when a stream of a sandbox's HTTP/2 connection has waited too long */

#include "downstream/session_internal.h"

#include "unit.h"

enum { TOTAL_MS = 10000, STALL_MS = 2000, BEGAN_MS = 1000 };

static unsigned n_timed_out;
static size_t waiting_bytes;

size_t __wrap_kh_h2_waiting_bytes(const struct kh_h2_stream *stream);
size_t __wrap_kh_h2_waiting_bytes(const struct kh_h2_stream *stream)
{
	(void)stream;
	return waiting_bytes;
}

void __wrap_kh_exchange_timed_out(struct kh_exchange *x);
void __wrap_kh_exchange_timed_out(struct kh_exchange *x)
{
	x->down->exchange = NULL;
	n_timed_out++;
}

/* A session with one stream, whose response is on its way. */
struct world {
	struct kh_config config;
	struct kh_generation gen;
	struct kh_loop loop;
	struct kh_session session;
	struct kh_mux mux;
	struct kh_down_h2 stream;
	struct kh_exchange x;
};

static void begin(struct world *w)
{
	*w = (struct world){ .config.timeouts = { .total = TOTAL_MS, .stall = STALL_MS } };
	w->gen.config = &w->config;
	w->loop.gen = &w->gen;
	w->session.side.loop = &w->loop;
	w->session.mux = &w->mux;
	w->mux.session = &w->session;
	w->mux.n_streams = 1;
	kh_list_init(&w->mux.streams);
	kh_list_append(&w->mux.streams, &w->stream.link);
	w->stream.loop = &w->loop;
	w->stream.stream.session = &w->session;
	w->stream.stream.exchange = &w->x;
	w->x.down = &w->stream.stream;
	w->x.side = &w->session.side;
	w->x.state = KH_EXCHANGE_RELAY;
	w->x.request_state = KH_REQUEST_DONE;
	w->x.answer_state = KH_ANSWER_BEGUN;
	w->x.started_ms = w->x.progress_ms = BEGAN_MS;
	n_timed_out = 0;
	waiting_bytes = 1000;
}

/* Looked at whenever it wants to be, for so long. Return: when its exchange was ended, or 0. */
static uint64_t ends(struct world *w, bool moves)
{
	w->loop.now_ms = BEGAN_MS;
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t due = kh_exchange_deadline(&w->x);
		w->loop.now_ms = due > w->loop.now_ms ? due : w->loop.now_ms + 1;
		waiting_bytes += moves;
		kh_mux_timed_out(&w->session);
		if (n_timed_out > 0)
			return w->loop.now_ms;
	}
	return 0;
}

static void what_moves_outlasts_stall_and_ends_at_total(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	assert_int_equal(ends(&w, true), BEGAN_MS + TOTAL_MS);
}

static void what_does_not_move_ends_at_stall(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	w.stream.waiting_bytes = waiting_bytes;
	assert_int_equal(ends(&w, false), BEGAN_MS + STALL_MS);
}

static void whatever_it_waits_for_ends_at_total(void **state)
{
	static const enum kh_exchange_state waits[] = { KH_EXCHANGE_BUFFER, KH_EXCHANGE_SECRET,
							KH_EXCHANGE_CONNECT, KH_EXCHANGE_RELAY };
	struct world w;

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
		begin(&w);
		w.x.state = waits[i];
		w.x.progress_ms = BEGAN_MS + TOTAL_MS - 1;
		assert_int_equal(kh_exchange_deadline(&w.x), BEGAN_MS + TOTAL_MS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_moves_outlasts_stall_and_ends_at_total),
		cmocka_unit_test(what_does_not_move_ends_at_stall),
		cmocka_unit_test(whatever_it_waits_for_ends_at_total),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
