/*
 * admin_questions.c - /v1/questions: shows requests that wait for a person, and takes the answers
 *
 * These routes exist only in the private daemon of `keyhole run --ask`, whose socket has no others.
 * The stream has a line for each question, and one when it is over, whoever ended it. It is written
 * by the same timer as events (admin_events.c). What is shown is visible ASCII (questions.h), and
 * escaped as JSON all the same.
 */

#include "admin_internal.h"

#include <stdlib.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/loop/questions.h>

enum { LINE_BYTES = 8 * KH_LIMIT_QUESTION_BYTES };

struct kh_admin_listener {
	struct kh_questions *questions;
	uint32_t shown[KH_LIMIT_QUESTIONS]; /* and not over, as far as the reader knows */
	size_t n_shown;
};

void kh_admin_listener_free(struct kh_admin_listener *listener)
{
	if (!listener)
		return;
	kh_questions_unlisten(listener->questions);
	free(listener);
}

bool kh_admin_questions(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	struct kh_questions *questions = request->admin->worker->questions;
	uint32_t by;

	if (!questions || request->query.len > 0) {
		kh_admin_put_error(out, questions ? 400 : 404, "there is nothing of that name");
		return true;
	}
	struct kh_admin_listener *listener = calloc(1, sizeof(*listener));
	if (!listener)
		return false;
	if (!kh_questions_listen(questions, (uint32_t)request->pid, &by)) {
		char text[128];
		free(listener);
		(void)snprintf(text, sizeof(text),
			       "another `keyhole ask` answers for this run already (process %u)",
			       (unsigned)by);
		kh_admin_put_error(out, 409, text);
		return true;
	}
	listener->questions = questions;
	out->type = "application/x-ndjson";
	out->watch = kh_admin_watch_of(listener);
	if (out->watch)
		return true;
	kh_admin_listener_free(listener);
	return false;
}

/* --- what is shown ---------------------------------------------------------------------------- */

struct showing {
	struct kh_admin_listener *listener;
	struct kh_buf *out;
	uint32_t waiting[KH_LIMIT_QUESTIONS];
	size_t n_waiting;
};

static bool is_among(const uint32_t *ids, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Return: false: there is no room now, or no memory; it is tried again. */
static bool put_question(struct kh_buf *out, uint32_t id, struct kh_slice what, uint64_t left_ms)
{
	struct kh_buf line;

	kh_buf_init(&line, LINE_BYTES);
	bool ok = kh_buf_printf(&line,
				"{\"event\":\"question\",\"id\":%u,\"left_ms\":%llu,\"request\":",
				(unsigned)id, (unsigned long long)left_ms) &&
		  kh_json_string(&line, what) && kh_admin_put_line(out, kh_buf_view(&line), "}\n");
	kh_buf_fini(&line);
	return ok;
}

static void show_one(void *arg, uint32_t id, struct kh_slice what, uint64_t left_ms)
{
	struct showing *showing = arg;
	struct kh_admin_listener *listener = showing->listener;

	if (showing->n_waiting < KH_LIMIT_QUESTIONS)
		showing->waiting[showing->n_waiting++] = id;
	if (is_among(listener->shown, listener->n_shown, id) ||
	    listener->n_shown == KH_LIMIT_QUESTIONS)
		return;
	if (put_question(showing->out, id, what, left_ms))
		listener->shown[listener->n_shown++] = id;
}

static void show_what_is_over(const struct showing *showing)
{
	struct kh_admin_listener *listener = showing->listener;
	size_t kept = 0;
	char line[64];

	for (size_t i = 0; i < listener->n_shown; i++) {
		uint32_t id = listener->shown[i];
		bool over = !is_among(showing->waiting, showing->n_waiting, id);
		(void)snprintf(line, sizeof(line), "{\"event\":\"over\",\"id\":%u}", (unsigned)id);
		if (!over || !kh_admin_put_line(showing->out, kh_slice_str(line), "\n"))
			listener->shown[kept++] = id;
	}
	listener->n_shown = kept;
}

void kh_admin_listener_show(struct kh_admin_listener *listener, struct kh_buf *out)
{
	struct showing showing = { .listener = listener, .out = out };

	kh_questions_show(listener->questions, kh_clock_mono_ms(), show_one, &showing);
	show_what_is_over(&showing);
}

/* --- what is answered ------------------------------------------------------------------------- */

/* "id=7&answer=once" */
static bool read_answer(struct kh_slice query, uint32_t *id, enum kh_reply *reply)
{
	size_t end = kh_slice_find(query, '&', 0);
	struct kh_slice first = kh_slice_sub(query, 0, end),
			second = kh_slice_sub(query, end + 1, query.len);
	uint64_t number;

	if (!kh_slice_has_prefix(first, KH_SLICE("id=")) ||
	    !kh_slice_has_prefix(second, KH_SLICE("answer=")) ||
	    !kh_slice_to_u64(kh_slice_sub(first, 3, first.len), &number) || number == 0 ||
	    number > UINT32_MAX)
		return false;
	*id = (uint32_t)number;
	return kh_reply_find(kh_slice_sub(second, 7, second.len), reply);
}

bool kh_admin_question_answer(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	struct kh_questions *questions = request->admin->worker->questions;
	enum kh_reply reply = KH_REPLY_NO;
	uint32_t id;

	if (!questions) {
		kh_admin_put_error(out, 404, "there is nothing of that name");
		return true;
	}
	if (!read_answer(request->query, &id, &reply)) {
		kh_admin_put_error(out, 400, "an answer is id=N&answer=once, run or no");
		return true;
	}
	switch (kh_questions_answer(questions, id, reply, request->uid)) {
	case KH_ANSWER_TAKEN:
		kh_admin_put_done(out, true, "");
		break;
	case KH_ANSWER_NOT_REMEMBERED:
		kh_admin_put_done(out, true,
				  "allowed once: no more answers can be kept for this run");
		break;
	case KH_ANSWER_IS_LATE:
		kh_admin_put_error(out, 404, "this request does not wait any more");
		break;
	}
	return true;
}
