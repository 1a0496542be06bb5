/*
 * admin.c - the thread that serves the admin socket and the metrics port
 *
 * It has a thread and an event loop of its own, so that no request here, however long its answer,
 * delays a request of a sandbox. It reads the counters of the event threads (metrics.h) and the
 * generation in force. What only the keeper knows or can do goes through the main thread, which
 * leaves messages for this thread under a lock.
 *
 * A caller is identified when its connection is accepted (SO_PEERCRED, which a caller can't forge).
 * Each kind of caller has its own connection slots. When these are all taken, a user who has more
 * of them than another one gives one up (kh_admin_conns_make_room). So a user who takes as many as
 * possible locks nobody else out.
 */

#include "admin_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/clock.h>
#include <keyhole/net/listener.h>
#include <keyhole/base/log.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/loop/loop.h>

#ifdef __SANITIZE_ADDRESS__
enum { STACK_BYTES = 4 * 1024 * 1024 };
#else
enum { STACK_BYTES = 256 * 1024 };
#endif

static enum kh_admin_caller caller_of(struct kh_admin *admin,
				      const struct kh_admin_acceptor *acceptor, uid_t uid)
{
	if (acceptor->kind == KH_LISTEN_TCP)
		return KH_CALLER_TCP;
	if (uid == 0 || uid == admin->owner)
		return KH_CALLER_OWNER;
	bool granted = false;
	pthread_mutex_lock(&admin->lock);
	const struct kh_admin_config *config = &admin->gen->config->admin;
	for (size_t i = 0; i < config->n_grants; i++)
		granted = granted || config->grants[i].uid == uid;
	pthread_mutex_unlock(&admin->lock);
	return granted ? KH_CALLER_GRANTED : KH_CALLER_STRANGER;
}

static unsigned share_of(enum kh_admin_caller caller)
{
	bool adds = caller == KH_CALLER_OWNER || caller == KH_CALLER_GRANTED;
	return adds ? KH_LIMIT_ADMIN_LAUNCHERS : KH_LIMIT_ADMIN_CONNECTIONS;
}

static void on_accept(evutil_socket_t listener, short what, void *arg)
{
	enum { AT_ONCE = 16 };
	struct kh_admin *admin = arg;
	struct kh_admin_acceptor *acceptor = NULL;

	(void)what;
	for (int i = 0; i < 2; i++)
		if (admin->acceptors[i].fd == listener)
			acceptor = &admin->acceptors[i];
	for (int i = 0; acceptor && i < AT_ONCE; i++) {
		struct kh_peer peer;
		int fd = -1;
		enum kh_accept got = kh_listener_accept(listener, &fd, &peer);
		if (got == KH_ACCEPT_AGAIN)
			return;
		if (got != KH_ACCEPT_GOT) { /* out of descriptors: until the next tick */
			(void)event_del(acceptor->event);
			acceptor->rests = true;
			return;
		}
		enum kh_admin_caller caller = caller_of(admin, acceptor, peer.uid);
		if (admin->n_conns[caller] >= share_of(caller) &&
		    !kh_admin_conns_make_room(admin, caller, peer.uid, false))
			(void)close(fd);
		else
			kh_admin_conn_new(admin, fd, caller, &peer);
	}
}

static void close_acceptor(struct kh_admin_acceptor *acceptor)
{
	if (acceptor->event)
		event_free(acceptor->event);
	if (acceptor->fd >= 0)
		(void)close(acceptor->fd);
	*acceptor = (struct kh_admin_acceptor){ .fd = -1 };
}

static void open_acceptor(struct kh_admin *admin, struct kh_admin_acceptor *acceptor)
{
	if (acceptor->fd < 0)
		return;
	acceptor->event =
		event_new(admin->base, acceptor->fd, EV_READ | EV_PERSIST, on_accept, admin);
	if (!acceptor->event || event_add(acceptor->event, NULL) != 0)
		kh_log_error("admin: no memory to listen");
}

static void note_taken(struct kh_admin *admin)
{
	pthread_mutex_lock(&admin->lock);
	admin->is_behind = admin->has_new_acceptors;
	pthread_mutex_unlock(&admin->lock);
	kh_worker_note_taken(admin->worker);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct kh_admin *admin = arg;
	uint64_t count;

	(void)what;
	(void)!read(fd, &count, sizeof(count));
	pthread_mutex_lock(&admin->lock);
	bool stop = admin->stop, retire = admin->retire || stop,
	     has_acceptors = admin->has_new_acceptors, done = admin->has_done, ok = admin->done_ok;
	uint32_t ref = admin->done_ref;
	kh_auto_free char *text = admin->done_text;
	struct kh_admin_acceptor acceptors[2] = { admin->new_acceptors[0],
						  admin->new_acceptors[1] };
	admin->done_text = NULL;
	admin->has_done = admin->has_new_acceptors = false;
	pthread_mutex_unlock(&admin->lock);
	for (int i = 0; i < 2 && (retire || has_acceptors); i++) {
		close_acceptor(&admin->acceptors[i]);
		if (has_acceptors)
			admin->acceptors[i] = acceptors[i];
		if (retire)
			close_acceptor(&admin->acceptors[i]);
		else
			open_acceptor(admin, &admin->acceptors[i]);
	}
	if (has_acceptors)
		note_taken(admin);
	if (retire)
		kh_admin_conns_retire(admin);
	if (done) {
		if (ref == admin->verb_ref)
			admin->verb_ref = 0;
		kh_admin_conns_done(admin, ref, ok, text);
	}
	kh_admin_dynamic_sandboxes_wake(admin);
	if (stop && admin->stop_ms == 0)
		admin->stop_ms = kh_clock_mono_ms() + KH_LIMIT_ADMIN_LAST_MS;
	kh_admin_end_when_done(admin);
}

