/*
 * upstream.h - connections to upstreams, for whoever has a request
 *
 *   user ─▶ kh_up_acquire ─▶ lookup, guard, dial, proxy, TLS, or one that is there ─▶ ready
 *   user ⇄ kh_up_stream ⇄ codec ⇄ connection
 *
 * A user has one request. Its table of functions says which connection it needs, what the head of
 * the request is and where the answer goes; upstream/ knows nothing else about it. It has at most
 * one stream at a time, from kh_up_acquire to `release`. Whoever releases a stream sets
 * user->stream to NULL.
 */
#ifndef KEYHOLE_UPSTREAM_UPSTREAM_H
#define KEYHOLE_UPSTREAM_UPSTREAM_H

#include <keyhole/config/config.h>
#include <keyhole/base/err.h>
#include <keyhole/net/geo.h>
#include <keyhole/base/host.h>
#include <keyhole/http/message.h>
#include <keyhole/http/target.h>

#include <keyhole/loop/work_share.h>

struct kh_up;
struct kh_up_stream;
struct kh_up_user;

/* A connection serves only requests with an equal key. */
struct kh_up_key {
	struct kh_host host;
	uint16_t port;
	enum kh_scheme scheme;
	uint32_t generation; /* the generation in which `tenant` and `credentials` are numbers */
	uint16_t tenant;
	/* Indexes of all credentials that go in, in the rule's order; the rest of the array is
	 * 0. */
	uint16_t credentials[KH_RULE_CREDENTIALS];
	uint16_t n_credentials;
	struct kh_secret *identity; /* the client certificate; NULL: none. A reference in a
				       connection's key */
	/* The number of the only acceptor that may use the connection, if HTTP/2 may be spoken or
	 * the client's own authentication is passed on; -1: any. */
	int64_t acceptor;
	int64_t session_acceptor; /* likewise, for TLS sessions; set only for the client's own
				     authentication */
	/* The geo lists that its address has passed (kh_up.geo_gen owns them). A connection with
	 * other lists, or none, is not lent to a request that has these. */
	struct kh_geo_levels geo;
	bool only_h1; /* HTTP/2 must not be offered; a connection that speaks HTTP/1 serves any
			 request */
};

/* What a user asks for. */
struct kh_up_wish {
	struct kh_up_key key;	   /* except `acceptor` and `only_h1` */
	int64_t acceptor;	   /* the number of the acceptor that the request came through */
	uint64_t whose;		   /* the number of its sandbox (fair_share.h) */
	bool may_be_h2;		   /* HTTP/2 may be offered there */
	struct kh_generation *gen; /* the generation with the pins and the proxy; not a reference */
	struct kh_generation *geo_gen; /* the generation that owns the lists of key.geo; likewise */
};

/* What a codec has to know of the request. */
struct kh_up_request {
	enum kh_scheme scheme;
	struct kh_slice target;	  /* without a credential; with `is_secret` put_target makes it */
	enum kh_framing framing;  /* of the content as it is sent upstream */
	uint64_t length;	  /* with LENGTH */
	bool is_secret;		  /* a credential is put anywhere in the request */
	bool target_is_secret;	  /* a credential is put into the target */
	bool content_is_secret;	  /* a credential is put into the content */
	bool close_after_content; /* where there is content, this server may not read it */
	bool continued;		  /* keyhole has already sent 100 (Continue) to the sandbox */
	bool has_more;		  /* more content, or its end, will follow */
};

/* What `ready` is told of the connection. */
struct kh_up_facts {
	const char *peer;		   /* its address, as text */
	const struct kh_sockaddr *address; /* the address that was judged; NULL: unknown here */
	const struct kh_place *place;
	const char *tls; /* OpenSSL's name of the TLS version, or NULL */
	bool reused;	 /* others have used it before */
};

enum { KH_UP_UPGRADE_FIELDS = 5 };

/*
 * The user's side. The user may be freed in any event (from `ready` on); `side` lives until the end
 * of the turn. `head` and `body` return false if they freed it.
 */
struct kh_up_user_ops {
	/* Asked before a connection is chosen or made. */
	void (*wish)(const struct kh_up_user *user, struct kh_up_wish *out);
	/* May it connect to that address (NULL: unknown here)? Return: false with `err`. */
	bool (*may_go_to)(struct kh_up_user *user, const struct kh_sockaddr *addr,
			  struct kh_err *err);

	/* The head of the request. */
	void (*describe)(const struct kh_up_user *user, struct kh_up_request *out);
	/* `out` is a wiping buffer. */
	bool (*put_target)(const struct kh_up_user *user, struct kh_buf *out, struct kh_err *err);
	bool (*put_authority)(const struct kh_up_user *user, struct kh_buf *out);
	/* Is this field of the message forwarded? */
	bool (*forwards)(const struct kh_up_user *user, const struct kh_field *field);
	/* Writes the credentials' fields as HTTP/1 field lines; `out` is a wiping buffer. */
	bool (*put_credentials)(const struct kh_up_user *user, struct kh_buf *out,
				struct kh_err *err);
	/* With `upgrades`: the fields that the WebSocket handshake adds; views that last until the
	 * head is put. Return: how many. */
	size_t (*upgrade_fields)(const struct kh_up_user *user, bool h2,
				 struct kh_field fields[KH_UP_UPGRADE_FIELDS]);

