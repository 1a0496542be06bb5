/*
 * binding.c - the binding of a credential (hosts, paths, methods), and a check of all rules against
 * it
 *
 * A rule that reaches beyond the binding of its credential is an error, which names the rule's
 * place. The worker checks each request again (credential/binding.c).
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/path.h>

#include "config_internal.h"

enum { MOST_PATHS = 64, MOST_METHODS = 16, PATTERN_BYTES = 4096, METHOD_BYTES = 32 };

#define say(reader, where, ...) kh_diagnostics_add((reader)->diags, false, where, __VA_ARGS__)

/* ---- reading ---- */

void kh_binding_add_host(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_yaml_node *node, struct kh_credential_config *credential)
{
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node)) {
		kh_reader_error(reader, node, "%s: expected a host, got %s", option->path,
				kh_node_what(node));
		return;
	}
	struct kh_err err = KH_ERR_INIT;
	struct kh_host_pattern pattern;
	if (!kh_host_pattern_parse(&pattern, node->text, &err)) {
		/* The parser quotes what it refuses; here that may be a key. */
		kh_reader_error(reader, node,
				"%s: expected a host such as api.example.com or *.example.com%s",
				option->path,
				kh_slice_has_prefix(node->text, KH_SLICE("*."))
					? " (a wildcard needs at least two labels after it)"
					: "");
		return;
	}
	if (pattern.match == KH_MATCH_SUFFIX &&
	    !kh_config_check_registry(reader, node, pattern.host.text))
		return;
	bool wide = pattern.match == KH_MATCH_RANGE &&
		    pattern.range.prefix_bits < (pattern.range.family == 4 ? 32 : 128);
	if (pattern.match == KH_MATCH_ANY || wide) {
		kh_reader_error(reader, node,
				"%s: a credential is bound to hosts: name them, no \"**\" and no "
				"range",
				option->path);
		return;
	}
	for (size_t i = 0; i < credential->n_hosts; i++)
		if (kh_host_pattern_covers(&credential->hosts[i], &pattern))
			return;
	if (credential->n_hosts == KH_LIMIT_CREDENTIAL_HOSTS) {
		kh_reader_error(reader, node,
				"%s: more than %d hosts: give some tenants a credential of their "
				"own",
				option->path, KH_LIMIT_CREDENTIAL_HOSTS);
		return;
	}
	struct kh_host_pattern *slot =
		kh_list_add(&credential->hosts, &credential->n_hosts, sizeof(*slot));
	if (slot)
		*slot = pattern;
	else
		(void)kh_reader_no_memory(reader);
}

/* A scalar or a list of them, each to `one`. */
static void each(struct kh_reader *reader, const struct kh_option *option,
		 const struct kh_yaml_node *node, void *base,
		 void (*one)(struct kh_reader *, const struct kh_option *,
			     const struct kh_yaml_node *, struct kh_credential_config *))
{
	if (node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node))
		one(reader, option, node, base);
	else if (kh_reader_wants(reader, option, node, KH_NODE_LIST))
		for (const struct kh_yaml_node *child = node->first; child; child = child->next)
			one(reader, option, child, base);
}

void kh_config_read_hosts(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, void *base)
{
	each(reader, option, node, base, kh_binding_add_host);
}

static void keep(struct kh_reader *reader, struct kh_slice text, char ***list, size_t *count)
{
	char **slot = kh_list_add(list, count, sizeof(*slot));
	if (slot)
		*slot = kh_slice_dup(text);
	if (!slot || !*slot) {
		(void)kh_reader_no_memory(reader);
		if (slot)
			(*count)--;
	}
}

const char *kh_binding_path_fault(struct kh_slice text, struct kh_buf *normal)
{
	if (kh_slice_find(text, '?', 0) < text.len || kh_slice_find(text, '#', 0) < text.len)
		return "a path alone: '?' and '#' have no place in it";
	for (size_t i = 0; i + 2 < text.len; i++)
		if (memcmp(text.ptr + i, "***", 3) == 0)
			return "three stars: '*' stays within a segment, '**' crosses";
	return kh_path_normalise(text, normal, NULL)
		       ? NULL
		       : "expected a path such as /v1/** ('*' within a segment, '**' across)";
}

