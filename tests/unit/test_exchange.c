/* test_exchange.c - an exchange between a sandbox and an upstream that the test plays */
/* wrap: kh_up_acquire */
#include "near_side.h"

enum { MINUTE_MS = 60 * 1000 };

/* ---- the tables ---- */

static bool set_state(struct kh_exchange *x, enum kh_exchange_state state)
{
	return kh_exchange_set_state(x, state, NULL);
}

static bool set_request(struct kh_exchange *x, enum kh_request_state state)
{
	return kh_exchange_set_request(x, state, NULL);
}

static bool set_answer(struct kh_exchange *x, enum kh_answer_state state)
{
	return kh_exchange_set_answer(x, state, NULL);
}

static bool set_record(struct kh_exchange *x, enum kh_record_state state)
{
	return kh_exchange_set_record(x, state, NULL);
}

static void test_only_the_steps_of_its_tables_are_made(void **state)
{
	/* begun, hold, ask, secret, commit, connect, relay, ended */
	static const char *const states[] = { ".xxxx..x", ".xxxx..x", ".xxxx..x", ".xxxx..x",
					      ".xxxxx.x", ".xxxxxxx", ".....x.x", "........" };
	static const char *const requests[] = { ".x..", "..x.", "..xx", "...." };
	static const char *const answers[] = { ".xx", "x.x", "..." };
	static const char *const records[] = { ".xxx", "...x", "...x", "x..." };
	struct kh_exchange *x = calloc(1, sizeof(*x));

	(void)state;
	assert_non_null(x);
	assert_steps(set_state, x, state, enum kh_exchange_state, states);
	assert_steps(set_request, x, request_state, enum kh_request_state, requests);
	assert_steps(set_answer, x, answer_state, enum kh_answer_state, answers);
	assert_steps(set_record, x, record_state, enum kh_record_state, records);
	free(x);
}

/* ---- the way of one that is allowed ---- */

static void test_it_is_recorded_then_sent_then_closed(void **state)
{
	(void)state;
	near_begin("b.example");
	struct kh_exchange *x = near_ask("GET", "/path");

	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	assert_int_equal(x->record_state, KH_RECORD_OPEN);
	assert_int_equal(x->request_state, KH_REQUEST_DONE);
	assert_int_equal(world.n_fars, 0);
	assert_int_equal(written("open"), 0);
	assert_records(1, 0, 0); /* far_put_head has looked for it */
	assert_int_equal(x->state, KH_EXCHANGE_RELAY);
	assert_slice_equal(kh_buf_view(&far_last()->head), "GET /path\r\n");
	assert_true(far_answers(far_last(), 103, KH_FRAMING_NONE));
	assert_int_equal(x->answer_state, KH_ANSWER_NONE);
	assert_true(far_answers(far_last(), 200, KH_FRAMING_CHUNKED));
	assert_int_equal(x->answer_state, KH_ANSWER_BEGUN);
	far_says(far_last(), "some");
	assert_records(1, 0, 0);
	far_ends(far_last());
	assert_int_equal(near.overs, 1);
	assert_int_equal(near.end, KH_DOWN_WHOLE);
	assert_int_equal(near.bytes, 4);
	assert_true(far_last()->released && far_last()->clean);
	assert_records(1, 1, 0);
	assert_int_equal(written("\"complete\":true"), 1);
	world_end(0);
}

