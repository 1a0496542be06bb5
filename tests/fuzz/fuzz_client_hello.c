/*
 * fuzz_client_hello.c - a ClientHello that is looked at and passed on
 *
 * What is read of the whole is read of no shorter piece, and stays so whatever comes behind. And
 * OpenSSL, which stands here for the server that gets these bytes, never sees another name in them.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/tls1.h>

#include <keyhole/base/buf.h>
#include <keyhole/tls/hello.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static SSL_CTX *ctx;

/* The server's reading: it must be the one in `arg`. */
static int on_hello(SSL *ssl, int *alert, void *arg)
{
	const struct kh_hello *ours = SSL_get_app_data(ssl);
	const unsigned char *ext = NULL;
	struct kh_host theirs;
	size_t len = 0;

	(void)arg;
	*alert = SSL_AD_INTERNAL_ERROR;
	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &ext, &len)) {
		require(ours->sni.kind == KH_HOST_NONE);
		return SSL_CLIENT_HELLO_ERROR;
	}
	require(ours->sni.kind == KH_HOST_NAME && len == 5 + (size_t)ours->sni.len);
	require(kh_host_parse(&theirs, kh_slice_of(ext + 5, len - 5), NULL));
	require(kh_host_eq(&theirs, &ours->sni));
	return SSL_CLIENT_HELLO_ERROR;
}

static void ask_openssl(const struct kh_hello *ours, const uint8_t *data, size_t size)
{
	if (!ctx) {
		ctx = SSL_CTX_new(TLS_server_method());
		require(ctx != NULL);
		SSL_CTX_set_client_hello_cb(ctx, on_hello, NULL);
	}
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new_mem_buf(data, (int)size), *out = BIO_new(BIO_s_mem());
	require(ssl && in && out && SSL_set_app_data(ssl, (void *)(uintptr_t)ours) == 1);
	SSL_set_bio(ssl, in, out);
	require(SSL_accept(ssl) != 1);
	ERR_clear_error();
	SSL_free(ssl);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_hello whole, part;
	struct kh_err err = KH_ERR_INIT;
	enum kh_hello_status status = kh_hello_read(&whole, kh_slice_of(data, size), &err);

	require((status == KH_HELLO_BAD) == (err.code != KH_ERR_NONE));
	if (status != KH_HELLO_GOT)
		require(whole.sni.kind == KH_HOST_NONE && !whole.encrypted);
	bool got = false;
	for (size_t n = 0; n <= size; n += 1 + size / 64) {
		enum kh_hello_status then = kh_hello_read(&part, kh_slice_of(data, n), NULL);
		require(!got || then == KH_HELLO_GOT);
		got = then == KH_HELLO_GOT;
		if (got)
			require(status == KH_HELLO_GOT && part.encrypted == whole.encrypted &&
				part.sni.kind == whole.sni.kind &&
				strcmp(part.sni.text, whole.sni.text) == 0);
		if (then == KH_HELLO_BAD)
			require(status == KH_HELLO_BAD);
	}
	if (status == KH_HELLO_GOT)
		ask_openssl(&whole, data, size);
	return 0;
}
