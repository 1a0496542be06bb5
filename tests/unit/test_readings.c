/* test_readings.c - one reading for each notion: no spelling of a query, field, method or address
 * evades a denial or slips into an allowance */
#include "readings.h"

/* Of a query parameter called "action". */
static const char *const parameters[] = {
	"Action",
	"ACTION",
	"%61ction",
	"%2561ction",
	"%25%36%31ction",
	"%20action",
	"+action",
	"action+",
	"action%20",
	"%09action",
	"action%00",
	"action%00x",
	"action%C0%80x",
	"action[]",
	"action[0]",
	"action%5B%5D",
	"%EF%BD%81ction",
	"%C1%A1ction",
	"act%C4%B1on",
	"%E0%81%A1ction",
	"%F0%80%81%A1ction",
	"%25EF%25BD%2581ction",
	"%E2%93%90ction",
	"%C2%AAction",
	"%F0%9D%9A%8Action",
	"[action]",
	"%5Baction%5D",
	"action]",
	"]action",
	"[[action]]",
	"!action",
	"?action",
	"%3Faction",
	"??[action]",
	"+[%20action",
};
static const char *const other_parameters[] = { "actions", "xaction",	"act-ion",   "actio",
						"",	   "%00action", "x[action]", "a%63tion2" };

static const char by_query[] =
	"version: 1\n"
	"tenants:\n"
	"  a:\n"
	"    rules:\n"
	"      - { deny: \"https://d.example\", query: { action: delete } }\n"
	"      - { allow: \"https://d.example\" }\n"
	"      - { allow: \"https://a.example\", query: { action: get } }\n"
	"      - { deny: \"https://x.example\", spelling: exact,\n"
	"          query: { action: delete } }\n"
	"      - { allow: \"https://x.example\" }\n";

static void a_query_name_in_any_spelling_is_denied(void **state)
{
	(void)state;
	struct fixture f = policy_of(by_query);
	char url[256];
	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
		(void)snprintf(url, sizeof(url), "https://d.example/?v=1&%s=delete", parameters[i]);
		bool exact = strcmp(parameters[i], "%61ction") == 0;
		denies(&f, "GET", url, NULL, exact ? KH_READ_PLAIN : KH_READ_QUERY_SPELLING);
		(void)snprintf(url, sizeof(url), "https://x.example/?v=1&%s=delete", parameters[i]);
		if (exact)
			denies(&f, "GET", url, NULL, KH_READ_PLAIN);
		else
			allows(&f, "GET", url, NULL);
		/* For an allowance every reading must match. */
		(void)snprintf(url, sizeof(url), "https://a.example/?action=get&%s=delete",
			       parameters[i]);
		refuses(&f, "GET", url, NULL);
	}
	for (size_t i = 0; i < sizeof(other_parameters) / sizeof(other_parameters[0]); i++) {
		(void)snprintf(url, sizeof(url), "https://d.example/?%s=delete",
			       other_parameters[i]);
		allows(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://a.example/?action=get&%s=delete",
			       other_parameters[i]);
		allows(&f, "GET", url, NULL);
	}
	fini(&f);
}

static void a_query_that_a_field_names_is_held_against_conditions(void **state)
{
	(void)state;
	struct fixture f = policy_of(by_query);
	char line[256];
	for (size_t i = 0; i < sizeof(path_fields) / sizeof(path_fields[0]); i++) {
		for (size_t j = 0; j < sizeof(parameters) / sizeof(parameters[0]); j++) {
			(void)snprintf(line, sizeof(line), "%s: /x?v=1&%s=delete", path_fields[i],
				       parameters[j]);
			denies(&f, "GET", "https://d.example/", line, KH_READ_OTHER_PATH);
			refuses(&f, "GET", "https://a.example/?action=get", line);
		}
		(void)snprintf(line, sizeof(line), "%s: /x?action=get", path_fields[i]);
		allows(&f, "GET", "https://d.example/", line);
		allows(&f, "GET", "https://a.example/?action=get", line);
		refuses(&f, "GET", "https://a.example/", line);
		denies(&f, "GET", "https://d.example/?action=delete", line, KH_READ_PLAIN);
		/* None, and what nobody can read. */
		(void)snprintf(line, sizeof(line), "%s: /x", path_fields[i]);
		allows(&f, "GET", "https://d.example/", line);
		refuses(&f, "GET", "https://a.example/?action=get", line);
		(void)snprintf(line, sizeof(line), "%s: /x%%3Faction=get", path_fields[i]);
		refuses(&f, "GET", "https://d.example/", line);
		refuses(&f, "GET", "https://a.example/?action=get", line);
	}
	fini(&f);
}

