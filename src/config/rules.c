/* rules.c - lists of rules: reads the keys of each rule together */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

/* Why a list brings nothing along, NULL for one that does: a tenant's. */
static const char *ceiling(const struct kh_reader *reader, const struct kh_rules *rules)
{
	if (rules == &reader->config->site)
		return "the site's rules are a ceiling";
	return rules == reader->narrowing ? "a narrowing only takes away" : NULL;
}

/* One draft at a time: rules hold no rules. */
void *kh_rule_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	(void)parent;
	(void)node;
	reader->draft = (struct kh_rule_draft){ 0 };
	return &reader->draft;
}

static void take_credentials(struct kh_reader *reader, const struct kh_rules *rules,
			     const struct kh_rule_draft *draft)
{
	const char *why = ceiling(reader, rules);
	const struct kh_yaml_node *node =
		draft->credential ? draft->credential : draft->credentials;
	if (draft->credential && draft->credentials) {
		kh_reader_error(reader, draft->credentials,
				"rules[].credentials: all of them go in, and of `credential` the "
				"first that has a value: take one of the two");
		return;
	}
	if (why)
		kh_reader_error(reader, node,
				"rules[].%s: %s; a credential belongs to a tenant's rule",
				draft->credential ? "credential" : "credentials", why);
	if (why || reader->rules_only || !node)
		return;
	if (draft->credential && node->kind != KH_NODE_LIST) {
		kh_pending_add(reader, rules, node);
		return;
	}
	if (draft->credentials &&
	    (node->kind != KH_NODE_LIST || node->count == 0 || node->count > KH_RULE_CREDENTIALS)) {
		kh_reader_error(reader, node,
				"rules[].credentials: expected a list of 1 to %d names, all of "
				"which go in",
				KH_RULE_CREDENTIALS);
		return;
	}
	rules->list[rules->count - 1].all_credentials = draft->credentials != NULL;
	if (node->count == 0 || node->count > KH_RULE_CREDENTIALS) {
		kh_reader_error(reader, node,
				"rules[].credential: expected 1 to %d names, of which the first "
				"that has a value is used",
				KH_RULE_CREDENTIALS);
		return;
	}
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		kh_pending_add(reader, rules, child);
}

static void take_client_auth(struct kh_reader *reader, const struct kh_rules *rules,
			     struct kh_rule *rule, const struct kh_rule_draft *draft)
{
	const struct kh_yaml_node *node = draft->client_auth;
	bool scalar = node->kind == KH_NODE_SCALAR;
	if (scalar && kh_slice_eq(node->text, KH_SLICE("pass")))
		rule->client_auth_pass = true;
	else if (!scalar || !kh_slice_eq(node->text, KH_SLICE("refuse")))
		kh_reader_error(reader, node, "rules[].client_auth: expected pass or refuse");
	const char *why = ceiling(reader, rules);
	if (why)
		kh_reader_error(reader, node,
				"rules[].client_auth: %s; it belongs to a tenant's rule", why);
	else if (rule->client_auth_pass && (draft->credential || draft->credentials))
		kh_reader_error(reader, node,
				"rules[].client_auth: where a credential goes in, the client's own "
				"is always removed: take one of the two");
}

static void take_placeholder(struct kh_reader *reader, const struct kh_rules *rules,
			     struct kh_rule *rule, const struct kh_rule_draft *draft)
{
	const struct kh_yaml_node *node = draft->placeholder;
	bool scalar = node->kind == KH_NODE_SCALAR;
	const char *why = ceiling(reader, rules);
	if (scalar && kh_slice_eq(node->text, KH_SLICE("refuse")))
		rule->placeholder_refuse = true;
	else if (!scalar || !kh_slice_eq(node->text, KH_SLICE("mark")))
		kh_reader_error(reader, node, "rules[].placeholder: expected mark or refuse");
	if (why)
		kh_reader_error(reader, node,
				"rules[].placeholder: %s; it belongs to a tenant's rule", why);
	else if (rule->placeholder_refuse && rule->passthrough)
		kh_reader_error(reader, node,
				"rules[].placeholder: what is not decrypted is not looked into");
}

