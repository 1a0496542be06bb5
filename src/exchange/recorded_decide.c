/*
 * recorded_decide.c - a request of a journal, decided by today's rules as far as its record goes
 *
 * A rule that was passed over only because it asks for what is not recorded might have matched. If
 * there is such a rule, and the decision would be another one with it, the result is undecided.
 * These rules and the rule that matches are the trail; two configurations with the same trail
 * decide alike.
 */
#include <keyhole/exchange/recorded.h>

#include <string.h>

#include <keyhole/base/spelling.h>

enum { BY_BYTES = 8 * 1024, TRAIL_BYTES = 16 * 1024 * 1024 };

const char *kh_recorded_need_text(size_t nth)
{
	static const char *const texts[KH_RECORDED_NEEDS] = {
		"its whole path",
		"the value of a parameter that may name another method, host or path",
		"the values of its query",
		"its fields",
		"its content type",
		"its model",
		"the size of its content",
		"what is in the tunnel",
	};
	return nth < KH_RECORDED_NEEDS ? texts[nth] : "";
}

/* ---- a rule in words: all that it asks and does ---- */

static bool put_conditions(struct kh_buf *out, const struct kh_rule_more *more)
{
	static const char *const kinds[KH_CONDITION_KINDS] = { "", ", query ", ", header ",
							       ", content_type", ", models" };
	bool ok = true;
	for (size_t i = 0; ok && i < more->n_conditions; i++) {
		const struct kh_condition *one = &more->conditions[i];
		ok = kh_buf_append_str(out, kinds[one->kind]) &&
		     kh_buf_append_str(out, one->name ? one->name : "");
		for (size_t k = 0; ok && k < one->n_patterns; k++)
			ok = kh_buf_append_str(out, k ? "|" : "=") &&
			     kh_buf_append_str(out, one->patterns[k]);
	}
	char size[KH_VALUE_BYTES];
	if (ok && more->has_max_body)
		ok = kh_buf_append_str(out, ", max_body ") &&
		     kh_buf_append_str(out, kh_value_show_size(more->max_body, size));
	return ok && (!more->observe || kh_buf_append_str(out, ", mode observe"));
}

static bool put_credentials(struct kh_buf *out, const struct kh_config *config,
			    const struct kh_rule *rule)
{
	bool ok = true;
	for (size_t i = 0; ok && i < rule->n_credentials; i++)
		ok = kh_buf_append_str(out, i == 0		    ? ", credential "
					    : rule->all_credentials ? " and "
								    : " or ") &&
		     kh_buf_append_str(out, config->credentials[rule->credentials[i]].name);
	return ok;
}

static bool put_rule(struct kh_buf *out, const struct kh_config *config, const struct kh_rule *rule)
{
	return kh_buf_append_str(out, rule->allow ? "allow " : "deny ") &&
	       kh_buf_append_str(out, rule->text) && put_credentials(out, config, rule) &&
	       (!rule->client_auth_pass || kh_buf_append_str(out, ", client_auth pass")) &&
	       (!rule->passthrough || kh_buf_append_str(out, ", tls passthrough")) &&
	       (!rule->no_websocket || rule->websocket_unsaid ||
		kh_buf_append_str(out, ", websocket false")) &&
	       (!rule->exact_spelling || kh_buf_append_str(out, ", spelling exact")) &&
	       (!rule->placeholder_refuse || kh_buf_append_str(out, ", placeholder refuse")) &&
	       (!rule->more || put_conditions(out, rule->more));
}

/* ---- what it comes to ---- */

struct decision {
	const struct kh_recorded_question *question;
	const struct kh_config *config;
	const struct kh_policy *policy;
	uint16_t tenant;
	const struct kh_narrowing *narrowing;
	struct kh_recorded_answer *out;
	bool may_allow; /* a rule that may match allows */
	bool by_chance; /* the rule that ended the walk may not match */
};

