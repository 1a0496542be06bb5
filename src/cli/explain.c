/* explain.c - `keyhole explain`: which rule decides a request, why, and which credentials go in */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>
#include <keyhole/net/geo.h>
#include <keyhole/exchange/dry_run.h>

#include "cli_internal.h"
#include "explain_addresses.h"
#include "explain_credentials.h"
#include "explain_limits.h"
#include "explain_remedy.h"
#include "explain_rule.h"
#include "explain_text.h"

enum { EXIT_DENIED = 3, LINE_BYTES = 1024 * 1024, PRESETS_MOST = 32 };

static const char usage[] =
	"usage: keyhole explain [-c FILE] [--tenant NAME] [OPTION…] METHOD URL\n"
	"       keyhole explain --use PRESET METHOD URL\n"
	"       keyhole explain [-c FILE] --batch\n"
	"Shows the decision about a request, what would allow it if it is refused, and each rule\n"
	"that is checked, with why it matches or not. Nothing is sent.\n\n"
	"  -c, --config FILE      the configuration; the default is keyhole.yaml in this folder\n"
	"  -t, --tenant NAME      the tenant whose rules apply; required if there are several\n"
	"      --use PRESET       the rules of a preset in front, as in `keyhole run --use`, or\n"
	"                         alone without -c (repeat it for more)\n"
	"  -s, --sandbox NAME     a listener's sandbox, to include its own rules; of one that was\n"
	"                         added to a daemon, http://keyhole.internal/why in it tells\n"
	"  -H, --header FIELD     a field of the request, 'NAME: VALUE' (repeat it for more)\n"
	"      --body-bytes N     the size of the request's content\n"
	"      --model NAME       the model that the content names\n"
	"      --resolve          resolve the name, and check its addresses\n"
	"      --json             print the result as one JSON object\n"
	"      --batch            read requests from standard input, one JSON object per line;\n"
	"                         print the answers in the same way\n"
	"  -h, --help             show this\n\n"
	"Exit status: 0 allowed, 3 denied, 1 error, 2 wrong usage.\n"
	"The manual: keyhole-explain(1).\n";

struct explain {
	const char *config_path, *tenant_name, *sandbox_name;
	const char *presets[PRESETS_MOST];
	size_t n_presets;
	bool json, batch, resolve;
	struct kh_config *config;
	struct kh_policy *policy;
	struct kh_geo *geo;
	uint16_t tenant;
	const struct kh_narrowing *narrowing; /* of the sandbox, where one is named */
	int listener;			      /* that one, or -1 */
};

struct shown {
	const struct explain *explain;
	const struct kh_dry_run *question;
	json_t *list;
};

static void show(void *arg, const struct kh_looked_at *at)
{
	struct shown *shown = arg;
	json_t *one = kh_explain_rule(shown->explain->config, at->rule, at->list);
	if (!one)
		return;
	(void)json_object_set_new(one, "matches", json_boolean(at->why == KH_MATCHES));
	if (at->why != KH_MATCHES)
		(void)json_object_set_new(one, "why", json_string(kh_mismatch_name(at->why)));
	if (at->why == KH_OTHER_METHOD && at->rule->n_methods == 0)
		(void)json_object_set_new(one, "method_to_name",
					  json_stringn(at->method.ptr, at->method.len));
	if (at->why == KH_MODEL_NOT_READ && shown->question->two_models)
		(void)json_object_set_new(one, "detail", json_string(shown->question->two_models));
	if (at->reading == KH_READ_SLASHED)
		(void)json_object_set_new(one, "slashed", json_true());
	if (at->reading == KH_READ_OTHER_METHOD)
		(void)json_object_set_new(one, "method",
					  json_stringn(at->method.ptr, at->method.len));
	if (at->reading == KH_READ_OTHER_PATH)
		(void)json_object_set_new(one, "any_path", json_true());
	if (at->reading != KH_READ_PLAIN)
		(void)json_object_set_new(one, "reading",
					  json_string(kh_reading_text(at->reading)));
	(void)json_array_append_new(shown->list, one);
}

