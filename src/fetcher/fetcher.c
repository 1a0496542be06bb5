/*
 * fetcher.c - the process that sends one request to one token endpoint
 *
 * The keeper reads no byte that a stranger wrote, so it executes this process for each request,
 * without the CA key and with nothing but the request. The fetcher reads all files that it needs
 * and locks itself in as the worker does. Then: resolve, guard, dial (or CONNECT through the site's
 * proxy), TLS, one HTTP/1.1 request, one response within its bounds, and a message of fixed form to
 * the keeper. It does not follow a redirect, which has no token.
 */

#include <keyhole/fetcher/fetch.h>

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <openssl/ssl.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/channel.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/net/dialer.h>
#include <keyhole/base/file.h>
#include <keyhole/net/guard.h>
#include <keyhole/http/h1.h>
#include <keyhole/base/log.h>
#include <keyhole/base/timestamp.h>
#include <keyhole/tls/tls.h>
#include <keyhole/base/worker_exit.h>

#include "fetcher_internal.h"
#include <keyhole/lockin/lockin.h>
#include <keyhole/base/secret.h>

enum { PROXY_BYTES = 64 * 1024 };
enum { FILES_LEAST = 3, FILE_BYTES = 8 * 1024 * 1024, SNAPSHOT_BYTES = 64 * 1024 * 1024 };

void kh_fetch_end(struct kh_fetch *f, bool ok, const char *why)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_cleanup(kh_buf_fini) struct kh_buf store;
	kh_buf_init_wiping(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	kh_buf_init_wiping(&store, (size_t)3 * KH_LIMIT_TOKEN_BYTES);
	if (f->over)
		return;
	f->over = true;
	f->said.ok = ok;
	f->said.why = kh_slice_str(why);
	if (ok)
		(void)kh_fetch_answer_read(&f->said, kh_buf_view(&f->answer), &store);
	if (kh_fetch_answer_put(&body, &f->said))
		(void)kh_channel_send(&f->channel, KH_FETCH_MSG_ANSWER, 0, kh_buf_view(&body), NULL,
				      0, NULL);
	(void)event_base_loopbreak(f->base);
}

void kh_fetch_fail(struct kh_fetch *f, const struct kh_err *err)
{
	kh_fetch_end(f, false, err->text);
}

/* --- HTTP ------------------------------------------------------------------------------------- */

static void write_out(struct kh_fetch *f)
{
	size_t put = 0;
	while (kh_buf_len(&f->out) > 0) {
		struct kh_slice rest = kh_buf_view(&f->out);
		enum kh_io io = kh_stream_write(f->leg.stream, rest.ptr, rest.len, &put);
		if (io == KH_IO_AGAIN)
			break;
		if (io != KH_IO_OK) {
			/* What it says before it closed is still to be read. */
			kh_buf_clear(&f->out);
			break;
		}
		kh_buf_consume(&f->out, put);
	}
	kh_stream_watch(f->leg.stream, kh_buf_len(&f->out) > 0
					       ? KH_STREAM_READABLE | KH_STREAM_WRITABLE
					       : KH_STREAM_READABLE);
}

static bool put_request(struct kh_fetch *f)
{
	const struct kh_fetch_order *order = &f->order;
	const struct kh_authority asked = { .host = order->host, .port = order->port };
	struct kh_buf host;
	char length[24];
	kh_buf_init(&host, KH_HOST_MAX_BYTES + 16);
	(void)snprintf(length, sizeof(length), "%zu", order->body.len);
	bool ok =
		kh_authority_format(&host, &asked, 443) &&
		kh_h1_put_request_line(&f->out, order->post ? KH_SLICE("POST") : KH_SLICE("GET"),
				       order->target) &&
		kh_h1_put_field(&f->out, KH_SLICE("host"), kh_buf_view(&host)) &&
		kh_h1_put_field(&f->out, KH_SLICE("user-agent"), KH_SLICE("keyhole/" KH_VERSION)) &&
		kh_h1_put_field(&f->out, KH_SLICE("connection"), KH_SLICE("close"));
	for (size_t i = 0; ok && i < order->n_fields; i++)
		ok = kh_h1_put_field(&f->out, order->fields[i].name, order->fields[i].value);
	if (ok && order->post)
		ok = kh_h1_put_field(&f->out, KH_SLICE("content-length"), kh_slice_str(length));
	kh_buf_fini(&host);
	return ok && kh_h1_put_end(&f->out) && kh_buf_append_slice(&f->out, order->body);
}

