/* test_readings.c - one reading for each notion: no spelling evades a denial or slips into an
 * allowance */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/http/message.h>
#include <keyhole/exchange/dry_run.h>
#include <keyhole/base/spelling.h>

/* Asks both who decide: they agree. A field is "name: value"; NULL: none. */
static struct kh_decision ask(const struct fixture *f, const char *method, const char *url,
			      const char *field)
{
	struct kh_dry_run *q = calloc(1, sizeof(*q));
	struct kh_err err = KH_ERR_INIT;
	struct kh_decision decision, explained;
	assert_non_null(q);
	kh_dry_run_init(q);
	if (field) {
		struct kh_slice line = kh_slice_str(field);
		size_t colon = kh_slice_find(line, ':', 0);
		assert_true(kh_dry_run_field(q, kh_slice_sub(line, 0, colon),
					     kh_slice_sub(line, colon + 1, line.len)));
	}
	if (!kh_dry_run_ask(q, kh_slice_str(method), kh_slice_str(url), &err))
		fail_msg("%s: %s", url, err.text);
	kh_policy_decide(f->policy, 0, NULL, &q->view, &decision);
	kh_policy_explain(f->policy, 0, NULL, &q->view, NULL, NULL, &explained);
	if (decision.allow != explained.allow || decision.rule != explained.rule ||
	    decision.reading != explained.reading || decision.reason != explained.reason)
		fail_msg("%s %s %s: decide and explain differ", method, url, field ? field : "");
	kh_dry_run_fini(q);
	free(q);
	return decision;
}

static void denies(const struct fixture *f, const char *method, const char *url, const char *field,
		   enum kh_reading reading)
{
	struct kh_decision d = ask(f, method, url, field);
	if (d.allow || !d.rule)
		fail_msg("%s %s %s: should be denied by the rule", method, url, field ? field : "");
	if (d.reading != reading)
		fail_msg("%s %s %s: read with \"%s\"", method, url, field ? field : "",
			 kh_reading_text(d.reading));
}

static void allows(const struct fixture *f, const char *method, const char *url, const char *field)
{
	if (!ask(f, method, url, field).allow)
		fail_msg("%s %s %s: should be allowed", method, url, field ? field : "");
}

static void refuses(const struct fixture *f, const char *method, const char *url, const char *field)
{
	if (ask(f, method, url, field).allow)
		fail_msg("%s %s %s: should not be allowed", method, url, field ? field : "");
}

/* Fields that name a path, with its query. */
static const char *const path_fields[] = { "X-Original-URL", "X_Rewrite_Url", "X-Forwarded-Uri",
					   "X-Forwarded-Url", "Destination" };

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

/* Of /admin/users. */
static const char *const paths[] = {
	"/ADMIN/users",
	"/Admin/Users",
	"/%2561dmin/users",
	"/%25%36%31dmin/users",
	"/admin%252Fusers",
	"/admin%25252Fusers",
	"/%C1%A1dmin/users",
	"/%EF%BD%81dmin/users",
	"/admin%EF%BC%8Fusers",
	"/admin%C0%AFusers",
	"/adm%C4%B1n/users",
	"//ADMIN//users",
	"/ADMIN;x/users",
	"/admin%255Cusers",
	"/ADMIN/%2575sers",
	"/admin%E2%81%84users",
	"/admin%5cUSERS",
	"/%E2%93%90dmin/users",
	"/%F0%9D%90%9Admin/users",
	"/%C2%AAdmin/users",
	"/%F0%9F%84%B0dmin/users",
	"/%25E2%2593%2590dmin/users",
	"/admin./users",
	"/admin%20/users",
	"/admin.%20../users",
	"/admin%2E/users",
	"/admin.;x/users",
	"/admin%2520/users",
	"/admin::$DATA/users",
	"/admin::$INDEX_ALLOCATION/users",
	"/admin:%24i30:%24Index_Allocation/users",
	"/admin%C2%A0/users",
	"/admin%E2%80%83/users",
	"/admin+/users",
	"/admin%2B/users",
	"/admin.+./users",
	"/admin+;x/users+",
	"//x/admin+/users",
};

