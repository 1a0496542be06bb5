/*
 * connector.c - makes a connection to a server (connector.h)
 *
 * In state CONNECT it waits for the proxy's answer. After a 2xx with no bytes after it the
 * connection is like a direct one, and the owner goes on: TLS with the server, verified as always.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/net/guard.h>

#include "connector_internal.h"

enum { READS_AT_ONCE = 4, PASSWORD_MS = 10 * 1000 };

static void wake(struct kh_connector *c)
{
	if (c->way.ops->woken)
		c->way.ops->woken(c->way.arg);
}

static void fail_with(struct kh_connector *c, enum kh_err_code code, const char *text)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, code, "the upstream proxy %s", text);
	kh_connector_fail(c, &err);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(
		err, KH_ERR_NO_MEMORY,
		"too many names are being resolved by all sandboxes, or no memory is left");
}

/* ---- time ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kh_connector *c = arg;
	struct kh_err err = KH_ERR_INIT;

	(void)fd;
	(void)what;
	wake(c);
	if (c->state == KH_CONNECTOR_PASSWORD)
		kh_err_set(&err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the upstream proxy's password was not handed out in time");
	else
		kh_err_set(&err, KH_ERR_CONNECT_TIMEOUT,
			   "the upstream proxy did not answer CONNECT within %u ms",
			   c->way.connect_ms);
	kh_connector_fail(c, &err);
}

static bool set_timer(struct kh_connector *c, uint32_t ms, struct kh_err *err)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

	return event_add(&c->timer, &tv) == 0 || no_memory(err);
}

/* ---- CONNECT and its answer ---- */

