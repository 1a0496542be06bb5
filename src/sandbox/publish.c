/*
 * publish.c - the process that listens on the host's loopback and hands connections to keyhole-init
 *
 * A process of its own, since a launcher that carries a terminal has no time to lose with
 * somebody's download. It ends with the launcher. Each side is read only as fast as the other takes
 * it.
 */
#include "publish.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include <keyhole/cleanup.h>
#include <keyhole/init.h>
#include <keyhole/rights.h>

enum { PILE_BYTES = 64 * 1024 };

struct server {
	int control;
	struct event_base *base;
	unsigned connections;
	struct door {
		struct server *server;
		struct evconnlistener *listener;
		uint16_t inside;
	} doors[KH_LIMIT_PUBLISHED_PORTS];
	size_t n_doors;
};

struct link {
	struct server *server;
	struct bufferevent *side[2];
	bool ended[2]; /* it sends no more */
};

/* ---- a connection ---- */

static void link_free(struct link *link)
{
	for (int i = 0; i < 2; i++)
		if (link->side[i])
			bufferevent_free(link->side[i]);
	if (link->server->connections-- == KH_LIMIT_PUBLISHED_CONNECTIONS)
		for (size_t i = 0; i < link->server->n_doors; i++)
			evconnlistener_enable(link->server->doors[i].listener);
	free(link);
}

static int index_of(const struct link *link, const struct bufferevent *side)
{
	return side == link->side[1];
}

static void shut_when_written(struct link *link, int from)
{
	struct bufferevent *to = link->side[!from];
	if (!link->ended[from] || evbuffer_get_length(bufferevent_get_output(to)) > 0)
		return;
	(void)shutdown(bufferevent_getfd(to), SHUT_WR);
	if (link->ended[!from] &&
	    evbuffer_get_length(bufferevent_get_output(link->side[from])) == 0)
		link_free(link);
}

static void was_read(struct bufferevent *from, void *owner)
{
	struct link *link = owner;
	struct bufferevent *to = link->side[!index_of(link, from)];
	struct evbuffer *pile = bufferevent_get_output(to);
	(void)evbuffer_add_buffer(pile, bufferevent_get_input(from));
	if (evbuffer_get_length(pile) >= PILE_BYTES)
		(void)bufferevent_disable(from, EV_READ);
}

static void was_written(struct bufferevent *to, void *owner)
{
	struct link *link = owner;
	int from = !index_of(link, to);
	if (!link->ended[from])
		(void)bufferevent_enable(link->side[from], EV_READ);
	else
		shut_when_written(link, from);
}

static void has_ended(struct bufferevent *side, short what, void *owner)
{
	struct link *link = owner;
	int from = index_of(link, side);
	if (!(what & BEV_EVENT_EOF) || !(what & BEV_EVENT_READING)) {
		link_free(link);
		return;
	}
	was_read(side, link);
	link->ended[from] = true;
	(void)bufferevent_disable(side, EV_READ);
	shut_when_written(link, from);
}

/* ---- a client ---- */

static bool send_inside(const struct server *server, uint16_t port, int fd)
{
	struct kh_init_message message = { .type = KH_INIT_PUBLISHED, .value = port };
	return kh_rights_send(server->control, &message, sizeof(message), &fd, 1, MSG_DONTWAIT);
}

static bool join(struct server *server, uint16_t port, int client)
{
	int pair[2];
	struct link *link = calloc(1, sizeof(*link));
	if (!link ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
		free(link);
		return false;
	}
	bool sent = send_inside(server, port, pair[1]);
	close(pair[1]);
	link->server = server;
	server->connections++;
	link->side[0] = bufferevent_socket_new(server->base, client, BEV_OPT_CLOSE_ON_FREE);
	link->side[1] = bufferevent_socket_new(server->base, pair[0], BEV_OPT_CLOSE_ON_FREE);
	if (!link->side[0] || !link->side[1] || !sent) {
		/* The client's is the caller's as long as nobody else has it. */
		bool taken = link->side[0] != NULL;
		if (!link->side[1])
			close(pair[0]);
		link_free(link);
		return taken;
	}
	for (int i = 0; i < 2; i++) {
		bufferevent_setwatermark(link->side[i], EV_READ, 0, PILE_BYTES);
		bufferevent_setcb(link->side[i], was_read, was_written, has_ended, link);
		(void)bufferevent_enable(link->side[i], EV_READ | EV_WRITE);
	}
	if (server->connections == KH_LIMIT_PUBLISHED_CONNECTIONS)
		for (size_t i = 0; i < server->n_doors; i++)
			evconnlistener_disable(server->doors[i].listener);
	return true;
}

static void came(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
		 int len, void *owner)
{
	(void)listener;
	(void)from;
	(void)len;
	const struct door *door = owner;
	int on = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (!join(door->server, door->inside, fd))
		close(fd);
}

/* ---- the process ---- */

static int listen_on(uint16_t port, struct kh_err *err)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1;
	kh_auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) == 0)
		return kh_steal_fd(&fd);
	kh_err_sys(err, KH_ERR_USAGE, errno, "--publish: 127.0.0.1:%u of the host", port);
	return -1;
}

static _Noreturn void serve(const struct kh_sandbox_spec *spec, const int *fds, int control,
			    pid_t parent)
{
	static struct server server;
	/* Ctrl-C is the command's. */
	(void)setsid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent)
		_exit(1);
	(void)signal(SIGPIPE, SIG_IGN);
	server.control = control;
	server.base = event_base_new();
	for (size_t i = 0; server.base && i < spec->n_publish; i++) {
		struct door *door = &server.doors[server.n_doors++];
		*door = (struct door){ .server = &server, .inside = spec->publish[i].inside };
		door->listener = evconnlistener_new(server.base, came, door, LEV_OPT_CLOSE_ON_FREE,
						    SOMAXCONN, fds[i]);
		if (!door->listener)
			_exit(1);
	}
	if (server.base)
		(void)event_base_dispatch(server.base);
	_exit(1);
}

bool kh_publish_begin(struct kh_publish *publish, const struct kh_sandbox_spec *spec, int control,
		      struct kh_err *err)
{
	int fds[KH_LIMIT_PUBLISHED_PORTS];
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
	bool ok = n == spec->n_publish;
	pid_t parent = getpid();
	if (ok) {
		publish->pid = fork();
		if (publish->pid == 0)
			serve(spec, fds, control, parent);
		ok = publish->pid > 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "a process");
	}
	while (n > 0)
		close(fds[--n]);
	return ok;
}

void kh_publish_end(struct kh_publish *publish)
{
	if (publish->pid <= 0)
		return;
	(void)kill(publish->pid, SIGKILL);
	while (waitpid(publish->pid, NULL, 0) < 0 && errno == EINTR)
		;
	publish->pid = 0;
}
