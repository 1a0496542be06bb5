/* test_inject.c - all that goes into one request: targets, cookies, Basic, and what binds them */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include <keyhole/credential/credential.h>
#include <keyhole/exchange/dry_run.h>

static char *text(const char *literal)
{
	return (char *)(uintptr_t)literal;
}

static struct kh_secret *secret(const char *value)
{
	char copy[256];
	size_t len = strlen(value);

	assert_true(len <= sizeof(copy));
	memcpy(copy, value, len);
	struct kh_secret *made = kh_secret_new(copy, len, NULL);
	assert_non_null(made);
	return made;
}

static void assert_target(const struct kh_injection *injection, const char *raw,
			  const char *expected)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;

	kh_buf_init_wiping(&out, 4096);
	if (!kh_injection_put_target(injection, kh_slice_str(raw), &out, &err))
		fail_msg("%s: %s", raw, err.text);
	assert_string_equal(kh_buf_cstr(&out), expected);
	kh_buf_fini(&out);
}

static void a_parameter_takes_the_place_of_the_clients(void **state)
{
	struct kh_placement place = { .kind = KH_PLACEMENT_QUERY, .name = text("sig") };
	struct kh_credential_config credential = { .name = text("c"), .placement = &place };
	struct kh_injection injection = { .list = { { .credential = &credential,
						      .secret = secret("a b&c=%+\xc3\xa9") } },
					  .count = 1 };
#define OURS "sig=a%20b%26c%3D%25%2B%C3%A9"
	static const char *const cases[][2] = {
		{ "/p", "/p?" OURS },
		{ "/p?", "/p?&" OURS },
		{ "/p?a", "/p?a&" OURS },
		{ "/p?a=1&sig=x&b", "/p?a=1&" OURS "&b" },
		{ "/p?sig=x", "/p?" OURS },
		{ "/p?sig", "/p?" OURS },
		{ "/p?SIG=x&sig=y;%73ig=z", "/p?" OURS },
		{ "/p?a=1;sig=x;b=2", "/p?a=1&" OURS "&b=2" },
		{ "/p?a;b;key=1;c", "/p?a;b;c&" OURS },
		{ "/p?key=1&a", "/p?a&" OURS },
		{ "/p?sig[]=1&sig%00x=2&+sig=3", "/p?" OURS },
		/* Ours is no signature of the client's: what is beside it stays. */
		{ "/p?se=1&sig=x&sp=2", "/p?se=1&" OURS "&sp=2" },
		{ "/p?se=1&signature=x&sp=2", "/p?" OURS },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_target(&injection, cases[i][0], cases[i][1]);

	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;
	kh_buf_init(&out, 4096);
	assert_false(kh_injection_put_target(&injection, KH_SLICE("/"), &out, &err));
	assert_int_equal(err.code, KH_ERR_INTERNAL);
	kh_buf_fini(&out);
	kh_buf_init_wiping(&out, 4096);
	assert_false(kh_injection_put_target(&injection, KH_SLICE("*"), &out, &err));
	assert_int_equal(err.code, KH_ERR_CREDENTIAL_BINDING);
	kh_buf_fini(&out);
	/* No room: not a byte stays. */
	kh_buf_init_wiping(&out, 20);
	assert_false(kh_injection_put_target(&injection, KH_SLICE("/p?a=1"), &out, &err));
	assert_int_equal(kh_buf_len(&out), 0);
	assert_null(strstr(err.text, "a%20"));
	kh_buf_fini(&out);
	kh_injection_fini(&injection);
}

static void fields_of(const struct kh_injection *injection, const char *expected)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;

	kh_buf_init_wiping(&out, 4096);
	if (!kh_injection_put_fields(injection, &out, &err))
		fail_msg("%s", err.text);
	assert_string_equal(kh_buf_cstr(&out), expected);
	kh_buf_fini(&out);
}

