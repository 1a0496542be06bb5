/*
 * resolver.c - names to addresses, on one thread's event loop
 *
 * In this order: pins of the configuration, literals, the hosts file, localhost (RFC 6761 §6.3),
 * the cache, nameservers. Every answer goes through one list that is worked off by an event of its
 * own, so that a callback never runs inside a call, nor inside c-ares.
 *
 * A name that is being asked for is one `query`; whoever wants it meanwhile joins. A query outlives
 * the lookups that wait for it: what comes late still fills the cache. When one family has
 * answered with addresses, the other has 50 ms more (RFC 8305 §3): many a nameserver that is broken
 * is broken for AAAA only.
 */
#include "net_internal.h"

#include <stdlib.h>

#include <ares.h>
#include <event2/event.h>
#include <event2/event_struct.h>

#include <keyhole/clock.h>
#include <keyhole/lru.h>

enum {
	TTL_MOST_S = 60,
	FAILURE_MS = 1000,
	CACHE_NAMES = 2048,
	QUERIES_MOST = 2 * KH_LIMIT_RESOLVES,
	SECOND_FAMILY_MS = 50,
};

/* Shared by the cache and the lookups that it answers. */
struct answer {
	unsigned refs;
	enum kh_err_code code; /* NONE: `list` */
	const char *why;
	uint64_t expires_ms;
	size_t count;
	struct kh_ip list[KH_LIMIT_ADDRESSES];
};

struct link {
	struct link *prev, *next;
};

struct query {
	struct link link; /* first: of the resolver's open queries */
	struct kh_resolver *resolver;
	struct link waiting;
	struct event *patience; /* for the second family */
	bool open4, open6, asking;
	int status4, status6;
	uint32_t ttl_s;
	size_t n4, n6;
	struct kh_ip v4[KH_LIMIT_ADDRESSES], v6[KH_LIMIT_ADDRESSES];
	char name[KH_HOST_MAX_BYTES + 1];
};

struct kh_lookup {
	struct link link; /* first: of a query's waiting list, or the resolver's ready list */
	struct kh_resolver *resolver;
	struct event deadline;
	struct kh_host host;
	uint16_t port;
	uint32_t timeout_ms;
	kh_lookup_cb *cb;
	void *arg;
	struct answer *answer;
	bool is_pinned;
	struct kh_sockaddr pin;
};

struct kh_resolver {
	struct event_base *base;
	const struct kh_config *config;
	struct kh_resolv_conf conf;
	struct kh_hosts *hosts;
	struct kh_dns *dns;
	struct kh_lru *cache;	/* name → answer */
	struct kh_lru *queries; /* name → query */
	struct link open;	/* the same queries */
	bool changing;		/* its nameservers: what is cancelled is asked again */
	struct link ready;
	struct event *flush;
	size_t n_lookups;
	bool *freed; /* of the flush that is running */
};

static void link_init(struct link *head)
{
	head->prev = head->next = head;
}

static void link_append(struct link *head, struct link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static void link_remove(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	link_init(l);
}

static struct kh_lookup *lookup_of(struct link *l)
{
	return (struct kh_lookup *)l;
}

/* ---- answers ---- */

static struct answer *answer_new(enum kh_err_code code, const char *why)
{
	struct answer *answer = calloc(1, sizeof *answer);
	if (answer) {
		answer->refs = 1;
		answer->code = code;
		answer->why = why;
	}
	return answer;
}

static void answer_unref(struct answer *answer)
{
	if (answer && --answer->refs == 0)
		free(answer);
}

static void drop_answer(void *value)
{
	answer_unref(value);
}

static void put(struct answer *answer, const struct kh_ip *ip)
{
	if (answer->count < KH_LIMIT_ADDRESSES)
		answer->list[answer->count++] = *ip;
}

/* IPv6 first, then one of each in turn: RFC 8305 §4. */
static void interleave(struct answer *answer, const struct kh_ip *v6, size_t n6,
		       const struct kh_ip *v4, size_t n4)
{
	for (size_t i = 0; i < n6 || i < n4; i++) {
		if (i < n6)
			put(answer, &v6[i]);
		if (i < n4)
			put(answer, &v4[i]);
	}
}

/* Puts a mixed list into order. */
static void interleave_mixed(struct answer *answer, const struct kh_ip *list, size_t n)
{
	struct kh_ip v4[KH_LIMIT_ADDRESSES], v6[KH_LIMIT_ADDRESSES];
	size_t n4 = 0, n6 = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].family == 4)
			v4[n4++] = list[i];
		else
			v6[n6++] = list[i];
	}
	interleave(answer, v6, n6, v4, n4);
}

