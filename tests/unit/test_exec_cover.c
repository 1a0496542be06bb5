/* test_exec_cover.c - which folders a command of a run finds empty, by the records of live runs */
#include <ftw.h>
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
#include <keyhole/base/mounts.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/run_uses.h>

#include "keeper/job_internal.h"

/* wrap: kh_mounts_read */
bool __real_kh_mounts_read(struct kh_mounts *out, struct kh_err *err);
bool __wrap_kh_mounts_read(struct kh_mounts *out, struct kh_err *err);

/* What the table of mounts is; NULL: the kernel's. */
static const char *table;

bool __wrap_kh_mounts_read(struct kh_mounts *out, struct kh_err *err)
{
	return table ? kh_mounts_parse(kh_slice_str(table), out) ||
			       kh_err_set(err, KH_ERR_SYSTEM, "the table: can't be understood")
		     : __real_kh_mounts_read(out, err);
}

static char *top, *state;
static struct kh_run_uses own = KH_RUN_USES_INIT;

static const char *at(const char *name)
{
	static char path[4][256];
	static unsigned turn;
	char *out = path[turn++ % 4];

	(void)snprintf(out, sizeof path[0], "%s/%s", top, name);
	return out;
}

static void make_folder(const char *name)
{
	assert_int_equal(mkdir(at(name), 0755), 0);
}

/* The own run has no folder of its own. A program that is called bwrap is all that is needed. */
static int begin(void **unused)
{
	struct kh_err err = KH_ERR_INIT;
	char text[] = "/tmp/cover.XXXXXX";

	(void)unused;
	assert_non_null(mkdtemp(text));
	top = realpath(text, NULL);
	state = kh_strf("%s/state", top);
	make_folder("bin");
	assert_int_equal(symlink("/bin/true", at("bin/bwrap")), 0);
	assert_int_equal(setenv("PATH", at("bin"), 1), 0);
	assert_true(kh_run_uses_lock(&own, state, &err) && kh_run_uses_write(&own, &err));
	kh_run_uses_unlock(&own);
	return 0;
}

static bool note(struct kh_err *err)
{
	return kh_run_uses_note_folders(&own, state, err);
}

