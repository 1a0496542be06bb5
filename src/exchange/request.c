/*
 * request.c - the canonical request, and the decision
 *
 * What was checked is what is sent: policy, DNS, dialling, SNI, certificate verification, injection
 * and the Host field all use the one authority that kh_request_resolve has settled.
 */

#include <keyhole/exchange/dry_run.h>
#include <keyhole/credential/re_sign.h>
#include <keyhole/net/guard.h>

#include "exchange_internal.h"
#include "placeholder_check.h"
#include "websocket_internal.h"
#include "signing.h"

void kh_ruling_take(struct kh_ruling *ruling, const struct kh_standing *at,
		    const struct kh_decision *decision)
{
	struct kh_generation *before = ruling->at.gen;

	(void)kh_generation_ref(at->gen);
	*ruling = (struct kh_ruling){ *at, *decision };
	kh_generation_unref(before);
}

void kh_ruling_leave(struct kh_ruling *ruling)
{
	kh_generation_unref(ruling->at.gen);
	ruling->at.gen = NULL;
}

/* Inside a tunnel everything has to name the tunnel's authority. */
static bool resolve_in_tunnel(struct kh_exchange *x, struct kh_err *err)
{
	const struct kh_down_side *side = x->side;

	if (side->other_name)
		return kh_err_set(err, KH_ERR_AUTHORITY_MISMATCH,
				  "the tunnel is to %s and its TLS handshake names %s",
				  x->authority.host.text, side->other_name);
	if (x->message->h2 &&
	    !kh_slice_eq(x->message->scheme, kh_slice_str(kh_scheme_name(x->scheme))))
		return kh_err_set(err, KH_ERR_AUTHORITY_MISMATCH,
				  "the tunnel carries %s and the request's :scheme is %s",
				  kh_scheme_name(x->scheme), kh_esc(x->message->scheme));
	if (x->target.absolute && (x->target.scheme != x->scheme ||
				   !kh_authority_eq(&x->target.authority, &x->authority)))
		return kh_err_set(err, KH_ERR_AUTHORITY_MISMATCH,
				  "the tunnel is to %s:%u and the request's target names %s:%u",
				  x->authority.host.text, x->authority.port,
				  x->target.authority.host.text, x->target.authority.port);
	return true;
}

static bool check_host_field(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_authority named;
	const struct kh_message *message = x->message;

	if (message->host.len == 0 && message->minor == 0 &&
	    (x->target.absolute || x->side->tunnel))
		return true; /* HTTP/1.0 may leave it out; the authority is known all the same */
	if (!kh_authority_parse(&named, message->host, kh_scheme_port(x->scheme), err))
		return kh_err_wrap(err, "Host field");
	if (kh_authority_eq(&named, &x->authority))
		return true;
	return kh_err_set(err,
			  x->side->tunnel ? KH_ERR_AUTHORITY_MISMATCH : KH_ERR_REQUEST_MALFORMED,
			  "the request is for %s:%u and its Host field names %s",
			  x->authority.host.text, x->authority.port, kh_esc(message->host));
}

/* HTTP/2 with prior knowledge: :scheme and :authority are what absolute-form is in HTTP/1. */
static bool resolve_pseudo_fields(struct kh_exchange *x, struct kh_err *err)
{
	if (kh_slice_eq(x->message->scheme, KH_SLICE("http")))
		x->scheme = KH_SCHEME_HTTP;
	else if (kh_slice_eq(x->message->scheme, KH_SLICE("https")))
		x->scheme = KH_SCHEME_HTTPS;
	else
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "the scheme %s is not http(s)",
				  kh_esc(x->message->scheme));
	return kh_authority_parse(&x->authority, x->message->host, kh_scheme_port(x->scheme),
				  err) ||
	       kh_err_wrap(err, ":authority");
}

/* origin-form without a tunnel is for keyhole itself, or for nobody. */
static bool resolve_own(struct kh_exchange *x, struct kh_err *err)
{
	x->scheme = KH_SCHEME_HTTP;
	if (kh_authority_parse(&x->authority, x->message->host, kh_scheme_port(x->scheme), NULL) &&
	    kh_internal_page_is(&x->authority.host))
		return true;
	x->scheme = KH_SCHEME_NONE;
	x->authority = (struct kh_authority){ 0 };
	return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
			  "this is a proxy: CONNECT host:port, or a request with the whole "
			  "URL, is expected here");
}

