/* test_body.c - a text at a declared place in a content is replaced, or the request is refused */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include <keyhole/credential/body.h>
#include <keyhole/base/limits.h>

static char *text(const char *literal)
{
	return (char *)(uintptr_t)literal;
}

static struct kh_secret *secret(const char *value)
{
	char *copy = strdup(value);
	struct kh_secret *made = kh_secret_new(copy, strlen(value), NULL);
	assert_non_null(made);
	free(copy);
	return made;
}

/* In pieces of `step` bytes. Return: the output (heap), NULL with *why. */
static char *filter(const struct kh_placement *place, const struct kh_secret *value,
		    const char *content, size_t step, const char **why)
{
	struct kh_body *body = kh_body_new(place);
	struct kh_slice rest = kh_slice_str(content);
	struct kh_buf all;
	bool ok = true;

	assert_non_null(body);
	kh_buf_init_wiping(&all, 1 << 20);
	for (; ok && rest.len > 0; rest = kh_slice_sub(rest, step, rest.len)) {
		struct kh_slice piece = kh_slice_sub(rest, 0, step);
		struct kh_buf out;
		kh_buf_init_wiping(&out, piece.len + 3 * KH_LIMIT_BODY_VALUE_BYTES);
		ok = kh_body_feed(body, piece, value, &out);
		assert_true(kh_buf_append_slice(&all, kh_buf_view(&out)));
		kh_buf_fini(&out);
	}
	ok = ok && kh_body_end(body);
	*why = kh_body_fault(body);
	assert_int_equal(ok, *why == NULL);
	char *made = ok ? kh_slice_dup(kh_buf_view(&all)) : NULL;
	if (ok) {
		size_t bytes = 0;
		assert_true(kh_body_value_bytes(place, value, &bytes));
		assert_int_equal(kh_buf_len(&all),
				 strlen(content) + bytes - kh_body_replaced_bytes(body));
	}
	kh_body_free(body);
	kh_buf_fini(&all);
	return made;
}

static void assert_becomes(const struct kh_placement *place, const char *value, const char *content,
			   const char *expected)
{
	struct kh_secret *s = secret(value);

	for (size_t step = 1; step < strlen(content) + 2; step++) {
		const char *why;
		char *made = filter(place, s, content, step, &why);
		if (!made)
			fail_msg("%s: %s", content, why);
		else
			assert_string_equal(made, expected);
		free(made);
	}
	kh_secret_unref(s);
}

static void assert_refused(const struct kh_placement *place, const char *content, const char *word)
{
	struct kh_secret *s = secret("the-secret-value");

	for (size_t step = 1; step < strlen(content) + 2; step++) {
		const char *why;
		char *made = filter(place, s, content, step, &why);
		if (made || !strstr(why, word))
			fail_msg("%s: %s", content, made ? made : why);
		free(made);
	}
	kh_secret_unref(s);
}

static const struct kh_placement *at(const char *pointer)
{
	static struct kh_placement place;
	place = (struct kh_placement){ .kind = KH_PLACEMENT_BODY, .pointer = text(pointer) };
	return &place;
}

static const struct kh_placement *member(const char *name)
{
	static struct kh_placement place;
	place = (struct kh_placement){ .kind = KH_PLACEMENT_BODY, .name = text(name) };
	return &place;
}

