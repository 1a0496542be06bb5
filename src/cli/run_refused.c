/*
 * run_refused.c - what was refused in a run: each place, how often, and the words to allow it
 *
 * A sandbox chose the method, the host and the path, and a person pastes what stands here. So what
 * is shown passes kh_esc, and words to paste are only made of what kh_remedy_rule takes. A rule
 * that is offered has no credential, and names the host that was asked for and no other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/exchange/remedy.h>
#include <keyhole/policy/telemetry.h>

#include "record_text.h"
#include "refusal_text.h"
#include "run_internal.h"

enum { SHOWN_MOST = 10, TEXT_BYTES = 2048 };

static struct kh_refused_request request_of(const json_t *record, enum kh_err_code reason,
					    struct kh_slice detail)
{
	/* Of an open record it is the rule that allows. */
	struct kh_slice rule_at = json_object_get(record, "reason")
					  ? kh_record_text(record, "rule_at")
					  : kh_record_text(record, "would_deny.rule");
	return (struct kh_refused_request){
		.method = kh_record_text(record, "http.request.method"),
		.scheme = kh_record_text(record, "url.scheme"),
		.host = kh_record_text(record, "server.address"),
		.path = kh_record_text(record, "url.path"),
		.port = (uint16_t)kh_record_number(record, "server.port"),
		.reason = reason,
		.denied_by = kh_record_text(record, "denied_by"),
		.rule_at = rule_at,
		.model = kh_record_text(record, "gen_ai.request.model"),
		.detail = detail,
	};
}

void kh_run_failed_add(struct kh_refused_places *failed, const json_t *record,
		       enum kh_err_code reason, struct kh_slice detail)
{
	const struct kh_refused_request request = request_of(record, reason, detail);
	kh_refused_places_add(failed, &request);
}

void kh_run_answered_add(struct kh_refused_places *answered, const json_t *record, uint16_t status)
{
	struct kh_refused_request request = request_of(record, KH_ERR_NONE, KH_SLICE(""));
	request.rule_at = KH_SLICE("");
	request.status = status;
	request.credential = kh_record_text(record, "credential");
	if (request.credential.len > 0)
		kh_refused_places_add(answered, &request);
}

void kh_run_refused_add(struct kh_run_refused *refused, const json_t *record,
			enum kh_err_code reason, struct kh_slice detail)
{
	const struct kh_refused_request request = request_of(record, reason, detail);
	const char *agent = kh_telemetry_of(request.host, request.path);
	if (!agent) {
		kh_refused_places_add(&refused->places, &request);
		return;
	}
	size_t i = 0, most = sizeof(refused->telemetry) / sizeof(refused->telemetry[0]);
	while (i < refused->n_telemetry && strcmp(refused->telemetry[i].agent, agent) != 0)
		i++;
	if (i == refused->n_telemetry && i < most)
		refused->telemetry[refused->n_telemetry++].agent = agent;
	if (i < most)
		refused->telemetry[i].count++;
}

/* ---- what a place is called ---- */

bool kh_run_refused_put_place(struct kh_buf *out, const struct kh_refused_place *place)
{
	bool six = strchr(place->host, ':') && place->host[0] != '[';
	bool usual = place->port == 0 ||
		     (strcmp(place->scheme, "https") == 0 && place->port == 443) ||
		     (strcmp(place->scheme, "http") == 0 && place->port == 80);
	if (!place->host[0])
		return kh_buf_append_str(out, "a request that names no host");
	return (!place->methods[0] || kh_buf_printf(out, "%s ", kh_esc_str(place->methods))) &&
	       (!place->scheme[0] || kh_buf_printf(out, "%s://", kh_esc_str(place->scheme))) &&
	       kh_buf_printf(out, "%s%s%s", six ? "[" : "", kh_esc_str(place->host),
			     six ? "]" : "") &&
	       (usual || kh_buf_printf(out, ":%u", place->port)) &&
	       kh_buf_append_str(out, place->path		 ? kh_esc_str(place->path)
				      : place->example[0] == '/' ? "/..."
								 : "");
}

/* ---- the words ---- */

/* What is said of a place, each in a line of its own: words to paste and what goes with them, or
 * why there are none. */
