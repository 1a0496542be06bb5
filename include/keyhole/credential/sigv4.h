/*
 * sigv4.h - AWS Signature Version 4: canonical request, string to sign, signature
 *
 * No I/O: bytes in, bytes out. It follows "Signature Version 4 signing process" of the IAM User
 * Guide, and "Signature Calculations for the Authorization Header" of the S3 API Reference, which
 * has other rules for paths.
 */
#ifndef KEYHOLE_CREDENTIAL_SIGV4_H
#define KEYHOLE_CREDENTIAL_SIGV4_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/http/message.h>
#include <keyhole/base/sigv4_host.h>

enum {
	KH_SIGV4_KEY_BYTES = 32,
	KH_SIGV4_HEX_BYTES = 65,  /* a SHA-256 in hex, and a NUL */
	KH_SIGV4_TIME_BYTES = 17, /* "20150830T123600Z", and a NUL */
	KH_SIGV4_DATE_BYTES = 9,
	KH_SIGV4_SCOPE_BYTES = KH_SIGV4_DATE_BYTES + 2 * KH_SIGV4_NAME_BYTES,
};

/* The scope of a derived key: one day, one region, one service. */
struct kh_sigv4_scope {
	char date[KH_SIGV4_DATE_BYTES]; /* "20150830" */
	char region[KH_SIGV4_NAME_BYTES];
	char service[KH_SIGV4_NAME_BYTES];
};

/* Parses "20150830/us-east-1/s3": eight digits, then names of a-z, 0-9, '-' and '_'. Return: false:
 * it is no scope. */
bool kh_sigv4_scope_parse(struct kh_sigv4_scope *out, struct kh_slice text);
/* Appends "20150830/us-east-1/s3". Return: false as kh_buf_append. */
bool kh_sigv4_scope_put(struct kh_buf *out, const struct kh_sigv4_scope *scope);

void kh_sigv4_time(uint64_t wall_ms, char out[KH_SIGV4_TIME_BYTES]);

/* How the path that is sent becomes the canonical one. */
enum kh_sigv4_path {
	KH_SIGV4_PATH_NORMAL =
		0, /* empty and dot segments are removed, then it is encoded (once more) */
	KH_SIGV4_PATH_AS_IS, /* encoded (once more) */
	KH_SIGV4_PATH_S3,    /* encoded once: existing escapes stay as they are */
};
/* The rule of that service: s3, s3-outposts and s3-object-lambda have their own. */
enum kh_sigv4_path kh_sigv4_path_of(struct kh_slice service);

struct kh_sigv4_request {
	struct kh_slice method;
	struct kh_slice path;	       /* as it is sent */
	struct kh_slice query;	       /* as it is sent, without '?' and without X-Amz-Signature */
	const struct kh_field *fields; /* all that are signed; any case, any order */
	size_t n_fields;
	struct kh_slice payload; /* SHA-256 of the content in hex, or UNSIGNED-PAYLOAD etc. */
	enum kh_sigv4_path path_rule;
};

/* Appends the canonical request. Return: false as kh_buf_append. */
bool kh_sigv4_put_canonical(struct kh_buf *out, const struct kh_sigv4_request *request);
/* Appends "host;x-amz-date". */
bool kh_sigv4_put_signed_names(struct kh_buf *out, const struct kh_field *fields, size_t n);
bool kh_sigv4_put_string_to_sign(struct kh_buf *out, const char *time,
				 const struct kh_sigv4_scope *scope, struct kh_slice canonical);
/* Appends `text` encoded as by AWS's UriEncode; `keep_slash`: '/' stays. */
bool kh_sigv4_put_encoded(struct kh_buf *out, struct kh_slice text, bool keep_slash);

/* Decodes into `room`, and cuts what does not fit. Return: a view of `room`. */
struct kh_slice kh_sigv4_decode(struct kh_slice text, char *room, size_t size);

/* Digest, key derivation, signature. The caller wipes the derived key. Return: false: OpenSSL
 * failed. */
bool kh_sigv4_digest(struct kh_slice bytes, char out[KH_SIGV4_HEX_BYTES]);
bool kh_sigv4_derive(struct kh_slice secret_key, const struct kh_sigv4_scope *scope,
		     unsigned char out[KH_SIGV4_KEY_BYTES]);
bool kh_sigv4_sign(struct kh_slice key, struct kh_slice text, char out[KH_SIGV4_HEX_BYTES]);

#endif
