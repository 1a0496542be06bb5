/* test_review_parse.c - what a review reads that others wrote, or that was torn: the head of a
 * bundle, and the notes of what a workspace held */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sandbox/review_git.h"

#define ONE "0123456789abcdef0123456789abcdef01234567"
#define ID "0123abcd"

static bool read_head(const char *text, struct kh_review_refs *refs, size_t *pack)
{
	*refs = (struct kh_review_refs){ 0 };
	return kh_review_bundle_head(kh_slice_str(text), ID, refs, pack);
}

static void test_refs_of_a_bundle_come_below_their_review(void **state)
{
	(void)state;
	static const char head[] = "# v3 git bundle\n@object-format=sha1\n-" ONE " first\n" ONE
				   " refs/heads/main\n" ONE " refs/tags/v1\n" ONE " HEAD\n\n";
	struct kh_review_refs refs;
	size_t pack = 0;
	assert_true(read_head(head, &refs, &pack));
	assert_int_equal(pack, strlen(head));
	assert_int_equal(refs.n, 3);
	assert_string_equal(refs.list[0].name, "refs/keyhole/" ID "/heads/main");
	assert_string_equal(refs.list[1].name, "refs/keyhole/" ID "/tags/v1");
	assert_string_equal(refs.list[2].name, "refs/keyhole/" ID "/HEAD");
	assert_string_equal(refs.list[0].object, ONE);
	kh_review_refs_fini(&refs);
}

static void test_a_bundle_of_anything_else_is_refused(void **state)
{
	(void)state;
	static const char *const heads[] = {
		"",
		"# v2 git bundle\n",
		"# v2 git bundle\n\n",
		"# v4 git bundle\n" ONE " HEAD\n\n",
		"# v2 git bundle\n" ONE " HEAD\n",
		"# v2 git bundle\n" ONE "\n\n",
		"# v2 git bundle\n" ONE " refs/keyhole/x\n\n",
		"# v2 git bundle\n" ONE " refs/heads/a b\n\n",
		"# v2 git bundle\n" ONE " refs/heads/a\"b\n\n",
		"# v2 git bundle\n" ONE " refs/heads/a\tb\n\n",
		"# v2 git bundle\n" ONE "0 HEAD\n\n",
		"# v2 git bundle\nx123456789abcdef0123456789abcdef01234567 HEAD\n\n",
		"# v2 git bundle\n" ONE " HEAD\n" ONE " refs/notes/x\n\n",
	};
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct kh_review_refs refs;
		size_t pack = 0;
		if (read_head(heads[i], &refs, &pack))
			fail_msg("taken: %s", heads[i]);
		kh_review_refs_fini(&refs);
	}
}

static void test_of_the_notes_the_last_one_counts_and_a_torn_one_is_left_out(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		uint32_t mode;
	} notes[] = {
		{ "b", 0100644 }, { "a", 0100600 }, { "b", 0100755 }, { "a", 0 }, { "c", 0100600 }
	};
	char bytes[1024];
	size_t len = 0;
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		struct kh_base_entry entry = { .mode = notes[i].mode };
		memcpy(bytes + len, &entry, sizeof(entry));
		memcpy(bytes + len + sizeof(entry), notes[i].path, 2);
		len += sizeof(entry) + 2;
	}
	/* However much is missing at the end, what comes before is read. */
	size_t last = len - sizeof(struct kh_base_entry) - 2;
	for (size_t end = last; end <= len; end++) {
		struct kh_base base = { .bytes = malloc(end), .len = end };
		assert_non_null(base.bytes);
		memcpy(base.bytes, bytes, end);
		assert_true(kh_base_read(&base));
		assert_null(kh_base_find(&base, "a"));
		assert_int_equal(kh_base_find(&base, "b")->mode, 0100755);
		assert_int_equal(kh_base_find(&base, "c") != NULL, end == len);
		kh_base_fini(&base);
	}
}

static void test_what_git_says_is_one_line_of_a_message(void **state)
{
	(void)state;
	assert_string_equal(kh_host_git_said(KH_SLICE("fatal: one\n\nhint: \x1btwo\r\n")),
			    "fatal: one; hint: \\x1btwo");
	assert_string_equal(kh_host_git_said(KH_SLICE("")), "");
	char many[4000];
	memset(many, 'x', sizeof(many));
	for (size_t i = 0; i < sizeof(many); i += 7)
		many[i] = '\n';
	const char *said = kh_host_git_said(kh_slice_of(many, sizeof(many)));
	assert_null(strstr(said, "\\x0a"));
	assert_string_equal(said + strlen(said) - 3, "...");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refs_of_a_bundle_come_below_their_review),
		cmocka_unit_test(test_a_bundle_of_anything_else_is_refused),
		cmocka_unit_test(test_what_git_says_is_one_line_of_a_message),
		cmocka_unit_test(test_of_the_notes_the_last_one_counts_and_a_torn_one_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