static bool settle_authority(struct kh_exchange *x, struct kh_err *err)
{
	if (x->side->tunnel) {
		if (!resolve_in_tunnel(x, err))
			return false;
	} else if (x->message->h2) {
		return resolve_pseudo_fields(x, err);
	} else if (x->target.absolute) {
		x->scheme = x->target.scheme;
		x->authority = x->target.authority;
	} else if (!resolve_own(x, err)) {
		return false;
	}
	return check_host_field(x, err);
}

bool kh_request_resolve(struct kh_exchange *x, struct kh_err *err)
{
	/* Also of one that can't be read, for the journal. */
	if (x->side->tunnel) {
		x->scheme = x->side->tls ? KH_SCHEME_HTTPS : KH_SCHEME_HTTP;
		x->authority = x->side->authority;
	}
	if (!kh_auth_check(x->side, x->message, err) ||
	    !kh_target_parse(&x->target, x->message->method, x->message->target, err) ||
	    !settle_authority(x, err))
		return false;
	return !kh_internal_page_is(&x->authority.host) || kh_internal_page_resolve(x, err);
}

static bool choose_credentials(struct kh_exchange *x, const struct kh_request_view *view,
			       struct kh_err *err)
{
	const struct kh_credential_config *credential;

	kh_injection_choose(&x->injection, x->gen->config, x->tenant, &x->decision);
	const char *fault = kh_injection_binding_fault(&x->injection, view, &credential);
	return !fault ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_BINDING,
			  "the credential %s may not go into %s %s://%s: its binding leaves %s out",
			  credential->name, kh_esc(kh_recognise_text_shown(x->message->method)),
			  kh_scheme_name(x->scheme), x->authority.host.text, fault);
}

/* What a view points at. */
struct room {
	struct kh_overrides overrides;
	struct kh_forwarded forwarded;
};

/* `room` lives as long as the view. */
static struct kh_request_view view_of(const struct kh_exchange *x, struct room *room)
{
	struct kh_overrides *overrides = &room->overrides;
	room->forwarded.message = x->message;
	room->forwarded.known = false;
	kh_overrides_read(overrides, x->message, x->target.query);
	kh_overrides_read_query(overrides, x->target.path_cuts.query);
	if (overrides->source != KH_COPY_NONE)
		kh_copy_source_read(overrides, &x->authority, x->target.path);
	return (struct kh_request_view){
		.method = x->message->method,
		.scheme = x->scheme,
		.host = &x->authority.host,
		.port = x->authority.port,
		.path = x->target.path,
		.path_slashed = x->target.path_slashed,
		.path_decoded = x->target.path_decoded,
		.path_cuts = x->target.path_cuts.n > 0 ? &x->target.path_cuts : NULL,
		.query = x->target.query,
		.fields = { kh_message_next_forwarded, &room->forwarded },
		.overrides = kh_overrides_any(overrides) ? overrides : NULL,
		.has_length = x->message->framing == KH_FRAMING_NONE ||
			      kh_exchange_has_content(x) ||
			      x->message->framing == KH_FRAMING_LENGTH,
		.length = x->message->framing == KH_FRAMING_LENGTH ? x->message->content_length
			  : kh_exchange_has_content(x)		   ? x->content_bytes
								   : 0,
		.steps = (uint64_t)overrides->parameters * KH_LIMIT_PARAMETER_STEPS,
		.model_state = x->model_state,
		.model = kh_slice_str(x->model),
	};
}

/* To the sandbox's share of the turn, and to what a reload may decide in one. */
static void charge(const struct kh_exchange *x, uint64_t steps)
{
	kh_work_share_charge_steps(&x->side->acceptor->work, steps);
	x->side->loop->decision_steps += steps;
}

static void decide(const struct kh_exchange *x, const struct kh_standing *at,
		   const struct kh_request_view *view, struct kh_decision *out)
{
	kh_policy_decide(at->gen->policy, at->tenant, at->narrowing, view, out);
	charge(x, out->steps);
}

/* Where a rule asks for the model, the head is looked at, and the rules are asked again. Return:
 * false: the head says it in no way that can be taken. */
static bool ask(struct kh_exchange *x, const struct kh_standing *at, struct kh_request_view *view,
		struct kh_decision *out, struct kh_err *err)
{
	decide(x, at, view, out);
	if (!out->asks_model || kh_exchange_has_content(x))
		return true;
	if (!kh_body_buffer_look_at_head(x, err)) {
		out->asks_model = false; /* nothing that comes can say it */
		return false;
	}
	view->model_state = x->model_state;
	view->model = kh_slice_str(x->model);
	if (x->model_state != KH_MODEL_UNREAD)
		decide(x, at, view, out);
	return true;
}

