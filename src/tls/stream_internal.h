/* stream_internal.h - the parts of a byte stream: its life, its BIO, its handshake */
#ifndef KEYHOLE_TLS_STREAM_INTERNAL_H
#define KEYHOLE_TLS_STREAM_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include "stream_state.h"
#include "tls_internal.h"

/* Which side of keyhole's a stream is on; set when TLS begins. */
enum stream_side {
	STREAM_DOWN = 0, /* a plain one does not know its side */
	STREAM_UP,
	STREAM_UP_H2, /* … and h2 is offered */
};

/* What is needed until the handshake is over, and freed then. */
struct handshake {
	struct kh_host host;
	uint32_t timeout_ms;
	unsigned want; /* EV_READ or EV_WRITE */
	size_t bytes;  /* that a sandbox has sent */
	size_t unpaid_bytes;
	unsigned unpaid_keys; /* messages that have keys made, or are about to */
	bool leaf_refused;
	struct kh_leaves *leaves; /* a reference; NULL: the context's */
	struct kh_roots *roots;
	int verify_error; /* X509_V_OK: nothing was refused */
	int verify_depth;
	const char *excess;	  /* in a message of the upstream's; NULL: none (flight.c) */
	const char *verify_fault; /* our own check, after OpenSSL's; NULL: OpenSSL's error */
	char *verify_subject;	  /* of the certificate that was refused; escaped */
	char *verify_names;	  /* that the leaf is for; escaped */
};

struct kh_stream {
	struct event_base *base;
	kh_stream_cb *cb;
	void *arg;
	struct kh_stream_gate gate;
	struct event on_read, on_write, on_kick;
	int fd; /* -1 with a pipe */
	const struct kh_pipe_ops *pipe_ops;
	void *pipe;
	enum stream_state state;
	enum stream_life life;
	enum stream_reading reading;
	enum stream_socket socket;
	enum stream_writing writing;
	enum stream_identity identity;
	enum stream_side side;
	unsigned watch;
	/* What libevent was asked for, each by itself. They follow the states: kh_stream_update. */
	bool read_armed, write_armed, kicked;
	bool held;     /* a step of the handshake waits for kh_stream_go_on */
	bool spoilt;   /* ends without close_notify: the user says so, in any state */
	int raw_error; /* errno of the socket's last failure */
	/* TLS messages without content: those that content has not paid for, those that nobody was
	 * told of, and content that has not paid for a whole one (messages.c). */
	unsigned messages, new_messages;
	size_t paid_bytes;
	unsigned reads; /* from the descriptor or pipe, each of all that was asked for */
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

/* Each makes one transition. Return: false: the table has no such transition; the field is
 * unchanged and the stream is BROKEN (stream_state.c). */
#define STREAM_SETTER(x) \
	static inline bool kh_stream_set_##x(struct kh_stream *s, enum stream_##x to) \
	{ \
		if (!stream_may(stream_##x##_next, s->x, to)) \
			return kh_stream_refuse_step(s, &kh_stream_##x##_machine, s->x, to); \
		s->x = to; \
		return true; \
	}
STREAM_SETTER(state)
STREAM_SETTER(life)
STREAM_SETTER(reading)
STREAM_SETTER(socket)
STREAM_SETTER(writing)
STREAM_SETTER(identity)
#undef STREAM_SETTER

/* Bytes of the user's go to and fro. */
static inline bool stream_is_ready(const struct kh_stream *s)
{
	return s->state == STREAM_PLAIN || s->state == STREAM_TLS;
}

static inline bool stream_has_ended(const struct kh_stream *s)
{
	return s->reading >= READ_EOF;
}

static inline bool stream_is_writable(const struct kh_stream *s)
{
	return s->writing <= WRITE_NEEDS_READ;
}

/* To read, TLS waits until bytes can go. */
static inline bool stream_reads_by_write(const struct kh_stream *s)
{
	return s->reading == READ_BLOCKED_BY_WRITE || s->reading == READ_RETRY;
}

/* The loop says that bytes may have come. */
static inline void stream_refill(struct kh_stream *s)
{
	s->reads = 0;
	if (s->socket == SOCKET_DRAINED)
		(void)kh_stream_set_socket(s, SOCKET_MORE);
}

/* stream.c */
/* After a change of state or interest: arms what is waited for. */
void kh_stream_update(struct kh_stream *s);
/* Schedules a call from the loop; `delay_ms` 0: in its next turn. */
void kh_stream_kick(struct kh_stream *s, uint32_t delay_ms);
/* Calls the callback. Return: false: the stream is gone. */
bool kh_stream_report(struct kh_stream *s, unsigned events);
/* The stream's own error to write into; never NULL. */
struct kh_err *kh_stream_err(struct kh_stream *s);

/* Gives back memory that an idle connection does not need. */
void kh_stream_trim(struct kh_stream *s);

/* stream_io.c */
/* Would a read return something? A record may be incomplete, or contain only a session ticket. */
bool kh_stream_probe(struct kh_stream *s);
void kh_stream_try_shutdown(struct kh_stream *s);

/* identity.c */
/* After each step of a handshake. */
void kh_stream_signs_no_more(struct kh_stream *s);

/* messages.c */
/* OpenSSL's info callback. */
void kh_stream_on_message(const SSL *ssl, int where, int ret);
/* Did the peer send too many? Explains it. */
bool kh_stream_is_flooded(struct kh_stream *s);
/* Content came, which pays for messages before it. */
void kh_stream_forgive_messages(struct kh_stream *s, size_t content);

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
/* Return: FAILED, or NO_PROTOCOL. */
enum stream_state kh_stream_explain_failure(struct kh_stream *s);
void kh_stream_explain_timeout(struct kh_stream *s);

/* contexts.c */
struct kh_roots *kh_tls_ctx_roots(const SSL_CTX *ctx);

#endif
