/* test_target.c - what a request names has one reading */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

#include <keyhole/http/target.h>

static bool parse(struct kh_target *target, const char *method, const char *text)
{
	struct kh_err err = KH_ERR_INIT;
	bool ok = kh_target_parse(target, kh_slice_str(method), kh_slice_str(text), &err);

	if (!ok) {
		assert_int_equal(err.code, KH_ERR_REQUEST_MALFORMED);
		assert_true(err.text[0] != '\0');
	}
	return ok;
}

static void is(struct kh_slice got, const char *wanted)
{
	if (!wanted) {
		assert_null(got.ptr);
		return;
	}
	if (!kh_slice_eq(got, kh_slice_str(wanted)))
		fail_msg("wanted %s, got %.*s", wanted, KH_FMT(got));
}

static void origin(const char *text, const char *raw_path, const char *query, const char *path,
		   const char *slashed)
{
	struct kh_target target;

	assert_true(parse(&target, "GET", text));
	assert_false(target.absolute);
	is(target.raw, text);
	is(target.raw_path, raw_path);
	is(target.query, query);
	is(target.path, path);
	is(target.path_slashed, slashed);
	kh_target_fini(&target);
}

/* "path?query path?query …", and all that follows the first mark. */
static void cut(const char *text, const char *wanted, const char *query)
{
	struct kh_target target;
	char got[256] = "";

	assert_true(parse(&target, "GET", text));
	for (size_t i = 0; i < target.path_cuts.n; i++)
		(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%.*s?%.*s",
			       i ? " " : "", KH_FMT(target.path_cuts.list[i].path),
			       KH_FMT(target.path_cuts.list[i].query));
	assert_string_equal(got, wanted);
	is(target.path_cuts.query, query);
	kh_target_fini(&target);
}

static void a_path_is_cut_at_each_escaped_mark_in_each_reading(void **state)
{
	(void)state;
	cut("/a%2Fb?c", "", NULL);
	cut("/a%3F", "/a?", "");
	cut("/a%3fb%26c%3Dd?e", "/a?b%26c%3Dd", "b&c=d");
	cut("/a%23b%3Fc%23d", "/a%23b?c%23d /a?b%3Fc%23d", "b&c&d");
	cut("/a%2Fb%253Fc", "/a%2Fb?c /a/b?c", "c");
	cut("/%2561%2Fb%EF%BC%9F%2563", "/%2561%2Fb?%2563 /%2561/b?%2563 /a/b?c", "c");
}

static void test_origin_form(void **state)
{
	(void)state;
	origin("/", "/", NULL, "/", NULL);
	origin("/a/b?c=d&e", "/a/b", "c=d&e", "/a/b", NULL);
	origin("/?", "/", "", "/", NULL);
	origin("/a?b?c/../d", "/a", "b?c/../d", "/a", NULL);
	origin("//a//b/", "//a//b/", NULL, "//a//b/", NULL);
	origin("/%7euser/%c3%a9", "/%7euser/%c3%a9", NULL, "/~user/%C3%A9", NULL);
	origin("/@scope%2fname", "/@scope%2fname", NULL, "/@scope%2Fname", "/@scope/name");
	origin("/a:b/http://c", "/a:b/http://c", NULL, "/a:b/http://c", NULL);
	origin("/v1/x:generate?alt=sse", "/v1/x:generate", "alt=sse", "/v1/x:generate", NULL);
	origin("/100%25/%2541", "/100%25/%2541", NULL, "/100%25/%2541", NULL);
	origin("/q?a=%0a%00[1]", "/q", "a=%0a%00[1]", "/q", NULL);
}

static void test_what_could_climb_is_refused(void **state)
{
	static const char *const texts[] = {
		"/..",
		"/../a",
		"/a/../b",
		"/a/.",
		"/./a",
		"/%2e%2e/a",
		"/.%2E/a",
		"/a/%2e",
		"/a%2f..%2fb",
		"/a%2f%2e%2e",
		"/..%5ca",
		"/a\\..\\b",
		"/a/..;x/b",
		"/a%5C..",
		"/..%2f",
		"http://h/a/..",
		"http://h/%2e%2E",
		"/%252e%252e/a",
		"/%25252e%25252E",
		"/a%255c..",
		"/.%252e%255c",
		"/%252%2565/a",
		"/%2525252525252525",
	};
	struct kh_target target;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (parse(&target, "GET", texts[i]))
			fail_msg("%s was taken", texts[i]);
		kh_target_fini(&target);
	}
}

