/*
 * audit_select.c - which records of a journal `keyhole audit` is asked for
 *
 * One table has the filters, and one function says which texts of an exchange a filter compares.
 */
#include "audit_select.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/nearest.h>
#include <keyhole/base/timestamp.h>

#include "audit_facts.h"
#include "cli_internal.h"
#include "record_text.h"

enum { SEEN_MOST = 64, TEXTS_MOST = 4 };

static const struct {
	const char *name, *several; /* the option, and many of them, in messages */
	const char *const *words;   /* all values that there are; NULL: any text */
	size_t n_words;
} filters[KH_N_FILTERS] = {
	[KH_FILTER_HOST] = { "host", "hosts", NULL, 0 },
	[KH_FILTER_SANDBOX] = { "sandbox", "sandboxes", NULL, 0 },
	[KH_FILTER_TENANT] = { "tenant", "tenants", NULL, 0 },
	[KH_FILTER_VERDICT] = { "verdict", "verdicts", kh_audit_verdicts, 3 },
	[KH_FILTER_OUTCOME] = { "outcome", "outcomes", kh_audit_outcomes, 5 },
	[KH_FILTER_RULE] = { "rule", "rules", NULL, 0 },
	[KH_FILTER_CREDENTIAL] = { "credential", "credentials", NULL, 0 },
	[KH_FILTER_REASON] = { "reason", "reasons", NULL, 0 },
	[KH_FILTER_METHOD] = { "method", "methods", NULL, 0 },
	[KH_FILTER_ID] = { "id", "ids", NULL, 0 },
};

const char *kh_audit_filter_name(enum kh_audit_filter filter)
{
	return filters[filter].name;
}

void kh_audit_select_fini(struct kh_audit_select *select)
{
	for (size_t f = 0; f < KH_N_FILTERS; f++)
		json_decref(select->wanted[f].seen);
}

/* ---- the values that are wanted ---- */

/* Where its ":PORT" begins: not in the brackets of an address, and not in a bare address of version
 * 6, which has more than one colon. */
static size_t find_port(struct kh_slice text)
{
	size_t first = kh_slice_find(text, ':', 0), bracket = kh_slice_find(text, ']', 0);
	if (text.len > 0 && text.ptr[0] == '[')
		return bracket < text.len ? kh_slice_find(text, ':', bracket) : text.len;
	return kh_slice_find(text, ':', first + 1) < text.len ? text.len : first;
}

static bool refuse_host(const struct kh_audit_select *select, const char *text, const char *why)
{
	/* What was pasted is often a URL. */
	if (strchr(text, '/'))
		why = "expected a host without a scheme and a path, such as api.example.com, "
		      "*.example.com or api.example.com:8443";
	kh_cli_complain("%s: --host %s: %s", select->command, kh_esc_str(text), why);
	return false;
}

static bool read_host(const struct kh_audit_select *select, const char *text,
		      struct kh_audit_host *out)
{
	struct kh_slice all = kh_slice_str(text);
	struct kh_err err = KH_ERR_INIT;
	size_t end = find_port(all);
	uint64_t port = 0;

	if (end < all.len && (!kh_slice_to_u64(kh_slice_sub(all, end + 1, all.len), &port) ||
			      port == 0 || port > UINT16_MAX))
		return refuse_host(select, text, "expected a port from 1 to 65535 after the colon");
	if (!kh_host_pattern_parse(&out->pattern, kh_slice_sub(all, 0, end), &err))
		return refuse_host(select, text, err.text);
	out->port = (uint16_t)port;
	return true;
}

/* What people say who know other programs. */
static const struct {
	const char *typed, *word;
} others[] = {
	{ "allowed", "allow" },	 { "accept", "allow" },	  { "denied", "deny" },
	{ "refused", "deny" },	 { "blocked", "deny" },	  { "observed", "would_deny" },
	{ "refused", "denied" }, { "blocked", "denied" }, { "deny", "denied" },
	{ "success", "ok" },	 { "complete", "ok" },	  { "error", "failed" },
	{ "failure", "failed" }, { "running", "open" },
};