static void put_trail(struct decision *d, enum kh_list list, enum kh_reading reading,
		      const struct kh_rule *rule)
{
	struct kh_buf *trail = &d->out->trail;
	bool ok = kh_buf_printf(trail, "%s %s: ", kh_list_name(list), kh_reading_text(reading)) &&
		  put_rule(trail, d->config, rule);
	for (size_t i = 0; ok && i < rule->n_credentials; i++)
		ok = kh_buf_append_str(trail, "; ") &&
		     kh_credential_put_binding(trail,
					       &d->config->credentials[rule->credentials[i]]);
	if (!ok || !kh_buf_append_char(trail, '\n'))
		d->out->open = true;
}

static bool takes_any_value(const struct kh_condition *condition)
{
	for (size_t i = 0; i < condition->n_patterns; i++)
		if (strcmp(condition->patterns[i], "*") == 0)
			return true;
	return false;
}

static unsigned needs_of_query(const struct kh_recorded_question *question,
			       const struct kh_condition *condition)
{
	const struct kh_recorded *of = question->of;
	if (question->nameless)
		return KH_NEEDS_QUERY;
	for (size_t i = 0; i < of->n_query_names; i++)
		if (kh_spelling_is_parameter(of->query_names[i], kh_slice_str(condition->name)))
			return KH_NEEDS_QUERY;
	return 0;
}

/* For a rule whose text matches: what else it asks that is not recorded. *missed: something that is
 * recorded does not match. */
static unsigned needs_of(const struct decision *d, const struct kh_rule *rule, bool *missed)
{
	const struct kh_rule_more *more = rule->more;
	const struct kh_recorded *of = d->question->of;
	bool named = d->question->ask.view.model_state == KH_MODEL_NAMED;
	unsigned needs = 0;
	*missed = !more;
	for (size_t i = 0; more && i < more->n_conditions; i++) {
		const struct kh_condition *one = &more->conditions[i];
		unsigned query =
			one->kind == KH_CONDITION_QUERY ? needs_of_query(d->question, one) : 0;
		*missed = *missed || (one->kind == KH_CONDITION_QUERY && query == 0);
		needs |= query | (one->kind == KH_CONDITION_HEADER ? KH_NEEDS_FIELDS : 0) |
			 (one->kind == KH_CONDITION_CONTENT_TYPE ? KH_NEEDS_CONTENT_TYPE : 0) |
			 (one->kind == KH_CONDITION_MODEL && !named ? KH_NEEDS_MODEL : 0);
	}
	if (more && more->has_max_body && !of->has_size)
		needs |= KH_NEEDS_SIZE;
	*missed = *missed ||
		  (more && more->has_max_body && of->has_size && of->size > more->max_body);
	return needs;
}

/* It matches the text that stands for a value, and may not match the value. An allowance does not
 * match every value even if its pattern is '*' (an encoded control, for instance). */
static bool matches_by_chance(const struct kh_rule *rule)
{
	for (size_t i = 0; rule->more && i < rule->more->n_conditions; i++)
		if (rule->more->conditions[i].kind == KH_CONDITION_QUERY &&
		    (rule->allow || !takes_any_value(&rule->more->conditions[i])))
			return true;
	return false;
}

static void look(void *arg, const struct kh_looked_at *at)
{
	struct decision *d = arg;
	const struct kh_rule *rule = at->rule;
	bool missed;
	switch (at->why) {
	case KH_MATCHES:
		if (matches_by_chance(rule)) {
			d->out->needs |= KH_NEEDS_QUERY;
			d->by_chance = d->may_allow = true;
		}
		put_trail(d, at->list, at->reading, rule);
		break;
	case KH_OTHER_QUERY:
	case KH_OTHER_HEADERS:
	case KH_OTHER_CONTENT_TYPE:
	case KH_BODY_TOO_LARGE:
	case KH_OTHER_MODEL:
	case KH_MODEL_NOT_READ: {
		unsigned needs = needs_of(d, rule, &missed);
		/* One that only observes refuses nothing. */
		if (missed || needs == 0 || rule->more->observe)
			break;
		d->out->needs |= needs;
		d->may_allow = d->may_allow || rule->allow;
		put_trail(d, at->list, at->reading, rule);
		break;
	}
	case KH_OTHER_SCHEME:
	case KH_OTHER_HOST:
	case KH_OTHER_PORT:
	case KH_OTHER_METHOD:
	case KH_OTHER_PATH:
	case KH_OTHER_SPELLING:
		break;
	}
}

