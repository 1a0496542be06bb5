/*
 * stream_io.c - reading and writing a stream, plain or TLS
 *
 * Each function makes its call once and returns the result; stream.c does the waiting.
 */
#include "stream_internal.h"

#include <errno.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include <keyhole/base/hidden.h>

void kh_stream_try_shutdown(struct kh_stream *s)
{
	if (s->state == STREAM_TLS) {
		ERR_clear_error();
		int rc = SSL_shutdown(s->ssl);
		if (rc < 0 && SSL_get_error(s->ssl, rc) == SSL_ERROR_WANT_WRITE) {
			if (s->writing != WRITE_CLOSING)
				(void)kh_stream_set_writing(s, WRITE_CLOSING);
			return;
		}
		ERR_clear_error();
	}
	if (s->pipe)
		s->pipe_ops->shutdown(s->pipe);
	else
		(void)shutdown(s->fd, SHUT_WR);
	(void)kh_stream_set_writing(s, s->writing == WRITE_FAILED ? WRITE_FAILED_CLOSED
								  : WRITE_CLOSED);
}

/* What reading has come to. */
static enum kh_io end_of_reading(const struct kh_stream *s)
{
	switch (s->reading) {
	case READ_EOF:
		return KH_IO_EOF;
	case READ_TRUNCATED:
		return KH_IO_TRUNCATED;
	case READ_ERROR:
		return KH_IO_ERROR;
	case READ_OPEN:
	case READ_BLOCKED:
	case READ_BLOCKED_BY_WRITE:
	case READ_RETRY:
		break;
	}
	return KH_IO_AGAIN;
}

/* A fault of ours is an end too. */
static enum kh_io end_reading(struct kh_stream *s, enum stream_reading how)
{
	return kh_stream_set_reading(s, how) ? end_of_reading(s) : KH_IO_ERROR;
}

static enum kh_io block_reading(struct kh_stream *s, enum stream_reading how)
{
	return s->reading == how || kh_stream_set_reading(s, how) ? KH_IO_AGAIN : KH_IO_ERROR;
}

/* The failure of SSL_read or SSL_write, in words. */
static void explain(struct kh_stream *s, const char *doing)
{
	enum kh_err_code protocol = s->side != STREAM_DOWN ? KH_ERR_TLS_PROTOCOL : KH_ERR_DOWN_TLS;
	enum kh_err_code closed = s->side != STREAM_DOWN || s->state == STREAM_PLAIN
					  ? KH_ERR_UP_CLOSED
					  : KH_ERR_DOWN_CLOSED;
	if (ERR_peek_error() != 0)
		kh_err_openssl(kh_stream_err(s), protocol, "%s", doing);
	else
		kh_err_sys(kh_stream_err(s), closed, s->raw_error ? s->raw_error : EPIPE, "%s",
			   doing);
}

/* Before each call whose failure SSL_get_error explains. Clearing walks the whole queue, and nearly
 * always it is empty. */
static void forget_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* Maps what SSL_read or SSL_peek did not give. */
static enum kh_io read_stopped(struct kh_stream *s, int rc)
{
	if (s->messages && kh_stream_is_flooded(s)) {
		ERR_clear_error();
		return end_reading(s, READ_ERROR);
	}
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		/* After a message without content: the rest is here, and no event would say so. */
		if (s->prefix)
			return s->reading == READ_OPEN ? KH_IO_AGAIN : block_reading(s, READ_OPEN);
		return block_reading(s, READ_BLOCKED);
	case SSL_ERROR_WANT_WRITE:
		return block_reading(s, READ_BLOCKED_BY_WRITE);
	case SSL_ERROR_ZERO_RETURN:
		return end_reading(s, READ_EOF);
	default:
		if (s->socket == SOCKET_ENDED && ERR_peek_error() == 0)
			return end_reading(s, READ_TRUNCATED);
		explain(s, "read");
		ERR_clear_error();
		return end_reading(s, READ_ERROR);
	}
}

bool kh_stream_probe(struct kh_stream *s)
{
	char byte;
	if (s->state != STREAM_TLS || stream_has_ended(s) || SSL_pending(s->ssl) > 0)
		return true;
	forget_errors();
	int rc = SSL_peek(s->ssl, &byte, 1);
	return rc > 0 || read_stopped(s, rc) != KH_IO_AGAIN ||
	       (s->side == STREAM_DOWN && s->new_messages > 0);
}

