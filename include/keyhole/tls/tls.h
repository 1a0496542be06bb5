/* tls.h - leaves, contexts and byte streams of both sides, in the worker */
#ifndef KEYHOLE_TLS_TLS_H
#define KEYHOLE_TLS_TLS_H

#include <sys/types.h>

#include <openssl/ssl.h>

#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/base/slice.h>

struct event_base;

/*
 * Leaves. One P-256 key for all, made by the worker and never leaving it; a bounded cache of
 * certificates that the keeper signed, shared by the threads (locked inside). A leaf of whose life
 * less than a fifth is left is not found any more.
 */
struct kh_leaves;
struct kh_leaves *kh_leaves_new(struct kh_err *err);
/* Of another issuer: the key is that of `of`, and the bounded cache too, but neither finds a leaf
 * of the other. `of` is one of kh_leaves_new, and lives longer. NULL: no memory. */
struct kh_leaves *kh_leaves_branch(struct kh_leaves *of);
struct kh_leaves *kh_leaves_ref(struct kh_leaves *leaves);
/* The last reference frees it; NULL is fine. */
void kh_leaves_free(struct kh_leaves *leaves);
/* A certificate that signs was told. */
bool kh_leaves_has_issuer(struct kh_leaves *leaves);
/* SubjectPublicKeyInfo, DER; lives as long as `leaves`. */
struct kh_slice kh_leaves_spki(const struct kh_leaves *leaves);
/* Where it is another one than before, no leaf of that one is found any more. */
bool kh_leaves_set_issuer(struct kh_leaves *leaves, struct kh_slice ca_der, struct kh_err *err);
bool kh_leaves_put(struct kh_leaves *leaves, const struct kh_host *host, struct kh_slice der,
		   struct kh_err *err);
bool kh_leaves_has(struct kh_leaves *leaves, const struct kh_host *host);
/* There was one, of an issuer of before: another is what nobody is to be charged for. */
bool kh_leaves_had(struct kh_leaves *leaves, const struct kh_host *host);
/* The certificates that whoever trusts the leaves has to trust, as PEM: while the CA is changed
 * there are two. Return: false without memory. */
struct kh_buf;
bool kh_leaves_set_trusted(struct kh_leaves *leaves, struct kh_slice pem, struct kh_err *err);
bool kh_leaves_put_trusted(struct kh_leaves *leaves, struct kh_buf *out);

/* Trust roots. PEM files are read off the path to readiness (3 ms for the system's), each
 * certificate when a chain first leads to it; until then kh_roots_ready says false and upstream
 * handshakes wait. Safe from several threads. */
struct kh_roots;
struct kh_roots *kh_roots_new(void);
/* Blocking, for a thread of its own; takes no descriptor over. A file without a certificate is an
 * error. */
bool kh_roots_load(struct kh_roots *roots, const int *fds, unsigned n_fds, struct kh_err *err);
bool kh_roots_ready(const struct kh_roots *roots);
void kh_roots_free(struct kh_roots *roots);

/* Contexts, one of each a thread. */
SSL_CTX *kh_tls_down_ctx(struct kh_leaves *leaves, struct kh_err *err);
/* TLS 1.2+, peer verified against `roots` (those of the moment of the handshake), partial chains
 * not accepted, SNI and host name (or address) checked. */
SSL_CTX *kh_tls_up_ctx(struct kh_roots *roots, struct kh_err *err);

/* Sessions of upstreams for resumption: by key (the pool's), one thread's. A TLS 1.3 ticket is used
 * once. */
struct kh_sessions;
struct kh_sessions *kh_sessions_new(size_t most);
void kh_sessions_free(struct kh_sessions *sessions);

/*
 * A byte stream over a descriptor (or a pipe, see below): plain at first, TLS after one of the two
 * calls below. It drives SSL_read and SSL_write itself on libevent events; no bytes are kept in it
 * but what TLS needs, and `prefix`.
 *
 * Events come through one callback, always from the loop, never from inside a call on the stream.
 * The callback may free the stream.
 */
struct kh_stream;

enum kh_stream_event {
	KH_STREAM_READABLE = 1 << 0, /* kh_stream_read has something to say (bytes, end or error) */
	KH_STREAM_WRITABLE = 1 << 1,
	KH_STREAM_HANDSHAKE_DONE = 1 << 2,   /* alone */
	KH_STREAM_HANDSHAKE_FAILED = 1 << 3, /* alone; kh_stream_error says why */
	KH_STREAM_WANTS_LEAF = 1 << 4,	     /* alone; down side: kh_stream_leaf_ready goes on */
};
typedef void kh_stream_cb(struct kh_stream *stream, unsigned events, void *arg);

/* Takes `fd` (non-blocking) over, unless NULL is returned (no memory). Nothing is watched until
 * kh_stream_watch. */
struct kh_stream *kh_stream_new(struct event_base *base, int fd, kh_stream_cb *cb, void *arg);
/*
 * What a stream may run on instead of a descriptor: bytes that travel inside another connection.
 * Nothing here calls the stream; whoever makes something ready says so by kh_stream_pipe_changed.
 */
struct kh_pipe_ops {
	/* As recv and send: 0: the end; -1 with errno, EAGAIN where nothing goes now. */
	ssize_t (*read)(void *pipe, void *bytes, size_t room);
	ssize_t (*write)(void *pipe, const void *bytes, size_t len);
	/* Which of KH_STREAM_READABLE (bytes, end or error) and KH_STREAM_WRITABLE hold. */
	unsigned (*ready)(const void *pipe);
	void (*shutdown)(void *pipe); /* nothing more is written */
	void (*close)(void *pipe);    /* the stream is gone */
};
/* Takes `pipe` over, unless NULL is returned. */
struct kh_stream *kh_stream_new_over(struct event_base *base, const struct kh_pipe_ops *ops,
				     void *pipe, kh_stream_cb *cb, void *arg);