/* Of /admin, of its end alone. */
static const char *const ends[] = {
	"/",	 "//",	 "/;x",	    "%20/",	 "./",	    ";x/",	"%2F",
	"%252F", "%5C",	 "%C0%AF",  "%EF%BC%8F", "::$DATA", "::$data/", "%2E/;x",
	"/%20",	 "/;x/", "%C2%A0/", "+",	 "+/",	    "%2B;x/",	"/+",
};

static void a_slash_at_the_end_evades_no_denial(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - { deny: \"https://d.example/admin\" }\n"
			  "      - { deny: \"https://d.example/slash/\" }\n"
			  "      - { deny: \"https://d.example/%7B1%7D/\" }\n"
			  "      - { deny: \"DELETE https://d.example/users/*\" }\n"
			  "      - { deny: \"https://d.example/a/**/keys\" }\n"
			  "      - { deny: \"https://d.example/b/*.git\" }\n"
			  "      - { allow: \"https://d.example/**\" }\n"
			  "      - { deny: \"https://x.example/admin\", spelling: exact }\n"
			  "      - { allow: \"https://x.example/**\", spelling: exact }\n"
			  "      - { allow: \"https://a.example/v1/x\" }\n");
	static const char *const prefixes[] = { "/admin", "/Admin", "/a/b/c/keys", "/b/x.git" };
	char url[256];
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		for (size_t j = 0; j < sizeof(prefixes) / sizeof(prefixes[0]); j++) {
			(void)snprintf(url, sizeof(url), "https://d.example%s%s", prefixes[j],
				       ends[i]);
			refuses(&f, "GET", url, NULL);
		}
		(void)snprintf(url, sizeof(url), "https://d.example/users/1%s", ends[i]);
		refuses(&f, "DELETE", url, NULL);
		allows(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://x.example/admin%s", ends[i]);
		allows(&f, "GET", url, NULL);
		/* What is allowed is allowed as it is written. */
		(void)snprintf(url, sizeof(url), "https://a.example/v1/x%s", ends[i]);
		refuses(&f, "GET", url, NULL);
	}
	denies(&f, "GET", "https://d.example/admin", NULL, KH_READ_PLAIN);
	denies(&f, "GET", "https://d.example/admin/", NULL, KH_READ_PATH_SPELLING);
	denies(&f, "GET", "https://d.example/slash", NULL, KH_READ_PATH_SPELLING);
	denies(&f, "GET", "https://d.example/%7B1%7D", NULL, KH_READ_PATH_SPELLING);
	allows(&f, "GET", "https://d.example/admin/x", NULL);
	allows(&f, "GET", "https://d.example/admin:x", NULL);
	allows(&f, "GET", "https://d.example/", NULL);
	fini(&f);
}

