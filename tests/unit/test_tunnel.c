/* test_tunnel.c - from CONNECT, SOCKS5 or a ClientHello to what a tunnel carries */
/* wrap: kh_up_acquire */
#include "tunnel_client.h"

#define TUNNELS_OPEN atomic_load(&world.loop->counts.n[KH_COUNT_TUNNELS_OPEN])

/* ---- the tables ---- */

static bool set_tunnel(struct kh_session *s, enum kh_tunnel_state state)
{
	return kh_session_set_tunnel(s, state);
}

static bool set_leaf(struct kh_session *s, enum kh_leaf_state state)
{
	return kh_session_set_leaf(s, state);
}

static void test_only_the_steps_of_its_tables_are_made(void **state)
{
	/* none, accepted, entered, stands */
	static const char *const tunnels[] = { ".xx.", "...x", "...x", "...." };
	/* none, ordered, awaited, unasked */
	static const char *const leaves[] = { ".xxx", ".xxx", ".xxx", ".xxx" };

	(void)state;
	struct kh_session *dead = calloc(1, sizeof(*dead));
	assert_non_null(dead);
	dead->state = KH_SESSION_DEAD;
	assert_steps(set_tunnel, dead, tunnel_state, enum kh_tunnel_state, tunnels);
	assert_steps(set_leaf, dead, leaf_state, enum kh_leaf_state, leaves);
	free(dead);
}

static void test_a_fault_of_our_own_ends_it(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("a.example:443"));
	assert_int_equal(session()->tunnel_state, KH_TUNNEL_OPEN);
	assert_false(kh_session_set_tunnel(client.session, KH_TUNNEL_ENTERED));
	client_turn();
	assert_records(0, 0, 1);
	assert_int_equal(written("open can't follow open"), 0);
	assert_int_equal(written("entered can't follow open"), 1);
	client_end(1);
}

/* ---- CONNECT ---- */

static void test_one_that_is_read_is_accepted_at_once(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("p.example:80"));
	assert_heard("HTTP/1.1 200 ");
	assert_state(KH_SESSION_TUNNEL);
	assert_int_equal(session()->tunnel_state, KH_TUNNEL_OPEN);
	assert_int_equal(TUNNELS_OPEN, 1);
	assert_records(0, 0, 0);
	client_says("GET / HTTP/1.1\r\nHost: p.example\r\n\r\n");
	assert_state(KH_SESSION_EXCHANGE);
	assert_records(1, 0, 0);
	assert_true(far_answers(far_last(), 200, KH_FRAMING_NONE));
	far_ends(far_last());
	client_turn();
	assert_heard("HTTP/1.1 200 ");
	assert_state(KH_SESSION_HEAD);
	client_ends();
	client_end(0);
}

static void test_what_may_not_be_opened_is_refused(void **state)
{
	static const struct {
		const char *head, *answer;
	} requests[] = {
		{ CONNECT("e.example:22"), "HTTP/1.1 403 " },
		{ CONNECT("a.example"), "HTTP/1.1 400 " },
		{ CONNECT("a.example:0"), "HTTP/1.1 400 " },
		{ CONNECT("https://a.example/"), "HTTP/1.1 400 " },
		{ "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n",
		  "HTTP/1.1 421 " },
		{ "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n"
		  "Content-Length: 1\r\n\r\n",
		  "HTTP/1.1 400 " },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		client_begin();
		client_says(requests[i].head);
		struct kh_slice said = kh_buf_view(&client.out);
		if (!kh_slice_has_prefix(said, kh_slice_str(requests[i].answer)))
			fail_msg("%s: %.*s", requests[i].head, (int)said.len, said.ptr);
		assert_state(KH_SESSION_LINGER);
		assert_int_equal(session()->tunnel_state, KH_TUNNEL_NONE);
		assert_int_equal(TUNNELS_OPEN, 0);
		assert_records(0, 0, 1);
		client_ends();
		client_end(0);
	}
}

