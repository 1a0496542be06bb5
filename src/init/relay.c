/*
 * relay.c - takes connections on 127.0.0.1:3128, and passes their bytes to the proxy's Unix socket
 * and back; on a captured one (capture.c) it sends a CONNECT first
 *
 * Memory is fixed: a table of KH_LIMIT_INIT_CONNECTIONS connections. pair.c relays the bytes of a
 * connection.
 *
 *   FREE --accept--> CALLING --connect--> [ASKING --200-->] OPEN --both directions ended, or an
 *   error--> DEAD --> FREE
 *   FREE --published--> DIALING --connected--> OPEN
 *
 * ASKING is for captured connections: the CONNECT has been sent, and the head of the answer is
 * parsed as it comes (answer.c). Bytes from the client wait in the kernel meanwhile. After any
 * answer except 200 the client is reset, since a TLS client could not read it.
 *
 * DIALING is for published ports: `up` comes from the launcher, and `down` is connecting to the
 * server inside, on 127.0.0.1 first, then on ::1. The kernel's timeout bounds it, if the server's
 * queue is full. The launcher treats the end of `up` as the server's end only if it got a notice
 * (KH_INIT_PUBLISHED): if the connection ends otherwise, or this process ends, the client is reset.
 *
 * CALLING lasts while the proxy's backlog is full (a connect to a Unix socket then fails with
 * EAGAIN), or until the uplink has answered (uplink.c). No new connection is accepted meanwhile,
 * nor when the table is full, nor for a moment when descriptors run out; clients wait in the
 * kernel's queue. DEAD lasts until the end of the turn, since events for it may still be pending.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/sockios.h>
#include <unistd.h>

#include <keyhole/base/limits.h>

#include "answer.h"
#include "init_internal.h"
#include "names.h"
#include "pair.h"

enum { DOWN = INIT_DOWN, UP = INIT_UP };
/* Each port in IPv4 and IPv6; the proxy's, by its port and by its name. */
enum { LISTENERS = 2 * KH_LIMIT_INIT_PORTS + 2 };

enum {
	ACCEPTS_A_TURN = 64,
	RETRY_MS = 5, /* a full backlog, no descriptors */
	/* Standard ones, epoll, signals, control, terminal, DNS; each listener. */
	SPARE_DESCRIPTORS = 32 + LISTENERS + KH_LIMIT_INIT_DNS_CONNECTIONS,
};

struct connection {
	enum { FREE, CALLING, DIALING, ASKING, OPEN, DEAD } state;
	struct init_pair pair;
	bool captured;
	struct init_target target; /* captured; published: the port, and where it is tried */
	struct init_answer answer;
	struct connection *next; /* in the free or the dead list */
};

static struct connection table[KH_LIMIT_INIT_CONNECTIONS];
static struct connection *free_list, *dead_list;
static struct connection *calling;
static bool call_again; /* after a pause, not when it is told */
static bool short_of_descriptors;
static bool servers_end; /* they are killed */
static struct listener {
	int fd;
	bool ready, captured;
	struct init_watch watch;
} listeners[LISTENERS];
static size_t n_listeners, next_listener;
static struct sockaddr_un proxy;

static void free_later(struct connection *c)
{
	if (c->state == DEAD)
		return;
	c->state = DEAD;
	init_pair_close(&c->pair);
	if (c->captured && c->target.place)
		init_names_release(c->target.place);
	short_of_descriptors = false;
	c->next = dead_list;
	dead_list = c;
}

static bool nothing_waits(int fd)
{
	int unsent = 0, least = 1;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	if (ioctl(fd, SIOCOUTQ, &unsent) == 0)
		return unsent == 0;
	/* gVisor's kernel tells no more than whether there is room: where that is so in the
	 * smallest buffer, it is a few kilobytes at most, and they are on their way but where the
	 * agent's own buffer is full. */
	return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)) == 0 &&
	       poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/* The proxy vanished in mid-stream: the agent must not take that for an end. A reset throws away
 * what still waits to be sent, so only where nothing does. */
