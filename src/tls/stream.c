/*
 * stream.c - a byte stream over a descriptor, plain or TLS
 *
 * What is waited for is computed from the state by `interest` and `holds_now`; `kh_stream_update`
 * makes the loop agree with them and is called after every change. Events reach the callback from
 * three places, all of them the loop's: the descriptor is ready, or a kick, which is a timer of
 * zero: it runs in the next turn, so bytes that lie decrypted in OpenSSL while the descriptor is
 * silent are reported, and everybody else has a turn in between.
 *
 * Reading stops lazily: the descriptor stays armed until bytes come that nobody wants. A request is
 * usually followed by an answer and the next request, and this saves two system calls each time.
 */
#include "stream_internal.h"

#include <errno.h>
#include <sys/socket.h>

#include <openssl/err.h>

/* Bytes thrown away on close, so that the kernel does not answer them with a reset that overtakes
 * what we sent. */
enum { DISCARD_BYTES = 16 * 1024, DISCARD_READS = 4 };

struct kh_err *kh_stream_err(struct kh_stream *s)
{
	static _Thread_local struct kh_err nobodys;
	if (!s->err)
		s->err = calloc(1, sizeof *s->err);
	return s->err ? s->err : &nobodys;
}

const struct kh_err *kh_stream_error(const struct kh_stream *s)
{
	static const struct kh_err none = KH_ERR_INIT;
	static const struct kh_err no_memory = { .code = KH_ERR_NO_MEMORY, .text = "no memory" };
	if (s->err)
		return s->err;
	return s->state == STREAM_FAILED || s->ended == KH_IO_ERROR || s->write_failed ? &no_memory
										       : &none;
}

/* ---- what is waited for ---- */

/* On the descriptor: EV_READ, EV_WRITE. */
static unsigned interest(const struct kh_stream *s)
{
	unsigned want = 0;
	switch (s->state) {
	case STREAM_HANDSHAKE:
		return s->kicked ? 0 : s->handshake->want;
	case STREAM_ROOTS:
	case STREAM_LEAF:
	case STREAM_FAILED:
		return 0;
	case STREAM_PLAIN:
	case STREAM_TLS:
		break;
	}
	if ((s->watch & KH_STREAM_READABLE) && !s->ended)
		want |= s->read_needs_write ? EV_WRITE : EV_READ;
	if (s->watch & KH_STREAM_WRITABLE)
		want |= s->write_needs_read ? EV_READ : EV_WRITE;
	if (s->shut == SHUT_WANTED)
		want |= EV_WRITE;
	return want;
}

/* Events that hold although the descriptor may be silent. */
static unsigned holds_now(const struct kh_stream *s)
{
	if (!(s->watch & KH_STREAM_READABLE) ||
	    (s->state != STREAM_TLS && s->state != STREAM_PLAIN))
		return 0;
	if (s->ended)
		return KH_STREAM_READABLE;
	if (s->state == STREAM_TLS && !s->read_blocked && (SSL_has_pending(s->ssl) || s->prefix))
		return KH_STREAM_READABLE;
	return 0;
}

void kh_stream_kick(struct kh_stream *s, uint32_t delay_ms)
{
	struct timeval delay = { .tv_sec = delay_ms / 1000, .tv_usec = (delay_ms % 1000) * 1000 };
	s->kicked = event_add(&s->on_kick, &delay) == 0;
}

/* What a pipe is ready for, as EV_READ and EV_WRITE. */
static unsigned pipe_ready(const struct kh_stream *s)
{
	unsigned events = s->pipe ? s->pipe_ops->ready(s->pipe) : 0;
	return (events & KH_STREAM_READABLE ? EV_READ : 0u) |
	       (events & KH_STREAM_WRITABLE ? EV_WRITE : 0u);
}

void kh_stream_update(struct kh_stream *s)
{
	if (s->dead || s->in_callback)
		return;
	unsigned want = interest(s);
	if (s->pipe) {
		if (!s->kicked && ((want & pipe_ready(s)) || holds_now(s)))
			kh_stream_kick(s, 0);
		return;
	}
	if ((want & EV_READ) && !s->read_armed)
		s->read_armed = event_add(&s->on_read, NULL) == 0;
	bool write = want & EV_WRITE;
	if (write && !s->write_armed)
		s->write_armed = event_add(&s->on_write, NULL) == 0;
	else if (!write && s->write_armed)
		s->write_armed = event_del(&s->on_write) != 0;
	if (!s->kicked && holds_now(s))
		kh_stream_kick(s, 0);
}

/* ---- events ---- */

static void destroy(struct kh_stream *s)
{
	SSL_free(s->ssl);
	free(s->prefix);
	free(s->err);
	free(s->sni_mismatch);
	free(s->session_key);
	free(s);
}

