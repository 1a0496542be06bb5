/* dry_run.c - reads and decides a request that nobody sent, as the proxy would */
#include <stdlib.h>
#include <string.h>

#include <keyhole/credential/credential.h>
#include <keyhole/base/escape.h>
#include <keyhole/exchange/dry_run.h>
#include <keyhole/http/ws.h>

#define ORDINARY "send an ordinary request instead of a WebSocket"

bool kh_exchange_upgrade_may_be(const struct kh_message *request,
				const struct kh_decision *decision, struct kh_err *err)
{
	if (!request->upgrade)
		return true;
	if (!kh_ws_is_request(request))
		return kh_err_set(err, KH_ERR_UPGRADE_UNSUPPORTED,
				  "no protocol upgrade but WebSocket is supported here: send the "
				  "request without Upgrade");
	const struct kh_rule *rule = kh_decision_no_websocket(decision, NULL);
	if (decision->websocket)
		return true;
	if (rule && rule->websocket_unsaid)
		return kh_err_set(err, KH_ERR_UPGRADE_UNSUPPORTED,
				  "a WebSocket is refused here (the rule '%s' sets a credential "
				  "and does not say websocket: true): " ORDINARY,
				  rule->text);
	return kh_err_set(
		err, KH_ERR_UPGRADE_UNSUPPORTED,
		"a WebSocket is refused here (websocket: false; the rule is '%s'): " ORDINARY,
		rule ? rule->text : "");
}

void kh_dry_run_init(struct kh_dry_run *q)
{
	*q = (struct kh_dry_run){ .message = { .framing = KH_FRAMING_NONE } };
	kh_buf_init(&q->target.store, 0);
}

bool kh_dry_run_field(struct kh_dry_run *q, struct kh_slice name, struct kh_slice value)
{
	if (q->message.n_fields == KH_LIMIT_FIELDS || name.len == 0)
		return false;
	q->message.fields[q->message.n_fields++] = (struct kh_field){ name, kh_slice_trim(value) };
	return true;
}

void kh_dry_run_body(struct kh_dry_run *q, uint64_t bytes)
{
	q->message.framing = KH_FRAMING_LENGTH;
	q->message.content_length = bytes;
	q->message.has_content_length = true;
	q->view.length = bytes;
}

void kh_dry_run_model(struct kh_dry_run *q, struct kh_slice name)
{
	q->named = name;
}

static bool has_token(struct kh_slice list, struct kh_slice wanted)
{
	struct kh_slice token;

	while (kh_ws_next_protocol(&list, &token))
		if (kh_slice_eq_nocase(token, wanted))
			return true;
	return false;
}

/* As the codec reads it (RFC 9110 §7.8; an offer of h2c is ignored). */
static bool asks_for_upgrade(const struct kh_message *message)
{
	bool option = false, field = false;

	for (size_t i = 0; i < message->n_fields; i++) {
		const struct kh_field *one = &message->fields[i];
		if (kh_slice_eq_nocase(one->name, KH_SLICE("Connection")))
			option = option || has_token(one->value, KH_SLICE("upgrade"));
		else if (kh_slice_eq_nocase(one->name, KH_SLICE("Upgrade")))
			field = field || !kh_slice_eq_nocase(one->value, KH_SLICE("h2c"));
	}
	return option && field;
}

/* What the path names counts; else what was said of the content. */
static void find_model(struct kh_dry_run *q)
{
	const struct kh_path_readings path = kh_target_readings(&q->target);
	q->view.model_state = kh_model_in_path(&path, &q->model, &q->two_models);
	q->view.model = kh_slice_of(q->model.name, q->model.len);
	bool from_content = q->view.model_state == KH_MODEL_UNREAD && q->named.len > 0;
	if (from_content && !q->two_models)
		q->two_models = kh_model_path_fault(&path);
	if (from_content && !q->two_models) {
		q->view.model_state = KH_MODEL_NAMED;
		q->view.model = q->named;
	}
}

