/*
 * pair.c - relays bytes between two sockets
 *
 * Bytes are read into a shared buffer and written to the other side at once: two system calls,
 * which matters where each call is expensive (gVisor). If the other side takes only a part, the
 * pair keeps that buffer, and reads nothing more until it is empty (back-pressure). There are
 * KH_LIMIT_INIT_RESTS such buffers. While all of them are in use, bytes are only peeked at
 * (MSG_PEEK), and just what the other side took is consumed: more calls, but no memory.
 *
 * The function `wanted` computes from the pair's state what a descriptor is watched for, and the
 * epoll set is updated when that changes: only when a side becomes full or empty again. A side that
 * is read is watched level-triggered, so an end after the last bytes is reported, even by a kernel
 * that reports no hang-up. A side that is not read is watched edge-triggered, so that its hang-up
 * is reported once and the loop does not spin.
 *
 * When one side ends its stream, the other side is shut down for writing, and the opposite
 * direction goes on. The peer of `up` can't distinguish that from the end of this process, so it
 * gets a notice before.
 */
#include "pair.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <keyhole/base/limits.h>

enum { CHUNKS_A_TURN = 8 }; /* of one direction, then others have their turn */
enum { DOWN = INIT_DOWN, UP = INIT_UP };

struct init_rest {
	struct init_rest *next; /* in the free list */
	size_t at, len;
	char bytes[KH_LIMIT_INIT_RELAY_BYTES];
};

/* The one that was given back last is taken first, so few of their pages are ever touched. */
static struct init_rest rests[KH_LIMIT_INIT_RESTS], *free_rests;
static size_t n_used;
static unsigned long moved; /* bytes */
static char scratch[KH_LIMIT_INIT_RELAY_BYTES];

static struct init_rest *take_rest(void)
{
	struct init_rest *rest = free_rests;
	if (rest)
		free_rests = rest->next;
	else if (n_used < KH_LIMIT_INIT_RESTS)
		rest = &rests[n_used++];
	return rest;
}

static void give_back(struct init_rest *rest)
{
	if (!rest)
		return;
	rest->next = free_rests;
	free_rests = rest;
}

/* ---- what is waited for ---- */

static uint32_t wanted(const struct init_pair *pair, int which)
{
	const struct init_side *side = &pair->side[which], *other = &pair->side[!which];
	uint32_t room = side->full ? EPOLLOUT : 0;
	bool is_read = !side->held && !side->ended && !other->full;
	return room | (is_read ? EPOLLIN : EPOLLET);
}

bool init_pair_watch(struct init_pair *pair, int which,
		     void (*ready)(struct init_watch *watch, uint32_t events), void *owner)
{
	struct init_side *side = &pair->side[which];
	side->watch = (struct init_watch){ ready, owner };
	side->watched = wanted(pair, which);
	return init_watch_add(side->fd, &side->watch, side->watched);
}

bool init_pair_watch_anew(struct init_pair *pair)
{
	for (int which = DOWN; which <= UP; which++) {
		struct init_side *side = &pair->side[which];
		uint32_t events = wanted(pair, which);
		if (events == side->watched)
			continue;
		side->watched = events;
		if (!init_watch_change(side->fd, &side->watch, events))
			return false;
	}
	return true;
}

/* ---- what is carried ---- */

enum step { WAIT, MORE, DOWN_BROKE, UP_BROKE };

static enum step broke(int where)
{
	return where == UP ? UP_BROKE : DOWN_BROKE;
}

