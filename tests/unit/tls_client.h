/* tls_client.h - a client of OpenSSL's own, and the server's side that it talks to */
#ifndef KEYHOLE_TESTS_TLS_CLIENT_H
#define KEYHOLE_TESTS_TLS_CLIENT_H

#include "tls_world.h"

/* A client of OpenSSL's own, for what ours never does. It drives one end of a socketpair. */
struct client {
	SSL_CTX *ctx;
	SSL *ssl;
};

static inline void client_init(struct client *c, int fd)
{
	c->ctx = SSL_CTX_new(TLS_client_method());
	assert_non_null(c->ctx);
	c->ssl = SSL_new(c->ctx);
	assert_non_null(c->ssl);
	assert_int_equal(SSL_set_fd(c->ssl, fd), 1);
	SSL_set_connect_state(c->ssl);
}

/* The macros of OpenSSL want what they don't change to be writable. */
static inline void client_names(struct client *c, const char *name)
{
	char copy[256];
	snprintf(copy, sizeof copy, "%s", name);
	assert_int_equal(SSL_set_tlsext_host_name(c->ssl, copy), 1);
}

static inline void client_fini(struct client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	ERR_clear_error();
}

/* Goes on until the client is through (1), has failed (-1), or the other side is. */
static inline int client_run(struct client *c, struct side *down)
{
	for (int i = 0; i < 400; i++) {
		int rc = SSL_do_handshake(c->ssl);
		if (rc == 1 && down->done)
			return 1;
		if (rc != 1 && SSL_get_error(c->ssl, rc) != SSL_ERROR_WANT_READ &&
		    SSL_get_error(c->ssl, rc) != SSL_ERROR_WANT_WRITE)
			return -1;
		turn_for(&w, 2);
		if (down->failed)
			return -1;
	}
	return 0;
}

/* The stream of the server's side, and the bare descriptor of the client's. */
static inline int half_init(struct side *down)
{
	int fds[2];
	*down = (struct side){ 0 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	down->stream = kh_stream_new(w.base, fds[0], on_side, down);
	assert_non_null(down->stream);
	return fds[1];
}

static inline void accept_on(struct side *down, const char *name, struct kh_slice prefix,
			     uint32_t ms)
{
	struct kh_host host = host_of(name);
	assert_true(kh_stream_accept_tls(down->stream, w.down, prefix, &host, ms));
}

/* A client that is about to greet a server that accepts for api.example.com. Return: its
 * descriptor, for half_end. */
static inline int half_begin(struct side *down, struct client *c)
{
	int fd = half_init(down);
	accept_on(down, "api.example.com", KH_SLICE(""), 5000);
	client_init(c, fd);
	return fd;
}

static inline void half_end(struct side *down, struct client *c, int fd)
{
	client_fini(c);
	kh_stream_free(down->stream);
	close(fd);
}

#endif
