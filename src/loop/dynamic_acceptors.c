/* dynamic_acceptors.c - the doors to guests, of one event thread */

#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/acceptor.h>

struct kh_dynamic_sandbox_acceptor {
	struct kh_acceptor door;
	struct kh_listener_config config; /* the guest's, with the tenant's index in this
					     generation */
	struct kh_dynamic_sandbox *guest; /* a reference */
	struct kh_node link;		  /* in the loop's guests */
};

/* Numbers of listeners come from 0 on. */
#define FIRST_NUMBER (INT64_C(1) << 32)

static void free_acceptor(struct kh_deferred_free *deferred_free)
{
	struct kh_acceptor *door =
		kh_container_of(deferred_free, struct kh_acceptor, deferred_free);
	struct kh_dynamic_sandbox_acceptor *own =
		kh_container_of(door, struct kh_dynamic_sandbox_acceptor, door);

	kh_account_unref(door->account);
	kh_dynamic_sandbox_unref(own->guest);
	free(own);
}

void kh_dynamic_sandbox_enter(struct kh_loop *loop, struct kh_dynamic_sandbox *guest,
			      uint16_t tenant)
{
	if (loop->draining || loop->retiring)
		return;
	struct kh_dynamic_sandbox_acceptor *own = calloc(1, sizeof(*own));
	if (!own) {
		kh_log_error("sandbox %s: thread %u has no memory for it",
			     kh_esc_str(guest->config.sandbox), loop->index);
		return;
	}
	own->guest = kh_dynamic_sandbox_ref(guest);
	own->config = guest->config;
	own->config.tenant = tenant;
	kh_acceptor_init(&own->door, loop);
	own->door.config = &own->config;
	own->door.narrowing = guest->narrowing;
	own->door.listener_stats = guest->listener_stats;
	own->door.account = kh_account_ref(guest->account);
	own->door.number = FIRST_NUMBER + (int64_t)guest->number;
	kh_list_append(&loop->guests, &own->link);
	guest->doors[loop->index] = own;
	if (!kh_acceptor_open(&own->door, guest->fd))
		kh_log_error("sandbox %s: thread %u has no memory for it",
			     kh_esc_str(guest->config.sandbox), loop->index);
}

/* Freed at the end of the turn. */
static void shut(struct kh_loop *loop, struct kh_dynamic_sandbox_acceptor *own)
{
	own->guest->doors[loop->index] = NULL;
	kh_list_remove(&own->link);
	kh_acceptor_end(&own->door, "its sandbox was removed");
	loop->ops->up_close_of_acceptor(loop, own->door.number);
	kh_loop_free_later(loop, &own->door.deferred_free, free_acceptor);
}

void kh_dynamic_sandbox_leave(struct kh_loop *loop, struct kh_dynamic_sandbox *guest)
{
	if (guest->doors[loop->index])
		shut(loop, guest->doors[loop->index]);
	if (atomic_fetch_sub(&guest->at_acceptors, 1) != 1)
		return;
	(void)close(guest->fd);
	guest->fd = -1;
	if (guest->asked)
		loop->worker->guests->gone(loop->worker, guest->asked, guest->listener_stats);
}

bool kh_dynamic_sandbox_acceptors_reload(struct kh_loop *loop, const struct kh_generation *before)
{
	enum { UNKNOWN = -2 };
	size_t n = before->config->n_tenants;
	int *now = malloc((n + 1) * sizeof(*now));
	struct kh_node *next;

	if (!now)
		return false;
	for (size_t i = 0; i < n; i++)
		now[i] = UNKNOWN;
	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = next) {
		struct kh_dynamic_sandbox_acceptor *own =
			kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link);
		int *tenant = &now[own->config.tenant];
		next = node->next;
		if (*tenant == UNKNOWN)
			*tenant = kh_config_tenant(loop->gen->config, own->guest->tenant);
		if (*tenant < 0) /* the keeper is about to say so */
			shut(loop, own);
		else
			own->config.tenant = (uint16_t)*tenant;
	}
	free(now);
	return true;
}

void kh_dynamic_sandbox_acceptors_shut(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = node->next)
		kh_acceptor_close(
			&kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link)->door);
}

void kh_dynamic_sandbox_acceptors_say_counts(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = node->next)
		kh_refusals_end(
			&kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link)->door);
}

void kh_dynamic_sandbox_acceptors_free(struct kh_loop *loop)
{
	struct kh_node *next;

	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = next) {
		struct kh_dynamic_sandbox_acceptor *own =
			kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link);
		next = node->next;
		kh_acceptor_close(&own->door);
		free_acceptor(&own->door.deferred_free);
	}
	kh_list_init(&loop->guests);
}

void kh_dynamic_sandbox_acceptors_tick(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = node->next)
		kh_acceptor_tick(
			&kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link)->door);
}
