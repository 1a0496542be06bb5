/*
 * quota.c - the limits that apply to exchanges and connections
 *
 * An exchange is counted after everything else that decides about it has allowed it, and before
 * anything is recorded or sent. A limit that is reached is one more reason to refuse it. Its
 * content is counted as it is sent. For a tenant that only observes, a limit that is reached is
 * noted as what would have refused the request. At a reload, running exchanges move to the limits
 * that are then in force, without being refused.
 */

#include "exchange_internal.h"

struct kh_down_limits {
	struct kh_quota quota; /* of the loop's generation, whose pointers it holds */
	bool held;
	struct kh_reached reached, would_reach;
};

static struct kh_limits *limits_of(const struct kh_rule *rule)
{
	return rule && rule->more ? rule->more->limits : NULL;
}

/* The site's, the tenant's and the sandbox's. */
static struct kh_quota quota_at(const struct kh_standing *at)
{
	const struct kh_config *config = at->gen->config;
	const struct kh_tenant_config *tenant = &config->tenants[at->tenant];
	struct kh_quota quota = { 0 };

	kh_quota_set(&quota, KH_OF_SITE, config->site_limits);
	kh_quota_set(&quota, KH_OF_TENANT, tenant->limits);
	kh_quota_set(&quota, KH_OF_SANDBOX, at->listener->limits);
	quota.observes = tenant->mode == KH_MODE_OBSERVE;
	return quota;
}

static struct kh_quota quota_of(const struct kh_standing *at, const struct kh_decision *decision)
{
	struct kh_quota quota = quota_at(at);

	kh_quota_set(&quota, KH_OF_SITE_RULE, limits_of(decision->site_rule));
	kh_quota_set(&quota, KH_OF_RULE, limits_of(decision->rule));
	return quota;
}

static const char *owner_name(const struct kh_standing *at, enum kh_quota_owner owner,
			      const struct kh_decision *decision)
{
	switch (owner) {
	case KH_OF_TENANT:
		return at->gen->config->tenants[at->tenant].name;
	case KH_OF_SANDBOX:
		return at->listener->sandbox;
	case KH_OF_SITE_RULE:
		return decision && decision->site_rule ? decision->site_rule->text : "";
	case KH_OF_RULE:
		return decision && decision->rule ? decision->rule->text : "";
	case KH_OF_SITE:
	case KH_QUOTA_OWNERS:
		break;
	}
	return "";
}

/* While the limits are there. `decision`: whose rules have some; NULL: no rule's are among them. */
static struct kh_reached reached_of(const struct kh_standing *at, const struct kh_verdict *verdict,
				    const struct kh_decision *decision)
{
	struct kh_reached reached = { .verdict = *verdict };

	if (verdict->kind != KH_QUOTA_NONE)
		(void)snprintf(reached.owner, sizeof(reached.owner), "%.*s",
			       KH_LIMIT_OWNER_BYTES - 1, owner_name(at, verdict->owner, decision));
	return reached;
}

/* ---- exchanges ---- */

static uint64_t announced(const struct kh_exchange *x)
{
	if (kh_exchange_has_content(x))
		return x->content_bytes;
	if (x->tunnel || x->message->framing == KH_FRAMING_CHUNKED)
		return UINT64_MAX;
	return x->message->framing == KH_FRAMING_LENGTH ? x->message->content_length : 0;
}

/* Observed, and the first that was: enforced it would have been refused for this. */
static void note_would(struct kh_exchange *x, const struct kh_reached *reached)
{
	if (x->would_reach.verdict.kind != KH_QUOTA_NONE || reached->verdict.kind == KH_QUOTA_NONE)
		return;
	x->would_reach = *reached;
}

static void note_verdict(struct kh_exchange *x, const struct kh_verdict *verdict)
{
	const struct kh_reached reached = reached_of(&x->limited.at, verdict, &x->limited.decision);

	note_would(x, &reached);
}

static bool refuse(struct kh_exchange *x, const struct kh_verdict *verdict, struct kh_err *err)
{
	x->reached = reached_of(&x->limited.at, verdict, &x->limited.decision);
	kh_verdict_text(verdict, x->reached.owner, err);
	return false;
}

