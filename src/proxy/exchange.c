/*
 * exchange.c - one request and its response
 *
 * begin ─▶ (SECRET) ─▶ COMMIT ─▶ CONNECT ─▶ RELAY ─▶ ENDED
 *
 * Nothing is resolved, dialled or sent before the open record stands in the journal (COMMIT).
 * Whatever fails comes to kh_exchange_fail: an answer where none was begun, else the end of the
 * connection; a close record in any case.
 */

#include <keyhole/clock.h>

#include "proxy_internal.h"

void kh_exchange_describe(const struct kh_exchange *x, struct kh_audit_open *out)
{
	const struct kh_session *session = x->session;
	const struct kh_config *config = x->gen->config;
	const struct kh_rule *rule = x->decision.rule;

	*out = (struct kh_audit_open){
		.id = x->id,
		.tenant = config->tenants[x->tenant].name,
		.sandbox = session->door->config->sandbox,
		.peer_pid = (uint32_t)session->peer.pid,
		.peer_uid = session->peer.uid,
		.method = x->message->method,
		.scheme = x->scheme,
		.authority = x->authority.port ? &x->authority : NULL,
		.path = x->target.raw_path,
		.query = x->target.query,
		.rule = rule ? rule->text : NULL,
		.credential = x->credential ? x->credential->name : NULL,
		.stripped = x->stripped[0] ? x->stripped : NULL,
	};
	if (rule) {
		out->rule_where = rule->where;
		out->rule_file = rule->preset ? rule->preset
				 : rule->where.file < config->n_files
					 ? config->files[rule->where.file]
					 : NULL;
	}
}

void kh_exchange_note(struct kh_exchange *x, enum kh_err_code reason, const char *detail)
{
	if (x->reason != KH_ERR_NONE)
		return; /* the first cause counts */
	x->reason = reason;
	if (detail)
		snprintf(x->detail, sizeof(x->detail), "%.*s", (int)sizeof(x->detail) - 1, detail);
}

static void write_end(struct kh_exchange *x)
{
	struct kh_batch *batch = &x->session->loop->batch;
	uint64_t now = x->session->loop->now_ms;
	struct kh_audit_close how = {
		.id = x->id,
		.status = x->status,
		.reason = x->reason,
		.detail = x->detail[0] ? x->detail : NULL,
		.up_bytes = x->up_bytes,
		.down_bytes = x->down_bytes,
		.duration_ms = now - x->started_ms,
		.first_byte_ms = x->first_byte_ms ? x->first_byte_ms - x->started_ms : 0,
		.peer = x->peer[0] ? x->peer : NULL,
		.tls = x->tls[0] ? x->tls : NULL,
		.reused = x->reused,
		.complete = x->response_done && x->reason == KH_ERR_NONE,
	};

	bool room = kh_loop_make_room(x->session->loop);
	if (x->opened) {
		(void)kh_audit_close(batch, &how);
	} else if (room) {
		struct kh_audit_open what;
		kh_exchange_describe(x, &what);
		(void)kh_audit_deny(batch, &what, &how);
		kh_loop_hold(x->session);
	}
	if (x->reason == KH_ERR_NONE)
		return;
	/* Refusals by policy are the audit's affair; what failed is the operator's as well. */
	if (kh_err_status(x->reason) == 403)
		kh_log_debug("%s: %s: %s", x->id, kh_err_reason(x->reason), x->detail);
	else
		kh_log_info("%s: %s: %s", x->id, kh_err_reason(x->reason), x->detail);
}

void kh_exchange_free(struct kh_exchange *x)
{
	bool clean = x->response_done && x->request_done && x->reason == KH_ERR_NONE;

	write_end(x);
	if (x->up) {
		x->up->exchange = NULL;
		kh_up_release(x->up, clean);
	}
	kh_list_remove(&x->commit_link);
	kh_secret_unref(x->secret);
	kh_target_fini(&x->target);
	kh_generation_unref(x->gen);
	x->session->exchange = NULL;
	free(x);
}

/* An answer of our own is in `down.out`; how does the connection go on? */
static void answered_locally(struct kh_exchange *x)
{
	struct kh_session *session = x->session;
	bool request_done = x->request_done, keep = !x->close_down;

	kh_exchange_free(x);
	if (keep && !request_done) {
		session->state = KH_SESSION_DISCARD;
		session->deadline_ms = 0;
		session->discarded_bytes = 0;
	} else {
		kh_session_exchange_over(session, keep);
	}
}

