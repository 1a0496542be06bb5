/*
 * between.c - repairs between two workers, since the first may have been taken over
 *
 * While a worker serves, it reports from time to time its last line of the journal and where that
 * ends (CHECKPOINT). Before the next worker starts, the keeper checks that this line ends there. If
 * it does not, if what follows can't be continued, or if line numbers are impossibly high, the file
 * is set aside under another name, and a new segment continues from the line of the checkpoint.
 * `keyhole audit verify` then reports that the line is missing in the file that was set aside, or
 * what is wrong after it.
 *
 * A worker that finds at its start that the chain is broken reports the last line that holds, and
 * ends: the new segment continues that line. What comes after it is left where it is.
 *
 * A daemon that has just started has no checkpoint, so its first worker follows the whole file. If
 * no line is known to hold, the new segment continues from the file's first line.
 *
 * If the disk is full, a worker can't write its first records, and ends. Nothing is known against
 * the file either: the next worker tries again.
 *
 * If there is too much to follow, nothing is known against the file. Then the worker closes what is
 * open in it, and the new segment continues from its last line.
 *
 * A listening socket is shared with the worker. If the worker has shut it down, the keeper listens
 * again; a Unix socket is then a new file.
 *
 * The worker can write anything into the ledger of limits, too. Afterwards no limit counts as used
 * by more than its amount.
 */

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/worker/worker.h>

#include "daemon_internal.h"

/* Workers in a row that ended before they were ready, until a new segment is begun. */
enum { UNREADY_MOST = 3 };

/* What is offered to another process, or by one, is not touched. */
static bool is_shared(const struct kh_keeper *k)
{
	return kh_handover_is_under_way(&k->handover) ||
	       kh_handover_new_is_pending(&k->handover_new);
}

const char *kh_keeper_busy(const struct kh_keeper *k)
{
	if (k->drain_ms && k->handover.state == KH_HANDOVER_OVER)
		return "another process has taken over (ask again, on a new connection)";
	if (k->drain_ms)
		return "the daemon drains";
	if (is_shared(k))
		return "a handover is under way";
	return NULL;
}

/* Which line a new segment continues: the last one up to which the worker found that the chain
 * holds; without that the last one that a worker spoke of; in the file of an earlier daemon, of
 * which nothing is known, its first one; else none. */
static struct kh_journal_base last_known(const struct kh_keeper *k)
{
	const struct kh_worker_process *w = &k->worker_process;
	const struct kh_checkpoint *told =
		k->journal_spoiled && w->held.end > 0 ? &w->held : &w->checkpoint;
	struct kh_journal_base line = { .seq = told->seq };
	if (line.seq)
		memcpy(line.hash, told->hash, sizeof(line.hash));
	else
		(void)kh_journal_first_line(k->sockets.journal, &line);
	return line;
}

/* The file gets its other name. */
static bool rename_segment(const struct kh_keeper *k, const struct kh_journal_base *base,
			   struct kh_err *err)
{
	const char *path = k->config->audit_path;
	return (base->ended && kh_segment_move(path, k->sockets.journal, base->seq, NULL)) ||
	       kh_segment_set_aside(path, k->sockets.journal, base->seq, err);
}

static void say_what_is_left(const struct kh_keeper *k)
{
	uint64_t end = k->worker_process.held.end;
	struct stat st;
	if (k->journal_spoiled && end > 0 && fstat(k->sockets.journal, &st) == 0 &&
	    (uint64_t)st.st_size > end)
		kh_log_error("journal %s: the last %llu bytes continue nothing, and are left in "
			     "the file that is set aside",
			     kh_esc_str(k->config->audit_path),
			     (unsigned long long)((uint64_t)st.st_size - end));
}

/* A new file at the journal's name that goes on from there: from the last line of one that has
 * `ended`, else from the last one that is known. */
static bool begin_segment(struct kh_keeper *k, bool ended, struct kh_err *err)
{
	const char *path = k->config->audit_path;
	struct kh_journal_base base;
	if (ended && kh_journal_last_line(k->sockets.journal, &base))
		base.ended = true;
	else
		base = last_known(k);
	say_what_is_left(k);
	base.set_aside = !base.ended;
	/* What the one before that has to say of its own is then said in the new one. */
	base.open = base.ended && k->worker_process.base.open;
	kh_auto_close int lock = -1;
	kh_auto_close int next = kh_segment_open(path, k->sockets.journal, &lock, err);
	if (next < 0 || !rename_segment(k, &base, err))
		return false;
	(void)close(k->sockets.journal);
	kh_journal_unlock(path, &k->sockets.journal_lock);
	k->sockets.journal = kh_steal_fd(&next);
	k->sockets.journal_lock = kh_steal_fd(&lock);
	k->worker_process.base = base;
	/* What that one continued is not ours any more: it is never called ok. */
	if (base.set_aside)
		kh_keeper_forget_before(k);
	/* It stands in no file that is written. */
	k->worker_process.checkpoint = (struct kh_checkpoint){ .seq = base.seq };
	memcpy(k->worker_process.checkpoint.hash, base.hash, sizeof(base.hash));
	k->worker_process.base_known = false;
	k->worker_process.since = 0;
	k->worker_process.doubted = false;
	k->unready = 0;
	kh_log(base.ended ? KH_LOG_WARN : KH_LOG_ERROR,
	       "journal %s: it goes on in a new file from line %llu", kh_esc_str(path),
	       (unsigned long long)base.seq);
	return true;
}

