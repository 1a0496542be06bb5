/* wrap: open openat stat fstatat */
/* test_tree_reads.c - what git reads in a work tree, while somebody changes it */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>

#include "sandbox/tree_reads.h"

/* The name that is swapped as soon as it was looked at or opened so often. */
static const char *swapped;
static unsigned looks;
static bool is_pipe_there;

static void swap(const char *name)
{
	size_t len = strlen(name), own = swapped ? strlen(swapped) : 0;

	if (!swapped || len < own || strcmp(name + len - own, swapped) != 0 || --looks > 0)
		return;
	swapped = NULL;
	assert_int_equal(rename("pipe", strrchr(name, '/') ? name : "tree/hooks/pre-push"), 0);
	is_pipe_there = true;
}

/* Nothing but a file or a folder is opened. */
static int judge(int fd, int flags, const char *name)
{
	struct stat st;

	if (fd >= 0 && !(flags & O_PATH) && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		fail_msg("%s was opened, and is a pipe", name);
	if (fd >= 0)
		swap(name);
	return fd;
}

int __real_open(const char *name, int flags, mode_t mode);
int __wrap_open(const char *name, int flags, mode_t mode);
int __wrap_open(const char *name, int flags, mode_t mode)
{
	return judge(__real_open(name, flags, mode), flags, name);
}

int __real_openat(int dir, const char *name, int flags, mode_t mode);
int __wrap_openat(int dir, const char *name, int flags, mode_t mode);
int __wrap_openat(int dir, const char *name, int flags, mode_t mode)
{
	return judge(__real_openat(dir, name, flags, mode), flags, name);
}

int __real_stat(const char *name, struct stat *st);
int __wrap_stat(const char *name, struct stat *st);
int __wrap_stat(const char *name, struct stat *st)
{
	int rc = __real_stat(name, st);

	swap(name);
	return rc;
}

int __real_fstatat(int dir, const char *name, struct stat *st, int flags);
int __wrap_fstatat(int dir, const char *name, struct stat *st, int flags);
int __wrap_fstatat(int dir, const char *name, struct stat *st, int flags)
{
	int rc = __real_fstatat(dir, name, st, flags);

	swap(name);
	return rc;
}

static void put(const char *name, const char *text)
{
	kh_auto_close int fd = __real_open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void digest(unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	kh_auto_free char *here = realpath("tree", NULL);
	kh_auto_free char *at = realpath("tree/hooks", NULL);
	const struct kh_tree_read read = { "", "hooks", KH_TREE_HOOKS };

	assert_true(here && at && kh_tree_read_digest(here, at, &read, out));
}

static void a_hook_that_becomes_a_pipe_is_read_as_what_it_was(void **state)
{
	unsigned char before[KH_CONCERN_DIGEST_BYTES], meanwhile[KH_CONCERN_DIGEST_BYTES];

	(void)state;
	put("tree/hooks/pre-push", "exit 0\n");
	digest(before);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	swapped = "pre-push";
	looks = 1;
	is_pipe_there = false;
	digest(meanwhile);
	assert_true(is_pipe_there);
	assert_memory_equal(before, meanwhile, sizeof(before));
	assert_int_equal(unlink("tree/hooks/pre-push"), 0);
}

static void a_git_file_that_becomes_a_pipe_is_read_as_what_it_was(void **state)
{
	(void)state;
	put("tree/.git", "gitdir: ../git\n");
	assert_int_equal(mkdir("git", 0700), 0);
	kh_auto_free char *git = realpath("git", NULL);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	is_pipe_there = false;
	kh_auto_free char *before = kh_tree_git_dir("tree");
	swapped = "/.git";
	looks = 2; /* the first one asks whether it is a folder */
	kh_auto_free char *meanwhile = kh_tree_git_dir("tree");
	assert_true(is_pipe_there && git);
	assert_string_equal(before, git);
	assert_string_equal(meanwhile, git);
	assert_int_equal(unlink("tree/.git") | rmdir("git"), 0);
}

static int enter(void **state)
{
	static char folder[] = "/tmp/keyhole-tree-XXXXXX";

	*state = folder;
	(void)alarm(60);
	return mkdtemp(folder) && chdir(folder) == 0 && mkdir("tree", 0700) == 0 &&
			       mkdir("tree/hooks", 0700) == 0
		       ? 0
		       : -1;
}

static int leave(void **state)
{
	return rmdir("tree/hooks") == 0 && rmdir("tree") == 0 && rmdir(*state) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hook_that_becomes_a_pipe_is_read_as_what_it_was),
		cmocka_unit_test(a_git_file_that_becomes_a_pipe_is_read_as_what_it_was),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
