/* wrap: kh_copy_content kh_review_beneath_open */
/* test_review_apply.c - one change of a review goes to the thing that was looked at, to its owner,
 * and to nothing else */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "sandbox/review_internal.h"

/* A workspace and what an agent made of its copy: "work" and "tree" below it. */
static char ground[] = "/tmp/keyhole-apply-XXXXXX";
static char id[] = "0123abcd", d[] = "d", f[] = "f";
static struct kh_review review;
static void (*while_copying)(void);

bool __real_kh_copy_content(int from, int to);
bool __wrap_kh_copy_content(int from, int to)
{
	if (while_copying)
		while_copying();
	return __real_kh_copy_content(from, to);
}

static void (*before_opening)(const char *path);

int __real_kh_review_beneath_open(int folder, const char *path, int flags);
int __wrap_kh_review_beneath_open(int folder, const char *path, int flags)
{
	if (before_opening)
		before_opening(path);
	return __real_kh_review_beneath_open(folder, path, flags);
}

static void file(const char *path, const char *text, mode_t mode)
{
	assert_true(kh_file_write(path, kh_slice_str(text), mode, NULL));
	assert_int_equal(chmod(path, mode), 0);
}

static void folder(const char *path, mode_t mode)
{
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static struct stat look(const char *path)
{
	struct stat st = { 0 };

	return lstat(path, &st) == 0 ? st : (struct stat){ 0 };
}

static void swap(const char *a, const char *b)
{
	assert_int_equal(renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), 0);
}

/* The change at this path, as it is looked at now. */
static struct kh_change change(char *path)
{
	kh_auto_free char *work = kh_strf("work/%s", path), *tree = kh_strf("tree/%s", path);
	struct kh_change c = { .path = path, .was = look(work), .is = look(tree) };

	c.kind = !c.is.st_mode	 ? KH_CHANGE_DELETED
		 : c.was.st_mode ? KH_CHANGE_CHANGED
				 : KH_CHANGE_ADDED;
	return c;
}

static void assert_changed_at_this_moment(const struct kh_change *c)
{
	struct kh_err err = KH_ERR_INIT;

	assert_false(kh_review_apply(&review, c, false, &err));
	assert_non_null(strstr(err.text, "the workspace's own changed at this moment"));
}

static void another_folder_in_its_place_keeps_its_mode_and_owner(void **state)
{
	(void)state;
	folder("work/d", 0755);
	folder("work/other", 0700);
	folder("tree/d", 0775);
	struct kh_change c = change(d);

	swap("work/d", "work/other");
	assert_changed_at_this_moment(&c);
	assert_int_equal(look("work/d").st_mode & 07777, 0700);
	swap("work/d", "work/other");
	assert_true(kh_review_apply(&review, &c, false, NULL));
	assert_int_equal(look("work/d").st_mode & 07777, 0775);
}

static void a_folder_that_got_another_owner_is_left_alone(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	folder("work/d", 0755);
	folder("tree/d", 0775);
	struct kh_change c = change(d);

	assert_int_equal(chown("work/d", 1, 1), 0);
	assert_changed_at_this_moment(&c);
	assert_int_equal(look("work/d").st_uid, 1);
	assert_int_equal(look("work/d").st_mode & 07777, 0755);
}

static void swap_files(void)
{
	swap("work/f", "work/other");
}

static void another_file_that_came_while_the_new_one_was_written_stays(void **state)
{
	(void)state;
	file("work/f", "old", 0644);
	file("work/other", "other", 0644);
	file("tree/f", "the agent's", 0644);
	struct kh_change c = change(f);

	while_copying = swap_files;
	assert_changed_at_this_moment(&c);
	assert_int_equal(look("work/f").st_size, strlen("other"));
	assert_int_equal(look("work/.keyhole-0123abcd").st_mode, 0);
	while_copying = NULL;
	swap_files();
	c = change(f);
	assert_true(kh_review_apply(&review, &c, false, NULL));
	assert_int_equal(look("work/f").st_size, strlen("the agent's"));
}