static void reset_down(struct connection *c)
{
	int fd = c->pair.side[DOWN].fd;
	if (c->state != OPEN || nothing_waits(fd)) {
		struct linger abort = { .l_onoff = 1, .l_linger = 0 };
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
	}
	free_later(c);
}

/* Return: false with errno. */
static bool open_up(struct connection *c)
{
	c->state = OPEN;
	c->pair.side[DOWN].held = c->pair.side[DOWN].full = false;
	return init_pair_watch_anew(&c->pair);
}

static void carry(struct connection *c, int which, uint32_t events)
{
	switch (init_pair_carry(&c->pair, which, events)) {
	case INIT_PAIR_GOES_ON:
		break;
	case INIT_PAIR_UP_BROKE:
		reset_down(c);
		break;
	case INIT_PAIR_OVER:
	case INIT_PAIR_DOWN_BROKE:
		free_later(c);
		break;
	}
}

/* Until the kernel has no more: what is cut off is known by the end behind it. */
static void await_answer(struct connection *c)
{
	static char head[KH_LIMIT_INIT_ANSWER_BYTES];
	int up = c->pair.side[UP].fd;
	while (c->state == ASKING) {
		ssize_t got = recv(up, head, sizeof(head), MSG_PEEK);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		size_t used = 0;
		enum init_answered said = INIT_ANSWER_REFUSED;
		if (got > 0)
			said = init_answer_take(&c->answer, head, (size_t)got, &used);
		if (said == INIT_ANSWER_REFUSED || !init_pair_drop(up, used) ||
		    (said == INIT_ANSWER_GOOD && !open_up(c)))
			reset_down(c);
	}
}

