/* acceptors.c - accepts connections from sandboxes, within their rates and caps */

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/acceptor.h>
#include <keyhole/loop/values.h>

/* Connections of each listener over all threads: `max_connections` counts a sandbox, not a thread
 * of ours. */
bool kh_acceptor_take_place(struct kh_acceptor *acceptor)
{
	if (atomic_fetch_add(&acceptor->listener_stats->connections, 1) <
	    acceptor->loop->gen->config->max_connections) {
		kh_count(acceptor->loop, KH_COUNT_CONNECTIONS);
		return true;
	}
	atomic_fetch_sub(&acceptor->listener_stats->connections, 1);
	return false;
}

void kh_acceptor_left(struct kh_acceptor *acceptor)
{
	atomic_fetch_sub(&acceptor->listener_stats->connections, 1);
}

bool kh_acceptor_may_keep(struct kh_acceptor *acceptor, size_t before, size_t now)
{
	const size_t most = KH_LIMIT_H2_KEPT_PER_LISTENER / 4 * 5;
	size_t all = atomic_fetch_add(&acceptor->listener_stats->kept_bytes, now - before) +
		     (now - before);

	return all <= most || now <= before || now <= KH_LIMIT_H2_KEPT_FREELY;
}

bool kh_acceptor_takes_streams(const struct kh_acceptor *acceptor)
{
	return atomic_load(&acceptor->listener_stats->kept_bytes) <= KH_LIMIT_H2_KEPT_PER_LISTENER;
}

/* This thread's share of a sandbox's rate. */
static bool take_token(const struct kh_loop *loop, double *tokens, uint64_t *since_ms, double rate,
		       double burst)
{
	double share = 1.0 / loop->worker->n_loops;

	*tokens += (double)(loop->now_ms - *since_ms) / 1000.0 * rate * share;
	*since_ms = loop->now_ms;
	if (*tokens > burst * share)
		*tokens = burst * share;
	if (*tokens < 1.0)
		return false;
	*tokens -= 1.0;
	return true;
}

bool kh_acceptor_may_mint(struct kh_acceptor *acceptor)
{
	const struct kh_loop *loop = acceptor->loop;

	return take_token(loop, &acceptor->leaf_tokens, &acceptor->leaf_tokens_ms,
			  loop->gen->config->leaves_per_second, KH_LIMIT_LEAVES_BURST) &&
	       kh_account_take(acceptor->account, KH_RESOURCE_SIGNATURES, 1, loop->now_ms);
}

void kh_acceptor_was_wrong(struct kh_acceptor *acceptor)
{
	(void)take_token(acceptor->loop, &acceptor->tries, &acceptor->tries_ms,
			 KH_LIMIT_WRONG_TOKENS_PER_SECOND, KH_LIMIT_WRONG_TOKENS_BURST);
}

bool kh_acceptor_may_try(struct kh_acceptor *acceptor)
{
	if (!take_token(acceptor->loop, &acceptor->tries, &acceptor->tries_ms,
			KH_LIMIT_WRONG_TOKENS_PER_SECOND, KH_LIMIT_WRONG_TOKENS_BURST))
		return false;
	acceptor->tries += 1.0;
	return true;
}

bool kh_acceptor_may_log(struct kh_acceptor *acceptor)
{
	if (take_token(acceptor->loop, &acceptor->log_tokens, &acceptor->log_tokens_ms,
		       KH_LIMIT_LOG_LINES_PER_SECOND, KH_LIMIT_LOG_LINES_BURST))
		return true;
	if (acceptor->unsaid++ == 0) {
		acceptor->unsaid_since_ms = acceptor->loop->now_ms;
		acceptor->loop->n_unsaid++;
	}
	return false;
}

void kh_acceptor_tick(struct kh_acceptor *acceptor)
{
	enum { SAY_EVERY_MS = 5000 };

	kh_refusals_tick(acceptor);
	if (acceptor->unsaid == 0 || kh_clock_mono_ms() - acceptor->unsaid_since_ms < SAY_EVERY_MS)
		return;
	kh_log_info("sandbox %s: %llu more lines like these were left out (the journal has "
		    "every refusal)",
		    kh_esc_str(acceptor->config->sandbox), (unsigned long long)acceptor->unsaid);
	acceptor->unsaid = 0;
	acceptor->loop->n_unsaid--;
}

void kh_acceptors_tick(struct kh_loop *loop)
{
	if (loop->n_unsaid == 0 && loop->n_counted == 0)
		return;
	for (size_t i = 0; i < loop->n_acceptors; i++)
		kh_acceptor_tick(loop->acceptors[i]);
	kh_dynamic_sandbox_acceptors_tick(loop);
}