/*
 * OpenSSL before these frees buffers that a half-read record still lies in (CVE-2024-4741). A
 * distribution may have mended an older one, which can't be seen from here: memory is what that
 * costs.
 */
static bool frees_only_idle_buffers(void)
{
	static const unsigned first_patch[] = { 14, 6, 2, 1 }; /* of 3.0, 3.1, 3.2, 3.3 */
	unsigned minor = OPENSSL_version_minor();
	return OPENSSL_version_major() > 3 || minor > 3 ||
	       OPENSSL_version_patch() >= first_patch[minor];
}

/* SSL_MODE_RELEASE_BUFFERS gives the buffers back after a record. But a read takes a buffer for
 * writing too (for an alert), and an idle connection would keep it: half of what it costs. */
static void rest(struct kh_stream *s)
{
	if (s->state == STREAM_TLS && frees_only_idle_buffers())
		(void)SSL_free_buffers(s->ssl); /* not those with bytes in them */
}

bool kh_stream_report(struct kh_stream *s, unsigned events)
{
	s->in_callback = true;
	s->cb(s, events, s->arg);
	s->in_callback = false;
	if (s->dead) {
		destroy(s);
		return false;
	}
	rest(s);
	kh_stream_update(s);
	return true;
}

static void try_shutdown(struct kh_stream *s)
{
	if (s->state == STREAM_TLS) {
		ERR_clear_error();
		int rc = SSL_shutdown(s->ssl);
		if (rc < 0 && SSL_get_error(s->ssl, rc) == SSL_ERROR_WANT_WRITE) {
			s->shut = SHUT_WANTED;
			return;
		}
		ERR_clear_error();
	}
	if (s->pipe)
		s->pipe_ops->shutdown(s->pipe);
	else
		(void)shutdown(s->fd, SHUT_WR);
	s->shut = SHUT_DONE;
}

static void end_reading(struct kh_stream *s, enum kh_io how)
{
	s->ended = how;
	s->read_needs_write = false;
}

/* The failure of SSL_read or SSL_write, in words. */
static void explain(struct kh_stream *s, const char *doing)
{
	enum kh_err_code protocol = s->is_up ? KH_ERR_TLS_PROTOCOL : KH_ERR_DOWN_TLS;
	enum kh_err_code closed =
		s->is_up || s->state == STREAM_PLAIN ? KH_ERR_UP_CLOSED : KH_ERR_DOWN_CLOSED;
	if (ERR_peek_error() != 0)
		kh_err_openssl(kh_stream_err(s), protocol, "%s", doing);
	else
		kh_err_sys(kh_stream_err(s), closed, s->raw_error ? s->raw_error : EPIPE, "%s",
			   doing);
}

/* Before each call whose failure SSL_get_error explains. Clearing walks the whole queue, and nearly
 * always it is empty. */
static void forget_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* Maps what SSL_read or SSL_peek did not give. */
static enum kh_io read_stopped(struct kh_stream *s, int rc)
{
	s->read_needs_write = false;
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		s->read_blocked = true;
		return KH_IO_AGAIN;
	case SSL_ERROR_WANT_WRITE:
		s->read_blocked = true;
		s->read_needs_write = true;
		return KH_IO_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		end_reading(s, KH_IO_EOF);
		return KH_IO_EOF;
	default:
		if (s->raw_eof && ERR_peek_error() == 0) {
			end_reading(s, KH_IO_TRUNCATED);
			return KH_IO_TRUNCATED;
		}
		explain(s, "read");
		end_reading(s, KH_IO_ERROR);
		ERR_clear_error();
		return KH_IO_ERROR;
	}
}

/* Is there really something to say? A record may be half there, or hold nothing but a ticket. */
static bool probe_readable(struct kh_stream *s)
{
	char byte;
	if (s->state != STREAM_TLS || s->ended || SSL_pending(s->ssl) > 0)
		return true;
	forget_errors();
	int rc = SSL_peek(s->ssl, &byte, 1);
	return rc > 0 || read_stopped(s, rc) != KH_IO_AGAIN;
}

/* `ready`: what the descriptor is ready for. */
static void serve(struct kh_stream *s, unsigned ready)
{
	unsigned events = 0;
	if (s->shut == SHUT_WANTED && (ready & EV_WRITE))
		try_shutdown(s);
	unsigned for_read = s->read_needs_write ? EV_WRITE : EV_READ;
	unsigned for_write = s->write_needs_read ? EV_READ : EV_WRITE;
	if (ready & for_read)
		s->read_blocked = false;
	if ((s->watch & KH_STREAM_READABLE) && ((ready & for_read) || holds_now(s)) &&
	    probe_readable(s))
		events |= KH_STREAM_READABLE;
	if ((s->watch & KH_STREAM_WRITABLE) && (ready & for_write))
		events |= KH_STREAM_WRITABLE;
	if (events) {
		(void)kh_stream_report(s, events);
		return;
	}
	rest(s);
	kh_stream_update(s);
}

