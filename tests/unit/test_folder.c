/* test_folder.c - folders and sockets where others may make names: no link is followed, no mode led
 * elsewhere */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/net/listener.h>

static char folder[64], victim[80];
static bool attacks; /* somebody who may write to `folder` acts at once */

/* What stands there under this name, or one that begins so, is moved aside for a link to `victim`.
 */
static void swap(const char *prefix)
{
	DIR *dir = opendir(folder);
	assert_non_null(dir);
	for (const struct dirent *one; (one = readdir(dir));) {
		char aside[300];
		if (strncmp(one->d_name, prefix, strlen(prefix)) != 0)
			continue;
		(void)snprintf(aside, sizeof(aside), "aside%s", one->d_name);
		assert_int_equal(renameat(dirfd(dir), one->d_name, dirfd(dir), aside), 0);
		assert_int_equal(symlinkat(victim, dirfd(dir), one->d_name), 0);
		break;
	}
	(void)closedir(dir);
}

/* wrap: mkdir mkdirat bind syscall */
int __real_mkdir(const char *path, mode_t mode);
int __real_mkdirat(int at, const char *path, mode_t mode);
int __real_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdirat(int at, const char *path, mode_t mode);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);

int __wrap_mkdir(const char *path, mode_t mode)
{
	int rc = __real_mkdir(path, mode);
	if (attacks && rc == 0)
		swap("made");
	return rc;
}

