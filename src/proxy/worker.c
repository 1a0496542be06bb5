/* worker.c - the process that faces hostile bytes: its start, its end, the keeper's messages */

/*
 * The main thread only talks with the keeper; each event thread runs one loop. Messages of the
 * start come in a fixed order (channel.h), and everything that opens, reads or loads by name
 * happens while they come. With GO the worker locks itself in, then starts its threads, then says
 * READY. From there it waits for two things: the keeper's messages, and, while draining, its
 * threads.
 *
 * The channel's end is the keeper's end: the worker stops at that moment, since nobody would own
 * the journal any more. It ends with _exit: what runs at a normal exit (libraries' clean-up) has
 * nothing to do here, and is not made for a process that may open nothing.
 */

#include <errno.h>
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

#include <keyhole/cleanup.h>
#include <keyhole/limits.h>
#include <keyhole/log.h>
#include <keyhole/secret.h>
#include <keyhole/wire.h>
#include <keyhole/worker.h>

#include "admin.h"
#include "asks.h"
#include "begin.h"
#include "guests.h"
#include "values.h"

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
	       kh_channel_send(&w->channel, KH_CHANNEL_LEAF_KEY, 0, kh_buf_view(&body), NULL, 0,
			       err);
}

static bool make_loops(struct kh_beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	unsigned n = kh_generation_threads(w->current->config);
	(void)mallopt(M_ARENA_MAX, (int)(n < ARENAS_MOST ? n + 1 : ARENAS_MOST));
	/* What 32 requests at a time take and give back in each turn stays with the thread. */
	(void)mallopt(M_TRIM_THRESHOLD, SPARE_BYTES);
	w->loops = calloc(n, sizeof(struct kh_loop *));
	b->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->loops || b->done < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "event threads");
	for (; w->n_loops < n; w->n_loops++) {
		w->loops[w->n_loops] = kh_loop_new(w, w->n_loops, kh_buf_view(&b->resolv_conf),
						   kh_buf_view(&b->hosts), err);
		if (!w->loops[w->n_loops])
			return false;
	}
	atomic_store(&w->current->at_doors, w->n_loops);
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
	w->fd_door = w->fd_limit - w->fd_limit / 4;
}

static void *load_roots(void *arg)
{
	struct kh_beginning *b = arg;
	struct kh_err err = KH_ERR_INIT;
	(void)pthread_detach(pthread_self());
	(void)prctl(PR_SET_NAME, "roots", 0, 0, 0);
	if (!kh_roots_load(b->worker->roots, b->roots, b->n_roots, &err))
		kh_log_error("trust roots: %s; no upstream can be verified", err.text);
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

static bool lock_in_and_serve(struct kh_beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	raise_descriptor_limit(w);
	kh_secret_prepare();
	return make_loops(b, err) && kh_guests_init(w, err) &&
	       kh_lockin(w->current->config->worker_user, err) && start_threads(b, err) &&
	       kh_channel_send(&w->channel, KH_CHANNEL_READY, 0, (struct kh_slice){ "", 0 }, NULL,
			       0, err);
}

/* --- serving ---------------------------------------------------------------------------------- */

static void drain(struct kh_worker *w)
{
	if (atomic_exchange(&w->draining, true))
		return;
	for (unsigned i = 0; i < w->n_loops; i++)
		kh_loop_post_drain(w->loops[i]);
}

static void retire(struct kh_worker *w)
{
	kh_admin_retire(w);
	for (unsigned i = 0; i < w->n_loops; i++)
		kh_loop_post_retire(w->loops[i]);
}

static bool tell_head(struct kh_worker *w, struct kh_err *err)
{
	uint64_t seq;
	uint8_t hash[32];
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(seq) + sizeof(uint32_t) + sizeof(hash));
	kh_journal_head(w->journal, &seq, hash);
	return kh_wire_put_u64(&body, seq) &&
	       kh_wire_put_bytes(&body, kh_slice_of((const char *)hash, sizeof(hash))) &&
	       kh_channel_send(&w->channel, KH_CHANNEL_HEAD, 0, kh_buf_view(&body), NULL, 0, err);
}

/* What can't be joined now is tried again by the keeper, or by the next worker. */
static bool join_segment(struct kh_worker *w, struct kh_channel_message *message,
			 struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint64_t cut = kh_wire_u64(&r);
	if (!kh_wire_done(&r) || message->n_fds != 1)
		return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
	kh_cleanup(kh_buf_fini) struct kh_buf why;
	kh_buf_init(&why, KH_LIMIT_CHANNEL_BYTES / 2);
	struct kh_err problem = KH_ERR_INIT;
	bool joined = kh_journal_join(w->journal, message->fds[0], cut, &problem);
	return kh_wire_put_str(&why, joined ? NULL : problem.text) &&
	       kh_channel_send(&w->channel, KH_CHANNEL_JOINED, 0, kh_buf_view(&why), NULL, 0, err);
}