void kh_fetch_begin_tls(struct kh_fetch *f)
{
	if (!kh_stream_connect_tls(f->leg.stream, f->ctx, &f->order.host, NULL, NULL,
				   f->order.timeout_ms))
		kh_fetch_end(f, false, "TLS can't be begun");
}

static void take_head(struct kh_fetch *f)
{
	const struct kh_message *head = kh_h1_message(f->h1);
	if (!head || head->status < 200)
		return;
	const struct kh_field *date = kh_message_field(head, KH_SLICE("date"));
	uint64_t ms;
	f->said.status = head->status;
	if (date)
		f->said.date_s =
			kh_timestamp_read(date->value, KH_TIMESTAMP_HTTP, &ms) ? ms / 1000 : 0;
}

/* Return: there may be more to read. */
static bool feed(struct kh_fetch *f, struct kh_slice bytes)
{
	struct kh_slice body;
	while (!f->over) {
		switch (kh_h1_feed(f->h1, &bytes, &body)) {
		case KH_H1_NEED_MORE:
			return true;
		case KH_H1_HEAD:
			take_head(f);
			break;
		case KH_H1_BODY:
			if (!kh_buf_append_slice(&f->answer, body))
				kh_fetch_end(f, false, "its answer is too long");
			break;
		case KH_H1_END:
			kh_fetch_end(f, true, "");
			return false;
		case KH_H1_ERROR:
			kh_fetch_end(f, false, "its answer is not HTTP/1.1 as it should be");
			break;
		}
	}
	return false;
}

static void read_in(struct kh_fetch *f)
{
	char bytes[4096];
	size_t got = 0;
	bool more = true;
	while (more && !f->over) {
		enum kh_io io = kh_stream_read(f->leg.stream, bytes, sizeof(bytes), &got);
		if (io == KH_IO_AGAIN)
			break;
		if (io == KH_IO_OK) {
			more = feed(f, kh_slice_of(bytes, got));
		} else if (io == KH_IO_EOF && kh_h1_feed_eof(f->h1) == KH_H1_END) {
			kh_fetch_end(f, true, "");
		} else {
			kh_fetch_end(f, false, "the connection ended before its answer did");
		}
	}
	explicit_bzero(bytes, sizeof(bytes));
}

static void on_stream(struct kh_stream *stream, unsigned events, void *arg)
{
	struct kh_fetch *f = arg;
	if (events & KH_STREAM_HANDSHAKE_FAILED) {
		kh_fetch_fail(f, kh_stream_error(stream));
		return;
	}
	if (events & KH_STREAM_HANDSHAKE_DONE) {
		kh_h1_expect_response_to(f->h1, f->order.post ? KH_SLICE("POST") : KH_SLICE("GET"));
		if (put_request(f))
			write_out(f);
		else
			kh_fetch_end(f, false, "the request can't be written");
		return;
	}
	if ((events & KH_STREAM_WRITABLE) && !f->over)
		write_out(f);
	if ((events & KH_STREAM_READABLE) && !f->over)
		read_in(f);
}

/* --- its time
 * -------------------------------------------------------------------------------------- */

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	kh_fetch_end(arg, false, "it did not answer in time");
}

/* --- the start -------------------------------------------------------------------------------- */