static void a_path_in_any_spelling_is_denied(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - { deny: \"https://d.example/admin/**\" }\n"
			  "      - { deny: \"https://d.example/Keys/*\" }\n"
			  "      - { allow: \"https://d.example/**\" }\n"
			  "      - { deny: \"https://x.example/admin/**\", spelling: exact }\n"
			  "      - { allow: \"https://x.example/**\", spelling: exact }\n"
			  "      - { allow: \"https://a.example/v1/*\" }\n"
			  "      - { allow: \"https://e.example/v1/*\", spelling: exact }\n");
	char url[256];
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		(void)snprintf(url, sizeof(url), "https://d.example%s", paths[i]);
		struct kh_decision d = ask(&f, "GET", url, NULL);
		if (d.allow || !d.rule || d.reading == KH_READ_PLAIN)
			fail_msg("%s: should be denied in another reading", url);
		(void)snprintf(url, sizeof(url), "https://x.example%s", paths[i]);
		allows(&f, "GET", url, NULL);
	}
	denies(&f, "GET", "https://d.example/admin/users", NULL, KH_READ_PLAIN);
	denies(&f, "GET", "https://x.example/admin/users", NULL, KH_READ_PLAIN);
	denies(&f, "GET", "https://d.example/keys/a", NULL, KH_READ_PATH_SPELLING);
	denies(&f, "GET", "https://d.example/Keys/a", NULL, KH_READ_PLAIN);
	denies(&f, "GET", "https://d.example/%254Beys/a%252Fb", NULL, KH_READ_PATH_SPELLING);
	allows(&f, "GET", "https://d.example/administrator/x", NULL);
	allows(&f, "GET", "https://d.example/.admin/x", NULL);
	allows(&f, "GET", "https://d.example/admin.d/x", NULL);
	allows(&f, "GET", "https://d.example/admin%20d/x", NULL);
	allows(&f, "GET", "https://d.example/%E6%97%A5%E6%9C%AC?q=%E6%97%A5", NULL);
	/* What is allowed is allowed in all readings. */
	allows(&f, "GET", "https://a.example/v1/x%2520y", NULL);
	refuses(&f, "GET", "https://a.example/v1/x%252Fy", NULL);
	refuses(&f, "GET", "https://a.example/v1/x%2Fy", NULL);
	allows(&f, "GET", "https://e.example/v1/x%252Fy", NULL);
	allows(&f, "GET", "https://e.example/v1/x%2Fy", NULL);
	fini(&f);
}

/* What a server may take for a blank in a path: a '+', as in a query, and what it decodes one from.
 */
static const char *const blanks[] = { "%20",	"+",	   "%2B",    "%2b",	  "%2520", "%252B",
				      "%C2%A0", "%25252B", "%C0%A0", "%EF%BC%8B", "%C0%AB" };