bool kh_acceptor_spends_ticket(struct kh_acceptor *acceptor)
{
	enum { UNASKED = 32, EVERY = 8 };
	unsigned n = acceptor->handshakes++;

	return n < UNASKED || n % EVERY == 0;
}

static void pause_acceptor(struct kh_acceptor *acceptor)
{
	static const struct timeval moment = { .tv_usec = 100 * 1000 };

	event_del(acceptor->event);
	if (event_add(acceptor->resume, &moment) < 0)
		event_add(acceptor->event, NULL);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct kh_acceptor *acceptor = arg;

	(void)fd;
	(void)what;
	if (!acceptor->loop->draining && !acceptor->loop->retiring)
		event_add(acceptor->event, NULL);
}

/* Of all virtual machines there is one that may. */
static bool may_enter(struct kh_acceptor *acceptor, const struct kh_peer *peer)
{
	if (acceptor->config->kind != KH_LISTEN_VSOCK || peer->cid == acceptor->config->vsock_cid)
		return true;
	if (kh_acceptor_may_log(acceptor))
		kh_log_warn("listener %s: CID %u may not connect, %u may",
			    kh_esc_str(acceptor->config->name), peer->cid,
			    acceptor->config->vsock_cid);
	return false;
}

/* A connection that is one too many. Return: accepting goes on. */
static bool turn_away(struct kh_acceptor *acceptor, int fd)
{
	const struct kh_worker *worker = acceptor->loop->worker;

	kh_count(acceptor->loop, KH_COUNT_CONNECTIONS_REFUSED);
	if ((unsigned)fd < worker->fd_acceptor) {
		if (kh_acceptor_may_log(acceptor))
			kh_log_warn(
				"sandbox %s: more than %u connections at a time, one is refused",
				kh_esc_str(acceptor->config->sandbox),
				acceptor->loop->gen->config->max_connections);
		close(fd);
		return true;
	}
	if (kh_acceptor_may_log(acceptor))
		kh_log_warn("sandbox %s: %d descriptors of %u (RLIMIT_NOFILE) are taken: a "
			    "connection is refused, and accepting pauses for a moment",
			    kh_esc_str(acceptor->config->sandbox), fd, worker->fd_limit);
	close(fd);
	pause_acceptor(acceptor);
	return false;
}

/* With a place that was taken. Beyond its share the sandbox waits; nobody else does. Return:
 * accepting goes on. */
static bool let_in(struct kh_acceptor *acceptor, int fd, const struct kh_peer *peer)
{
	if (kh_account_take(acceptor->account, KH_RESOURCE_DESCRIPTORS, 1,
			    acceptor->loop->now_ms)) {
		acceptor->loop->ops->accepted(acceptor, fd, peer);
		return true;
	}
	kh_count(acceptor->loop, KH_COUNT_CONNECTIONS_REFUSED);
	if (kh_acceptor_may_log(acceptor))
		kh_log_warn("sandbox %s: it has its share, %zu, of the %u descriptors "
			    "(RLIMIT_NOFILE): a connection is refused, and accepting pauses for a "
			    "moment",
			    kh_esc_str(acceptor->config->sandbox),
			    kh_account_held(acceptor->account, KH_RESOURCE_DESCRIPTORS, 0),
			    acceptor->loop->worker->fd_limit);
	close(fd);
	kh_acceptor_left(acceptor);
	pause_acceptor(acceptor);
	return false;
}

static void on_accept(evutil_socket_t listener, short what, void *arg)
{
	enum { AT_ONCE = 16 };
	struct kh_acceptor *acceptor = arg;

	(void)what;
	acceptor->loop->now_ms = kh_clock_mono_ms();
	for (int i = 0; i < AT_ONCE; i++) {
		struct kh_peer peer;
		int fd = -1;
		switch (kh_listener_accept(listener, &fd, &peer)) {
		case KH_ACCEPT_GOT:
			if (!may_enter(acceptor, &peer))
				close(fd);
			else if (!((unsigned)fd < acceptor->loop->worker->fd_acceptor &&
						   kh_acceptor_take_place(acceptor)
					   ? let_in(acceptor, fd, &peer)
					   : turn_away(acceptor, fd)))
				return;
			break;
		case KH_ACCEPT_AGAIN:
			return;
		case KH_ACCEPT_RETRY_LATER:
			if (kh_acceptor_may_log(acceptor))
				kh_log_warn("out of descriptors (RLIMIT_NOFILE is %u) or memory: "
					    "accepting pauses for a moment",
					    acceptor->loop->worker->fd_limit);
			pause_acceptor(acceptor);
			return;
		case KH_ACCEPT_BROKEN:
			kh_log_error("listener %s is broken", kh_esc_str(acceptor->config->name));
			event_del(acceptor->event);
			return;
		}
	}
}