/* What `ready` says is another thing now: events follow from the loop. */
void kh_stream_pipe_changed(struct kh_stream *stream);
void kh_stream_set_callback(struct kh_stream *stream, kh_stream_cb *cb, void *arg);
/* Sends close_notify where TLS stands, closes, frees; also from inside the callback. No event
 * follows. */
void kh_stream_free(struct kh_stream *stream);
/* What was written is not all: from now on kh_stream_free says no goodbye (no close_notify), so
 * that nobody takes the end for a whole one. */
void kh_stream_spoil(struct kh_stream *stream);
int kh_stream_fd(const struct kh_stream *stream);
bool kh_stream_is_tls(const struct kh_stream *stream);
/* Sets which of READABLE and WRITABLE are reported, from now on, as long as they hold
 * (level-triggered; bytes that TLS has already decrypted count). 0 stops. */
void kh_stream_watch(struct kh_stream *stream, unsigned events);

enum kh_io {
	KH_IO_OK = 1,
	KH_IO_AGAIN,
	KH_IO_EOF,	 /* a clean end: FIN on a plain stream, close_notify on TLS */
	KH_IO_TRUNCATED, /* FIN on TLS without close_notify: whoever relies on the end must not */
	KH_IO_ERROR, /* kh_stream_error; a plain stream does not know its side and says UP_CLOSED */
};
/* Up to `room` bytes. */
enum kh_io kh_stream_read(struct kh_stream *stream, void *bytes, size_t room, size_t *got);
/* As many as go now; fewer is OK too. After AGAIN the same bytes may be given from another address.
 */
enum kh_io kh_stream_write(struct kh_stream *stream, const void *bytes, size_t len, size_t *put);
/* Half-close: FIN, or close_notify and FIN. Reading goes on. */
void kh_stream_shutdown_write(struct kh_stream *stream);
const struct kh_err *kh_stream_error(const struct kh_stream *stream);

/*
 * Server side towards a sandbox. `prefix` are bytes that were already read (copied; they come
 * before the descriptor's). `host` is the tunnel's authority: the leaf is always for it. SNI must
 * be absent or name exactly it; where it doesn't, the handshake is completed all the same, so that
 * the refusal (421) can be read, and kh_stream_sni_mismatch says so after HANDSHAKE_DONE: the
 * session then forwards nothing. Where no leaf for `host` is in the cache when it is needed:
 * KH_STREAM_WANTS_LEAF, and the handshake rests until kh_stream_leaf_ready (false: it fails with
 * LEAF_UNAVAILABLE). ALPN: h2 is chosen where offered, else http/1.1; offers without
 * either end in no_application_protocol. Tickets on.
 */
bool kh_stream_accept_tls(struct kh_stream *stream, SSL_CTX *ctx, struct kh_slice prefix,
			  const struct kh_host *host, uint32_t timeout_ms);
/* Right behind it, or while it wants a leaf: another's leaves than those of the context are shown,
 * of whose tickets none of others is resumed. Return: false: no memory; the stream is good for
 * nothing but to be freed. */
bool kh_stream_use_leaves(struct kh_stream *stream, struct kh_leaves *leaves);
/* Right behind it: the sandbox gets no TLS 1.3 session ticket this time. */
void kh_stream_send_no_ticket(struct kh_stream *stream);
void kh_stream_leaf_ready(struct kh_stream *stream, bool found);
/* The SNI that did not fit (escaped text, bounded), or NULL. */
const char *kh_stream_sni_mismatch(const struct kh_stream *stream);

/* Client side towards an upstream: SNI, verification and resumption under `session_key` (NULL:
 * none). `up_ctx` waits for its roots by itself (the timeout counts). */
bool kh_stream_connect_tls(struct kh_stream *stream, SSL_CTX *ctx, const struct kh_host *host,
			   struct kh_sessions *sessions, const char *session_key,
			   uint32_t timeout_ms);
/* Right behind it: h2 is offered, and http/1.1 behind that; else http/1.1 alone (ALPN). What was
 * not offered and is chosen all the same fails. */
void kh_stream_offer_h2(struct kh_stream *stream);
/* Was HTTP/2 agreed upon (ALPN)? */
bool kh_stream_is_h2(const struct kh_stream *stream);
/* Up side: was none agreed upon? It was chosen none, or the handshake has failed for that. */
bool kh_stream_lacks_protocol(const struct kh_stream *stream);
/* "TLSv1.3"; NULL on a plain stream. */
const char *kh_stream_tls_version(const struct kh_stream *stream);
/* Was a session resumed (no certificates were sent this time)? */
bool kh_stream_is_resumed(const struct kh_stream *stream);
/* Does an idle connection still live: nothing to read, no end, no error (one non-blocking peek). */
bool kh_stream_is_alive(struct kh_stream *stream);
/* Has something come, bytes, an end or an error, that was not read (one non-blocking peek)? Where
 * it has, reading makes it go away. */
bool kh_stream_has_news(struct kh_stream *stream);
/* Are there bytes that have come from the descriptor already and were not read? They are worth one
 * more read, which asks the kernel for nothing. */
bool kh_stream_has_more(const struct kh_stream *stream);

#endif