static void test_what_browsers_send_raw_in_a_query_is_taken(void **state)
{
	(void)state;
	struct kh_target target;
	struct kh_err err = KH_ERR_INIT;
	assert_true(
		kh_target_parse(&target, KH_SLICE("GET"), KH_SLICE("/w?titles=A|B&x={}^`"), &err));
	assert_true(kh_slice_eq(target.raw, KH_SLICE("/w?titles=A|B&x={}^`")));
	assert_true(kh_slice_eq(target.query, KH_SLICE("titles=A|B&x={}^`")));
	kh_target_fini(&target);
}

static void test_what_no_uri_holds_is_refused(void **state)
{
	static const char *const texts[] = {
		"",	  "a",	    "a/b",   "?a",	 "/a b",      "/a#b",	     "/a?b#c",
		"/a%",	  "/a%2",   "/a%zz", "/a%0a",	 "/a%00",     "/a%7F",	     "/a?b%",
		"/a?%g0", "/a?b c", "/a\"",  "/a<b",	 "/a^b",      "/a`b",	     "/a{b}",
		"/a|b",	  "/a?b<c", "/a?\"", "/a?b\\c",	 "/\xc3\xa9", "/a?\xc3\xa9", "/a?\x7f",
		"/a\x01", "*",	    "**",    "/a?b\x01",
	};
	struct kh_target target;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		if (parse(&target, "GET", texts[i]))
			fail_msg("%s was taken", texts[i]);
		kh_target_fini(&target);
	}
	assert_false(kh_target_parse(&target, KH_SLICE("GET"), KH_SLICE("/a\0b"), NULL));
	kh_target_fini(&target);
	assert_false(kh_target_parse(&target, KH_SLICE("GET"), KH_SLICE("/a?\0"), NULL));
	kh_target_fini(&target);
}

static void test_absolute_form(void **state)
{
	struct kh_target target;

	(void)state;
	assert_true(parse(&target, "GET", "HTTP://A.Example:8080/x%41?y"));
	assert_true(target.absolute);
	assert_int_equal(target.scheme, KH_SCHEME_HTTP);
	is(kh_host_view(&target.authority.host), "a.example");
	assert_int_equal(target.authority.port, 8080);
	is(target.raw, "/x%41?y");
	is(target.path, "/xA");
	kh_target_fini(&target);

	assert_true(parse(&target, "GET", "https://[::1]/"));
	assert_int_equal(target.scheme, KH_SCHEME_HTTPS);
	assert_int_equal(target.authority.port, 443);
	assert_int_equal(target.authority.host.kind, KH_HOST_IPV6);
	kh_target_fini(&target);

	assert_true(parse(&target, "GET", "http://a.example"));
	assert_int_equal(target.authority.port, 80);
	is(target.raw, "/");
	is(target.path, "/");
	is(target.query, NULL);
	kh_target_fini(&target);

	assert_true(parse(&target, "OPTIONS", "http://a.example"));
	is(target.raw, "*");
	kh_target_fini(&target);
}

static void test_a_query_without_a_path_is_of_the_root(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_target target;
	(void)state;
	assert_true(
		kh_target_parse(&target, KH_SLICE("GET"), KH_SLICE("http://a.test?x=/1&y"), &err));
	assert_true(kh_slice_eq(target.raw, KH_SLICE("/?x=/1&y")));
	assert_true(kh_slice_eq(target.raw_path, KH_SLICE("/")));
	assert_true(kh_slice_eq(target.path, KH_SLICE("/")));
	assert_true(kh_slice_eq(target.query, KH_SLICE("x=/1&y")));
	kh_target_fini(&target);
}

