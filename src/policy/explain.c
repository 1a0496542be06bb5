/*
 * explain.c - decides a request without the index, and shows why each rule matches or not
 *
 * It compares every rule of a list in order, as a reader of the configuration would. A test checks
 * that the result is always the same as in decide.c.
 */
#include "policy_internal.h"

const char *kh_mismatch_name(enum kh_mismatch why)
{
	switch (why) {
	case KH_MATCHES:
		return "";
	case KH_OTHER_SCHEME:
		return "scheme";
	case KH_OTHER_HOST:
		return "host";
	case KH_OTHER_PORT:
		return "port";
	case KH_OTHER_METHOD:
		return "method";
	case KH_OTHER_PATH:
		return "path";
	case KH_OTHER_QUERY:
		return "query";
	case KH_OTHER_HEADERS:
		return "headers";
	case KH_OTHER_CONTENT_TYPE:
		return "content_type";
	case KH_BODY_TOO_LARGE:
		return "max_body";
	case KH_OTHER_MODEL:
		return "model";
	case KH_MODEL_NOT_READ:
		return "model_not_read";
	case KH_OTHER_SPELLING:
		return "spelling";
	}
	return "";
}

static bool has_path(const struct kh_rule *rule, const struct kh_reading_of *reading)
{
	struct kh_slice pattern = kh_slice_str(rule->path), path = reading->path;
	if (!rule->path)
		return true;
	if (reading->any_path)
		return kh_rule_holds_for_any_path(rule);
	return rule->allow || rule->exact_spelling ? kh_path_matches(pattern, path)
						   : kh_path_matches_leniently(pattern, path);
}

static enum kh_mismatch look_beside(const struct kh_rule *rule,
				    const struct kh_request_view *request,
				    const struct kh_reading_of *reading)
{
	if (!kh_rule_holds_for_method(rule, reading))
		return KH_OTHER_METHOD;
	if (!has_path(rule, reading))
		return KH_OTHER_PATH;
	return kh_rule_conditions_miss(rule, request, reading);
}

static enum kh_mismatch look_at(const struct kh_rule *rule, const struct kh_request_view *request,
				const struct kh_reading_of *reading)
{
	struct kh_host_pattern host;
	kh_rule_host_expand(&rule->host, &host);
	if (!kh_host_pattern_matches(&host, reading->host))
		return KH_OTHER_HOST;
	if (rule->scheme != request->scheme)
		return KH_OTHER_SCHEME;
	if (rule->port != reading->port)
		return KH_OTHER_PORT;
	if (rule->exact_spelling && reading->respelled)
		return KH_OTHER_SPELLING;
	return look_beside(rule, request, reading);
}

struct look {
	const struct kh_request_view *request;
	const struct kh_rule *noted; /* the first denial that was only observed */
	void (*show)(void *arg, const struct kh_looked_at *rule);
	void *arg;
	enum kh_list list;
	bool asks_model;
};

static const struct kh_rule *read_list(struct look *look, const struct kh_rules *rules,
				       const struct kh_reading_of *reading)
{
	for (size_t i = 0; i < rules->count; i++) {
		struct kh_looked_at at = { .rule = &rules->list[i],
					   .list = look->list,
					   .reading = reading->how,
					   .method = reading->method,
					   .why = look_at(&rules->list[i], look->request,
							  reading) };
		if (at.why == KH_MATCHES)
			at.reading = kh_reading_of_denial(at.rule, look->request, reading);
		if (look->show)
			look->show(look->arg, &at);
		if (at.why == KH_MODEL_NOT_READ) {
			look->asks_model = true;
			return NULL;
		}
		if (at.why != KH_MATCHES)
			continue;
		if (!at.rule->more || !at.rule->more->observe)
			return at.rule;
		look->noted = look->noted ? look->noted : at.rule;
	}
	return NULL;
}

static bool ask(struct look *look, const struct kh_rules *rules, struct kh_decision *out)
{
	const struct kh_request_view *request = look->request;
	struct kh_steps steps = { .most = UINT64_MAX };
	struct kh_reading_of reading;
	reading.steps = &steps;
	kh_reading_begin(request, &reading);
	out->rule = read_list(look, rules, &reading);
	while (out->rule && out->rule->allow && kh_reading_next(request, &reading))
		out->rule = kh_reading_both(out->rule, read_list(look, rules, &reading), &reading);
	out->reading = reading.how;
	if (out->rule)
		out->reading = out->rule->allow
				       ? KH_READ_PLAIN
				       : kh_reading_of_denial(out->rule, request, &reading);
	out->reason = out->rule ? KH_ERR_DENIED_BY_RULE : KH_ERR_NO_RULE;
	return out->rule && out->rule->allow;
}

void kh_policy_explain(const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		       void (*show)(void *arg, const struct kh_looked_at *rule), void *arg,
		       struct kh_decision *out)
{
	const struct kh_config *config = kh_policy_config(policy);
	/* What is given up there is shown nothing of. */
	kh_policy_decide(policy, tenant, narrowing, request, out);
	if (out->reason == KH_ERR_REQUEST_TOO_COMPLEX)
		return;
	struct look look = { .request = request, .show = show, .arg = arg, .list = KH_LIST_SITE };
	*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE };
	if (tenant >= config->n_tenants || !request->host || request->host->kind == KH_HOST_NONE ||
	    request->scheme == KH_SCHEME_NONE)
		return;
	if (config->site.count > 0 && !ask(&look, &config->site, out)) {
		out->list = KH_LIST_SITE;
		if (look.asks_model)
			kh_decision_ask_model(out);
		return;
	}
	out->site_rule = out->rule;
	struct kh_heard heard = { .site_websocket = !out->rule || !out->rule->no_websocket,
				  .site_noted = look.noted };
	look.noted = NULL;
	look.list = KH_LIST_TENANT;
	if (ask(&look, &config->tenants[tenant].rules, out))
		heard.flags = KH_ALLOWS | (out->rule->passthrough ? KH_PASSTHROUGH : 0) |
			      (out->rule->no_websocket ? KH_NO_WEBSOCKET : 0);
	if (look.asks_model) {
		kh_decision_ask_model(out);
		return;
	}
	heard.noted = look.noted;
	kh_decision_finish(policy, tenant, &heard, out);
	if (!narrowing || !out->allow)
		return;
	struct kh_decision own = { .allow = false };
	look.list = KH_LIST_SANDBOX;
	own.allow = ask(&look, narrowing->rules, &own);
	if (look.asks_model)
		kh_decision_ask_model(out);
	else
		kh_decision_narrow(&own, own.rule && !own.rule->no_websocket, out);
}