/* Content of that size: does anything forbid it? Return: it may go on. */
static bool check_size(struct kh_exchange *x, uint64_t bytes, struct kh_err *err)
{
	struct kh_verdict reached = { .kind = KH_QUOTA_MAX_BODY };
	bool tunnel = x->tunnel != 0;

	reached.most = kh_quota_least(&x->limits, KH_QUOTA_MAX_BODY, true, &reached.owner);
	if (!tunnel && reached.most > 0 && bytes > reached.most)
		return refuse(x, &reached, err);
	reached.most = kh_quota_least(&x->limits, KH_QUOTA_MAX_BODY, false, &reached.owner);
	if (!tunnel && reached.most > 0 && bytes > reached.most)
		note_verdict(x, &reached);
	return true;
}

/* Other limits than those that it has (at a reload). */
static void go_over(struct kh_exchange *x, const struct kh_standing *at,
		    const struct kh_decision *decision)
{
	struct kh_quota next = quota_of(at, decision);

	if (x->limits_held)
		kh_quota_move(&x->limits, &next, &at->gen->quota_ledger);
	x->limits = next;
	kh_ruling_take(&x->limited, at, decision);
}

bool kh_exchange_take_limits(struct kh_exchange *x, struct kh_err *err)
{
	const struct kh_standing at = kh_exchange_standing(x);
	struct kh_down_side *side = x->side;
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };
	uint64_t bytes = announced(x);

	if (x->limits_held) { /* decided anew */
		go_over(x, &at, &x->decision);
		return true;
	}
	if (!kh_down_take_place(side, err)) {
		if (side->limits) {
			x->reached = side->limits->reached;
			side->limits->reached.verdict.kind = KH_QUOTA_NONE;
		}
		return false;
	}
	x->limits = quota_of(&at, &x->decision);
	if (!x->limits.is_any)
		return true;
	kh_ruling_take(&x->limited, &at, &x->decision);
	if (bytes != UINT64_MAX && !check_size(x, bytes, err))
		return false;
	if (!kh_quota_begin(&x->limits, &x->gen->quota_ledger, side->loop->now_ms, bytes, &reached))
		return refuse(x, &reached, err);
	x->limits_held = true;
	if (side->limits)
		note_would(x, &side->limits->would_reach);
	note_verdict(x, &reached);
	return true;
}

void kh_exchange_leave_limits(struct kh_exchange *x)
{
	if (x->limits_held)
		kh_quota_end(&x->limits, &x->limited.at.gen->quota_ledger);
	x->limits_held = false;
	kh_ruling_leave(&x->limited);
}

void kh_exchange_change_limits(struct kh_exchange *x, const struct kh_standing *standing,
			       const struct kh_decision *decision)
{
	go_over(x, standing, decision);
}

size_t kh_exchange_spend(struct kh_exchange *x, enum kh_quota_kind kind, size_t bytes,
			 struct kh_err *err)
{
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };

	if (!x->limits.is_any)
		return bytes;
	if (kind == KH_QUOTA_BYTES_UP && !kh_exchange_is_websocket(x) &&
	    !check_size(x, x->up_bytes + bytes, err))
		return 0;
	size_t got = (size_t)kh_quota_take_bytes(&x->limits, &x->limited.at.gen->quota_ledger, kind,
						 x->side->loop->now_ms, bytes, &reached);
	if (got < bytes)
		(void)refuse(x, &reached, err);
	else
		note_verdict(x, &reached);
	return got;
}

bool kh_exchange_may_be_so_large(struct kh_exchange *x, uint64_t bytes, struct kh_err *err)
{
	return !x->limits.is_any || check_size(x, bytes, err);
}

/* A WebSocket, or what nobody reads. */
uint64_t kh_exchange_lifetime_ends(const struct kh_exchange *x)
{
	enum kh_quota_owner owner;
	uint64_t ms = x->limits.is_any
			      ? kh_quota_least(&x->limits, KH_QUOTA_TUNNEL_LIFETIME, true, &owner)
			      : 0;

	return ms > 0 ? x->started_ms + ms : UINT64_MAX;
}

