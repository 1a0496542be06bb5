/* test_deadline.c - a survey ends in time and when a signal says so, and what it leaves is kept */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include <keyhole/sandbox/workspace.h>

#include "sandbox/deadline.h"
#include "sandbox/move.h"
#include "sandbox/outlets.h"
#include "sandbox/runs.h"
#include "sandbox/walk.h"

enum { LONG_MS = 60 * 1000 };

static const struct kh_outlets no_outlets;
static const struct kh_survey_notes no_notes = { KH_SLICE_INIT(""), KH_SLICE_INIT(""),
						 KH_SLICE_INIT("") };

/* What waits for this process. */
static void hold(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	assert_int_equal(raise(signal), 0);
}

static void drop(int signal)
{
	struct timespec none = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	(void)sigtimedwait(&set, NULL, &none);
	assert_int_equal(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
}

static bool passed(uint64_t ms, bool heeds_signals)
{
	struct kh_deadline deadline;

	kh_deadline_start(&deadline, ms, heeds_signals);
	bool now = kh_deadline_passed(&deadline);
	assert_int_equal(kh_deadline_passed(&deadline), now);
	return now;
}

static void time_and_signals_end_it(void **state)
{
	(void)state;
	assert_false(kh_deadline_passed(NULL));
	assert_true(passed(0, false));
	assert_false(passed(LONG_MS, true));
	hold(SIGTERM);
	assert_true(passed(LONG_MS, true));
	assert_false(passed(LONG_MS, false));
	(void)signal(SIGTERM, SIG_IGN);
	assert_false(passed(LONG_MS, true));
	(void)signal(SIGTERM, SIG_DFL);
	drop(SIGTERM);
}

static void put(const char *path, const char *text)
{
	assert_true(kh_file_write(path, kh_slice_str(text), 0600, NULL));
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct timespec pause = { .tv_nsec = 30 * 1000 * 1000 };

	(void)folder;
	(void)err;
	++*(unsigned *)arg;
	(void)nanosleep(&pause, NULL);
	return true;
}

static void a_walk_whose_visits_take_the_time_says_what_it_missed(void **state)
{
	struct kh_deadline deadline;
	unsigned visits = 0;
	struct kh_walk walk = { .visit = visit, .arg = &visits, .deadline = &deadline };
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	kh_deadline_start(&deadline, 10, false);
	assert_true(kh_walk_run(&walk, "work", &err));
	assert_int_equal(visits, 1);
	assert_non_null(strstr(walk.missed, "looking took too long"));
	free(walk.missed);
}

/* A run whose launcher was killed, with a hook left in its workspace. */
static void leave_a_run(void)
{
	struct stat st;
	char place[64];
	kh_auto_free char *work = realpath("work", NULL);

	assert_int_equal(stat("work", &st), 0);
	snprintf(place, sizeof(place), "%llu %llu\n", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	assert_true(kh_file_mkdirs("workspaces/dead", 0700, NULL));
	put("workspaces/dead/alive", "");
	put("workspaces/dead/workspace", work);
	put("workspaces/dead/place", place);
	put("workspaces/dead/before", "");
	put("workspaces/dead/reads", "");
	put("work/sub/.git/hooks/pre-commit", "#!/bin/sh\n");
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void a_signal_leaves_an_earlier_run_for_the_next_and_starts_nothing(void **state)
{
	struct kh_run_record record;
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	leave_a_run();
	hold(SIGTERM);
	kh_run_record_init(&record);
	assert_false(kh_run_record_begin(&record, ".", "other", NULL, KH_SLICE(""), &err));
	assert_non_null(strstr(err.text, "a signal came before anything was started"));
	kh_run_record_end(&record, true);
	assert_true(is_there("workspaces/dead/before"));
	drop(SIGTERM);
	assert_true(kh_workspace_is_unsurveyed("."));
	assert_true(kh_workspace_survey(".", &err));
	assert_false(is_there("workspaces/dead"));
	assert_false(is_there("work/sub/.git/hooks/pre-commit"));
}

static void a_survey_that_is_out_of_time_sets_nothing_aside_and_is_not_done(void **state)
{
	struct kh_deadline deadline;
	kh_auto_free char *work = realpath("work", NULL);

	(void)state;
	put("work/sub/.git/hooks/pre-commit", "#!/bin/sh\n");
	kh_deadline_start(&deadline, 0, false);
	kh_auto_close int folder = open(work, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_false(kh_survey_after(".", "x", work, folder, &no_notes, &no_outlets, &deadline));
	assert_true(is_there("work/sub/.git/hooks/pre-commit"));
	assert_int_equal(unlink("work/sub/.git/hooks/pre-commit"), 0);
}

static bool note_path(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	(void)err;
	snprintf(arg, 64, "%s", folder->path);
	return true;
}

/* Somebody else has put a link in the place of the folder above. */
static void no_link_above_a_folder_is_followed(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_deadline deadline;
	char seen[64] = "";
	struct kh_walk walk = { .visit = note_path, .arg = seen };

	(void)state;
	assert_true(kh_file_mkdirs("above/work", 0700, NULL));
	assert_true(kh_file_mkdirs("elsewhere/work/.git/hooks", 0700, NULL));
	put("elsewhere/work/.git/HEAD", "ref: refs/heads/main\n");
	put("elsewhere/work/.git/hooks/pre-commit", "#!/bin/sh\n");
	kh_auto_close int held = open("above/work", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(rename("above", "moved"), 0);
	assert_int_equal(symlink("elsewhere", "above"), 0);
	assert_false(kh_walk_run(&walk, "above/work", &err));
	assert_string_equal(seen, "");
	assert_true(kh_walk_run_at(&walk, held, "above/work", &err));
	assert_string_equal(seen, "above/work");
	kh_deadline_start(&deadline, LONG_MS, false);
	kh_auto_free char *here = realpath(".", NULL);
	kh_auto_free char *work = kh_strf("%s/above/work", here);
	assert_true(kh_survey_after(".", "x", work, held, &no_notes, &no_outlets, &deadline));
	assert_true(is_there("elsewhere/work/.git/hooks/pre-commit"));
}

static void who_waits_is_told_for_whom(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	bool signalled = false;
	char text[64];

	(void)state;
	kh_auto_close int held = kh_run_records_lock(".", 0, NULL, &err);
	assert_true(held >= 0);
	assert_int_equal(kh_run_records_lock(".", 20, NULL, &err), -1);
	snprintf(text, sizeof(text), "another keyhole (process %d)", (int)getpid());
	assert_non_null(strstr(err.text, text));
	assert_null(strstr(err.text, "temporarily unavailable"));
	hold(SIGINT);
	assert_int_equal(kh_run_records_lock(".", LONG_MS, &signalled, &err), -1);
	assert_true(signalled);
	assert_non_null(strstr(err.text, "a signal ended the wait"));
	drop(SIGINT);
}

static int enter(void **state)
{
	static char folder[] = "/tmp/keyhole-deadline-XXXXXX";

	*state = folder;
	(void)alarm(60);
	return mkdtemp(folder) && chdir(folder) == 0 &&
			       kh_file_mkdirs("work/sub/.git/hooks", 0700, NULL) &&
			       kh_file_mkdirs("other", 0700, NULL) &&
			       kh_file_mkdirs("workspaces", 0700, NULL)
		       ? 0
		       : -1;
}

static int leave(void **state)
{
	return chdir("/") == 0 && kh_move_remove(AT_FDCWD, *state) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_and_signals_end_it),
		cmocka_unit_test(a_walk_whose_visits_take_the_time_says_what_it_missed),
		cmocka_unit_test(a_signal_leaves_an_earlier_run_for_the_next_and_starts_nothing),
		cmocka_unit_test(a_survey_that_is_out_of_time_sets_nothing_aside_and_is_not_done),
		cmocka_unit_test(no_link_above_a_folder_is_followed),
		cmocka_unit_test(who_waits_is_told_for_whom),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
