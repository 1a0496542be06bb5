/*
 * up_proxy.c - upstreams behind an HTTP proxy of the site's (upstream.proxy)
 *
 * What stands between a new upstream connection and its first byte, where a proxy does:
 *
 * judge ─▶ PASSWORD ─▶ RESOLVING (target, if asked for) ─▶ RESOLVING (proxy) ─▶ DIALING ─▶ TUNNEL
 *
 * In TUNNEL the CONNECT is under way. After a 2xx with nothing behind it the connection is what a
 * direct one would be, and upstream.c goes on: TLS with the upstream, verified as always. All that
 * is kept for the way there is freed then.
 *
 * The configuration is that of one generation from the beginning to the end: a password never goes
 * to the proxy of another one. The proxy's own address is the operator's word and is not judged;
 * the target's is wherever it is known here: a literal always, a name where it is resolved here.
 */

#include <openssl/evp.h>

#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/guard.h>

#include "proxy_internal.h"
#include "values.h"

enum {
	READS_AT_ONCE = 4,
	PASSWORD_MS = 10 * 1000,
	PLAIN_BYTES = KH_LIMIT_SECRET_BYTES + 512,
	BASIC_BYTES = 2 * PLAIN_BYTES,
};

struct kh_up_proxy {
	struct kh_generation *gen; /* a reference */
	size_t tenant;		   /* of it; SIZE_MAX: the request's rules are of another */
	const struct kh_proxy_config *config;
	int password; /* index into the credentials, -1: none */
	struct kh_secret *secret;
	struct kh_authority target; /* what CONNECT names */
	struct kh_h1 *h1;	    /* reads the answer to it */
	struct event timer;
};

void kh_up_proxy_end(struct kh_up *up)
{
	struct kh_up_proxy *proxy = up->proxy;

	if (!proxy)
		return;
	up->proxy = NULL;
	event_del(&proxy->timer);
	kh_secret_unref(proxy->secret);
	if (proxy->h1)
		kh_h1_free(proxy->h1);
	kh_generation_unref(proxy->gen);
	free(proxy);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY,
			  "too much is being resolved, or no memory is left");
}

/* ---- time ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct kh_up *up = arg;
	struct kh_err err = KH_ERR_INIT;

	(void)fd;
	(void)what;
	up->loop->now_ms = kh_clock_mono_ms();
	if (up->state == KH_UP_PASSWORD)
		kh_err_set(&err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "the upstream proxy's password was not handed out in time");
	else
		kh_err_set(&err, KH_ERR_CONNECT_TIMEOUT,
			   "the upstream proxy did not answer CONNECT within %u ms",
			   up->proxy->gen->config->timeouts.connect);
	kh_up_failed(up, &err);
}

static bool set_timer(struct kh_up *up, uint32_t ms, struct kh_err *err)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

	return event_add(&up->proxy->timer, &tv) == 0 || no_memory(err);
}

/* ---- the target ---- */

/* Return: false with `err` where nobody is to be connected there; else the place is noted. */
static bool judge(void *arg, const struct kh_sockaddr *addr, struct kh_err *err)
{
	struct kh_up *up = arg;
	const struct kh_up_proxy *proxy = up->proxy;
	size_t n;
	const struct kh_cidr *allow =
		kh_config_allowed_addresses(proxy->gen->config, proxy->tenant, &n);
	const char *class_name = kh_guard_refuses(addr, allow, n);
	char text[KH_SOCKADDR_TEXT_BYTES];

	if (!class_name) {
		if (!kh_geo_allows(up->geo_gen->geo, &up->key.geo, addr, err))
			return false;
		kh_up_note_place(up, addr);
		return true;
	}
	kh_sockaddr_format(addr, text);
	return kh_err_set(err, KH_ERR_ADDRESS_PROHIBITED,
			  "%s is a %s address, to which no sandbox is connected "
			  "(upstream.allow_addresses opens ranges)",
			  text, class_name);
}

