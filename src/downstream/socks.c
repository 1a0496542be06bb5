/*
 * socks.c - SOCKS5 (RFC 1928, RFC 1929), as a server
 *
 *   GREETING ─▶ (LOGIN ─▶ VERDICT) ─▶ REQUEST ─▶ END
 *
 * A message is checked as its bytes come, so that a wrong beginning is refused without waiting for
 * the end. It is processed when it is complete.
 */

#include "socks.h"

#include <arpa/inet.h>

enum {
	METHOD_NONE = 0x00,
	METHOD_PASSWORD = 0x02,
	METHODS_NO_GOOD = 0xff,
	LOGIN_VERSION = 1,
	COMMAND_CONNECT = 1,
	TYPE_IPV4 = 1,
	TYPE_NAME = 3,
	TYPE_IPV6 = 4,
	REQUEST_HEAD = 4, /* version, command, reserved, type */
	PORT_BYTES = 2,
};

static unsigned byte_at(struct kh_slice s, size_t at)
{
	return (unsigned char)s.ptr[at];
}

static bool put_two(struct kh_buf *out, unsigned first, unsigned second)
{
	const unsigned char bytes[] = { (unsigned char)first, (unsigned char)second };

	return kh_buf_append(out, bytes, sizeof(bytes));
}

static enum kh_socks_event no_memory(struct kh_socks *socks, struct kh_err *err)
{
	socks->at = KH_SOCKS_AT_END;
	kh_err_set(err, KH_ERR_NO_MEMORY, "SOCKS5: no memory");
	return KH_SOCKS_ERROR;
}

static void take(struct kh_slice *in, size_t len)
{
	*in = kh_slice_sub(*in, len, in->len);
}

/* VER, NMETHODS, METHODS */
static enum kh_socks_event read_greeting(struct kh_socks *socks, struct kh_slice *in,
					 struct kh_buf *out, struct kh_err *err)
{
	unsigned wanted = socks->with_password ? METHOD_PASSWORD : METHOD_NONE;

	if (in->len > 0 && byte_at(*in, 0) != KH_SOCKS_VERSION) {
		socks->at = KH_SOCKS_AT_END;
		kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "SOCKS: version %u, not 5",
			   byte_at(*in, 0));
		return KH_SOCKS_ERROR;
	}
	if (in->len < 2 || (byte_at(*in, 1) > 0 && in->len < 2 + (size_t)byte_at(*in, 1)))
		return KH_SOCKS_NEED_MORE;
	size_t n = byte_at(*in, 1);
	struct kh_slice methods = kh_slice_sub(*in, 2, 2 + n);
	bool offered = kh_slice_find(methods, (char)wanted, 0) < methods.len;
	take(in, 2 + n);
	if (!put_two(out, KH_SOCKS_VERSION, offered ? wanted : METHODS_NO_GOOD))
		return no_memory(socks, err);
	if (offered) {
		socks->at = socks->with_password ? KH_SOCKS_AT_LOGIN : KH_SOCKS_AT_REQUEST;
		return KH_SOCKS_AGREED;
	}
	socks->at = KH_SOCKS_AT_END;
	if (n == 0)
		kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "SOCKS5: no methods are offered");
	else
		kh_err_set(err, socks->with_password ? KH_ERR_PROXY_AUTH : KH_ERR_REQUEST_MALFORMED,
			   socks->with_password
				   ? "SOCKS5: this listener asks for user name and password"
				   : "SOCKS5: this listener takes no authentication, and the "
				     "client offers nothing else");
	return KH_SOCKS_ERROR;
}

/* VER, ULEN, UNAME, PLEN, PASSWD (RFC 1929 §2) */
static enum kh_socks_event read_login(struct kh_socks *socks, struct kh_slice *in,
				      struct kh_buf *out, struct kh_err *err)
{
	if (in->len > 0 && byte_at(*in, 0) != LOGIN_VERSION) {
		socks->at = KH_SOCKS_AT_END;
		(void)put_two(out, LOGIN_VERSION, KH_SOCKS_FAILURE);
		kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "SOCKS5: the login is of version %u",
			   byte_at(*in, 0));
		return KH_SOCKS_ERROR;
	}
	if (in->len < 2 || in->len < 3 + (size_t)byte_at(*in, 1))
		return KH_SOCKS_NEED_MORE;
	size_t user_end = 2 + (size_t)byte_at(*in, 1);
	size_t end = user_end + 1 + byte_at(*in, user_end);
	if (in->len < end)
		return KH_SOCKS_NEED_MORE;
	socks->user = kh_slice_sub(*in, 2, user_end);
	socks->password = kh_slice_sub(*in, user_end + 1, end);
	socks->at = KH_SOCKS_AT_VERDICT;
	take(in, end);
	return KH_SOCKS_LOGIN;
}

bool kh_socks_login(struct kh_socks *socks, bool holds, struct kh_buf *out)
{
	socks->user = socks->password = kh_slice_of("", 0);
	socks->at = holds ? KH_SOCKS_AT_REQUEST : KH_SOCKS_AT_END;
	return put_two(out, LOGIN_VERSION, holds ? KH_SOCKS_SUCCEEDED : KH_SOCKS_FAILURE);
}

bool kh_socks_put_reply(struct kh_buf *out, enum kh_socks_reply reply)
{
	const unsigned char bytes[] = {
		KH_SOCKS_VERSION, (unsigned char)reply, 0, TYPE_IPV4, 0, 0, 0, 0, 0, 0
	};

	return kh_buf_append(out, bytes, sizeof(bytes));
}

