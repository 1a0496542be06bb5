/* check_notes.c - `keyhole check`: notes, which ask for nothing to be done */
#include <string.h>

#include <keyhole/base/account.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>

#include "check_notes.h"

static const char refused[] =
	"a WebSocket is refused (426), since the rule sets a credential: write websocket: true "
	"where one is meant (websocket: false says that none is, and ends this note)";

/* A handshake is a GET. */
static bool takes_get(const struct kh_rule *rule)
{
	for (size_t i = 0; i < rule->n_methods; i++)
		if (strcmp(rule->methods[i], "GET") == 0)
			return true;
	return rule->n_methods == 0;
}

static bool put_note(struct kh_buf *out, const struct kh_rule *rule, const char *file, bool json,
		     bool first)
{
	const struct kh_where *at = &rule->where;

	if (!json)
		return kh_buf_printf(out, "%s:%u:%u: note: rule \"%s\": %s\n", kh_esc_str(file),
				     at->line, at->column, kh_esc_str(rule->text), refused);
	return kh_buf_append_str(out, first ? "{\"file\":" : ",{\"file\":") &&
	       kh_json_string(out, kh_slice_str(file)) &&
	       kh_buf_printf(out, ",\"line\":%u,\"column\":%u,\"rule\":", at->line, at->column) &&
	       kh_json_string(out, kh_slice_str(rule->text)) &&
	       kh_buf_printf(out, ",\"text\":\"%s\"}", refused);
}

/* The daemon may be given another limit than whoever checks: a note, for that reason. */
static bool put_descriptors(struct kh_buf *out, const struct kh_config *config, const char *file,
			    bool json, bool first)
{
	struct kh_err err = KH_ERR_INIT;

	if (!config->says_connections ||
	    kh_account_has_room_for(config->max_connections, kh_account_descriptor_limit(), 0,
				    &err))
		return true;
	if (!json)
		return kh_buf_printf(out, "%s: note: %s\n", kh_esc_str(file), err.text);
	return kh_buf_append_str(out, first ? "{\"file\":" : ",{\"file\":") &&
	       kh_json_string(out, kh_slice_str(file)) && kh_buf_append_str(out, ",\"text\":") &&
	       kh_json_string(out, kh_slice_str(err.text)) && kh_buf_append_char(out, '}');
}

/* What `keyhole proxy` would not start without; `keyhole run` brings both itself. */
static bool put_missing(struct kh_buf *out, const struct kh_config *config, const char *file,
			bool json, bool first)
{
	bool journal = config->audit_path != NULL;
	bool listens = config->n_listeners > 0 || config->admin.unix_path;

	if (journal && listens)
		return true;
	const char *text =
		listens	  ? "`keyhole proxy` does not start with this file: it names no journal "
			    "(audit: { file: … }); `keyhole run` has its own"
		: journal ? "`keyhole proxy` does not start with this file: there is nothing to "
			    "listen on (listen: or admin.unix); `keyhole run` needs neither"
			  : "`keyhole proxy` does not start with this file: it names no journal "
			    "(audit: { file: … }), and there is nothing to listen on (listen: or "
			    "admin.unix); `keyhole run` has its own";
	if (!json)
		return kh_buf_printf(out, "%s: note: %s\n", kh_esc_str(file), text);
	return kh_buf_append_str(out, first ? "{\"file\":" : ",{\"file\":") &&
	       kh_json_string(out, kh_slice_str(file)) && kh_buf_append_str(out, ",\"text\":") &&
	       kh_json_string(out, kh_slice_str(text)) && kh_buf_append_char(out, '}');
}

bool kh_check_notes_put(struct kh_buf *out, const struct kh_config *config,
			const struct kh_diagnostics *diags, bool json)
{
	bool ok = true, first = true;

	for (size_t t = 0; ok && t < config->n_tenants; t++) {
		const struct kh_rules *rules = &config->tenants[t].rules;
		for (size_t i = 0; ok && i < rules->count; i++) {
			const struct kh_rule *rule = &rules->list[i];
			if (!rule->websocket_unsaid || rule->preset || !takes_get(rule))
				continue;
			ok = put_note(out, rule, kh_diagnostics_file(diags, rule->where.file), json,
				      first);
			first = false;
		}
	}
	ok = ok && put_missing(out, config, kh_diagnostics_file(diags, 0), json, first);
	return ok && put_descriptors(out, config, kh_diagnostics_file(diags, 0), json,
				     kh_buf_len(out) == 0);
}

static bool is_open(const struct kh_rule *rule)
{
	return rule->preset && strcmp(rule->preset, "go") == 0 && rule->path &&
	       strcmp(rule->path, "/*/*/**") == 0;
}

void kh_check_open_modules(const struct kh_config *config, struct kh_diagnostics *diags)
{
	for (size_t t = 0; t < config->n_tenants; t++) {
		const struct kh_tenant_config *tenant = &config->tenants[t];
		bool open = false;
		for (size_t i = 0; i < tenant->rules.count; i++)
			open = open || is_open(&tenant->rules.list[i]);
		if (open)
			kh_diagnostics_add(
				diags, true, tenant->where,
				"tenant \"%s\": `use: go` allows any module, so data can "
				"leave in a module's name: say which are asked for, as in "
				"use: { go: { modules: [ golang.org/x ] } }",
				kh_esc_str(tenant->name));
	}
}
