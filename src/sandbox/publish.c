/*
 * publish.c - the process that listens on the host's loopback and hands connections to keyhole-init
 *
 * It is a process of its own, so that a download does not delay the launcher, which relays a
 * terminal. It ends with the launcher. Each side is read only as fast as the other takes it.
 *
 * A connection is over when the inside neither sends nor takes bytes any more. It is closed only
 * after all of the server's bytes have reached the client's kernel: closing a socket with unread
 * bytes sends a reset, and a reset discards bytes that are not sent yet.
 *
 * A client is reset unless its answer is known to be complete: keyhole-init has sent the notice of
 * the server's end (KH_INIT_PUBLISHED), and the client's kernel has all bytes. Until then any close
 * resets the client's socket, also the kernel's close when this process is killed. So a connection
 * that ends in any other way inside (keyhole-init gives up, or is killed) never looks like the end
 * of an answer.
 *
 * When the sandbox has ended, every connection has ended inside. The process ends when the clients
 * have taken their bytes, or have taken none for KH_LIMIT_PUBLISHED_END_MS. That time is counted in
 * turns of the loop, so a time in which this process does not run counts as one turn at most.
 */
#include "publish.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/sockios.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/rights.h>

enum { PILE_BYTES = 64 * 1024, LOOK_MS = 10 };
enum { CLIENT, INSIDE };

struct server {
	int control;
	struct event_base *base;
	struct event *look; /* again at those that leave */
	bool ending;	    /* the sandbox has ended */
	int looks;	    /* that are left then */
	unsigned connections;
	struct link *links;
	struct acceptor {
		struct server *server;
		struct evconnlistener *listener;
		uint16_t inside;
	} acceptors[KH_LIMIT_PUBLISHED_PORTS];
	size_t n_acceptors;
};

struct link {
	struct server *server;
	struct link *next, **at;
	struct bufferevent *side[2];
	int notice;    /* of the server's end */
	bool ended[2]; /* it sends no more */
	bool whole;    /* INSIDE has ended, and the server had: there was a notice */
	bool deaf;     /* nothing is taken inside any more: what the client sends is dropped */
	int looks;     /* that are left, where it leaves; 0: it does not */
};

/* ---- a connection ---- */

static void link_free(struct link *link)
{
	struct server *server = link->server;
	for (int i = 0; i < 2; i++)
		if (link->side[i])
			bufferevent_free(link->side[i]);
	close(link->notice);
	*link->at = link->next;
	if (link->next)
		link->next->at = link->at;
	if (server->connections-- == KH_LIMIT_PUBLISHED_CONNECTIONS && !server->ending)
		for (size_t i = 0; i < server->n_acceptors; i++)
			evconnlistener_enable(server->acceptors[i].listener);
	free(link);
	if (server->ending && !server->links)
		(void)event_base_loopbreak(server->base);
}

static int index_of(const struct link *link, const struct bufferevent *side)
{
	return side == link->side[INSIDE];
}

static bool is_written(const struct link *link, int to)
{
	return evbuffer_get_length(bufferevent_get_output(link->side[to])) == 0;
}

/* What closing it does: a reset, or an end after all that was written. */
static bool reset_on_close(int client, bool is_reset)
{
	const struct linger linger = { .l_onoff = is_reset, .l_linger = 0 };
	return setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0;
}