/* Of a rule for the place of the request: false only where it is sure that it does not match. */
static bool may_match(const struct decision *d, const struct kh_rule *rule)
{
	const struct kh_request_view *view = &d->question->ask.view;
	bool has_method = rule->n_methods == 0;
	/* What a rule that denies takes for its methods and paths is more than is written there. */
	if (d->question->of->tunnel || !rule->allow || !kh_recorded_has_one_reading(d->question))
		return true;
	for (size_t i = 0; i < rule->n_methods; i++)
		has_method =
			has_method || kh_slice_eq(kh_slice_str(rule->methods[i]), view->method);
	return has_method && rule->scheme == view->scheme &&
	       (!rule->path || kh_path_matches(kh_slice_str(rule->path), view->path));
}

/* An address that carries one of version 4 is that one's place too. */
static bool is_place_of(const struct kh_rule *rule, const struct kh_authority *there)
{
	struct kh_host_pattern pattern;
	struct kh_host carried;
	uint8_t v4[2][4];
	bool v6 = there->host.kind == KH_HOST_IPV6;
	size_t n = v6 ? kh_address_carried(there->host.addr, v4) : 0;
	kh_rule_host_expand(&rule->host, &pattern);
	bool is = kh_host_pattern_matches(&pattern, &there->host);
	for (size_t i = 0; i < n && !is; i++) {
		kh_host_of_v4(&carried, v4[i]);
		is = kh_host_pattern_matches(&pattern, &carried);
	}
	return is && rule->port == there->port;
}

static void put_rules_there(struct decision *d, enum kh_list list, const struct kh_rules *rules)
{
	for (size_t i = 0; rules && i < rules->count; i++)
		if (is_place_of(&rules->list[i], &d->question->ask.authority) &&
		    may_match(d, &rules->list[i]))
			put_trail(d, list, KH_READ_PLAIN, &rules->list[i]);
}

static void put_all_there(struct decision *d)
{
	const struct kh_rules *narrow = d->narrowing ? kh_narrowing_rules(d->narrowing) : NULL;
	put_rules_there(d, KH_LIST_SITE, &d->config->site);
	put_rules_there(d, KH_LIST_TENANT, &d->config->tenants[d->tenant].rules);
	put_rules_there(d, KH_LIST_SANDBOX, narrow);
}

/* Nobody knows what exactly was asked there: each rule for the place may have a say. */
static void leave_undecided(struct decision *d, unsigned needs)
{
	d->out->fate = KH_RECORDED_UNDECIDED;
	d->out->needs = needs;
	put_all_there(d);
}

static void put_by(struct decision *d)
{
	const struct kh_outcome *o = &d->out->outcome;
	const struct kh_rule *rule = o->decision.rule;
	struct kh_buf *by = &d->out->by;
	bool says_rule = o->allow || o->reason == KH_ERR_DENIED_BY_RULE;
	bool ok = says_rule || (kh_buf_append_str(by, kh_err_reason(o->reason)) &&
				(!rule || kh_buf_append_str(by, ", by ")));
	if (ok && rule)
		ok = put_rule(by, d->config, rule);
	if (ok && o->decision.bare)
		ok = kh_buf_append_str(by, rule ? ", only observed" : "only observed");
	if (!ok)
		d->out->open = true;
}