void kh_request_settle_geo(struct kh_exchange *x, const struct kh_standing *standing,
			   const struct kh_decision *decision)
{
	x->geo = kh_policy_geo(standing->gen->policy, standing->tenant, decision);
	kh_ruling_take(&x->ruling, standing, decision);
}

/* What it is connected to already. */
static bool may_stay(const struct kh_exchange *x, const struct kh_standing *at,
		     const struct kh_decision *decision)
{
	struct kh_geo_levels geo = kh_policy_geo(at->gen->policy, at->tenant, decision);
	const struct kh_sockaddr *addr;

	if (!kh_up_is_connected(&x->up, &addr))
		return true;
	return kh_guard_lets_stay(at->gen->config, at->tenant, &x->authority.host, addr) &&
	       (!kh_geo_asks(&geo) || (addr && kh_geo_allows(at->gen->geo, &geo, addr, NULL)));
}

/* Does a rule that names addresses deny it there, by those rules and their decision? */
static bool is_denied_at(const struct kh_exchange *x, const struct kh_standing *at,
			 const struct kh_decision *decision, const struct kh_sockaddr *addr,
			 uint64_t *steps, struct kh_decision *out)
{
	struct room room;
	struct kh_host host;

	if (x->authority.host.kind != KH_HOST_NAME ||
	    !kh_policy_looks_at_addresses(at->gen->policy, at->tenant, at->narrowing) ||
	    !kh_host_of_sockaddr(&host, addr))
		return false;
	struct kh_request_view view = view_of(x, &room);
	if (x->tunnel)
		view.scheme = x->tunnel == KH_TUNNEL_RAW ? KH_SCHEME_TCP : KH_SCHEME_HTTPS;
	uint64_t before = *steps;
	bool denied = kh_policy_denies_address(at->gen->policy, at->tenant, at->narrowing, &view,
					       x->tunnel != KH_TUNNEL_DENIED, decision, &host,
					       steps, out);
	charge(x, view.steps + (*steps - before));
	return denied;
}

bool kh_request_may_go_to(struct kh_exchange *x, const struct kh_sockaddr *addr, struct kh_err *err)
{
	const struct kh_standing at = kh_exchange_standing(x);
	char text[KH_SOCKADDR_TEXT_BYTES];
	struct kh_decision there = { .allow = false };

	x->observed_there = there;
	if (!addr || !x->decision.allow)
		return true;
	if (is_denied_at(x, &at, &x->decision, addr, &x->steps_there, &there)) {
		x->denied_there = there;
	} else {
		x->observed_there = there;
		if (!there.bare || x->decision.bare)
			return true;
		x->observed_before = there;
		there = (struct kh_decision){ .reason = there.would,
					      .rule = there.would_rule,
					      .reading = KH_READ_RESOLVED };
	}
	(void)kh_request_say_denied(&there, err);
	kh_sockaddr_format(addr, text);
	return kh_err_wrap(err, "%s", text);
}

/* Has a person allowed what no rule speaks of? */
static bool takes_answer(const struct kh_exchange *x, const struct kh_standing *at,
			 const struct kh_request_view *view, struct kh_decision *out)
{
	return x->answered.reply != KH_REPLY_NO &&
	       kh_policy_take_answer(at->gen->policy, at->tenant, at->narrowing, view, out);
}

/* What goes in is a tenant's: for another one it would be another value. */
static bool is_same_tenant(const struct kh_exchange *x, const struct kh_standing *now)
{
	return strcmp(x->gen->config->tenants[x->tenant].name,
		      now->gen->config->tenants[now->tenant].name) == 0;
}

/* The rules in force would refuse it for that reason. Do they only observe? */
static bool is_only_observed(const struct kh_standing *now, enum kh_err_code reason,
			     struct kh_decision *decision)
{
	return kh_decision_observe(now->gen->policy, now->tenant, reason, decision->rule, decision);
}

/* The head has gone up with placeholders, or without one that must be there: would it, with what
 * the rules in force put in? */
static bool may_hold_placeholders(struct kh_exchange *x, const struct kh_standing *now,
				  const struct kh_injection *chosen, struct kh_decision *decision)
{
	const struct kh_standing before = kh_exchange_standing(x);
	const struct kh_injection had = x->injection;
	struct kh_err err = KH_ERR_INIT;

	x->gen = now->gen;
	x->tenant = now->tenant;
	x->listener = now->listener;
	x->injection = *chosen;
	bool good = kh_placeholder_check(x, &err);
	x->gen = before.gen;
	x->tenant = before.tenant;
	x->listener = before.listener;
	x->injection = had;
	return good || (err.code != KH_ERR_NO_MEMORY && is_only_observed(now, err.code, decision));
}

