/*
 * quota_state.c - stores how much of limits is used, for the next start
 *
 * The file is beside the journal (its name plus ".limits"). It is replaced as a whole, at most once
 * a second and only if something was taken, and at the end. Only the process that is the daemon
 * writes it; in a handover that changes when the new process becomes the daemon. A running daemon
 * never reads it.
 */

#include "daemon_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

enum {
	STATE_BYTES = 64 * 1024 * 1024, /* of KH_LIMIT_QUOTA_SLOTS limits */
	PAUSE_MS = 1000,
	/* Writing takes at most so much of the time, however slow the disk is. */
	PAUSE_TIMES = 20,
};

bool kh_quota_state_open(struct kh_keeper *k, struct kh_err *err)
{
	/* A daemon of one sandbox's life has nothing to keep. */
	if (k->options->one_run || !k->config->audit_path)
		return true;
	k->state_path = kh_strf("%s.limits", k->config->audit_path);
	return k->state_path || kh_err_set(err, KH_ERR_NO_MEMORY, "limits: no memory");
}

/* A copy, so that it can be looked at when the file has been replaced. The file stays until then:
 * if this start fails, the next one finds it damaged again. */
static void put_aside(const char *path, struct kh_slice bytes)
{
	kh_auto_free char *aside = kh_strf("%s.damaged", path);
	struct kh_err err = KH_ERR_INIT;
	if (aside && !kh_file_write(aside, bytes, 0600, &err))
		kh_log_error("%s: no copy can be kept: %s", kh_esc_str(path), err.text);
}

bool kh_quota_state_read(struct kh_keeper *k, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	struct kh_err why = KH_ERR_INIT;
	kh_buf_init(&bytes, STATE_BYTES);
	if (!k->state_path)
		return true;
	if (!kh_file_read_private(k->state_path, &bytes, &why)) {
		if (why.sys == ENOENT)
			return true;
		*err = why;
		return kh_err_wrap(err, "what is used of limits");
	}
	if (kh_quota_slots_read(k->quota_slots, kh_buf_view(&bytes), kh_clock_mono_ms(),
				kh_clock_wall_ms(), &why))
		return true;
	kh_log_error("what is used of limits (%s): %s: every limit of a period counts as used up, "
		     "and fills again from now on (to begin with full ones: stop, remove the file, "
		     "start)",
		     kh_esc_str(k->state_path), why.text);
	put_aside(k->state_path, kh_buf_view(&bytes));
	return true;
}

static void write_state(struct kh_keeper *k)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	struct kh_err err = KH_ERR_INIT;
	uint64_t began_ms = kh_clock_mono_ms();
	kh_buf_init(&bytes, STATE_BYTES);
	bool ok = kh_quota_slots_write(k->quota_slots, began_ms, kh_clock_wall_ms(), &bytes) ||
		  kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory");
	ok = ok && kh_file_write(k->state_path, kh_buf_view(&bytes), 0600, &err);
	if (!ok && !k->state_failed)
		kh_log_error("what is used of limits can't be written, and would be lost in a "
			     "restart: %s",
			     err.text);
	if (ok && k->state_failed)
		kh_log_warn("what is used of limits can be written again");
	k->state_failed = !ok;
	uint64_t now_ms = kh_clock_mono_ms(), pause = (now_ms - began_ms) * PAUSE_TIMES;
	k->state_due_ms = now_ms + (pause > PAUSE_MS ? pause : PAUSE_MS);
}

/* The daemon is this one. */
static bool is_ours(const struct kh_keeper *k)
{
	return k->state_path && k->quota_slots && k->handover.state < KH_HANDOVER_OPENING &&
	       !kh_handover_new_is_pending(&k->handover_new);
}

uint64_t kh_quota_state_deadline(const struct kh_keeper *k)
{
	return is_ours(k) && kh_quota_slots_has_buckets(k->quota_slots) ? k->state_due_ms : 0;
}

void kh_quota_state_turn(struct kh_keeper *k)
{
	uint64_t now_ms = kh_clock_mono_ms();
	if (!is_ours(k) || now_ms < k->state_due_ms || !kh_quota_slots_has_buckets(k->quota_slots))
		return;
	k->state_due_ms = now_ms + PAUSE_MS;
	if (kh_quota_slots_has_changed(k->quota_slots) || k->state_failed)
		write_state(k);
}

void kh_quota_state_end(struct kh_keeper *k)
{
	if (is_ours(k) && k->has_served &&
	    (kh_quota_slots_has_changed(k->quota_slots) || k->state_failed))
		write_state(k);
	free(k->state_path);
	k->state_path = NULL;
}
