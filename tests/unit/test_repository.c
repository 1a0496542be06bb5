/* test_repository.c - which repository a request is for, as the scope of a token */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/credential/credential.h>
#include <keyhole/policy/policy.h>

/* A sandbox would have as many tokens made as a name has spellings. */
static void a_repository_is_one_scope_in_any_case(void **state)
{
	static const char *const paths[] = { "/repos/acme/site.js/issues", "/repos/Acme/Site.JS",
					     "/ACME/site.js.git/info/refs",
					     "/api/v3/repos/aCME/SITE.js" };
	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		kh_auto_free char *scope = kh_repository_of(kh_slice_str(paths[i]));
		assert_non_null(scope);
		assert_string_equal(scope, "acme/site.js");
	}
}

static bool may_be_at(const char *scope, const char *pattern)
{
	return kh_repository_may_be_at(kh_slice_str(scope), pattern);
}

static void a_pattern_is_of_some_repositories(void **state)
{
	static const char *const some[] = { "/repos/acme/site/**",
					    "/repos/acme/*/issues",
					    "/repos/Acme/SITE",
					    "/repos/*/site",
					    "/acme/site.git/**",
					    "/acme/site.git/info/refs",
					    "/acme/s*",
					    "/acme/**",
					    "/**/site/pulls",
					    "/api/v3/repos/acme/site/*",
					    "/api/*/repos/acme/**",
					    "/api/v3/repos//acme/site",
					    "/**",
					    "/acme/site/tree/*" };
	static const char *const others[] = { "/repos/acme/other/**",
					      "/repos/other/**",
					      "/acme/sit",
					      "/acme/site-2/**",
					      "/acme/siter/**",
					      "/user",
					      "/orgs/*",
					      "/api/v3/repos/acme/other/*",
					      "/acme",
					      "/repos/acme/site.gi/**",
					      "/repos/acme/site-**",
					      "" };
	(void)state;
	assert_true(may_be_at("acme/site", NULL));
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		if (!may_be_at("acme/site", some[i]))
			fail_msg("%s may be of acme/site", some[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (may_be_at("acme/site", others[i]))
			fail_msg("%s is of no acme/site", others[i]);
}

static uint32_t seed = 1;
static const char *any_of(const char *const *texts, size_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return texts[(seed >> 8) % n];
}

static void append(char *text, size_t size, const char *more)
{
	size_t len = strlen(text);
	assert_true((size_t)snprintf(text + len, size - len, "%s", more) < size - len);
}

/* What a rule lets a request have, the keeper does not refuse. */
static void no_repository_of_a_request_that_matches_is_refused(void **state)
{
	static const char *const parts[] = { "a",    "B",	"/",   "/",  "//",
					     ".git", "repos",	"api", "v3", "/api/",
					     "x.js", "/repos/", "-",   "%2F" };
	static const char *const stars[] = { "*", "**", "/*/", "/**", "a", "/", ".git", "B" };
	enum { TRIES = 300000, N_PARTS = sizeof(parts) / sizeof(parts[0]) };
	size_t met = 0;
	(void)state;
	for (int i = 0; i < TRIES; i++) {
		char path[128] = "/", pattern[256] = "/";
		for (int j = 0; j < 6; j++) {
			const char *part = any_of(parts, N_PARTS);
			bool star = strlen(any_of(parts, N_PARTS)) > 3;
			append(path, sizeof(path), part);
			append(pattern, sizeof(pattern), star ? any_of(stars, 8) : part);
		}
		kh_auto_free char *scope = kh_repository_of(kh_slice_str(path));
		if (!scope || !kh_path_matches(kh_slice_str(pattern), kh_slice_str(path)))
			continue;
		met++;
		if (!may_be_at(scope, pattern))
			fail_msg("%s matches %s, which is of %s", pattern, path, scope);
	}
	assert_true(met > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_repository_is_one_scope_in_any_case),
		cmocka_unit_test(a_pattern_is_of_some_repositories),
		cmocka_unit_test(no_repository_of_a_request_that_matches_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
