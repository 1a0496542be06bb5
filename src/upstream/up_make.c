/*
 * up_make.c - makes a connection to an upstream: the owner of its connector
 *
 * For a pinned host no name is looked up. With upstream.proxy, the configuration of one generation
 * is used from the beginning to the end (up_proxy.c).
 */

#include <keyhole/base/clock.h>

#include "upstream_internal.h"

static void woken(void *arg)
{
	struct kh_up *up = arg;

	up->loop->now_ms = kh_clock_mono_ms();
}

/* A tenant's number is one of its generation's. */
static const struct kh_cidr *allowed(void *arg, size_t *n)
{
	const struct kh_up *up = arg;
	const struct kh_generation *gen = up->loop->gen;
	bool same = up->key.generation == gen->number;

	return up->proxy ? kh_up_proxy_allowed(up, n)
			 : kh_config_allowed_addresses(gen->config,
						       same ? up->key.tenant : SIZE_MAX, n);
}

static void geo(void *arg, struct kh_dial_geo *out)
{
	const struct kh_up *up = arg;

	*out = (struct kh_dial_geo){ up->geo_gen->geo, up->key.geo };
}

static bool may_go_to(void *arg, const struct kh_sockaddr *addr, struct kh_err *err)
{
	struct kh_up *up = arg;
	struct kh_up_user *user = up->only.user;

	return user->ops->may_go_to(user, addr, err);
}

/* The address that is connected to, or that is named to the proxy. */
static void settled(void *arg, const struct kh_sockaddr *addr)
{
	struct kh_up *up = arg;

	up->judged = *addr;
	kh_geo_find(up->geo_gen->geo, addr, &up->place);
}

static void dialled(void *arg, const struct kh_sockaddr *peer)
{
	struct kh_up *up = arg;

	kh_sockaddr_format(peer, up->peer);
	kh_count(up->loop, KH_COUNT_UP_OPEN);
	kh_count(up->loop, KH_COUNT_UP_OPENED);
}

static void resolved(void *arg)
{
	kh_up_mux_is_resolved(arg);
}

static struct kh_charge *lookup_charge(void *arg, struct kh_err *err)
{
	struct kh_up *up = arg;
	struct kh_account *account = up->only.user->account;

	if (kh_charge_holds(&up->making) ||
	    kh_charge_take(&up->making, account, KH_RESOURCE_LOOKUPS, 1))
		return &up->making;
	kh_charge_refuse(err, account, KH_RESOURCE_LOOKUPS, 1);
	return NULL;
}

static struct kh_account *account(void *arg)
{
	const struct kh_up *up = arg;

	return up->only.user->account;
}

static enum kh_connector_password password(void *arg, struct kh_err *err)
{
	return kh_up_proxy_password(arg, err);
}

static bool put_authorization(void *arg, struct kh_buf *out, struct kh_err *err)
{
	return kh_up_proxy_put_authorization(arg, out, err);
}

static bool reflects(void *arg, struct kh_slice text)
{
	return kh_up_proxy_reflects(arg, text);
}

static void connected(void *arg)
{
	struct kh_up *up = arg;

	kh_up_made(up);
	kh_up_connected(up);
}

static void refused(void *arg, const struct kh_err *err)
{
	kh_up_refused(arg, err);
}

static void failed(void *arg, const struct kh_err *err)
{
	kh_up_failed(arg, err);
}

static const struct kh_connector_ops connector_ops = {
	.woken = woken,
	.allowed = allowed,
	.geo = geo,
	.may_go_to = may_go_to,
	.settled = settled,
	.dialled = dialled,
	.resolved = resolved,
	.lookup_charge = lookup_charge,
	.account = account,
	.password = password,
	.put_authorization = put_authorization,
	.reflects = reflects,
	.connected = connected,
	.refused = refused,
	.failed = failed,
};

void kh_up_made(struct kh_up *up)
{
	kh_connector_free(up->connector);
	up->connector = NULL;
	kh_up_proxy_end(up);
}

static bool begin(struct kh_up *up, const struct kh_addresses *pinned, struct kh_err *err)
{
	const struct kh_timeouts *timeouts = &up->loop->gen->config->timeouts;
	const struct kh_connector_way way = {
		.ops = &connector_ops,
		.arg = up,
		.base = up->loop->base,
		.resolver = up->loop->resolver,
		.target = { .host = up->key.host, .port = up->key.port },
		.proxy = up->proxy ? kh_up_proxy_config(up) : NULL,
		.resolve_ms = timeouts->resolve,
		.connect_ms = timeouts->connect,
		.leg = &up->leg,
		.in = &up->in,
		.on_stream = kh_up_on_stream,
		.may_speak_first = up->key.scheme == KH_SCHEME_TCP,
	};

	if (!kh_up_set_state(up, KH_UP_CONNECTING, err))
		return false;
	up->connector = kh_connector_new(&way);
	return up->connector && kh_connector_begin(up->connector, pinned, err);
}

bool kh_up_set_out(struct kh_up *up, const struct kh_up_wish *wish, struct kh_err *err)
{
	const struct kh_host *host = &up->key.host;
	const struct kh_pin *pin = kh_config_pin(wish->gen->config, up->key.tenant, host);

	if (pin) {
		const struct kh_addresses addresses = { .list = { pin->addr },
							.count = 1,
							.pinned = true };
		return begin(up, &addresses, err);
	}
	up->looks_up = true;
	if (!lookup_charge(up, err))
		return false;
	if (kh_config_goes_by_proxy(up->loop->gen->config, KH_NO_TENANT, host) &&
	    !kh_up_proxy_begin(up))
		return false;
	return begin(up, NULL, err);
}

void kh_up_value_came(struct kh_up_user *user, uint32_t generation, uint16_t index)
{
	struct kh_up *up = user->stream ? user->stream->conn : NULL;

	if (up && up->connector && kh_up_proxy_is_password(up, generation, index))
		kh_connector_go_on(up->connector);
}
