/* quota.c - `limits` of the site, a tenant, a sandbox or a rule: rates, numbers of things at a
 * time, a size, a time */
#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

static const char *const names[KH_QUOTA_KINDS] = { [KH_QUOTA_NONE] = "",
#define NAME(name, kind, ...) [KH_QUOTA_##kind] = #name,
						   KH_LIMIT_KEYS(NAME, )
							   KH_LIMIT_KEYS_OF_OWNERS(NAME, )
#undef NAME
};

/* Periods as they are written. */
static const struct period {
	const char *name;
	uint32_t ms;
} periods[] = { { "s", 1000 }, { "min", 60000 }, { "h", 3600000 }, { "day", 86400000 } };
enum { PERIODS = sizeof(periods) / sizeof(periods[0]) };

const char *kh_quota_name(enum kh_quota_kind kind)
{
	return (unsigned)kind < KH_QUOTA_KINDS ? names[kind] : "";
}

bool kh_quota_is_rate(enum kh_quota_kind kind)
{
	switch (kind) {
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
		return true;
	case KH_QUOTA_NONE:
	case KH_QUOTA_CONCURRENCY:
	case KH_QUOTA_CONNECTIONS:
	case KH_QUOTA_MAX_BODY:
	case KH_QUOTA_TUNNEL_LIFETIME:
	case KH_QUOTA_KINDS:
		break;
	}
	return false;
}

bool kh_quota_is_bytes(enum kh_quota_kind kind)
{
	switch (kind) {
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
	case KH_QUOTA_MAX_BODY:
		return true;
	case KH_QUOTA_NONE:
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_CONCURRENCY:
	case KH_QUOTA_CONNECTIONS:
	case KH_QUOTA_TUNNEL_LIFETIME:
	case KH_QUOTA_KINDS:
		break;
	}
	return false;
}

bool kh_quota_is_places(enum kh_quota_kind kind)
{
	switch (kind) {
	case KH_QUOTA_CONCURRENCY:
	case KH_QUOTA_CONNECTIONS:
		return true;
	case KH_QUOTA_NONE:
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
	case KH_QUOTA_MAX_BODY:
	case KH_QUOTA_TUNNEL_LIFETIME:
	case KH_QUOTA_KINDS:
		break;
	}
	return false;
}

const char *kh_quota_show(enum kh_quota_kind kind, uint64_t value, char out[KH_VALUE_BYTES])
{
	switch (kind) {
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
	case KH_QUOTA_MAX_BODY:
		return kh_value_show_size(value, out);
	case KH_QUOTA_TUNNEL_LIFETIME:
		return kh_value_show_duration(value, out);
	case KH_QUOTA_NONE:
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_CONCURRENCY:
	case KH_QUOTA_CONNECTIONS:
	case KH_QUOTA_KINDS:
		break;
	}
	(void)snprintf(out, KH_VALUE_BYTES, "%llu", (unsigned long long)value);
	return out;
}

uint64_t kh_limits_value(const struct kh_limits *limits, enum kh_quota_kind kind)
{
	switch (kind) {
	case KH_QUOTA_CONCURRENCY:
		return limits->concurrency;
	case KH_QUOTA_CONNECTIONS:
		return limits->connections;
	case KH_QUOTA_MAX_BODY:
		return limits->max_body;
	case KH_QUOTA_TUNNEL_LIFETIME:
		return limits->tunnel_lifetime_ms;
	case KH_QUOTA_NONE:
	case KH_QUOTA_REQUESTS:
	case KH_QUOTA_BYTES_UP:
	case KH_QUOTA_BYTES_DOWN:
	case KH_QUOTA_KINDS:
		break;
	}
	return 0;
}

static const char *period_name(uint32_t ms)
{
	for (size_t i = 0; i < PERIODS; i++)
		if (periods[i].ms == ms)
			return periods[i].name;
	return "?";
}

const char *kh_rate_show(const struct kh_rate *rate, char out[KH_RATE_BYTES])
{
	char amount[KH_VALUE_BYTES], burst[KH_VALUE_BYTES];
	bool usual = rate->burst == rate->amount;
	(void)snprintf(out, KH_RATE_BYTES, "%s/%s%s%s",
		       kh_quota_show(rate->kind, rate->amount, amount),
		       period_name(rate->period_ms), usual ? "" : ", burst ",
		       usual ? "" : kh_quota_show(rate->kind, rate->burst, burst));
	return out;
}

/* ---- one rate ---- */

/* "600", "2M": requests. */
static bool parse_count(struct kh_slice text, uint64_t *out)
{
	static const struct {
		char letter;
		uint64_t factor;
	} suffixes[] = { { 'K', 1000 }, { 'M', 1000000 } };
	uint64_t factor = 1;
	for (size_t i = 0; text.len > 0 && i < 2; i++)
		if (text.ptr[text.len - 1] == suffixes[i].letter) {
			factor = suffixes[i].factor;
			text = kh_slice_sub(text, 0, text.len - 1);
			break;
		}
	uint64_t number;
	return kh_slice_to_u64(text, &number) && !__builtin_mul_overflow(number, factor, out);
}