static void test_a_refusal_says_how_to_write_it(void **state)
{
	static const char *const cases[][2] = {
		{ "/a{b", "'{' has no place in a path (RFC 3986): write it as %7B" },
		{ "/a|b", "'|' has no place in a path (RFC 3986): write it as %7C" },
		{ "/?a=\"b\"", "'\"' has no place in a query (RFC 3986): write it as %22" },
		{ "/a/../b", "send the path that is meant, without \".\" and \"..\"" },
		{ "/caf\xc3\xa9",
		  "a byte that has no place in a path (RFC 3986): write it as %C3" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_target target;
		assert_false(
			kh_target_parse(&target, KH_SLICE("GET"), kh_slice_str(cases[i][0]), &err));
		if (!strstr(err.text, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], err.text);
		kh_target_fini(&target);
	}
}

static void test_bad_absolute_form(void **state)
{
	static const char *const texts[] = {
		"http:/a/b",	      "http:a",		"http://",
		"http:///a",	      "http://u@a/",	"http://u:p@a/",
		"http://@a/",	      "http://a:/",	"http://a:0/",
		"http://a:65536/",    "http://a:080/",	"http://a:+80/",
		"http://a:80:80/",    "http://a#b",	"http://a/#b",
		"http://a\\b/",	      "http://a%2fb/",	"http://[::1/",
		"http://::1/",	      "http://[a]/",	"http://[1.2.3.4]/",
		"ftp://a/",	      "ws://a/",	"https:/a",
		"http://a b/",	      "http://0x7f.1/", "http://127.1/",
		"http://2130706433/", "http://a./",	"http://[::1%25lo]/",
		"//a.example/@",      "http://a,b/",	"http://*/",
	};
	struct kh_target target;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		bool ok = parse(&target, "GET", texts[i]);

		/* "//a" is a path in a request line, never an authority. */
		if (ok && texts[i][0] == '/')
			is(target.path, texts[i]);
		else if (ok)
			fail_msg("%s was taken", texts[i]);
		kh_target_fini(&target);
	}
}

static void test_asterisk_goes_with_options(void **state)
{
	struct kh_target target;

	(void)state;
	assert_true(parse(&target, "OPTIONS", "*"));
	is(target.raw, "*");
	is(target.path, "*");
	kh_target_fini(&target);
	assert_false(parse(&target, "options", "*"));
	kh_target_fini(&target);
}

