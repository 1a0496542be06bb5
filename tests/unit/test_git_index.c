/* test_git_index.c - an index of git's is harmless if git finds each of its entries in the work
 * tree
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <keyhole/base/buf.h>
#include "sandbox/git_index.h"

enum { IDS = KH_GIT_INDEX_SHA1 };

static void put(struct kh_buf *out, const void *bytes, size_t n)
{
	assert_true(kh_buf_append(out, bytes, n));
}

static void put_u32(struct kh_buf *out, uint32_t value)
{
	unsigned char b[4] = { (unsigned char)(value >> 24), (unsigned char)(value >> 16),
			       (unsigned char)(value >> 8), (unsigned char)value };
	put(out, b, sizeof(b));
}

static void zeros(struct kh_buf *out, size_t n)
{
	static const char none[64];
	put(out, none, n);
}

static void header(struct kh_buf *out, uint32_t version, uint32_t n)
{
	kh_buf_init(out, 1024 * 1024);
	put(out, "DIRC", 4);
	put_u32(out, version);
	put_u32(out, n);
}

/* Of version 2 or 3; `said`: the length that its flags give. */
static void entry(struct kh_buf *out, uint32_t mode, const char *name, size_t said)
{
	size_t from = kh_buf_len(out), len = strlen(name);
	zeros(out, 24);
	put_u32(out, mode);
	zeros(out, 12 + IDS);
	unsigned char flags[2] = { (unsigned char)(said >> 8 & 0xf), (unsigned char)said };
	put(out, flags, 2);
	put(out, name, len);
	zeros(out, 8 - (kh_buf_len(out) - from) % 8);
}

/* Of version 4: `strip` bytes less of the name before, then `name`. */
static void entry4(struct kh_buf *out, unsigned char strip, const char *name, size_t whole)
{
	zeros(out, 24);
	put_u32(out, 0100644);
	zeros(out, 12 + IDS);
	unsigned char flags[3] = { 0, (unsigned char)whole, strip };
	put(out, flags, 3);
	put(out, name, strlen(name) + 1);
}

static bool ends(struct kh_buf *out)
{
	zeros(out, IDS);
	bool harmless = kh_git_index_is_harmless(kh_buf_view(out), IDS);
	kh_buf_fini(out);
	return harmless;
}

static bool one(uint32_t version, uint32_t mode, const char *name)
{
	struct kh_buf out;
	header(&out, version, 1);
	entry(&out, mode, name, strlen(name));
	return ends(&out);
}

static void a_name_outside_of_the_work_tree_or_in_its_git_folder_is_harmful(void **state)
{
	(void)state;
	static const char *const good[] = { "a",       "a/b.c",	   ".gitignore", ".github/x",
					    "a..b/c",  "...",	   ".gitx/y",	 "git~2",
					    "a/.git2", "\xc3\xa4", "a b/c d",	 "-x",
					    ".git.txt" };
	static const char *const bad[] = { "../x",
					   "/etc/x",
					   "a/../../x",
					   "a/./b",
					   "a//b",
					   ".",
					   "..",
					   "a/..",
					   "a/",
					   ".git",
					   ".git/x",
					   "a/.git/hooks/post-checkout",
					   ".GIT/x",
					   "git~1/x",
					   ".git./x",
					   ".git ",
					   ".git::$INDEX_ALLOCATION/x" };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!one(2, 0100644, good[i]) || !one(3, 0100644, good[i]))
			fail_msg("%s is harmless", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (one(2, 0100644, bad[i]) || one(3, 0100644, bad[i]))
			fail_msg("%s is harmful", bad[i]);
	assert_true(one(3, 0040000, "folder/"));
	assert_false(one(3, 0040000, "folder//"));
	assert_true(one(2, 0100644, "")); /* of a split index */
}

static void a_part_that_is_too_long_to_be_looked_at_is_harmful(void **state)
{
	(void)state;
	char blanks[4 + 300], plain[4 + 300], before[2 + sizeof(blanks)];
	memset(blanks, ' ', sizeof(blanks) - 1);
	memset(plain, 'x', sizeof(plain) - 1);
	memcpy(blanks, ".git", 4);
	blanks[sizeof(blanks) - 1] = plain[sizeof(plain) - 1] = '\0';
	snprintf(before, sizeof(before), "a/%s", blanks);
	assert_false(one(2, 0100644, blanks));
	assert_false(one(2, 0100644, before));
	assert_false(one(2, 0100644, plain));
	blanks[255] = plain[255] = '\0';
	assert_false(one(2, 0100644, blanks));
	assert_true(one(2, 0100644, plain));
}