/* What the proxy looks up lies nobody here knows where. */
static bool knows_place(const struct kh_up *up, struct kh_err *err)
{
	return up->proxy->config->resolve_locally || !kh_geo_asks(&up->key.geo) ||
	       kh_err_set(err, KH_ERR_GEO_PROHIBITED,
			  "behind the upstream proxy nobody here knows where an address lies, and "
			  "geo asks for it");
}

/* What is known of the target's address without a look-up. */
static bool judge_target(struct kh_up *up, struct kh_err *err)
{
	const struct kh_authority *target = &up->proxy->target;
	struct kh_sockaddr addr;

	return kh_guard_known(&target->host, target->port, &addr) ? judge(up, &addr, err)
								  : knows_place(up, err);
}

/* ---- the way to the proxy ---- */

static void on_proxy_resolved(const struct kh_addresses *addresses, const struct kh_err *err,
			      void *arg)
{
	struct kh_up *up = arg;
	struct kh_err copy;

	up->loop->now_ms = kh_clock_mono_ms();
	kh_up_forget_lookup(up);
	if (!addresses) {
		copy = *err;
		kh_err_wrap(&copy, "upstream proxy");
		kh_up_failed(up, &copy);
		return;
	}
	struct kh_addresses theirs = *addresses;
	theirs.pinned = true; /* the operator's word, as a pin is */
	kh_up_dial(up, &theirs);
}

static bool find_proxy(struct kh_up *up, struct kh_err *err)
{
	const struct kh_proxy_config *config = up->proxy->config;

	return kh_up_look_up(up, &config->host, config->port, on_proxy_resolved) || no_memory(err);
}

static void on_target_resolved(const struct kh_addresses *addresses, const struct kh_err *err,
			       void *arg)
{
	struct kh_up *up = arg;
	struct kh_err why = KH_ERR_INIT;

	up->loop->now_ms = kh_clock_mono_ms();
	kh_up_forget_lookup(up);
	if (!addresses)
		kh_up_failed(up, err);
	else if (!kh_guard_choose(addresses, judge, up, &up->proxy->target.host, &why) ||
		 !find_proxy(up, &why))
		kh_up_failed(up, &why);
}

static bool find_target(struct kh_up *up, struct kh_err *err)
{
	const struct kh_up_proxy *proxy = up->proxy;

	if (!proxy->config->resolve_locally || proxy->target.host.kind != KH_HOST_NAME)
		return find_proxy(up, err);
	return kh_up_look_up(up, &proxy->target.host, proxy->target.port, on_target_resolved) ||
	       no_memory(err);
}

/* In hand before anything is dialled, so that none waits for it with a connection open. */
static bool get_password(struct kh_up *up, struct kh_err *err)
{
	struct kh_up_proxy *proxy = up->proxy;

	if (proxy->password < 0)
		return find_target(up, err);
	const struct kh_want want = { (uint16_t)proxy->password, KH_NO_TENANT, { "", 0 } };
	switch (kh_worker_secret(up->loop->worker, proxy->gen, &want, NULL, &proxy->secret, err)) {
	case KH_SLOT_FULL:
		return find_target(up, err);
	case KH_SLOT_ASKED:
		up->state = KH_UP_PASSWORD;
		return set_timer(up, PASSWORD_MS, err);
	case KH_SLOT_EMPTY:
	case KH_SLOT_MISSING:
		break;
	}
	return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "the upstream proxy's password has no value on the host");
}

void kh_up_proxy_password_came(struct kh_up *up, uint32_t generation, uint16_t index)
{
	const struct kh_up_proxy *proxy = up->proxy;
	struct kh_err err = KH_ERR_INIT;

	if (up->state != KH_UP_PASSWORD || proxy->gen->number != generation ||
	    proxy->password != index)
		return;
	event_del(&up->proxy->timer);
	if (!get_password(up, &err))
		kh_up_failed(up, &err);
}

