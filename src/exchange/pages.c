/*
 * pages.c - http://keyhole.internal/: what a sandbox is told about itself
 *
 * Its name, what it may reach, which credentials are ready, what is left of its limits; and, at
 * /why (dry_run_page.c), how a request would be decided. As text for people and models; as JSON if
 * `Accept` asks for it. /ca.pem is the certificate that clients must trust, for a sandbox that
 * keyhole did not set up itself; it is no secret to whoever can connect to the socket.
 *
 * The pages show nothing of other tenants; of the site's rules only that there are some; no private
 * address; of a credential its name and whether it has a value. Each page is an exchange like any
 * other, with two records in the journal.
 */

#include <keyhole/config/config.h>

#include "pages_internal.h"

/* That are listed, and how long their texts may be; each may stand beside several limits too. */
enum { RULES = 200, RULES_BYTES = 32 * 1024 };

bool kh_page_wants_json(const struct kh_message *message)
{
	const struct kh_field *accept = kh_message_field(message, KH_SLICE("accept"));
	struct kh_slice rest = accept ? accept->value : KH_SLICE("");

	while (rest.len > 0) {
		size_t comma = kh_slice_find(rest, ',', 0);
		struct kh_slice range = kh_slice_sub(rest, 0, comma);
		range = kh_slice_trim(kh_slice_sub(range, 0, kh_slice_find(range, ';', 0)));
		if (kh_slice_eq_nocase(range, KH_SLICE("application/json")))
			return true;
		if (kh_slice_has_prefix(range, KH_SLICE("text/")))
			return false;
		rest = kh_slice_sub(rest, comma + (comma < rest.len), rest.len);
	}
	return false;
}

void kh_page_member(struct kh_buf *out, const char *name, struct kh_slice value)
{
	kh_buf_printf(out, ",\"%s\":", name);
	kh_json_string(out, value);
}

/* ---- rules ---- */

static bool has_conditions(const struct kh_rule *rule)
{
	return rule->more && (rule->more->n_conditions > 0 || rule->more->has_max_body);
}

static void put_rule_text(struct kh_buf *out, const struct kh_config *config,
			  const struct kh_rule *rule)
{
	kh_buf_printf(out, "  %s %s", rule->allow ? "allow" : "deny ", rule->text);
	if (has_conditions(rule))
		kh_buf_append_str(out, "  (on conditions)");
	for (size_t i = 0; i < rule->n_credentials; i++)
		kh_buf_printf(out, "%s%s",
			      i == 0		      ? "  (with "
			      : rule->all_credentials ? " and "
						      : " or ",
			      config->credentials[rule->credentials[i]].name);
	kh_buf_append_str(out, rule->n_credentials > 0 ? ")\n" : "\n");
}

static void put_rule_json(struct kh_buf *out, const struct kh_config *config,
			  const struct kh_rule *rule)
{
	kh_buf_printf(out, "{\"%s\":", rule->allow ? "allow" : "deny");
	kh_json_string(out, kh_slice_str(rule->text));
	if (has_conditions(rule))
		kh_buf_append_str(out, ",\"conditions\":true");
	for (size_t i = 0; i < rule->n_credentials; i++) {
		kh_buf_append_str(out, i		       ? ","
				       : rule->all_credentials ? ",\"credentials\":["
							       : ",\"credential\":[");
		kh_json_string(out, kh_slice_str(config->credentials[rule->credentials[i]].name));
	}
	kh_buf_append_str(out, rule->n_credentials > 0 ? "]}" : "}");
}

/* How many of them are listed: their texts may be long. */
static size_t listed(const struct kh_rules *rules)
{
	size_t n = 0;

	for (size_t bytes = 0; n < rules->count && n < RULES && bytes < RULES_BYTES; n++)
		bytes += strlen(rules->list[n].text);
	return n;
}

