/*
 * origin.c - a server to measure and to break a proxy against
 *
 *	origin --name HOST [--name HOST …] --ca-out FILE [--port N] [--log FILE] [--plain]
 *
 * It speaks HTTP/1.1; where a name is given with --h2-name, also HTTP/2 for that one.
 *
 * Serves 127.0.0.1 with leaves of a CA of its own, whose certificate goes to FILE. When it listens
 * it prints {"port":N} on standard output. One thread.
 *
 *	POST /echo              the body, as it came (at most 16 MiB)
 *	POST /sink              {"bytes":N}
 *	GET  /bytes/N           N bytes
 *	GET  /chunks/N/SIZE     N chunks of SIZE bytes
 *	GET  /sse/N/MS          N events, one each MS milliseconds: {"n":1,"us":CLOCK_MONOTONIC}
 *	GET  /count             {"requests":N,"connections":N}
 *
 * A line of the log is written for every request whose head was read: its x-id field, method and
 * path; it is in the file before anything is answered.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/file.h>

#include "origin.h"

static void conn_free(struct conn *c)
{
	if (c->readable)
		event_free(c->readable);
	if (c->writable)
		event_free(c->writable);
	if (c->timer)
		event_free(c->timer);
	origin_h2_end(c);
	SSL_free(c->ssl);
	(void)close(c->fd);
	kh_buf_fini(&c->in);
	kh_buf_fini(&c->out);
	kh_buf_fini(&c->content);
	free(c);
}

/* --- bytes: 1 or more moved, 0 when it would block, -1 at the end --- */

static int tls_result(struct conn *c, int n)
{
	int why;

	if (n > 0)
		return n;
	why = SSL_get_error(c->ssl, n);
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
		return 0;
	/* What is left in the queue would count as the next connection's. */
	ERR_clear_error();
	return -1;
}

static int take(struct conn *c, char *into, size_t room)
{
	ssize_t n;

	if (c->ssl)
		return tls_result(c, SSL_read(c->ssl, into, (int)room));
	n = read(c->fd, into, room);
	return n > 0 ? (int)n : n < 0 && errno == EAGAIN ? 0 : -1;
}

static int give(struct conn *c, struct kh_slice bytes)
{
	size_t len = bytes.len < READ_BYTES ? bytes.len : READ_BYTES;
	ssize_t n;

	if (c->ssl)
		return tls_result(c, SSL_write(c->ssl, bytes.ptr, (int)len));
	n = send(c->fd, bytes.ptr, len, MSG_NOSIGNAL);
	return n > 0 ? (int)n : n < 0 && errno == EAGAIN ? 0 : -1;
}

/* --- a connection's turn --- */

static bool flush_out(struct conn *c)
{
	while (kh_buf_len(&c->out) > 0) {
		int n = give(c, kh_buf_view(&c->out));

		if (n < 0)
			return false;
		c->write_blocked = n == 0;
		if (n == 0)
			return true;
		kh_buf_consume(&c->out, (size_t)n);
	}
	c->write_blocked = false;
	return true;
}

/* Return: 1 moved on, 0 nothing to do now, -1 over. */
static int turn_once(struct conn *c, bool *waits)
{
	bool ok = true;
	char *room;
	int n;

	if (!origin_make(c, waits) || !flush_out(c))
		return -1;
	if (c->write_blocked || *waits)
		return 0;
	if (kh_buf_len(&c->out) > 0 || (c->answer != ANSWER_NONE && !c->in_request) ||
	    (c->h2 && origin_h2_has_more(c)))
		return 1;
	if (c->close && !c->in_request)
		return -1;
	if (origin_step(c, &ok))
		return 1;
	if (!ok)
		return -1;
	room = kh_buf_reserve(&c->in, READ_BYTES);
	n = room ? take(c, room, READ_BYTES) : -1;
	if (n > 0)
		kh_buf_commit(&c->in, (size_t)n);
	return n > 0 ? 1 : n;
}

static void set(struct event *event, bool wanted)
{
	if (wanted)
		(void)event_add(event, NULL);
	else
		(void)event_del(event);
}

