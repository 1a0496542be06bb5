/* worker.c - the process that faces hostile bytes: its start, its end, and its talk with the keeper
 */

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
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <openssl/ssl.h>

#include <keyhole/cleanup.h>
#include <keyhole/file.h>
#include <keyhole/limits.h>
#include <keyhole/log.h>
#include <keyhole/wire.h>
#include <keyhole/worker.h>

#include "asks.h"

enum {
	THREADS_MOST = 64,
	ARENAS_MOST = 8, /* of malloc: each keeps pages of its own */
	SNAPSHOT_BYTES = 512 * 1024 * 1024,
	RESOLVER_FILE_BYTES = 8 * 1024 * 1024,
#ifdef __SANITIZE_ADDRESS__
	STACK_BYTES = 4 * 1024 * 1024, /* its frames are several times larger */
#else
	STACK_BYTES = 256 * 1024,
#endif
};

/* What is there between the first message and the last thread's start. */
struct beginning {
	struct kh_worker *worker;
	int roots[KH_LIMIT_CHANNEL_FDS];
	unsigned n_roots;
	struct kh_buf resolv_conf, hosts;
	pthread_t threads[THREADS_MOST];
	int done; /* eventfd: how many event threads have returned */
};

/* --- the start's messages --------------------------------------------------------------------- */

static bool not_understood(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
}

static bool take_snapshot(struct beginning *b, struct kh_channel_message *message,
			  struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	if (message->n_fds != 1)
		return not_understood(err);
	if (!kh_file_read_fd(message->fds[0], &bytes, err))
		return false;
	w->config = kh_config_decode(kh_buf_view(&bytes), err);
	if (!w->config)
		return false;
	kh_log_set_level(w->config->log_level);
	w->policy = kh_policy_compile(w->config, err);
	w->listeners = calloc(w->config->n_listeners + 1, sizeof(*w->listeners));
	if (!w->policy)
		return false;
	if (!w->listeners)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "worker: no memory");
	return kh_asks_init(w, err);
}

static bool take_listeners(struct beginning *b, struct kh_channel_message *message,
			   struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	struct kh_wire_reader r = { .rest = message->body };
	uint32_t count = kh_wire_u32(&r), first = kh_wire_u32(&r);
	if (!kh_wire_done(&r) || count != message->n_fds || count == 0 || first != w->n_listeners ||
	    count > w->config->n_listeners - w->n_listeners)
		return not_understood(err);
	for (unsigned i = 0; i < message->n_fds; i++)
		w->listeners[w->n_listeners++] = kh_steal_fd(&message->fds[i]);
	return true;
}

static bool take_journal(struct beginning *b, struct kh_channel_message *message,
			 struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	struct kh_journal_report report = { .seq = 0 };
	if (message->n_fds != 1)
		return not_understood(err);
	w->journal_fd = kh_steal_fd(&message->fds[0]);
	w->journal = kh_journal_open(w->journal_fd, w->config->durability, &report, err);
	if (!w->journal)
		return false;
	if (report.recovered_bytes > 0)
		kh_log_warn("journal: a torn line of %llu bytes at offset %llu was closed",
			    (unsigned long long)report.recovered_bytes,
			    (unsigned long long)report.recovered_offset);
	if (report.aborted > 0)
		kh_log_warn("journal: %llu exchanges of an earlier life were marked aborted",
			    (unsigned long long)report.aborted);
	return true;
}

static bool take_roots(struct beginning *b, struct kh_channel_message *message)
{
	b->n_roots = message->n_fds;
	for (unsigned i = 0; i < message->n_fds; i++)
		b->roots[i] = kh_steal_fd(&message->fds[i]);
	b->worker->roots = kh_roots_new();
	return b->worker->roots != NULL;
}

static bool take_resolver(struct beginning *b, struct kh_channel_message *message,
			  struct kh_err *err)
{
	if (message->n_fds != 2)
		return not_understood(err);
	return kh_file_read_fd(message->fds[0], &b->resolv_conf, err) &&
	       kh_file_read_fd(message->fds[1], &b->hosts, err);
}