/*
 * It has gone up with credentials, or with authentication and placeholders of its own. Whatever
 * kh_request_decide asks of these is asked here, in its order: a request that came now would go up
 * with no less.
 */
static bool keeps_what_went(struct kh_exchange *x, const struct kh_standing *now,
			    const struct kh_request_view *view, struct kh_decision *decision)
{
	struct kh_injection chosen = { .count = 0 };

	if (!decision->rule)
		return false;
	kh_injection_choose_again(&chosen, &x->injection, now->gen->config, now->tenant, decision);
	bool good = may_hold_placeholders(x, now, &chosen, decision);
	if (good && x->injection.count == 0 && kh_client_auth_find(x).len > 0)
		good = chosen.count == 0 && (kh_decision_passes_auth(decision) ||
					     is_only_observed(now, KH_ERR_CLIENT_AUTH, decision));
	/* What is observed from here on goes up without a credential. */
	if (good && x->injection.count > 0)
		good = !decision->bare && is_same_tenant(x, now) &&
		       kh_injection_is_kept(&x->injection, &chosen, now->tenant, view);
	kh_injection_fini(&chosen);
	return good;
}

bool kh_request_is_allowed(struct kh_exchange *x)
{
	struct room room;
	struct kh_request_view view = view_of(x, &room);
	const struct kh_standing now = kh_acceptor_standing(x->side->acceptor);
	struct kh_decision decision;
	bool allowed;

	if (x->tunnel) {
		allowed = kh_policy_tunnel(now.gen->policy, now.tenant, now.narrowing,
					   &x->authority.host, x->authority.port,
					   &decision) == x->tunnel;
	} else {
		allowed = ask(x, &now, &view, &decision, NULL) &&
			  (decision.allow || takes_answer(x, &now, &view, &decision)) &&
			  (!x->websocket || decision.websocket);
	}
	if (!allowed || !may_stay(x, &now, &decision))
		return false;
	const struct kh_sockaddr *addr;
	struct kh_decision there = { .allow = false };
	uint64_t steps = 0;
	if (kh_up_is_connected(&x->up, &addr) && addr &&
	    is_denied_at(x, &now, &decision, addr, &steps, &there))
		return false;
	/* What is only observed goes on, but with a credential it can't. */
	if ((there.bare && x->injection.count > 0) ||
	    (!x->tunnel && !keeps_what_went(x, &now, &view, &decision)))
		return false;
	charge(x, view.steps); /* as of a decision: all of it is looked through again */
	kh_request_settle_geo(x, &now, &decision);
	kh_exchange_change_limits(x, &now, &decision);
	return true;
}

/* The first of what a rule asks for beside its text, which its text does not show: " (query
 * service: git-receive-pack)". */
static const char *beside(const struct kh_rule *rule, char *out, size_t size)
{
	static const char *const kinds[KH_CONDITION_KINDS] = {
		[KH_CONDITION_NONE] = "",	   [KH_CONDITION_QUERY] = "query ",
		[KH_CONDITION_HEADER] = "header ", [KH_CONDITION_CONTENT_TYPE] = "content type",
		[KH_CONDITION_MODEL] = "model",
	};
	out[0] = '\0';
	if (!rule->more || rule->more->n_conditions == 0)
		return out;
	const struct kh_condition *first = &rule->more->conditions[0];
	bool all = first->n_patterns == 1 && rule->more->n_conditions == 1;
	(void)snprintf(out, size, " (%s%s: %s%s)", kinds[first->kind],
		       first->name ? kh_esc_str(first->name) : "", kh_esc_str(first->patterns[0]),
		       all ? "" : " ...");
	return out;
}

