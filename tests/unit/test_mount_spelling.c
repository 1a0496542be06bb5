/* test_mount_spelling.c - a mount on a name holds for every spelling of it, or it is refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <fcntl.h>

#include "sandbox/sandbox_internal.h"
#include "sandbox/mount_spelling.h"

/* ---- file systems, as the kernel shows them ---- */

enum folding {
	EXACT,	/* each spelling is a name of its own */
	KERNEL, /* the kernel compares without case: one dentry for all spellings */
	SERVER, /* the server does, and the kernel has a dentry for each spelling, or renames one */
};

static struct {
	enum folding folding;
	const char *short_name; /* of the first entry */
	bool drops_dots, has_streams;
	const char *entries[4]; /* what a list of the folder has */
	unsigned lookups;
} world;

static bool is_entry(const char *entry, const char *name)
{
	size_t len = strlen(name);
	if (world.folding == EXACT ? strcmp(entry, name) == 0 : strcasecmp(entry, name) == 0)
		return true;
	if (entry == world.entries[0] && world.short_name && strcmp(name, world.short_name) == 0)
		return true;
	if (strncmp(entry, name, strlen(entry)) != 0)
		return false;
	const char *rest = name + strlen(entry);
	return len > strlen(entry) && ((world.drops_dots && strcmp(rest, ".") == 0) ||
				       (world.has_streams && strcmp(rest, "::$DATA") == 0));
}

static int fake_reach(int folder, const char *name, struct kh_mount_spelling_seen *seen)
{
	(void)folder;
	world.lookups++;
	memset(seen, 0, sizeof(*seen));
	for (size_t i = 0; i < 4 && world.entries[i]; i++) {
		if (!is_entry(world.entries[i], name))
			continue;
		seen->ino = i + 1;
		snprintf(seen->called, sizeof(seen->called), "%s",
			 world.folding == KERNEL ? world.entries[i] : name);
		return open("/dev/null", O_PATH | O_CLOEXEC);
	}
	return -1;
}

static bool fake_lists(int folder, const char *name)
{
	(void)folder;
	for (size_t i = 0; i < 4 && world.entries[i]; i++)
		if (strcmp(world.entries[i], name) == 0)
			return true;
	return false;
}

static const struct kh_mount_spelling_look fake = { fake_reach, fake_lists };

static void be(enum folding folding, const char *entry)
{
	memset(&world, 0, sizeof(world));
	world.folding = folding;
	world.entries[0] = entry;
}

static void expect(const char *name, const char *wanted)
{
	char other[KH_MOUNT_SPELLING_BYTES] = "";
	bool past = kh_mount_spelling_leads_past(&fake, -1, name, other);
	assert_true(past == (wanted != NULL));
	if (wanted)
		assert_string_equal(other, wanted);
}

/* ---- one name ---- */

static void test_a_mount_holds_where_each_spelling_is_a_name_of_its_own(void **state)
{
	(void)state;
	be(EXACT, ".git");
	expect(".git", NULL);
	assert_true(world.lookups <= 5);
}

static void test_a_mount_does_not_hold_where_the_server_ignores_case(void **state)
{
	(void)state;
	be(SERVER, ".git");
	expect(".git", ".GIT");
	be(SERVER, "Makefile.Local");
	expect("Makefile.Local", "mAKEFILE.lOCAL");
}

static void test_a_mount_holds_where_the_kernel_ignores_case(void **state)
{
	(void)state;
	be(KERNEL, ".git");
	expect(".git", NULL);
}

static void test_two_entries_of_a_folder_are_two_names(void **state)
{
	(void)state;
	be(EXACT, ".env");
	world.entries[1] = ".ENV";
	world.entries[2] = ".env.";
	expect(".env", NULL);
}

static void test_what_windows_takes_for_the_same_name_leads_past_a_mount(void **state)
{
	(void)state;
	static const char *const shorts[][2] = {
		{ ".git", "GIT~1" },	       { ".vscode", "VSCODE~1" },
		{ ".mcp.json", "MCP~1.JSO" },  { "config.worktree", "CONFIG~1.WOR" },
		{ ".envrc", "ENVRC~1" },       { ".lefthook.yml", "LEFTHO~1.YML" },
		{ ".env.local", "ENV~1.LOC" },
	};
	for (size_t i = 0; i < sizeof(shorts) / sizeof(shorts[0]); i++) {
		be(EXACT, shorts[i][0]);
		world.short_name = shorts[i][1];
		expect(shorts[i][0], shorts[i][1]);
	}
	be(EXACT, "config");
	world.drops_dots = true;
	expect("config", "config.");
	be(EXACT, "config");
	world.has_streams = true;
	expect("config", "config::$DATA");
}

