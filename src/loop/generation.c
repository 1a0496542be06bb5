/*
 * generation.c - a configuration with what is made of it, in force or being prepared
 *
 * Everything that a reload replaces belongs to one object. Each event thread holds a reference to
 * the generation in force and changes to the next between two turns. An exchange holds a reference
 * to the one that it was decided under, so that its pointers to rules and credentials stay valid.
 * The counters of a listener move from one generation to the next.
 */

#include <keyhole/loop/values.h>

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/credential/credential.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/net/listener.h>
#include <keyhole/base/wire.h>

enum { SNAPSHOT_BYTES = 512 * 1024 * 1024 };

static bool not_understood(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
}

static void close_listeners(struct kh_generation *g)
{
	for (size_t i = 0; i < g->n_listeners; i++) {
		if (g->listeners[i] >= 0)
			(void)close(g->listeners[i]);
		g->listeners[i] = -1;
	}
}

/* An exchange may hold on to it for hours; a thousand descriptors need not wait for that. */
void kh_generation_leave_acceptors(struct kh_generation *g)
{
	if (atomic_fetch_sub(&g->at_acceptors, 1) == 1)
		close_listeners(g);
}

/* ---- how placeholders are known ---- */

static bool recogniser_init(struct kh_recogniser *r, const struct kh_config *config,
			    struct kh_err *err)
{
	const struct kh_placeholder_key *keys = config->placeholder_keys;

	*r = (struct kh_recogniser){ .n_keys = 0 };
	while (r->n_keys < KH_MARK_KEYS && kh_placeholder_key_is_set(&keys[r->n_keys]))
		r->n_keys++;
	if (config->n_credentials == 0 || r->n_keys == 0)
		return true;
	r->names = calloc(config->n_credentials * r->n_keys, sizeof(*r->names));
	if (!r->names)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "placeholders: no memory");
	for (size_t i = 0; i < config->n_credentials; i++)
		for (size_t k = 0; k < r->n_keys; k++)
			kh_name_tag_make(&r->names[i * r->n_keys + k], &keys[k],
					 config->credentials[i].name);
	r->marks = kh_marks_new(keys, r->n_keys, kh_placeholder_may_have_digits(config), err);
	return r->marks != NULL;
}

static void recogniser_fini(struct kh_recogniser *r)
{
	kh_marks_free(r->marks);
	free(r->names);
	*r = (struct kh_recogniser){ .n_keys = 0 };
}

/* ---- what a generation holds ---- */

static void free_accounts(struct kh_generation *g)
{
	for (size_t i = 0; g->accounts && i < g->config->n_listeners; i++)
		kh_account_unref(g->accounts[i]);
	for (size_t i = 0; g->tenant_accounts && i < g->config->n_tenants; i++)
		kh_account_unref(g->tenant_accounts[i]);
	kh_account_unref(g->whole);
	free(g->accounts);
	free(g->tenant_accounts);
}

static void free_generation(struct kh_generation *g)
{
	close_listeners(g);
	for (size_t i = 0; g->listener_stats_list && i < g->config->n_listeners; i++) {
		if (g->listener_stats_list[i] &&
		    atomic_fetch_sub(&g->listener_stats_list[i]->refs, 1) == 1)
			free(g->listener_stats_list[i]);
	}
	for (size_t i = 0; g->tallies && i < g->config->n_tenants; i++)
		kh_tally_unref(g->tallies[i]);
	for (size_t i = 0; g->leaves && i < g->config->n_tenants; i++)
		kh_leaves_free(g->leaves[i]);
	free_accounts(g);
	kh_values_free(g);
	recogniser_fini(&g->recogniser);
	kh_geo_unref(g->geo);
	kh_policy_unref(g->policy);
	kh_quota_ledger_unmap(&g->quota_ledger);
	kh_config_free(g->config);
	free(g->listeners);
	free(g->listener_stats_list);
	free(g->tallies);
	free(g->leaves);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

struct kh_generation *kh_generation_ref(struct kh_generation *g)
{
	atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
	return g;
}

void kh_generation_unref(struct kh_generation *g)
{
	if (g && atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) == 1)
		free_generation(g);
}

unsigned kh_generation_threads(const struct kh_config *config)
{
	cpu_set_t set;
	unsigned n = config->threads;

	if (n == 0 && sched_getaffinity(0, sizeof(set), &set) == 0)
		n = (unsigned)CPU_COUNT(&set);
	if (n == 0)
		n = 1;
	return n < KH_WORKER_THREADS_MOST ? n : KH_WORKER_THREADS_MOST;
}

