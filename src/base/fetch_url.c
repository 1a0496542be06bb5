/* fetch_url.c - where a token endpoint is: an https URL and nothing around it */

#include <keyhole/fetch.h>

#include <string.h>

#include <keyhole/limits.h>

/* "host", "host:port", "[v6]:port". Return: false: it is none. */
static bool parse_authority(struct kh_fetch_url *out, struct kh_slice text, struct kh_err *err)
{
	size_t end = text.len;
	uint64_t port = 443;
	while (end > 0 && kh_is_digit(text.ptr[end - 1]))
		end--;
	if (end > 0 && end < text.len && text.ptr[end - 1] == ':') {
		if (!kh_slice_to_u64(kh_slice_sub(text, end, text.len), &port) || port == 0 ||
		    port > UINT16_MAX)
			return kh_err_set(err, KH_ERR_CONFIG, "its port is none");
		text = kh_slice_sub(text, 0, end - 1);
	}
	out->port = (uint16_t)port;
	/* The parser's words would show what stands there. */
	return kh_host_parse(&out->host, text, NULL) ||
	       kh_err_set(err, KH_ERR_CONFIG, "its host is none");
}

bool kh_fetch_url_parse(struct kh_fetch_url *out, struct kh_slice text, struct kh_err *err)
{
	static const struct kh_slice scheme = KH_SLICE_INIT("https://");
	if (!kh_slice_has_prefix(text, scheme))
		return kh_err_set(err, KH_ERR_CONFIG, "it must begin with https://");
	struct kh_slice rest = kh_slice_sub(text, scheme.len, text.len);
	for (size_t i = 0; i < rest.len; i++)
		if (rest.ptr[i] <= ' ' || rest.ptr[i] > '~' || strchr("@?#\\\"", rest.ptr[i]))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "only a host, a port and a path may stand in it");
	const char *slash = rest.len > 0 ? memchr(rest.ptr, '/', rest.len) : NULL;
	size_t len = slash ? (size_t)(slash - rest.ptr) : rest.len;
	out->path = slash ? kh_slice_sub(rest, len, rest.len) : KH_SLICE("/");
	return parse_authority(out, kh_slice_sub(rest, 0, len), err);
}
