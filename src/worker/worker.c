/* worker.c - the worker process, which reads hostile bytes: its start, its end, the keeper's
 * messages */

/*
 * The main thread only talks with the keeper; each event thread runs one loop. The start messages
 * come in a fixed order (worker_messages.h), and everything that is opened, read or loaded by name
 * is handled while they come. At GO the worker locks itself in, then starts its threads. After that
 * it waits for the keeper's messages and for its threads: when all of them use the generation of
 * the last GO, it sends READY; when they have returned after a drain, DRAINED.
 *
 * When the channel closes, the keeper has ended: the worker stops at once, since nobody would own
 * the journal any more. It ends with _exit: the exit handlers of libraries are not needed here, and
 * are not written for a process that can open nothing.
 */

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <openssl/ssl.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/secret.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/worker/worker.h>

#include <keyhole/admin/admin.h>
#include <keyhole/downstream/session.h>
#include <keyhole/lockin/lockin.h>
#include <keyhole/loop/leaf_requests.h>
#include "worker_start.h"
#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/loop/loop.h>
#include <keyhole/loop/questions.h>
#include <keyhole/loop/values.h>
#include <keyhole/upstream/upstream.h>

enum {
	ARENAS_MOST = 8,	  /* of malloc: each keeps pages of its own */
	SPARE_BYTES = 512 * 1024, /* of malloc that a thread does not give back at once */
#ifdef __SANITIZE_ADDRESS__
	STACK_BYTES = 4 * 1024 * 1024, /* its frames are several times larger */
#else
	STACK_BYTES = 256 * 1024,
#endif
};

/* --- before and after the lock-in ------------------------------------------------------------- */

static bool send_leaf_key(struct kh_worker *w, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	w->leaves = kh_leaves_new(err);
	return w->leaves && kh_wire_put_bytes(&body, kh_leaves_spki(w->leaves)) &&
	       kh_channel_send(&w->channel, KH_WORKER_MSG_LEAF_KEY, 0, kh_buf_view(&body), NULL, 0,
			       err);
}

/* Who stands on an event thread. */
static const struct kh_loop_ops loop_ops = {
	.accepted = kh_session_new,
	.acceptor_ended = kh_session_end_of_acceptor,
	.ups_new = kh_ups_new,
	.ups_free = kh_ups_free,
	.up_tick = kh_up_tick,
	.up_close_idle = kh_up_close_idle,
	.up_close_of_acceptor = kh_up_close_of_acceptor,
};

static bool make_loops(struct kh_beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	unsigned n = kh_generation_threads(w->current->config);
	(void)mallopt(M_ARENA_MAX, (int)(n < ARENAS_MOST ? n + 1 : ARENAS_MOST));
	/* What 32 requests at a time take and give back in each turn stays with the thread. */
	(void)mallopt(M_TRIM_THRESHOLD, SPARE_BYTES);
	w->loops = calloc(n, sizeof(struct kh_loop *));
	b->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	b->written = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->taken_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->loops || b->done < 0 || b->written < 0 || w->taken_fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "event threads");
	for (; w->n_loops < n; w->n_loops++) {
		w->loops[w->n_loops] =
			kh_loop_new(w, w->n_loops, &loop_ops, kh_buf_view(&b->resolv_conf),
				    kh_buf_view(&b->hosts), err);
		if (!w->loops[w->n_loops])
			return false;
	}
	atomic_store(&w->current->at_acceptors, w->n_loops);
	kh_buf_fini(&b->resolv_conf);
	kh_buf_fini(&b->hosts);
	return true;
}

/* As many as there may be. A connection costs up to two, so a quarter is kept for what leads
 * upstream: who was let in gets an answer. */
static void raise_descriptor_limit(struct kh_worker *w)
{
	enum { NOBODY_HAS_MORE = 1 << 30 };
	struct rlimit limit = { .rlim_cur = 1024 };
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		rlim_t before = limit.rlim_cur;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
			limit.rlim_cur = before;
	}
	w->fd_limit = limit.rlim_cur < NOBODY_HAS_MORE ? (unsigned)limit.rlim_cur : NOBODY_HAS_MORE;
	w->fd_acceptor = (unsigned)kh_account_descriptors(w->fd_limit);
}

/* What there is to be shared out, as the configuration in force says. */
static void bound(struct kh_worker *w, const struct kh_generation *g)
{
	uint64_t memory = g->config->worker_memory;
	struct kh_err err = KH_ERR_INIT;

	if (w->memory_most > 0 && memory > w->memory_most)
		memory = w->memory_most;
	kh_account_bound(g->whole, KH_RESOURCE_MEMORY, memory);
	kh_account_bound(g->whole, KH_RESOURCE_DESCRIPTORS, w->fd_acceptor - w->fd_begun);
	kh_account_bound(g->whole, KH_RESOURCE_LOOKUPS,
			 kh_account_lookups(w->fd_limit, kh_resolver_sockets_of_a_lookup()));
	/* The default is meant for any host: a sandbox has its share of what there is. */
	if (g->config->says_connections &&
	    !kh_account_has_room_for(g->config->max_connections, w->fd_limit, w->fd_begun, &err))
		kh_log_info("%s", err.text);
}

