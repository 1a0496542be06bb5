/* test_runs.c - a run's record names the folder that was resolved at its beginning, and no other */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/run_uses.h>

#include "sandbox/homes.h"
#include "sandbox/outlets.h"
#include "sandbox/runs.h"
#include "sandbox/runs_others.h"
#include "sandbox/sandbox_internal.h"

enum { RACE_MS = 700 };

static char *top; /* where the test runs, without links */

static char *at(const char *name)
{
	char *path = kh_strf("%s/%s", top, name);
	assert_non_null(path);
	return path;
}

/* An agent that may write to the folder above has a link there for a moment. */
static void put_link(void)
{
	assert_int_equal(rename("above", "aside"), 0);
	assert_int_equal(symlink("other", "above"), 0);
}

static void put_folder(void)
{
	assert_int_equal(unlink("above"), 0);
	assert_int_equal(rename("aside", "above"), 0);
}

static void exchange(void)
{
	assert_int_equal(renameat2(AT_FDCWD, "above", AT_FDCWD, "other", RENAME_EXCHANGE), 0);
}

/* Does the record of this run, whatever became of it, say a word of `folder`? */
static bool record_says(const struct kh_run_record *record, const char *folder)
{
	static const char *const names[] = { "workspace", "home", "place" };
	struct stat st;
	assert_int_equal(stat(folder, &st), 0);
	kh_auto_free char *place =
		kh_strf("%llu %llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct kh_buf text kh_cleanup(kh_buf_fini);
		if (kh_run_note(record->path, names[i], 4096, &text, NULL) != KH_NOTE_READ)
			continue;
		if (strstr(kh_buf_cstr(&text), folder) || strstr(kh_buf_cstr(&text), place))
			return true;
	}
	return false;
}

static bool begin(struct kh_run_record *record, const int *held, const char *workspace,
		  const char *home, struct kh_err *err)
{
	kh_run_record_init(record);
	record->workspace_held = workspace ? held : NULL;
	record->home_held = home ? held : NULL;
	return kh_run_record_begin(record, ".", workspace, home, KH_SLICE(""), err);
}

static void a_record_names_no_folder_to_which_a_link_leads(void **state)
{
	(void)state;
	kh_auto_free char *work = at("above/work"), *other = at("other/work");
	kh_auto_close int held = kh_file_hold(work);
	for (int home = 0; home < 2; home++) {
		struct kh_run_record record;
		struct kh_err err = KH_ERR_INIT;
		put_link();
		assert_false(begin(&record, &held, home ? NULL : work, home ? work : NULL, &err));
		assert_non_null(strstr(err.text, "there is a symbolic link now"));
		assert_false(record_says(&record, other));
		assert_false(kh_outlets_was_home(".", other));
		kh_run_record_end(&record, true);
		put_folder();
	}
}

static void a_record_names_no_other_folder_of_the_same_path(void **state)
{
	(void)state;
	kh_auto_free char *work = at("above/work");
	kh_auto_close int held = kh_file_hold(work);
	for (int home = 0; home < 2; home++) {
		struct kh_run_record record;
		struct kh_err err = KH_ERR_INIT;
		exchange();
		assert_false(begin(&record, &held, home ? NULL : work, home ? work : NULL, &err));
		assert_non_null(strstr(err.text, "another folder is there"));
		assert_false(record_says(&record, work));
		kh_run_record_end(&record, true);
		exchange();
	}
}