void kh_exchange_fail(struct kh_exchange *x, const struct kh_err *err)
{
	struct kh_session *session = x->session;

	kh_exchange_note(x, err->code, err->text);
	/* A response that turns out to be broken in the turn in which it began has not left yet. */
	if (x->response_begun && kh_leg_rewind(&session->down, x->down_mark))
		x->response_begun = false;
	if (x->response_begun && x->down_framing != KH_FRAMING_CLOSE &&
	    kh_err_status(err->code) != 0) {
		/* What has come still goes down; the end before the announced one shows that it is
		 * not all. */
		x->close_down = true;
		answered_locally(x);
		return;
	}
	if (x->response_begun || kh_err_status(err->code) == 0) {
		/* The sandbox must see that this response is not whole. */
		kh_session_kill(session, err->code, err->text);
		return;
	}
	/* What is malformed leaves no common idea of where the next request begins. */
	if (err->code == KH_ERR_REQUEST_MALFORMED || err->code == KH_ERR_REQUEST_TIMEOUT ||
	    err->code == KH_ERR_AUTHORITY_MISMATCH || !x->message->keep_alive || session->eof ||
	    session->loop->draining)
		x->close_down = true;
	x->status = (uint16_t)kh_err_status(err->code);
	if (!kh_denial_put(&session->down.out, session, x, err, !x->close_down)) {
		kh_session_kill(session, err->code, err->text);
		return;
	}
	answered_locally(x);
}

static void go_commit(struct kh_exchange *x)
{
	struct kh_audit_open record;
	struct kh_err err = KH_ERR_INIT;

	kh_exchange_describe(x, &record);
	x->state = KH_EXCHANGE_COMMIT;
	if (!kh_loop_make_room(x->session->loop) ||
	    !kh_audit_open(&x->session->loop->batch, &record)) {
		kh_err_set(&err, KH_ERR_AUDIT_UNAVAILABLE,
			   "the journal does not take records, so nothing is forwarded");
		kh_exchange_fail(x, &err);
		return;
	}
	x->opened = true;
	kh_loop_commit(x->session->loop, x);
}

/* Return: the credential is in hand, or is not needed. */
static void get_secret(struct kh_exchange *x)
{
	struct kh_err err = KH_ERR_INIT;

	if (!x->credential) {
		go_commit(x);
		return;
	}
	switch (kh_worker_secret(x->session->loop->worker, x->gen, x->credential_index,
				 &x->secret)) {
	case KH_SLOT_FULL:
		go_commit(x);
		return;
	case KH_SLOT_ASKED:
		x->state = KH_EXCHANGE_SECRET;
		return;
	case KH_SLOT_EMPTY:
	case KH_SLOT_MISSING:
		break;
	}
	kh_err_set(&err, KH_ERR_CREDENTIAL_UNAVAILABLE,
		   "the credential %s has no value on the host", x->credential->name);
	kh_exchange_fail(x, &err);
}

void kh_exchange_secret_came(struct kh_exchange *x)
{
	struct kh_session *session = x->session;

	get_secret(x);
	kh_session_turn(session);
}

void kh_exchange_recheck(struct kh_exchange *x)
{
	struct kh_generation *now = x->session->loop->gen;
	struct kh_err err = KH_ERR_INIT;

	if (x->state == KH_EXCHANGE_SECRET) {
		kh_generation_unref(x->gen);
		x->gen = kh_generation_ref(now);
		x->tenant = x->session->door->config->tenant;
		x->credential = NULL;
		x->stripped[0] = '\0';
		if (kh_request_decide(x, &err))
			get_secret(x);
		else
			kh_exchange_fail(x, &err);
		return;
	}
	if (kh_request_is_allowed(x, now)) {
		kh_up_recheck(x);
		return;
	}
	kh_err_set(&err, KH_ERR_NO_RULE, "the rules changed while it ran, and no longer allow it");
	kh_exchange_fail(x, &err);
}

