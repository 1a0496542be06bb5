/* test_session.c - a connection from a sandbox, from its first byte to its last */
/* wrap: kh_up_acquire */
#include "pipe_client.h"

#define GET "GET http://p.example/ HTTP/1.1\r\nHost: p.example\r\n"

/* ---- the table ---- */

#define STATES (KH_SESSION_DEAD + 1)

/* Any other step ends the session. */
static void test_only_the_steps_of_its_table_are_made(void **state)
{
	/* new, head, head begun, socks, hello, tunnel, handshake, exchange, h2, raw, discard,
	 * linger, dead */
	static const char *const allowed[STATES] = {
		".x..........x", ".xxxxx.xxx.xx", ".x..xx.xxx.xx", "....xx...x.xx", "....xx...x.xx",
		".x....x....xx", ".x..........x", ".x........xxx", "...........xx", "...........xx",
		".x.........xx", "............x", ".............",
	};

	(void)state;
	world_begin(&client_loop_ops);
	uint64_t wrong = 0;
	for (enum kh_session_state from = 0; from <= KH_SESSION_DEAD; from++)
		for (enum kh_session_state to = 0; to <= KH_SESSION_DEAD; to++) {
			bool may = allowed[from][to] == 'x';
			client_connect();
			client.session->state = from;
			client.session->deadline_ms = 1;
			if (kh_session_set_state(client.session, to) != may)
				fail_msg("%d to %d", (int)from, (int)to);
			assert_int_equal(client.session->state, may ? to : KH_SESSION_DEAD);
			/* A new wait; it is none where it was dead. */
			assert_int_equal(client.session->deadline_ms, from == KH_SESSION_DEAD);
			wrong += !may;
			/* By hand where the table says that it is dead, and it is not. */
			if (from == KH_SESSION_DEAD || (may && to == KH_SESSION_DEAD))
				client.session->state = KH_SESSION_HEAD;
			client_goes();
			client_free();
		}
	world_end(wrong);
}

/* ---- HTTP/1 ---- */

static void answer_it(uint16_t status)
{
	assert_true(far_answers(far_last(), status, KH_FRAMING_NONE));
	far_ends(far_last());
	client_turn();
}

static void test_requests_come_one_after_the_other(void **state)
{
	(void)state;
	client_begin();
	assert_state(KH_SESSION_HEAD);
	for (unsigned i = 1; i <= 3; i++) {
		client_says(GET "\r\n");
		assert_state(KH_SESSION_EXCHANGE);
		assert_int_equal(world.n_fars, i);
		answer_it(200);
		assert_heard("HTTP/1.1 200 Said\r\n");
		assert_state(KH_SESSION_HEAD);
		assert_records(i, i, 0);
	}
	client_ends();
	client_end(0);
}

static void test_a_head_may_come_in_pieces(void **state)
{
	(void)state;
	client_begin();
	client_says("G");
	assert_state(KH_SESSION_HEAD_BEGUN);
	uint64_t due = client.session->deadline_ms;
	client_says("ET http://p.example/ HTTP/1.1\r\nHost: ");
	assert_state(KH_SESSION_HEAD_BEGUN);
	assert_int_equal(client.session->deadline_ms, due); /* however it trickles in */
	client_says("p.example\r\n\r\n");
	assert_state(KH_SESSION_EXCHANGE);
	answer_it(204);
	assert_state(KH_SESSION_HEAD);
	client_goes();
	client_end(0);
}

/* Of a connection that has asked for nothing, nothing is said. */
static void test_the_wait_for_a_head_has_its_end(void **state)
{
	(void)state;
	client_begin();
	client_times_out();
	assert_int_equal(kh_buf_len(&client.out), 0);
	assert_records(0, 0, 0);
	client_end(0);
	client_begin();
	client_says("GET");
	client_times_out();
	assert_heard("HTTP/1.1 408 ");
	assert_state(KH_SESSION_LINGER);
	assert_records(0, 0, 1);
	client_ends();
	client_end(0);
}

static void test_the_rest_of_a_refused_request_is_thrown_away(void **state)
{
	(void)state;
	client_begin();
	client_says("POST http://q.example/ HTTP/1.1\r\nHost: q.example\r\n"
		    "Content-Length: 8\r\n\r\nhalf");
	assert_heard("HTTP/1.1 403 ");
	assert_state(KH_SESSION_DISCARD);
	assert_records(0, 0, 1);
	client_says("half" GET "\r\n");
	assert_state(KH_SESSION_EXCHANGE);
	answer_it(200);
	assert_heard("HTTP/1.1 200 ");
	assert_records(1, 1, 1);
	client_ends();
	client_end(0);
}

