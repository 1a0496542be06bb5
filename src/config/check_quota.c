/* check_quota.c - warns of limits that can never be reached, since other limits are reached first
 */
#include <stdio.h>

#include "config_internal.h"

/* Whose they are, for messages; what is counted by an inner one is counted by the outer one too. */
struct owner {
	const struct kh_limits *limits;
	const char *what; /* "the site's" */
};

static bool is_slower(const struct kh_rate *a, const struct kh_rate *b, bool or_equal)
{
	__extension__ typedef unsigned __int128 wide;
	wide x = (wide)a->amount * b->period_ms, y = (wide)b->amount * a->period_ms;
	return or_equal ? x <= y : x < y;
}

/* Whatever `first` lets through, `second` does too. */
static bool covers(const struct kh_rate *first, const struct kh_rate *second)
{
	return first->kind == second->kind && first->burst <= second->burst &&
	       is_slower(first, second, true);
}

static bool differ(const struct kh_rate *a, const struct kh_rate *b)
{
	return a->burst != b->burst || is_slower(a, b, false) || is_slower(b, a, false);
}

static void warn_of_rate(struct kh_reader *reader, const struct kh_rate *rate,
			 const struct kh_rate *first, const char *whose)
{
	char one[KH_RATE_BYTES], other[KH_RATE_BYTES];
	kh_diagnostics_add(reader->diags, true, rate->where,
			   "limits.%s: %s can never be reached: %s%s%s is reached first",
			   kh_quota_name(rate->kind), kh_rate_show(rate, one), whose,
			   whose[0] ? " " : "", kh_rate_show(first, other));
}

static void warn_of_value(struct kh_reader *reader, const struct kh_limits *inner,
			  enum kh_quota_kind kind, uint64_t first, const char *whose)
{
	char one[KH_VALUE_BYTES], other[KH_VALUE_BYTES];
	kh_diagnostics_add(reader->diags, true, inner->where[kind],
			   "limits.%s: %s can never be reached: %s %s is reached first",
			   kh_quota_name(kind),
			   kh_quota_show(kind, kh_limits_value(inner, kind), one), whose,
			   kh_quota_show(kind, first, other));
}

static void check_inside(struct kh_reader *reader, const struct kh_limits *limits)
{
	for (size_t i = 0; i < limits->n_rates; i++) {
		const struct kh_rate *rate = &limits->rates[i], *first = NULL;
		for (size_t j = 0; j < limits->n_rates && !first; j++)
			if (i != j && covers(&limits->rates[j], rate))
				first = &limits->rates[j];
		if (first)
			warn_of_rate(reader, rate, first, "");
		if (rate->kind == KH_QUOTA_BYTES_UP && limits->max_body > rate->burst)
			warn_of_value(reader, limits, KH_QUOTA_MAX_BODY, rate->burst,
				      "its own bytes_up, with");
	}
}

static void check_below(struct kh_reader *reader, const struct kh_limits *inner,
			const struct owner *outer)
{
	if (!inner || !outer->limits)
		return;
	for (size_t i = 0; i < inner->n_rates; i++)
		for (size_t j = 0; j < outer->limits->n_rates; j++)
			if (covers(&outer->limits->rates[j], &inner->rates[i]) &&
			    differ(&outer->limits->rates[j], &inner->rates[i]))
				warn_of_rate(reader, &inner->rates[i], &outer->limits->rates[j],
					     outer->what);
	for (enum kh_quota_kind kind = KH_QUOTA_NONE; kind < KH_QUOTA_KINDS; kind++) {
		uint64_t first = kh_limits_value(outer->limits, kind);
		if (first > 0 && first < kh_limits_value(inner, kind))
			warn_of_value(reader, inner, kind, first, outer->what);
	}
}

static void check_rules(struct kh_reader *reader, const struct kh_rules *rules,
			const struct owner *owner, const struct owner *site)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule_more *more = rules->list[i].more;
		if (!more || !more->limits)
			continue;
		check_inside(reader, more->limits);
		check_below(reader, more->limits, owner);
		check_below(reader, more->limits, site);
		if (more->has_max_body && more->limits->max_body > more->max_body)
			warn_of_value(reader, more->limits, KH_QUOTA_MAX_BODY, more->max_body,
				      "the rule's own max_body of");
	}
}

void kh_config_check_limits(struct kh_reader *reader)
{
	const struct kh_config *config = reader->config;
	const struct owner nobody = { 0 }, site = { config->site_limits, "the site's" };
	if (site.limits)
		check_inside(reader, site.limits);
	check_rules(reader, &config->site, &site, &nobody);
	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct kh_tenant_config *tenant = &config->tenants[i];
		const struct owner one = { tenant->limits, "its tenant's" };
		if (one.limits)
			check_inside(reader, one.limits);
		check_below(reader, one.limits, &site);
		check_rules(reader, &tenant->rules, &one, &site);
	}
	for (size_t i = 0; i < config->n_listeners; i++) {
		const struct kh_listener_config *listener = &config->listeners[i];
		if (!listener->limits)
			continue;
		const struct owner tenant = { config->tenants[listener->tenant].limits,
					      "its tenant's" };
		check_inside(reader, listener->limits);
		check_below(reader, listener->limits, &tenant);
		check_below(reader, listener->limits, &site);
		if (listener->limits->connections > config->max_connections)
			warn_of_value(reader, listener->limits, KH_QUOTA_CONNECTIONS,
				      config->max_connections, "limits.connections, which is");
	}
}
