/*
 * fetch_way.c - the fetcher's connection to its endpoint, as to an upstream (connector.h)
 *
 * There is one connection, one configuration, and one timeout for everything (fetcher.c). The
 * proxy's password comes with the order.
 */

#include "fetcher_internal.h"

static const struct kh_cidr *allowed(void *arg, size_t *n)
{
	const struct kh_fetch *f = arg;

	*n = f->config->n_allow_addresses;
	return f->config->allow_addresses;
}

static bool put_authorization(void *arg, struct kh_buf *out, struct kh_err *err)
{
	const struct kh_fetch *f = arg;

	return f->order.proxy_auth.len == 0 ||
	       kh_h1_put_field(out, KH_SLICE("Proxy-Authorization"), f->order.proxy_auth) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the request can't be written");
}

static void connected(void *arg)
{
	struct kh_fetch *f = arg;

	kh_connector_free(f->connector);
	f->connector = NULL;
	kh_fetch_begin_tls(f);
}

static void failed(void *arg, const struct kh_err *err)
{
	kh_fetch_fail(arg, err);
}

void kh_fetch_set_out(struct kh_fetch *f)
{
	static const struct kh_connector_ops ops = {
		.allowed = allowed,
		.put_authorization = put_authorization,
		.connected = connected,
		.failed = failed,
	};
	bool proxied = kh_config_goes_by_proxy(f->config, KH_NO_TENANT, &f->order.host);
	const struct kh_connector_way way = {
		.ops = &ops,
		.arg = f,
		.base = f->base,
		.resolver = f->resolver,
		.target = { .host = f->order.host, .port = f->order.port },
		.proxy = proxied ? &f->config->proxy : NULL,
		.resolve_ms = f->order.timeout_ms,
		.connect_ms = f->order.timeout_ms,
		.leg = &f->leg,
		.in = &f->in,
		.on_stream = f->on_stream,
	};
	struct kh_err err = KH_ERR_INIT;

	f->connector = kh_connector_new(&way);
	if (!f->connector || !kh_connector_begin(f->connector, NULL, &err))
		kh_fetch_end(f, false, err.code ? err.text : "no memory");
}
