/*
 * denial.c - refusals that an agent can use
 *
 * Status, Proxy-Status (RFC 9209), and a body that says what was refused, by which rule or because
 * no rule matched, whether a retry makes sense, and what similar requests are allowed. The body is
 * text for tools that people use, else JSON in the dialect of the API (dialect.c). HTTP/1.1 also
 * has a reason phrase, a short form of the same, since pip, apt, wget and Go's tools show nothing
 * else.
 */

#include "exchange_internal.h"
#include "placeholder_check.h"
#include "websocket_internal.h"

enum { DENIAL_BYTES = 16 * 1024, NEARBY = 5, REASON_BYTES = 161 };

static bool is_limit(enum kh_err_code code)
{
	return code == KH_ERR_LIMIT || code == KH_ERR_LIMIT_SPENT || code == KH_ERR_TUNNEL_LIFETIME;
}

static bool is_denial(enum kh_err_code code)
{
	return kh_err_is_policy(code) && !is_limit(code);
}

/* Trying again without any change may help. A name that its server denies, or a certificate that is
 * not trusted, is the same a minute later. */
static bool is_passing(enum kh_err_code code)
{
	int status = kh_err_status(code);

	return code != KH_ERR_NAME_NOT_FOUND && code != KH_ERR_TLS_CERTIFICATE &&
	       (status == 429 || status == 502 || status == 503 || status == 504);
}

/* A rule allows the request, and its server's address is refused: that rule is no advice. */
static bool is_of_the_address(enum kh_err_code code)
{
	return code == KH_ERR_ADDRESS_PROHIBITED || code == KH_ERR_GEO_PROHIBITED;
}

/* A rule decided, and another request of the same kind is allowed: what the text asks for helps,
 * and a list of what is allowed would only say the same request again. */
static bool is_of_the_request(enum kh_err_code code)
{
	return code == KH_ERR_CLIENT_AUTH || code == KH_ERR_EXFILTRATION ||
	       code == KH_ERR_CREDENTIAL_PLACE || code == KH_ERR_PLACEHOLDER_MISSING ||
	       code == KH_ERR_REQUEST_TOO_COMPLEX || code == KH_ERR_MODEL_UNREADABLE;
}

static bool wants_text(const struct kh_exchange *x)
{
	if (!x)
		return true;
	const struct kh_field *accept = kh_message_field(x->message, KH_SLICE("accept"));
	const struct kh_field *agent = kh_message_field(x->message, KH_SLICE("user-agent"));
	if (accept && kh_slice_has_prefix(accept->value, KH_SLICE("text/plain")))
		return true;
	if (accept && !kh_slice_eq(accept->value, KH_SLICE("*/*")))
		return false;
	return agent && (kh_slice_has_prefix(agent->value, KH_SLICE("curl/")) ||
			 kh_slice_has_prefix(agent->value, KH_SLICE("Wget/")) ||
			 kh_slice_has_prefix(agent->value, KH_SLICE("git/")) ||
			 kh_slice_has_prefix(agent->value, KH_SLICE("pip/")));
}

/* "POST https://api.example.com/v1/x", without the query: it may hold what nobody should print. */
static void put_subject(struct kh_buf *out, const struct kh_exchange *x)
{
	kh_buf_append_str(out, kh_esc(kh_recognise_text_shown(x->message->method)));
	if (!x->authority.port)
		return;
	kh_buf_printf(out, " %s://", kh_scheme_name(x->scheme));
	kh_authority_format(out, &x->authority, kh_scheme_port(x->scheme));
	struct kh_slice path = kh_recognise_text_shown(x->target.raw_path);
	if (path.ptr != x->target.raw_path.ptr)
		kh_buf_append_char(out, '/');
	kh_buf_append_str(out, kh_esc(path));
}

