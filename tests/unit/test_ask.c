/* test_ask.c - an exchange that no rule allows, and a person who may allow it */
/* wrap: kh_up_acquire */
#include "near_side.h"

#include <event2/event.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/loop/questions.h>

enum { WAIT_MS = 60 * 1000, UID = 1234 };

static struct kh_loop *loops[1];

/* Somebody listens. */
static void begin_at(const char *host)
{
	uint32_t pid;

	near_begin(host);
	loops[0] = world.loop;
	world.gen->config->ask_ms = WAIT_MS;
	world.worker.questions = kh_questions_new(loops, 1, WAIT_MS);
	assert_non_null(world.worker.questions);
	assert_true(kh_questions_listen(world.worker.questions, 1, &pid));
}

static void end_all(void)
{
	kh_questions_free(world.worker.questions);
	world.worker.questions = NULL;
	world_end(0);
}

/* What other threads have left is taken. */
static void take_mail(void)
{
	assert_true(event_base_loop(world.loop->base, EVLOOP_NONBLOCK) >= 0);
}

static unsigned n_shown;
static uint32_t last_shown;
static char shown[KH_LIMIT_QUESTION_BYTES + 1];

static void note(void *arg, uint32_t id, struct kh_slice what, uint64_t left_ms)
{
	(void)arg;
	(void)left_ms;
	n_shown++;
	last_shown = id;
	(void)snprintf(shown, sizeof(shown), "%.*s", (int)what.len, what.ptr);
}

static unsigned questions(void)
{
	n_shown = 0;
	kh_questions_show(world.worker.questions, world.loop->now_ms, note, NULL);
	return n_shown;
}

static void say(enum kh_reply reply)
{
	assert_int_equal(questions(), 1);
	assert_int_equal(kh_questions_answer(world.worker.questions, last_shown, reply, UID),
			 KH_ANSWER_TAKEN);
	take_mail();
}