static void put_rules(struct kh_buf *out, const struct kh_config *config,
		      const struct kh_rules *rules, bool json)
{
	size_t n = listed(rules);

	for (size_t i = 0; i < n; i++) {
		if (json && i > 0)
			kh_buf_append_char(out, ',');
		if (json)
			put_rule_json(out, config, &rules->list[i]);
		else
			put_rule_text(out, config, &rules->list[i]);
	}
	if (!json && rules->count == 0)
		kh_buf_append_str(out, "  nothing\n");
	if (!json && rules->count > n)
		kh_buf_printf(out, "  and %zu more\n", rules->count - n);
}

/* ---- credentials ---- */

static bool uses(const struct kh_rules *rules, size_t credential)
{
	for (size_t i = 0; i < rules->count; i++)
		for (size_t j = 0; j < rules->list[i].n_credentials; j++)
			if (rules->list[i].credentials[j] == credential)
				return true;
	return false;
}

static void put_words(struct kh_buf *out, const char *member,
		      const struct kh_credential_config *credential,
		      bool (*words)(struct kh_buf *, const struct kh_credential_config *))
{
	struct kh_buf text;

	kh_buf_init(&text, KH_PAGE_BYTES);
	words(&text, credential);
	kh_buf_append_str(out, member);
	kh_json_string(out, kh_buf_view(&text));
	kh_buf_fini(&text);
}

/* Return: how many were put. */
static size_t put_credentials(struct kh_buf *out, const struct kh_exchange *x, bool json)
{
	const struct kh_config *config = x->gen->config;
	const struct kh_rules *rules = &config->tenants[x->tenant].rules;
	size_t n = 0;

	for (size_t i = 0; i < config->n_credentials && kh_buf_len(out) < KH_PAGE_BYTES / 2; i++) {
		const struct kh_credential_config *credential = &config->credentials[i];
		if (!uses(rules, i))
			continue;
		bool ready = kh_credential_is_present(credential, x->tenant);
		if (json) {
			kh_buf_append_str(out, n ? ",{\"name\":" : "{\"name\":");
			kh_json_string(out, kh_slice_str(credential->name));
			kh_buf_printf(out, ",\"ready\":%s", ready ? "true" : "false");
			put_words(out, ",\"kind\":", credential, kh_credential_put_kind);
			put_words(out, ",\"binding\":", credential, kh_credential_put_binding);
			kh_buf_append_char(out, '}');
		} else {
			kh_buf_printf(out, "  %s: %s; goes in as ", credential->name,
				      ready ? "ready" : "has no value on the host");
			kh_credential_put_kind(out, credential);
			kh_buf_append_str(out, ", to ");
			kh_credential_put_binding(out, credential);
			kh_buf_append_char(out, '\n');
		}
		n++;
	}
	return n;
}

/* ---- limits ---- */

struct limits_page {
	struct kh_buf *out;
	const char *name; /* whose they are */
	bool json;
	size_t n;
};

static void put_limit_text(struct limits_page *page, const struct kh_verdict *limit,
			   const char *text)
{
	char wait[KH_VALUE_BYTES];

	kh_buf_printf(page->out, "  %s of %s '%s'", text, kh_quota_owner_name(limit->owner),
		      page->name);
	if (kh_quota_is_rate(limit->kind) || kh_quota_is_places(limit->kind))
		kh_buf_printf(page->out, ": %llu of %llu used", (unsigned long long)limit->used,
			      (unsigned long long)limit->most);
	if (limit->used > 0 && limit->reset_ms > 0)
		kh_buf_printf(page->out, ", all of it again in %s",
			      kh_value_show_duration((limit->reset_ms + 999) / 1000 * 1000, wait));
	kh_buf_append_char(page->out, '\n');
}