/* The client's kernel has all of it. */
static bool has_arrived(const struct link *link)
{
	int unsent = 0;
	return ioctl(bufferevent_getfd(link->side[CLIENT]), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

static void look_again(struct server *server)
{
	const struct timeval soon = { .tv_usec = LOOK_MS * 1000 };
	(void)event_add(server->look, &soon);
}

/* Hands on an end that has come, and ends what is over: the link may be gone then. */
static void settle(struct link *link)
{
	int client = bufferevent_getfd(link->side[CLIENT]);
	if (link->whole && is_written(link, CLIENT) && reset_on_close(client, false))
		(void)shutdown(client, SHUT_WR);
	if (link->ended[CLIENT] && is_written(link, INSIDE))
		(void)shutdown(bufferevent_getfd(link->side[INSIDE]), SHUT_WR);
	bool taken = link->deaf || link->server->ending ||
		     (link->ended[CLIENT] && is_written(link, INSIDE));
	if (!taken || !link->ended[INSIDE] || !is_written(link, CLIENT) || link->looks)
		return;
	/* Of a client that has ended nothing is unread: the kernel goes on by itself. A reset
	 * throws away what has not arrived. */
	if ((link->ended[CLIENT] && link->whole) || has_arrived(link)) {
		link_free(link);
		return;
	}
	link->looks = KH_LIMIT_PUBLISHED_END_MS / LOOK_MS;
	look_again(link->server);
}

static void look(evutil_socket_t fd, short what, void *owner)
{
	(void)fd;
	(void)what;
	struct server *server = owner;
	bool again = server->ending;
	if (server->ending && --server->looks == 0) {
		(void)event_base_loopbreak(server->base);
		return;
	}
	for (struct link *link = server->links, *next; link; link = next) {
		next = link->next;
		if (link->looks && (has_arrived(link) || --link->looks == 0))
			link_free(link);
		else
			again = again || link->looks;
	}
	if (again)
		look_again(server);
}

static void was_read(struct bufferevent *from, void *owner)
{
	struct link *link = owner;
	int to = !index_of(link, from);
	struct evbuffer *pile = bufferevent_get_output(link->side[to]);
	struct evbuffer *come = bufferevent_get_input(from);
	if (to == INSIDE && link->deaf) {
		(void)evbuffer_drain(come, evbuffer_get_length(come));
		return;
	}
	(void)evbuffer_add_buffer(pile, come);
	if (evbuffer_get_length(pile) >= PILE_BYTES)
		(void)bufferevent_disable(from, EV_READ);
}

static void was_written(struct bufferevent *to, void *owner)
{
	struct link *link = owner;
	int from = !index_of(link, to);
	if (!link->ended[from])
		(void)bufferevent_enable(link->side[from], EV_READ);
	settle(link);
}

/* What it had sent before is still the client's. */
static void become_deaf(struct link *link)
{
	struct evbuffer *pile = bufferevent_get_output(link->side[INSIDE]);
	link->deaf = true;
	(void)bufferevent_disable(link->side[INSIDE], EV_WRITE);
	(void)evbuffer_drain(pile, evbuffer_get_length(pile));
	if (!link->ended[CLIENT])
		(void)bufferevent_enable(link->side[CLIENT], EV_READ);
}

/* keyhole-init sends it before it ends the stream. */
static bool was_notified(const struct link *link)
{
	char byte;
	return recv(link->notice, &byte, 1, MSG_DONTWAIT) == 1;
}

static void has_ended(struct bufferevent *side, short what, void *owner)
{
	struct link *link = owner;
	int from = index_of(link, side);
	if (from == CLIENT && what != (BEV_EVENT_READING | BEV_EVENT_EOF)) {
		link_free(link);
		return;
	}
	if (what & BEV_EVENT_READING) {
		was_read(side, link);
		link->ended[from] = true;
		(void)bufferevent_disable(side, EV_READ);
		link->whole = link->whole || (from == INSIDE && was_notified(link));
	}
	/* Also a read that failed: it was closed with something unread. And without a notice it was
	 * not only shut. */
	if (from == INSIDE && !(link->whole && (what & BEV_EVENT_EOF)))
		become_deaf(link);
	settle(link);
}

/* ---- a client ---- */

enum { STREAM, NOTICE };

/* ours: KH_INIT_CLIENT_FDS descriptors, the caller's. Return: false where there are none. */
static bool hand_inside(const struct server *server, uint16_t port, int *ours)
{
	struct kh_init_message message = { .type = KH_INIT_PUBLISHED, .value = port };
	int theirs[KH_INIT_CLIENT_FDS];
	size_t n = 0;
	for (int pair[2]; n < KH_INIT_CLIENT_FDS; n++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
			break;
		ours[n] = pair[0];
		theirs[n] = pair[1];
	}
	bool sent =
		n == KH_INIT_CLIENT_FDS &&
		kh_rights_send(server->control, &message, sizeof(message), theirs, n, MSG_DONTWAIT);
	while (n-- > 0) {
		close(theirs[n]);
		if (!sent)
			close(ours[n]);
	}
	return sent;
}

static bool join(struct server *server, uint16_t port, int client)
{
	int ours[KH_INIT_CLIENT_FDS];
	struct link *link = calloc(1, sizeof(*link));
	if (!link || !hand_inside(server, port, ours)) {
		free(link);
		return false;
	}
	link->server = server;
	link->notice = ours[NOTICE];
	link->next = server->links;
	link->at = &server->links;
	if (link->next)
		link->next->at = &link->next;
	server->links = link;
	server->connections++;
	link->side[0] = bufferevent_socket_new(server->base, client, BEV_OPT_CLOSE_ON_FREE);
	link->side[1] = bufferevent_socket_new(server->base, ours[STREAM], BEV_OPT_CLOSE_ON_FREE);
	if (!link->side[0] || !link->side[1]) {
		/* The client's is the caller's as long as nobody else has it. */
		bool taken = link->side[0] != NULL;
		if (!link->side[1])
			close(ours[STREAM]);
		link_free(link);
		return taken;
	}
	for (int i = 0; i < 2; i++) {
		bufferevent_setwatermark(link->side[i], EV_READ, 0, PILE_BYTES);
		bufferevent_setcb(link->side[i], was_read, was_written, has_ended, link);
		(void)bufferevent_enable(link->side[i], EV_READ | EV_WRITE);
	}
	if (server->connections == KH_LIMIT_PUBLISHED_CONNECTIONS)
		for (size_t i = 0; i < server->n_acceptors; i++)
			evconnlistener_disable(server->acceptors[i].listener);
	return true;
}

static void came(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
		 int len, void *owner)
{
	(void)listener;
	(void)from;
	(void)len;
	const struct acceptor *acceptor = owner;
	int on = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!reset_on_close(fd, true) || !join(acceptor->server, acceptor->inside, fd))
		close(fd);
}

/* ---- the process ---- */

/* From now on: the sandbox may be up before the process is. And a port that another listens at may
 * be bound, but not listened at. */
static int listen_on(uint16_t port, struct kh_err *err)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;
	kh_auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0 &&
	    listen(fd, SOMAXCONN) == 0)
		return kh_steal_fd(&fd);
	kh_err_sys(err, KH_ERR_USAGE, errno, "--publish: 127.0.0.1:%u of the host", port);
	return -1;
}

