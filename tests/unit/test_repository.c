/* test_repository.c - which repository a request is for, as the scope of a token */
#include "unit.h"

#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/credential/credential.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_repository_is_one_scope_in_any_case),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