static void add_path(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, struct kh_credential_config *credential)
{
	if (!kh_reader_scalar(reader, option, node))
		return;
	struct kh_buf normal;
	kh_buf_init(&normal, PATTERN_BYTES);
	const char *why = kh_binding_path_fault(node->text, &normal);
	if (!why && credential->n_paths == MOST_PATHS)
		why = "more than 64 paths";
	if (why)
		kh_reader_error(reader, node, "%s: %s", option->path, why);
	else
		keep(reader, kh_buf_view(&normal), &credential->paths, &credential->n_paths);
	if (!why && !reader->preset && kh_pattern_has_brackets(node->text))
		kh_reader_warn(reader, node, "%s: %s", option->path, kh_pattern_brackets_text);
	kh_buf_fini(&normal);
}

void kh_config_read_binding_paths(struct kh_reader *reader, const struct kh_option *option,
				  const struct kh_yaml_node *node, void *base)
{
	each(reader, option, node, base, add_path);
}

const char *kh_binding_method_fault(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((text.ptr[i] < 'A' || text.ptr[i] > 'Z') && text.ptr[i] != '-' &&
		    text.ptr[i] != '_')
			return "expected methods in capitals, such as GET";
	if (text.len == 0 || text.len > METHOD_BYTES)
		return "expected methods in capitals, such as GET";
	if (kh_slice_eq(text, KH_SLICE("TRACE")) || kh_slice_eq(text, KH_SLICE("CONNECT")))
		return "no credential goes with TRACE or CONNECT";
	return NULL;
}

static void add_method(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, struct kh_credential_config *credential)
{
	if (!kh_reader_scalar(reader, option, node))
		return;
	char hint[KH_NEAREST_BYTES];
	const char *why = kh_binding_method_fault(node->text);
	if (!why && credential->n_methods == MOST_METHODS)
		why = "more than 16 methods";
	if (why) {
		kh_reader_error(reader, node, "%s: %s", option->path, why);
		return;
	}
	if (!kh_method_is_known(node->text) && !reader->preset)
		kh_reader_warn(reader, node, "%s: \"%s\" is no method that keyhole knows%s",
			       option->path, kh_esc(node->text), kh_method_hint(node->text, hint));
	keep(reader, node->text, &credential->methods, &credential->n_methods);
}

void kh_config_read_binding_methods(struct kh_reader *reader, const struct kh_option *option,
				    const struct kh_yaml_node *node, void *base)
{
	each(reader, option, node, base, add_method);
}

/* ---- what covers what ---- */

/*
 * The inner pattern is read as a text in which a star is a letter of its own: what an outer star
 * takes, it takes whatever that stands for. '**' takes anything, '*' all but '/' and '**'. So where
 * this finds a way, each path of the inner pattern has one too. Rows of the usual table, one at a
 * time.
 */
enum { STAR = 0x100, STARS = 0x101 };

static size_t tokens(const char *pattern, unsigned short out[PATTERN_BYTES])
{
	size_t n = 0;
	for (const char *p = pattern; *p && n < PATTERN_BYTES; p++) {
		if (p[0] == '*' && p[1] == '*') {
			out[n++] = STARS;
			p++;
		} else {
			out[n++] = p[0] == '*' ? STAR : (unsigned char)*p;
		}
	}
	return n;
}

bool kh_path_pattern_covers(const char *outer, const char *inner)
{
	if (!inner)
		inner = "/**";
	if (strlen(outer) >= PATTERN_BYTES || strlen(inner) >= PATTERN_BYTES)
		return false;
	unsigned short o[PATTERN_BYTES], i[PATTERN_BYTES];
	bool row[PATTERN_BYTES + 1] = { true }; /* which beginnings of `inner` are taken */
	size_t n_outer = tokens(outer, o), n_inner = tokens(inner, i);
	for (size_t at = 0; at < n_outer; at++) {
		bool before = row[0], star = o[at] == STAR || o[at] == STARS;
		row[0] = row[0] && star;
		for (size_t j = 0; j < n_inner; j++) {
			bool taken = star ? row[j + 1] : before && o[at] == i[j];
			if (star && row[j] && (o[at] == STARS || (i[j] != '/' && i[j] != STARS)))
				taken = true;
			before = row[j + 1];
			row[j + 1] = taken;
		}
	}
	return row[n_inner];
}

