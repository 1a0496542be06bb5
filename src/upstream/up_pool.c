/*
 * up_pool.c - connections to upstreams that are kept for the next request
 *
 * A kept connection serves only requests with the same key: tenant, credentials, scheme, host, port
 * and more (kh_up_key). One on which HTTP/2 may be spoken, or for which the client's own
 * authentication is passed on, serves only the same sandbox. Each thread has its own pool. Before a
 * kept connection is used it is checked: if it has ended, or unexpected bytes have come, it is
 * closed.
 */
#include <sys/random.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/fair_share.h>

#include "upstream_internal.h"

struct kh_ups *kh_ups_new(struct kh_loop *loop)
{
	struct kh_ups *ups = calloc(1, sizeof(*ups));

	if (!ups || getrandom(&ups->seed, sizeof(ups->seed), 0) != (ssize_t)sizeof(ups->seed)) {
		free(ups);
		return NULL;
	}
	kh_list_init(&ups->idle.list);
	kh_list_init(&ups->resting.list);
	kh_list_init(&ups->made);
	kh_list_init(&ups->shared);
	kh_work_share_init(&ups->of_nobody, loop);
	for (size_t i = 0; i < KH_UP_BUCKETS; i++)
		kh_list_init(&ups->slots[i]);
	return ups;
}

void kh_ups_free(struct kh_ups *ups)
{
	if (ups)
		kh_work_share_fini(&ups->of_nobody);
	free(ups);
}

/* All pools of all threads take half of the descriptors that are not shared out at the most: each
 * thread has one of HTTP/1 and one of HTTP/2. */
static size_t most_kept(const struct kh_loop *loop)
{
	const struct kh_worker *worker = loop->worker;
	size_t spare = worker->fd_limit - kh_account_descriptors(worker->fd_limit);
	size_t each = spare / 2 / 2 / (worker->n_loops > 0 ? worker->n_loops : 1);

	return each > KH_LIMIT_POOL_IDLE ? (size_t)KH_LIMIT_POOL_IDLE : each;
}

static struct kh_up_pool *pool_of(const struct kh_up *up)
{
	return up->mux ? &up->loop->ups->resting : &up->loop->ups->idle;
}

void kh_up_pool_enter(struct kh_up *up)
{
	if (kh_list_has_node(&up->kept))
		return;
	kh_list_append(&pool_of(up)->list, &up->kept);
	pool_of(up)->n++;
}

void kh_up_pool_leave(struct kh_up *up)
{
	if (!kh_list_has_node(&up->kept))
		return;
	kh_list_remove(&up->kept);
	pool_of(up)->n--;
}

static bool has_enough_of(const struct kh_up_slot *slot)
{
	return kh_list_count(&slot->lists[KH_UP_LIST_IDLE]) >= KH_LIMIT_POOL_IDLE_PER_KEY;
}

bool kh_up_pool_has_room(const struct kh_up *up)
{
	struct kh_fair_share_place places[KH_LIMIT_POOL_IDLE];
	const struct kh_up_pool *pool = pool_of(up);
	size_t n = 0;

	if (pool->n < most_kept(up->loop))
		return true;
	for (struct kh_node *node = pool->list.next; node != &pool->list && n < KH_LIMIT_POOL_IDLE;
	     node = node->next) {
		struct kh_up *idle = kh_container_of(node, struct kh_up, kept);
		places[n++] = (struct kh_fair_share_place){ .tenant = idle->key.tenant,
							    .whose = idle->whose,
							    .used = idle->idle_since_ms,
							    .at = idle };
	}
	struct kh_fair_share_place *place =
		kh_fair_share_pick(places, n, up->key.tenant, up->whose);
	if (place)
		kh_up_close(place->at);
	return place != NULL;
}

void kh_up_release(struct kh_up *up, bool keep)
{
	struct kh_loop *loop = up->loop;

	bool waited = kh_up_is_in_line(up);
	kh_work_place_leave(&up->line);
	if (kh_up_is_in_making(up) && kh_up_mux_promote(up)) {
		if (waited)
			kh_up_wait_anew(up);
		return;
	}
	if (up->state != KH_UP_BUSY || !keep || !up->reusable || loop->draining ||
	    up->key.generation != loop->gen->number || up->leg.failed || kh_buf_len(&up->leg.out) ||
	    kh_buf_len(&up->in) || !kh_h1_is_idle(up->h1) || has_enough_of(up->slot) ||
	    !kh_up_pool_has_room(up) || !kh_up_set_state(up, KH_UP_IDLE, NULL)) {
		kh_up_close(up);
		return;
	}
	kh_buf_release(&up->in);
	kh_buf_release(&up->leg.out);
	kh_h1_release(up->h1);
	up->idle_since_ms = loop->now_ms;
	kh_up_pool_enter(up);
	kh_stream_watch(up->leg.stream,
			KH_STREAM_READABLE); /* an idle one that speaks is done with */
}

static bool is_stale(const struct kh_up *up, uint64_t now_ms)
{
	uint64_t idle = now_ms - up->idle_since_ms;

	return idle >= up->loop->gen->config->timeouts.idle_up || idle >= up->kept_ms;
}

void kh_up_tick(struct kh_loop *loop)
{
	uint64_t now = kh_clock_mono_ms();
	struct kh_node *idle = &loop->ups->idle.list, *next;

	for (struct kh_node *node = idle->next; node != idle; node = next) {
		struct kh_up *up = kh_container_of(node, struct kh_up, kept);
		next = node->next;
		if (is_stale(up, now))
			kh_up_close(up);
	}
	kh_up_mux_tick(loop, now);
}

void kh_up_close_idle(struct kh_loop *loop)
{
	struct kh_node *idle = &loop->ups->idle.list;

	while (!kh_list_is_empty(idle))
		kh_up_close(kh_container_of(idle->next, struct kh_up, kept));
	kh_up_mux_close_idle(loop);
}

void kh_up_close_of_acceptor(struct kh_loop *loop, int64_t acceptor)
{
	struct kh_node *idle = &loop->ups->idle.list, *next;

	for (struct kh_node *node = idle->next; node != idle; node = next) {
		struct kh_up *up = kh_container_of(node, struct kh_up, kept);
		next = node->next;
		if (up->key.acceptor == acceptor)
			kh_up_close(up);
	}
	kh_up_mux_close_of_acceptor(loop, acceptor);
}

struct kh_up *kh_up_take_idle(struct kh_loop *loop, const struct kh_up_key *key)
{
	struct kh_up *up;

	/* The latest one first: it is the likeliest to live. The last to be closed takes the slot
	 * along. */
	for (const struct kh_up_slot *slot; (slot = kh_up_slot_find(loop, key)) &&
					    (up = kh_up_slot_first(slot, KH_UP_LIST_IDLE));) {
		if (is_stale(up, loop->now_ms) || !kh_stream_is_alive(up->leg.stream)) {
			kh_up_close(up);
			continue;
		}
		if (!kh_up_set_state(up, KH_UP_BUSY, NULL)) {
			kh_up_close(up);
			return NULL;
		}
		kh_up_pool_leave(up);
		return up;
	}
	return NULL;
}
