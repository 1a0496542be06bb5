/* check_notes.c - `keyhole check`: notes, which need no action */
#include <string.h>

#include <keyhole/base/account.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/config/config.h>
#include <keyhole/credential/credential.h>

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

struct notes {
	struct kh_buf *out;
	const struct kh_diagnostics *diags;
	bool json;
};

/* `rule`: NULL for a note on the whole file. */
static bool put(const struct notes *notes, const struct kh_rule *rule, const char *text)
{
	struct kh_buf *out = notes->out;
	const char *file = kh_diagnostics_file(notes->diags, rule ? rule->where.file : 0);

	if (!notes->json && rule)
		return kh_buf_printf(out, "%s:%u:%u: note: rule \"%s\": %s\n", kh_esc_str(file),
				     rule->where.line, rule->where.column, kh_esc_str(rule->text),
				     text);
	if (!notes->json)
		return kh_buf_printf(out, "%s: note: %s\n", kh_esc_str(file), text);
	return kh_buf_append_str(out, kh_buf_len(out) == 0 ? "{\"file\":" : ",{\"file\":") &&
	       kh_json_string(out, kh_slice_str(file)) &&
	       (!rule || (kh_buf_printf(out, ",\"line\":%u,\"column\":%u,\"rule\":",
					rule->where.line, rule->where.column) &&
			  kh_json_string(out, kh_slice_str(rule->text)))) &&
	       kh_buf_append_str(out, ",\"text\":") && kh_json_string(out, kh_slice_str(text)) &&
	       kh_buf_append_char(out, '}');
}

/* The key of a whole host can often make other keys, or delete what is there. Whoever means that
 * writes so; and the rules of a preset were weighed by its author. */
static const char whole_host[] =
	"its credential goes to every path of the host, with DELETE as with GET: name the methods "
	"and paths that are needed, as in \"GET,POST https://HOST/v1/**\" (/** alone as the path "
	"says that all are meant, and ends this note)";

/* People take a trusted host for a trusted action. Of any host there is a warning. */
static const char whole_host_without_key[] =
	"it allows every method and path of the host, where something may also be published or "
	"deleted: name those that are needed, as in \"GET https://HOST/v1/**\" (/** alone as the "
	"path says that all are meant, and ends this note)";

/* NULL: it does not open all of a host, or says that it does. */
static const char *opens_whole_host(const struct kh_rule *rule)
{
	bool is_http = rule->scheme == KH_SCHEME_HTTP || rule->scheme == KH_SCHEME_HTTPS;
	if (rule->path || !kh_rule_covers_all(rule))
		return NULL;
	if (rule->n_credentials > 0)
		return whole_host;
	return rule->allow && is_http && !rule->passthrough && rule->host.match != KH_MATCH_ANY
		       ? whole_host_without_key
		       : NULL;
}

/* The daemon may be given another limit than whoever checks: a note, for that reason. */
static bool put_descriptors(const struct notes *notes, const struct kh_config *config)
{
	struct kh_err err = KH_ERR_INIT;

	return !config->says_connections ||
	       kh_account_has_room_for(config->max_connections, kh_account_descriptor_limit(), 0,
				       &err) ||
	       put(notes, NULL, err.text);
}

/* A client that finds no key in its environment often does not even ask. */
static bool put_unseen(const struct notes *notes, const struct kh_config *config)
{
	bool ok = true;

	for (size_t i = 0; ok && i < config->n_credentials; i++) {
		const struct kh_credential_config *c = &config->credentials[i];
		if (c->env_name || c->preset || !c->placement ||
		    !kh_placement_shows_placeholder(c->placement))
			continue;
		kh_auto_free char *text = kh_strf(
			"credential %s: sandboxes get no variable with a placeholder for it. If a "
			"client in there does not start without a key, name the variable that it "
			"reads: placeholder: { env: NAME }",
			kh_esc_str(c->name));
		ok = text && put(notes, NULL, text);
	}
	return ok;
}

/* What `keyhole proxy` would not start without; `keyhole run` brings both itself. */
static bool put_missing(const struct notes *notes, const struct kh_config *config)
{
	bool journal = config->audit_path != NULL;
	bool listens = config->n_listeners > 0 || config->admin.unix_path;

	if (journal && listens)
		return true;
	return put(notes, NULL,
		   listens ? "`keyhole proxy` does not start with this file: it names no journal "
			     "(audit: { file: … }); `keyhole run` has its own"
		   : journal
			   ? "`keyhole proxy` does not start with this file: there is nothing to "
			     "listen on (listen: or admin.unix); `keyhole run` needs neither"
			   : "`keyhole proxy` does not start with this file: it names no journal "
			     "(audit: { file: … }), and there is nothing to listen on (listen: or "
			     "admin.unix); `keyhole run` has its own");
}

bool kh_check_notes_put(struct kh_buf *out, const struct kh_config *config,
			const struct kh_diagnostics *diags, bool json)
{
	const struct notes notes = { out, diags, json };
	bool ok = true;

	for (size_t t = 0; ok && t < config->n_tenants; t++) {
		const struct kh_rules *rules = &config->tenants[t].rules;
		for (size_t i = 0; ok && i < rules->count; i++) {
			const struct kh_rule *rule = &rules->list[i];
			if (rule->preset)
				continue;
			if (rule->websocket_unsaid && takes_get(rule))
				ok = put(&notes, rule, refused);
			const char *opens = opens_whole_host(rule);
			if (ok && opens)
				ok = put(&notes, rule, opens);
		}
	}
	return ok && put_unseen(&notes, config) && put_missing(&notes, config) &&
	       put_descriptors(&notes, config);
}
