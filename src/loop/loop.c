/*
 * loop.c - one event thread
 *
 * A turn is one pass of libevent. During a turn, exchanges whose `open` record is in the batch wait
 * for RECORDED. At the end of the turn the batch is written with one call, and only then they go
 * on. Objects that ended during the turn are freed after that. Work that is too long for one turn
 * continues at the end of the next one (KH_LOOP_NEXT), after the events of all others. Other
 * threads communicate with the loop by mail: a locked list and an eventfd.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/rechecks.h>
#include "mail_internal.h"

void kh_loop_free_later(struct kh_loop *loop, struct kh_deferred_free *deferred_free,
			void (*free_fn)(struct kh_deferred_free *))
{
	deferred_free->free_fn = free_fn;
	kh_list_append(&loop->deferred_frees, &deferred_free->link);
}

/* Those that begin meanwhile wait for the next round. */
static void call_all(struct kh_loop *loop, enum kh_loop_when when)
{
	struct kh_node ready;

	kh_list_move(&loop->calls[when], &ready);
	while (!kh_list_is_empty(&ready)) {
		struct kh_loop_call *call = kh_container_of(ready.next, struct kh_loop_call, link);
		kh_list_remove(&call->link);
		call->fn(call);
	}
}

static bool has_calls(const struct kh_loop *loop, enum kh_loop_when when)
{
	return !kh_list_is_empty(&loop->calls[when]);
}

static void note_commit(struct kh_loop *loop, size_t records, bool ok)
{
	struct kh_events *events = atomic_load_explicit(&loop->events, memory_order_acquire);

	if (ok && events)
		kh_events_publish(events);
	kh_counter_add(&loop->counts.n[KH_COUNT_JOURNAL_RECORDS], ok ? records : 0);
	kh_counter_add(&loop->counts.n[KH_COUNT_JOURNAL_FAILURES], !ok);
	if (ok == loop->journal_failed)
		kh_counter_add(&loop->counts.n[KH_COUNT_JOURNAL_FAILING], ok ? UINT64_MAX : 1);
}

bool kh_loop_make_room(struct kh_loop *loop)
{
	if (kh_buf_len(&loop->batch.bytes) < KH_LIMIT_BATCH_BYTES / 2)
		return true;
	/* One that failed is tried again at the end of the turn, where it is said as well. */
	size_t records = loop->batch.count;
	if (loop->journal_failed || !kh_journal_commit(loop->worker->journal, &loop->batch, NULL))
		return false;
	note_commit(loop, records, true);
	return true;
}

static void write_records(struct kh_loop *loop)
{
	struct kh_err err = KH_ERR_INIT;
	bool failed = loop->journal_failed;

	do {
		size_t records = loop->batch.count;
		bool ok = kh_journal_commit(loop->worker->journal, &loop->batch, &err);
		note_commit(loop, records, ok);
		loop->journal_failed = !ok;
	} while (!loop->journal_failed && kh_ends_put(&loop->ends, &loop->batch));
	if (loop->journal_failed && !failed)
		kh_log_error("the journal can't be written, so nothing is forwarded: %s", err.text);
	if (!loop->journal_failed && failed)
		kh_log_warn("the journal can be written again");
}

bool kh_loop_may_open(struct kh_loop *loop)
{
	if (loop->journal_failed && loop->retried_ms != loop->now_ms) {
		loop->retried_ms = loop->now_ms;
		write_records(loop);
	}
	return !loop->journal_failed && kh_loop_make_room(loop) && kh_ends_reserve(&loop->ends);
}

static void commit_batch(struct kh_loop *loop)
{
	write_records(loop);
	call_all(loop, KH_LOOP_RECORDED);
	/* What was refused meanwhile is answered in this round, so its record is written in it. */
	if (loop->batch.count > 0 && !loop->journal_failed)
		write_records(loop);
}

static bool has_records(const struct kh_loop *loop)
{
	return loop->batch.count > 0 || loop->ends.n > 0 || has_calls(loop, KH_LOOP_RECORDED) ||
	       has_calls(loop, KH_LOOP_ANSWER);
}

