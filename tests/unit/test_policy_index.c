/* test_policy_index.c - what the index finds is what a look at every rule finds */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/policy/policy.h>

#include "policy/policy_internal.h"

/* A small generator, so that a failure can be had again. */
static uint64_t state = 88172645463325252u;

static unsigned any(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % below;
}

static const char *const labels[] = {
	"a", "b", "c", "example", "xn--p1ai", "x-y", "a-label-that-is-longer-than-eighteen-bytes"
};
enum { N_LABELS = sizeof(labels) / sizeof(labels[0]) };

static void put_name(char *out, size_t size, unsigned most)
{
	size_t len = 0;
	for (unsigned i = 0, n = 2 + any(most); i < n; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s", i ? "." : "",
					labels[any(N_LABELS)]);
}

static void put_address(char *out, size_t size)
{
	if (any(2))
		(void)snprintf(out, size, "10.%u.0.%u", any(2), any(3));
	else
		(void)snprintf(out, size, "fd00:0:%u::%u", any(2), 1 + any(3));
}

static void put_host_pattern(char *out, size_t size)
{
	char name[512];
	switch (any(8)) {
	case 0:
		(void)snprintf(out, size, "**");
		return;
	case 1:
		put_address(name, sizeof(name));
		(void)snprintf(out, size, "[%s]", name);
		return;
	case 2:
		(void)snprintf(out, size, "[%s]", any(2) ? "10.0.0.0/8" : "10.1.0.0/16");
		return;
	case 3:
		(void)snprintf(out, size, "[%s]", any(2) ? "fd00::/8" : "::/0");
		return;
	case 4:
	case 5:
		put_name(name, sizeof(name), 3);
		(void)snprintf(out, size, "*.%s", name);
		return;
	default:
		put_name(out, size, 3);
	}
}

static void put_rule(struct kh_rule *rule)
{
	static const char *const methods[] = {
		"", "* ", "GET ", "GET,POST ", "PURGE ", "PURGE,GET "
	};
	static const char *const paths[] = { "", "/", "/v1/**", "/v1/*", "/**" };
	char host[600], text[700];
	put_host_pattern(host, sizeof(host));
	(void)snprintf(text, sizeof(text), "%s%s://%s%s%s", methods[any(6)],
		       any(4) ? "https" : "http", host, any(4) ? "" : ":8443", paths[any(5)]);
	struct kh_err err = KH_ERR_INIT;
	if (!kh_rule_parse(rule, kh_slice_str(text), &err))
		fail_msg("%s: %s", text, err.text);
	rule->allow = any(3) > 0;
}

static void put_host(struct kh_host *host)
{
	char name[512];
	if (any(4) == 0)
		put_address(name, sizeof(name));
	else
		put_name(name, sizeof(name), 4);
	assert_true(kh_host_parse(host, kh_slice_str(name), NULL));
}

/* Every rule, from top to bottom. */
static const struct kh_rule *look_at_all(const struct kh_rules *rules,
					 const struct kh_request_view *request)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct kh_rule *rule = &rules->list[i];
		struct kh_host_pattern pattern;
		kh_rule_host_expand(&rule->host, &pattern);
		bool method = rule->n_methods == 0;
		for (size_t m = 0; m < rule->n_methods; m++)
			method = method ||
				 kh_slice_eq(kh_slice_str(rule->methods[m]), request->method);
		if (method && rule->scheme == request->scheme && rule->port == request->port &&
		    kh_host_pattern_matches(&pattern, request->host) &&
		    (!rule->path || kh_path_matches(kh_slice_str(rule->path), request->path)))
			return rule;
	}
	return NULL;
}

static void ask_both(const struct kh_policy *policy, const struct kh_config *config)
{
	static const char *const methods[] = { "GET", "POST", "PURGE", "PUT" };
	static const char *const paths[] = { "/", "/v1/x", "/v1/x/y" };
	struct kh_host host;
	put_host(&host);
	bool tls = any(4) > 0;
	struct kh_request_view view = { .method = kh_slice_str(methods[any(4)]),
					.scheme = tls ? KH_SCHEME_HTTPS : KH_SCHEME_HTTP,
					.host = &host,
					.port = (uint16_t)(any(4) ? (tls ? 443 : 80) : 8443),
					.path = kh_slice_str(paths[any(3)]) };
	uint16_t tenant = (uint16_t)any((unsigned)config->n_tenants);
	struct kh_decision got;
	kh_policy_decide(policy, tenant, NULL, &view, &got);
	const struct kh_rule *site = look_at_all(&config->site, &view);
	const struct kh_rule *due = site;
	bool allowed = config->site.count == 0 || (site && site->allow);
	assert_int_equal(got.list == KH_LIST_SITE, !allowed);
	if (allowed)
		due = look_at_all(&config->tenants[tenant].rules, &view);
	if (got.rule != due)
		fail_msg("%s: got %s, due is %s", host.text, got.rule ? got.rule->text : "none",
			 due ? due->text : "none");
	assert_int_equal(got.allow, allowed && due && due->allow);
	struct kh_decision explained;
	kh_policy_explain(policy, tenant, NULL, &view, NULL, NULL, &explained);
	assert_true(explained.rule == got.rule && explained.allow == got.allow &&
		    explained.reason == got.reason && explained.list == got.list);
}

static void free_config(struct kh_config *config)
{
	for (size_t t = 0; t < config->n_tenants + 1; t++) {
		struct kh_rules *rules =
			t < config->n_tenants ? &config->tenants[t].rules : &config->site;
		for (size_t r = 0; r < rules->count; r++)
			kh_rule_fini(&rules->list[r]);
		free(rules->list);
	}
	free(config->tenants);
}