void kh_exchange_begin(struct kh_session *session, const struct kh_message *message)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_exchange *x = calloc(1, sizeof(*x));

	if (!x) {
		kh_session_kill(session, KH_ERR_NO_MEMORY, NULL);
		return;
	}
	session->exchange = x;
	x->session = session;
	x->message = message;
	x->gen = kh_generation_ref(session->loop->gen);
	x->tenant = session->door->config->tenant;
	x->started_ms = x->progress_ms = session->loop->now_ms;
	x->close_down = !message->keep_alive;
	kh_exchange_id(x->id);
	if (!kh_request_resolve(x, &err) || !kh_request_decide(x, &err)) {
		kh_exchange_fail(x, &err);
		return;
	}
	get_secret(x);
}

void kh_exchange_committed(struct kh_exchange *x, bool written)
{
	struct kh_session *session = x->session;
	struct kh_err err = KH_ERR_INIT;

	if (written) {
		x->state = KH_EXCHANGE_CONNECT;
		kh_up_acquire(x, false);
	} else {
		kh_err_set(&err, KH_ERR_AUDIT_UNAVAILABLE,
			   "the journal can't be written, so nothing is forwarded");
		kh_exchange_fail(x, &err);
	}
	kh_session_turn(session);
}

void kh_exchange_up_failed(struct kh_exchange *x, const struct kh_err *err)
{
	struct kh_up *up = x->up;

	x->up = NULL;
	if (up) {
		up->exchange = NULL;
		kh_up_close(up);
	}
	kh_exchange_fail(x, err);
}

void kh_exchange_up_ready(struct kh_exchange *x)
{
	struct kh_up *up = x->up;
	struct kh_err err = KH_ERR_INIT;
	const char *version = kh_stream_tls_version(up->leg.stream);

	x->state = KH_EXCHANGE_RELAY;
	x->reused = up->reused;
	x->progress_ms = x->session->loop->now_ms;
	memcpy(x->peer, up->peer, sizeof(x->peer));
	snprintf(x->tls, sizeof(x->tls), "%s", version ? version : "");
	kh_h1_expect_response_to(up->h1, x->message->method);
	if (!kh_request_put_head(x, &up->leg.out, &err))
		kh_exchange_fail(x, &err);
}

bool kh_exchange_takes_body(const struct kh_exchange *x)
{
	if (x->request_done)
		return false;
	if (x->message->framing == KH_FRAMING_NONE)
		return true;
	return x->state == KH_EXCHANGE_RELAY && x->up && !kh_leg_is_full(&x->up->leg);
}

void kh_exchange_body(struct kh_exchange *x, struct kh_slice piece)
{
	struct kh_leg *leg = &x->up->leg;
	bool ok = true;

	x->body_sent = true;
	x->up_bytes += piece.len;
	if (x->up_framing == KH_FRAMING_CHUNKED)
		ok = kh_h1_put_chunk_head(&leg->out, piece.len);
	ok = ok && kh_leg_put(leg, piece);
	if (x->up_framing == KH_FRAMING_CHUNKED)
		ok = ok && kh_leg_put(leg, KH_SLICE("\r\n"));
	/* An upstream that stopped reading may have said why: its answer is read, the rest of the
	 * content is not sent, and nothing else ever is: it would be taken for content. */
	if (!ok)
		leg->failed = true;
}

/* What may not stand in the head does not come in behind the content. */
static bool may_trail(const struct kh_exchange *x, struct kh_slice name)
{
	if (x->credential)
		return !kh_carrier_is_field(name) && !kh_credential_sets_field(x->credential, name);
	return x->decision.rule->client_auth_pass || !kh_carrier_is_field(name);
}

static void put_request_end(struct kh_exchange *x)
{
	struct kh_field kept[KH_LIMIT_FIELDS];
	size_t n = 0, n_kept = 0;
	const struct kh_field *trailers = kh_h1_trailers(x->session->h1, &n);

	for (size_t i = 0; i < n; i++)
		if (may_trail(x, trailers[i].name))
			kept[n_kept++] = trailers[i];
	if (!kh_h1_put_last_chunk(&x->up->leg.out, kept, n_kept))
		x->up->leg.failed = true;
}

void kh_exchange_request_end(struct kh_exchange *x)
{
	x->request_done = true;
	if (x->up_framing == KH_FRAMING_CHUNKED && x->up)
		put_request_end(x);
	if (x->response_done) {
		struct kh_session *session = x->session;
		bool keep = !x->close_down;
		kh_exchange_free(x);
		kh_session_exchange_over(session, keep);
	}
}
