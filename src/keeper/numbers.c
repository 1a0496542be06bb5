/*
 * numbers.c - can a worker's journal be where it says?
 *
 * A worker that was taken over says any number, also one behind which its successors would run out
 * of them. So a number is held against the file: no more lines are in it than fit. What does not
 * fit is not taken, and kills nobody, since an honest worker may have it from one that was not.
 * The next worker then begins a new segment behind the last checkpoint, where all numbers fit.
 */

#include <sys/stat.h>

#include <keyhole/base/log.h>

#include "keeper_internal.h"

bool kh_worker_process_can_be_at(const struct kh_worker_process *worker_process, uint64_t seq,
				 uint64_t end)
{
	uint64_t base =
		worker_process->base.seq ? worker_process->base.seq : worker_process->first_seq;
	struct stat st;

	if (fstat(worker_process->sockets->journal, &st) != 0 || st.st_size < 0 ||
	    end > (uint64_t)st.st_size)
		return false;
	/* What the file of an earlier daemon continues is not known: the first number says it. */
	return base ? kh_journal_seq_fits(seq, base, end ? end : (uint64_t)st.st_size)
		    : seq <= KH_JOURNAL_SEQ_MOST;
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