static bool note_nothing(struct kh_err *err)
{
	(void)err;
	return true;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static int end(void **unused)
{
	(void)unused;
	assert_true(kh_writable_renew(note_nothing, NULL));
	kh_run_uses_end(&own);
	int failed = nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(top);
	free(state);
	return failed;
}

/* Another run, which lives until its record is ended. It is written here, since kh_run_uses_folder
 * would make the folder this process's own. */
static void live(struct kh_run_uses *other, const char *folder, bool is_home)
{
	struct kh_err err = KH_ERR_INIT;
	char entry[512];
	struct stat st;

	assert_true(kh_run_uses_lock(other, state, &err));
	assert_int_equal(stat(at(folder), &st), 0);
	(void)snprintf(entry, sizeof entry, "%c%llu:%llu:%s", is_home ? 'h' : 'w',
		       (unsigned long long)st.st_dev, (unsigned long long)st.st_ino, at(folder));
	assert_true(kh_buf_append(&other->text, entry, strlen(entry) + 1));
	assert_true(kh_run_uses_write(other, &err));
	kh_run_uses_unlock(other);
}

/* The folders that are covered, below `top`, each with a blank; or why the command is not started.
 */
static const char *covered(void)
{
	static char said[1024];
	static char name[] = "true";
	char *argv[] = { name, NULL };
	struct kh_exec_cover cover;
	struct kh_err err = KH_ERR_INIT;
	size_t len = 0;

	said[0] = '\0';
	if (!kh_writable_renew(note, &err) || !kh_exec_cover("/bin/true", argv, &cover, &err)) {
		(void)snprintf(said, sizeof said, "%s", err.text);
		return said;
	}
	for (size_t i = 0; cover.argv && cover.argv[i]; i++) {
		/* Others are names of the host's own mounts. */
		if (strcmp(cover.argv[i], "--tmpfs") != 0 ||
		    strncmp(cover.argv[i + 1], top, strlen(top)) != 0)
			continue;
		len += (size_t)snprintf(said + len, sizeof said - len, "%s ",
					cover.argv[i + 1] + strlen(top) + 1);
	}
	kh_exec_cover_fini(&cover);
	return said;
}

static void a_folder_is_hidden_as_long_as_its_run_lives(void **unused)
{
	struct kh_run_uses first = KH_RUN_USES_INIT, second = KH_RUN_USES_INIT;

	(void)unused;
	make_folder("work");
	make_folder("home");
	assert_string_equal(covered(), "");
	live(&first, "work", false);
	assert_string_equal(covered(), "work ");
	live(&second, "home", true);
	assert_string_equal(covered(), "home work ");
	kh_run_uses_end(&first);
	assert_string_equal(covered(), "home ");
	kh_run_uses_end(&second);
	assert_string_equal(covered(), "");
}

static void no_command_is_started_while_the_folder_of_a_live_run_is_elsewhere(void **unused)
{
	struct kh_run_uses other = KH_RUN_USES_INIT;
	char process[64];

	(void)unused;
	make_folder("work");
	live(&other, "work", false);
	(void)snprintf(process, sizeof process, "the workspace of another run (process %d) is not",
		       (int)getpid());
	assert_int_equal(rename(at("work"), at("moved")), 0);
	assert_non_null(strstr(covered(), process));
	assert_non_null(strstr(covered(), at("work")));
	make_folder("work"); /* another one */
	assert_non_null(strstr(covered(), process));
	assert_int_equal(rmdir(at("work")), 0);
	assert_int_equal(symlink("moved", at("work")), 0);
	assert_non_null(strstr(covered(), process));
	/* It is known wherever it is. */
	assert_true(kh_writable_is(at("moved/x"), KH_WRITABLE_FOR_ALL));
	assert_int_equal(unlink(at("work")), 0);
	assert_int_equal(rename(at("moved"), at("work")), 0);
	assert_string_equal(covered(), "work ");
	/* Its run ends: nobody waits for it any more. */
	assert_int_equal(rename(at("work"), at("moved")), 0);
	kh_run_uses_end(&other);
	assert_string_equal(covered(), "");
}

static void what_an_agent_puts_in_the_place_of_a_folder_in_its_own_bars_nothing(void **unused)
{
	struct kh_run_uses inner = KH_RUN_USES_INIT, outer = KH_RUN_USES_INIT;

	(void)unused;
	make_folder("outer");
	make_folder("outer/inner");
	make_folder("outer-not");
	live(&inner, "outer/inner", false);
	assert_string_equal(covered(), "outer/inner ");
	live(&outer, "outer", false);
	assert_string_equal(covered(), "outer ");
	assert_int_equal(rename(at("outer/inner"), at("outer/moved")), 0);
	assert_string_equal(covered(), "outer ");
	assert_int_equal(symlink("/usr", at("outer/inner")), 0);
	assert_string_equal(covered(), "outer ");
	assert_false(kh_writable_is("/usr/bin/env", KH_WRITABLE_FOR_ALL));
	assert_int_equal(unlink(at("outer/inner")), 0);
	make_folder("outer/inner");
	assert_string_equal(covered(), "outer ");
	kh_run_uses_end(&outer);
	assert_non_null(strstr(covered(), "was not started: the workspace of another run"));
	kh_run_uses_end(&inner);
	assert_string_equal(covered(), "");
}

static void rewrite(const struct kh_run_uses *uses, const char *entries, size_t len)
{
	FILE *file = fopen(uses->path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(entries, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
}

static void a_record_of_an_earlier_version_has_the_path_alone(void **unused)
{
	struct kh_run_uses other = KH_RUN_USES_INIT;
	char text[512];

	(void)unused;
	make_folder("work");
	live(&other, "work", false);
	int len = snprintf(text, sizeof text, "p12%cw%s%ce%c", 0, at("work"), 0, 0);
	rewrite(&other, text, (size_t)len);
	assert_string_equal(covered(), "work ");
	assert_int_equal(rename(at("work"), at("moved")), 0);
	assert_string_equal(covered(), "");
	assert_int_equal(symlink("moved", at("work")), 0);
	assert_non_null(strstr(covered(), "the workspace of another run (process 12) is not"));
	kh_run_uses_end(&other);
}

static void what_can_not_be_understood_leaves_all_as_it_was(void **unused)
{
	static const char *const bad[] = {
		"w1:2",	  "w1:2:",    "w1:2:x",	  "wx:2:/x",  "w1:/x",
		"w1::/x", "w-1:2:/x", "w1:+2:/x", "h 1:2:/x", "w99999999999999999999:2:/x"
	};
	struct kh_run_uses first = KH_RUN_USES_INIT, other = KH_RUN_USES_INIT;
	char text[512];

	(void)unused;
	make_folder("work");
	make_folder("second");
	live(&first, "work", false);
	assert_string_equal(covered(), "work ");
	live(&other, "second", false);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int len = snprintf(text, sizeof text, "p12%c%s%ce%c", 0, bad[i], 0, 0);
		rewrite(&other, text, (size_t)len);
		if (!strstr(covered(), "can't be understood"))
			fail_msg("it was understood: %s", bad[i]);
		assert_true(kh_writable_is(at("work/x"), KH_WRITABLE_FOR_ALL));
	}
	kh_run_uses_end(&other);
	assert_string_equal(covered(), "work ");
	kh_run_uses_end(&first);
}

static void no_command_is_started_where_the_mounts_are_not_known(void **unused)
{
	static const char *const bad[] = { "", "1 0 8:1 / / rw - x y z", "99 0 8:1 / / rw\n",
					   /* without the mount of the folder */
					   "4294967295 0 8:1 / / rw - x y z\n" };
	struct kh_run_uses other = KH_RUN_USES_INIT;

	(void)unused;
	make_folder("work");
	live(&other, "work", false);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		table = bad[i];
		if (!strstr(covered(), "was not started: keyhole can't tell by which names"))
			fail_msg("with this table it was: %s", bad[i]);
	}
	table = NULL;
	assert_string_equal(covered(), "work ");
	kh_run_uses_end(&other);
}

static void with_a_mount_in_the_outer_folder_the_inner_one_may_be_elsewhere(void **unused)
{
	struct kh_run_uses inner = KH_RUN_USES_INIT, outer = KH_RUN_USES_INIT;
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);
	struct kh_buf text kh_cleanup(kh_buf_fini);

	(void)unused;
	kh_buf_init(&text, 1 << 20);
	make_folder("outer");
	make_folder("outer/inner");
	live(&inner, "outer/inner", false);
	live(&outer, "outer", false);
	assert_int_equal(rename(at("outer/inner"), at("outer/moved")), 0);
	assert_string_equal(covered(), "outer ");
	assert_true(kh_file_read("/proc/self/mountinfo", &text, NULL));
	assert_true(kh_buf_append_str(&text, "4294967295 0 0:1 / ") &&
		    kh_buf_append_str(&text, at("outer/x")) &&
		    kh_buf_append_str(&text, " rw - x y z\n"));
	table = kh_buf_cstr(&text);
	assert_true(kh_mounts_parse(kh_slice_str(table), &mounts));
	assert_non_null(strstr(covered(), "was not started: the workspace of another run"));
	table = NULL;
	kh_run_uses_end(&outer);
	kh_run_uses_end(&inner);
}