static void test_authority(void **state)
{
	static const struct {
		const char *text;
		uint16_t default_port;
		const char *host; /* NULL: refused */
		uint16_t port;
	} cases[] = {
		{ "a.example:443", 0, "a.example", 443 },
		{ "A.EXAMPLE", 443, "a.example", 443 },
		{ "a.example:80", 443, "a.example", 80 },
		{ "127.0.0.1:1", 0, "127.0.0.1", 1 },
		{ "[2001:DB8::1]:65535", 0, "2001:db8::1", 65535 },
		{ "[::1]", 80, "::1", 80 },
		{ "a.example", 0, NULL, 0 },
		{ "[::1]", 0, NULL, 0 },
		{ "a.example:", 443, NULL, 0 },
		{ "a.example:0", 443, NULL, 0 },
		{ "a.example:00443", 443, NULL, 0 },
		{ "a.example:0443", 443, NULL, 0 },
		{ "a.example:65536", 443, NULL, 0 },
		{ "a.example:99999999999999999999", 443, NULL, 0 },
		{ "a.example:+443", 443, NULL, 0 },
		{ "a.example: 443", 443, NULL, 0 },
		{ "a.example:443 ", 443, NULL, 0 },
		{ " a.example:443", 443, NULL, 0 },
		{ "a.example:http", 443, NULL, 0 },
		{ "a.example:443:443", 443, NULL, 0 },
		{ "u@a.example:443", 443, NULL, 0 },
		{ "a.example@b.example:443", 443, NULL, 0 },
		{ "a.example:443@b.example", 443, NULL, 0 },
		{ "a.example,b.example", 443, NULL, 0 },
		{ "a.example/", 443, NULL, 0 },
		{ "a.example?", 443, NULL, 0 },
		{ "a.example#", 443, NULL, 0 },
		{ "a.example\\", 443, NULL, 0 },
		{ "a%2eexample", 443, NULL, 0 },
		{ ":443", 443, NULL, 0 },
		{ "", 443, NULL, 0 },
		{ "::1", 443, NULL, 0 },
		{ "::1:443", 0, NULL, 0 },
		{ "[::1", 443, NULL, 0 },
		{ "[]", 443, NULL, 0 },
		{ "[::1]443", 443, NULL, 0 },
		{ "[::1]x:443", 443, NULL, 0 },
		{ "[[::1]]:443", 443, NULL, 0 },
		{ "[a.example]:443", 443, NULL, 0 },
		{ "[127.0.0.1]:443", 443, NULL, 0 },
		{ "[fe80::1%eth0]:443", 443, NULL, 0 },
		{ "[v1.x]:443", 443, NULL, 0 },
		{ "a.example.:443", 443, NULL, 0 },
		{ "0x7f000001:443", 443, NULL, 0 },
		{ "127.1:443", 443, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_authority authority;
		bool ok = kh_authority_parse(&authority, kh_slice_str(cases[i].text),
					     cases[i].default_port, &err);

		if (ok != (cases[i].host != NULL))
			fail_msg("%s", cases[i].text);
		if (ok) {
			assert_string_equal(authority.host.text, cases[i].host);
			assert_int_equal(authority.port, cases[i].port);
		} else {
			assert_int_equal(err.code, KH_ERR_REQUEST_MALFORMED);
		}
	}
	struct kh_authority authority;
	assert_false(kh_authority_parse(&authority, KH_SLICE("a\0.example:443"), 0, NULL));
	assert_false(kh_authority_parse(&authority, KH_SLICE("a.example\0:443"), 0, NULL));
	assert_false(kh_authority_parse(&authority, KH_SLICE("a.example:443\0"), 0, NULL));
}

static void test_authorities_are_compared_and_written(void **state)
{
	struct kh_authority a, b, v6;
	struct kh_buf out;

	(void)state;
	assert_true(kh_authority_parse(&a, KH_SLICE("A.example:443"), 0, NULL));
	assert_true(kh_authority_parse(&b, KH_SLICE("a.example"), 443, NULL));
	assert_true(kh_authority_parse(&v6, KH_SLICE("[::1]:443"), 0, NULL));
	assert_true(kh_authority_eq(&a, &b));
	b.port = 80;
	assert_false(kh_authority_eq(&a, &b));
	assert_false(kh_authority_eq(&a, &v6));

	kh_buf_init(&out, 64);
	assert_true(kh_authority_format(&out, &a, 443));
	assert_true(kh_buf_append_char(&out, ' '));
	assert_true(kh_authority_format(&out, &b, 443));
	assert_true(kh_buf_append_char(&out, ' '));
	assert_true(kh_authority_format(&out, &v6, 0));
	is(kh_buf_view(&out), "a.example a.example:80 [::1]:443");
	kh_buf_fini(&out);
	kh_buf_init(&out, 11);
	assert_false(kh_authority_format(&out, &b, 443));
	assert_int_equal(kh_buf_len(&out), 0);
	kh_buf_fini(&out);
}

static void test_query_steps(void **state)
{
	static const char *const wanted[][2] = {
		{ "a", "b" }, { "c", "" }, { "", "d=e" }, { "f", "" }, { "", "" }, { "g", "?" },
	};
	struct kh_slice rest = KH_SLICE("a=b&c;=d=e&f=&&g=?"), name, value;
	size_t i = 0;

	(void)state;
	for (; kh_query_next(&rest, &name, &value); i++) {
		assert_true(i < sizeof(wanted) / sizeof(*wanted));
		is(name, wanted[i][0]);
		is(value, wanted[i][1]);
	}
	assert_int_equal(i, sizeof(wanted) / sizeof(*wanted));
	rest = kh_slice_of(NULL, 0);
	assert_false(kh_query_next(&rest, &name, &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_origin_form),
		cmocka_unit_test(a_path_is_cut_at_each_escaped_mark_in_each_reading),
		cmocka_unit_test(test_what_could_climb_is_refused),
		cmocka_unit_test(test_what_no_uri_holds_is_refused),
		cmocka_unit_test(test_what_browsers_send_raw_in_a_query_is_taken),
		cmocka_unit_test(test_absolute_form),
		cmocka_unit_test(test_a_query_without_a_path_is_of_the_root),
		cmocka_unit_test(test_a_refusal_says_how_to_write_it),
		cmocka_unit_test(test_bad_absolute_form),
		cmocka_unit_test(test_asterisk_goes_with_options),
		cmocka_unit_test(test_authority),
		cmocka_unit_test(test_authorities_are_compared_and_written),
		cmocka_unit_test(test_query_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
