/* message.h - an HTTP message head, whichever codec read it */
#ifndef KEYHOLE_HTTP_MESSAGE_H
#define KEYHOLE_HTTP_MESSAGE_H

#include <stdint.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

/* As received: case and order kept; value without the blanks around it. */
struct kh_field {
	struct kh_slice name;
	struct kh_slice value;
};

enum kh_framing {
	KH_FRAMING_NONE = 0, /* no content follows the head */
	KH_FRAMING_LENGTH,   /* content_length bytes, may be 0 */
	KH_FRAMING_CHUNKED,
	KH_FRAMING_CLOSE, /* until the connection ends (responses only) */
};

/* The views point into the codec's own copy and live until the codec starts on the next message. */
struct kh_message {
	/* request */
	struct kh_slice method;
	struct kh_slice target;
	struct kh_slice scheme;	  /* HTTP/2 only: as :scheme has it; empty with plain CONNECT */
	struct kh_slice protocol; /* HTTP/2 only: of Extended CONNECT (RFC 8441) */
	/* response */
	uint16_t status; /* 100-599 */
	struct kh_slice reason;

	uint8_t minor; /* HTTP/1.x; 1 in HTTP/2 */
	bool h2;       /* it came by HTTP/2 (h2.h) */
	enum kh_framing framing;
	uint64_t content_length; /* with KH_FRAMING_LENGTH; or what a HEAD/304 response announced */
	bool has_content_length; /* it was announced, if only as 0 */
	bool keep_alive;	 /* what version and Connection say together */
	bool expect_continue;
	bool upgrade;	      /* Upgrade with the Connection option */
	bool te_trailers;     /* the client takes trailers (TE: trailers), as gRPC asks for */
	struct kh_slice host; /* value of the one Host field of a request */
	struct kh_field fields[KH_LIMIT_FIELDS];
	size_t n_fields;
};

/* First field of that name (any case), NULL when there is none. */
const struct kh_field *kh_message_field(const struct kh_message *message, struct kh_slice name);
/*
 * A field that speaks of this connection only and is never forwarded: Connection and every field
 * that it names, Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE,
 * Trailer, Transfer-Encoding, Upgrade, and Content-Length (the sender sets the framing itself). A
 * Connection option that names an end-to-end field on which decisions rest (Host, Content-Length,
 * Authorization, Cookie …) makes the message malformed, in the codec.
 */
bool kh_message_is_hop_field(const struct kh_message *message, const struct kh_field *field);
/* For how many seconds the sender says that it keeps the connection without use (`Keep-Alive:
 * timeout=5`); UINT32_MAX where it does not say. */
uint32_t kh_message_kept_seconds(const struct kh_message *message);

/*
 * Which other methods, hosts and paths does a request ask for: X-HTTP-Method-Override and its kin,
 * `_method` and `$httpMethod` of its query; X-Forwarded-Host, Forwarded and their kin;
 * X-Original-URL, X-Rewrite-URL, WebDAV's Destination and their kin; X-Amz-Copy-Source and its kin.
 * In any spelling (spelling.h). A source stays unread until kh_copy_source_read.
 */
struct kh_overrides;
void kh_overrides_read(struct kh_overrides *out, const struct kh_message *message,
		       struct kh_slice query);
/* The same of one more query, if only to some servers it is one (kh_path_cuts). */
void kh_overrides_read_query(struct kh_overrides *out, struct kh_slice query);

/*
 * Where `out` names a source (KH_COPY_UNREAD): is it an object of the bucket that the request
 * itself is for? `own`, `path`: the request's authority and its path in normal form, empty where
 * there is none. The views of `out` must still hold.
 */
struct kh_authority;
void kh_copy_source_read(struct kh_overrides *out, const struct kh_authority *own,
			 struct kh_slice path);

/* Does this field name a path? *query is that path's, without '?'; ptr NULL: it has none. */
bool kh_override_has_path(const struct kh_field *field, struct kh_slice *query);

/* Which of a message's fields go upstream. That is worked out once, when a rule first looks at a
 * field: many rules do, and a Connection field may have many options. Set `message` alone. */
struct kh_forwarded {
	const struct kh_message *message;
	bool known;
	uint8_t n;
	uint8_t fields[KH_LIMIT_FIELDS];
};

/* Steps through them, for a rule to look at; `forwarded` is a kh_forwarded, *at is 0 at first.
 * Return: false at the end. */
bool kh_message_next_forwarded(void *forwarded, size_t *at, struct kh_slice *name,
			       struct kh_slice *value);

#endif