static void a_plus_in_a_path_evades_no_denial(void **state)
{
	(void)state;
	struct fixture f =
		policy_of("version: 1\n"
			  "tenants:\n"
			  "  a:\n"
			  "    rules:\n"
			  "      - { deny: \"https://d.example/bucket/my%20secret/**\" }\n"
			  "      - { deny: \"https://d.example/b/your+secret/*\" }\n"
			  "      - { deny: \"https://d.example/a%20b/c++\" }\n"
			  "      - { allow: \"https://d.example/**\" }\n"
			  "      - { deny: \"https://x.example/my%20secret\", spelling: exact }\n"
			  "      - { allow: \"https://x.example/**\", spelling: exact }\n"
			  "      - { deny: \"https://s3.us-east-1.amazonaws.com/b/my%20secret\" }\n"
			  "      - { allow: \"https://s3.us-east-1.amazonaws.com/**\" }\n"
			  "      - { allow: \"https://a.example/a+b\" }\n");
	char url[256], line[256];
	for (size_t i = 0; i < sizeof(blanks) / sizeof(blanks[0]); i++) {
		const char *blank = blanks[i];
		(void)snprintf(url, sizeof(url), "https://d.example/bucket/my%ssecret/x", blank);
		refuses(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://d.example//Bucket;v/MY%sSecret/", blank);
		refuses(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://d.example//h/bucket/my%ssecret/x", blank);
		refuses(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://d.example/b/your%ssecret/x", blank);
		refuses(&f, "GET", url, NULL);
		for (size_t j = 0; j < sizeof(blanks) / sizeof(blanks[0]); j++) {
			(void)snprintf(url, sizeof(url), "https://d.example/a%sb/c+%s", blank,
				       blanks[j]);
			refuses(&f, "GET", url, NULL);
		}
		(void)snprintf(url, sizeof(url), "https://d.example/a%sb;v/c++/", blank);
		refuses(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://x.example/my%ssecret", blank);
		if (i == 0)
			refuses(&f, "GET", url, NULL);
		else
			allows(&f, "GET", url, NULL);
		(void)snprintf(line, sizeof(line), "X-Amz-Copy-Source: /b/my%ssecret", blank);
		refuses(&f, "PUT", "https://s3.us-east-1.amazonaws.com/b/copy", line);
		for (size_t j = 0; j < sizeof(path_fields) / sizeof(path_fields[0]); j++) {
			(void)snprintf(line, sizeof(line), "%s: /bucket/my%ssecret/x",
				       path_fields[j], blank);
			refuses(&f, "GET", "https://d.example/x", line);
		}
		/* An allowance takes it as it is written. */
		(void)snprintf(url, sizeof(url), "https://a.example/a%sb", blank);
		if (i == 1)
			allows(&f, "GET", url, NULL);
		else
			refuses(&f, "GET", url, NULL);
	}
	denies(&f, "GET", "https://d.example/bucket/my+secret/x", NULL, KH_READ_PATH_SPELLING);
	denies(&f, "GET", "https://d.example/b/your+secret/x", NULL, KH_READ_PLAIN);
	allows(&f, "GET", "https://d.example/bucket/mysecret/x", NULL);
	allows(&f, "GET", "https://d.example/bucket/my++secret/x", NULL);
	allows(&f, "GET", "https://d.example/a%20b/c", NULL);
	allows(&f, "GET", "https://d.example/a%20b/c+", NULL);
	fini(&f);
}

/* '?' and '#' in a path, for servers that decode it before they take the query off. */
static const char *const marks[] = { "%3F",	  "%3f",       "%23",	    "%253F",
				     "%25%33%46", "%EF%BC%9F", "%ef%bc%83", "%25EF%25BC%259F",
				     "%C0%BF" };

/* For the '?' of a text. */
static void put_mark(char *out, size_t room, const char *text, const char *mark)
{
	int at = (int)strcspn(text, "?");
	(void)snprintf(out, room, "%.*s%s%s", at, text, mark, text + at + 1);
}

static void a_path_is_denied_up_to_an_escaped_mark_as_well(void **state)
{
	(void)state;
	struct fixture f = policy_of(
		"version: 1\n"
		"tenants:\n"
		"  a:\n"
		"    rules:\n"
		"      - { deny: \"https://d.example/admin\" }\n"
		"      - { deny: \"https://d.example/repos/*/delete\" }\n"
		"      - { deny: \"https://d.example/a%2Fb\" }\n"
		"      - { deny: \"https://d.example/a%23b\" }\n"
		"      - { deny: \"https://d.example/q/**\", query: { action: drop } }\n"
		"      - { deny: \"DELETE https://d.example/**\" }\n"
		"      - { allow: \"https://d.example/**\" }\n"
		"      - { deny: \"https://x.example/admin\", spelling: exact }\n"
		"      - { allow: \"https://x.example/**\" }\n"
		"      - { allow: \"https://a.example/repos/*/contents\" }\n"
		"      - { allow: \"https://a.example/find/*\" }\n"
		"      - { allow: \"https://a.example/q/**\", query: { action: get } }\n"
		"      - { allow: \"https://e.example/repos/*/contents\", spelling: exact }\n");
	static const char *const denied[] = {
		"/admin?",     "/admin?x",	    "/ADMIN?x/y",
		"//admin/?/x", "/%2561dmin?",	    "/a%2Fb?/x",
		"/admin%20?x", "/repos/a/delete?x", "/repos%2Fa%252Fdelete?"
	};
	static const char *const queries[] = { "/q/x?action=drop",    "/q/x?a=1&ACTION=%64rop",
					       "/q/x?action%3Ddrop",  "/q/x?a=b%26action=drop",
					       "/q/x?%3Faction=drop", "/q%2Fx?+action=drop" };
	char text[128], url[256];
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		for (size_t j = 0; j < sizeof(denied) / sizeof(denied[0]); j++) {
			put_mark(text, sizeof(text), denied[j], marks[i]);
			(void)snprintf(url, sizeof(url), "https://d.example%s", text);
			denies(&f, "GET", url, NULL, KH_READ_CUT);
			(void)snprintf(url, sizeof(url), "https://x.example%s", text);
			allows(&f, "GET", url, NULL);
		}
		for (size_t j = 0; j < sizeof(queries) / sizeof(queries[0]); j++) {
			put_mark(text, sizeof(text), queries[j], marks[i]);
			(void)snprintf(url, sizeof(url), "https://d.example%s", text);
			denies(&f, "GET", url, NULL, KH_READ_CUT);
			/* Of what is allowed each reading must be. */
			(void)snprintf(url, sizeof(url), "https://a.example%s?action=get", text);
			refuses(&f, "GET", url, NULL);
		}
		(void)snprintf(url, sizeof(url), "https://d.example/x%s_method=DELETE", marks[i]);
		refuses(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://a.example/repos/x%s/contents", marks[i]);
		refuses(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://e.example/repos/x%s/contents", marks[i]);
		allows(&f, "GET", url, NULL);
		/* It may well be meant. */
		(void)snprintf(url, sizeof(url), "https://d.example/find/what%s", marks[i]);
		allows(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://a.example/find/what%s?a=b", marks[i]);
		allows(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://a.example/find/%swhat", marks[i]);
		allows(&f, "GET", url, NULL);
		(void)snprintf(url, sizeof(url), "https://d.example/q/x%saction=dropped", marks[i]);
		allows(&f, "GET", url, NULL);
	}
	/* Which of two marks ends it nobody knows. */
	denies(&f, "GET", "https://d.example/admin%23x%3Fy", NULL, KH_READ_CUT);
	denies(&f, "GET", "https://d.example/a%23b%3Fy", NULL, KH_READ_CUT);
	fini(&f);
}

static void dots_in_any_spelling_do_not_climb(void **state)
{
	(void)state;
	static const char *const raws[] = {
		"/a/%c0%ae%c0%ae/b",
		"/a/%c0%ae./b",
		"/a/%EF%BC%8E%EF%BC%8E/b",
		"/a/%25c0%25ae%25c0%25ae/b",
		"/a/.%EF%BC%8E",
		"/a/%e0%80%ae%e0%80%ae/b",
		"/a%c0%af..%c0%afb",
		"/a/%E2%80%A4%E2%80%A4/b",
		"/a/%E2%80%A5/b",
		"/a/%EF%B8%B0/b",
		"/a/%25E2%2580%25A5/b",
		"/a%2500",
		"/a/b%C0%80",
		"/a/..%20/b",
		"/a/..%C2%A0/b",
		"/a/.%20",
		"/a/..%20%20;x/b",
		"/a/..%20./b",
		"/a/..%2520/b",
		"/a/%2E.%E3%80%80/b",
		"/a/..%E2%80%89/b",
		"/a%2F..%20%2Fb",
		"/a/..%C2%85/b",
	};
	for (size_t i = 0; i < sizeof(raws) / sizeof(raws[0]); i++) {
		struct kh_target target;
		if (kh_target_parse(&target, KH_SLICE("GET"), kh_slice_str(raws[i]), NULL))
			fail_msg("%s is taken", raws[i]);
		kh_target_fini(&target);
	}
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
		cmocka_unit_test(a_query_value_in_any_spelling_is_denied),
		cmocka_unit_test(a_query_that_a_field_names_is_held_against_conditions),
		cmocka_unit_test(a_field_name_in_any_spelling_is_denied),
		cmocka_unit_test(a_field_value_in_any_spelling_is_denied),
		cmocka_unit_test(a_method_in_any_case_is_denied),
		cmocka_unit_test(a_path_in_any_spelling_is_denied),
		cmocka_unit_test(a_slash_at_the_end_evades_no_denial),
		cmocka_unit_test(a_plus_in_a_path_evades_no_denial),
		cmocka_unit_test(a_path_is_denied_up_to_an_escaped_mark_as_well),
		cmocka_unit_test(dots_in_any_spelling_do_not_climb),
		cmocka_unit_test(an_address_in_any_form_is_denied),
		cmocka_unit_test(check_warns_where_a_denial_shadows_what_differs_in_case),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