static void wake(struct kh_stream *s, unsigned ready)
{
	switch (s->state) {
	case STREAM_ROOTS:
	case STREAM_HANDSHAKE:
		kh_stream_drive(s);
		return;
	case STREAM_LEAF:
	case STREAM_FAILED:
		return;
	case STREAM_PLAIN:
	case STREAM_TLS:
		serve(s, ready);
	}
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
	struct kh_stream *s = arg;
	(void)fd;
	(void)what;
	s->drained = false;
	if (interest(s) & EV_READ) {
		wake(s, EV_READ);
		return;
	}
	s->read_armed = event_del(&s->on_read) != 0;
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	wake(arg, EV_WRITE);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct kh_stream *s = arg;
	(void)fd;
	(void)what;
	s->kicked = false;
	unsigned ready = pipe_ready(s);
	if (ready & EV_READ)
		s->drained = false;
	wake(s, ready);
}

/* ---- life ---- */

static struct kh_stream *new_stream(struct event_base *base, int fd, kh_stream_cb *cb, void *arg)
{
	struct kh_stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->base = base;
	s->fd = fd;
	s->cb = cb;
	s->arg = arg;
	s->state = STREAM_PLAIN;
	if (event_assign(&s->on_read, base, fd, EV_READ | EV_PERSIST, on_read, s) < 0 ||
	    event_assign(&s->on_write, base, fd, EV_WRITE | EV_PERSIST, on_write, s) < 0 ||
	    event_assign(&s->on_kick, base, -1, 0, on_kick, s) < 0) {
		free(s);
		return NULL;
	}
	return s;
}

struct kh_stream *kh_stream_new(struct event_base *base, int fd, kh_stream_cb *cb, void *arg)
{
	return new_stream(base, fd, cb, arg);
}

struct kh_stream *kh_stream_new_over(struct event_base *base, const struct kh_pipe_ops *ops,
				     void *pipe, kh_stream_cb *cb, void *arg)
{
	struct kh_stream *s = new_stream(base, -1, cb, arg);
	if (s) {
		s->pipe_ops = ops;
		s->pipe = pipe;
	}
	return s;
}

void kh_stream_pipe_changed(struct kh_stream *s)
{
	kh_stream_update(s);
}

void kh_stream_set_callback(struct kh_stream *s, kh_stream_cb *cb, void *arg)
{
	s->cb = cb;
	s->arg = arg;
}

/* A last word, without waiting for anything. */
static void say_goodbye(struct kh_stream *s)
{
	char nowhere[DISCARD_BYTES];
	if (s->ssl) {
		if (s->state == STREAM_TLS && s->shut == SHUT_NO && !s->write_failed && !s->spoilt)
			(void)SSL_shutdown(s->ssl);
		ERR_clear_error();
		/* Freed while it counts as open, a session is taken for broken and never resumed.
		 */
		if (s->state == STREAM_TLS && s->ended != KH_IO_ERROR)
			SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	}
	if (s->pipe)
		return;
	(void)shutdown(s->fd, SHUT_WR);
	for (int i = 0; i < DISCARD_READS; i++) {
		ssize_t n = recv(s->fd, nowhere, sizeof nowhere, MSG_DONTWAIT);
		if (n < (ssize_t)sizeof nowhere)
			break;
	}
}

void kh_stream_free(struct kh_stream *s)
{
	if (!s || s->dead)
		return;
	s->dead = true;
	event_del(&s->on_read);
	event_del(&s->on_write);
	event_del(&s->on_kick);
	kh_stream_handshake_free(s);
	say_goodbye(s);
	if (s->pipe)
		s->pipe_ops->close(s->pipe);
	else
		(void)close(s->fd);
	s->pipe = NULL;
	s->fd = -1;
	if (!s->in_callback)
		destroy(s);
}

void kh_stream_spoil(struct kh_stream *s)
{
	s->spoilt = true;
}

int kh_stream_fd(const struct kh_stream *s)
{
	return s->fd;
}

bool kh_stream_is_tls(const struct kh_stream *s)
{
	return s->state == STREAM_TLS;
}

void kh_stream_watch(struct kh_stream *s, unsigned events)
{
	s->watch = events & (KH_STREAM_READABLE | KH_STREAM_WRITABLE);
	kh_stream_update(s);
}

