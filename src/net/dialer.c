/*
 * dialer.c - a TCP connection to the first address that answers
 *
 * Happy Eyeballs (RFC 8305 §5): the addresses are tried in their order, the next one 250 ms after
 * the last, or at once when the last has failed; the first established connection wins and the
 * others are closed. At most KH_LIMIT_DIAL_ATTEMPTS are in progress, and no more than are charged
 * for: the first is charged to whoever began the dial, each further one to an account. When no more
 * are possible the pace is slower, and the next address replaces the oldest attempt after that has
 * had the time for two SYNs.
 *
 * The guard checks the very bytes that go to connect(2), and again the peer address that the kernel
 * reports.
 */
#include <keyhole/net/dialer.h>

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/net/guard.h>

enum { NEXT_AFTER_MS = 250, FULL_NEXT_AFTER_MS = 500, GIVE_WAY_AFTER_MS = 1200 };

struct attempt {
	struct kh_dial *dial;
	struct event *event; /* NULL: not under way */
	int fd;
	size_t index;
	uint64_t begun_ms;
};

/* How much a failure says, in rising order: the most telling one is reported. */
enum telling {
	TELLS_NOTHING = 0,
	TELLS_PROHIBITED,
	TELLS_GAVE_WAY,
	TELLS_LOCAL,
	TELLS_UNREACHABLE,
	TELLS_REFUSED,
};

struct kh_dial {
	struct event_base *base;
	struct kh_addresses addresses;
	struct kh_cidr *allow;
	size_t n_allow;
	bool judges_place;
	struct kh_dial_geo geo;
	size_t next; /* the first address that was not tried yet */
	unsigned under_way;
	struct kh_charge further; /* descriptors: of all that are under way but one */
	struct attempt attempts[KH_LIMIT_ADDRESSES];
	struct event pace, deadline;
	uint32_t timeout_ms;
	kh_dial_cb *cb;
	void *arg;
	enum telling telling;
	struct kh_err err;
};

/* What is under way is what the account is charged for. Return: false: it may not be so many. */
static bool charge_for(struct kh_dial *dial, unsigned under_way)
{
	return kh_charge_resize(&dial->further, under_way > 1 ? under_way - 1 : 0);
}

static void attempt_close(struct attempt *attempt)
{
	if (attempt->event) {
		event_free(attempt->event);
		attempt->dial->under_way--;
	}
	attempt->event = NULL;
	if (attempt->fd >= 0)
		(void)close(attempt->fd);
	attempt->fd = -1;
}

static void attempt_end(struct attempt *attempt)
{
	attempt_close(attempt);
	(void)charge_for(attempt->dial, attempt->dial->under_way);
}

static void dial_free(struct kh_dial *dial)
{
	for (size_t i = 0; i < KH_LIMIT_ADDRESSES; i++)
		attempt_close(&dial->attempts[i]);
	kh_charge_release(&dial->further);
	event_del(&dial->pace);
	event_del(&dial->deadline);
	kh_geo_unref(dial->geo.db);
	free(dial->allow);
	free(dial);
}

void kh_dial_cancel(struct kh_dial *dial)
{
	if (dial)
		dial_free(dial);
}

/* ---- what went wrong ---- */

static void note(struct kh_dial *dial, enum telling telling, const struct kh_err *err)
{
	if (telling <= dial->telling)
		return;
	dial->telling = telling;
	dial->err = *err;
}

static void note_errno(struct kh_dial *dial, const struct kh_sockaddr *addr, int number)
{
	struct kh_err err = KH_ERR_INIT;
	char text[KH_SOCKADDR_TEXT_BYTES];
	kh_sockaddr_format(addr, text);
	switch (number) {
	case ECONNREFUSED:
	case ECONNRESET:
		kh_err_sys(&err, KH_ERR_CONNECT_REFUSED, number, "connect to %s", text);
		note(dial, TELLS_REFUSED, &err);
		return;
	case ETIMEDOUT:
		kh_err_sys(&err, KH_ERR_CONNECT_TIMEOUT, number, "connect to %s", text);
		note(dial, TELLS_UNREACHABLE, &err);
		return;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
	case EACCES:
	case EPERM: /* a firewall's answer */
	case EINVAL:
		kh_err_sys(&err, KH_ERR_UNREACHABLE, number, "connect to %s", text);
		note(dial, TELLS_UNREACHABLE, &err);
		return;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM: /* passes */
		kh_err_sys(&err, KH_ERR_NO_MEMORY, number, "connect to %s", text);
		note(dial, TELLS_LOCAL, &err);
		return;
	default:
		kh_err_sys(&err, KH_ERR_SYSTEM, number, "connect to %s", text);
		note(dial, TELLS_LOCAL, &err);
	}
}