bool init_pair_drop(int fd, size_t len)
{
	while (len > 0) {
		ssize_t n = recv(fd, scratch, len < sizeof(scratch) ? len : sizeof(scratch), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		len -= (size_t)n;
	}
	return true;
}

/* Who is spoken to answered early and went: its answer is still delivered. A server inside that
 * leaves something unread resets. */
static bool has_heard_enough(const struct init_pair *pair, int from, int why)
{
	return (why == EPIPE && (from == DOWN || pair->either_may_go)) ||
	       (why == ECONNRESET && from == UP && pair->either_may_go);
}

/* Gives bytes to the other side; *taken of them are done with. */
static enum step give(struct init_pair *pair, int from, const char *bytes, size_t len,
		      size_t *taken)
{
	struct init_side *out = &pair->side[!from];
	ssize_t put = send(out->fd, bytes, len, MSG_NOSIGNAL);
	while (put < 0 && errno == EINTR)
		put = send(out->fd, bytes, len, MSG_NOSIGNAL);
	*taken = put > 0 ? (size_t)put : 0;
	moved += *taken;
	if (put < 0 && errno != EAGAIN) {
		int why = errno;
		if (!has_heard_enough(pair, from, why))
			return broke(!from);
		out->deaf = true;
		/* It is told once: what is read there afterwards ends as if nothing were amiss. */
		if (from == UP && why == ECONNRESET)
			pair->cut = true;
		*taken = len;
	}
	out->full = *taken < len;
	return out->full ? WAIT : MORE;
}

/* What is left of an earlier chunk. */
static enum step go_on(struct init_pair *pair, int from)
{
	struct init_side *in = &pair->side[from];
	struct init_rest *rest = in->rest;
	size_t taken = 0;
	enum step step = give(pair, from, rest->bytes + rest->at, rest->len, &taken);
	rest->at += taken;
	rest->len -= taken;
	if (rest->len == 0) {
		in->rest = NULL;
		give_back(rest);
	}
	return step;
}

static enum step end_half(struct init_pair *pair, int from)
{
	struct init_side *out = &pair->side[!from];
	pair->side[from].ended = true;
	if (from == DOWN && !out->deaf)
		init_pair_notify(pair);
	if (!out->deaf && shutdown(out->fd, SHUT_WR) != 0)
		out->deaf = true;
	return WAIT;
}

/* A chunk that was read into this buffer, or of which it is a copy (NULL). */
static enum step pass(struct init_pair *pair, int from, struct init_rest *rest, size_t len)
{
	struct init_side *in = &pair->side[from];
	size_t taken = 0;
	enum step step = give(pair, from, rest ? rest->bytes : scratch, len, &taken);
	if (!rest)
		return init_pair_drop(in->fd, taken) ? step : broke(from);
	if (step != WAIT) {
		give_back(rest);
		return step;
	}
	rest->at = taken;
	rest->len = len - taken;
	in->rest = rest;
	return WAIT;
}

/* One chunk from one side to the other. MORE: there may be more to do at once. */
static enum step chunk(struct init_pair *pair, int from)
{
	struct init_side *in = &pair->side[from], *out = &pair->side[!from];
	if (in->held || in->ended || out->full)
		return WAIT;
	if (in->rest)
		return go_on(pair, from);
	struct init_rest *rest = take_rest();
	bool in_place = !rest && !out->deaf;
	ssize_t got = recv(in->fd, rest ? rest->bytes : scratch, KH_LIMIT_INIT_RELAY_BYTES,
			   in_place ? MSG_PEEK : 0);
	if (got > 0 && !out->deaf) {
		enum step step = pass(pair, from, rest, (size_t)got);
		/* It is told again while there is something: no look that may be in vain. */
		return step == MORE && got < KH_LIMIT_INIT_RELAY_BYTES ? WAIT : step;
	}
	int why = errno;
	give_back(rest);
	if (got == 0)
		return end_half(pair, from);
	if (got > 0 || why == EINTR)
		return MORE;
	return why == EAGAIN ? WAIT : broke(from);
}

static enum step chunks(struct init_pair *pair, int from)
{
	enum step step = MORE;
	for (int i = 0; i < CHUNKS_A_TURN && step == MORE; i++)
		step = chunk(pair, from);
	return step;
}

/* All that `down` had sent has been given on by the time that it has ended. Who speaks to an `up`
 * that is gone is not cut off with the answer that is on its way, but where that does not matter.
 */
static bool is_over(const struct init_pair *pair)
{
	const struct init_side *down = &pair->side[DOWN], *up = &pair->side[UP];
	if (down->ended)
		return up->ended || down->deaf;
	return pair->either_may_go && up->ended && up->deaf;
}

enum init_pair_state init_pair_carry(struct init_pair *pair, int which, uint32_t events)
{
	struct init_side *side = &pair->side[which];
	enum step step = WAIT;
	if (side->full && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))) {
		side->full = false;
		step = chunks(pair, !which);
	}
	if (step <= MORE && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		step = chunks(pair, which);
	if (step == DOWN_BROKE)
		return INIT_PAIR_DOWN_BROKE;
	if (step == UP_BROKE)
		return INIT_PAIR_UP_BROKE;
	if (is_over(pair))
		return INIT_PAIR_OVER;
	return init_pair_watch_anew(pair) ? INIT_PAIR_GOES_ON : INIT_PAIR_UP_BROKE;
}

unsigned long init_pair_moved(void)
{
	return moved;
}

static void close_notice(struct init_pair *pair)
{
	if (pair->notice >= 0)
		close(pair->notice);
	pair->notice = -1;
}

void init_pair_notify(struct init_pair *pair)
{
	/* The first byte of a socket fits. Who is gone needs none. */
	if (pair->notice >= 0 && !pair->cut)
		(void)send(pair->notice, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	close_notice(pair);
}

void init_pair_close(struct init_pair *pair)
{
	close_notice(pair);
	for (int which = DOWN; which <= UP; which++) {
		struct init_side *side = &pair->side[which];
		if (side->fd >= 0 && side->watch.ready)
			init_watch_end(side->fd);
		if (side->fd >= 0)
			close(side->fd);
		side->fd = -1;
		give_back(side->rest);
		side->rest = NULL;
	}
}