/* Before the lock-in. */
static void look_at_machine(struct kh_worker *w)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	int next = fcntl(w->channel.fd, F_DUPFD_CLOEXEC, 0);

	w->memory_most = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : 0;
	/* The lowest that is free: below it they are taken for good. */
	w->fd_begun = next > 0 && (unsigned)next < w->fd_acceptor / 2 ? (unsigned)next : 0;
	if (next >= 0)
		(void)close(next);
}

static void *load_roots(void *arg)
{
	struct kh_beginning *b = arg;
	struct kh_err err = KH_ERR_INIT;
	(void)pthread_detach(pthread_self());
	(void)prctl(PR_SET_NAME, "roots", 0, 0, 0);
	if (!kh_roots_load(b->worker->roots, b->roots, b->n_roots, &err))
		kh_log_error("%s; no upstream can be verified", err.text);
	for (unsigned i = 0; i < b->n_roots; i++)
		(void)close(b->roots[i]);
	/* Parsing leaves as much behind as it keeps. */
	(void)malloc_trim(0);
	return NULL;
}

struct runner {
	struct kh_loop *loop;
	unsigned index;
	int done;
};

static void *run_loop(void *arg)
{
	struct runner runner = *(struct runner *)arg;
	uint64_t one = 1;
	char name[16];
	free(arg);
	/* From inside: by another thread it would be a write to a file of /proc. */
	(void)snprintf(name, sizeof(name), "loop %u", runner.index);
	(void)prctl(PR_SET_NAME, name, 0, 0, 0);
	kh_loop_run(runner.loop);
	(void)!write(runner.done, &one, sizeof(one));
	return NULL;
}

static bool start_thread(pthread_t *out, void *(*body)(void *), void *arg, struct kh_err *err)
{
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) != 0)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "threads: no memory");
	int rc = pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (rc == 0)
		rc = pthread_create(out, &attr, body, arg);
	(void)pthread_attr_destroy(&attr);
	if (rc != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, rc, "starting a thread");
	return true;
}

static bool start_threads(struct kh_beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	pthread_t loader;
	for (unsigned i = 0; i < w->n_loops; i++) {
		struct runner *runner = malloc(sizeof(*runner));
		if (!runner)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "threads: no memory");
		*runner = (struct runner){ w->loops[i], i, b->done };
		if (!start_thread(&b->threads[i], run_loop, runner, err)) {
			free(runner);
			return false;
		}
	}
	return start_thread(&loader, load_roots, b, err) && kh_admin_start(w, err);
}

/* The keeper has something to do about one that can't be continued. */
static bool open_journal(struct kh_beginning *b, struct kh_err *err)
{
	if (kh_worker_start_journal(b, err)) {
		kh_journal_wake(b->worker->journal, b->written);
		return true;
	}
	kh_log_error("%s", err->text);
	_exit((int)b->journal_exit);
}

/* In `keyhole run --ask`: what no rule allows may wait for an answer. */
static bool may_ask(struct kh_worker *w, struct kh_err *err)
{
	uint32_t wait_ms = w->current->config->ask_ms;
	if (wait_ms == 0)
		return true;
	w->questions = kh_questions_new(w->loops, w->n_loops, wait_ms);
	return w->questions || kh_err_set(err, KH_ERR_NO_MEMORY, "questions: no memory");
}

static bool lock_in_and_serve(struct kh_beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	raise_descriptor_limit(w);
	kh_secret_prepare();
	if (!make_loops(b, err) ||
	    !kh_dynamic_sandboxes_init(w, kh_admin_dynamic_sandbox_is_gone, err))
		return false;
	if (!may_ask(w, err))
		return false;
	look_at_machine(w);
	bound(w, w->current);
	/* The keeper hears of the journal's last line before a byte of a sandbox is read. */
	return kh_lockin(w->current->config->worker_user, err) && open_journal(b, err) &&
	       (kh_journal_talk_checkpoint(w) ||
		kh_err_set(err, KH_ERR_INTERNAL, "the keeper takes no journal checkpoint")) &&
	       start_threads(b, err);
}

/* --- serving ---------------------------------------------------------------------------------- */

static void drain(struct kh_worker *w)
{
	if (atomic_exchange(&w->draining, true))
		return;
	for (unsigned i = 0; i < w->n_loops; i++)
		kh_loop_post_drain(w->loops[i]);
}

