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
#include "run_internal.h"

enum { SHOWN_MOST = 10, TEXT_BYTES = 2048 };

void kh_run_refused_add(struct kh_run_refused *refused, const json_t *record,
			enum kh_err_code reason)
{
	/* Of an open record it is the rule that allows. */
	struct kh_slice rule_at = json_object_get(record, "reason")
					  ? kh_record_text(record, "rule_at")
					  : kh_record_text(record, "would_deny.rule");
	const struct kh_refused_request request = {
		.method = kh_record_text(record, "http.request.method"),
		.scheme = kh_record_text(record, "url.scheme"),
		.host = kh_record_text(record, "server.address"),
		.path = kh_record_text(record, "url.path"),
		.port = (uint16_t)kh_record_number(record, "server.port"),
		.reason = reason,
		.denied_by = kh_record_text(record, "denied_by"),
		.rule_at = rule_at,
	};
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

static bool put_place(struct kh_buf *out, const struct kh_refused_place *place)
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
	       (!place->path || kh_buf_append_str(out, kh_esc_str(place->path)));
}

/* ---- the words ---- */

/* As it was asked: the preset that would allow it; NULL: none. */
static const struct kh_remedy *find_preset(struct kh_remedies *remedies,
					   const struct kh_refused_place *place)
{
	const struct kh_remedy *found = NULL;
	struct kh_dry_run question;
	bool six = strchr(place->host, ':') && place->host[0] != '[';
	kh_auto_free char *url = kh_strf("%s://%s%s%s:%u%s", place->scheme, six ? "[" : "",
					 place->host, six ? "]" : "", place->port, place->example);
	struct kh_slice method = kh_slice_str(place->methods);
	method = kh_slice_sub(method, 0, kh_slice_find(method, ',', 0));
	kh_dry_run_init(&question);
	if (url && remedies && place->path &&
	    kh_dry_run_ask(&question, method, kh_slice_str(url), NULL))
		found = kh_remedies_find(remedies, &question);
	kh_dry_run_fini(&question);
	return found;
}

/* What is said of a place: either words to paste, or why there are none. */
struct words {
	struct kh_buf paste, why;
};

static void say_preset(struct words *words, const struct kh_remedy *remedy)
{
	(void)kh_buf_printf(&words->paste, "--use %s", remedy->use);
	bool keyed = remedy->variables[0] != '\0', narrows = remedy->narrows[0] != '\0';
	if (keyed || narrows)
		(void)kh_buf_printf(&words->paste, " (%s%s%s%s%s)", keyed ? "its key is in " : "",
				    keyed ? kh_esc_str(remedy->variables) : "",
				    keyed && narrows ? "; " : "", narrows ? "less of it by " : "",
				    narrows ? kh_esc_str(remedy->narrows) : "");
}

/* A tunnel to a port that is not for the web, in which somebody speaks neither HTTP nor TLS. */
static bool is_other_protocol(const struct kh_refused_place *place)
{
	return place->reason == KH_ERR_PROTOCOL_UNKNOWN && !place->scheme[0] && place->port != 80 &&
	       place->port != 443;
}

static void say_rule(struct words *words, const struct kh_refused_place *place)
{
	kh_cleanup(kh_buf_fini) struct kh_buf rule;
	const char *scheme = is_other_protocol(place) ? "tcp" : place->scheme;
	kh_buf_init(&rule, TEXT_BYTES);
	if (scheme[0] && (place->path || strcmp(scheme, "tcp") == 0) &&
	    kh_remedy_rule(&rule, place->methods, scheme, place->host, place->port, place->path))
		(void)kh_buf_printf(&words->paste, "--allow '%s'", kh_buf_cstr(&rule));
	else
		(void)kh_buf_append_str(&words->why,
					"no rule allows it, and none can name it as it is");
}

static bool is_of_preset(const struct kh_refused_place *place)
{
	const char *folder = kh_preset_dir();
	size_t len = strlen(folder);
	return strncmp(place->rule_at, folder, len) == 0 && place->rule_at[len] == '/';
}

static void say_denial(struct words *words, struct kh_remedies *remedies,
		       const struct kh_refused_place *place)
{
	const struct kh_remedy *preset = NULL;
	if (!place->rule_at[0] || is_of_preset(place))
		preset = find_preset(remedies, place);
	if (preset)
		say_preset(words, preset);
	else if (place->rule_at[0])
		(void)kh_buf_printf(&words->why, "%s denies it, and a rule above decides before",
				    kh_esc_str(place->rule_at));
	else
		(void)kh_buf_append_str(&words->why, "a rule denies it");
}

