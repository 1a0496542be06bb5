/*
 * suggest.c - `keyhole suggest`: presets and rules that would allow what a journal recorded
 *
 * Everything in a journal is text that a sandbox chose, and the result may become somebody's rules.
 * So a rule names methods, one host and a path, and no request is opened that keyhole refused for a
 * reason other than that no rule matched. Records that do not continue the chain are left out:
 * whoever could write to the file would write their own rules.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/credential/credential.h>
#include <keyhole/policy/telemetry.h>

#include "cli_internal.h"
#include "journal_exchanges.h"
#include "record_request.h"
#include "record_text.h"
#include "refusal_text.h"
#include "suggest_internal.h"

enum { TEXT_BYTES = 64 * 1024 * 1024, ROW_BYTES = 16 * 1024 };

static const char usage[] =
	"usage: keyhole suggest [--tenant NAME] [--sandbox ID] [JOURNAL…]\n"
	"Prints the presets and rules that would allow the requests of a journal, as YAML.\n"
	"Read each rule before you use it: it allows an action, not a host.\n\n"
	"      --tenant NAME   only this tenant's requests\n"
	"      --sandbox ID    only this sandbox's requests\n"
	"  -h, --help          show this\n\n"
	"JOURNAL - is standard input. Without JOURNAL it is the newest one that `keyhole run` has\n"
	"left. Exit status: 0, or 2 if a journal can't be read, or wrong usage.\n"
	"The manual: keyhole-suggest(1).\n";

/* The class of an address that no rule opens; NULL: it is none. `detail`: what the record says of
 * it. */
static const char *guarded(const struct kh_journal_exchange *exchange, struct kh_slice detail)
{
	kh_auto_free char *host = kh_slice_dup(kh_record_text(exchange->open, "server.address"));
	uint64_t port = kh_record_number(exchange->open, "server.port");

	return host ? kh_refusal_address_class(host, (uint16_t)port, detail, NULL, 0) : NULL;
}

/* With the words that would open it, if the address is known and may be opened. */
static const char *why_guarded(struct kh_suggest *s, const struct kh_journal_exchange *exchange,
			       struct kh_slice detail)
{
	const char *class_name = guarded(exchange, detail);
	kh_auto_free char *host = kh_slice_dup(kh_record_text(exchange->open, "server.address"));
	uint64_t port = kh_record_number(exchange->open, "server.port");
	struct kh_host address;

	if (!host || (class_name && strcmp(class_name, "metadata") == 0) ||
	    !kh_refusal_address(host, (uint16_t)port, detail, &address))
		return kh_refusal_address_text(class_name);
	(void)snprintf(
		s->guarded, sizeof(s->guarded),
		"the address guard keeps sandboxes from %s%s%s%s. To open it, add a rule for "
		"the place, and\nupstream: { allow_addresses: [ \"%s/%d\" ] }",
		address.text, class_name ? " (" : "", class_name ? class_name : "",
		class_name ? ")" : "", address.text, address.kind == KH_HOST_IPV6 ? 128 : 32);
	return s->guarded;
}

/* Why no rule is suggested for what was refused for the reason in this field. */
static const char *why_closed_by(struct kh_suggest *s, const struct kh_journal_exchange *exchange,
				 const json_t *record, const char *key)
{
	struct kh_slice reason = kh_record_text(record, key);
	enum kh_err_code code = kh_err_of_reason(reason.ptr, reason.len);

	if (code == KH_ERR_ADDRESS_PROHIBITED)
		return why_guarded(s, exchange, kh_record_text(record, "detail"));
	return reason.len > 0 && code == KH_ERR_NONE ? "its reason is none that this keyhole knows"
						     : kh_refusal_text(code);
}

static bool has(const json_t *record, const char *key, const char *wanted)
{
	return !wanted || kh_slice_eq(kh_record_text(record, key), kh_slice_str(wanted));
}

/* Nothing but the decision kept it from being allowed, observed tenants included. */
static const char *why_closed_exchange(struct kh_suggest *s,
				       const struct kh_journal_exchange *exchange)
{
	const char *why = why_closed_by(s, exchange, exchange->close, "reason");

	why = why ? why : why_closed_by(s, exchange, exchange->open, "would_deny");
	why = why ? why : why_closed_by(s, exchange, exchange->close, "would_deny");
	if (!why && json_object_get(exchange->open, "denied_by") &&
	    !has(exchange->open, "denied_by", "tenant"))
		why = "the rules of the site, or of its sandbox alone, do not allow it";
	if (!why && json_object_get(exchange->open, "tunnel"))
		why = "nobody read it: there is no method and no path to name";
	return why;
}