static void test_its_content_goes_up_as_it_comes(void **state)
{
	(void)state;
	near_begin("b.example");
	(void)near_request("POST", "/", 8);
	struct kh_exchange *x = near_send();

	assert_false(kh_exchange_takes_body(x)); /* nothing before the record */
	assert_records(1, 0, 0);
	assert_true(kh_exchange_takes_body(x));
	kh_exchange_body(x, KH_SLICE("half"));
	far_last()->full = true;
	assert_false(kh_exchange_takes_body(x));
	far_last()->full = false;
	kh_exchange_body(x, KH_SLICE("half"));
	assert_int_equal(x->request_state, KH_REQUEST_COMING);
	assert_false(far_last()->ended);
	kh_exchange_request_end(x, NULL, 0);
	assert_int_equal(x->request_state, KH_REQUEST_DONE);
	assert_true(far_last()->ended);
	assert_slice_equal(kh_buf_view(&far_last()->content), "halfhalf");
	assert_true(far_answers(far_last(), 204, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_records(1, 1, 0);
	world_end(0);
}

static void test_another_try_has_no_record_of_its_own(void **state)
{
	(void)state;
	near_begin("b.example");
	struct kh_exchange *x = near_ask("GET", "/");
	assert_records(1, 0, 0);
	struct far *first = far_last();
	struct kh_up_user *user = first->stream.user;

	assert_true(user->ops->may_retry(user));
	world.way = FAR_IS_LATE;
	user->ops->retry(user);
	assert_true(first->released && !first->clean);
	assert_int_equal(x->state, KH_EXCHANGE_CONNECT);
	user->ops->retry(user); /* that one could not be made */
	assert_int_equal(x->state, KH_EXCHANGE_CONNECT);
	far_comes(far_last());
	assert_int_equal(x->state, KH_EXCHANGE_RELAY);
	assert_int_equal(x->heads, 2);
	assert_false(user->ops->may_retry(user));
	assert_true(far_answers(far_last(), 200, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_int_equal(near.status, 200);
	assert_records(1, 1, 0);
	world_end(0);
}

/* Its credential is asked for, and comes. */
static void test_it_waits_for_its_credential(void **state)
{
	(void)state;
	near_begin("a.example");
	struct kh_exchange *x = near_ask("GET", "/");

	assert_int_equal(x->state, KH_EXCHANGE_SECRET);
	assert_records(0, 0, 0);
	world_value(world.gen);
	x->member.ops->value_came(&x->member, world.gen->number + 1, WORLD_CREDENTIAL);
	assert_int_equal(x->state, KH_EXCHANGE_SECRET); /* that was another configuration's */
	x->member.ops->value_came(&x->member, world.gen->number, WORLD_CREDENTIAL);
	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	assert_records(1, 0, 0);
	assert_slice_equal(kh_buf_view(&far_last()->head),
			   "GET /\r\nx-api-key: the-real-key-of-this-test\r\n");
	assert_true(far_answers(far_last(), 200, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_int_equal(written("the-real-key"), 0);
	world_end(0);
}

/* A rule asks for the model: nothing is recorded or sent before all of the content is here. */
static void test_held_content_follows_the_head(void **state)
{
	static const char text[] = "{\"model\":\"one\"}";

	(void)state;
	near_begin("m.example");
	near_request("POST", "/", (int)strlen(text))->expect_continue = true;
	struct kh_exchange *x = near_send();

	assert_int_equal(x->state, KH_EXCHANGE_BUFFER);
	assert_int_equal(near.interims, 1); /* there is nobody else who could say 100 */
	assert_true(kh_exchange_takes_body(x));
	kh_exchange_body(x, kh_slice_of(text, 6));
	x->member.ops->reload(&x->member); /* decided anew: it is still asked for */
	assert_false(kh_exchange_takes_body(x));
	kh_loop_turn_end(world.loop);
	assert_true(kh_exchange_takes_body(x));
	assert_int_equal(x->state, KH_EXCHANGE_BUFFER);
	assert_int_equal(near.interims, 1);
	kh_exchange_body(x, kh_slice_of(text + 6, sizeof(text) - 7));
	assert_records(0, 0, 0);
	kh_exchange_request_end(x, NULL, 0);
	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	assert_int_equal(x->request_state, KH_REQUEST_HELD);
	assert_records(1, 0, 0);
	near_turn(&near.stream);
	assert_int_equal(x->request_state, KH_REQUEST_SENT);
	assert_slice_equal(kh_buf_view(&far_last()->content), "{\"model\":\"one\"}");
	assert_true(far_last()->ended);
	assert_true(far_answers(far_last(), 200, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_true(far_last()->clean);
	assert_records(1, 1, 0);
	world_end(0);
}

/* Each side ends by itself. */
static void test_a_raw_tunnel_is_over_when_both_sides_have_ended(void **state)
{
	struct kh_decision decision;

	(void)state;
	near_begin("c.example:22");
	near.side.tls = false;
	assert_int_equal(kh_policy_tunnel(world.gen->policy, 0, NULL, &near.side.authority.host, 22,
					  &decision),
			 KH_TUNNEL_RAW);
	assert_true(kh_exchange_begin_tunnel(&near.stream, &near.side, KH_TUNNEL_RAW, &decision));
	struct kh_exchange *x = near.stream.exchange;
	assert_records(1, 0, 0);
	assert_int_equal(x->answer_state, KH_ANSWER_BEGUN);
	assert_int_equal(near.bytes, 5); /* what the server said at once */
	kh_exchange_body(x, KH_SLICE("bytes"));
	far_ends(far_last());
	assert_int_equal(x->answer_state, KH_ANSWER_DONE);
	assert_int_equal(near.overs, 0);
	kh_exchange_request_end(x, NULL, 0);
	assert_true(far_last()->ended);
	kh_exchange_end(x, KH_DOWN_WHOLE);
	assert_records(1, 1, 0);
	assert_int_equal(written("\"complete\":true"), 1);
	world_end(0);
}

static void test_a_page_of_our_own_goes_nowhere(void **state)
{
	(void)state;
	near_begin("keyhole.internal");
	struct kh_exchange *x = near_ask("GET", "/");

	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	assert_records(1, 1, 0);
	assert_int_equal(near.answers, 1);
	assert_int_equal(near.status, 200);
	assert_int_equal(near.end, KH_DOWN_WHOLE);
	assert_int_equal(world.n_fars, 0);
	assert_int_equal(written("\"complete\":true"), 1);
	/* It is made from all rules: as much work as content of its length. */
	assert_true(near.answer_bytes > 0);
	assert_int_equal(near.side.acceptor->work.done,
			 kh_work_of_piece(near.answer_bytes) + KH_LIMIT_WORK_PER_END);
	world_end(0);
}

/* ---- each path of refusal ---- */

/* It was answered by us, and nobody was asked for it. */
#define assert_refused(said, why, opens, denials) \
	do { \
		assert_null(near.stream.exchange); \
		assert_int_equal(near.overs, 1); \
		assert_int_equal(near.end, KH_DOWN_WHOLE); \
		assert_int_equal(near.answers, 1); \
		assert_int_equal(near.status, said); \
		assert_int_equal(near.reason, why); \
		assert_records(opens, opens, denials); \
		assert_int_equal(world.n_fars, 0); \
	} while (0)

static void test_what_the_rules_deny_leaves_one_record(void **state)
{
	(void)state;
	near_begin("b.example");
	assert_null(near_ask("GET", "/denied"));
	assert_refused(403, KH_ERR_DENIED_BY_RULE, 0, 1);
	world_end(0);
	near_begin("nowhere.example");
	assert_null(near_ask("GET", "/"));
	assert_refused(403, KH_ERR_NO_RULE, 0, 1);
	world_end(0);
}

static void test_without_a_journal_nothing_goes(void **state)
{
	(void)state;
	near_begin("b.example");
	assert_non_null(near_ask("GET", "/"));
	break_journal();
	kh_loop_turn_end(world.loop);
	assert_null(near.stream.exchange);
	assert_int_equal(near.reason, KH_ERR_AUDIT_UNAVAILABLE);
	assert_int_equal(near.status, kh_err_status(KH_ERR_AUDIT_UNAVAILABLE));
	assert_int_equal(near.overs, 1);
	assert_int_equal(world.n_fars, 0);
	assert_int_equal(written("\"event\":\"open\""), 0);
	/* What comes now is refused at once: the next try has failed as well. */
	assert_null(near_ask("GET", "/"));
	kh_loop_turn_end(world.loop);
	assert_int_equal(near.reason, KH_ERR_AUDIT_UNAVAILABLE);
	assert_int_equal(near.overs, 2);
	assert_int_equal(world.n_fars, 0);
	world_end(0);
}

/* So that it takes nothing more, whatever comes. */
static void fill_batch(struct kh_batch *batch)
{
	const struct kh_audit_denials record = { "t", "s", 1, 1, 2, "no_rule 1" };
	char text[1500] = "";

	while (kh_audit_denials(batch, &record))
		;
	for (size_t len = sizeof(text) - 1; len > 0; len--) {
		memset(text, 'x', len);
		text[len] = '\0';
		const struct kh_audit_denials last = { "t", "s", 1, 1, 2, text };
		if (kh_audit_denials(batch, &last))
			break;
	}
}

/* While the disk is full its batch is full too. There is room for its end all the same. */
static void test_an_end_that_found_no_room_is_recorded_when_there_is_some(void **state)
{
	(void)state;
	near_begin("b.example");
	struct kh_exchange *x = near_ask("GET", "/");
	kh_loop_turn_end(world.loop);
	assert_int_equal(x->state, KH_EXCHANGE_RELAY);
	assert_records(1, 0, 0);
	kh_journal_hold(world.worker.journal, true);
	fill_batch(&world.loop->batch);
	size_t records = world.loop->batch.count;
	kh_exchange_gone(x, KH_ERR_UP_CLOSED, "the test ends it");
	kh_loop_turn_end(world.loop);
	assert_int_equal(world.loop->batch.count, records);
	assert_records(1, 0, 0);
	kh_journal_hold(world.worker.journal, false);
	assert_records(1, 1, 0);
	assert_int_equal(written("\"event\":\"denials\""), records);
	assert_int_equal(written("it ended while the journal could not be written"), 1);
	assert_int_equal(world.loop->ends.due, 0);
	world_end(0);
}

/* An open record that only joins those that failed would take the room of ends. */
static void test_while_the_journal_fails_no_open_record_is_made(void **state)
{
	enum { REQUESTS = 50 };

	(void)state;
	near_begin("b.example");
	kh_journal_hold(world.worker.journal, true);
	assert_non_null(near_ask("GET", "/first"));
	kh_loop_turn_end(world.loop);
	assert_int_equal(near.reason, KH_ERR_AUDIT_UNAVAILABLE);
	for (int i = 0; i < REQUESTS; i++) {
		assert_null(near_ask("GET", "/more"));
		kh_loop_turn_end(world.loop);
		assert_int_equal(near.reason, KH_ERR_AUDIT_UNAVAILABLE);
		world.loop->now_ms++;
	}
	/* The first one that finds it mended goes on. */
	kh_journal_hold(world.worker.journal, false);
	struct kh_exchange *x = near_ask("GET", "/last");
	assert_non_null(x);
	kh_loop_turn_end(world.loop);
	assert_int_equal(x->state, KH_EXCHANGE_RELAY);
	assert_records(2, 1, REQUESTS);
	kh_exchange_gone(x, KH_ERR_UP_CLOSED, "the test ends it");
	assert_records(2, 2, REQUESTS);
	assert_int_equal(world.loop->ends.due, 0);
	world_end(0);
}

static void test_no_upstream_is_a_close_with_its_reason(void **state)
{
	(void)state;
	near_begin("b.example");
	world.way = FAR_FAILS;
	(void)near_ask("GET", "/");
	kh_loop_turn_end(world.loop);
	assert_refused(502, KH_ERR_CONNECT_REFUSED, 1, 0);
	world_end(0);
}

/* Not all of it at its end, while the other exchanges of the thread wait. */
static void test_held_content_is_read_in_the_pieces_in_which_it_comes(void **state)
{
	enum { PIECES = 8, PIECE = 64 };
	static char piece[PIECE];

	(void)state;
	memset(piece, ' ', sizeof(piece));
	near_begin("m.example");
	(void)near_request("POST", "/", PIECES * PIECE + 15);
	struct kh_exchange *x = near_send();
	for (uint64_t n = 1; n <= PIECES; n++) {
		kh_exchange_body(x, kh_slice_of(piece, sizeof(piece)));
		assert_int_equal(kh_model_reader_bytes(x->model_reader), n * PIECE);
	}
	kh_exchange_body(x, KH_SLICE("{\"model\":\"one\"}"));
	assert_int_equal(kh_model_reader_bytes(x->model_reader), kh_buf_len(&x->content));
	kh_exchange_request_end(x, NULL, 0);
	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	assert_int_equal(x->model_state, KH_MODEL_NAMED);
	assert_records(1, 0, 0);
	near_turn(&near.stream);
	assert_true(far_answers(far_last(), 200, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_records(1, 1, 0);
	world_end(0);
}

static void test_held_content_without_a_model_is_refused(void **state)
{
	(void)state;
	near_begin("m.example");
	(void)near_request("POST", "/", 2);
	struct kh_exchange *x = near_send();
	kh_exchange_body(x, KH_SLICE("no"));
	kh_exchange_request_end(x, NULL, 0);
	assert_refused(403, KH_ERR_MODEL_UNREADABLE, 0, 1);
	world_end(0);
}

/* What is held was taken under the old limit. */
static void test_a_lower_limit_holds_for_content_that_is_held_already(void **state)
{
	enum { HELD = 6000, PIECE = 100 };
	static char text[HELD];

	(void)state;
	memset(text, ' ', sizeof(text));
	for (int below = 0; below < 2; below++) {
		near_begin("m.example");
		(void)near_request("POST", "/", HELD + PIECE);
		near.message.framing = KH_FRAMING_CHUNKED;
		struct kh_exchange *x = near_send();

		kh_exchange_body(x, kh_slice_of(text, HELD));
		x->gen->config->held_content = HELD - (uint64_t)below;
		x->member.ops->reload(&x->member);
		kh_loop_turn_end(world.loop);
		if (below == 0) { /* just as much as it is: no byte more */
			assert_int_equal(x->state, KH_EXCHANGE_BUFFER);
			assert_int_equal(kh_buf_len(&x->content), HELD);
			kh_exchange_body(x, kh_slice_of(text, PIECE));
		}
		assert_refused(413, KH_ERR_CONTENT_TOO_LARGE, 0, 1);
		world_end(0);
	}
}

static void test_too_much_held_content_is_refused_before_it_comes(void **state)
{
	(void)state;
	near_begin("m.example");
	(void)near_request("POST", "/", 1 << 30);
	assert_null(near_send());
	assert_refused(413, KH_ERR_CONTENT_TOO_LARGE, 0, 1);
	world_end(0);
}

/* ---- time ---- */

static void test_each_wait_has_its_end(void **state)
{
	static const struct {
		const char *host;
		enum kh_exchange_state state;
		enum kh_err_code reason;
	} waits[] = {
		{ "m.example", KH_EXCHANGE_BUFFER, KH_ERR_REQUEST_TIMEOUT },
		{ "a.example", KH_EXCHANGE_SECRET, KH_ERR_CREDENTIAL_UNAVAILABLE },
		{ "b.example", KH_EXCHANGE_RELAY, KH_ERR_REQUEST_TIMEOUT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
		near_begin(waits[i].host);
		if (waits[i].state == KH_EXCHANGE_SECRET)
			(void)near_request("GET", "/", -1);
		else
			(void)near_request("POST", "/", 4);
		struct kh_exchange *x = near_send();
		kh_loop_turn_end(world.loop);
		assert_int_equal(x->state, waits[i].state);
		uint64_t due = kh_exchange_deadline(x);
		assert_true(due > world.loop->now_ms);
		assert_true(due <= world.loop->now_ms + 60 * MINUTE_MS);
		world.loop->now_ms = due;
		kh_exchange_timed_out(x);
		assert_int_equal(near.reason, waits[i].reason);
		assert_int_equal(near.overs, 1);
		world_end(0);
	}
}

/* ---- its end, in every state ---- */

/* How far it has come when it ends. */
enum until {
	UNTIL_BUFFER = 0,
	UNTIL_SECRET,
	UNTIL_COMMIT,
	UNTIL_CONNECT,
	UNTIL_RELAY,
	UNTIL_CONTENT,
	UNTIL_HEAD,
	UNTIL_BODY,
	UNTILS
};

static struct kh_exchange *come_as_far_as(enum until until)
{
	near_begin(until == UNTIL_BUFFER   ? "m.example"
		   : until == UNTIL_SECRET ? "a.example"
					   : "b.example");
	if (until == UNTIL_CONNECT)
		world.way = FAR_IS_LATE;
	(void)near_request(until == UNTIL_SECRET ? "GET" : "POST", "/",
			   until == UNTIL_SECRET ? -1 : 8);
	struct kh_exchange *x = near_send();
	if (until <= UNTIL_COMMIT)
		return x;
	assert_records(1, 0, 0);
	if (until >= UNTIL_CONTENT)
		kh_exchange_body(x, KH_SLICE("half"));
	if (until >= UNTIL_HEAD)
		assert_true(far_answers(far_last(), 200, KH_FRAMING_CHUNKED));
	if (until >= UNTIL_BODY)
		far_says(far_last(), "some");
	return x;
}

/* Before its record is made, the one of a refusal; from then on one close. */
static void assert_one_end(enum until until)
{
	size_t opened = until >= UNTIL_COMMIT;

	assert_null(near.stream.exchange);
	assert_records(opened, opened, !opened);
	for (size_t i = 0; i < world.n_fars; i++)
		assert_true(world.fars[i].released && !world.fars[i].clean);
}

static void test_the_sandbox_goes_away_in_every_state(void **state)
{
	(void)state;
	for (enum until until = 0; until < UNTILS; until++) {
		struct kh_exchange *x = come_as_far_as(until);
		kh_exchange_gone(x, KH_ERR_DOWN_CLOSED, "it went away");
		assert_one_end(until);
		assert_int_equal(near.overs, 0); /* nobody is there to hear of it */
		world_end(0);
	}
}

static void test_it_fails_in_every_state(void **state)
{
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	kh_err_set(&err, KH_ERR_RESPONSE_TIMEOUT, "for the test");
	for (enum until until = 0; until < UNTILS; until++) {
		struct kh_exchange *x = come_as_far_as(until);
		kh_exchange_fail(x, &err);
		assert_one_end(until);
		assert_int_equal(near.overs, 1);
		assert_int_equal(near.answers, until < UNTIL_HEAD);
		assert_int_equal(near.end, until < UNTIL_HEAD ? KH_DOWN_WHOLE : KH_DOWN_CUT);
		world_end(0);
	}
}

static void test_the_upstream_breaks_off_in_every_state_that_it_has(void **state)
{
	(void)state;
	for (enum until until = UNTIL_RELAY; until < UNTILS; until++) {
		(void)come_as_far_as(until);
		far_breaks(far_last(), KH_ERR_UP_CLOSED);
		assert_one_end(until);
		assert_int_equal(near.reason, KH_ERR_UP_CLOSED);
		world_end(0);
	}
}

static void test_what_has_not_left_is_taken_back(void **state)
{
	(void)state;
	(void)come_as_far_as(UNTIL_BODY);
	near.can_take_back = true;
	far_breaks(far_last(), KH_ERR_RESPONSE_MALFORMED);
	assert_int_equal(near.answers, 1);
	assert_int_equal(near.status, 502);
	assert_int_equal(near.end, KH_DOWN_WHOLE);
	assert_one_end(UNTIL_BODY);
	world_end(0);
}

/* ---- a fault of our own ---- */

/* It ends as for any other error. */
static void test_a_second_connection_fails_closed(void **state)
{
	(void)state;
	(void)come_as_far_as(UNTIL_CONTENT);
	far_comes(far_last());
	assert_one_end(UNTIL_CONTENT);
	assert_int_equal(near.status, 500);
	assert_int_equal(near.reason, KH_ERR_INTERNAL);
	assert_int_equal(kh_buf_len(&far_last()->head), strlen("POST /\r\n")); /* no other one */
	assert_int_equal(written("relay can't follow relay"), 1);
	world_end(1);
}

static void test_a_second_final_head_fails_closed(void **state)
{
	(void)state;
	(void)come_as_far_as(UNTIL_HEAD);
	assert_false(far_answers(far_last(), 200, KH_FRAMING_CHUNKED));
	assert_one_end(UNTIL_HEAD);
	assert_int_equal(near.heads, 1);
	assert_int_equal(near.end, KH_DOWN_CUT);
	assert_int_equal(near.reason, KH_ERR_INTERNAL);
	world_end(1);
}

static void end_again(struct kh_exchange *x)
{
	kh_exchange_gone(x, KH_ERR_DOWN_CLOSED, "again");
}

static void fail_again(struct kh_exchange *x)
{
	kh_exchange_end(x, KH_DOWN_LOST);
}

static void test_what_has_ended_cannot_end_again(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		(void)come_as_far_as(UNTIL_BODY);
		near.in_over = i ? end_again : fail_again;
		far_ends(far_last());
		assert_int_equal(near.overs, 1);
		assert_records(1, 1, 0);
		world_end(1);
	}
}

/* Its query is read again only for a rule that names addresses. */
static void test_an_address_costs_nothing_where_no_rule_names_any(void **state)
{
	static const char by_address[] =
		"version: 1\n"
		"listen: [ { unix: /nowhere/s, tenant: t } ]\n"
		"tenants: { t: { rules: [ { deny: \"https://[10.0.0.0/8]\" },"
		" { allow: \"https://b.example\" } ] } }\n";
	struct kh_sockaddr addr;

	(void)state;
	assert_true(kh_sockaddr_parse(&addr, KH_SLICE("192.0.2.1:443"), 443, NULL));
	for (int i = 0; i < 2; i++) {
		near_begin("b.example");
		struct kh_generation *next = world_generation_of(2, i ? by_address : world_yaml);
		world_reload(next);
		struct kh_exchange *x = near_ask("GET", "/path?a&b&c&d");
		assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
		uint64_t before = world.loop->decision_steps;
		assert_true(kh_request_may_go_to(x, &addr, NULL));
		assert_int_equal(world.loop->decision_steps > before, i);
		kh_exchange_gone(x, KH_ERR_DOWN_CLOSED, "the test is over");
		world_end(0);
		kh_generation_unref(next);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_steps_of_its_tables_are_made),
		cmocka_unit_test(test_it_is_recorded_then_sent_then_closed),
		cmocka_unit_test(test_its_content_goes_up_as_it_comes),
		cmocka_unit_test(test_another_try_has_no_record_of_its_own),
		cmocka_unit_test(test_it_waits_for_its_credential),
		cmocka_unit_test(test_held_content_follows_the_head),
		cmocka_unit_test(test_a_raw_tunnel_is_over_when_both_sides_have_ended),
		cmocka_unit_test(test_a_page_of_our_own_goes_nowhere),
		cmocka_unit_test(test_what_the_rules_deny_leaves_one_record),
		cmocka_unit_test(test_without_a_journal_nothing_goes),
		cmocka_unit_test(test_an_end_that_found_no_room_is_recorded_when_there_is_some),
		cmocka_unit_test(test_while_the_journal_fails_no_open_record_is_made),
		cmocka_unit_test(test_no_upstream_is_a_close_with_its_reason),
		cmocka_unit_test(test_held_content_is_read_in_the_pieces_in_which_it_comes),
		cmocka_unit_test(test_held_content_without_a_model_is_refused),
		cmocka_unit_test(test_a_lower_limit_holds_for_content_that_is_held_already),
		cmocka_unit_test(test_too_much_held_content_is_refused_before_it_comes),
		cmocka_unit_test(test_each_wait_has_its_end),
		cmocka_unit_test(test_the_sandbox_goes_away_in_every_state),
		cmocka_unit_test(test_it_fails_in_every_state),
		cmocka_unit_test(test_the_upstream_breaks_off_in_every_state_that_it_has),
		cmocka_unit_test(test_what_has_not_left_is_taken_back),
		cmocka_unit_test(test_a_second_connection_fails_closed),
		cmocka_unit_test(test_a_second_final_head_fails_closed),
		cmocka_unit_test(test_what_has_ended_cannot_end_again),
		cmocka_unit_test(test_an_address_costs_nothing_where_no_rule_names_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