static const char *nearest_word(const char *typed, const char *const *words, size_t n)
{
	struct kh_nearest nearest;

	kh_nearest_init(&nearest, kh_slice_str(typed));
	for (size_t i = 0; i < n; i++) {
		kh_nearest_offer(&nearest, words[i]);
		for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
			if (strcmp(others[k].word, words[i]) == 0)
				kh_nearest_offer_for(&nearest, others[k].typed, words[i]);
	}
	return nearest.best;
}

/* Is it one of the words that there are? */
static bool check_word(const struct kh_audit_select *select, enum kh_audit_filter filter,
		       const char *text)
{
	const char *const *words = filters[filter].words;
	size_t n = filters[filter].n_words;
	char all[128] = "";

	for (size_t i = 0; i < n; i++) {
		size_t used = strlen(all);
		if (strcmp(words[i], text) == 0)
			return true;
		(void)snprintf(all + used, sizeof(all) - used, "%s%s", used ? ", " : "", words[i]);
	}
	const char *near = nearest_word(text, words, n);
	kh_cli_complain("%s: --%s %s: no such %s%s%s%s (there is: %s)", select->command,
			filters[filter].name, kh_esc_str(text), filters[filter].name,
			near ? "; did you mean " : "", near ? near : "", near ? "?" : "", all);
	return false;
}

bool kh_audit_select_add(struct kh_audit_select *select, enum kh_audit_filter filter,
			 const char *text)
{
	struct kh_audit_wanted *wanted = &select->wanted[filter];

	if (wanted->n == KH_FILTER_VALUES) {
		kh_cli_complain("%s: --%s may be given %d times at most", select->command,
				filters[filter].name, KH_FILTER_VALUES);
		return false;
	}
	if (filters[filter].words && !check_word(select, filter, text))
		return false;
	if (filter == KH_FILTER_HOST && !read_host(select, text, &select->hosts[wanted->n]))
		return false;
	wanted->texts[wanted->n++] = text;
	return true;
}

/* ---- each record ---- */

/* The texts of an exchange that a filter compares. Return: how many. */
static size_t texts_of(const struct kh_journal_exchange *exchange, enum kh_audit_filter filter,
		       struct kh_slice out[TEXTS_MOST])
{
	static const char *const names[KH_N_FILTERS] = {
		[KH_FILTER_HOST] = "server.address",
		[KH_FILTER_SANDBOX] = "sandbox",
		[KH_FILTER_TENANT] = "tenant",
		[KH_FILTER_CREDENTIAL] = "credential",
		[KH_FILTER_METHOD] = "http.request.method",
		[KH_FILTER_ID] = "id",
	};
	const json_t *open = exchange->open, *close = exchange->close;

	if (names[filter]) {
		out[0] = kh_record_text(open, names[filter]);
		return 1;
	}
	if (filters[filter].words) {
		out[0] = kh_slice_str(filter == KH_FILTER_VERDICT ? kh_audit_verdict(exchange)
								  : kh_audit_outcome(exchange));
		return 1;
	}
	if (filter == KH_FILTER_REASON) {
		out[0] = kh_record_text(close, "reason");
		out[1] = kh_audit_would_deny(exchange);
		return 2;
	}
	out[0] = kh_record_text(open, "rule_at");
	out[1] = kh_record_text(open, "rule");
	out[2] = kh_record_text(open, "would_deny.rule");
	out[3] = kh_record_text(close, "would_deny.rule");
	return 4;
}

/* One of the names that are joined by commas. */
static bool is_among(struct kh_slice names, struct kh_slice wanted)
{
	for (size_t at = 0; at < names.len;) {
		size_t end = kh_slice_find(names, ',', at);
		if (kh_slice_eq(kh_slice_trim(kh_slice_sub(names, at, end)), wanted))
			return true;
		at = end + 1;
	}
	return false;
}

/* "*" stands for anything; a place is also meant without its folder. */
static bool is_rule(struct kh_slice text, const char *wanted)
{
	kh_auto_free char *copy = text.len > 0 ? kh_slice_dup(text) : NULL;
	const char *base = copy ? strrchr(copy, '/') : NULL;

	return copy && (strcmp(copy, wanted) == 0 || fnmatch(wanted, copy, FNM_NOESCAPE) == 0 ||
			(base && strcmp(base + 1, wanted) == 0));
}

