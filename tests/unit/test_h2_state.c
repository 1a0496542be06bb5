/* test_h2_state.c - the states of an HTTP/2 connection and of its streams: steps, and faults */
#include "h2_pair.h"
#include "machine_steps.h"

#include <http/h2_internal.h>

/* A stream of no connection is enough to try its setters: nothing has to be ended. */
#define STREAM_STEPS(x) \
	static bool make_##x(unsigned from, unsigned to, bool *said) \
	{ \
		struct kh_h2_stream stream = { .x = (enum kh_h2_##x)from }; \
\
		*said = kh_h2_set_##x(&stream, (enum kh_h2_##x)to); \
		assert_true((unsigned)stream.x == to || (unsigned)stream.x == from); \
		return (unsigned)stream.x == to; \
	}
STREAM_STEPS(life)
STREAM_STEPS(hold)
STREAM_STEPS(recv)
STREAM_STEPS(delivery)
STREAM_STEPS(put)
STREAM_STEPS(sent)
STREAM_STEPS(flow)

static void test_each_step_of_a_stream_is_one_of_its_tables(void **state)
{
	(void)state;
	/* live, lost, dropped, closed */
	check_steps(&kh_h2_life_machine, "0>1 0>2 0>3 1>2 1>3 2>3", make_life);
	/* not yet, held, released */
	check_steps(&kh_h2_hold_machine, "0>1 1>2", make_hold);
	/* head, content, end, told */
	check_steps(&kh_h2_recv_machine, "0>1 1>2 2>3", make_recv);
	/* on, paused, resuming, stopping */
	check_steps(&kh_h2_delivery_machine, "0>1 0>2 1>2 2>0 2>3 3>1 3>2", make_delivery);
	/* none, head, whole, end */
	check_steps(&kh_h2_put_machine, "0>1 0>2 1>0 1>3 2>0 3>0", make_put);
	/* none, head, end */
	check_steps(&kh_h2_sent_machine, "0>1 1>2", make_sent);
	/* on, full, dry */
	check_steps(&kh_h2_flow_machine, "0>1 0>2 1>0 2>0", make_flow);
}

/* A connection that breaks ends in another state than it was asked for, and than it had. */
static void check_connection(const struct kh_machine *m, const char *steps, bool peer)
{
	char made[512] = "";
	size_t at = 0;

	for (unsigned from = 0; from < m->n; from++)
		for (unsigned to = 0; to < m->n; to++) {
			struct drive d;

			drive_init(&d, KH_H2_SERVER);
			if (peer)
				d.h2->peer = (enum kh_h2_peer)from;
			else
				d.h2->state = (enum kh_h2_state)from;
			bool was_failed = d.h2->state == KH_H2_STATE_FAILED;
			bool said = peer ? kh_h2_set_peer(d.h2, (enum kh_h2_peer)to)
					 : kh_h2_set_state(d.h2, (enum kh_h2_state)to);
			assert_int_equal(said, kh_machine_allows(m, from, to));
			if (said)
				assert_int_equal(
					peer ? (unsigned)d.h2->peer : (unsigned)d.h2->state, to);
			else
				assert_int_equal(d.h2->state, was_failed ? KH_H2_STATE_FAILED
									 : KH_H2_STATE_BROKEN);
			if (said)
				at += (size_t)snprintf(made + at, sizeof(made) - at, "%s%u>%u",
						       at ? " " : "", from, to);
			drive_faults_are_meant(&d);
			drive_fini(&d);
		}
	assert_string_equal(made, steps);
}

static void test_each_step_of_a_connection_is_one_of_its_tables(void **state)
{
	(void)state;
	/* open, we leave, the peer leaves, both leave, broken, failed */
	check_connection(&kh_h2_state_machine,
			 "0>1 0>2 0>4 0>5 1>3 1>4 1>5 2>3 2>4 2>5 3>4 3>5 4>5", false);
	/* unknown, plain, extended CONNECT */
	check_connection(&kh_h2_peer_machine, "0>1 0>2 1>1 1>2 2>1 2>2", true);
}

/* RFC 9113 §5.1, for a request with content that is answered with content. */
static void test_a_stream_goes_through_the_states_of_its_halves(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "POST", NULL, 0, false);
	struct kh_h2_stream *up = p.request, *down = p.down.last;
	assert_int_equal(up->put, KH_H2_PUT_HEAD);
	assert_int_equal(up->sent, KH_H2_SENT_HEAD);
	assert_int_equal(up->flow, KH_H2_FLOW_DRY);
	assert_int_equal(down->hold, KH_H2_HOLD_HELD);
	assert_int_equal(down->recv, KH_H2_RECV_CONTENT);
	kh_h2_pause(down);
	assert_true(kh_h2_put_data(up, KH_SLICE("content")));
	assert_int_equal(up->flow, KH_H2_FLOW_ON);
	assert_true(kh_h2_put_end(up, NULL, 0));
	talk(&p);
	assert_int_equal(up->put, KH_H2_PUT_END);
	assert_int_equal(up->sent, KH_H2_SENT_END);
	assert_int_equal(down->recv, KH_H2_RECV_END);
	kh_h2_resume(down);
	assert_int_equal(down->delivery, KH_H2_DELIVERY_ON);
	assert_int_equal(down->recv, KH_H2_RECV_TOLD);
	assert_int_equal(down->put, KH_H2_PUT_NONE);
	assert_true(kh_h2_put_response(down, 204, NULL, 0, true));
	assert_int_equal(down->put, KH_H2_PUT_WHOLE);
	talk(&p);
	assert_int_equal(up->recv, KH_H2_RECV_TOLD);
	assert_int_equal(up->life, KH_H2_LIFE_CLOSED);
	assert_int_equal(down->life, KH_H2_LIFE_CLOSED);
	pair_fini(&p);
}

static void test_a_goaway_of_either_side_is_a_state_of_the_connection(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	talk(&p);
	assert_int_equal(p.up.h2->peer, KH_H2_PEER_PLAIN);
	kh_h2_goaway(p.down.h2);
	assert_int_equal(p.down.h2->state, KH_H2_STATE_WE_LEAVE);
	talk(&p);
	assert_int_equal(p.up.h2->state, KH_H2_STATE_PEER_LEAVES);
	kh_h2_goaway(p.up.h2);
	assert_int_equal(p.up.h2->state, KH_H2_STATE_BOTH_LEAVE);
	talk(&p);
	assert_int_equal(p.down.h2->state, KH_H2_STATE_BOTH_LEAVE);
	assert_null(kh_h2_error(p.up.h2));
	assert_null(kh_h2_error(p.down.h2));
	pair_fini(&p);
}

/* Nothing more goes or comes, each stream hears of it, and the peer is told INTERNAL_ERROR. */
static void test_a_fault_ends_the_connection_with_an_internal_error(void **state)
{
	(void)state;
	for (int by_feed = 0; by_feed < 2; by_feed++) {
		struct pair p;

		pair_init(&p);
		ask(&p, "GET", NULL, 0, true);
		kh_buf_clear(&p.down.log);
		struct kh_h2_stream *down = p.down.last;
		assert_false(kh_h2_set_recv(down, KH_H2_RECV_HEAD));
		assert_int_equal(p.down.h2->state, KH_H2_STATE_BROKEN);
		/* No event inside of a verb; but nothing is done any more. */
		assert_string_equal(kh_buf_cstr(&p.down.log), "");
		assert_false(kh_h2_put_response(down, 200, NULL, 0, true));
		assert_false(kh_h2_ping(p.down.h2));
		assert_true(kh_h2_wants_drain(p.down.h2));
		if (by_feed)
			assert_false(kh_h2_feed(p.down.h2, KH_SLICE("\0\0\0\4\0\0\0\0\0"), 2000));
		drive_drain(&p.down);
		assert_string_equal(kh_buf_cstr(&p.down.log), "RESET 1 INTERNAL\nERROR INTERNAL\n");
		assert_string_equal(kh_buf_cstr(&p.down.sent), "GOAWAY 2\n");
		assert_string_equal(kh_h2_error(p.down.h2)->text,
				    "fault in keyhole: HTTP/2 stream, receiving: head can't follow "
				    "end told");
		assert_false(kh_h2_feed(p.down.h2, KH_SLICE("x"), 2000));
		drive_faults_are_meant(&p.up);
		drive_faults_are_meant(&p.down);
		pair_fini(&p);
	}
}

static void test_a_stream_that_is_released_twice_is_let_go_of_once(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p);
	ask(&p, "GET", NULL, 0, false);
	struct kh_h2_stream *up = p.request;
	p.request = NULL;
	kh_h2_stream_ref(up);
	kh_h2_release(up);
	unsigned refs = up->refs;
	kh_h2_release(up);
	assert_int_equal(up->refs, refs);
	assert_int_equal(p.up.h2->state, KH_H2_STATE_BROKEN);
	kh_h2_stream_unref(up);
	drive_faults_are_meant(&p.up);
	drive_faults_are_meant(&p.down);
	pair_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_step_of_a_stream_is_one_of_its_tables),
		cmocka_unit_test(test_each_step_of_a_connection_is_one_of_its_tables),
		cmocka_unit_test(test_a_stream_goes_through_the_states_of_its_halves),
		cmocka_unit_test(test_a_goaway_of_either_side_is_a_state_of_the_connection),
		cmocka_unit_test(test_a_fault_ends_the_connection_with_an_internal_error),
		cmocka_unit_test(test_a_stream_that_is_released_twice_is_let_go_of_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