static void no_list_has_the_folder_to_which_a_link_leads(void **state)
{
	(void)state;
	struct kh_err err = KH_ERR_INIT;
	struct kh_run_uses uses = KH_RUN_USES_INIT;
	struct kh_outlets outlets kh_cleanup(kh_outlets_fini) = { 0 };
	struct kh_survey survey kh_cleanup(kh_survey_fini) = { 0 };
	struct kh_buf sees kh_cleanup(kh_buf_fini);
	kh_auto_free char *work = at("above/work"), *file = at("other/work/file");
	kh_auto_close int held = kh_file_hold(work);
	bool overlap = false;
	kh_buf_init(&sees, KH_RUN_SEES_BYTES);
	put_link();
	assert_false(kh_run_uses_folder(&uses, work, &held, false, &err));
	assert_false(kh_writable_is(file, KH_WRITABLE_FOR_ALL));
	assert_false(kh_homes_check("--workspace", work, "", &err));
	assert_true(kh_outlets_add(&outlets, work, NULL, &err));
	assert_int_equal(outlets.n, 0);
	assert_false(kh_forbidden_overlap(work, top, &overlap, &err));
	survey.root_held = &held;
	assert_false(kh_survey_take(&survey, work, &err));
	assert_non_null(strstr(err.text, "there is a symbolic link now"));
	/* What is held is where it went. */
	assert_true(kh_run_sees(&sees, work, held, true, &err));
	assert_non_null(strstr(kh_buf_cstr(&sees), "/aside/work"));
	put_folder();
}

/* The demonstrated attack: until it is ended, `above` is a folder and a link in turn. */
static pid_t flip(void)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	(void)alarm(30);
	for (;;)
		(void)renameat2(AT_FDCWD, "above", AT_FDCWD, "link", RENAME_EXCHANGE);
}