/* ---- lookups ---- */

static void lookup_free(struct kh_lookup *lookup)
{
	link_remove(&lookup->link);
	event_del(&lookup->deadline);
	answer_unref(lookup->answer);
	lookup->resolver->n_lookups--;
	free(lookup);
}

void kh_lookup_cancel(struct kh_lookup *lookup)
{
	if (lookup)
		lookup_free(lookup);
}

/* Takes the lookup out and calls back; the resolver may be gone afterwards. */
static void deliver(struct kh_lookup *lookup)
{
	struct kh_addresses addresses = { 0 };
	struct kh_err err = KH_ERR_INIT;
	const struct answer *answer = lookup->answer;
	kh_lookup_cb *cb = lookup->cb;
	void *arg = lookup->arg;

	if (lookup->is_pinned) {
		addresses.list[0] = lookup->pin;
		addresses.count = 1;
		addresses.pinned = true;
	} else if (!answer) {
		kh_err_set(&err, KH_ERR_DNS_TIMEOUT, "%s: no nameserver answered within %u ms",
			   lookup->host.text, lookup->timeout_ms);
	} else if (answer->code) {
		kh_err_set(&err, answer->code, "%s: %s", lookup->host.text, answer->why);
	} else {
		for (size_t i = 0; i < answer->count; i++)
			kh_ip_to_sockaddr(&answer->list[i], lookup->port, &addresses.list[i]);
		addresses.count = answer->count;
	}
	lookup_free(lookup);
	cb(err.code ? NULL : &addresses, err.code ? &err : NULL, arg);
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	struct kh_resolver *resolver = arg;
	bool freed = false;
	(void)fd;
	(void)what;
	resolver->freed = &freed;
	while (resolver->ready.next != &resolver->ready) {
		deliver(lookup_of(resolver->ready.next));
		if (freed)
			return;
	}
	resolver->freed = NULL;
}

static void make_ready(struct kh_lookup *lookup, struct answer *answer)
{
	struct kh_resolver *resolver = lookup->resolver;
	if (answer) {
		answer->refs++;
		lookup->answer = answer;
	}
	link_remove(&lookup->link);
	link_append(&resolver->ready, &lookup->link);
	event_active(resolver->flush, EV_TIMEOUT, 1);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	deliver(arg);
}

/* ---- queries ---- */

static void free_waiting(struct link *head)
{
	while (head->next != head)
		lookup_free(lookup_of(head->next));
}

static void query_free(struct query *query)
{
	link_remove(&query->link);
	free_waiting(&query->waiting);
	event_free(query->patience);
	free(query);
}

static void drop_query(void *value)
{
	query_free(value);
}

/* How much a status of c-ares says about what is wrong, in rising order. */
static int telling(int status)
{
	switch (status) {
	case ARES_SUCCESS:
	case ARES_ENODATA:
		return 0;
	case ARES_ENOTFOUND:
		return 1;
	case ARES_ETIMEOUT:
		return 2;
	default:
		return 3;
	case ARES_ECONNREFUSED:
		return 4;
	}
}

