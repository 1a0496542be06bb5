/* down_deny.c - records what is refused before there is an exchange, in the journal and the log */

#include "exchange_internal.h"
#include "placeholder_check.h"

/* As what the journal gets. `reached`: the limit `connections` refused it. */
static void count_denial(struct kh_down_side *side, enum kh_err_code code, bool reached)
{
	struct kh_loop *loop = side->loop;
	const struct kh_standing now = kh_acceptor_standing(side->acceptor);
	struct kh_tally **tallies = now.gen->tallies;
	struct kh_tally_row *row = tallies ? kh_tally_row(tallies[now.tenant], loop->index) : NULL;

	if (row)
		kh_counter_add(&row->requests[KH_FATE_DENY], 1);
	atomic_fetch_add_explicit(&side->acceptor->listener_stats->fates[KH_FATE_DENY], 1,
				  memory_order_relaxed);
	kh_counter_add(&loop->counts.denials[code], 1);
	if (code == KH_ERR_LIMIT && reached)
		kh_counter_add(&loop->counts.limits[KH_QUOTA_CONNECTIONS], 1);
}

void kh_down_deny_to(struct kh_down_side *side, const struct kh_authority *authority,
		     const struct kh_err *err)
{
	const struct kh_standing now = kh_acceptor_standing(side->acceptor);
	const struct kh_config *config = now.gen->config;
	char id[KH_EXCHANGE_ID_BYTES], limit[KH_LIMIT_TEXT_BYTES];

	/* The sandbox was told what anybody is told of such a host. */
	struct kh_worker *worker = side->loop->worker;
	bool host_holds =
		authority && kh_recognise_in_text(worker, kh_host_view(&authority->host), true);
	bool holds = host_holds || kh_recognise_in_text(worker, kh_slice_str(err->text), true);
	enum kh_err_code code = holds ? KH_ERR_EXFILTRATION : err->code;
	const char *detail =
		holds ? "what it names contains a real credential, which stays on the host"
		      : err->text;

	kh_exchange_id(id);
	struct kh_audit_open what = {
		.id = id,
		.tenant = config->tenants[now.tenant].name,
		.sandbox = now.listener->sandbox,
		.peer_pid = (uint32_t)side->peer.pid,
		.peer_uid = side->peer.uid,
		.client = side->peer.address[0] ? side->peer.address : NULL,
		.via = side->via,
		.authority = host_holds ? kh_authority_hidden() : authority,
		.scheme = side->tls ? KH_SCHEME_HTTPS : KH_SCHEME_NONE,
	};
	struct kh_decision decision;
	/* Which rule said so: it is asked once more. */
	if (authority && (err->code == KH_ERR_DENIED_BY_RULE || err->code == KH_ERR_NO_RULE) &&
	    (kh_policy_tunnel(now.gen->policy, now.tenant, now.narrowing, &authority->host,
			      authority->port, &decision) == KH_TUNNEL_DENIED ||
	     kh_policy_bars(now.gen->policy, now.tenant, now.narrowing, &authority->host,
			    authority->port, &decision))) {
		kh_exchange_audit_name_rule(&what, config, decision.rule);
		what.denied_by = kh_list_name(decision.list);
	}
	struct kh_audit_close how = {
		.id = id,
		.status = (uint16_t)kh_err_status(err->code),
		.reason = code,
		.detail = detail,
		.limit = err->code == KH_ERR_LIMIT ? kh_down_reached(side, limit) : NULL,
	};
	count_denial(side, code, how.limit != NULL);
	kh_refusal_record(side->acceptor, &what, &how);
	kh_loop_call(side->loop, KH_LOOP_ANSWER, &side->answer);
	if (kh_acceptor_may_log(side->acceptor))
		kh_log_info("%s: refused: %s", id, detail);
}

void kh_down_deny(struct kh_down_side *side, const struct kh_err *err)
{
	kh_down_deny_to(side, side->tunnel ? &side->authority : NULL, err);
}
