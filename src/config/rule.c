/* rule.c - the grammar of a rule: [METHODS] SCHEME://HOST[:PORT][/PATH] */
#include <stdlib.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/path.h>

#include "config_internal.h"

enum { PATTERN_BYTES = 4096, MOST_METHODS = 32, METHOD_BYTES = 32 };

const char *kh_scheme_name(enum kh_scheme scheme)
{
	switch (scheme) {
	case KH_SCHEME_HTTP:
		return "http";
	case KH_SCHEME_HTTPS:
		return "https";
	case KH_SCHEME_TCP:
		return "tcp";
	case KH_SCHEME_NONE:
		break;
	}
	return "none";
}

uint16_t kh_scheme_port(enum kh_scheme scheme)
{
	return scheme == KH_SCHEME_HTTP ? 80 : scheme == KH_SCHEME_HTTPS ? 443 : 0;
}

static bool add_method(struct kh_rule *rule, struct kh_slice method, struct kh_err *err)
{
	if (method.len == 0 || method.len > METHOD_BYTES)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "a method must have 1 to %d letters, and a comma between two",
				  METHOD_BYTES);
	for (size_t i = 0; i < method.len; i++) {
		char c = method.ptr[i];
		if ((c < 'A' || c > 'Z') && c != '-' && c != '_')
			return kh_err_set(err, KH_ERR_CONFIG,
					  "method \"%s\": methods are written in capitals",
					  kh_esc(method));
	}
	if (kh_slice_eq(method, KH_SLICE("CONNECT")))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CONNECT is no method of a rule: it opens where a rule allows "
				  "something, and nothing else");
	for (size_t i = 0; i < rule->n_methods; i++)
		if (kh_slice_eq(kh_slice_str(rule->methods[i]), method))
			return kh_err_set(err, KH_ERR_CONFIG, "method \"%s\" is there twice",
					  kh_esc(method));
	if (rule->n_methods == MOST_METHODS)
		return kh_err_set(err, KH_ERR_CONFIG, "more than %d methods", MOST_METHODS);
	char **slot = kh_list_add(&rule->methods, &rule->n_methods, sizeof(*slot));
	if (slot)
		*slot = kh_slice_dup(method);
	if (!slot || !*slot)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "out of memory");
	return true;
}

/* The first fault, or each of them. */
struct faults {
	struct kh_err *first; /* or NULL */
	kh_rule_fault *each;  /* NULL: only the first is wanted */
	void *arg;
	bool any;
};

/* Return: true: go on. */
static bool take(struct faults *faults, bool ok, struct kh_err *err)
{
	if (ok)
		return true;
	if (!faults->any && faults->first)
		*faults->first = *err;
	if (faults->each)
		faults->each(faults->arg, err);
	faults->any = true;
	*err = (struct kh_err)KH_ERR_INIT;
	return faults->each != NULL;
}

static bool parse_methods(struct kh_rule *rule, struct kh_slice text, struct faults *faults)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_slice_eq(text, KH_SLICE("*")))
		return true;
	for (size_t at = 0; at <= text.len;) {
		size_t comma = kh_slice_find(text, ',', at);
		bool ok = add_method(rule, kh_slice_sub(text, at, comma), &err);
		if (!take(faults, ok, &err))
			return false;
		at = comma + 1;
	}
	return true;
}

static bool parse_port(struct kh_rule *rule, struct kh_slice text, struct kh_err *err)
{
	uint64_t port;
	if (!kh_slice_to_u64(text, &port) || port == 0 || port > 65535 || text.ptr[0] == '0')
		return kh_err_set(err, KH_ERR_CONFIG, "port \"%s\": expected 1 to 65535",
				  kh_esc(text));
	rule->port = (uint16_t)port;
	return true;
}

static bool keep_host(struct kh_rule_host *out, const struct kh_host_pattern *pattern,
		      struct kh_err *err)
{
	out->match = pattern->match;
	if (pattern->match == KH_MATCH_RANGE) {
		out->range = pattern->range;
	} else if (pattern->match != KH_MATCH_ANY) {
		out->name = kh_slice_dup(kh_host_view(&pattern->host));
		if (!out->name)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "out of memory");
	}
	return true;
}

void kh_rule_host_expand(const struct kh_rule_host *host, struct kh_host_pattern *out)
{
	*out = (struct kh_host_pattern){ .match = host->match };
	if (host->match == KH_MATCH_RANGE)
		out->range = host->range;
	else if ((host->match == KH_MATCH_EXACT || host->match == KH_MATCH_SUFFIX) &&
		 !kh_host_parse(&out->host, kh_slice_str(host->name), NULL))
		out->match = KH_MATCH_NOTHING;
}

