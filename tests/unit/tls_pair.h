/* tls_pair.h - for tests of TLS: a CA, leaves, roots, and two streams that face each other */
#ifndef KEYHOLE_TESTS_TLS_PAIR_H
#define KEYHOLE_TESTS_TLS_PAIR_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/clock.h>
#include <keyhole/tls/tls.h>

static inline struct kh_host host_of(const char *text)
{
	struct kh_host host;
	assert_true(kh_host_parse(&host, kh_slice_str(text), NULL));
	return host;
}

/* A memfd with this text, for kh_roots_load. */
static inline int fd_of(struct kh_slice text)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text.ptr, text.len), (ssize_t)text.len);
	return fd;
}

/* What a worker has: leaves signed by `ca`, contexts, and roots that hold `ca`. */
struct world {
	struct event_base *base;
	struct kh_ca *ca;
	struct kh_leaves *leaves;
	struct kh_roots *roots;
	struct kh_sessions *sessions;
	SSL_CTX *down, *up;
};

static inline void world_trust(struct world *w, struct kh_slice pem)
{
	int fd = fd_of(pem);
	struct kh_err err = KH_ERR_INIT;
	if (!kh_roots_load(w->roots, &fd, 1, &err))
		fail_msg("%s", err.text);
	close(fd);
}

static inline void world_mint(struct world *w, const char *name)
{
	struct kh_host host = host_of(name);
	struct kh_buf der;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&der, 8192);
	if (!kh_ca_sign(w->ca, kh_leaves_spki(w->leaves), &host, KH_CA_LEAF_S, &der, &err) ||
	    !kh_leaves_put(w->leaves, &host, kh_buf_view(&der), &err))
		fail_msg("%s", err.text);
	kh_buf_fini(&der);
}

static inline void world_init(struct world *w)
{
	struct kh_err err = KH_ERR_INIT;
	*w = (struct world){ .base = event_base_new() };
	w->ca = kh_ca_new(&err);
	w->leaves = kh_leaves_new(&err);
	w->roots = kh_roots_new();
	w->sessions = kh_sessions_new(16);
	assert_non_null(w->base);
	assert_non_null(w->ca);
	assert_non_null(w->leaves);
	assert_non_null(w->roots);
	assert_non_null(w->sessions);
	assert_true(kh_leaves_set_issuer(w->leaves, kh_ca_der(w->ca), &err));
	w->down = kh_tls_down_ctx(w->leaves, &err);
	w->up = kh_tls_up_ctx(w->roots, &err);
	assert_non_null(w->down);
	assert_non_null(w->up);
}

static inline void world_fini(struct world *w)
{
	SSL_CTX_free(w->down);
	SSL_CTX_free(w->up);
	kh_sessions_free(w->sessions);
	kh_roots_free(w->roots);
	kh_leaves_free(w->leaves);
	kh_ca_free(w->ca);
	event_base_free(w->base);
}

/* One stream with what has happened to it. */
struct side {
	struct kh_stream *stream;
	unsigned seen; /* events, all of them */
	unsigned done, failed, leaf_asked, calls;
	bool free_on_event;
	size_t read_bytes;
	enum kh_io end; /* 0: none */
	uint64_t sum;	/* of what was read, so that order and content count */
	size_t to_write;
	size_t written;
	bool stop_reading;
	bool close_when_written;
};