static void test_there_is_none_inside_of_another(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("p.example:80"));
	assert_heard("HTTP/1.1 200 ");
	client_says(CONNECT("a.example:443"));
	assert_heard("HTTP/1.1 400 ");
	assert_state(KH_SESSION_LINGER);
	assert_records(0, 0, 1);
	client_ends();
	client_end(0);
}

static void test_neither_tls_nor_http_inside_ends_it(void **state)
{
	static const char *const texts[] = { "SSH-2.0-x\r\n", "\1", "\5\1" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		client_begin();
		client_says(CONNECT("a.example:443"));
		assert_heard("HTTP/1.1 200 ");
		client_says(texts[i]);
		assert_false(client_is_there());
		assert_records(0, 0, 1);
		client_end(0);
	}
}

/* ---- in which nobody speaks ---- */

static void test_silence_where_nothing_is_allowed_is_a_refusal(void **state)
{
	static const struct {
		const char *head;
		const char *reason; /* NULL: something is allowed there */
	} places[] = {
		{ CONNECT("z.example:25"), "\"reason\":\"no_rule\"" },
		{ CONNECT("a.example:25"), "\"reason\":\"no_rule\"" },
		{ CONNECT("f.example:443"), "\"reason\":\"denied_by_rule\"" },
		{ CONNECT("a.example:443"), NULL },
		{ CONNECT("p.example:80"), NULL },
		{ CONNECT("keyhole.internal:80"), NULL },
	};
	enum { ENDS, WAITS, DRAINS, WAYS };

	(void)state;
	for (size_t i = 0; i < WAYS * sizeof(places) / sizeof(*places); i++) {
		const char *reason = places[i / WAYS].reason;
		const struct kh_timeouts *t;
		client_begin();
		t = &world.loop->gen->config->timeouts;
		client_says(places[i / WAYS].head);
		assert_heard("HTTP/1.1 200 ");
		assert_state(KH_SESSION_TUNNEL);
		assert_records(0, 0, 0);
		uint64_t wait = session()->deadline_ms - world.loop->now_ms;
		assert_true(wait <= (reason ? t->handshake : t->idle_down));
		assert_true(reason || wait > t->handshake);
		if (i % WAYS == ENDS)
			client_ends();
		else if (i % WAYS == WAITS)
			client_times_out();
		else
			session()->member.ops->drain(&client.session->member);
		client_turn();
		assert_false(client_is_there());
		assert_records(0, 0, reason ? 1 : 0);
		if (reason) {
			assert_int_equal(written(reason), 1);
			assert_int_equal(written("and nothing was said in the tunnel"), 1);
		}
		client_end(0);
	}
}

static void test_a_word_inside_is_refused_by_itself_and_once(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("z.example:80"));
	assert_heard("HTTP/1.1 200 ");
	client_says("GET / HTTP/1.1\r\nHost: z.example\r\n\r\n");
	assert_heard("HTTP/1.1 403 ");
	client_ends();
	assert_records(0, 0, 1);
	assert_int_equal(written("nothing was said"), 0);
	client_end(0);
}

/* ---- what nobody reads ---- */

static void test_a_raw_one_is_accepted_when_its_upstream_is_there(void **state)
{
	(void)state;
	client_begin();
	world.way = FAR_IS_LATE;
	client_says(CONNECT("c.example:22"));
	assert_state(KH_SESSION_RAW);
	assert_int_equal(session()->tunnel_state, KH_TUNNEL_ENTERED);
	assert_int_equal(TUNNELS_OPEN, 1);
	assert_int_equal(kh_buf_len(&client.out), 0);
	assert_records(1, 0, 0);
	far_comes(far_last());
	client_turn();
	assert_int_equal(session()->tunnel_state, KH_TUNNEL_OPEN);
	assert_heard("HTTP/1.1 200 Connection established\r\n\r\nhello");
	client_says("bytes");
	assert_slice_equal(kh_buf_view(&far_last()->content), "bytes");
	client_ends();
	assert_true(far_last()->ended);
	far_ends(far_last());
	client_turn();
	assert_records(1, 1, 0);
	assert_int_equal(written("\"complete\":true"), 1);
	client_end(0);
}