/* The workspace is user 1's, and one of its files user 2's. */
static void one_file_is_of_another_user(void)
{
	assert_int_equal(chown("work", 1, 1), 0);
	file("work/d", "user 1's", 0644);
	file("work/f", "user 2's", 0600);
	assert_int_equal(chown("work/d", 1, 1), 0);
	assert_int_equal(chown("work/f", 2, 2), 0);
}

static void assert_owner(const char *path, unsigned id_wanted)
{
	struct stat st = look(path);

	assert_int_not_equal(st.st_mode, 0);
	assert_int_equal(st.st_uid, id_wanted);
	assert_int_equal(st.st_gid, id_wanted);
}

static void a_file_of_another_user_is_not_the_agents_after_a_discard(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	one_file_is_of_another_user();
	struct kh_change mine = change(d), others = change(f);

	assert_true(kh_review_drop(&review, &mine, NULL));
	assert_true(kh_review_drop(&review, &others, NULL));
	assert_owner("tree/d", KH_SANDBOX_HOST_UID);
	assert_owner("tree/f", 2);
	assert_int_equal(look("tree/f").st_mode & 07777, 0600);
}

static void a_discard_does_not_read_the_file_that_came_in_the_place_of_another(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	one_file_is_of_another_user();
	struct kh_change mine = change(d);
	struct kh_err err = KH_ERR_INIT;

	swap("work/d", "work/f");
	assert_false(kh_review_drop(&review, &mine, &err));
	assert_non_null(strstr(err.text, "the workspace's own changed at this moment"));
	assert_int_equal(look("tree/d").st_mode, 0);
}

/* The agent has renamed it, over a file of its own or to a name of its own. */
static void a_file_of_another_user_stays_that_users_under_any_name(void **state)
{
	static char fresh[] = "fresh", own[] = "own";

	(void)state;
	if (geteuid() != 0)
		skip();
	one_file_is_of_another_user();
	file("tree/d", "user 2's", 0600);
	file("tree/fresh", "user 2's too", 0600);
	file("tree/own", "the agent's", 0600);
	assert_int_equal(chown("tree/d", 2, 2), 0);
	assert_int_equal(chown("tree/fresh", 2, 2), 0);
	assert_int_equal(chown("tree/own", KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_GID), 0);
	struct kh_change over = change(d), added = change(fresh), agents = change(own);

	assert_true(kh_review_apply(&review, &over, false, NULL));
	assert_true(kh_review_apply(&review, &added, false, NULL));
	assert_true(kh_review_apply(&review, &agents, false, NULL));
	assert_owner("work/d", 2);
	assert_owner("work/fresh", 2);
	assert_owner("work/own", 1);
}

static void swap_when_d_is_opened(const char *path)
{
	if (strcmp(path, "d") == 0)
		swap("work/d", "work/f");
}

