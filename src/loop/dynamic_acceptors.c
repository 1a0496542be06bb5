/* dynamic_acceptors.c - one event thread's acceptors for dynamic sandboxes */

#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/acceptor.h>

struct kh_dynamic_sandbox_acceptor {
	struct kh_acceptor acceptor;
	struct kh_listener_config config; /* the dynamic sandbox's, with the tenant's index in this
					     generation */
	struct kh_dynamic_sandbox *dynamic_sandbox; /* a reference */
	struct kh_node link;			    /* in the loop's dynamic sandboxes */
};

/* Numbers of listeners come from 0 on. */
#define FIRST_NUMBER (INT64_C(1) << 32)

static void free_acceptor(struct kh_deferred_free *deferred_free)
{
	struct kh_acceptor *acceptor =
		kh_container_of(deferred_free, struct kh_acceptor, deferred_free);
	struct kh_dynamic_sandbox_acceptor *own =
		kh_container_of(acceptor, struct kh_dynamic_sandbox_acceptor, acceptor);

	kh_work_share_fini(&acceptor->work);
	kh_account_unref(acceptor->account);
	kh_dynamic_sandbox_unref(own->dynamic_sandbox);
	free(own);
}

void kh_dynamic_sandbox_enter(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox,
			      uint16_t tenant)
{
	if (loop->draining || loop->retiring)
		return;
	struct kh_dynamic_sandbox_acceptor *own = calloc(1, sizeof(*own));
	if (!own) {
		kh_log_error("sandbox %s: thread %u has no memory for it",
			     kh_esc_str(dynamic_sandbox->config.sandbox), loop->index);
		return;
	}
	own->dynamic_sandbox = kh_dynamic_sandbox_ref(dynamic_sandbox);
	own->config = dynamic_sandbox->config;
	own->config.tenant = tenant;
	kh_acceptor_init(&own->acceptor, loop);
	own->acceptor.gen = loop->gen;
	own->acceptor.config = &own->config;
	own->acceptor.narrowing = dynamic_sandbox->narrowing;
	own->acceptor.listener_stats = dynamic_sandbox->listener_stats;
	own->acceptor.account = kh_account_ref(dynamic_sandbox->account);
	own->acceptor.number = FIRST_NUMBER + (int64_t)dynamic_sandbox->number;
	kh_list_append(&loop->dynamic_sandboxes, &own->link);
	dynamic_sandbox->acceptors[loop->index] = own;
	if (!kh_work_share_join(&own->acceptor.work, dynamic_sandbox->tenant) ||
	    !kh_acceptor_open(&own->acceptor, dynamic_sandbox->fd))
		kh_log_error("sandbox %s: thread %u has no memory for it",
			     kh_esc_str(dynamic_sandbox->config.sandbox), loop->index);
}

/* Freed at the end of the turn. */
static void shut(struct kh_loop *loop, struct kh_dynamic_sandbox_acceptor *own)
{
	own->dynamic_sandbox->acceptors[loop->index] = NULL;
	kh_list_remove(&own->link);
	kh_acceptor_end(&own->acceptor, "its sandbox was removed");
	loop->ops->up_close_of_acceptor(loop, own->acceptor.number);
	kh_loop_free_later(loop, &own->acceptor.deferred_free, free_acceptor);
}

void kh_dynamic_sandbox_leave(struct kh_loop *loop, struct kh_dynamic_sandbox *dynamic_sandbox)
{
	if (dynamic_sandbox->acceptors[loop->index])
		shut(loop, dynamic_sandbox->acceptors[loop->index]);
	if (atomic_fetch_sub(&dynamic_sandbox->at_acceptors, 1) != 1)
		return;
	(void)close(dynamic_sandbox->fd);
	dynamic_sandbox->fd = -1;
	if (dynamic_sandbox->asked)
		loop->worker->dynamic_sandboxes->gone(loop->worker, dynamic_sandbox->asked,
						      dynamic_sandbox->listener_stats);
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
	/* All have their places before one is shut, which others may hear of. */
	for (struct kh_node *node = loop->dynamic_sandboxes.next; node != &loop->dynamic_sandboxes;
	     node = node->next) {
		struct kh_dynamic_sandbox_acceptor *own =
			kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link);
		int *tenant = &now[own->config.tenant];
		if (*tenant == UNKNOWN)
			*tenant = kh_config_tenant(loop->gen->config, own->dynamic_sandbox->tenant);
		if (*tenant < 0)
			continue;
		own->acceptor.gen = loop->gen;
		own->config.tenant = (uint16_t)*tenant;
	}
	for (struct kh_node *node = loop->dynamic_sandboxes.next; node != &loop->dynamic_sandboxes;
	     node = next) {
		struct kh_dynamic_sandbox_acceptor *own =
			kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link);
		next = node->next;
		if (own->acceptor.gen != loop->gen) /* the keeper is about to say so */
			shut(loop, own);
	}
	free(now);
	return true;
}

void kh_dynamic_sandbox_acceptors_shut(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->dynamic_sandboxes.next; node != &loop->dynamic_sandboxes;
	     node = node->next)
		kh_acceptor_close(
			&kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link)->acceptor);
}

void kh_dynamic_sandbox_acceptors_say_counts(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->dynamic_sandboxes.next; node != &loop->dynamic_sandboxes;
	     node = node->next)
		kh_refusals_end(
			&kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link)->acceptor);
}

void kh_dynamic_sandbox_acceptors_free(struct kh_loop *loop)
{
	struct kh_node *next;

	for (struct kh_node *node = loop->dynamic_sandboxes.next; node != &loop->dynamic_sandboxes;
	     node = next) {
		struct kh_dynamic_sandbox_acceptor *own =
			kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link);
		next = node->next;
		kh_acceptor_close(&own->acceptor);
		free_acceptor(&own->acceptor.deferred_free);
	}
	kh_list_init(&loop->dynamic_sandboxes);
}

void kh_dynamic_sandbox_acceptors_tick(struct kh_loop *loop)
{
	for (struct kh_node *node = loop->dynamic_sandboxes.next; node != &loop->dynamic_sandboxes;
	     node = node->next)
		kh_acceptor_tick(
			&kh_container_of(node, struct kh_dynamic_sandbox_acceptor, link)->acceptor);
}
