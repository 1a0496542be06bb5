/* test_protected_changed.c - what is protected and did not stay as it was is named */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "sandbox/changed.h"
#include "sandbox/sandbox_internal.h"

struct world {
	char top[64];
	struct kh_view view;
	struct kh_changed changed;
};

static const char *at(const struct world *w, const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/%s", w->top, name);
	return path;
}

static void put(const struct world *w, const char *name, const char *text)
{
	assert_true(kh_file_write(at(w, name), kh_slice_str(text), 0644, NULL));
}

static void protect(struct world *w, enum kh_mount_kind kind, const char *name)
{
	kh_view_over(&w->view, kind, at(w, name), 0);
}

static void set_up(struct world *w, bool all)
{
	struct kh_err err = KH_ERR_INIT;
	memset(w, 0, sizeof(*w));
	snprintf(w->top, sizeof(w->top), "/tmp/keyhole-changed-XXXXXX");
	assert_non_null(mkdtemp(w->top));
	assert_int_equal(mkdir(at(w, "hooks"), 0755), 0);
	assert_int_equal(mkdir(at(w, "hooks/d"), 0755), 0);
	put(w, "hooks/d/post-commit", "one");
	put(w, "config", "one");
	put(w, ".envrc", "one");
	put(w, "free", "one");
	kh_view_bind(&w->view, KH_MOUNT_WRITE, w->top, w->top, KH_TREE_AS_OWNER);
	protect(w, KH_MOUNT_READ, "hooks");
	protect(w, KH_MOUNT_READ, "config");
	protect(w, KH_MOUNT_READ, ".envrc");
	protect(w, KH_MOUNT_WRITE, "free");
	assert_false(w->view.failed);
	assert_true(kh_changed_note(&w->changed, &w->view, w->top, all, &err));
}

static void tear_down(struct world *w)
{
	static const char *const files[] = { "hooks/d/post-commit", "hooks/new", "config", ".envrc",
					     "free" };
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		(void)unlink(at(w, files[i]));
	(void)rmdir(at(w, "hooks/d"));
	(void)rmdir(at(w, "hooks"));
	assert_int_equal(rmdir(w->top), 0);
	kh_changed_fini(&w->changed);
	kh_view_fini(&w->view);
}

static void expect(struct world *w, size_t n, const char *name)
{
	struct kh_buf names kh_cleanup(kh_buf_fini);
	kh_buf_init(&names, 1024);
	assert_int_equal(kh_changed_find(&w->changed, &names), n);
	const char *text = kh_buf_cstr(&names);
	if (name)
		assert_non_null(strstr(text, at(w, name)));
}

static void test_what_stays_is_not_named(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, true);
	/* What may be written to is not compared. */
	put(&w, "free", "other");
	expect(&w, 0, NULL);
	tear_down(&w);
}

static void test_a_file_that_was_written_to_is_named(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, true);
	put(&w, "config", "longer");
	expect(&w, 1, "config");
	assert_int_equal(unlink(at(&w, ".envrc")), 0);
	expect(&w, 2, ".envrc");
	tear_down(&w);
}

static void test_a_folder_is_compared_with_what_is_in_it(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, true);
	put(&w, "hooks/new", "");
	expect(&w, 1, "hooks");
	assert_int_equal(unlink(at(&w, "hooks/new")), 0);
	expect(&w, 0, NULL);
	assert_int_equal(chmod(at(&w, "hooks/d/post-commit"), 0755), 0);
	expect(&w, 1, "hooks");
	tear_down(&w);
}

static void test_a_local_file_system_is_not_compared(void **state)
{
	struct world w;
	(void)state;
	set_up(&w, false);
	put(&w, "config", "longer");
	/* /tmp is one on every host that this is built on. */
	expect(&w, 0, NULL);
	tear_down(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_stays_is_not_named),
		cmocka_unit_test(test_a_file_that_was_written_to_is_named),
		cmocka_unit_test(test_a_folder_is_compared_with_what_is_in_it),
		cmocka_unit_test(test_a_local_file_system_is_not_compared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