static json_t *addresses(const struct explain *e, const struct kh_dry_run *q,
			 struct kh_outcome *outcome)
{
	struct kh_request_view tunnel = { .scheme = outcome->kind == KH_TUNNEL_RAW
							    ? KH_SCHEME_TCP
							    : KH_SCHEME_HTTPS,
					  .method = q->message.method,
					  .host = &q->authority.host,
					  .port = q->authority.port };
	/* In a tunnel that is read each request is asked for by itself. */
	bool unread = outcome->kind == KH_TUNNEL_PASS || outcome->kind == KH_TUNNEL_RAW;
	const struct kh_explain_place from = { .config = e->config,
					       .geo = e->geo,
					       .levels = kh_policy_geo(e->policy, e->tenant,
								       &outcome->decision),
					       .policy = e->policy,
					       .narrowing = e->narrowing,
					       .view = !q->tunnel ? &q->view
						       : unread	  ? &tunnel
								  : NULL,
					       .unread = unread,
					       .tenant = e->tenant,
					       .resolve = e->resolve };
	return kh_explain_addresses(&from, &q->authority, outcome);
}

/* In a tunnel that is read each request has its own. */
static bool rule_counts(const struct kh_dry_run *q, const struct kh_outcome *a)
{
	return !q->tunnel || a->kind == KH_TUNNEL_PASS || a->kind == KH_TUNNEL_RAW;
}

static const char *const tunnels[] = { "denied", "read", "passthrough", "raw" };

/* `remedy`: what would allow it too, which is much to ask for each of many. */
static json_t *answer(const struct explain *e, const struct kh_dry_run *q, bool remedy)
{
	struct shown shown = { e, q, json_array() };
	struct kh_outcome a;
	struct kh_decision same;
	kh_dry_run_answer(q, e->config, e->policy, e->tenant, e->narrowing, &a);
	if (!q->tunnel)
		kh_policy_explain(e->policy, e->tenant, e->narrowing, &q->view, show, &shown,
				  &same);
	json_t *dialled = a.allow ? addresses(e, q, &a) : NULL;
	json_t *out = json_pack("{s:s%, s:s%, s:s, s:s, s:s, s:o}", "method", q->message.method.ptr,
				q->message.method.len, "url", q->message.target.ptr,
				q->message.target.len, "tenant", e->config->tenants[e->tenant].name,
				"decision", a.allow ? "allow" : "deny", "reason",
				kh_err_reason(a.reason), "looked_at", shown.list);
	if (!out) {
		json_decref(dialled);
		return NULL;
	}
	if (dialled)
		(void)json_object_set_new(out, "addresses", dialled);
	if (q->tunnel)
		(void)json_object_set_new(out, "tunnel", json_string(tunnels[a.kind]));
	if (a.kind == KH_TUNNEL_READ)
		kh_explain_tunnel(e->config, e->policy, e->tenant, e->narrowing, q, out);
	const struct kh_rule *rule = a.decision.rule;
	(void)json_object_set_new(out, "rule",
				  rule ? kh_explain_rule(e->config, rule, a.decision.list)
				       : json_null());
	if (a.reason == KH_ERR_DENIED_BY_RULE || a.reason == KH_ERR_NO_RULE)
		(void)json_object_set_new(out, "denied_by",
					  json_string(kh_list_name(a.decision.list)));
	if (!a.allow && a.decision.reading != KH_READ_PLAIN)
		(void)json_object_set_new(out, "reading",
					  json_string(kh_reading_text(a.decision.reading)));
	if (a.decision.would != KH_ERR_NONE) {
		(void)json_object_set_new(out, "would_deny",
					  json_string(kh_err_reason(a.decision.would)));
		if (a.decision.would_rule)
			(void)json_object_set_new(out, "would_deny_rule",
						  kh_explain_rule(e->config, a.decision.would_rule,
								  a.decision.would_list));
	}
	if (remedy)
		kh_explain_remedy(e->config, e->tenant, q, &a, out);
	if (a.fault)
		kh_explain_fault(&a, out);
	if (a.reason == KH_ERR_CLIENT_AUTH)
		(void)json_object_set_new(
			out, "detail",
			json_sprintf("%s carries authentication of the client's own, and %s",
				     kh_esc(a.carrier),
				     rule && rule->n_credentials > 0
					     ? "can't be taken out of the path, where it follows "
					       "an escaped '?' or '#'"
					     : "the rule neither sets a credential nor has "
					       "client_auth: pass"));
	if (a.reason == KH_ERR_UPGRADE_UNSUPPORTED)
		(void)json_object_set_new(out, "detail", json_string(a.upgrade.text));
	if (a.allow && rule && !q->tunnel) {
		bool injects = rule->n_credentials > 0 && !a.decision.bare;
		if (injects)
			kh_explain_credentials(e->config, rule, q, out);
		(void)json_object_set_new(out, "client_auth",
					  json_string(injects ? "removed"
						      : kh_decision_passes_auth(&a.decision)
							      ? "pass"
							      : "refuse"));
	}
	if (a.allow)
		(void)json_object_set_new(out, "limits",
					  kh_explain_limits(e->config, e->tenant, e->listener,
							    &a.decision, rule_counts(q, &a)));
	return out;
}

