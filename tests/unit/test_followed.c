/* test_followed.c - links on the way to a file, of root and of others */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

enum { THEIRS = 4242, OTHERS = 4343 };

static char folder[64];

static int set_up(void **state)
{
	(void)state;
	memcpy(folder, "/tmp/kh-followed-XXXXXX", sizeof("/tmp/kh-followed-XXXXXX"));
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	static const char *const made[] = { "key", "theirs/key", "theirs/way/key", "link",
					    "again" };
	(void)state;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		(void)unlink(made[i]);
	(void)unlink("theirs/way");
	(void)rmdir("theirs");
	return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

/* Only root can give files to others. */
static void need_root(void)
{
	if (geteuid() != 0) {
		print_message("not as root: no file can be given to another user\n");
		skip();
	}
}

static void put(const char *path, uid_t owner)
{
	assert_true(kh_file_write(path, KH_SLICE("a-value-of-it"), 0600, NULL));
	assert_int_equal(chown(path, owner, (gid_t)-1), 0);
}

static void make_link(const char *to, const char *path, uid_t owner)
{
	assert_int_equal(symlink(to, path), 0);
	assert_int_equal(lchown(path, owner, (gid_t)-1), 0);
}

static int try_open(const char *path)
{
	int fd = kh_file_open_followed(path, O_RDONLY | O_NONBLOCK);
	int why = fd < 0 ? errno : 0;
	if (fd >= 0)
		(void)close(fd);
	return why;
}

static void another_users_link_gets_none_of_our_files(void **state)
{
	kh_auto_free char *ours = kh_strf("%s/key", folder);
	(void)state;
	need_root();
	put("key", 0);
	assert_int_equal(mkdir("theirs", 0700), 0);
	assert_int_equal(chown("theirs", THEIRS, THEIRS), 0);
	make_link(ours, "theirs/key", THEIRS);
	assert_int_equal(try_open("theirs/key"), ELOOP);
	assert_int_equal(unlink("theirs/key"), 0);
	make_link("../key", "theirs/key", THEIRS);
	assert_int_equal(try_open("theirs/key"), ELOOP);
	/* A folder on the way. */
	make_link(folder, "theirs/way", THEIRS);
	assert_int_equal(try_open("theirs/way/key"), ELOOP);
	/* By a link of root's, by another one of theirs, and by a file of a third user. */
	make_link("theirs/key", "link", 0);
	assert_int_equal(try_open("link"), ELOOP);
	assert_int_equal(chown("key", OTHERS, OTHERS), 0);
	assert_int_equal(try_open("theirs/key"), ELOOP);
}

/* Another tenant's container may have the same user. */
static void a_link_of_the_files_owner_leads_to_no_other_folder(void **state)
{
	kh_auto_free char *absolute = kh_strf("%s/key", folder);
	(void)state;
	need_root();
	put("key", THEIRS);
	assert_int_equal(mkdir("theirs", 0700), 0);
	assert_int_equal(chown("theirs", THEIRS, THEIRS), 0);
	make_link("../key", "theirs/key", THEIRS);
	assert_int_equal(try_open("theirs/key"), ELOOP);
	assert_int_equal(unlink("theirs/key"), 0);
	make_link(absolute, "theirs/key", THEIRS);
	assert_int_equal(try_open("theirs/key"), ELOOP);
	/* By another link, or a folder, of the same user. */
	make_link("..", "theirs/way", THEIRS);
	assert_int_equal(try_open("theirs/way/key"), ELOOP);
	assert_int_equal(unlink("theirs/key"), 0);
	make_link("way/key", "theirs/key", THEIRS);
	assert_int_equal(try_open("theirs/key"), ELOOP);
}

static void a_link_into_a_folder_beside_it_is_followed(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(mkdir("theirs", 0700), 0);
	assert_int_equal(chown("theirs", THEIRS, THEIRS), 0);
	put("theirs/key", THEIRS);
	make_link("theirs", "link", THEIRS);
	make_link("link/key", "again", THEIRS);
	assert_int_equal(try_open("link/key"), 0);
	assert_int_equal(try_open("again"), 0);
	/* Root's file there is not for him. */
	assert_int_equal(chown("theirs/key", 0, 0), 0);
	assert_int_equal(try_open("again"), ELOOP);
}

static void another_users_link_leads_to_no_descriptor_of_ours(void **state)
{
	(void)state;
	need_root();
	put("key", THEIRS);
	kh_auto_close int fd = open("key", O_RDONLY | O_CLOEXEC);
	kh_auto_free char *held = kh_strf("/proc/self/fd/%d", fd);
	make_link(held, "link", THEIRS);
	assert_int_equal(try_open(held), 0);
	assert_int_equal(try_open("link"), ELOOP);
}

static void a_link_of_roots_or_of_the_files_owner_is_followed(void **state)
{
	kh_auto_free char *absolute = kh_strf("%s/link", folder);
	(void)state;
	need_root();
	put("key", THEIRS);
	make_link("./key", "again", THEIRS);
	make_link("again", "link", 0);
	assert_int_equal(try_open("again"), 0);
	assert_int_equal(try_open("link"), 0);
	assert_int_equal(try_open(absolute), 0);
}

static void what_is_not_there_or_leads_in_a_circle_is_said_so(void **state)
{
	(void)state;
	assert_int_equal(try_open("key"), ENOENT);
	assert_int_equal(symlink("again", "link"), 0);
	assert_int_equal(try_open("link"), ENOENT);
	assert_int_equal(symlink("link", "again"), 0);
	assert_int_equal(try_open("link"), ELOOP);
}

static void a_pipe_without_a_path_is_opened_by_its_descriptor(void **state)
{
	int ends[2];
	(void)state;
	assert_int_equal(pipe(ends), 0);
	kh_auto_free char *path = kh_strf("/dev/fd/%d", ends[0]);
	assert_int_equal(try_open(path), 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

int main(void)
{
#define OF(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		OF(another_users_link_gets_none_of_our_files),
		OF(a_link_of_the_files_owner_leads_to_no_other_folder),
		OF(a_link_into_a_folder_beside_it_is_followed),
		OF(another_users_link_leads_to_no_descriptor_of_ours),
		OF(a_link_of_roots_or_of_the_files_owner_is_followed),
		OF(what_is_not_there_or_leads_in_a_circle_is_said_so),
		OF(a_pipe_without_a_path_is_opened_by_its_descriptor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
