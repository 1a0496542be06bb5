/*
 * before.c - the segment before, whose end an earlier daemon may not have recorded
 *
 * After a handover the new daemon writes a `joined` record when the old one has ended. If all of it
 * is killed before that, the record is missing, though nobody did anything wrong. So a daemon that
 * starts on a segment looks for the file PATH.N that its first line names. Each worker records how
 * that segment ends, before it reads a byte of a sandbox, as after a handover. It does so also if
 * there is such a record already: a worker that was taken over could have written a false one, and
 * `keyhole audit verify` then finds two that differ.
 *
 * While another process still writes to PATH.N, nothing is recorded: the next start does it.
 */

#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/log.h>

#include "daemon_internal.h"

void kh_keeper_find_before(struct kh_keeper *k)
{
	struct kh_worker_process *w = &k->worker_process;
	const char *path = k->config->audit_path;
	struct kh_err err = KH_ERR_INIT;
	struct stat st;

	if (k->sockets.journal < 0 || !kh_journal_line_before(k->sockets.journal, &w->before_cut))
		return;
	kh_auto_free char *name = kh_segment_name(path, w->before_cut.seq);
	if (!name || lstat(name, &st) != 0)
		return;
	w->before = kh_journal_lock(path, name, &k->before_lock, &err);
	if (w->before < 0)
		kh_log_warn("the end of the journal's segment before can't be written before the "
			    "next start: %s",
			    err.text);
}

void kh_keeper_forget_before(struct kh_keeper *k)
{
	if (k->worker_process.before >= 0)
		(void)close(k->worker_process.before);
	k->worker_process.before = -1;
	kh_journal_unlock(k->config->audit_path, &k->before_lock);
}
