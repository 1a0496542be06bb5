/* test_path.c - every spelling of a path has one normal form, and none climbs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <keyhole/base/path.h>

static void assert_normal(const char *raw, const char *normal)
{
	struct kh_buf out;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&out, 1024);
	if (!kh_path_normalise(kh_slice_str(raw), &out, &err))
		fail_msg("%s is refused: %s", raw, err.text);
	assert_string_equal(kh_buf_cstr(&out), normal);
	kh_buf_fini(&out);
}

static void assert_refused(struct kh_slice raw)
{
	struct kh_buf out;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&out, 1024);
	assert_true(kh_buf_append_str(&out, "before"));
	if (kh_path_normalise(raw, &out, &err))
		fail_msg("%.*s is taken", KH_FMT(raw));
	assert_int_equal(err.code, KH_ERR_REQUEST_MALFORMED);
	assert_string_equal(kh_buf_cstr(&out), "before");
	kh_buf_fini(&out);
}

/* NULL: there is no other reading. */
static void assert_slashed(const char *normal, const char *slashed)
{
	struct kh_buf out;
	bool differs;
	kh_buf_init(&out, 1024);
	assert_true(kh_path_slashed(kh_slice_str(normal), &out, &differs));
	assert_int_equal(differs, slashed != NULL);
	assert_string_equal(kh_buf_cstr(&out), slashed ? slashed : "");
	kh_buf_fini(&out);
}

static void unreserved_characters_are_decoded_and_nothing_else(void **state)
{
	(void)state;
	assert_normal("/", "/");
	assert_normal("/v1/messages", "/v1/messages");
	assert_normal("/%76%31/%6D%65ssages", "/v1/messages");
	assert_normal("/%41%5a%61%7A%30%39%2d%2E%5f%7e", "/AZaz09-._~");
	assert_normal("/a%2fb%2Fc", "/a%2Fb%2Fc");
	assert_normal("/%40scope%3a%20%c3%a9", "/%40scope%3A%20%C3%A9");
	assert_normal("/%25%32%35%252e", "/%2525%252e");
	assert_normal("/:@!$&'()*+,;=[]", "/:@!$&'()*+,;=[]");
	assert_normal("//a//", "//a//");
	assert_normal("/a%5cb", "/a%5Cb");
}

static void a_normal_form_is_its_own_normal_form(void **state)
{
	(void)state;
	static const char *const raws[] = { "/%41/b%2fc", "/%25%34%31", "/x%7e%2E.y", "/a%5c" };
	for (size_t i = 0; i < sizeof(raws) / sizeof(raws[0]); i++) {
		struct kh_buf once;
		kh_buf_init(&once, 1024);
		assert_true(kh_path_normalise(kh_slice_str(raws[i]), &once, NULL));
		assert_normal(kh_buf_cstr(&once), kh_buf_cstr(&once));
		kh_buf_fini(&once);
	}
}

static void no_reading_of_a_path_climbs(void **state)
{
	(void)state;
	static const char *const raws[] = {
		"/..",
		"/.",
		"/../a",
		"/a/..",
		"/a/../b",
		"/a/./b",
		"/a/.",
		"/%2e%2e/a",
		"/%2E./a",
		"/.%2e/a",
		"/%2e",
		"/a/%2e%2e",
		"/a%2f..%2fb",
		"/a%2F%2e.",
		"/%2F..",
		"/..%2fa",
		"/..%5ca",
		"/a%5c..%5Cb",
		"/a%5c..",
		"/..;/a",
		"/a/..;x=1/b",
		"/.;/a",
		"/a/..%3b/",
		"/a%2f..;x",
		"/%2e%2e%2f",
		"/a/%2E%2E;v",
		/* a decoder that does not look at the second byte of two */
		"/a/%c0%2e%c0%2e/b",
		"/a/%C0.%C0.",
		"/a/.%c0%2e/b",
		"/a/..%C0/b",
		/* a '+' that is read as a blank, which some drop */
		"/a/..+/b",
		"/..++",
		"/..+%20./a",
		"/a%2F..+%2Fb",
	};
	for (size_t i = 0; i < sizeof(raws) / sizeof(raws[0]); i++)
		assert_refused(kh_slice_str(raws[i]));
	/* Dots that are names. */
	assert_normal("/...", "/...");
	assert_normal("/..a/.b/c..", "/..a/.b/c..");
	assert_normal("/.well-known/x", "/.well-known/x");
	assert_normal("/v1..v2", "/v1..v2");
	assert_normal("/..+a/.+/c++/+..", "/..+a/.+/c++/+..");
}