struct words {
	const struct kh_run_summary *summary;
	struct kh_remedies *remedies;
	struct kh_buf paste, note, why, yaml;
	bool printed;
};

/* The preset that would allow that request; NULL: none. */
static const struct kh_remedy *ask(const struct words *words, const struct kh_refused_place *place,
				   const char *method, const char *path)
{
	const struct kh_remedy *found = NULL;
	struct kh_dry_run question;
	bool six = strchr(place->host, ':') && place->host[0] != '[';
	kh_auto_free char *url = kh_strf("%s://%s%s%s:%u%s", place->scheme, six ? "[" : "",
					 place->host, six ? "]" : "", place->port, path);
	struct kh_slice first = kh_slice_str(method);
	first = kh_slice_sub(first, 0, kh_slice_find(first, ',', 0));
	kh_dry_run_init(&question);
	if (url && words->remedies && place->example[0] == '/' &&
	    kh_dry_run_ask(&question, first, kh_slice_str(url), NULL))
		found = kh_remedies_find(words->remedies, &question);
	kh_dry_run_fini(&question);
	return found;
}

static const struct kh_remedy *find_preset(const struct words *words,
					   const struct kh_refused_place *place)
{
	return ask(words, place, place->methods, place->example);
}

/* git asks for the same path before it fetches and before it pushes, and the query that tells them
 * apart is in no journal. Return: the preset that would allow the push; NULL: it is another
 * request, or none does. */
static const struct kh_remedy *find_push(const struct words *words,
					 const struct kh_refused_place *place)
{
	static const struct kh_slice refs = KH_SLICE_INIT("/info/refs");
	struct kh_slice path = kh_slice_str(place->example);
	if (!kh_slice_has_suffix(path, refs))
		return NULL;
	kh_auto_free char *push =
		kh_strf("%.*s/git-receive-pack", (int)(path.len - refs.len), path.ptr);
	return push ? ask(words, place, "POST", push) : NULL;
}

/* A rule or a preset for one run. With a daemon's journal in the file, it needs one of its own. */
static void say_option(struct words *words, const char *option, const char *value)
{
	(void)kh_buf_printf(&words->paste, "%s %s%s", option, value,
			    words->summary->sandbox ? " --audit run.jsonl" : "");
	if (words->summary->sandbox)
		(void)kh_buf_append_str(
			&words->note, "for a run with a proxy and a journal of its own; or add it "
				      "to the daemon's rules");
}

/* Where a parameter has a star, in quotes. */
static char *use_to_paste(const struct kh_remedy *remedy)
{
	const char *quote = strchr(remedy->use, '*') ? "'" : "";
	return kh_strf("%s%s%s", quote, remedy->use, quote);
}

static void say_preset(struct words *words, const struct kh_remedy *remedy)
{
	bool colon = strchr(remedy->use, ':') != NULL;
	struct kh_slice all = kh_slice_str(remedy->variables);
	size_t last = all.len;
	while (last > 0 && all.ptr[last - 1] != ',')
		last--;
	kh_auto_free char *use = use_to_paste(remedy);
	if (!use)
		return;
	say_option(words, "--use", use);
	if (all.len > 0)
		(void)kh_buf_printf(&words->note, "%sits key comes from %s%s%s",
				    kh_buf_len(&words->note) ? "; " : "",
				    last ? kh_esc(kh_slice_sub(all, 0, last - 1)) : "",
				    last ? " or " : "",
				    kh_esc(kh_slice_trim(kh_slice_sub(all, last, all.len))));
	if (remedy->narrows[0])
		(void)kh_buf_printf(&words->note, "%sto open less, add %s%s=…",
				    kh_buf_len(&words->note) ? "; " : "", colon ? "," : ":",
				    kh_esc_str(remedy->narrows));
}

/* A tunnel in which nobody spoke, maybe because the server was to speak first. */
static bool is_silent(const struct kh_refused_place *place)
{
	return place->reason == KH_ERR_NO_RULE && place->host[0] && !place->scheme[0] &&
	       !place->methods[0];
}

/* A tunnel to a port that is not for the web, in which somebody speaks neither HTTP nor TLS. */
static bool is_other_protocol(const struct kh_refused_place *place)
{
	return (place->reason == KH_ERR_PROTOCOL_UNKNOWN || is_silent(place)) &&
	       !place->scheme[0] && place->port != 80 && place->port != 443;
}