static void a_copy_does_not_read_the_file_that_came_in_the_place_of_another(void **state)
{
	struct kh_base_writer base = { .file = tmpfile() };
	struct kh_review_owner owner = { .change = true };
	uint64_t left_out = 0;

	(void)state;
	if (geteuid() != 0)
		skip();
	one_file_is_of_another_user();
	owner.workspace = look("work");
	kh_auto_close int tree = open("tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	before_opening = swap_when_d_is_opened;
	assert_non_null(base.file);
	assert_true(kh_review_take(review.top, tree, &base, &owner, &left_out, NULL));
	before_opening = NULL;
	assert_true(kh_base_finish(&base, NULL));
	assert_int_equal(left_out, 1);
	assert_int_equal(look("tree/d").st_mode, 0);
}

/* What a walk meets, each followed by a blank. The folder d is exchanged when it was told of. */
static char met[64];
static int unreadable;

static enum kh_walk_order meet(void *arg, const char *path, const struct stat *st)
{
	(void)arg;
	(void)st;
	snprintf(met + strlen(met), sizeof(met) - strlen(met), "%s ", path);
	if (strcmp(path, "d") == 0)
		swap("work/d", "tree/other");
	return KH_WALK_ON;
}

static enum kh_walk_order can_not(void *arg, const char *path, int sys)
{
	(void)arg;
	assert_string_equal(path, "d");
	assert_int_equal(sys, ESTALE);
	unreadable++;
	return KH_WALK_ON;
}

static void a_walk_enters_no_folder_that_came_in_the_place_of_another(void **state)
{
	struct kh_tree_walker walker = { .entry = meet, .unreadable = can_not };

	(void)state;
	folder("work/d", 0755);
	folder("work/e", 0755);
	folder("tree/other", 0755);
	file("work/d/mine", "", 0644);
	file("work/e/mine", "", 0644);
	file("tree/other/secret", "", 0644);
	met[0] = '\0';
	unreadable = 0;
	assert_true(kh_tree_walk(&walker, review.top, "", NULL));
	assert_string_equal(met, "d e e/mine ");
	assert_int_equal(unreadable, 1);
}

/* Both ways: 64 MiB of which 1 byte is there. */
static void holes_stay_holes(void **state)
{
	enum { SIZE = 64 * 1024 * 1024, MOST_BLOCKS = 1024 * 1024 / 512 };
	static const char *const files[] = { "tree/d", "work/f" };
	char byte = 'x';

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		kh_auto_close int fd = open(files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		assert_int_equal(ftruncate(fd, SIZE), 0);
		assert_int_equal(pwrite(fd, &byte, 1, SIZE / 2), 1);
	}
	struct kh_change agents = change(d), ours = change(f);

	assert_true(kh_review_apply(&review, &agents, false, NULL));
	assert_true(kh_review_drop(&review, &ours, NULL));
	for (size_t i = 0; i < 2; i++) {
		kh_auto_close int fd = open(i ? "tree/f" : "work/d", O_RDONLY | O_CLOEXEC);
		struct stat st;

		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, SIZE);
		assert_in_range(st.st_blocks, 1, MOST_BLOCKS);
		byte = 0;
		assert_int_equal(pread(fd, &byte, 1, SIZE / 2), 1);
		assert_int_equal(byte, 'x');
	}
}

static int set_up(void **state)
{
	static char home[sizeof(ground)], tree[sizeof(ground) + 8], work[sizeof(ground) + 8];

	(void)state;
	snprintf(home, sizeof(home), "%s", "/tmp/keyhole-apply-XXXXXX");
	if (!mkdtemp(home) || chdir(home) != 0 || mkdir("work", 0755) != 0 ||
	    mkdir("tree", 0755) != 0)
		return -1;
	memcpy(ground, home, sizeof(ground));
	snprintf(work, sizeof(work), "%s/work", home);
	snprintf(tree, sizeof(tree), "%s/tree", home);
	review = (struct kh_review){ .id = id,
				     .path = home,
				     .workspace = work,
				     .folder = tree,
				     .lock = -1,
				     .top = open("work", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	while_copying = NULL;
	return review.top < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(review.top);
	return chdir("/") == 0 && kh_tree_remove(AT_FDCWD, ground, NULL) ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(another_folder_in_its_place_keeps_its_mode_and_owner),
		TEST(a_folder_that_got_another_owner_is_left_alone),
		TEST(another_file_that_came_while_the_new_one_was_written_stays),
		TEST(a_file_of_another_user_is_not_the_agents_after_a_discard),
		TEST(a_discard_does_not_read_the_file_that_came_in_the_place_of_another),
		TEST(a_file_of_another_user_stays_that_users_under_any_name),
		TEST(a_copy_does_not_read_the_file_that_came_in_the_place_of_another),
		TEST(a_walk_enters_no_folder_that_came_in_the_place_of_another),
		TEST(holes_stay_holes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