static void test_after_the_last_answer_its_end_is_awaited(void **state)
{
	(void)state;
	client_begin();
	client_says(GET "Connection: close\r\n\r\n");
	answer_it(200);
	assert_heard("HTTP/1.1 200 ");
	assert_state(KH_SESSION_LINGER);
	assert_true(client.shut);
	client_says("what nobody reads");
	assert_state(KH_SESSION_LINGER);
	client_ends();
	client_end(0);
}

static void test_what_is_no_request_is_refused(void **state)
{
	static const char *const texts[] = { "\1\2\3\r\n\r\n", "GET\r\n\r\n",
					     "GET / HTTP/1.1\r\n\r\n", " GET / HTTP/1.1\r\n\r\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		client_begin();
		client_says(texts[i]);
		assert_heard("HTTP/1.1 400 ");
		assert_state(KH_SESSION_LINGER);
		assert_records(0, 0, 1);
		assert_int_equal(world.n_fars, 0);
		client_ends();
		client_end(0);
	}
}

static void test_the_preface_of_http2_may_come_in_pieces(void **state)
{
	(void)state;
	client_begin();
	client_says("PRI * HT");
	assert_state(KH_SESSION_HEAD_BEGUN);
	client_says("TP/2.0\r\n\r\nSM\r\n\r\n");
	assert_state(KH_SESSION_H2);
	client_goes();
	client_end(0);
}

static void test_part_of_the_preface_is_not_answered_in_http1(void **state)
{
	(void)state;
	client_begin();
	client_says("PRI * HT");
	client_times_out();
	assert_int_equal(kh_buf_len(&client.out), 0);
	assert_false(client_is_there());
	assert_records(0, 0, 1);
	client_end(0);
}

/* ---- the order of records and bytes ---- */

