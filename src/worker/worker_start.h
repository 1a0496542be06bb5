/* worker_start.h - a worker between its first message and its last thread's start */
#ifndef KEYHOLE_WORKER_WORKER_START_H
#define KEYHOLE_WORKER_WORKER_START_H

#include <keyhole/loop/worker.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/worker_exit.h>

struct kh_beginning {
	struct kh_worker *worker;
	int roots[KH_LIMIT_CHANNEL_FDS];
	unsigned n_roots;
	struct kh_buf resolv_conf, hosts;
	struct kh_journal_files journal_files;
	struct kh_journal_base journal_base;
	/* The segment that the journal continues from the line `before`; seq 0: none is to be
	 * joined. */
	struct kh_journal_files before_files;
	struct kh_journal_base before;
	struct kh_journal_past journal_past;
	bool journal_held; /* forward nothing until the journal is back in its place */
	pthread_t threads[KH_WORKER_THREADS_MOST];
	enum kh_worker_exit journal_exit; /* the status if the journal can't be continued */
	int written;		/* eventfd: the journal has grown since the last checkpoint */
	uint64_t checkpoint_ms; /* when the next one is due; 0: nothing was written */
	int done;		/* eventfd: how many event threads have returned */
};

void kh_worker_start_init(struct kh_beginning *b, struct kh_worker *worker);
/* Handles the start messages, up to GO. Return: false: *status is the exit status. */
bool kh_worker_start_take(struct kh_beginning *b, int *status);

/* Recovers the journal. Runs after the lock-in, since a worker that was taken over may have written
 * it. */
bool kh_worker_start_journal(struct kh_beginning *b, struct kh_err *err);

/* journal_talk.c. Return: false: the keeper's message is malformed, or the keeper can't be
 * reached. */
bool kh_journal_talk_head(struct kh_worker *w, struct kh_err *err);
bool kh_journal_talk_join(struct kh_worker *w, struct kh_channel_message *message,
			  struct kh_err *err);
bool kh_journal_talk_held(struct kh_worker *w, struct kh_slice body);
bool kh_journal_talk_cut(struct kh_worker *w, struct kh_slice body);
bool kh_journal_talk_checkpoint(struct kh_worker *w);
/* CHECKPOINT with that line. */
bool kh_journal_talk_line(struct kh_worker *w, const struct kh_checkpoint *line);
/* `written`: b->written is readable. Return: how long to wait; -1: for ever. */
int kh_journal_talk_turn(struct kh_beginning *b, bool written);

#endif
