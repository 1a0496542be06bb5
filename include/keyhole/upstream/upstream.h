/*
 * upstream.h - connections to upstreams, for whoever has a request
 *
 *   user ─▶ kh_up_acquire ─▶ lookup, guard, dial, proxy, TLS, or one that is there ─▶ ready
 *   user ⇄ kh_up_stream ⇄ codec ⇄ connection
 *
 * A user has one request. It says through its table of functions what the connection has to be,
 * what the head of the request is and where the answer goes; upstream/ knows nothing else of it. It
 * has at most one stream at a time: from kh_up_acquire on, to `release`. Whoever releases a stream
 * sets user->stream to NULL.
 */
#ifndef KEYHOLE_UPSTREAM_UPSTREAM_H
#define KEYHOLE_UPSTREAM_UPSTREAM_H

#include <keyhole/config/config.h>
#include <keyhole/base/err.h>
#include <keyhole/net/geo.h>
#include <keyhole/base/host.h>
#include <keyhole/http/message.h>
#include <keyhole/http/target.h>

#include <keyhole/loop/loop.h>

struct kh_up;
struct kh_up_stream;
struct kh_up_user;

/* Connections are shared by requests that agree in all of this. */
struct kh_up_key {
	struct kh_host host;
	uint16_t port;
	enum kh_scheme scheme;
	uint32_t generation; /* that the next two belong to */
	uint16_t tenant;
	/* All that go in, in the rule's order; what is behind them is 0. */
	uint16_t credentials[KH_RULE_CREDENTIALS];
	uint16_t n_credentials;
	struct kh_secret *identity; /* the client certificate; NULL: none. The connection's own */
	/* -1, or the one listener that it is for: where HTTP/2 may be spoken, and where the
	 * client's own authentication rides along. */
	int64_t acceptor;
	int64_t session_acceptor; /* likewise, for TLS sessions: with client_auth alone */
	/* The lists that its address was held against (kh_up.geo_gen has them): what was dialled
	 * under none, or others, is not lent to who has to keep to these. */
	struct kh_geo_levels geo;
	bool only_h1; /* HTTP/2 is not offered; one that is there in HTTP/1 will do for anybody */
};

/* What a user asks for. */
struct kh_up_wish {
	struct kh_up_key key;	   /* but for `acceptor` and `only_h1` */
	int64_t acceptor;	   /* the number of the one that it came through */
	uint64_t whose;		   /* the number of its sandbox (fair_share.h) */
	bool may_be_h2;		   /* HTTP/2 may be offered there */
	struct kh_generation *gen; /* whose configuration says where the host is; not a reference */
	struct kh_generation *geo_gen; /* that has the lists of key.geo; likewise */
};

/* The request, as far as a codec has to know. */
struct kh_up_request {
	enum kh_scheme scheme;
	struct kh_slice target;	  /* without a credential; with `is_secret` put_target makes it */
	enum kh_framing framing;  /* of the content as it goes up, behind `ready` */
	uint64_t length;	  /* with LENGTH */
	bool is_secret;		  /* a credential goes in, somewhere */
	bool target_is_secret;	  /* … into the target */
	bool content_is_secret;	  /* … into the content */
	bool close_after_content; /* where there is content, this server may not read it */
	bool continued;		  /* the sandbox was told 100 from here */
	bool has_more;		  /* content, or its end, is still to come */
};

/* What `ready` is told of the connection. */
struct kh_up_facts {
	const char *peer;		   /* its address, as text */
	const struct kh_sockaddr *address; /* that was judged; NULL: nobody here knows it */
	const struct kh_place *place;
	const char *tls; /* OpenSSL's name for it, or NULL */
	bool reused;	 /* others have used it before */
};

enum { KH_UP_UPGRADE_FIELDS = 5 };

/*
 * The user's side. Events: it may be gone after each of them, but for those that say otherwise, and
 * `side` is there until the end of the turn. `false` says that it is.
 */
struct kh_up_user_ops {
	/* Asked before a connection is chosen or made. */
	void (*wish)(const struct kh_up_user *user, struct kh_up_wish *out);
	/* May it be connected to that address (NULL: nobody here knows it)? Return: false with
	 * `err`. */
	bool (*may_go_to)(struct kh_up_user *user, const struct kh_sockaddr *addr,
			  struct kh_err *err);

	/* The head of the request. */
	void (*describe)(const struct kh_up_user *user, struct kh_up_request *out);
	/* `out` is a wiping buffer. */
	bool (*put_target)(const struct kh_up_user *user, struct kh_buf *out, struct kh_err *err);
	bool (*put_authority)(const struct kh_up_user *user, struct kh_buf *out);
	/* Does a field of the message go along? */
	bool (*forwards)(const struct kh_up_user *user, const struct kh_field *field);
	/* The credentials' fields, as lines of HTTP/1; `out` is a wiping buffer. */
	bool (*put_credentials)(const struct kh_up_user *user, struct kh_buf *out,
				struct kh_err *err);
	/* With `upgrades`: what the handshake adds; views that last until the head is put. Return:
	 * how many. */
	size_t (*upgrade_fields)(const struct kh_up_user *user, bool h2,
				 struct kh_field fields[KH_UP_UPGRADE_FIELDS]);