static void a_name_that_is_said_longer_or_shorter_is_harmful(void **state)
{
	(void)state;
	static const size_t said[] = { 0, 3, 5, 0xfff };
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		struct kh_buf out;
		header(&out, 2, 1);
		entry(&out, 0100644, "name", said[i]);
		assert_false(ends(&out));
	}
}

static void prefixes_of_version_4_are_put_together(void **state)
{
	(void)state;
	struct kh_buf out;
	header(&out, 4, 3);
	entry4(&out, 0, "a/b/c", 5);
	entry4(&out, 1, "d", 5);
	entry4(&out, 3, "e", 3);
	assert_true(ends(&out));
	header(&out, 4, 2);
	entry4(&out, 0, "..", 2);
	entry4(&out, 0, "/x", 4);
	assert_false(ends(&out));
	header(&out, 4, 2);
	entry4(&out, 0, "a/.gi", 5);
	entry4(&out, 0, "t/hooks/x", 14);
	assert_false(ends(&out));
	header(&out, 4, 2);
	entry4(&out, 0, "a", 1);
	entry4(&out, 2, "b", 1);
	assert_false(ends(&out));
}

static void blocks(struct kh_buf *out, const uint32_t *list, size_t n)
{
	put(out, "IEOT", 4);
	put_u32(out, (uint32_t)(4 + 4 * n));
	put_u32(out, 1);
	for (size_t i = 0; i < n; i++)
		put_u32(out, list[i]);
}

static void threads_read_the_entries_that_were_checked(void **state)
{
	(void)state;
	static const struct {
		uint32_t list[4];
		size_t n;
		bool good;
	} cases[] = {
		{ { 12, 1, 76, 1 }, 4, true },	{ { 12, 2 }, 2, true },
		{ { 12, 1, 12, 1 }, 4, false }, { { 12, 1, 75, 1 }, 4, false },
		{ { 12, 1 }, 2, false },	{ { 12, 3 }, 2, false },
		{ { 12, 1, 76, 2 }, 4, false }, { { 12, 0, 12, 2 }, 4, false },
		{ { 76, 2 }, 2, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_buf out;
		header(&out, 2, 2);
		entry(&out, 0100644, "a", 1);
		entry(&out, 0100644, "b", 1);
		blocks(&out, cases[i].list, cases[i].n);
		if (ends(&out) != cases[i].good)
			fail_msg("case %zu", i);
	}
}

static void the_end_that_git_is_told_of_is_the_one_that_was_read(void **state)
{
	(void)state;
	for (int off = 0; off < 2; off++) {
		struct kh_buf out;
		header(&out, 2, 1);
		entry(&out, 0100644, "a", 1);
		uint32_t end = (uint32_t)kh_buf_len(&out);
		put(&out, "TREE", 4);
		put_u32(&out, 0);
		put(&out, "EOIE", 4);
		put_u32(&out, 4 + IDS);
		put_u32(&out, end + 8 * (uint32_t)off);
		zeros(&out, IDS);
		assert_true(ends(&out) == (off == 0));
	}
}

static void what_is_cut_or_no_index_is_harmful(void **state)
{
	(void)state;
	struct kh_buf out;
	header(&out, 2, 1);
	entry(&out, 0100644, "a", 1);
	zeros(&out, IDS);
	struct kh_slice all = kh_buf_view(&out);
	for (size_t n = 0; n < all.len; n++)
		assert_false(kh_git_index_is_harmless(kh_slice_sub(all, 0, n), IDS));
	assert_true(kh_git_index_is_harmless(all, IDS));
	kh_buf_fini(&out);
	for (uint32_t version = 0; version < 7; version++) {
		header(&out, version, 0);
		assert_true(ends(&out) == (version >= 2 && version <= 4));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_outside_of_the_work_tree_or_in_its_git_folder_is_harmful),
		cmocka_unit_test(a_part_that_is_too_long_to_be_looked_at_is_harmful),
		cmocka_unit_test(a_name_that_is_said_longer_or_shorter_is_harmful),
		cmocka_unit_test(prefixes_of_version_4_are_put_together),
		cmocka_unit_test(threads_read_the_entries_that_were_checked),
		cmocka_unit_test(the_end_that_git_is_told_of_is_the_one_that_was_read),
		cmocka_unit_test(what_is_cut_or_no_index_is_harmful),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
