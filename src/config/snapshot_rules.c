/* snapshot_rules.c - lists of rules in a snapshot, and back
 *
 * A rule travels as its text and what stands beside it; reading parses the text again and holds
 * what was written beside it to the checks that the configuration's reader has.
 */
#include <stdlib.h>

#include <keyhole/limits.h>

#include "snapshot_internal.h"

/* ---- out ---- */

bool kh_put_where(struct kh_buf *out, const struct kh_where *where)
{
	return kh_wire_put_u32(out, where->file) && kh_wire_put_u32(out, where->line) &&
	       kh_wire_put_u32(out, where->column);
}

static bool put_more(struct kh_buf *out, const struct kh_rule_more *more)
{
	bool ok = kh_wire_put_u8(out, more != NULL);
	if (!ok || !more)
		return ok;
	ok = kh_wire_put_u8(out, more->observe) && kh_wire_put_u8(out, more->has_max_body) &&
	     kh_wire_put_u64(out, more->max_body) && kh_put_geo(out, more->geo) &&
	     kh_put_limits(out, more->limits) && kh_wire_put_u32(out, (uint32_t)more->n_conditions);
	for (size_t i = 0; ok && i < more->n_conditions; i++) {
		const struct kh_condition *condition = &more->conditions[i];
		ok = kh_wire_put_u8(out, (uint8_t)condition->kind) &&
		     kh_wire_put_str(out, condition->name) &&
		     kh_wire_put_u32(out, (uint32_t)condition->n_patterns);
		for (size_t j = 0; ok && j < condition->n_patterns; j++)
			ok = kh_wire_put_str(out, condition->patterns[j]);
	}
	return ok;
}

bool kh_put_rules(struct kh_buf *out, const struct kh_rules *rules)
{
	bool ok = kh_wire_put_u32(out, (uint32_t)rules->count);
	for (size_t i = 0; ok && i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		ok = kh_wire_put_str(out, rule->text) && kh_wire_put_str(out, rule->preset) &&
		     kh_put_where(out, &rule->where) &&
		     kh_wire_put_u8(out,
				    (uint8_t)(rule->allow | rule->client_auth_pass << 1 |
					      rule->passthrough << 2 | rule->no_websocket << 3 |
					      rule->all_credentials << 4 |
					      rule->placeholder_refuse << 5)) &&
		     kh_wire_put_u32(out, (uint32_t)rule->n_credentials);
		for (size_t j = 0; ok && j < rule->n_credentials; j++)
			ok = kh_wire_put_u16(out, rule->credentials[j]);
		ok = ok && put_more(out, rule->more);
	}
	return ok;
}

/* ---- in ---- */

void *kh_in_add(struct kh_snapshot_in *in, void *list, size_t *count, size_t size)
{
	void *slot = in->r.bad ? NULL : kh_list_add(list, count, size);
	if (!slot)
		in->r.bad = true;
	return slot;
}

bool kh_in_flag(struct kh_snapshot_in *in)
{
	uint8_t value = kh_wire_u8(&in->r);
	if (value > 1)
		in->r.bad = true;
	return value == 1;
}

char *kh_in_text(struct kh_snapshot_in *in)
{
	char *str = kh_wire_str(&in->r);
	if (!str)
		in->r.bad = true;
	return str;
}

struct kh_where kh_in_where(struct kh_snapshot_in *in)
{
	struct kh_where at = { .file = kh_wire_u32(&in->r) };
	at.line = kh_wire_u32(&in->r);
	at.column = kh_wire_u32(&in->r);
	if (at.file >= in->config->n_files && at.file != 0 && at.file != KH_NO_FILE)
		in->r.bad = true;
	return at;
}

/* The binding of credentials to hosts holds on this side too. */
static bool may_carry(const struct kh_config *config, const struct kh_rule *rule, uint16_t index)
{
	if (index >= config->n_credentials)
		return false;
	const struct kh_credential_config *credential = &config->credentials[index];
	if (credential->of_proxy || credential->of_listener)
		return false;
	return kh_binding_covers(credential, rule);
}

static void read_condition(struct kh_snapshot_in *in, struct kh_condition *condition)
{
	uint8_t kind = kh_wire_u8(&in->r);
	condition->name = kh_wire_str(&in->r);
	condition->kind = (enum kh_condition_kind)kind;
	uint32_t n = kh_wire_count(&in->r, KH_LIMIT_PATTERNS);
	/* Without a pattern it would hold for nothing, or for all. */
	if (kind == KH_CONDITION_NONE || kind > KH_CONDITION_MODEL || n == 0)
		in->r.bad = true;
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		char **slot =
			kh_in_add(in, &condition->patterns, &condition->n_patterns, sizeof(*slot));
		if (!slot)
			break; /* in->r.bad is set */
		*slot = kh_in_text(in);
		if (!in->r.bad && kh_condition_fault(condition->kind, condition->name, *slot))
			in->r.bad = true;
	}
}

