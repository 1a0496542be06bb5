/* exchange_audit.c - the records of an exchange in the journal, and its lines in the log */

#include <keyhole/base/escape.h>

#include <string.h>

#include "exchange_internal.h"
#include "placeholder_check.h"
#include "websocket_internal.h"

void kh_exchange_audit_name_rule(struct kh_audit_open *out, const struct kh_config *config,
				 const struct kh_rule *rule)
{
	if (!rule)
		return;
	out->rule = rule->text;
	out->rule_where = rule->where;
	out->rule_file = rule->preset			      ? rule->preset
			 : rule->where.file < config->n_files ? config->files[rule->where.file]
							      : NULL;
}

/* Whose rules refused it. Return: NULL where it was no rule's affair. */
static const char *denied_by(const struct kh_exchange *x)
{
	enum kh_list list;

	if (x->reason == KH_ERR_DENIED_BY_RULE || x->reason == KH_ERR_NO_RULE ||
	    x->reason == KH_ERR_TUNNEL_ONLY)
		return x->decision.allow ? NULL : kh_list_name(x->decision.list);
	if (x->reason == KH_ERR_UPGRADE_UNSUPPORTED && kh_ws_is_request(x->message) &&
	    kh_decision_no_websocket(&x->decision, &list))
		return kh_list_name(list);
	return NULL;
}

/* It may come from the content, which nothing else looks through. */
static const char *model_shown(const struct kh_exchange *x)
{
	if (!x->model || x->target_hidden)
		return NULL;
	bool refused = x->reason != KH_ERR_NONE;
	return kh_recognise_in_text(x->side->loop->worker, kh_slice_str(x->model), refused)
		       ? "(hidden)"
		       : x->model;
}

/* A rule's denial that is only observed, else a limit's. */
static const char *would_deny(const struct kh_exchange *x)
{
	if (x->decision.would != KH_ERR_NONE)
		return kh_err_reason(x->decision.would);
	return x->would_reach.verdict.kind == KH_QUOTA_NONE
		       ? NULL
		       : kh_err_reason(kh_verdict_code(&x->would_reach.verdict));
}

void kh_exchange_describe(const struct kh_exchange *x, struct kh_audit_open *out,
			  struct kh_exchange_texts *texts)
{
	const struct kh_down_side *side = x->side;
	const struct kh_config *config = x->gen->config;

	*out = (struct kh_audit_open){
		.id = x->id,
		.tenant = config->tenants[x->tenant].name,
		.sandbox = x->listener->sandbox,
		.peer_pid = (uint32_t)side->peer.pid,
		.peer_uid = side->peer.uid,
		.client = side->peer.address[0] ? side->peer.address : NULL,
		.via = x->base_url ? "base_url" : side->via,
		.tunnel = x->tunnel == KH_TUNNEL_PASS  ? "passthrough"
			  : x->tunnel == KH_TUNNEL_RAW ? "tcp"
						       : NULL,
		.method = kh_recognise_method_shown(x),
		.version = x->message->h2	    ? "2"
			   : x->message->minor == 0 ? "1.0"
						    : NULL,
		.scheme = x->scheme,
		.authority = !x->authority.port ? NULL
			     : x->host_hidden	? kh_authority_hidden()
						: &x->authority,
		.path = x->target_hidden ? KH_SLICE("/(hidden)") : x->target.raw_path,
		.query = x->target_hidden ? KH_SLICE("") : x->target.query,
		.model = model_shown(x),
		.credential = kh_injection_names(&x->injection, texts->credentials,
						 sizeof(texts->credentials)),
		.stripped = x->stripped[0] ? x->stripped : NULL,
	};
	kh_exchange_audit_name_rule(out, config, x->decision.rule);
	if (x->answered.at_ms) {
		out->answer = kh_reply_name(x->answered.reply);
		out->answer_uid = x->answered.uid;
		out->answer_ms = x->answered.at_ms;
	}
	out->denied_by = denied_by(x);
	out->would_deny = would_deny(x);
	out->would_rule = x->decision.would_rule ? x->decision.would_rule->text : NULL;
	out->would_limit = kh_reached_text(&x->would_reach, texts->limit);
}

void kh_exchange_note(struct kh_exchange *x, enum kh_err_code reason, const char *detail)
{
	if (x->reason != KH_ERR_NONE)
		return; /* the first cause counts */
	x->reason = reason;
	if (detail)
		snprintf(x->detail, sizeof(x->detail), "%.*s", (int)sizeof(x->detail) - 1, detail);
	if (detail && strlen(detail) >= sizeof(x->detail))
		kh_esc_mark_cut(x->detail);
}

static struct kh_audit_websocket describe_websocket(const struct kh_websocket *w)
{
	return (struct kh_audit_websocket){
		.close_code = w->code ? w->code : KH_WS_CODE_LOST,
		.close_by = w->code ? w->code_by : "sandbox",
		.up_messages = w->up.messages,
		.down_messages = w->down.messages,
	};
}