static void supersede(struct kh_worker *w)
{
	atomic_store(&w->draining, true);
	for (unsigned i = 0; i < w->n_loops; i++)
		kh_loop_post_superseded(w->loops[i]);
}

static void retire(struct kh_worker *w)
{
	kh_admin_retire(w);
	for (unsigned i = 0; i < w->n_loops; i++)
		kh_loop_post_retire(w->loops[i]);
}

/* ---- a reload: SNAPSHOT, LISTENERS, GEO, ADMIN, ISSUER and GO once more. What the keeper has
 * checked the worker can read; when it can't (no memory), it must not go on under rules that are no
 * longer in force. ---- */

static bool take_snapshot(struct kh_worker *w, struct kh_channel_message *message,
			  struct kh_err *err)
{
	kh_generation_unref(w->next);
	w->next = kh_generation_take_snapshot(message, w->current, err);
	return w->next != NULL;
}

static bool go(struct kh_worker *w, struct kh_err *err)
{
	if (!kh_leaf_requests_issuers_known(w, w->next, err))
		return false;
	if (!kh_generation_is_whole(w->next) || !w->next->has_geo)
		return kh_err_set(err, KH_ERR_INTERNAL, "listeners or databases are missing");
	bound(w, w->next);
	atomic_store(&w->next->at_acceptors, w->n_loops);
	for (unsigned i = 0; i < w->n_loops; i++)
		kh_loop_post_reload(w->loops[i], w->next);
	kh_log_set_level(w->next->config->log_level);
	kh_generation_unref(w->current);
	w->current = w->next;
	w->next = NULL;
	kh_admin_reload(w);
	return true;
}

static bool has_next(const struct kh_worker *w, struct kh_err *err)
{
	return w->next || kh_err_set(err, KH_ERR_INTERNAL, "it does not begin with a snapshot");
}

static bool reloaded(bool ok, const struct kh_err *err)
{
	if (!ok)
		kh_log_error("reload: %s", err->text);
	return ok;
}

static bool take(struct kh_worker *w, struct kh_channel_message *message)
{
	struct kh_err err = KH_ERR_INIT;
	switch ((enum kh_worker_msg_to_worker)message->type) {
	case KH_WORKER_MSG_SNAPSHOT:
		return reloaded(take_snapshot(w, message, &err), &err);
	case KH_WORKER_MSG_LISTENERS:
		return reloaded(has_next(w, &err) &&
					kh_generation_take_listeners(w->next, message, &err),
				&err);
	case KH_WORKER_MSG_GEO:
		return reloaded(has_next(w, &err) && kh_generation_take_geo(w->next, message, &err),
				&err);
	case KH_WORKER_MSG_ADMIN:
		return reloaded(has_next(w, &err) && kh_admin_take_acceptors(w, message, &err) &&
					kh_admin_start(w, &err),
				&err);
	case KH_WORKER_MSG_ISSUER:
		return reloaded(has_next(w, &err) &&
					kh_leaf_requests_issuer_came(w, w->next, w->current,
								     message->body, &err),
				&err);
	case KH_WORKER_MSG_GO:
		return reloaded(has_next(w, &err) && go(w, &err), &err);
	case KH_WORKER_MSG_LEAF:
		return kh_leaf_requests_leaf_came(w, message->body);
	case KH_WORKER_MSG_CREDENTIAL:
		return kh_values_came(w, message);
	case KH_WORKER_MSG_CREDENTIAL_STALE:
		return kh_values_stale(w, message);
	case KH_WORKER_MSG_JOURNAL_HELD:
		return kh_journal_talk_held(w, message->body);
	case KH_WORKER_MSG_JOURNAL_CUT:
		return kh_journal_talk_cut(w, message->body);
	case KH_WORKER_MSG_FINGERPRINTS:
		return kh_worker_take_fingerprints(w, message, &err);
	case KH_WORKER_MSG_FACTS:
		return kh_admin_take_facts(w, message);
	case KH_WORKER_MSG_VERB_DONE:
		return kh_admin_take_done(w, message);
	case KH_WORKER_MSG_DYNAMIC_SANDBOX:
	case KH_WORKER_MSG_DYNAMIC_SANDBOX_GONE:
		return kh_dynamic_sandboxes_take(w, message);
	case KH_WORKER_MSG_DYNAMIC_SANDBOX_DONE:
		return kh_admin_take_dynamic_sandbox_done(w, message);
	case KH_WORKER_MSG_HEAD_REQUEST:
		return kh_journal_talk_head(w, &err);
	case KH_WORKER_MSG_JOIN:
		return kh_journal_talk_join(w, message, &err);
	case KH_WORKER_MSG_DRAIN:
		drain(w);
		return true;
	case KH_WORKER_MSG_RETIRE:
		retire(w);
		return true;
	case KH_WORKER_MSG_SUPERSEDED:
		supersede(w);
		return true;
	case KH_WORKER_MSG_JOURNAL:
	case KH_WORKER_MSG_ROOTS:
	case KH_WORKER_MSG_RESOLVER:
		break; /* at the start alone */
	}
	return false;
}