bool kh_request_say_denied(const struct kh_decision *decision, struct kh_err *err)
{
	static const char *const none[] = {
		[KH_LIST_TENANT] = "no rule allows it",
		[KH_LIST_SITE] = "no rule of the site allows it",
		[KH_LIST_SANDBOX] = "no rule in this sandbox's narrowing allows it",
	};
	static const char *const whose[] = {
		[KH_LIST_TENANT] = "the rule",
		[KH_LIST_SITE] = "the site's rule",
		[KH_LIST_SANDBOX] = "the sandbox's own rule",
	};
	const struct kh_rule *rule = decision->rule;
	const char *as = kh_reading_text(decision->reading), *with = as[0] ? " with " : "";

	if (decision->reason == KH_ERR_REQUEST_TOO_COMPLEX)
		return kh_err_set(err, decision->reason,
				  "there are too many ways to read it: send a shorter path and "
				  "query, and no fields that name another method, host or path");
	if (!rule)
		return kh_err_set(err, KH_ERR_NO_RULE, "%s%s%s", none[decision->list], with, as);
	if (decision->reason == KH_ERR_TUNNEL_ONLY)
		return kh_err_set(err, KH_ERR_TUNNEL_ONLY,
				  "the rule '%s' lets TLS through undecrypted and no request that "
				  "is read",
				  rule->text);
	char more[128];
	return kh_err_set(err, KH_ERR_DENIED_BY_RULE, "%s '%s'%s %s it%s%s", whose[decision->list],
			  rule->text, beside(rule, more, sizeof(more)),
			  rule->allow ? "does not allow all of" : "denies", with, as);
}

/* The field that asks for more than the rules allow, and what to do about it. */
static bool say_denied(const struct kh_decision *decision, const struct kh_overrides *overrides,
		       struct kh_err *err)
{
	char field[64];
	struct kh_err why = KH_ERR_INIT;

	(void)kh_request_say_denied(decision, &why);
	if (decision->reading == KH_READ_SOURCE) {
		(void)snprintf(field, sizeof(field), "%s", kh_esc(overrides->source_field));
		return kh_err_set(err, why.code,
				  "%s (remove %s, or name an object of the same bucket that "
				  "may be read)",
				  why.text, field);
	}
	if (decision->reading != KH_READ_OTHER_HOST || overrides->host_field.len == 0) {
		*err = why;
		return false;
	}
	(void)snprintf(field, sizeof(field), "%s", kh_esc(overrides->host_field));
	return kh_err_set(err, why.code, "%s (remove %s, or allow that host too)", why.text, field);
}

bool kh_request_decide_tunnel(struct kh_exchange *x, struct kh_err *err)
{
	const struct kh_standing at = kh_exchange_standing(x);

	if (kh_policy_tunnel(at.gen->policy, at.tenant, at.narrowing, &x->authority.host,
			     x->authority.port, &x->decision) != x->tunnel)
		return kh_err_set(err, KH_ERR_NO_RULE, "no rule allows it any more");
	kh_request_settle_geo(x, &at, &x->decision);
	return true;
}

bool kh_request_decide(struct kh_exchange *x, struct kh_err *err)
{
	struct room room;
	struct kh_request_view view = view_of(x, &room);
	const struct kh_standing at = kh_exchange_standing(x);

	x->holds_for_credential = false;
	if (!ask(x, &at, &view, &x->decision, err))
		return false;
	if (x->decision.asks_model)
		return kh_body_buffer_refuse("it was not read", err);
	if (!x->decision.allow && !takes_answer(x, &at, &view, &x->decision))
		return say_denied(&x->decision, &room.overrides, err);
	if (!x->decision.rule)
		return kh_err_set(err, KH_ERR_NO_RULE, "no rule allows it");
	kh_request_settle_geo(x, &at, &x->decision);
	charge(x, view.steps); /* carriers and placeholders are sought in each query again */
	return kh_exchange_upgrade_may_be(x->message, &x->decision, err) &&
	       choose_credentials(x, &view, err) && kh_placeholder_settle(x, err) &&
	       kh_content_decide(x, err) && kh_signing_begin(x, err) &&
	       kh_client_auth_settle(x, err) &&
	       (!x->message->upgrade || kh_websocket_ask(x, err)) &&
	       kh_exchange_take_limits(x, err);
}

bool kh_request_could_be_allowed(struct kh_exchange *x)
{
	struct room room;
	struct kh_request_view view = view_of(x, &room);
	const struct kh_decision denied = x->decision;
	struct kh_err err = KH_ERR_INIT;

	bool could = kh_policy_take_answer(x->gen->policy, x->tenant, x->narrowing, &view,
					   &x->decision) &&
		     choose_credentials(x, &view, &err) && kh_placeholder_settle(x, &err) &&
		     kh_client_auth_settle(x, &err);
	charge(x, view.steps);
	kh_injection_fini(&x->injection);
	x->stripped[0] = '\0';
	x->decision = denied;
	return could;
}