/* The more telling of the two families' failures. */
static struct answer *explain(const struct query *query)
{
	int status = telling(query->status4) >= telling(query->status6) ? query->status4
									: query->status6;
	switch (status) {
	case ARES_SUCCESS:
	case ARES_ENODATA:
		return answer_new(KH_ERR_NAME_NOT_FOUND, "the name has no address");
	case ARES_ENOTFOUND:
		return answer_new(KH_ERR_NAME_NOT_FOUND, "there is no such name");
	case ARES_ETIMEOUT:
		return answer_new(KH_ERR_DNS_TIMEOUT, "no nameserver answered in time");
	case ARES_ECONNREFUSED:
		return answer_new(KH_ERR_DNS_ERROR, "no nameserver can be reached");
	default:
		return answer_new(KH_ERR_DNS_ERROR, ares_strerror(status));
	}
}

static struct answer *conclude(const struct query *query)
{
	if (query->n4 + query->n6 == 0)
		return explain(query);
	struct answer *answer = answer_new(KH_ERR_NONE, NULL);
	if (answer)
		interleave(answer, query->v6, query->n6, query->v4, query->n4);
	return answer;
}

static void answer_waiting(struct query *query, struct answer *answer)
{
	while (query->waiting.next != &query->waiting)
		make_ready(lookup_of(query->waiting.next), answer);
}

static void finish(struct query *query)
{
	struct kh_resolver *resolver = query->resolver;
	struct kh_slice name = kh_slice_str(query->name);
	struct answer *answer = conclude(query);
	answer_waiting(query, answer); /* without memory: as if it had timed out */
	if (answer) {
		uint32_t ttl_s = query->ttl_s < TTL_MOST_S ? query->ttl_s : TTL_MOST_S;
		uint64_t keep_ms = answer->code ? FAILURE_MS : (uint64_t)ttl_s * 1000;
		answer->expires_ms = kh_clock_mono_ms() + keep_ms;
		if (keep_ms == 0 || !kh_lru_put(resolver->cache, name, answer))
			answer_unref(answer);
	}
	(void)kh_lru_take(resolver->queries, name);
	query_free(query);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct query *query = arg;
	(void)fd;
	(void)what;
	struct answer *answer = conclude(query);
	answer_waiting(query, answer);
	answer_unref(answer);
}

static void on_dns(void *arg, uint8_t family, int status, const struct kh_ip *list, size_t n,
		   uint32_t ttl_s)
{
	struct query *query = arg;
	struct timeval patience = { .tv_usec = SECOND_FAMILY_MS * 1000 };
	/* The resolver goes, and its queries with it; or other nameservers are asked instead. */
	if (status == ARES_EDESTRUCTION || (status == ARES_ECANCELLED && query->resolver->changing))
		return;
	if (family == 4) {
		query->open4 = false;
		query->status4 = status;
		query->n4 = n;
		memcpy(query->v4, list, n * sizeof *list);
	} else {
		query->open6 = false;
		query->status6 = status;
		query->n6 = n;
		memcpy(query->v6, list, n * sizeof *list);
	}
	if (n > 0 && ttl_s < query->ttl_s)
		query->ttl_s = ttl_s;
	if (!query->open4 && !query->open6) {
		if (!query->asking)
			finish(query);
	} else if (n > 0 || status == ARES_ECONNREFUSED) {
		event_add(query->patience, &patience);
	}
}

static struct query *query_new(struct kh_resolver *resolver, const struct kh_host *host)
{
	if (kh_lru_count(resolver->queries) >= QUERIES_MOST)
		return NULL;
	struct query *query = calloc(1, sizeof *query);
	if (!query)
		return NULL;
	query->resolver = resolver;
	link_init(&query->link);
	link_init(&query->waiting);
	memcpy(query->name, host->text, sizeof query->name);
	query->patience = event_new(resolver->base, -1, 0, on_patience, query);
	if (!query->patience || !kh_lru_put(resolver->queries, kh_host_view(host), query)) {
		if (query->patience)
			event_free(query->patience);
		free(query);
		return NULL;
	}
	link_append(&resolver->open, &query->link);
	return query;
}