	/* The stream is there: the head is put now (stream->ops->put_head). */
	void (*ready)(struct kh_up_user *user, const struct kh_up_facts *facts);
	/* There will be none. It releases the stream, if it has one. */
	void (*failed)(struct kh_up_user *user, const struct kh_err *err);
	/* Of the answer. Interim heads too. Behind one that sets user->switched, bytes come as they
	 * are, as its body. */
	bool (*head)(struct kh_up_user *user, const struct kh_message *response);
	bool (*body)(struct kh_up_user *user, struct kh_slice piece);
	void (*end)(struct kh_up_user *user, const struct kh_field *trailers, size_t n);
	/* Of what nobody reads (KH_SCHEME_TCP): its connection stands, and that was said on it
	 * before. Return: false with `err`. */
	bool (*connected)(struct kh_up_user *user, struct kh_slice said, struct kh_err *err);
	/* The connection ended behind a switch; `err` NULL: cleanly. */
	void (*lost)(struct kh_up_user *user, const struct kh_err *err);
	/* Whatever else went wrong. */
	void (*broken)(struct kh_up_user *user, const struct kh_err *err);

	/* RFC 9110 §9.2.2, once, and only while nothing of the request's content has gone. */
	bool (*may_retry)(const struct kh_up_user *user);
	/* RFC 9113 §8.7: what the upstream has not looked at, whatever the method, as long as the
	 * content that went is held. */
	bool (*may_repeat)(const struct kh_up_user *user);
	/* It goes to another connection. */
	void (*retry)(struct kh_up_user *user);

	/* Is there no room for more of the answer? */
	bool (*is_full)(void *side);
	/* The last thing that an event does: now, or at the end of the loop's turn. */
	void (*turn)(void *side);
	void (*touch)(void *side);
};

struct kh_up_user {
	const struct kh_up_user_ops *ops;
	void *side; /* where the answer goes on to; it outlives the user until the turn's end */
	struct kh_loop *loop;
	struct kh_account *account;	  /* of its sandbox, or NULL */
	const struct kh_message *message; /* as it came; it lasts */
	uint64_t *progress_ms;		  /* set whenever the upstream takes or says something */
	struct kh_up_stream *stream;	  /* NULL: none */
	uint64_t whose;			  /* as it was wished */
	unsigned moves;			  /* to other connections */
	bool reused;			  /* the connection was, when it was ready */
	/* It asks for a WebSocket; by an HTTP/2 stream, since HTTP/1.1 is not spoken there; so many
	 * connections were made for that. */
	bool upgrades, by_h2;
	unsigned connections;
	bool switched; /* and has got it */
};

/* Towards the upstream, once it is ready. */
struct kh_up_ops {
	/* The request's head with the credential in it. A message with KH_FRAMING_NONE is whole
	 * with its head; for any other `put_end` follows. */
	bool (*put_head)(struct kh_up_stream *up, struct kh_err *err);
	/* What can't be sent any more is dropped: the answer is still read, it may say why. */
	void (*put_content)(struct kh_up_stream *up, struct kh_slice piece);
	void (*put_end)(struct kh_up_stream *up, const struct kh_field *trailers, size_t n);
	bool (*is_full)(const struct kh_up_stream *up);
	void (*flush)(struct kh_up_stream *up);
	/* Is more of the response wanted now? */
	void (*update)(struct kh_up_stream *up, bool wanted);
	/* In any state of the user: it is over. `clean`: both messages came to their end, so the
	 * connection may be used again; else the request is cancelled. */
	void (*release)(struct kh_up_stream *up, bool clean);
	/* Of what nobody reads: the end that was put has left. */
	bool (*is_out)(const struct kh_up_stream *up);
	bool says_unread; /* the upstream can say that it has not looked at a request */
};

struct kh_up_stream {
	const struct kh_up_ops *ops;
	struct kh_up *conn;
	struct kh_up_user *user; /* NULL: nobody's */
};

/* upstream.c */
/* Sets user->stream, in the end calls `ready` or `failed`; at once, perhaps. `fresh`: on a
 * connection of HTTP/1 that nobody used before. */
void kh_up_acquire(struct kh_up_user *user, bool fresh);
/* Has it a connection that is made? Then *address is the one that it leads to; NULL: not known. */
bool kh_up_is_connected(const struct kh_up_user *user, const struct kh_sockaddr **address);
/* There is something new about that credential. */
void kh_up_value_came(struct kh_up_user *user, uint32_t generation, uint16_t index);
/* Of memory, for the user alone. */
size_t kh_up_kept_bytes(const struct kh_up_user *user);

/* up_pool.c: those that are kept; for kh_loop_ops */
struct kh_ups *kh_ups_new(void);
void kh_ups_free(struct kh_ups *ups);
void kh_up_tick(struct kh_loop *loop);
void kh_up_close_idle(struct kh_loop *loop);
/* Those that are kept for what came through that acceptor alone. */
void kh_up_close_of_acceptor(struct kh_loop *loop, int64_t acceptor);

#endif
