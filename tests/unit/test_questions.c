/* test_questions.c - requests that wait until a person has answered */
/* wrap: kh_loop_post_answer */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include <keyhole/loop/questions.h>
#include <keyhole/loop/worker.h>

enum { WAIT_MS = 60 * 1000, NOW_MS = 1000 };

static struct {
	struct kh_questions *q;
	unsigned told;
	uint32_t id; /* of the last one */
	struct kh_answered answered;
	char shown[4096];
	unsigned n_shown;
} world;

void __wrap_kh_loop_post_answer(struct kh_loop *loop, uint32_t question,
				const struct kh_answered *answered);
void __wrap_kh_loop_post_answer(struct kh_loop *loop, uint32_t question,
				const struct kh_answered *answered)
{
	(void)loop;
	world.told++;
	world.id = question;
	world.answered = *answered;
}

static struct kh_loop *const loops[] = { NULL };

static int begin(void **state)
{
	uint32_t pid;

	(void)state;
	memset(&world, 0, sizeof(world));
	world.q = kh_questions_new(loops, 1, WAIT_MS);
	return world.q && kh_questions_listen(world.q, 77, &pid) && pid == 77 ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	kh_questions_free(world.q);
	return 0;
}

struct asked {
	enum kh_question_state state;
	uint32_t id;
	uint64_t until_ms;
	struct kh_answered answered;
};

static struct asked ask_of(uint64_t sandbox, const char *method, const char *authority,
			   const char *path, const char *query, uint64_t now_ms)
{
	struct kh_authority to;
	struct asked out = { .state = KH_QUESTION_REFUSED };

	assert_true(kh_authority_parse(&to, kh_slice_str(authority), 443, NULL));
	const struct kh_question about = {
		sandbox, kh_slice_str(method), KH_SCHEME_HTTPS,
		&to,	 kh_slice_str(path),   query ? kh_slice_str(query) : kh_slice_of(NULL, 0)
	};
	out.state =
		kh_questions_ask(world.q, &about, now_ms, &out.id, &out.until_ms, &out.answered);
	return out;
}

static struct asked ask(const char *path, const char *query)
{
	return ask_of(1, "GET", "h.example", path, query, NOW_MS);
}

static bool may_allow(const char *path)
{
	struct kh_authority to;

	assert_true(kh_authority_parse(&to, KH_SLICE("h.example"), 443, NULL));
	const struct kh_question about = { 1,	KH_SLICE("GET"),    KH_SCHEME_HTTPS,
					   &to, kh_slice_str(path), kh_slice_of(NULL, 0) };
	return kh_questions_may_allow(world.q, &about);
}

static void show(void *arg, uint32_t id, struct kh_slice what, uint64_t left_ms)
{
	size_t used = strlen(world.shown);

	(void)arg;
	world.n_shown++;
	(void)snprintf(world.shown + used, sizeof(world.shown) - used, "%u %.*s %u\n", id,
		       (int)what.len, what.ptr, (unsigned)left_ms);
}

static const char *shown(uint64_t now_ms)
{
	world.shown[0] = '\0';
	world.n_shown = 0;
	kh_questions_show(world.q, now_ms, show, NULL);
	return world.shown;
}

static void where_nobody_listens_nothing_waits(void **state)
{
	struct kh_questions *mine = world.q;

	(void)state;
	world.q = NULL; /* of a worker that never asks */
	assert_false(may_allow("/"));
	assert_int_equal(ask("/", NULL).state, KH_QUESTION_REFUSED);
	kh_questions_leave(world.q, 1);
	world.q = mine;
	assert_true(may_allow("/"));
	assert_false(may_allow("*"));
	kh_questions_unlisten(world.q);
	assert_false(may_allow("/"));
	assert_int_equal(ask("/", NULL).state, KH_QUESTION_REFUSED);
	assert_int_equal(world.told, 0);
}

static void one_listens_at_a_time(void **state)
{
	uint32_t pid;

	(void)state;
	assert_false(kh_questions_listen(world.q, 78, &pid));
	assert_int_equal(pid, 77);
	kh_questions_unlisten(world.q);
	assert_true(kh_questions_listen(world.q, 78, &pid));
}