void kh_exchange_lifetime_over(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_verdict reached = { .kind = KH_QUOTA_TUNNEL_LIFETIME };

	reached.most = kh_quota_least(&x->limits, KH_QUOTA_TUNNEL_LIFETIME, true, &reached.owner);
	(void)refuse(x, &reached, err);
}

const char *kh_reached_text(const struct kh_reached *reached, char out[KH_LIMIT_TEXT_BYTES])
{
	const struct kh_verdict *verdict = &reached->verdict;
	char limit[KH_VERDICT_LIMIT_BYTES];

	if (verdict->kind == KH_QUOTA_NONE)
		return NULL;
	snprintf(out, KH_LIMIT_TEXT_BYTES, "%s%s%.*s: %s", kh_quota_owner_name(verdict->owner),
		 reached->owner[0] ? " " : "", KH_LIMIT_TEXT_BYTES / 2, reached->owner,
		 kh_verdict_limit(verdict, limit));
	return out;
}

/* ---- connections ---- */

/* Into *slot, unless a place is held there; NULL stays where there are no limits. */
static bool take_place(const struct kh_down_side *side, struct kh_down_limits **slot,
		       struct kh_err *err)
{
	const struct kh_standing at = kh_acceptor_standing(side->acceptor);
	struct kh_quota quota = quota_at(&at);
	struct kh_verdict reached = { .kind = KH_QUOTA_NONE };

	if (!quota.is_any || (*slot && (*slot)->held))
		return true;
	if (!*slot && !(*slot = calloc(1, sizeof(**slot))))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a connection");
	(*slot)->quota = quota;
	(*slot)->held = kh_quota_connect(&quota, &at.gen->quota_ledger, &reached);
	if ((*slot)->held) {
		(*slot)->would_reach = reached_of(&at, &reached, NULL);
		return true;
	}
	const struct kh_reached refused = reached_of(&at, &reached, NULL);
	kh_verdict_text(&reached, refused.owner, err);
	/* For the record of that refusal. Without `err` nothing is refused yet. */
	if (err)
		(*slot)->reached = refused;
	return false;
}

bool kh_down_take_place(struct kh_down_side *side, struct kh_err *err)
{
	return take_place(side, &side->limits, err);
}

bool kh_down_take_place_within(struct kh_down_side *outer, struct kh_down_limits **out,
			       struct kh_err *err)
{
	*out = NULL;
	if (take_place(outer, out, err))
		return true;
	if (*out && outer->limits)
		outer->limits->reached = (*out)->reached; /* for its refusal */
	free(*out);
	*out = NULL;
	return false;
}

void kh_down_leave_place_within(struct kh_down_side *outer, struct kh_down_limits *limits)
{
	if (limits && limits->held)
		kh_quota_disconnect(&limits->quota, &outer->loop->gen->quota_ledger);
	free(limits);
}

void kh_down_leave_place(struct kh_down_side *side)
{
	kh_down_leave_place_within(side, side->limits);
	side->limits = NULL;
}

void kh_down_change_limits(struct kh_down_side *side)
{
	const struct kh_standing now = kh_acceptor_standing(side->acceptor);
	struct kh_quota next = quota_at(&now);
	struct kh_down_limits *limits = side->limits;

	if (limits && limits->held)
		kh_quota_reconnect(&limits->quota, &next, &now.gen->quota_ledger);
	if (limits)
		limits->quota = next;
	else
		(void)kh_down_take_place(side, NULL); /* or with its next request */
}

uint64_t kh_down_tunnel_ends(const struct kh_down_side *side)
{
	const struct kh_standing now = kh_acceptor_standing(side->acceptor);
	struct kh_quota quota = quota_at(&now);
	enum kh_quota_owner owner;
	uint64_t ms =
		quota.is_any ? kh_quota_least(&quota, KH_QUOTA_TUNNEL_LIFETIME, true, &owner) : 0;

	return ms > 0 ? side->loop->now_ms + ms : 0;
}

const char *kh_down_reached(struct kh_down_side *side, char out[KH_LIMIT_TEXT_BYTES])
{
	struct kh_down_limits *limits = side->limits;

	if (!limits || !kh_reached_text(&limits->reached, out))
		return NULL;
	limits->reached.verdict.kind = KH_QUOTA_NONE;
	return out;
}