static void test_its_answer_waits_for_the_record_of_a_refusal(void **state)
{
	(void)state;
	client_begin();
	assert_true(kh_buf_append_str(&client.in, "GET http://q.example/ HTTP/1.1\r\n"
						  "Host: q.example\r\n\r\n"));
	kh_stream_pipe_changed(client.stream);
	assert_true(event_base_loop(world.loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
	assert_int_equal(kh_buf_len(&client.out), 0);
	assert_records(0, 0, 1);
	assert_heard("HTTP/1.1 403 ");
	client_ends();
	client_end(0);
}

static void test_an_answer_goes_down_before_its_end_is_recorded(void **state)
{
	(void)state;
	client_begin();
	client_says(GET "\r\n");
	assert_true(far_answers(far_last(), 200, KH_FRAMING_CHUNKED));
	far_says(far_last(), "some");
	client_turn();
	assert_heard("HTTP/1.1 200 ");
	assert_records(1, 0, 0);
	far_ends(far_last());
	client_turn();
	assert_heard("0\r\n\r\n");
	assert_records(1, 1, 0);
	client_goes();
	client_end(0);
}

/* ---- its end, in every state ---- */

static void come_to(enum kh_session_state state)
{
	client_begin();
	switch (state) {
	case KH_SESSION_HEAD:
		break;
	case KH_SESSION_HEAD_BEGUN:
		client_says("GET ht");
		break;
	case KH_SESSION_SOCKS:
		client_says("\5");
		break;
	case KH_SESSION_HELLO:
		client_says("\x16\3\1\1");
		break;
	case KH_SESSION_TUNNEL:
		client_says("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
		break;
	case KH_SESSION_EXCHANGE:
		client_says(GET "\r\n");
		break;
	case KH_SESSION_H2:
		client_says("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
		break;
	case KH_SESSION_RAW:
		client_says("CONNECT c.example:22 HTTP/1.1\r\nHost: c.example:22\r\n\r\n");
		break;
	case KH_SESSION_DISCARD:
		client_says("POST http://q.example/ HTTP/1.1\r\nHost: q.example\r\n"
			    "Content-Length: 8\r\n\r\nhalf");
		break;
	case KH_SESSION_LINGER:
		client_says("no request\r\n\r\n");
		break;
	case KH_SESSION_NEW:
	case KH_SESSION_HANDSHAKE:
	case KH_SESSION_DEAD:
		fail();
	}
	assert_state(state);
}

static const enum kh_session_state states[] = {
	KH_SESSION_HEAD,    KH_SESSION_HEAD_BEGUN, KH_SESSION_SOCKS, KH_SESSION_HELLO,
	KH_SESSION_TUNNEL,  KH_SESSION_EXCHANGE,   KH_SESSION_H2,    KH_SESSION_RAW,
	KH_SESSION_DISCARD, KH_SESSION_LINGER,
};
enum { N_STATES = sizeof(states) / sizeof(*states) };

/* Was anything opened, or refused, on the way there? */
static size_t opened_in(enum kh_session_state state)
{
	return state == KH_SESSION_EXCHANGE || state == KH_SESSION_RAW;
}

static size_t refused_in(enum kh_session_state state)
{
	return state == KH_SESSION_DISCARD || state == KH_SESSION_LINGER;
}

static void test_it_ends_in_every_state_with_one_close_record(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_STATES; i++) {
		come_to(states[i]);
		kh_session_kill(client.session, KH_ERR_DOWN_CLOSED, "it went away");
		kh_session_kill(client.session, KH_ERR_INTERNAL, "once more");
		assert_records(opened_in(states[i]), opened_in(states[i]), refused_in(states[i]));
		assert_int_equal(written("\"internal\""), 0);
		client_end(0);
	}
}

static void test_the_sandbox_ends_it_in_every_state(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_STATES; i++) {
		come_to(states[i]);
		client_ends();
		/* A tunnel's other half goes on, and so does a request that was whole. */
		if (opened_in(states[i]))
			far_breaks(far_last(), KH_ERR_UP_CLOSED);
		kh_buf_clear(&client.out);
		client_turn();
		assert_records(opened_in(states[i]), opened_in(states[i]), refused_in(states[i]));
		client_end(0);
	}
}

static void test_the_daemon_drains_in_every_state(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_STATES; i++) {
		come_to(states[i]);
		world.loop->draining = true;
		client.session->member.ops->drain(&client.session->member);
		client_turn();
		bool runs = opened_in(states[i]) || refused_in(states[i]);
		assert_int_equal(client_is_there(), runs || states[i] == KH_SESSION_H2);
		if (states[i] == KH_SESSION_EXCHANGE) { /* what runs comes to its end */
			answer_it(200);
			assert_heard("HTTP/1.1 200 ");
			assert_state(KH_SESSION_LINGER);
		}
		client_goes();
		assert_records(opened_in(states[i]), opened_in(states[i]), refused_in(states[i]));
		client_end(0);
	}
}

/* A step that is none, from every state: what was open is closed with that reason, and where
 * nothing was, there is a record of it. */
static void test_a_fault_of_our_own_ends_it_in_every_state(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_STATES; i++) {
		size_t opened = opened_in(states[i]), h2 = states[i] == KH_SESSION_H2;
		come_to(states[i]);
		assert_false(kh_session_set_state(client.session, KH_SESSION_NEW));
		client_turn();
		assert_false(client_is_there());
		assert_records(opened, opened, refused_in(states[i]) + (!opened && !h2));
		assert_int_equal(written("\"internal\""), !h2);
		client_end(1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_steps_of_its_table_are_made),
		cmocka_unit_test(test_requests_come_one_after_the_other),
		cmocka_unit_test(test_a_head_may_come_in_pieces),
		cmocka_unit_test(test_the_wait_for_a_head_has_its_end),
		cmocka_unit_test(test_the_rest_of_a_refused_request_is_thrown_away),
		cmocka_unit_test(test_after_the_last_answer_its_end_is_awaited),
		cmocka_unit_test(test_what_is_no_request_is_refused),
		cmocka_unit_test(test_the_preface_of_http2_may_come_in_pieces),
		cmocka_unit_test(test_part_of_the_preface_is_not_answered_in_http1),
		cmocka_unit_test(test_its_answer_waits_for_the_record_of_a_refusal),
		cmocka_unit_test(test_an_answer_goes_down_before_its_end_is_recorded),
		cmocka_unit_test(test_it_ends_in_every_state_with_one_close_record),
		cmocka_unit_test(test_the_sandbox_ends_it_in_every_state),
		cmocka_unit_test(test_the_daemon_drains_in_every_state),
		cmocka_unit_test(test_a_fault_of_our_own_ends_it_in_every_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
