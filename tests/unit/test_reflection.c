/* test_reflection.c - a value that a server brings back is found in each of its spellings */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <keyhole/credential/credential.h>

static const struct kh_slice value = KH_SLICE_INIT("Zk3+9xQ/7Lm2V&\"t==");

static bool hides(const char *text, char *out, size_t room)
{
	struct kh_buf buf;
	bool found = false;
	kh_buf_init(&buf, room - 1);
	assert_true(kh_reflection_hide_value(value, kh_slice_str(text), &buf, &found));
	struct kh_slice left = kh_buf_view(&buf);
	if (left.len > 0)
		memcpy(out, left.ptr, left.len);
	out[left.len] = '\0';
	kh_buf_fini(&buf);
	return found;
}

static void each_spelling_of_a_value_is_hidden(void **state)
{
	static const char *const spellings[] = {
		"Zk3+9xQ/7Lm2V&\"t==",
		"Zk3 9xQ/7Lm2V&\"t==",
		"Zk3%209xQ%2F7Lm2V%26%22t%3D%3D",
		"Zk3%2B9xQ/7Lm2V&\"t==",
		"Zk3%252B9xQ%252f7Lm2V&\"t==",
		"Zk3\\u002b9xQ\\/7Lm2V\\u0026\\\"t==",
		"Zk3\\x2B9xQ\\x2f7Lm2V&\\\"t\\u003D\\u003d",
		"Zk3&#43;9xQ&#x2F;7Lm2V&amp;&quot;t&#61;=",
		"Zk3&#x0002b;9xQ/7Lm2V&amp;&#34t==",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		char text[128], out[128];
		(void)snprintf(text, sizeof(text), "/a?b=%s&c", spellings[i]);
		if (!hides(text, out, sizeof(out)))
			fail_msg("%s", text);
		assert_string_equal(out, "/a?b=keyhole&c");
	}
}

static void what_is_another_text_stays(void **state)
{
	static const char *const others[] = {
		"",
		"\\",
		"&",
		"&#",
		"&#x",
		"\\u00",
		"\\x",
		"Zk3",
		"Zk3-9xQ/7Lm2V&\"t==",
		"Zk3\\u012b9xQ/7Lm2V&\"t==",
		"Zk3&#299;9xQ/7Lm2V&\"t==",
		"Zk3\\n9xQ/7Lm2V&\"t==",
		"Zk3&#43",
		"Zk3\\u002",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		char out[128];
		if (hides(others[i], out, sizeof(out)))
			fail_msg("%s", others[i]);
		assert_string_equal(out, others[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_spelling_of_a_value_is_hidden),
		cmocka_unit_test(what_is_another_text_stays),
	};
	return cmocka_run_group_tests_name("reflection", tests, NULL, NULL);
}