bool kh_dry_run_ask(struct kh_dry_run *q, struct kh_slice method, struct kh_slice url,
		    struct kh_err *err)
{
	q->message.method = method;
	q->message.target = url;
	if (kh_slice_eq(method, KH_SLICE("CONNECT"))) {
		q->tunnel = true;
		return kh_authority_parse(&q->authority, url, 0, err);
	}
	if (kh_slice_has_prefix(url, KH_SLICE("wss://")) ||
	    kh_slice_has_prefix(url, KH_SLICE("ws://")))
		return kh_err_set(err, KH_ERR_USAGE,
				  "a WebSocket begins with a request of HTTP: write http%s, with "
				  "-H 'Connection: upgrade' -H 'Upgrade: websocket'",
				  kh_esc(kh_slice_sub(url, 2, url.len < 200 ? url.len : 200)));
	bool whole = kh_slice_find(url, ':', 0) + 2 < url.len &&
		     kh_slice_eq(kh_slice_sub(url, kh_slice_find(url, ':', 0),
					      kh_slice_find(url, ':', 0) + 3),
				 KH_SLICE("://"));
	if (whole && !kh_target_parse(&q->target, method, url, err))
		return false;
	if (!whole || !q->target.absolute)
		return kh_err_set(err, KH_ERR_USAGE,
				  "expected a whole URL, as in https://api.example.com/v1/x");
	q->scheme = q->target.scheme;
	q->authority = q->target.authority;
	if (kh_slice_eq(kh_host_view(&q->authority.host), KH_SLICE("keyhole.internal")))
		return kh_err_set(err, KH_ERR_USAGE,
				  "keyhole.internal is keyhole itself, and no rule speaks of it; "
				  "for http://keyhole.internal/to/HOST/PATH ask https://HOST/PATH");
	q->message.minor = 1;
	q->message.upgrade = asks_for_upgrade(&q->message);
	kh_overrides_read(&q->overrides, &q->message, q->target.query);
	kh_overrides_read_query(&q->overrides, q->target.path_cuts.query);
	if (q->overrides.source != KH_COPY_NONE)
		kh_copy_source_read(&q->overrides, &q->authority, q->target.path);
	q->forwarded.message = &q->message;
	q->forwarded.known = false;
	q->view = (struct kh_request_view){
		.steps = (uint64_t)q->overrides.parameters * KH_LIMIT_PARAMETER_STEPS,
		.method = method,
		.scheme = q->scheme,
		.host = &q->authority.host,
		.port = q->authority.port,
		.path = q->target.path,
		.path_slashed = q->target.path_slashed,
		.path_decoded = q->target.path_decoded,
		.path_cuts = q->target.path_cuts.n > 0 ? &q->target.path_cuts : NULL,
		.query = q->target.query,
		.fields = { kh_message_next_forwarded, &q->forwarded },
		.overrides = kh_overrides_any(&q->overrides) ? &q->overrides : NULL,
		.has_length = true,
		.length = q->message.content_length,
	};
	find_model(q);
	return true;
}

bool kh_dry_run_ask_text(struct kh_dry_run *q, struct kh_slice text, struct kh_err *err)
{
	size_t blank = kh_slice_find(text, ' ', 0);
	if (blank == text.len)
		return kh_dry_run_ask(q, KH_SLICE("GET"), text, err);
	return kh_dry_run_ask(q, kh_slice_sub(text, 0, blank),
			      kh_slice_sub(text, blank + 1, text.len), err);
}

void kh_dry_run_fini(struct kh_dry_run *q)
{
	kh_target_fini(&q->target);
}