static void put_limit_json(struct limits_page *page, const struct kh_verdict *limit,
			   const char *text)
{
	kh_buf_printf(page->out, "%s{\"of\":\"%s\"", page->n ? "," : "",
		      kh_quota_owner_name(limit->owner));
	kh_page_member(page->out, "name", kh_slice_str(page->name));
	kh_page_member(page->out, "limit", kh_slice_str(text));
	kh_buf_printf(page->out, ",\"used\":%llu,\"most\":%llu", (unsigned long long)limit->used,
		      (unsigned long long)limit->most);
	if (limit->reset_ms > 0)
		kh_buf_printf(page->out, ",\"reset_ms\":%llu", (unsigned long long)limit->reset_ms);
	kh_buf_append_char(page->out, '}');
}

static void put_limit(void *arg, const struct kh_verdict *limit)
{
	struct limits_page *page = arg;
	char text[KH_VERDICT_LIMIT_BYTES];

	(void)kh_verdict_limit(limit, text);
	if (page->json)
		put_limit_json(page, limit, text);
	else
		put_limit_text(page, limit, text);
	page->n++;
}

/* The site's are left out: what others have used of them is no affair of a sandbox's. */
static size_t put_limits(struct kh_buf *out, const struct kh_exchange *x,
			 const struct kh_rules *rules, bool json)
{
	const struct kh_listener_config *listener = x->listener;
	const struct kh_tenant_config *tenant = &x->gen->config->tenants[x->tenant];
	const struct kh_quota_ledger *quota_ledger = &x->gen->quota_ledger;
	uint64_t now_ms = x->side->loop->now_ms;
	struct limits_page page = { .out = out, .json = json };

	page.name = listener->sandbox;
	kh_quota_look(listener->limits, KH_OF_SANDBOX, quota_ledger, now_ms, put_limit, &page);
	page.name = tenant->name;
	kh_quota_look(tenant->limits, KH_OF_TENANT, quota_ledger, now_ms, put_limit, &page);
	for (size_t i = 0, n = listed(rules); i < n; i++) {
		page.name = rules->list[i].text;
		if (rules->list[i].more)
			kh_quota_look(rules->list[i].more->limits, KH_OF_RULE, quota_ledger, now_ms,
				      put_limit, &page);
	}
	return page.n;
}

/* ---- the page ---- */

static void put_home_text(struct kh_buf *out, const struct kh_exchange *x)
{
	const struct kh_config *config = x->gen->config;
	const struct kh_listener_config *listener = x->listener;
	const struct kh_tenant_config *tenant = &config->tenants[x->tenant];
	const struct kh_rules *rules = &tenant->rules;

	kh_buf_printf(out,
		      "keyhole is between this sandbox and the network: what leaves has to be "
		      "allowed, and real\ncredentials are put in on the way out.\n\n"
		      "sandbox: %s\ntenant: %s\n\nrules (the first matching rule decides; if none "
		      "matches, the request is denied):\n",
		      listener->sandbox, tenant->name);
	put_rules(out, config, rules, false);
	if (listener->narrowed) {
		kh_buf_append_str(out,
				  "this sandbox's own rules, which have to allow it as well:\n");
		put_rules(out, config, &listener->narrow, false);
	}
	if (config->site.count > 0)
		kh_buf_append_str(out, "The site has rules too; what they deny is denied.\n");
	if (tenant->mode == KH_MODE_OBSERVE)
		kh_buf_append_str(out, "These rules only observe: what they would deny goes "
				       "through and is marked.\n");
	kh_buf_append_str(out, "\ncredentials:\n");
	if (put_credentials(out, x, false) == 0)
		kh_buf_append_str(out, "  none\n");
	kh_buf_append_str(out, "\nlimits:\n");
	if (put_limits(out, x, rules, false) == 0)
		kh_buf_append_str(out, "  none\n");
	kh_buf_append_str(out,
			  "\nWhy something is refused: "
			  "http://keyhole.internal/why?method=POST&url=https://HOST/PATH\n"
			  "Placeholders for the credentials here: http://keyhole.internal/env\n"
			  "For programs: the same with Accept: application/json.\n"
			  "In a workspace, what the host would run later (.envrc, .vscode, git's "
			  "configuration and hooks …)\ncan't be written or made; the errors are "
			  "the system's own (Read-only file system, Is a directory,\nDevice or "
			  "resource busy).\n");
}