/* What comes before the path of a rule: the port only if it is not the scheme's own. An address is
 * in brackets, since with a path such as /8 it would look like a range. */
static bool put_place(struct kh_buf *out, const struct kh_dry_run *ask)
{
	const struct kh_authority *there = &ask->authority;

	if (!kh_buf_append_str(out, kh_scheme_name(ask->scheme)) || !kh_buf_append_str(out, "://"))
		return false;
	if (there->host.kind != KH_HOST_IPV4)
		return kh_authority_format(out, there, kh_scheme_port(ask->scheme));
	return kh_buf_printf(out, "[%s]", there->host.text) &&
	       (there->port == kh_scheme_port(ask->scheme) ||
		kh_buf_printf(out, ":%u", (unsigned)there->port));
}

static void close_off(struct kh_suggest *s, const struct kh_journal_exchange *exchange,
		      const char *why)
{
	struct kh_buf row, place;
	char port[32] = "";
	uint64_t number = kh_record_number(exchange->open, "server.port");

	kh_buf_init(&row, ROW_BYTES);
	kh_buf_init(&place, ROW_BYTES);
	kh_record_put_request(&row, exchange);
	if (kh_journal_exchange_is_refused(exchange))
		kh_record_put(&row, ", by the rule ", kh_record_text(exchange->open, "rule"));
	if (number > 0)
		(void)snprintf(port, sizeof(port), ":%" PRIu64, number);
	kh_record_put(&place, "", kh_record_text(exchange->open, "url.scheme"));
	kh_record_put(&place, "://", kh_record_text(exchange->open, "server.address"));
	(void)kh_buf_append_str(&place, port);
	struct kh_slice path = kh_record_text(exchange->open, "url.path");
	struct kh_path_group *group = kh_path_groups_add(
		&s->closed, why, kh_esc(kh_record_text(exchange->open, "http.request.method")),
		kh_buf_cstr(&place), kh_slice_str(kh_esc(path)), kh_buf_cstr(&row));
	if (group)
		group->refused += kh_journal_exchange_is_refused(exchange);
	kh_buf_fini(&row);
	kh_buf_fini(&place);
}

/* What no rule can say of a request that no preset allows; NULL: a rule can. */
static const char *why_unwritten(struct kh_suggest *s, const struct kh_recorded_question *question,
				 const struct kh_journal_exchange *exchange)
{
	bool has_credential = kh_record_text(exchange->open, "credential").len > 0;
	const struct kh_target *target = &question->ask.target;

	/* Of what was forwarded the guard has allowed the address. */
	if (kh_journal_exchange_is_refused(exchange) && guarded(exchange, KH_SLICE("")))
		return why_guarded(s, exchange, KH_SLICE(""));
	if (question->unclear & KH_NEEDS_PATH)
		return "its path was too long for the journal";
	if (question->unclear)
		return "its query may name another method, host or path";
	if (kh_slice_find(target->path, '*', 0) < target->path.len)
		return "its path has a '*', which a rule takes for any text";
	if (!kh_recorded_has_one_reading(question))
		return "servers may read its path or address in more than one way: write its rule "
		       "by hand";
	if (!has_credential && kh_carrier_find_in_query(target->query).len > 0)
		return "its query has authentication of the client's own";
	return NULL;
}

/* It passed, and would have been refused: the rules or a limit were only observed. */
static bool is_observed(const struct kh_journal_exchange *exchange)
{
	return !kh_journal_exchange_is_refused(exchange) &&
	       (kh_record_text(exchange->open, "would_deny").len > 0 ||
		kh_record_text(exchange->close, "would_deny").len > 0);
}

static void count(struct kh_path_group *group, const struct kh_journal_exchange *exchange)
{
	group->refused += kh_journal_exchange_is_refused(exchange);
	group->observed += is_observed(exchange);
	group->with_credential += kh_record_text(exchange->open, "credential").len > 0;
}

static void take_rule(struct kh_suggest *s, const struct kh_journal_exchange *exchange,
		      const char *tenant, const struct kh_recorded_question *question,
		      const struct kh_preset_matches *matches)
{
	const char *why = why_unwritten(s, question, exchange);
	struct kh_slice path = question->ask.target.path;
	struct kh_path_group *group = NULL;
	struct kh_buf row, place;

	kh_buf_init(&row, ROW_BYTES);
	kh_buf_init(&place, ROW_BYTES);
	kh_record_put_request(&row, exchange);
	kh_auto_free char *method = kh_slice_dup(question->ask.message.method);
	const char *where = put_place(&place, &question->ask) ? kh_buf_cstr(&place) : NULL;
	if (!why && !(method && where && kh_suggest_can_name(method, where, path)))
		why = "its method or path is none that a rule can name";
	if (why)
		close_off(s, exchange, why);
	else
		group = kh_path_groups_add(&s->rule, tenant, method, where, path,
					   kh_buf_cstr(&row));
	if (group) {
		count(group, exchange);
		group->marks[0] |= matches->deny;
		group->marks[2] |= matches->deny | matches->refuse;
		group->marks[3] |= kh_preset_match_turned(
			s->presets, matches->deny | matches->refuse, question);
	}
	kh_buf_fini(&row);
	kh_buf_fini(&place);
}