/* Return: the keeper is still there and understood. */
static bool take_message(struct kh_worker *w)
{
	struct kh_channel_message message;
	enum kh_channel_status got = kh_channel_receive(&w->channel, false, &message);
	if (got != KH_CHANNEL_GOT)
		return got == KH_CHANNEL_AGAIN;
	bool ok = take(w, &message);
	kh_channel_message_close(&message);
	return ok;
}

/* Once all threads have taken a generation, the keeper is told. Return: false when it is gone. */
static bool confirm(struct kh_worker *w)
{
	uint32_t taken = kh_loops_taken(w);
	if (taken <= w->confirmed || !kh_admin_has_taken(w))
		return true;
	w->confirmed = taken;
	return kh_channel_send(&w->channel, KH_WORKER_MSG_READY, w->confirmed,
			       (struct kh_slice){ "", 0 }, NULL, 0, NULL);
}

/* Return: every event thread has drained; false when the keeper is gone. */
static bool serve(struct kh_beginning *b)
{
	struct kh_worker *w = b->worker;
	uint64_t returned = 0;
	int wait = -1;
	while (returned < w->n_loops) {
		struct pollfd fds[4] = { { .fd = w->channel.fd, .events = POLLIN },
					 { .fd = b->done, .events = POLLIN },
					 { .fd = b->written, .events = POLLIN },
					 { .fd = w->taken_fd, .events = POLLIN } };
		uint64_t more;
		if (poll(fds, 4, wait) < 0 && errno != EINTR)
			return false;
		if (fds[0].revents && !take_message(w))
			return false;
		wait = kh_journal_talk_turn(b, fds[2].revents != 0);
		if (fds[3].revents)
			(void)!read(w->taken_fd, &more, sizeof(more));
		if (!confirm(w))
			return false;
		if (fds[1].revents && read(b->done, &more, sizeof(more)) == (ssize_t)sizeof(more))
			returned += more;
	}
	return true;
}

static void finish(struct kh_beginning *b)
{
	struct kh_worker *w = b->worker;
	kh_admin_stop(w);
	for (unsigned i = 0; i < w->n_loops; i++) {
		(void)pthread_join(b->threads[i], NULL);
		kh_loop_free(w->loops[i]);
	}
	kh_journal_close(w->journal);
	kh_leaf_requests_fini(w);
	kh_questions_free(w->questions);
	(void)kh_channel_send(&w->channel, KH_WORKER_MSG_DRAINED, 0, (struct kh_slice){ "", 0 },
			      NULL, 0, NULL);
}

static bool started_by_keeper(void)
{
	int type = 0;
	socklen_t len = sizeof(type);
	return getsockopt(KH_WORKER_CHANNEL_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

/* The keeper decides about the end; a ^C in the terminal must not. A limit on the size of files
 * makes the journal's write fail, which is an answer, where its signal would be a death a request.
 */
static void ignore_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGPIPE, SIGXFSZ };
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_IGN);
}

int kh_worker_main(void)
{
	static struct kh_worker worker = { .channel = { .fd = -1 },
					   .journal_fd = -1,
					   .taken_fd = -1,
					   .fingerprints_lock = PTHREAD_MUTEX_INITIALIZER };
	static struct kh_beginning b;
	struct kh_err err = KH_ERR_INIT;
	int status = KH_WORKER_EXIT_START;

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "keyhole worker", 0, 0, 0);
	kh_log_set_role("worker");
	if (!started_by_keeper()) {
		kh_log_error("this is started by `keyhole proxy` and `keyhole run` alone");
		return KH_WORKER_EXIT_USAGE;
	}
	ignore_signals();
	(void)OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	kh_worker_start_init(&b, &worker);
	if (!kh_channel_init(&worker.channel, KH_WORKER_CHANNEL_FD, KH_WORKER_MSG_TO_WORKER_SET,
			     &err) ||
	    !send_leaf_key(&worker, &err)) {
		kh_log_error("%s", err.text);
		_exit(status);
	}
	if (!kh_worker_start_take(&b, &status))
		_exit(status);
	if (!lock_in_and_serve(&b, &err)) {
		kh_log_error("%s", err.text);
		_exit(status);
	}
	if (!serve(&b))
		_exit(KH_WORKER_EXIT_ORPHAN);
	finish(&b);
	_exit(KH_WORKER_EXIT_DRAINED);
}