static void no_race_has_a_record_name_another_folder(void **state)
{
	(void)state;
	kh_auto_free char *work = at("above/work"), *other = at("other/work");
	kh_auto_close int held = kh_file_hold(work);
	assert_int_equal(symlink("other", "link"), 0);
	pid_t pid = flip();
	unsigned bad = 0, refused = 0;
	for (uint64_t end = kh_clock_mono_ms() + RACE_MS; kh_clock_mono_ms() < end;) {
		struct kh_run_record record;
		struct kh_err err = KH_ERR_INIT;
		bool ok = begin(&record, &held, work, NULL, &err);
		bad += record.path && record_says(&record, other);
		bad += ok && strcmp(record.workspace, work) != 0;
		refused += !ok;
		bad += !ok && !strstr(err.text, "there is a symbolic link now");
		kh_run_record_end(&record, true);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	print_message("%u were refused\n", refused);
	assert_int_equal(bad, 0);
	struct stat st;
	if (lstat("above", &st) == 0 && S_ISLNK(st.st_mode))
		assert_int_equal(renameat2(AT_FDCWD, "above", AT_FDCWD, "link", RENAME_EXCHANGE),
				 0);
	assert_int_equal(unlink("link"), 0);
}

/* A path of its own for each number, as long as an agent can make one. */
static char *long_path(const char *work, unsigned number)
{
	char part[3501];
	memset(part, 'x', sizeof(part) - 1);
	part[sizeof(part) - 1] = '\0';
	return kh_strf("%s/%u%s", work, number, part);
}

static void a_run_with_too_many_long_paths_fails_alone(void **state)
{
	(void)state;
	kh_auto_free char *work = at("above/work"), *elsewhere = at("other/work");
	kh_auto_close int held = kh_file_hold(work), held_elsewhere = kh_file_hold(elsewhere);
	struct kh_run_record run, same, other;
	struct kh_err err = KH_ERR_INIT;
	size_t bytes = 0;
	assert_true(begin(&run, &held, work, NULL, &err));
	assert_true(begin(&same, &held, work, NULL, &err));
	assert_true(begin(&other, &held_elsewhere, elsewhere, NULL, &err));
	for (struct kh_run_record *one = &run; one; one = one == &run ? &same : NULL)
		for (unsigned i = 0;; i++) {
			kh_auto_free char *path = long_path(work, i);
			if (!kh_run_record_stub(one, path, &err))
				break;
			bytes += strlen(path) + 1;
		}
	assert_in_range(bytes, 2 * KH_LIMIT_RUN_STUBS_BYTES - 8000, 2 * KH_LIMIT_RUN_STUBS_BYTES);
	assert_non_null(strstr(err.text, "have to be kept from being made"));
	/* What is noted may be made once more. */
	kh_auto_free char *first = long_path(work, 0);
	assert_true(kh_run_record_stub(&run, first, &err));
	assert_true(kh_run_record_lock(&other, &err));
	assert_int_equal(kh_buf_view(&other.others).len, 0);
	kh_run_record_unlock(&other);
	assert_true(kh_run_record_lock(&run, &err));
	assert_true(kh_run_record_is_stub(&run, first));
	kh_run_record_unlock(&run);
	assert_true(kh_run_record_end(&other, true));
	assert_true(kh_run_record_end(&same, true));
	assert_false(kh_run_record_end(&run, false));
}

static bool shares(const struct kh_run_record *record, const char *id)
{
	struct kh_other_runs others kh_cleanup(kh_other_runs_fini) = { 0 };
	struct kh_err err = KH_ERR_INIT;
	assert_true(kh_other_runs_find(".", id, &others, &err));
	for (size_t i = 0; i < others.n; i++)
		if (strcmp(others.list[i].id, record->id) == 0) {
			/* It is live itself. */
			others.list[i].live = false;
			return kh_other_runs_share(&others, &others.list[i]);
		}
	fail();
	return false;
}

/* Stubs go with the last of them, so none may be missed. */
static void a_workspace_is_the_same_by_another_path(void **state)
{
	(void)state;
	assert_true(kh_file_mkdirs("above/work/inner", 0700, NULL));
	kh_auto_free char *work = at("above/work"), *inner = at("above/work/inner");
	kh_auto_free char *elsewhere = at("other/work");
	kh_auto_close int held = kh_file_hold(work), held_inner = kh_file_hold(inner);
	kh_auto_close int held_elsewhere = kh_file_hold(elsewhere);
	struct kh_run_record run, same, in, other;
	struct kh_err err = KH_ERR_INIT;
	assert_true(begin(&run, &held, work, NULL, &err));
	assert_true(begin(&in, &held_inner, inner, NULL, &err));
	assert_true(begin(&other, &held_elsewhere, elsewhere, NULL, &err));
	/* As in another mount namespace. */
	kh_auto_free char *note = kh_strf("%s/workspace", run.path);
	assert_true(kh_file_write(note, KH_SLICE("/not/here/work"), 0600, &err));
	assert_true(shares(&in, NULL));
	assert_true(shares(&run, NULL));
	assert_false(shares(&other, NULL));
	assert_false(shares(&run, in.id));
	assert_false(shares(&in, run.id));
	assert_true(kh_run_record_end(&in, true));
	assert_true(begin(&same, &held, work, NULL, &err));
	assert_true(shares(&same, NULL));
	assert_true(shares(&run, NULL));
	assert_true(kh_run_record_end(&same, true));
	assert_true(kh_run_record_end(&other, true));
	assert_true(kh_run_record_end(&run, true));
}

static int enter(void **state)
{
	static char folder[] = "/tmp/keyhole-runs-XXXXXX";
	*state = folder;
	(void)alarm(60);
	top = mkdtemp(folder) ? realpath(folder, NULL) : NULL;
	return top && chdir(top) == 0 && kh_file_mkdirs("above/work", 0700, NULL) &&
			       kh_file_mkdirs("other/work", 0700, NULL) &&
			       kh_file_mkdirs("workspaces", 0700, NULL) &&
			       kh_file_write("other/work/file", KH_SLICE("x"), 0600, NULL)
		       ? 0
		       : -1;
}

static int leave(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", "--", (const char *)*state, (char *)NULL);
		_exit(127);
	}
	free(top);
	return chdir("/") == 0 && waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_names_no_folder_to_which_a_link_leads),
		cmocka_unit_test(a_record_names_no_other_folder_of_the_same_path),
		cmocka_unit_test(no_list_has_the_folder_to_which_a_link_leads),
		cmocka_unit_test(a_run_with_too_many_long_paths_fails_alone),
		cmocka_unit_test(a_workspace_is_the_same_by_another_path),
		cmocka_unit_test(no_race_has_a_record_name_another_folder),
	};
	return cmocka_run_group_tests(tests, enter, leave);
}
