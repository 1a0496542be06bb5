/*
 * questions.c - requests that wait until a person has answered
 *
 * Everything is under one lock, which is held for a walk over short lists. Mail to the event
 * threads is posted without the lock. An exchange is in state ASK before its thread can take mail,
 * so no answer is missed. If mail is lost (no memory), the exchange ends at its own time.
 *
 * What is asked about is one text, "METHOD URL?QUERY". Only visible ASCII gets in, so the text is
 * the same for whoever reads it; nothing is cut, so nothing is hidden behind a cut.
 */
#include <keyhole/loop/questions.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/list.h>
#include <keyhole/loop/worker.h>

struct text {
	char *bytes;
	size_t len;
	size_t url_len; /* up to the query: what an answer for the run is remembered by */
};

struct waiting {
	struct kh_node link;
	uint32_t id;
	uint64_t sandbox;
	struct text text;
	unsigned requests; /* how many wait for the answer */
	uint64_t until_ms;
};

struct remembered {
	uint64_t sandbox;
	struct text text; /* without the query */
	struct kh_answered answered;
};

struct kh_questions {
	pthread_mutex_t lock;
	struct kh_loop *const *loops;
	unsigned n_loops;
	uint32_t wait_ms;
	uint32_t last_id;
	uint32_t listener_pid;
	bool is_heard;
	struct kh_node waiting; /* struct waiting.link, oldest first */
	size_t n_waiting;
	struct remembered remembered[KH_LIMIT_ANSWERS_REMEMBERED];
	size_t n_remembered;
};

static const char *const names[KH_REPLIES] = {
	[KH_REPLY_NO] = "no", [KH_REPLY_ONCE] = "once", [KH_REPLY_RUN] = "run"
};

const char *kh_reply_name(enum kh_reply reply)
{
	return reply < KH_REPLIES ? names[reply] : names[KH_REPLY_NO];
}

bool kh_reply_find(struct kh_slice name, enum kh_reply *out)
{
	for (unsigned i = 0; i < KH_REPLIES; i++) {
		if (!kh_slice_eq(name, kh_slice_str(names[i])))
			continue;
		*out = (enum kh_reply)i;
		return true;
	}
	return false;
}

struct kh_questions *kh_questions_new(struct kh_loop *const *loops, unsigned n_loops,
				      uint32_t wait_ms)
{
	struct kh_questions *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	kh_list_init(&q->waiting);
	q->loops = loops;
	q->n_loops = n_loops;
	q->wait_ms = wait_ms;
	return q;
}

/* Under the lock. */
static void forget(struct kh_questions *q, struct waiting *one)
{
	kh_list_remove(&one->link);
	q->n_waiting--;
	free(one->text.bytes);
	free(one);
}

void kh_questions_free(struct kh_questions *q)
{
	if (!q)
		return;
	struct kh_node *next;
	for (struct kh_node *node = q->waiting.next; node != &q->waiting; node = next) {
		next = node->next;
		forget(q, kh_container_of(node, struct waiting, link));
	}
	for (size_t i = 0; i < q->n_remembered; i++)
		free(q->remembered[i].text.bytes);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/* ---- what is asked about ---- */

static bool is_visible(struct kh_slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.ptr[i] <= ' ' || s.ptr[i] > '~')
			return false;
	return true;
}

/* Return: false: it can't be shown whole, or no memory. The caller frees the bytes. */
static bool write_text(const struct kh_question *about, struct text *out)
{
	kh_cleanup(kh_buf_fini) struct kh_buf buf;
	kh_buf_init(&buf, KH_LIMIT_QUESTION_BYTES);
	*out = (struct text){ NULL, 0, 0 };
	if (about->method.len == 0 || !kh_slice_has_prefix(about->path, KH_SLICE("/")) ||
	    !is_visible(about->method) || !is_visible(about->path) || !is_visible(about->query) ||
	    !kh_buf_append_slice(&buf, about->method) ||
	    !kh_buf_printf(&buf, " %s://", kh_scheme_name(about->scheme)) ||
	    !kh_authority_format(&buf, about->authority, kh_scheme_port(about->scheme)) ||
	    !kh_buf_append_slice(&buf, about->path))
		return false;
	out->url_len = kh_buf_len(&buf);
	if (about->query.ptr &&
	    (!kh_buf_append_char(&buf, '?') || !kh_buf_append_slice(&buf, about->query)))
		return false;
	out->len = kh_buf_len(&buf);
	out->bytes = kh_slice_dup(kh_buf_view(&buf));
	return out->bytes != NULL;
}