/* The last one: what is added stays. */
static void the_same_holds_for_the_folder_of_the_run_itself(void **unused)
{
	(void)unused;
	make_folder("work");
	assert_true(kh_writable_add(at("work"), "the workspace", KH_WRITABLE_FOR_ALL));
	assert_string_equal(covered(), "work ");
	assert_int_equal(rename(at("work"), at("moved")), 0);
	assert_non_null(strstr(covered(), "was not started: the workspace is not any more where"));
	assert_int_equal(rename(at("moved"), at("work")), 0);
	assert_string_equal(covered(), "work ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_folder_is_hidden_as_long_as_its_run_lives, begin,
						end),
		cmocka_unit_test_setup_teardown(
			no_command_is_started_while_the_folder_of_a_live_run_is_elsewhere, begin,
			end),
		cmocka_unit_test_setup_teardown(
			what_an_agent_puts_in_the_place_of_a_folder_in_its_own_bars_nothing, begin,
			end),
		cmocka_unit_test_setup_teardown(a_record_of_an_earlier_version_has_the_path_alone,
						begin, end),
		cmocka_unit_test_setup_teardown(what_can_not_be_understood_leaves_all_as_it_was,
						begin, end),
		cmocka_unit_test_setup_teardown(
			no_command_is_started_where_the_mounts_are_not_known, begin, end),
		cmocka_unit_test_setup_teardown(
			with_a_mount_in_the_outer_folder_the_inner_one_may_be_elsewhere, begin,
			end),
		cmocka_unit_test_setup_teardown(the_same_holds_for_the_folder_of_the_run_itself,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
