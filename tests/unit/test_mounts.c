/* test_mounts.c - each name by which a mount shows a folder, from the kernel's table */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/mounts.h>

/* One file system (8:1) at "/", from a folder of it at /srv, and with a part of it in it. */
static const char table[] =
	"20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	"21 20 0:5 / /proc rw - proc proc rw\n"
	"22 20 8:1 /home/u /srv rw shared:1 master:2 - ext4 /dev/sda1 rw\n"
	"23 20 8:1 /home/u/work/sub /mnt/part\\040of\\134it rw - ext4 /dev/sda1 rw\n"
	"24 20 8:1 /home/u/work /mnt/work rw - ext4 /dev/sda1 rw\n"
	"25 20 8:1 /home/u/workers /mnt/workers rw - ext4 /dev/sda1 rw\n"
	"26 20 8:2 /home/u/work /mnt/other rw - ext4 /dev/sdb1 rw\n"
	"27 20 8:1 /home/u/work/gone//deleted /mnt/gone rw - ext4 /dev/sda1 rw\n"
	"28 20 8:1 /home/u/work/file /etc/file rw - ext4 /dev/sda1 rw\n";

struct names {
	char text[1024];
	const char *stop_at;
};

static bool put(void *arg, const char *name, uint64_t id)
{
	struct names *names = arg;
	size_t len = strlen(names->text);

	(void)snprintf(names->text + len, sizeof names->text - len, "%u %s\n", (unsigned)id, name);
	return !names->stop_at || strcmp(names->stop_at, name) != 0;
}

static void expect(const char *text, uint64_t id, const char *folder, const char *names)
{
	struct names found = { .text = "" };
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);

	assert_true(kh_mounts_parse(kh_slice_str(text), &mounts));
	assert_true(kh_mounts_each_name(&mounts, id, folder, put, &found));
	assert_string_equal(found.text, names);
}

static void each_mount_of_a_folder_above_it_or_in_it_gives_a_name(void **state)
{
	static const char others[] = "23 /mnt/part of\\it\n"
				     "24 /mnt/work\n"
				     "27 /mnt/gone\n"
				     "28 /etc/file\n";
	char names[256];

	(void)state;
	(void)snprintf(names, sizeof names, "22 /srv/work\n%s", others);
	expect(table, 20, "/home/u/work", names);
	(void)snprintf(names, sizeof names, "20 /home/u/work\n%s", others);
	expect(table, 22, "/srv/work", names);
	/* By the mount of the folder itself all others are found, but its own name is not. */
	expect(table, 24, "/mnt/work",
	       "20 /home/u/work\n22 /srv/work\n23 /mnt/part of\\it\n27 /mnt/gone\n28 /etc/file\n");
}

static void a_folder_that_no_other_mount_shows_has_no_other_name(void **state)
{
	(void)state;
	expect(table, 20, "/home/other", "");
	expect(table, 26, "/mnt/other", "");
	expect(table, 20, "/home/u/wor", "22 /srv/wor\n");
}

static void what_is_mounted_in_the_folder_has_its_names_too(void **state)
{
	static const char text[] = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
				   "21 20 8:2 / /data rw - ext4 /dev/sdb1 rw\n"
				   "22 20 8:2 /set /w/set rw - ext4 /dev/sdb1 rw\n"
				   "23 20 0:5 / /proc rw - proc proc rw\n"
				   "24 20 0:5 / /w/proc rw - proc proc rw\n"
				   "25 20 8:1 /usr /w/usr ro,nosuid - ext4 /dev/sda1 rw\n"
				   "26 20 8:1 /opt /w/opt rw,nosuid opt:1 - ext4 /dev/sda1 rw\n";

	(void)state;
	expect(text, 20, "/w", "21 /data/set\n22 /w/set\n20 /opt\n26 /w/opt\n");
}

static void expect_second(const char *text, uint64_t id, const char *folder, const char *names)
{
	struct names found = { .text = "" };
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);

	assert_true(kh_mounts_parse(kh_slice_str(text), &mounts));
	assert_true(kh_mounts_each_second_name(&mounts, id, folder, put, &found));
	assert_string_equal(found.text, names);
}

