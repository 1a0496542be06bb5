/*
 * identity.c - a certificate of our own with its key, for an upstream that asks for one (mtls)
 *
 * The keeper checks that the two match and sends them as one value, so that a replaced certificate
 * is never used with another key. Only here is a credential in a library's memory for longer than
 * one callback: during the whole handshake. That memory is hidden: both what the key is decoded
 * into, and what OpenSSL allocates while it signs (which also holds the factors of an RSA key).
 */
#include <keyhole/tls/identity.h>

#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <keyhole/base/hidden.h>
#include <keyhole/base/wire.h>
#include <keyhole/tls/private_key.h>

#include "stream_internal.h"

enum {
	CHAIN_MOST = 8,
	KEY_BITS_LEAST = 112, /* of security, as for all that TLS uses here (contexts.c) */
	DATE_BYTES = 64,
};

struct identity {
	X509 *chain[CHAIN_MOST];
	int n;
	EVP_PKEY *key;
};

static void fini(struct identity *identity)
{
	while (identity->n > 0)
		X509_free(identity->chain[--identity->n]);
	EVP_PKEY_free(identity->key);
	*identity = (struct identity){ .n = 0 };
}

static bool read_chain(struct identity *identity, struct kh_slice pem)
{
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	X509 *one;

	while (bio && identity->n < CHAIN_MOST && (one = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
		identity->chain[identity->n++] = one;
	BIO_free(bio);
	ERR_clear_error();
	return identity->n > 0;
}

static const char *fault(struct identity *identity, struct kh_slice certificate,
			 struct kh_slice key)
{
	const char *why;

	if (certificate.len > INT32_MAX || key.len > INT32_MAX)
		return "it is too long";
	identity->key = kh_private_key_read(key, &why);
	if (!identity->key)
		return why;
	if (!read_chain(identity, certificate.len > 0 ? certificate : key))
		return certificate.len > 0 ? "its certificate is none (PEM is expected)"
					   : "there is no certificate with its key: name its file";
	if (X509_check_private_key(identity->chain[0], identity->key) != 1) {
		ERR_clear_error();
		return "certificate and key do not belong together";
	}
	if (EVP_PKEY_get_security_bits(identity->key) < KEY_BITS_LEAST)
		return "its key is too weak for TLS (RSA of 2048 bits or EC, at the least)";
	return NULL;
}

/* When, in words; *seconds. Return: false: the certificate does not say it in a way that can be
 * read. */
static bool read_time(const ASN1_TIME *time, int64_t *seconds, char text[DATE_BYTES])
{
	struct tm tm;

	if (ASN1_TIME_to_tm(time, &tm) != 1 || strftime(text, DATE_BYTES, "%F %T UTC", &tm) == 0)
		return false;
	*seconds = timegm(&tm);
	return true;
}

/* Is it good today? */
static bool check_days(X509 *leaf, uint64_t *expires_ms, struct kh_err *err)
{
	char from_text[DATE_BYTES], until_text[DATE_BYTES];
	int64_t now = time(NULL), from, until;

	if (!read_time(X509_get0_notBefore(leaf), &from, from_text) ||
	    !read_time(X509_get0_notAfter(leaf), &until, until_text))
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "the days of its certificate can't be read");
	if (until <= now)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "its certificate has expired, at %s (have it renewed)",
				  until_text);
	if (from > now)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "its certificate is not valid before %s (is the clock right?)",
				  from_text);
	*expires_ms = (uint64_t)until * 1000;
	return true;
}

bool kh_identity_pack(struct kh_buf *out, struct kh_slice certificate, struct kh_slice key,
		      uint64_t *expires_ms, struct kh_err *err)
{
	struct identity identity = { .n = 0 };
	const char *why = fault(&identity, certificate, key);
	bool good = !why && check_days(identity.chain[0], expires_ms, err);

	fini(&identity);
	if (!good)
		return why ? kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s", why) : false;
	return (kh_wire_put_bytes(out, certificate) && kh_wire_put_bytes(out, key)) ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "certificate and key are more than 64 KiB");
}

bool kh_identity_is_ca(struct kh_slice pem)
{
	struct identity identity = { .n = 0 };
	bool is_ca = pem.len <= INT32_MAX && read_chain(&identity, pem) &&
		     (X509_get_extension_flags(identity.chain[0]) & EXFLAG_CA);

	fini(&identity);
	return is_ca;
}

static bool use(struct kh_slice packed, void *arg)
{
	SSL *ssl = arg;
	struct kh_wire_reader r = { .rest = packed };
	struct kh_slice certificate = kh_wire_bytes(&r), key = kh_wire_bytes(&r);
	struct identity identity = { .n = 0 };

	/* The key goes in behind the certificate, or OpenSSL compares the two twice. */
	bool ok = kh_wire_done(&r) && !fault(&identity, certificate, key) &&
		  SSL_use_certificate(ssl, identity.chain[0]) == 1 &&
		  SSL_use_PrivateKey(ssl, identity.key) == 1;
	for (int i = 1; ok && i < identity.n; i++)
		ok = SSL_add1_chain_cert(ssl, identity.chain[i]) == 1;
	fini(&identity);
	return ok;
}

/* OpenSSL is about to go on from what it has written last: behind the certificate comes the
 * signature (TLS 1.3), or the key exchange and then the signature (1.2). */
static void on_step(const SSL *ssl, int where, int ret)
{
	struct kh_stream *s = SSL_get_app_data(ssl);
	(void)ret;
	if (!s || !(where & SSL_CB_LOOP))
		return;
	kh_stream_signs_no_more(s);
	OSSL_HANDSHAKE_STATE state = SSL_get_state(ssl);
	if ((state == TLS_ST_CW_CERT || state == TLS_ST_CW_KEY_EXCH) &&
	    kh_stream_set_identity(s, IDENTITY_SIGNS))
		kh_hidden_begin();
}

void kh_stream_signs_no_more(struct kh_stream *s)
{
	if (s->identity != IDENTITY_SIGNS)
		return;
	kh_hidden_end();
	(void)kh_stream_set_identity(s, IDENTITY_HELD);
}

bool kh_stream_use_identity(struct kh_stream *stream, const struct kh_secret *packed,
			    struct kh_err *err)
{
	if (kh_secret_expose(packed, use, stream->ssl)) {
		if (stream->identity == IDENTITY_NONE)
			(void)kh_stream_set_identity(stream, IDENTITY_HELD);
		SSL_set_info_callback(stream->ssl, on_step);
		return true;
	}
	ERR_clear_error();
	return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "the client certificate for the upstream can't be used");
}