static void put_nearby(struct kh_buf *out, const struct kh_down_side *side,
		       const struct kh_exchange *x)
{
	const char *texts[NEARBY];
	bool more = false;
	const struct kh_standing now = kh_acceptor_standing(side->acceptor);

	size_t n = kh_policy_nearby(now.gen->policy, now.tenant,
				    x->decision.list == KH_LIST_SANDBOX ? now.narrowing : NULL,
				    &x->authority.host, texts, NEARBY, &more);
	if (n == 0) {
		kh_buf_append_str(out, " Nothing is allowed here.");
		return;
	}
	kh_buf_append_str(out, " Allowed:");
	for (size_t i = 0; i < n; i++)
		kh_buf_printf(out, "%s %s", i ? ";" : "", texts[i]);
	kh_buf_append_str(out, more ? "; and more, see http://keyhole.internal/." : ".");
}

static void put_message(struct kh_buf *out, const struct kh_down_side *side,
			const struct kh_exchange *x, const struct kh_err *err)
{
	kh_buf_append_str(out, "keyhole: ");
	if (x) {
		put_subject(out, x);
		kh_buf_append_str(out, is_denial(err->code) ? " is not allowed: " : ": ");
	}
	kh_buf_append_str(out, err->text);
	kh_buf_append_char(out, '.');
	if (err->code == KH_ERR_CLIENT_AUTH) {
		kh_buf_append_str(out, " Trying again with it will not help; without it the rules "
				       "allow this request.");
	} else if (is_denial(err->code) && !is_of_the_request(err->code)) {
		kh_buf_append_str(out, " Trying again will not help: ask the person who runs this "
				       "sandbox, or use what is allowed.");
		if (x && !is_of_the_address(err->code))
			put_nearby(out, side, x);
	} else if (is_of_the_request(err->code) || !is_passing(err->code)) {
		kh_buf_append_str(out, " Trying again the same way will not help.");
	}
}

/* For programs: whose limit, how much of it is used, and when that ends. */
static void put_limit(struct kh_buf *out, const struct kh_exchange *x)
{
	const struct kh_verdict *reached = &x->reached.verdict;
	char limit[KH_VERDICT_LIMIT_BYTES];

	kh_buf_printf(out,
		      ",\"limit\":{\"of\":\"%s\",\"name\":", kh_quota_owner_name(reached->owner));
	kh_json_string(out, kh_slice_str(x->reached.owner));
	kh_buf_append_str(out, ",\"limit\":");
	kh_json_string(out, kh_slice_str(kh_verdict_limit(reached, limit)));
	kh_buf_printf(out, ",\"used\":%llu,\"most\":%llu", (unsigned long long)reached->used,
		      (unsigned long long)reached->most);
	if (reached->wait_ms > 0 && reached->wait_ms != UINT64_MAX)
		kh_buf_printf(out, ",\"retry_after_ms\":%llu",
			      (unsigned long long)reached->wait_ms);
	if (reached->reset_ms > 0)
		kh_buf_printf(out, ",\"reset_ms\":%llu", (unsigned long long)reached->reset_ms);
	kh_buf_append_str(out, "}");
}

static void put_json(struct kh_buf *out, struct kh_slice message, const struct kh_exchange *x,
		     const struct kh_err *err)
{
	const struct kh_rule *rule = x ? x->decision.rule : NULL;

	kh_dialect_put(out, x, message, err);
	kh_buf_printf(out, ",\"keyhole\":{\"reason\":\"%s\",\"retry\":%s", kh_err_reason(err->code),
		      is_passing(err->code) ? "true" : "false");
	if (rule) {
		kh_buf_append_str(out, ",\"rule\":");
		kh_json_string(out, kh_slice_str(rule->text));
	}
	if (x && x->reached.verdict.kind != KH_QUOTA_NONE)
		put_limit(out, x);
	if (x)
		kh_buf_printf(out, ",\"id\":\"%s\"", x->id);
	kh_buf_append_str(out, "}}\n");
}

/* RFC 8941 strings hold printable ASCII; kh_err's texts are escaped already, quotes and backslashes
 * are not. */
