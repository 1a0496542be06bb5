/* fetch_url.c - parses the URL of a token endpoint: https, host, port and path */

#include <keyhole/base/fetch_url.h>

#include <string.h>

bool kh_fetch_url_parse(struct kh_fetch_url *out, struct kh_slice text, struct kh_err *err)
{
	static const struct kh_slice scheme = KH_SLICE_INIT("https://");
	if (!kh_slice_has_prefix(text, scheme))
		return kh_err_set(err, KH_ERR_CONFIG, "it must begin with https://");
	struct kh_slice rest = kh_slice_sub(text, scheme.len, text.len);
	for (size_t i = 0; i < rest.len; i++)
		if (rest.ptr[i] <= ' ' || rest.ptr[i] > '~' || strchr("@?#\\\"", rest.ptr[i]))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "only a host, a port and a path may be in it");
	const char *slash = rest.len > 0 ? memchr(rest.ptr, '/', rest.len) : NULL;
	size_t len = slash ? (size_t)(slash - rest.ptr) : rest.len;
	out->path = slash ? kh_slice_sub(rest, len, rest.len) : KH_SLICE("/");
	/* The parser's words would show what is there. */
	return kh_host_port_parse(&out->host, &out->port, kh_slice_sub(rest, 0, len), 443) ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "its host, or the port after it, is none (write an IPv6 address in "
			  "brackets)");
}