static void assert_passes(struct kh_exchange *x)
{
	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	kh_loop_turn_end(world.loop);
	assert_int_equal(x->state, KH_EXCHANGE_RELAY);
	assert_true(far_answers(far_last(), 200, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_int_equal(near.status, 200);
}

/* `opens`: records of others. */
static void assert_refused(size_t denials)
{
	assert_null(near.stream.exchange);
	assert_int_equal(near.status, 403);
	assert_int_equal(near.reason, KH_ERR_NO_RULE);
	kh_loop_turn_end(world.loop);
	assert_int_equal(written("\"event\":\"deny\""), denials);
}

static void it_is_refused_at_once_where_nobody_can_be_asked(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		begin_at("nowhere.example");
		if (i == 0) /* a worker that never asks */
			world.gen->config->ask_ms = 0;
		else if (i == 1)
			kh_questions_unlisten(world.worker.questions);
		else
			kh_questions_free(kh_steal_ptr(&world.worker.questions));
		assert_null(near_ask("GET", "/"));
		assert_refused(1);
		assert_int_equal(written("\"detail\":\"no rule allows it\""), 1);
		assert_int_equal(written("answer"), 0);
		end_all();
	}
}

static void it_waits_and_passes_once_without_a_credential(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	struct kh_exchange *x = near_ask("GET", "/a%20b?q=1");
	assert_int_equal(x->state, KH_EXCHANGE_ASK);
	assert_records(0, 0, 0);
	assert_int_equal(questions(), 1);
	assert_string_equal(shown, "GET https://nowhere.example/a%20b?q=1");
	say(KH_REPLY_ONCE);
	assert_int_equal(x->injection.count, 0);
	assert_passes(x);
	assert_records(1, 1, 0);
	assert_int_equal(written("\"answer\":\"once\",\"answer.uid\":1234,\"answer.time\":\"20"),
			 1);
	assert_int_equal(written("\"rule\":\"a person's answer\""), 1);
	assert_int_equal(written("\"credential\""), 0);
	/* The next one waits again. */
	assert_non_null(near_ask("GET", "/a%20b?q=1"));
	assert_int_equal(near.stream.exchange->state, KH_EXCHANGE_ASK);
	say(KH_REPLY_NO);
	assert_refused(1);
	end_all();
}

static void for_this_run_the_same_passes_without_a_question(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	struct kh_exchange *x = near_ask("GET", "/a?q=1");
	say(KH_REPLY_RUN);
	assert_passes(x);
	x = near_ask("GET", "/a?q=2");
	assert_passes(x);
	assert_int_equal(written("\"answer\":\"run\""), 2);
	assert_int_equal(questions(), 0);
	x = near_ask("GET", "/b");
	assert_int_equal(x->state, KH_EXCHANGE_ASK);
	say(KH_REPLY_NO);
	assert_refused(1);
	end_all();
}

static void no_is_a_refusal_with_who_said_it(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	assert_non_null(near_ask("POST", "/"));
	say(KH_REPLY_NO);
	assert_refused(1);
	assert_int_equal(written("\"answer\":\"no\",\"answer.uid\":1234"), 1);
	assert_int_equal(written("and the person who was asked said no"), 1);
	assert_int_equal(world.n_fars, 0);
	end_all();
}

static void without_an_answer_it_is_refused_in_time(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	struct kh_exchange *x = near_ask("GET", "/");
	uint64_t due = kh_exchange_deadline(x);
	assert_int_equal(due, world.loop->now_ms + WAIT_MS);
	world.loop->now_ms = due;
	kh_exchange_timed_out(x);
	assert_refused(1);
	assert_int_equal(written("nobody answered in time"), 1);
	assert_int_equal(written("\"answer\""), 0);
	assert_int_equal(questions(), 0);
	end_all();
}

/* The time that a person takes is not the request's. */
static void the_wait_is_not_part_of_timeouts_total(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	world.gen->config->timeouts.total = 10 * 1000;
	struct kh_exchange *x = near_ask("GET", "/");
	uint64_t began = world.loop->now_ms;
	assert_int_equal(kh_exchange_deadline(x), began + WAIT_MS);
	world.loop->now_ms += 30 * 1000;
	say(KH_REPLY_ONCE);
	assert_int_equal(kh_exchange_last_ms(x), began + 40 * 1000);
	assert_passes(x);
	end_all();
}

static void whoever_leaves_is_not_asked_about(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	struct kh_exchange *x = near_ask("GET", "/");
	assert_int_equal(questions(), 1);
	kh_exchange_gone(x, KH_ERR_DOWN_CLOSED, "the sandbox went away");
	assert_int_equal(questions(), 0);
	assert_int_equal(kh_questions_answer(world.worker.questions, last_shown, KH_REPLY_RUN, UID),
			 KH_ANSWER_IS_LATE);
	take_mail();
	assert_int_equal(world.n_fars, 0);
	kh_loop_turn_end(world.loop);
	end_all();
}

static void when_the_listener_leaves_it_is_refused(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	assert_non_null(near_ask("GET", "/"));
	kh_questions_unlisten(world.worker.questions);
	take_mail();
	assert_refused(1);
	assert_int_equal(written("nobody is there to answer any more"), 1);
	assert_int_equal(written("\"answer\""), 0);
	end_all();
}

static void a_reload_and_a_drain_refuse_what_waits(void **state)
{
	(void)state;
	for (int drain = 0; drain < 2; drain++) {
		begin_at("nowhere.example");
		struct kh_exchange *x = near_ask("GET", "/");
		if (drain)
			x->member.ops->drain(&x->member);
		else
			x->member.ops->reload(&x->member);
		assert_refused(1);
		assert_int_equal(questions(), 0);
		end_all();
	}
}

/* An answer is for the rules that it was given under. */
static void what_was_allowed_once_is_asked_again_after_a_reload(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	struct kh_exchange *x = near_ask("GET", "/");
	say(KH_REPLY_ONCE);
	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	x->member.ops->reload(&x->member);
	kh_loop_turn_end(world.loop);
	assert_int_equal(x->state, KH_EXCHANGE_ASK);
	assert_int_equal(world.n_fars, 0);
	say(KH_REPLY_NO);
	assert_refused(1);
	end_all();
}

static void what_else_would_refuse_it_is_not_asked_about(void **state)
{
	static const struct {
		const char *host, *method, *target, *field, *value;
	} cases[] = {
		{ "b.example", "GET", "/denied", NULL, NULL },
		{ "nowhere.example", "GET", "/a%2Fb", NULL, NULL },
		{ "nowhere.example", "GET", "/a%3Fb", NULL, NULL },
		{ "nowhere.example", "GET", "/", "X-HTTP-Method-Override", "DELETE" },
		{ "nowhere.example", "GET", "/", "X-Forwarded-Host", "b.example" },
		{ "nowhere.example", "GET", "/", "Authorization", "Bearer abc" },
		{ "nowhere.example", "GET", "/", "Cookie", "session=abc" },
		{ "127.0.0.1", "GET", "/", NULL, NULL },
		{ "169.254.169.254", "GET", "/latest/meta-data/", NULL, NULL },
		{ "localhost", "GET", "/", NULL, NULL },
		{ "10.1.2.3", "GET", "/", NULL, NULL },
		{ "nowhere.example", "OPTIONS", "*", NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin_at(cases[i].host);
		(void)near_request(cases[i].method, cases[i].target, -1);
		if (cases[i].field)
			near_add_field(cases[i].field, cases[i].value);
		if (near_send())
			fail_msg("%s %s %s: waits", cases[i].host, cases[i].target,
				 cases[i].field ? cases[i].field : "");
		assert_int_equal(near.status, 403);
		assert_int_equal(questions(), 0);
		kh_loop_turn_end(world.loop);
		assert_int_equal(world.n_fars, 0);
		end_all();
	}
}

/* A rule asked for the model, and it is not that of the rule: the person would not see it. */
static void what_was_decided_by_its_content_is_not_asked_about(void **state)
{
	static const char text[] = "{\"model\":\"two\"}";

	(void)state;
	begin_at("m.example");
	(void)near_request("POST", "/", (int)strlen(text));
	struct kh_exchange *x = near_send();
	assert_int_equal(x->state, KH_EXCHANGE_BUFFER);
	kh_exchange_body(x, kh_slice_str(text));
	kh_exchange_request_end(x, NULL, 0);
	assert_refused(1);
	assert_int_equal(questions(), 0);
	end_all();
}

static void its_content_comes_only_after_the_answer(void **state)
{
	(void)state;
	begin_at("nowhere.example");
	(void)near_request("POST", "/", 4);
	struct kh_exchange *x = near_send();
	assert_int_equal(x->state, KH_EXCHANGE_ASK);
	assert_false(kh_exchange_takes_body(x));
	say(KH_REPLY_ONCE);
	kh_loop_turn_end(world.loop);
	assert_true(kh_exchange_takes_body(x));
	kh_exchange_body(x, KH_SLICE("half"));
	kh_exchange_request_end(x, NULL, 0);
	assert_slice_equal(kh_buf_view(&far_last()->content), "half");
	assert_true(far_answers(far_last(), 204, KH_FRAMING_NONE));
	far_ends(far_last());
	kh_loop_turn_end(world.loop);
	end_all();
}

static void an_answer_to_another_question_is_not_its(void **state)
{
	static const struct kh_answered yes = { KH_REPLY_RUN, UID, 1 };

	(void)state;
	begin_at("nowhere.example");
	struct kh_exchange *x = near_ask("GET", "/");
	x->member.ops->answer_came(&x->member, x->question + 1, &yes);
	assert_int_equal(x->state, KH_EXCHANGE_ASK);
	say(KH_REPLY_ONCE);
	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	x->member.ops->answer_came(&x->member, 0, &yes);
	assert_int_equal(x->answered.reply, KH_REPLY_ONCE);
	assert_passes(x);
	end_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_refused_at_once_where_nobody_can_be_asked),
		cmocka_unit_test(it_waits_and_passes_once_without_a_credential),
		cmocka_unit_test(for_this_run_the_same_passes_without_a_question),
		cmocka_unit_test(no_is_a_refusal_with_who_said_it),
		cmocka_unit_test(without_an_answer_it_is_refused_in_time),
		cmocka_unit_test(the_wait_is_not_part_of_timeouts_total),
		cmocka_unit_test(whoever_leaves_is_not_asked_about),
		cmocka_unit_test(when_the_listener_leaves_it_is_refused),
		cmocka_unit_test(a_reload_and_a_drain_refuse_what_waits),
		cmocka_unit_test(what_was_allowed_once_is_asked_again_after_a_reload),
		cmocka_unit_test(what_else_would_refuse_it_is_not_asked_about),
		cmocka_unit_test(what_was_decided_by_its_content_is_not_asked_about),
		cmocka_unit_test(its_content_comes_only_after_the_answer),
		cmocka_unit_test(an_answer_to_another_question_is_not_its),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
