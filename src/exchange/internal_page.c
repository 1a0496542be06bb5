/*
 * internal_page.c - requests to keyhole.internal: pages that keyhole answers itself, and base-URL
 * mode
 *
 * The pages (pages.c) are `/`, `/why`, `/ca.pem` and `/env`.
 *
 * For clients that take only a base URL: http://keyhole.internal/to/HOST[:PORT]/PATH stands for the
 * request https://HOST[:PORT]/PATH, which is otherwise unchanged. The name is keyhole's own on
 * every port: no rule applies to it, and it is never looked up or dialled.
 */

#include "exchange_internal.h"

static const char own_name[] = "keyhole.internal";
static const char base[] = "/to/";

bool kh_internal_page_is(const struct kh_host *host)
{
	return kh_slice_eq(kh_host_view(host), KH_SLICE("keyhole.internal"));
}

/* What comes after "/to/HOST[:PORT]": the target that is sent, byte for byte as it came. */
static bool read_base_url(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_slice raw = kh_slice_sub(x->target.raw, sizeof(base) - 1, x->target.raw.len);
	struct kh_authority named;
	size_t end = 0;

	while (end < raw.len && raw.ptr[end] != '/' && raw.ptr[end] != '?')
		end++;
	struct kh_slice rest = kh_slice_sub(raw, end, raw.len);
	if (!kh_authority_parse(&named, kh_slice_sub(raw, 0, end), kh_scheme_port(KH_SCHEME_HTTPS),
				err))
		return kh_err_wrap(err, "http://%s/to/HOST[:PORT]/PATH", own_name);
	if (kh_internal_page_is(&named.host))
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "%s leads to itself", own_name);
	kh_target_fini(&x->target);
	if (!kh_target_parse(&x->target, x->message->method, rest.len ? rest : KH_SLICE("/"), err))
		return false;
	x->authority = named;
	x->scheme = KH_SCHEME_HTTPS;
	x->base_url = true;
	return true;
}

/* Asked with GET or HEAD, and without content. */
static enum kh_page page_of(const struct kh_exchange *x)
{
	const struct kh_message *message = x->message;
	struct kh_slice path = x->target.raw_path;

	if ((!kh_slice_eq(message->method, KH_SLICE("GET")) &&
	     !kh_slice_eq(message->method, KH_SLICE("HEAD"))) ||
	    message->framing != KH_FRAMING_NONE || message->upgrade)
		return KH_PAGE_NONE;
	if (kh_slice_eq(path, KH_SLICE("/why")))
		return KH_PAGE_DRY_RUN;
	if (kh_slice_eq(path, KH_SLICE("/ca.pem")))
		return KH_PAGE_CA;
	if (kh_slice_eq(path, KH_SLICE("/env")))
		return KH_PAGE_ENV;
	return kh_slice_eq(path, KH_SLICE("/")) ? KH_PAGE_HOME : KH_PAGE_NONE;
}

bool kh_internal_page_resolve(struct kh_exchange *x, struct kh_err *err)
{
	bool home = x->authority.port == kh_scheme_port(x->scheme);

	/* As it was written: an escape in "/to/" is another path. */
	if (home && kh_slice_has_prefix(x->target.raw_path, kh_slice_str(base)))
		return read_base_url(x, err);
	x->page = home ? page_of(x) : KH_PAGE_NONE;
	if (x->page)
		return true;
	return kh_err_set(err, KH_ERR_NO_PAGE,
			  "%s is keyhole itself, and there is nothing here; GET http://%s/ says "
			  "what this sandbox may reach; a request goes out by "
			  "http://%s/to/HOST[:PORT]/PATH, which is https://HOST[:PORT]/PATH",
			  own_name, own_name, own_name);
}
