/*
 * stream.c - a byte stream over a descriptor, plain or TLS
 *
 * `interest` and `holds_now` compute from the state what is waited for. `kh_stream_update`, called
 * after every change, arms the loop's events accordingly. The callback is only called from the
 * loop: when the descriptor is ready to read or to write, or at a kick. A kick is a timer of zero
 * that runs in the next turn. It reports bytes that OpenSSL has already decrypted while the
 * descriptor has none, and lets other connections run in between.
 *
 * Reading stops lazily: the read event stays armed until bytes come that the user does not want.
 * Usually the next request follows the answer, and this saves two system calls each time.
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
	return s->state >= STREAM_FAILED || s->reading == READ_ERROR ||
			       s->writing == WRITE_FAILED || s->writing == WRITE_FAILED_CLOSED
		       ? &no_memory
		       : &none;
}

/* ---- what is waited for ---- */

/* On the descriptor: EV_READ, EV_WRITE. */
static unsigned interest(const struct kh_stream *s)
{
	unsigned want = 0;
	switch (s->state) {
	case STREAM_HANDSHAKE:
		return s->kicked || s->held ? 0 : s->handshake->want;
	case STREAM_ROOTS:
	case STREAM_LEAF:
	case STREAM_FAILED:
	case STREAM_NO_PROTOCOL:
	case STREAM_BROKEN:
		return 0;
	case STREAM_PLAIN:
	case STREAM_TLS:
		break;
	}
	if ((s->watch & KH_STREAM_READABLE) && !stream_has_ended(s))
		want |= stream_reads_by_write(s) ? EV_WRITE : EV_READ;
	if (s->watch & KH_STREAM_WRITABLE)
		want |= s->writing == WRITE_NEEDS_READ ? EV_READ : EV_WRITE;
	if (s->writing == WRITE_CLOSING)
		want |= EV_WRITE;
	return want;
}

/* Events that hold although the descriptor may be silent. */
static unsigned holds_now(const struct kh_stream *s)
{
	if (!stream_is_ready(s))
		return s->state == STREAM_BROKEN ? s->watch : 0;
	if (!(s->watch & KH_STREAM_READABLE))
		return 0;
	if (stream_has_ended(s))
		return KH_STREAM_READABLE;
	if (s->state == STREAM_TLS && (s->reading == READ_OPEN || s->reading == READ_RETRY) &&
	    (SSL_has_pending(s->ssl) || s->prefix))
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
	if (s->life != LIFE_IDLE)
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
 * OpenSSL before these frees buffers that a half-read record is still in (CVE-2024-4741). A
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
void kh_stream_trim(struct kh_stream *s)
{
	if (s->state == STREAM_TLS && frees_only_idle_buffers())
		(void)SSL_free_buffers(s->ssl); /* not those with bytes in them */
}

bool kh_stream_report(struct kh_stream *s, unsigned events)
{
	if (!kh_stream_set_life(s, LIFE_REPORTS))
		return true;
	s->cb(s, events, s->arg);
	if (s->life == LIFE_FREED) {
		destroy(s);
		return false;
	}
	(void)kh_stream_set_life(s, LIFE_IDLE);
	kh_stream_trim(s);
	kh_stream_update(s);
	return true;
}

/* What reading waits for is there. */
static void unblock(struct kh_stream *s)
{
	if (s->reading == READ_BLOCKED)
		(void)kh_stream_set_reading(s, READ_OPEN);
	else if (s->reading == READ_BLOCKED_BY_WRITE)
		(void)kh_stream_set_reading(s, READ_RETRY);
}

/* What has come is work, even for TLS alone. */
static bool may_read(const struct kh_stream *s)
{
	return !s->gate.may_read || s->gate.may_read(s->arg);
}

/* `ready`: what the descriptor is ready for. */
static void serve(struct kh_stream *s, unsigned ready)
{
	unsigned events = 0;
	if (s->writing == WRITE_CLOSING && (ready & EV_WRITE))
		kh_stream_try_shutdown(s);
	unsigned for_read = stream_reads_by_write(s) ? EV_WRITE : EV_READ;
	unsigned for_write = s->writing == WRITE_NEEDS_READ ? EV_READ : EV_WRITE;
	if (ready & for_read)
		unblock(s);
	if ((s->watch & KH_STREAM_READABLE) && ((ready & for_read) || holds_now(s)) &&
	    may_read(s) && kh_stream_probe(s))
		events |= KH_STREAM_READABLE;
	if ((s->watch & KH_STREAM_WRITABLE) && (ready & for_write))
		events |= KH_STREAM_WRITABLE;
	if (events) {
		(void)kh_stream_report(s, events);
		return;
	}
	kh_stream_trim(s);
	kh_stream_update(s);
}

static void wake(struct kh_stream *s, unsigned ready)
{
	switch (s->state) {
	case STREAM_ROOTS:
		kh_stream_drive(s);
		return;
	case STREAM_HANDSHAKE:
		s->held = !may_read(s);
		if (s->held)
			kh_stream_update(s);
		else
			kh_stream_drive(s);
		return;
	case STREAM_BROKEN:
		if (s->handshake)
			kh_stream_drive(s);
		else if (s->watch)
			(void)kh_stream_report(s, s->watch);
		return;
	case STREAM_LEAF:
	case STREAM_FAILED:
	case STREAM_NO_PROTOCOL:
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
	stream_refill(s);
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
		stream_refill(s);
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

void kh_stream_set_gate(struct kh_stream *s, const struct kh_stream_gate *gate)
{
	s->gate = *gate;
}

void kh_stream_go_on(struct kh_stream *s)
{
	if (!s->held)
		return;
	s->held = false;
	if (s->state == STREAM_HANDSHAKE)
		kh_stream_drive(s);
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
		if (s->state == STREAM_TLS && stream_is_writable(s) && !s->spoilt)
			(void)SSL_shutdown(s->ssl);
		ERR_clear_error();
		/* Freed while it counts as open, a session is taken for broken and never resumed.
		 */
		if (s->state == STREAM_TLS && s->reading != READ_ERROR)
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
	if (!s || s->life == LIFE_FREED)
		return;
	bool reports = s->life == LIFE_REPORTS;
	(void)kh_stream_set_life(s, LIFE_FREED);
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
	if (!reports)
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