/* HOST[:PORT]; an address of version 6 and every range are in brackets. */
static bool parse_authority(struct kh_rule *rule, struct kh_slice text, struct kh_err *err)
{
	size_t end = kh_slice_find(text, ':', 0);
	if (text.len > 0 && text.ptr[0] == '[') {
		end = kh_slice_find(text, ']', 0);
		if (end == text.len)
			return kh_err_set(err, KH_ERR_CONFIG, "host \"%s\": ']' is missing",
					  kh_esc(text));
		end++;
		if (end < text.len && text.ptr[end] != ':')
			return kh_err_set(err, KH_ERR_CONFIG,
					  "host \"%s\": only a port may follow ']'", kh_esc(text));
	}
	if (kh_slice_find(text, ' ', 0) < text.len)
		return kh_err_set(err, KH_ERR_CONFIG, "host \"%s\": a blank", kh_esc(text));
	if (kh_slice_find(text, '@', 0) < text.len)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "a rule names no user or password in front of '@'");
	if (end < text.len && !parse_port(rule, kh_slice_sub(text, end + 1, text.len), err))
		return false;
	if (end == text.len)
		rule->port = kh_scheme_port(rule->scheme);
	if (rule->port == 0)
		return kh_err_set(err, KH_ERR_CONFIG, "a rule over tcp names its port");
	struct kh_host_pattern host;
	return kh_host_pattern_parse(&host, kh_slice_sub(text, 0, end), err) &&
	       keep_host(&rule->host, &host, err);
}

static bool parse_path(struct kh_rule *rule, struct kh_slice text, struct kh_err *err)
{
	if (kh_slice_find(text, '?', 0) < text.len || kh_slice_find(text, '#', 0) < text.len)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "a rule looks at the path only: '?' and '#' have no place in it");
	for (size_t i = 0; i + 2 < text.len; i++)
		if (memcmp(text.ptr + i, "***", 3) == 0)
			return kh_err_set(err, KH_ERR_CONFIG,
					  "three stars: '*' stays within a segment, '**' crosses");
	struct kh_buf normal;
	kh_buf_init(&normal, PATTERN_BYTES);
	bool ok = kh_path_normalise(text, &normal, err);
	if (ok) {
		rule->path = kh_slice_dup(kh_buf_view(&normal));
		if (!rule->path)
			ok = kh_err_set(err, KH_ERR_NO_MEMORY, "out of memory");
	}
	kh_buf_fini(&normal);
	return ok;
}

/* "https://10.0.0.0/8": a range, or the path /8? */
static bool looks_like_range(struct kh_slice host, struct kh_slice path)
{
	struct kh_host address;
	uint64_t bits;
	return kh_slice_to_u64(kh_slice_sub(path, 1, path.len), &bits) && bits <= 32 &&
	       kh_host_parse(&address, host, NULL) && address.kind == KH_HOST_IPV4;
}

static bool parse_scheme(struct kh_rule *rule, struct kh_slice *rest, struct kh_err *err)
{
	static const enum kh_scheme schemes[] = { KH_SCHEME_HTTP, KH_SCHEME_HTTPS, KH_SCHEME_TCP };
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		struct kh_slice name = kh_slice_str(kh_scheme_name(schemes[i]));
		struct kh_slice after = kh_slice_sub(*rest, name.len, name.len + 3);
		if (kh_slice_has_prefix(*rest, name) && kh_slice_eq(after, KH_SLICE("://"))) {
			rule->scheme = schemes[i];
			*rest = kh_slice_sub(*rest, name.len + 3, rest->len);
			return true;
		}
	}
	return kh_err_set(err, KH_ERR_CONFIG,
			  "expected [METHODS] SCHEME://HOST[:PORT][/PATH] with http or https, as "
			  "in \"GET,HEAD https://api.example.com/v1/**\", or tcp://HOST:PORT");
}