/* What nobody decrypts has no methods and no paths to be told apart, and takes nothing in. */
static void take_tls(struct kh_reader *reader, const struct kh_rules *rules, struct kh_rule *rule,
		     const struct kh_rule_draft *draft)
{
	const struct kh_yaml_node *node = draft->tls;
	bool scalar = node->kind == KH_NODE_SCALAR;
	if (scalar && kh_slice_eq(node->text, KH_SLICE("intercept")))
		return;
	if (!scalar || !kh_slice_eq(node->text, KH_SLICE("passthrough"))) {
		kh_reader_error(reader, node, "rules[].tls: expected intercept or passthrough");
		return;
	}
	const char *why = ceiling(reader, rules);
	if (why)
		kh_reader_error(reader, node, "rules[].tls: %s; it belongs to a tenant's rule",
				why);
	else if (!kh_rule_covers_all(rule) || rule->scheme != KH_SCHEME_HTTPS)
		kh_reader_error(reader, node,
				"rules[].tls: passthrough goes with https://HOST[:PORT] alone: "
				"methods and paths are not seen");
	else if (draft->credential || draft->credentials || draft->client_auth)
		kh_reader_error(reader, node,
				"rules[].tls: nothing is put into what is not decrypted: with "
				"passthrough there is neither credential nor client_auth");
	else
		rule->passthrough = true;
}

static void take_reuse(struct kh_reader *reader, const struct kh_rules *rules, struct kh_rule *rule,
		       const struct kh_yaml_node *node)
{
	bool scalar = node->kind == KH_NODE_SCALAR;
	const char *why = ceiling(reader, rules);
	if (why)
		kh_reader_error(reader, node,
				"rules[].reuse_after_content: %s; it belongs to a tenant's rule",
				why);
	else if (rule->passthrough)
		kh_reader_error(
			reader, node,
			"rules[].reuse_after_content: what is not decrypted has a connection "
			"of its own");
	else if (scalar && kh_slice_eq(node->text, KH_SLICE("never")))
		rule->closes_after_content = true;
	else if (!scalar || !kh_slice_eq(node->text, KH_SLICE("safe")))
		kh_reader_error(reader, node,
				"rules[].reuse_after_content: expected safe or never");
}

static void take_websocket(struct kh_reader *reader, struct kh_rule *rule,
			   const struct kh_yaml_node *node)
{
	bool scalar = node->kind == KH_NODE_SCALAR;
	if (rule->passthrough)
		kh_reader_error(reader, node,
				"rules[].websocket: with tls: passthrough nobody sees whether it "
				"is one");
	else if (scalar && kh_slice_eq(node->text, KH_SLICE("false")))
		rule->no_websocket = true;
	else if (!scalar || !kh_slice_eq(node->text, KH_SLICE("true")))
		kh_reader_error(reader, node, "rules[].websocket: expected true or false");
}

/* An open WebSocket is a way in both directions that no rule looks into any more, so a credential
 * goes into its handshake only where the rule says that one is meant. */
static void settle_websocket(struct kh_reader *reader, const struct kh_rules *rules,
			     struct kh_rule *rule, const struct kh_rule_draft *draft)
{
	if (draft->websocket)
		take_websocket(reader, rule, draft->websocket);
	else if ((draft->credential || draft->credentials) && !ceiling(reader, rules))
		rule->no_websocket = rule->websocket_unsaid = true;
}

static void take_spelling(struct kh_reader *reader, struct kh_rule *rule,
			  const struct kh_yaml_node *node)
{
	bool scalar = node->kind == KH_NODE_SCALAR;
	if (rule->scheme == KH_SCHEME_TCP)
		kh_reader_error(reader, node,
				"rules[].spelling: a rule over tcp names nothing that has "
				"spellings");
	else if (scalar && kh_slice_eq(node->text, KH_SLICE("exact")))
		rule->exact_spelling = true;
	else if (!scalar || !kh_slice_eq(node->text, KH_SLICE("any")))
		kh_reader_error(reader, node, "rules[].spelling: expected any or exact");
}