static void put_proxy_status(struct kh_buf *out, const struct kh_err *err)
{
	enum { DETAILS = 256 };

	kh_buf_append_str(out, "keyhole");
	if (kh_err_proxy_status(err->code)[0])
		kh_buf_printf(out, "; error=%s", kh_err_proxy_status(err->code));
	kh_buf_append_str(out, "; details=\"");
	for (size_t i = 0; err->text[i] && i < DETAILS; i++) {
		char c = err->text[i];
		if (c == '"' || c == '\\')
			kh_buf_append_char(out, '\\');
		kh_buf_append_char(out, c >= 0x20 && c < 0x7f ? c : '?');
	}
	kh_buf_append_char(out, '"');
}

/* "keyhole: no rule allows it", of what RFC 9112 §4 lets a reason phrase be, without what would be
 * cut off. */
static struct kh_slice reason_phrase(const struct kh_err *err, char *out, size_t room)
{
	size_t n = (size_t)snprintf(out, room, "keyhole: %s", err->text);

	n = n < room ? n : room - 1;
	for (size_t i = 0; i < n; i++)
		if (out[i] < 0x20 || out[i] > 0x7e)
			out[i] = '?';
	return kh_slice_of(out, n);
}

/* RFC 6455 §4.4: it is told which version there is. */
static bool asks_for_other_version(const struct kh_exchange *x)
{
	const struct kh_field *version =
		x ? kh_message_field(x->message, KH_SLICE("Sec-WebSocket-Version")) : NULL;

	return x && kh_ws_is_request(x->message) &&
	       (!version || !kh_slice_eq(version->value, KH_SLICE("13")));
}

bool kh_denial_put(struct kh_down_stream *down, const struct kh_down_side *side,
		   const struct kh_exchange *x, const struct kh_err *err)
{
	struct kh_buf message, body, status;
	bool text = wants_text(x);

	kh_buf_init(&message, DENIAL_BYTES);
	kh_buf_init(&body, 2 * DENIAL_BYTES);
	kh_buf_init(&status, DENIAL_BYTES);
	put_message(&message, side, x, err);
	if (text) {
		kh_buf_append_slice(&body, kh_buf_view(&message));
		kh_buf_append_char(&body, '\n');
	} else {
		put_json(&body, kh_buf_view(&message), x, err);
	}
	put_proxy_status(&status, err);

	char seconds[16], phrase[REASON_BYTES];
	struct kh_field fields[7] = {
		{ KH_SLICE("Content-Type"),
		  text ? KH_SLICE("text/plain; charset=utf-8") : KH_SLICE("application/json") },
		{ KH_SLICE("Cache-Control"), KH_SLICE("no-store") },
		{ KH_SLICE("Proxy-Status"), kh_buf_view(&status) },
	};
	size_t n_fields = 3;
	if (asks_for_other_version(x))
		fields[n_fields++] =
			(struct kh_field){ KH_SLICE("Sec-WebSocket-Version"), KH_SLICE("13") };
	if (err->code == KH_ERR_PROXY_AUTH)
		fields[n_fields++] = (struct kh_field){ KH_SLICE("Proxy-Authenticate"),
							KH_SLICE("Basic realm=\"keyhole\"") };
	/* The libraries of Anthropic and OpenAI retry each 5xx, for minutes in some agents, but for
	 * this field. */
	if (!is_passing(err->code) && kh_err_status(err->code) >= 500)
		fields[n_fields++] =
			(struct kh_field){ KH_SLICE("X-Should-Retry"), KH_SLICE("false") };
	if (err->retry_after_s > 0) {
		snprintf(seconds, sizeof(seconds), "%u", err->retry_after_s);
		fields[n_fields++] =
			(struct kh_field){ KH_SLICE("Retry-After"), kh_slice_str(seconds) };
	}
	const struct kh_answer answer = {
		.status = (uint16_t)kh_err_status(err->code),
		.code = err->code,
		.reason = reason_phrase(err, phrase, sizeof(phrase)),
		.fields = fields,
		.n_fields = n_fields,
		.content = kh_buf_view(&body),
	};
	bool ok = down->ops->put_answer(down, &answer);
	kh_buf_fini(&message);
	kh_buf_fini(&body);
	kh_buf_fini(&status);
	return ok;
}
