/*
 * relay.c - each connection to 127.0.0.1:3128 becomes one to the Unix socket, byte for byte; one
 * that was captured (capture.c) is asked for with a CONNECT first
 *
 * Memory is fixed: a table of KH_LIMIT_INIT_CONNECTIONS connections without a buffer of their own.
 * Bytes are looked at where they lie in the kernel (MSG_PEEK), given to the other side, and only
 * what it took is taken: what it didn't take stays in the socket, and the sender feels the
 * back-pressure. A half that ends is ended on the other side, and the other direction goes on.
 *
 * The descriptors are watched edge-triggered, both ways, once. What an edge said is kept in
 * `readable` and `writable` until the kernel says EAGAIN, so nothing is ever switched on and off,
 * and a hang-up beside a slow reader does not spin. A connection that has more to do than its share
 * of a turn stands in the ready list until the next.
 *
 *   FREE --accept--> CALLING --connect--> [ASKING --200-->] OPEN --both directions ended, or an
 *   error--> DEAD --> FREE
 *   FREE --published--> DIALING --connected--> OPEN
 *
 * ASKING is a captured connection's: the CONNECT has been sent, and the head of the answer is
 * taken as it comes (answer.c). What the client has sent meanwhile waits in the kernel. Any answer
 * but 200 is a reset: who speaks TLS could not read it.
 *
 * DIALING is a published one's: `up` is the launcher's, `down` on its way to the server inside, on
 * 127.0.0.1 first, then on ::1. The kernel's patience with a server whose queue is full bounds it.
 *
 * CALLING lasts while the proxy's backlog is full (a Unix connect then says EAGAIN); nothing more
 * is accepted meanwhile, nor at the cap, nor for a moment when descriptors are short: who connects
 * waits in the kernel's queue. DEAD lasts to the end of the turn, since events of it may be in
 * hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/sockios.h>
#include <unistd.h>

#include <keyhole/limits.h>

#include "answer.h"
#include "init_internal.h"
#include "names.h"

enum { DOWN, UP };				  /* the agent's side, the proxy's side */
enum { LISTENERS = 2 * KH_LIMIT_INIT_PORTS + 1 }; /* each port in IPv4 and IPv6; the proxy's */

enum {
	CHUNKS_A_TURN = 8, /* of one direction, then others have their turn */
	ACCEPTS_A_TURN = 64,
	RETRY_MS = 5, /* a full backlog, no descriptors */
	/* Standard ones, epoll, signals, control, terminal, DNS; each listener. */
	SPARE_DESCRIPTORS = 32 + LISTENERS + KH_LIMIT_INIT_DNS_CONNECTIONS,
};

struct side {
	int fd;
	bool readable, writable;
	bool ended; /* it sends no more (and the other side was told) */
	bool deaf;  /* it takes no more: what is meant for it is dropped */
	struct init_watch watch;
};

struct connection {
	enum { FREE, CALLING, DIALING, ASKING, OPEN, DEAD } state;
	struct side side[2];
	bool queued, captured, published;
	struct init_target target; /* captured; published: the port, and where it is tried */
	struct init_answer answer;
	struct connection *next; /* in the free, the calling, the ready or the dead list */
	struct connection *next_dead;
};

struct list {
	struct connection *first, **last;
};

static struct connection table[KH_LIMIT_INIT_CONNECTIONS];
static char scratch[KH_LIMIT_INIT_RELAY_BYTES];
static struct connection *free_list, *dead_list;
static struct list ready = { NULL, &ready.first };
static struct connection *calling;
static bool short_of_descriptors;
static struct listener {
	int fd;
	bool ready, captured;
	struct init_watch watch;
} listeners[LISTENERS];
static size_t n_listeners, next_listener;
static struct sockaddr_un proxy;

static void enqueue(struct connection *c)
{
	if (c->queued)
		return;
	c->queued = true;
	c->next = NULL;
	*ready.last = c;
	ready.last = &c->next;
}

static void bury(struct connection *c)
{
	if (c->state == DEAD)
		return;
	c->state = DEAD;
	for (int i = 0; i < 2; i++) {
		if (c->side[i].fd >= 0)
			close(c->side[i].fd);
		c->side[i].fd = -1;
	}
	if (c->captured && c->target.place)
		init_names_release(c->target.place);
	short_of_descriptors = false;
	c->next_dead = dead_list;
	dead_list = c;
}

/* The proxy vanished in mid-stream: the agent must not take that for an end. A reset throws away
 * what still waits to be sent, so only where nothing does. */
