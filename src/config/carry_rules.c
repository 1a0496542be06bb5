/* carry_rules.c - lists of rules in the snapshot
 *
 * A rule is sent as its text and its other keys. The worker parses the text again and applies the
 * same checks to the other keys as the configuration's reader.
 */
#include "carry.h"

#include <stdlib.h>

#include <keyhole/base/limits.h>

/* ---- rows of a rule ---- */

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

void kh_carry_rule_credentials(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_rule *rule = base;
	uint8_t n = (uint8_t)rule->n_credentials;
	(void)option;
	kh_carry_u8(c, &n);
	kh_carry_demand(c, n <= KH_RULE_CREDENTIALS);
	for (size_t i = 0; i < n && !c->in.bad; i++) {
		kh_carry_u16(c, &rule->credentials[i]);
		kh_carry_demand(c, may_carry(c->config, rule, rule->credentials[i]));
	}
	rule->n_credentials = c->in.bad && kh_carry_reads(c) ? 0 : n;
	kh_carry_bool(c, &rule->all_credentials);
	kh_carry_demand(c, !rule->all_credentials || n > 0);
	/* Neither may ride along, whoever wrote this. */
	const char *one, *other;
	kh_carry_demand(c, !kh_binding_clash(c->config, rule, &one, &other));
}

void kh_carry_websocket(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_rule *rule = base;
	(void)option;
	kh_carry_bool(c, &rule->no_websocket);
	kh_carry_bool(c, &rule->websocket_unsaid);
	kh_carry_demand(c, !rule->websocket_unsaid || rule->no_websocket);
}

static void carry_condition(struct kh_carrier *c, void *element)
{
	struct kh_condition *condition = element;
	kh_carry_enum(c, &condition->kind, KH_CONDITION_KINDS);
	kh_carry_str(c, &condition->name);
	kh_carry_list(c, &condition->patterns, &condition->n_patterns, sizeof(char *),
		      KH_LIMIT_PATTERNS, kh_carry_list_name);
	/* Without a pattern it would hold for nothing, or for all. */
	kh_carry_demand(c, condition->kind != KH_CONDITION_NONE && condition->n_patterns > 0);
	for (size_t i = 0; i < condition->n_patterns && !c->in.bad; i++)
		kh_carry_demand(c, !kh_condition_fault(condition->kind, condition->name,
						       condition->patterns[i]));
}

void kh_carry_conditions(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_rule_more *more = base;
	(void)option;
	kh_carry_list(c, &more->conditions, &more->n_conditions, sizeof(*more->conditions),
		      KH_LIMIT_CONDITIONS, carry_condition);
}

void kh_carry_max_body(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_rule_more *more = base;
	(void)option;
	kh_carry_bool(c, &more->has_max_body);
	kh_carry_u64(c, &more->max_body);
}

/* ---- a rule ---- */

static void carry_text(struct kh_carrier *c, struct kh_rule *rule)
{
	char *text = rule->text;
	kh_carry_name(c, &text);
	if (!kh_carry_reads(c))
		return;
	kh_carry_demand(c, text && kh_rule_parse(rule, kh_slice_str(text), NULL));
	free(text);
}

/* Something that is not seen of bytes that nobody reads. */
static bool asks_of_requests(const struct kh_rule *rule)
{
	const struct kh_rule_more *more = rule->more;
	return rule->n_methods > 0 || rule->path ||
	       (more && (more->n_conditions > 0 || more->has_max_body));
}

/* What no rule that the configuration's reader takes has together. */
static bool is_sound(const struct kh_rule *rule)
{
	const struct kh_rule_more *more = rule->more;
	bool tcp = rule->scheme == KH_SCHEME_TCP, https = rule->scheme == KH_SCHEME_HTTPS;
	bool carries = rule->n_credentials > 0 || rule->client_auth_pass;
	if (!rule->allow && (carries || rule->closes_after_content || rule->placeholder_refuse ||
			     rule->no_websocket || rule->passthrough ||
			     (more && (more->has_max_body || more->geo || more->limits))))
		return false;
	if (tcp && (rule->closes_after_content || rule->exact_spelling || rule->client_auth_pass ||
		    asks_of_requests(rule)))
		return false;
	if (rule->n_credentials > 0 && (rule->client_auth_pass || !https))
		return false;
	if (rule->passthrough &&
	    (carries || rule->closes_after_content || !https || !kh_rule_covers_all(rule)))
		return false;
	return !(more && more->observe && rule->allow);
}

static void carry_rule(struct kh_carrier *c, void *element)
{
	struct kh_rule *rule = element;
	carry_text(c, rule);
	kh_carry_str(c, &rule->preset);
	kh_carry_where(c, &rule->where);
	kh_carry_bool(c, &rule->allow);
	kh_carry_rows(c, "rules[]", false, rule);
	struct kh_rule_more *more = kh_carry_maybe(c, &rule->more, sizeof(*more));
	if (more)
		kh_carry_rows(c, "rules[]", true, more);
	kh_carry_demand(c, is_sound(rule));
}

void kh_carry_rule_list(struct kh_carrier *c, struct kh_rules *rules)
{
	kh_carry_list(c, &rules->list, &rules->count, sizeof(*rules->list), KH_CARRY_RULES,
		      carry_rule);
}

void kh_carry_rules(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	kh_carry_rule_list(c, (void *)((char *)base + option->member));
}

void kh_carry_narrowing(struct kh_carrier *c, struct kh_rules *rules)
{
	kh_carry_rule_list(c, rules);
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		kh_carry_demand(c,
				rule->n_credentials == 0 && !rule->client_auth_pass &&
					!rule->placeholder_refuse && !rule->passthrough &&
					!rule->closes_after_content &&
					(!rule->more || (!rule->more->observe && !rule->more->geo &&
							 !rule->more->limits)));
	}
}

void kh_carry_narrow(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_listener_config *listener = base;
	(void)option;
	kh_carry_bool(c, &listener->narrowed);
	if (listener->narrowed)
		kh_carry_narrowing(c, &listener->narrow);
}
