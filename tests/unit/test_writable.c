/* test_writable.c - a name that a sandbox could change is known, whichever way it leads */
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

#include <keyhole/base/writable.h>

static char top[64];

static const char *at(const char *name)
{
	static char path[4][256];
	static unsigned turn;
	char *out = path[turn++ % 4];

	(void)snprintf(out, sizeof path[0], "%s/%s", top, name);
	return out;
}

static void put(const char *name)
{
	FILE *file = fopen(at(name), "w");

	assert_non_null(file);
	(void)fclose(file);
}

/* work: the agent's; safe: not. */
static int make(void **state)
{
	(void)state;
	(void)snprintf(top, sizeof top, "/tmp/writable.XXXXXX");
	assert_non_null(mkdtemp(top));
	assert_int_equal(mkdir(at("work"), 0755), 0);
	assert_int_equal(mkdir(at("work/d"), 0755), 0);
	assert_int_equal(mkdir(at("workers"), 0755), 0);
	assert_int_equal(mkdir(at("safe"), 0755), 0);
	assert_int_equal(mkdir(at("earlier"), 0755), 0);
	put("work/d/file");
	put("safe/file");
	return symlink(at("safe"), at("work/away")) || symlink(at("work/d/file"), at("safe/to")) ||
	       symlink("../work/away", at("safe/there-and-back")) ||
	       symlink("to", at("safe/second")) || symlink(at("work"), at("safe/inward")) ||
	       symlink("loop", at("safe/loop"));
}

static int unmake(void **state)
{
	static const char *const names[] = {
		"work/d/file", "work/away",
		"work/d",      "work",
		"workers",     "safe/file",
		"safe/to",     "safe/loop",
		"safe/second", "safe/there-and-back",
		"safe/inward", "safe",
		"earlier",     "",
	};
	int failed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		failed |= remove(at(names[i]));
	return failed;
}

static void each_way_to_where_a_sandbox_writes_counts(void **state)
{
	static const char *const theirs[] = {
		"work",
		"work/",
		"work/d/file",
		"work/not/there",
		"work/away/file",
		"safe/to",
		"safe/second",
		"safe/there-and-back/file",
		"safe/there-and-back/not-there",
		"safe/inward/../safe/file",
		"safe/../work/./d//file",
		"work/../safe/file",
	};

	(void)state;
	assert_false(kh_writable_is(at("work/d/file"), KH_WRITABLE_FOR_ALL));
	assert_true(kh_writable_add(at("work"), "the workspace", KH_WRITABLE_FOR_ALL));
	for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
		struct kh_err err = KH_ERR_INIT;
		if (!kh_writable_is(at(theirs[i]), KH_WRITABLE_FOR_ALL))
			fail_msg("%s is the agent's to change", theirs[i]);
		const char *folder = NULL;
		assert_true(kh_writable_leads(at(theirs[i]), &folder));
		assert_string_equal(folder, "the workspace");
		assert_false(kh_writable_check(at(theirs[i]), &err));
		assert_non_null(strstr(err.text, "the workspace, where the agent may write"));
		assert_non_null(strstr(err.text, at(theirs[i])));
	}
}

static void other_names_do_not_count(void **state)
{
	static const char *const ours[] = { "safe",	      "safe/file", "safe/../safe/file",
					    "safe/not/there", "workers/x", "",
					    "safe/file/x",    "safe/loop" };

	(void)state;
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		assert_false(kh_writable_is(at(ours[i]), KH_WRITABLE_FOR_PROGRAMS));
	assert_true(kh_writable_check(at("safe/file"), NULL));
	assert_false(kh_writable_is("/", KH_WRITABLE_FOR_ALL));
	assert_false(kh_writable_is("/dev/null", KH_WRITABLE_FOR_ALL));
}

static void a_relative_name_begins_in_the_working_folder(void **state)
{
	(void)state;
	assert_int_equal(chdir(at("work/d")), 0);
	assert_true(kh_writable_is("file", KH_WRITABLE_FOR_ALL));
	assert_int_equal(chdir(at("safe")), 0);
	assert_false(kh_writable_is("file", KH_WRITABLE_FOR_ALL));
	assert_true(kh_writable_is("../work/d/file", KH_WRITABLE_FOR_ALL));
	assert_int_equal(chdir("/"), 0);
}

