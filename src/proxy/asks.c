/* asks.c - leaves: event threads ask, the main thread takes the answers */

/*
 * An event thread notes under the lock that it asks, lets go of the lock, and sends. Nothing is
 * sent with the lock held: sending waits while the keeper's queue is full, the keeper may wait for
 * this process's main thread to take its answers, and the main thread takes the lock for each
 * answer.
 *
 * A thread makes its exchange or session wait first and asks then. So an answer that comes in
 * between finds it waiting; and one that was under way for another thread is told to every loop.
 */

#include "asks.h"

#include <stdlib.h>
#include <sys/random.h>

#include <keyhole/cleanup.h>
#include <keyhole/limits.h>
#include <keyhole/log.h>
#include <keyhole/wire.h>

enum { BUCKETS = 256 };

struct wanted_host {
	struct wanted_host *next;
	struct kh_host host;
};

struct kh_wanted_leaf {
	struct wanted_host *buckets[BUCKETS];
	size_t count;
	uint32_t seed; /* a sandbox chooses the names: it must not choose their buckets */
};

bool kh_asks_init(struct kh_worker *worker, struct kh_err *err)
{
	worker->wanted = calloc(1, sizeof(*worker->wanted));
	if (!worker->wanted ||
	    getrandom(&worker->wanted->seed, sizeof(worker->wanted->seed), 0) !=
		    (ssize_t)sizeof(worker->wanted->seed) ||
	    pthread_mutex_init(&worker->lock, NULL) != 0)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "worker: no memory");
	return true;
}

void kh_asks_fini(struct kh_worker *worker)
{
	for (size_t i = 0; worker->wanted && i < BUCKETS; i++) {
		while (worker->wanted->buckets[i]) {
			struct wanted_host *gone = worker->wanted->buckets[i];
			worker->wanted->buckets[i] = gone->next;
			free(gone);
		}
	}
	free(worker->wanted);
	worker->wanted = NULL;
}

/* FNV-1a. */
static struct wanted_host **bucket_of(struct kh_wanted_leaf *wanted, const struct kh_host *host)
{
	uint32_t hash = 2166136261U ^ wanted->seed;
	for (size_t i = 0; i < host->len; i++)
		hash = (hash ^ (unsigned char)host->text[i]) * 16777619U;
	return &wanted->buckets[(hash ^ hash >> 16) % BUCKETS];
}

/* Where the pointer to it stands; the end of the chain when it is not there. */
static struct wanted_host **find(struct kh_wanted_leaf *wanted, const struct kh_host *host)
{
	struct wanted_host **at = bucket_of(wanted, host);
	while (*at && !kh_host_eq(&(*at)->host, host))
		at = &(*at)->next;
	return at;
}

static void forget(struct kh_worker *worker, const struct kh_host *host)
{
	pthread_mutex_lock(&worker->lock);
	struct wanted_host **at = find(worker->wanted, host), *gone = *at;
	if (gone) {
		*at = gone->next;
		worker->wanted->count--;
	}
	pthread_mutex_unlock(&worker->lock);
	free(gone);
}

enum noted { NOTED_NEW = 1, NOTED_ALREADY, NOTED_FULL };

static enum noted note(struct kh_worker *worker, const struct kh_host *host)
{
	enum noted result = NOTED_FULL;
	pthread_mutex_lock(&worker->lock);
	struct wanted_host **at = find(worker->wanted, host);
	if (*at) {
		result = NOTED_ALREADY;
	} else if (worker->wanted->count < KH_LIMIT_LEAVES_WANTED) {
		*at = calloc(1, sizeof(**at));
		if (*at) {
			(*at)->host = *host;
			worker->wanted->count++;
			result = NOTED_NEW;
		}
	}
	pthread_mutex_unlock(&worker->lock);
	return result;
}

bool kh_worker_want_leaf(struct kh_worker *worker, const struct kh_host *host)
{
	enum noted noted = note(worker, host);
	if (noted != NOTED_NEW)
		return noted == NOTED_ALREADY;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	struct kh_err err = KH_ERR_INIT;
	if (kh_wire_put_str(&body, host->text) &&
	    kh_channel_send(&worker->channel, KH_CHANNEL_LEAF_WANT, 0, kh_buf_view(&body), NULL, 0,
			    &err))
		return true;
	kh_log_warn("asking for a leaf: %s", err.text);
	forget(worker, host);
	return false;
}

bool kh_asks_leaf_came(struct kh_worker *worker, struct kh_slice body)
{
	struct kh_wire_reader r = { .rest = body };
	kh_auto_free char *name = kh_wire_str(&r);
	struct kh_slice der = kh_wire_bytes(&r);
	struct kh_host host;
	if (!kh_wire_done(&r) || !name || !kh_host_parse(&host, kh_slice_str(name), NULL))
		return false;

	struct kh_err err = KH_ERR_INIT;
	bool found = der.len > 0 && kh_leaves_put(worker->leaves, &host, der, &err);
	if (der.len > 0 && !found)
		kh_log_error("leaf for %s: %s", host.text, err.text);
	/* In the cache first: who asks from now on finds it there, or asks anew. */
	forget(worker, &host);
	for (unsigned i = 0; i < worker->n_loops; i++)
		kh_loop_post_leaf(worker->loops[i], &host, found);
	return true;
}

bool kh_asks_issuer_came(struct kh_worker *worker, struct kh_slice body, struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = body };
	struct kh_slice der = kh_wire_bytes(&r), trusted = kh_wire_bytes(&r);

	if (!kh_wire_done(&r))
		return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
	/* Who asks what to trust meanwhile gets no less than what is shown. */
	return kh_leaves_set_trusted(worker->leaves, trusted, err) &&
	       kh_leaves_set_issuer(worker->leaves, der, err);
}