static bool covers_host(const struct kh_credential_config *credential, const struct kh_rule *rule)
{
	struct kh_host_pattern host;
	kh_rule_host_expand(&rule->host, &host);
	for (size_t i = 0; i < credential->n_hosts; i++)
		if (kh_host_pattern_covers(&credential->hosts[i], &host))
			return true;
	return false;
}

static bool covers_path(const struct kh_credential_config *credential, const struct kh_rule *rule)
{
	for (size_t i = 0; i < credential->n_paths; i++)
		if (kh_path_pattern_covers(credential->paths[i], rule->path))
			return true;
	return credential->n_paths == 0;
}

static bool has_method(const struct kh_credential_config *credential, const char *method)
{
	for (size_t i = 0; i < credential->n_methods; i++)
		if (strcmp(credential->methods[i], method) == 0)
			return true;
	return false;
}

static bool covers_methods(const struct kh_credential_config *credential,
			   const struct kh_rule *rule)
{
	bool all = rule->n_methods > 0;
	for (size_t i = 0; all && i < rule->n_methods; i++)
		all = has_method(credential, rule->methods[i]);
	return credential->n_methods == 0 || all;
}

bool kh_binding_covers(const struct kh_credential_config *credential, const struct kh_rule *rule)
{
	return rule->scheme == KH_SCHEME_HTTPS && covers_host(credential, rule) &&
	       covers_path(credential, rule) && covers_methods(credential, rule);
}

enum { HOST_TEXT_BYTES = KH_HOST_MAX_BYTES + 3 };

/* As `hosts` takes it; "" for a range of more than one address, which it does not take. */
static void put_host(const struct kh_rule_host *host, char out[HOST_TEXT_BYTES])
{
	bool v4 = host->match == KH_MATCH_RANGE && host->range.family == 4;
	char text[INET6_ADDRSTRLEN];
	out[0] = '\0';
	if (host->match == KH_MATCH_EXACT || host->match == KH_MATCH_SUFFIX)
		(void)snprintf(out, HOST_TEXT_BYTES, "%s%s",
			       host->match == KH_MATCH_SUFFIX ? "*." : "", host->name);
	else if (host->match == KH_MATCH_RANGE && host->range.prefix_bits == (v4 ? 32 : 128) &&
		 inet_ntop(v4 ? AF_INET : AF_INET6, host->range.addr, text, sizeof(text)))
		(void)snprintf(out, HOST_TEXT_BYTES, v4 ? "%s" : "[%s]", text);
}

static void complain_of_host(struct kh_reader *reader, const struct kh_rule *rule, const char *name)
{
	char host[HOST_TEXT_BYTES];
	put_host(&rule->host, host);
	if (rule->host.match == KH_MATCH_ANY)
		say(reader, rule->where,
		    "a rule for any host (\"**\") can't carry a credential: name the hosts");
	else if (!host[0])
		say(reader, rule->where,
		    "a rule for a range can't carry a credential: name the hosts");
	else
		say(reader, rule->where,
		    "credential \"%s\" may not go to %s, which this rule allows: its own `hosts` "
		    "bind it (add %s%s%s to credentials.%s.hosts)",
		    name, host, strpbrk(host, "*[") ? "\"" : "", host,
		    strpbrk(host, "*[") ? "\"" : "", name);
}

