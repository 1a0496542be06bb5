/* dynamic_sandboxes.c - the worker's list of dynamic sandboxes, from the keeper's messages */

#include <keyhole/loop/dynamic_sandboxes.h>

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/lru.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/config/credential_ref.h>

static void drop_dynamic_sandbox(void *value)
{
	kh_dynamic_sandbox_unref(value);
}

bool kh_dynamic_sandboxes_init(struct kh_worker *worker, kh_dynamic_sandboxes_gone *gone,
			       struct kh_err *err)
{
	struct kh_dynamic_sandboxes *dynamic_sandboxes = calloc(1, sizeof(*dynamic_sandboxes));

	if (dynamic_sandboxes)
		dynamic_sandboxes->by_name =
			kh_lru_new(KH_LIMIT_DYNAMIC_SANDBOXES, drop_dynamic_sandbox);
	if (!dynamic_sandboxes || !dynamic_sandboxes->by_name ||
	    pthread_mutex_init(&dynamic_sandboxes->lock, NULL) != 0) {
		free(dynamic_sandboxes);
		return kh_err_set(err, KH_ERR_NO_MEMORY, "sandboxes: no memory");
	}
	kh_list_init(&dynamic_sandboxes->list);
	dynamic_sandboxes->gone = gone;
	worker->dynamic_sandboxes = dynamic_sandboxes;
	return true;
}

struct kh_dynamic_sandbox *kh_dynamic_sandbox_ref(struct kh_dynamic_sandbox *dynamic_sandbox)
{
	atomic_fetch_add_explicit(&dynamic_sandbox->refs, 1, memory_order_relaxed);
	return dynamic_sandbox;
}

