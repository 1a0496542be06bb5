/*
 * dry_run_page.c - http://keyhole.internal/why: how a request that nobody has sent would be decided
 *
 * The rules in force decide, and so does the address, if it is known without a lookup: an IP
 * literal, or a pin. Limits are not checked. Fields and content of a real request are not known
 * here.
 */

#include <keyhole/base/encode.h>
#include <keyhole/exchange/dry_run.h>
#include <keyhole/net/guard.h>

#include "pages_internal.h"
#include "placeholder_check.h"

enum { NEARBY = 8 };

/* `%41` is A. Return: false: no escape, or no memory. */
static bool put_decoded(struct kh_buf *out, struct kh_slice text)
{
	bool ok = true;

	for (size_t i = 0; ok && i < text.len; i++) {
		char c = text.ptr[i];
		if (c == '%') {
			int byte = kh_percent_byte(text, i);
			if (byte < 0)
				return false;
			c = (char)byte;
			i += 2;
		}
		ok = kh_buf_append_char(out, c);
	}
	return ok;
}

/* The parameter of that name, into `out`, which stays empty where there is none. */
static bool find(struct kh_slice query, struct kh_slice wanted, struct kh_buf *out,
		 struct kh_err *err)
{
	struct kh_slice rest = query, name, value;
	unsigned n = 0;

	while (rest.ptr && kh_query_next(&rest, &name, &value)) {
		if (!kh_slice_eq(name, wanted))
			continue;
		if (n++ > 0 || !put_decoded(out, value))
			return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
					  "the parameter %.*s is here twice, or is not well "
					  "escaped",
					  KH_FMT(wanted));
	}
	return true;
}

struct verdict {
	const struct kh_dry_run *question;
	struct kh_outcome outcome;
	struct kh_injection injection; /* what would go in */
	bool known, allow;
	bool unresolved;       /* its address is judged only when it is sent */
	struct kh_err refused; /* the address that it would go to is */
};

/* As the connector judges it. Return: false with what is refused. */
static bool judge_address(const struct kh_exchange *x, struct verdict *v)
{
	const struct kh_host *host = &v->question->authority.host;
	const struct kh_config *config = x->gen->config;
	const struct kh_pin *pin = kh_config_pin(config, x->tenant, host);
	struct kh_geo_levels geo = kh_policy_geo(x->gen->policy, x->tenant, &v->outcome.decision);
	struct kh_decision there = { .allow = false };
	char text[KH_SOCKADDR_TEXT_BYTES];
	struct kh_sockaddr addr;
	struct kh_host as_host;
	uint64_t steps = 0;
	size_t n;

	v->unresolved = !pin && !kh_guard_known(host, v->question->authority.port, &addr);
	if (v->unresolved)
		return true;
	const struct kh_cidr *allow = kh_config_allowed_addresses(config, x->tenant, &n);
	const char *class_name = pin ? NULL : kh_guard_refuses(&addr, allow, n);
	if (pin)
		addr = pin->addr;
	kh_sockaddr_format(&addr, text);
	if (class_name)
		return kh_err_set(&v->refused, KH_ERR_ADDRESS_PROHIBITED,
				  "%s is a %s address, which is not connected to", text,
				  class_name);
	if (host->kind == KH_HOST_NAME && kh_host_of_sockaddr(&as_host, &addr) &&
	    kh_policy_denies_address(x->gen->policy, x->tenant, x->narrowing, &v->question->view,
				     false, &v->outcome.decision, &as_host, &steps, &there)) {
		(void)kh_request_say_denied(&there, &v->refused);
		return kh_err_wrap(&v->refused, "%s", text);
	}
	return kh_geo_allows(x->gen->geo, &geo, &addr, &v->refused);
}