/* Refused behind its open record, by an address or a limit for instance: the journal has a close
 * record of few words, and who watches a refusal like any other. */
static void show_refusal(const struct kh_exchange *x, const struct kh_audit_close *how)
{
	const struct kh_loop *loop = x->side->loop;
	struct kh_exchange_texts texts;
	struct kh_audit_open what;
	struct kh_batch batch;

	if ((!kh_err_is_policy(x->reason) && x->reached.verdict.kind == KH_QUOTA_NONE) ||
	    !kh_events_is_watched(atomic_load(&loop->events)))
		return;
	kh_batch_init(&batch);
	kh_exchange_describe(x, &what, &texts);
	if (kh_audit_deny(&batch, &what, how))
		kh_loop_show(x->side->loop, what.tenant, what.sandbox, &batch);
	kh_batch_fini(&batch);
}

bool kh_exchange_record_anew(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_loop *loop = x->side->loop;
	char id[KH_EXCHANGE_ID_BYTES], detail[96];

	if (x->record_state == KH_RECORD_NONE)
		return true;
	kh_exchange_id(id);
	(void)snprintf(detail, sizeof(detail),
		       "the rules changed before anything was sent: it goes on as %s", id);
	const struct kh_audit_close how = {
		.id = x->id,
		.reason = KH_ERR_DECIDED_ANEW,
		.detail = detail,
		.duration_ms = loop->now_ms - x->started_ms,
	};
	if (!kh_loop_make_room(loop) || !kh_audit_close(&loop->batch, &how))
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
				  "the journal does not take records, so nothing is forwarded");
	kh_ends_release(&loop->ends);
	memcpy(x->id, id, sizeof(id));
	return kh_exchange_set_record(x, KH_RECORD_CLOSED, err) &&
	       kh_exchange_set_record(x, KH_RECORD_NONE, err);
}

void kh_exchange_record_end(struct kh_exchange *x)
{
	char limit[KH_LIMIT_TEXT_BYTES], would[KH_LIMIT_TEXT_BYTES];
	struct kh_audit_websocket websocket = { 0 };
	struct kh_batch *batch = &x->side->loop->batch;
	enum kh_record_state record = x->record_state;
	bool opened = record != KH_RECORD_NONE;
	uint64_t now = x->side->loop->now_ms;
	struct kh_audit_close how = {
		.id = x->id,
		.status = x->status,
		.reason = x->reason,
		.detail = x->detail[0] ? x->detail : NULL,
		.limit = kh_reached_text(&x->reached, limit),
		.would_limit =
			record == KH_RECORD_OPEN ? kh_reached_text(&x->would_reach, would) : NULL,
		.up_bytes = x->up_bytes,
		.down_bytes = x->down_bytes,
		.duration_ms = now - x->started_ms,
		.first_byte_ms = x->first_byte_ms ? x->first_byte_ms - x->started_ms : 0,
		.peer = x->peer[0] ? x->peer : NULL,
		.country = x->place.country[0] ? x->place.country : NULL,
		.asn = x->place.asn,
		.tls = x->tls,
		.placeholders = kh_placeholder_found_in_content(x),
		.reused = x->up.reused,
		.retries = x->heads > 1 ? x->heads - 1 : 0,
		.complete = kh_exchange_has_answer(x) && x->reason == KH_ERR_NONE,
	};

	if (!kh_exchange_set_record(x, KH_RECORD_CLOSED, NULL))
		return;
	if (x->marked_there && opened) {
		how.would_deny = kh_err_reason(x->decision.would);
		how.would_rule = x->decision.would_rule ? x->decision.would_rule->text : NULL;
		how.withheld = x->withheld;
	}
	if (kh_exchange_is_websocket(x)) {
		websocket = describe_websocket(x->websocket);
		how.websocket = &websocket;
	}
	kh_exchange_count_end(x, opened);
	if (opened) {
		(void)kh_loop_make_room(x->side->loop);
		if (kh_audit_close(batch, &how))
			kh_ends_release(&x->side->loop->ends);
		else
			kh_ends_owe(&x->side->loop->ends, &how);
		show_refusal(x, &how);
	} else {
		struct kh_audit_open what;
		struct kh_exchange_texts texts;
		kh_exchange_describe(x, &what, &texts);
		kh_refusal_record(x->side->acceptor, &what, &how);
		kh_loop_call(x->side->loop, KH_LOOP_ANSWER, &x->side->answer);
	}
	if (x->reason == KH_ERR_NONE)
		return;
	/* Refusals by policy are the audit's affair; what failed is the operator's as well. */
	if (kh_err_is_policy(x->reason) || x->reached.verdict.kind != KH_QUOTA_NONE)
		kh_log_debug("%s: %s: %s", x->id, kh_err_reason(x->reason), x->detail);
	else if (kh_acceptor_may_log(x->side->acceptor))
		kh_log_info("%s: %s: %s", x->id, kh_err_reason(x->reason), x->detail);
}
