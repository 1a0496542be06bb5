/* message.h - an HTTP message head, from either codec */
#ifndef KEYHOLE_HTTP_MESSAGE_H
#define KEYHOLE_HTTP_MESSAGE_H

#include <stdint.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

/* As received, with case and order kept. The value is without the blanks around it. */
struct kh_field {
	struct kh_slice name;
	struct kh_slice value;
};

enum kh_framing {
	KH_FRAMING_NONE = 0, /* no content follows the head */
	KH_FRAMING_LENGTH,   /* content_length bytes, maybe 0 */
	KH_FRAMING_CHUNKED,
	KH_FRAMING_CLOSE, /* until the connection ends (responses only) */
};

/* Views into the codec's own copy. They are valid until the codec begins the next message. */
struct kh_message {
	/* request */
	struct kh_slice method;
	struct kh_slice target;
	struct kh_slice scheme;	  /* HTTP/2 only: :scheme; empty with plain CONNECT */
	struct kh_slice protocol; /* HTTP/2 only: :protocol of Extended CONNECT (RFC 8441) */
	/* response */
	uint16_t status; /* 100-599 */
	struct kh_slice reason;

	uint8_t minor; /* HTTP/1.x; 1 in HTTP/2 */
	bool h2;       /* it came by HTTP/2 (h2.h) */
	enum kh_framing framing;
	uint64_t content_length; /* with KH_FRAMING_LENGTH; or as announced by a HEAD or 304
				    response */
	bool has_content_length; /* it was announced, even if it is 0 */
	bool keep_alive;	 /* by version and Connection together */
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
 * Is it a hop-by-hop field, which is never forwarded: Connection and every field that it names,
 * Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE, Trailer,
 * Transfer-Encoding, Upgrade, and Content-Length (the sender sets the framing itself)? If
 * Connection names an end-to-end field on which decisions depend (Host, Content-Length,
 * Authorization, Cookie …), the codec refuses the message as malformed.
 */
bool kh_message_is_hop_field(const struct kh_message *message, const struct kh_field *field);
/* How many seconds the sender keeps the connection when it is idle (`Keep-Alive: timeout=5`);
 * UINT32_MAX: it does not say. */
uint32_t kh_message_kept_seconds(const struct kh_message *message);

/*
 * Finds the other methods, hosts, paths and copy sources that a request asks for:
 * X-HTTP-Method-Override and similar, `_method` and `$httpMethod` of its query; X-Forwarded-Host,
 * Forwarded and similar; X-Original-URL, X-Rewrite-URL, WebDAV's Destination and similar;
 * X-Amz-Copy-Source and similar. In any spelling (spelling.h). A copy source is only parsed by
 * kh_copy_source_read. `out` has views of the message and the query.
 */
struct kh_overrides;
void kh_overrides_read(struct kh_overrides *out, const struct kh_message *message,
		       struct kh_slice query);
/* The same for one more query, which may be one only for some servers (kh_path_cuts). */
void kh_overrides_read_query(struct kh_overrides *out, struct kh_slice query);

/*
 * If `out` has a copy source (KH_COPY_UNREAD): is it an object of the bucket that the request
 * itself is for? `own`, `path`: the request's authority and its normalised path; empty: none. The
 * views of `out` must still be valid.
 */
struct kh_authority;
void kh_copy_source_read(struct kh_overrides *out, const struct kh_authority *own,
			 struct kh_slice path);

/* Does this field name a path? *query: that path's query, without '?'; ptr NULL: none. */
bool kh_override_has_path(const struct kh_field *field, struct kh_slice *query);

/* Which fields of a message are forwarded. It is computed once, when a rule first looks at a field,
 * since many rules do and a Connection field may have many options. The caller sets only `message`.
 */
struct kh_forwarded {
	const struct kh_message *message;
	bool known;
	uint8_t n;
	uint8_t fields[KH_LIMIT_FIELDS];
};

/* Steps through the forwarded fields, for a rule. `forwarded` is a struct kh_forwarded; *at is 0 at
 * first. Return: false at the end. */
bool kh_message_next_forwarded(void *forwarded, size_t *at, struct kh_slice *name,
			       struct kh_slice *value);

#endif
