/* test_override.c - what a request asks to be taken for is asked of the rules too */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/credential/credential.h>
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>
#include <keyhole/http/target.h>

#include "http/override_name.h"

static struct kh_overrides read_all(const char *const *fields, const char *query)
{
	struct kh_message message = { 0 };
	struct kh_overrides out;
	for (; *fields; fields++) {
		struct kh_slice line = kh_slice_str(*fields);
		size_t colon = kh_slice_find(line, ':', 0);
		message.fields[message.n_fields++] =
			(struct kh_field){ kh_slice_sub(line, 0, colon),
					   kh_slice_sub(line, colon + 1, line.len) };
	}
	kh_overrides_read(&out, &message, query ? kh_slice_str(query) : kh_slice_of(NULL, 0));
	return out;
}

static const char *from_field(const char *field)
{
	static struct kh_overrides out;
	const char *const fields[] = { "accept: */*", field, NULL };
	out = read_all(fields, NULL);
	return out.n_methods == 1 ? out.methods[0] : out.n_methods ? "several" : NULL;
}

static const char *from_query(const char *query)
{
	static struct kh_overrides out;
	const char *const none[] = { NULL };
	out = read_all(none, query);
	return out.n_methods == 1 ? out.methods[0] : out.n_methods ? "several" : NULL;
}