void kh_keeper_note_journal(struct kh_keeper *k, int status)
{
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !k->late;
	k->late = false;
	int exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	bool no_room = exit == KH_WORKER_EXIT_NO_ROOM;
	if (k->worker_process.serving_ms)
		k->unready = 0;
	else if (!killed && !no_room) /* else it says nothing about the journal */
		k->unready++;
	/* One that has served may have been taken over, and had followed it before: it would have
	 * the new file continue a line from before all that others wrote since. */
	bool told = !k->worker_process.serving_ms;
	k->journal_spoiled = exit == KH_WORKER_EXIT_SPOILED && told;
	k->journal_long = exit == KH_WORKER_EXIT_TOO_LONG && told;
	k->journal_bad = k->unready >= UNREADY_MOST || exit == KH_WORKER_EXIT_JOURNAL ||
			 (exit == KH_WORKER_EXIT_SPOILED && !told) ||
			 (exit == KH_WORKER_EXIT_TOO_LONG && !told);
}

/* A file that a journal's line begins is set aside where nobody can go on from its end; any other
 * file was named by mistake, and is left alone. */
bool kh_keeper_is_hopeless(const struct kh_keeper *k, int status)
{
	struct kh_journal_base line;
	if (k->has_served || !WIFEXITED(status))
		return false;
	switch (WEXITSTATUS(status)) {
	case KH_WORKER_EXIT_START:
	case KH_WORKER_EXIT_JOURNAL:
	case KH_WORKER_EXIT_NO_ROOM:
	case KH_WORKER_EXIT_NO_EXEC:
		return true;
	case KH_WORKER_EXIT_SPOILED:
		return !kh_journal_first_line(k->sockets.journal, &line);
	default:
		return false;
	}
}

/* At a handover the worker of another keeper counts in the same ledger. */
void kh_keeper_end_counting(struct kh_keeper *k)
{
	bool alone = k->handover.state == KH_HANDOVER_NONE &&
		     k->handover_new.state == KH_HANDOVER_NEW_NONE;
	kh_quota_slots_end_worker(k->quota_slots, k->worker_process.column, alone,
				  kh_clock_mono_ms());
}

static bool check_journal(struct kh_keeper *k, struct kh_err *err)
{
	bool known = k->worker_process.checkpoint.end > 0;
	bool holds =
		!known || kh_checkpoint_holds(k->sockets.journal, &k->worker_process.checkpoint);
	if (!holds)
		kh_log_error("journal %s: line %llu, which a worker wrote, is not there any more: "
			     "the file was changed",
			     kh_esc_str(k->config->audit_path),
			     (unsigned long long)k->worker_process.checkpoint.seq);
	/* A daemon that has just started does not judge a file of which it knows nothing, but for
	   an end from which no daemon could go on. */
	bool judged = known || k->worker_process.checkpoint.seq > 0 || k->has_served;
	bool good = holds && !(k->journal_bad && judged) && !k->journal_spoiled &&
		    !k->worker_process.doubted;
	if (good && !k->journal_long)
		return true;
	if (is_shared(k))
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				  "journal: a handover is under way");
	if (!begin_segment(k, good, err))
		return false;
	k->journal_bad = k->journal_spoiled = k->journal_long = false;
	return true;
}

/* After a handover the worker of the process before has them as well until it ends, and may have
 * been taken over: they are looked at every second. */
static bool revive(struct kh_keeper *k)
{
	enum { LOOK_MS = 1000 };
	bool any = kh_sockets_revive(&k->sockets);
	bool another = k->handover_new.state == KH_HANDOVER_NEW_OURS ||
		       k->handover_new.state == KH_HANDOVER_NEW_ENDING;
	if (another && !k->sockets.retry_ms)
		k->sockets.retry_ms = kh_clock_mono_ms() + LOOK_MS;
	return any;
}

bool kh_keeper_between_workers(struct kh_keeper *k, struct kh_err *err)
{
	if (!is_shared(k)) {
		(void)revive(k);
		kh_registry_revive(&k->dynamic_sandboxes);
	}
	return check_journal(k, err);
}

uint64_t kh_keeper_listeners_deadline(const struct kh_keeper *k)
{
	return !k->drain_ms && !is_shared(k) ? k->sockets.retry_ms : 0;
}

void kh_keeper_look_at_listeners(struct kh_keeper *k)
{
	uint64_t due = kh_keeper_listeners_deadline(k);
	if (due == 0 || kh_clock_mono_ms() < due)
		return;
	kh_registry_unblock(&k->dynamic_sandboxes);
	if (!revive(k))
		return;
	k->worker_process.generation++;
	kh_worker_process_reload(&k->worker_process);
}
