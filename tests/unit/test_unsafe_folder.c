/* test_unsafe_folder.c - each folder on the way to a file counts, and each link on it */
#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/unsafe_folder.h>

static char top[] = "/tmp/keyhole-unsafe-XXXXXX";

static char *below(const char *name)
{
	return kh_strf("%s/%s", top, name);
}

static void make(const char *name, mode_t mode)
{
	kh_auto_free char *path = below(name);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void set_mode(const char *name, mode_t mode)
{
	kh_auto_free char *path = below(name);
	assert_int_equal(chmod(path, mode), 0);
}

/* `expected`: NULL: none. */
static void assert_unsafe(const char *name, const char *expected)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *path = below(name);
	enum kh_unsafe found = kh_unsafe_folder(path, geteuid(), &err);
	kh_auto_free char *folder = expected ? kh_strf("the folder %s/%s ", top, expected) : NULL;
	if (!expected && found != KH_UNSAFE_NOT)
		fail_msg("%s: %s", name, err.text);
	if (expected && !strstr(err.text, folder))
		fail_msg("%s: not of %s: %s", name, folder, err.text);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(top))
		return -1;
	make("a", 0700);
	make("a/b", 0755);
	make("a/b/c", 0755);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	return nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void a_folder_further_up_that_others_may_write_to_is_found(void **state)
{
	(void)state;
	assert_unsafe("a/b/c/file", NULL);
	set_mode("a/b", 0757);
	assert_unsafe("a/b/c/file", "a/b");
	assert_unsafe("a/b/not/there/file", "a/b");
	set_mode("a/b", 01777);
	assert_unsafe("a/b/c/file", NULL);
	set_mode("a/b", 0755);
}

static void a_link_counts_with_the_folder_that_it_is_in_and_where_it_leads(void **state)
{
	(void)state;
	kh_auto_free char *link = below("link");
	assert_int_equal(symlink("a/b", link), 0);
	assert_unsafe("link/c/file", NULL);
	set_mode("a", 0757);
	assert_unsafe("link/c/file", "a");
	set_mode("a", 0700);
	make("open", 0757);
	kh_auto_free char *other = below("open/link"), *target = below("a");
	assert_int_equal(symlink(target, other), 0);
	assert_unsafe("open/link/b/file", "open");
	kh_auto_free char *loop = below("loop");
	assert_int_equal(symlink("loop", loop), 0);
	assert_unsafe("loop/file", NULL);
}

static void another_users_folder_further_up_is_found(void **state)
{
	(void)state;
	if (geteuid() != 0)
		return;
	kh_auto_free char *path = below("a"), *file = below("a/b/c/file");
	assert_int_equal(chown(path, 4711, 4711), 0);
	assert_unsafe("a/b/c/file", "a");
	/* That is worse than a folder before it that others may only write to. */
	set_mode("", 0757);
	assert_unsafe("a/b/c/file", "a");
	set_mode("", 0700);
	struct kh_err err = KH_ERR_INIT;
	assert_int_equal(kh_unsafe_folder(file, 0, &err), KH_UNSAFE_OWNER);
	assert_non_null(strstr(err.text, "belongs to uid 4711"));
	assert_int_equal(kh_unsafe_folder(file, 4711, NULL), KH_UNSAFE_NOT);
	assert_int_equal(chown(path, 0, 0), 0);
	assert_int_equal(kh_unsafe_folder(file, 4711, NULL), KH_UNSAFE_NOT);
	assert_int_equal(kh_unsafe_folder(file, (uid_t)-1, NULL), KH_UNSAFE_NOT);
}

/* Who may exchange the home needs no more. But a link elsewhere that leads into it may be
 * exchanged. */
static void folders_above_the_users_home_do_not_count(void **state)
{
	(void)state;
	kh_auto_free char *home = below("a/b");
	assert_int_equal(setenv("HOME", home, 1), 0);
	set_mode("a", 0757);
	assert_unsafe("a/b/c/file", NULL);
	assert_unsafe("a/file", "a");
	set_mode("a/b", 0757);
	assert_unsafe("a/b/c/file", "a/b");
	set_mode("a/b", 0755);
	make("shared", 0757);
	kh_auto_free char *link = below("shared/link");
	assert_int_equal(symlink(home, link), 0);
	assert_unsafe("shared/link/c/file", "shared");
	/* Another user's home is nobody's here. */
	if (geteuid() == 0) {
		assert_int_equal(chown(home, 4711, 4711), 0);
		assert_unsafe("a/b/c/file", "a/b");
		assert_int_equal(chown(home, 0, 0), 0);
	}
	set_mode("a", 0700);
	assert_int_equal(unsetenv("HOME"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_further_up_that_others_may_write_to_is_found),
		cmocka_unit_test(a_link_counts_with_the_folder_that_it_is_in_and_where_it_leads),
		cmocka_unit_test(another_users_folder_further_up_is_found),
		cmocka_unit_test(folders_above_the_users_home_do_not_count),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
