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
	assert_int_equal(mkdir(at("theirs"), 0755), 0);
	assert_int_equal(mkdir(at("theirs/bin"), 0755), 0);
	put("ours/tool");
	put("theirs/bin/tool");
	put("theirs/bin/only-theirs");
	return symlink(at("theirs/bin/only-theirs"), at("ours/link")) ||
	       symlink(at("theirs/bin"), at("bin"));
}

static int unmake(void **state)
{
	static const char *const files[] = { "ours/tool", "ours/link", "theirs/bin/tool",
					     "theirs/bin/only-theirs", "bin" };
	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		(void)unlink(at(files[i]));
	return rmdir(at("theirs/bin")) || rmdir(at("theirs")) || rmdir(at("ours")) || rmdir(folder);
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
	(void)snprintf(path, sizeof path, "%s:%s:.::bin:%s", at("theirs/bin"), at("bin"),
		       at("ours"));
	assert_int_equal(setenv("PATH", path, 1), 0);
	expect("tool", "theirs/bin/tool");
	expect("link", "ours/link");
	assert_true(kh_writable_add(at("theirs"), "it", KH_WRITABLE_FOR_PROGRAMS));
	assert_true(kh_writable_add(at("theirs"), "it", KH_WRITABLE_FOR_PROGRAMS));
	expect("tool", "ours/tool");
	expect("only-theirs", NULL);
	expect("link", NULL);
	assert_false(kh_writable_add(at("not-there"), "it", KH_WRITABLE_FOR_ALL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_program_in_a_sandboxs_folder_is_not_found),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
