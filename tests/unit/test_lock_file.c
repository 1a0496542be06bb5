/* test_lock_file.c - a lock that somebody else could hold is none */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/lock_file.h>
#include <keyhole/base/secret.h>

#include "keeper/job_internal.h"
#include "keeper/mint_internal.h"
#include "sandbox/image_internal.h"
#include "sandbox/runs.h"

static bool takes(const char *path)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_close int fd = kh_lock_file_open(path, &err);

	if (fd >= 0)
		return true;
	assert_int_equal(err.code, KH_ERR_CONFIG);
	assert_non_null(strstr(err.text, "is not a private file of this user"));
	return false;
}

static void a_lock_that_another_could_hold_is_not_taken(void **state)
{
	struct stat st;

	(void)state;
	assert_true(takes("a"));
	assert_int_equal(stat("a", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(takes("a"));
	for (mode_t bit = 1; bit <= 040; bit <<= 1) {
		assert_int_equal(chmod("a", 0600 | bit), 0);
		assert_false(takes("a"));
	}
	assert_int_equal(chmod("a", 0600), 0);
	assert_int_equal(symlink("a", "link"), 0);
	assert_false(takes("link"));
	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_false(takes("pipe"));
	if (geteuid() == 0) {
		assert_int_equal(chown("a", 4711, (gid_t)-1), 0);
		assert_false(takes("a"));
	}
	assert_int_equal(unlink("a") | unlink("link") | unlink("pipe"), 0);
}

static void what_can_not_be_opened_is_told_from_what_is_not_trusted(void **state)
{
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	assert_int_equal(kh_lock_file_open("nowhere/a", &err), -1);
	assert_int_equal(err.code, KH_ERR_SYSTEM);
	assert_int_equal(err.sys, ENOENT);
}

/* As somebody else left it, who holds its lock. Return: the descriptor. */
static int planted(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0 && fchmod(fd, 0644) == 0 && flock(fd, LOCK_EX) == 0);
	return fd;
}

static void images_are_not_made_by_anothers_lock(void **state)
{
	const struct kh_image_options options = { 0 };
	struct kh_err err = KH_ERR_INIT;
	kh_auto_close int held = planted("making");

	(void)state;
	assert_int_equal(kh_image_cache_lock(".", &options, &err), -1);
	assert_non_null(strstr(err.text, "is not a private file of this user"));
}

static void workspaces_are_not_noted_by_anothers_lock(void **state)
{
	struct kh_run_record record;
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	assert_true(kh_file_mkdirs("workspaces", 0700, NULL));
	kh_auto_close int held = planted("workspaces/lock");
	kh_run_record_init(&record);
	assert_false(kh_run_record_begin(&record, ".", ".", NULL, KH_SLICE(""), &err));
	assert_non_null(strstr(err.text, "is not a private file of this user"));
	kh_run_record_end(&record, true);
}

static void a_refresh_token_is_not_guarded_by_anothers_lock(void **state)
{
	char value[] = "a-refresh-token-of-the-tests";
	struct kh_err err = KH_ERR_INIT;
	struct kh_secret *raw = kh_secret_new(value, strlen(value), &err);
	struct kh_rotation *rotation = kh_rotation_new("token", raw);
	kh_auto_close int held = planted("token.lock");

	(void)state;
	assert_non_null(rotation);
	assert_false(kh_rotation_may_begin(rotation, &err));
	assert_int_equal(err.code, KH_ERR_CONFIG);
	assert_non_null(strstr(err.text, "token.lock is not a private file of this user"));
	kh_rotation_free(rotation);
	kh_secret_unref(raw);
}

static int enter(void **state)
{
	static char folder[] = "/tmp/keyhole-lock-XXXXXX";

	*state = folder;
	(void)alarm(60); /* a lock that is waited for is a failure */
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state)
{
	const char *const files[] = { "making", "workspaces/lock", "token.lock" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		(void)unlink(files[i]);
	return rmdir("workspaces") == 0 && rmdir(*state) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_that_another_could_hold_is_not_taken),
		cmocka_unit_test(what_can_not_be_opened_is_told_from_what_is_not_trusted),
		cmocka_unit_test(images_are_not_made_by_anothers_lock),
		cmocka_unit_test(workspaces_are_not_noted_by_anothers_lock),
		cmocka_unit_test(a_refresh_token_is_not_guarded_by_anothers_lock),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