/* What becomes of it. */
static void put_words(struct kh_buf *out, const struct kh_exchange *x, const struct verdict *v)
{
	const struct kh_decision *decision = &v->outcome.decision;
	struct kh_err err = KH_ERR_INIT;

	if (!v->known && v->question->two_models) {
		kh_buf_printf(out, "a rule asks for the model, and %s", v->question->two_models);
	} else if (!v->known) {
		kh_buf_append_str(out, "that depends on the model: ask again with &model=NAME");
	} else if (v->refused.code != KH_ERR_NONE) {
		kh_buf_append_str(out, v->refused.text);
	} else if (!v->allow && !decision->allow) {
		(void)kh_request_say_denied(decision, &err);
		kh_buf_append_str(out, err.text);
	} else if (v->outcome.fault) {
		kh_buf_printf(out,
			      "the rule '%s' allows it, but the credential %s may not go in: its "
			      "binding leaves out %s",
			      decision->rule->text, v->outcome.credential->name, v->outcome.fault);
	} else if (!v->allow) {
		kh_buf_printf(out, "the rule '%s' allows it, but not as it is (%s)",
			      decision->rule->text, kh_err_reason(v->outcome.reason));
	} else if (decision->would != KH_ERR_NONE) {
		kh_buf_append_str(out, "it goes through, since the rules only observe");
	} else {
		kh_buf_printf(out, "the rule '%s' allows it", decision->rule->text);
	}
	for (size_t i = 0; i < v->injection.count; i++) {
		const struct kh_credential_config *one = v->injection.list[i].credential;
		bool ready = kh_credential_is_present(one, x->tenant);
		kh_buf_printf(out, "; the credential %s %s", one->name,
			      ready ? "goes in as " : "has no value on the host");
		if (ready)
			kh_credential_put_kind(out, one);
	}
	if (v->allow && v->unresolved)
		kh_buf_append_str(out, "; the address of a name is checked only when the request "
				       "is sent");
}

static struct verdict judge(const struct kh_exchange *x, const struct kh_dry_run *question)
{
	struct verdict v = { .question = question };

	kh_dry_run_answer(question, x->gen->config, x->gen->policy, x->tenant, x->narrowing,
			  &v.outcome);
	kh_work_share_charge_steps(&x->side->acceptor->work, v.outcome.decision.steps);
	v.known = !v.outcome.decision.asks_model;
	v.allow = v.known && v.outcome.allow && v.outcome.decision.rule;
	if (v.allow && !judge_address(x, &v)) {
		v.allow = false;
		v.outcome.reason = v.refused.code;
	}
	if (v.allow)
		kh_injection_choose(&v.injection, x->gen->config, x->tenant, &v.outcome.decision);
	return v;
}

static size_t nearby(const struct kh_exchange *x, const struct verdict *v,
		     const char *texts[NEARBY], bool *more)
{
	bool own = v->outcome.decision.list == KH_LIST_SANDBOX;

	*more = false;
	return v->allow || v->refused.code != KH_ERR_NONE
		       ? 0
		       : kh_policy_nearby(x->gen->policy, x->tenant, own ? x->narrowing : NULL,
					  &v->question->authority.host, texts, NEARBY, more);
}

/* As in a refusal the host is shown, and what follows it where that is easy to guess. */
static void put_url(struct kh_buf *out, struct kh_slice url)
{
	size_t end = kh_slice_find(url, '/', 0) + KH_SLICE("//").len;
	while (end < url.len && url.ptr[end] != '/' && url.ptr[end] != '?')
		end++;
	if (end >= url.len) {
		kh_buf_append_slice(out, url);
		return;
	}
	struct kh_slice rest = kh_slice_sub(url, end, url.len),
			shown = kh_recognise_text_shown(rest);
	kh_buf_append_slice(out, kh_slice_sub(url, 0, end));
	if (shown.ptr != rest.ptr)
		kh_buf_append_char(out, '/');
	kh_buf_append_slice(out, shown);
}

static void put_text(struct kh_buf *out, const struct kh_exchange *x, const struct verdict *v)
{
	const struct kh_message *message = &v->question->message;
	const char *texts[NEARBY];
	bool more;
	size_t n = nearby(x, v, texts, &more);

	kh_buf_append_slice(out, message->method);
	kh_buf_append_char(out, ' ');
	put_url(out, message->target);
	kh_buf_printf(out, "\n%s: ",
		      v->allow				    ? "allowed"
		      : v->known || v->question->two_models ? "denied"
							    : "not known");
	put_words(out, x, v);
	kh_buf_append_str(out, ".\n");
	for (size_t i = 0; i < n; i++)
		kh_buf_printf(out, "%s  %s\n", i ? "" : "Allowed near it:\n", texts[i]);
	if (more)
		kh_buf_append_str(out, "  and more: http://keyhole.internal/\n");
}

