/* signing.h - the configuration of placements that do not copy the value: aws_sigv4, hmac, mtls */
#ifndef KEYHOLE_CONFIG_SIGNING_H
#define KEYHOLE_CONFIG_SIGNING_H

#include <stddef.h>

#include <keyhole/base/slice.h>

/* aws_sigv4 (re_sign.h) */
struct kh_sigv4_config {
	char *region;	     /* NULL: the region of the client's signature, or of the host */
	char *service;	     /* NULL: likewise */
	char *access_key_id; /* If the value is only a secret access key: the variables of keyhole's
				environment that hold the key id and the session token. */
	char *session_token; /* NULL: AWS_ACCESS_KEY_ID, AWS_SESSION_TOKEN */
};

/* hmac (hmac.h) */
enum kh_hmac_algorithm {
	KH_HMAC_SHA256 = 0,
	KH_HMAC_SHA512,
	KH_HMAC_SHA384,
	KH_HMAC_SHA1,
};
enum kh_hmac_text { KH_HMAC_HEX = 0, KH_HMAC_BASE64, KH_HMAC_PLAIN };
enum kh_hmac_time {
	KH_HMAC_SECONDS = 0, /* since the epoch */
	KH_HMAC_MILLISECONDS,
	KH_HMAC_HTTP_DATE, /* RFC 9110: Sun, 06 Nov 1994 08:49:37 GMT */
	KH_HMAC_ISO_8601,  /* 2026-01-02T03:04:05.678Z */
};

enum { KH_HMAC_TEMPLATE_BYTES = 1024, KH_HMAC_FIELDS_MOST = 8 };

struct kh_hmac_field {
	char *name, *text; /* a template */
};

struct kh_hmac_config {
	enum kh_hmac_algorithm algorithm;
	enum kh_hmac_text key;	    /* how the value encodes the key */
	enum kh_hmac_text encoding; /* HEX, BASE64: of {signature} */
	enum kh_hmac_time timestamp;
	char *sign; /* a template: the bytes that are signed */
	struct kh_hmac_field *fields;
	size_t n_fields;
};

/* mtls: the value is the key. */
struct kh_mtls_config {
	char *certificate; /* a PEM file, the leaf first; NULL: the value has it beside the key */
};

void kh_sigv4_config_free(struct kh_sigv4_config *config);
void kh_hmac_config_free(struct kh_hmac_config *config);
void kh_mtls_config_free(struct kh_mtls_config *config);

/* What is wrong with it, a literal; NULL: nothing. */
const char *kh_sigv4_config_fault(const struct kh_sigv4_config *config);
const char *kh_hmac_config_fault(const struct kh_hmac_config *config);
/* hmac: the words of a template. */
enum kh_hmac_word {
	KH_HMAC_WORD_NONE = 0,
	KH_HMAC_WORD_METHOD,
	KH_HMAC_WORD_TARGET,
	KH_HMAC_WORD_PATH,
	KH_HMAC_WORD_QUERY,
	KH_HMAC_WORD_HOST,
	KH_HMAC_WORD_TIMESTAMP,
	KH_HMAC_WORD_NONCE,
	KH_HMAC_WORD_BODY,
	KH_HMAC_WORD_BODY_SHA256,
	KH_HMAC_WORD_BODY_SHA256_BASE64,
	KH_HMAC_WORD_SIGNATURE,
};
/* What is wrong with a template, a literal; NULL: nothing. `is_field`: it is a field's, in which
 * only {timestamp}, {nonce}, {body_sha256}, {body_sha256_base64} and {signature} are allowed; all
 * but {signature} are allowed in `sign`. */
const char *kh_hmac_template_fault(const char *text, int is_field);
/* Takes the next piece off a template: text (*word is NONE) or a word. Return: false at its end. */
bool kh_hmac_template_next(struct kh_slice *rest, struct kh_slice *piece, enum kh_hmac_word *word);
/* Does the template have one of the words `from` to `to`? */
bool kh_hmac_template_has(const char *text, enum kh_hmac_word from, enum kh_hmac_word to);

#endif
