/*
 * messages.c - TLS messages that carry no content, after the handshake
 *
 * They are KeyUpdate and NewSessionTicket (TLS 1.3), HelloRequest and ClientHello (TLS 1.2), and
 * warnings. OpenSSL takes them inside a read, and asks nobody. It bounds only warnings and records
 * of no bytes. So they are counted here, and a peer that sends too many without content loses the
 * connection. A KeyUpdate is worth a thousand bytes of a head; the user of a stream can ask how
 * many came, and charge somebody for them.
 */
#include "stream_internal.h"

#include <keyhole/base/limits.h>

static unsigned most_messages(const struct kh_stream *s)
{
	return s->side == STREAM_DOWN ? KH_LIMIT_TLS_MESSAGES_DOWN : KH_LIMIT_TLS_MESSAGES_UP;
}

/* OpenSSL's state machine is through with a message, or there is a warning. With AUTO_RETRY off, a
 * read still goes on while OpenSSL has bytes in its buffer; as if the peer had closed, it stops. */
void kh_stream_on_message(const SSL *ssl, int where, int ret)
{
	struct kh_stream *s = SSL_get_app_data(ssl);
	bool warning = (where & SSL_CB_ALERT) && (ret & 0xff) != SSL_AD_CLOSE_NOTIFY;
	bool message = (where & SSL_CB_EXIT) && ret == 1;
	if (!s || s->state != STREAM_TLS || !(warning || message))
		return;
	s->new_messages++;
	if (s->messages++ == most_messages(s))
		SSL_set_shutdown(s->ssl, SSL_get_shutdown(s->ssl) | SSL_RECEIVED_SHUTDOWN);
}

bool kh_stream_is_flooded(struct kh_stream *s)
{
	if (s->messages <= most_messages(s))
		return false;
	kh_err_set(kh_stream_err(s), s->side == STREAM_DOWN ? KH_ERR_DOWN_TLS : KH_ERR_TLS_PROTOCOL,
		   "too many TLS messages without content (KeyUpdate, for example)");
	return true;
}

void kh_stream_forgive_messages(struct kh_stream *s, size_t content)
{
	size_t paid = (s->paid_bytes + content) / KH_LIMIT_TLS_CONTENT_PER_MESSAGE;
	s->paid_bytes = (s->paid_bytes + content) % KH_LIMIT_TLS_CONTENT_PER_MESSAGE;
	s->messages = paid < s->messages ? s->messages - (unsigned)paid : 0;
}

unsigned kh_stream_take_messages(struct kh_stream *s)
{
	unsigned n = s->new_messages;
	s->new_messages = 0;
	return n;
}
