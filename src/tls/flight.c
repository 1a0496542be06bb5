/*
 * flight.c - what an upstream's messages may ask of a handshake
 *
 * The server chooses the certificates that it sends, and the authorities that it names when it asks
 * for a client's certificate (CertificateRequest). OpenSSL bounds the bytes of such a message
 * (SSL_CTX_set_max_cert_list), but not what becomes of them: in 32 KiB there is room for 200
 * certificates, whose keys take more than 60 ms to decode, or for 8,000 names, which take 1.5 MB
 * until the connection ends. So certificates and names are counted before OpenSSL reads the
 * message.
 *
 * OpenSSL has no callback that refuses a message. But the message callback is given OpenSSL's own
 * buffer, after the message's digest was taken, and before it is read. A message with too much in
 * it is overwritten there with bytes that are no message, and the handshake fails at once
 * (decode_error). Nothing depends on that: kh_stream_forget_flight looks again at the names.
 */
#include "flight_internal.h"

#include <openssl/err.h>
#include <openssl/tls1.h>

#include <keyhole/base/limits.h>

/* What is left of a message. */
struct rest {
	const unsigned char *at;
	size_t len;
};

/* A vector with its length in `size` bytes before it. Return: false: there is none. */
static bool take(struct rest *rest, size_t size, struct rest *out)
{
	size_t len = 0;

	if (rest->len < size)
		return false;
	for (size_t i = 0; i < size; i++)
		len = len << 8 | rest->at[i];
	if (rest->len - size < len)
		return false;
	*out = (struct rest){ rest->at + size, len };
	rest->at += size + len;
	rest->len -= size + len;
	return true;
}

/* RFC 8446 §4.4.2, RFC 5246 §7.4.2 */
static size_t count_certificates(struct rest body, bool is_1_3)
{
	struct rest list, skipped;
	size_t n = 0;

	if ((is_1_3 && !take(&body, 1, &skipped)) || !take(&body, 3, &list))
		return 0;
	while (take(&list, 3, &skipped) && (!is_1_3 || take(&list, 2, &skipped)))
		n++;
	return n;
}

/* In TLS 1.3 they are an extension (RFC 8446 §4.2.4). */
static bool find_authorities(struct rest body, bool is_1_3, struct rest *names)
{
	struct rest extensions, skipped, one;

	if (!is_1_3)
		return take(&body, 1, &skipped) && take(&body, 2, &skipped) &&
		       take(&body, 2, names);
	if (!take(&body, 1, &skipped) || !take(&body, 2, &extensions))
		return false;
	while (extensions.len > 2) {
		unsigned type = (unsigned)(extensions.at[0] << 8 | extensions.at[1]);

		extensions.at += 2;
		extensions.len -= 2;
		if (!take(&extensions, 2, &one))
			return false;
		if (type == TLSEXT_TYPE_certificate_authorities)
			return take(&one, 2, names);
	}
	return false;
}

static size_t count_authorities(struct rest body, bool is_1_3)
{
	struct rest names, one;
	size_t n = 0;

	if (!find_authorities(body, is_1_3, &names))
		return 0;
	while (take(&names, 2, &one))
		n++;
	return n;
}

/* Return: NULL: nothing is too much; else a constant. */
static const char *find_excess(unsigned char type, struct rest body, bool is_1_3)
{
	if (type == SSL3_MT_CERTIFICATE &&
	    count_certificates(body, is_1_3) > KH_LIMIT_TLS_CERTIFICATES)
		return "it sent more certificates than a chain can have";
	if (type == SSL3_MT_CERTIFICATE_REQUEST &&
	    count_authorities(body, is_1_3) > KH_LIMIT_TLS_AUTHORITIES)
		return KH_EXCESS_OF_AUTHORITIES;
	return NULL;
}

void kh_stream_on_flight(int sent, int version, int kind, const void *bytes, size_t len, SSL *ssl,
			 void *arg)
{
	enum { HEADER_BYTES = 4, NO_MESSAGE = 0xff };
	struct kh_stream *s = SSL_get_app_data(ssl);
	unsigned char *message = (void *)(uintptr_t)bytes;
	(void)arg;

	if (sent || kind != SSL3_RT_HANDSHAKE || len <= HEADER_BYTES || !s || !s->handshake)
		return;
	struct rest body = { message + HEADER_BYTES, len - HEADER_BYTES };
	s->handshake->excess = find_excess(message[0], body, version == TLS1_3_VERSION);
	if (s->handshake->excess)
		memset(message + HEADER_BYTES, NO_MESSAGE, body.len);
}

/* The leaf is still needed, for the server's signature. */
void kh_stream_forget_chain(STACK_OF(X509) * sent)
{
	while (sk_X509_num(sent) > 1)
		X509_free(sk_X509_pop(sent));
}

/* Nobody chooses a certificate by them: the one that is used is set before (identity.c). The list
 * belongs to OpenSSL, which frees what is left in it. */
bool kh_stream_forget_flight(struct kh_stream *s)
{
	STACK_OF(X509_NAME) *names = (void *)(uintptr_t)SSL_get0_peer_CA_list(s->ssl);
	bool few = sk_X509_NAME_num(names) <= KH_LIMIT_TLS_AUTHORITIES;

	while (sk_X509_NAME_num(names) > 0)
		X509_NAME_free(sk_X509_NAME_pop(names));
	return few;
}
