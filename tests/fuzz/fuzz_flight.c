/*
 * fuzz_flight.c - an upstream's Certificate and CertificateRequest, before OpenSSL reads them
 *
 * The first byte chooses the version; a message of a handshake follows, with its header. A message
 * with too much in it is overwritten whole, and any other is left as it is. Nothing is too much
 * that is too short to hold so many.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/tls1.h>

#include <keyhole/base/limits.h>
#include <tls/flight_internal.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { HEADER_BYTES = 4, SHORTEST_CERTIFICATE = 3, SHORTEST_NAME = 2 };
	static SSL_CTX *ctx;
	struct handshake handshake = { .excess = NULL };
	struct kh_stream stream = { .handshake = &handshake };

	if (size < 1)
		return 0;
	if (!ctx)
		ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	size_t len = size - 1;
	/* A copy of its own, so that a sanitizer sees each byte behind it. */
	unsigned char *message = malloc(len ? len : 1);
	require(ssl && message && SSL_set_app_data(ssl, &stream) == 1);
	memcpy(message, data + 1, len);
	kh_stream_on_flight(0, data[0] & 1 ? TLS1_3_VERSION : TLS1_2_VERSION, SSL3_RT_HANDSHAKE,
			    message, len, ssl, NULL);
	if (handshake.excess) {
		size_t most = message[0] == SSL3_MT_CERTIFICATE
				      ? (size_t)KH_LIMIT_TLS_CERTIFICATES * SHORTEST_CERTIFICATE
				      : (size_t)KH_LIMIT_TLS_AUTHORITIES * SHORTEST_NAME;
		require(len - HEADER_BYTES > most);
		for (size_t i = HEADER_BYTES; i < len; i++)
			require(message[i] == 0xff);
	} else {
		require(memcmp(message, data + 1, len) == 0);
	}
	free(message);
	SSL_free(ssl);
	return 0;
}
