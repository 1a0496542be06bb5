/*
 * numbers.c - are the journal's line numbers that a worker reports possible?
 *
 * A worker that was taken over can report any number, also one so high that its successors would
 * run out of numbers. So a number is compared with the file's size: it can't contain more lines
 * than fit. An impossible number is ignored, but the worker is not killed, since an honest worker
 * may have read it from a dishonest one's journal. The next worker then begins a new segment after
 * the last checkpoint, with valid numbers.
 *
 * The number of a file's first line is known before the first worker gets the file: from the
 * segment that this daemon began, or read from the file. So no worker can choose it.
 */

#include <sys/stat.h>

#include <keyhole/base/log.h>

#include "keeper_internal.h"

void kh_worker_process_read_base(struct kh_worker_process *worker_process)
{
	struct kh_journal_base first;

	if (worker_process->base_known)
		return;
	worker_process->base_known = true;
	worker_process->base_seq = worker_process->base.seq;
	/* Without a valid first line it is a file in which number 1 is due. */
	if (!worker_process->base_seq &&
	    kh_journal_first_line(worker_process->sockets->journal, &first))
		worker_process->base_seq = first.seq - 1;
}

bool kh_worker_process_can_be_at(const struct kh_worker_process *worker_process, uint64_t seq,
				 uint64_t end)
{
	struct stat st;

	if (fstat(worker_process->sockets->journal, &st) != 0 || st.st_size < 0 ||
	    end > (uint64_t)st.st_size)
		return false;
	return worker_process->base_known && seq <= KH_JOURNAL_SEQ_MOST &&
	       kh_journal_seq_fits(seq, worker_process->base_seq, end ? end : (uint64_t)st.st_size);
}

/* One that has just begun tells of the last line that holds where the file can't be continued. It
 * may be one before those that were told; what was told stays. */
static bool is_last_held(const struct kh_worker_process *worker_process,
			 const struct kh_checkpoint *line)
{
	return worker_process->serving_ms == 0 && line->seq > worker_process->base_seq &&
	       line->end > 0 && kh_worker_process_can_be_at(worker_process, line->seq, line->end) &&
	       kh_checkpoint_holds(worker_process->sockets->journal, line);
}

void kh_worker_process_note_line(struct kh_worker_process *worker_process,
				 const struct kh_checkpoint *line)
{
	struct kh_checkpoint *last = &worker_process->checkpoint;
	bool held = is_last_held(worker_process, line);

	if (held)
		worker_process->held = *line;
	if (line->seq > last->seq && line->end > last->end &&
	    kh_worker_process_can_be_at(worker_process, line->seq, line->end))
		*last = *line;
	else if (!held)
		kh_worker_process_doubt(worker_process, line->seq);
}

void kh_worker_process_doubt(struct kh_worker_process *worker_process, uint64_t seq)
{
	if (worker_process->doubted)
		return;
	worker_process->doubted = true;
	kh_log_error("worker %ld says that it has written line %llu of the journal, which can't "
		     "be (line %llu was the last that can): the next worker begins a new segment",
		     (long)worker_process->pid, (unsigned long long)seq,
		     (unsigned long long)worker_process->checkpoint.seq);
}
