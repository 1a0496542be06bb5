/* test_runs_retry.c - a survey that never succeeds does not hold up each later run */
/* wrap: kh_survey_after kh_clock_wall_ms kh_clock_mono_ms */
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
#include <keyhole/sandbox/workspace.h>

#include "sandbox/outlets.h"
#include "sandbox/runs.h"

enum { TAKES_MS = 14 * 1000 };

static unsigned surveys; /* that were begun */
static bool succeeds, signals;
static uint64_t wall_ms = 1000 * 1000 * 1000, passed_ms;

uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_wall_ms(void);
bool __wrap_kh_survey_after(const char *state, const char *id, const char *workspace, int folder,
			    const struct kh_survey_notes *notes, const struct kh_outlets *outlets,
			    struct kh_deadline *deadline);

uint64_t __wrap_kh_clock_mono_ms(void)
{
	return 1000 + passed_ms;
}

uint64_t __wrap_kh_clock_wall_ms(void)
{
	return wall_ms;
}

bool __wrap_kh_survey_after(const char *state, const char *id, const char *workspace, int folder,
			    const struct kh_survey_notes *notes, const struct kh_outlets *outlets,
			    struct kh_deadline *deadline)
{
	(void)state;
	(void)id;
	(void)workspace;
	(void)folder;
	(void)notes;
	(void)outlets;
	surveys++;
	assert_true(!signals || raise(SIGTERM) == 0);
	passed_ms += TAKES_MS;
	wall_ms += TAKES_MS;
	(void)kh_deadline_passed(deadline);
	return succeeds;
}

static void put(const char *path, const char *text)
{
	assert_true(kh_file_write(path, kh_slice_str(text), 0600, NULL));
}

/* A run that has ended, with a tree in its workspace through which no survey gets. */
static void leave_a_run(void)
{
	struct stat st;
	char place[64];
	kh_auto_free char *work = realpath("work", NULL);

	assert_int_equal(stat("work", &st), 0);
	(void)snprintf(place, sizeof(place), "%llu %llu\n", (unsigned long long)st.st_dev,
		       (unsigned long long)st.st_ino);
	assert_true(kh_file_mkdirs("workspaces/dead", 0700, NULL));
	put("workspaces/dead/alive", "");
	put("workspaces/dead/workspace", work);
	put("workspaces/dead/place", place);
	put("workspaces/dead/before", "");
	put("workspaces/dead/reads", "");
	(void)unlink("workspaces/dead/failed");
	surveys = 0;
	succeeds = signals = false;
}

/* What a run writes to its log from its begin to its end, and how many surveys it began. */
static unsigned run(char said[static 4096])
{
	struct kh_run_record record;
	struct kh_err err = KH_ERR_INIT;
	unsigned before = surveys;
	kh_auto_close int log = open("log", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	kh_auto_close int own = dup(STDERR_FILENO);
	assert_true(log >= 0 && own >= 0 && dup2(log, STDERR_FILENO) >= 0);
	kh_run_record_init(&record);
	bool begun = kh_run_record_begin(&record, ".", NULL, NULL, KH_SLICE(""), &err);
	kh_run_record_end(&record, true);
	assert_true(dup2(own, STDERR_FILENO) >= 0);
	ssize_t n = pread(log, said, 4095, 0);
	said[n > 0 ? n : 0] = '\0';
	assert_true(begun);
	return surveys - before;
}

static bool is_left(void)
{
	struct stat st;
	return lstat("workspaces/dead", &st) == 0;
}

static unsigned lines_with(const char *said, const char *word)
{
	unsigned n = 0;
	for (const char *at = said; (at = strstr(at, word)); at++)
		n++;
	return n;
}

static void a_survey_that_failed_backs_off_for_twenty_times_as_long_as_it_took(void **state)
{
	char said[4096];
	(void)state;
	leave_a_run();
	assert_int_equal(run(said), 1);
	uint64_t failed_ms = wall_ms;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(run(said), 0);
		assert_int_equal(lines_with(said, "\n"), 1);
		assert_non_null(strstr(said, "/work: its survey failed after 14 s"));
		assert_non_null(strstr(said, "keyhole workspace survey"));
	}
	wall_ms = failed_ms + 20 * TAKES_MS - 1000;
	assert_int_equal(run(said), 0);
	wall_ms = failed_ms + 20 * TAKES_MS + 1000;
	assert_int_equal(run(said), 1);
	assert_int_equal(run(said), 0);
	assert_true(is_left());
}

static void who_asks_for_the_survey_gets_it_at_once(void **state)
{
	char said[4096];
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	leave_a_run();
	assert_int_equal(run(said), 1);
	assert_false(kh_workspace_survey(".", &err));
	assert_int_equal(surveys, 2);
	assert_true(kh_workspace_is_unsurveyed("."));
	succeeds = true;
	assert_true(kh_workspace_survey(".", &err));
	assert_int_equal(surveys, 3);
	assert_false(is_left());
}

static void a_clock_that_was_set_back_does_not_lengthen_the_backoff(void **state)
{
	char said[4096];
	(void)state;
	leave_a_run();
	assert_int_equal(run(said), 1);
	wall_ms -= 24ull * 60 * 60 * 1000;
	assert_int_equal(run(said), 1);
	assert_int_equal(run(said), 0);
	/* Nor does a note that means nothing, or a time that nobody has taken. */
	put("workspaces/dead/failed", "nonsense");
	assert_int_equal(run(said), 1);
	kh_auto_free char *text = kh_strf("%llu 999999999999\n", (unsigned long long)wall_ms);
	put("workspaces/dead/failed", text);
	wall_ms += 20ull * 120 * 1000 + 1000;
	assert_int_equal(run(said), 1);
}

static void a_survey_that_a_signal_ended_does_not_back_off(void **state)
{
	struct kh_run_record record;
	struct kh_err err = KH_ERR_INIT;
	struct timespec none = { 0 };
	struct stat st;
	sigset_t set;
	(void)state;
	leave_a_run();
	signals = true;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	kh_run_record_init(&record);
	assert_false(kh_run_record_begin(&record, ".", NULL, NULL, KH_SLICE(""), &err));
	kh_run_record_end(&record, true);
	assert_int_equal(surveys, 1);
	assert_int_equal(sigtimedwait(&set, NULL, &none), SIGTERM);
	assert_int_equal(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
	assert_int_equal(lstat("workspaces/dead/failed", &st), -1);
}

static int enter(void **state)
{
	static char folder[] = "/tmp/keyhole-retry-XXXXXX";
	*state = folder;
	(void)alarm(60);
	return mkdtemp(folder) && chdir(folder) == 0 && kh_file_mkdirs("work", 0700, NULL) ? 0 : -1;
}

static int leave(void **state)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", "--", (const char *)*state, (char *)NULL);
		_exit(127);
	}
	return chdir("/") == 0 && waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_survey_that_failed_backs_off_for_twenty_times_as_long_as_it_took),
		cmocka_unit_test(who_asks_for_the_survey_gets_it_at_once),
		cmocka_unit_test(a_clock_that_was_set_back_does_not_lengthen_the_backoff),
		cmocka_unit_test(a_survey_that_a_signal_ended_does_not_back_off),
	};
	return cmocka_run_group_tests(tests, enter, leave);
}