static void a_member_of_json_is_replaced_and_escaped(void **state)
{
	(void)state;
	assert_becomes(at("/key"), "VALUE", "{\"key\":\"x\"}", "{\"key\":\"VALUE\"}");
	assert_becomes(at("/key"), "VALUE", "{\"key\":\"\"}", "{\"key\":\"VALUE\"}");
	assert_becomes(at("/key"), "a\"b\\c\xc3\xa9", " { \"key\" : \"x\\\"y\\u0041\\\\\" } \n",
		       " { \"key\" : \"a\\\"b\\\\c\xc3\xa9\" } \n");
	assert_becomes(at("/a/key"), "V",
		       "{\"key\":\"1\",\"a\":{\"b\":[{\"key\":2}],\"key\":\"x\"}}",
		       "{\"key\":\"1\",\"a\":{\"b\":[{\"key\":2}],\"key\":\"V\"}}");
	assert_becomes(at("/a/1/k"), "V", "{\"a\":[{\"k\":\"0\"},{\"k\":\"1\"},{\"k\":\"2\"}]}",
		       "{\"a\":[{\"k\":\"0\"},{\"k\":\"V\"},{\"k\":\"2\"}]}");
	assert_becomes(at("/a/0"), "V", "{\"a\":[\"x\",\"y\"]}", "{\"a\":[\"V\",\"y\"]}");
	assert_becomes(at("/0"), "V", "[\"x\",1.5e-3,true,null]", "[\"V\",1.5e-3,true,null]");
	assert_becomes(at("/0"), "V", "{\"0\":\"x\"}", "{\"0\":\"V\"}");
	assert_becomes(at("/a~1b/c~0d"), "V", "{\"a/b\":{\"c~d\":\"x\"}}",
		       "{\"a/b\":{\"c~d\":\"V\"}}");
	/* Elsewhere a name may be twice, escaped, or anything. */
	assert_becomes(at("/k"), "V", "{\"a\":1,\"a\":2,\"\\u0061\":{\"k\":1,\"k\":2},\"k\":\"\"}",
		       "{\"a\":1,\"a\":2,\"\\u0061\":{\"k\":1,\"k\":2},\"k\":\"V\"}");
	assert_becomes(at("/k"), "V",
		       "{\"t\":\"\\ud800\\udc00 \\ud800 \xf0\x9f\x92\xa9\",\"k\":\"\"}",
		       "{\"t\":\"\\ud800\\udc00 \\ud800 \xf0\x9f\x92\xa9\",\"k\":\"V\"}");
}

