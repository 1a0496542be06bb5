/* test_doubted.c - which protected names may be the agent's, as a run's record has it */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "sandbox/aside.h"
#include "sandbox/doubted.h"

/* Its NULs count. */
#define LIST(text) kh_slice_of(text, sizeof(text) - 1)

struct world {
	char top[64];
};

static const char *at(const struct world *w, const char *name)
{
	static char paths[4][256];
	static unsigned turn;
	char *path = paths[turn++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", w->top, name);
	return path;
}

static void put(const struct world *w, const char *name, const char *text)
{
	assert_true(kh_file_write(at(w, name), kh_slice_str(text), 0644, NULL));
}

static void set_up(struct world *w)
{
	snprintf(w->top, sizeof(w->top), "/tmp/keyhole-doubted-XXXXXX");
	assert_non_null(mkdtemp(w->top));
}

static void tear_down(struct world *w)
{
	static const char *const names[] = { "a", "b", "new", "guarded", "doubted" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)unlink(at(w, names[i]));
	assert_int_equal(rmdir(w->top), 0);
}

/* As an editor saves a file. */
static void replace(const struct world *w, const char *name, const char *text)
{
	put(w, "new", text);
	assert_int_equal(rename(at(w, "new"), at(w, name)), 0);
}

static void test_a_list_names_paths_and_what_is_below(void **state)
{
	(void)state;
	const struct kh_slice list = LIST("/w/.envrc\0/w/.git/\0/w/.git/hooks\0/cut");
	bool marks[3] = { false };
	assert_int_equal(kh_doubted_count(list), 3);
	assert_true(kh_doubted_has(list, "/w/.envrc"));
	assert_true(kh_doubted_has(list, "/w/.git"));
	assert_true(kh_doubted_has(list, "/w/.git/config"));
	assert_false(kh_doubted_has(list, "/w/.envrc2"));
	assert_false(kh_doubted_has(list, "/w"));
	assert_false(kh_doubted_has(list, "/cut"));
	assert_true(kh_doubted_mark(list, "/w/.git/hooks/pre-commit", marks));
	assert_true(!marks[0] && !marks[1] && !marks[2]);
	assert_true(kh_doubted_mark(list, "/w/.git/hooks", marks));
	assert_true(!marks[0] && !marks[1] && marks[2]);
}

static void test_a_list_without_entries_names_nothing(void **state)
{
	(void)state;
	bool mark = false;
	assert_int_equal(kh_doubted_count(kh_slice_of("", 0)), 0);
	assert_false(kh_doubted_has(kh_slice_of("", 0), "/w"));
	/* Neither an empty entry nor the root is a name. */
	assert_false(kh_doubted_mark(LIST("\0"), "/w", &mark));
	assert_false(kh_doubted_mark(LIST("/\0"), "/w", &mark));
	assert_false(mark);
}

static void expect(struct kh_slice note, const char *path, struct kh_doubted_id wanted)
{
	size_t n;
	kh_auto_free struct kh_doubted_entry *found = kh_doubted_read(note, &n);
	assert_non_null(found);
	assert_int_equal(n, path ? 1 : 0);
	if (!path)
		return;
	assert_string_equal(found[0].path, path);
	assert_true(kh_doubted_is_same(&found[0].id, &wanted));
}

static void test_of_several_entries_the_last_whole_one_counts(void **state)
{
	(void)state;
	const struct kh_doubted_id one = { 1, 2, 3, 4 }, none = { 0 };
	expect(LIST("1 2 3 4 - /a\0"), "/a", one);
	expect(LIST("9 9 9 9 - /a\0"
		    "1 2 3 4 - /a\0"),
	       "/a", one);
	/* The launcher came to its end while it wrote. */
	expect(LIST("1 2 3 4 - /a\0"
		    "9 9 9 9 - /a"),
	       "/a", one);
	expect(LIST("1 2 3 4 - /a\0"
		    "9 9 9 /a\0"
		    "9 9 9 9 - a\0"
		    "9 9 9 9 abc /a\0"
		    "9 9 9 9 /a\0"
		    "/a\0\0"),
	       "/a", one);
	expect(LIST("1 2 -3 4 - /a b\n\0"), "/a b\n", (struct kh_doubted_id){ 1, 2, -3, 4 });
	expect(LIST("1 2 3 4 - "), NULL, none);
	expect(LIST("\0\0"), NULL, none);
}

static void test_what_is_not_the_file_that_was_guarded_last_is_doubted(void **state)
{
	struct world w;
	struct kh_doubted_id id;
	struct kh_buf note kh_cleanup(kh_buf_fini), list kh_cleanup(kh_buf_fini);
	(void)state;
	set_up(&w);
	kh_buf_init(&note, 4096);
	kh_buf_init(&list, 4096);
	put(&w, "a", "one");
	put(&w, "b", "one");
	assert_true(kh_doubted_identify(at(&w, "a"), &id));
	assert_true(kh_doubted_guarded(&note, at(&w, "a"), &id, ""));
	assert_true(kh_doubted_identify(at(&w, "b"), &id));
	assert_true(kh_doubted_guarded(&note, at(&w, "b"), &id, ""));
	assert_true(kh_doubted_list(kh_buf_view(&note), kh_slice_of("", 0), &list));
	assert_int_equal(kh_buf_len(&list), 0);

	replace(&w, "a", "two");
	assert_int_equal(unlink(at(&w, "b")), 0);
	assert_true(kh_doubted_list(kh_buf_view(&note), kh_slice_of("", 0), &list));
	assert_int_equal(kh_doubted_count(kh_buf_view(&list)), 2);
	assert_true(kh_doubted_has(kh_buf_view(&list), at(&w, "a")));
	assert_true(kh_doubted_has(kh_buf_view(&list), at(&w, "b")));

	/* It was protected again. */
	kh_buf_clear(&list);
	assert_true(kh_doubted_identify(at(&w, "a"), &id));
	assert_true(kh_doubted_guarded(&note, at(&w, "a"), &id, ""));
	assert_true(kh_doubted_list(kh_buf_view(&note), kh_slice_of("", 0), &list));
	assert_int_equal(kh_doubted_count(kh_buf_view(&list)), 1);
	assert_true(kh_doubted_has(kh_buf_view(&list), at(&w, "b")));
	tear_down(&w);
}

static void test_no_earlier_file_is_taken_for_the_one_that_was_guarded_last(void **state)
{
	struct world w;
	struct kh_doubted_id first, second;
	struct kh_buf note kh_cleanup(kh_buf_fini), list kh_cleanup(kh_buf_fini);
	(void)state;
	set_up(&w);
	kh_buf_init(&note, 4096);
	kh_buf_init(&list, 4096);
	put(&w, "a", "one");
	put(&w, "b", "two");
	assert_true(kh_doubted_identify(at(&w, "a"), &first));
	assert_true(kh_doubted_identify(at(&w, "b"), &second));
	assert_true(kh_doubted_guarded(&note, at(&w, "a"), &first, ""));
	assert_true(kh_doubted_guarded(&note, at(&w, "a"), &second, ""));
	assert_true(kh_doubted_list(kh_buf_view(&note), kh_slice_of("", 0), &list));
	assert_true(kh_doubted_has(kh_buf_view(&list), at(&w, "a")));
	tear_down(&w);
}

/* `git checkout` and back, also if the launcher was killed before it could see that. */
static void test_what_has_the_content_of_before_is_not_doubted(void **state)
{
	struct world w;
	struct kh_doubted_id id;
	char digest[KH_DOUBTED_DIGEST_ROOM];
	struct kh_buf note kh_cleanup(kh_buf_fini), list kh_cleanup(kh_buf_fini),
		doubted kh_cleanup(kh_buf_fini);
	(void)state;
	set_up(&w);
	kh_buf_init(&note, 4096);
	kh_buf_init(&list, 4096);
	kh_buf_init(&doubted, 4096);
	static const char *const names[] = { "a", "b" };
	for (size_t i = 0; i < 2; i++) {
		const char *path = at(&w, names[i]);
		put(&w, names[i], "one");
		assert_true(kh_doubted_identify(path, &id) && kh_doubted_digest(path, digest));
		assert_true(kh_doubted_guarded(&note, path, &id, digest));
		assert_true(kh_buf_append(&doubted, path, strlen(path) + 1));
	}
	/* With a slash: what is protected in the folder. */
	assert_true(kh_buf_append(&doubted, "/w/.git/", 9));
	replace(&w, "a", "one");
	replace(&w, "b", "two");
	assert_true(kh_doubted_list(kh_buf_view(&note), kh_buf_view(&doubted), &list));
	assert_false(kh_doubted_has(kh_buf_view(&list), at(&w, "a")));
	assert_true(kh_doubted_has(kh_buf_view(&list), at(&w, "b")));
	assert_true(kh_doubted_has(kh_buf_view(&list), "/w/.git/config"));

	/* Once the launcher guards no more, it has looked itself. */
	kh_buf_clear(&list);
	assert_true(kh_doubted_list(kh_slice_of("", 0), kh_buf_view(&doubted), &list));
	assert_true(kh_slice_eq(kh_buf_view(&list), kh_buf_view(&doubted)));
	tear_down(&w);
}

static void test_only_a_small_file_has_a_digest(void **state)
{
	struct world w;
	char digest[KH_DOUBTED_DIGEST_ROOM];
	static char large[16 * 1024 + 2];
	(void)state;
	set_up(&w);
	put(&w, "a", "test");
	assert_true(kh_doubted_digest(at(&w, "a"), digest));
	assert_int_equal(strlen(digest), 64);
	assert_int_equal(chmod(at(&w, "a"), 0777), 0);
	char other[KH_DOUBTED_DIGEST_ROOM];
	assert_true(kh_doubted_digest(at(&w, "a"), other));
	assert_string_not_equal(digest, other);
	memset(large, 'x', sizeof(large) - 1);
	put(&w, "b", large);
	assert_false(kh_doubted_digest(at(&w, "b"), digest));
	assert_string_equal(digest, "");
	assert_int_equal(symlink("a", at(&w, "new")), 0);
	assert_false(kh_doubted_digest(at(&w, "new"), digest));
	assert_false(kh_doubted_digest(w.top, digest));
	assert_false(kh_doubted_digest(at(&w, "absent"), digest));
	tear_down(&w);
}

static void test_a_record_has_what_was_noted(void **state)
{
	struct world w;
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	(void)state;
	set_up(&w);
	kh_buf_init(&text, 4096);
	assert_true(kh_doubted_note(w.top, "/w/.envrc", false, &err));
	assert_true(kh_doubted_note(w.top, "/w/.git", true, &err));
	assert_true(kh_file_read_private(at(&w, "doubted"), &text, &err));
	assert_true(kh_slice_eq(kh_buf_view(&text), LIST("/w/.envrc\0/w/.git/\0")));
	kh_buf_clear(&text);
	assert_true(kh_doubted_guard(w.top, LIST("one\0"), false, &err));
	assert_true(kh_doubted_guard(w.top, LIST("two\0"), true, &err));
	assert_true(kh_file_read_private(at(&w, "guarded"), &text, &err));
	assert_true(kh_slice_eq(kh_buf_view(&text), LIST("one\0two\0")));
	kh_buf_clear(&text);
	assert_true(kh_doubted_guard(w.top, LIST("three\0"), false, &err));
	assert_true(kh_file_read_private(at(&w, "guarded"), &text, &err));
	assert_true(kh_slice_eq(kh_buf_view(&text), LIST("three\0")));
	assert_true(kh_doubted_guard(w.top, kh_slice_of("", 0), false, &err));
	assert_int_equal(access(at(&w, "guarded"), F_OK), -1);
	/* A run that may not write to its workspace has none. */
	assert_true(kh_doubted_note(NULL, "/w/.envrc", false, &err));
	assert_true(kh_doubted_guard(NULL, LIST("one\0"), false, &err));
	tear_down(&w);
}

static void test_an_empty_file_or_folder_says_nothing(void **state)
{
	struct world w;
	(void)state;
	set_up(&w);
	put(&w, "a", "");
	put(&w, "b", "x");
	assert_int_equal(symlink("a", at(&w, "new")), 0);
	kh_auto_close int dir = open(w.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(kh_doubted_is_empty(dir, "a"));
	assert_false(kh_doubted_is_empty(dir, "b"));
	assert_false(kh_doubted_is_empty(dir, "new"));
	assert_false(kh_doubted_is_empty(dir, "absent"));
	assert_int_equal(unlink(at(&w, "a")), 0);
	assert_int_equal(mkdir(at(&w, "a"), 0755), 0);
	assert_true(kh_doubted_is_empty(dir, "a"));
	assert_int_equal(rmdir(at(&w, "a")), 0);
	tear_down(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_list_names_paths_and_what_is_below),
		cmocka_unit_test(test_a_list_without_entries_names_nothing),
		cmocka_unit_test(test_of_several_entries_the_last_whole_one_counts),
		cmocka_unit_test(test_what_is_not_the_file_that_was_guarded_last_is_doubted),
		cmocka_unit_test(test_no_earlier_file_is_taken_for_the_one_that_was_guarded_last),
		cmocka_unit_test(test_what_has_the_content_of_before_is_not_doubted),
		cmocka_unit_test(test_only_a_small_file_has_a_digest),
		cmocka_unit_test(test_a_record_has_what_was_noted),
		cmocka_unit_test(test_an_empty_file_or_folder_says_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
