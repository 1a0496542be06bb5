/*
 * query.c - a query: one name that the nameservers are being asked for
 *
 * Lookups of the same name join its query. A query may outlive the lookups that wait for it: a late
 * answer still fills the cache, and c-ares can't cancel a single question. So each open query is
 * charged to somebody: to the lookups that wait for it, later to the last of them. When one address
 * family has answered with addresses, the other gets 50 ms more (RFC 8305 §3), since many broken
 * nameservers are broken only for AAAA.
 */
#include "resolver_internal.h"

#include <stdlib.h>

#include <ares.h>

#include <keyhole/base/clock.h>

enum {
	TTL_MOST_S = 60,
	FAILURE_MS = 1000,
	/* Those of sandboxes are charged for, KH_LIMIT_RESOLVES of all threads together; this
	 * bounds the others too. Each is two query numbers of 16 bits. */
	QUERIES_MOST = KH_LIMIT_RESOLVES + KH_LIMIT_RESOLVES / 4,
	SECOND_FAMILY_MS = 50,
};

/* What one family has come to. */
struct family {
	bool open;
	int status; /* c-ares' */
	size_t count;
	struct kh_ip list[KH_LIMIT_ADDRESSES];
};

struct kh_query {
	struct kh_node link; /* of the resolver's open ones */
	struct kh_resolver *resolver;
	struct kh_node waiting; /* lookups */
	/* Of the last that waited, since it went. It refers to the account and to nothing else. */
	struct kh_charge charge;
	struct event *patience; /* for the second family */
	bool asking;
	uint32_t ttl_s;
	struct family v4, v6;
	char name[KH_HOST_MAX_BYTES + 1];
};

/* ---- answers ---- */

struct kh_resolver_answer *kh_answer_new(enum kh_err_code code, const char *why)
{
	struct kh_resolver_answer *answer = calloc(1, sizeof *answer);
	if (answer) {
		answer->refs = 1;
		answer->code = code;
		answer->why = why;
	}
	return answer;
}

void kh_answer_unref(struct kh_resolver_answer *answer)
{
	if (answer && --answer->refs == 0)
		free(answer);
}

/* The next address of a family at or after `from`; n: none. */
static size_t next_of(const struct kh_ip *list, size_t n, size_t from, uint8_t family)
{
	while (from < n && list[from].family != family)
		from++;
	return from;
}

void kh_answer_fill(struct kh_resolver_answer *answer, const struct kh_ip *list, size_t n)
{
	size_t at6 = next_of(list, n, 0, 6), at4 = next_of(list, n, 0, 4);
	while (answer->count < KH_LIMIT_ADDRESSES && (at6 < n || at4 < n)) {
		if (at6 < n) {
			answer->list[answer->count++] = list[at6];
			at6 = next_of(list, n, at6 + 1, 6);
		}
		if (at4 < n && answer->count < KH_LIMIT_ADDRESSES) {
			answer->list[answer->count++] = list[at4];
			at4 = next_of(list, n, at4 + 1, 4);
		}
	}
}