void kh_loop_turn_end(struct kh_loop *loop)
{
	enum { ROUNDS = 8 };

	/* Whoever has still more to do then waits for the turn after this one. */
	call_all(loop, KH_LOOP_NEXT);
	for (int i = 0; i < ROUNDS; i++) {
		call_all(loop, KH_LOOP_DOWN);
		call_all(loop, KH_LOOP_UP);
		if (has_records(loop))
			commit_batch(loop);
		else if (!has_calls(loop, KH_LOOP_DOWN) && !has_calls(loop, KH_LOOP_UP))
			break;
		call_all(loop, KH_LOOP_ANSWER);
		if (loop->journal_failed)
			break;
	}
	while (!kh_list_is_empty(&loop->deferred_frees)) {
		struct kh_deferred_free *deferred_free =
			kh_container_of(loop->deferred_frees.next, struct kh_deferred_free, link);
		kh_list_remove(&deferred_free->link);
		deferred_free->free_fn(deferred_free);
	}
	loop->turn++;
	for (enum kh_loop_when when = KH_LOOP_DOWN; when < KH_LOOP_WHENS; when++) {
		if (!has_calls(loop, when))
			continue;
		event_active(loop->wake, EV_READ, 0);
		break;
	}
}

/* Walks a list whose members may go while one of them is visited: the list was moved to `rest`, and
 * each comes back before its visit. Return: NULL: that were all. */
static struct kh_loop_member *next_of(struct kh_node *rest, struct kh_node *list)
{
	struct kh_node *node = rest->next;

	if (kh_list_is_empty(rest))
		return NULL;
	kh_list_remove(node);
	kh_list_append(list, node);
	return kh_container_of(node, struct kh_loop_member, link);
}

/* One of the member's functions that take nothing else, on all of them. */
#define TELL(list, what) \
	do { \
		struct kh_loop_member *member; \
		struct kh_node rest; \
		kh_list_move(list, &rest); \
		while ((member = next_of(&rest, list))) \
			if (member->ops->what) \
				member->ops->what(member); \
	} while (0)

/* Nothing is decided here by a generation before that. */
static void note_taken(struct kh_loop *loop)
{
	atomic_store(&loop->taken, loop->gen->number);
	kh_worker_note_taken(loop->worker);
}

/* From here on the new rules hold. What runs stands still until it is decided again, slice by slice
 * (rechecks.c), and what they forbid ends. */
static void reload(struct kh_loop *loop, struct kh_generation *g)
{
	struct kh_generation *before = loop->gen;

	loop->gen = g;
	kh_resolver_configure(loop->resolver, g->config);
	loop->ops->up_close_idle(loop); /* their keys name credentials of the old one */
	/* Also of a loop that takes nothing new: who is there looks at its acceptor's
	 * configuration. */
	if (!kh_acceptors_reload(loop, before) ||
	    !kh_dynamic_sandbox_acceptors_reload(loop, before))
		abort();
	kh_generation_leave_acceptors(before);
	TELL(&loop->live, reload);
	TELL(&loop->exchanges, reload);
	kh_acceptors_look_for_tokens(loop);
	kh_generation_unref(before);
	note_taken(loop);
}

uint32_t kh_loops_taken(const struct kh_worker *worker)
{
	uint32_t least = UINT32_MAX;

	for (unsigned i = 0; i < worker->n_loops; i++) {
		uint32_t taken = atomic_load(&worker->loops[i]->taken);
		least = taken < least ? taken : least;
	}
	return least;
}

static void start_drain(struct kh_loop *loop)
{
	loop->draining = true;
	kh_acceptors_shut(loop);
	loop->ops->up_close_idle(loop);
	TELL(&loop->live, drain);
	TELL(&loop->exchanges, drain);
}

/* Another process accepts from here on. Nobody's request is cut off for that: whoever is connected
 * is told with the next answer, and an idle connection is closed when it stays idle. */
static void start_retire(struct kh_loop *loop)
{
	loop->retiring = true;
	kh_acceptors_shut(loop);
	TELL(&loop->live, retire);
}

static void on_superseded_end(evutil_socket_t fd, short what, void *arg)
{
	struct kh_loop *loop = arg;

	(void)fd;
	(void)what;
	loop->now_ms = kh_clock_mono_ms();
	TELL(&loop->live, cut_off);
}