/* The query may be over when this returns: c-ares fails at once where there is no nameserver. */
static void send_questions(struct query *query)
{
	query->open4 = query->open6 = true;
	query->n4 = query->n6 = 0;
	query->ttl_s = UINT32_MAX;
	query->asking = true;
	kh_dns_ask(query->resolver->dns, query->name, on_dns, query);
	query->asking = false;
	if (!query->open4 && !query->open6)
		finish(query);
}

/* Joins the query for the name, or begins it. */
static bool ask(struct kh_resolver *resolver, struct kh_lookup *lookup)
{
	struct query *query = kh_lru_get(resolver->queries, kh_host_view(&lookup->host));
	if (query) {
		link_append(&query->waiting, &lookup->link);
		/* Half an answer that was waited for long enough is good enough for this one too.
		 */
		if (query->n4 + query->n6 > 0 && !event_pending(query->patience, EV_TIMEOUT, NULL))
			event_active(query->patience, EV_TIMEOUT, 1);
		return true;
	}
	query = query_new(resolver, &lookup->host);
	if (!query)
		return false;
	link_append(&query->waiting, &lookup->link);
	send_questions(query);
	return true;
}

/* ---- what is known without asking ---- */

static const struct kh_pin *find_pin(const struct kh_config *config, const struct kh_host *host)
{
	for (size_t i = 0; i < config->n_pins; i++) {
		if (kh_host_eq(&config->pins[i].host, host))
			return &config->pins[i];
	}
	return NULL;
}

static bool is_localhost(const struct kh_host *host)
{
	struct kh_slice name = kh_host_view(host);
	return kh_slice_eq(name, KH_SLICE("localhost")) ||
	       kh_slice_has_suffix(name, KH_SLICE(".localhost"));
}

/* A literal, the hosts file, localhost. Return: how many addresses; 0: DNS has to say. */
static size_t find_local(const struct kh_resolver *resolver, const struct kh_host *host,
			 struct kh_ip *out, size_t most)
{
	if (host->kind != KH_HOST_NAME) {
		*out = (struct kh_ip){ .family = host->kind == KH_HOST_IPV4 ? 4 : 6 };
		memcpy(out->addr, host->addr, sizeof out->addr);
		return 1;
	}
	size_t n = kh_hosts_find(resolver->hosts, kh_host_view(host), out, most);
	if (n == 0 && is_localhost(host)) {
		out[n++] = (struct kh_ip){ .family = 6, .addr = { [15] = 1 } };
		out[n++] = (struct kh_ip){ .family = 4, .addr = { 127, 0, 0, 1 } };
	}
	return n;
}

static struct answer *find_cached(struct kh_resolver *resolver, const struct kh_host *host)
{
	struct answer *answer = kh_lru_get(resolver->cache, kh_host_view(host));
	if (!answer || kh_clock_mono_ms() < answer->expires_ms)
		return answer;
	answer_unref(kh_lru_take(resolver->cache, kh_host_view(host)));
	return NULL;
}

static bool start(struct kh_resolver *resolver, struct kh_lookup *lookup)
{
	const struct kh_pin *pin = find_pin(resolver->config, &lookup->host);
	if (pin) {
		lookup->pin = pin->addr; /* a reload may free the configuration */
		lookup->is_pinned = true;
		make_ready(lookup, NULL);
		return true;
	}
	struct kh_ip local[KH_LIMIT_ADDRESSES];
	size_t n = find_local(resolver, &lookup->host, local, KH_LIMIT_ADDRESSES);
	if (n > 0) {
		struct answer *answer = answer_new(KH_ERR_NONE, NULL);
		if (!answer)
			return false;
		interleave_mixed(answer, local, n);
		make_ready(lookup, answer);
		answer_unref(answer);
		return true;
	}
	struct answer *cached = find_cached(resolver, &lookup->host);
	if (cached) {
		make_ready(lookup, cached);
		return true;
	}
	return ask(resolver, lookup);
}