static void test_a_raw_one_without_an_upstream_is_answered(void **state)
{
	(void)state;
	client_begin();
	world.way = FAR_FAILS;
	client_says(CONNECT("c.example:22"));
	assert_heard("HTTP/1.1 502 ");
	assert_int_equal(session()->tunnel_state, KH_TUNNEL_ENTERED);
	assert_records(1, 1, 0);
	client_ends();
	client_end(0);
}

static void test_a_raw_one_has_no_answer_once_it_stands(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("c.example:22"));
	assert_heard("HTTP/1.1 200 ");
	far_breaks(far_last(), KH_ERR_UP_CLOSED);
	client_turn();
	assert_int_equal(kh_buf_len(&client.out), 0);
	assert_records(1, 1, 0);
	client_goes();
	client_end(0);
}

/* ---- TLS ---- */

static void say_hello(const char *sni)
{
	char bytes[4096];
	size_t len = hello(sni, bytes, sizeof(bytes));

	client_puts(bytes, len / 2); /* in two pieces */
	client_puts(bytes + len / 2, len - len / 2);
}

/* Lists of 120 KiB cost OpenSSL as much as eight handshakes. */
static void test_a_hello_that_is_too_long_is_refused(void **state)
{
	static const char *const heads[] = {
		"\x16\3\1\x40\x01\1\x01\xe0\x01", /* 120 KiB */
		"\x16\3\1\x01\x01\1\x01\x40\x01", /* more than 64 KiB, a piece of it */
		"\x16\3\1\x3f\x03\1\x3f\xff\xff", /* 4 MiB */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		client_begin();
		client_says(CONNECT("a.example:443"));
		assert_heard("HTTP/1.1 200 ");
		client_puts(heads[i], 9);
		assert_heard("\x15\3");
		assert_state(KH_SESSION_LINGER);
		assert_records(0, 0, 1);
		assert_int_equal(world.loop->counts.n[KH_COUNT_HANDSHAKES_DOWN_FAILED], 1);
		client_ends();
		client_end(0);
	}
}

static void test_tls_that_passes_names_its_host(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("d.example:443"));
	assert_heard("HTTP/1.1 200 ");
	assert_state(KH_SESSION_HELLO);
	assert_records(0, 0, 0);
	say_hello("d.example");
	assert_state(KH_SESSION_RAW);
	assert_records(1, 0, 0);
	assert_true(kh_buf_len(&far_last()->content) > 100);
	client_goes();
	assert_records(1, 1, 0);
	client_end(0);
	for (int named = 0; named < 2; named++) {
		client_begin();
		client_says(CONNECT("d.example:443"));
		assert_heard("HTTP/1.1 200 ");
		say_hello(named ? "a.example" : NULL);
		assert_heard("\x15\3"); /* an alert */
		assert_state(KH_SESSION_LINGER);
		assert_records(0, 0, 1);
		assert_int_equal(world.n_fars, 0);
		client_ends();
		client_end(0);
	}
}

/* Without CONNECT the SNI says where to. */
static void test_tls_straight_away_opens_a_tunnel_to_its_sni(void **state)
{
	(void)state;
	client_begin();
	say_hello("d.example");
	assert_state(KH_SESSION_RAW);
	assert_string_equal(session()->side.authority.host.text, "d.example");
	assert_int_equal(session()->tunnel_state, KH_TUNNEL_OPEN);
	assert_records(1, 0, 0);
	client_goes();
	client_end(0);
	client_begin();
	say_hello(NULL);
	assert_heard("\x15\3");
	assert_state(KH_SESSION_LINGER);
	assert_records(0, 0, 1);
	client_ends();
	client_end(0);
}