static bool put_connect(struct kh_connector *c, struct kh_err *err)
{
	const struct kh_connector_way *way = &c->way;
	struct kh_buf *out = &way->leg->out;
	kh_cleanup(kh_buf_fini) struct kh_buf target;

	kh_buf_init(&target, KH_HOST_MAX_BYTES + 16);
	bool ok = kh_authority_format(&target, &way->target, 0) &&
		  kh_h1_put_request_line(out, KH_SLICE("CONNECT"), kh_buf_view(&target)) &&
		  kh_h1_put_field(out, KH_SLICE("Host"), kh_buf_view(&target));
	if (ok && way->ops->put_authorization && !way->ops->put_authorization(way->arg, out, err))
		return false;
	return (ok && kh_h1_put_end(out)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a connection");
}

static void watch(const struct kh_connector *c)
{
	const struct kh_leg *leg = c->way.leg;
	bool writes = kh_buf_len(&leg->out) && !leg->failed;

	kh_stream_watch(leg->stream, KH_STREAM_READABLE | (writes ? KH_STREAM_WRITABLE : 0));
}

static void refused(struct kh_connector *c, const struct kh_message *answer)
{
	struct kh_err err = KH_ERR_INIT;
	bool shown = answer->reason.len > 0 && c->way.ops->reflects &&
		     !c->way.ops->reflects(c->way.arg, answer->reason);

	kh_err_set(&err, KH_ERR_UP_PROXY, "the upstream proxy answered CONNECT with %u%s%s%s%s",
		   answer->status, shown ? " \"" : "", shown ? kh_esc(answer->reason) : "",
		   shown ? "\"" : "",
		   answer->status == 407 ? " (look at upstream.proxy's username and password)"
					 : "");
	kh_connector_fail(c, &err);
}

/* A 2xx. What else came would be taken for the server's words. */
static void tunnel_stands(struct kh_connector *c)
{
	const struct kh_connector_way *way = &c->way;
	struct kh_leg *leg = way->leg;

	if (kh_buf_len(&leg->out)) {
		fail_with(c, KH_ERR_UP_PROXY, "answered before it had been asked");
		return;
	}
	/* A server that speaks first may have done so already; of what nobody reads nothing is
	 * believed that was said before or after. */
	if (!way->may_speak_first && (kh_buf_len(way->in) || !kh_stream_is_alive(leg->stream))) {
		fail_with(c, KH_ERR_UP_PROXY,
			  "sent bytes after its answer to CONNECT, or ended the connection");
		return;
	}
	event_del(&c->timer);
	kh_buf_release(way->in);
	kh_buf_release(&leg->out);
	kh_stream_watch(leg->stream, 0);
	kh_connector_succeed(c);
}

/* Return: false when the answer is there, of whatever kind: the connector may be freed. */
static bool take_answer(struct kh_connector *c)
{
	for (;;) {
		struct kh_slice in = kh_buf_view(c->way.in), body;
		size_t before = in.len;
		enum kh_h1_event event = kh_h1_feed(c->h1, &in, &body);
		kh_buf_consume(c->way.in, before - in.len);
		if (event == KH_H1_NEED_MORE)
			return true;
		if (event == KH_H1_ERROR) {
			struct kh_err err = *kh_h1_error(c->h1);
			kh_err_wrap(&err, "the upstream proxy's answer to CONNECT");
			kh_connector_fail(c, &err);
			return false;
		}
		const struct kh_message *answer = kh_h1_message(c->h1);
		if (event == KH_H1_HEAD && answer->status < 200 && answer->status != 101)
			continue;
		if (answer->status < 200 || answer->status > 299) {
			refused(c, answer);
			return false;
		}
		if (event == KH_H1_END) {
			tunnel_stands(c);
			return false;
		}
	}
}

static void on_proxy_stream(struct kh_stream *stream, unsigned events, void *arg)
{
	struct kh_connector *c = arg;
	struct kh_leg *leg = c->way.leg;

	wake(c);
	if (!leg->failed)
		(void)kh_leg_flush(leg);
	for (int i = 0; (events & KH_STREAM_READABLE) && i < READS_AT_ONCE; i++) {
		size_t got = 0;
		char *room = kh_buf_reserve(c->way.in, KH_LEG_READ_BYTES);
		if (!room) {
			fail_with(c, KH_ERR_NO_MEMORY, "could not be read: no memory");
			return;
		}
		enum kh_io io = kh_stream_read(stream, room, KH_LEG_READ_BYTES, &got);
		if (io == KH_IO_AGAIN)
			break;
		if (io != KH_IO_OK) {
			fail_with(c, KH_ERR_UP_CLOSED, "ended the connection without an answer");
			return;
		}
		kh_buf_commit(c->way.in, got);
		if (!take_answer(c))
			return;
	}
	watch(c);
}

static void ask_proxy(struct kh_connector *c)
{
	struct kh_err err = KH_ERR_INIT;

	if (!kh_connector_set_state(c, KH_CONNECTOR_CONNECT, &err)) {
		kh_connector_fail(c, &err);
		return;
	}
	c->h1 = kh_h1_new(KH_H1_RESPONSES);
	if (!c->h1) {
		no_memory(&err);
		kh_connector_fail(c, &err);
		return;
	}
	kh_h1_expect_response_to(c->h1, KH_SLICE("CONNECT"));
	if (!put_connect(c, &err) || !set_timer(c, c->way.connect_ms, &err)) {
		kh_connector_fail(c, &err);
		return;
	}
	(void)kh_leg_flush(c->way.leg); /* a failure shows when it is read */
	watch(c);
}

/* ---- dialling ---- */

static void on_dialled(int fd, const struct kh_sockaddr *peer, const struct kh_err *err, void *arg)
{
	struct kh_connector *c = arg;
	const struct kh_connector_way *way = &c->way;
	struct kh_err why = KH_ERR_INIT;

	wake(c);
	c->dial = NULL;
	if (fd < 0) {
		why = *err;
		if (way->proxy)
			kh_err_wrap(&why, "upstream proxy");
		kh_connector_fail(c, &why);
		return;
	}
	if (!way->proxy && way->ops->settled)
		way->ops->settled(way->arg, peer);
	way->leg->stream = way->proxy ? kh_stream_new(way->base, fd, on_proxy_stream, c)
				      : kh_stream_new(way->base, fd, way->on_stream, way->arg);
	if (!way->leg->stream) {
		close(fd);
		kh_err_set(&why, KH_ERR_NO_MEMORY, "no memory for a connection");
		kh_connector_fail(c, &why);
		return;
	}
	if (way->ops->dialled)
		way->ops->dialled(way->arg, peer);
	if (way->proxy)
		ask_proxy(c);
	else
		kh_connector_succeed(c);
}

/* Those of a name's addresses that no rule by address denies. Return: false with `err`: none. */
static bool leave_allowed(struct kh_connector *c, const struct kh_addresses *all,
			  struct kh_addresses *left, struct kh_err *err)
{
	*left = *all;
	left->count = 0;
	for (size_t i = 0; i < all->count; i++)
		if (!c->way.ops->may_go_to || c->way.ops->may_go_to(c->way.arg, &all->list[i], err))
			left->list[left->count++] = all->list[i];
	return left->count > 0 || !err->code;
}

/* The connector may be freed after it. */
static void dial(struct kh_connector *c, const struct kh_addresses *addresses)
{
	const struct kh_connector_way *way = &c->way;
	struct kh_dial_geo geo;
	struct kh_addresses left;
	struct kh_err err = KH_ERR_INIT;
	/* Of a proxy's own address no rule speaks, and nothing is asked; the target's was. */
	bool judged = !way->proxy;

	if (judged) {
		if (!leave_allowed(c, addresses, &left, &err)) {
			kh_connector_refuse(c, &err);
			return;
		}
		addresses = &left;
	}
	if (!kh_connector_set_state(c, KH_CONNECTOR_DIALLING, &err)) {
		kh_connector_fail(c, &err);
		return;
	}
	if (way->ops->resolved)
		way->ops->resolved(way->arg);
	size_t n_allow;
	const struct kh_cidr *allow = way->ops->allowed(way->arg, &n_allow);
	judged = judged && way->ops->geo;
	if (judged)
		way->ops->geo(way->arg, &geo);
	c->dial = kh_dial_start(way->base, addresses, allow, n_allow, judged ? &geo : NULL,
				way->connect_ms, on_dialled, c);
	if (!c->dial) {
		kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for a connection");
		kh_connector_fail(c, &err);
		return;
	}
	kh_connector_charge_anew(c);
}

/* ---- names ---- */

static bool look_up(struct kh_connector *c, const struct kh_host *host, uint16_t port,
		    kh_lookup_cb *cb, struct kh_err *err)
{
	const struct kh_connector_ops *ops = c->way.ops;
	struct kh_charge *charge = ops->lookup_charge ? ops->lookup_charge(c->way.arg, err) : NULL;

	if (ops->lookup_charge && !charge)
		return false;
	if (!kh_connector_set_state(c, KH_CONNECTOR_LOOKING_UP, err))
		return false;
	c->lookup = kh_resolver_lookup(c->way.resolver, host, port, c->way.resolve_ms, cb, c);
	if (!c->lookup)
		return no_memory(err);
	kh_lookup_charge(c->lookup, charge);
	return true;
}

static void on_resolved(const struct kh_addresses *addresses, const struct kh_err *err, void *arg)
{
	struct kh_connector *c = arg;

	wake(c);
	c->lookup = NULL;
	if (addresses)
		dial(c, addresses);
	else
		kh_connector_fail(c, err);
}

static void on_proxy_resolved(const struct kh_addresses *addresses, const struct kh_err *err,
			      void *arg)
{
	struct kh_connector *c = arg;
	struct kh_err copy;

	wake(c);
	c->lookup = NULL;
	if (!addresses) {
		copy = *err;
		kh_err_wrap(&copy, "upstream proxy");
		kh_connector_fail(c, &copy);
		return;
	}
	struct kh_addresses theirs = *addresses;
	theirs.pinned = true; /* the operator's word, as a pin is */
	dial(c, &theirs);
}

static bool find_proxy(struct kh_connector *c, struct kh_err *err)
{
	return look_up(c, &c->way.proxy->host, c->way.proxy->port, on_proxy_resolved, err);
}

/* Return: false with `err` where nobody is to be connected there; else the place is noted. */
static bool judge(void *arg, const struct kh_sockaddr *addr, struct kh_err *err)
{
	struct kh_connector *c = arg;
	const struct kh_connector_ops *ops = c->way.ops;
	struct kh_dial_geo geo;
	size_t n;
	const struct kh_cidr *allow = ops->allowed(c->way.arg, &n);
	const char *class_name = kh_guard_refuses(addr, allow, n);
	char text[KH_SOCKADDR_TEXT_BYTES];

	if (class_name) {
		kh_sockaddr_format(addr, text);
		return kh_err_set(err, KH_ERR_ADDRESS_PROHIBITED,
				  "%s is a %s address, which is not connected to "
				  "(upstream.allow_addresses opens ranges)",
				  text, class_name);
	}
	if (ops->may_go_to && !ops->may_go_to(c->way.arg, addr, err))
		return false;
	if (ops->geo) {
		ops->geo(c->way.arg, &geo);
		if (!kh_geo_allows(geo.db, &geo.levels, addr, err))
			return false;
	}
	if (ops->settled)
		ops->settled(c->way.arg, addr);
	return true;
}

static void on_target_resolved(const struct kh_addresses *addresses, const struct kh_err *err,
			       void *arg)
{
	struct kh_connector *c = arg;
	struct kh_err why = KH_ERR_INIT;

	wake(c);
	c->lookup = NULL;
	if (!addresses)
		kh_connector_fail(c, err);
	else if (!kh_guard_choose(addresses, judge, c, &c->way.target.host, &why) ||
		 !find_proxy(c, &why))
		kh_connector_fail(c, &why);
}

static bool find_target(struct kh_connector *c, struct kh_err *err)
{
	const struct kh_authority *target = &c->way.target;

	if (!c->way.proxy->resolve_locally || target->host.kind != KH_HOST_NAME)
		return find_proxy(c, err);
	return look_up(c, &target->host, target->port, on_target_resolved, err);
}

/* What the proxy looks up lies nobody here knows where. */
static bool knows_place(const struct kh_connector *c, struct kh_err *err)
{
	struct kh_dial_geo geo;

	if (c->way.proxy->resolve_locally || !c->way.ops->geo)
		return true;
	c->way.ops->geo(c->way.arg, &geo);
	return !kh_geo_asks(&geo.levels) ||
	       kh_err_set(err, KH_ERR_GEO_PROHIBITED,
			  "through the upstream proxy nobody here knows where an address is, and "
			  "geo asks for it");
}

/* What is known of the target's address without a look-up. */
static bool judge_target(struct kh_connector *c, struct kh_err *err)
{
	const struct kh_authority *target = &c->way.target;
	struct kh_sockaddr addr;

	return kh_guard_known(&target->host, target->port, &addr) ? judge(c, &addr, err)
								  : knows_place(c, err);
}

/* In hand before anything is dialled, so that none waits for it with a connection open. */
static bool get_password(struct kh_connector *c, struct kh_err *err)
{
	switch (c->way.ops->password ? c->way.ops->password(c->way.arg, err) : KH_CONNECTOR_GO_ON) {
	case KH_CONNECTOR_GO_ON:
		return find_target(c, err);
	case KH_CONNECTOR_WAIT:
		return kh_connector_set_state(c, KH_CONNECTOR_PASSWORD, err) &&
		       set_timer(c, PASSWORD_MS, err);
	case KH_CONNECTOR_FAILED:
		break;
	}
	return false;
}

void kh_connector_go_on(struct kh_connector *c)
{
	struct kh_err err = KH_ERR_INIT;

	if (c->state != KH_CONNECTOR_PASSWORD)
		return;
	event_del(&c->timer);
	if (!get_password(c, &err))
		kh_connector_fail(c, &err);
}

bool kh_connector_waits_for_password(const struct kh_connector *c)
{
	return c->state == KH_CONNECTOR_PASSWORD;
}

void kh_connector_charge_anew(struct kh_connector *c)
{
	if (c->dial && c->way.ops->account)
		kh_dial_charge(c->dial, c->way.ops->account(c->way.arg));
}

/* ---- its life ---- */

struct kh_connector *kh_connector_new(const struct kh_connector_way *way)
{
	struct kh_connector *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->way = *way;
	event_assign(&c->timer, way->base, -1, 0, on_timer, c);
	return c;
}

bool kh_connector_begin(struct kh_connector *c, const struct kh_addresses *pinned,
			struct kh_err *err)
{
	if (pinned) {
		dial(c, pinned);
		return true;
	}
	if (c->way.proxy)
		return judge_target(c, err) && get_password(c, err);
	return look_up(c, &c->way.target.host, c->way.target.port, on_resolved, err);
}

void kh_connector_free(struct kh_connector *c)
{
	if (!c)
		return;
	event_del(&c->timer);
	if (c->lookup)
		kh_lookup_cancel(c->lookup);
	if (c->dial)
		kh_dial_cancel(c->dial);
	if (c->h1)
		kh_h1_free(c->h1);
	if (c->way.leg->stream)
		kh_stream_set_callback(c->way.leg->stream, c->way.on_stream, c->way.arg);
	free(c);
}
