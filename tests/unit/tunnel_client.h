/* tunnel_client.h - a client in a tunnel, and the leaf that it is shown */
#ifndef KEYHOLE_TESTS_TUNNEL_CLIENT_H
#define KEYHOLE_TESTS_TUNNEL_CLIENT_H

#include "pipe_client.h"

#include <openssl/ssl.h>

#include <keyhole/tls/ca.h>

#define CONNECT(authority) "CONNECT " authority " HTTP/1.1\r\nHost: " authority "\r\n\r\n"

static inline struct kh_session *session(void)
{
	assert_true(client_is_there());
	return client.session;
}

/* The first flight of a client; `sni` NULL: it names no host. Return: its length. */
static inline size_t hello(const char *sni, char *out, size_t size)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *sent = BIO_new(BIO_s_mem());

	assert_true(ctx && ssl && in && sent);
	SSL_set_bio(ssl, in, sent);
	if (sni)
		assert_int_equal(SSL_set_tlsext_host_name(ssl, sni), 1);
	assert_true(SSL_connect(ssl) < 0);
	int len = BIO_read(sent, out, (int)size);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	assert_true(len > 0);
	return (size_t)len;
}

static inline void leaf_comes(const char *name)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *leaves = world.worker.leaves;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_host host;
	struct kh_buf der;

	kh_buf_init(&der, 8192);
	assert_non_null(ca);
	assert_true(kh_host_parse(&host, kh_slice_of(name, strlen(name)), NULL));
	assert_true(kh_leaves_set_issuer(leaves, kh_ca_der(ca), &err));
	assert_true(kh_ca_sign(ca, kh_leaves_spki(leaves), &host, KH_CA_LEAF_S, &der, &err));
	assert_true(kh_leaves_put(leaves, &host, kh_buf_view(&der), &err));
	session()->member.ops->leaf_came(&client.session->member, &host, "", true);
	kh_buf_fini(&der);
	kh_ca_free(ca);
}

#endif
