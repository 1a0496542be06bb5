/*
 * fetch_way.c - the fetcher's way to its endpoint: the same as an upstream's
 *
 * Directly: resolve, guard, dial. Where the site has a proxy (upstream.proxy): judge what is known
 * of the address, resolve it here if that is asked for, resolve and dial the proxy, CONNECT. What
 * up_proxy.c says of all this holds here too; there is one connection, one configuration, and one
 * time for all of it (fetcher.c).
 */
#include <stdio.h>
#include <unistd.h>

#include <keyhole/dialer.h>
#include <keyhole/guard.h>

#include "fetcher_internal.h"

/* --- the address ------------------------------------------------------------------------------ */

static bool judge(void *arg, const struct kh_sockaddr *addr, struct kh_err *err)
{
	const struct kh_fetch *f = arg;
	const char *class_name =
		kh_guard_refuses(addr, f->config->allow_addresses, f->config->n_allow_addresses);
	char text[KH_SOCKADDR_TEXT_BYTES];
	if (!class_name)
		return true;
	kh_sockaddr_format(addr, text);
	return kh_err_set(err, KH_ERR_ADDRESS_PROHIBITED,
			  "%s is a %s address, which is not connected to "
			  "(upstream.allow_addresses opens ranges)",
			  text, class_name);
}

/* Of what CONNECT is to name, where it is no name to be looked up. */
static bool judge_target(struct kh_fetch *f, struct kh_err *err)
{
	struct kh_sockaddr addr;
	return !kh_guard_known(&f->target.host, f->target.port, &addr) || judge(f, &addr, err);
}

/* --- the connection --------------------------------------------------------------------------- */

static bool put_connect(struct kh_fetch *f)
{
	struct kh_buf authority;
	kh_buf_init(&authority, KH_HOST_MAX_BYTES + 16);
	bool ok =
		kh_authority_format(&authority, &f->target, 0) &&
		kh_h1_put_request_line(&f->out, KH_SLICE("CONNECT"), kh_buf_view(&authority)) &&
		kh_h1_put_field(&f->out, KH_SLICE("host"), kh_buf_view(&authority)) &&
		(f->order.proxy_auth.len == 0 ||
		 kh_h1_put_field(&f->out, KH_SLICE("proxy-authorization"), f->order.proxy_auth)) &&
		kh_h1_put_end(&f->out);
	kh_buf_fini(&authority);
	return ok;
}

static void on_dialled(int fd, const struct kh_sockaddr *peer, const struct kh_err *err, void *arg)
{
	struct kh_fetch *f = arg;
	(void)peer;
	if (fd < 0) {
		kh_fetch_fail(f, err);
		return;
	}
	f->stream = kh_stream_new(f->base, fd, f->on_stream, f);
	if (!f->stream) {
		(void)close(fd);
		kh_fetch_end(f, false, "no memory");
		return;
	}
	if (!f->proxied) {
		kh_fetch_begin_tls(f);
		return;
	}
	f->connecting = true;
	kh_h1_expect_response_to(f->h1, KH_SLICE("CONNECT"));
	if (put_connect(f))
		kh_fetch_write(f);
	else
		kh_fetch_end(f, false, "the request can't be written");
}

void kh_fetch_connected(struct kh_fetch *f, size_t behind)
{
	const struct kh_message *answer = kh_h1_message(f->h1);
	uint16_t status = answer ? answer->status : 0;
	char why[128];
	f->connecting = false;
	kh_h1_free(f->h1);
	f->h1 = kh_h1_new(KH_H1_RESPONSES);
	if (status / 100 == 2 && behind == 0 && f->h1) {
		kh_fetch_begin_tls(f);
		return;
	}
	if (status / 100 == 2)
		(void)snprintf(why, sizeof(why), "the upstream proxy sent more than its answer");
	else
		(void)snprintf(
			why, sizeof(why), "the upstream proxy answered CONNECT with %u%s", status,
			status == 407 ? " (look at upstream.proxy's username and password)" : "");
	kh_fetch_end(f, false, why);
}

static void dial(struct kh_fetch *f, const struct kh_addresses *addresses)
{
	if (!kh_dial_start(f->base, addresses, f->config->allow_addresses,
			   f->config->n_allow_addresses, NULL, f->order.timeout_ms, on_dialled, f))
		kh_fetch_end(f, false, "no memory");
}

static void on_resolved(const struct kh_addresses *addresses, const struct kh_err *err, void *arg)
{
	if (addresses)
		dial(arg, addresses);
	else
		kh_fetch_fail(arg, err);
}

static void on_proxy_resolved(const struct kh_addresses *addresses, const struct kh_err *err,
			      void *arg)
{
	struct kh_err copy = KH_ERR_INIT;
	if (!addresses) {
		copy = *err;
		kh_err_wrap(&copy, "upstream proxy");
		kh_fetch_fail(arg, &copy);
		return;
	}
	struct kh_addresses theirs = *addresses;
	theirs.pinned = true; /* the operator's word, as a pin is */
	dial(arg, &theirs);
}

static void look_up(struct kh_fetch *f, const struct kh_host *host, uint16_t port, kh_lookup_cb *cb)
{
	if (!kh_resolver_lookup(f->resolver, host, port, f->order.timeout_ms, cb, f))
		kh_fetch_end(f, false, "no memory");
}

static void on_target_resolved(const struct kh_addresses *addresses, const struct kh_err *err,
			       void *arg)
{
	struct kh_fetch *f = arg;
	struct kh_err why = KH_ERR_INIT;
	if (!addresses)
		kh_fetch_fail(f, err);
	else if (kh_guard_choose(addresses, judge, f, &f->target.host, &why))
		look_up(f, &f->config->proxy.host, f->config->proxy.port, on_proxy_resolved);
	else
		kh_fetch_fail(f, &why);
}

void kh_fetch_set_out(struct kh_fetch *f)
{
	const struct kh_proxy_config *proxy = &f->config->proxy;
	struct kh_err err = KH_ERR_INIT;
	f->target = (struct kh_authority){ .host = f->order.host, .port = f->order.port };
	f->proxied = kh_config_goes_by_proxy(f->config, &f->order.host);
	if (!f->proxied)
		look_up(f, &f->order.host, f->order.port, on_resolved);
	else if (!judge_target(f, &err))
		kh_fetch_fail(f, &err);
	else if (proxy->resolve_locally && f->target.host.kind == KH_HOST_NAME)
		look_up(f, &f->target.host, f->target.port, on_target_resolved);
	else
		look_up(f, &proxy->host, proxy->port, on_proxy_resolved);
}
