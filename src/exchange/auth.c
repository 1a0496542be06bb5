/*
 * auth.c - clients of a TCP listener must show its token (RFC 9110 §11.7, RFC 7617, RFC 6750)
 *
 * On a Unix socket and on vsock the connection itself identifies the sandbox; to a TCP port anybody
 * may have connected. The token is required with every request and every CONNECT, and with SOCKS5's
 * login; requests inside a tunnel need none. It is compared in constant time, while its pages are
 * open.
 */

#include <keyhole/base/encode.h>
#include <keyhole/exchange/down.h>

enum { TOKEN_MOST_BYTES = 1024 };

static bool refuse(struct kh_err *err, const char *why)
{
	return kh_err_set(err, KH_ERR_PROXY_AUTH, "this listener asks for its token: %s", why);
}

bool kh_auth_try(struct kh_down_side *side, struct kh_slice user, struct kh_slice password,
		 struct kh_err *err)
{
	struct kh_acceptor *acceptor = side->acceptor;

	if (!acceptor->secret)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "the listener's token is not there yet");
	if (!kh_acceptor_may_try(acceptor))
		return kh_err_set(err, KH_ERR_LIMIT, "too many wrong tokens were shown here");
	/* Both are looked at, so that the time does not tell which it was. */
	bool first = kh_secret_equals(acceptor->secret, password);
	bool second = kh_secret_equals(acceptor->secret, user);
	if (first || second)
		return true;
	kh_acceptor_was_wrong(acceptor);
	return refuse(err, "another one was shown");
}

/* Any user name. */
static bool try_basic(struct kh_down_side *side, struct kh_slice encoded, struct kh_err *err)
{
	unsigned char text[TOKEN_MOST_BYTES];
	size_t len = 0;
	bool ok = encoded.len > 0 && encoded.len / 4 * 3 <= sizeof(text) &&
		  kh_base64_decode(encoded, KH_BASE64, text, &len);
	struct kh_slice both = kh_slice_of(text, len);
	size_t colon = kh_slice_find(both, ':', 0);

	ok = ok ? kh_auth_try(side, kh_slice_sub(both, 0, colon),
			      kh_slice_sub(both, colon + 1, both.len), err)
		: refuse(err, "Basic is not followed by base64");
	kh_secret_wipe(text, sizeof(text));
	return ok;
}

struct kh_slice kh_auth_field(const struct kh_down_side *side)
{
	bool asks = side->acceptor->config->kind == KH_LISTEN_TCP && !side->tunnel;

	return asks ? KH_SLICE("proxy-authorization") : KH_SLICE("");
}

bool kh_auth_check(struct kh_down_side *side, const struct kh_message *message, struct kh_err *err)
{
	const struct kh_field *shown = NULL;

	if (side->acceptor->config->kind != KH_LISTEN_TCP || side->tunnel)
		return true;
	for (size_t i = 0; i < message->n_fields; i++) {
		if (!kh_slice_eq_nocase(message->fields[i].name, KH_SLICE("proxy-authorization")))
			continue;
		if (shown)
			return refuse(err, "Proxy-Authorization is there twice");
		shown = &message->fields[i];
	}
	if (!shown)
		return refuse(err, "send Proxy-Authorization, with Basic (any user name, the token "
				   "as password) or Bearer");
	size_t blank = kh_slice_find(shown->value, ' ', 0);
	struct kh_slice scheme = kh_slice_sub(shown->value, 0, blank);
	struct kh_slice rest = kh_slice_trim(kh_slice_sub(shown->value, blank, shown->value.len));
	if (kh_slice_eq_nocase(scheme, KH_SLICE("Basic")))
		return try_basic(side, rest, err);
	if (kh_slice_eq_nocase(scheme, KH_SLICE("Bearer")))
		return kh_auth_try(side, KH_SLICE(""), rest, err);
	return refuse(err, "Proxy-Authorization takes Basic and Bearer");
}
