/*
 * stream_bio.c - how OpenSSL reads and writes a stream's descriptor, or pipe
 *
 * It reads the prefix first, then the socket. A read that returned fewer bytes than it had room for
 * has emptied the socket: the next one returns EAGAIN without a system call, until the loop reports
 * new bytes. That saves a system call per message.
 *
 * OpenSSL reads until a message is whole, and a peer may send one in records of a byte each, for as
 * long as it likes. So after a few full reads it is told that the socket is empty, too, until the
 * loop says again that it is not.
 */
#include "stream_internal.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

#include <keyhole/base/limits.h>

enum { READS_AT_ONCE = 4 };

static ssize_t read_prefix(struct kh_stream *s, void *bytes, size_t room)
{
	size_t left = s->prefix_len - s->prefix_at, n = left < room ? left : room;
	memcpy(bytes, s->prefix + s->prefix_at, n);
	s->prefix_at += n;
	if (s->prefix_at == s->prefix_len) {
		free(s->prefix);
		s->prefix = NULL;
		s->prefix_len = s->prefix_at = 0;
	}
	return (ssize_t)n;
}

ssize_t kh_stream_raw_read(struct kh_stream *s, void *bytes, size_t room)
{
	if (s->prefix)
		return read_prefix(s, bytes, room);
	if (s->socket == SOCKET_DRAINED) {
		errno = EAGAIN;
		return -1;
	}
	ssize_t n;
	do
		n = s->pipe ? s->pipe_ops->read(s->pipe, bytes, room)
			    : recv(s->fd, bytes, room, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
		s->raw_error = errno;
	else if ((size_t)n != room && s->socket == SOCKET_MORE)
		(void)kh_stream_set_socket(s, n == 0 ? SOCKET_ENDED : SOCKET_DRAINED);
	return n;
}

ssize_t kh_stream_raw_write(struct kh_stream *s, const void *bytes, size_t len)
{
	ssize_t n;
	do
		n = s->pipe ? s->pipe_ops->write(s->pipe, bytes, len)
			    : send(s->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
		s->raw_error = errno;
	return n;
}

/* A sandbox's handshake has had its bytes. */
static bool is_endless(struct kh_stream *s, ssize_t n)
{
	if (!s->handshake || s->side != STREAM_DOWN || n <= 0)
		return false;
	s->handshake->bytes += (size_t)n;
	s->handshake->unpaid_bytes += (size_t)n;
	return s->handshake->bytes > KH_LIMIT_HANDSHAKE_BYTES;
}

static int bio_read(BIO *bio, char *bytes, size_t room, size_t *got)
{
	struct kh_stream *s = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	ssize_t n = kh_stream_raw_read(s, bytes, room);
	if (n > 0 && !s->prefix && s->socket == SOCKET_MORE && ++s->reads >= READS_AT_ONCE)
		(void)kh_stream_set_socket(s, SOCKET_DRAINED);
	if (is_endless(s, n)) {
		s->raw_error = errno = EMSGSIZE;
		n = -1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_read(bio);
	*got = n > 0 ? (size_t)n : 0;
	return n > 0;
}

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *put)
{
	struct kh_stream *s = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	ssize_t n = kh_stream_raw_write(s, bytes, len);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_write(bio);
	*put = n > 0 ? (size_t)n : 0;
	return n > 0;
}

/* BIO_CTRL_EOF is answered with 0 even at the end: otherwise OpenSSL would declare the whole
 * connection broken, and what may still be written could not be. */
static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio)
{
	BIO_set_init(bio, 1);
	return 1;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
	BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "keyhole");
	if (made && BIO_meth_set_read_ex(made, bio_read) &&
	    BIO_meth_set_write_ex(made, bio_write) && BIO_meth_set_ctrl(made, bio_ctrl) &&
	    BIO_meth_set_create(made, bio_create))
		method = made;
}

BIO *kh_stream_bio_new(struct kh_stream *s)
{
	pthread_once(&method_once, make_method);
	BIO *bio = method ? BIO_new(method) : NULL;
	if (bio)
		BIO_set_data(bio, s);
	return bio;
}