static void fields_that_name_a_method_are_found_in_any_spelling(void **state)
{
	(void)state;
	static const char *const good[] = {
		"X-HTTP-Method-Override:DELETE",
		"x-http-method-override: delete",
		"X_HTTP_METHOD_OVERRIDE:DELETE",
		"X-HTTP-Method:Delete",
		"X-Method-Override: DELETE ",
		"x_http-method_override:DELETE",
		"HTTP-Method-Override:DELETE",
		"X-HTTP-MethodOverride:DELETE",
		"X-Method:DELETE",
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_string_equal(from_field(good[i]), "DELETE");
	static const char *const none[] = { "X-HTTP-Method-Overrides:DELETE", "X-Methods:DELETE",
					    "Method:DELETE", "X-HTTP:DELETE",
					    "xhttpmethod:DELETE" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_null(from_field(none[i]));
}

static void what_can_not_be_read_may_be_any_method(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"x-http-method:DELETE,GET", "x-http-method:DELETE;q=1",
		"x-http-method:DEL ETE",    "x-http-method:\"DELETE\"",
		"x-http-method:DELETE1",    "x-http-method:*",
		"x-http-method:D\303\211L", "x-http-method:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_string_equal(from_field(bad[i]), KH_OVERRIDING_ANY);
	assert_string_equal(from_field("x-http-method:"), "");
	assert_string_equal(from_field("x-http-method: \t "), "");
	const char *const many[] = { "x-method:A", "x-method:B", "x-method:a", "x-method:C",
				     "x-method:D", "x-method:E", NULL };
	struct kh_overrides out = read_all(many, NULL);
	assert_int_equal(out.n_methods, KH_OVERRIDING_METHODS);
	assert_string_equal(out.methods[0], "A");
	assert_string_equal(out.methods[2], "C");
	assert_string_equal(out.methods[3], KH_OVERRIDING_ANY); /* there was one too many */
}

static void a_parameter_that_names_a_method_is_found_in_any_spelling(void **state)
{
	(void)state;
	static const char *const good[] = {
		"_method=DELETE",
		"a=1&_method=delete",
		"a;_method=DELETE",
		"_Method=DELETE",
		"%5Fmethod=DELETE",
		"_method=%44ELETE",
		"_method[]=DELETE",
		"_method%5B0%5D=DELETE",
		"+_method=DELETE",
		".method=DELETE",
		"[method=DELETE",
		"%20%20_method=DELETE+",
		"_method%00x=DELETE",
		"_method=DELETE;x=1",
		"method=delete",
		"a=1&Method=Delete",
		"%6Dethod=%44elete",
		"x_method=DELETE",
		"method=++++++++++++++++++++++++++++++++++++DELETE",
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_string_equal(from_query(good[i]), "DELETE");
	static const char *const none[] = { "method=flickr.photos.delete",
					    "method=deleted",
					    "methods=DELETE",
					    "_methods=DELETE",
					    "x_methods=DELETE",
					    "x=_method=DELETE",
					    "_metho=DELETE",
					    "",
					    "&&;" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_null(from_query(none[i]));
	assert_string_equal(from_query("_method"), "");
	assert_string_equal(from_query("_method=%"), KH_OVERRIDING_ANY);
	assert_string_equal(from_query("_method=DELETE%00"), KH_OVERRIDING_ANY);
	assert_string_equal(from_query("_method=DELETE&_method=GET"), "several");
}

static void fields_that_name_a_path_are_found(void **state)
{
	(void)state;
	static const char *const names[] = {
		"X-Original-URL:/admin",	"x_rewrite_url:/",	 "X-Override-Url:",
		"X-Forwarded-Url:/x",		"X-Matched-Path:/admin", "x_invoke_path:/admin",
		"X-Forwarded-Original-Path:/x", "Destination:/x",	 "destination:https://a/x"
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *const fields[] = { names[i], NULL };
		assert_true(read_all(fields, "_method=GET").path);
	}
	const char *const queries[] = { "x-original-url:/a?b=1", "x-rewrite-url:/a", NULL };
	struct kh_overrides named = read_all(queries, NULL);
	assert_int_equal(named.n_queries, 2);
	assert_true(kh_slice_eq(named.queries[0], KH_SLICE("b=1")) && !named.queries[1].ptr);
	assert_false(named.any_query || named.any_field);
	const char *const many[] = { "x-original-url:/a?b", "x-rewrite-url:/a", "destination:/b",
				     NULL };
	assert_true(read_all(many, NULL).any_query);
	const char *const escaped[] = { "x-original-url:/a%3Fb=1", NULL };
	assert_true(read_all(escaped, NULL).any_query);
	const char *const method[] = { "x-original-url:/a?_method=DELETE", NULL };
	assert_string_equal(read_all(method, NULL).methods[0], "DELETE");
	const char *const none[] = { NULL };
	assert_true(read_all(none, "$httpHeaders=X-Beta:on").any_field);
	const char *const other[] = { "X-Original-Host:a", "X-Forwarded-For:1", NULL };
	assert_false(read_all(other, "_method=GET").path);
}

static void fields_that_name_another_host_are_found(void **state)
{
	(void)state;
	static const char *const names[] = { "X-Forwarded-Host:evil.example",
					     "X-Forwarded-For-Host:evil.example",
					     "X-Proxy-Host:evil.example",
					     "x_original_forwarded_host:evil.example" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *const fields[] = { names[i], NULL };
		assert_int_equal(read_all(fields, NULL).n_hosts, 1);
	}
}

static const struct {
	const char *name;
	enum kh_override_kind kind;
	unsigned where;
} table[] = {
#define ROW(name, kind, where) { name, KH_OVERRIDE_##kind, KH_OVERRIDE_IN_##where },
	KH_OVERRIDE_NAMES(ROW)
};

static struct kh_slice in_capitals(const char *name, char out[64])
{
	size_t len = 0;
	for (; *name; name++)
		out[len++] = *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A')
			     : *name == '-'		  ? '_'
							  : *name;
	return kh_slice_of(out, len);
}

/* As field and as parameter, of these where `where` says. */
static void find_name(struct kh_slice name, enum kh_override_kind kind, unsigned where)
{
	char escaped[80];
	int len = snprintf(escaped, sizeof(escaped), "+%%%02x%.*s[0]", (unsigned)name.ptr[0],
			   (int)name.len - 1, name.ptr + 1);
	if (where & KH_OVERRIDE_IN_FIELD)
		assert_int_equal(kh_override_of_field(name), kind);
	if (where & KH_OVERRIDE_IN_QUERY)
		assert_int_equal(kh_override_of_parameter(name), kind);
	if (where & KH_OVERRIDE_IN_QUERY)
		assert_int_equal(kh_override_of_parameter(kh_slice_of(escaped, (size_t)len)), kind);
}

static void every_name_of_the_table_is_found_where_it_counts(void **state)
{
	(void)state;
	char text[64];
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct kh_slice name = kh_slice_str(table[i].name);
		find_name(name, table[i].kind, table[i].where);
		find_name(in_capitals(table[i].name, text), table[i].kind, table[i].where);
		for (size_t n = 0; n < i; n++)
			assert_false((table[n].where & table[i].where) &&
				     kh_slice_eq_nocase(kh_slice_str(table[n].name), name));
	}
#define FIND_ENDING(ending, kind) \
	find_name(KH_SLICE("x-abc" ending), KH_OVERRIDE_##kind, KH_OVERRIDE_IN_BOTH); \
	find_name(KH_SLICE("X_ABC" ending), KH_OVERRIDE_##kind, KH_OVERRIDE_IN_BOTH); \
	find_name(KH_SLICE("abc" ending), KH_OVERRIDE_NONE, KH_OVERRIDE_IN_BOTH);
	KH_OVERRIDE_ENDINGS(FIND_ENDING)
	find_name(KH_SLICE("x-api-key"), KH_OVERRIDE_NONE, KH_OVERRIDE_IN_BOTH);
	find_name(KH_SLICE("mount"), KH_OVERRIDE_NONE, KH_OVERRIDE_IN_FIELD);
	find_name(KH_SLICE("script_name"), KH_OVERRIDE_NONE, KH_OVERRIDE_IN_QUERY);
}

static void a_parameter_names_a_host_or_path_like_its_field(void **state)
{
	(void)state;
	static const struct {
		const char *query;
		bool path, any_host, any_query;
		size_t hosts;
	} cases[] = {
		{ "x-original-url=%2Fadmin", true, false, false, 0 },
		{ "x-original-url=/admin?a=b", true, false, true, 0 },
		{ "x-original-url=%2Fadmin%3Fa", true, false, true, 0 },
		{ "X_Script_Name=/v1", true, false, false, 0 },
		{ "x-rewrite-url=https%3A%2F%2Fa.example%2F", true, true, false, 0 },
		{ "x-rewrite-url=/a&x-script-name=/b&x-original-url=/c", true, false, true, 0 },
		{ "op=RENAME&destination=%2Fuser%2Fx", true, false, false, 0 },
		{ "destination=Paris", false, false, false, 0 },
		{ "x-forwarded-host=a.example", false, false, false, 1 },
		{ "x-forwarded-host=a.example%2Fx", false, true, false, 0 },
	};
	const char *const none[] = { NULL };
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct kh_overrides out = read_all(none, cases[i].query);
		if (out.path != cases[i].path || out.any_host != cases[i].any_host ||
		    out.any_query != cases[i].any_query || out.n_hosts != cases[i].hosts)
			fail_msg("%s", cases[i].query);
	}
	struct kh_overrides moved = read_all(none, "x-amz-rename-source=%2Fb%2Fk");
	assert_true(moved.path);
	assert_string_equal(moved.methods[0], "DELETE");
}

/* ---- and what the rules make of it ---- */

static const char rules[] =
	"version: 1\n"
	"credentials: { c: { value: { env: C }, header: { x: \"{}\" }, hosts: [ h.example ] } }\n"
	"tenants:\n"
	"  a:\n"
	"    rules:\n"
	"      - deny: \"DELETE https://d.example\"\n"
	"      - allow: \"https://d.example\"\n"
	"      - { allow: \"GET,POST https://h.example/v1/**\", credential: c }\n"
	"      - allow: \"PUT https://h.example/v1/**\"\n"
	"      - deny: \"https://p.example/admin/**\"\n"
	"      - allow: \"https://p.example/**\"\n"
	"      - allow: \"https://q.example/v1/**\"\n"
	"      - allow: \"https://q.example/**\"\n"
	"      - allow: \"PURGE,REBIND https://u.example\"\n"
	"listen:\n"
	"  - { unix: /s/s, narrow: [ { allow: \"GET https://h.example\" } ] }\n";

/* ---- what a server is asked to copy ---- */

static const char copies[] =
	"version: 1\n"
	"credentials:\n"
	"  c: { value: { env: C }, header: { x: \"{}\" },\n"
	"       hosts: [ s3.eu-west-1.amazonaws.com, b.s3.eu-west-1.amazonaws.com,\n"
	"                a.b.s3.eu-west-1.amazonaws.com, a.blob.core.windows.net,\n"
	"                b-1.cos.ap-x.myqcloud.com, minio.example ],\n"
	"       shared_host: accept }\n"
	"tenants:\n"
	"  a:\n"
	"    rules:\n"
	"      - deny: \"GET https://s3.eu-west-1.amazonaws.com/*/private/**\"\n"
	"      - deny: \"GET https://b.s3.eu-west-1.amazonaws.com/private/**\"\n"
	"      - { deny: \"GET https://s3.eu-west-1.amazonaws.com/b/secret\", query: { a: b } }\n"
	"      - { allow: \"GET,PUT https://s3.eu-west-1.amazonaws.com\", credential: c }\n"
	"      - { allow: \"GET,PUT https://b.s3.eu-west-1.amazonaws.com\", credential: c }\n"
	"      - { allow: \"GET,PUT https://a.b.s3.eu-west-1.amazonaws.com\", credential: c }\n"
	"      - { allow: \"PUT https://a.blob.core.windows.net/c/**\", credential: c }\n"
	"      - { allow: \"GET https://a.blob.core.windows.net/c/pub/**\", credential: c }\n"
	"      - { allow: \"GET https://a.blob.core.windows.net/c/other/**\" }\n"
	"      - { allow: \"https://b-1.cos.ap-x.myqcloud.com/v1/**\", credential: c }\n"
	"      - { allow: \"https://minio.example\", credential: c }\n"
	"      - deny: \"https://registry.example/v2/secret/**\"\n"
	"      - allow: \"GET https://registry.example/v2/**\"\n"
	"      - allow: \"PUT https://registry.example\"\n"
	"      - { allow: \"https://d.dfs.core.windows.net\" }\n"
	"      - { allow: \"PUT https://e.dfs.core.windows.net\" }\n";

static struct kh_decision ask_source(const struct fixture *f, const char *name, const char *path,
				     const char *field, const char *query)
{
	struct kh_authority own = { .port = 443 };
	const char *const fields[] = { field, NULL };
	struct kh_overrides overrides = read_all(fields, query);
	assert_true(kh_host_parse(&own.host, kh_slice_str(name), NULL));
	if (overrides.source != KH_COPY_NONE)
		kh_copy_source_read(&overrides, &own, kh_slice_str(path));
	struct kh_request_view view = { .method = KH_SLICE("PUT"),
					.scheme = KH_SCHEME_HTTPS,
					.host = &own.host,
					.port = 443,
					.path = kh_slice_str(path),
					.overrides = &overrides };
	struct kh_decision decision, explained;
	kh_policy_decide(f->policy, 0, NULL, &view, &decision);
	kh_policy_explain(f->policy, 0, NULL, &view, NULL, NULL, &explained);
	assert_true(decision.allow == explained.allow && decision.rule == explained.rule &&
		    decision.reason == explained.reason && decision.reading == explained.reading);
	return decision;
}

static struct kh_decision ask_copy(const struct fixture *f, const char *name, const char *path,
				   const char *field)
{
	return ask_source(f, name, path, field, NULL);
}

#define S3 "s3.eu-west-1.amazonaws.com"
#define BLOB "a.blob.core.windows.net"

static void what_a_server_is_asked_to_copy_is_decided_as_a_read_of_it(void **state)
{
	(void)state;
	static const struct {
		const char *host, *path, *field;
		bool allow;
	} cases[] = {
		{ S3, "/b/x", "x-amz-copy-source:/b/pub/k", true },
		{ S3, "/b/x", "x-amz-copy-source:b/pub/k", true },
		{ S3, "/b/x", "X_Amz_Copy_Source: b/pub/a%20b%C3%A9?versionId=1.a-b ", true },
		{ S3, "/b/x", "x-amz-copy-source:/b/private/k", false },
		{ S3, "/b/x", "x-amz-copy-source:b%2Fprivate%2Fk", false },
		{ S3, "/b/x", "x-amz-copy-source:/b/%70rivate/k", false },
		{ S3, "/b/x", "x-amz-copy-source:/b/%2570rivate/k", false },
		{ S3, "/b/x", "x-amz-copy-source:/b/pub/a+b", false },
		{ S3, "/b/x", "x-amz-copy-source:/b/pub/../private/k", false },
		{ S3, "/b/x", "x-amz-copy-source:/b/pub/k?acl", false },
		{ S3, "/b/x", "x-amz-copy-source:/b/pub/k?versionId=1&x=2", false },
		{ S3, "/b/x", "x-amz-copy-source:/b/secret", false },
		{ S3, "/b/x", "x-amz-copy-source:/other/secret.txt", false },
		{ S3, "/b/x", "x-amz-copy-source:/b", false },
		{ S3, "/b/x", "x-amz-copy-source:", false },
		{ S3, "/b/x", "x-amz-copy-source:https://" S3 "/b/pub/k", false },
		{ S3, "/b/x", "x-amz-copy-source:arn:aws:s3:eu-west-1:1:accesspoint/p/object/k",
		  false },
		{ S3, "/b/x", "x-amz-rename-source:/b/private/k", false },
		{ "b." S3, "/x", "x-amz-copy-source:/b/pub/k", true },
		{ "b." S3, "/x", "x-amz-copy-source:/b/private/k", false },
		{ "b." S3, "/b/x", "x-amz-copy-source:/other/k", false },
		/* The first segment is of a key, and the first label a part of the bucket's name.
		 */
		{ "b." S3, "/o/x", "x-amz-copy-source:/o/k", false },
		{ "a.b." S3, "/x", "x-amz-copy-source:/a/k", false },
		{ "a.b." S3, "/x", "x-amz-copy-source:/a.b/k", true },
		/* Nobody knows whether a bucket of it stands in the host or in the path. */
		{ "minio.example", "/b/x", "x-amz-copy-source:/b/k", false },
		{ "minio.example", "/b/x", "x-goog-copy-source:/b/k", false },
		{ "minio.example", "/b/x", "x-tos-copy-source:/b/k", false },
		{ "minio.example", "/b/x", "x-copy-from:/b/k", false },
		{ "minio.example", "/b/x", "x-amz-copy-source-if-match:a", true },
		{ BLOB, "/c/x", "x-ms-copy-source:https://" BLOB "/c/pub/k?snapshot=1", true },
		{ BLOB, "/c/x", "x-ms-copy-source:https://" BLOB "/c/k", false },
		/* Allowed, without the credential. */
		{ BLOB, "/c/x", "x-ms-copy-source:https://" BLOB "/c/other/k", false },
		{ BLOB, "/c/x", "x-ms-copy-source:https://z.blob.core.windows.net/c/pub/k", false },
		{ BLOB, "/c/x", "x-ms-copy-source:https://" BLOB ":444/c/pub/k", false },
		{ BLOB, "/c/x", "x-ms-copy-source:http://" BLOB "/c/pub/k", false },
		{ BLOB, "/c/x", "x-ms-copy-source:/c/pub/k", false },
		{ BLOB, "/c/x", "x-ms-copy-source:https://" BLOB "/c/pub/k?sig=x", false },
		{ "b-1.cos.ap-x.myqcloud.com", "/v1/x",
		  "x-cos-copy-source:b-1.cos.ap-x.myqcloud.com/v1/k", true },
		{ "b-1.cos.ap-x.myqcloud.com", "/v1/x",
		  "x-cos-copy-source:b-1.cos.ap-x.myqcloud.com/v2/k", false },
		{ "b-1.cos.ap-x.myqcloud.com", "/v1/x",
		  "x-cos-copy-source:b-2.cos.ap-x.myqcloud.com/v1/k", false },
		/* What is moved is gone. */
		{ "d.dfs.core.windows.net", "/x", "x-ms-rename-source:/c/k", true },
		{ "e.dfs.core.windows.net", "/x", "x-ms-rename-source:/c/k", false },
		{ "d.dfs.core.windows.net", "/x", "x-ms-file-rename-source:https://z.example/k",
		  false },
	};
	struct fixture f = policy_of(copies);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (ask_copy(&f, cases[i].host, cases[i].path, cases[i].field).allow !=
		    cases[i].allow)
			fail_msg("%s %s %s", cases[i].host, cases[i].path, cases[i].field);
	struct kh_decision d = ask_copy(&f, S3, "/b/x", "x-amz-copy-source:/b/private/k");
	assert_int_equal(d.reading, KH_READ_SOURCE);
	assert_int_equal(d.reason, KH_ERR_DENIED_BY_RULE);
	fini(&f);
}

/* Of a presigned request a store takes such fields from the query too. */
static void a_source_in_the_query_is_decided_like_one_in_a_field(void **state)
{
	(void)state;
	static const struct {
		const char *host, *path, *query;
		bool allow;
	} cases[] = {
		{ S3, "/b/x", "x-amz-copy-source=%2Fb%2Fpub%2Fk&X-Amz-Expires=60", true },
		{ S3, "/b/x", "x-amz-copy-source=/b/pub/k", true },
		{ S3, "/b/x", "X-Amz-Copy-Source=b%2Fpub%2Fa%2520b%3FversionId%3D1", true },
		{ S3, "/b/x", "x-amz-copy-source=%2Fb%2Fprivate%2Fk", false },
		{ S3, "/b/x", "a=1&x%2Damz-copy-source=%2Fb%2Fprivate%2Fk", false },
		{ S3, "/b/x", "x-amz-copy-source=%2Fb%2F%2570rivate%2Fk", false },
		{ S3, "/b/x", "x-amz-copy-source=%2Fother-bucket%2Fk", false },
		{ S3, "/b/x", "x-amz-copy-source=%252Fb%252Fpub%252Fk", false },
		{ S3, "/b/x", "x-amz-copy-source=%2Fb%2Fpub%2Fa%20b", false },
		{ S3, "/b/x", "x-amz-copy-source=%2Fb%2Fpub%2Fa+b", false },
		{ S3, "/b/x", "x-amz-copy-source=%2Fb%2Fpub%2Fk%", false },
		{ S3, "/b/x", "x-amz-copy-source=%2Fb%2Fpub%2Fk%2", false },
		{ S3, "/b/x", "x-amz-copy-source=", false },
		{ S3, "/b/x", "x-amz-copy-source", false },
		/* "/b/pub;/../private/k" to who knows no ';'. */
		{ S3, "/b/x", "x-amz-copy-source=/b/pub;/k", false },
		{ S3, "/b/x", "x-amz-copy-source=/b/pub/k&x-amz-copy-source=/b/pub/l", false },
		{ S3, "/b/x", "x-amz-copy-source-if-match=a", true },
		{ S3, "/b/x", "x-amz-rename-source=%2Fb%2Fpub%2Fk", false },
		{ BLOB, "/c/x", "x-ms-copy-source=https%3A%2F%2F" BLOB "%2Fc%2Fpub%2Fk", true },
		{ BLOB, "/c/x", "x-ms-copy-source=https%3A%2F%2F" BLOB "%2Fc%2Fk", false },
		{ "minio.example", "/b/x", "x-tos-copy-source=/b/k", false },
		{ "minio.example", "/b/x", "multipart-manifest=put", false },
		{ "minio.example", "/b/x", "multipart-manifest=get", true },
		{ "minio.example", "/b/x", "op=CONCAT&sources=%2Fa,%2Fb", false },
		{ "minio.example", "/b/x", "sources=a", true },
	};
	struct fixture f = policy_of(copies);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (ask_source(&f, cases[i].host, cases[i].path, "a:b", cases[i].query).allow !=
		    cases[i].allow)
			fail_msg("%s %s %s", cases[i].host, cases[i].path, cases[i].query);
	/* One in each place. */
	assert_false(ask_source(&f, S3, "/b/x", "x-amz-copy-source:/b/pub/k",
				"x-amz-copy-source=/b/pub/k")
			     .allow);
	fini(&f);
}

static void a_blob_of_another_repository_is_decided_as_a_read_of_it(void **state)
{
	(void)state;
	static const char uploads[] = "/v2/mine/blobs/uploads/";
	static const struct {
		const char *path, *query;
		bool allow;
	} cases[] = {
		{ uploads, "mount=sha256:1a&from=mine/other", true },
		{ uploads, "from=pub%2Fother&mount=sha256%3A1a", true },
		{ uploads, "mount=sha256:1a&from=secret/x", false },
		{ uploads, "mount=sha256:1a&from=secret%2Fx", false },
		{ uploads, "mount=sha256%253A1a&from=secret%2Fx", false },
		{ uploads, "mount=sha256:1a&from=Secret/x", false },
		{ uploads, "mount=sha256:1a&from=pub/../secret/x", false },
		{ uploads, "mount=sha256:1a&from=pub//x", false },
		{ uploads, "mount=sha256:1a&from=/pub/x", false },
		{ uploads, "mount=sha256:1a&from=pub/", false },
		{ uploads, "mount=sha256:1a&from=pub%252Fx", false },
		{ uploads, "mount=sha256:1a&from=pub?x", false },
		{ uploads, "mount=sha256:1a/../x&from=pub", false },
		{ uploads, "mount=sha256:1a&from=", false },
		/* From wherever the registry finds it. */
		{ uploads, "mount=sha256:1a", false },
		{ uploads, "mount=sha256:1a&From=pub", false },
		{ uploads, "Mount=sha256:1a&from=pub", false },
		{ uploads, "mount=sha256:1a&from=pub&from=secret/x", false },
		{ uploads, "mount=sha256:1a&mount=sha256:1b&from=pub", false },
		{ uploads, "mount=sha256:1a&from=pub;", false },
		{ "/v1/mine", "mount=sha256:1a&from=pub", false },
		{ uploads, "mount=&from=secret/x", true },
		{ uploads, "from=2026-01-01", true },
	};
	struct fixture f = policy_of(copies);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (ask_source(&f, "registry.example", cases[i].path, "a:b", cases[i].query)
			    .allow != cases[i].allow)
			fail_msg("%s %s", cases[i].path, cases[i].query);
	fini(&f);
}

static void what_is_read_later_is_refused_like_what_is_read_now(void **state)
{
	(void)state;
	static const char *const fields[] = {
		"x-oss-symlink-target:secret/key", "X-Symlink-Target: c/secret",
		"x-object-manifest:c/prefix",	   "x-versions-location:c",
		"x-tos-symlink-bucket:c",	   "x-ms-file-target-file:a/b",
		"x-container-sync-to://r/c/a/b",   "x-anything-copy-source:/b/k",
	};
	struct fixture f = policy_of(copies);
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		struct kh_decision d = ask_copy(&f, "minio.example", "/b/x", fields[i]);
		assert_false(d.allow);
		assert_int_equal(d.reading, KH_READ_SOURCE);
	}
	fini(&f);
}

static void a_binding_holds_for_what_a_server_is_asked_to_copy(void **state)
{
	(void)state;
	struct fixture f = policy_of(copies);
	struct kh_credential_config bound = f.config->credentials[0];
	char pub[] = "/b/pub/**", get[] = "GET", put[] = "PUT";
	char *paths[] = { pub }, *methods[] = { put, get };
	struct kh_authority own = { .port = 443 };
	assert_true(kh_host_parse(&own.host, KH_SLICE(S3), NULL));
	bound.paths = paths;
	bound.n_paths = 1;
	bound.methods = methods;
	bound.n_methods = 2;
	static const char *const sources[] = { "x-amz-copy-source:/b/pub/k",
					       "x-amz-copy-source:/b/k", "x-amz-copy-source:/c/k" };
	for (size_t i = 0; i < 3; i++) {
		const char *const fields[] = { sources[i], NULL };
		struct kh_overrides overrides = read_all(fields, NULL);
		kh_copy_source_read(&overrides, &own, KH_SLICE("/b/pub/x"));
		struct kh_request_view view = { .method = KH_SLICE("PUT"),
						.scheme = KH_SCHEME_HTTPS,
						.host = &own.host,
						.port = 443,
						.path = KH_SLICE("/b/pub/x"),
						.overrides = &overrides };
		assert_true((kh_credential_binding_fault(&bound, &view) == NULL) == (i == 0));
		bound.n_methods = 1; /* PUT alone: nothing may be read */
		assert_non_null(kh_credential_binding_fault(&bound, &view));
		bound.n_methods = 2;
	}
	fini(&f);
}

static void two_sources_are_none_that_can_be_read(void **state)
{
	(void)state;
	struct kh_authority own = { .port = 443 };
	const char *const fields[] = { "x-amz-copy-source:/b/k", "X-Amz-Copy-Source:/b/l", NULL };
	struct kh_overrides overrides = read_all(fields, NULL);
	assert_true(kh_host_parse(&own.host, KH_SLICE(S3), NULL));
	kh_copy_source_read(&overrides, &own, KH_SLICE("/b/x"));
	assert_int_equal(overrides.source, KH_COPY_UNREAD);
}

static struct kh_decision ask(const struct fixture *f, const struct kh_narrowing *narrowing,
			      const char *method, const char *name, const char *field)
{
	struct kh_host host;
	const char *const fields[] = { field, NULL };
	struct kh_overrides overrides = read_all(fields, NULL);
	assert_true(kh_host_parse(&host, kh_slice_str(name), NULL));
	struct kh_request_view view = { .method = kh_slice_str(method),
					.scheme = KH_SCHEME_HTTPS,
					.host = &host,
					.port = 443,
					.path = KH_SLICE("/v1/x"),
					.overrides = &overrides };
	struct kh_decision decision, explained;
	kh_policy_decide(f->policy, 0, narrowing, &view, &decision);
	kh_policy_explain(f->policy, 0, narrowing, &view, NULL, NULL, &explained);
	assert_true(decision.allow == explained.allow && decision.rule == explained.rule &&
		    decision.reason == explained.reason && decision.reading == explained.reading);
	return decision;
}

static void a_request_must_be_allowed_as_what_it_asks_to_be_taken_for(void **state)
{
	(void)state;
	struct fixture f = policy_of(rules);
	assert_true(ask(&f, NULL, "POST", "h.example", "accept:*/*").allow);
	struct kh_decision d = ask(&f, NULL, "POST", "h.example", "X-HTTP-Method-Override:DELETE");
	assert_false(d.allow);
	assert_int_equal(d.reading, KH_READ_OTHER_METHOD);
	assert_int_equal(d.reason, KH_ERR_NO_RULE);
	assert_true(ask(&f, NULL, "POST", "h.example", "X-HTTP-Method-Override:get").allow);
	/* Another method that another rule allows, without the credential. */
	assert_false(ask(&f, NULL, "POST", "h.example", "X-HTTP-Method-Override:PUT").allow);
	assert_false(ask(&f, NULL, "POST", "h.example", "X-HTTP-Method-Override:").allow);
	d = ask(&f, NULL, "POST", "d.example", "X-HTTP-Method:DELETE");
	assert_false(d.allow);
	assert_int_equal(d.reason, KH_ERR_DENIED_BY_RULE);
	assert_true(ask(&f, NULL, "POST", "d.example", "X-HTTP-Method:PUT").allow);
	assert_true(ask(&f, NULL, "PURGE", "u.example", "X-HTTP-Method:REBIND").allow);
	assert_false(ask(&f, NULL, "PURGE", "u.example", "X-HTTP-Method:UNBIND").allow);
	/* One that can't be read is what some rule denies, and none that some rule names. */
	d = ask(&f, NULL, "POST", "d.example", "X-HTTP-Method:DELETE, GET");
	assert_false(d.allow);
	assert_int_equal(d.reason, KH_ERR_DENIED_BY_RULE);
	assert_int_equal(d.reading, KH_READ_OTHER_METHOD);
	assert_false(ask(&f, NULL, "POST", "h.example", "X-HTTP-Method:GET, POST").allow);
	assert_false(ask(&f, NULL, "PURGE", "u.example", "X-HTTP-Method:PURGE, PURGE").allow);
	assert_true(ask(&f, NULL, "POST", "q.example", "X-HTTP-Method:DELETE, GET").allow);
	assert_true(ask(&f, NULL, "POST", "d.example", "X-HTTP-Method:").allow);
	/* The other way round it is no way out either. */
	assert_false(ask(&f, NULL, "DELETE", "h.example", "X-HTTP-Method:GET").allow);
	const struct kh_narrowing *narrowing = kh_policy_narrowing(f.policy, 0);
	assert_true(ask(&f, narrowing, "GET", "h.example", "x-a:b").allow);
	d = ask(&f, narrowing, "GET", "h.example", "x-http-method:POST");
	assert_false(d.allow);
	assert_int_equal(d.list, KH_LIST_SANDBOX);
	assert_int_equal(d.reading, KH_READ_OTHER_METHOD);
	fini(&f);
}

static void a_path_that_nobody_knows_must_be_allowed_whatever_it_is(void **state)
{
	(void)state;
	struct fixture f = policy_of(rules);
	struct kh_decision d = ask(&f, NULL, "GET", "h.example", "X-Original-URL:/v1/x");
	assert_false(d.allow);
	assert_int_equal(d.reading, KH_READ_OTHER_PATH);
	d = ask(&f, NULL, "GET", "p.example", "X-Rewrite-URL:/admin/x");
	assert_false(d.allow);
	assert_int_equal(d.reason, KH_ERR_DENIED_BY_RULE);
	static const char *const names[] = { "SCRIPT_NAME:/v1", "X-Script-Name:/v1",
					     "Path-Info:/admin/x", "X-Request-URI:/admin/x",
					     "x_path_info:/admin/x" };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_false(ask(&f, NULL, "GET", "h.example", names[i]).allow);
		assert_false(ask(&f, NULL, "GET", "p.example", names[i]).allow);
		assert_true(ask(&f, NULL, "GET", "q.example", names[i]).allow);
	}
	assert_true(ask(&f, NULL, "GET", "q.example", "X-Rewrite-URL:/admin/x").allow);
	assert_true(ask(&f, NULL, "GET", "d.example", "X-Original-URL:/admin/x").allow);
	fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_that_name_a_method_are_found_in_any_spelling),
		cmocka_unit_test(what_can_not_be_read_may_be_any_method),
		cmocka_unit_test(a_parameter_that_names_a_method_is_found_in_any_spelling),
		cmocka_unit_test(fields_that_name_a_path_are_found),
		cmocka_unit_test(fields_that_name_another_host_are_found),
		cmocka_unit_test(every_name_of_the_table_is_found_where_it_counts),
		cmocka_unit_test(a_parameter_names_a_host_or_path_like_its_field),
		cmocka_unit_test(a_request_must_be_allowed_as_what_it_asks_to_be_taken_for),
		cmocka_unit_test(a_path_that_nobody_knows_must_be_allowed_whatever_it_is),
		cmocka_unit_test(what_a_server_is_asked_to_copy_is_decided_as_a_read_of_it),
		cmocka_unit_test(a_source_in_the_query_is_decided_like_one_in_a_field),
		cmocka_unit_test(a_blob_of_another_repository_is_decided_as_a_read_of_it),
		cmocka_unit_test(what_is_read_later_is_refused_like_what_is_read_now),
		cmocka_unit_test(a_binding_holds_for_what_a_server_is_asked_to_copy),
		cmocka_unit_test(two_sources_are_none_that_can_be_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