static bool parse_amount(enum kh_quota_kind kind, struct kh_slice text, uint64_t *out)
{
	return kh_quota_is_bytes(kind) ? kh_value_size(text, out) : parse_count(text, out);
}

static bool parse_rate(struct kh_rate *rate, struct kh_slice text)
{
	size_t slash = kh_slice_find(text, '/', 0);
	struct kh_slice period = kh_slice_sub(text, slash + 1, text.len);
	if (slash >= text.len ||
	    !parse_amount(rate->kind, kh_slice_sub(text, 0, slash), &rate->amount))
		return false;
	for (size_t i = 0; i < PERIODS; i++)
		if (kh_slice_eq(period, kh_slice_str(periods[i].name)))
			rate->period_ms = periods[i].ms;
	return rate->period_ms != 0;
}

const char *kh_rate_fault(const struct kh_rate *rate)
{
	bool bytes = kh_quota_is_bytes(rate->kind);
	uint64_t a_second = bytes ? KH_LIMIT_RATE_BYTES : KH_LIMIT_RATE_REQUESTS;
	if (rate->amount == 0)
		return "nothing could ever go through: to forbid it, deny it by a rule";
	if (rate->burst == 0)
		return "with a burst of 0 nothing could ever go through";
	if (rate->amount > KH_LIMIT_QUOTA_AMOUNT || rate->burst > KH_LIMIT_QUOTA_AMOUNT ||
	    rate->amount / (rate->period_ms / 1000) > a_second)
		return bytes ? "more than 8GiB a second is no limit"
			     : "more than 100000 a second is no limit";
	return NULL;
}

static void wrong_rate(struct kh_reader *reader, const char *path, enum kh_quota_kind kind,
		       const struct kh_yaml_node *node)
{
	const char *what = kh_quota_is_bytes(kind)
				   ? "a rate such as 1MiB/s or 5GiB/day (periods: s, min, h, day)"
				   : "a rate such as 10/s, 600/min, 5K/h or 2M/day";
	bool scalar = node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node);
	kh_reader_error(reader, node, "%s: expected %s, got %s%s%s", path, what, scalar ? "\"" : "",
			scalar ? kh_esc(node->text) : kh_node_what(node), scalar ? "\"" : "");
}

/* `{ rate: 600/min, burst: 20 }`. Return: false when it was complained about. */
static bool take_rate_map(struct kh_reader *reader, const char *path, struct kh_rate *rate,
			  const struct kh_yaml_node *node)
{
	const struct kh_yaml_node *text = kh_node_get(node, "rate"),
				  *burst = kh_node_get(node, "burst");
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		if (child != text && child != burst) {
			kh_reader_error(reader, child->key,
					"unknown key \"%s\" in %s: it has rate and burst",
					kh_esc(child->key->text), path);
			return false;
		}
	if (!text || text->kind != KH_NODE_SCALAR || !parse_rate(rate, text->text)) {
		wrong_rate(reader, path, rate->kind, text ? text : node);
		return false;
	}
	rate->burst = rate->amount;
	if (burst && (burst->kind != KH_NODE_SCALAR ||
		      !parse_amount(rate->kind, burst->text, &rate->burst))) {
		kh_reader_error(reader, burst, "%s: burst: expected %s", path,
				kh_quota_is_bytes(rate->kind) ? "a size such as 16MiB"
							      : "a number such as 20");
		return false;
	}
	return true;
}

static void add_rate(struct kh_reader *reader, const char *path, struct kh_limits *limits,
		     enum kh_quota_kind kind, const struct kh_yaml_node *node)
{
	struct kh_rate rate = { .kind = kind, .where = kh_reader_where(reader, node) };
	if (node->kind == KH_NODE_MAP) {
		if (!take_rate_map(reader, path, &rate, node))
			return;
	} else if (node->kind != KH_NODE_SCALAR || !parse_rate(&rate, node->text)) {
		wrong_rate(reader, path, kind, node);
		return;
	} else {
		rate.burst = rate.amount;
	}
	const char *fault = kh_rate_fault(&rate);
	for (size_t i = 0; !fault && i < limits->n_rates; i++)
		if (limits->rates[i].kind == kind && limits->rates[i].period_ms == rate.period_ms)
			fault = "one of this period is there already";
	if (fault) {
		kh_reader_error(reader, node, "%s: %s", path, fault);
		return;
	}
	struct kh_rate *slot = kh_list_add(&limits->rates, &limits->n_rates, sizeof(*slot));
	if (slot)
		*slot = rate;
	else
		(void)kh_reader_no_memory(reader);
}

/* ---- what has no period ---- */

