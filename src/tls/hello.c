/*
 * hello.c - what a ClientHello says before anybody answers it
 *
 * OpenSSL parses the ClientHello of connections that keyhole terminates. This is for the others
 * (passthrough): the bytes are forwarded unchanged, so the upstream must not be able to read them
 * differently. Hence this parser is never lenient.
 */

#include <keyhole/tls/hello.h>

#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

enum {
	RECORD_HANDSHAKE = 22,
	RECORD_ALERT = 21,
	RECORD_HEAD = 5,
	RECORD_MOST = 1 << 14,
	MESSAGE_CLIENT_HELLO = 1,
	MESSAGE_HEAD = 4,
	RANDOM_BYTES = 32,
	SESSION_ID_MOST = 32,
	EXTENSION_SERVER_NAME = 0,
	EXTENSION_ESNI = 0xffce, /* what drafts of ECH had */
	EXTENSION_ECH_FIRST = 0xfe08,
	EXTENSION_ECH = 0xfe0d, /* RFC 9849 */
	NAME_TYPE_HOST = 0,
	EXTENSION_TYPES = 1 << 16,
};

/* Takes numbers and vectors off the front; `bad` once one of them did not fit. */
struct reader {
	const unsigned char *at;
	size_t left;
	bool bad;
};

static unsigned number(struct reader *r, size_t bytes)
{
	unsigned value = 0;

	if (r->bad || r->left < bytes) {
		r->bad = true;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		value = value << 8 | r->at[i];
	r->at += bytes;
	r->left -= bytes;
	return value;
}

static struct reader span(struct reader *r, size_t len)
{
	struct reader part = { r->at, len, r->bad || len > r->left };

	if (part.bad) {
		r->bad = true;
		return (struct reader){ r->at, 0, true };
	}
	r->at += len;
	r->left -= len;
	return part;
}

static struct reader vector(struct reader *r, size_t length_bytes)
{
	return span(r, number(r, length_bytes));
}

static bool bad(struct kh_err *err, const char *why)
{
	return kh_err_set(err, KH_ERR_DOWN_TLS, "ClientHello: %s", why);
}

/* The messages in the records, joined. */
struct joined {
	unsigned char bytes[KH_LIMIT_HELLO_BYTES];
	size_t len;
};

/* Return: the hello is whole in `out`, and nothing is behind it. */
static enum kh_hello_status join(struct joined *out, struct kh_slice in, struct kh_err *err)
{
	const unsigned char *at = (const unsigned char *)in.ptr;
	size_t left = in.len;

	for (out->len = 0;;) {
		if (left > 0 && at[0] != RECORD_HANDSHAKE)
			return bad(err, "a record that is no handshake"), KH_HELLO_BAD;
		if (left > 1 && at[1] != 3)
			return bad(err, "a record of no known version"), KH_HELLO_BAD;
		if (left < RECORD_HEAD)
			return KH_HELLO_NEED_MORE;
		size_t len = (size_t)(at[3] << 8 | at[4]);
		if (len == 0 || len > RECORD_MOST || len > sizeof(out->bytes) - out->len)
			return bad(err, "a record that is empty or too long"), KH_HELLO_BAD;
		size_t here = left - RECORD_HEAD < len ? left - RECORD_HEAD : len;
		memcpy(out->bytes + out->len, at + RECORD_HEAD, here);
		out->len += here;
		if (out->len > 0 && out->bytes[0] != MESSAGE_CLIENT_HELLO)
			return bad(err, "another message in its place"), KH_HELLO_BAD;
		if (out->len >= MESSAGE_HEAD) {
			size_t whole = MESSAGE_HEAD + ((size_t)out->bytes[1] << 16 |
						       (size_t)out->bytes[2] << 8 | out->bytes[3]);
			if (whole > sizeof(out->bytes))
				return bad(err, "too long"), KH_HELLO_BAD;
			if (out->len - here + len > whole)
				return bad(err, "something after it in its record"), KH_HELLO_BAD;
			if (out->len == whole)
				return KH_HELLO_GOT;
		}
		if (here < len)
			return KH_HELLO_NEED_MORE;
		at += RECORD_HEAD + len;
		left -= RECORD_HEAD + len;
	}
}

/* ServerNameList: exactly one host_name. */
static bool read_server_name(struct kh_hello *out, struct reader extension, struct kh_err *err)
{
	struct reader list = vector(&extension, 2);
	unsigned type = number(&list, 1);
	struct reader name = vector(&list, 2);

	if (name.bad || extension.left > 0 || list.left > 0 || type != NAME_TYPE_HOST)
		return bad(err, "a server_name that is not one host name");
	struct kh_slice text = kh_slice_of(name.at, name.left);
	if (!kh_host_parse(&out->sni, text, NULL) || out->sni.kind != KH_HOST_NAME) {
		out->sni = (struct kh_host){ 0 };
		return kh_err_set(err, KH_ERR_DOWN_TLS,
				  "ClientHello: the SNI \"%s\" is no host name",
				  kh_esc(kh_slice_sub(text, 0, KH_HOST_MAX_BYTES)));
	}
	return true;
}

static bool read_extensions(struct kh_hello *out, struct reader list, struct kh_err *err)
{
	unsigned char seen[EXTENSION_TYPES / 8] = { 0 };

	while (list.left > 0) {
		unsigned type = number(&list, 2);
		struct reader extension = vector(&list, 2);
		if (extension.bad)
			return bad(err, "an extension that does not fit");
		if (seen[type / 8] & 1u << type % 8)
			return bad(err, "an extension that is there twice");
		seen[type / 8] |= (unsigned char)(1u << type % 8);
		if (type == EXTENSION_SERVER_NAME && !read_server_name(out, extension, err))
			return false;
		if (type == EXTENSION_ESNI ||
		    (type >= EXTENSION_ECH_FIRST && type <= EXTENSION_ECH))
			out->encrypted = true;
	}
	return true;
}

static bool read_hello(struct kh_hello *out, const struct joined *message, struct kh_err *err)
{
	struct reader r = { message->bytes + MESSAGE_HEAD, message->len - MESSAGE_HEAD, false };
	unsigned version = number(&r, 2);
	struct reader random = span(&r, RANDOM_BYTES);
	struct reader session_id = vector(&r, 1);
	struct reader ciphers = vector(&r, 2);
	struct reader compressions = vector(&r, 1);

	if (random.bad || compressions.bad || version >> 8 != 3 ||
	    session_id.left > SESSION_ID_MOST || ciphers.left == 0 || ciphers.left % 2 ||
	    compressions.left == 0)
		return bad(err, "not well-formed");
	if (r.left == 0)
		return true; /* older clients have no extensions */
	struct reader extensions = vector(&r, 2);
	if (extensions.bad || r.left > 0)
		return bad(err, "extensions that do not fit");
	return read_extensions(out, extensions, err);
}

enum kh_hello_status kh_hello_read(struct kh_hello *out, struct kh_slice bytes, struct kh_err *err)
{
	struct joined message;
	bool over = bytes.len > KH_LIMIT_HELLO_BYTES;

	*out = (struct kh_hello){ 0 };
	enum kh_hello_status status =
		join(&message, kh_slice_sub(bytes, 0, KH_LIMIT_HELLO_BYTES), err);
	if (status == KH_HELLO_NEED_MORE && over)
		return bad(err, "too long"), KH_HELLO_BAD;
	if (status == KH_HELLO_GOT && !read_hello(out, &message, err)) {
		*out = (struct kh_hello){ 0 };
		return KH_HELLO_BAD;
	}
	return status;
}

size_t kh_hello_length(struct kh_slice bytes)
{
	const unsigned char *all = (const unsigned char *)bytes.ptr;
	unsigned char head[MESSAGE_HEAD];
	size_t n = 0, at = 0;

	/* The header itself may be cut into records. */
	while (n < sizeof(head)) {
		if (bytes.len - at < RECORD_HEAD)
			return 0;
		size_t len = (size_t)all[at + 3] << 8 | all[at + 4];
		if (len == 0)
			return SIZE_MAX;
		at += RECORD_HEAD;
		for (; len > 0 && n < sizeof(head); len--) {
			if (at == bytes.len)
				return 0;
			head[n++] = all[at++];
		}
	}
	return MESSAGE_HEAD + ((size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3]);
}

void kh_alert_format(enum kh_alert alert, unsigned char out[KH_ALERT_BYTES])
{
	enum { LEVEL_FATAL = 2 };
	const unsigned char record[KH_ALERT_BYTES] = {
		RECORD_ALERT, 3, 3, 0, 2, LEVEL_FATAL, (unsigned char)alert,
	};

	memcpy(out, record, sizeof(record));
}