static void a_second_name_can_be_written_to_and_is_not_the_folders_own(void **state)
{
	/* /w/a is mounted onto itself, /w/b shows what is in /w/a, and /w/x and /y are one. */
	static const char text[] = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
				   "21 20 8:1 /w/a /w/a rw - ext4 /dev/sda1 rw\n"
				   "22 20 8:1 /w/a /w/b rw - ext4 /dev/sda1 rw\n"
				   "23 20 8:2 /set /w/x rw - ext4 /dev/sdb1 rw\n"
				   "24 20 8:2 / /y rw - ext4 /dev/sdb1 rw\n"
				   "25 20 8:1 / /all ro - ext4 /dev/sda1 rw\n"
				   "26 20 8:1 /v /v rw - ext4 /dev/sda1 rw\n"
				   "27 20 8:1 /v /v/in rw - ext4 /dev/sda1 rw\n";

	(void)state;
	expect_second(text, 20, "/w", "22 /w/b\n22 /w/b\n20 /w/a\n21 /w/a\n24 /y/set\n");
	expect_second(text, 20, "/other", "");
	expect_second(text, 26, "/v", "27 /v/in\n20 /v\n26 /v\n");
	expect_second(text, 24, "/y/other", "");
	expect_second(text, 25, "/all/other", "20 /other\n");
}

static void the_caller_can_stop(void **state)
{
	struct names found = { .stop_at = "/srv/work" };
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);

	(void)state;
	assert_true(kh_mounts_parse(kh_slice_str(table), &mounts));
	assert_false(kh_mounts_each_name(&mounts, 20, "/home/u/work", put, &found));
	assert_string_equal(found.text, "22 /srv/work\n");
}

static void a_folder_of_which_the_table_says_nothing_is_an_error(void **state)
{
	struct names found = { .text = "" };
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);

	(void)state;
	assert_true(kh_mounts_parse(kh_slice_str(table), &mounts));
	assert_false(kh_mounts_each_name(&mounts, 99, "/home/u/work", put, &found));
	assert_false(kh_mounts_each_name(&mounts, 22, "/home/u/work", put, &found));
}

static void what_is_mounted_in_a_folder_is_known(void **state)
{
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);

	(void)state;
	assert_true(kh_mounts_parse(kh_slice_str(table), &mounts));
	assert_true(kh_mounts_has_below(&mounts, "/mnt"));
	assert_true(kh_mounts_has_below(&mounts, "/"));
	assert_false(kh_mounts_has_below(&mounts, "/mnt/work"));
	assert_false(kh_mounts_has_below(&mounts, "/mn"));
}

static void a_table_that_is_cut_short_or_not_understood_is_an_error(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"20 1 8:1 / / rw - ext4 /dev/sda1 rw",
		"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n21 20 8:1 / /x rw - ext4",
		"20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\n",
		"20 1 8:1 / / rw shared:1\n",
		"20 1 8:1 / /\n",
		"x 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
		"20 1 8 / / rw - ext4 /dev/sda1 rw\n",
		"20 1 8:1 / x rw - ext4 /dev/sda1 rw\n",
		"20 1 8:99999999999999999999 / / rw - ext4 /dev/sda1 rw\n",
		"20 1 8:1  / rw - ext4 /dev/sda1 rw\n",
	};
	struct kh_mounts mounts;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (kh_mounts_parse(kh_slice_str(bad[i]), &mounts))
			fail_msg("it was understood: %s", bad[i]);
	assert_false(kh_mounts_parse(kh_slice_of("20 1 8:1 /\0 / rw - x y z\n", 25), &mounts));
}

static void escapes_are_undone_once_and_others_stay(void **state)
{
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);

	(void)state;
	assert_true(kh_mounts_parse(
		KH_SLICE("20 1 8:1 /a\\012b /\\134040\\000\\9\\04 rw - ext4 x rw\n"), &mounts));
	assert_string_equal(mounts.list[0].root, "/a\nb");
	assert_string_equal(mounts.list[0].point, "/\\040\\000\\9\\04");
}

static void the_own_table_has_the_mount_of_each_folder(void **state)
{
	struct names found = { .text = "" };
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini);
	uint64_t id;

	(void)state;
	kh_auto_close int fd = kh_file_hold("/tmp");
	assert_true(fd >= 0 && kh_mounts_id(fd, &id));
	assert_true(kh_mounts_read(&mounts, NULL));
	assert_true(kh_mounts_each_name(&mounts, id, "/tmp", put, &found));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mount_of_a_folder_above_it_or_in_it_gives_a_name),
		cmocka_unit_test(a_folder_that_no_other_mount_shows_has_no_other_name),
		cmocka_unit_test(what_is_mounted_in_the_folder_has_its_names_too),
		cmocka_unit_test(a_second_name_can_be_written_to_and_is_not_the_folders_own),
		cmocka_unit_test(the_caller_can_stop),
		cmocka_unit_test(a_folder_of_which_the_table_says_nothing_is_an_error),
		cmocka_unit_test(what_is_mounted_in_a_folder_is_known),
		cmocka_unit_test(a_table_that_is_cut_short_or_not_understood_is_an_error),
		cmocka_unit_test(escapes_are_undone_once_and_others_stay),
		cmocka_unit_test(the_own_table_has_the_mount_of_each_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