static bool take_issuer(struct beginning *b, const struct kh_channel_message *message,
			struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_slice der = kh_wire_bytes(&r);
	if (!kh_wire_done(&r))
		return not_understood(err);
	return kh_leaves_set_issuer(b->worker->leaves, der, err);
}

/* One message of the start: it must be of type `next`, or, where listeners are still missing, more
 * of them. */
static bool take(struct beginning *b, enum kh_channel_type next, struct kh_channel_message *message,
		 struct kh_err *err)
{
	if (message->type != next)
		return not_understood(err);
	switch (next) {
	case KH_CHANNEL_SNAPSHOT:
		return take_snapshot(b, message, err);
	case KH_CHANNEL_LISTENERS:
		return take_listeners(b, message, err);
	case KH_CHANNEL_JOURNAL:
		return take_journal(b, message, err);
	case KH_CHANNEL_ROOTS:
		return take_roots(b, message) ||
		       kh_err_set(err, KH_ERR_NO_MEMORY, "trust roots: no memory");
	case KH_CHANNEL_RESOLVER:
		return take_resolver(b, message, err);
	case KH_CHANNEL_ISSUER:
		return take_issuer(b, message, err);
	case KH_CHANNEL_GO:
	case KH_CHANNEL_READY:
	case KH_CHANNEL_LEAF_KEY:
	case KH_CHANNEL_LEAF_WANT:
	case KH_CHANNEL_LEAF:
	case KH_CHANNEL_CREDENTIAL_WANT:
	case KH_CHANNEL_CREDENTIAL:
	case KH_CHANNEL_DRAIN:
	case KH_CHANNEL_DRAINED:
	case KH_CHANNEL_CHECKPOINT:
		break;
	}
	return true;
}

static enum kh_channel_type after(const struct beginning *b, enum kh_channel_type type)
{
	static const enum kh_channel_type order[] = { KH_CHANNEL_SNAPSHOT, KH_CHANNEL_LISTENERS,
						      KH_CHANNEL_JOURNAL,  KH_CHANNEL_ROOTS,
						      KH_CHANNEL_RESOLVER, KH_CHANNEL_ISSUER,
						      KH_CHANNEL_GO };
	if (type == KH_CHANNEL_LISTENERS && b->worker->n_listeners < b->worker->config->n_listeners)
		return type;
	size_t i = 0;
	while (order[i] != type)
		i++;
	return order[i + 1];
}

/* Up to and with GO. Return: false, and the exit status in *status. */
static bool take_all(struct beginning *b, int *status)
{
	enum kh_channel_type next = KH_CHANNEL_SNAPSHOT;
	for (;;) {
		struct kh_channel_message message;
		struct kh_err err = KH_ERR_INIT;
		enum kh_channel_status got =
			kh_channel_receive(&b->worker->channel, true, &message);
		if (got == KH_CHANNEL_AGAIN)
			continue;
		if (got != KH_CHANNEL_GOT) {
			*status = KH_WORKER_EXIT_ORPHAN;
			return false;
		}
		bool ok = take(b, next, &message, &err);
		kh_channel_message_close(&message);
		if (!ok) {
			kh_log_error("%s", err.text);
			*status = KH_WORKER_EXIT_START;
			return false;
		}
		if (next == KH_CHANNEL_GO)
			return true;
		next = after(b, next);
	}
}

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

static unsigned count_threads(const struct kh_config *config)
{
	cpu_set_t set;
	unsigned n = config->threads;
	if (n == 0 && sched_getaffinity(0, sizeof(set), &set) == 0)
		n = (unsigned)CPU_COUNT(&set);
	if (n == 0)
		n = 1;
	return n < THREADS_MOST ? n : THREADS_MOST;
}

