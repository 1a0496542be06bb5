/* resolver_internal.h - the resolver's parts: answers, queries, lookups */
#ifndef KEYHOLE_NET_RESOLVER_INTERNAL_H
#define KEYHOLE_NET_RESOLVER_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>

#include <keyhole/base/list.h>
#include <keyhole/base/lru.h>

#include "net_internal.h"

/* Shared by the cache and the lookups that it answers. */
struct kh_resolver_answer {
	unsigned refs;
	enum kh_err_code code; /* NONE: `list` */
	const char *why;       /* a constant */
	uint64_t expires_ms;
	size_t count;
	struct kh_ip list[KH_LIMIT_ADDRESSES];
};

struct kh_resolver {
	struct event_base *base;
	const struct kh_config *config;
	struct kh_resolv_conf conf;
	struct kh_hosts *hosts;
	struct kh_dns *dns;
	struct kh_lru *cache;	/* name → answer */
	struct kh_lru *queries; /* name → query */
	struct kh_node open;	/* the same queries */
	struct kh_node ready;	/* lookups with an answer */
	struct event *flush;	/* processes `ready` */
	size_t n_lookups;
	bool changing; /* its nameservers: what is cancelled is asked again */
	bool *freed;   /* of the flush that is running */
};

struct kh_query;

struct kh_lookup {
	struct kh_node link;	/* of a query's waiting ones, or of the resolver's ready ones */
	struct kh_query *query; /* that it waits for; NULL: none, or no more */
	struct kh_charge *charge;
	struct kh_resolver *resolver;
	struct event deadline;
	struct kh_host host;
	uint16_t port;
	uint32_t timeout_ms;
	kh_lookup_cb *cb;
	void *arg;
	struct kh_resolver_answer *answer;
	bool is_pinned;
	struct kh_sockaddr pin;
};

/* resolver.c */
/* Schedules the lookup's callback from the loop. Takes a reference to `answer`; NULL for a pinned
 * lookup. */
void kh_lookup_make_ready(struct kh_lookup *lookup, struct kh_resolver_answer *answer);
void kh_lookup_free(struct kh_lookup *lookup);

/* query.c */
struct kh_resolver_answer *kh_answer_new(enum kh_err_code code, const char *why);
void kh_answer_unref(struct kh_resolver_answer *answer);
/* Interleaves the families, IPv6 first (RFC 8305 §4). */
void kh_answer_fill(struct kh_resolver_answer *answer, const struct kh_ip *list, size_t n);
struct kh_resolver_answer *kh_answer_find(struct kh_resolver *resolver, const struct kh_host *host);

/* Joins the query for the lookup's name, or starts it. Return: false: no memory, or too many
 * queries. */
bool kh_query_join(struct kh_resolver *resolver, struct kh_lookup *lookup);
/* The lookup stops waiting, with or without an answer. The query may go on, and stays charged. Does
 * nothing if the lookup waits for no query. */
void kh_query_leave(struct kh_lookup *lookup);
/* Repeats all open queries at new nameservers. */
void kh_query_repeat_all(struct kh_resolver *resolver);
/* The destructor of the table of queries. */
void kh_query_drop(void *dropped);

#endif
