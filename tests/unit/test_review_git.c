/* test_review_git.c - the host's git gets no more than a bound for what an agent made, and says so
 */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "sandbox/review_git.h"

static char program[] = "/tmp/keyhole-git-XXXXXX";

/* A git that does what the script says. Return: kh_host_git's. */
static bool run(const char *script, struct kh_buf *said, struct kh_err *err)
{
	static const char *const args[] = { "index-pack", NULL };
	struct kh_host_git git = { .program = program, .uid = geteuid(), .gid = getegid() };
	kh_auto_free char *text = kh_strf("#!/bin/sh\n%s\n", script);

	assert_non_null(text);
	assert_true(kh_file_write(program, kh_slice_str(text), 0700, NULL));
	return kh_host_git(&git, args, -1, said, err);
}

static void it_gets_bounded_memory_and_time(void **state)
{
	struct kh_buf said kh_cleanup(kh_buf_fini);
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *want = kh_strf("%d %d\n", KH_LIMIT_REVIEW_GIT_MEMORY_BYTES / 1024,
					  KH_LIMIT_REVIEW_GIT_CPU_SECONDS);

	(void)state;
	kh_buf_init(&said, 4096);
	assert_true(run("echo $(ulimit -H -d) $(ulimit -H -t)", &said, &err));
	assert_string_equal(kh_buf_cstr(&said), want);
}

static void what_a_bound_ended_is_told_from_what_git_found(void **state)
{
	static const struct {
		const char *script, *says;
	} rows[] = {
		{ "echo 'fatal: Out of memory, malloc failed (tried to allocate 9)' >&2; exit 128",
		  "git index-pack needs more than 1024 MiB of memory" },
		{ "echo 'fatal: mmap failed: Cannot allocate memory' >&2; exit 128",
		  "git index-pack needs more than 1024 MiB of memory" },
		{ "kill -KILL $$", "git index-pack was ended by a signal" },
		{ "echo 'fatal: bad pack' >&2; exit 128", "git index-pack: fatal: bad pack" },
		{ "exit 1", "git index-pack: " },
	};
	struct kh_buf said kh_cleanup(kh_buf_fini);

	(void)state;
	kh_buf_init(&said, 4096);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kh_err err = KH_ERR_INIT;

		kh_buf_clear(&said);
		assert_false(run(rows[i].script, &said, &err));
		assert_non_null(strstr(err.text, rows[i].says));
	}
}

/* What git writes by the links of another user's repository must not be written as us. */
static void it_runs_as_nobody_but_the_owner_of_the_repository(void **state)
{
	enum { ANOTHER = 65533 };
	static const struct {
		uid_t folder, repository;
		bool runs;
	} rows[] = {
		{ 0, 0, true },
		{ ANOTHER, ANOTHER, true },
		{ 0, ANOTHER, true },
		{ ANOTHER, 0, false },
	};
	char place[] = "/tmp/keyhole-repository-XXXXXX";

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(place));
	kh_auto_free char *git_dir = kh_strf("%s/.git", place);
	kh_auto_free char *other = kh_strf("%s/other", place);
	assert_int_equal(mkdir(git_dir, 0755), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kh_host_git git;
		struct kh_err err = KH_ERR_INIT;
		kh_auto_close int folder = open(place, O_PATH | O_CLOEXEC);
		assert_int_equal(chown(place, rows[i].folder, 0), 0);
		assert_int_equal(chown(git_dir, rows[i].repository, 0), 0);
		assert_int_equal(kh_host_git_open(&git, folder, &err), rows[i].runs);
		struct stat held, then;
		assert_int_equal(stat(git_dir, &then), 0);
		/* Another one in its place changes nothing any more. */
		assert_int_equal(rename(git_dir, other), 0);
		if (rows[i].runs) {
			assert_int_equal(git.uid, rows[i].repository);
			assert_int_equal(fstat(git.held, &held), 0);
			assert_int_equal(held.st_ino, then.st_ino);
		} else {
			assert_non_null(strstr(err.text, "the repository belongs to uid 0"));
		}
		kh_host_git_fini(&git);
		assert_int_equal(rename(other, git_dir), 0);
	}
	assert_int_equal(rmdir(git_dir), 0);
	assert_int_equal(rmdir(place), 0);
}

static void git_works_in_the_repository_whose_owner_was_looked_at(void **state)
{
	static const char *const args[] = { "x", NULL };
	char above[] = "/tmp/keyhole-repository-XXXXXX";
	struct kh_host_git git kh_cleanup(kh_host_git_fini) = { 0 };
	struct kh_buf said kh_cleanup(kh_buf_fini);

	(void)state;
	kh_buf_init(&said, 4096);
	assert_non_null(mkdtemp(above));
	kh_auto_free char *ours = kh_strf("%s/.git", above), *other = kh_strf("%s/other", above);
	kh_auto_free char *mark = kh_strf("%s/mark", ours);
	assert_int_equal(mkdir(ours, 0755), 0);
	assert_int_equal(mkdir(other, 0755), 0);
	assert_true(kh_file_write(mark, KH_SLICE("ours"), 0644, NULL));
	kh_auto_close int folder = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(kh_host_git_open(&git, folder, NULL));
	free(git.program);
	git.program = strdup(program);
	assert_true(kh_file_write(program, KH_SLICE("#!/bin/sh\ncat $GIT_DIR/mark\n"), 0700, NULL));
	assert_int_equal(renameat2(AT_FDCWD, ours, AT_FDCWD, other, RENAME_EXCHANGE), 0);
	assert_true(kh_host_git(&git, args, -1, &said, NULL));
	assert_string_equal(kh_buf_cstr(&said), "ours");
	assert_true(kh_tree_remove(AT_FDCWD, above, NULL));
}

static int set_up(void **state)
{
	int fd = mkstemp(program);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(program);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_gets_bounded_memory_and_time),
		cmocka_unit_test(what_a_bound_ended_is_told_from_what_git_found),
		cmocka_unit_test(git_works_in_the_repository_whose_owner_was_looked_at),
		cmocka_unit_test(it_runs_as_nobody_but_the_owner_of_the_repository),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