static void a_query_value_in_any_spelling_is_denied(void **state)
{
	(void)state;
	static const char *const values[] = { "Delete",	    "%44elete",	 "%2564elete",
					      "+delete",    "delete+",	 "%20delete",
					      "delete%00x", "delete%0A", "%EF%BD%84elete" };
	struct fixture f = policy_of(by_query);
	char url[256];
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		(void)snprintf(url, sizeof(url), "https://d.example/?action=%s", values[i]);
		denies(&f, "GET", url, NULL, KH_READ_QUERY_SPELLING);
	}
	allows(&f, "GET", "https://d.example/?action=deleted", NULL);
	fini(&f);
}

/* Of a field called "x-beta". */
static const char *const fields[] = { "X_Beta", "x_beta", "X-BETA", "x.beta", "X~beta" };

static void a_field_name_in_any_spelling_is_denied(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - { deny: \"https://d.example\", headers: { x-beta: \"*\" } }\n"
			  "      - { allow: \"https://d.example\" }\n"
			  "      - { allow: \"https://a.example\", headers: { x-beta: a } }\n"
			  "      - { deny: \"https://t.example\", content_type: text/x }\n"
			  "      - { allow: \"https://t.example\" }\n");
	char line[64];
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		bool same = strcmp(fields[i], "X-BETA") == 0;
		(void)snprintf(line, sizeof(line), "%s: a", fields[i]);
		denies(&f, "GET", "https://d.example/", line,
		       same ? KH_READ_PLAIN : KH_READ_FIELD_SPELLING);
		if (same)
			allows(&f, "GET", "https://a.example/", line);
		else
			refuses(&f, "GET", "https://a.example/", line);
	}
	allows(&f, "GET", "https://d.example/", "x-betas: a");
	denies(&f, "GET", "https://t.example/", "content_type: text/x", KH_READ_FIELD_SPELLING);
	denies(&f, "GET", "https://t.example/", "content-type: text/x boundary=x",
	       KH_READ_FIELD_SPELLING);
	denies(&f, "GET", "https://t.example/", "content-type: Text/X\tx;y",
	       KH_READ_FIELD_SPELLING);
	allows(&f, "GET", "https://t.example/", "content-type: text/xx boundary=x");
	/* A parameter may stand for any field. */
	refuses(&f, "GET", "https://t.example/?$ct=text/x", NULL);
	refuses(&f, "GET", "https://d.example/?$httpHeaders=X-Beta:on", NULL);
	fini(&f);
}

/* Of a value "form/x", with '|' where it goes; the last ones have no parameters. */
static const char *const values[] = {
	"\xc2\xa0|", "|\xc2\xa0",     "\xa0|",	 "|\xa0",      "|\x85",
	"\x85|",     "|\xe3\x80\x80", "\"|\"",	 "\" |\"",     "\xa0\"|\"\xa0",
	"a, \"|\"",  "\"a,|\"",	      "\\|",	 "|\xa0; a=b", "|;a",
	"\"|\";a=b", "\"|;a\"",	      "|\x85;a", "a,|\xa0;b",  "\xef\xbd\x86orm/x",
};

static void a_field_value_in_any_spelling_is_denied(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		"version: 1\n"
		"tenants:\n"
		"  a:\n"
		"    rules:\n"
		"      - { deny: \"https://d.example\", headers: { x-mode: form/x } }\n"
		"      - { deny: \"https://d.example\", content_type: form/x }\n"
		"      - { deny: \"https://x.example\", spelling: exact,\n"
		"          headers: { x-mode: form/x } }\n"
		"      - { allow: \"https://d.example\" }\n"
		"      - { allow: \"https://x.example\" }\n"
		"      - { allow: \"https://a.example\", content_type: \"*x\" }\n"
		"      - { allow: \"https://a.example\", headers: { x-mode: form/x } }\n");
	static const char *const names[] = { "X-Mode", "x_mode", "Content-Type", "content_type" };
	char line[128];
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		int at = (int)strcspn(values[i], "|");
		bool last = i + 1 == sizeof(values) / sizeof(values[0]);
		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
			(void)snprintf(line, sizeof(line), "%s: %.*s%s%s", names[j], at, values[i],
				       last ? "" : "Form/x", last ? "" : values[i] + at + 1);
			struct kh_decision d = ask(&f, "GET", "https://d.example/", line);
			bool plainly = d.reading == KH_READ_PLAIN && j == 2;
			if (d.allow || !d.rule || (d.reading != KH_READ_FIELD_SPELLING && !plainly))
				fail_msg("%s: should be denied", line);
			allows(&f, "GET", "https://x.example/", line);
			refuses(&f, "GET", "https://a.example/", j < 2 ? line : "x: y");
		}
	}
	allows(&f, "GET", "https://d.example/", "x-mode: form/xy;form/x");
	allows(&f, "GET", "https://d.example/", "x-mode: a form/x");
	allows(&f, "GET", "https://a.example/", "content-type: form/x; a=\"b c\"");
	refuses(&f, "GET", "https://a.example/", "content-type: form/y x");
	refuses(&f, "GET", "https://a.example/", "content-type: form/y\xa0x");
	fini(&f);
}