int __wrap_mkdirat(int at, const char *path, mode_t mode)
{
	int rc = __real_mkdirat(at, path, mode);
	if (attacks && rc == 0)
		swap("made");
	return rc;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
	int rc = __real_bind(fd, address, len);
	if (attacks && rc == 0)
		swap(".keyhole-");
	return rc;
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static int begin(void **state)
{
	(void)state;
	memcpy(folder, "/tmp/kh-folder-XXXXXX", sizeof("/tmp/kh-folder-XXXXXX"));
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(victim, sizeof(victim), "%s/victim", folder);
	attacks = false;
	return __real_mkdir(victim, 0700);
}

static int finish(void **state)
{
	(void)state;
	attacks = false;
	pid_t pid = fork();
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static struct kh_listener_config config_at(char *path, mode_t mode)
{
	return (struct kh_listener_config){ .kind = KH_LISTEN_UNIX,
					    .name = path,
					    .unix_path = path,
					    .mode = mode,
					    .owner = (uid_t)-1,
					    .group = (gid_t)-1 };
}

static void a_folder_that_is_made_gives_no_mode_to_what_took_its_name(void **state)
{
	(void)state;
	kh_auto_free char *path = kh_strf("%s/made", folder);
	mode_t before = umask(077);
	attacks = true;
	assert_false(kh_file_mkdirs(path, 0755, NULL));
	attacks = false;
	(void)umask(before);
	assert_int_equal(mode_of(victim), 0700);
}

static void a_socket_that_is_made_gives_no_mode_to_what_took_its_name(void **state)
{
	(void)state;
	kh_auto_free char *path = kh_strf("%s/s", folder);
	const struct kh_listener_config config = config_at(path, 0666);
	struct stat made, st;
	attacks = true;
	int fd = kh_listener_open(&config, &made, NULL);
	attacks = false;
	assert_int_equal(mode_of(victim), 0700);
	/* It is listened on all the same: nobody else could reach what was made apart. */
	assert_true(fd >= 0 && lstat(path, &st) == 0 && st.st_ino == made.st_ino);
	assert_int_equal(st.st_mode & 07777, 0666);
	(void)close(fd);
}

static void a_socket_whose_name_was_taken_gives_its_mode_to_nothing(void **state)
{
	(void)state;
	kh_auto_free char *path = kh_strf("%s/s", folder);
	kh_auto_free char *moved = kh_strf("%s/moved", folder);
	struct kh_listener_config config = config_at(path, 0600);
	struct kh_err err = KH_ERR_INIT;
	struct stat made;
	int fd = kh_listener_open(&config, &made, NULL);
	assert_true(fd >= 0);
	config.mode = 0660;
	assert_true(kh_listener_dress(&config, &made, &err));
	assert_int_equal(mode_of(path), 0660);
	assert_true(rename(path, moved) == 0 && symlink(victim, path) == 0);
	config.mode = 0666;
	assert_false(kh_listener_dress(&config, &made, &err));
	assert_non_null(strstr(err.text, "somebody else took"));
	assert_int_equal(mode_of(victim), 0700);
	/* Nor is what is there taken away at its end. */
	assert_int_equal(kh_listener_remove(path, &made), -1);
	assert_int_equal(unlink(path), 0);
	/* A link to it is not its name either. */
	assert_int_equal(symlink(moved, path), 0);
	assert_false(kh_listener_dress(&config, &made, NULL));
	assert_int_equal(mode_of(moved), 0660);
	assert_true(unlink(path) == 0 && rename(moved, path) == 0);
	int at = kh_listener_remove(path, &made);
	assert_true(at >= 0 && access(path, F_OK) != 0);
	(void)close(at);
	(void)close(fd);
}

static void a_folder_that_others_may_write_to_is_known(void **state)
{
	static const struct {
		mode_t mode;
		bool others;
	} rows[] = { { 0700, false }, { 0755, false }, { 0757, true }, { 01777, false } };
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(chmod(victim, rows[i].mode), 0);
		assert_int_equal(kh_file_others_may_rename(victim, geteuid()), rows[i].others);
	}
	assert_int_equal(chmod(victim, 0755), 0);
	if (geteuid() != 0)
		return;
	assert_int_equal(chown(victim, 4711, 4711), 0);
	assert_true(kh_file_others_may_rename(victim, 0));
	assert_false(kh_file_others_may_rename(victim, 4711));
	assert_false(kh_file_others_may_rename(victim, (uid_t)-1));
	assert_int_equal(chmod(victim, 0775), 0);
	assert_true(kh_file_others_may_rename(victim, (uid_t)-1));
}

/* Whoever writes to the folder above can put another folder of ours in the place of a new one: with
 * what is in it, it would get another owner. */
static void only_a_folder_that_was_just_made_is_given_away(void **state)
{
	char path[sizeof(folder) + 16];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/made", folder);
	int fd = kh_file_mkdirat(AT_FDCWD, path, 0700);
	int held = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0 && held >= 0);
	assert_true(kh_file_is_fresh(fd) && kh_file_is_fresh(held));
	assert_int_equal(__real_mkdirat(fd, "x", 0700), 0);
	assert_false(kh_file_is_fresh(fd) || kh_file_is_fresh(held));
	assert_int_equal(unlinkat(fd, "x", AT_REMOVEDIR), 0);
	assert_int_equal(fchmod(fd, 0755), 0);
	assert_false(kh_file_is_fresh(fd));
	assert_int_equal(fchmod(fd, 0700), 0);
	assert_true(kh_file_is_fresh(fd));
	if (geteuid() == 0) {
		assert_int_equal(fchown(fd, 4711, 4711), 0);
		assert_false(kh_file_is_fresh(fd));
	}
	(void)close(fd);
	(void)close(held);
}

static int code_of(const char *path, const int *held, struct kh_err *err)
{
	int fd = kh_file_hold_again(path, held, err), why = errno;
	if (fd < 0)
		return why;
	(void)close(fd);
	return 0;
}