void kh_admin_end_when_done(struct kh_admin *admin)
{
	bool is_over = kh_list_is_empty(&admin->conns) || kh_clock_mono_ms() >= admin->stop_ms;
	if (admin->stop_ms && is_over)
		(void)event_base_loopbreak(admin->base);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct kh_admin *admin = arg;

	(void)fd;
	(void)what;
	kh_admin_conns_tick(admin, kh_clock_mono_ms());
	kh_admin_end_when_done(admin);
	kh_dynamic_sandboxes_tick(admin->worker);
	for (int i = 0; i < 2; i++) {
		if (admin->acceptors[i].rests && admin->acceptors[i].event)
			(void)event_add(admin->acceptors[i].event, NULL);
		admin->acceptors[i].rests = false;
	}
}

static void *run(void *arg)
{
	struct kh_admin *admin = arg;

	(void)prctl(PR_SET_NAME, "admin", 0, 0, 0);
	(void)event_base_loop(admin->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

static bool make_events(struct kh_admin *admin)
{
	static const struct timeval second = { .tv_sec = 1 };

	struct event_config *config = event_config_new();
	if (!config)
		return false;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	admin->base = event_base_new_with_config(config);
	event_config_free(config);
	admin->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (!admin->base || admin->wake_fd < 0)
		return false;
	admin->wake = event_new(admin->base, admin->wake_fd, EV_READ | EV_PERSIST, on_wake, admin);
	admin->tick = event_new(admin->base, -1, EV_PERSIST, on_tick, admin);
	return admin->wake && admin->tick && event_add(admin->wake, NULL) == 0 &&
	       event_add(admin->tick, &second) == 0;
}

static void free_admin(struct kh_admin *admin)
{
	kh_admin_conns_end(admin);
	for (int i = 0; i < 2; i++) {
		close_acceptor(&admin->acceptors[i]);
		if (admin->has_new_acceptors)
			close_acceptor(&admin->new_acceptors[i]);
	}
	kh_admin_events_watched(admin, false);
	if (admin->wake)
		event_free(admin->wake);
	if (admin->tick)
		event_free(admin->tick);
	if (admin->base)
		event_base_free(admin->base);
	if (admin->wake_fd >= 0)
		(void)close(admin->wake_fd);
	if (admin->statm >= 0)
		(void)close(admin->statm);
	if (admin->fd_count >= 0)
		(void)close(admin->fd_count);
	kh_generation_unref(admin->gen);
	kh_admin_facts_fini(&admin->facts);
	free(admin->done_text);
	kh_admin_dynamic_sandboxes_free(admin);
	pthread_mutex_destroy(&admin->lock);
	free(admin);
}

static struct kh_admin *make(struct kh_worker *worker, struct kh_err *err)
{
	struct kh_admin *admin = calloc(1, sizeof(*admin));

	if (!admin) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "admin: no memory");
		return NULL;
	}
	admin->worker = worker;
	admin->began_ms = kh_clock_wall_ms();
	admin->wake_fd = -1;
	for (int i = 0; i < 2; i++)
		admin->acceptors[i].fd = admin->new_acceptors[i].fd = -1;
	pthread_mutex_init(&admin->lock, NULL);
	kh_list_init(&admin->conns);
	admin->gen = kh_generation_ref(worker->current);
	/* Else jansson would open a file for it, after the lock-in. */
	size_t seed = 0;
	if (getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed))
		json_object_seed(seed | 1);
	/* Behind the lock-in nothing is opened, and these two tell only of this process. */
	admin->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	admin->fd_count = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (make_events(admin))
		return admin;
	free_admin(admin);
	kh_err_set(err, KH_ERR_NO_MEMORY, "admin: no memory");
	return NULL;
}

/* --- the main thread's side ------------------------------------------------------------------- */

void kh_admin_wake(const struct kh_admin *admin)
{
	uint64_t one = 1;

	(void)!write(admin->wake_fd, &one, sizeof(one));
}

