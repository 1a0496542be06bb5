/* questions.h - requests that wait until a person has answered (`keyhole run --ask`) */
#ifndef KEYHOLE_LOOP_QUESTIONS_H
#define KEYHOLE_LOOP_QUESTIONS_H

#include <keyhole/base/host.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/target.h>

/*
 * One object per worker, shared by its threads. An event thread asks (kh_questions_ask) and makes
 * its exchange wait. The admin thread shows the questions to one listener, and brings the answers
 * (kh_questions_answer). Each event thread is told by kh_loop_post_answer. Nothing here waits.
 *
 * Requests with the same method, URL and query that wait at the same time are one question. An
 * answer "for this run" is remembered with method, scheme, authority and path, and allows any
 * query.
 */
struct kh_questions;
struct kh_loop;

/* What a person says. A zeroed answer refuses. */
enum kh_reply { KH_REPLY_NO = 0, KH_REPLY_ONCE, KH_REPLY_RUN, KH_REPLIES };
/* "no", "once", "run". */
const char *kh_reply_name(enum kh_reply reply);
/* Return: false: it is none of these names. */
bool kh_reply_find(struct kh_slice name, enum kh_reply *out);

/* An answer, and who gave it. */
struct kh_answered {
	enum kh_reply reply;
	uint32_t uid;
	uint64_t at_ms; /* by the wall's clock; 0: nobody has answered */
};

/* The request that is asked about, in the form that would be sent. Views. */
struct kh_question {
	uint64_t sandbox; /* its number (struct kh_listener_stats) */
	struct kh_slice method;
	enum kh_scheme scheme;
	const struct kh_authority *authority;
	struct kh_slice path, query; /* as sent; query.ptr NULL: none */
};

/* `loops`: told of answers; they and the array must outlive the questions. `wait_ms`: how long a
 * request waits at most. Return: NULL without memory. */
struct kh_questions *kh_questions_new(struct kh_loop *const *loops, unsigned n_loops,
				      uint32_t wait_ms);
void kh_questions_free(struct kh_questions *questions); /* NULL is fine */

/* ---- for the event threads. `questions` may be NULL: nobody is ever asked ---- */

/* Would kh_questions_ask make it wait, or allow it? (Bounds and memory aside.) */
bool kh_questions_may_allow(struct kh_questions *questions, const struct kh_question *about);

enum kh_question_state {
	KH_QUESTION_REFUSED = 0, /* it is not asked: nobody listens; it can't be shown whole; too
				    many wait already; or no memory */
	KH_QUESTION_ASKED,	 /* its answer comes by kh_loop_post_answer, or never */
	KH_QUESTION_ANSWERED,	 /* somebody has allowed it for this run */
};
/* ASKED: *id is its number, never 0; *until_ms when it ends, on the clock of `now_ms`. ANSWERED:
 * *answered says by whom. */
enum kh_question_state kh_questions_ask(struct kh_questions *questions,
					const struct kh_question *about, uint64_t now_ms,
					uint32_t *id, uint64_t *until_ms,
					struct kh_answered *answered);
/* One request that was ASKED waits no more. Does nothing if the question is answered. */
void kh_questions_leave(struct kh_questions *questions, uint32_t id);

/* ---- for the admin thread ---- */

/* Takes the one place of a listener. Return: false: somebody listens already, with the process
 * *pid. */
bool kh_questions_listen(struct kh_questions *questions, uint32_t pid, uint32_t *by_pid);
/* The listener has gone: what waits is refused. */
void kh_questions_unlisten(struct kh_questions *questions);
/* Calls `show` for each question that waits, oldest first. `what` is "METHOD URL", in visible ASCII
 * (a view); left_ms: how long it still waits. `show` must not call this module. */
void kh_questions_show(struct kh_questions *questions, uint64_t now_ms,
		       void (*show)(void *arg, uint32_t id, struct kh_slice what, uint64_t left_ms),
		       void *arg);
enum kh_answer_result {
	KH_ANSWER_IS_LATE = 0, /* no such question waits */
	KH_ANSWER_TAKEN,
	KH_ANSWER_NOT_REMEMBERED, /* taken as "once": there is no room to remember another one */
};
enum kh_answer_result kh_questions_answer(struct kh_questions *questions, uint32_t id,
					  enum kh_reply reply, uint32_t uid);

#endif