static void say_rule(struct words *words, const struct kh_refused_place *place)
{
	kh_cleanup(kh_buf_fini) struct kh_buf rule;
	const char *scheme = is_other_protocol(place) ? "tcp" : place->scheme;
	kh_buf_init(&rule, TEXT_BYTES);
	kh_auto_free char *quoted = NULL;
	if (scheme[0] && (place->path || strcmp(scheme, "tcp") == 0) &&
	    kh_remedy_rule(&rule, place->methods, scheme, place->host, place->port, place->path))
		quoted = kh_strf("'%s'", kh_buf_cstr(&rule));
	if (quoted) {
		say_option(words, "--allow", quoted);
		if (place->path && kh_slice_has_suffix(kh_slice_str(place->path), KH_SLICE("/**")))
			(void)kh_buf_printf(&words->note,
					    "%sit opens more than was asked for: every path there",
					    kh_buf_len(&words->note) ? "; " : "");
	} else if (is_silent(place))
		(void)kh_buf_append_str(&words->why, "no rule allows anything there, and nothing "
						     "was asked for in the tunnel");
	else
		(void)kh_buf_append_str(&words->why, "no rule allows it, and no rule can name this "
						     "method, host or path exactly");
}

/* Of a preset's rule it is "NAME:LINE". Return: the length of its name; 0: the rule is a file's. */
static size_t preset_name_len(const struct kh_refused_place *place)
{
	size_t len = strspn(place->rule_at, "abcdefghijklmnopqrstuvwxyz0123456789-");
	return place->rule_at[len] == ':' ? len : 0;
}

static void say_denial(struct words *words, const struct kh_refused_place *place)
{
	size_t name = preset_name_len(place);
	const struct kh_remedy *preset = NULL;
	if (!place->rule_at[0] || name)
		preset = find_push(words, place);
	if (!preset && (!place->rule_at[0] || name))
		preset = find_preset(words, place);
	if (preset)
		say_preset(words, preset);
	else if (name)
		(void)kh_buf_printf(&words->why,
				    "the preset %.*s denies it (line %s of its file; "
				    "`keyhole preset show %.*s` shows why)",
				    (int)name, place->rule_at,
				    kh_esc_str(place->rule_at + name + 1), (int)name,
				    place->rule_at);
	else if (place->rule_at[0])
		(void)kh_buf_printf(&words->why,
				    "the rule at %s denies it; only a rule above that line can "
				    "allow it",
				    kh_esc_str(place->rule_at));
	else
		(void)kh_buf_append_str(&words->why, "a rule denies it");
}

/* ---- addresses that no rule opens ---- */

/* Keyhole's words about the address, which other refusals have not. */
static struct kh_slice address_detail(const struct kh_refused_place *place)
{
	return kh_slice_str(place->reason == KH_ERR_ADDRESS_PROHIBITED ? place->detail : "");
}

static const char *guarded(const struct words *words, const struct kh_refused_place *place)
{
	return kh_refusal_address_class(place->host, place->port, address_detail(place),
					words->summary->allowed, words->summary->n_allowed);
}

static void say_guarded(struct words *words, const struct kh_refused_place *place,
			const char *class_name)
{
	static const char opens[] = "A configuration file can open it (-c FILE, or a keyhole.yaml "
				    "that you trust), with a rule for the place and with";
	struct kh_host address;
	bool found = kh_refusal_address(place->host, place->port, address_detail(place), &address);
	bool literal = found && strcmp(address.text, place->host) == 0;
	if (class_name && strcmp(class_name, "metadata") == 0) {
		(void)kh_buf_append_str(&words->why, kh_refusal_address_text(class_name));
		return;
	}
	if (found && literal)
		(void)kh_buf_printf(&words->why, "sandboxes may not connect to this address (%s)",
				    class_name ? class_name : "guarded");
	else
		(void)kh_buf_printf(&words->why,
				    "the name leads to an address that sandboxes may not connect "
				    "to%s%s%s%s%s",
				    found ? ": " : ", such as one of this host or its network",
				    found ? address.text : "", found && class_name ? " (" : "",
				    found && class_name ? class_name : "",
				    found && class_name ? ")" : "");
	(void)kh_buf_printf(&words->why, ". %s%s", opens,
			    found ? ":" : " that address in upstream.allow_addresses");
	if (found)
		(void)kh_buf_printf(&words->yaml, "upstream: { allow_addresses: [ \"%s/%s\" ] }",
				    address.text, address.kind == KH_HOST_IPV6 ? "128" : "32");
}