static void put_json(struct kh_buf *out, const struct kh_exchange *x, const struct verdict *v)
{
	const struct kh_rule *rule = v->outcome.decision.rule;
	const char *texts[NEARBY];
	struct kh_buf words, url;
	bool more;
	size_t n = nearby(x, v, texts, &more);

	kh_buf_init(&words, KH_PAGE_BYTES);
	kh_buf_init(&url, KH_PAGE_BYTES);
	put_words(&words, x, v);
	put_url(&url, v->question->message.target);
	kh_buf_append_str(out, "{\"method\":");
	kh_json_string(out, v->question->message.method);
	kh_page_member(out, "url", kh_buf_view(&url));
	kh_buf_printf(out, ",\"allow\":%s", v->allow ? "true" : "false");
	if (!v->known)
		kh_page_member(out, "reason",
			       v->question->two_models
				       ? kh_slice_str(kh_err_reason(KH_ERR_MODEL_UNREADABLE))
				       : KH_SLICE("depends_on_model"));
	else if (!v->allow)
		kh_page_member(out, "reason", kh_slice_str(kh_err_reason(v->outcome.reason)));
	kh_page_member(out, "message", kh_buf_view(&words));
	if (rule)
		kh_page_member(out, "rule", kh_slice_str(rule->text));
	if (v->injection.count > 0) {
		char names[KH_RULE_CREDENTIALS * (KH_NAME_MOST_BYTES + 1)];
		bool ready = true;
		for (size_t i = 0; i < v->injection.count; i++)
			ready = ready && kh_credential_is_present(v->injection.list[i].credential,
								  x->tenant);
		(void)kh_injection_names(&v->injection, names, sizeof(names));
		kh_page_member(out, "credential", kh_slice_str(names));
		kh_buf_printf(out, ",\"ready\":%s", ready ? "true" : "false");
	}
	kh_buf_append_str(out, ",\"nearby\":[");
	for (size_t i = 0; i < n; i++) {
		kh_buf_append_str(out, i ? "," : "");
		kh_json_string(out, kh_slice_str(texts[i]));
	}
	kh_buf_append_str(out, "]}\n");
	kh_buf_fini(&words);
	kh_buf_fini(&url);
}

/* Of those that there are none has anything but letters and '-'. */
static bool is_method(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = (char)(text.ptr[i] | 0x20);
		if ((c < 'a' || c > 'z') && text.ptr[i] != '-')
			return false;
	}
	return text.len > 0 && text.len <= KH_OVERRIDING_BYTES;
}

static bool ask(struct kh_dry_run *question, struct kh_slice method, struct kh_slice url,
		struct kh_err *err)
{
	if (url.len == 0)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "which request? http://keyhole.internal/why?method=POST&url=URL, "
				  "with & in the URL written %%26");
	if (!is_method(method) || kh_slice_eq(method, KH_SLICE("CONNECT")))
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "that is no method of a request inside a tunnel");
	if (kh_dry_run_ask(question, method, url, err))
		return true;
	err->code = KH_ERR_REQUEST_MALFORMED;
	return kh_err_wrap(err, "such a request is refused");
}

bool kh_page_put_dry_run(struct kh_buf *out, const struct kh_exchange *x, bool json,
			 struct kh_err *err)
{
	struct kh_slice query = x->target.query;
	struct kh_dry_run question;
	struct kh_buf url, method, model;

	kh_buf_init(&url, KH_PAGE_BYTES);
	kh_buf_init(&method, KH_PAGE_BYTES);
	kh_buf_init(&model, KH_PAGE_BYTES);
	kh_dry_run_init(&question);
	bool ok = find(query, KH_SLICE("url"), &url, err) &&
		  find(query, KH_SLICE("method"), &method, err) &&
		  find(query, KH_SLICE("model"), &model, err);
	kh_dry_run_model(&question, kh_buf_view(&model));
	ok = ok && ask(&question, kh_buf_len(&method) > 0 ? kh_buf_view(&method) : KH_SLICE("GET"),
		       kh_buf_view(&url), err);
	if (ok) {
		const struct verdict v = judge(x, &question);
		if (json)
			put_json(out, x, &v);
		else
			put_text(out, x, &v);
	}
	kh_dry_run_fini(&question);
	kh_buf_fini(&url);
	kh_buf_fini(&method);
	kh_buf_fini(&model);
	return ok;
}