struct kh_lookup *kh_resolver_lookup(struct kh_resolver *resolver, const struct kh_host *host,
				     uint16_t port, uint32_t timeout_ms, kh_lookup_cb *cb,
				     void *arg)
{
	struct timeval deadline = { .tv_sec = timeout_ms / 1000,
				    .tv_usec = (timeout_ms % 1000) * 1000 };
	if (host->kind == KH_HOST_NONE || resolver->n_lookups >= KH_LIMIT_RESOLVES)
		return NULL;
	struct kh_lookup *lookup = calloc(1, sizeof *lookup);
	if (!lookup)
		return NULL;
	*lookup = (struct kh_lookup){
		.resolver = resolver,
		.host = *host,
		.port = port,
		.timeout_ms = timeout_ms,
		.cb = cb,
		.arg = arg,
	};
	link_init(&lookup->link);
	event_assign(&lookup->deadline, resolver->base, -1, 0, on_deadline, lookup);
	resolver->n_lookups++;
	if (event_add(&lookup->deadline, &deadline) < 0 || !start(resolver, lookup)) {
		lookup_free(lookup);
		return NULL;
	}
	return lookup;
}

/* ---- life ---- */

static void use_nameservers(struct kh_resolver *resolver)
{
	const struct kh_config *config = resolver->config;
	if (config->n_nameservers > 0)
		kh_dns_set_servers(resolver->dns, config->nameservers, config->n_nameservers);
	else
		kh_dns_set_servers(resolver->dns, resolver->conf.servers, resolver->conf.n_servers);
}

struct kh_resolver *kh_resolver_new(struct event_base *base, const struct kh_config *config,
				    struct kh_slice resolv_conf, struct kh_slice hosts,
				    struct kh_err *err)
{
	struct kh_resolver *resolver = calloc(1, sizeof *resolver);
	if (!resolver) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "resolver: no memory");
		return NULL;
	}
	resolver->base = base;
	resolver->config = config;
	link_init(&resolver->ready);
	link_init(&resolver->open);
	kh_resolv_conf_parse(&resolver->conf, resolv_conf);
	resolver->hosts = kh_hosts_new(hosts);
	resolver->cache = kh_lru_new(CACHE_NAMES, drop_answer);
	resolver->queries = kh_lru_new(QUERIES_MOST, drop_query);
	resolver->flush = event_new(base, -1, 0, on_flush, resolver);
	if (!resolver->hosts || !resolver->cache || !resolver->queries || !resolver->flush) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "resolver: no memory");
		kh_resolver_free(resolver);
		return NULL;
	}
	resolver->dns = kh_dns_new(base, &resolver->conf, err);
	if (!resolver->dns) {
		kh_resolver_free(resolver);
		return NULL;
	}
	use_nameservers(resolver);
	return resolver;
}

void kh_resolver_configure(struct kh_resolver *resolver, const struct kh_config *config)
{
	struct link *next;
	resolver->config = config;
	kh_lru_clear(resolver->cache);
	resolver->changing = true;
	use_nameservers(resolver);
	resolver->changing = false;
	for (struct link *l = resolver->open.next; l != &resolver->open; l = next) {
		next = l->next;
		send_questions((struct query *)l);
	}
}

void kh_resolver_free(struct kh_resolver *resolver)
{
	if (!resolver)
		return;
	if (resolver->freed)
		*resolver->freed = true;
	kh_dns_free(resolver->dns);
	free_waiting(&resolver->ready);
	kh_lru_free(resolver->queries);
	kh_lru_free(resolver->cache);
	kh_hosts_free(resolver->hosts);
	if (resolver->flush)
		event_free(resolver->flush);
	free(resolver);
}
