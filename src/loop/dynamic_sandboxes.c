/* dynamic_sandboxes.c - the worker's list of guests, as the keeper tells it (guests.h) */

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

static void drop_dynamic_sandbox(void *value)
{
	kh_dynamic_sandbox_unref(value);
}

bool kh_dynamic_sandboxes_init(struct kh_worker *worker, kh_dynamic_sandboxes_gone *gone,
			       struct kh_err *err)
{
	struct kh_dynamic_sandboxes *guests = calloc(1, sizeof(*guests));

	if (guests)
		guests->by_name = kh_lru_new(KH_LIMIT_DYNAMIC_SANDBOXES, drop_dynamic_sandbox);
	if (!guests || !guests->by_name || pthread_mutex_init(&guests->lock, NULL) != 0) {
		free(guests);
		return kh_err_set(err, KH_ERR_NO_MEMORY, "sandboxes: no memory");
	}
	kh_list_init(&guests->list);
	guests->gone = gone;
	worker->guests = guests;
	return true;
}

struct kh_dynamic_sandbox *kh_dynamic_sandbox_ref(struct kh_dynamic_sandbox *guest)
{
	atomic_fetch_add_explicit(&guest->refs, 1, memory_order_relaxed);
	return guest;
}

void kh_dynamic_sandbox_unref(struct kh_dynamic_sandbox *guest)
{
	if (!guest || atomic_fetch_sub_explicit(&guest->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (guest->fd >= 0)
		(void)close(guest->fd);
	kh_narrowing_unref(guest->narrowing);
	free(guest->listener_stats);
	kh_account_unref(guest->account);
	free(guest->tenant);
	free(guest->config.name);
	free(guest->config.unix_path);
	free(guest->config.sandbox);
	free(guest);
}

static struct kh_narrowing *read_narrowing(struct kh_slice bytes, struct kh_err *err)
{
	struct kh_rules rules;

	return kh_snapshot_decode_narrow(bytes, &rules, err) ? kh_narrowing_new(&rules, err) : NULL;
}

static bool fill(struct kh_dynamic_sandbox *guest, struct kh_dynamic_sandbox_card *card,
		 struct kh_err *err)
{
	guest->number = card->number;
	guest->expires_ms = card->expires_ms;
	guest->suspect = card->suspect;
	guest->tenant = kh_steal_ptr(&card->tenant);
	guest->config = (struct kh_listener_config){ .kind = KH_LISTEN_UNIX,
						     .token = -1,
						     .narrowed = card->narrowed,
						     .owner = (uid_t)-1,
						     .group = (gid_t)-1 };
	guest->config.sandbox = kh_steal_ptr(&card->id);
	guest->config.name = strdup(card->path);
	guest->config.unix_path = kh_steal_ptr(&card->path);
	guest->listener_stats = kh_listener_stats_new();
	if (!guest->config.name || !guest->listener_stats)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (!card->narrowed)
		return true;
	guest->narrowing = read_narrowing(card->narrow, err);
	if (!guest->narrowing) {
		/* Of another version, perhaps, behind a handover: one that allows nothing. */
		struct kh_rules none = { 0 };
		kh_log_error("sandbox %s: its narrowing can't be read, so nothing is allowed: %s",
			     kh_esc_str(guest->config.sandbox), err->text);
		guest->narrowing = kh_narrowing_new(&none, err);
	}
	if (!guest->narrowing)
		return false;
	/* For whoever shows them; the narrowing owns them. */
	guest->config.narrow = *kh_narrowing_rules(guest->narrowing);
	return true;
}

static struct kh_dynamic_sandbox *make(const struct kh_worker *worker,
				       struct kh_dynamic_sandbox_card *card, int tenant, int *fd,
				       struct kh_err *err)
{
	struct kh_dynamic_sandbox *guest = calloc(
		1, sizeof(*guest) + worker->n_loops * sizeof(struct kh_dynamic_sandbox_acceptor *));

	if (!guest) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
		return NULL;
	}
	atomic_init(&guest->refs, 1);
	atomic_init(&guest->at_acceptors, worker->n_loops);
	guest->fd = kh_steal_fd(fd);
	struct kh_account **tenants = worker->current->tenant_accounts;
	guest->account = tenants ? kh_account_new(tenants[tenant]) : NULL;
	if (tenants && !guest->account)
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	else if (fill(guest, card, err))
		return guest;
	kh_dynamic_sandbox_unref(guest);
	return NULL;
}

/* A guest that this process can't have is one that the next one will: it can't go on without. */
static bool add(struct kh_worker *worker, struct kh_channel_message *message)
{
	struct kh_dynamic_sandboxes *guests = worker->guests;
	struct kh_dynamic_sandbox_card card;
	struct kh_err err = KH_ERR_INIT;
	struct kh_dynamic_sandbox *guest = NULL;
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];

	if (!kh_dynamic_sandbox_card_take(message->body, &card) || message->n_fds != 1) {
		kh_dynamic_sandbox_card_fini(&card);
		return false;
	}
	int tenant = kh_config_tenant(worker->current->config, card.tenant);
	if (tenant >= 0 && (guest = make(worker, &card, tenant, &message->fds[0], &err))) {
		struct kh_slice name =
			kh_dynamic_sandbox_name(guest->tenant, guest->config.sandbox, room);
		pthread_mutex_lock(&guests->lock);
		bool put = !kh_lru_get(guests->by_name, name) &&
			   kh_lru_put(guests->by_name, name, guest);
		if (put) {
			kh_list_append(&guests->list, &guest->link);
			guests->count++;
			if (guests->peak < guests->count)
				guests->peak = guests->count;
		}
		pthread_mutex_unlock(&guests->lock);
		if (!put)
			kh_dynamic_sandbox_unref(guest);
		for (unsigned i = 0; put && i < worker->n_loops; i++)
			kh_loop_post_dynamic_sandbox(worker->loops[i], guest, (uint16_t)tenant);
		guest = put ? guest : NULL;
	}
	if (!guest)
		kh_log_error("a sandbox that was added can't be served: %s",
			     err.code ? err.text : "it is not understood");
	kh_dynamic_sandbox_card_fini(&card);
	return guest != NULL;
}