/* ---- bytes ---- */

static enum kh_io read_plain(struct kh_stream *s, void *bytes, size_t room, size_t *got)
{
	ssize_t n = kh_stream_raw_read(s, bytes, room);
	if (n > 0) {
		*got = (size_t)n;
		return KH_IO_OK;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return KH_IO_AGAIN;
	if (n < 0)
		explain(s, "read");
	end_reading(s, n == 0 ? KH_IO_EOF : KH_IO_ERROR);
	return s->ended;
}

static enum kh_io read_tls(struct kh_stream *s, void *bytes, size_t room, size_t *got)
{
	forget_errors();
	int rc = SSL_read_ex(s->ssl, bytes, room, got);
	if (rc == 1) {
		s->read_blocked = false;
		s->read_needs_write = false;
		return KH_IO_OK;
	}
	*got = 0;
	return read_stopped(s, rc);
}

static enum kh_io not_open(struct kh_stream *s)
{
	return s->state == STREAM_FAILED ? KH_IO_ERROR : KH_IO_AGAIN;
}

enum kh_io kh_stream_read(struct kh_stream *s, void *bytes, size_t room, size_t *got)
{
	*got = 0;
	if (s->dead || room == 0)
		return KH_IO_AGAIN;
	if (s->state != STREAM_PLAIN && s->state != STREAM_TLS)
		return not_open(s);
	if (s->ended)
		return s->ended;
	enum kh_io io = s->state == STREAM_PLAIN ? read_plain(s, bytes, room, got)
						 : read_tls(s, bytes, room, got);
	kh_stream_update(s);
	return io;
}

static enum kh_io write_plain(struct kh_stream *s, const void *bytes, size_t len, size_t *put)
{
	ssize_t n = kh_stream_raw_write(s, bytes, len);
	if (n >= 0) {
		*put = (size_t)n;
		return KH_IO_OK;
	}
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return KH_IO_AGAIN;
	s->write_failed = true;
	explain(s, "write");
	return KH_IO_ERROR;
}

/* One record at a time, as many as go. */
static enum kh_io write_tls(struct kh_stream *s, const char *bytes, size_t len, size_t *put)
{
	s->write_needs_read = false;
	while (*put < len) {
		size_t n = 0;
		forget_errors();
		int rc = SSL_write_ex(s->ssl, bytes + *put, len - *put, &n);
		if (rc == 1) {
			*put += n;
			continue;
		}
		switch (SSL_get_error(s->ssl, rc)) {
		case SSL_ERROR_WANT_READ:
			s->write_needs_read = true;
			break;
		case SSL_ERROR_WANT_WRITE:
			break;
		default:
			s->write_failed = true;
			explain(s, "write");
			ERR_clear_error();
			return *put > 0 ? KH_IO_OK : KH_IO_ERROR;
		}
		return *put > 0 ? KH_IO_OK : KH_IO_AGAIN;
	}
	return KH_IO_OK;
}

enum kh_io kh_stream_write(struct kh_stream *s, const void *bytes, size_t len, size_t *put)
{
	*put = 0;
	if (s->dead || s->write_failed || s->shut != SHUT_NO)
		return KH_IO_ERROR;
	if (s->state != STREAM_PLAIN && s->state != STREAM_TLS)
		return not_open(s);
	if (len == 0)
		return KH_IO_OK;
	enum kh_io io = s->state == STREAM_PLAIN ? write_plain(s, bytes, len, put)
						 : write_tls(s, bytes, len, put);
	kh_stream_update(s);
	return io;
}

void kh_stream_shutdown_write(struct kh_stream *s)
{
	if (s->dead || s->shut != SHUT_NO || (s->state != STREAM_PLAIN && s->state != STREAM_TLS))
		return;
	try_shutdown(s);
	kh_stream_update(s);
}

bool kh_stream_is_alive(struct kh_stream *s)
{
	char byte;
	if (s->dead || s->ended || s->write_failed || s->shut != SHUT_NO)
		return false;
	if (s->state != STREAM_PLAIN && s->state != STREAM_TLS)
		return false;
	bool silent = recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
		      (errno == EAGAIN || errno == EWOULDBLOCK);
	if (s->state == STREAM_PLAIN)
		return silent;
	if (silent && !s->prefix && !SSL_has_pending(s->ssl))
		return true;
	/* Bytes are there: a ticket is no answer, anything else is one too many. */
	s->drained = false;
	forget_errors();
	int rc = SSL_peek(s->ssl, &byte, 1);
	bool quiet = rc <= 0 && read_stopped(s, rc) == KH_IO_AGAIN;
	rest(s);
	kh_stream_update(s);
	return quiet;
}