static bool is_host(const struct kh_audit_host *wanted, struct kh_slice text, uint64_t port)
{
	struct kh_host host;

	return kh_host_parse(&host, text, NULL) &&
	       kh_host_pattern_matches(&wanted->pattern, &host) &&
	       (wanted->port == 0 || port == wanted->port);
}

static bool fits(const struct kh_audit_select *select, enum kh_audit_filter filter, size_t value,
		 struct kh_slice text, uint64_t port)
{
	const char *wanted = select->wanted[filter].texts[value];

	if (filter == KH_FILTER_HOST)
		return is_host(&select->hosts[value], text, port);
	if (filter == KH_FILTER_RULE)
		return is_rule(text, wanted);
	if (filter == KH_FILTER_CREDENTIAL)
		return is_among(text, kh_slice_str(wanted));
	return kh_slice_eq(text, kh_slice_str(wanted));
}

/* For who asks for what there is not. */
static void note_one(struct kh_audit_wanted *wanted, struct kh_slice text)
{
	kh_auto_free char *name = text.len > 0 ? kh_slice_dup(text) : NULL;

	if (!wanted->seen)
		wanted->seen = json_object();
	if (name && json_object_size(wanted->seen) < SEEN_MOST)
		(void)json_object_set_new_nocheck(wanted->seen, name, json_true());
}

/* Credentials are joined by commas. */
static void note(struct kh_audit_wanted *wanted, enum kh_audit_filter filter, struct kh_slice text)
{
	size_t end = 0;

	for (size_t at = 0; at < text.len; at = end + 1) {
		end = filter == KH_FILTER_CREDENTIAL ? kh_slice_find(text, ',', at) : text.len;
		note_one(wanted, kh_slice_sub(text, at, end));
	}
}

/* Does one of the wanted values fit? All that fit are noted. */
static bool has_wanted(struct kh_audit_select *select, enum kh_audit_filter filter,
		       const struct kh_journal_exchange *exchange)
{
	struct kh_audit_wanted *wanted = &select->wanted[filter];
	uint64_t port = kh_record_number(exchange->open, "server.port");
	struct kh_slice texts[TEXTS_MOST];
	bool any = wanted->n == 0;
	size_t n = any ? 0 : texts_of(exchange, filter, texts);

	for (size_t i = 0; i < n; i++) {
		note(wanted, filter, texts[i]);
		for (size_t v = 0; v < wanted->n; v++)
			if (fits(select, filter, v, texts[i], port))
				any = wanted->met[v] = true;
	}
	return any;
}

static bool is_in_time(const struct kh_audit_select *select, const json_t *record)
{
	uint64_t ms;

	if (select->since_ms == 0 && select->until_ms == 0)
		return true;
	return !kh_timestamp_read(kh_record_text(record, "time"), KH_TIMESTAMP_RFC3339, &ms) ||
	       (ms >= select->since_ms && (select->until_ms == 0 || ms <= select->until_ms));
}

bool kh_audit_select_exchange(struct kh_audit_select *select,
			      const struct kh_journal_exchange *exchange)
{
	bool asked = is_in_time(select, exchange->open);

	/* Each is looked at, for what it notes. */
	for (size_t f = 0; f < KH_N_FILTERS; f++)
		asked = has_wanted(select, (enum kh_audit_filter)f, exchange) && asked;
	select->found += asked;
	return asked;
}

/* Refusals that were only counted say nothing of the others. */
static bool is_of_counted(enum kh_audit_filter filter)
{
	return filter == KH_FILTER_TENANT || filter == KH_FILTER_SANDBOX ||
	       filter == KH_FILTER_VERDICT || filter == KH_FILTER_OUTCOME;
}

static bool wants_refusals(struct kh_audit_wanted *wanted, enum kh_audit_filter filter)
{
	const char *word = filter == KH_FILTER_VERDICT ? "deny" : "denied";

	for (size_t v = 0; v < wanted->n; v++)
		if (strcmp(wanted->texts[v], word) == 0)
			return true;
	return false;
}