void kh_dynamic_sandbox_unref(struct kh_dynamic_sandbox *dynamic_sandbox)
{
	if (!dynamic_sandbox ||
	    atomic_fetch_sub_explicit(&dynamic_sandbox->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (dynamic_sandbox->fd >= 0)
		(void)close(dynamic_sandbox->fd);
	kh_narrowing_unref(dynamic_sandbox->narrowing);
	free(dynamic_sandbox->listener_stats);
	kh_account_unref(dynamic_sandbox->account);
	free(dynamic_sandbox->tenant);
	free(dynamic_sandbox->config.name);
	free(dynamic_sandbox->config.unix_path);
	free(dynamic_sandbox->config.sandbox);
	free(dynamic_sandbox);
}

static struct kh_narrowing *read_narrowing(struct kh_slice bytes, struct kh_err *err)
{
	struct kh_rules rules;

	return kh_snapshot_decode_narrow(bytes, &rules, err) ? kh_narrowing_new(&rules, err) : NULL;
}

static bool fill(struct kh_dynamic_sandbox *dynamic_sandbox, struct kh_dynamic_sandbox_card *card,
		 struct kh_err *err)
{
	dynamic_sandbox->number = card->number;
	dynamic_sandbox->expires_ms = card->expires_ms;
	dynamic_sandbox->suspect = card->suspect;
	dynamic_sandbox->tenant = kh_steal_ptr(&card->tenant);
	dynamic_sandbox->config = (struct kh_listener_config){ .kind = KH_LISTEN_UNIX,
							       .token = -1,
							       .narrowed = card->narrowed,
							       .owner = (uid_t)-1,
							       .group = (gid_t)-1 };
	dynamic_sandbox->config.sandbox = kh_steal_ptr(&card->id);
	dynamic_sandbox->config.name = strdup(card->path);
	dynamic_sandbox->config.unix_path = kh_steal_ptr(&card->path);
	dynamic_sandbox->listener_stats = kh_listener_stats_new();
	if (!dynamic_sandbox->config.name || !dynamic_sandbox->listener_stats)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	dynamic_sandbox->listener_stats->number = KH_ASKER_DYNAMIC | card->number;
	if (!card->narrowed)
		return true;
	dynamic_sandbox->narrowing = read_narrowing(card->narrow, err);
	if (!dynamic_sandbox->narrowing) {
		/* Of another version, perhaps, behind a handover: one that allows nothing. */
		struct kh_rules none = { 0 };
		kh_log_error("sandbox %s: its narrowing can't be read, so nothing is allowed: %s",
			     kh_esc_str(dynamic_sandbox->config.sandbox), err->text);
		dynamic_sandbox->narrowing = kh_narrowing_new(&none, err);
	}
	if (!dynamic_sandbox->narrowing)
		return false;
	/* For whoever shows them; the narrowing owns them. */
	dynamic_sandbox->config.narrow = *kh_narrowing_rules(dynamic_sandbox->narrowing);
	return true;
}

static struct kh_dynamic_sandbox *make(const struct kh_worker *worker,
				       struct kh_dynamic_sandbox_card *card, int tenant, int *fd,
				       struct kh_err *err)
{
	struct kh_dynamic_sandbox *dynamic_sandbox =
		calloc(1, sizeof(*dynamic_sandbox) +
				  worker->n_loops * sizeof(struct kh_dynamic_sandbox_acceptor *));

	if (!dynamic_sandbox) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
		return NULL;
	}
	atomic_init(&dynamic_sandbox->refs, 1);
	atomic_init(&dynamic_sandbox->at_acceptors, worker->n_loops);
	dynamic_sandbox->fd = kh_steal_fd(fd);
	struct kh_account **tenants = worker->current->tenant_accounts;
	dynamic_sandbox->account = tenants ? kh_account_new(tenants[tenant]) : NULL;
	if (tenants && !dynamic_sandbox->account)
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	else if (fill(dynamic_sandbox, card, err))
		return dynamic_sandbox;
	kh_dynamic_sandbox_unref(dynamic_sandbox);
	return NULL;
}

/* A dynamic sandbox that this process can't have is one that the next one will: it can't go on
 * without. */
static bool add(struct kh_worker *worker, struct kh_channel_message *message)
{
	struct kh_dynamic_sandboxes *dynamic_sandboxes = worker->dynamic_sandboxes;
	struct kh_dynamic_sandbox_card card;
	struct kh_err err = KH_ERR_INIT;
	struct kh_dynamic_sandbox *dynamic_sandbox = NULL;
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];

	if (!kh_dynamic_sandbox_card_take(message->body, &card) || message->n_fds != 1) {
		kh_dynamic_sandbox_card_fini(&card);
		return false;
	}
	int tenant = kh_config_tenant(worker->current->config, card.tenant);
	if (tenant >= 0 &&
	    (dynamic_sandbox = make(worker, &card, tenant, &message->fds[0], &err))) {
		struct kh_slice name = kh_dynamic_sandbox_name(
			dynamic_sandbox->tenant, dynamic_sandbox->config.sandbox, room);
		pthread_mutex_lock(&dynamic_sandboxes->lock);
		bool put = !kh_lru_get(dynamic_sandboxes->by_name, name) &&
			   kh_lru_put(dynamic_sandboxes->by_name, name, dynamic_sandbox);
		if (put) {
			kh_list_append(&dynamic_sandboxes->list, &dynamic_sandbox->link);
			dynamic_sandboxes->count++;
			if (dynamic_sandboxes->peak < dynamic_sandboxes->count)
				dynamic_sandboxes->peak = dynamic_sandboxes->count;
		}
		pthread_mutex_unlock(&dynamic_sandboxes->lock);
		if (!put)
			kh_dynamic_sandbox_unref(dynamic_sandbox);
		for (unsigned i = 0; put && i < worker->n_loops; i++)
			kh_loop_post_dynamic_sandbox(worker->loops[i], dynamic_sandbox,
						     (uint16_t)tenant);
		dynamic_sandbox = put ? dynamic_sandbox : NULL;
	}
	if (!dynamic_sandbox)
		kh_log_error("a sandbox that was added can't be served: %s",
			     err.code ? err.text : "it is not understood");
	kh_dynamic_sandbox_card_fini(&card);
	return dynamic_sandbox != NULL;
}