static void say(struct words *words, struct kh_remedies *remedies,
		const struct kh_refused_place *place)
{
	/* What no rule opens. */
	static const struct {
		enum kh_err_code reason;
		const char *says;
	} others[] = {
		{ KH_ERR_CLIENT_AUTH, "it brings a key of its own, which passes by a rule with "
				      "client_auth: pass" },
		{ KH_ERR_ADDRESS_PROHIBITED, "the address is none that sandboxes may reach; "
					     "upstream.allow_addresses in a file opens it" },
	};
	const struct kh_remedy *preset;
	const char *why = kh_err_reason(place->reason);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		why = others[i].reason == place->reason ? others[i].says : why;
	if (strcmp(place->denied_by, "site") == 0)
		(void)kh_buf_append_str(&words->why, "the rules of the site don't allow it");
	else if (place->reason == KH_ERR_DENIED_BY_RULE)
		say_denial(words, remedies, place);
	else if (place->reason != KH_ERR_NO_RULE && !is_other_protocol(place))
		(void)kh_buf_append_str(&words->why, why);
	else if ((preset = find_preset(remedies, place)))
		say_preset(words, preset);
	else
		say_rule(words, place);
}

/* ---- printed ---- */

static const char *times(uint64_t count, char room[32])
{
	if (count == 1)
		return "once";
	(void)snprintf(room, 32, "%" PRIu64 " times", count);
	return room;
}

/* What is to be pasted has a line of its own, which is seldom wider than a terminal. */
static void print_place(struct kh_remedies *remedies, const struct kh_refused_place *place,
			const char *verb)
{
	kh_cleanup(kh_buf_fini) struct kh_buf name;
	struct words words;
	char room[32];
	kh_buf_init(&name, TEXT_BYTES);
	kh_buf_init(&words.paste, TEXT_BYTES);
	kh_buf_init(&words.why, TEXT_BYTES);
	say(&words, remedies, place);
	bool has_why = kh_buf_len(&words.why) > 0;
	if (put_place(&name, place))
		kh_cli_complain("%s %s: %s%s%s%s", verb, times(place->count, room),
				kh_buf_cstr(&name), has_why ? " (" : "",
				has_why ? kh_buf_cstr(&words.why) : "", has_why ? ")" : "");
	if (kh_buf_len(&words.paste) > 0)
		kh_cli_complain("  to allow it: %s", kh_buf_cstr(&words.paste));
	kh_buf_fini(&words.paste);
	kh_buf_fini(&words.why);
}

static void print_telemetry(const struct kh_run_refused *refused, const char *verb)
{
	char room[32], agents[128] = "";
	uint64_t sum = 0;
	for (size_t i = 0, used = 0; i < refused->n_telemetry && used < sizeof(agents); i++) {
		sum += refused->telemetry[i].count;
		used += (size_t)snprintf(agents + used, sizeof(agents) - used, "%s%s",
					 i ? ", " : "", refused->telemetry[i].agent);
	}
	if (sum > 0)
		kh_cli_complain("%s %s: known telemetry of %s, which works without it", verb,
				times(sum, room), agents);
}

void kh_run_refused_print(struct kh_run_refused *refused, bool observes, const char *journal)
{
	struct kh_refused_places *places = &refused->places;
	const char *verb = observes ? "would be refused" : "refused";
	struct kh_remedies *remedies = places->count > 0 ? kh_remedies_new(NULL) : NULL;
	kh_refused_places_settle(places);
	for (size_t i = 0; i < places->count && i < SHOWN_MOST; i++)
		print_place(remedies, &places->list[i], verb);
	kh_remedies_free(remedies);
	size_t more = places->count > SHOWN_MOST ? places->count - SHOWN_MOST : 0;
	const char *show = observes ? "keyhole audit show" : "keyhole audit show --denied";
	if (more > 0)
		kh_cli_complain("%s: and %zu more (%s %s)", verb, more, show,
				journal ? kh_esc_str(journal) : "JOURNAL");
	if (places->others > 0)
		kh_cli_complain("%s: %" PRIu64 " more were only counted", verb, places->others);
	print_telemetry(refused, verb);
}
