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
 * Leaves. The worker makes one P-256 key for all leaves, and the key never leaves it. The
 * certificates, which the keeper signed, are in a bounded cache that the threads share (locked
 * inside). A lookup does not find a leaf that has less than a fifth of its lifetime left.
 */
struct kh_leaves;
struct kh_leaves *kh_leaves_new(struct kh_err *err);
/* Leaves of another issuer. They share the key and the bounded cache of `of`, but neither finds a
 * leaf of the other. `of` must come from kh_leaves_new and outlive the result. Return: NULL without
 * memory. */
struct kh_leaves *kh_leaves_branch(struct kh_leaves *of);
struct kh_leaves *kh_leaves_ref(struct kh_leaves *leaves);
/* Drops a reference; the last one frees it. NULL is fine. */
void kh_leaves_free(struct kh_leaves *leaves);
/* Has kh_leaves_set_issuer succeeded? */
bool kh_leaves_has_issuer(struct kh_leaves *leaves);
/* SubjectPublicKeyInfo, DER; lives as long as `leaves`. */
struct kh_slice kh_leaves_spki(const struct kh_leaves *leaves);
/* Sets the CA certificate that leaves are signed by. If it differs from the one before, leaves that
 * the earlier one signed are no longer found. */
bool kh_leaves_set_issuer(struct kh_leaves *leaves, struct kh_slice ca_der, struct kh_err *err);
bool kh_leaves_put(struct kh_leaves *leaves, const struct kh_host *host, struct kh_slice der,
		   struct kh_err *err);
bool kh_leaves_has(struct kh_leaves *leaves, const struct kh_host *host);
/* Is a leaf of an earlier issuer in the cache? Then the sandbox is not charged for its
 * replacement. */
bool kh_leaves_had(struct kh_leaves *leaves, const struct kh_host *host);
/* The CA certificates that clients have to trust, as PEM; there are two while the CA is being
 * changed. _set_ copies them, _put_ appends them. Return: false without memory, or if none were
 * set. */
struct kh_buf;
bool kh_leaves_set_trusted(struct kh_leaves *leaves, struct kh_slice pem, struct kh_err *err);
bool kh_leaves_put_trusted(struct kh_leaves *leaves, struct kh_buf *out);

/* Trust roots. PEM files are loaded on a separate thread, so that they don't delay readiness (the
 * system's take 3 ms). Each certificate is decoded when a chain first leads to it. Until the files
 * are loaded kh_roots_ready returns false and upstream handshakes wait. Safe from several
 * threads. */
struct kh_roots;
struct kh_roots *kh_roots_new(void);
/* Blocks, so it runs on a thread of its own. The descriptors stay the caller's. A file without a
 * certificate is an error. */
bool kh_roots_load(struct kh_roots *roots, const int *fds, unsigned n_fds, struct kh_err *err);
bool kh_roots_ready(const struct kh_roots *roots);
void kh_roots_free(struct kh_roots *roots);

/* Contexts: one of each per thread. Return: NULL with `err`; freed with SSL_CTX_free. */
SSL_CTX *kh_tls_down_ctx(struct kh_leaves *leaves, struct kh_err *err);
/* TLS 1.2 or later. The peer is verified against the `roots` that are loaded when the handshake
 * begins, without partial chains, and its certificate must be for the host name or address. */
SSL_CTX *kh_tls_up_ctx(struct kh_roots *roots, struct kh_err *err);

/* Upstream sessions for resumption, by the pool's key; for one thread. `most` bounds how many are
 * kept. A TLS 1.3 ticket is used once. */
struct kh_sessions;
struct kh_sessions *kh_sessions_new(size_t most);
void kh_sessions_free(struct kh_sessions *sessions);

/*
 * A byte stream over a descriptor (or a pipe, see below): plain at first, TLS after one of the two
 * calls below. It calls SSL_read and SSL_write itself on libevent events. It buffers nothing except
 * `prefix` and what TLS needs.
 *
 * Events come through one callback, always from the loop, never from inside a call on the stream.
 * The callback may free the stream.
 */
struct kh_stream;