bool kh_audit_select_record(struct kh_audit_select *select, const json_t *record)
{
	bool counted = kh_slice_eq(kh_record_text(record, "event"), KH_SLICE("denials"));
	const struct kh_journal_exchange as_open = { .open = record };
	bool asked = is_in_time(select, record), known = true;

	for (size_t f = 0; f < KH_N_FILTERS; f++) {
		enum kh_audit_filter filter = (enum kh_audit_filter)f;
		if (select->wanted[f].n == 0)
			continue;
		if (counted && !is_of_counted(filter))
			known = false;
		else if (filters[f].words)
			asked = counted && wants_refusals(&select->wanted[f], filter) && asked;
		else
			asked = has_wanted(select, filter, &as_open) && asked;
	}
	if (counted && asked && !known)
		select->counted += kh_record_number(record, "count");
	asked = asked && known;
	select->found += asked;
	select->refused += asked && counted;
	return asked;
}

/* ---- what was not found ---- */

/* A name that no record has. Who mistyped it sees which names there are. */
static void complain_of_value(const struct kh_audit_select *select, enum kh_audit_filter filter,
			      const char *text)
{
	const struct kh_audit_wanted *wanted = &select->wanted[filter];
	const char *names[SEEN_MOST], *name;
	char known[256] = "";
	json_t *value;
	size_t n = 0;

	json_object_foreach(wanted->seen, name, value)
	{
		size_t used = strlen(known);
		if (n < SEEN_MOST)
			names[n++] = name;
		(void)snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "",
			       kh_esc_str(name));
	}
	if (strlen(known) == sizeof(known) - 1)
		kh_esc_mark_cut(known);
	const char *near = kh_cli_nearest(text, names, n);
	kh_cli_complain("%s: no record has the %s %s%s%s%s (%s of the records: %s)",
			select->command, filters[filter].name, kh_esc_str(text),
			near ? "; did you mean " : "", near ? kh_esc_str(near) : "",
			near ? "?" : "", filters[filter].several, known[0] ? known : "none");
}

/* Return: it was said of one of them. */
static bool complain_of_values(const struct kh_audit_select *select)
{
	bool said = false;

	for (size_t f = 0; f < KH_N_FILTERS; f++) {
		const struct kh_audit_wanted *wanted = &select->wanted[f];
		/* Hosts are patterns, ids are too many, and of words there are no others. */
		if (f == KH_FILTER_HOST || f == KH_FILTER_ID || filters[f].words)
			continue;
		for (size_t v = 0; v < wanted->n; v++) {
			if (wanted->met[v])
				continue;
			complain_of_value(select, (enum kh_audit_filter)f, wanted->texts[v]);
			said = true;
		}
	}
	return said;
}

static void complain_of_none(const struct kh_audit_select *select)
{
	char all[KH_ERR_TEXT_BYTES] = "";
	bool timed = select->since_ms || select->until_ms;
	const char *when = select->since_ms && select->until_ms ? ", between these times"
			   : select->since_ms			? ", since that time"
			   : select->until_ms			? ", until that time"
								: "";

	for (size_t f = 0; f < KH_N_FILTERS; f++) {
		const struct kh_audit_wanted *wanted = &select->wanted[f];
		for (size_t v = 0; v < wanted->n; v++) {
			size_t used = strlen(all);
			(void)snprintf(all + used, sizeof(all) - used, "%s%s%s%s",
				       used == 0 ? "the "
				       : v	 ? " or "
						 : " and the ",
				       v ? "" : filters[f].name, v ? "" : " ",
				       kh_esc_str(wanted->texts[v]));
		}
	}
	kh_cli_complain("%s: no record has %s%s%s", select->command, all, when,
			select->wanted[KH_FILTER_HOST].n > 0 && !timed
				? " (`keyhole audit show --summary` lists the hosts)"
				: "");
}

void kh_audit_select_complain(const struct kh_audit_select *select)
{
	const char *of = NULL;
	bool any = false;

	for (size_t f = 0; f < KH_N_FILTERS; f++) {
		any = any || select->wanted[f].n > 0;
		if (!of && select->wanted[f].n > 0 && !is_of_counted((enum kh_audit_filter)f))
			of = filters[f].several;
	}
	if (!complain_of_values(select)) {
		if (select->found == 0 && any)
			complain_of_none(select);
		else if (select->denied && select->refused == 0 && select->counted == 0)
			kh_cli_complain("%s: none of the requests was refused", select->command);
	}
	if (of && select->counted > 0)
		kh_cli_complain("%s: %" PRIu64 " more refusals were only counted: nobody knows of "
				"which %s",
				select->command, select->counted, of);
}