static struct kh_tally *find_tally(const struct kh_generation *g, const char *name)
{
	int i = g && g->tallies ? kh_config_tenant(g->config, name) : -1;

	return i >= 0 ? g->tallies[i] : NULL;
}

static bool make_tallies(struct kh_generation *g, const struct kh_generation *before)
{
	unsigned threads = kh_generation_threads(g->config);

	for (size_t i = 0; i < g->config->n_tenants; i++) {
		struct kh_tally *tally = find_tally(before, g->config->tenants[i].name);
		if (tally)
			atomic_fetch_add(&tally->refs, 1);
		else if (!(tally = kh_tally_new(threads)))
			return false;
		g->tallies[i] = tally;
	}
	return true;
}

struct kh_listener_stats *kh_listener_stats_new(void)
{
	static atomic_uint_fast64_t last;
	struct kh_listener_stats *listener_stats = calloc(1, sizeof(*listener_stats));

	if (listener_stats) {
		atomic_init(&listener_stats->refs, 1);
		listener_stats->number = atomic_fetch_add(&last, 1) + 1;
	}
	return listener_stats;
}

static bool make_listener_stats_list(struct kh_generation *g, const struct kh_generation *before)
{
	kh_auto_free size_t *found =
		before ? kh_config_match_listeners(g->config, before->config) : NULL;

	if (before && !found)
		return false;
	for (size_t i = 0; i < g->config->n_listeners; i++) {
		struct kh_listener_stats *listener_stats = NULL;
		if (found && found[i] != KH_LISTENER_NONE)
			listener_stats = before->listener_stats_list[found[i]];
		if (listener_stats)
			atomic_fetch_add(&listener_stats->refs, 1);
		else
			listener_stats = kh_listener_stats_new();
		if (!listener_stats)
			return false;
		g->listener_stats_list[i] = listener_stats;
	}
	return true;
}

static bool make_whole(struct kh_generation *g, const struct kh_generation *before)
{
	g->whole = before ? kh_account_ref(before->whole) : kh_account_new_whole();
	if (!g->whole)
		return false;
	/* The worker lowers it where it has few descriptors. */
	if (!before)
		kh_account_bound(g->whole, KH_RESOURCE_LOOKUPS, KH_LIMIT_RESOLVES);
	kh_account_bound(g->whole, KH_RESOURCE_LEAVES, KH_LIMIT_LEAVES_WANTED);
	kh_account_bound(g->whole, KH_RESOURCE_SIGNATURES, KH_LIMIT_SIGNATURES_SPENT);
	kh_account_bound(g->whole, KH_RESOURCE_UP_WINDOW, KH_LIMIT_UP_WINDOWS);
	kh_account_bound(g->whole, KH_RESOURCE_JOURNAL, KH_LIMIT_REFUSALS_SPENT_BYTES);
	return true;
}

/* A listener that serves another tenant from now on is another sandbox. */
static struct kh_account *find_account(const struct kh_generation *g, size_t listener,
				       const struct kh_generation *before, size_t found)
{
	struct kh_account *tenant = g->tenant_accounts[g->config->listeners[listener].tenant];

	if (before && before->accounts && found != KH_LISTENER_NONE &&
	    kh_account_parent(before->accounts[found]) == tenant)
		return kh_account_ref(before->accounts[found]);
	return kh_account_new(tenant);
}

static bool make_accounts(struct kh_generation *g, const struct kh_generation *before)
{
	const struct kh_config *config = g->config;
	kh_auto_free size_t *found =
		before ? kh_config_match_listeners(config, before->config) : NULL;

	g->tenant_accounts = calloc(config->n_tenants + 1, sizeof(struct kh_account *));
	g->accounts = calloc(config->n_listeners + 1, sizeof(struct kh_account *));
	if ((before && !found) || !g->tenant_accounts || !g->accounts || !make_whole(g, before))
		return false;
	for (size_t i = 0; i < config->n_tenants; i++) {
		int same = before && before->tenant_accounts
				   ? kh_config_tenant(before->config, config->tenants[i].name)
				   : -1;
		g->tenant_accounts[i] = same >= 0 ? kh_account_ref(before->tenant_accounts[same])
						  : kh_account_new(g->whole);
		if (!g->tenant_accounts[i])
			return false;
	}
	for (size_t i = 0; i < config->n_listeners; i++) {
		g->accounts[i] = find_account(g, i, before, found ? found[i] : KH_LISTENER_NONE);
		if (!g->accounts[i])
			return false;
	}
	return true;
}