/* HOST[:PORT][/PATH] */
static void parse_place(struct kh_rule *rule, struct kh_slice rest, bool whole,
			struct faults *faults)
{
	struct kh_err err = KH_ERR_INIT;
	/* The first '/' after the host; one inside of brackets belongs to a range. */
	size_t from = rest.len > 0 && rest.ptr[0] == '[' ? kh_slice_find(rest, ']', 0) : 0;
	size_t slash = kh_slice_find(rest, '/', from);
	struct kh_slice host = kh_slice_sub(rest, 0, slash);
	struct kh_slice path = kh_slice_sub(rest, slash, rest.len);
	if (path.len > 1 && looks_like_range(host, path)) {
		kh_err_set(&err, KH_ERR_CONFIG,
			   "a range is written in brackets: \"[%s%s]\" (and for the path write "
			   "\"[%s]%s\")",
			   kh_esc(host), kh_esc(path), kh_esc(host), kh_esc(path));
		(void)take(faults, false, &err);
		return;
	}
	if (rule->scheme == KH_SCHEME_TCP && (path.len > 0 || !whole)) {
		kh_err_set(&err, KH_ERR_CONFIG,
			   "a rule over tcp has neither methods nor a path: nobody reads "
			   "what passes");
		(void)take(faults, false, &err);
		return;
	}
	if (!take(faults, parse_authority(rule, host, &err), &err) || path.len == 0)
		return;
	(void)take(faults, parse_path(rule, path, &err), &err);
}

static void parse(struct kh_rule *rule, struct kh_slice text, struct faults *faults)
{
	struct kh_err err = KH_ERR_INIT;
	size_t blank = kh_slice_find(text, ' ', 0);
	struct kh_slice rest = text;
	/* A blank after the host is no end of methods. */
	if (blank < text.len && kh_slice_find(text, ':', 0) > blank) {
		if (!parse_methods(rule, kh_slice_sub(text, 0, blank), faults))
			return;
		rest = kh_slice_sub(text, blank + 1, text.len);
	}
	bool whole = rest.ptr == text.ptr;
	/* What follows is not read without a scheme. */
	if (!parse_scheme(rule, &rest, &err))
		(void)take(faults, false, &err);
	else
		parse_place(rule, rest, whole, faults);
}

bool kh_rule_parse(struct kh_rule *out, struct kh_slice text, struct kh_err *err)
{
	struct faults faults = { .first = err };
	*out = (struct kh_rule){ 0 };
	out->text = kh_slice_dup(text);
	if (!out->text)
		return kh_err_set(err, KH_ERR_CONFIG, "rule \"%s\": contains a NUL", kh_esc(text));
	parse(out, text, &faults);
	if (!faults.any)
		return true;
	kh_rule_fini(out);
	return false;
}

void kh_rule_faults(struct kh_slice text, kh_rule_fault *each, void *arg)
{
	struct faults faults = { .each = each, .arg = arg };
	struct kh_rule rule = { 0 };
	struct kh_err err = KH_ERR_INIT;
	if (kh_rule_parse(&rule, text, &err)) {
		kh_rule_fini(&rule);
		return;
	}
	rule = (struct kh_rule){ 0 };
	parse(&rule, text, &faults);
	kh_rule_fini(&rule);
	/* Text that can't be read at all. */
	if (!faults.any)
		each(arg, &err);
}

bool kh_rule_asks_more(const struct kh_rule *rule)
{
	const struct kh_rule_more *more = rule->more;
	return more && (more->n_conditions > 0 || more->has_max_body || more->observe);
}

bool kh_rule_covers_all(const struct kh_rule *rule)
{
	return rule->n_methods == 0 && (!rule->path || strcmp(rule->path, "/**") == 0) &&
	       !kh_rule_asks_more(rule);
}

struct kh_rule_more *kh_rule_more(struct kh_rule *rule)
{
	if (!rule->more)
		rule->more = calloc(1, sizeof(*rule->more));
	return rule->more;
}

/* Moves all of `more` to the end of `rules`. */
bool kh_rules_append(struct kh_rules *rules, struct kh_rules *more)
{
	for (size_t i = 0; i < more->count; i++) {
		struct kh_rule *slot = kh_list_add(&rules->list, &rules->count, sizeof(*slot));
		if (!slot)
			return false;
		*slot = more->list[i];
		more->list[i] = (struct kh_rule){ 0 };
	}
	for (size_t i = 0; i < more->n_uses; i++) {
		struct kh_preset_use *slot =
			kh_list_add(&rules->uses, &rules->n_uses, sizeof(*slot));
		if (!slot)
			return false;
		*slot = more->uses[i];
		more->uses[i] = (struct kh_preset_use){ 0 };
	}
	if (!kh_home_templates_append(&rules->files, &more->files))
		return false;
	kh_rules_fini(more);
	return true;
}