static void decide_tunnel(struct decision *d)
{
	struct kh_recorded_answer *out = d->out;
	enum kh_tunnel_kind kind = out->outcome.kind;
	if (kind == KH_TUNNEL_READ && out->outcome.allow) {
		leave_undecided(d, KH_NEEDS_TUNNEL);
		return;
	}
	out->fate = kind == KH_TUNNEL_PASS || kind == KH_TUNNEL_RAW ? KH_RECORDED_ALLOWED
								    : KH_RECORDED_REFUSED;
	put_by(d);
}

static bool is_known_there(const struct decision *d)
{
	const struct kh_dry_run *ask = &d->question->ask;
	return kh_policy_observing(d->policy, d->tenant) ||
	       kh_policy_knows_host(d->policy, d->tenant, d->narrowing, ask->scheme,
				    &ask->authority.host, ask->authority.port);
}

static void decide(struct decision *d)
{
	const struct kh_recorded_question *question = d->question;
	struct kh_recorded_answer *out = d->out;
	struct kh_decision same;
	kh_dry_run_answer(&question->ask, d->config, d->policy, d->tenant, d->narrowing,
			  &out->outcome);
	if (question->of->tunnel) {
		decide_tunnel(d);
		return;
	}
	if (question->unclear && is_known_there(d)) {
		leave_undecided(d, question->unclear);
		return;
	}
	kh_policy_explain(d->policy, d->tenant, d->narrowing, &question->ask.view, look, d, &same);
	out->fate = out->outcome.allow ? KH_RECORDED_ALLOWED : KH_RECORDED_REFUSED;
	if (out->needs && (out->outcome.allow || d->may_allow))
		out->fate = KH_RECORDED_UNDECIDED;
	/* What ended the walk through the rules may not end it. */
	if (out->fate == KH_RECORDED_UNDECIDED && (!out->outcome.allow || d->by_chance))
		put_all_there(d);
	put_by(d);
}

void kh_recorded_decide(const struct kh_recorded_question *question, const struct kh_config *config,
			const struct kh_policy *policy, int tenant,
			const struct kh_narrowing *narrowing, struct kh_recorded_answer *out)
{
	*out = (struct kh_recorded_answer){ .fate = KH_RECORDED_REFUSED };
	kh_buf_init(&out->by, BY_BYTES);
	kh_buf_init(&out->trail, TRAIL_BYTES);
	if (tenant < 0 || (size_t)tenant >= config->n_tenants) {
		(void)kh_buf_append_str(&out->by, "no such tenant");
		return;
	}
	struct decision d = { .question = question,
			      .config = config,
			      .policy = policy,
			      .tenant = (uint16_t)tenant,
			      .narrowing = narrowing,
			      .out = out };
	decide(&d);
}

void kh_recorded_answer_fini(struct kh_recorded_answer *answer)
{
	kh_buf_fini(&answer->by);
	kh_buf_fini(&answer->trail);
}

enum kh_recorded_change kh_recorded_compare(const struct kh_recorded_answer *before,
					    const struct kh_recorded_answer *after)
{
	bool alike = kh_slice_eq(kh_buf_view(&before->by), kh_buf_view(&after->by));
	bool undecided =
		before->fate == KH_RECORDED_UNDECIDED || after->fate == KH_RECORDED_UNDECIDED;
	if (undecided) {
		bool same = before->fate == after->fate && !before->open && !after->open && alike &&
			    before->needs == after->needs &&
			    kh_slice_eq(kh_buf_view(&before->trail), kh_buf_view(&after->trail));
		return same ? KH_CHANGE_NONE : KH_CHANGE_UNDECIDED;
	}
	if (before->fate != after->fate)
		return before->fate == KH_RECORDED_ALLOWED ? KH_CHANGE_REFUSES : KH_CHANGE_ALLOWS;
	return alike ? KH_CHANGE_NONE : KH_CHANGE_RULE;
}
