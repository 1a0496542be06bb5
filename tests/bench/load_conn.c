/*
 * load_conn.c - one client: connect, CONNECT, TLS, then request after request
 *
 * It waits for one thing at a time: `event` is for reading or for writing, and `timer` for the end
 * of its patience. What goes wrong is counted, and after a moment it begins anew.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <openssl/err.h>

#include "load.h"

enum { REST_MS = 20, IN_BYTES = 256 * 1024, HEAD_BYTES = 64 * 1024, H2_BYTES = 64 * 1024 };

static void on_event(evutil_socket_t fd, short what, void *arg);
static void on_timer(evutil_socket_t fd, short what, void *arg);

static void wait_for(struct load_conn *c, short what)
{
	(void)event_del(c->event);
	(void)event_assign(c->event, c->load->base, c->fd, what, on_event, c);
	(void)event_add(c->event, NULL);
}

static void set_timer(struct load_conn *c, uint64_t ms)
{
	struct timeval in = { .tv_sec = (time_t)(ms / 1000),
			      .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	(void)event_add(c->timer, &in);
}

static void hang_up(struct load_conn *c)
{
	if (c->fd >= 0) {
		(void)event_del(c->event);
		(void)close(c->fd);
	}
	load_h2_end(c);
	SSL_free(c->ssl);
	c->ssl = NULL;
	c->fd = -1;
	c->open = false;
	kh_buf_clear(&c->in);
	kh_buf_clear(&c->out);
	c->body_left = 0;
}

static void rest(struct load_conn *c)
{
	hang_up(c);
	c->state = LOAD_RESTING;
	set_timer(c, REST_MS);
}

/* A request has its end, of whatever kind. */
static void count_over(struct load *load)
{
	if (++load->over == load->most)
		(void)event_base_loopbreak(load->base);
}

void load_count_fault(struct load *load, enum load_fault fault)
{
	if (!load->ended && fault != LOAD_FAULT_COUNT)
		load->faults[fault]++;
}

void load_count_lost(struct load *load, uint64_t id, enum load_fault fault)
{
	if (load->ended)
		return;
	load_count_fault(load, fault);
	if (load->log)
		fprintf(load->log, "lost %s-%" PRIu64 "\n", load->ids, id);
	count_over(load);
}

void load_count(struct load *load, uint64_t id, unsigned status, uint64_t began_us)
{
	uint64_t now = kh_clock_mono_us();

	if (load->log)
		fprintf(load->log, "got %s-%" PRIu64 " %u\n", load->ids, id, status);
	if (!load->ended && now >= load->warm_us) {
		load->statuses[status]++;
		bench_add(&load->times, now - began_us);
	}
	count_over(load);
}

uint64_t load_next_id(struct load *load)
{
	if (load->ended || (load->most && load->begun >= load->most))
		return 0;
	return ++load->begun;
}

static void fault(struct load_conn *c, enum load_fault fault)
{
	load_count_fault(c->load, fault);
	if (c->state == LOAD_HELD)
		c->load->held--;
	if (c->state == LOAD_REQUEST && !c->h2)
		load_count_lost(c->load, c->id, LOAD_FAULT_COUNT);
	rest(c);
}

/* --- bytes --- */

/* Return: 1 moved, 0 waiting for what is missing, -1 the end. */
static int result(struct load_conn *c, int n, short blocked)
{
	if (n > 0)
		return 1;
	if (c->ssl) {
		int why = SSL_get_error(c->ssl, n);

		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
			/* What is left in the queue would count as the next connection's. */
			ERR_clear_error();
			return -1;
		}
		blocked = why == SSL_ERROR_WANT_READ ? EV_READ : EV_WRITE;
	} else if (n == 0 || errno != EAGAIN) {
		return -1;
	}
	wait_for(c, blocked);
	return 0;
}

static int flush_out(struct load_conn *c)
{
	while (kh_buf_len(&c->out) > 0 || c->body_left > 0) {
		bool head = kh_buf_len(&c->out) > 0;
		struct kh_slice bytes = head ? kh_buf_view(&c->out)
					     : kh_slice_of(c->load->body, (size_t)c->body_left);
		int len = bytes.len < READ_BYTES ? (int)bytes.len : READ_BYTES;
		int n = c->ssl ? SSL_write(c->ssl, bytes.ptr, len)
			       : (int)send(c->fd, bytes.ptr, (size_t)len, MSG_NOSIGNAL);
		int status = result(c, n, EV_WRITE);

		if (status <= 0)
			return status;
		if (head) {
			kh_buf_consume(&c->out, (size_t)n);
		} else {
			c->body_left -= (size_t)n;
			c->load->sent_bytes += (size_t)n;
		}
	}
	return 1;
}

