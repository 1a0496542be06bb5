/* doors.c - accepting what comes out of the sandboxes, with their rates and caps */

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/clock.h>

#include "proxy_internal.h"

/* Connections of each listener over all threads: `max_connections` counts a sandbox, not a thread
 * of ours. */
bool kh_door_take_place(struct kh_door *door)
{
	if (atomic_fetch_add(&door->gate->connections, 1) <
	    door->loop->gen->config->max_connections)
		return true;
	atomic_fetch_sub(&door->gate->connections, 1);
	return false;
}

void kh_door_left(struct kh_door *door)
{
	atomic_fetch_sub(&door->gate->connections, 1);
}

bool kh_door_may_mint(struct kh_door *door)
{
	const struct kh_loop *loop = door->loop;
	double share = 1.0 / loop->worker->n_loops;
	double burst = KH_LIMIT_LEAVES_BURST * share;

	door->leaf_tokens += (double)(loop->now_ms - door->leaf_tokens_ms) / 1000.0 *
			     loop->gen->config->leaves_per_second * share;
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
	if (!door->loop->draining && !door->loop->retiring)
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
			if (kh_door_take_place(door)) {
				kh_session_new(door, fd, &peer);
			} else {
				kh_log_warn("sandbox %s: more than %u connections at a time, one "
					    "is refused",
					    kh_esc_str(door->config->sandbox),
					    door->loop->gen->config->max_connections);
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

static void close_door(struct kh_door *door)
{
	if (door->event)
		event_free(door->event);
	if (door->resume)
		event_free(door->resume);
	door->event = door->resume = NULL;
}

/* Takes its place in the generation in force. The listening descriptor is another one than before,
 * of the same socket. */
static bool place_door(struct kh_door *door, size_t index)
{
	struct kh_loop *loop = door->loop;
	const struct kh_generation *g = loop->gen;

	close_door(door);
	door->config = &g->config->listeners[index];
	door->gate = g->gates[index];
	door->index = (uint16_t)index;
	door->event =
		event_new(loop->base, g->listeners[index], EV_READ | EV_PERSIST, on_accept, door);
	door->resume = event_new(loop->base, -1, 0, on_resume, door);
	return door->event && door->resume && event_add(door->event, NULL) == 0;
}

static struct kh_door *new_door(struct kh_loop *loop)
{
	struct kh_door *door = calloc(1, sizeof(*door));

	if (!door)
		return NULL;
	door->loop = loop;
	door->leaf_tokens = KH_LIMIT_LEAVES_BURST;
	door->leaf_tokens_ms = loop->now_ms;
	return door;
}

static void free_door(struct kh_grave *grave)
{
	free(kh_container_of(grave, struct kh_door, grave));
}

/* Whoever came through it has to go. */
static void remove_door(struct kh_door *door)
{
	struct kh_loop *loop = door->loop;
	struct kh_node *next;

	close_door(door);
	for (struct kh_node *node = loop->live.next; node != &loop->live; node = next) {
		struct kh_session *session = kh_container_of(node, struct kh_session, link);
		next = node->next;
		if (session->door == door)
			kh_session_kill(session, KH_ERR_ABORTED, "its listener was taken away");
	}
	kh_loop_bury(loop, &door->grave, free_door);
}

static struct kh_door *take_door(struct kh_door **doors, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++) {
		struct kh_door *door = doors[i];
		if (door && strcmp(door->config->unix_path, path) == 0) {
			doors[i] = NULL;
			return door;
		}
	}
	return NULL;
}

/* The doors of the generation in force; those of listeners that stay are kept with their
 * connections. The generation before is still there. */
bool kh_doors_reload(struct kh_loop *loop)
{
	const struct kh_config *config = loop->gen->config;
	struct kh_door **before = loop->doors;
	size_t n_before = loop->n_doors;

	loop->n_doors = 0;
	loop->doors = calloc(config->n_listeners + 1, sizeof(struct kh_door *));
	if (!loop->doors)
		return false;
	for (size_t i = 0; i < config->n_listeners; i++) {
		struct kh_door *door = take_door(before, n_before, config->listeners[i].unix_path);
		if (!door && !(door = new_door(loop)))
			return false;
		loop->doors[loop->n_doors++] = door;
		if (!place_door(door, i))
			return false;
	}
	for (size_t i = 0; i < n_before; i++)
		if (before[i])
			remove_door(before[i]);
	free(before);
	return true;
}

void kh_doors_shut(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_doors; i++)
		close_door(loop->doors[i]);
}

void kh_doors_free(struct kh_loop *loop)
{
	for (size_t i = 0; i < loop->n_doors; i++) {
		close_door(loop->doors[i]);
		free(loop->doors[i]);
	}
	free(loop->doors);
	loop->doors = NULL;
	loop->n_doors = 0;
}