/* What this request is about, by the words of a preset that allows it. */
static void take_value(struct kh_suggest *s, const char *tenant, size_t nth,
		       const struct kh_recorded_question *question)
{
	const char *preset = kh_preset_match_name(s->presets, nth);
	size_t known = 0;

	if (!kh_preset_match_narrowed_by(s->presets, nth))
		return;
	for (size_t i = 0; i < s->value.count; i++) {
		const struct kh_path_group *group = &s->value.list[i];
		if (strcmp(group->kind, tenant) != 0 || strcmp(group->method, preset) != 0)
			continue;
		if (!group->place[0])
			return; /* no more of them makes it one that can */
		known++;
	}
	kh_auto_free char *value = kh_preset_match_narrow(s->presets, nth, question);
	if (value && !value[0])
		return; /* it is about none */
	for (size_t i = 0; i < s->value.count && value; i++)
		if (strcmp(s->value.list[i].kind, tenant) == 0 &&
		    strcmp(s->value.list[i].method, preset) == 0 &&
		    strcmp(s->value.list[i].place, value) == 0)
			return;
	(void)kh_path_groups_add(&s->value, tenant, preset,
				 value && known < KH_SUGGEST_VALUES ? value : "", KH_SLICE(""), "");
}

static void take_preset(struct kh_suggest *s, const struct kh_journal_exchange *exchange,
			const char *tenant, const struct kh_recorded_question *question,
			const struct kh_preset_matches *matches)
{
	char mask[64];
	struct kh_buf row;

	(void)snprintf(mask, sizeof(mask), "%" PRIx64 " %" PRIx64 " %" PRIx64, matches->allow,
		       matches->may, matches->deny);
	kh_buf_init(&row, ROW_BYTES);
	kh_record_put_request(&row, exchange);
	struct kh_path_group *group =
		kh_path_groups_add(&s->preset, tenant, "", mask, KH_SLICE(""), kh_buf_cstr(&row));
	if (group) {
		count(group, exchange);
		group->marks[0] = matches->allow;
		group->marks[1] = matches->may;
		group->marks[2] = matches->deny;
	}
	for (size_t i = 0; i < kh_preset_match_count(s->presets); i++)
		if ((matches->allow | matches->may) & UINT64_C(1) << i)
			take_value(s, tenant, i, question);
	kh_buf_fini(&row);
}

static void take_request(struct kh_suggest *s, const struct kh_journal_exchange *exchange,
			 const char *tenant)
{
	struct kh_recorded recorded;
	struct kh_recorded_question question;
	struct kh_preset_matches matches;
	struct kh_err err = KH_ERR_INIT;

	kh_record_request(exchange, &recorded);
	if (!kh_recorded_ask(&question, &recorded, &err)) {
		close_off(s, exchange,
			  err.code == KH_ERR_EXFILTRATION
				  ? kh_refusal_text(KH_ERR_EXFILTRATION)
				  : kh_refusal_text(KH_ERR_REQUEST_MALFORMED));
	} else {
		kh_preset_match_ask(s->presets, &question, &matches);
		if (matches.allow | matches.may)
			take_preset(s, exchange, tenant, &question, &matches);
		else
			take_rule(s, exchange, tenant, &question, &matches);
	}
	kh_recorded_fini(&question);
}

static bool is_asked_for(const struct kh_suggest *s, const json_t *record)
{
	return has(record, "tenant", s->tenant) && has(record, "sandbox", s->sandbox);
}

/* Whoever wants it finds the parameter `telemetry` of the preset. Return: it was such a request. */
static bool take_telemetry(struct kh_suggest *s, const struct kh_journal_exchange *exchange)
{
	const char *agent = kh_telemetry_of(kh_record_text(exchange->open, "server.address"),
					    kh_record_text(exchange->open, "url.path"));
	kh_auto_free char *why =
		agent ? kh_strf("known telemetry of %s, which works without it", agent) : NULL;

	if (!why)
		return false;
	s->telemetry++;
	close_off(s, exchange, why);
	return true;
}