static void put_home_json(struct kh_buf *out, const struct kh_exchange *x)
{
	const struct kh_config *config = x->gen->config;
	const struct kh_listener_config *listener = x->listener;
	const struct kh_tenant_config *tenant = &config->tenants[x->tenant];

	kh_buf_append_str(out, "{\"sandbox\":");
	kh_json_string(out, kh_slice_str(listener->sandbox));
	kh_page_member(out, "tenant", kh_slice_str(tenant->name));
	kh_page_member(out, "mode",
		       tenant->mode == KH_MODE_OBSERVE ? KH_SLICE("observe") : KH_SLICE("enforce"));
	kh_buf_printf(out, ",\"site_rules\":%s,\"n_rules\":%zu,\"rules\":[",
		      config->site.count > 0 ? "true" : "false", tenant->rules.count);
	put_rules(out, config, &tenant->rules, true);
	if (listener->narrowed) {
		kh_buf_append_str(out, "],\"sandbox_rules\":[");
		put_rules(out, config, &listener->narrow, true);
	}
	kh_buf_append_str(out, "],\"credentials\":[");
	(void)put_credentials(out, x, true);
	kh_buf_append_str(out, "],\"limits\":[");
	(void)put_limits(out, x, &tenant->rules, true);
	kh_buf_append_str(out, "]}\n");
}

static bool put(struct kh_exchange *x, struct kh_slice content, const char *type)
{
	const struct kh_field fields[] = {
		{ KH_SLICE("Content-Type"), kh_slice_str(type) },
		{ KH_SLICE("Cache-Control"), KH_SLICE("no-store") },
		{ KH_SLICE("Vary"), KH_SLICE("Accept") },
		{ KH_SLICE("X-Content-Type-Options"), KH_SLICE("nosniff") },
	};
	const struct kh_answer answer = {
		.status = 200,
		.fields = fields,
		.n_fields = sizeof(fields) / sizeof(fields[0]),
		.content = content,
	};

	x->status = 200;
	x->down_bytes = content.len;
	return x->down->ops->put_answer(x->down, &answer) &&
	       kh_exchange_set_answer(x, KH_ANSWER_DONE, NULL);
}

void kh_page_answer(struct kh_exchange *x)
{
	bool json = kh_page_wants_json(x->message);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;
	bool ok = true;
	const char *type = x->page == KH_PAGE_CA ? "application/x-pem-file"
			   : json		 ? "application/json"
						 : "text/plain; charset=utf-8";

	kh_buf_init(&out, KH_PAGE_BYTES);
	if (x->page == KH_PAGE_CA)
		ok = kh_leaves_put_trusted(
			     kh_worker_leaves(x->side->loop->worker, x->gen, x->tenant), &out) ||
		     kh_err_set(&err, KH_ERR_NO_MEMORY, "no memory for the page");
	else if (x->page == KH_PAGE_ENV)
		ok = kh_page_put_env(&out, x, json, &err);
	else if (x->page == KH_PAGE_DRY_RUN)
		ok = kh_page_put_dry_run(&out, x, json, &err);
	else if (json)
		put_home_json(&out, x);
	else
		put_home_text(&out, x);
	kh_work_share_charge(&x->side->acceptor->work, kh_work_of_piece(kh_buf_len(&out)));
	if (ok && kh_buf_room(&out) == 0)
		ok = kh_err_set(&err, KH_ERR_NO_MEMORY, "the page does not fit");
	if (ok)
		kh_exchange_end(x, put(x, kh_buf_view(&out), type) ? KH_DOWN_WHOLE : KH_DOWN_LOST);
	else
		kh_exchange_fail(x, &err);
	kh_buf_fini(&out);
}