static bool fill(struct kh_generation *g, const struct kh_generation *before, struct kh_err *err)
{
	const struct kh_config *config = g->config;

	g->policy = kh_policy_compile(config, err);
	if (!g->policy)
		return false;
	if (!recogniser_init(&g->recogniser, config, err))
		return false;
	g->listeners = calloc(config->n_listeners + 1, sizeof(*g->listeners));
	g->listener_stats_list =
		calloc(config->n_listeners + 1, sizeof(struct kh_listener_stats *));
	g->tallies = calloc(config->n_tenants + 1, sizeof(struct kh_tally *));
	if (config->ca_per_tenant)
		g->leaves = calloc(config->n_tenants + 1, sizeof(struct kh_leaves *));
	g->slots = calloc(config->n_credentials + 1, sizeof(*g->slots));
	if (!g->listeners || !g->listener_stats_list || !g->slots || !g->tallies ||
	    (config->ca_per_tenant && !g->leaves) || !make_listener_stats_list(g, before) ||
	    !make_tallies(g, before) || !make_accounts(g, before))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "configuration: no memory");
	return true;
}

struct kh_generation *kh_generation_take_snapshot(struct kh_channel_message *message,
						  const struct kh_generation *before,
						  struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;

	struct kh_wire_reader r = { .rest = message->body };
	uint32_t n_slots = kh_wire_u32(&r);
	uint8_t column = kh_wire_u8(&r);

	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	if (message->n_fds != 2 || !kh_wire_done(&r) || n_slots > KH_LIMIT_QUOTA_SLOTS) {
		not_understood(err);
		return NULL;
	}
	if (!kh_file_read_fd(message->fds[0], &bytes, err))
		return NULL;
	struct kh_config *config = kh_config_decode(kh_buf_view(&bytes), err);
	if (!config)
		return NULL;
	struct kh_generation *g = calloc(1, sizeof(*g));
	if (!g) {
		kh_config_free(config);
		kh_err_set(err, KH_ERR_NO_MEMORY, "configuration: no memory");
		return NULL;
	}
	atomic_init(&g->refs, 1);
	pthread_mutex_init(&g->lock, NULL);
	g->number = message->ref;
	g->config = config;
	if (kh_quota_ledger_map(&g->quota_ledger, message->fds[1], n_slots, column, err) &&
	    fill(g, before, err))
		return g;
	free_generation(g);
	return NULL;
}

bool kh_generation_take_listeners(struct kh_generation *g, struct kh_channel_message *message,
				  struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint32_t count = kh_wire_u32(&r), first = kh_wire_u32(&r);

	if (!kh_wire_done(&r) || count != message->n_fds || count == 0 || first != g->n_listeners ||
	    count > g->config->n_listeners - g->n_listeners)
		return not_understood(err);
	for (unsigned i = 0; i < message->n_fds; i++) {
		g->n_down += kh_listener_is_dead(message->fds[i]);
		g->listeners[g->n_listeners++] = kh_steal_fd(&message->fds[i]);
	}
	return true;
}

bool kh_generation_take_geo(struct kh_generation *g, const struct kh_channel_message *message,
			    struct kh_err *err)
{
	bool country = g->config->country_db.named, asn = g->config->asn_db.named;

	if (g->has_geo || message->n_fds != (unsigned)country + (unsigned)asn ||
	    message->body.len != 0)
		return not_understood(err);
	g->has_geo = true;
	if (!country && !asn)
		return true;
	g->geo = kh_geo_open(country ? message->fds[0] : -1,
			     asn ? message->fds[message->n_fds - 1] : -1, err);
	return g->geo || kh_err_wrap(err, "upstream.geo");
}

bool kh_generation_is_whole(const struct kh_generation *g)
{
	return g->n_listeners == g->config->n_listeners;
}

void kh_worker_note_taken(const struct kh_worker *worker)
{
	uint64_t one = 1;

	if (worker->taken_fd >= 0)
		(void)!write(worker->taken_fd, &one, sizeof(one));
}
