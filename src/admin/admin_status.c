/* admin_status.c - /v1/status and /v1/sandboxes: what `keyhole ctl` shows, as JSON */

#include "admin_internal.h"

#include <string.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/loop/loop.h>

/* Limits are told from four fifths on, and so many at most. */
enum { NEAR_PERCENT = 80, NEAR_MOST = 100 };

struct doc {
	struct kh_buf *out;
	const struct kh_admin_request *request;
	const struct kh_generation *gen;
	bool ok;
	bool any; /* a member or element is in front */
	unsigned limits;
};

static void put(struct doc *doc, const char *text)
{
	doc->ok = doc->ok && kh_buf_append_str(doc->out, text);
}

static void begin(struct doc *doc, const char *name, const char *bracket)
{
	put(doc, doc->any ? "," : "");
	if (name) {
		put(doc, "\"");
		put(doc, name);
		put(doc, "\":");
	}
	put(doc, bracket);
	doc->any = false;
}

static void end(struct doc *doc, const char *bracket)
{
	put(doc, bracket);
	doc->any = true;
}

static void put_text(struct doc *doc, const char *name, const char *text)
{
	begin(doc, name, "");
	if (text)
		doc->ok = doc->ok && kh_json_string(doc->out, kh_slice_str(text));
	else
		put(doc, "null");
	doc->any = true;
}

static void put_number(struct doc *doc, const char *name, uint64_t number)
{
	begin(doc, name, "");
	doc->ok = doc->ok && kh_buf_append_u64(doc->out, number);
	doc->any = true;
}

static void put_bool(struct doc *doc, const char *name, bool value)
{
	begin(doc, name, value ? "true" : "false");
	doc->any = true;
}

static void put_time(struct doc *doc, const char *name, uint64_t wall_ms)
{
	char text[KH_TIME_BYTES];
	kh_clock_format(wall_ms, text);
	put_text(doc, name, wall_ms ? text : NULL);
}

/* --- sandboxes -------------------------------------------------------------------------------- */

/* By name: the configuration that the list of dynamic sandboxes goes with may be the next one
 * already. */
static bool may_see(const struct kh_admin_request *request, const char *tenant)
{
	const struct kh_config *config = request->gen->config;
	if (request->caller == KH_CALLER_OWNER)
		return true;
	for (size_t i = 0; i < config->admin.n_grants; i++) {
		const struct kh_admin_grant *grant = &config->admin.grants[i];
		for (size_t j = 0; grant->uid == request->uid && j < grant->n_tenants; j++)
			if (strcmp(config->tenants[grant->tenants[j]].name, tenant) == 0)
				return true;
	}
	return false;
}

static void put_dynamic_sandbox(void *arg, const struct kh_dynamic_sandbox *dynamic_sandbox)
{
	struct doc *doc = arg;
	if (!may_see(doc->request, dynamic_sandbox->tenant))
		return;
	begin(doc, NULL, "{");
	put_text(doc, "id", dynamic_sandbox->config.sandbox);
	put_text(doc, "tenant", dynamic_sandbox->tenant);
	put_text(doc, "listener", dynamic_sandbox->config.name);
	put_bool(doc, "narrowed", dynamic_sandbox->config.narrowed);
	put_number(doc, "connections", atomic_load(&dynamic_sandbox->listener_stats->connections));
	put_bool(doc, "added", true);
	put_time(doc, "expires", dynamic_sandbox->expires_ms);
	put_bool(doc, "suspect", dynamic_sandbox->suspect);
	end(doc, "}");
}