static struct kh_slice url_of(const struct text *text)
{
	return kh_slice_of(text->bytes, text->url_len);
}

static struct kh_slice all_of(const struct text *text)
{
	return kh_slice_of(text->bytes, text->len);
}

/* ---- the event threads ---- */

/* These are under the lock. */

static const struct remembered *recall(const struct kh_questions *q, uint64_t sandbox,
				       const struct text *text)
{
	for (size_t i = 0; i < q->n_remembered; i++)
		if (q->remembered[i].sandbox == sandbox &&
		    kh_slice_eq(url_of(&q->remembered[i].text), url_of(text)))
			return &q->remembered[i];
	return NULL;
}

/* *requests: how many of the sandbox's wait, for this question or another. */
static struct waiting *find_same(struct kh_questions *q, uint64_t sandbox, const struct text *text,
				 unsigned *requests)
{
	struct waiting *same = NULL;
	*requests = 0;
	for (struct kh_node *node = q->waiting.next; node != &q->waiting; node = node->next) {
		struct waiting *one = kh_container_of(node, struct waiting, link);
		if (one->sandbox != sandbox)
			continue;
		*requests += one->requests;
		if (kh_slice_eq(all_of(&one->text), all_of(text)))
			same = one;
	}
	return same;
}

/* Takes the text. */
static struct waiting *add(struct kh_questions *q, uint64_t sandbox, struct text *text,
			   uint64_t now_ms)
{
	struct waiting *one = q->n_waiting < KH_LIMIT_QUESTIONS ? calloc(1, sizeof(*one)) : NULL;
	if (!one)
		return NULL;
	if (++q->last_id == 0)
		q->last_id = 1;
	one->id = q->last_id;
	one->sandbox = sandbox;
	one->text = *text;
	text->bytes = NULL;
	one->until_ms = now_ms + q->wait_ms;
	kh_list_append(&q->waiting, &one->link);
	q->n_waiting++;
	return one;
}

static enum kh_question_state ask(struct kh_questions *q, uint64_t sandbox, struct text *text,
				  uint64_t now_ms, uint32_t *id, uint64_t *until_ms,
				  struct kh_answered *answered)
{
	const struct remembered *known = recall(q, sandbox, text);
	unsigned requests;
	if (known) {
		*answered = known->answered;
		return KH_QUESTION_ANSWERED;
	}
	struct waiting *one = find_same(q, sandbox, text, &requests);
	if (!q->is_heard || requests >= KH_LIMIT_QUESTIONS_OF_SANDBOX)
		return KH_QUESTION_REFUSED;
	/* One that is about to end gives nobody time for an answer. */
	if (one && one->until_ms <= now_ms)
		return KH_QUESTION_REFUSED;
	if (!one)
		one = add(q, sandbox, text, now_ms);
	if (!one)
		return KH_QUESTION_REFUSED;
	one->requests++;
	*id = one->id;
	*until_ms = one->until_ms;
	return KH_QUESTION_ASKED;
}

enum kh_question_state kh_questions_ask(struct kh_questions *q, const struct kh_question *about,
					uint64_t now_ms, uint32_t *id, uint64_t *until_ms,
					struct kh_answered *answered)
{
	struct text text;
	if (!q || !write_text(about, &text))
		return KH_QUESTION_REFUSED;
	pthread_mutex_lock(&q->lock);
	enum kh_question_state state =
		ask(q, about->sandbox, &text, now_ms, id, until_ms, answered);
	pthread_mutex_unlock(&q->lock);
	free(text.bytes);
	return state;
}

bool kh_questions_may_allow(struct kh_questions *q, const struct kh_question *about)
{
	struct text text;
	if (!q || !write_text(about, &text))
		return false;
	pthread_mutex_lock(&q->lock);
	bool may = q->is_heard || recall(q, about->sandbox, &text);
	pthread_mutex_unlock(&q->lock);
	free(text.bytes);
	return may;
}

static struct waiting *find(struct kh_questions *q, uint32_t id)
{
	for (struct kh_node *node = q->waiting.next; node != &q->waiting; node = node->next) {
		struct waiting *one = kh_container_of(node, struct waiting, link);
		if (one->id == id)
			return one;
	}
	return NULL;
}