static bool print_json(const json_t *out)
{
	bool ok = json_dumpf(out, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER) == 0;
	return putchar('\n') != EOF && ok;
}

/* The sandbox's tenant is the question's. Return: false when nobody can say which it is. */
static bool choose_sandbox(struct explain *e, const char *name, int tenant, struct kh_err *err)
{
	e->narrowing = NULL;
	e->listener = -1;
	if (!name)
		return true;
	int index = kh_config_sandbox(e->config, name);
	if (index < 0)
		return kh_err_set(err, KH_ERR_USAGE,
				  index == KH_SANDBOX_SEVERAL
					  ? "more than one listener's sandbox is called \"%s\""
					  : "no listener's sandbox is called \"%s\" (one that was "
					    "added to a daemon is not in the file: --tenant NAME "
					    "shows its tenant's rules, and the page "
					    "http://keyhole.internal/why in it shows all)",
				  kh_esc_str(name));
	e->tenant = e->config->listeners[index].tenant;
	if (tenant >= 0 && tenant != e->tenant)
		return kh_err_set(err, KH_ERR_USAGE, "sandbox \"%s\" is another tenant's",
				  kh_esc_str(name));
	e->narrowing = kh_policy_narrowing(e->policy, (size_t)index);
	e->listener = index;
	return true;
}

/* One line of --batch. Return: what to print, NULL without memory. */
static json_t *answer_line(struct explain *e, const char *line, size_t len)
{
	json_t *in = kh_json_load(kh_slice_of(line, len), JSON_REJECT_DUPLICATES, NULL),
	       *out = NULL;
	struct kh_dry_run q;
	struct kh_err err = KH_ERR_INIT;
	kh_dry_run_init(&q);
	const char *method = json_string_value(json_object_get(in, "method"));
	json_t *url = json_object_get(in, "url");
	const char *model = json_string_value(json_object_get(in, "model"));
	const char *tenant = json_string_value(json_object_get(in, "tenant")), *key;
	const char *sandbox = json_string_value(json_object_get(in, "sandbox"));
	json_t *value, *bytes = json_object_get(in, "body_bytes");
	int index = tenant ? kh_config_tenant(e->config, tenant) : 0;
	if (!choose_sandbox(e, sandbox, tenant ? index : -1, &err))
		index = -1;
	else if (sandbox)
		index = e->tenant;
	json_object_foreach(json_object_get(in, "headers"), key, value)(void)
		kh_dry_run_field(&q, kh_slice_str(key), kh_slice_str(json_string_value(value)));
	if (model)
		kh_dry_run_model(&q, kh_slice_str(model));
	if (json_is_integer(bytes) && json_integer_value(bytes) >= 0)
		kh_dry_run_body(&q, (uint64_t)json_integer_value(bytes));
	e->tenant = (uint16_t)(index < 0 ? 0 : index);
	if ((!in || index < 0 || !json_is_string(url)) && err.code == KH_ERR_NONE)
		(void)kh_err_set(&err, KH_ERR_USAGE,
				 "expected {\"method\": …, \"url\": …, \"tenant\": …}");
	else if (err.code == KH_ERR_NONE &&
		 kh_dry_run_ask(&q, method ? kh_slice_str(method) : KH_SLICE("GET"),
				kh_slice_of(json_string_value(url), json_string_length(url)), &err))
		out = answer(e, &q, false);
	if (!out)
		out = json_pack("{s:s, s:s, s:s}", "decision", "deny", "reason",
				kh_err_reason(err.code), "error", err.text);
	kh_dry_run_fini(&q);
	json_decref(in);
	return out;
}