static void test_odd_names_are_looked_up_too(void **state)
{
	(void)state;
	static char longest[NAME_MAX + 1];
	memset(longest, 'a', NAME_MAX);
	be(EXACT, longest);
	expect(longest, NULL);
	be(SERVER, "0-9_");
	expect("0-9_", NULL);
	memset(longest, '.', NAME_MAX);
	be(EXACT, longest);
	expect(longest, NULL);
	be(EXACT, ".git");
	expect("absent", NULL);
}

/* ---- a view ---- */

struct folder {
	char path[64];
	struct kh_view view;
};

static void make(struct folder *f)
{
	char path[128];
	memset(f, 0, sizeof(*f));
	snprintf(f->path, sizeof(f->path), "/tmp/keyhole-spelling-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	snprintf(path, sizeof(path), "%s/sub", f->path);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/sub/.git", f->path);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void drop(struct folder *f)
{
	char path[128];
	kh_view_fini(&f->view);
	snprintf(path, sizeof(path), "%s/sub/.git", f->path);
	(void)rmdir(path);
	snprintf(path, sizeof(path), "%s/sub", f->path);
	(void)rmdir(path);
	assert_int_equal(rmdir(f->path), 0);
}

/* `kind` over sub/.git, in a tree that the sandbox has as /w. */
static bool is_refused(enum kh_mount_kind kind, const struct kh_mount_spelling_look *look,
		       struct kh_err *err)
{
	struct folder f;
	make(&f);
	kh_view_bind(&f.view, KH_MOUNT_WRITE, f.path, "/w", KH_TREE_AS_OWNER);
	kh_view_over(&f.view, kind, "/w/sub/.git", 0);
	assert_false(f.view.failed);
	*err = (struct kh_err){ 0 };
	bool ok = kh_mount_spelling_check(&f.view, look, err);
	drop(&f);
	return !ok;
}

static void test_whatever_is_mounted_in_a_tree_of_the_host_is_looked_at(void **state)
{
	(void)state;
	static const enum kh_mount_kind kinds[] = { KH_MOUNT_READ, KH_MOUNT_WRITE, KH_MOUNT_BLANK,
						    KH_MOUNT_EMPTY, KH_MOUNT_TMPFS };
	struct kh_err err;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		be(SERVER, ".git");
		assert_true(is_refused(kinds[i], &fake, &err));
		assert_int_equal(err.code, KH_ERR_CONFIG);
		assert_non_null(strstr(err.text, "/w/sub/.git: is found as .GIT too"));
		assert_non_null(
			strstr(err.text, kinds[i] == KH_MOUNT_EMPTY ? "--mask-env" : "DIR:review"));
		be(KERNEL, ".git");
		assert_false(is_refused(kinds[i], &fake, &err));
	}
}

static void test_a_name_of_the_sandboxs_own_root_is_not_looked_at(void **state)
{
	(void)state;
	struct folder f;
	struct kh_err err = KH_ERR_INIT;
	make(&f);
	be(SERVER, "w");
	kh_view_bind(&f.view, KH_MOUNT_WRITE, f.path, "/w", KH_TREE_AS_OWNER);
	assert_true(kh_mount_spelling_check(&f.view, &fake, &err));
	/* Nor what the host lacks: nothing can be reached there. */
	kh_view_over(&f.view, KH_MOUNT_TMPFS, "/w/absent/w", 0);
	assert_true(kh_mount_spelling_check(&f.view, &fake, &err));
	assert_int_equal(world.lookups, 0);
	drop(&f);
}

static void test_the_file_system_of_this_host_tells_spellings_apart(void **state)
{
	(void)state;
	struct kh_err err;
	assert_false(is_refused(KH_MOUNT_READ, &kh_mount_spelling_kernel, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_mount_holds_where_each_spelling_is_a_name_of_its_own),
		cmocka_unit_test(test_a_mount_does_not_hold_where_the_server_ignores_case),
		cmocka_unit_test(test_a_mount_holds_where_the_kernel_ignores_case),
		cmocka_unit_test(test_two_entries_of_a_folder_are_two_names),
		cmocka_unit_test(test_what_windows_takes_for_the_same_name_leads_past_a_mount),
		cmocka_unit_test(test_odd_names_are_looked_up_too),
		cmocka_unit_test(test_whatever_is_mounted_in_a_tree_of_the_host_is_looked_at),
		cmocka_unit_test(test_a_name_of_the_sandboxs_own_root_is_not_looked_at),
		cmocka_unit_test(test_the_file_system_of_this_host_tells_spellings_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
