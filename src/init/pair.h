/* pair.h - relays bytes between two sockets (pair.c) */
#ifndef KEYHOLE_INIT_PAIR_H
#define KEYHOLE_INIT_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "init_internal.h"

enum { INIT_DOWN, INIT_UP }; /* the agent's side, the proxy's side */

struct init_rest;

struct init_side {
	int fd;
	bool held;  /* nothing that it sends is relayed yet */
	bool ended; /* it has ended its stream, and the other side was shut down */
	bool deaf;  /* it takes no more: bytes for it are dropped */
	bool full;  /* its socket buffer is full */
	/* Bytes that were read here and that the other side, which is full, has not taken. NULL:
	 * none. */
	struct init_rest *rest;
	uint32_t watched; /* the events in the epoll set */
	struct init_watch watch;
};

struct init_pair {
	struct init_side side[2];
	bool either_may_go; /* not only `up` may answer early and go; and who goes on sending to
				who has gone is told so */
	int notice; /* a socket that gets a byte when `down` has ended (KH_INIT_PUBLISHED); -1: none
		     */
	bool cut;   /* the end of `down` is not the server's own: send no notice */
};

enum init_pair_state {
	INIT_PAIR_GOES_ON,
	INIT_PAIR_OVER, /* both sides have ended, or one has ended and takes no more */
	INIT_PAIR_DOWN_BROKE,
	INIT_PAIR_UP_BROKE,
};

/* Adds this side to the epoll set, if there is something to wait for. Return: false with errno. */
bool init_pair_watch(struct init_pair *pair, int which,
		     void (*ready)(struct init_watch *watch, uint32_t events), void *owner);
/* Relays what these events of this side allow, at most a turn's share. */
enum init_pair_state init_pair_carry(struct init_pair *pair, int which, uint32_t events);
/* After `held` or `full` was changed. Return: false with errno. */
bool init_pair_watch_anew(struct init_pair *pair);
/* Consumes `len` bytes that were peeked at (MSG_PEEK). Return: false: there are fewer. */
bool init_pair_drop(int fd, size_t len);
/* A counter that changes when bytes of any pair are relayed. */
unsigned long init_pair_moved(void);
/* Sends the notice once, if there is a socket for it and nothing was cut off. */
void init_pair_notify(struct init_pair *pair);
/* Closes both sides and `notice`; bytes that were not taken are lost. */
void init_pair_close(struct init_pair *pair);

#endif