static void a_place_that_two_readers_find_differently_is_refused(void **state)
{
	static const char *const twice[] = {
		"{\"key\":\"x\",\"key\":\"attackers\"}",
		"{\"key\":\"x\",\"KEY\":\"attackers\"}",
		"{\"KEY\":\"attackers\",\"key\":\"x\"}",
		"{\"KEY\":\"attackers\"}",
		"{\"k\\u0065y\":\"x\"}",
		"{\"key\":\"x\",\"\\u006bey\":\"attackers\"}",
		"{\"key\":\"x\",\"\xe2\x84\xaa\x65y\":\"attackers\"}",
		"{\"key\":\"x\",\"\\u212aey\":\"attackers\"}",
		"{\"key\":\"x\",\"key\\u0000\":\"attackers\"}",
		"{\"key\":\"x\",\"key\\u0000more\":1,\"k\\u0000ey\":\"attackers\"}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(twice) / sizeof(*twice); i++)
		assert_refused(at("/key"), twice[i], "twice");
	assert_refused(at("/a/key"), "{\"a\":{\"key\":\"x\"},\"a\":{\"key\":\"y\"}}", "twice");
	assert_refused(at("/a/key"), "{\"a\":{\"key\":\"x\"},\"A\":{\"key\":\"y\"}}", "twice");
	assert_refused(at("/is/key"), "{\"is\":{\"key\":\"x\"},\"\xc4\xb0\xc5\xbf\":1}", "twice");
}

static void a_place_that_is_not_there_or_no_text_is_refused(void **state)
{
	(void)state;
	static const char *const absent[] = { "{}",
					      "[]",
					      "1",
					      "\"key\"",
					      "{\"keys\":\"\"}",
					      "{\"a\":{\"key\":\"\"}}",
					      "[{\"key\":\"\"}]" };
	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
		assert_refused(at("/key"), absent[i], "not in it");
	static const char *const none[] = { "{\"key\":null}", "{\"key\":1}", "{\"key\":{}}",
					    "{\"key\":[\"x\"]}", "{\"key\":true}" };
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		assert_refused(at("/key"), none[i], "no text");
	assert_refused(at("/a/key"), "{\"a\":\"x\"}", "ends in a text");
	assert_refused(at("/a/01"), "{\"a\":[\"x\",\"y\"]}", "not in it");
	assert_refused(at("/a/-"), "{\"a\":[\"x\"]}", "not in it");
}

static void what_is_no_json_is_refused(void **state)
{
	static const char *const damaged[] = {
		"{",
		"{\"key\":\"x\"",
		"{\"key\":\"x\"}}",
		"{\"key\":\"x\",}",
		"{\"key\":\"x\"}{}",
		"{\"key\":\"x\"} x",
		"{key:\"x\"}",
		"{'key':'x'}",
		"{\"key\" \"x\"}",
		"{\"key\":\"x\\q\"}",
		"{\"key\":\"x\\u12g4\"}",
		"{\"key\":\"x\ny\"}",
		"{\"key\":\"x\",\"a\":01}",
		"{\"key\":\"x\",\"a\":1.}",
		"{\"key\":\"x\",\"a\":.5}",
		"{\"key\":\"x\",\"a\":+1}",
		"{\"key\":\"x\",\"a\":1e}",
		"{\"key\":\"x\",\"a\":-}",
		"{\"key\":\"x\",\"a\":NaN}",
		"{\"key\":\"x\",\"a\":tru}",
		"{\"key\":\"x\",\"a\":truee}",
		"{\"key\":\"x\"/**/}",
		"\xef\xbb\xbf{\"key\":\"x\"}",
		"{\"key\":\"\xc3\x28\"}",
		"{\"key\":\"\xc0\xaf\"}",
		"{\"key\":\"\xed\xa0\x80\"}",
		"{\"key\":\"\xf4\x90\x80\x80\"}",
		"{\"key\":\"\xff\"}",
		"{\"key\":\"x\",\"\\ud800\":1}",
		"[1,]",
		"[1 2]",
		"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(damaged) / sizeof(*damaged); i++)
		assert_refused(at("/key"), damaged[i], "not JSON");
	char *deep = malloc(3000);
	assert_non_null(deep);
	memset(deep, '[', 2999);
	deep[2999] = '\0';
	const char *why;
	struct kh_secret *s = secret("value-value");
	assert_null(filter(at("/key"), s, deep, 100, &why));
	assert_non_null(strstr(why, "deep"));
	kh_secret_unref(s);
	free(deep);
}

static void a_member_of_a_form_is_replaced_and_escaped(void **state)
{
	(void)state;
	assert_becomes(member("key"), "a b&c=d+%/~", "key=x", "key=a%20b%26c%3Dd%2B%25%2F~");
	assert_becomes(member("key"), "V", "key=", "key=V");
	assert_becomes(member("key"), "V", "a=1&key=x%20y+z&b", "a=1&key=V&b");
	assert_becomes(member("key"), "V", "keys=1&akey=2&key=&&c=key",
		       "keys=1&akey=2&key=V&&c=key");
	assert_becomes(member("key"), "V", "a=1;b=2&key=x", "a=1;b=2&key=V");
	assert_becomes(member("key"), "V", "%61=1&key=x&%6beys=2", "%61=1&key=V&%6beys=2");
}

static void a_member_that_two_readers_find_differently_is_refused(void **state)
{
	static const char *const twice[] = {
		"a_key=x&a_key=y",
		"a_key=x&A_KEY=y",
		"a_key=x&a.key=y",
		"a_key=x&a+key=y",
		"a_key=x&a%20key=y",
		"a_key=x&%61_key=y",
		"%61_key=x",
		"a_key=x&a_key[]=y",
		"a_key=x&+a_key=y",
		"a_key=x&a_key+=y",
		"a_key=x&a_key%00z=y",
		"a=1;a_key=x",
		"a_key=x&b;a_key=y",
		"A_key=x",
		"a_key=x&a-key=y",
		"a_key=x&a_key",
		"a_key=x&%20%20%20a_key%20%20=y",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(twice) / sizeof(*twice); i++)
		assert_refused(member("a_key"), twice[i], "twice");
	assert_refused(member("a_key"), "a_key=x;b=1", "';'");
	assert_refused(member("a_key"), "a_key&b=1", "no value");
	assert_refused(member("a_key"), "b=1&a%zkey=1", "escape");
	static const char *const absent[] = { "", "a=1", "&", "=a_key", "a_keys=x" };
	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
		assert_refused(member("a_key"), absent[i], "not in it");
}

static void values_that_fit_into_no_content(void **state)
{
	char *large = malloc(KH_LIMIT_BODY_VALUE_BYTES + 2);
	size_t bytes;

	(void)state;
	assert_non_null(large);
	memset(large, 'x', KH_LIMIT_BODY_VALUE_BYTES + 1);
	large[KH_LIMIT_BODY_VALUE_BYTES + 1] = '\0';
	struct kh_secret *s = secret(large);
	assert_false(kh_body_value_bytes(at("/key"), s, &bytes));
	kh_secret_unref(s);
	large[KH_LIMIT_BODY_VALUE_BYTES] = '\0';
	s = secret(large);
	assert_true(kh_body_value_bytes(at("/key"), s, &bytes));
	assert_int_equal(bytes, KH_LIMIT_BODY_VALUE_BYTES);
	kh_secret_unref(s);
	memset(large, '%', KH_LIMIT_BODY_VALUE_BYTES);
	s = secret(large);
	assert_true(kh_body_value_bytes(member("key"), s, &bytes));
	assert_int_equal(bytes, 3 * KH_LIMIT_BODY_VALUE_BYTES);
	kh_secret_unref(s);
	s = secret("not-\xc3(utf-8");
	assert_false(kh_body_value_bytes(at("/key"), s, &bytes));
	assert_true(kh_body_value_bytes(member("key"), s, &bytes));
	kh_secret_unref(s);
	free(large);
}

static const char *head(const struct kh_placement *place, const char *name, const char *value,
			const char *other, const char *other_value)
{
	static struct kh_message message;
	message = (struct kh_message){ .framing = KH_FRAMING_CHUNKED, .n_fields = other ? 2 : 1 };
	message.fields[0] = (struct kh_field){ kh_slice_str(name), kh_slice_str(value) };
	message.fields[1] = (struct kh_field){ kh_slice_str(other), kh_slice_str(other_value) };
	return kh_body_head_fault(place, &message);
}

static void the_head_says_whether_it_can_be_read(void **state)
{
	const char *type = "content-type", *form = "application/x-www-form-urlencoded";

	(void)state;
	assert_null(head(at("/k"), type, "application/json", NULL, NULL));
	assert_null(head(at("/k"), "Content-Type", "Application/JSON; charset=UTF-8", NULL, NULL));
	assert_null(
		head(at("/k"), type, "application/vnd.api+json", "content-encoding", "identity"));
	assert_null(head(member("k"), type, form, NULL, NULL));
	assert_non_null(head(member("k"), type, "application/json", NULL, NULL));
	assert_non_null(head(member("k"), type, "multipart/form-data; boundary=x", NULL, NULL));
	assert_non_null(head(at("/k"), type, form, NULL, NULL));
	assert_non_null(head(at("/k"), type, "application/json; charset=utf-16", NULL, NULL));
	assert_non_null(head(at("/k"), type, "text/plain", NULL, NULL));
	assert_non_null(head(at("/k"), "accept", "application/json", NULL, NULL));
	assert_non_null(head(at("/k"), type, "application/json", type, "application/json"));
	assert_non_null(head(at("/k"), type, "application/json", "content-encoding", "gzip"));
	assert_non_null(head(at("/k"), type, "application/json", "content-range", "bytes 0-1/2"));
	const struct kh_message none = { .framing = KH_FRAMING_NONE };
	assert_non_null(kh_body_head_fault(at("/k"), &none));
	assert_true(kh_body_is_digest_field(KH_SLICE("Content-MD5")));
	assert_false(kh_body_is_digest_field(KH_SLICE("Content-Type")));
}

int main(void)
{
	kh_secret_prepare();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_of_json_is_replaced_and_escaped),
		cmocka_unit_test(a_place_that_two_readers_find_differently_is_refused),
		cmocka_unit_test(a_place_that_is_not_there_or_no_text_is_refused),
		cmocka_unit_test(what_is_no_json_is_refused),
		cmocka_unit_test(a_member_of_a_form_is_replaced_and_escaped),
		cmocka_unit_test(a_member_that_two_readers_find_differently_is_refused),
		cmocka_unit_test(values_that_fit_into_no_content),
		cmocka_unit_test(the_head_says_whether_it_can_be_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