bool kh_up_proxy_begin(struct kh_up *up, struct kh_err *err)
{
	struct kh_up_proxy *proxy = calloc(1, sizeof(*proxy));

	if (!proxy)
		return no_memory(err);
	proxy->gen = kh_generation_ref(up->loop->gen);
	proxy->tenant = up->key.generation == proxy->gen->number ? up->key.tenant : SIZE_MAX;
	proxy->config = &proxy->gen->config->proxy;
	proxy->password = kh_config_proxy_password(proxy->gen->config);
	proxy->target = (struct kh_authority){ .host = up->key.host, .port = up->key.port };
	event_assign(&proxy->timer, up->loop->base, -1, 0, on_timer, up);
	up->proxy = proxy;
	return judge_target(up, err) && get_password(up, err);
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
	kh_cleanup(kh_buf_fini) struct kh_buf plain;

	kh_buf_init_wiping(&plain, PLAIN_BYTES);
	if (!kh_buf_append_str(&plain, basic->proxy->config->username) ||
	    !kh_buf_append_char(&plain, ':') || !kh_buf_append_slice(&plain, password))
		return false;
	struct kh_slice view = kh_buf_view(&plain);
	size_t len = (view.len + 2) / 3 * 4;
	char *room = kh_buf_reserve(basic->out, len + 1); /* it writes a NUL behind */
	if (!room)
		return false;
	EVP_EncodeBlock((unsigned char *)room, (const unsigned char *)view.ptr, (int)view.len);
	kh_buf_commit(basic->out, len);
	return true;
}

static bool put_authorization(const struct kh_up_proxy *proxy, struct kh_buf *out,
			      struct kh_err *err)
{
	struct basic basic = { .proxy = proxy, .out = out };

	if (proxy->password < 0)
		return true;
	if (!out->wipe ||
	    !kh_credential_may_go_to(&proxy->gen->config->credentials[proxy->password],
				     &proxy->config->host))
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "the upstream proxy's password may not be written there");
	return (kh_buf_append_str(out, "Proxy-Authorization: Basic ") &&
		kh_secret_expose(proxy->secret, put_basic, &basic) &&
		kh_buf_append_str(out, "\r\n")) ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "the upstream proxy's password can't be read, or is too long");
}

/* ---- CONNECT and its answer ---- */

