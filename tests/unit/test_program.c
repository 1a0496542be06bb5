/* test_program.c - programs of the host are not looked for where a sandbox may write */
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

#include <keyhole/base/program.h>
#include <keyhole/base/writable.h>

static char folder[64];

static const char *at(const char *name)
{
	static char path[4][256];
	static unsigned turn;
	char *out = path[turn++ % 4];

	(void)snprintf(out, sizeof path[0], "%s/%s", folder, name);
	return out;
}

static void put(const char *name)
{
	FILE *file = fopen(at(name), "w");

	assert_non_null(file);
	(void)fputs("#!/bin/sh\n", file);
	(void)fclose(file);
	assert_int_equal(chmod(at(name), 0755), 0);
}

static int make(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof folder, "/tmp/program.XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(mkdir(at("ours"), 0755), 0);
	assert_int_equal(mkdir(at("linked"), 0755), 0);
	assert_int_equal(mkdir(at("theirs"), 0755), 0);
	assert_int_equal(mkdir(at("theirs/bin"), 0755), 0);
	put("ours/tool");
	put("theirs/bin/tool");
	put("theirs/bin/only-theirs");
	put("linked/tool");
	return symlink(at("theirs/bin/only-theirs"), at("linked/link")) ||
	       symlink("link", at("linked/beside")) || symlink("tool", at("ours/beside")) ||
	       symlink("../ours/tool", at("ours/around")) || symlink(at("theirs/bin"), at("bin"));
}

static int unmake(void **state)
{
	static const char *const files[] = {
		"ours/tool",   "ours/beside", "ours/around",   "theirs/bin/tool",
		"linked/tool", "linked/link", "linked/beside", "theirs/bin/only-theirs",
		"bin"
	};
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		(void)unlink(at(files[i]));
	return rmdir(at("linked")) || rmdir(at("theirs/bin")) || rmdir(at("theirs")) ||
	       rmdir(at("ours")) || rmdir(folder);
}

static void expect(const char *name, const char *path)
{
	char *found = kh_program_find(name);

	if (!path)
		assert_null(found);
	else
		assert_string_equal(found, at(path));
	free(found);
}

static void test_a_program_in_a_sandboxs_folder_is_not_found(void **state)
{
	char path[512];

	(void)state;
	(void)snprintf(path, sizeof path, "%s:%s:.::bin:%s:%s", at("theirs/bin"), at("bin"),
		       at("linked"), at("ours"));
	assert_int_equal(setenv("PATH", path, 1), 0);
	expect("tool", "theirs/bin/tool");
	expect("link", "linked/link");
	expect("beside", "linked/beside");
	assert_true(kh_writable_add(at("theirs"), "it", KH_WRITABLE_FOR_PROGRAMS));
	assert_true(kh_writable_add(at("theirs"), "it", KH_WRITABLE_FOR_PROGRAMS));
	expect("tool", "linked/tool");
	expect("only-theirs", NULL);
	expect("link", NULL);
	expect("beside", "ours/beside");
	assert_false(kh_writable_add(at("not-there"), "it", KH_WRITABLE_FOR_ALL));
}

/* As a shell: one goes on to the next folder of PATH. */
static void test_a_folder_is_no_program(void **state)
{
	char path[512];

	(void)state;
	assert_int_equal(mkdir(at("ours/tools"), 0755), 0);
	put("theirs/bin/tools");
	(void)snprintf(path, sizeof path, "%s:%s", at("ours"), at("theirs/bin"));
	assert_int_equal(setenv("PATH", path, 1), 0);
	expect("tools", "theirs/bin/tools");
	assert_int_equal(unlink(at("theirs/bin/tools")), 0);
	assert_int_equal(rmdir(at("ours/tools")), 0);
}

static void expect_path(char *const *given, const char *path)
{
	char **environment = kh_program_environment(given);

	assert_non_null(environment);
	assert_string_equal(environment[0], "A=b");
	assert_string_equal(environment[1], path);
	assert_string_equal(environment[2], "PATHS=/x");
	assert_null(environment[3]);
	free(environment);
}

/* What a program finds in PATH by itself is in no sandbox's folder either. */
static void test_no_program_gets_a_path_with_a_sandboxs_folder(void **state)
{
	char path[512], good[512], other[] = "A=b", last[] = "PATHS=/x";
	char *given[] = { other, path, last, NULL };

	(void)state;
	assert_true(kh_writable_add(at("theirs"), "it", KH_WRITABLE_FOR_PROGRAMS));
	(void)snprintf(path, sizeof path, "PATH=%s:%s:.::bin:%s:/not/there", at("theirs/bin"),
		       at("bin"), at("ours"));
	(void)snprintf(good, sizeof good, "PATH=%s", at("ours"));
	expect_path(given, good);
	assert_int_equal(setenv("PATH", path + strlen("PATH="), 1), 0);
	char **own = kh_program_environment(NULL);
	assert_non_null(own);
	size_t found = 0;
	for (char **one = own; *one; one++)
		found += strcmp(*one, good) == 0;
	assert_int_equal(found, 1);
	free(own);
	/* An empty one would be the working folder. */
	(void)snprintf(path, sizeof path, "PATH=%s", at("theirs/bin"));
	expect_path(given, "PATH=/nonexistent");
	(void)snprintf(path, sizeof path, "PATH=");
	expect_path(given, "PATH=/nonexistent");
}

/* The user's link in a folder of his own: whoever looks there by himself would follow it. */
static void test_no_program_gets_a_path_with_a_link_to_a_sandboxs_folder(void **state)
{
	char path[512], good[512], other[] = "A=b", last[] = "PATHS=/x";
	char *given[] = { other, path, last, NULL };

	(void)state;
	assert_true(kh_writable_add(at("theirs"), "it", KH_WRITABLE_FOR_PROGRAMS));
	(void)snprintf(path, sizeof path, "PATH=%s:%s", at("linked"), at("ours"));
	(void)snprintf(good, sizeof good, "PATH=%s", at("ours"));
	expect_path(given, good);
	/* Why a whole folder is missing can be said. */
	assert_int_equal(setenv("PATH", path + strlen("PATH="), 1), 0);
	char *link = kh_program_link_away();
	assert_non_null(link);
	assert_true(strcmp(link, at("linked/link")) == 0 || strcmp(link, at("linked/beside")) == 0);
	free(link);
	assert_int_equal(setenv("PATH", good + strlen("PATH="), 1), 0);
	assert_null(kh_program_link_away());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_folder_is_no_program),
		cmocka_unit_test(test_a_program_in_a_sandboxs_folder_is_not_found),
		cmocka_unit_test(test_no_program_gets_a_path_with_a_sandboxs_folder),
		cmocka_unit_test(test_no_program_gets_a_path_with_a_link_to_a_sandboxs_folder),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
