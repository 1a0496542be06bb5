/* leaf_requests.c - requests for leaves: sent by event threads, answered to the main thread */

/*
 * An event thread registers its request under the lock, releases the lock, and then sends. Sending
 * with the lock held could deadlock: it waits while the keeper's queue is full, the keeper may wait
 * for this process's main thread to take its answers, and the main thread takes the lock for each
 * answer.
 *
 * A thread first makes its exchange or session wait, and then asks. So an answer that comes in
 * between finds it waiting, and the answer to another thread's request is told to every loop
 * anyway.
 */

#include <keyhole/loop/leaf_requests.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

enum { BUCKETS = 256 };

struct wanted_host {
	struct wanted_host *next;
	struct kh_host host;
	struct kh_account *account;	     /* a reference: who waits for the keeper */
	char signer[KH_NAME_MOST_BYTES + 1]; /* as of kh_generation_signer */
};

struct kh_wanted_leaf {
	struct wanted_host *buckets[BUCKETS];
	size_t count;
	uint32_t seed; /* a sandbox chooses the names: it must not choose their buckets */
};

bool kh_leaf_requests_init(struct kh_worker *worker, struct kh_err *err)
{
	worker->wanted = calloc(1, sizeof(*worker->wanted));
	if (!worker->wanted ||
	    getrandom(&worker->wanted->seed, sizeof(worker->wanted->seed), 0) !=
		    (ssize_t)sizeof(worker->wanted->seed) ||
	    pthread_mutex_init(&worker->lock, NULL) != 0)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "worker: no memory");
	return true;
}

static void drop(struct wanted_host *gone)
{
	kh_account_give(gone->account, KH_RESOURCE_LEAVES, 1);
	kh_account_unref(gone->account);
	free(gone);
}

void kh_leaf_requests_fini(struct kh_worker *worker)
{
	for (size_t i = 0; worker->wanted && i < BUCKETS; i++) {
		while (worker->wanted->buckets[i]) {
			struct wanted_host *gone = worker->wanted->buckets[i];
			worker->wanted->buckets[i] = gone->next;
			drop(gone);
		}
	}
	free(worker->wanted);
	worker->wanted = NULL;
}

static uint32_t hash_on(uint32_t hash, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 16777619U;
	return hash;
}

/* FNV-1a. */
static struct wanted_host **bucket_of(struct kh_wanted_leaf *wanted, const struct kh_host *host,
				      const char *signer)
{
	uint32_t hash = hash_on(2166136261U ^ wanted->seed, host->text, host->len + 1);
	hash = hash_on(hash, signer, strlen(signer));
	return &wanted->buckets[(hash ^ hash >> 16) % BUCKETS];
}

/* Where the pointer to it stands; the end of the chain when it is not there. */
static struct wanted_host **find(struct kh_wanted_leaf *wanted, const struct kh_host *host,
				 const char *signer)
{
	struct wanted_host **at = bucket_of(wanted, host, signer);
	while (*at && (!kh_host_eq(&(*at)->host, host) || strcmp((*at)->signer, signer) != 0))
		at = &(*at)->next;
	return at;
}

static void forget(struct kh_worker *worker, const struct kh_host *host, const char *signer)
{
	pthread_mutex_lock(&worker->lock);
	struct wanted_host **at = find(worker->wanted, host, signer), *gone = *at;
	if (gone) {
		*at = gone->next;
		worker->wanted->count--;
	}
	pthread_mutex_unlock(&worker->lock);
	if (gone)
		drop(gone);
}

enum noted { NOTED_NEW = 1, NOTED_ALREADY, NOTED_FULL, NOTED_NO_MEMORY };

static enum noted note(struct kh_worker *worker, const struct kh_host *host, const char *signer,
		       struct kh_account *account)
{
	enum noted result = NOTED_FULL;
	pthread_mutex_lock(&worker->lock);
	struct wanted_host **at = find(worker->wanted, host, signer);
	if (*at) {
		result = NOTED_ALREADY;
	} else if (kh_account_take(account, KH_RESOURCE_LEAVES, 1, 0)) {
		*at = calloc(1, sizeof(**at));
		if (*at) {
			(*at)->host = *host;
			(*at)->account = kh_account_ref(account);
			(void)snprintf((*at)->signer, sizeof((*at)->signer), "%s", signer);
			worker->wanted->count++;
			result = NOTED_NEW;
		} else {
			kh_account_give(account, KH_RESOURCE_LEAVES, 1);
			result = NOTED_NO_MEMORY;
		}
	}
	pthread_mutex_unlock(&worker->lock);
	return result;
}

const char *kh_generation_signer(const struct kh_generation *g, uint16_t tenant)
{
	return g->leaves ? g->config->tenants[tenant].name : "";
}

