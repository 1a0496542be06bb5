/* test_git_shape.c - a folder that git would take for a git folder is known in any spelling, and
 * when its parts come from different places */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "sandbox/review_internal.h"

static char ground[] = "/tmp/keyhole-shape-XXXXXX";

static int open_folder(const char *name)
{
	int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* Paths of files, separated by commas. */
static void make(const char *top, const char *paths)
{
	char text[256];

	snprintf(text, sizeof(text), "%s", paths);
	for (char *rest = text, *path; (path = strsep(&rest, ","));) {
		kh_auto_free char *file = kh_strf("%s/%s", top, path);

		for (char *c = strchr(file, '/'); (c = strchr(c + 1, '/')); *c = '/') {
			*c = '\0';
			(void)mkdir(file, 0755);
		}
		assert_true(kh_file_write(file, KH_SLICE("x"), 0644, NULL));
	}
}

/* The names of changes, in the order that they have in a list. */
static void list(struct kh_changes *changes, struct kh_change *room, char *names)
{
	*changes = (struct kh_changes){ .list = room };
	for (char *path; (path = strsep(&names, ","));)
		room[changes->n++] = (struct kh_change){ .path = path, .is.st_mode = S_IFREG };
}

struct row {
	const char *workspace, *agents, *commits; /* files */
	const char *path;			  /* is it in such a folder? */
	int len;				  /* of the folder's path; -1: no */
};

static void check(const struct row *row)
{
	char names[256];
	struct kh_change room[16];
	struct kh_changes changes;
	struct kh_git_shapes shapes kh_cleanup(kh_git_shapes_fini);
	bool found;
	size_t len;

	assert_int_equal(mkdir("work", 0755), 0);
	assert_int_equal(mkdir("upper", 0755), 0);
	if (*row->workspace)
		make("work", row->workspace);
	if (*row->agents)
		make("upper", row->agents);
	kh_auto_close int work = open_folder("work"), upper = open_folder("upper");

	snprintf(names, sizeof(names), "%s", row->commits);
	list(&changes, room, names);
	assert_true(kh_git_shapes_init(&shapes, work, upper, &changes));
	assert_true(kh_git_shapes_find(&shapes, row->path, false, &found, &len));
	if (found != (row->len >= 0) || (found && len != (size_t)row->len))
		fail_msg("%s | %s | %s: %s: %d %zu", row->workspace, row->agents, row->commits,
			 row->path, found, len);
	assert_true(kh_tree_remove(AT_FDCWD, "work", NULL));
	assert_true(kh_tree_remove(AT_FDCWD, "upper", NULL));
}

static void a_git_folder_is_known_in_any_spelling_and_in_parts(void **state)
{
	static const struct row rows[] = {
		{ "", "y/HEAD,y/objects/x,y/refs/x", "", "y/config", 1 },
		{ "", "y/head,y/Objects/x,y/refs /x", "", "y/config", 1 },
		{ "", "y/HEAD.,y/commonDir", "", "y/config", 1 },
		{ "y/objects/x,y/refs/x", "y/head", "", "y/config", 1 },
		{ "y/head", "", "Y/ob\u200cjects/x,y/REF\u017f/x", "y/config", 1 },
		{ "", "", "Y/HEAD,y/commondir", "y/config", 1 },
		{ "", "", "a/Y/HEAD,A/y/objects,a/y/refs/heads/x", "a/y/x/config", 3 },
		{ "", "head,objects/x,refs/x", "", "Config", 0 },
		{ "", "head,objects/x,refs/x", "", "plain", -1 },
		{ "", "y/HEAD,y/objects/x", "", "y/config", -1 },
		{ "", "y/head2,y/objects/x,y/refs/x", "", "y/config", -1 },
		{ "", "y/head/x", "z/objects,yy/refs/x,y/object", "y/config", -1 },
		{ "", "", "y/head,y/objects!,y/objects/x,y/refs!,y/refs.x/y,y/refs/x", "y/c", 1 },
		{ "", "", "y/head,y/objects!,y/refs.x/y", "y/c", -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(&rows[i]);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(ground) ? chdir(ground) : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return chdir("/") == 0 && kh_tree_remove(AT_FDCWD, ground, NULL) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_git_folder_is_known_in_any_spelling_and_in_parts),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