static void fill_rules(struct kh_rules *rules, size_t count)
{
	rules->list = calloc(count + 1, sizeof(*rules->list));
	assert_non_null(rules->list);
	rules->count = count;
	for (size_t r = 0; r < count; r++)
		put_rule(&rules->list[r]);
}

static void the_index_finds_what_a_look_at_every_rule_finds(void **unused)
{
	(void)unused;
	for (unsigned round = 0; round < 60; round++) {
		struct kh_config config = { 0 };
		config.n_tenants = 1 + any(4);
		config.tenants = calloc(config.n_tenants, sizeof(*config.tenants));
		assert_non_null(config.tenants);
		fill_rules(&config.site, any(2) ? any(20) : 0);
		for (size_t t = 0; t < config.n_tenants; t++)
			fill_rules(&config.tenants[t].rules, any(round + 1));
		struct kh_policy *policy = kh_policy_compile(&config, NULL);
		assert_non_null(policy);
		for (unsigned i = 0; i < 400; i++)
			ask_both(policy, &config);
		kh_policy_unref(policy);
		free_config(&config);
	}
}

static struct kh_policy *one_tenant(struct kh_config *config, struct kh_tenant_config *tenant)
{
	*config = (struct kh_config){ .tenants = tenant, .n_tenants = 1 };
	struct kh_policy *policy = kh_policy_compile(config, NULL);
	assert_non_null(policy);
	return policy;
}

static void add_rule(struct kh_tenant_config *tenant, const char *text)
{
	struct kh_rules *rules = &tenant->rules;
	rules->list = reallocarray(rules->list, rules->count + 1, sizeof(*rules->list));
	assert_non_null(rules->list);
	assert_true(kh_rule_parse(&rules->list[rules->count], kh_slice_str(text), NULL));
	rules->list[rules->count++].allow = true;
}

/* Return: the place of the rule that decides, -1 for none. */
static int ask(const struct kh_policy *policy, const struct kh_tenant_config *tenant,
	       const char *name, const char *path)
{
	struct kh_host host;
	struct kh_decision decision;
	assert_true(kh_host_parse(&host, kh_slice_str(name), NULL));
	struct kh_request_view view = { .method = KH_SLICE("GET"),
					.scheme = KH_SCHEME_HTTPS,
					.host = &host,
					.port = 443,
					.path = kh_slice_str(path) };
	kh_policy_decide(policy, 0, NULL, &view, &decision);
	return decision.rule ? (int)(decision.rule - tenant->rules.list) : -1;
}

static void fini(struct kh_policy *policy, struct kh_tenant_config *tenant)
{
	kh_policy_unref(policy);
	for (size_t i = 0; i < tenant->rules.count; i++)
		kh_rule_fini(&tenant->rules.list[i]);
	free(tenant->rules.list);
}

/* The longest names: each label is a suffix that a rule names, and they are met in order. */
static void a_name_of_127_labels_has_its_place(void **unused)
{
	(void)unused;
	struct kh_tenant_config tenant = { 0 };
	struct kh_config config;
	char name[254] = "", text[300], path[32];
	for (unsigned i = 0; i < 127; i++) {
		name[2 * i] = 'a';
		name[2 * i + 1] = i < 126 ? '.' : '\0';
	}
	for (unsigned i = 1; i < 126; i++) {
		(void)snprintf(text, sizeof(text), "https://*.%s/%u", name + 2 * i, i);
		add_rule(&tenant, text);
	}
	(void)snprintf(text, sizeof(text), "https://%s/0", name);
	add_rule(&tenant, text);
	add_rule(&tenant, "https://**/any");
	struct kh_policy *policy = one_tenant(&config, &tenant);
	for (unsigned i = 1; i < 126; i++) {
		(void)snprintf(path, sizeof(path), "/%u", i);
		assert_int_equal(ask(policy, &tenant, name, path), i - 1);
		assert_int_equal(ask(policy, &tenant, name + 2 * i, path), -1); /* never itself */
	}
	assert_int_equal(ask(policy, &tenant, name, "/0"), 125);
	assert_int_equal(ask(policy, &tenant, name, "/any"), 126);
	assert_int_equal(ask(policy, &tenant, name + 2, "/0"), -1);
	fini(policy, &tenant);
}

static void every_prefix_length_has_its_place(void **unused)
{
	(void)unused;
	struct kh_tenant_config tenant = { 0 };
	struct kh_config config;
	char text[128], path[32];
	for (unsigned bits = 0; bits <= 128; bits++) {
		(void)snprintf(text, sizeof(text), "https://[::/%u]/%u", bits, bits);
		add_rule(&tenant, text);
	}
	add_rule(&tenant, "https://[0.0.0.0/0]/v4");
	struct kh_policy *policy = one_tenant(&config, &tenant);
	for (unsigned bits = 0; bits <= 128; bits++) {
		(void)snprintf(path, sizeof(path), "/%u", bits);
		assert_int_equal(ask(policy, &tenant, "::", path), bits);
		assert_int_equal(ask(policy, &tenant, "::1", path), bits < 128 ? (int)bits : -1);
		assert_int_equal(ask(policy, &tenant, "8000::", path), bits ? -1 : 0);
		assert_int_equal(ask(policy, &tenant, "1.2.3.4", path), -1);
	}
	assert_int_equal(ask(policy, &tenant, "1.2.3.4", "/v4"), 129);
	assert_int_equal(ask(policy, &tenant, "a.example", "/v4"), -1);
	fini(policy, &tenant);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_index_finds_what_a_look_at_every_rule_finds),
		cmocka_unit_test(a_name_of_127_labels_has_its_place),
		cmocka_unit_test(every_prefix_length_has_its_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