static enum kh_socks_event refuse(struct kh_socks *socks, struct kh_buf *out,
				  enum kh_socks_reply reply)
{
	socks->at = KH_SOCKS_AT_END;
	(void)kh_socks_put_reply(out, reply);
	return KH_SOCKS_ERROR;
}

/* The first four bytes, as far as they are there. */
static enum kh_socks_event check_head(struct kh_socks *socks, struct kh_slice in,
				      struct kh_buf *out, struct kh_err *err)
{
	if (in.len > 0 && byte_at(in, 0) != KH_SOCKS_VERSION) {
		kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "SOCKS5: the request is of version %u",
			   byte_at(in, 0));
		return refuse(socks, out, KH_SOCKS_FAILURE);
	}
	if (in.len > 1 && byte_at(in, 1) != COMMAND_CONNECT) {
		kh_err_set(err, KH_ERR_METHOD_UNSUPPORTED,
			   "SOCKS5: command %u is not supported, only CONNECT is", byte_at(in, 1));
		return refuse(socks, out, KH_SOCKS_COMMAND_UNSUPPORTED);
	}
	if (in.len > 2 && byte_at(in, 2) != 0) {
		kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "SOCKS5: the reserved byte is not zero");
		return refuse(socks, out, KH_SOCKS_FAILURE);
	}
	if (in.len >= REQUEST_HEAD && byte_at(in, 3) != TYPE_IPV4 && byte_at(in, 3) != TYPE_NAME &&
	    byte_at(in, 3) != TYPE_IPV6) {
		kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "SOCKS5: address type %u is not known",
			   byte_at(in, 3));
		return refuse(socks, out, KH_SOCKS_ADDRESS_UNSUPPORTED);
	}
	return KH_SOCKS_NEED_MORE;
}

/* Where the address stands. Return: false: not all of it is there. */
static bool find_address(struct kh_slice in, struct kh_slice *address)
{
	size_t from = REQUEST_HEAD, len = sizeof(struct in_addr);

	if (in.len < REQUEST_HEAD + 1)
		return false;
	if (byte_at(in, 3) == TYPE_IPV6)
		len = sizeof(struct in6_addr);
	if (byte_at(in, 3) == TYPE_NAME)
		len = byte_at(in, from++);
	*address = kh_slice_sub(in, from, from + len);
	return in.len >= from + len + PORT_BYTES;
}

/* An address passes the one parser of hosts as its text. */
static bool read_host(struct kh_host *host, unsigned type, struct kh_slice address,
		      struct kh_err *err)
{
	char text[INET6_ADDRSTRLEN];

	if (type == TYPE_NAME)
		return kh_host_parse(host, address, err);
	return inet_ntop(type == TYPE_IPV4 ? AF_INET : AF_INET6, address.ptr, text, sizeof(text)) &&
	       kh_host_parse(host, kh_slice_str(text), err);
}

/* VER, CMD, RSV, ATYP, DST.ADDR, DST.PORT */
static enum kh_socks_event read_request(struct kh_socks *socks, struct kh_slice *in,
					struct kh_buf *out, struct kh_err *err)
{
	struct kh_slice address;

	if (check_head(socks, *in, out, err) == KH_SOCKS_ERROR)
		return KH_SOCKS_ERROR;
	if (!find_address(*in, &address))
		return KH_SOCKS_NEED_MORE;
	struct kh_slice port = kh_slice_of(address.ptr + address.len, PORT_BYTES);
	unsigned type = byte_at(*in, 3);
	take(in, (size_t)(port.ptr - in->ptr) + PORT_BYTES);
	socks->target = (struct kh_authority){ 0 };
	if (!read_host(&socks->target.host, type, address, err)) {
		socks->target = (struct kh_authority){ 0 };
		if (err)
			err->code = KH_ERR_REQUEST_MALFORMED;
		kh_err_wrap(err, "SOCKS5");
		return refuse(socks, out, KH_SOCKS_FAILURE);
	}
	socks->target.port = (uint16_t)(byte_at(port, 0) << 8 | byte_at(port, 1));
	if (socks->target.port == 0) {
		kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "SOCKS5: port 0");
		return refuse(socks, out, KH_SOCKS_FAILURE);
	}
	socks->at = KH_SOCKS_AT_END;
	return KH_SOCKS_REQUEST;
}

enum kh_socks_event kh_socks_feed(struct kh_socks *socks, struct kh_slice *in, struct kh_buf *out,
				  struct kh_err *err)
{
	switch (socks->at) {
	case KH_SOCKS_AT_GREETING:
		return read_greeting(socks, in, out, err);
	case KH_SOCKS_AT_LOGIN:
		return read_login(socks, in, out, err);
	case KH_SOCKS_AT_REQUEST:
		return read_request(socks, in, out, err);
	case KH_SOCKS_AT_VERDICT:
	case KH_SOCKS_AT_END:
		break;
	}
	return KH_SOCKS_NEED_MORE;
}

enum kh_socks_reply kh_socks_reply_for(enum kh_err_code code)
{
	if (kh_err_is_policy(code))
		return KH_SOCKS_NOT_ALLOWED;
	switch (kh_err_status(code)) {
	case 407:
	case 421:
		return KH_SOCKS_NOT_ALLOWED;
	case 504:
		return KH_SOCKS_HOST_UNREACHABLE;
	default:
		break;
	}
	if (code == KH_ERR_CONNECT_REFUSED)
		return KH_SOCKS_REFUSED;
	if (code == KH_ERR_UNREACHABLE)
		return KH_SOCKS_NETWORK_UNREACHABLE;
	if (code == KH_ERR_NAME_NOT_FOUND || code == KH_ERR_DNS_ERROR)
		return KH_SOCKS_HOST_UNREACHABLE;
	return KH_SOCKS_FAILURE;
}