static void use(struct kh_reader *reader, struct kh_rules *rules, const struct kh_rule_draft *draft)
{
	const struct kh_yaml_node *node = draft->use;
	const struct kh_rule_draft alone = { .use = node };
	if (memcmp(draft, &alone, sizeof(alone)) != 0) { /* pointers and nothing else */
		kh_reader_error(reader, node, "rules[].use: must be alone in its rule");
		return;
	}
	if (reader->preset) {
		kh_reader_error(reader, node, "rules[].use: a preset uses no other preset");
		return;
	}
	const struct kh_yaml_node *name = node, *arguments = NULL;
	if (node->kind == KH_NODE_MAP && node->count == 1) {
		name = node->first->key;
		arguments = kh_node_is_empty(node->first) ? NULL : node->first;
	}
	if (name->kind != KH_NODE_SCALAR || kh_node_is_empty(name) ||
	    (arguments && arguments->kind != KH_NODE_MAP)) {
		kh_reader_error(
			reader, arguments ? arguments : node, "rules[].use: expected %s, got %s%s",
			arguments ? "a map of parameters" : "a preset's name",
			kh_node_what(arguments ? arguments : node),
			!arguments && node->count > 1 ? " (each has a rule of its own)" : "");
		return;
	}
	size_t from = rules->count;
	kh_preset_splice(reader, name->text, name, arguments, rules);
	/* As a ceiling a preset is its rules and nothing else. */
	for (size_t i = from; ceiling(reader, rules) && i < rules->count; i++) {
		rules->list[i].n_credentials = 0;
		rules->list[i].all_credentials = false;
		rules->list[i].client_auth_pass = false;
		rules->list[i].placeholder_refuse = false;
		rules->list[i].closes_after_content = false;
		rules->list[i].passthrough = false;
		rules->list[i].no_websocket &= !rules->list[i].websocket_unsaid;
		rules->list[i].websocket_unsaid = false;
		if (rules == reader->narrowing && rules->list[i].more)
			rules->list[i].more->observe = false;
	}
}

/* What a rule says beside its text. */
static void take_members(struct kh_reader *reader, struct kh_rules *rules, struct kh_rule *slot,
			 const struct kh_rule_draft *draft)
{
	kh_conditions_take(reader, slot, draft);
	if (rules == reader->narrowing && slot->more && slot->more->observe)
		kh_reader_error(reader, draft->mode,
				"rules[].mode: a narrowing only takes away, and is never only "
				"observed");
	if (draft->geo && rules == reader->narrowing)
		kh_reader_error(reader, draft->geo,
				"rules[].geo: belongs to the rules of the site or of a tenant");
	else if (draft->geo)
		kh_geo_take(reader, slot, draft->geo);
	if (draft->credential || draft->credentials)
		take_credentials(reader, rules, draft);
	if (draft->client_auth)
		take_client_auth(reader, rules, slot, draft);
	if (draft->tls)
		take_tls(reader, rules, slot, draft);
	settle_websocket(reader, rules, slot, draft);
	if (draft->spelling)
		take_spelling(reader, slot, draft->spelling);
	if (draft->placeholder)
		take_placeholder(reader, rules, slot, draft);
	if (draft->reuse_after_content)
		take_reuse(reader, rules, slot, draft->reuse_after_content);
	kh_limits_take_rule(reader, slot, draft,
			    rules == reader->narrowing ? ceiling(reader, rules) : NULL);
}

/* The first key of a draft that has this flag; NULL: none. */
static const struct kh_yaml_node *first_of(const struct kh_rule_draft *draft, unsigned flag)
{
#define KEY(name, in, ...) { draft->name, in },
	const struct {
		const struct kh_yaml_node *node;
		unsigned flags;
	} keys[] = { KH_RULE_KEYS(KEY) };
#undef KEY
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].node && keys[i].flags & flag)
			return keys[i].node;
	return NULL;
}

static bool is_kind(const char *word)
{
	return strcmp(word, "allow") == 0 || strcmp(word, "deny") == 0 || strcmp(word, "use") == 0;
}

/* Has a key been reported already as a mistyped allow, deny or use? */
static bool is_mistyped(const struct kh_yaml_node *rule)
{
	for (const struct kh_yaml_node *child = rule->first; child; child = child->next) {
		struct kh_nearest nearest;
		kh_nearest_init(&nearest, child->key->text);
#define OFFER(name, ...) kh_nearest_offer(&nearest, #name);
		KH_RULE_KEYS(OFFER)
#undef OFFER
		if (nearest.best && is_kind(nearest.best))
			return true;
	}
	return false;
}

/* Neither allow nor deny, or both. */
static void complain_of_kind(struct kh_reader *reader, const struct kh_rule_draft *draft,
			     const struct kh_yaml_node *node)
{
	if (draft->allow)
		kh_reader_error(reader, node,
				"rules[]: exactly one of allow, deny, use; this rule has allow and "
				"deny");
	else if (!is_mistyped(node))
		kh_reader_error(reader, node, "rules[]: expected one of allow, deny, use");
}