struct kh_leaves *kh_worker_leaves(const struct kh_worker *worker, const struct kh_generation *g,
				   uint16_t tenant)
{
	return g->leaves ? g->leaves[tenant] : worker->leaves;
}

enum kh_leaf_ask kh_worker_request_leaf(struct kh_worker *worker, const struct kh_generation *g,
					uint16_t tenant, const struct kh_authority *authority,
					struct kh_account *account)
{
	const struct kh_host *host = &authority->host;
	const char *signer = kh_generation_signer(g, tenant);
	enum noted noted = note(worker, host, signer, account);
	if (noted == NOTED_ALREADY)
		return KH_LEAF_ASKED;
	if (noted != NOTED_NEW)
		return noted == NOTED_FULL ? KH_LEAF_LATER : KH_LEAF_FAILED;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	struct kh_err err = KH_ERR_INIT;
	if (kh_wire_put_str(&body, host->text) && kh_wire_put_u16(&body, tenant) &&
	    kh_wire_put_u16(&body, authority->port) && kh_wire_put_str(&body, signer) &&
	    kh_channel_send(&worker->channel, KH_WORKER_MSG_LEAF_REQUEST, g->number,
			    kh_buf_view(&body), NULL, 0, &err))
		return KH_LEAF_ASKED;
	kh_log_warn("asking for a leaf: %s", err.text);
	forget(worker, host, signer);
	return KH_LEAF_FAILED;
}

/* Those of that signer; NULL: a reload has taken the tenant away. */
static struct kh_leaves *leaves_by(const struct kh_worker *worker, const char *signer)
{
	const struct kh_generation *g = worker->current;
	if (!g->leaves)
		return signer[0] == '\0' ? worker->leaves : NULL;
	int tenant = kh_config_tenant(g->config, signer);
	return tenant >= 0 ? g->leaves[tenant] : NULL;
}

bool kh_leaf_requests_leaf_came(struct kh_worker *worker, struct kh_slice body)
{
	struct kh_wire_reader r = { .rest = body };
	kh_auto_free char *name = kh_wire_str(&r);
	struct kh_slice der = kh_wire_bytes(&r);
	kh_auto_free char *signer = kh_wire_str(&r);
	struct kh_host host;
	if (!kh_wire_done(&r) || !name || !signer ||
	    !kh_host_parse(&host, kh_slice_str(name), NULL))
		return false;

	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *leaves = leaves_by(worker, signer);
	bool found = der.len > 0 && leaves && kh_leaves_put(leaves, &host, der, &err);
	if (der.len > 0 && leaves && !found)
		kh_log_error("leaf for %s: %s", host.text, err.text);
	/* In the cache first: who asks from now on finds it there, or asks anew. */
	forget(worker, &host, signer);
	for (unsigned i = 0; i < worker->n_loops; i++)
		kh_loop_post_leaf(worker->loops[i], &host, signer, found);
	return true;
}

/* Those of a tenant of `g`: what it had before, or new ones. NULL: no memory. */
static struct kh_leaves *own_leaves(const struct kh_worker *worker, struct kh_generation *g,
				    const struct kh_generation *before, uint16_t tenant)
{
	int same = before && before->leaves
			   ? kh_config_tenant(before->config, g->config->tenants[tenant].name)
			   : -1;
	if (!g->leaves[tenant])
		g->leaves[tenant] = same >= 0 ? kh_leaves_ref(before->leaves[same])
					      : kh_leaves_branch(worker->leaves);
	return g->leaves[tenant];
}

bool kh_leaf_requests_issuer_came(struct kh_worker *worker, struct kh_generation *g,
				  const struct kh_generation *before, struct kh_slice body,
				  struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = body };
	uint16_t tenant = kh_wire_u16(&r);
	struct kh_slice der = kh_wire_bytes(&r), trusted = kh_wire_bytes(&r);
	bool of_all = tenant == KH_NO_TENANT;

	if (!kh_wire_done(&r) || of_all != !g->leaves ||
	    (!of_all && tenant >= g->config->n_tenants))
		return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
	struct kh_leaves *leaves = of_all ? worker->leaves : own_leaves(worker, g, before, tenant);
	if (!leaves)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "leaves: no memory");
	/* Who asks what to trust meanwhile gets no less than what is shown. */
	return kh_leaves_set_trusted(leaves, trusted, err) &&
	       kh_leaves_set_issuer(leaves, der, err);
}

bool kh_leaf_requests_issuers_known(const struct kh_worker *worker, const struct kh_generation *g,
				    struct kh_err *err)
{
	bool known = g->leaves || kh_leaves_has_issuer(worker->leaves);
	/* From the back: they come in order, and each time it is asked. */
	for (size_t i = g->config->n_tenants; known && g->leaves && i > 0; i--)
		known = g->leaves[i - 1] != NULL;
	return known || kh_err_set(err, KH_ERR_INTERNAL, "a CA is missing");
}