/* Why no option opens it, which is refused for another reason than its rules. */
static void say_closed(struct words *words, const struct kh_refused_place *place)
{
	const char *text = kh_refusal_text(place->reason);
	(void)kh_buf_printf(&words->why, "%s (%s)", text ? text : "keyhole could not let it pass",
			    kh_err_reason(place->reason));
}

static void say(struct words *words, const struct kh_refused_place *place)
{
	const struct kh_remedy *preset, *push;
	const char *class_name = guarded(words, place);
	if (place->reason == KH_ERR_ADDRESS_PROHIBITED ||
	    (class_name && place->reason == KH_ERR_NO_RULE))
		say_guarded(words, place, class_name);
	else if (strcmp(place->denied_by, "site") == 0)
		(void)kh_buf_append_str(&words->why, "the rules of the whole site (site.rules in "
						     "the file) don't allow it");
	else if (place->reason == KH_ERR_DENIED_BY_RULE)
		say_denial(words, place);
	else if (place->reason == KH_ERR_CLIENT_AUTH)
		(void)kh_buf_append_str(&words->why,
					"it carried a key of its own, and not keyhole's. A rule "
					"with `client_auth: pass` in a file lets it through");
	else if (place->reason != KH_ERR_NO_RULE && !is_other_protocol(place))
		say_closed(words, place);
	else if (place->model[0] &&
		 kh_run_condition_put(&words->why, words->summary->config, place))
		; /* a preset or a rule would open all models */
	else if ((preset = find_preset(words, place))) {
		say_preset(words, preset);
		push = preset->parameter ? NULL : find_push(words, place);
		kh_auto_free char *use = push ? use_to_paste(push) : NULL;
		if (use)
			(void)kh_buf_printf(&words->note, "%sif it is a git push: --use %s",
					    kh_buf_len(&words->note) ? "; " : "", use);
	} else if (!kh_run_condition_put(&words->why, words->summary->config, place))
		say_rule(words, place);
}

/* ---- printed ---- */

const char *kh_run_refused_times(uint64_t count, char room[32])
{
	if (count == 1)
		return "once";
	(void)snprintf(room, 32, "%" PRIu64 " times", count);
	return room;
}

static void put_refused(const struct kh_refused_place *place, const char *verb)
{
	kh_cleanup(kh_buf_fini) struct kh_buf name;
	char room[32];
	kh_buf_init(&name, TEXT_BYTES);
	if (kh_run_refused_put_place(&name, place))
		kh_cli_complain("%s %s: %s", verb, kh_run_refused_times(place->count, room),
				kh_buf_cstr(&name));
}

static bool is_same_text(const struct kh_buf *a, const struct kh_buf *b)
{
	return kh_slice_eq(kh_buf_view(a), kh_buf_view(b));
}

/* Do the words to paste cover both places? Or, where nothing opens them, is it for one reason? */
static bool is_covered(const struct words *by, const struct words *one)
{
	return is_same_text(&by->paste, &one->paste) &&
	       (kh_buf_len(&by->paste) > 0 ||
		(is_same_text(&by->why, &one->why) && is_same_text(&by->yaml, &one->yaml)));
}

/* Places from `first` on that the same words allow: each with its line, and the words once. What is
 * to be pasted has a line of its own, which is seldom wider than a terminal. */
