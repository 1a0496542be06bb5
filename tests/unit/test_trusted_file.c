/* test_trusted_file.c - notes about configurations that the user trusts (trusted_file.h) */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/config/trusted_file.h>

static char place[] = "/tmp/kh-trusted.XXXXXX";

static int set_up(void **state)
{
	char path[64];
	(void)state;
	assert_non_null(mkdtemp(place));
	(void)snprintf(path, sizeof(path), "%s/state", place);
	return setenv("XDG_STATE_HOME", path, 1);
}

static void write_file(const char *name, const char *text)
{
	char path[128];
	struct kh_err err = KH_ERR_INIT;
	(void)snprintf(path, sizeof(path), "%s/%s", place, name);
	assert_true(kh_file_write(path, kh_slice_str(text), 0644, &err));
}

static void make_folder(const char *name)
{
	char path[128];
	(void)snprintf(path, sizeof(path), "%s/%s", place, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static bool find(const char *folder, char **path, char digest[KH_TRUSTED_HEX + 1])
{
	char whole[128];
	struct kh_err err = KH_ERR_INIT;
	(void)snprintf(whole, sizeof(whole), "%s/%s", place, folder);
	bool ok = kh_trusted_file_find(whole, path, digest, &err);
	assert_int_equal(ok, err.code == KH_ERR_NONE);
	return ok;
}

static void test_a_folders_own_file_comes_before_the_one_below(void **state)
{
	char digest[KH_TRUSTED_HEX + 1], other[KH_TRUSTED_HEX + 1];
	char *path;
	(void)state;
	make_folder("a");
	assert_true(find("a", &path, digest));
	assert_null(path);
	make_folder("a/.keyhole");
	write_file("a/.keyhole/keyhole.yaml", "one");
	assert_true(find("a", &path, digest));
	assert_string_equal(path + strlen(place), "/a/.keyhole/keyhole.yaml");
	free(path);
	assert_true(kh_trusted_file_digest(kh_slice_str("one"), other));
	assert_string_equal(digest, other);
	make_folder("a/keyhole.yaml"); /* as it lies in the place of an absent one */
	assert_true(find("a", &path, digest));
	assert_string_equal(path + strlen(place), "/a/.keyhole/keyhole.yaml");
	free(path);
	write_file("a/x", "two");
	char from[128], to[128];
	(void)snprintf(from, sizeof(from), "%s/a/keyhole.yaml", place);
	assert_int_equal(rmdir(from), 0);
	write_file("a/keyhole.yaml", "two");
	assert_true(find("a", &path, digest));
	assert_string_equal(path + strlen(place), "/a/keyhole.yaml");
	free(path);
	(void)snprintf(to, sizeof(to), "%s/a/z", place);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(symlink(to, from), 0);
	assert_false(find("a", &path, digest));
	assert_null(path);
	assert_int_equal(unlink(from), 0);
	assert_int_equal(mkfifo(from, 0600), 0); /* is not waited for */
	assert_false(find("a", &path, digest));
	assert_null(path);
}

static void test_a_file_is_read_up_to_its_bound(void **state)
{
	char digest[KH_TRUSTED_HEX + 1], name[128];
	char *path;
	(void)state;
	make_folder("large");
	write_file("large/keyhole.yaml", "");
	(void)snprintf(name, sizeof(name), "%s/large/keyhole.yaml", place);
	assert_int_equal(truncate(name, KH_LIMIT_TRUSTED_FILE_BYTES), 0);
	assert_true(find("large", &path, digest));
	free(path);
	assert_int_equal(truncate(name, KH_LIMIT_TRUSTED_FILE_BYTES + 1), 0);
	assert_false(find("large", &path, digest));
	assert_null(path);
}

static bool count(void *arg, const char *path, const char *digest)
{
	assert_string_equal(path, "/p/keyhole.yaml");
	assert_int_equal(strlen(digest), KH_TRUSTED_HEX);
	++*(int *)arg;
	return true;
}

static void test_what_was_trusted_is_a_path_with_its_content(void **state)
{
	char one[KH_TRUSTED_HEX + 1], two[KH_TRUSTED_HEX + 1];
	struct kh_err err = KH_ERR_INIT;
	bool was;
	int n = 0;
	(void)state;
	assert_true(kh_trusted_file_digest(kh_slice_str("1"), one));
	assert_true(kh_trusted_file_digest(kh_slice_str("2"), two));
	assert_true(kh_trusted_file_list(count, &n, &err) && n == 0);
	assert_int_equal(kh_trusted_file_is("/p/keyhole.yaml", one, &err), KH_TRUSTED_NOT);
	assert_int_equal(err.code, KH_ERR_NONE);
	assert_true(kh_trusted_file_add("/p/keyhole.yaml", one, &err));
	assert_int_equal(kh_trusted_file_is("/p/keyhole.yaml", one, &err), KH_TRUSTED_SAME);
	assert_int_equal(kh_trusted_file_is("/p/keyhole.yaml", two, &err), KH_TRUSTED_CHANGED);
	assert_int_equal(kh_trusted_file_is("/q/keyhole.yaml", one, &err), KH_TRUSTED_NOT);
	assert_true(kh_trusted_file_add("/p/keyhole.yaml", two, &err));
	assert_int_equal(kh_trusted_file_is("/p/keyhole.yaml", one, &err), KH_TRUSTED_CHANGED);
	assert_true(kh_trusted_file_list(count, &n, &err) && n == 1);
	assert_true(kh_trusted_file_remove("/p/keyhole.yaml", &was, &err) && was);
	assert_true(kh_trusted_file_remove("/p/keyhole.yaml", &was, &err) && !was);
	assert_int_equal(kh_trusted_file_is("/p/keyhole.yaml", two, &err), KH_TRUSTED_NOT);
	assert_false(kh_trusted_file_add("/p\n/keyhole.yaml", one, &err));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	return nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_folders_own_file_comes_before_the_one_below),
		cmocka_unit_test(test_a_file_is_read_up_to_its_bound),
		cmocka_unit_test(test_what_was_trusted_is_a_path_with_its_content),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