enum kh_stream_event {
	/* kh_stream_read has something to say (bytes, end or error), or a sandbox sent messages
	 * without content (kh_stream_take_messages). */
	KH_STREAM_READABLE = 1 << 0,
	KH_STREAM_WRITABLE = 1 << 1,
	KH_STREAM_HANDSHAKE_DONE = 1 << 2,   /* alone */
	KH_STREAM_HANDSHAKE_FAILED = 1 << 3, /* alone; kh_stream_error says why */
	KH_STREAM_WANTS_LEAF = 1 << 4,	     /* alone; down side: kh_stream_leaf_ready goes on */
};
typedef void kh_stream_cb(struct kh_stream *stream, unsigned events, void *arg);

/* Takes ownership of `fd` (non-blocking), unless it returns NULL (no memory). Nothing is watched
 * until kh_stream_watch. */
struct kh_stream *kh_stream_new(struct event_base *base, int fd, kh_stream_cb *cb, void *arg);
/*
 * What a stream may run on instead of a descriptor: bytes that travel inside another connection.
 * These functions must not call the stream. Whoever makes the pipe ready calls
 * kh_stream_pipe_changed.
 */
struct kh_pipe_ops {
	/* As recv and send: 0 is the end; -1 sets errno, EAGAIN if it would block. */
	ssize_t (*read)(void *pipe, void *bytes, size_t room);
	ssize_t (*write)(void *pipe, const void *bytes, size_t len);
	/* Which of KH_STREAM_READABLE (bytes, end or error) and KH_STREAM_WRITABLE hold. */
	unsigned (*ready)(const void *pipe);
	void (*shutdown)(void *pipe); /* no more writes follow */
	void (*close)(void *pipe);    /* the stream was freed: frees the pipe */
};
/* Takes ownership of `pipe`, unless it returns NULL (no memory). */
struct kh_stream *kh_stream_new_over(struct event_base *base, const struct kh_pipe_ops *ops,
				     void *pipe, kh_stream_cb *cb, void *arg);
/* The result of `ready` has changed. The loop reports the events later. */
void kh_stream_pipe_changed(struct kh_stream *stream);
void kh_stream_set_callback(struct kh_stream *stream, kh_stream_cb *cb, void *arg);
/* All are called with the callback's `arg`; each may be NULL. */
struct kh_stream_gate {
	/* Asked before anything is done with what may have come: before READABLE is reported, and
	 * before each step of a handshake. Return: false: not now. It has stopped watching for
	 * READABLE then, and calls kh_stream_go_on later if there is a handshake. NULL: always. */
	bool (*may_read)(void *arg);
	/* After a step of the handshake: it has read `bytes`, and done what so many ClientHellos,
	 * and ClientKeyExchanges of TLS 1.2, asked for. The stream must not be freed. */
	void (*did_step)(void *arg, size_t bytes, unsigned keys);
	/* After a step, too: the CPU time that it took. The stream must not be freed. */
	void (*did_compute)(void *arg, uint64_t cpu_ns);
};
void kh_stream_set_gate(struct kh_stream *stream, const struct kh_stream_gate *gate);
/* The step of the handshake that may_read refused, if there is one. It may call the callback. */
void kh_stream_go_on(struct kh_stream *stream);
/* Sends close_notify if TLS is established, closes and frees. May be called from the callback. No
 * event follows. */
void kh_stream_free(struct kh_stream *stream);
/* The message that was written is incomplete: kh_stream_free will send no close_notify, so that the
 * peer detects the truncation. */
void kh_stream_spoil(struct kh_stream *stream);
int kh_stream_fd(const struct kh_stream *stream);
bool kh_stream_is_tls(const struct kh_stream *stream);
/* Sets which of READABLE and WRITABLE are reported from now on (level-triggered; bytes that TLS has
 * already decrypted count). 0 stops both. */
void kh_stream_watch(struct kh_stream *stream, unsigned events);

enum kh_io {
	KH_IO_OK = 1,
	KH_IO_AGAIN,
	KH_IO_EOF,	 /* a clean end: FIN on a plain stream, close_notify on TLS */
	KH_IO_TRUNCATED, /* FIN on TLS without close_notify: the message may be cut off */
	KH_IO_ERROR,	 /* see kh_stream_error; a plain stream does not know its side and reports
			    UP_CLOSED */
};
/* Up to `room` bytes. */
enum kh_io kh_stream_read(struct kh_stream *stream, void *bytes, size_t room, size_t *got);
/* How many TLS messages without content reading has taken since the last call (roughly). More than
 * KH_LIMIT_TLS_MESSAGES_DOWN or _UP end reading with an error. */
