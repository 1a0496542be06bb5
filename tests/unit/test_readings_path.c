/* test_readings_path.c - no spelling of a path evades a denial or slips into an allowance */
#include "readings.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slash_at_the_end_evades_no_denial),
		cmocka_unit_test(a_path_in_any_spelling_is_denied),
		cmocka_unit_test(a_plus_in_a_path_evades_no_denial),
		cmocka_unit_test(a_path_is_denied_up_to_an_escaped_mark_as_well),
		cmocka_unit_test(dots_in_any_spelling_do_not_climb),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