/* The text of a rule, while it is read. */
struct told {
	struct kh_reader *reader;
	const struct kh_yaml_node *text;
};

static void tell(void *arg, const struct kh_err *err)
{
	const struct told *told = arg;
	kh_reader_error(told->reader, told->text, "rule \"%s\": %s", kh_esc(told->text->text),
			err->text);
}

/* One whose text is wrong goes nowhere, and the rest of it is read, so that its other errors are
 * shown as well. */
static bool parse_text(struct kh_reader *reader, const struct kh_yaml_node *text,
		       struct kh_rule *out)
{
	struct told told = { reader, text };
	char hint[KH_NEAREST_BYTES];
	if (!kh_rule_parse(out, text->text, NULL)) {
		kh_rule_faults(text->text, tell, &told);
		*out = (struct kh_rule){ .text = kh_slice_dup(text->text),
					 .scheme = KH_SCHEME_HTTPS };
		return out->text != NULL;
	}
	for (size_t i = 0; i < out->n_methods && !reader->preset; i++)
		if (!kh_method_is_known(kh_slice_str(out->methods[i])))
			kh_reader_warn(reader, text,
				       "rule \"%s\": \"%s\" is no method that keyhole knows%s: the "
				       "rule is only for servers that have one of this name",
				       kh_esc(text->text), kh_esc_str(out->methods[i]),
				       kh_method_hint(kh_slice_str(out->methods[i]), hint));
	if (!reader->preset && out->path && kh_pattern_has_brackets(kh_slice_str(out->path)))
		kh_reader_warn(reader, text, "rule \"%s\": %s", kh_esc(text->text),
			       kh_pattern_brackets_text);
	return true;
}

void kh_rule_done(struct kh_reader *reader, void *parent, void *item,
		  const struct kh_yaml_node *node)
{
	struct kh_rules *rules = parent;
	const struct kh_rule_draft draft = *(struct kh_rule_draft *)item;
	if (draft.use) {
		use(reader, rules, &draft);
		return;
	}
	const struct kh_yaml_node *text = draft.allow ? draft.allow : draft.deny;
	if (!text || (draft.allow && draft.deny)) {
		complain_of_kind(reader, &draft, node);
		return;
	}
	if (text->kind != KH_NODE_SCALAR || kh_node_is_empty(text)) {
		kh_reader_error(reader, text, "rules[].%s: expected the text of a rule, got %s",
				draft.allow ? "allow" : "deny", kh_node_what(text));
		return;
	}
	struct kh_rule rule;
	if (!parse_text(reader, text, &rule))
		return;
	rule.allow = draft.allow;
	rule.where = kh_reader_where(reader, text);
	if (reader->preset)
		rule.preset = kh_slice_dup(kh_slice_str(reader->preset));
	struct kh_rule *slot = kh_list_add(&rules->list, &rules->count, sizeof(*slot));
	if (!slot || (reader->preset && !rule.preset)) {
		kh_rule_fini(&rule);
		(void)kh_reader_no_memory(reader);
		return;
	}
	*slot = rule;
	/* A ceiling may be wide, and so may a denial. */
	if (rule.allow && !ceiling(reader, rules)) {
		if (!kh_config_check_suffix(reader, text, rule.host.match, rule.host.name,
					    draft.public_suffix))
			return;
	} else if (draft.public_suffix) {
		kh_reader_error(reader, draft.public_suffix,
				"rules[].public_suffix: belongs to a tenant's rule that allows");
		return;
	}
	const struct kh_yaml_node *carried = first_of(&draft, KH_OF_ALLOW);
	const struct kh_yaml_node *asked = first_of(&draft, KH_OF_REQUEST);
	if (asked && rule.scheme == KH_SCHEME_TCP) {
		kh_reader_error(reader, asked,
				"rules[]: a rule over tcp asks nothing but host and port: nobody "
				"reads what passes");
		return;
	}
	if (carried && (!rule.allow || rule.scheme == KH_SCHEME_TCP)) {
		kh_reader_error(reader, carried,
				rule.allow ? "rules[]: a rule over tcp carries nothing"
					   : "rules[]: a rule that denies carries nothing");
		return;
	}
	take_members(reader, rules, slot, &draft);
}
