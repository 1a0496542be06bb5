/*
 * dns.c - questions to nameservers: c-ares on a libevent loop
 *
 * The channel gets every option explicitly, so that c-ares does not read resolv.conf, hosts,
 * nsswitch.conf and the environment for missing ones. It is made once, before the lock-in, since
 * making one reads the seed of its query IDs from /dev/urandom. Only ares_query is used: it appends
 * no search domain, reads no alias file, and sorts nothing by probing routes.
 */
#include "net_internal.h"

#include <pthread.h>
#include <stdlib.h>

#include <ares.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <event2/event.h>

enum {
	DEFAULT_TIMEOUT_MS = 1000, /* c-ares doubles it every round */
	DEFAULT_TRIES = 3,
	/* Whoever forges an answer has to guess the port as well. */
	QUESTIONS_OF_A_PORT = 4,
	EDNS_BYTES = 1232, /* DNS flag day 2020: fits the smallest MTU of IPv6 */
};

struct socket {
	struct socket *next;
	struct kh_dns *dns;
	struct event *event;
	int fd;
};

struct question {
	kh_dns_cb *cb;
	void *arg;
	uint8_t family;
};

struct kh_dns {
	struct event_base *base;
	ares_channel channel;
	struct event *timer;
	struct socket *sockets;
	unsigned open; /* questions */
};

/* ---- c-ares' sockets and timer on the loop ---- */

static void rearm(struct kh_dns *dns)
{
	struct timeval room;
	struct timeval *next = ares_timeout(dns->channel, NULL, &room);
	if (next)
		event_add(dns->timer, next);
	else
		event_del(dns->timer);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kh_dns *dns = arg;
	(void)fd;
	(void)what;
	ares_process_fd(dns->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	rearm(dns);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct kh_dns *dns = ((struct socket *)arg)->dns; /* the socket may go away below */
	ares_process_fd(dns->channel, what & EV_READ ? fd : ARES_SOCKET_BAD,
			what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	rearm(dns);
}

static void drop_socket(struct socket **slot)
{
	struct socket *socket = *slot;
	*slot = socket->next;
	event_free(socket->event);
	free(socket);
}

/* c-ares says what it waits for on a socket; nothing: it is about to close it. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct kh_dns *dns = arg;
	struct socket **slot = &dns->sockets;
	while (*slot && (*slot)->fd != fd)
		slot = &(*slot)->next;
	if (!readable && !writable) {
		if (*slot)
			drop_socket(slot);
		return;
	}
	short what = (short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0));
	if (*slot) {
		event_del((*slot)->event);
		event_assign((*slot)->event, dns->base, fd, what, on_socket, *slot);
		event_add((*slot)->event, NULL);
		return;
	}
	struct socket *socket = calloc(1, sizeof *socket);
	if (!socket)
		return; /* the question will time out */
	socket->dns = dns;
	socket->fd = fd;
	socket->event = event_new(dns->base, fd, what, on_socket, socket);
	if (!socket->event || event_add(socket->event, NULL) < 0) {
		if (socket->event)
			event_free(socket->event);
		free(socket);
		return;
	}
	socket->next = dns->sockets;
	dns->sockets = socket;
}

/* ---- sockets ---- */

/*
 * c-ares would make a socket first and change its mode later, which the worker's filter refuses:
 * it would then be read until it blocks. These are born as they have to be.
 */
static ares_socket_t open_socket(int family, int type, int protocol, void *arg)
{
	(void)arg;
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	const int on = 1;
	if (fd >= 0 && type == SOCK_STREAM)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static int close_socket(ares_socket_t fd, void *arg)
{
	(void)arg;
	return close(fd);
}

static int connect_socket(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t len,
			  void *arg)
{
	(void)arg;
	return connect(fd, to, len);
}

static ares_ssize_t read_socket(ares_socket_t fd, void *into, size_t room, int flags,
				struct sockaddr *from, ares_socklen_t *len, void *arg)
{
	(void)arg;
	return recvfrom(fd, into, room, flags, from, len);
}

static ares_ssize_t write_socket(ares_socket_t fd, const struct iovec *parts, int n, void *arg)
{
	(void)arg;
	return writev(fd, parts, n);
}

static const struct ares_socket_functions socket_functions = {
	.asocket = open_socket,
	.aclose = close_socket,
	.aconnect = connect_socket,
	.arecvfrom = read_socket,
	.asendv = write_socket,
};

/* ---- life ---- */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void init_library(void)
{
	(void)ares_library_init(ARES_LIB_INIT_ALL);
}

static int open_channel(struct kh_dns *dns, const struct kh_resolv_conf *conf)
{
	char lookups[] = "b"; /* DNS alone, no hosts file */
	struct ares_options options = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
		.timeout = conf->timeout_s ? (int)conf->timeout_s * 1000 : DEFAULT_TIMEOUT_MS,
		.tries = conf->attempts ? (int)conf->attempts : DEFAULT_TRIES,
		.ndots = 1,
		.lookups = lookups,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = dns,
		.ednspsz = EDNS_BYTES,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST |
		   ARES_OPT_SOCK_STATE_CB | ARES_OPT_EDNSPSZ |
		   (conf->rotate ? ARES_OPT_ROTATE : ARES_OPT_NOROTATE);
#ifdef ARES_OPT_UDP_MAX_QUERIES /* since 1.20 */
	options.udp_max_queries = QUESTIONS_OF_A_PORT;
	mask |= ARES_OPT_UDP_MAX_QUERIES;
#endif
	int status = ares_init_options(&dns->channel, &options, mask);
	if (status == ARES_SUCCESS)
		ares_set_socket_functions(dns->channel, &socket_functions, NULL);
	return status;
}

struct kh_dns *kh_dns_new(struct event_base *base, const struct kh_resolv_conf *conf,
			  struct kh_err *err)
{
	pthread_once(&library_once, init_library);
	struct kh_dns *dns = calloc(1, sizeof *dns);
	if (!dns) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "resolver: no memory");
		return NULL;
	}
	dns->base = base;
	dns->timer = event_new(base, -1, 0, on_timer, dns);
	int status = dns->timer ? open_channel(dns, conf) : ARES_ENOMEM;
	if (status != ARES_SUCCESS) {
		kh_err_set(err, KH_ERR_SYSTEM, "resolver: %s", ares_strerror(status));
		if (dns->timer)
			event_free(dns->timer);
		free(dns);
		return NULL;
	}
	kh_dns_set_servers(dns, conf->servers, conf->n_servers);
	return dns;
}