static void answer_tunnel(const struct kh_dry_run *q, const struct kh_policy *policy,
			  uint16_t tenant, const struct kh_narrowing *narrowing,
			  struct kh_outcome *out)
{
	out->kind = kh_policy_tunnel(policy, tenant, narrowing, &q->authority.host,
				     q->authority.port, &out->decision);
	out->allow = out->kind == KH_TUNNEL_PASS || out->kind == KH_TUNNEL_RAW;
	out->reason = out->decision.reason;
	if (out->kind != KH_TUNNEL_READ)
		return;
	/* It is read; whether anything in it may pass is what can be said here. */
	out->allow = kh_policy_knows_host(policy, tenant, narrowing, KH_SCHEME_HTTPS,
					  &q->authority.host, q->authority.port) ||
		     kh_policy_knows_host(policy, tenant, narrowing, KH_SCHEME_HTTP,
					  &q->authority.host, q->authority.port);
	out->reason = out->allow ? KH_ERR_NONE : KH_ERR_NO_RULE;
	/* The rule by which it is read may say something else of what is in it. */
	if (out->decision.rule && out->decision.rule->allow != out->allow)
		out->decision.rule = NULL;
}

const char *kh_dry_run_binding_fault(const struct kh_dry_run *q,
				     const struct kh_credential_config *credential)
{
	const char *fault = kh_credential_binding_fault(credential, &q->view);
	if (fault || !credential->by_repository)
		return fault;
	char *repository = kh_repository_of(q->target.path);
	free(repository);
	return repository ? NULL : "a path that names no repository";
}

/* Of alternatives the first that has a value for this tenant; where that is not known of any, one
 * will do. */
static void look_at_bindings(const struct kh_dry_run *q, const struct kh_config *config,
			     uint16_t tenant, const struct kh_rule *rule, struct kh_outcome *out)
{
	bool known = false;
	for (size_t i = 0; i < rule->n_credentials; i++)
		known = known || kh_credential_is_present(
					 &config->credentials[rule->credentials[i]], tenant);
	for (size_t i = 0; i < rule->n_credentials; i++) {
		const struct kh_credential_config *one = &config->credentials[rule->credentials[i]];
		if (!rule->all_credentials && known && !kh_credential_is_present(one, tenant))
			continue;
		const char *fault = kh_dry_run_binding_fault(q, one);
		if (fault && !out->fault) {
			out->credential = one;
			out->fault = fault;
		}
		if (rule->all_credentials ? fault != NULL : !fault || known) {
			out->fault = fault;
			break;
		}
	}
	if (!out->fault)
		return;
	out->allow = false;
	out->reason = KH_ERR_CREDENTIAL_BINDING;
}

void kh_dry_run_answer(const struct kh_dry_run *q, const struct kh_config *config,
		       const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, struct kh_outcome *out)
{
	*out = (struct kh_outcome){ .reason = KH_ERR_NO_RULE };
	if (q->tunnel) {
		answer_tunnel(q, policy, tenant, narrowing, out);
		return;
	}
	kh_policy_decide(policy, tenant, narrowing, &q->view, &out->decision);
	out->allow = out->decision.allow;
	out->reason = out->decision.reason;
	struct kh_slice in_path = kh_carrier_find_in_query(q->target.path_cuts.query);
	out->carrier = in_path.len > 0 ? in_path : kh_carrier_find(&q->message, q->target.query);
	const struct kh_rule *rule = out->decision.rule;
	/* Where a credential goes in, it is taken out, but for what is in the path. */
	if (out->allow && in_path.len > 0 && rule->n_credentials > 0 && !out->decision.bare) {
		out->allow = false;
		out->reason = KH_ERR_CLIENT_AUTH;
	}
	if (out->allow && out->carrier.len > 0 && rule->n_credentials == 0 &&
	    !kh_decision_passes_auth(&out->decision) &&
	    !kh_decision_observe(policy, tenant, KH_ERR_CLIENT_AUTH, rule, &out->decision)) {
		out->allow = false;
		out->reason = KH_ERR_CLIENT_AUTH;
	}
	if (out->allow && !kh_exchange_upgrade_may_be(&q->message, &out->decision, &out->upgrade)) {
		out->allow = false;
		out->reason = out->upgrade.code;
		return;
	}
	if (out->allow && !out->decision.bare)
		look_at_bindings(q, config, tenant, rule, out);
}