static void an_answer_once_is_for_those_who_wait_and_for_nobody_else(void **state)
{
	(void)state;
	struct asked one = ask("/a", "q=1"), same = ask("/a", "q=1"), other = ask("/a", "q=2");
	assert_int_equal(one.state, KH_QUESTION_ASKED);
	assert_int_equal(one.until_ms, NOW_MS + WAIT_MS);
	assert_int_equal(same.id, one.id);
	assert_int_not_equal(other.id, one.id);
	assert_string_equal(shown(NOW_MS + 1000), "1 GET https://h.example/a?q=1 59000\n"
						  "2 GET https://h.example/a?q=2 59000\n");
	assert_int_equal(kh_questions_answer(world.q, one.id, KH_REPLY_ONCE, 1000),
			 KH_ANSWER_TAKEN);
	assert_int_equal(world.told, 1);
	assert_int_equal(world.id, one.id);
	assert_int_equal(world.answered.reply, KH_REPLY_ONCE);
	assert_int_equal(world.answered.uid, 1000);
	assert_true(world.answered.at_ms > 0);
	assert_int_equal(kh_questions_answer(world.q, one.id, KH_REPLY_RUN, 1000),
			 KH_ANSWER_IS_LATE);
	assert_int_equal(ask("/a", "q=1").state, KH_QUESTION_ASKED);
}

static void an_answer_for_the_run_is_for_the_same_method_authority_and_path(void **state)
{
	static const struct {
		uint64_t sandbox;
		const char *method, *authority, *path, *query;
		enum kh_question_state state;
	} cases[] = {
		{ 1, "GET", "h.example", "/a", NULL, KH_QUESTION_ANSWERED },
		{ 1, "GET", "H.example:443", "/a", "other=2", KH_QUESTION_ANSWERED },
		{ 1, "POST", "h.example", "/a", NULL, KH_QUESTION_ASKED },
		{ 1, "GET", "h.example", "/a/", NULL, KH_QUESTION_ASKED },
		{ 1, "GET", "h.example", "/", NULL, KH_QUESTION_ASKED },
		{ 1, "GET", "h.example:8443", "/a", NULL, KH_QUESTION_ASKED },
		{ 1, "GET", "x.h.example", "/a", NULL, KH_QUESTION_ASKED },
		{ 2, "GET", "h.example", "/a", NULL, KH_QUESTION_ASKED },
	};

	(void)state;
	struct asked one = ask("/a", "q=1"), other = ask("/a", "q=2");
	(void)ask("/b", NULL);
	assert_int_equal(kh_questions_answer(world.q, one.id, KH_REPLY_RUN, 7), KH_ANSWER_TAKEN);
	assert_int_equal(world.told, 2); /* what waits with another query goes on, too */
	assert_int_equal(world.id, other.id);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct asked got = ask_of(cases[i].sandbox, cases[i].method, cases[i].authority,
					  cases[i].path, cases[i].query, NOW_MS);
		assert_int_equal(got.state, cases[i].state);
		if (got.state == KH_QUESTION_ANSWERED)
			assert_int_equal(got.answered.uid, 7);
	}
	/* Also when nobody listens any more. */
	kh_questions_unlisten(world.q);
	assert_true(may_allow("/a"));
	assert_false(may_allow("/c"));
	assert_int_equal(ask("/a", NULL).state, KH_QUESTION_ANSWERED);
}

static void no_is_for_those_who_wait(void **state)
{
	(void)state;
	struct asked one = ask("/a", NULL);
	assert_int_equal(kh_questions_answer(world.q, one.id, KH_REPLY_NO, 7), KH_ANSWER_TAKEN);
	assert_int_equal(world.answered.reply, KH_REPLY_NO);
	assert_int_equal(ask("/a", NULL).state, KH_QUESTION_ASKED);
}

static void who_has_left_is_not_shown(void **state)
{
	(void)state;
	struct asked one = ask("/a", NULL);
	(void)ask("/a", NULL);
	kh_questions_leave(world.q, one.id);
	(void)shown(NOW_MS);
	assert_int_equal(world.n_shown, 1);
	kh_questions_leave(world.q, one.id);
	kh_questions_leave(world.q, one.id);
	(void)shown(NOW_MS);
	assert_int_equal(world.n_shown, 0);
	assert_int_equal(kh_questions_answer(world.q, one.id, KH_REPLY_ONCE, 7), KH_ANSWER_IS_LATE);
	assert_int_equal(world.told, 0);
}

static void when_the_listener_goes_all_who_wait_are_told(void **state)
{
	(void)state;
	(void)ask("/a", NULL);
	(void)ask("/b", NULL);
	kh_questions_unlisten(world.q);
	assert_int_equal(world.told, 2);
	assert_int_equal(world.answered.reply, KH_REPLY_NO);
	assert_int_equal(world.answered.at_ms, 0);
}