static void what_is_no_path_is_refused(void **state)
{
	(void)state;
	static const char *const raws[] = { "",	     "a",     "*",     "/a\\b", "/a b",	    "/a\tb",
					    "/a\nb", "/a\"",  "/<a>",  "/a^b",	"/a`b",	    "/{a}",
					    "/a|b",  "/a?b",  "/a#b",  "/%",	"/%4",	    "/%4g",
					    "/%g4",  "/a%",   "/%zz",  "/%00",	"/%0a",	    "/%1F",
					    "/%7f",  "/a%0d", "/\x7f", "/\x80", "/\xc3\xa9" };
	for (size_t i = 0; i < sizeof(raws) / sizeof(raws[0]); i++)
		assert_refused(kh_slice_str(raws[i]));
	assert_refused(kh_slice_of("/a\0b", 4));
	assert_refused(kh_slice_of("/a%4\0", 5));
}

static void every_byte_is_either_kept_or_refused(void **state)
{
	(void)state;
	const char *kept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
			   ":@!$&'()*+,;=[]/";
	for (int c = 0; c < 256; c++) {
		char raw[3] = { '/', 'a', (char)c };
		struct kh_buf out;
		kh_buf_init(&out, 16);
		bool taken = kh_path_normalise(kh_slice_of(raw, 3), &out, NULL);
		assert_int_equal(taken, c != 0 && strchr(kept, c) != NULL);
		if (taken)
			assert_memory_equal(kh_buf_view(&out).ptr, raw, 3);
		kh_buf_fini(&out);
	}
}

static void the_other_reading_has_slashes(void **state)
{
	(void)state;
	assert_slashed("/a/b", NULL);
	assert_slashed("/a%2Fb", "/a/b");
	assert_slashed("/a%5Cb%2Fc", "/a/b/c");
	assert_slashed("/a%252Fb", NULL);
	assert_slashed("/a%20b", NULL);
}

static void the_other_reading_may_go_where_the_first_lies(void **state)
{
	(void)state;
	struct kh_buf out;
	bool differs;
	kh_buf_init(&out, 1024);
	assert_true(kh_path_normalise(KH_SLICE("/@scope%2fpackage-with-a-long-name"), &out, NULL));
	size_t first = kh_buf_len(&out);
	assert_true(kh_path_slashed(kh_buf_view(&out), &out, &differs));
	assert_true(differs);
	struct kh_slice all = kh_buf_view(&out);
	assert_true(kh_slice_eq(kh_slice_sub(all, 0, first),
				KH_SLICE("/@scope%2Fpackage-with-a-long-name")));
	assert_true(kh_slice_eq(kh_slice_sub(all, first, all.len),
				KH_SLICE("/@scope/package-with-a-long-name")));
	kh_buf_fini(&out);
}

static void a_cap_is_kept(void **state)
{
	(void)state;
	struct kh_buf out;
	struct kh_err err = KH_ERR_INIT;
	bool differs;
	kh_buf_init(&out, 4);
	assert_false(kh_path_normalise(KH_SLICE("/abcd"), &out, &err));
	assert_int_equal(err.code, KH_ERR_NO_MEMORY);
	assert_false(kh_path_slashed(KH_SLICE("/a%2Fb"), &out, &differs));
	assert_int_equal(kh_buf_len(&out), 0);
	kh_buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unreserved_characters_are_decoded_and_nothing_else),
		cmocka_unit_test(a_normal_form_is_its_own_normal_form),
		cmocka_unit_test(no_reading_of_a_path_climbs),
		cmocka_unit_test(what_is_no_path_is_refused),
		cmocka_unit_test(every_byte_is_either_kept_or_refused),
		cmocka_unit_test(the_other_reading_has_slashes),
		cmocka_unit_test(the_other_reading_may_go_where_the_first_lies),
		cmocka_unit_test(a_cap_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