bool kh_admin_take_acceptors(struct kh_worker *worker, struct kh_channel_message *message,
			     struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint32_t owner = kh_wire_u32(&r);
	struct kh_admin_acceptor acceptors[2] = { { .fd = -1 }, { .fd = -1 } };

	if (message->n_fds > 2)
		return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
	for (unsigned i = 0; i < message->n_fds; i++)
		acceptors[i].kind = (enum kh_listener_kind)kh_wire_u8(&r);
	if (!kh_wire_done(&r))
		return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
	/* Also where there are none yet: after the lock-in no event loop can be made. */
	if (!worker->admin && !(worker->admin = make(worker, err)))
		return false;
	struct kh_admin *admin = worker->admin;
	for (unsigned i = 0; i < message->n_fds; i++)
		acceptors[i].fd = kh_steal_fd(&message->fds[i]);
	pthread_mutex_lock(&admin->lock);
	admin->owner = owner;
	for (int i = 0; i < 2; i++) {
		if (admin->has_new_acceptors && admin->new_acceptors[i].fd >= 0)
			(void)close(admin->new_acceptors[i].fd);
		admin->new_acceptors[i] = acceptors[i];
	}
	admin->has_new_acceptors = admin->is_behind = true;
	pthread_mutex_unlock(&admin->lock);
	kh_admin_wake(admin);
	return true;
}

bool kh_admin_start(struct kh_worker *worker, struct kh_err *err)
{
	struct kh_admin *admin = worker->admin;
	pthread_attr_t attr;

	bool has_acceptors = admin && admin->has_new_acceptors &&
			     (admin->new_acceptors[0].fd >= 0 || admin->new_acceptors[1].fd >= 0);
	if (!has_acceptors || admin->started)
		return true;
	if (pthread_attr_init(&attr) != 0)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "admin: no memory");
	int rc = pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (rc == 0)
		rc = pthread_create(&admin->thread, &attr, run, admin);
	(void)pthread_attr_destroy(&attr);
	admin->started = rc == 0;
	return rc == 0 || kh_err_sys(err, KH_ERR_SYSTEM, rc, "admin: starting its thread");
}

static bool take_credential_status(const struct kh_channel_message *message,
				   struct kh_admin_facts *out)
{
	kh_cleanup(kh_buf_fini) struct kh_buf states;

	kh_buf_init(&states, KH_LIMIT_CREDENTIAL_STATUS_BYTES);
	if (message->n_fds == 0)
		return true;
	if (message->n_fds > 1 || !kh_file_read_fd(message->fds[0], &states, NULL))
		return false;
	out->credentials = kh_slice_dup(kh_buf_view(&states));
	return out->credentials != NULL;
}

bool kh_admin_take_facts(struct kh_worker *worker, const struct kh_channel_message *message)
{
	struct kh_admin_facts facts;
	bool ok = kh_admin_facts_take(message->body, &facts) &&
		  take_credential_status(message, &facts);

	if (ok && worker->admin) {
		struct kh_admin_facts before = worker->admin->facts;
		pthread_mutex_lock(&worker->admin->lock);
		worker->admin->facts = facts;
		pthread_mutex_unlock(&worker->admin->lock);
		facts = before;
	}
	kh_admin_facts_fini(&facts);
	return ok;
}

bool kh_admin_take_done(struct kh_worker *worker, const struct kh_channel_message *message)
{
	struct kh_admin *admin = worker->admin;
	struct kh_wire_reader r = { .rest = message->body };
	uint8_t ok = kh_wire_u8(&r);
	kh_auto_free char *text = kh_wire_str(&r);

	if (!kh_wire_done(&r) || ok > 1 || !admin)
		return false;
	pthread_mutex_lock(&admin->lock);
	free(admin->done_text);
	admin->done_text = kh_steal_ptr(&text);
	admin->done_ref = message->ref;
	admin->done_ok = ok;
	admin->has_done = true;
	pthread_mutex_unlock(&admin->lock);
	kh_admin_wake(admin);
	return true;
}

void kh_admin_reload(struct kh_worker *worker)
{
	struct kh_admin *admin = worker->admin;

	if (!admin)
		return;
	struct kh_generation *before = admin->gen;
	pthread_mutex_lock(&admin->lock);
	admin->gen = kh_generation_ref(worker->current);
	pthread_mutex_unlock(&admin->lock);
	kh_generation_unref(before);
}

bool kh_admin_has_taken(const struct kh_worker *worker)
{
	struct kh_admin *admin = worker->admin;

	if (!admin || !admin->started)
		return true;
	pthread_mutex_lock(&admin->lock);
	bool is_behind = admin->is_behind;
	pthread_mutex_unlock(&admin->lock);
	return !is_behind;
}

void kh_admin_retire(struct kh_worker *worker)
{
	struct kh_admin *admin = worker->admin;

	if (!admin)
		return;
	pthread_mutex_lock(&admin->lock);
	admin->retire = true;
	pthread_mutex_unlock(&admin->lock);
	kh_admin_wake(admin);
}

void kh_admin_stop(struct kh_worker *worker)
{
	struct kh_admin *admin = worker->admin;

	if (!admin)
		return;
	pthread_mutex_lock(&admin->lock);
	admin->stop = true;
	pthread_mutex_unlock(&admin->lock);
	kh_admin_wake(admin);
	if (admin->started)
		(void)pthread_join(admin->thread, NULL);
	worker->admin = NULL;
	free_admin(admin);
}