/* The handshake rests until the keeper has signed it, or said that it can't. */
static void test_a_handshake_waits_for_its_leaf(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("a.example:443"));
	assert_heard("HTTP/1.1 200 ");
	assert_int_equal(session()->leaf_state, KH_LEAF_STATE_ORDERED); /* ahead of time */
	say_hello("a.example");
	assert_state(KH_SESSION_HANDSHAKE);
	assert_int_equal(session()->leaf_state, KH_LEAF_STATE_AWAITED);
	const struct kh_loop_member_ops *ops = session()->member.ops;
	struct kh_host other;
	assert_true(kh_host_parse(&other, KH_SLICE("b.example"), NULL));
	ops->leaf_came(&client.session->member, &other, "", true);
	assert_int_equal(session()->leaf_state, KH_LEAF_STATE_AWAITED);
	ops->leaf_came(&client.session->member, &client.session->side.authority.host, "", false);
	client_turn();
	assert_false(client_is_there());
	assert_records(0, 0, 1);
	client_end(0);
}

static void test_what_waits_for_its_leaf_may_go_away(void **state)
{
	(void)state;
	client_begin();
	client_says(CONNECT("a.example:443"));
	say_hello("a.example");
	assert_int_equal(session()->leaf_state, KH_LEAF_STATE_AWAITED);
	kh_session_kill(client.session, KH_ERR_DOWN_CLOSED, "the test is over");
	assert_int_equal(client.session->leaf_state, KH_LEAF_STATE_ORDERED);
	client_end(0);
}

/* ---- SOCKS5 ---- */

static void test_socks_is_told_when_the_tunnel_stands(void **state)
{
	static const char request[] = "\5\1\0\3\11c.example\0\26";

	(void)state;
	client_begin();
	world.way = FAR_IS_LATE;
	client_puts("\5", 1);
	assert_state(KH_SESSION_SOCKS);
	client_puts("\1\0", 2);
	assert_heard("\5\0");
	client_puts(request, sizeof(request) - 1);
	assert_state(KH_SESSION_RAW);
	assert_int_equal(kh_buf_len(&client.out), 0);
	far_comes(far_last());
	client_turn();
	assert_int_equal(session()->tunnel_state, KH_TUNNEL_OPEN);
	assert_heard("\5\0\0\1\0\0\0\0\0\0hello");
	client_goes();
	assert_records(1, 1, 0);
	client_end(0);
}

static void test_socks_is_told_why_not(void **state)
{
	static const char denied[] = "\5\1\0\3\11e.example\0\26", bind[] = "\5\2\0\3";

	(void)state;
	for (int i = 0; i < 2; i++) {
		client_begin();
		client_puts("\5\1\0", 3);
		assert_heard("\5\0");
		if (i)
			client_puts(bind, sizeof(bind) - 1);
		else
			client_puts(denied, sizeof(denied) - 1);
		if (i)
			assert_heard("\5\7");
		else
			assert_heard("\5\2");
		assert_state(KH_SESSION_LINGER);
		assert_int_equal(TUNNELS_OPEN, 0);
		assert_records(0, 0, 1);
		client_ends();
		client_end(0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_steps_of_its_tables_are_made),
		cmocka_unit_test(test_a_fault_of_our_own_ends_it),
		cmocka_unit_test(test_one_that_is_read_is_accepted_at_once),
		cmocka_unit_test(test_what_may_not_be_opened_is_refused),
		cmocka_unit_test(test_there_is_none_inside_of_another),
		cmocka_unit_test(test_neither_tls_nor_http_inside_ends_it),
		cmocka_unit_test(test_silence_where_nothing_is_allowed_is_a_refusal),
		cmocka_unit_test(test_a_word_inside_is_refused_by_itself_and_once),
		cmocka_unit_test(test_a_raw_one_is_accepted_when_its_upstream_is_there),
		cmocka_unit_test(test_a_raw_one_without_an_upstream_is_answered),
		cmocka_unit_test(test_a_raw_one_has_no_answer_once_it_stands),
		cmocka_unit_test(test_a_hello_that_is_too_long_is_refused),
		cmocka_unit_test(test_tls_that_passes_names_its_host),
		cmocka_unit_test(test_tls_straight_away_opens_a_tunnel_to_its_sni),
		cmocka_unit_test(test_a_handshake_waits_for_its_leaf),
		cmocka_unit_test(test_what_waits_for_its_leaf_may_go_away),
		cmocka_unit_test(test_socks_is_told_when_the_tunnel_stands),
		cmocka_unit_test(test_socks_is_told_why_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