static void note_prohibited(struct kh_dial *dial, const struct kh_sockaddr *addr,
			    const char *class_name)
{
	struct kh_err err = KH_ERR_INIT;
	char text[KH_SOCKADDR_TEXT_BYTES];
	kh_sockaddr_format(addr, text);
	kh_err_set(&err, KH_ERR_ADDRESS_PROHIBITED,
		   "%s is a %s address, to which no sandbox is connected (upstream.allow_addresses "
		   "opens ranges)",
		   text, class_name);
	note(dial, TELLS_PROHIBITED, &err);
}

static const char *guard(const struct kh_dial *dial, const struct kh_sockaddr *addr)
{
	return dial->addresses.pinned ? NULL : kh_guard_refuses(addr, dial->allow, dial->n_allow);
}

/* Is it where it may be? */
static bool may_lie_there(struct kh_dial *dial, const struct kh_sockaddr *addr)
{
	struct kh_err err = KH_ERR_INIT;
	if (!dial->judges_place || kh_geo_allows(dial->geo.db, &dial->geo.levels, addr, &err))
		return true;
	note(dial, TELLS_PROHIBITED, &err);
	return false;
}

/* ---- attempts ---- */

static void fail(struct kh_dial *dial)
{
	struct kh_err err = dial->err;
	kh_dial_cb *cb = dial->cb;
	void *arg = dial->arg;
	if (!err.code)
		kh_err_set(&err, KH_ERR_UNREACHABLE, "there is no address to connect to");
	dial_free(dial);
	cb(-1, NULL, &err, arg);
}

static bool same_address(const struct kh_sockaddr *a, const struct kh_sockaddr *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->v6.sin6_port == b->v6.sin6_port &&
	       memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
}

/* Connected to what was meant, and that may be talked to? */
static bool check_peer(struct kh_dial *dial, const struct attempt *attempt,
		       const struct kh_sockaddr *meant)
{
	struct kh_sockaddr peer = { .len = sizeof peer.v6 };
	if (getpeername(attempt->fd, &peer.any, &peer.len) < 0) {
		note_errno(dial, meant, errno);
		return false;
	}
	const char *class_name = guard(dial, &peer);
	if (class_name || !same_address(&peer, meant)) {
		note_prohibited(dial, &peer, class_name ? class_name : "different");
		return false;
	}
	return may_lie_there(dial, &peer);
}

static void succeed(struct kh_dial *dial, struct attempt *attempt)
{
	struct kh_sockaddr peer = dial->addresses.list[attempt->index];
	kh_dial_cb *cb = dial->cb;
	void *arg = dial->arg;
	int fd = kh_steal_fd(&attempt->fd);
	dial_free(dial);
	cb(fd, &peer, NULL, arg);
}

static void go_on(struct kh_dial *dial);

/* One attempt is over without a connection: the next one need not wait. */
static void lose(struct kh_dial *dial, struct attempt *attempt)
{
	attempt_end(attempt);
	go_on(dial);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct attempt *attempt = arg;
	struct kh_dial *dial = attempt->dial;
	const struct kh_sockaddr *addr = &dial->addresses.list[attempt->index];
	int number = 0;
	socklen_t len = sizeof number;
	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) < 0)
		number = errno;
	if (number != 0) {
		note_errno(dial, addr, number);
		lose(dial, attempt);
	} else if (!check_peer(dial, attempt, addr)) {
		lose(dial, attempt);
	} else {
		succeed(dial, attempt);
	}
}

/* No delay for small messages; and a sign of life where a model thinks for minutes, so that no NAT
 * forgets the connection, and a host that is gone is noticed. */
static bool dress(int fd)
{
	static const int on = 1, idle_s = 60, pause_s = 15, tries = 4;
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof pause_s);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
}

/* Return: it is under way. */
static bool attempt_begin(struct attempt *attempt)
{
	struct kh_dial *dial = attempt->dial;
	const struct kh_sockaddr *addr = &dial->addresses.list[attempt->index];
	const char *class_name = guard(dial, addr);
	if (class_name) {
		note_prohibited(dial, addr, class_name);
		return false;
	}
	if (!may_lie_there(dial, addr))
		return false;
	kh_auto_close int fd =
		socket(addr->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || !dress(fd) ||
	    (connect(fd, &addr->any, addr->len) < 0 && errno != EINPROGRESS)) {
		note_errno(dial, addr, errno);
		return false;
	}
	attempt->event = event_new(dial->base, fd, EV_WRITE, on_writable, attempt);
	if (!attempt->event || event_add(attempt->event, NULL) < 0) {
		if (attempt->event)
			event_free(attempt->event);
		attempt->event = NULL;
		note_errno(dial, addr, ENOMEM);
		return false;
	}
	dial->under_way++;
	attempt->begun_ms = kh_clock_mono_ms();
	attempt->fd = kh_steal_fd(&fd);
	return true;
}

static struct attempt *oldest_of(struct kh_dial *dial)
{
	struct attempt *attempt = dial->attempts;

	while (!attempt->event)
		attempt++;
	return attempt;
}