static void basic_is_base64_of_user_and_value(void **state)
{
	static const char *const cases[][3] = {
		{ "u", "password", "dTpwYXNzd29yZA==" },
		{ "us", "password", "dXM6cGFzc3dvcmQ=" },
		{ "use", "password", "dXNlOnBhc3N3b3Jk" },
		{ NULL, "user:password", "dXNlcjpwYXNzd29yZA==" },
		{ "u", "\xff\xfe\xfd\xfc", "dTr//v38" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct kh_credential_field field = { .name = text("Authorization"),
						     .prefix = text("Basic "),
						     .suffix = text(""),
						     .form = KH_FIELD_BASIC,
						     .username = text(cases[i][0]) };
		struct kh_placement place = { .kind = KH_PLACEMENT_FIELDS,
					      .fields = &field,
					      .n_fields = 1 };
		struct kh_credential_config credential = { .name = text("c"), .placement = &place };
		struct kh_injection injection = { .list = { { .credential = &credential,
							      .secret = secret(cases[i][1]) } },
						  .count = 1 };
		char line[128];

		(void)snprintf(line, sizeof(line), "Authorization: Basic %s\r\n", cases[i][2]);
		fields_of(&injection, line);
		kh_injection_fini(&injection);
	}
}

static void cookies_are_one_field(void **state)
{
	struct kh_placement a = { .kind = KH_PLACEMENT_COOKIE, .name = text("a") };
	struct kh_placement b = { .kind = KH_PLACEMENT_COOKIE, .name = text("b") };
	struct kh_credential_config one = { .name = text("one"), .placement = &a };
	struct kh_credential_config two = { .name = text("two"), .placement = &b };
	struct kh_injection injection = {
		.list = { { .credential = &one, .secret = secret("first") },
			  { .credential = &two, .secret = secret("second") } },
		.count = 2
	};

	(void)state;
	fields_of(&injection, "Cookie: a=first; b=second\r\n");
	assert_true(kh_injection_sets_field(&injection, KH_SLICE("COOKIE")));
	kh_secret_unref(injection.list[1].secret);
	static const char *const bad[] = { "7 7", "7;7", "7,7", "7\"7", "7\\7", "\xc3\xa9" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_buf out;
		injection.list[1].secret = secret(bad[i]);
		kh_buf_init_wiping(&out, 4096);
		assert_false(kh_injection_put_fields(&injection, &out, &err));
		assert_int_equal(kh_buf_len(&out), 0);
		assert_null(strstr(err.text, bad[i]));
		assert_non_null(strstr(err.text, "two"));
		kh_buf_fini(&out);
		kh_secret_unref(injection.list[1].secret);
	}
	injection.list[1].secret = NULL;
	kh_injection_fini(&injection);
}

static void the_first_with_a_value_or_all_of_them(void **state)
{
	struct kh_credential_config list[3] = { { .name = text("a") },
						{ .name = text("b"), .present = true },
						{ .name = text("c"), .present = true } };
	struct kh_config config = { .credentials = list, .n_credentials = 3 };
	struct kh_rule rule = { .credentials = { 0, 2, 1 }, .n_credentials = 3 };
	struct kh_decision decision = { .allow = true, .rule = &rule };
	struct kh_injection injection = { .count = 0 };
	char names[64];

	(void)state;
	kh_injection_choose(&injection, &config, 0, &decision);
	assert_string_equal(kh_injection_names(&injection, names, sizeof(names)), "c");
	rule.all_credentials = true;
	kh_injection_choose(&injection, &config, 0, &decision);
	assert_string_equal(kh_injection_names(&injection, names, sizeof(names)), "a,c,b");
	decision.bare = true; /* and nothing of what was chosen before stays */
	kh_injection_choose(&injection, &config, 0, &decision);
	assert_null(kh_injection_names(&injection, names, sizeof(names)));
	decision.bare = false;
	rule.all_credentials = false;
	rule.n_credentials = 1;
	kh_injection_choose(&injection, &config, 0, &decision);
	assert_string_equal(kh_injection_names(&injection, names, sizeof(names)), "a");
	rule.n_credentials = 0;
	kh_injection_choose(&injection, &config, 0, &decision);
	assert_null(kh_injection_names(&injection, names, sizeof(names)));
}

static void the_first_with_a_value_for_the_tenant(void **state)
{
	enum { FIRST, SECOND, WITHOUT, NO_SUCH = 9 };
	struct kh_tenant_presence own[] = { { FIRST, false }, { SECOND, true } };
	struct kh_credential_config list[2] = {
		{ .name = text("own"), .by_tenant = true, .tenants = own, .n_tenants = 2 },
		{ .name = text("all"), .present = true }
	};
	struct kh_config config = { .credentials = list, .n_credentials = 2 };
	struct kh_rule rule = { .credentials = { 0, 1 }, .n_credentials = 2 };
	struct kh_decision decision = { .allow = true, .rule = &rule };
	struct kh_injection injection = { .count = 0 };
	static const struct {
		uint16_t tenant;
		const char *chosen;
	} cases[] = { { FIRST, "all" },
		      { SECOND, "own" },
		      { WITHOUT, "all" },
		      { NO_SUCH, "all" },
		      { KH_NO_TENANT, "all" } };
	char names[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		kh_injection_choose(&injection, &config, cases[i].tenant, &decision);
		assert_string_equal(kh_injection_names(&injection, names, sizeof(names)),
				    cases[i].chosen);
	}
	/* Without another one it is named, and the request waits for it in vain. */
	rule.n_credentials = 1;
	kh_injection_choose(&injection, &config, WITHOUT, &decision);
	assert_string_equal(kh_injection_names(&injection, names, sizeof(names)), "own");
}

static void the_binding_is_asked_of_every_reading(void **state)
{
	struct kh_host_pattern pattern = { .match = KH_MATCH_EXACT };
	char *paths[] = { text("/v1/**"), text("/one") };
	char *methods[] = { text("GET"), text("POST") };
	struct kh_credential_config credential = { .hosts = &pattern,
						   .n_hosts = 1,
						   .paths = paths,
						   .n_paths = 2,
						   .methods = methods,
						   .n_methods = 2 };
	struct kh_host host, other;
	struct kh_overrides overrides = { 0 };

	(void)state;
	assert_true(kh_host_parse(&host, KH_SLICE("api.example"), NULL));
	assert_true(kh_host_parse(&other, KH_SLICE("other.example"), NULL));
	pattern.host = host;
	struct kh_request_view good = { .method = KH_SLICE("GET"),
					.scheme = KH_SCHEME_HTTPS,
					.host = &host,
					.path = KH_SLICE("/v1/a"),
					.overrides = &overrides };
	struct kh_request_view ask = good;
	assert_null(kh_credential_binding_fault(&credential, &ask));
	ask.path_slashed = KH_SLICE("/elsewhere");
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "this path");
	ask = good;
	struct kh_path_cuts cuts = { .n = 1, .list = { { .path = KH_SLICE_INIT("/v1/b") } } };
	ask.path_cuts = &cuts;
	assert_null(kh_credential_binding_fault(&credential, &ask));
	cuts.list[0].path = KH_SLICE("/elsewhere");
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "this path");
	ask = good;
	ask.path = KH_SLICE("/one/more");
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "this path");
	ask = good;
	ask.path = kh_slice_of(NULL, 0); /* no path is none that it is bound to */
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "this path");
	ask = good;
	ask.scheme = KH_SCHEME_HTTP;
	assert_non_null(kh_credential_binding_fault(&credential, &ask));
	ask = good;
	ask.host = &other;
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "this host");
	ask = good;
	ask.method = KH_SLICE("PUT");
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "this method");
	ask = good;
	(void)snprintf(overrides.methods[0], sizeof(overrides.methods[0]), "DELETE");
	overrides.n_methods = 1;
	assert_non_null(kh_credential_binding_fault(&credential, &ask));
	credential.n_methods = 0;
	assert_null(kh_credential_binding_fault(&credential, &ask));
	(void)snprintf(overrides.methods[0], sizeof(overrides.methods[0]), "TRACE");
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "TRACE");
	overrides.n_methods = 0;
	overrides.path = true;
	assert_non_null(kh_credential_binding_fault(&credential, &ask));
	ask.method = KH_SLICE("trace");
	assert_string_equal(kh_credential_binding_fault(&credential, &ask), "TRACE");
}

