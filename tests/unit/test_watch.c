/* test_watch.c - which changes have the files of credentials read again, and how often */
/* wrap: kh_clock_mono_ms inotify_add_watch stat */
#include "config_text.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

/* Time goes on where a test says so. */
static uint64_t mono_ms = 1000;

uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return mono_ms;
}

static char folder[64];
/* A folder of which this user may know the names, but not read them (mode 0711); "": none. */
static char unreadable[256];
static unsigned n_watches, n_stats;

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	if (strcmp(path, unreadable) == 0) {
		errno = EACCES;
		return -1;
	}
	/* What others do in /tmp would be seen. */
	if (strncmp(path, folder, strlen(folder)) != 0) {
		errno = ENOENT;
		return -1;
	}
	n_watches++;
	return __real_inotify_add_watch(fd, path, mask);
}

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
	n_stats++;
	return __real_stat(path, st);
}

static struct kh_config *config;
static struct kh_vault vault;

/* A path in the test's folder; good until the eighth one after it. */
static const char *in(const char *name)
{
	static char paths[8][256];
	static unsigned at;
	char *path = paths[at++ % 8];
	(void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void make_folder(const char *name)
{
	assert_int_equal(mkdir(in(name), 0700), 0);
}

static void put(const char *name, const char *value)
{
	FILE *file = fopen(in(name), "we");
	assert_non_null(file);
	assert_true(fputs(value, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void move(const char *from, const char *to)
{
	assert_int_equal(rename(in(from), in(to)), 0);
}

static void make_link(const char *to, const char *name)
{
	assert_int_equal(symlink(to, in(name)), 0);
}

/* The credential's value is in this file. */
static void open_vault(const char *file)
{
	kh_auto_free char *yaml =
		kh_strf("version: 1\n"
			"listen: [ { unix: d/s, tenant: acme } ]\n"
			"credentials: { main: { value: { file: %s }, header: { x-api-key: "
			"\"{}\" }, hosts: [ api.test ] } }\n"
			"tenants: { acme: { rules: [ { allow: \"https://api.test\", "
			"credential: main } ] } }\n",
			in(file));
	config = config_in(folder, yaml);
	assert_true(kh_vault_open(&vault, config, false, NULL));
}

static bool is_value(const char *value)
{
	const struct kh_secret *secret = vault.slots[0].holdings[0].raw.secret;
	return secret && kh_secret_equals(secret, kh_slice_str(value));
}

/* A turn after everything that is put off is due. */
static void turn(void)
{
	mono_ms += 10 * KH_LIMIT_FILES_UNWATCHED_MS;
	kh_vault_turn(&vault);
}

static int set_up(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof(folder), "/tmp/keyhole-test-watch-XXXXXX");
	assert_non_null(mkdtemp(folder));
	make_folder("a");
	make_folder("a/b");
	make_folder("a/b/c");
	put("a/b/c/key", "the-first-value");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	unreadable[0] = '\0';
	if (vault.slots)
		kh_vault_close(&vault);
	kh_config_free(config);
	config = NULL;
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_second(const char *top)
{
	kh_auto_free char *b = kh_strf("%s/b", top), *c = kh_strf("%s/b/c", top),
			  *key = kh_strf("%s/b/c/key", top);
	make_folder(top);
	make_folder(b);
	make_folder(c);
	put(key, "the-second-value");
}

static void a_folder_far_above_the_file_is_replaced(void **state)
{
	(void)state;
	open_vault("a/b/c/key");
	assert_true(is_value("the-first-value"));
	make_second("new");
	move("a", "old");
	move("new", "a");
	turn();
	assert_true(is_value("the-second-value"));
	/* What is in force now is watched as well, and what was is not. */
	put("a/b/c/key", "the-third-value");
	turn();
	assert_true(is_value("the-third-value"));
	turn();
	n_watches = 0;
	put("old/b/c/key", "the-first-value");
	turn();
	assert_int_equal(n_watches, 0);
	assert_true(is_value("the-third-value"));
}

static void a_folder_above_comes_later_than_the_credential(void **state)
{
	(void)state;
	open_vault("later/b/c/key");
	assert_null(vault.slots[0].holdings[0].raw.secret);
	make_second("new");
	move("new", "later");
	turn();
	assert_true(is_value("the-second-value"));
}

static void a_link_in_a_links_target_is_turned(void **state)
{
	(void)state;
	make_second("new");
	make_link("a", "current");
	make_link("current/b", "data"); /* data → current → a */
	make_link("data/c/../c/key", "key");
	open_vault("key");
	assert_true(is_value("the-first-value"));
	make_link("new", "next");
	move("next", "current");
	turn();
	assert_true(is_value("the-second-value"));
	/* and where no link is turned, but a folder behind two of them is replaced */
	make_second("third");
	put("third/b/c/key", "the-third-value");
	move("new", "old");
	move("third", "new");
	turn();
	assert_true(is_value("the-third-value"));
}

/* As a file that is mounted alone is written to from outside. */
static void a_file_is_written_by_another_of_its_names(void **state)
{
	(void)state;
	make_folder("other");
	assert_int_equal(link(in("a/b/c/key"), in("other/key")), 0);
	open_vault("a/b/c/key");
	put("other/key", "the-second-value");
	turn();
	assert_true(is_value("the-second-value"));
}

static void what_happens_beside_the_way_is_no_change(void **state)
{
	(void)state;
	open_vault("a/b/c/key");
	turn();
	n_watches = 0;
	put("beside", "x");
	put("a/b/beside", "x");
	put("a/b/c/beside", "x");
	turn();
	assert_int_equal(n_watches, 0);
}

static void a_file_behind_a_folder_that_cant_be_watched_is_looked_at(void **state)
{
	(void)state;
	(void)snprintf(unreadable, sizeof(unreadable), "%s", in("a/b"));
	make_link("c", "a/b/data");
	open_vault("a/b/data/key");
	kh_vault_turn(&vault);
	uint64_t due = kh_vault_deadline(&vault);
	assert_true(due > mono_ms && due <= mono_ms + KH_LIMIT_FILES_UNWATCHED_MS);
	make_folder("a/b/new");
	put("a/b/new/key", "the-second-value");
	make_link("new", "a/b/next");
	move("a/b/next", "a/b/data");
	kh_vault_turn(&vault);
	assert_true(is_value("the-first-value"));
	mono_ms = due;
	kh_vault_turn(&vault);
	assert_true(is_value("the-second-value"));
	/* A second in which nothing happens costs one look at the file, and no reading. */
	n_watches = n_stats = 0;
	mono_ms += KH_LIMIT_FILES_UNWATCHED_MS;
	kh_vault_turn(&vault);
	kh_vault_turn(&vault);
	assert_int_equal(n_stats, 1);
	assert_int_equal(n_watches, 0);
}

static void a_path_of_links_without_end_is_looked_at_too(void **state)
{
	(void)state;
	make_link("two", "one");
	make_link("one", "two");
	open_vault("one");
	put("new", "the-second-value");
	move("new", "one");
	turn();
	assert_true(is_value("the-second-value"));
}

/* Somebody writes each millisecond for a second. Counts the times the keeper would wake, and those
 * it reads the files, after the first event of all. */
static void write_for_a_second(const char *name, unsigned *wakes, unsigned *looks)
{
	const uint64_t end = mono_ms + 1000;
	struct pollfd fd = { .fd = kh_vault_fd(&vault), .events = POLLIN };
	for (*wakes = *looks = 0; mono_ms < end; mono_ms++) {
		put(name, "the-second-value");
		uint64_t due = kh_watch_deadline(vault.watch);
		*wakes += poll(&fd, 1, 0) > 0 || (due && due <= mono_ms);
		/* There may be a turn for other reasons. */
		*looks += kh_watch_look(vault.watch);
	}
}

static void events_without_end_give_four_looks_a_second(void **state)
{
	(void)state;
	unsigned wakes, looks;
	open_vault("a/b/c/key");
	turn();
	write_for_a_second("a/b/c/key", &wakes, &looks);
	assert_in_range(wakes, 4, 5);
	assert_in_range(looks, 4, 5);
	write_for_a_second("a/b/c/beside", &wakes, &looks);
	assert_in_range(wakes, 1, 5);
	assert_in_range(looks, 0, 1);
}

static void the_first_event_is_looked_at_right_away_and_the_last_one_too(void **state)
{
	(void)state;
	open_vault("a/b/c/key");
	turn();
	turn();
	put("a/b/c/key", "the-second-value");
	kh_vault_turn(&vault);
	assert_true(is_value("the-second-value"));
	put("a/b/c/key", "the-third-value");
	kh_vault_turn(&vault);
	assert_true(is_value("the-second-value"));
	uint64_t due = kh_vault_deadline(&vault);
	assert_true(due > mono_ms && due <= mono_ms + KH_LIMIT_FILES_LOOK_MS);
	mono_ms = due;
	kh_vault_turn(&vault);
	assert_true(is_value("the-third-value"));
	/* Then events are waited for again. */
	mono_ms += KH_LIMIT_FILES_LOOK_MS;
	kh_vault_turn(&vault);
	assert_int_equal(kh_watch_deadline(vault.watch), 0);
	put("a/b/c/key", "the-fourth-value");
	struct pollfd fd = { .fd = kh_vault_fd(&vault), .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 0), 1);
}

/* --- the way of a path ------------------------------------------------------------------------ */

static char said[2048];

static bool say(void *arg, const char *at, const char *name)
{
	size_t len = strlen(said);
	(void)arg;
	if (strncmp(at, folder, strlen(folder)) == 0)
		(void)snprintf(said + len, sizeof(said) - len, "%s:%s ", at + strlen(folder),
			       name ? name : "itself");
	return true;
}

static void each_name_is_told_once_it_decides(void **state)
{
	(void)state;
	make_link("../c/./key", "a/b/link");
	make_folder("a/c");
	put("a/c/key", "the-second-value");
	make_link(in("a"), "whole");
	said[0] = '\0';
	assert_true(kh_watch_way(in("whole//b/link"), say, NULL));
	assert_string_equal(said, ":whole :a /a:b /a/b:link /a:c /a/c:key /a/c/key:itself ");
	said[0] = '\0';
	assert_true(kh_watch_way(in("a/none/key"), say, NULL));
	assert_string_equal(said, ":a /a:none ");
	make_link("round", "round");
	assert_false(kh_watch_way(in("round"), say, NULL));
	assert_false(kh_watch_way("a/b", say, NULL));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_folder_far_above_the_file_is_replaced),
		TEST(a_folder_above_comes_later_than_the_credential),
		TEST(a_link_in_a_links_target_is_turned),
		TEST(a_file_is_written_by_another_of_its_names),
		TEST(what_happens_beside_the_way_is_no_change),
		TEST(a_file_behind_a_folder_that_cant_be_watched_is_looked_at),
		TEST(a_path_of_links_without_end_is_looked_at_too),
		TEST(events_without_end_give_four_looks_a_second),
		TEST(the_first_event_is_looked_at_right_away_and_the_last_one_too),
		TEST(each_name_is_told_once_it_decides),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
