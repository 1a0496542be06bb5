/* load_socks.c - --socks: the way to the tunnel by SOCKS5 (RFC 1928) instead of CONNECT */
#include "load.h"

enum { VERSION = 5, NO_AUTH = 0, CONNECT = 1, NAME = 3, IPV4 = 1, IPV6 = 4, GRANTED = 0 };

bool load_socks_put(struct load_conn *c)
{
	static const char hello[] = { VERSION, 1, NO_AUTH };

	c->greeted = false;
	return kh_buf_append(&c->out, hello, sizeof(hello));
}

static bool put_request(struct load_conn *c)
{
	const struct kh_authority *to = &c->load->authority;
	struct kh_slice name = kh_host_view(&to->host);
	const char head[] = { VERSION, CONNECT, 0, NAME, (char)name.len };
	const char port[] = { (char)(to->port >> 8), (char)to->port };

	c->greeted = true;
	return name.len <= UINT8_MAX && kh_buf_append(&c->out, head, sizeof(head)) &&
	       kh_buf_append_slice(&c->out, name) && kh_buf_append(&c->out, port, sizeof(port));
}

/* How long the reply is, by its kind of address; 0: of none that is known. */
static size_t reply_bytes(struct kh_slice in)
{
	switch (in.ptr[3]) {
	case IPV4:
		return 4 + 4 + 2;
	case IPV6:
		return 4 + 16 + 2;
	case NAME:
		return 4 + 1 + (size_t)(unsigned char)in.ptr[4] + 2;
	default:
		return 0;
	}
}

int load_socks_take(struct load_conn *c)
{
	struct kh_slice in = kh_buf_view(&c->in);
	size_t len;

	if (!c->greeted) {
		if (in.len < 2)
			return 0;
		if (in.ptr[0] != VERSION || in.ptr[1] != NO_AUTH)
			return -1;
		kh_buf_consume(&c->in, 2);
		return put_request(c) ? 2 : -1;
	}
	if (in.len < 5)
		return 0;
	len = reply_bytes(in);
	if (in.ptr[0] != VERSION || in.ptr[1] != GRANTED || len == 0)
		return -1;
	if (in.len < len)
		return 0;
	kh_buf_consume(&c->in, len);
	return 1;
}