static void a_flood_is_refused(void **state)
{
	char path[32];

	(void)state;
	for (unsigned i = 0; i < 2 * KH_LIMIT_QUESTIONS_OF_SANDBOX; i++) {
		/* Those that are joined count as well. */
		(void)snprintf(path, sizeof(path), "/%u", i / 2);
		assert_int_equal(ask(path, NULL).state, i < KH_LIMIT_QUESTIONS_OF_SANDBOX
								? KH_QUESTION_ASKED
								: KH_QUESTION_REFUSED);
	}
	unsigned all = KH_LIMIT_QUESTIONS_OF_SANDBOX / 2;
	for (uint64_t sandbox = 2; sandbox < 20; sandbox++)
		for (unsigned i = 0; i < 5; i++, all++) {
			(void)snprintf(path, sizeof(path), "/%u", i);
			assert_int_equal(
				ask_of(sandbox, "GET", "h.example", path, NULL, NOW_MS).state,
				all < KH_LIMIT_QUESTIONS ? KH_QUESTION_ASKED : KH_QUESTION_REFUSED);
		}
	kh_questions_unlisten(world.q);
	assert_int_equal(world.told, KH_LIMIT_QUESTIONS);
}

static void answers_for_the_run_are_bounded(void **state)
{
	char path[32];

	(void)state;
	for (unsigned i = 0; i <= KH_LIMIT_ANSWERS_REMEMBERED; i++) {
		(void)snprintf(path, sizeof(path), "/%u", i);
		struct asked one = ask(path, NULL);
		bool fits = i < KH_LIMIT_ANSWERS_REMEMBERED;
		assert_int_equal(kh_questions_answer(world.q, one.id, KH_REPLY_RUN, 7),
				 fits ? KH_ANSWER_TAKEN : KH_ANSWER_NOT_REMEMBERED);
		assert_int_equal(world.answered.reply, fits ? KH_REPLY_RUN : KH_REPLY_ONCE);
		assert_int_equal(ask(path, NULL).state,
				 fits ? KH_QUESTION_ANSWERED : KH_QUESTION_ASKED);
	}
}

static void what_cannot_be_shown_whole_is_not_asked(void **state)
{
	char path[KH_LIMIT_QUESTION_BYTES + 1];
	static const char *const paths[] = {
		"/a b", "/\x1b[2J", "/\x7f", "/\n", "/\xe2\x80\xae", "/\xc3\xa9", "*", "",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_int_equal(ask(paths[i], NULL).state, KH_QUESTION_REFUSED);
	assert_int_equal(ask("/", "\x1b").state, KH_QUESTION_REFUSED);
	assert_int_equal(ask_of(1, "", "h.example", "/", NULL, 0).state, KH_QUESTION_REFUSED);
	assert_int_equal(ask_of(1, "G T", "h.example", "/", NULL, 0).state, KH_QUESTION_REFUSED);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	size_t rest = strlen("GET https://h.example");
	path[KH_LIMIT_QUESTION_BYTES - rest + 1] = '\0';
	assert_int_equal(ask(path, NULL).state, KH_QUESTION_REFUSED);
	path[KH_LIMIT_QUESTION_BYTES - rest] = '\0';
	assert_int_equal(ask(path, NULL).state, KH_QUESTION_ASKED);
	assert_int_equal(ask(path, "q").state, KH_QUESTION_REFUSED);
}

static void nobody_joins_a_question_that_is_over(void **state)
{
	(void)state;
	struct asked one = ask("/a", NULL);
	struct asked late = ask_of(1, "GET", "h.example", "/a", NULL, NOW_MS + WAIT_MS - 1);
	assert_int_equal(late.id, one.id);
	assert_int_equal(late.until_ms, one.until_ms);
	assert_int_equal(ask_of(1, "GET", "h.example", "/a", NULL, NOW_MS + WAIT_MS).state,
			 KH_QUESTION_REFUSED);
	assert_string_equal(shown(NOW_MS + WAIT_MS + 5), "1 GET https://h.example/a 0\n");
}

static void replies_have_names(void **state)
{
	enum kh_reply reply = KH_REPLY_RUN;

	(void)state;
	for (unsigned i = 0; i < KH_REPLIES; i++) {
		assert_true(kh_reply_find(kh_slice_str(kh_reply_name((enum kh_reply)i)), &reply));
		assert_int_equal(reply, i);
	}
	assert_false(kh_reply_find(KH_SLICE("yes"), &reply));
	assert_false(kh_reply_find(KH_SLICE(""), &reply));
	assert_string_equal(kh_reply_name((enum kh_reply)99), "no");
	static const struct kh_answered zeroed;
	assert_int_equal(zeroed.reply, KH_REPLY_NO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(where_nobody_listens_nothing_waits),
		TEST(one_listens_at_a_time),
		TEST(an_answer_once_is_for_those_who_wait_and_for_nobody_else),
		TEST(an_answer_for_the_run_is_for_the_same_method_authority_and_path),
		TEST(no_is_for_those_who_wait),
		TEST(who_has_left_is_not_shown),
		TEST(when_the_listener_goes_all_who_wait_are_told),
		TEST(a_flood_is_refused),
		TEST(answers_for_the_run_are_bounded),
		TEST(what_cannot_be_shown_whole_is_not_asked),
		TEST(nobody_joins_a_question_that_is_over),
		TEST(replies_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