unsigned kh_stream_take_messages(struct kh_stream *stream);
/* Writes what fits now; OK may have written fewer than `len`. After AGAIN the same bytes may be
 * passed at another address. */
enum kh_io kh_stream_write(struct kh_stream *stream, const void *bytes, size_t len, size_t *put);
/* Half-close: FIN, or close_notify and FIN. Reading goes on. */
void kh_stream_shutdown_write(struct kh_stream *stream);
const struct kh_err *kh_stream_error(const struct kh_stream *stream);

/*
 * Server side towards a sandbox. `prefix` are bytes that were already read (copied; they come
 * before the descriptor's). `host` is the host of the tunnel's authority, and the leaf is always
 * for it. SNI must be absent or equal to it. If it differs, the handshake completes anyway, so that
 * the client can read the refusal (421); kh_stream_sni_mismatch returns it after HANDSHAKE_DONE,
 * and the session then forwards nothing. If the cache has no leaf for `host`, KH_STREAM_WANTS_LEAF
 * is reported and the handshake waits for kh_stream_leaf_ready (`found` false: it fails with
 * LEAF_UNAVAILABLE). ALPN selects h2 if offered, else http/1.1; an offer of neither ends in
 * no_application_protocol. Session tickets are on. Return: false without memory; the stream can
 * then only be freed.
 */
bool kh_stream_accept_tls(struct kh_stream *stream, SSL_CTX *ctx, struct kh_slice prefix,
			  const struct kh_host *host, uint32_t timeout_ms);
/* Right after kh_stream_accept_tls, or while the stream wants a leaf: use these leaves instead of
 * the context's. A ticket that was issued with other leaves is not resumed. Return: false: no
 * memory, or the handshake is in another state; the stream can then only be freed. */
bool kh_stream_use_leaves(struct kh_stream *stream, struct kh_leaves *leaves);
/* Right after kh_stream_accept_tls: send no TLS 1.3 session ticket in this handshake. */
void kh_stream_send_no_ticket(struct kh_stream *stream);
void kh_stream_leaf_ready(struct kh_stream *stream, bool found);
/* The SNI that differs from `host` (escaped, bounded), or NULL. Lives as long as the stream. */
const char *kh_stream_sni_mismatch(const struct kh_stream *stream);

/* Client side towards an upstream: SNI, verification, and resumption under `session_key` (copied;
 * NULL: no resumption). The handshake waits until the roots of `ctx` are loaded; the timeout
 * includes this. Return: false without memory; the stream can then only be freed. */
bool kh_stream_connect_tls(struct kh_stream *stream, SSL_CTX *ctx, const struct kh_host *host,
			   struct kh_sessions *sessions, const char *session_key,
			   uint32_t timeout_ms);
/* Right after kh_stream_connect_tls: offer h2, then http/1.1 (ALPN). Without this call only
 * http/1.1 is offered. The handshake fails if the server selects a protocol that was not
 * offered. */
void kh_stream_offer_h2(struct kh_stream *stream);
/* Was HTTP/2 negotiated (ALPN)? */
bool kh_stream_is_h2(const struct kh_stream *stream);
/* Up side: was no ALPN protocol negotiated? The server selected none, or the handshake failed with
 * no_application_protocol. */
bool kh_stream_lacks_protocol(const struct kh_stream *stream);
/* "TLSv1.3"; NULL on a plain stream. */
const char *kh_stream_tls_version(const struct kh_stream *stream);
/* Was a session resumed (no certificates were sent this time)? */
bool kh_stream_is_resumed(const struct kh_stream *stream);
/* Is an idle connection still usable: no data, no end, no error? TLS session tickets are not data.
 * Does not block. */
bool kh_stream_is_alive(struct kh_stream *stream);
/* Are bytes, an end or an error waiting to be read (one non-blocking peek)? True until they are
 * read. */
bool kh_stream_has_news(struct kh_stream *stream);
/* Does TLS hold bytes that it has read from the descriptor and the caller has not? Then one more
 * read needs no system call. */
bool kh_stream_has_more(const struct kh_stream *stream);

#endif