static void reset_down(struct connection *c)
{
	int unsent = 0;
	bool nothing_waits =
		c->state != OPEN || /* nothing was sent yet; not every kernel can be asked */
		(ioctl(c->side[DOWN].fd, SIOCOUTQ, &unsent) == 0 && unsent == 0);
	if (nothing_waits) {
		struct linger abort = { .l_onoff = 1, .l_linger = 0 };
		setsockopt(c->side[DOWN].fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
	}
	bury(c);
}

static void broken(struct connection *c, int where)
{
	if (where == UP)
		reset_down(c);
	else
		bury(c);
}

/* Takes what was given on. It was there a moment ago and nobody else reads it. */
static bool consume(int fd, size_t len)
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

static void end_direction(struct connection *c, int from)
{
	c->side[from].ended = true;
	if (c->side[!from].deaf || shutdown(c->side[!from].fd, SHUT_WR) == 0)
		return;
	c->side[!from].deaf = true;
}

/* Who is spoken to answered early and went: its answer is still delivered. A server inside that
 * leaves something unread resets. */
static bool has_heard_enough(const struct connection *c, int from, int why)
{
	return (why == EPIPE && (from == DOWN || c->published)) ||
	       (why == ECONNRESET && from == UP && c->published);
}

/* One chunk from one side to the other. Return: there may be more to do at once. */
static bool carry(struct connection *c, int from)
{
	struct side *in = &c->side[from], *out = &c->side[!from];
	if (in->ended || !in->readable || !(out->writable || out->deaf))
		return false;
	ssize_t got = recv(in->fd, scratch, sizeof(scratch), out->deaf ? 0 : MSG_PEEK);
	if (got < 0) {
		if (errno == EAGAIN)
			in->readable = false;
		else if (errno != EINTR)
			broken(c, from);
		return errno == EINTR;
	}
	if (got == 0) {
		end_direction(c, from);
		return false;
	}
	if (out->deaf)
		return true;
	ssize_t put = send(out->fd, scratch, (size_t)got, MSG_NOSIGNAL);
	if (put < 0) {
		if (errno == EAGAIN)
			out->writable = false;
		else if (has_heard_enough(c, from, errno))
			out->deaf = true;
		else if (errno != EINTR)
			broken(c, !from);
		return errno == EINTR || out->deaf;
	}
	if (!consume(in->fd, (size_t)put)) {
		broken(c, from);
		return false;
	}
	/* It is read until there is nothing: an end that came with these bytes makes no edge of its
	 * own, and not every kernel tells of it beside them (gVisor's of 2022 knows no RDHUP). */
	return true;
}

static void work(struct connection *c)
{
	for (int from = DOWN; from <= UP; from++) {
		int chunks = 0;
		while (c->state == OPEN && chunks < CHUNKS_A_TURN && carry(c, from))
			chunks++;
		if (c->state != OPEN)
			return;
		if (chunks == CHUNKS_A_TURN)
			enqueue(c);
	}
	if (c->side[DOWN].ended && c->side[UP].ended)
		bury(c);
}

/* Until the kernel has no more: what is cut off is known by the end behind it. */
static void await_answer(struct connection *c)
{
	int up = c->side[UP].fd;
	while (c->state == ASKING) {
		ssize_t got = recv(up, scratch, KH_LIMIT_INIT_ANSWER_BYTES, MSG_PEEK);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		size_t used = 0;
		enum init_answered said = INIT_ANSWER_REFUSED;
		if (got > 0)
			said = init_answer_take(&c->answer, scratch, (size_t)got, &used);
		if (said == INIT_ANSWER_REFUSED || !consume(up, used))
			reset_down(c);
		else if (said == INIT_ANSWER_GOOD)
			c->state = OPEN;
	}
}

static bool ask(struct connection *c)
{
	size_t len = init_capture_head(&c->target, scratch, sizeof(scratch));
	/* The first bytes of a socket: they fit, or something is wrong with it. */
	return len > 0 && send(c->side[UP].fd, scratch, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static void side_ready(struct init_watch *watch, uint32_t events)
{
	struct connection *c = watch->owner;
	if (c->state == FREE || c->state == DEAD)
		return;
	struct side *side = watch == &c->side[DOWN].watch ? &c->side[DOWN] : &c->side[UP];
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		side->readable = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		side->writable = true;
	/* Nobody waits for the answer any more, or for the server. */
	bool lost = (events & (EPOLLHUP | EPOLLERR)) != 0;
	if (lost && ((c->state == ASKING && side == &c->side[DOWN]) ||
		     (c->state == DIALING && side == &c->side[UP])))
		bury(c);
	else
		enqueue(c);
}

static bool watch_side(struct connection *c, int which)
{
	struct side *side = &c->side[which];
	side->watch = (struct init_watch){ side_ready, c };
	return init_watch_add(side->fd, &side->watch, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

/* Return: false when the proxy's backlog is full and it is to be tried again. */
static bool call_proxy(struct connection *c)
{
	struct side *up = &c->side[UP];
	if (up->fd < 0)
		up->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (up->fd < 0)
		return false;
	if (connect(up->fd, (const struct sockaddr *)&proxy, sizeof(proxy)) != 0) {
		if (errno == EAGAIN || errno == EINTR)
			return false;
		reset_down(c);
		return true;
	}
	c->state = c->captured ? ASKING : OPEN;
	if ((c->captured && !ask(c)) || !watch_side(c, DOWN) || !watch_side(c, UP))
		reset_down(c);
	return true;
}

static void admit(int fd, bool captured)
{
	struct init_target target = { 0 };
	struct connection *c = free_list;
	free_list = c->next;
	*c = (struct connection){ .state = CALLING, .side = { { .fd = fd }, { .fd = -1 } } };
	if (captured && !init_capture_target(fd, &target)) {
		reset_down(c);
		return;
	}
	c->captured = captured;
	c->target = target;
	if (target.place)
		init_names_hold(target.place);
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!call_proxy(c))
		calling = c;
}

/* Who waits, beginning behind the one that was served last. NULL: nobody. */
static struct listener *waiting_listener(void)
{
	for (size_t i = 0; i < n_listeners; i++) {
		struct listener *l = &listeners[(next_listener + i) % n_listeners];
		if (l->ready) {
			next_listener = (size_t)(l - listeners) + 1;
			return l;
		}
	}
	return NULL;
}

/* Return: false where nobody listens inside. */
static bool dial(struct connection *c, bool is_v6)
{
	struct side *down = &c->side[DOWN];
	c->target.is_v6 = is_v6;
	*down = (struct side){ .fd = init_dial(c->target.port, is_v6) };
	if (down->fd >= 0)
		return watch_side(c, DOWN);
	return !is_v6 && dial(c, true);
}

static void await_server(struct connection *c)
{
	int down = c->side[DOWN].fd;
	enum init_dialled now = init_dial_look(down);
	if (now == INIT_DIAL_THERE)
		c->state = OPEN;
	if (now != INIT_DIAL_NOBODY)
		return;
	close(down);
	c->side[DOWN].fd = -1;
	if (c->target.is_v6 || !dial(c, true))
		bury(c);
}

void init_relay_publish(int fd, uint16_t port)
{
	struct connection *c = free_list;
	if (!c) {
		close(fd);
		return;
	}
	free_list = c->next;
	fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	*c = (struct connection){ .state = DIALING,
				  .published = true,
				  .target.port = port,
				  .side = { { .fd = -1 }, { .fd = fd } } };
	if (!dial(c, false) || !watch_side(c, UP))
		bury(c);
}

static void accept_some(void)
{
	struct listener *l;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		if (!free_list || calling || short_of_descriptors || !(l = waiting_listener()))
			return;
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			admit(fd, l->captured);
		else if (errno == EAGAIN)
			l->ready = false;
		else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			short_of_descriptors = true;
		/* Anything else is of that one connection (ECONNABORTED and kin). */
	}
}

static void listener_event(struct init_watch *watch, uint32_t events)
{
	(void)events;
	struct listener *l = watch->owner;
	l->ready = true;
}

/* One that still stands in the ready list keeps its place in it until that was gone through. */
static void release_dead(void)
{
	struct connection **at = &dead_list;
	while (*at) {
		struct connection *c = *at;
		if (c->queued) {
			at = &c->next_dead;
			continue;
		}
		*at = c->next_dead;
		c->state = FREE;
		c->next = free_list;
		free_list = c;
	}
}

int init_relay_turn(void)
{
	if (calling && call_proxy(calling))
		calling = NULL;
	/* Only those that stand there now: who comes back waits for the next turn. */
	struct connection *c = ready.first;
	ready.first = NULL;
	ready.last = &ready.first;
	while (c) {
		struct connection *next = c->next;
		c->queued = false;
		if (c->state == ASKING)
			await_answer(c);
		if (c->state == DIALING)
			await_server(c);
		if (c->state == OPEN)
			work(c);
		c = next;
	}
	release_dead();
	accept_some();
	release_dead();
	bool waits = calling || short_of_descriptors;
	/* Tried again after the pause, whether or not something ended meanwhile. */
	short_of_descriptors = false;
	if (ready.first || (free_list && !waits && waiting_listener()))
		return 0;
	return waits ? RETRY_MS : -1;
}

bool init_relay_pending(void)
{
	if (free_list && waiting_listener())
		return true;
	for (size_t i = 0; i < KH_LIMIT_INIT_CONNECTIONS; i++) {
		const struct connection *c = &table[i];
		if (c->state == CALLING || c->state == DIALING || c->state == ASKING ||
		    (c->state == OPEN && !c->side[DOWN].ended))
			return true;
	}
	return false;
}

void init_relay_start(const char *socket_path, unsigned long nofile)
{
	proxy.sun_family = AF_UNIX;
	size_t len = strlen(socket_path);
	if (len >= sizeof(proxy.sun_path))
		init_die("%s: too long for the path of a socket", socket_path);
	memcpy(proxy.sun_path, socket_path, len + 1);
	size_t most = nofile > SPARE_DESCRIPTORS + 2 ? (nofile - SPARE_DESCRIPTORS) / 2 : 1;
	if (most > KH_LIMIT_INIT_CONNECTIONS)
		most = KH_LIMIT_INIT_CONNECTIONS;
	for (size_t i = most; i > 0; i--) {
		table[i - 1].next = free_list;
		free_list = &table[i - 1];
	}
}

void init_relay_listen(int listener, bool captured)
{
	struct listener *l = &listeners[n_listeners++];
	*l = (struct listener){ .fd = listener, .captured = captured };
	l->watch = (struct init_watch){ listener_event, l };
	if (!init_watch_add(listener, &l->watch, EPOLLIN | EPOLLET))
		init_die("watching a listener: %s", strerror(errno));
}