void kh_acceptor_close(struct kh_acceptor *acceptor)
{
	if (acceptor->event)
		event_free(acceptor->event);
	if (acceptor->resume)
		event_free(acceptor->resume);
	acceptor->event = acceptor->resume = NULL;
}

static void forget_secrets(struct kh_acceptor *acceptor)
{
	kh_secret_unref(acceptor->secret);
	kh_secret_unref(acceptor->former);
	acceptor->secret = acceptor->former = NULL;
}

/* Return: FULL: it has its token, or needs none; ASKED: wait; MISSING: there is none that is good.
 */
static enum kh_slot_state find_secret(struct kh_acceptor *acceptor)
{
	struct kh_loop *loop = acceptor->loop;
	struct kh_secret *secret = NULL;

	if (acceptor->config->kind != KH_LISTEN_TCP || acceptor->secret)
		return KH_SLOT_FULL;
	const struct kh_credential_ref want = { (uint16_t)acceptor->config->token,
						KH_NO_TENANT,
						{ "", 0 } };
	if (acceptor->config->token < 0)
		return KH_SLOT_MISSING;
	enum kh_slot_state state =
		kh_worker_secret(loop->worker, loop->gen, &want, NULL, &secret, NULL);
	if (state != KH_SLOT_FULL)
		return state;
	if (kh_secret_len(secret) < KH_TOKEN_LEAST_BYTES) {
		if (kh_acceptor_may_log(acceptor))
			kh_log_error("listener %s: its token is shorter than %d bytes, which is "
				     "guessed too easily: nobody is let in",
				     kh_esc_str(acceptor->config->name), (int)KH_TOKEN_LEAST_BYTES);
		kh_secret_unref(secret);
		return KH_SLOT_MISSING;
	}
	acceptor->secret = secret;
	return KH_SLOT_FULL;
}

/* It begins to accept when its token has come. Return: as find_secret. */
static enum kh_slot_state look_for_token(struct kh_acceptor *acceptor)
{
	const struct kh_loop *loop = acceptor->loop;
	bool waited = acceptor->event && !acceptor->secret && !loop->draining && !loop->retiring;
	enum kh_slot_state state = find_secret(acceptor);

	if (waited && acceptor->secret)
		(void)event_add(acceptor->event, NULL);
	return state;
}

/* After a reload: whoever was let in as somebody who would not be let in any more has to go. */
static void end_former(struct kh_acceptor *acceptor)
{
	const char *why = acceptor->other_cid ? "its listener is for another CID" : NULL;

	if (acceptor->former) {
		enum kh_slot_state state = look_for_token(acceptor);
		if (state == KH_SLOT_ASKED)
			return;
		if (state != KH_SLOT_FULL || !acceptor->secret ||
		    !kh_secret_same(acceptor->former, acceptor->secret))
			why = "the token of its listener was replaced";
		kh_secret_unref(acceptor->former);
		acceptor->former = NULL;
	}
	acceptor->other_cid = false;
	if (why)
		acceptor->loop->ops->acceptor_ended(acceptor, why);
}

void kh_acceptors_look_for_tokens(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_acceptors; i++) {
		struct kh_acceptor *acceptor = loop->acceptors[i];
		if (acceptor->event && !loop->draining && !loop->retiring)
			(void)look_for_token(acceptor);
		end_former(acceptor);
	}
}

/* Who is connected was let in by what is in force until now; NULL: nothing was, it is new. */
static void set_former(struct kh_acceptor *acceptor, const struct kh_listener_config *next)
{
	const struct kh_listener_config *now = acceptor->config;

	acceptor->other_cid |=
		now && now->kind == KH_LISTEN_VSOCK && now->vsock_cid != next->vsock_cid;
	if (!acceptor->secret)
		return; /* since the reload before nobody was let in */
	kh_secret_unref(acceptor->former);
	acceptor->former = acceptor->secret;
	acceptor->secret = NULL;
}

/* Takes its place in the generation in force. The listening descriptor is another one than before,
 * of the same socket. */
static bool place_acceptor(struct kh_acceptor *acceptor, size_t index)
{
	struct kh_loop *loop = acceptor->loop;
	struct kh_generation *g = loop->gen;

	kh_acceptor_close(acceptor);
	set_former(acceptor, &g->config->listeners[index]);
	kh_refusals_end(acceptor);
	acceptor->gen = g;
	acceptor->config = &g->config->listeners[index];
	acceptor->narrowing = kh_policy_narrowing(g->policy, index);
	acceptor->listener_stats = g->listener_stats_list[index];
	kh_account_unref(acceptor->account);
	acceptor->account = g->accounts ? kh_account_ref(g->accounts[index]) : NULL;
	acceptor->number = (int64_t)index;
	if (!kh_work_share_join(&acceptor->work, g->config->tenants[acceptor->config->tenant].name))
		return false;
	return loop->draining || loop->retiring || kh_acceptor_open(acceptor, g->listeners[index]);
}

