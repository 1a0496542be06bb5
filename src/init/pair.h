/* pair.h - two sockets, and the bytes between them (pair.c) */
#ifndef KEYHOLE_INIT_PAIR_H
#define KEYHOLE_INIT_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "init_internal.h"

enum { INIT_DOWN, INIT_UP }; /* the agent's side, the proxy's side */

struct init_rest;

struct init_side {
	int fd;
	bool held;  /* nothing of what it sends is carried yet */
	bool ended; /* it sends no more, and the other side was told */
	bool deaf;  /* it takes no more: what is meant for it is dropped */
	bool full;  /* it takes nothing now */
	/* What was read here and the other side did not take, which is full then. NULL: nothing. */
	struct init_rest *rest;
	uint32_t watched; /* what the epoll set was asked to tell */
	struct init_watch watch;
};

struct init_pair {
	struct init_side side[2];
	bool either_may_go; /* not only `up` may answer early and go; and who goes on sending to
				who has gone is told so */
	int notice;	    /* gets a byte when `down` has ended (KH_INIT_PUBLISHED); -1: none */
	bool cut;	    /* an end of `down` is not its own: there is no notice of it */
};

enum init_pair_state {
	INIT_PAIR_GOES_ON,
	INIT_PAIR_OVER, /* both sides have ended, or one has and takes no more either */
	INIT_PAIR_DOWN_BROKE,
	INIT_PAIR_UP_BROKE,
};

/* Watches this side, as far as there is something to wait for. Return: false with errno. */
bool init_pair_watch(struct init_pair *pair, int which,
		     void (*ready)(struct init_watch *watch, uint32_t events), void *owner);
/* Carries what these events of this side allow, a turn's share at most. */
enum init_pair_state init_pair_carry(struct init_pair *pair, int which, uint32_t events);
/* After `held` or `full` was changed. Return: false with errno. */
bool init_pair_watch_anew(struct init_pair *pair);
/* Takes so many bytes that were looked at (MSG_PEEK). Return: false where they are not there. */
bool init_pair_drop(int fd, size_t len);
/* Something else than the last time: bytes of any pair have been carried since. */
unsigned long init_pair_moved(void);
/* Sends the notice, where there is a socket for it and nothing was cut off. Once. */
void init_pair_notify(struct init_pair *pair);
/* Closes both, and `notice`; what was not taken yet is lost. */
void init_pair_close(struct init_pair *pair);

#endif
