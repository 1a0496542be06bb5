/* stream_internal.h - the parts of a byte stream: its life, its BIO, its handshake */
#ifndef KEYHOLE_TLS_STREAM_INTERNAL_H
#define KEYHOLE_TLS_STREAM_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include "tls_internal.h"

/*
 *            accept_tls, connect_tls
 *   PLAIN ───────────────┬──────────────▶ ROOTS (up, while they are loaded)
 *                        ▼                  │
 *   LEAF ◀────────── HANDSHAKE ◀────────────┘
 *   (down, rests) ──▶    │ ╲
 *                       TLS  FAILED
 */
enum stream_state {
	STREAM_PLAIN = 1,
	STREAM_ROOTS,
	STREAM_HANDSHAKE,
	STREAM_LEAF,
	STREAM_TLS,
	STREAM_FAILED,
};

/* What is needed until the handshake is over, and freed then. */
struct handshake {
	struct kh_host host;
	uint32_t timeout_ms;
	unsigned want; /* EV_READ or EV_WRITE */
	bool leaf_refused;
	struct kh_leaves *leaves; /* a reference; NULL: the context's */
	struct kh_roots *roots;
	int verify_error; /* X509_V_OK: nothing was refused */
	int verify_depth;
	const char *verify_fault; /* ours, behind OpenSSL's checks; NULL: OpenSSL's error */
	char *verify_subject;	  /* of the certificate that was refused; escaped */
	char *verify_names;	  /* that the leaf is for; escaped */
};

struct kh_stream {
	struct event_base *base;
	kh_stream_cb *cb;
	void *arg;
	struct event on_read, on_write, on_kick;
	int fd; /* -1 with a pipe */
	const struct kh_pipe_ops *pipe_ops;
	void *pipe;
	enum stream_state state;
	unsigned watch;
	bool read_armed, write_armed, kicked;
	bool in_callback, dead;
	bool offers_h2;
	bool no_protocol; /* the handshake failed for want of one */
	bool is_up;
	bool has_identity; /* a certificate of our own, until the handshake is over */
	bool signs;	   /* … with its key, just now */
	/* The socket gave less than there was room for: until the loop says otherwise there is
	 * nothing more. */
	bool drained;
	bool read_blocked; /* nothing can be decrypted before bytes come */
	bool read_needs_write, write_needs_read;
	bool raw_eof;
	int raw_error;	  /* errno of the socket's last failure */
	enum kh_io ended; /* 0: not yet; what reading has come to */
	bool spoilt;	  /* ends without close_notify */
	bool write_failed;
	enum { SHUT_NO = 0, SHUT_WANTED, SHUT_DONE } shut;
	SSL *ssl;
	char *prefix; /* read before the descriptor */
	size_t prefix_len, prefix_at;
	struct handshake *handshake;
	struct event *deadline; /* while there is a handshake */
	struct kh_err *err;
	char *sni_mismatch;
	struct kh_sessions *sessions;
	char *session_key;
};

/* stream.c */
/* After a change of state or interest: arms what is waited for. */
void kh_stream_update(struct kh_stream *s);
/* Comes back to the loop; `delay_ms` 0: in its next turn. */
void kh_stream_kick(struct kh_stream *s, uint32_t delay_ms);
/* Calls the callback. Return: false: the stream is gone. */
bool kh_stream_report(struct kh_stream *s, unsigned events);
/* The stream's own error to write into; never NULL. */
struct kh_err *kh_stream_err(struct kh_stream *s);

/* Gives back memory that an idle connection does not need. */
void kh_stream_rest(struct kh_stream *s);

/* stream_io.c */
/* Is there really something to say? A record may be half there, or hold nothing but a ticket. */
bool kh_stream_probe(struct kh_stream *s);
void kh_stream_try_shutdown(struct kh_stream *s);

/* identity.c */
/* After each step of a handshake. */
void kh_stream_signs_no_more(struct kh_stream *s);

/* stream_bio.c */
BIO *kh_stream_bio_new(struct kh_stream *s);
/* Bytes from the prefix and the socket. Return: > 0; 0 at the end; -1 with errno. */
ssize_t kh_stream_raw_read(struct kh_stream *s, void *bytes, size_t room);
ssize_t kh_stream_raw_write(struct kh_stream *s, const void *bytes, size_t len);

/* handshake.c */
/* Goes on with whatever the handshake waits for. */
void kh_stream_drive(struct kh_stream *s);
void kh_stream_handshake_free(struct kh_stream *s);

/* handshake_error.c */
void kh_stream_explain_failure(struct kh_stream *s);
void kh_stream_explain_timeout(struct kh_stream *s);

/* contexts.c */
struct kh_roots *kh_tls_ctx_roots(const SSL_CTX *ctx);

#endif