static bool is_scalar(const struct kh_yaml_node *node)
{
	return node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node);
}

/* A number, size or duration within the bounds of its row. Return: false where it is none. */
static bool number_of(const struct kh_option *option, const struct kh_yaml_node *node,
		      uint64_t *out)
{
	bool known = is_scalar(node) &&
		     (option->as == KH_OPTION_SIZE	 ? kh_value_size(node->text, out)
		      : option->as == KH_OPTION_DURATION ? kh_value_duration(node->text, out)
							 : kh_slice_to_u64(node->text, out));
	return known && *out >= option->least && *out <= option->most;
}

static void say_number(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node)
{
	char least[KH_VALUE_BYTES], most[KH_VALUE_BYTES], due[128];
	const char *quote = is_scalar(node) ? "\"" : "";
	if (option->as == KH_OPTION_DURATION)
		(void)snprintf(due, sizeof(due), "a duration from %s to %s such as 15m or 1h",
			       kh_value_show_duration(option->least, least),
			       kh_value_show_duration(option->most, most));
	else if (option->as == KH_OPTION_SIZE)
		(void)snprintf(due, sizeof(due), "a size such as 512KiB or 32MiB");
	else
		(void)snprintf(due, sizeof(due), "a whole number from %llu to %llu",
			       (unsigned long long)option->least, (unsigned long long)option->most);
	kh_reader_error(reader, node, "%s: expected %s, got %s%s%s", option->path, due, quote,
			is_scalar(node) ? kh_esc(node->text) : kh_node_what(node), quote);
}

static void take_number(struct kh_reader *reader, const struct kh_option *option,
			struct kh_limits *limits, const struct kh_yaml_node *node)
{
	void *member = (char *)limits + option->member;
	uint64_t value = 0;
	if (!number_of(option, node, &value)) {
		say_number(reader, option, node);
		return;
	}
	if (option->as == KH_OPTION_SIZE)
		*(uint64_t *)member = value;
	else
		*(uint32_t *)member = (uint32_t)value;
}

/* The quota that the last part of a path names. */
static enum kh_quota_kind kind_of(const char *path)
{
	enum kh_quota_kind kind = KH_QUOTA_KINDS - 1;
	while (kind != KH_QUOTA_NONE && strcmp(names[kind], strrchr(path, '.') + 1) != 0)
		kind--;
	return kind;
}

/* Into the limits that the first of them makes. */
static void take_limit(struct kh_reader *reader, const struct kh_option *option,
		       struct kh_limits **out, const struct kh_yaml_node *node)
{
	enum kh_quota_kind kind = kind_of(option->path);
	if (!*out)
		*out = calloc(1, sizeof(**out));
	struct kh_limits *limits = *out;
	if (!limits) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	limits->where[kind] = kh_reader_where(reader, node);
	if (option->as) {
		take_number(reader, option, limits, node);
		return;
	}
	if (node->kind != KH_NODE_LIST) {
		add_rate(reader, option->path, limits, kind, node);
		return;
	}
	if (node->count == 0)
		wrong_rate(reader, option->path, kind, node);
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		add_rate(reader, option->path, limits, kind, child);
}

void kh_config_read_limit(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, void *base)
{
	struct kh_limits **slot = (void *)((char *)base + option->offset);
	take_limit(reader, option, slot, node);
}

/* Why a rule has no such limit; NULL: it may. */
static const char *limit_fault(const struct kh_rule *rule, const struct kh_option *option)
{
	if (!rule->allow)
		return "belongs to a rule that allows: of what is denied nothing goes through";
	if (kind_of(option->path) == KH_QUOTA_MAX_BODY &&
	    (rule->scheme == KH_SCHEME_TCP || rule->passthrough))
		return "nobody reads what passes there: use bytes_up";
	return NULL;
}

static void take_of_rule(struct kh_reader *reader, struct kh_rule *rule, const char *path,
			 const struct kh_yaml_node *node, const char *narrowing)
{
	const struct kh_option *option = kh_walk_row(reader, path);
	if (narrowing) {
		kh_reader_error(reader, node, "%s: %s: a sandbox's limits are listen[].limits",
				path, narrowing);
		return;
	}
	const char *why = limit_fault(rule, option);
	if (why) {
		kh_reader_error(reader, node, "%s: %s", path, why);
		return;
	}
	struct kh_rule_more *more = kh_rule_more(rule);
	if (more)
		take_limit(reader, option, &more->limits, node);
	else
		(void)kh_reader_no_memory(reader);
}

void kh_limits_take_rule(struct kh_reader *reader, struct kh_rule *rule,
			 const struct kh_rule_draft *draft, const char *narrowing)
{
#define TAKE(name, kind, member, ...) \
	if (draft->member) \
		take_of_rule(reader, rule, "rules[].limits." #name, draft->member, narrowing);
	KH_LIMIT_KEYS(TAKE, )
#undef TAKE
}