/* As far as it goes, and then waits for what is missing. */
static void turn(struct conn *c)
{
	enum { MOST_STEPS = 256 };
	bool waits = false;
	int moved = 1;

	for (int i = 0; moved > 0 && i < MOST_STEPS; i++) {
		waits = false;
		moved = turn_once(c, &waits);
	}
	if (moved < 0) {
		conn_free(c);
		return;
	}
	set(c->readable, !waits && !c->write_blocked);
	set(c->writable, c->write_blocked);
	if (waits) {
		uint64_t now = kh_clock_mono_ms(), ms = c->next_ms > now ? c->next_ms - now : 0;
		struct timeval in = { .tv_sec = (time_t)(ms / 1000),
				      .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

		(void)event_add(c->timer, &in);
	} else if (moved > 0) {
		event_active(c->readable, EV_READ, 0);
	}
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	int n;

	(void)fd;
	(void)what;
	if (!c->handshaken) {
		n = tls_result(c, SSL_accept(c->ssl));
		if (n < 0) {
			conn_free(c);
			return;
		}
		if (n == 0) {
			set(c->writable, SSL_want_write(c->ssl));
			return;
		}
		c->handshaken = true;
		if (!origin_h2_begin(c)) {
			conn_free(c);
			return;
		}
	}
	turn(c);
}

static void on_accept(evutil_socket_t listener, short what, void *arg)
{
	struct origin *o = arg;
	struct conn *c;
	int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)what;
	if (fd < 0)
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c = calloc(1, sizeof(*c));
	if (!c) {
		(void)close(fd);
		return;
	}
	o->connections++;
	c->origin = o;
	c->fd = fd;
	c->handshaken = o->n_names == 0;
	kh_buf_init(&c->in, HEAD_BYTES + READ_BYTES);
	kh_buf_init(&c->out, OUT_BYTES);
	kh_buf_init(&c->content, ECHO_BYTES);
	c->readable = event_new(o->base, fd, EV_READ | EV_PERSIST, on_event, c);
	c->writable = event_new(o->base, fd, EV_WRITE, on_event, c);
	c->timer = event_new(o->base, -1, 0, on_event, c);
	c->ssl = o->n_names > 0 ? SSL_new(o->contexts[0]) : NULL;
	if (!c->readable || !c->writable || !c->timer || (o->n_names > 0 && !c->ssl) ||
	    (c->ssl && SSL_set_fd(c->ssl, fd) != 1) || event_add(c->readable, NULL) != 0)
		conn_free(c);
}

/* --- certificates --- */

/* NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL says what it looks like. */
static int on_name(SSL *ssl, int *alert, void *arg)
{
	struct origin *o = arg;
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

	(void)alert;
	for (size_t i = 0; name && i < o->n_names; i++)
		if (kh_slice_eq_nocase(kh_host_view(&o->names[i]), kh_slice_str(name)))
			(void)SSL_set_SSL_CTX(ssl, o->contexts[i]);
	return SSL_TLSEXT_ERR_OK;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL says what it looks like. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		   const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = {
		2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'
	};
	bool found;

	(void)ssl;
	(void)arg;
	found = SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, ours, sizeof(ours),
				      in, in_len) == OPENSSL_NPN_NEGOTIATED;
	return found ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

static SSL_CTX *context(struct origin *o, const struct kh_ca *ca, EVP_PKEY *key,
			const struct kh_host *name)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	unsigned char *spki = NULL;
	int spki_len = i2d_PUBKEY(key, &spki);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf leaf;

	kh_buf_init(&leaf, READ_BYTES);
	if (!ctx || spki_len <= 0 ||
	    !kh_ca_sign(ca, kh_slice_of(spki, (size_t)spki_len), name, KH_CA_LEAF_S, &leaf, &err) ||
	    SSL_CTX_use_certificate_ASN1(ctx, (int)kh_buf_len(&leaf),
					 (const unsigned char *)kh_buf_view(&leaf).ptr) != 1 ||
	    SSL_CTX_use_PrivateKey(ctx, key) != 1)
		bench_die("origin: %s: no certificate: %s", name->text, err.text);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	(void)SSL_CTX_set_tlsext_servername_callback(ctx, on_name);
	(void)SSL_CTX_set_tlsext_servername_arg(ctx, o);
	kh_buf_fini(&leaf);
	OPENSSL_free(spki);
	return ctx;
}