static void put_sandboxes(struct doc *doc)
{
	const struct kh_config *config = doc->gen->config;
	begin(doc, "sandboxes", "[");
	for (size_t i = 0; i < config->n_listeners; i++) {
		const struct kh_listener_config *listener = &config->listeners[i];
		if (!kh_admin_may_see_tenant(doc->request, listener->tenant))
			continue;
		begin(doc, NULL, "{");
		put_text(doc, "id", listener->sandbox);
		put_text(doc, "tenant", config->tenants[listener->tenant].name);
		put_text(doc, "listener", listener->name);
		put_bool(doc, "narrowed", listener->narrowed);
		put_number(doc, "connections",
			   atomic_load(&doc->gen->listener_stats_list[i]->connections));
		put_bool(doc, "added", false);
		put_text(doc, "expires", NULL);
		put_bool(doc, "suspect", false);
		end(doc, "}");
	}
	kh_dynamic_sandboxes_each(doc->request->admin->worker, put_dynamic_sandbox, doc);
	end(doc, "]");
}

bool kh_admin_put_sandboxes(const struct kh_admin_request *request, struct kh_buf *out)
{
	struct doc doc = { .out = out, .request = request, .gen = request->gen, .ok = true };
	begin(&doc, NULL, "{");
	put_sandboxes(&doc);
	end(&doc, "}\n");
	return doc.ok;
}

/* --- limits near their end -------------------------------------------------------------------- */

struct owner {
	enum kh_quota_owner kind;
	const char *name, *tenant; /* NULL: the site */
};

struct near {
	struct doc *doc;
	const struct owner *owner;
};

static void put_limit(void *arg, const struct kh_verdict *verdict)
{
	const struct near *near = arg;
	struct doc *doc = near->doc;
	uint64_t used = verdict->used, most = verdict->most;
	char limit[KH_VERDICT_LIMIT_BYTES];
	/* What is used has up to 44 bits. */
	if (most == 0 || used * 100 / most < NEAR_PERCENT || ++doc->limits > NEAR_MOST)
		return;
	begin(doc, NULL, "{");
	put_text(doc, "of", kh_quota_owner_name(verdict->owner));
	put_text(doc, "name", near->owner->name);
	put_text(doc, "tenant", near->owner->tenant);
	put_text(doc, "limit", kh_verdict_limit(verdict, limit));
	put_number(doc, "used", used < most ? used : most);
	put_number(doc, "most", most);
	end(doc, "}");
}

static void look_at(struct doc *doc, const struct owner *owner, const struct kh_limits *limits)
{
	struct near near = { doc, owner };
	kh_quota_look(limits, owner->kind, &doc->gen->quota_ledger, kh_clock_mono_ms(), put_limit,
		      &near);
}

static void look_at_rules(struct doc *doc, const struct kh_rules *rules, enum kh_quota_owner kind,
			  const char *tenant)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		const struct owner owner = { kind, rule->text, tenant };
		if (rule->more)
			look_at(doc, &owner, rule->more->limits);
	}
}

static void put_limits(struct doc *doc)
{
	const struct kh_config *config = doc->gen->config;
	const struct owner site = { .kind = KH_OF_SITE };
	begin(doc, "limits", "[");
	if (doc->request->caller == KH_CALLER_OWNER) {
		look_at(doc, &site, config->site_limits);
		look_at_rules(doc, &config->site, KH_OF_SITE_RULE, NULL);
	}
	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct kh_tenant_config *tenant = &config->tenants[i];
		const struct owner owner = { KH_OF_TENANT, tenant->name, tenant->name };
		if (!kh_admin_may_see_tenant(doc->request, (uint16_t)i))
			continue;
		look_at(doc, &owner, tenant->limits);
		look_at_rules(doc, &tenant->rules, KH_OF_RULE, tenant->name);
	}
	for (size_t i = 0; i < config->n_listeners; i++) {
		const struct kh_listener_config *listener = &config->listeners[i];
		const struct owner owner = { KH_OF_SANDBOX, listener->sandbox,
					     config->tenants[listener->tenant].name };
		if (kh_admin_may_see_tenant(doc->request, listener->tenant))
			look_at(doc, &owner, listener->limits);
	}
	end(doc, "]");
}