static inline uint8_t pattern_at(size_t at)
{
	return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

static inline void side_read(struct side *side)
{
	uint8_t bytes[20000];
	for (int i = 0; i < 8; i++) {
		size_t got = 0;
		enum kh_io io = kh_stream_read(side->stream, bytes, sizeof bytes, &got);
		if (io == KH_IO_AGAIN)
			return;
		if (io != KH_IO_OK) {
			side->end = io;
			kh_stream_watch(side->stream, 0);
			return;
		}
		for (size_t k = 0; k < got; k++)
			side->sum += (uint64_t)(bytes[k] ^ pattern_at(side->read_bytes + k));
		side->read_bytes += got;
	}
}

static inline void side_write(struct side *side)
{
	uint8_t bytes[50000];
	while (side->written < side->to_write) {
		size_t left = side->to_write - side->written, put = 0;
		size_t n = left < sizeof bytes ? left : sizeof bytes;
		for (size_t k = 0; k < n; k++)
			bytes[k] = pattern_at(side->written + k);
		enum kh_io io = kh_stream_write(side->stream, bytes, n, &put);
		if (io != KH_IO_OK)
			return;
		side->written += put;
	}
	if (side->close_when_written) {
		side->close_when_written = false;
		kh_stream_shutdown_write(side->stream);
	}
	kh_stream_watch(side->stream, side->stop_reading ? 0 : KH_STREAM_READABLE);
}

static inline void on_side(struct kh_stream *stream, unsigned events, void *arg)
{
	struct side *side = arg;
	assert_ptr_equal(stream, side->stream);
	side->seen |= events;
	side->calls++;
	if (side->free_on_event) {
		side->stream = NULL;
		kh_stream_free(stream);
		return;
	}
	if (events & KH_STREAM_HANDSHAKE_DONE) {
		assert_int_equal(events, KH_STREAM_HANDSHAKE_DONE);
		side->done++;
		kh_stream_watch(stream, (side->stop_reading ? 0u : KH_STREAM_READABLE) |
						(side->to_write ? KH_STREAM_WRITABLE : 0u));
	}
	if (events & KH_STREAM_HANDSHAKE_FAILED) {
		assert_int_equal(events, KH_STREAM_HANDSHAKE_FAILED);
		side->failed++;
	}
	if (events & KH_STREAM_WANTS_LEAF) {
		assert_int_equal(events, KH_STREAM_WANTS_LEAF);
		side->leaf_asked++;
	}
	if (events & KH_STREAM_READABLE)
		side_read(side);
	if (side->stream && (events & KH_STREAM_WRITABLE))
		side_write(side);
}

/* Two connected sockets, as streams. */
struct pair {
	struct side down, up;
	int down_fd, up_fd;
};

static inline void pair_init(struct pair *p, struct world *w)
{
	int fds[2];
	*p = (struct pair){ 0 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	p->down_fd = fds[0];
	p->up_fd = fds[1];
	p->down.stream = kh_stream_new(w->base, fds[0], on_side, &p->down);
	p->up.stream = kh_stream_new(w->base, fds[1], on_side, &p->up);
	assert_non_null(p->down.stream);
	assert_non_null(p->up.stream);
}

static inline void pair_fini(struct pair *p)
{
	kh_stream_free(p->down.stream);
	kh_stream_free(p->up.stream);
}

static inline void pair_accept(struct pair *p, struct world *w, const char *name)
{
	struct kh_host host = host_of(name);
	assert_true(kh_stream_accept_tls(p->down.stream, w->down, KH_SLICE(""), &host, 5000));
}

static inline void pair_connect(struct pair *p, struct world *w, const char *name, const char *key)
{
	struct kh_host host = host_of(name);
	assert_true(kh_stream_connect_tls(p->up.stream, w->up, &host, w->sessions, key, 5000));
}

static inline void on_pause(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* One turn of the loop, of at most `ms`. */
static inline void turn(struct world *w, int ms)
{
	struct timeval pause = { .tv_usec = ms * 1000 };
	struct event *timer = evtimer_new(w->base, on_pause, NULL);
	assert_non_null(timer);
	assert_int_equal(event_add(timer, &pause), 0);
	assert_true(event_base_loop(w->base, EVLOOP_ONCE) >= 0);
	event_free(timer);
}

/* Turns the loop until the condition holds, at most some seconds. */
#define TURN_UNTIL(w, condition) \
	do { \
		uint64_t until_ = kh_clock_mono_ms() + 20000; \
		while (!(condition) && kh_clock_mono_ms() < until_) \
			turn(w, 20); \
		assert_true(condition); \
	} while (0)

/* Some turns in which something must not happen. */
static inline void turn_for(struct world *w, uint64_t ms)
{
	uint64_t until = kh_clock_mono_ms() + ms;
	while (kh_clock_mono_ms() < until)
		turn(w, 1);
}

#endif