static void a_pattern_covers_what_it_takes_whatever_that_is(void **state)
{
	static const struct {
		const char *outer, *inner;
		bool covers;
	} cases[] = {
		{ "/**", NULL, true },
		{ "/a/**", NULL, false },
		{ "/a/**", "/a/**", true },
		{ "/a/**", "/a/b/*", true },
		{ "/a/**", "/a/", true },
		{ "/a/**", "/a", false },
		{ "/a/*", "/a/**", false },
		{ "/a/*", "/a/*", true },
		{ "/a/*", "/a/x*y", true },
		{ "/a/*", "/a/x/y", false },
		{ "/a/*/c", "/a/*/c", true },
		{ "/a/*/c", "/a/**/c", false },
		{ "/a/**/c", "/a/*/c", true },
		{ "/a/**/c", "/a/**/b/c", true },
		{ "/a*c", "/abc", true },
		{ "/a*c", "/ab", false },
		{ "/**x", "/**", false },
		{ "/**/x/**", "/a/x/b", true },
		{ "/exactly", "/exactly", true },
		{ "/exactly", "/Exactly", false },
		{ "/a*", "/a*", true },
		{ "/a*", "/**", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (kh_path_pattern_covers(cases[i].outer, cases[i].inner) != cases[i].covers)
			fail_msg("%s, %s", cases[i].outer, cases[i].inner ? cases[i].inner : "any");
}

int main(void)
{
	kh_secret_prepare();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_parameter_takes_the_place_of_the_clients),
		cmocka_unit_test(basic_is_base64_of_user_and_value),
		cmocka_unit_test(cookies_are_one_field),
		cmocka_unit_test(the_first_with_a_value_or_all_of_them),
		cmocka_unit_test(the_first_with_a_value_for_the_tenant),
		cmocka_unit_test(the_binding_is_asked_of_every_reading),
		cmocka_unit_test(a_pattern_covers_what_it_takes_whatever_that_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