static void put_words(struct doc *doc, const char *name,
		      const struct kh_credential_config *credential,
		      bool (*words)(struct kh_buf *, const struct kh_credential_config *))
{
	struct kh_buf text;

	kh_buf_init(&text, 64 * 1024);
	doc->ok = doc->ok && words(&text, credential);
	put_text(doc, name, kh_buf_cstr(&text));
	kh_buf_fini(&text);
}

/* --- the daemon: for those whose it is -------------------------------------------------------- */

static void put_daemon(struct doc *doc)
{
	const struct kh_admin_facts *facts = &doc->request->facts;
	const struct kh_worker *worker = doc->request->admin->worker;
	put_number(doc, "pid", facts->pid);
	put_number(doc, "worker_starts", facts->starts);
	put_number(doc, "listeners_down", doc->gen->n_down);
	begin(doc, "policy", "{");
	put_text(doc, "file", facts->config_path);
	put_text(doc, "sha256", facts->config_hash);
	put_time(doc, "loaded", facts->loaded_ms);
	put_number(doc, "tenants", doc->gen->config->n_tenants);
	end(doc, "}");
	begin(doc, "reloads", "{");
	put_number(doc, "ok", facts->reloads);
	put_number(doc, "failed", facts->failed_reloads);
	if (facts->failed_ms) {
		begin(doc, "last_failure", "{");
		put_time(doc, "time", facts->failed_ms);
		put_text(doc, "error", facts->failure);
		end(doc, "}");
	} else {
		put_text(doc, "last_failure", NULL);
	}
	end(doc, "}");
	uint64_t seq;
	uint8_t hash[32];
	kh_journal_head(worker->journal, &seq, hash);
	begin(doc, "journal", "{");
	put_text(doc, "file", facts->journal_path);
	put_bool(doc, "writable", kh_admin_sum(worker, KH_COUNT_JOURNAL_FAILING) == 0);
	put_number(doc, "records", seq);
	end(doc, "}");
	begin(doc, "credential_states", facts->credentials ? facts->credentials : "[]");
	doc->any = true;
	if (facts->credentials_left_out > 0)
		put_number(doc, "credential_states_left_out", facts->credentials_left_out);
	struct json_t *states = kh_admin_credential_status(doc->request);
	begin(doc, "credentials", "[");
	for (size_t i = 0; i < doc->gen->config->n_credentials; i++) {
		begin(doc, NULL, "{");
		put_text(doc, "name", doc->gen->config->credentials[i].name);
		put_bool(doc, "ready", kh_admin_credential_is_ready(doc->request->gen, i, states));
		put_words(doc, "kind", &doc->gen->config->credentials[i], kh_credential_put_kind);
		put_words(doc, "binding", &doc->gen->config->credentials[i],
			  kh_credential_put_binding);
		end(doc, "}");
	}
	end(doc, "]");
	kh_admin_credential_status_free(states);
}

bool kh_admin_put_status(const struct kh_admin_request *request, struct kh_buf *out)
{
	struct doc doc = { .out = out, .request = request, .gen = request->gen, .ok = true };
	const struct kh_worker *worker = request->admin->worker;
	uint64_t now = kh_clock_wall_ms(), since = request->facts.started_ms;
	const char *why;
	bool ready = kh_admin_is_ready(worker, &why);
	begin(&doc, NULL, "{");
	put_text(&doc, "version", KH_VERSION);
	put_text(&doc, "state",
		 ready				  ? "serving"
		 : atomic_load(&worker->draining) ? "draining"
						  : "failing");
	put_text(&doc, "why", why);
	put_time(&doc, "started", since);
	put_number(&doc, "uptime_seconds", now > since ? (now - since) / 1000 : 0);
	if (request->caller == KH_CALLER_OWNER)
		put_daemon(&doc);
	put_sandboxes(&doc);
	put_limits(&doc);
	end(&doc, "}\n");
	return doc.ok;
}
