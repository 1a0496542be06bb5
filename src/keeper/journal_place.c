/*
 * journal_place.c - does the journal's name still lead to the file that is written?
 *
 * Writes to a deleted or moved file still succeed, but nobody would find the records. A worker
 * can't check this, since it opens nothing by name. So the keeper checks twice a second, and the
 * worker forwards nothing until the file is back in its place.
 *
 * The keeper checks as long as its worker may write, also in a drain and after a handover. In a
 * handover the file gets a second name, PATH.N or the like (segment.c): the new process first links
 * it to that name, and then renames its own file to PATH. So the old file has at least one of the
 * two names at every moment.
 */
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>

#include "daemon_internal.h"

enum { LOOK_MS = 500 };

/* The one that it has, else the one that it should have. Without memory for it: NULL, and nobody
 * finds the file by that. */
static char *second_name(const struct kh_keeper *k)
{
	uint64_t cut = k->handover.cut.seq;
	char *name = kh_segment_find(k->config->audit_path, k->sockets.journal, cut);
	return name ? name : kh_segment_name(k->config->audit_path, cut);
}

static bool may_have_second_name(const struct kh_keeper *k)
{
	return k->handover.state >= KH_HANDOVER_MOVING;
}

static bool leads_to(const char *path, const struct stat *ours)
{
	struct stat there;

	return path && lstat(path, &there) == 0 && there.st_dev == ours->st_dev &&
	       there.st_ino == ours->st_ino;
}

static bool has_its_name(const struct kh_keeper *k)
{
	struct stat ours;

	if (fstat(k->sockets.journal, &ours) != 0)
		return false;
	if (leads_to(k->config->audit_path, &ours))
		return true;
	kh_auto_free char *name = may_have_second_name(k) ? second_name(k) : NULL;
	return leads_to(name, &ours);
}

static bool is_in_place(const struct kh_keeper *k)
{
	/* One that was cut has lost the line that the worker told of. */
	return has_its_name(k) &&
	       (k->worker_process.checkpoint.end == 0 ||
		kh_checkpoint_holds(k->sockets.journal, &k->worker_process.checkpoint));
}

static void say(const struct kh_keeper *k, bool gone)
{
	bool is_over = k->handover.state == KH_HANDOVER_OVER;
	kh_auto_free char *name = is_over ? second_name(k) : NULL;
	const char *path = kh_esc_str(name ? name : k->config->audit_path);

	if (gone)
		kh_log_error("journal %s: it was moved, deleted, replaced or cut, so nothing is "
			     "forwarded (move it back, or restart to begin a new one)",
			     path);
	else
		kh_log_warn("journal %s: it is back in its place", path);
}

/* Before a handover has opened our acceptors there is nothing to forward, and the name is the other
 * process's. */
static bool is_looked_at(const struct kh_keeper *k)
{
	return k->sockets.journal >= 0 && !kh_handover_new_is_pending(&k->handover_new);
}

/* Before a worker is started: the first thing that it hears of the journal. */
void kh_keeper_look_before_start(struct kh_keeper *k)
{
	k->worker_process.journal_held = is_looked_at(k) && !is_in_place(k);
}

uint64_t kh_keeper_journal_deadline(const struct kh_keeper *k)
{
	return is_looked_at(k) ? k->journal_look_ms : 0;
}

void kh_keeper_look_at_journal(struct kh_keeper *k)
{
	uint64_t now = kh_clock_mono_ms();

	if (now < k->journal_look_ms || !is_looked_at(k))
		return;
	k->journal_look_ms = now + LOOK_MS;
	bool gone = !is_in_place(k);
	/* A worker that has just started knows nothing of it. */
	kh_worker_process_hold_journal(&k->worker_process, gone);
	if (gone != k->journal_gone)
		say(k, gone);
	k->journal_gone = gone;
}

/* Each record that finds no room is cut off: said now and then, or the log is full as well. */
enum { CUT_SAID_MS = 10 * 1000 };
static uint64_t say_cut(const struct kh_keeper *k, uint64_t cut)
{
	kh_log_warn("journal %s: %llu bytes of a record that found no room were cut off",
		    kh_esc_str(k->config->audit_path), (unsigned long long)cut);
	return kh_clock_mono_ms();
}

/*
 * The worker has one descriptor, which appends, so it can't take back a part of a record for which
 * the disk had no room. The keeper can. It takes no word of the worker's: what goes is what follows
 * the last newline, if that is no record, and behind the last line that it was told of. The worker
 * waits for the answer, so nothing is written meanwhile; one that was taken over and writes all the
 * same can lose what it has just written, and nothing else.
 */
void kh_keeper_cut_journal(struct kh_keeper *k)
{
	uint64_t cut = 0, end = 0;
	struct kh_err err = KH_ERR_INIT;

	if (!k->worker_process.torn || k->worker_process.state == KH_WORKER_PROCESS_NONE ||
	    k->worker_process.state == KH_WORKER_PROCESS_CONDEMNED)
		return;
	/* The file of another process is not ours to cut: its end is as it is. */
	bool ours = !k->drain_ms && is_looked_at(k) && !kh_handover_is_under_way(&k->handover) &&
		    is_in_place(k);
	/* What stood there before this worker is not its to lose either. */
	uint64_t least = k->worker_process.checkpoint.end > k->worker_process.lent_at
				 ? k->worker_process.checkpoint.end
				 : k->worker_process.lent_at;
	if (!kh_journal_cut_torn(k->sockets.journal, ours ? least : UINT64_MAX, &cut, &end, &err))
		kh_log_error("journal %s: it can't be cut back: %s",
			     kh_esc_str(k->config->audit_path), err.text);
	else if (cut > 0 && kh_clock_mono_ms() >= k->cut_said_ms + CUT_SAID_MS)
		k->cut_said_ms = say_cut(k, cut);
	kh_worker_process_tell_journal_cut(&k->worker_process, end);
}