static void take_exchange(void *context, const struct kh_journal_exchange *exchange)
{
	struct kh_suggest *s = context;
	struct kh_slice tenant = kh_record_text(exchange->open, "tenant");

	if (!is_asked_for(s, exchange->open) || !kh_record_is_request(exchange))
		return;
	s->astray += exchange->astray;
	if (exchange->astray)
		return;
	s->requests++;
	s->refused += kh_journal_exchange_is_refused(exchange);
	s->observed += is_observed(exchange);
	if (take_telemetry(s, exchange))
		return;
	const char *why = why_closed_exchange(s, exchange);
	kh_auto_free char *name = kh_value_check_id(tenant) ? NULL : kh_slice_dup(tenant);
	if (!why && !name)
		why = "its tenant has no name that a configuration may have";
	if (why)
		close_off(s, exchange, why);
	else
		take_request(s, exchange, name);
}

static void take_record(void *context, const json_t *record, bool astray)
{
	struct kh_suggest *s = context;

	if (!astray && is_asked_for(s, record) && has(record, "event", "denials"))
		s->counted += kh_record_number(record, "count");
}

static bool read_journal(struct kh_suggest *s, const char *name)
{
	const struct kh_journal_reader reader = { take_exchange, take_record, s };
	kh_auto_close int opened = -1;
	struct kh_journal_flaws flaws;
	struct kh_err err = KH_ERR_INIT;
	int fd = STDIN_FILENO;

	if (strcmp(name, "-") != 0)
		fd = opened = kh_cli_open_journal("suggest", name);
	if (fd < 0)
		return false;
	bool ok = kh_journal_exchanges(fd, &reader, &flaws, &err);
	if (!ok)
		kh_cli_complain("suggest: %s: %s", kh_esc_str(name), err.text);
	return kh_journal_complain("suggest", name, &flaws, "left out:") && ok;
}

static int print(struct kh_suggest *s)
{
	uint64_t left_out = s->preset.left_out + s->rule.left_out + s->closed.left_out;
	struct kh_buf out;

	kh_buf_init(&out, TEXT_BYTES);
	bool ok = kh_suggest_put(s, &out);
	struct kh_slice text = kh_buf_view(&out);
	ok = ok && fwrite(text.ptr, 1, text.len, stdout) == text.len && fflush(stdout) == 0;
	kh_buf_fini(&out);
	if (!ok)
		kh_cli_complain("suggest: the result can't be written");
	if (left_out > 0)
		kh_cli_complain("suggest: %" PRIu64
				" requests are left out: the journals have more "
				"than %d kinds of requests (choose with --tenant or --sandbox)",
				left_out, KH_LIMIT_PATH_GROUPS);
	return ok ? 0 : KH_EXIT_USAGE;
}

static int suggest(struct kh_suggest *s, char *const *journals)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_preset_match *presets = kh_preset_match_new(NULL, &err);
	bool ok = presets != NULL;

	if (!ok)
		kh_cli_complain("suggest: presets: %s", err.text);
	s->presets = presets;
	if (ok && kh_preset_match_left_out(presets) > 0)
		kh_cli_complain("suggest: %zu presets are left out: there are more than %d",
				kh_preset_match_left_out(presets), KH_PRESET_MATCH_MOST);
	for (; ok && *journals; journals++)
		ok = read_journal(s, *journals);
	if (ok && s->requests + s->astray == 0 && (s->tenant || s->sandbox))
		kh_cli_complain("suggest: no request has the %s %s (`keyhole audit show` shows "
				"what there is)",
				s->tenant ? "tenant" : "sandbox",
				kh_esc_str(s->tenant ? s->tenant : s->sandbox));
	int status = ok ? print(s) : KH_EXIT_USAGE;
	kh_path_groups_fini(&s->preset);
	kh_path_groups_fini(&s->rule);
	kh_path_groups_fini(&s->closed);
	kh_path_groups_fini(&s->value);
	kh_preset_match_free(presets);
	return status;
}

int kh_cli_suggest(int argc, char **argv)
{
	enum { OPT_TENANT = 256, OPT_SANDBOX };
	static const struct option options[] = { { "tenant", required_argument, NULL, OPT_TENANT },
						 { "sandbox", required_argument, NULL,
						   OPT_SANDBOX },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	struct kh_suggest s = { 0 };

	for (int opt; (opt = kh_cli_option(argc, argv, "h", options)) != -1;) {
		switch (opt) {
		case OPT_TENANT:
			s.tenant = optarg;
			break;
		case OPT_SANDBOX:
			s.sandbox = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return KH_EXIT_USAGE; /* it was said why */
		}
	}
	kh_auto_free char *newest = optind == argc ? kh_cli_newest_journal("suggest") : NULL;
	char *const one[] = { newest, NULL };
	if (optind == argc && !newest)
		return KH_EXIT_USAGE;
	return suggest(&s, newest ? one : argv + optind);
}