static int fill_in(struct load_conn *c)
{
	char *room = kh_buf_reserve(&c->in, READ_BYTES);
	int n, status;

	if (!room)
		return -1;
	n = c->ssl ? SSL_read(c->ssl, room, READ_BYTES) : (int)read(c->fd, room, READ_BYTES);
	status = result(c, n, EV_READ);
	if (status > 0)
		kh_buf_commit(&c->in, (size_t)n);
	return status;
}

/* --- requests --- */

static bool put_request(struct load_conn *c)
{
	struct load *load = c->load;

	c->id = load_next_id(load);
	if (c->id == 0)
		return false;
	c->response = (struct load_response){ .body = BODY_HEAD };
	c->state = LOAD_REQUEST;
	c->began_us = kh_clock_mono_us();
	set_timer(c, load->timeout_ms);
	if (load->websocket) {
		if (!load_ws_put(c))
			bench_die("load: no memory");
		return true;
	}
	if (!kh_buf_printf(&c->out, "%s %s", load->method, load->path) ||
	    (load->ids && !kh_buf_printf(&c->out, "/%s-%" PRIu64 " HTTP/1.1\r\nx-id: %s-%" PRIu64,
					 load->ids, c->id, load->ids, c->id)) ||
	    (!load->ids && !kh_buf_append_str(&c->out, " HTTP/1.1")) ||
	    !kh_buf_printf(&c->out, "\r\nhost: %s\r\n", load->authority_text) ||
	    (load->field && !kh_buf_printf(&c->out, "%s\r\n", load->field)) ||
	    (load->body_bytes &&
	     !kh_buf_printf(&c->out, "content-length: %" PRIu64 "\r\n", load->body_bytes)) ||
	    !kh_buf_append_str(&c->out, "\r\n"))
		bench_die("load: no memory");
	/* A short body goes into one record with its head. */
	if (load->body_bytes > READ_BYTES / 2)
		c->body_left = load->body_bytes;
	else if (!kh_buf_append(&c->out, load->body, (size_t)load->body_bytes))
		bench_die("load: no memory");
	return true;
}

/* It stays as it is; what comes now can only be its end. */
static void hold(struct load_conn *c)
{
	struct load *load = c->load;

	c->state = LOAD_HELD;
	(void)event_del(c->timer);
	wait_for(c, EV_READ);
	kh_buf_release(&c->in);
	kh_buf_release(&c->out);
	load_conn_begin_next(load);
	if (++load->held != load->n_conns)
		return;
	printf("{\"held\":%" PRIu64 "}\n", load->held);
	(void)fflush(stdout);
}

/* A response is whole. Return: another request is on its way. */
static bool finish(struct load_conn *c)
{
	struct load *load = c->load;

	load_count(load, c->id, c->response.status, load->new_tunnels ? c->tunnel_us : c->began_us);
	if (load->hold && c->response.keep) {
		hold(c);
		return false;
	}
	if (!c->response.keep || load->new_tunnels || kh_buf_len(&c->in) > 0) {
		hang_up(c);
		c->state = LOAD_RESTING;
		set_timer(c, 0);
		return false;
	}
	return put_request(c);
}

/* --- the way there --- */

static bool put_connect(struct load_conn *c)
{
	c->state = LOAD_TUNNEL;
	if (c->load->socks)
		return load_socks_put(c);
	return kh_buf_printf(&c->out, "CONNECT %s HTTP/1.1\r\nhost: %s\r\n\r\n",
			     c->load->authority_text, c->load->authority_text);
}

static bool begin_tls(struct load_conn *c)
{
	struct kh_authority *to = &c->load->authority;

	if (!c->load->tls)
		return put_request(c);
	c->state = LOAD_HANDSHAKE;
	c->ssl = SSL_new(c->load->tls);
	if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1 ||
	    SSL_set_tlsext_host_name(c->ssl, to->host.text) != 1 ||
	    SSL_set1_host(c->ssl, to->host.text) != 1)
		bench_die("load: no TLS");
	return true;
}

static int take_socks(struct load_conn *c)
{
	switch (load_socks_take(c)) {
	case 0:
		return fill_in(c);
	case 1:
		c->load->tunnels++;
		return begin_tls(c) ? 1 : 0;
	case 2:
		return 1;
	default:
		return -1;
	}
}

/* The head of the answer to CONNECT. Return: as result(), -1 also for a refusal. */
static int take_tunnel(struct load_conn *c)
{
	struct kh_slice in = kh_buf_view(&c->in);
	const char *end;

	if (c->load->socks)
		return take_socks(c);
	end = memmem(in.ptr, in.len, "\r\n\r\n", 4);
	if (!end)
		return fill_in(c);
	if (in.len < 12 || memcmp(in.ptr + 8, " 200", 4) != 0)
		return -1;
	kh_buf_consume(&c->in, (size_t)(end - in.ptr) + 4);
	c->load->tunnels++;
	return begin_tls(c) ? 1 : 0;
}

