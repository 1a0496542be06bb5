/* test_review_groups.c - folders of packages are counted once each, in little time however many
 * there are */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/clock.h>

#include "sandbox/review_internal.h"

enum { MANY = 60 * 1000, PATIENCE_MS = 5 * 1000 };

static void count(struct kh_review_groups *groups, struct kh_changes *changes, const char *path,
		  size_t len, enum kh_change_bar bar)
{
	assert_true(kh_review_groups_count(groups, changes, path, len, bar, NULL));
}

static void each_folder_is_counted_once_whatever_comes_between(void **state)
{
	struct kh_review_groups groups = { 0 };
	struct kh_changes changes = { 0 };

	(void)state;
	count(&groups, &changes, "a/venv", 6, KH_BAR_BULKY);
	count(&groups, &changes, "a/venv-1/venv", 13, KH_BAR_BULKY);
	count(&groups, &changes, "a/venv/x", 6, KH_BAR_BULKY);
	count(&groups, &changes, "a/venv/.git", 6, KH_BAR_GIT);
	assert_int_equal(changes.n_groups, 3);
	assert_string_equal(changes.groups[0].path, "a/venv");
	assert_int_equal(changes.groups[0].n, 2);
	assert_string_equal(changes.groups[1].path, "a/venv-1/venv");
	assert_int_equal(changes.groups[2].bar, KH_BAR_GIT);
	kh_review_groups_fini(&groups);
	kh_changes_fini(&changes);
}

static void many_folders_take_no_time_that_grows_with_their_square(void **state)
{
	struct kh_review_groups groups = { 0 };
	struct kh_changes changes = { 0 };
	uint64_t began = kh_clock_mono_ms();
	char path[64];

	(void)state;
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < MANY; i++) {
			int n = snprintf(path, sizeof(path), "packages-of-the-project/%06d/venv/x",
					 i);
			count(&groups, &changes, path, (size_t)n - 2, KH_BAR_BULKY);
		}
	assert_int_equal(changes.n_groups, MANY);
	assert_int_equal(changes.groups[MANY - 1].n, 2);
	assert_true(kh_clock_mono_ms() - began < PATIENCE_MS);
	kh_review_groups_fini(&groups);
	kh_changes_fini(&changes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_folder_is_counted_once_whatever_comes_between),
		cmocka_unit_test(many_folders_take_no_time_that_grows_with_their_square),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