static void a_method_in_any_case_is_denied(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - { deny: \"DELETE,PURGE,QUIT https://d.example\" }\n"
			  "      - { allow: \"https://d.example\" }\n"
			  "      - { deny: \"DELETE https://x.example\", spelling: exact }\n"
			  "      - { allow: \"https://x.example\" }\n"
			  "      - { allow: \"GET https://a.example\" }\n");
	static const char *const methods[] = { "DELETE", "delete", "Delete", "dELETE",
					       "PURGE",	 "purge",  "quit",   "QUIT" };
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		bool same = methods[i][1] >= 'A' && methods[i][1] <= 'Z' && methods[i][0] <= 'Z';
		denies(&f, methods[i], "https://d.example/", NULL,
		       same ? KH_READ_PLAIN : KH_READ_METHOD_CASE);
	}
	allows(&f, "deleted", "https://d.example/", NULL);
	allows(&f, "delete", "https://x.example/", NULL);
	denies(&f, "DELETE", "https://x.example/", NULL, KH_READ_PLAIN);
	refuses(&f, "get", "https://a.example/", NULL);
	fini(&f);
}

static void an_address_in_any_form_is_denied(void **state)
{
	(void)state;
	struct fixture f = policy_of("version: 1\n"
				     "tenants:\n"
				     "  a:\n"
				     "    rules:\n"
				     "      - { deny: \"http://1.1.1.1\" }\n"
				     "      - { deny: \"http://[8.8.0.0/16]\" }\n"
				     "      - { deny: \"http://9.9.9.9\", spelling: exact }\n"
				     "      - { allow: \"http://**\" }\n"
				     "      - { allow: \"http://[::/0]:81\" }\n"
				     "      - { allow: \"http://[::/0]:82\", spelling: exact }\n");
	static const char *const forms[] = {
		"[::ffff:1.1.1.1]",	"[::ffff:808:1]",
		"[64:ff9b::1.1.1.1]",	"[64:ff9b::808:1]",
		"[::1.1.1.1]",		"[2002:101:101::1]",
		"[64:ff9b:1::1.1.1.1]", "[2001:0:808:808::fefe:fefe]",
	};
	char url[256];
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		(void)snprintf(url, sizeof(url), "http://%s/", forms[i]);
		denies(&f, "GET", url, NULL, KH_READ_OTHER_ADDRESS);
		(void)snprintf(url, sizeof(url), "http://%s:81/", forms[i]);
		refuses(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "http://%s:82/", forms[i]);
		allows(&f, "GET", url, NULL);
	}
	denies(&f, "GET", "http://8.8.0.1/", NULL, KH_READ_PLAIN);
	allows(&f, "GET", "http://[::ffff:9.9.9.9]/", NULL);
	allows(&f, "GET", "http://[::ffff:1.1.1.2]/", NULL);
	allows(&f, "GET", "http://[2606:4700::1]/", NULL);
	allows(&f, "GET", "http://[2606:4700::1]:81/", NULL);
	fini(&f);
}

static void check_warns_where_a_denial_shadows_what_differs_in_case(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - { deny: \"https://d.example/admin/**\" }\n"
			  "      - { allow: \"https://d.example/Admin/status\" }\n"
			  "      - { deny: \"https://e.example/admin/**\", spelling: exact }\n"
			  "      - { allow: \"https://e.example/Admin/status\" }\n");
	struct kh_diagnostics diags = { 0 };
	kh_policy_inspect(f.policy, &diags);
	assert_int_equal(diags.count, 1);
	assert_non_null(strstr(diags.list[0].text, "differs in case only"));
	assert_non_null(strstr(diags.list[0].text, "spelling: exact"));
	assert_int_equal(diags.list[0].where.line, 6);
	kh_diagnostics_fini(&diags);
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_query_name_in_any_spelling_is_denied),
		cmocka_unit_test(a_query_that_a_field_names_is_held_against_conditions),
		cmocka_unit_test(a_query_value_in_any_spelling_is_denied),
		cmocka_unit_test(a_field_name_in_any_spelling_is_denied),
		cmocka_unit_test(a_field_value_in_any_spelling_is_denied),
		cmocka_unit_test(a_method_in_any_case_is_denied),
		cmocka_unit_test(an_address_in_any_form_is_denied),
		cmocka_unit_test(check_warns_where_a_denial_shadows_what_differs_in_case),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