/* The rules of another process hold from here on. What runs by those of this one ends now; whoever
 * is connected has a moment to read why. */
static void supersede(struct kh_loop *loop)
{
	static const struct timeval moment = { .tv_usec = 500 * 1000 };

	if (loop->superseded)
		return;
	loop->superseded = loop->draining = true;
	kh_acceptors_shut(loop);
	loop->ops->up_close_idle(loop);
	TELL(&loop->exchanges, supersede);
	TELL(&loop->live, drain);
	if (event_add(loop->cut_off, &moment) < 0)
		on_superseded_end(-1, 0, loop);
}

static void deliver_leaf(struct kh_loop *loop, const struct kh_mail *mail)
{
	struct kh_loop_member *member;
	struct kh_node rest;

	kh_list_move(&loop->live, &rest);
	while ((member = next_of(&rest, &loop->live)))
		if (member->ops->leaf_came)
			member->ops->leaf_came(member, &mail->host, mail->signer, mail->found);
}

static void deliver_credential(struct kh_loop *loop, const struct kh_mail *mail)
{
	struct kh_loop_member *member;
	struct kh_node rest;

	kh_list_move(&loop->exchanges, &rest);
	while ((member = next_of(&rest, &loop->exchanges)))
		if (member->ops->value_came)
			member->ops->value_came(member, mail->generation, mail->index);
}

static void deliver_answer(struct kh_loop *loop, const struct kh_mail *mail)
{
	struct kh_loop_member *member;
	struct kh_node rest;

	kh_list_move(&loop->exchanges, &rest);
	while ((member = next_of(&rest, &loop->exchanges)))
		if (member->ops->answer_came)
			member->ops->answer_came(member, mail->question, &mail->answered);
}

static void deliver(struct kh_loop *loop, const struct kh_mail *mail)
{
	switch (mail->kind) {
	case KH_MAIL_LEAF:
		deliver_leaf(loop, mail);
		break;
	case KH_MAIL_CREDENTIAL:
		deliver_credential(loop, mail);
		kh_acceptors_look_for_tokens(loop);
		break;
	case KH_MAIL_ANSWER:
		deliver_answer(loop, mail);
		break;
	case KH_MAIL_DRAIN:
		start_drain(loop);
		break;
	case KH_MAIL_RETIRE:
		start_retire(loop);
		break;
	case KH_MAIL_SUPERSEDED:
		supersede(loop);
		break;
	case KH_MAIL_RELOAD:
		reload(loop, mail->gen);
		break;
	case KH_MAIL_DYNAMIC_SANDBOX:
		kh_dynamic_sandbox_enter(loop, mail->dynamic_sandbox, mail->index);
		break;
	case KH_MAIL_DYNAMIC_SANDBOX_GONE:
		kh_dynamic_sandbox_leave(loop, mail->dynamic_sandbox);
		break;
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct kh_loop *loop = arg;
	uint64_t count;

	(void)what;
	(void)!read(fd, &count, sizeof(count));
	pthread_mutex_lock(&loop->mail_lock);
	struct kh_mail *mail = loop->mail;
	loop->mail = NULL;
	pthread_mutex_unlock(&loop->mail_lock);
	while (mail) {
		struct kh_mail *next = mail->next;
		deliver(loop, mail);
		kh_dynamic_sandbox_unref(mail->dynamic_sandbox);
		free(mail);
		mail = next;
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct kh_loop *loop = arg;

	(void)fd;
	(void)what;
	loop->ops->up_tick(loop);
	kh_refusals_look_at_space(loop);
	kh_acceptors_look_for_tokens(loop);
	kh_acceptors_tick(loop);
	TELL(&loop->live, tick);
}

static bool make_events(struct kh_loop *loop, struct kh_err *err)
{
	static const struct timeval second = { .tv_sec = 1 };

	struct event_config *config = event_config_new();
	if (!config)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "event loop: no memory");
	/* Other threads write to the eventfd and never touch the base. */
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	loop->base = event_base_new_with_config(config);
	event_config_free(config);
	loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (!loop->base || loop->wake_fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "event loop");
	loop->wake = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
	loop->tick = event_new(loop->base, -1, EV_PERSIST, on_tick, loop);
	loop->cut_off = event_new(loop->base, -1, 0, on_superseded_end, loop);
	if (!loop->wake || !loop->tick || !loop->cut_off || event_add(loop->wake, NULL) < 0 ||
	    event_add(loop->tick, &second) < 0)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "event loop: no memory");
	return true;
}