bool kh_acceptor_open(struct kh_acceptor *acceptor, int listener)
{
	struct kh_loop *loop = acceptor->loop;

	acceptor->event =
		event_new(loop->base, listener, EV_READ | EV_PERSIST, on_accept, acceptor);
	acceptor->resume = event_new(loop->base, -1, 0, on_resume, acceptor);
	if (!acceptor->event || !acceptor->resume)
		return false;
	/* Nobody is let in before the token is there. */
	return find_secret(acceptor) != KH_SLOT_FULL || event_add(acceptor->event, NULL) == 0;
}

void kh_acceptor_init(struct kh_acceptor *acceptor, struct kh_loop *loop)
{
	*acceptor = (struct kh_acceptor){ .loop = loop };
	kh_list_init(&acceptor->sessions);
	kh_work_share_init(&acceptor->work, loop);
	acceptor->leaf_tokens = KH_LIMIT_LEAVES_BURST;
	acceptor->log_tokens = KH_LIMIT_LOG_LINES_BURST;
	acceptor->tries = KH_LIMIT_WRONG_TOKENS_BURST;
	acceptor->leaf_tokens_ms = acceptor->log_tokens_ms = acceptor->tries_ms = loop->now_ms;
}

static struct kh_acceptor *new_acceptor(struct kh_loop *loop)
{
	struct kh_acceptor *acceptor = malloc(sizeof(*acceptor));

	if (acceptor)
		kh_acceptor_init(acceptor, loop);
	return acceptor;
}

static void free_acceptor(struct kh_deferred_free *deferred_free)
{
	struct kh_acceptor *acceptor =
		kh_container_of(deferred_free, struct kh_acceptor, deferred_free);

	forget_secrets(acceptor);
	kh_work_share_fini(&acceptor->work);
	kh_account_unref(acceptor->account);
	free(acceptor);
}

void kh_acceptor_end(struct kh_acceptor *acceptor, const char *why)
{
	kh_acceptor_close(acceptor);
	if (acceptor->unsaid)
		acceptor->loop->n_unsaid--;
	acceptor->unsaid = 0;
	acceptor->loop->ops->acceptor_ended(acceptor, why);
	kh_work_share_fini(&acceptor->work);
	kh_list_remove(&acceptor->rechecks_link);
	kh_refusals_end(acceptor);
}

/* Whoever came through it has to go. */
static void remove_acceptor(struct kh_acceptor *acceptor)
{
	kh_acceptor_end(acceptor, "its listener was taken away");
	kh_loop_free_later(acceptor->loop, &acceptor->deferred_free, free_acceptor);
}

/* That of the same listener: acceptors stand in the order of their generation's listeners. */
static struct kh_acceptor *take_acceptor(struct kh_acceptor **acceptors, size_t n, size_t at)
{
	struct kh_acceptor *acceptor = at < n ? acceptors[at] : NULL;

	if (acceptor)
		acceptors[at] = NULL;
	return acceptor;
}

bool kh_acceptors_reload(struct kh_loop *loop, const struct kh_generation *gen_before)
{
	const struct kh_config *config = loop->gen->config;
	struct kh_acceptor **before = loop->acceptors;
	size_t n_before = loop->n_acceptors;
	kh_auto_free size_t *found = kh_config_match_listeners(config, gen_before->config);

	loop->n_acceptors = 0;
	loop->acceptors = calloc(config->n_listeners + 1, sizeof(struct kh_acceptor *));
	if (!loop->acceptors || !found)
		return false;
	for (size_t i = 0; i < config->n_listeners; i++) {
		struct kh_acceptor *acceptor = take_acceptor(before, n_before, found[i]);
		if (!acceptor && !(acceptor = new_acceptor(loop)))
			return false;
		loop->acceptors[loop->n_acceptors++] = acceptor;
		if (!place_acceptor(acceptor, i))
			return false;
	}
	for (size_t i = 0; i < n_before; i++)
		if (before[i])
			remove_acceptor(before[i]);
	free(before);
	return true;
}

void kh_acceptors_shut(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_acceptors; i++)
		kh_acceptor_close(loop->acceptors[i]);
	kh_dynamic_sandbox_acceptors_shut(loop);
}

void kh_acceptors_say_counts(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_acceptors; i++)
		kh_refusals_end(loop->acceptors[i]);
	kh_dynamic_sandbox_acceptors_say_counts(loop);
}

void kh_acceptors_free(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_acceptors; i++) {
		kh_acceptor_close(loop->acceptors[i]);
		free_acceptor(&loop->acceptors[i]->deferred_free);
	}
	kh_dynamic_sandbox_acceptors_free(loop);
	free(loop->acceptors);
	loop->acceptors = NULL;
	loop->n_acceptors = 0;
}
