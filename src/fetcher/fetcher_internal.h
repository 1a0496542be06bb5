/* fetcher_internal.h - shared by the files of the fetcher: the order, the connection, the answer */
#ifndef KEYHOLE_FETCHER_FETCHER_INTERNAL_H
#define KEYHOLE_FETCHER_FETCHER_INTERNAL_H

#include <event2/event.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/buf.h>
#include <keyhole/base/channel.h>
#include <keyhole/fetcher/fetch.h>
#include <keyhole/http/h1.h>
#include <keyhole/http/target.h>
#include <keyhole/tls/tls.h>

#include <keyhole/upstream/connector.h>

/* One a process. */
struct kh_fetch {
	struct kh_channel channel;
	struct kh_fetch_order order;
	struct kh_buf order_bytes; /* wiping: what the order's views are of */
	struct kh_config *config;
	struct event_base *base;
	struct kh_resolver *resolver;
	struct kh_roots *roots;
	SSL_CTX *ctx;
	struct kh_leg leg; /* whose stream is NULL until it is connected */
	struct kh_buf in;  /* what the proxy says */
	struct kh_h1 *h1;
	struct kh_connector *connector; /* fetch_way.c; NULL: it is connected */
	kh_stream_cb *on_stream;
	struct kh_buf out;    /* wiping */
	struct kh_buf answer; /* wiping: content */
	struct kh_fetch_answer said;
	bool over;
};

/* fetcher.c. The first end is the one that counts. */
void kh_fetch_end(struct kh_fetch *f, bool ok, const char *why);
void kh_fetch_fail(struct kh_fetch *f, const struct kh_err *err);
void kh_fetch_begin_tls(struct kh_fetch *f);

/* fetch_way.c: to the endpoint, as upstreams are reached: directly, or by CONNECT. Then
 * kh_fetch_begin_tls. */
void kh_fetch_set_out(struct kh_fetch *f);

#endif