static bool put_connect(struct kh_up *up, struct kh_err *err)
{
	const struct kh_up_proxy *proxy = up->proxy;
	struct kh_buf *out = &up->leg.out;
	kh_cleanup(kh_buf_fini) struct kh_buf target;

	kh_buf_init(&target, KH_HOST_MAX_BYTES + 16);
	if ((proxy->password >= 0 && !kh_leg_hide(&up->leg)) ||
	    !kh_authority_format(&target, &proxy->target, 0) ||
	    !kh_h1_put_request_line(out, KH_SLICE("CONNECT"), kh_buf_view(&target)) ||
	    !kh_h1_put_field(out, KH_SLICE("Host"), kh_buf_view(&target)))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a connection");
	return put_authorization(proxy, out, err) &&
	       (kh_h1_put_end(out) ||
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a connection"));
}

static void watch(struct kh_up *up)
{
	bool writes = kh_buf_len(&up->leg.out) && !up->leg.failed;

	kh_stream_watch(up->leg.stream, KH_STREAM_READABLE | (writes ? KH_STREAM_WRITABLE : 0));
}

void kh_up_proxy_dialled(struct kh_up *up)
{
	struct kh_up_proxy *proxy = up->proxy;
	struct kh_err err = KH_ERR_INIT;

	up->state = KH_UP_TUNNEL;
	proxy->h1 = kh_h1_new(KH_H1_RESPONSES);
	if (!proxy->h1) {
		no_memory(&err);
		kh_up_failed(up, &err);
		return;
	}
	kh_h1_expect_response_to(proxy->h1, KH_SLICE("CONNECT"));
	if (!put_connect(up, &err) || !set_timer(up, proxy->gen->config->timeouts.connect, &err)) {
		kh_up_failed(up, &err);
		return;
	}
	(void)kh_leg_flush(&up->leg); /* a failure shows when it is read */
	watch(up);
}

static void fail(struct kh_up *up, enum kh_err_code code, const char *text)
{
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, code, "the upstream proxy %s", text);
	kh_up_failed(up, &err);
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

/* Does a text of the proxy's say the password back? Where that can't be told: yes. */
static bool reflects(const struct kh_up_proxy *proxy, struct kh_slice text)
{
	kh_cleanup(kh_buf_fini) struct kh_buf encoded;
	struct basic basic = { .proxy = proxy, .out = &encoded, .text = text };

	kh_buf_init_wiping(&encoded, BASIC_BYTES);
	return text.len > 0 && proxy->secret &&
	       (!kh_secret_expose(proxy->secret, find_password, &basic) || basic.found);
}

static void refused(struct kh_up *up, const struct kh_message *answer)
{
	struct kh_err err = KH_ERR_INIT;
	bool shown = answer->reason.len > 0 && !reflects(up->proxy, answer->reason);

	kh_err_set(&err, KH_ERR_UP_PROXY, "the upstream proxy answered CONNECT with %u%s%s%s",
		   answer->status, shown ? " \"" : "", shown ? kh_esc(answer->reason) : "",
		   shown ? "\"" : "");
	kh_up_failed(up, &err);
}

/* A 2xx. What else came would be taken for the upstream's words. */
static void tunnel_stands(struct kh_up *up)
{
	if (kh_buf_len(&up->leg.out)) {
		fail(up, KH_ERR_UP_PROXY, "answered before it had been asked");
		return;
	}
	/* A server that speaks first may have done so already; of a raw tunnel nothing is believed
	 * that was said before or after. */
	if (up->key.scheme != KH_SCHEME_TCP &&
	    (kh_buf_len(&up->in) || !kh_stream_is_alive(up->leg.stream))) {
		fail(up, KH_ERR_UP_PROXY,
		     "sent bytes behind its answer to CONNECT, or ended the connection");
		return;
	}
	kh_up_proxy_end(up);
	kh_buf_release(&up->in);
	kh_buf_release(&up->leg.out);
	kh_stream_watch(up->leg.stream, 0);
	kh_up_connected(up);
}

/* Return: false when the answer is there, of whatever kind. */
static bool take_answer(struct kh_up *up)
{
	struct kh_h1 *h1 = up->proxy->h1;

	for (;;) {
		struct kh_slice in = kh_buf_view(&up->in), body;
		size_t before = in.len;
		enum kh_h1_event event = kh_h1_feed(h1, &in, &body);
		kh_buf_consume(&up->in, before - in.len);
		if (event == KH_H1_NEED_MORE)
			return true;
		if (event == KH_H1_ERROR) {
			struct kh_err err = *kh_h1_error(h1);
			kh_err_wrap(&err, "the upstream proxy's answer to CONNECT");
			kh_up_failed(up, &err);
			return false;
		}
		const struct kh_message *answer = kh_h1_message(h1);
		if (event == KH_H1_HEAD && answer->status < 200 && answer->status != 101)
			continue;
		if (answer->status < 200 || answer->status > 299) {
			refused(up, answer);
			return false;
		}
		if (event == KH_H1_END) {
			tunnel_stands(up);
			return false;
		}
	}
}

void kh_up_proxy_event(struct kh_up *up, unsigned events)
{
	if (!up->leg.failed)
		(void)kh_leg_flush(&up->leg);
	for (int i = 0; (events & KH_STREAM_READABLE) && i < READS_AT_ONCE; i++) {
		size_t got = 0;
		char *room = kh_buf_reserve(&up->in, KH_LEG_READ_BYTES);
		if (!room) {
			fail(up, KH_ERR_NO_MEMORY, "could not be read: no memory");
			return;
		}
		enum kh_io io = kh_stream_read(up->leg.stream, room, KH_LEG_READ_BYTES, &got);
		if (io == KH_IO_AGAIN)
			break;
		if (io != KH_IO_OK) {
			fail(up, KH_ERR_UP_CLOSED, "ended the connection without an answer");
			return;
		}
		kh_buf_commit(&up->in, got);
		if (!take_answer(up))
			return;
	}
	watch(up);
}
