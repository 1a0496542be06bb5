/* doors.c - accepting what comes out of the sandboxes, with their rates and caps */

#include <stdatomic.h>
#include <unistd.h>

#include <keyhole/clock.h>

#include "proxy_internal.h"

/* Connections of each listener over all threads: `max_connections` counts a sandbox, not a thread
 * of ours. */
static bool take_place(struct kh_door *door)
{
	const struct kh_config *config = door->loop->worker->config;
	atomic_uint *taken = &door->loop->worker->connections[door->index];

	if (atomic_fetch_add(taken, 1) < config->max_connections)
		return true;
	atomic_fetch_sub(taken, 1);
	return false;
}

void kh_door_left(struct kh_door *door)
{
	atomic_fetch_sub(&door->loop->worker->connections[door->index], 1);
}

bool kh_door_may_mint(struct kh_door *door)
{
	const struct kh_loop *loop = door->loop;
	double share = 1.0 / loop->worker->n_loops;
	double burst = KH_LIMIT_LEAVES_BURST * share;

	door->leaf_tokens += (double)(loop->now_ms - door->leaf_tokens_ms) / 1000.0 *
			     loop->worker->config->leaves_per_second * share;
	door->leaf_tokens_ms = loop->now_ms;
	if (door->leaf_tokens > burst)
		door->leaf_tokens = burst;
	if (door->leaf_tokens < 1.0)
		return false;
	door->leaf_tokens -= 1.0;
	return true;
}

static void pause_door(struct kh_door *door)
{
	static const struct timeval moment = { .tv_usec = 100 * 1000 };

	event_del(door->event);
	event_add(door->resume, &moment);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct kh_door *door = arg;

	(void)fd;
	(void)what;
	if (!door->loop->draining)
		event_add(door->event, NULL);
}

static void on_accept(evutil_socket_t listener, short what, void *arg)
{
	enum { AT_ONCE = 16 };
	struct kh_door *door = arg;

	(void)what;
	door->loop->now_ms = kh_clock_mono_ms();
	for (int i = 0; i < AT_ONCE; i++) {
		struct kh_peer peer;
		int fd = -1;
		switch (kh_listener_accept(listener, &fd, &peer)) {
		case KH_ACCEPT_GOT:
			if (take_place(door)) {
				kh_session_new(door, fd, &peer);
			} else {
				kh_log_warn("sandbox %s: more than %u connections at a time, one "
					    "is refused",
					    kh_esc_str(door->config->sandbox),
					    door->loop->worker->config->max_connections);
				close(fd);
			}
			break;
		case KH_ACCEPT_AGAIN:
			return;
		case KH_ACCEPT_RETRY_LATER:
			kh_log_warn("out of descriptors or memory: accepting rests for a moment");
			pause_door(door);
			return;
		case KH_ACCEPT_BROKEN:
			kh_log_error("listener %s is broken", kh_esc_str(door->config->unix_path));
			event_del(door->event);
			return;
		}
	}
}

bool kh_doors_open(struct kh_loop *loop)
{
	const struct kh_worker *worker = loop->worker;

	loop->doors = calloc(worker->n_listeners ? worker->n_listeners : 1, sizeof(*loop->doors));
	if (!loop->doors)
		return false;
	loop->n_doors = worker->n_listeners;
	for (size_t i = 0; i < loop->n_doors; i++) {
		struct kh_door *door = &loop->doors[i];
		door->loop = loop;
		door->config = &worker->config->listeners[i];
		door->index = (uint16_t)i;
		door->fd = worker->listeners[i];
		door->leaf_tokens = KH_LIMIT_LEAVES_BURST;
		door->leaf_tokens_ms = loop->now_ms;
		door->event =
			event_new(loop->base, door->fd, EV_READ | EV_PERSIST, on_accept, door);
		door->resume = event_new(loop->base, -1, 0, on_resume, door);
		if (!door->event || !door->resume || event_add(door->event, NULL) < 0)
			return false;
	}
	return true;
}

void kh_doors_shut(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_doors; i++) {
		event_del(loop->doors[i].event);
		event_del(loop->doors[i].resume);
	}
}

void kh_doors_free(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_doors; i++) {
		if (loop->doors[i].event)
			event_free(loop->doors[i].event);
		if (loop->doors[i].resume)
			event_free(loop->doors[i].resume);
	}
	free(loop->doors);
	loop->doors = NULL;
	loop->n_doors = 0;
}
