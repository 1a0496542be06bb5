/*
 * re_sign.h - signs a request again that its client signed with a placeholder (aws_sigv4)
 *
 * First kh_re_sign_read reads what the client says about its own signature: form, region, service,
 * and how it covers the content. The signature is not verified, and is trusted only to choose among
 * what this host accepts. Then, with the keys, kh_re_sign_make writes everything that carries
 * authentication. No I/O.
 */
#ifndef KEYHOLE_CREDENTIAL_RE_SIGN_H
#define KEYHOLE_CREDENTIAL_RE_SIGN_H

#include <keyhole/base/secret.h>
#include <keyhole/config/signing.h>
#include <keyhole/credential/sigv4.h>
#include <keyhole/base/sigv4_host.h>

enum kh_re_sign_form { KH_RE_SIGN_HEADER = 0, KH_RE_SIGN_QUERY };

/* How the signature covers the content. */
enum kh_re_sign_payload {
	KH_RE_SIGN_EMPTY = 0,	     /* there is no content */
	KH_RE_SIGN_CLAIMED,	     /* by the hash that the client sent, so content is streamed */
	KH_RE_SIGN_HASHED,	     /* by our own hash, for which content is held */
	KH_RE_SIGN_UNSIGNED,	     /* UNSIGNED-PAYLOAD */
	KH_RE_SIGN_CHUNKS,	     /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD: each chunk is signed */
	KH_RE_SIGN_CHUNKS_TRAILER,   /* … and the trailer fields after the last one */
	KH_RE_SIGN_UNSIGNED_TRAILER, /* STREAMING-UNSIGNED-PAYLOAD-TRAILER: no chunk is signed */
};

/* Views into the message and the target. */
struct kh_re_sign {
	enum kh_re_sign_form form;
	enum kh_re_sign_payload payload;
	struct kh_sigv4_scope scope;
	char time[KH_SIGV4_TIME_BYTES];
	unsigned expires_s;	 /* QUERY */
	struct kh_slice claimed; /* the hash or the word in the client's x-amz-content-sha256 */
	bool says_payload;	 /* the request has a field x-amz-content-sha256, which is sent */
	struct kh_slice signed_names;  /* the names of the fields that the client signed:
					  "host;x-amz-date" */
	bool names_encoded;	       /* … percent-encoded */
	char hash[KH_SIGV4_HEX_BYTES]; /* HASHED: set once the content is there */
};

/*
 * `raw` is the target as received (path and query). Region and service come from the configuration
 * if it sets them, else from the client's own scope, which must fit the host, else from the host.
 * `now_ms` is the wall clock. Return: false with `err`: it can't be signed (CREDENTIAL_BINDING,
 * REQUEST_MALFORMED).
 */
bool kh_re_sign_read(struct kh_re_sign *out, const struct kh_sigv4_config *config,
		     const struct kh_message *message, struct kh_slice raw, struct kh_slice host,
		     uint64_t now_ms, struct kh_err *err);
/* Must all content be there before the head can be written? */
bool kh_re_sign_wants_content(const struct kh_re_sign *re_sign);
/* Appends the scope that the keeper is asked for: "20261122/us-east-1/s3". */
bool kh_re_sign_put_scope(struct kh_buf *out, const struct kh_re_sign *re_sign);
/* Is it a field of the client that is not forwarded, besides carriers of authentication? */
bool kh_re_sign_replaces(struct kh_slice name);
/* The same for a parameter of the query. Of AWS's own parameters only those of the signature are
 * dropped. The others are header fields that were moved into the query, and are a part of the
 * request. */
bool kh_re_sign_drops_parameter(struct kh_slice name);

/* What is sent besides the forwarded fields. */
struct kh_re_signed {
	struct kh_buf target;	       /* wiping: path and query */
	struct kh_buf fields;	       /* wiping: "Name: value\r\n" lines */
	char seed[KH_SIGV4_HEX_BYTES]; /* the signature, from which the first chunk's is made */
};
void kh_re_signed_init(struct kh_re_signed *out);
void kh_re_signed_fini(struct kh_re_signed *out);

/* The head that will be sent; fields include Host and Content-Length as they will be written. */
struct kh_re_sign_head {
	struct kh_slice method, raw;
	const struct kh_field *fields;
	size_t n_fields;
};
/* `keys` is a value packed by kh_sigv4_pack. Return: false with `err`. The caller calls
 * kh_re_signed_fini in either case. */
bool kh_re_sign_make(struct kh_re_signed *out, const struct kh_re_sign *re_sign,
		     const struct kh_re_sign_head *head, const struct kh_secret *keys,
		     struct kh_err *err);

/*
 * In the keeper: turns the keys of an account into what the worker gets, which is the access key
 * id, the session token, and a key derived for one scope. `value` is JSON (AccessKeyId,
 * SecretAccessKey, SessionToken or Token, Expiration; also inside Credentials), as `aws configure
 * export-credentials` and the credential endpoints of containers print it, or three lines: id,
 * secret, and token or nothing. *expires_ms: when the account's keys expire; 0: never. `out` should
 * be wiping. Return: false with `err`.
 */
bool kh_sigv4_pack(struct kh_buf *out, struct kh_slice value, const struct kh_sigv4_scope *scope,
		   uint64_t *expires_ms, struct kh_err *err);
/* In the keeper: calls `use` with each key of such a value: id, secret, token. Any other value has
 * none. Return: false: `use` returned false. */
bool kh_sigv4_each_key(struct kh_slice value, bool (*use)(struct kh_slice key, void *arg),
		       void *arg);
struct kh_sigv4_keys {
	struct kh_slice id, token, key;
};
/* Views of `packed`. Return: false: kh_sigv4_pack did not make it. */
bool kh_sigv4_unpack(struct kh_sigv4_keys *out, struct kh_slice packed);

/*
 * Re-signs aws-chunked content with signed chunks (STREAMING-AWS4-HMAC-SHA256-PAYLOAD and
 * -TRAILER): the output is as long as the input, with each signature replaced. A chunk is held
 * until it is complete, since its signature comes before its data.
 *
 * kh_chunk_signer_new takes a reference to `keys`; NULL without memory.
 */
struct kh_chunk_signer;
struct kh_chunk_signer *kh_chunk_signer_new(const struct kh_re_sign *re_sign, const char *seed,
					    struct kh_secret *keys);
void kh_chunk_signer_free(struct kh_chunk_signer *signer);
/* Appends to `out` what can be sent. Return: false with `err`: malformed content, or a chunk that
 * is too large. */
bool kh_chunk_signer_feed(struct kh_chunk_signer *signer, struct kh_slice in, struct kh_buf *out,
			  struct kh_err *err);
/* The content ends. Return: false with `err`: it was not complete. */
bool kh_chunk_signer_end(const struct kh_chunk_signer *signer, struct kh_err *err);
/* How many signatures it made since it was asked last, also in a call that failed. */
size_t kh_chunk_signer_take_signatures(struct kh_chunk_signer *signer);
/* Bytes that it holds. */
size_t kh_chunk_signer_held(const struct kh_chunk_signer *signer);

#endif
