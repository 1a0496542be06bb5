/* test_walk.c - a walk meets every folder, and no number of folders or length of their paths takes
 * all memory */
#include "unit.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "sandbox/folder_queue.h"
#include "sandbox/walk.h"

enum { MANY = 2000, DEEP = 14, NAME = 250 };

static char tree[] = "/tmp/keyhole-walk-XXXXXX";

static bool note_path(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	(void)err;
	return kh_buf_printf(arg, "%s%s ", folder->path + strlen(tree), folder->top ? "." : "");
}

static void folders_come_level_by_level_with_their_whole_paths(void **state)
{
	struct kh_buf seen kh_cleanup(kh_buf_fini);
	struct kh_walk walk = { .visit = note_path, .arg = &seen };
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	kh_buf_init(&seen, 4096);
	assert_int_equal(chdir(tree), 0);
	assert_true(kh_file_mkdirs("one/two/three", 0700, NULL));
	assert_true(kh_walk_run(&walk, tree, &err));
	assert_string_equal(kh_buf_cstr(&seen), ". /one /one/two /one/two/three ");
	assert_null(walk.missed);
	char from_here[] = "one/two";
	char *const from[] = { from_here };
	walk.from = from;
	walk.n_from = 1;
	kh_buf_truncate(&seen, 0);
	assert_true(kh_walk_run(&walk, tree, &err));
	assert_string_equal(kh_buf_cstr(&seen), "/one/two /one/two/three ");
	assert_int_equal(chdir("one/two"), 0);
	assert_int_equal(rmdir("three"), 0);
	assert_int_equal(chdir(tree), 0);
	assert_int_equal(rmdir("one/two"), 0);
	assert_int_equal(rmdir("one"), 0);
}

/* `MANY` folders whose paths have some 3,600 bytes. */
static void make_many(void)
{
	char name[NAME + 1];

	memset(name, 'd', NAME);
	name[NAME] = '\0';
	assert_int_equal(chdir(tree), 0);
	for (int i = 0; i < DEEP; i++) {
		assert_int_equal(mkdir(name, 0700), 0);
		assert_int_equal(chdir(name), 0);
	}
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "%04d", i);
		assert_int_equal(mkdir(name, 0700), 0);
	}
}

struct peak {
	size_t first, most;
	unsigned visits;
};

static bool note_memory(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct peak *peak = arg;
	struct mallinfo2 now = mallinfo2();
	size_t bytes = now.uordblks + now.hblkhd;

	(void)folder;
	(void)err;
	if (peak->visits++ == 0)
		peak->first = bytes;
	if (bytes > peak->most)
		peak->most = bytes;
	return true;
}

static void a_folder_that_waits_takes_its_name_and_not_its_path(void **state)
{
	struct peak peak = { 0 };
	struct kh_walk walk = { .visit = note_memory, .arg = &peak };
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	assert_true(kh_walk_run(&walk, tree, &err));
	assert_null(walk.missed);
	assert_int_equal(peak.visits, 1 + DEEP + MANY);
	assert_true(peak.most - peak.first < (size_t)MANY * 512);
}

static void more_folders_than_memory_is_given_are_said_to_be_missed(void **state)
{
	struct peak peak = { 0 };
	struct kh_walk walk = { .visit = note_memory, .arg = &peak, .most_bytes = 64 * 1024 };
	struct kh_err err = KH_ERR_INIT;

	(void)state;
	assert_true(kh_walk_run(&walk, tree, &err));
	assert_non_null(walk.missed);
	assert_non_null(strstr(walk.missed, "too much memory"));
	assert_true(peak.visits < 1 + DEEP + MANY);
	free(walk.missed);
	/* What has been visited is not kept. */
	walk.missed = NULL;
	walk.most_bytes = 1024 * 1024;
	assert_true(kh_walk_run(&walk, tree, &err));
	assert_null(walk.missed);
}

static void what_was_taken_is_kept_while_folders_below_it_are(void **state)
{
	struct kh_folder_queue queue = { 0 };
	struct kh_queued_folder *top, *below;

	(void)state;
	assert_null(kh_folder_queue_take(&queue));
	assert_non_null(kh_folder_queue_add(&queue, NULL, ""));
	top = kh_folder_queue_take(&queue);
	assert_non_null(kh_folder_queue_add(&queue, top, "a"));
	assert_non_null(kh_folder_queue_add(&queue, top, "b"));
	kh_folder_queue_release(&queue, top);
	below = kh_folder_queue_take(&queue);
	assert_non_null(kh_folder_queue_add(&queue, below, "c"));
	kh_folder_queue_release(&queue, below);
	kh_folder_queue_release(&queue, kh_folder_queue_take(&queue));
	below = kh_folder_queue_take(&queue);
	kh_auto_free char *path = kh_folder_queue_path(below);
	assert_string_equal(path, "a/c");
	assert_int_equal(below->depth, 2);
	kh_folder_queue_release(&queue, below);
	assert_int_equal(queue.bytes, 0);
	assert_non_null(kh_folder_queue_add(&queue, NULL, "/x"));
	kh_folder_queue_fini(&queue);
	assert_int_equal(queue.bytes, 0);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(tree) ? 0 : -1;
}

static int tear_down(void **state)
{
	char name[NAME + 1];

	(void)state;
	memset(name, 'd', NAME);
	name[NAME] = '\0';
	/* Where make_many has left us: up again, and what was below goes. */
	for (int i = 0; i < MANY; i++) {
		char made[16];
		snprintf(made, sizeof(made), "%04d", i);
		(void)rmdir(made);
	}
	for (int i = 0; i < DEEP && chdir("..") == 0; i++)
		(void)rmdir(name);
	return chdir("/") == 0 && rmdir(tree) == 0 ? 0 : -1;
}

static int many(void **state)
{
	(void)state;
	make_many();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_taken_is_kept_while_folders_below_it_are),
		cmocka_unit_test(folders_come_level_by_level_with_their_whole_paths),
		cmocka_unit_test_setup(a_folder_that_waits_takes_its_name_and_not_its_path, many),
		cmocka_unit_test(more_folders_than_memory_is_given_are_said_to_be_missed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
