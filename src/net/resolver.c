/*
 * resolver.c - names to addresses, on one thread's event loop
 *
 * In this order: pins of the configuration, literals, the hosts file, localhost (RFC 6761 §6.3),
 * the cache, nameservers (query.c). Every answer goes into one list that a separate event
 * processes, so that a callback never runs inside a call to the resolver or inside c-ares.
 */
#include "resolver_internal.h"

#include <stdlib.h>

enum { CACHE_NAMES = 2048 };

/* ---- lookups ---- */

void kh_lookup_free(struct kh_lookup *lookup)
{
	kh_query_leave(lookup);
	kh_list_remove(&lookup->link);
	event_del(&lookup->deadline);
	kh_answer_unref(lookup->answer);
	lookup->resolver->n_lookups--;
	free(lookup);
}

void kh_lookup_charge(struct kh_lookup *lookup, struct kh_charge *charge)
{
	lookup->charge = charge;
}

void kh_lookup_cancel(struct kh_lookup *lookup)
{
	if (lookup)
		kh_lookup_free(lookup);
}

static void tell(const struct kh_lookup *lookup, struct kh_addresses *addresses, struct kh_err *err)
{
	const struct kh_resolver_answer *answer = lookup->answer;
	if (lookup->is_pinned) {
		addresses->list[0] = lookup->pin;
		addresses->count = 1;
		addresses->pinned = true;
		return;
	}
	if (!answer) {
		kh_err_set(err, KH_ERR_DNS_TIMEOUT, "%s: no nameserver answered within %u ms",
			   lookup->host.text, lookup->timeout_ms);
		return;
	}
	if (answer->code) {
		kh_err_set(err, answer->code, "%s: %s", lookup->host.text, answer->why);
		return;
	}
	for (size_t i = 0; i < answer->count; i++)
		kh_ip_to_sockaddr(&answer->list[i], lookup->port, &addresses->list[i]);
	addresses->count = answer->count;
}

/* Takes the lookup out and calls back; the resolver may be gone afterwards. */
static void deliver(struct kh_lookup *lookup)
{
	struct kh_addresses addresses = { 0 };
	struct kh_err err = KH_ERR_INIT;
	kh_lookup_cb *cb = lookup->cb;
	void *arg = lookup->arg;
	tell(lookup, &addresses, &err);
	kh_lookup_free(lookup);
	cb(err.code ? NULL : &addresses, err.code ? &err : NULL, arg);
}

/* NULL: there is none. */
static struct kh_lookup *pop_ready(struct kh_resolver *resolver)
{
	struct kh_node *first = resolver->ready.next;
	if (first == &resolver->ready)
		return NULL;
	resolver->ready.next = first->next;
	first->next->prev = &resolver->ready;
	first->next = first->prev = NULL;
	return kh_container_of(first, struct kh_lookup, link);
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	struct kh_resolver *resolver = arg;
	bool freed = false;
	(void)fd;
	(void)what;
	resolver->freed = &freed;
	struct kh_lookup *lookup;
	while ((lookup = pop_ready(resolver)) != NULL) {
		deliver(lookup);
		if (freed)
			return;
	}
	resolver->freed = NULL;
}

void kh_lookup_make_ready(struct kh_lookup *lookup, struct kh_resolver_answer *answer)
{
	struct kh_resolver *resolver = lookup->resolver;
	if (answer)
		answer->refs++;
	lookup->answer = answer;
	kh_query_leave(lookup);
	kh_list_append(&resolver->ready, &lookup->link);
	event_active(resolver->flush, EV_TIMEOUT, 1);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	deliver(arg);
}

/* ---- what is known without asking ---- */

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

static bool start(struct kh_resolver *resolver, struct kh_lookup *lookup)
{
	struct kh_ip local[KH_LIMIT_ADDRESSES];
	const struct kh_pin *pin = kh_config_pin(resolver->config, KH_NO_TENANT, &lookup->host);
	if (pin) {
		lookup->pin = pin->addr; /* a reload may free the configuration */
		lookup->is_pinned = true;
		kh_lookup_make_ready(lookup, NULL);
		return true;
	}
	size_t n = find_local(resolver, &lookup->host, local, KH_LIMIT_ADDRESSES);
	if (n > 0) {
		struct kh_resolver_answer *answer = kh_answer_new(KH_ERR_NONE, NULL);
		if (!answer)
			return false;
		kh_answer_fill(answer, local, n);
		kh_lookup_make_ready(lookup, answer);
		kh_answer_unref(answer);
		return true;
	}
	struct kh_resolver_answer *cached = kh_answer_find(resolver, &lookup->host);
	if (!cached)
		return kh_query_join(resolver, lookup);
	kh_lookup_make_ready(lookup, cached);
	return true;
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
	event_assign(&lookup->deadline, resolver->base, -1, 0, on_deadline, lookup);
	resolver->n_lookups++;
	if (event_add(&lookup->deadline, &deadline) < 0 || !start(resolver, lookup)) {
		kh_lookup_free(lookup);
		return NULL;
	}
	return lookup;
}

size_t kh_resolver_sockets_of_a_lookup(void)
{
	return kh_dns_sockets_of_a_name();
}

/* ---- life ---- */

static void drop_answer(void *answer)
{
	kh_answer_unref(answer);
}

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
	kh_list_init(&resolver->ready);
	kh_list_init(&resolver->open);
	kh_resolv_conf_parse(&resolver->conf, resolv_conf);
	resolver->hosts = kh_hosts_new(hosts);
	resolver->cache = kh_lru_new(CACHE_NAMES, drop_answer);
	resolver->queries = kh_lru_new(SIZE_MAX, kh_query_drop); /* bounded in query.c */
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
	resolver->config = config;
	kh_lru_clear(resolver->cache);
	resolver->changing = true;
	use_nameservers(resolver);
	resolver->changing = false;
	kh_query_repeat_all(resolver);
}

void kh_resolver_free(struct kh_resolver *resolver)
{
	if (!resolver)
		return;
	if (resolver->freed)
		*resolver->freed = true;
	kh_dns_free(resolver->dns);
	struct kh_lookup *lookup;
	while ((lookup = pop_ready(resolver)) != NULL)
		kh_lookup_free(lookup);
	kh_lru_free(resolver->queries);
	kh_lru_free(resolver->cache);
	kh_hosts_free(resolver->hosts);
	if (resolver->flush)
		event_free(resolver->flush);
	free(resolver);
}
