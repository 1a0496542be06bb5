/* worker_exit.h - what the keeper agrees on with the processes that it executes: worker and fetcher
 */
#ifndef KEYHOLE_BASE_WORKER_EXIT_H
#define KEYHOLE_BASE_WORKER_EXIT_H

/* The descriptor of the channel to the keeper. */
enum { KH_WORKER_CHANNEL_FD = 3 };

enum kh_worker_exit {
	KH_WORKER_EXIT_DRAINED = 0,
	KH_WORKER_EXIT_USAGE = 2,   /* not started by a keeper */
	KH_WORKER_EXIT_START = 3,   /* it can't start, and a restart would most likely fail too */
	KH_WORKER_EXIT_ORPHAN = 4,  /* the keeper has ended, or sent a malformed message */
	KH_WORKER_EXIT_JOURNAL = 6, /* the journal can't be continued */
	KH_WORKER_EXIT_SPOILED = 7, /* nor can any later worker continue it: its chain is broken, or
				       its last line has no valid hash or an impossible number */
	KH_WORKER_EXIT_TOO_LONG = 8, /* it is too long to be followed; its end is closed */
	KH_WORKER_EXIT_NO_ROOM = 9, /* the disk is full: what it has to write first found no room */
	KH_WORKER_EXIT_NO_EXEC = 5, /* the binary could not be executed */
};

#endif