static bool take_files(struct kh_fetch *f, struct kh_channel_message *message, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf snapshot;
	kh_cleanup(kh_buf_fini) struct kh_buf resolv_conf;
	kh_cleanup(kh_buf_fini) struct kh_buf hosts;
	kh_buf_init(&snapshot, SNAPSHOT_BYTES);
	kh_buf_init(&resolv_conf, FILE_BYTES);
	kh_buf_init(&hosts, FILE_BYTES);
	if (message->n_fds < FILES_LEAST || !kh_file_read_fd(message->fds[0], &snapshot, err) ||
	    !kh_file_read_fd(message->fds[1], &resolv_conf, err) ||
	    !kh_file_read_fd(message->fds[2], &hosts, err))
		return false;
	f->config = kh_config_decode(kh_buf_view(&snapshot), err);
	f->roots = kh_roots_new();
	if (!f->config || !f->roots ||
	    !kh_roots_load(f->roots, message->fds + FILES_LEAST, message->n_fds - FILES_LEAST, err))
		return false;
	f->resolver = kh_resolver_new(f->base, f->config, kh_buf_view(&resolv_conf),
				      kh_buf_view(&hosts), err);
	f->ctx = kh_tls_up_ctx(f->roots, err);
	return f->resolver && f->ctx;
}

static bool take_order(struct kh_fetch *f, struct kh_err *err)
{
	struct kh_channel_message message;
	enum kh_channel_status got;
	do
		got = kh_channel_receive(&f->channel, true, &message);
	while (got == KH_CHANNEL_AGAIN);
	bool ok = got == KH_CHANNEL_GOT && kh_buf_append_slice(&f->order_bytes, message.body) &&
		  kh_fetch_order_take(kh_buf_view(&f->order_bytes), &f->order);
	if (!ok)
		kh_err_set(err, KH_ERR_INTERNAL, "the order is not understood");
	ok = ok && take_files(f, &message, err);
	if (got == KH_CHANNEL_GOT)
		kh_channel_message_close(&message);
	return ok;
}

static bool started_by_keeper(void)
{
	int type = 0;
	socklen_t len = sizeof(type);
	return getsockopt(KH_WORKER_CHANNEL_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

static bool prepare(struct kh_fetch *f, struct kh_err *err)
{
	kh_buf_init_wiping(&f->order_bytes, KH_LIMIT_CHANNEL_BYTES);
	kh_buf_init_wiping(&f->out, KH_LIMIT_CHANNEL_BYTES);
	kh_leg_init(&f->leg, true);
	kh_buf_init(&f->in, PROXY_BYTES);
	kh_buf_init_wiping(&f->answer, KH_LIMIT_FETCH_BYTES);
	kh_secret_prepare();
	if (!kh_channel_init(&f->channel, KH_WORKER_CHANNEL_FD, KH_FETCH_MSG_TO_FETCHER_SET, err))
		return false;
	f->base = event_base_new();
	f->h1 = kh_h1_new(KH_H1_RESPONSES);
	if (!f->base || !f->h1)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	return take_order(f, err) && kh_lockin(f->order.user, err);
}

int kh_fetcher_main(void)
{
	static struct kh_fetch f = { .channel = { .fd = -1 } };
	struct kh_err err = KH_ERR_INIT;
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "keyhole fetcher", 0, 0, 0);
	kh_log_set_role("fetcher");
	if (!started_by_keeper()) {
		kh_log_error("this is started by `keyhole proxy` and `keyhole run` alone");
		return KH_WORKER_EXIT_USAGE;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	if (!prepare(&f, &err)) {
		kh_log_error("%s", err.text);
		_exit(KH_WORKER_EXIT_START);
	}
	const struct timeval patience = { .tv_sec = f.order.timeout_ms / 1000,
					  .tv_usec =
						  (suseconds_t)(f.order.timeout_ms % 1000) * 1000 };
	f.on_stream = on_stream;
	kh_fetch_set_out(&f);
	if (!f.over && event_base_once(f.base, -1, EV_TIMEOUT, on_timeout, &f, &patience) == 0)
		(void)event_base_dispatch(f.base);
	_exit(f.over ? 0 : KH_WORKER_EXIT_ORPHAN);
}