static bool make_loops(struct beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	unsigned n = count_threads(w->config);
	(void)mallopt(M_ARENA_MAX, (int)(n < ARENAS_MOST ? n + 1 : ARENAS_MOST));
	w->loops = calloc(n, sizeof(struct kh_loop *));
	w->connections = calloc(w->n_listeners + 1, sizeof(*w->connections));
	b->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->loops || !w->connections || b->done < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "event threads");
	for (; w->n_loops < n; w->n_loops++) {
		w->loops[w->n_loops] = kh_loop_new(w, w->n_loops, kh_buf_view(&b->resolv_conf),
						   kh_buf_view(&b->hosts), err);
		if (!w->loops[w->n_loops])
			return false;
	}
	kh_buf_fini(&b->resolv_conf);
	kh_buf_fini(&b->hosts);
	return true;
}

/* A connection costs two descriptors. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void *load_roots(void *arg)
{
	struct beginning *b = arg;
	struct kh_err err = KH_ERR_INIT;
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
	int done;
};

static void *run_loop(void *arg)
{
	struct runner runner = *(struct runner *)arg;
	uint64_t one = 1;
	free(arg);
	kh_loop_run(runner.loop);
	(void)!write(runner.done, &one, sizeof(one));
	return NULL;
}

static bool start_thread(pthread_t *out, const char *name, void *(*body)(void *), void *arg,
			 struct kh_err *err)
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
	(void)pthread_setname_np(*out, name);
	return true;
}

static bool start_threads(struct beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	pthread_t loader;
	for (unsigned i = 0; i < w->n_loops; i++) {
		char name[16];
		struct runner *runner = malloc(sizeof(*runner));
		if (!runner)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "threads: no memory");
		*runner = (struct runner){ w->loops[i], b->done };
		(void)snprintf(name, sizeof(name), "loop %u", i);
		if (!start_thread(&b->threads[i], name, run_loop, runner, err))
			return false;
	}
	if (!start_thread(&loader, "roots", load_roots, b, err))
		return false;
	(void)pthread_detach(loader);
	return true;
}

static bool lock_in_and_serve(struct beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	raise_descriptor_limit();
	return make_loops(b, err) && kh_lockin(w->config->worker_user, err) &&
	       start_threads(b, err) &&
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
	if (message.type == KH_CHANNEL_LEAF)
		ok = kh_asks_leaf_came(w, message.body);
	else if (message.type == KH_CHANNEL_CREDENTIAL)
		ok = kh_asks_credential_came(w, &message);
	else if (message.type == KH_CHANNEL_DRAIN)
		ok = true;
	if (message.type == KH_CHANNEL_DRAIN)
		drain(w);
	kh_channel_message_close(&message);
	return ok;
}

/* Return: every event thread has drained; false when the keeper is gone. */
static bool serve(struct beginning *b)
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

static void finish(struct beginning *b)
{
	struct kh_worker *w = b->worker;
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

/* The keeper decides about the end; a ^C in the terminal must not. */
static void ignore_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_IGN);
}

int kh_worker_main(void)
{
	static struct kh_worker worker = { .channel = { .fd = -1 }, .journal_fd = -1 };
	static struct beginning b = { .worker = &worker, .done = -1 };
	struct kh_err err = KH_ERR_INIT;
	int status = KH_WORKER_EXIT_START;

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	kh_log_set_role("worker");
	if (!started_by_keeper()) {
		kh_log_error("this is started by `keyhole proxy` and `keyhole run` alone");
		return KH_WORKER_EXIT_USAGE;
	}
	ignore_signals();
	(void)OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	kh_buf_init(&b.resolv_conf, RESOLVER_FILE_BYTES);
	kh_buf_init(&b.hosts, RESOLVER_FILE_BYTES);
	if (!kh_channel_init(&worker.channel, KH_WORKER_CHANNEL_FD, &err) ||
	    !send_leaf_key(&worker, &err)) {
		kh_log_error("%s", err.text);
		_exit(status);
	}
	if (!take_all(&b, &status))
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
