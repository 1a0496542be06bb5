/*
 * capture.c - for programs that use no proxy: gives names addresses, and listens on these
 *
 *   a program asks 127.0.0.1:53 for api.example  ──▶  127.64.0.2 (dns.c, names.c)
 *   it connects to 127.64.0.2:443                ──▶  accepted here, relayed as
 *                                                     CONNECT api.example:443
 *
 * The listeners are bound to every address, so that a connection to a literal address (1.2.3.4:443)
 * is captured too if a local route leads it here; it is relayed as CONNECT 1.2.3.4:443. Connections
 * to the sandbox itself (127.0.0.0/10, ::1) are not relayed but reset. A captured port is in use: a
 * program in the sandbox can't listen on it.
 *
 * DNS over TCP has a fixed number of connections. A new connection replaces the one that has been
 * idle longest, so that nobody can block it with idle connections. A connection that does not take
 * its answer at once is closed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <keyhole/base/limits.h>

#include "init_internal.h"
#include "names.h"

enum { DNS_PORT = 53, A_TURN = 64 };

/* ---- DNS ---- */

static int udp_fd = -1, tcp_fd = -1;
static struct init_watch udp_watch, tcp_watch;

static struct asker {
	int fd; /* 0: free */
	unsigned heard;
	size_t have;
	uint8_t bytes[2 + KH_LIMIT_INIT_DNS_BYTES];
	struct init_watch watch;
} askers[KH_LIMIT_INIT_DNS_CONNECTIONS];
static unsigned moments;