static void read_more(struct kh_snapshot_in *in, struct kh_rule *rule)
{
	if (!kh_in_flag(in))
		return;
	struct kh_rule_more *more = kh_rule_more(rule);
	if (!more) {
		in->r.bad = true;
		return;
	}
	more->observe = kh_in_flag(in);
	more->has_max_body = kh_in_flag(in);
	more->max_body = kh_wire_u64(&in->r);
	more->geo = kh_in_geo(in);
	more->limits = kh_in_limits(in);
	uint32_t n = kh_wire_count(&in->r, KH_LIMIT_CONDITIONS);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_condition *condition =
			kh_in_add(in, &more->conditions, &more->n_conditions, sizeof(*condition));
		if (condition)
			read_condition(in, condition);
	}
	if (((more->has_max_body || more->geo || more->limits) && !rule->allow) ||
	    (more->observe && rule->allow))
		in->r.bad = true;
}

/* Something that is not seen of bytes that nobody reads. */
static bool asks_of_requests(const struct kh_rule *rule)
{
	const struct kh_rule_more *more = rule->more;
	return rule->n_methods > 0 || rule->path ||
	       (more && (more->n_conditions > 0 || more->has_max_body));
}

static void read_rule(struct kh_snapshot_in *in, struct kh_rule *rule)
{
	char *source = kh_in_text(in);
	if (!source || !kh_rule_parse(rule, kh_slice_str(source), NULL))
		in->r.bad = true;
	free(source);
	rule->preset = kh_wire_str(&in->r);
	rule->where = kh_in_where(in);
	uint8_t flags = kh_wire_u8(&in->r);
	rule->allow = flags & 1;
	rule->client_auth_pass = flags & 2;
	rule->passthrough = flags & 4;
	rule->no_websocket = flags & 8;
	rule->all_credentials = flags & 16;
	rule->placeholder_refuse = flags & 32;
	uint32_t n = kh_wire_count(&in->r, KH_RULE_CREDENTIALS);
	for (uint32_t i = 0; i < n; i++) {
		rule->credentials[i] = kh_wire_u16(&in->r);
		if (!may_carry(in->config, rule, rule->credentials[i]))
			in->r.bad = true;
	}
	rule->n_credentials = n;
	/* Neither may ride along, whoever wrote this. */
	const char *one, *other;
	if (!in->r.bad && kh_binding_clash(in->config, rule, &one, &other))
		in->r.bad = true;
	if (flags > 63 || (rule->all_credentials && n == 0) ||
	    ((rule->placeholder_refuse || rule->no_websocket) && !rule->allow) ||
	    (n > 0 && (rule->client_auth_pass || !rule->allow)) ||
	    (n > 0 && rule->scheme != KH_SCHEME_HTTPS) ||
	    (rule->client_auth_pass && rule->scheme == KH_SCHEME_TCP))
		in->r.bad = true;
	read_more(in, rule);
	if (rule->passthrough && (n > 0 || rule->client_auth_pass || !rule->allow ||
				  rule->scheme != KH_SCHEME_HTTPS || !kh_rule_covers_all(rule)))
		in->r.bad = true;
	if (rule->scheme == KH_SCHEME_TCP && asks_of_requests(rule))
		in->r.bad = true;
}

void kh_in_rules(struct kh_snapshot_in *in, struct kh_rules *rules)
{
	uint32_t n = kh_wire_count(&in->r, KH_SNAPSHOT_RULES);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_rule *rule = kh_in_add(in, &rules->list, &rules->count, sizeof(*rule));
		if (rule)
			read_rule(in, rule);
	}
}

void kh_in_narrowing(struct kh_snapshot_in *in, struct kh_rules *rules)
{
	kh_in_rules(in, rules);
	for (size_t i = 0; i < rules->count; i++)
		if (rules->list[i].n_credentials > 0 || rules->list[i].client_auth_pass ||
		    rules->list[i].placeholder_refuse || rules->list[i].passthrough ||
		    (rules->list[i].more &&
		     (rules->list[i].more->observe || rules->list[i].more->geo ||
		      rules->list[i].more->limits)))
			in->r.bad = true;
}