/* A folder `above` with one in it, and beside it another one that has the same. */
static void what_is_held_is_never_looked_for_through_a_link(void **state)
{
	char above[96], path[112], other[96], inner[112], aside[96];
	(void)state;
	(void)snprintf(above, sizeof(above), "%s/above", folder);
	(void)snprintf(path, sizeof(path), "%s/work", above);
	(void)snprintf(other, sizeof(other), "%s/other", folder);
	(void)snprintf(inner, sizeof(inner), "%s/work", other);
	(void)snprintf(aside, sizeof(aside), "%s/aside", folder);
	assert_true(kh_file_mkdirs(path, 0700, NULL) && kh_file_mkdirs(inner, 0700, NULL));
	struct kh_err err = KH_ERR_INIT;
	kh_auto_close int held = kh_file_hold(path);
	assert_true(held >= 0);
	assert_int_equal(code_of(path, &held, &err), 0);
	kh_auto_free char *is_at = kh_file_held_path(held);
	assert_string_equal(is_at, path);

	assert_int_equal(rename(above, aside), 0);
	assert_int_equal(code_of(path, &held, &err), ENOENT);
	assert_int_equal(symlink(other, above), 0);
	assert_int_equal(kh_file_hold(path), -1);
	assert_int_equal(errno, ELOOP);
	assert_int_equal(code_of(path, &held, &err), ELOOP);
	assert_non_null(strstr(err.text, "there is a symbolic link now"));
	assert_non_null(strstr(err.text, path));
	assert_int_equal(code_of(path, NULL, &err), ELOOP);
	kh_auto_free char *went = kh_file_held_path(held);
	assert_true(strncmp(went, aside, strlen(aside)) == 0);

	assert_int_equal(unlink(above), 0);
	assert_int_equal(rename(other, above), 0);
	assert_int_equal(code_of(path, &held, &err), ESTALE);
	assert_non_null(strstr(err.text, "another folder is there"));
	assert_int_equal(code_of(path, NULL, &err), 0);

	/* The end of the path is no exception. */
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("..", path), 0);
	assert_int_equal(code_of(path, &held, &err), ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(above, other), 0);
	assert_int_equal(rename(aside, above), 0);
	assert_int_equal(code_of(path, &held, &err), 0);
}

/* ---- a path that is walked while others rename ---- */

static unsigned again; /* how often the kernel says that it could not walk the path */
static unsigned long asked;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, const char *path, const void *how, size_t size);
long __wrap_syscall(long number, long a, const char *path, const void *how, size_t size)
{
	if (number != SYS_openat2)
		fail_msg("another call");
	asked++;
	if (again > 0) {
		again--;
		errno = EAGAIN;
		return -1;
	}
	return __real_syscall(number, a, path, how, size);
}

static void a_path_that_could_not_be_walked_is_tried_again(void **state)
{
	(void)state;
	char inner[80];
	(void)snprintf(inner, sizeof(inner), "%s/inner", folder);
	assert_int_equal(mkdir(inner, 0700), 0);
	kh_auto_close int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	again = 100, asked = 0;
	kh_auto_close int fd = kh_file_open_below(dir, "//inner/../inner", O_PATH | O_DIRECTORY);
	assert_true(fd >= 0);
	assert_int_equal(asked, 101);

	/* Not for ever, and another answer is taken as it is. */
	again = 1000 * 1000, asked = 0;
	assert_int_equal(kh_file_open_below(dir, "inner", O_PATH), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(asked, KH_LIMIT_RESOLVE_TRIES);
	again = 0, asked = 0;
	assert_int_equal(kh_file_open_below(dir, "inner/../../x", O_PATH), -1);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(asked, 1);
	kh_auto_close int self = kh_file_open_below(dir, "", O_PATH);
	assert_true(self >= 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_folder_that_is_made_gives_no_mode_to_what_took_its_name),
		T(a_socket_that_is_made_gives_no_mode_to_what_took_its_name),
		T(a_socket_whose_name_was_taken_gives_its_mode_to_nothing),
		T(a_folder_that_others_may_write_to_is_known),
		T(only_a_folder_that_was_just_made_is_given_away),
		T(a_path_that_could_not_be_walked_is_tried_again),
		T(what_is_held_is_never_looked_for_through_a_link),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
