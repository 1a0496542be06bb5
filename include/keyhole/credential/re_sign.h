/*
 * re_sign.h - a request that its client signed with a placeholder goes out signed anew (aws_sigv4)
 *
 * First what the client says about its own signature is read (kh_re_sign_read): form, region,
 * service, what stands for the content. None of it is verified, and none of it is trusted beyond
 * choosing what this host takes. Then, with the keys in hand, everything that carries
 * authentication is written (kh_re_sign_make). Pure.
 */
#ifndef KEYHOLE_CREDENTIAL_RE_SIGN_H
#define KEYHOLE_CREDENTIAL_RE_SIGN_H

#include <keyhole/base/secret.h>
#include <keyhole/config/signing.h>
#include <keyhole/credential/sigv4.h>
#include <keyhole/base/sigv4_host.h>

enum kh_re_sign_form { KH_RE_SIGN_HEADER = 0, KH_RE_SIGN_QUERY };

/* What stands for the content in the signature. */
enum kh_re_sign_payload {
	KH_RE_SIGN_EMPTY = 0,	     /* there is no content */
	KH_RE_SIGN_CLAIMED,	     /* the hash that the client says: it streams */
	KH_RE_SIGN_HASHED,	     /* ours, of content that has to be held */
	KH_RE_SIGN_UNSIGNED,	     /* UNSIGNED-PAYLOAD */
	KH_RE_SIGN_CHUNKS,	     /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD: each chunk is signed */
	KH_RE_SIGN_CHUNKS_TRAILER,   /* … and the fields behind the last one */
	KH_RE_SIGN_UNSIGNED_TRAILER, /* STREAMING-UNSIGNED-PAYLOAD-TRAILER: none of it is */
};

/* Views into the message and the target. */
struct kh_re_sign {
	enum kh_re_sign_form form;
	enum kh_re_sign_payload payload;
	struct kh_sigv4_scope scope;
	char time[KH_SIGV4_TIME_BYTES];
	unsigned expires_s;	       /* QUERY */
	struct kh_slice claimed;       /* CLAIMED: the hash; also the words, as they were said */
	bool says_payload;	       /* a field x-amz-content-sha256 is there and goes along */
	struct kh_slice signed_names;  /* that the client signed: "host;x-amz-date" */
	bool names_encoded;	       /* … percent-encoded */
	char hash[KH_SIGV4_HEX_BYTES]; /* HASHED, once the content is there */
};

/*
 * `raw` is the target as it came (path and query). What the configuration says of region and
 * service holds; else the client's own scope, which must fit the host; else the host. `now_ms` is
 * the wall clock. Return: false: it can't be signed, and says why (CREDENTIAL_BINDING,
 * REQUEST_MALFORMED).
 */
bool kh_re_sign_read(struct kh_re_sign *out, const struct kh_sigv4_config *config,
		     const struct kh_message *message, struct kh_slice raw, struct kh_slice host,
		     uint64_t now_ms, struct kh_err *err);
/* Must all of the content be there before the head can be written? */
bool kh_re_sign_wants_content(const struct kh_re_sign *re_sign);
/* "20261122/us-east-1/s3", as the keeper is asked. */
bool kh_re_sign_put_scope(struct kh_buf *out, const struct kh_re_sign *re_sign);
/* A field of the client's that does not go along, beside those that carry authentication. */
bool kh_re_sign_replaces(struct kh_slice name);
/* A parameter of the client's query likewise. Of AWS's own only those that are a signature's go:
 * the others are fields that were put into the query, and say what is asked for. */
bool kh_re_sign_drops_parameter(struct kh_slice name);

/* What goes out beside the fields that are forwarded. */
struct kh_re_signed {
	struct kh_buf target;	       /* wiping: path and query */
	struct kh_buf fields;	       /* wiping: "Name: value\r\n" lines */
	char seed[KH_SIGV4_HEX_BYTES]; /* the signature, with which that of a chunk begins */
};
void kh_re_signed_init(struct kh_re_signed *out);
void kh_re_signed_fini(struct kh_re_signed *out);

/* The fields that will be sent, with Host and Content-Length as they will be written. */
struct kh_re_sign_head {
	struct kh_slice method, raw;
	const struct kh_field *fields;
	size_t n_fields;
};
/* `keys` is a value packed by kh_sigv4_pack. */
bool kh_re_sign_make(struct kh_re_signed *out, const struct kh_re_sign *re_sign,
		     const struct kh_re_sign_head *head, const struct kh_secret *keys,
		     struct kh_err *err);

/*
 * The keys of an account, as the keeper has them, become what the worker gets: the name of the key,
 * the session's token and the key derived for one scope. `value` is JSON (AccessKeyId,
 * SecretAccessKey, SessionToken or Token, Expiration; also within Credentials), as `aws configure
 * export-credentials` and the credential endpoints of containers give it, or three lines: id,
 * secret, token or nothing. `expires_ms`: of the account's keys; 0: never.
 */
bool kh_sigv4_pack(struct kh_buf *out, struct kh_slice value, const struct kh_sigv4_scope *scope,
		   uint64_t *expires_ms, struct kh_err *err);
/* Runs `use` on each of the keys of such a value: id, secret, token. In the keeper. Return: false:
 * `use` said so. What is no such value has none. */
bool kh_sigv4_each_key(struct kh_slice value, bool (*use)(struct kh_slice key, void *arg),
		       void *arg);
struct kh_sigv4_keys {
	struct kh_slice id, token, key;
};
/* Views. Return: false: it is no such value. */
bool kh_sigv4_unpack(struct kh_sigv4_keys *out, struct kh_slice packed);

/*
 * Content in aws-chunked whose chunks are signed (STREAMING-AWS4-HMAC-SHA256-PAYLOAD and -TRAILER):
 * goes in as the client sent it and comes out as long, each signature replaced. A chunk is held
 * until it is whole: its signature stands before it.
 */
struct kh_chunk_signer;
struct kh_chunk_signer *kh_chunk_signer_new(const struct kh_re_sign *re_sign, const char *seed,
					    struct kh_secret *keys);
void kh_chunk_signer_free(struct kh_chunk_signer *signer);
/* Appends to `out` what can leave. Return: false: it is no such content, or a chunk is too large.
 */
bool kh_chunk_signer_feed(struct kh_chunk_signer *signer, struct kh_slice in, struct kh_buf *out,
			  struct kh_err *err);
/* The content ends: was it whole? */
bool kh_chunk_signer_end(const struct kh_chunk_signer *signer, struct kh_err *err);
/* Bytes that it holds. */
size_t kh_chunk_signer_held(const struct kh_chunk_signer *signer);

#endif