static int batch(struct explain *e)
{
	char *line = malloc(LINE_BYTES);
	bool ok = line != NULL;
	while (ok && fgets(line, LINE_BYTES, stdin)) {
		json_t *out = answer_line(e, line, strlen(line));
		ok = out && print_json(out);
		json_decref(out);
	}
	free(line);
	return ok && fflush(stdout) == 0 ? EXIT_SUCCESS : KH_EXIT_FAILED;
}

static int explain_one(const struct explain *e, const struct kh_dry_run *q)
{
	json_t *out = answer(e, q, true);
	if (!out) {
		kh_cli_complain("explain: out of memory");
		return KH_EXIT_FAILED;
	}
	bool allow = strcmp(json_string_value(json_object_get(out, "decision")), "allow") == 0;
	bool ok = true;
	if (e->json)
		ok = print_json(out);
	else
		kh_explain_print(out);
	json_decref(out);
	if (!ok || fflush(stdout) != 0)
		return KH_EXIT_FAILED;
	return allow ? EXIT_SUCCESS : EXIT_DENIED;
}

static bool load(struct explain *e)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_cli_load_presets(e->config_path, e->tenant_name, e->presets, e->n_presets,
				 &e->config, &e->policy))
		return false;
	e->geo = kh_geo_load(e->config->country_db.path, e->config->asn_db.path, &err);
	if (!e->geo)
		kh_cli_complain_err(&err);
	return e->geo != NULL;
}

static const char *nearest_tenant(const struct kh_config *config, const char *typed)
{
	const char **names = calloc(config->n_tenants + 1, sizeof(*names));
	for (size_t i = 0; names && i < config->n_tenants; i++)
		names[i] = config->tenants[i].name;
	const char *near = names ? kh_cli_nearest(typed, names, config->n_tenants) : NULL;
	free(names);
	return near;
}

/* With the first few of them. */
static void complain_of_several(const struct kh_config *config)
{
	enum { SHOWN = 8 };
	struct kh_buf names;
	kh_buf_init(&names, LINE_BYTES);
	for (size_t i = 0; i < config->n_tenants && i < SHOWN; i++)
		(void)kh_buf_printf(&names, "%s%s", i ? ", " : "",
				    kh_esc_str(config->tenants[i].name));
	if (config->n_tenants > SHOWN)
		(void)kh_buf_printf(&names, " and %zu more", config->n_tenants - SHOWN);
	struct kh_slice view = kh_buf_view(&names);
	kh_cli_complain("explain: which tenant? (say --tenant NAME; there are %.*s)", KH_FMT(view));
	kh_buf_fini(&names);
}

/* Return: 0, or the status to exit with. */
static int choose_tenant(struct explain *e)
{
	struct kh_err err = KH_ERR_INIT;
	int index = -1;
	if (e->tenant_name) {
		index = kh_config_tenant(e->config, e->tenant_name);
		if (index < 0) {
			const char *near = nearest_tenant(e->config, e->tenant_name);
			kh_cli_complain("explain: no tenant is called \"%s\"%s%s%s",
					kh_esc_str(e->tenant_name), near ? " (did you mean \"" : "",
					near ? kh_esc_str(near) : "", near ? "\"?)" : "");
			return KH_EXIT_USAGE;
		}
		e->tenant = (uint16_t)index;
	} else if (e->config->n_tenants > 1 && !e->batch && !e->sandbox_name) {
		complain_of_several(e->config);
		return KH_EXIT_USAGE;
	}
	if (e->config->n_tenants == 0) {
		kh_cli_complain("explain: there are no tenants, so nothing is allowed");
		return EXIT_DENIED;
	}
	if (!choose_sandbox(e, e->sandbox_name, index, &err)) {
		kh_cli_complain("explain: %s", err.text);
		return KH_EXIT_USAGE;
	}
	return 0;
}

static int finish(struct explain *e, int status)
{
	kh_geo_unref(e->geo);
	kh_policy_unref(e->policy);
	kh_config_free(e->config);
	return status;
}

static bool take_header(struct kh_dry_run *q, const char *text)
{
	struct kh_slice all = kh_slice_str(text);
	size_t colon = kh_slice_find(all, ':', 0);
	return colon < all.len && kh_dry_run_field(q, kh_slice_sub(all, 0, colon),
						   kh_slice_sub(all, colon + 1, all.len));
}

