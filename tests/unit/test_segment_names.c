/* test_segment_names.c - the names that a journal's files have in a handover, and after it */
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "keeper/handover_internal.h"

static char folder[] = "/tmp/keyhole-segment-XXXXXX";

static char *named(const char *name)
{
	return kh_strf("%s/%s", folder, name);
}

static int make(const char *name)
{
	kh_auto_free char *path = named(name);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

static bool is_there(const char *name)
{
	kh_auto_free char *path = named(name);
	return access(path, F_OK) == 0;
}

static void drop(const char *name)
{
	kh_auto_free char *path = named(name);
	assert_int_equal(unlink(path), 0);
}

/* As a handover undoes it: the number in the name is known only to the process that has ended. */
static void a_handover_that_is_called_off_leaves_no_file(void **state)
{
	static const char drawn[] = "journal.handover-0123456789abcdef";
	(void)state;
	memcpy(strrchr(folder, '-') + 1, "XXXXXX", 6);
	assert_non_null(mkdtemp(folder));
	kh_auto_free char *path = named("journal");
	int before = make("journal");
	close(make(drawn));
	close(make("journal.handover"));
	close(make("journal.handover-notes"));
	close(make("journal.000000000007"));
	/* It had come so far: another file had the name of the segment before. */
	assert_true(kh_segment_move(path, before, 7, NULL));
	close(make("journal.handover"));
	kh_segment_restore(path, before, 7);
	assert_false(is_there(drawn));
	assert_false(is_there("journal.handover"));
	assert_false(is_there("journal.000000000007.2"));
	assert_null(kh_segment_find(path, before, 7));
	drop("journal");
	drop("journal.handover-notes");
	drop("journal.000000000007");
	assert_int_equal(rmdir(folder), 0);
	close(before);
}

static void a_segment_whose_name_is_taken_gets_another_and_is_found(void **state)
{
	(void)state;
	memcpy(strrchr(folder, '-') + 1, "XXXXXX", 6);
	assert_non_null(mkdtemp(folder));
	kh_auto_free char *path = named("journal");
	kh_auto_free char *other = named("journal.000000000007.2");
	int before = make("journal");
	close(make("journal.handover"));
	close(make("journal.000000000007"));
	assert_true(kh_segment_move(path, before, 7, NULL));
	kh_auto_free char *found = kh_segment_find(path, before, 7);
	assert_non_null(found);
	assert_string_equal(found, other);
	assert_false(is_there("journal.handover"));
	kh_segment_restore(path, before, 7);
	assert_false(is_there("journal.000000000007.2"));
	drop("journal");
	drop("journal.000000000007");
	assert_int_equal(rmdir(folder), 0);
	close(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handover_that_is_called_off_leaves_no_file),
		cmocka_unit_test(a_segment_whose_name_is_taken_gets_another_and_is_found),
	};

	return cmocka_run_group_tests_name("segment names", tests, NULL, NULL);
}