struct kh_resolver_answer *kh_answer_find(struct kh_resolver *resolver, const struct kh_host *host)
{
	struct kh_resolver_answer *answer = kh_lru_get(resolver->cache, kh_host_view(host));
	if (!answer || kh_clock_mono_ms() < answer->expires_ms)
		return answer;
	kh_answer_unref(kh_lru_take(resolver->cache, kh_host_view(host)));
	return NULL;
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
static struct kh_resolver_answer *explain(const struct kh_query *query)
{
	int status4 = query->v4.status, status6 = query->v6.status;
	int status = telling(status4) >= telling(status6) ? status4 : status6;
	switch (status) {
	case ARES_SUCCESS:
	case ARES_ENODATA:
		return kh_answer_new(KH_ERR_NAME_NOT_FOUND, "the name has no address");
	case ARES_ENOTFOUND:
		return kh_answer_new(KH_ERR_NAME_NOT_FOUND,
				     "there is no such name (the host's nameserver says so)");
	case ARES_ETIMEOUT:
		return kh_answer_new(KH_ERR_DNS_TIMEOUT, "no nameserver answered in time");
	case ARES_ECONNREFUSED:
		return kh_answer_new(KH_ERR_DNS_ERROR, "no nameserver can be reached");
	default:
		return kh_answer_new(KH_ERR_DNS_ERROR, ares_strerror(status));
	}
}

static size_t count_of(const struct kh_query *query)
{
	return query->v4.count + query->v6.count;
}

static struct kh_resolver_answer *conclude(const struct kh_query *query)
{
	struct kh_ip both[2 * KH_LIMIT_ADDRESSES];
	if (count_of(query) == 0)
		return explain(query);
	struct kh_resolver_answer *answer = kh_answer_new(KH_ERR_NONE, NULL);
	if (!answer)
		return NULL;
	memcpy(both, query->v6.list, query->v6.count * sizeof *both);
	memcpy(both + query->v6.count, query->v4.list, query->v4.count * sizeof *both);
	kh_answer_fill(answer, both, count_of(query));
	return answer;
}

/* ---- queries ---- */

static void answer_waiting(struct kh_query *query, struct kh_resolver_answer *answer)
{
	while (!kh_list_is_empty(&query->waiting))
		kh_lookup_make_ready(kh_container_of(query->waiting.next, struct kh_lookup, link),
				     answer);
}

void kh_query_leave(struct kh_lookup *lookup)
{
	struct kh_query *query = lookup->query;

	if (!query)
		return;
	lookup->query = NULL;
	kh_list_remove(&lookup->link);
	if (lookup->charge && kh_list_is_empty(&query->waiting) && !kh_charge_holds(&query->charge))
		kh_charge_move(&query->charge, lookup->charge);
}

void kh_query_drop(void *dropped)
{
	struct kh_query *query = dropped;
	while (!kh_list_is_empty(&query->waiting))
		kh_lookup_free(kh_container_of(query->waiting.next, struct kh_lookup, link));
	kh_charge_release(&query->charge);
	kh_list_remove(&query->link);
	event_free(query->patience);
	free(query);
}

static void finish(struct kh_query *query)
{
	struct kh_resolver *resolver = query->resolver;
	struct kh_slice name = kh_slice_str(query->name);
	struct kh_resolver_answer *answer = conclude(query);
	answer_waiting(query, answer);
	if (answer) {
		uint32_t ttl_s = query->ttl_s < TTL_MOST_S ? query->ttl_s : TTL_MOST_S;
		uint64_t keep_ms = answer->code ? FAILURE_MS : (uint64_t)ttl_s * 1000;
		answer->expires_ms = kh_clock_mono_ms() + keep_ms;
		if (keep_ms == 0 || !kh_lru_put(resolver->cache, name, answer))
			kh_answer_unref(answer);
	}
	(void)kh_lru_take(resolver->queries, name);
	kh_query_drop(query);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
	struct kh_query *query = arg;
	(void)fd;
	(void)what;
	struct kh_resolver_answer *answer = conclude(query);
	answer_waiting(query, answer);
	kh_answer_unref(answer);
}

static void on_dns(void *arg, uint8_t family, int status, const struct kh_ip *list, size_t n,
		   uint32_t ttl_s)
{
	struct kh_query *query = arg;
	struct timeval patience = { .tv_usec = SECOND_FAMILY_MS * 1000 };
	/* The resolver goes, and its queries with it; or other nameservers are asked instead. */
	if (status == ARES_EDESTRUCTION || (status == ARES_ECANCELLED && query->resolver->changing))
		return;
	struct family *f = family == 4 ? &query->v4 : &query->v6;
	f->open = false;
	f->status = status;
	f->count = n;
	if (n > 0)
		memcpy(f->list, list, n * sizeof *list);
	if (n > 0 && ttl_s < query->ttl_s)
		query->ttl_s = ttl_s;
	if (!query->v4.open && !query->v6.open) {
		if (!query->asking)
			finish(query);
	} else if (n > 0 || status == ARES_ECONNREFUSED) {
		event_add(query->patience, &patience);
	}
}

static struct kh_query *query_new(struct kh_resolver *resolver, const struct kh_host *host)
{
	if (kh_lru_count(resolver->queries) >= QUERIES_MOST)
		return NULL;
	struct kh_query *query = calloc(1, sizeof *query);
	if (!query)
		return NULL;
	query->resolver = resolver;
	kh_list_init(&query->waiting);
	memcpy(query->name, host->text, sizeof query->name);
	query->patience = event_new(resolver->base, -1, 0, on_patience, query);
	if (!query->patience || !kh_lru_put(resolver->queries, kh_host_view(host), query)) {
		if (query->patience)
			event_free(query->patience);
		free(query);
		return NULL;
	}
	kh_list_append(&resolver->open, &query->link);
	return query;
}

/* The query may be over when this returns: c-ares fails at once where there is no nameserver. */
static void send_questions(struct kh_query *query)
{
	query->v4 = query->v6 = (struct family){ .open = true };
	query->ttl_s = UINT32_MAX;
	event_del(query->patience); /* of an answer that counts no more */
	query->asking = true;
	kh_dns_ask(query->resolver->dns, query->name, on_dns, query);
	query->asking = false;
	if (!query->v4.open && !query->v6.open)
		finish(query);
}

static void wait_for(struct kh_query *query, struct kh_lookup *lookup)
{
	lookup->query = query;
	kh_list_append(&query->waiting, &lookup->link);
}

bool kh_query_join(struct kh_resolver *resolver, struct kh_lookup *lookup)
{
	struct kh_query *query = kh_lru_get(resolver->queries, kh_host_view(&lookup->host));
	if (query) {
		wait_for(query, lookup);
		/* Half an answer that was waited for long enough will do for this one too. */
		if (count_of(query) > 0 && !event_pending(query->patience, EV_TIMEOUT, NULL))
			event_active(query->patience, EV_TIMEOUT, 1);
		return true;
	}
	query = query_new(resolver, &lookup->host);
	if (!query)
		return false;
	wait_for(query, lookup);
	send_questions(query);
	return true;
}

void kh_query_repeat_all(struct kh_resolver *resolver)
{
	struct kh_node *next;
	for (struct kh_node *n = resolver->open.next; n != &resolver->open; n = next) {
		next = n->next;
		send_questions(kh_container_of(n, struct kh_query, link));
	}
}