static void udp_ready(struct init_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	static uint8_t query[KH_LIMIT_INIT_DNS_BYTES], answer[INIT_DNS_ANSWER_BYTES];
	for (int i = 0; i < A_TURN; i++) {
		struct sockaddr_in from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(udp_fd, query, sizeof(query), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &from_len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		size_t len = init_dns_answer(query, (size_t)n, init_names_address, answer);
		if (len > 0)
			(void)!sendto(udp_fd, answer, len, MSG_DONTWAIT | MSG_NOSIGNAL,
				      (const struct sockaddr *)&from, from_len);
	}
}

static void dismiss(struct asker *asker)
{
	init_watch_end(asker->fd);
	close(asker->fd);
	asker->fd = 0;
}

/* Return: false when the connection is over. */
static bool answer_one(struct asker *asker, size_t len)
{
	uint8_t out[2 + INIT_DNS_ANSWER_BYTES];
	size_t n = init_dns_answer(asker->bytes + 2, len, init_names_address, out + 2);
	out[0] = (uint8_t)(n >> 8);
	out[1] = (uint8_t)n;
	return n > 0 && send(asker->fd, out, n + 2, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n + 2;
}

static void asker_ready(struct init_watch *watch, uint32_t events)
{
	(void)events;
	struct asker *asker = watch->owner;
	/* Its place was given to another in this turn. */
	if (asker->fd == 0)
		return;
	ssize_t n = recv(asker->fd, asker->bytes + asker->have, sizeof(asker->bytes) - asker->have,
			 MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		dismiss(asker);
		return;
	}
	asker->have += (size_t)n;
	asker->heard = ++moments;
	while (asker->have >= 2) {
		size_t len = (size_t)asker->bytes[0] << 8 | asker->bytes[1];
		if (len > KH_LIMIT_INIT_DNS_BYTES) {
			dismiss(asker);
			return;
		}
		if (asker->have < 2 + len)
			return;
		if (!answer_one(asker, len)) {
			dismiss(asker);
			return;
		}
		asker->have -= 2 + len;
		memmove(asker->bytes, asker->bytes + 2 + len, asker->have);
	}
}

static struct asker *place_for_asker(void)
{
	struct asker *oldest = &askers[0];
	for (size_t i = 0; i < KH_LIMIT_INIT_DNS_CONNECTIONS; i++) {
		if (askers[i].fd == 0)
			return &askers[i];
		if ((int)(askers[i].heard - oldest->heard) < 0)
			oldest = &askers[i];
	}
	dismiss(oldest);
	return oldest;
}

static void tcp_ready(struct init_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	for (int i = 0; i < A_TURN; i++) {
		int fd = accept4(tcp_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		struct asker *asker = place_for_asker();
		asker->fd = fd;
		asker->have = 0;
		asker->heard = ++moments;
		asker->watch = (struct init_watch){ asker_ready, asker };
		if (!init_watch_add(fd, &asker->watch, EPOLLIN))
			dismiss(asker);
	}
}

static void bind_dns(struct init_bound *out)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(DNS_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	out->dns_udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	out->dns_tcp = init_loopback_listen(DNS_PORT);
	if (out->dns_udp < 0 || out->dns_tcp < 0 ||
	    bind(out->dns_udp, (const struct sockaddr *)&addr, sizeof(addr)) != 0)
		init_die("--capture: 127.0.0.1:%d: %s", DNS_PORT, strerror(errno));
}

/* ---- connections ---- */

static int listen_on(const struct sockaddr *addr, socklen_t len)
{
	int on = 1, fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (addr->sa_family != AF_INET6 ||
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
	    bind(fd, addr, len) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

static void bind_port(uint16_t port, struct init_bound *out)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = listen_on((const struct sockaddr *)&any, sizeof(any));
	if (fd < 0)
		init_die("--capture: port %u: %s", port, strerror(errno));
	out->ports[out->n_ports++] = fd;
	/* A kernel without IPv6 has no literal addresses of it either. */
	fd = listen_on((const struct sockaddr *)&any6, sizeof(any6));
	if (fd >= 0)
		out->ports[out->n_ports++] = fd;
}

void init_capture_bind(const uint16_t *ports, size_t n_ports, struct init_bound *out)
{
	bind_dns(out);
	for (size_t i = 0; i < n_ports; i++)
		bind_port(ports[i], out);
	/* Without it (no CAP_NET_ADMIN over the namespace) names work all the same. */
	(void)init_loopback_catch();
}

void init_capture_start(const struct init_bound *bound)
{
	for (size_t i = 0; i < bound->n_ports; i++)
		init_relay_listen(bound->ports[i], true);
	if (bound->dns_udp < 0)
		return;
	udp_fd = bound->dns_udp;
	tcp_fd = bound->dns_tcp;
	udp_watch.ready = udp_ready;
	tcp_watch.ready = tcp_ready;
	if (!init_watch_add(udp_fd, &udp_watch, EPOLLIN) ||
	    !init_watch_add(tcp_fd, &tcp_watch, EPOLLIN))
		init_die("watching for DNS: %s", strerror(errno));
}

static bool target_of_v4(const struct sockaddr_in *addr, struct init_target *out)
{
	uint32_t ip = ntohl(addr->sin_addr.s_addr);
	out->port = ntohs(addr->sin_port);
	if (init_names_in_range(ip)) {
		out->place = init_names_find(ip);
		return out->place != 0;
	}
	memcpy(out->address, &addr->sin_addr, sizeof(addr->sin_addr));
	return ip >> 24 != 127 && ip != 0;
}

bool init_capture_target(int fd, struct init_target *out)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr = { .v6 = { 0 } };
	socklen_t len = sizeof(addr);
	*out = (struct init_target){ 0 };
	if (getsockname(fd, &addr.any, &len) != 0)
		return false;
	if (addr.any.sa_family == AF_INET)
		return target_of_v4(&addr.v4, out);
	if (addr.any.sa_family != AF_INET6)
		return false;
	out->is_v6 = true;
	out->port = ntohs(addr.v6.sin6_port);
	memcpy(out->address, &addr.v6.sin6_addr, sizeof(out->address));
	return !IN6_IS_ADDR_LOOPBACK(&addr.v6.sin6_addr) &&
	       !IN6_IS_ADDR_UNSPECIFIED(&addr.v6.sin6_addr);
}

size_t init_capture_head(const struct init_target *target, char *out, size_t room)
{
	char literal[INET6_ADDRSTRLEN] = "";
	const char *host = literal, *open = "", *close = "";
	if (target->place)
		host = init_names_text(target->place);
	else if (!inet_ntop(target->is_v6 ? AF_INET6 : AF_INET, target->address, literal,
			    sizeof(literal)))
		return 0;
	if (target->is_v6) {
		open = "[";
		close = "]";
	}
	int n = snprintf(out, room, "CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n\r\n", open,
			 host, close, target->port, open, host, close, target->port);
	return n > 0 && (size_t)n < room ? (size_t)n : 0;
}