void kh_dns_free(struct kh_dns *dns)
{
	if (!dns)
		return;
	ares_destroy(dns->channel);
	while (dns->sockets)
		drop_socket(&dns->sockets);
	event_free(dns->timer);
	free(dns);
}

void kh_dns_set_servers(struct kh_dns *dns, const struct kh_sockaddr *servers, size_t n)
{
	struct ares_addr_port_node nodes[KH_NAMESERVERS_MOST];
	if (n > KH_NAMESERVERS_MOST)
		n = KH_NAMESERVERS_MOST;
	for (size_t i = 0; i < n; i++) {
		bool is_v6 = servers[i].any.sa_family == AF_INET6;
		uint16_t port = ntohs(is_v6 ? servers[i].v6.sin6_port : servers[i].v4.sin_port);
		nodes[i] = (struct ares_addr_port_node){
			.next = i + 1 < n ? &nodes[i + 1] : NULL,
			.family = is_v6 ? AF_INET6 : AF_INET,
			.udp_port = port,
			.tcp_port = port,
		};
		if (is_v6)
			memcpy(&nodes[i].addr.addr6, &servers[i].v6.sin6_addr, 16);
		else
			memcpy(&nodes[i].addr.addr4, &servers[i].v4.sin_addr, 4);
	}
	ares_cancel(dns->channel); /* c-ares refuses new servers while a question is open */
	(void)ares_set_servers_ports(dns->channel, n ? nodes : NULL);
}

/* ---- questions ---- */

static size_t read_v4(const unsigned char *answer, int len, struct kh_ip *out, uint32_t *ttl,
		      int *status)
{
	struct ares_addrttl list[KH_LIMIT_ADDRESSES];
	int n = KH_LIMIT_ADDRESSES;
	*status = ares_parse_a_reply(answer, len, NULL, list, &n);
	for (int i = 0; *status == ARES_SUCCESS && i < n; i++) {
		out[i] = (struct kh_ip){ .family = 4 };
		memcpy(out[i].addr, &list[i].ipaddr, 4);
		*ttl = list[i].ttl < 0		      ? 0
		       : (uint32_t)list[i].ttl < *ttl ? (uint32_t)list[i].ttl
						      : *ttl;
	}
	return *status == ARES_SUCCESS && n > 0 ? (size_t)n : 0;
}

static size_t read_v6(const unsigned char *answer, int len, struct kh_ip *out, uint32_t *ttl,
		      int *status)
{
	struct ares_addr6ttl list[KH_LIMIT_ADDRESSES];
	int n = KH_LIMIT_ADDRESSES;
	*status = ares_parse_aaaa_reply(answer, len, NULL, list, &n);
	for (int i = 0; *status == ARES_SUCCESS && i < n; i++) {
		out[i] = (struct kh_ip){ .family = 6 };
		memcpy(out[i].addr, &list[i].ip6addr, 16);
		*ttl = list[i].ttl < 0		      ? 0
		       : (uint32_t)list[i].ttl < *ttl ? (uint32_t)list[i].ttl
						      : *ttl;
	}
	return *status == ARES_SUCCESS && n > 0 ? (size_t)n : 0;
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *answer, int len)
{
	struct question question = *(struct question *)arg;
	struct kh_ip list[KH_LIMIT_ADDRESSES];
	uint32_t ttl = UINT32_MAX;
	size_t n = 0;
	(void)timeouts;
	free(arg);
	if (status == ARES_SUCCESS)
		n = question.family == 4 ? read_v4(answer, len, list, &ttl, &status)
					 : read_v6(answer, len, list, &ttl, &status);
	if (status == ARES_SUCCESS && n == 0)
		status = ARES_ENODATA;
	question.cb(question.arg, question.family, status, list, n, ttl);
}

static void ask(struct kh_dns *dns, const char *name, uint8_t family, kh_dns_cb *cb, void *arg)
{
	struct question *question = malloc(sizeof *question);
	if (!question) {
		cb(arg, family, ARES_ENOMEM, NULL, 0, 0);
		return;
	}
	*question = (struct question){ .cb = cb, .arg = arg, .family = family };
	ares_query(dns->channel, name, ns_c_in, family == 4 ? ns_t_a : ns_t_aaaa, on_answer,
		   question);
}

/* A port takes no more questions than its own, and stays open until the last of them has ended. Of
 * one that mostly takes short ones, each long one may have a port. */
size_t kh_dns_sockets_of_a_name(void)
{
#ifdef ARES_OPT_UDP_MAX_QUERIES
	return 2; /* one for each family */
#else
	return 0;
#endif
}

void kh_dns_ask(struct kh_dns *dns, const char *name, kh_dns_cb *cb, void *arg)
{
	ask(dns, name, 6, cb, arg);
	ask(dns, name, 4, cb, arg);
	rearm(dns);
}