static bool remove_dynamic_sandbox(struct kh_worker *worker,
				   const struct kh_channel_message *message)
{
	struct kh_dynamic_sandboxes *guests = worker->guests;
	struct kh_wire_reader r = { .rest = message->body };
	kh_auto_free char *tenant = kh_wire_str(&r);
	kh_auto_free char *id = kh_wire_str(&r);
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];

	if (!kh_wire_done(&r) || !tenant || !id)
		return false;
	pthread_mutex_lock(&guests->lock);
	struct kh_dynamic_sandbox *guest =
		kh_lru_take(guests->by_name, kh_dynamic_sandbox_name(tenant, id, room));
	if (guest) {
		kh_list_remove(&guest->link);
		guests->count--;
	}
	pthread_mutex_unlock(&guests->lock);
	if (!guest) {
		if (message->ref)
			guests->gone(worker, message->ref, NULL);
		return true;
	}
	guest->asked = message->ref;
	for (unsigned i = 0; i < worker->n_loops; i++)
		kh_loop_post_dynamic_sandbox_gone(worker->loops[i], guest);
	kh_dynamic_sandbox_unref(guest);
	return true;
}

bool kh_dynamic_sandboxes_take(struct kh_worker *worker, struct kh_channel_message *message)
{
	if (message->type == KH_CHANNEL_DYNAMIC_SANDBOX)
		return add(worker, message);
	return remove_dynamic_sandbox(worker, message);
}

void kh_dynamic_sandboxes_each(struct kh_worker *worker,
			       void (*visit)(void *arg, const struct kh_dynamic_sandbox *guest),
			       void *arg)
{
	struct kh_dynamic_sandboxes *guests = worker->guests;

	if (!guests)
		return;
	pthread_mutex_lock(&guests->lock);
	for (struct kh_node *node = guests->list.next; node != &guests->list; node = node->next)
		visit(arg, kh_container_of(node, struct kh_dynamic_sandbox, link));
	pthread_mutex_unlock(&guests->lock);
}

size_t kh_dynamic_sandboxes_count(struct kh_worker *worker)
{
	struct kh_dynamic_sandboxes *guests = worker->guests;
	size_t count = 0;

	if (!guests)
		return 0;
	pthread_mutex_lock(&guests->lock);
	count = guests->count;
	pthread_mutex_unlock(&guests->lock);
	return count;
}

void kh_dynamic_sandboxes_tick(struct kh_worker *worker)
{
	enum { WORTH_IT = 512 };
	struct kh_dynamic_sandboxes *guests = worker->guests;

	if (!guests)
		return;
	pthread_mutex_lock(&guests->lock);
	bool worth = guests->peak >= WORTH_IT && guests->count <= guests->peak / 2;
	if (worth)
		guests->peak = guests->count;
	pthread_mutex_unlock(&guests->lock);
	if (worth)
		(void)malloc_trim(0);
}