/* The oldest attempt's place is wanted for an address that was not tried yet. */
static void give_way(struct kh_dial *dial, struct attempt *oldest)
{
	struct kh_err err = KH_ERR_INIT;
	char text[KH_SOCKADDR_TEXT_BYTES];
	kh_sockaddr_format(&dial->addresses.list[oldest->index], text);
	kh_err_set(&err, KH_ERR_CONNECT_TIMEOUT,
		   "connect to %s: no answer before other addresses were tried", text);
	note(dial, TELLS_GAVE_WAY, &err);
	attempt_end(oldest);
}

static void set_pace(struct kh_dial *dial, bool full)
{
	struct timeval pace = { .tv_usec = (full ? FULL_NEXT_AFTER_MS : NEXT_AFTER_MS) * 1000 };

	if (dial->next < dial->addresses.count)
		event_add(&dial->pace, &pace);
}

/* A place for one more, which is charged for. Return: false: it has to wait for one. */
static bool make_place(struct kh_dial *dial)
{
	if (dial->under_way < KH_LIMIT_DIAL_ATTEMPTS && charge_for(dial, dial->under_way + 1))
		return true;
	struct attempt *oldest = oldest_of(dial);
	if (kh_clock_mono_ms() - oldest->begun_ms < GIVE_WAY_AFTER_MS)
		return false;
	give_way(dial, oldest);
	return charge_for(dial, dial->under_way + 1);
}

/* Begins the next attempt; with none left and none under way it is over. */
static void go_on(struct kh_dial *dial)
{
	event_del(&dial->pace);
	while (dial->next < dial->addresses.count) {
		if (!make_place(dial)) {
			set_pace(dial, true);
			return;
		}
		struct attempt *attempt = &dial->attempts[dial->next];
		attempt->index = dial->next++;
		if (attempt_begin(attempt)) {
			set_pace(dial, dial->under_way == KH_LIMIT_DIAL_ATTEMPTS);
			return;
		}
	}
	(void)charge_for(dial, dial->under_way);
	if (dial->under_way == 0)
		fail(dial);
}

void kh_dial_charge(struct kh_dial *dial, struct kh_account *account)
{
	struct kh_charge charge = { 0 };

	if (dial->further.account == account)
		return;
	(void)kh_charge_take(&charge, account, KH_RESOURCE_DESCRIPTORS, 0);
	while (dial->under_way > 1 && !kh_charge_resize(&charge, dial->under_way - 1))
		attempt_end(oldest_of(dial));
	kh_charge_move(&dial->further, &charge);
}

static void on_pace(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	go_on(arg);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct kh_dial *dial = arg;
	struct kh_err err = KH_ERR_INIT;
	char text[KH_SOCKADDR_TEXT_BYTES] = "";
	(void)fd;
	(void)what;
	for (size_t i = 0; i < dial->next; i++) {
		if (dial->attempts[i].fd >= 0)
			kh_sockaddr_format(&dial->addresses.list[i], text);
	}
	kh_err_set(&err, KH_ERR_CONNECT_TIMEOUT, "connect to %s: no answer within %u ms", text,
		   dial->timeout_ms);
	if (dial->telling < TELLS_UNREACHABLE)
		dial->err = err;
	fail(dial);
}

struct kh_dial *kh_dial_start(struct event_base *base, const struct kh_addresses *addresses,
			      const struct kh_cidr *allow, size_t n_allow,
			      const struct kh_dial_geo *geo, uint32_t timeout_ms, kh_dial_cb *cb,
			      void *arg)
{
	struct timeval now = { 0 };
	struct timeval deadline = { .tv_sec = timeout_ms / 1000,
				    .tv_usec = (timeout_ms % 1000) * 1000 };
	struct kh_dial *dial = calloc(1, sizeof *dial);
	if (!dial)
		return NULL;
	dial->base = base;
	dial->addresses = *addresses;
	dial->timeout_ms = timeout_ms;
	dial->cb = cb;
	dial->arg = arg;
	for (size_t i = 0; i < KH_LIMIT_ADDRESSES; i++)
		dial->attempts[i] = (struct attempt){ .dial = dial, .fd = -1 };
	event_assign(&dial->pace, base, -1, 0, on_pace, dial);
	event_assign(&dial->deadline, base, -1, 0, on_deadline, dial);
	/* A reload may take the configuration's list away meanwhile. */
	dial->allow = n_allow ? malloc(n_allow * sizeof *allow) : NULL;
	if ((n_allow && !dial->allow) || event_add(&dial->deadline, &deadline) < 0 ||
	    event_add(&dial->pace, &now) < 0) {
		dial_free(dial);
		return NULL;
	}
	if (n_allow)
		memcpy(dial->allow, allow, n_allow * sizeof *allow);
	dial->n_allow = n_allow;
	if (geo) {
		dial->judges_place = true;
		dial->geo = (struct kh_dial_geo){ kh_geo_ref(geo->db), geo->levels };
	}
	return dial;
}