static enum kh_io read_plain(struct kh_stream *s, void *bytes, size_t room, size_t *got)
{
	ssize_t n = kh_stream_raw_read(s, bytes, room);
	if (n > 0) {
		*got = (size_t)n;
		return KH_IO_OK;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return KH_IO_AGAIN;
	if (n < 0)
		explain(s, "read");
	return end_reading(s, n == 0 ? READ_EOF : READ_ERROR);
}

static enum kh_io read_tls(struct kh_stream *s, void *bytes, size_t room, size_t *got)
{
	forget_errors();
	int rc = SSL_read_ex(s->ssl, bytes, room, got);
	if (rc == 1) {
		if (s->reading != READ_OPEN)
			(void)kh_stream_set_reading(s, READ_OPEN);
		if (s->messages)
			kh_stream_forgive_messages(s, *got);
		return KH_IO_OK;
	}
	*got = 0;
	return read_stopped(s, rc);
}

static enum kh_io not_open(struct kh_stream *s)
{
	return s->state >= STREAM_FAILED ? KH_IO_ERROR : KH_IO_AGAIN;
}

enum kh_io kh_stream_read(struct kh_stream *s, void *bytes, size_t room, size_t *got)
{
	*got = 0;
	if (s->life == LIFE_FREED || room == 0)
		return KH_IO_AGAIN;
	if (!stream_is_ready(s))
		return not_open(s);
	if (stream_has_ended(s))
		return end_of_reading(s);
	enum kh_io io = s->state == STREAM_PLAIN ? read_plain(s, bytes, room, got)
						 : read_tls(s, bytes, room, got);
	kh_stream_update(s);
	return io;
}

static enum kh_io write_plain(struct kh_stream *s, const void *bytes, size_t len, size_t *put)
{
	ssize_t n = kh_stream_raw_write(s, bytes, len);
	if (n >= 0) {
		*put = (size_t)n;
		return KH_IO_OK;
	}
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return KH_IO_AGAIN;
	(void)kh_stream_set_writing(s, WRITE_FAILED);
	explain(s, "write");
	return KH_IO_ERROR;
}

/* One record at a time, as many as go. */
static enum kh_io write_tls(struct kh_stream *s, const char *bytes, size_t len, size_t *put)
{
	if (s->writing == WRITE_NEEDS_READ)
		(void)kh_stream_set_writing(s, WRITE_OPEN);
	while (*put < len) {
		size_t n = 0;
		forget_errors();
		int rc = SSL_write_ex(s->ssl, bytes + *put, len - *put, &n);
		if (rc == 1) {
			*put += n;
			continue;
		}
		switch (SSL_get_error(s->ssl, rc)) {
		case SSL_ERROR_WANT_READ:
			(void)kh_stream_set_writing(s, WRITE_NEEDS_READ);
			break;
		case SSL_ERROR_WANT_WRITE:
			break;
		default:
			(void)kh_stream_set_writing(s, WRITE_FAILED);
			explain(s, "write");
			ERR_clear_error();
			return *put > 0 ? KH_IO_OK : KH_IO_ERROR;
		}
		return *put > 0 ? KH_IO_OK : KH_IO_AGAIN;
	}
	return KH_IO_OK;
}

/* OpenSSL copies what it encrypts into a buffer first. One that it still has, from before, is given
 * back; the next one is hidden too. */
static enum kh_io write_hidden(struct kh_stream *s, const char *bytes, size_t len, size_t *put)
{
	kh_stream_trim(s);
	kh_hidden_begin();
	enum kh_io io = write_tls(s, bytes, len, put);
	kh_hidden_end();
	return io;
}

enum kh_io kh_stream_write(struct kh_stream *s, const void *bytes, size_t len, size_t *put)
{
	*put = 0;
	if (s->life == LIFE_FREED || !stream_is_writable(s))
		return KH_IO_ERROR;
	if (!stream_is_ready(s))
		return not_open(s);
	if (len == 0)
		return KH_IO_OK;
	enum kh_io io = s->state == STREAM_PLAIN ? write_plain(s, bytes, len, put)
			: kh_hidden_has(bytes)	 ? write_hidden(s, bytes, len, put)
						 : write_tls(s, bytes, len, put);
	kh_stream_update(s);
	return io;
}

void kh_stream_shutdown_write(struct kh_stream *s)
{
	if (s->life == LIFE_FREED || s->writing > WRITE_FAILED || !stream_is_ready(s))
		return;
	kh_stream_try_shutdown(s);
	kh_stream_update(s);
}

static bool is_open(const struct kh_stream *s)
{
	return s->life != LIFE_FREED && !stream_has_ended(s) && stream_is_writable(s) &&
	       stream_is_ready(s);
}

/* Of a stream that has not ended. */
static bool is_blocked(const struct kh_stream *s)
{
	return s->reading == READ_BLOCKED || s->reading == READ_BLOCKED_BY_WRITE;
}

/* Bytes that OpenSSL has and that make no whole record yet, or one that was not looked at. */
static bool is_in_a_record(const struct kh_stream *s)
{
	return s->state == STREAM_TLS && SSL_has_pending(s->ssl);
}

bool kh_stream_has_news(struct kh_stream *s)
{
	char byte;
	if (!is_open(s) || s->prefix || (!is_blocked(s) && is_in_a_record(s)))
		return true;
	if (recv(s->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	    (errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	stream_refill(s);
	return true;
}

bool kh_stream_has_more(const struct kh_stream *s)
{
	return s->state == STREAM_TLS && s->life != LIFE_FREED && !stream_has_ended(s) &&
	       !is_blocked(s) && SSL_has_pending(s->ssl);
}

bool kh_stream_is_alive(struct kh_stream *s)
{
	char byte;
	if (!is_open(s))
		return false;
	if (!kh_stream_has_news(s))
		return !is_in_a_record(s);
	if (s->state == STREAM_PLAIN)
		return false;
	/* Bytes are there: a whole ticket is no answer, anything else is one too many. One read has
	 * to take them all. */
	forget_errors();
	int rc = SSL_peek(s->ssl, &byte, 1);
	bool quiet = rc <= 0 && read_stopped(s, rc) == KH_IO_AGAIN && !is_in_a_record(s) &&
		     s->socket == SOCKET_DRAINED && s->reads == 0;
	kh_stream_trim(s);
	kh_stream_update(s);
	return quiet;
}