struct kh_loop *kh_loop_new(struct kh_worker *worker, unsigned index, const struct kh_loop_ops *ops,
			    struct kh_slice resolv_conf, struct kh_slice hosts, struct kh_err *err)
{
	enum { SESSIONS = 512 };

	struct kh_loop *loop = aligned_alloc(_Alignof(struct kh_loop), sizeof(*loop));
	if (!loop) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "event loop: no memory");
		return NULL;
	}
	memset(loop, 0, sizeof(*loop));
	loop->worker = worker;
	loop->ops = ops;
	loop->gen = kh_generation_ref(worker->current);
	loop->index = index;
	loop->wake_fd = -1;
	pthread_mutex_init(&loop->mail_lock, NULL);
	kh_list_init(&loop->live);
	kh_list_init(&loop->exchanges);
	kh_rechecks_init(loop);
	kh_list_init(&loop->work_tenants);
	kh_list_init(&loop->deferred_frees);
	for (enum kh_loop_when when = KH_LOOP_DOWN; when < KH_LOOP_WHENS; when++)
		kh_list_init(&loop->calls[when]);
	kh_list_init(&loop->dynamic_sandboxes);
	kh_batch_init(&loop->batch);
	loop->sessions = kh_sessions_new(SESSIONS);
	loop->ups = ops->ups_new(loop);
	if (!loop->sessions || !loop->ups)
		kh_err_set(err, KH_ERR_NO_MEMORY, "event loop: no memory");
	else if (make_events(loop, err) &&
		 (loop->resolver = kh_resolver_new(loop->base, loop->gen->config, resolv_conf,
						   hosts, err)) &&
		 (loop->down_ctx = kh_tls_down_ctx(worker->leaves, err)) &&
		 (loop->up_ctx = kh_tls_up_ctx(worker->roots, err)))
		return loop;
	kh_loop_free(loop);
	return NULL;
}

void kh_loop_run(struct kh_loop *loop)
{
	loop->now_ms = kh_clock_mono_ms();
	if (!kh_acceptors_reload(loop, loop->gen)) {
		kh_log_error("thread %u: no memory for its listeners", loop->index);
		abort();
	}
	note_taken(loop);
	while ((!loop->draining && !loop->retiring) || loop->n_live > 0 || loop->batch.count > 0 ||
	       loop->ends.n > 0) {
		if (event_base_loop(loop->base, EVLOOP_ONCE) < 0) {
			kh_log_error("thread %u: the event loop failed", loop->index);
			abort();
		}
		loop->now_ms = kh_clock_mono_ms();
		kh_loop_turn_end(loop);
		/* A journal that can't be written must not keep a drained daemon alive. */
		if ((loop->draining || loop->retiring) && loop->n_live == 0 && loop->journal_failed)
			break;
	}
}

void kh_loop_free(struct kh_loop *loop)
{
	if (!loop)
		return;
	if (loop->ups)
		loop->ops->up_close_idle(loop);
	kh_acceptors_say_counts(loop);
	kh_loop_turn_end(loop);
	kh_acceptors_free(loop);
	if (loop->resolver)
		kh_resolver_free(loop->resolver);
	if (loop->wake)
		event_free(loop->wake);
	if (loop->tick)
		event_free(loop->tick);
	if (loop->cut_off)
		event_free(loop->cut_off);
	SSL_CTX_free(loop->down_ctx);
	SSL_CTX_free(loop->up_ctx);
	kh_sessions_free(loop->sessions);
	if (loop->ups)
		loop->ops->ups_free(loop->ups);
	if (loop->base)
		event_base_free(loop->base);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	kh_batch_fini(&loop->batch);
	kh_ends_fini(&loop->ends);
	free(atomic_load(&loop->events));
	kh_generation_unref(loop->gen);
	pthread_mutex_destroy(&loop->mail_lock);
	free(loop);
}