static bool is_reload(enum kh_channel_type type)
{
	return type == KH_CHANNEL_SNAPSHOT || type == KH_CHANNEL_LISTENERS ||
	       type == KH_CHANNEL_GEO || type == KH_CHANNEL_ADMIN || type == KH_CHANNEL_ISSUER ||
	       type == KH_CHANNEL_GO;
}

/* SNAPSHOT, LISTENERS, GEO, ADMIN, ISSUER and GO once more. What the keeper has checked the worker
 * can read; when it can't (no memory), it must not go on under rules that are no longer in force.
 */
static bool take_reload(struct kh_worker *w, struct kh_channel_message *message, struct kh_err *err)
{
	if (message->type == KH_CHANNEL_SNAPSHOT) {
		kh_generation_unref(w->next);
		w->next = kh_generation_take_snapshot(message, w->current, err);
		return w->next != NULL;
	}
	if (!w->next)
		return kh_err_set(err, KH_ERR_INTERNAL, "it does not begin with a snapshot");
	if (message->type == KH_CHANNEL_LISTENERS)
		return kh_generation_take_listeners(w->next, message, err);
	if (message->type == KH_CHANNEL_GEO)
		return kh_generation_take_geo(w->next, message, err);
	if (message->type == KH_CHANNEL_ADMIN)
		return kh_admin_take_doors(w, message, err) && kh_admin_start(w, err);
	if (message->type == KH_CHANNEL_ISSUER)
		return kh_asks_issuer_came(w, message->body, err);
	if (!kh_generation_is_whole(w->next) || !w->next->has_geo)
		return kh_err_set(err, KH_ERR_INTERNAL, "listeners or databases are missing");
	atomic_store(&w->next->at_doors, w->n_loops);
	for (unsigned i = 0; i < w->n_loops; i++)
		kh_loop_post_reload(w->loops[i], w->next);
	kh_log_set_level(w->next->config->log_level);
	kh_generation_unref(w->current);
	w->current = w->next;
	w->next = NULL;
	kh_admin_reload(w);
	return true;
}

/* Return: the keeper is still there and understood. */
static bool take_message(struct kh_worker *w)
{
	struct kh_channel_message message;
	enum kh_channel_status got = kh_channel_receive(&w->channel, false, &message);
	if (got == KH_CHANNEL_AGAIN)
		return true;
	if (got != KH_CHANNEL_GOT)
		return false;
	bool ok = false;
	struct kh_err err = KH_ERR_INIT;
	if (is_reload(message.type)) {
		ok = take_reload(w, &message, &err);
		if (!ok)
			kh_log_error("reload: %s", err.text);
	} else if (message.type == KH_CHANNEL_LEAF)
		ok = kh_asks_leaf_came(w, message.body);
	else if (message.type == KH_CHANNEL_CREDENTIAL)
		ok = kh_values_came(w, &message);
	else if (message.type == KH_CHANNEL_CREDENTIAL_STALE)
		ok = kh_values_stale(w, &message);
	else if (message.type == KH_CHANNEL_PRINTS)
		ok = kh_worker_take_prints(w, &message, &err);
	else if (message.type == KH_CHANNEL_FACTS)
		ok = kh_admin_take_facts(w, &message);
	else if (message.type == KH_CHANNEL_VERB_DONE)
		ok = kh_admin_take_done(w, &message);
	else if (message.type == KH_CHANNEL_GUEST || message.type == KH_CHANNEL_GUEST_GONE ||
		 message.type == KH_CHANNEL_GUEST_DONE)
		ok = kh_guests_take(w, &message);
	else if (message.type == KH_CHANNEL_HEAD_WANT)
		ok = tell_head(w, &err);
	else if (message.type == KH_CHANNEL_JOIN)
		ok = join_segment(w, &message, &err);
	else if (message.type == KH_CHANNEL_DRAIN || message.type == KH_CHANNEL_RETIRE)
		ok = true;
	if (message.type == KH_CHANNEL_DRAIN)
		drain(w);
	else if (message.type == KH_CHANNEL_RETIRE)
		retire(w);
	kh_channel_message_close(&message);
	return ok;
}

/* Return: every event thread has drained; false when the keeper is gone. */
static bool serve(struct kh_beginning *b)
{
	struct kh_worker *w = b->worker;
	uint64_t returned = 0;
	while (returned < w->n_loops) {
		struct pollfd fds[2] = { { .fd = w->channel.fd, .events = POLLIN },
					 { .fd = b->done, .events = POLLIN } };
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return false;
		if (fds[0].revents && !take_message(w))
			return false;
		uint64_t more;
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
	kh_asks_fini(w);
	(void)kh_channel_send(&w->channel, KH_CHANNEL_DRAINED, 0, (struct kh_slice){ "", 0 }, NULL,
			      0, NULL);
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
					   .prints_lock = PTHREAD_MUTEX_INITIALIZER };
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
	kh_begin_init(&b, &worker);
	if (!kh_channel_init(&worker.channel, KH_WORKER_CHANNEL_FD, &err) ||
	    !send_leaf_key(&worker, &err)) {
		kh_log_error("%s", err.text);
		_exit(status);
	}
	if (!kh_begin_take(&b, &status))
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