	/* The connection is ready: the user puts the head now (stream->ops->put_head). */
	void (*ready)(struct kh_up_user *user, const struct kh_up_facts *facts);
	/* There will be no connection. The user releases the stream, if it has one. */
	void (*failed)(struct kh_up_user *user, const struct kh_err *err);
	/* The answer: heads (interim ones too), pieces of content, the end with the trailers. After
	 * a head for which the user sets user->switched, raw bytes come as `body`. */
	bool (*head)(struct kh_up_user *user, const struct kh_message *response);
	bool (*body)(struct kh_up_user *user, struct kh_slice piece);
	void (*end)(struct kh_up_user *user, const struct kh_field *trailers, size_t n);
	/* For a raw connection (KH_SCHEME_TCP): it is established; `said` has bytes that have
	 * already come. Return: false with `err`. */
	bool (*connected)(struct kh_up_user *user, struct kh_slice said, struct kh_err *err);
	/* The connection ended after a switch; `err` NULL: cleanly. */
	void (*lost)(struct kh_up_user *user, const struct kh_err *err);
	/* Any other failure. */
	void (*broken)(struct kh_up_user *user, const struct kh_err *err);

	/* May the request be retried (RFC 9110 §9.2.2)? Once, and only if no content was sent. */
	bool (*may_retry)(const struct kh_up_user *user);
	/* May a request that the upstream has not processed be sent again (RFC 9113 §8.7)? Any
	 * method, if keyhole still holds the content that was sent. */
	bool (*may_repeat)(const struct kh_up_user *user);
	/* The user moves to another connection. */
	void (*retry)(struct kh_up_user *user);

	/* Is the buffer for the answer full? */
	bool (*is_full)(void *side);
	/* Called last in an event: handle what has changed, now (turn) or at the end of the loop's
	 * turn (touch). */
	void (*turn)(void *side);
	void (*touch)(void *side);
};

struct kh_up_user {
	const struct kh_up_user_ops *ops;
	void *side; /* the downstream side, which gets the answer; after the user ended it lives
		       until the end of the turn */
	struct kh_loop *loop;
	struct kh_account *account; /* of its sandbox, or NULL */
	struct kh_work_share *work; /* likewise; lives until the end of the turn, too */
	const struct kh_message
		*message;	     /* the request as it was received; must outlive the user */
	uint64_t *progress_ms;	     /* set when the upstream takes or sends bytes */
	struct kh_up_stream *stream; /* NULL: none */
	uint64_t whose;		     /* kh_up_wish.whose */
	unsigned moves;		     /* how often it moved to another connection */
	bool reused;		     /* the connection had been used before, at `ready` */
	/* `upgrades`: it asks for a WebSocket; `by_h2`: by an HTTP/2 stream, since the server does
	 * not speak HTTP/1.1; `connections`: how many were made for that. */
	bool upgrades, by_h2;
	unsigned connections;
	bool switched; /* the WebSocket is open */
};

/* What the user calls on its stream, after `ready`. */
struct kh_up_ops {
	/* Writes the request's head with the credential. With KH_FRAMING_NONE that is the whole
	 * message; otherwise `put_end` must follow. */
	bool (*put_head)(struct kh_up_stream *up, struct kh_err *err);
	/* Content that can't be sent any more is dropped. The answer is still read, since it may
	 * say why. */
	void (*put_content)(struct kh_up_stream *up, struct kh_slice piece);
	void (*put_end)(struct kh_up_stream *up, const struct kh_field *trailers, size_t n);
	bool (*is_full)(const struct kh_up_stream *up);
	void (*flush)(struct kh_up_stream *up);
	/* Tells whether the user wants more of the response now. */
	void (*update)(struct kh_up_stream *up, bool wanted);
	/* Until the next `update` nothing is read or written for it, also of what was put before.
	 */
	void (*hold)(struct kh_up_stream *up);
	/* Ends the stream; allowed in any state. `clean`: request and answer are complete, so the
	 * connection may be used again; else the request is cancelled. */
	void (*release)(struct kh_up_stream *up, bool clean);
	/* Of a raw connection: has the end that was put been sent? */
	bool (*is_out)(const struct kh_up_stream *up);
	bool says_unread; /* the protocol can tell that a request was not processed (HTTP/2) */
};

struct kh_up_stream {
	const struct kh_up_ops *ops;
	struct kh_up *conn;
	struct kh_up_user *user; /* NULL: not in use */
};

/* upstream.c */
/* Sets user->stream, and calls `ready` or `failed` later, or before it returns. `fresh`: do not use
 * an idle HTTP/1 connection. */
void kh_up_acquire(struct kh_up_user *user, bool fresh);
/* Is its connection established? Then *address is the judged address; NULL: unknown here. */
bool kh_up_is_connected(const struct kh_up_user *user, const struct kh_sockaddr **address);
/* The state of a value of that credential has changed (kh_worker_secret). */
void kh_up_value_came(struct kh_up_user *user, uint32_t generation, uint16_t index);
/* How many bytes of memory are held for this user. */
size_t kh_up_kept_bytes(const struct kh_up_user *user);

/* up_pool.c: kept connections; for kh_loop_ops */
struct kh_ups *kh_ups_new(struct kh_loop *loop);
void kh_ups_free(struct kh_ups *ups);
void kh_up_tick(struct kh_loop *loop);
void kh_up_close_idle(struct kh_loop *loop);
/* Closes those that are kept only for connections of that acceptor. */
void kh_up_close_of_acceptor(struct kh_loop *loop, int64_t acceptor);

#endif