static bool ask(struct connection *c)
{
	char head[2 * INIT_DNS_NAME_BYTES + 64];
	size_t len = init_capture_head(&c->target, head, sizeof(head));
	/* The first bytes of a socket: they fit, or something is wrong with it. */
	return len > 0 && send(c->pair.side[UP].fd, head, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static void side_ready(struct init_watch *watch, uint32_t events);

static enum init_dialled dial(struct connection *c, bool is_v6)
{
	struct init_side *down = &c->pair.side[DOWN];
	if (down->fd >= 0) {
		init_watch_end(down->fd);
		close(down->fd);
	}
	c->target.is_v6 = is_v6;
	enum init_dialled now = init_dial(c->target.port, is_v6, &down->fd);
	if (now == INIT_DIAL_WAITS && !init_pair_watch(&c->pair, DOWN, side_ready, c))
		now = INIT_DIAL_FAILED;
	return now;
}

static void dialled(struct connection *c, enum init_dialled now)
{
	if (now == INIT_DIAL_NOBODY && !c->target.is_v6)
		now = dial(c, true);
	if (now == INIT_DIAL_WAITS || (now == INIT_DIAL_THERE && open_up(c)))
		return;
	/* Nobody has been cut off. */
	if (now == INIT_DIAL_NOBODY)
		init_pair_notify(&c->pair);
	free_later(c);
}

static void side_ready(struct init_watch *watch, uint32_t events)
{
	struct connection *c = watch->owner;
	int which = watch == &c->pair.side[DOWN].watch ? DOWN : UP;
	/* Nobody waits for the answer any more, or for the server. */
	bool lost = (events & (EPOLLHUP | EPOLLERR)) != 0;
	if (c->state == OPEN)
		carry(c, which, events);
	else if (c->state == ASKING && which == UP)
		await_answer(c);
	else if (c->state == DIALING && which == DOWN)
		dialled(c, init_dial_look(c->pair.side[DOWN].fd, c->target.is_v6));
	else if (c->state != FREE && c->state != DEAD && lost)
		free_later(c);
}

static bool watch_both(struct connection *c)
{
	return init_pair_watch(&c->pair, DOWN, side_ready, c) &&
	       init_pair_watch(&c->pair, UP, side_ready, c);
}

static enum init_linked connect_up(int *fd)
{
	if (init_uplink_present())
		return init_uplink_connect(fd);
	if (*fd < 0)
		*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return INIT_LINK_AGAIN;
	if (connect(*fd, (const struct sockaddr *)&proxy, sizeof(proxy)) == 0)
		return INIT_LINK_THERE;
	return errno == EAGAIN || errno == EINTR ? INIT_LINK_AGAIN : INIT_LINK_REFUSED;
}

/* Return: false when there is no answer yet: it is to be called again. */
static bool call_proxy(struct connection *c)
{
	enum init_linked now = connect_up(&c->pair.side[UP].fd);
	call_again = now == INIT_LINK_AGAIN;
	if (now == INIT_LINK_WAITS || now == INIT_LINK_AGAIN)
		return false;
	if (now == INIT_LINK_REFUSED) {
		reset_down(c);
		return true;
	}
	c->state = c->captured ? ASKING : OPEN;
	c->pair.side[DOWN].held = c->captured;
	if ((c->captured && !ask(c)) || !watch_both(c))
		reset_down(c);
	return true;
}

static void admit(int fd, bool captured)
{
	struct init_target target = { 0 };
	struct connection *c = free_list;
	free_list = c->next;
	*c = (struct connection){
		.state = CALLING, .pair = { .side = { { .fd = fd }, { .fd = -1 } }, .notice = -1 }
	};
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

void init_relay_publish(int fd, int notice, uint16_t port)
{
	struct connection *c = free_list;
	if (!c) {
		close(notice);
		close(fd);
		return;
	}
	free_list = c->next;
	fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	*c = (struct connection){ .state = DIALING,
				  .target.port = port,
				  .pair = { .side = { { .fd = -1, .held = true, .full = true },
						      { .fd = fd } },
					    .either_may_go = true,
					    .notice = notice,
					    .cut = servers_end } };
	if (init_pair_watch(&c->pair, UP, side_ready, c))
		dialled(c, dial(c, false));
	else
		free_later(c);
}

static bool awaits_end(const struct connection *c)
{
	return (c->state == DIALING || c->state == OPEN) && c->pair.notice >= 0 && !c->pair.cut;
}

bool init_relay_serves(void)
{
	for (size_t i = 0; i < KH_LIMIT_INIT_CONNECTIONS; i++)
		if (awaits_end(&table[i]))
			return true;
	return false;
}

void init_relay_cut(void)
{
	servers_end = true;
	for (size_t i = 0; i < KH_LIMIT_INIT_CONNECTIONS; i++)
		if (awaits_end(&table[i]))
			table[i].pair.cut = true;
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

static void release_dead(void)
{
	while (dead_list) {
		struct connection *c = dead_list;
		dead_list = c->next;
		c->state = FREE;
		c->next = free_list;
		free_list = c;
	}
}

int init_relay_turn(void)
{
	if (calling && call_proxy(calling))
		calling = NULL;
	release_dead();
	accept_some();
	release_dead();
	bool waits = (calling && call_again) || short_of_descriptors;
	/* Tried again after the pause, whether or not something ended meanwhile. */
	short_of_descriptors = false;
	if (free_list && !calling && !waits && waiting_listener())
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
		    (c->state == OPEN && !c->pair.side[DOWN].ended))
			return true;
	}
	return false;
}

/* Two descriptors each; a third for those that are published. */
static size_t most_connections(unsigned long nofile)
{
	size_t left = nofile > SPARE_DESCRIPTORS ? nofile - SPARE_DESCRIPTORS : 0;
	size_t most = left / 3;
	if (most > KH_LIMIT_PUBLISHED_CONNECTIONS)
		most = (left - KH_LIMIT_PUBLISHED_CONNECTIONS) / 2;
	if (most > KH_LIMIT_INIT_CONNECTIONS)
		return KH_LIMIT_INIT_CONNECTIONS;
	return most > 0 ? most : 1;
}

void init_relay_start(const char *socket_path, unsigned long nofile)
{
	proxy.sun_family = AF_UNIX;
	size_t len = strlen(socket_path);
	if (len >= sizeof(proxy.sun_path))
		init_die("%s: too long for the path of a socket", socket_path);
	memcpy(proxy.sun_path, socket_path, len + 1);
	size_t most = most_connections(nofile);
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
