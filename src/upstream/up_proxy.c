/*
 * up_proxy.c - upstream.proxy, an HTTP proxy of the site: its password
 *
 * The connector uses the proxy; this file gets the password. The configuration of one generation is
 * used from the beginning to the end, so that a password never goes to the proxy of another
 * generation.
 */

#include <keyhole/base/cleanup.h>
#include <keyhole/credential/credential.h>
#include <keyhole/base/encode.h>

#include <keyhole/loop/values.h>

#include "upstream_internal.h"

enum { BASIC_BYTES = 2 * (KH_LIMIT_SECRET_BYTES + 512) };

struct kh_up_proxy {
	struct kh_generation *gen; /* a reference */
	size_t tenant;		   /* of it; SIZE_MAX: the request's rules are of another */
	int password;		   /* index into the credentials, -1: none */
	struct kh_secret *secret;
};

bool kh_up_proxy_begin(struct kh_up *up)
{
	struct kh_up_proxy *proxy = calloc(1, sizeof(*proxy));

	if (!proxy)
		return false;
	proxy->gen = kh_generation_ref(up->loop->gen);
	proxy->tenant = up->key.generation == proxy->gen->number ? up->key.tenant : SIZE_MAX;
	proxy->password = kh_config_proxy_password(proxy->gen->config);
	up->proxy = proxy;
	return true;
}

void kh_up_proxy_end(struct kh_up *up)
{
	struct kh_up_proxy *proxy = up->proxy;

	if (!proxy)
		return;
	up->proxy = NULL;
	kh_secret_unref(proxy->secret);
	kh_generation_unref(proxy->gen);
	free(proxy);
}

const struct kh_proxy_config *kh_up_proxy_config(const struct kh_up *up)
{
	return &up->proxy->gen->config->proxy;
}

const struct kh_cidr *kh_up_proxy_allowed(const struct kh_up *up, size_t *n)
{
	return kh_config_allowed_addresses(up->proxy->gen->config, up->proxy->tenant, n);
}

/* ---- the password ---- */

enum kh_connector_password kh_up_proxy_password(struct kh_up *up, struct kh_err *err)
{
	struct kh_up_proxy *proxy = up->proxy;

	if (proxy->password < 0)
		return KH_CONNECTOR_GO_ON;
	const struct kh_credential_ref ref = { (uint16_t)proxy->password, KH_NO_TENANT, { "", 0 } };
	switch (kh_worker_secret(up->loop->worker, proxy->gen, &ref, NULL, &proxy->secret, err)) {
	case KH_SLOT_FULL:
		return KH_CONNECTOR_GO_ON;
	case KH_SLOT_ASKED:
		return KH_CONNECTOR_WAIT;
	case KH_SLOT_EMPTY:
	case KH_SLOT_MISSING:
		break;
	}
	(void)kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			 "the upstream proxy's password has no value on the host");
	return KH_CONNECTOR_FAILED;
}

bool kh_up_proxy_is_password(const struct kh_up *up, uint32_t generation, uint16_t index)
{
	return up->proxy && up->proxy->gen->number == generation && up->proxy->password == index;
}

/* ---- Proxy-Authorization ---- */

struct basic {
	const struct kh_up_proxy *proxy;
	struct kh_buf *out;   /* wiping */
	struct kh_slice text; /* to be searched */
	bool found;
};

/* Appends base64(username:password), RFC 7617 §2. */
static bool put_basic(struct kh_slice password, void *arg)
{
	const struct basic *basic = arg;
	const struct kh_config *config = basic->proxy->gen->config;
	const struct kh_slice parts[] = { kh_slice_str(config->proxy.username), KH_SLICE(":"),
					  password };

	return kh_base64_put(basic->out, parts, 3, KH_BASE64);
}

bool kh_up_proxy_put_authorization(struct kh_up *up, struct kh_buf *out, struct kh_err *err)
{
	const struct kh_up_proxy *proxy = up->proxy;
	struct basic basic = { .proxy = proxy, .out = out };

	if (proxy->password < 0)
		return true;
	if (!kh_leg_hide(&up->leg))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a connection");
	if (!out->wipe ||
	    !kh_credential_may_go_to(&proxy->gen->config->credentials[proxy->password],
				     &proxy->gen->config->proxy.host))
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "the upstream proxy's password may not be written there");
	return (kh_buf_append_str(out, "Proxy-Authorization: Basic ") &&
		kh_secret_expose(proxy->secret, put_basic, &basic) &&
		kh_buf_append_str(out, "\r\n")) ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "the upstream proxy's password can't be read, or is too long");
}

static bool find_password(struct kh_slice password, void *arg)
{
	struct basic *basic = arg;
	struct kh_slice text = basic->text;

	if (!put_basic(password, basic))
		return false;
	struct kh_slice encoded = kh_buf_view(basic->out);
	while (encoded.len > 0 && encoded.ptr[encoded.len - 1] == '=')
		encoded.len--;
	basic->found = memmem(text.ptr, text.len, password.ptr, password.len) ||
		       memmem(text.ptr, text.len, encoded.ptr, encoded.len);
	return true;
}

bool kh_up_proxy_reflects(const struct kh_up *up, struct kh_slice text)
{
	const struct kh_up_proxy *proxy = up->proxy;
	kh_cleanup(kh_buf_fini) struct kh_buf encoded;
	struct basic basic = { .proxy = proxy, .out = &encoded, .text = text };

	kh_buf_init_wiping(&encoded, BASIC_BYTES);
	return text.len > 0 && proxy->secret &&
	       (!kh_secret_expose(proxy->secret, find_password, &basic) || basic.found);
}