static bool remove_dynamic_sandbox(struct kh_worker *worker,
				   const struct kh_channel_message *message)
{
	struct kh_dynamic_sandboxes *dynamic_sandboxes = worker->dynamic_sandboxes;
	struct kh_wire_reader r = { .rest = message->body };
	kh_auto_free char *tenant = kh_wire_str(&r);
	kh_auto_free char *id = kh_wire_str(&r);
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];

	if (!kh_wire_done(&r) || !tenant || !id)
		return false;
	pthread_mutex_lock(&dynamic_sandboxes->lock);
	struct kh_dynamic_sandbox *dynamic_sandbox =
		kh_lru_take(dynamic_sandboxes->by_name, kh_dynamic_sandbox_name(tenant, id, room));
	if (dynamic_sandbox) {
		kh_list_remove(&dynamic_sandbox->link);
		dynamic_sandboxes->count--;
	}
	pthread_mutex_unlock(&dynamic_sandboxes->lock);
	if (!dynamic_sandbox) {
		if (message->ref)
			dynamic_sandboxes->gone(worker, message->ref, NULL);
		return true;
	}
	dynamic_sandbox->asked = message->ref;
	for (unsigned i = 0; i < worker->n_loops; i++)
		kh_loop_post_dynamic_sandbox_gone(worker->loops[i], dynamic_sandbox);
	kh_dynamic_sandbox_unref(dynamic_sandbox);
	return true;
}

bool kh_dynamic_sandboxes_take(struct kh_worker *worker, struct kh_channel_message *message)
{
	if (message->type == KH_WORKER_MSG_DYNAMIC_SANDBOX)
		return add(worker, message);
	return remove_dynamic_sandbox(worker, message);
}

void kh_dynamic_sandboxes_each(struct kh_worker *worker,
			       void (*visit)(void *arg,
					     const struct kh_dynamic_sandbox *dynamic_sandbox),
			       void *arg)
{
	struct kh_dynamic_sandboxes *dynamic_sandboxes = worker->dynamic_sandboxes;

	if (!dynamic_sandboxes)
		return;
	pthread_mutex_lock(&dynamic_sandboxes->lock);
	for (struct kh_node *node = dynamic_sandboxes->list.next; node != &dynamic_sandboxes->list;
	     node = node->next)
		visit(arg, kh_container_of(node, struct kh_dynamic_sandbox, link));
	pthread_mutex_unlock(&dynamic_sandboxes->lock);
}

size_t kh_dynamic_sandboxes_count(struct kh_worker *worker)
{
	struct kh_dynamic_sandboxes *dynamic_sandboxes = worker->dynamic_sandboxes;
	size_t count = 0;

	if (!dynamic_sandboxes)
		return 0;
	pthread_mutex_lock(&dynamic_sandboxes->lock);
	count = dynamic_sandboxes->count;
	pthread_mutex_unlock(&dynamic_sandboxes->lock);
	return count;
}

void kh_dynamic_sandboxes_tick(struct kh_worker *worker)
{
	enum { WORTH_IT = 512 };
	struct kh_dynamic_sandboxes *dynamic_sandboxes = worker->dynamic_sandboxes;

	if (!dynamic_sandboxes)
		return;
	pthread_mutex_lock(&dynamic_sandboxes->lock);
	bool worth = dynamic_sandboxes->peak >= WORTH_IT &&
		     dynamic_sandboxes->count <= dynamic_sandboxes->peak / 2;
	if (worth)
		dynamic_sandboxes->peak = dynamic_sandboxes->count;
	pthread_mutex_unlock(&dynamic_sandboxes->lock);
	if (worth)
		(void)malloc_trim(0);
}
