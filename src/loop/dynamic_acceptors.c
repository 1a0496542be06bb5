/* dynamic_acceptors.c - the doors to guests, of one event thread */

#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/acceptor.h>

struct kh_guest_door {
	struct kh_door door;
	struct kh_listener_config config; /* the guest's, with the tenant's index in this
					     generation */
	struct kh_guest *guest;		  /* a reference */
	struct kh_node link;		  /* in the loop's guests */
};

/* Numbers of listeners come from 0 on. */
#define FIRST_NUMBER (INT64_C(1) << 32)

static void free_door(struct kh_grave *grave)
{
	struct kh_door *door = kh_container_of(grave, struct kh_door, grave);
	struct kh_guest_door *own = kh_container_of(door, struct kh_guest_door, door);

	kh_account_unref(door->account);
	kh_guest_unref(own->guest);
	free(own);
}

void kh_guest_enter(struct kh_loop *loop, struct kh_guest *guest, uint16_t tenant)
{
	if (loop->draining || loop->retiring)
		return;
	struct kh_guest_door *own = calloc(1, sizeof(*own));
	if (!own) {
		kh_log_error("sandbox %s: thread %u has no memory for it",
			     kh_esc_str(guest->config.sandbox), loop->index);
		return;
	}
	own->guest = kh_guest_ref(guest);
	own->config = guest->config;
	own->config.tenant = tenant;
	kh_door_init(&own->door, loop);
	own->door.config = &own->config;
	own->door.narrowing = guest->narrowing;
	own->door.gate = guest->gate;
	own->door.account = kh_account_ref(guest->account);
	own->door.number = FIRST_NUMBER + (int64_t)guest->number;
	kh_list_append(&loop->guests, &own->link);
	guest->doors[loop->index] = own;
	if (!kh_door_open(&own->door, guest->fd))
		kh_log_error("sandbox %s: thread %u has no memory for it",
			     kh_esc_str(guest->config.sandbox), loop->index);
}

/* Freed at the end of the turn. */
static void shut(struct kh_loop *loop, struct kh_guest_door *own)
{
	own->guest->doors[loop->index] = NULL;
	kh_list_remove(&own->link);
	kh_door_end(&own->door, "its sandbox was removed");
	loop->ops->up_close_of_door(loop, own->door.number);
	kh_loop_bury(loop, &own->door.grave, free_door);
}

void kh_guest_leave(struct kh_loop *loop, struct kh_guest *guest)
{
	if (guest->doors[loop->index])
		shut(loop, guest->doors[loop->index]);
	if (atomic_fetch_sub(&guest->at_doors, 1) != 1)
		return;
	(void)close(guest->fd);
	guest->fd = -1;
	if (guest->asked)
		loop->worker->guests->gone(loop->worker, guest->asked, guest->gate);
}

bool kh_guest_doors_reload(struct kh_loop *loop, const struct kh_generation *before)
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
		struct kh_guest_door *own = kh_container_of(node, struct kh_guest_door, link);
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

void kh_guest_doors_shut(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = node->next)
		kh_door_close(&kh_container_of(node, struct kh_guest_door, link)->door);
}

void kh_guest_doors_say_counts(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = node->next)
		kh_refusals_end(&kh_container_of(node, struct kh_guest_door, link)->door);
}

void kh_guest_doors_free(struct kh_loop *loop)
{
	struct kh_node *next;

	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = next) {
		struct kh_guest_door *own = kh_container_of(node, struct kh_guest_door, link);
		next = node->next;
		kh_door_close(&own->door);
		free_door(&own->door.grave);
	}
	kh_list_init(&loop->guests);
}

void kh_guest_doors_tick(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->guests.next; node != &loop->guests; node = node->next)
		kh_door_tick(&kh_container_of(node, struct kh_guest_door, link)->door);
}