static int ask(struct explain *e, struct kh_dry_run *q, char **words, int n)
{
	struct kh_err err = KH_ERR_INIT;
	if (e->batch && n == 0)
		return batch(e);
	if (e->batch || n < 1 || n > 2) {
		kh_cli_complain("explain: expected METHOD URL (`keyhole explain --help`)");
		return KH_EXIT_USAGE;
	}
	struct kh_slice method = n == 2 ? kh_slice_str(words[0]) : KH_SLICE("GET");
	if (kh_dry_run_ask(q, method, kh_slice_str(words[n - 1]), &err))
		return explain_one(e, q);
	if (err.code == KH_ERR_USAGE) {
		kh_cli_complain("explain: %s", err.text);
		return KH_EXIT_USAGE;
	}
	/* What the proxy would not read never comes to a rule. */
	if (e->json) {
		json_t *out = json_pack("{s:s, s:s, s:s}", "decision", "deny", "reason",
					kh_err_reason(err.code), "error", err.text);
		(void)print_json(out);
		json_decref(out);
	} else {
		printf("deny: %s: %s\n", kh_err_reason(err.code), err.text);
	}
	return EXIT_DENIED;
}

int kh_cli_explain(int argc, char **argv)
{
	enum { OPT_JSON = 256, OPT_BATCH, OPT_RESOLVE, OPT_BODY, OPT_MODEL, OPT_USE };
	static const struct option options[] = { { "config", required_argument, NULL, 'c' },
						 { "tenant", required_argument, NULL, 't' },
						 { "use", required_argument, NULL, OPT_USE },
						 { "sandbox", required_argument, NULL, 's' },
						 { "header", required_argument, NULL, 'H' },
						 { "body-bytes", required_argument, NULL,
						   OPT_BODY },
						 { "model", required_argument, NULL, OPT_MODEL },
						 { "resolve", no_argument, NULL, OPT_RESOLVE },
						 { "json", no_argument, NULL, OPT_JSON },
						 { "batch", no_argument, NULL, OPT_BATCH },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	struct explain e = { 0 };
	struct kh_dry_run q;
	uint64_t bytes;
	kh_dry_run_init(&q);
	for (int opt; (opt = kh_cli_option(argc, argv, "c:t:s:H:h", options)) != -1;) {
		switch (opt) {
		case 'c':
			e.config_path = optarg;
			break;
		case 't':
			e.tenant_name = optarg;
			break;
		case 's':
			e.sandbox_name = optarg;
			break;
		case OPT_USE:
			if (e.n_presets == PRESETS_MOST) {
				kh_cli_complain("explain: --use: at most %d", PRESETS_MOST);
				return KH_EXIT_USAGE;
			}
			e.presets[e.n_presets++] = optarg;
			break;
		case 'H':
			if (!take_header(&q, optarg)) {
				kh_cli_complain("explain: --header: expected 'Name: value'");
				return KH_EXIT_USAGE;
			}
			break;
		case OPT_BODY:
			if (!kh_slice_to_u64(kh_slice_str(optarg), &bytes)) {
				kh_cli_complain("explain: --body-bytes: expected a number");
				return KH_EXIT_USAGE;
			}
			kh_dry_run_body(&q, bytes);
			break;
		case OPT_MODEL:
			kh_dry_run_model(&q, kh_slice_str(optarg));
			break;
		case OPT_RESOLVE:
			e.resolve = true;
			break;
		case OPT_JSON:
			e.json = true;
			break;
		case OPT_BATCH:
			e.batch = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return KH_EXIT_USAGE; /* it was said why */
		}
	}
	if (!e.config_path && e.n_presets == 0)
		e.config_path = kh_cli_config_here();
	if (!e.config_path && e.n_presets == 0) {
		kh_cli_complain("explain: no file is given, and there is no keyhole.yaml here "
				"(write keyhole explain -c FILE, or --use PRESET)");
		return KH_EXIT_USAGE;
	}
	if (!load(&e))
		return finish(&e, KH_EXIT_FAILED);
	int status = choose_tenant(&e);
	if (status == 0)
		status = ask(&e, &q, argv + optind, argc - optind);
	kh_dry_run_fini(&q);
	return finish(&e, status);
}
