/* fingerprints.c - the worker's list of fingerprints of real values: replaced whenever a value
 * changes */

#include <keyhole/loop/worker.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/wire.h>

bool kh_worker_take_fingerprints(struct kh_worker *worker, struct kh_channel_message *message,
				 struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_secret *lists[KH_LIMIT_CHANNEL_FDS];
	uint8_t count = kh_wire_u8(&r), n = 0;
	bool ok = count == message->n_fds && count <= KH_LIMIT_CHANNEL_FDS;

	kh_secret_prepare();
	for (; ok && n < count; n++) {
		uint32_t len = kh_wire_u32(&r);
		lists[n] =
			r.bad ? NULL : kh_secret_from_fd(kh_steal_fd(&message->fds[n]), len, err);
		ok = lists[n] != NULL;
		if (!ok)
			break;
	}
	if (!ok || !kh_wire_done(&r)) {
		while (n > 0)
			kh_secret_unref(lists[--n]);
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "fingerprints of credentials: not understood");
	}
	struct kh_fingerprints *fingerprints = kh_fingerprints_new(lists, count, err);
	if (!fingerprints)
		return false;
	pthread_mutex_lock(&worker->fingerprints_lock);
	struct kh_fingerprints *before = worker->fingerprints;
	worker->fingerprints = fingerprints;
	pthread_mutex_unlock(&worker->fingerprints_lock);
	kh_fingerprints_unref(before);
	return true;
}

struct kh_fingerprints *kh_worker_fingerprints(struct kh_worker *worker)
{
	pthread_mutex_lock(&worker->fingerprints_lock);
	struct kh_fingerprints *fingerprints =
		worker->fingerprints ? kh_fingerprints_ref(worker->fingerprints) : NULL;
	pthread_mutex_unlock(&worker->fingerprints_lock);
	return fingerprints;
}