static int take_handshake(struct load_conn *c)
{
	int status = result(c, SSL_connect(c->ssl), EV_READ);

	if (status <= 0)
		return status;
	if (!c->load->h2)
		return put_request(c) ? 1 : 0;
	if (!load_h2_begin(c))
		return -1;
	c->state = LOAD_REQUEST;
	return 1;
}

/* All that is there is taken before anything goes, so that requests leave together. */
static int take_h2(struct load_conn *c, enum load_fault *why)
{
	int got, sent;

	*why = LOAD_FAULT_CLOSED;
	do
		got = fill_in(c);
	while (got > 0 && kh_buf_len(&c->in) < H2_BYTES);
	if (got < 0)
		return -1;
	if (c->state == LOAD_REQUEST)
		set_timer(c, c->load->timeout_ms);
	do {
		*why = LOAD_FAULT_HTTP;
		if (!load_h2_turn(c))
			return -1;
		*why = LOAD_FAULT_CLOSED;
		sent = flush_out(c);
	} while (sent > 0 && load_h2_has_more(c));
	if (sent > 0 && c->state == LOAD_REQUEST && c->load->hold && load_h2_is_idle(c))
		hold(c);
	return sent > 0 ? got : sent;
}

static int take_response(struct load_conn *c, enum load_fault *why)
{
	int status = c->load->websocket ? load_ws_take(c)
					: load_response_take(c->load, &c->response, &c->in);

	*why = LOAD_FAULT_HTTP;
	if (status < 0)
		return -1;
	if (status == 2)
		return 1;
	if (status > 0)
		return finish(c) ? 1 : 0;
	*why = LOAD_FAULT_CLOSED;
	return fill_in(c);
}

static int take_connecting(struct load_conn *c)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0)
		return -1;
	if (c->load->direct)
		return begin_tls(c) ? 1 : 0;
	return put_connect(c) ? 1 : -1;
}

/* One step. Return: as result(); *why is set for -1. */
static int step(struct load_conn *c, enum load_fault *why)
{
	int status;

	*why = c->state == LOAD_TUNNEL ? LOAD_FAULT_TUNNEL : LOAD_FAULT_CLOSED;
	status = flush_out(c);
	if (status <= 0)
		return status;
	switch (c->state) {
	case LOAD_CONNECTING:
		*why = LOAD_FAULT_CONNECT;
		return take_connecting(c);
	case LOAD_TUNNEL:
		return take_tunnel(c);
	case LOAD_HANDSHAKE:
		*why = LOAD_FAULT_TLS;
		return take_handshake(c);
	case LOAD_REQUEST:
		return c->h2 ? take_h2(c, why) : take_response(c, why);
	case LOAD_HELD:
		return c->h2 ? take_h2(c, why) : fill_in(c);
	case LOAD_RESTING:
		break;
	}
	return 0;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct load_conn *c = arg;
	enum load_fault why = LOAD_FAULT_CLOSED;
	int status;

	(void)fd;
	(void)what;
	do
		status = step(c, &why);
	while (status > 0);
	if (status < 0)
		fault(c, why);
}

static void dial(struct load_conn *c)
{
	struct load *load = c->load;
	int one = 1;

	c->state = LOAD_CONNECTING;
	c->tunnel_us = kh_clock_mono_us();
	c->fd = socket(load->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		bench_die("load: socket: %s", strerror(errno));
	if (load->to.ss_family == AF_INET)
		(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	set_timer(c, load->timeout_ms);
	if (connect(c->fd, (struct sockaddr *)&load->to, load->to_len) < 0 &&
	    errno != EINPROGRESS) {
		/* EAGAIN is a Unix socket's way to say that its backlog is full. */
		fault(c, LOAD_FAULT_CONNECT);
		return;
	}
	wait_for(c, EV_WRITE);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct load_conn *c = arg;

	(void)fd;
	(void)what;
	if (c->load->ended)
		return;
	if (c->state != LOAD_RESTING)
		fault(c, LOAD_FAULT_TIMEOUT);
	else if (!c->load->most || c->load->begun < c->load->most)
		dial(c);
}

struct load_conn *load_conn_new(struct load *load)
{
	struct load_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->load = load;
	c->fd = -1;
	c->state = LOAD_RESTING;
	kh_buf_init(&c->in, IN_BYTES);
	kh_buf_init(&c->out, (size_t)load->body_bytes + HEAD_BYTES);
	c->event = event_new(load->base, -1, 0, on_event, c);
	c->timer = evtimer_new(load->base, on_timer, c);
	if (!c->event || !c->timer)
		bench_die("load: no events");
	return c;
}

void load_conn_begin_next(struct load *load)
{
	if (load->begun_conns < load->n_conns)
		set_timer(load->conns[load->begun_conns++], 0);
}

void load_conn_free(struct load_conn *c)
{
	hang_up(c);
	event_free(c->event);
	event_free(c->timer);
	kh_buf_fini(&c->in);
	kh_buf_fini(&c->out);
	free(c);
}