void kh_questions_leave(struct kh_questions *q, uint32_t id)
{
	if (!q)
		return;
	pthread_mutex_lock(&q->lock);
	struct waiting *one = find(q, id);
	if (one && --one->requests == 0)
		forget(q, one);
	pthread_mutex_unlock(&q->lock);
}

/* ---- the admin thread ---- */

/* Questions that are over, by number, and what is said to all who wait for them. */
struct over {
	uint32_t ids[KH_LIMIT_QUESTIONS];
	size_t n;
	struct kh_answered answered;
};

/* Under the lock. */
static void end(struct kh_questions *q, struct waiting *one, struct over *over)
{
	over->ids[over->n++] = one->id;
	forget(q, one);
}

/* Without the lock. */
static void tell(const struct kh_questions *q, const struct over *over)
{
	for (size_t i = 0; i < over->n; i++)
		for (unsigned k = 0; k < q->n_loops; k++)
			kh_loop_post_answer(q->loops[k], over->ids[i], &over->answered);
}

bool kh_questions_listen(struct kh_questions *q, uint32_t pid, uint32_t *by_pid)
{
	pthread_mutex_lock(&q->lock);
	bool free_place = !q->is_heard;
	if (free_place) {
		q->is_heard = true;
		q->listener_pid = pid;
	}
	*by_pid = q->listener_pid;
	pthread_mutex_unlock(&q->lock);
	return free_place;
}

void kh_questions_unlisten(struct kh_questions *q)
{
	struct over over = { .n = 0 };
	struct kh_node *next;
	pthread_mutex_lock(&q->lock);
	q->is_heard = false;
	for (struct kh_node *node = q->waiting.next; node != &q->waiting; node = next) {
		next = node->next;
		end(q, kh_container_of(node, struct waiting, link), &over);
	}
	pthread_mutex_unlock(&q->lock);
	tell(q, &over);
}

void kh_questions_show(struct kh_questions *q, uint64_t now_ms,
		       void (*show)(void *arg, uint32_t id, struct kh_slice what, uint64_t left_ms),
		       void *arg)
{
	pthread_mutex_lock(&q->lock);
	for (struct kh_node *node = q->waiting.next; node != &q->waiting; node = node->next) {
		const struct waiting *one = kh_container_of(node, struct waiting, link);
		show(arg, one->id, all_of(&one->text),
		     one->until_ms > now_ms ? one->until_ms - now_ms : 0);
	}
	pthread_mutex_unlock(&q->lock);
}

/* Under the lock. Return: false: there is no room, or no memory. */
static bool remember(struct kh_questions *q, const struct waiting *one,
		     const struct kh_answered *answered)
{
	if (q->n_remembered == KH_LIMIT_ANSWERS_REMEMBERED)
		return false;
	struct kh_slice url = url_of(&one->text);
	char *copy = kh_slice_dup(url);
	if (!copy)
		return false;
	q->remembered[q->n_remembered++] =
		(struct remembered){ one->sandbox, { copy, url.len, url.len }, *answered };
	return true;
}

/* Under the lock: what waits with another query, too. */
static void end_all_of(struct kh_questions *q, const struct remembered *known, struct over *over)
{
	struct kh_node *next;
	for (struct kh_node *node = q->waiting.next; node != &q->waiting; node = next) {
		struct waiting *one = kh_container_of(node, struct waiting, link);
		next = node->next;
		if (one->sandbox == known->sandbox &&
		    kh_slice_eq(url_of(&one->text), url_of(&known->text)))
			end(q, one, over);
	}
}

enum kh_answer_result kh_questions_answer(struct kh_questions *q, uint32_t id, enum kh_reply reply,
					  uint32_t uid)
{
	struct over over = { .answered = { reply, uid, kh_clock_wall_ms() } };
	pthread_mutex_lock(&q->lock);
	struct waiting *one = find(q, id);
	enum kh_answer_result result = one ? KH_ANSWER_TAKEN : KH_ANSWER_IS_LATE;
	if (one && reply == KH_REPLY_RUN && !remember(q, one, &over.answered)) {
		over.answered.reply = KH_REPLY_ONCE;
		result = KH_ANSWER_NOT_REMEMBERED;
	}
	if (one && over.answered.reply == KH_REPLY_RUN)
		end_all_of(q, &q->remembered[q->n_remembered - 1], &over);
	else if (one)
		end(q, one, &over);
	pthread_mutex_unlock(&q->lock);
	tell(q, &over);
	return result;
}