static void make_contexts(struct origin *o, const char *ca_out)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	EVP_PKEY *key = EVP_EC_gen("P-256");

	if (!ca || !key)
		bench_die("origin: no authority: %s", err.text);
	for (size_t i = 0; i < o->n_names; i++) {
		o->contexts[i] = context(o, ca, key, &o->names[i]);
		if (o->in_h2[i])
			SSL_CTX_set_alpn_select_cb(o->contexts[i], on_alpn, NULL);
	}
	if (ca_out && !kh_file_write(ca_out, kh_ca_pem(ca), 0644, &err))
		bench_die("origin: %s", err.text);
	EVP_PKEY_free(key);
	kh_ca_free(ca);
}

/* --- start and end --- */

static int listen_on(uint16_t port, uint16_t *got)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port) };
	socklen_t len = sizeof(addr);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, SOMAXCONN) < 0 ||
	    getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		bench_die("origin: port %u: %s", port, strerror(errno));
	*got = ntohs(addr.sin_port);
	return fd;
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	(void)number;
	(void)what;
	(void)event_base_loopbreak(arg);
}

/* --name and --h2-name may come several times, so they are taken out before the others are read. */
static int take_names(struct origin *o, int argc, char **argv)
{
	int kept = 1;

	for (int i = 1; i < argc; i++) {
		bool h2 = strcmp(argv[i], "--h2-name") == 0;

		if ((!h2 && strcmp(argv[i], "--name") != 0) || i + 1 == argc) {
			argv[kept++] = argv[i];
			continue;
		}
		if (o->n_names == MOST_NAMES ||
		    !kh_host_parse(&o->names[o->n_names], kh_slice_str(argv[i + 1]), NULL))
			bench_die("origin: --name %s: no host, or one too many", argv[i + 1]);
		o->in_h2[o->n_names++] = h2;
		i++;
	}
	return kept;
}

int main(int argc, char **argv)
{
	static struct origin o;
	const char *ca_out = NULL, *log = NULL;
	uint64_t port = 0;
	bool plain = false;
	const struct bench_option options[] = {
		{ .name = "--ca-out", .text = &ca_out },
		{ .name = "--log", .text = &log },
		{ .name = "--port", .number = &port },
		{ .name = "--plain", .flag = &plain },
		{ .name = NULL },
	};
	struct event *listener, *term, *interrupt;
	uint16_t got;
	int fd;

	argc = take_names(&o, argc, argv);
	bench_options(argc, argv, options,
		      "usage: origin --name HOST… --ca-out FILE [--port N] [--log FILE] [--plain]");
	if (port > UINT16_MAX || plain == (o.n_names > 0))
		bench_die("origin: either --name HOST or --plain; ports end at 65535");
	(void)signal(SIGPIPE, SIG_IGN);
	memset(o.filler, 'x', sizeof(o.filler));
	o.log = log ? fopen(log, "ae") : NULL;
	if (log && !o.log)
		bench_die("origin: %s: %s", log, strerror(errno));
	if (!plain)
		make_contexts(&o, ca_out);
	o.base = event_base_new();
	fd = listen_on((uint16_t)port, &got);
	listener = event_new(o.base, fd, EV_READ | EV_PERSIST, on_accept, &o);
	term = evsignal_new(o.base, SIGTERM, on_signal, o.base);
	interrupt = evsignal_new(o.base, SIGINT, on_signal, o.base);
	if (!o.base || !listener || !term || !interrupt || event_add(listener, NULL) != 0 ||
	    event_add(term, NULL) != 0 || event_add(interrupt, NULL) != 0)
		bench_die("origin: no events");
	printf("{\"port\":%u}\n", got);
	(void)fflush(stdout);
	(void)event_base_dispatch(o.base);
	fprintf(stderr, "origin: %" PRIu64 " requests on %" PRIu64 " connections\n", o.requests,
		o.connections);
	event_free(listener);
	event_free(term);
	event_free(interrupt);
	for (size_t i = 0; i < o.n_names; i++)
		SSL_CTX_free(o.contexts[i]);
	event_base_free(o.base);
	return 0;
}
