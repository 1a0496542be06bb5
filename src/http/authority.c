/* authority.c - host and port as one thing (RFC 3986 §3.2, RFC 9112 §3.2.3) */
#include <keyhole/http/target.h>

#include <keyhole/base/escape.h>

struct kh_slice kh_authority_shown(struct kh_slice text)
{
	size_t from = text.len;

	while (from > 0 && text.ptr[from - 1] != '@')
		from--;
	return kh_slice_sub(text, from, text.len);
}

static bool refuse(struct kh_err *err, struct kh_slice text, const char *why)
{
	return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "authority \"%s\": %s",
			  kh_esc(kh_authority_shown(text)), why);
}

/* 1-65535 in its shortest form, so that one port has one spelling. */
static bool port_parse(struct kh_slice digits, uint16_t *port)
{
	uint64_t value;

	if (digits.len == 0 || digits.len > 5 || digits.ptr[0] == '0' ||
	    !kh_slice_to_u64(digits, &value) || value > UINT16_MAX)
		return false;
	*port = (uint16_t)value;
	return true;
}

bool kh_authority_parse(struct kh_authority *out, struct kh_slice text, uint16_t default_port,
			struct kh_err *err)
{
	bool bracketed = text.len > 0 && text.ptr[0] == '[';
	size_t end = kh_slice_find(text, bracketed ? ']' : ':', 0);
	struct kh_slice host = kh_slice_sub(text, bracketed ? 1 : 0, end);
	struct kh_slice rest = kh_slice_sub(text, bracketed ? end + 1 : end, text.len);

	*out = (struct kh_authority){ .port = default_port };
	if (kh_slice_find(text, '@', 0) < text.len)
		return refuse(err, text, "user information has no place here");
	if (bracketed && end == text.len)
		return refuse(err, text, "a bracket is not closed");
	if (rest.len > 0 &&
	    (rest.ptr[0] != ':' || !port_parse(kh_slice_sub(rest, 1, rest.len), &out->port)))
		return refuse(err, text,
			      "what follows the host is not ':' and a port from 1 to 65535");
	if (out->port == 0)
		return refuse(err, text, "the port is missing");
	if (!kh_host_parse(&out->host, host, err)) {
		/* Whose fault it is, this side knows better than the host parser. */
		if (err)
			err->code = KH_ERR_REQUEST_MALFORMED;
		return kh_err_wrap(err, "authority \"%s\"", kh_esc(text));
	}
	if (bracketed != (out->host.kind == KH_HOST_IPV6))
		return refuse(err, text, "brackets belong around an IPv6 address and nothing else");
	return true;
}

bool kh_authority_eq(const struct kh_authority *a, const struct kh_authority *b)
{
	return a->port == b->port && kh_host_eq(&a->host, &b->host);
}

bool kh_authority_format(struct kh_buf *out, const struct kh_authority *authority,
			 uint16_t default_port)
{
	size_t before = kh_buf_len(out);
	bool v6 = authority->host.kind == KH_HOST_IPV6;
	bool ok = (!v6 || kh_buf_append_char(out, '[')) &&
		  kh_buf_append_slice(out, kh_host_view(&authority->host)) &&
		  (!v6 || kh_buf_append_char(out, ']')) &&
		  (authority->port == default_port ||
		   (kh_buf_append_char(out, ':') && kh_buf_append_u64(out, authority->port)));

	if (!ok)
		kh_buf_truncate(out, before);
	return ok;
}