/* All others are the launcher's: whoever waits for the end of one of them does not wait for this
 * process. Return: false where that can't be. */
static bool keep_only(int *fds, size_t n)
{
	int first = STDERR_FILENO + 1, above = first + (int)n;
	for (size_t i = 0; i < n; i++)
		if ((fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, above)) < 0)
			return false;
	for (size_t i = 0; i < n; i++) {
		if (dup3(fds[i], first + (int)i, O_CLOEXEC) < 0)
			return false;
		fds[i] = first + (int)i;
	}
	return syscall(SYS_close_range, (unsigned)above, ~0u, 0u) == 0;
}

/* The sandbox has ended. */
static void end(evutil_socket_t fd, short what, void *owner)
{
	(void)fd;
	(void)what;
	struct server *server = owner;
	server->ending = true;
	server->looks = KH_LIMIT_PUBLISHED_END_MS / LOOK_MS;
	close(server->control);
	for (size_t i = 0; i < server->n_acceptors; i++)
		evconnlistener_free(server->acceptors[i].listener);
	look_again(server);
	for (struct link *link = server->links, *next; link; link = next) {
		next = link->next;
		settle(link);
	}
	if (!server->links)
		(void)event_base_loopbreak(server->base);
}

/* Three for each connection. Where a connection can't be accepted, libevent tries at once again. */
static void raise_descriptors(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* `fds`: where clients come, the control socket, and what is closed at the sandbox's end. */
static _Noreturn void serve(const struct kh_sandbox_spec *spec, int *fds, pid_t parent)
{
	static struct server server;
	size_t n = spec->n_publish;
	/* Ctrl-C is the command's. */
	(void)setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent ||
	    !keep_only(fds, n + 2))
		_exit(1);
	(void)signal(SIGPIPE, SIG_IGN);
	raise_descriptors();
	server.control = fds[n];
	server.base = event_base_new();
	struct event *ended = NULL;
	if (server.base) {
		server.look = event_new(server.base, -1, 0, look, &server);
		ended = event_new(server.base, fds[n + 1], EV_READ, end, &server);
	}
	if (!server.look || !ended || event_add(ended, NULL) != 0)
		_exit(1);
	for (size_t i = 0; i < n; i++) {
		struct acceptor *acceptor = &server.acceptors[server.n_acceptors++];
		*acceptor =
			(struct acceptor){ .server = &server, .inside = spec->publish[i].inside };
		acceptor->listener = evconnlistener_new(server.base, came, acceptor,
							LEV_OPT_CLOSE_ON_FREE, SOMAXCONN, fds[i]);
		if (!acceptor->listener)
			_exit(1);
	}
	(void)event_base_dispatch(server.base);
	_exit(0);
}

static bool start(struct kh_publish *publish, const struct kh_sandbox_spec *spec, int *fds,
		  int control, struct kh_err *err)
{
	int alive[2];
	if (pipe2(alive, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	pid_t parent = getpid();
	publish->alive = alive[1];
	publish->pid = fork();
	if (publish->pid == 0) {
		fds[spec->n_publish] = control;
		fds[spec->n_publish + 1] = alive[0];
		serve(spec, fds, parent);
	}
	close(alive[0]);
	if (publish->pid < 0)
		close(alive[1]);
	return publish->pid > 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "a process");
}

bool kh_publish_begin(struct kh_publish *publish, const struct kh_sandbox_spec *spec, int control,
		      struct kh_err *err)
{
	int fds[KH_LIMIT_PUBLISHED_PORTS + 2];
	size_t n = 0;
	if (spec->n_publish == 0)
		return true;
	if (spec->n_publish > KH_LIMIT_PUBLISHED_PORTS)
		return kh_err_set(err, KH_ERR_USAGE, "--publish: up to %d ports",
				  KH_LIMIT_PUBLISHED_PORTS);
	/* Whoever may use the host's loopback would speak with the proxy as the sandbox. */
	for (size_t i = 0; i < spec->n_publish; i++)
		if (spec->publish[i].inside == KH_INIT_PORT)
			return kh_err_set(
				err, KH_ERR_USAGE,
				"--publish: port %d inside is the proxy's (a server there "
				"has another)",
				KH_INIT_PORT);
	while (n < spec->n_publish && (fds[n] = listen_on(spec->publish[n].outside, err)) >= 0)
		n++;
	bool ok = n == spec->n_publish && start(publish, spec, fds, control, err);
	while (n > 0)
		close(fds[--n]);
	return ok;
}

void kh_publish_end(struct kh_publish *publish)
{
	if (publish->pid <= 0)
		return;
	close(publish->alive);
	while (waitpid(publish->pid, NULL, 0) < 0 && errno == EINTR)
		;
	publish->pid = 0;
}