static void what_only_another_process_knows_counts_as_changeable(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	const char *folder = "";

	(void)state;
	assert_false(kh_writable_check("/proc/self/cwd/x", &err));
	assert_true(kh_writable_leads("/proc/self/cwd/x", &folder));
	assert_null(folder);
	assert_false(kh_writable_leads("/", &folder));
	assert_non_null(strstr(err.text, "can't tell"));
}

static void an_open_file_is_known_by_where_it_is(void **state)
{
	(void)state;
	assert_non_null(freopen(at("work/d/file"), "r", stdin));
	assert_true(kh_writable_is("/dev/stdin", KH_WRITABLE_FOR_ALL));
	assert_non_null(freopen("/dev/null", "r", stdin));
	assert_false(kh_writable_is("/dev/stdin", KH_WRITABLE_FOR_ALL));
}

static void a_folder_for_programs_counts_for_them_alone(void **state)
{
	(void)state;
	assert_true(kh_writable_add(at("earlier"), "it", KH_WRITABLE_FOR_PROGRAMS));
	assert_true(kh_writable_is(at("earlier/x"), KH_WRITABLE_FOR_PROGRAMS));
	assert_false(kh_writable_is(at("earlier/x"), KH_WRITABLE_FOR_ALL));
	assert_true(kh_writable_add(at("earlier"), "it", KH_WRITABLE_FOR_ALL));
	assert_true(kh_writable_is(at("earlier/x"), KH_WRITABLE_FOR_ALL));
	assert_true(kh_writable_add(at("earlier"), "it", KH_WRITABLE_FOR_PROGRAMS));
	assert_true(kh_writable_is(at("earlier/x"), KH_WRITABLE_FOR_ALL));
	assert_false(kh_writable_add(at("absent"), "it", KH_WRITABLE_FOR_ALL));
	assert_false(kh_writable_add(at("safe/file"), "it", KH_WRITABLE_FOR_ALL));
}

static bool note_two(struct kh_err *err)
{
	(void)err;
	return kh_writable_note(
		       &(struct kh_writable_folder){ .path = at("linked"), .what = "it" }) &&
	       kh_writable_note(
		       &(struct kh_writable_folder){ .path = at("work/away"), .what = "it" });
}

static bool note_nothing(struct kh_err *err)
{
	(void)err;
	return true;
}

static bool note_and_fail(struct kh_err *err)
{
	return kh_writable_note(&(struct kh_writable_folder){ .path = at("safe"), .what = "it" }) &&
	       kh_err_set(err, KH_ERR_SYSTEM, "it fails");
}

static void a_recorded_folder_is_followed_by_the_users_link_and_by_no_agents(void **state)
{
	(void)state;
	assert_int_equal(symlink(at("earlier-real"), at("linked")), 0);
	assert_int_equal(mkdir(at("earlier-real"), 0755), 0);
	assert_true(kh_writable_renew(note_two, NULL));
	assert_true(kh_writable_is(at("earlier-real/x"), KH_WRITABLE_FOR_ALL));
	assert_false(kh_writable_is(at("safe/x"), KH_WRITABLE_FOR_ALL)); /* by work/away */
	/* Where it fails, those from before stay. */
	assert_false(kh_writable_renew(note_and_fail, NULL));
	assert_true(kh_writable_is(at("earlier-real/x"), KH_WRITABLE_FOR_ALL));
	assert_false(kh_writable_is(at("safe/x"), KH_WRITABLE_FOR_ALL));
	assert_true(kh_writable_renew(note_nothing, NULL));
	assert_false(kh_writable_is(at("earlier-real/x"), KH_WRITABLE_FOR_ALL));
	assert_true(kh_writable_is(at("work/x"), KH_WRITABLE_FOR_ALL)); /* it was added */
	assert_int_equal(rmdir(at("earlier-real")), 0);
	assert_int_equal(unlink(at("linked")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_way_to_where_a_sandbox_writes_counts),
		cmocka_unit_test(other_names_do_not_count),
		cmocka_unit_test(a_relative_name_begins_in_the_working_folder),
		cmocka_unit_test(what_only_another_process_knows_counts_as_changeable),
		cmocka_unit_test(an_open_file_is_known_by_where_it_is),
		cmocka_unit_test(a_folder_for_programs_counts_for_them_alone),
		cmocka_unit_test(a_recorded_folder_is_followed_by_the_users_link_and_by_no_agents),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