static void print_group(const struct kh_refused_place *places, struct words *all, size_t n,
			size_t first, const char *verb)
{
	struct words *words = &all[first];
	size_t covered = 0;
	for (size_t i = first; i < n; i++) {
		bool with = i == first || is_covered(words, &all[i]);
		all[i].printed |= with;
		covered += with;
		if (with)
			put_refused(&places[i], verb);
	}
	if (kh_buf_len(&words->paste) > 0)
		kh_run_paste_print(covered > 1 ? "  to allow them: " : "  to allow it: ",
				   kh_buf_cstr(&words->paste));
	for (size_t i = first; i < n; i++) {
		bool said = i > first && !is_covered(words, &all[i]);
		for (size_t k = first; k < i && !said; k++)
			said = is_covered(words, &all[k]) &&
			       is_same_text(&all[k].note, &all[i].note);
		if (!said && kh_buf_len(&all[i].note) > 0)
			kh_cli_complain("    %s", kh_buf_cstr(&all[i].note));
	}
	if (kh_buf_len(&words->why) > 0)
		kh_cli_complain("  why: %s", kh_buf_cstr(&words->why));
	if (kh_buf_len(&words->yaml) > 0)
		kh_cli_complain("    %s", kh_buf_cstr(&words->yaml));
}

static void words_init(struct words *words, const struct kh_run_summary *summary,
		       struct kh_remedies *remedies)
{
	*words = (struct words){ .summary = summary, .remedies = remedies };
	kh_buf_init(&words->paste, TEXT_BYTES);
	kh_buf_init(&words->note, TEXT_BYTES);
	kh_buf_init(&words->why, TEXT_BYTES);
	kh_buf_init(&words->yaml, TEXT_BYTES);
}

static void words_fini(struct words *words)
{
	kh_buf_fini(&words->paste);
	kh_buf_fini(&words->note);
	kh_buf_fini(&words->why);
	kh_buf_fini(&words->yaml);
}

/* In front of which what is pasted goes; NULL: nobody here knows them. */
static const struct kh_rules *rules_of(const struct kh_run_summary *summary)
{
	const struct kh_config *config = summary->config;
	return config && config->n_tenants > 0 ? &config->tenants[0].rules : NULL;
}

static void print_places(const struct kh_refused_places *places, const char *verb,
			 const struct kh_run_summary *summary)
{
	struct words all[SHOWN_MOST];
	size_t n = places->count < SHOWN_MOST ? places->count : SHOWN_MOST;
	struct kh_remedies *remedies = n > 0 ? kh_remedies_new(NULL, rules_of(summary)) : NULL;
	for (size_t i = 0; i < n; i++) {
		words_init(&all[i], summary, remedies);
		say(&all[i], &places->list[i]);
	}
	for (size_t i = 0; i < n; i++)
		if (!all[i].printed)
			print_group(places->list, all, n, i, verb);
	for (size_t i = 0; i < n; i++)
		words_fini(&all[i]);
	kh_remedies_free(remedies);
}

uint64_t kh_run_refused_telemetry(const struct kh_run_refused *refused)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < refused->n_telemetry; i++)
		sum += refused->telemetry[i].count;
	return sum;
}

static void print_telemetry(const struct kh_run_refused *refused, const char *verb)
{
	char room[32], agents[128] = "";
	uint64_t sum = kh_run_refused_telemetry(refused);
	for (size_t i = 0, used = 0; i < refused->n_telemetry && used < sizeof(agents); i++)
		used += (size_t)snprintf(agents + used, sizeof(agents) - used, "%s%s",
					 i ? ", " : "", refused->telemetry[i].agent);
	if (sum > 0)
		kh_cli_complain("%s %s: known telemetry of %s, which works without it", verb,
				kh_run_refused_times(sum, room), agents);
}

void kh_run_refused_print(struct kh_run_refused *refused, bool observes,
			  const struct kh_run_summary *summary)
{
	struct kh_refused_places *places = &refused->places;
	const char *verb = observes ? "would be refused" : "refused";
	kh_refused_places_settle(places);
	print_places(places, verb, summary);
	size_t more = places->count > SHOWN_MOST ? places->count - SHOWN_MOST : 0;
	const char *show = observes ? "keyhole audit show" : "keyhole audit show --denied";
	if (more > 0)
		kh_cli_complain("%s: %zu more hosts or paths; to see them: %s %s", verb, more, show,
				summary->path ? kh_esc_word(summary->path) : "JOURNAL");
	if (places->others > 0)
		kh_cli_complain("%s: %" PRIu64 " more requests, of which the journal has only the "
				"number",
				verb, places->others);
	print_telemetry(refused, verb);
}