static void check_binding(struct kh_reader *reader, const struct kh_rule *rule,
			  const struct kh_credential_config *credential)
{
	const char *name = kh_esc_str(credential->name);
	if (rule->scheme != KH_SCHEME_HTTPS)
		say(reader, rule->where,
		    "credential \"%s\" would go over plain %s: only https carries one", name,
		    kh_scheme_name(rule->scheme));
	for (size_t i = 0; i < rule->n_methods; i++)
		if (kh_slice_eq_nocase(kh_slice_str(rule->methods[i]), KH_SLICE("TRACE")))
			say(reader, rule->where,
			    "credential \"%s\" would go with TRACE, which sends it back: no "
			    "credential does (leave the method out)",
			    name);
	if (credential->n_hosts == 0)
		return; /* an error of the credential, which was said */
	if (!covers_host(credential, rule))
		complain_of_host(reader, rule, name);
	if (!covers_path(credential, rule))
		say(reader, rule->where,
		    "credential \"%s\" may not go to all paths of this rule: its own `paths` bind "
		    "it (give the rule a path that they cover)",
		    name);
	if (!covers_methods(credential, rule))
		say(reader, rule->where,
		    "credential \"%s\" may not go with all methods of this rule: its own `methods` "
		    "bind it (name the methods in the rule)",
		    name);
}

/* ---- several at once ---- */

static bool is_same_field(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if ((*a == '_' ? '-' : kh_lower(*a)) != (*b == '_' ? '-' : kh_lower(*b)))
			return false;
	return *a == *b;
}

static bool sets_field(const struct kh_placement *placement, const char *name)
{
	for (size_t i = 0; i < placement->n_fields; i++)
		if (is_same_field(placement->fields[i].name, name))
			return true;
	for (size_t i = 0; placement->hmac && i < placement->hmac->n_fields; i++)
		if (is_same_field(placement->hmac->fields[i].name, name))
			return true;
	return placement->kind == KH_PLACEMENT_COOKIE && is_same_field(name, "cookie");
}

static bool changes_content(const struct kh_placement *placement)
{
	return placement->kind == KH_PLACEMENT_QUERY || placement->kind == KH_PLACEMENT_BODY;
}

/* What both would write, NULL when they go side by side. */
static const char *clash(const struct kh_placement *a, const struct kh_placement *b)
{
	for (size_t i = 0; i < a->n_fields; i++)
		if (sets_field(b, a->fields[i].name))
			return a->fields[i].name;
	for (size_t i = 0; i < b->n_fields; i++)
		if (sets_field(a, b->fields[i].name))
			return b->fields[i].name;
	/* What is signed is what goes out: nothing else writes there, nor signs. */
	if (kh_placement_signs(a) && (kh_placement_signs(b) || changes_content(b)))
		return b->key;
	if (kh_placement_signs(b) && changes_content(a))
		return a->key;
	if (a->kind != b->kind || a->kind == KH_PLACEMENT_FIELDS)
		return NULL;
	if (a->name && b->name && a->kind != KH_PLACEMENT_BODY)
		return is_same_field(a->name, b->name) ? a->name : NULL;
	return a->key;
}

const char *kh_binding_clash(const struct kh_config *config, const struct kh_rule *rule,
			     const char **one, const char **other)
{
	for (size_t i = 0; rule->all_credentials && i < rule->n_credentials; i++)
		for (size_t j = 0; j < i; j++) {
			const struct kh_credential_config *a =
				&config->credentials[rule->credentials[j]];
			const struct kh_credential_config *b =
				&config->credentials[rule->credentials[i]];
			const char *what = a->placement && b->placement
						   ? clash(a->placement, b->placement)
						   : NULL;
			*one = a->name;
			*other = b->name;
			if (what)
				return what;
		}
	return NULL;
}

void kh_config_check_rules(struct kh_reader *reader, const struct kh_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		const char *one, *other;
		/* Its text could not be read. */
		if (rule->host.match == KH_MATCH_NOTHING)
			continue;
		for (size_t j = 0; j < rule->n_credentials; j++)
			check_binding(reader, rule,
				      &reader->config->credentials[rule->credentials[j]]);
		const char *what = kh_binding_clash(reader->config, rule, &one, &other);
		if (what)
			say(reader, rule->where,
			    "credentials \"%s\" and \"%s\" both go into \"%s\": take one of the "
			    "two",
			    kh_esc_str(one), kh_esc_str(other), kh_esc_str(what));
	}
}
