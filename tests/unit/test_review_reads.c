/* test_review_reads.c - a change to what the host reads is known in any spelling of its path */
#include "unit.h"

#include "sandbox/review_reads.h"

static void a_path_is_known_in_any_spelling(void **state)
{
	static char hk[] = "hk", inc[] = "conf/git.inc";
	static char *list[] = { hk, inc };
	static const struct {
		const char *path;
		size_t reach;
		bool is_folder;
	} rows[] = {
		{ "hk/pre-commit", 2, false },
		{ "HK/pre-commit", 2, false },
		{ "hk. /pre-commit", 4, false },
		{ "h\u200ck/pre-commit", 5, false },
		{ "\u212a/hk", 0, false },
		{ "Conf/Git.Inc", 12, false },
		{ "CONF", 4, false },
		{ "CONF", 0, true },
		{ "conf/other", 0, false },
		{ "HKX/pre-commit", 0, false },
		{ ".../hk", 0, false },
		{ "a/Scripts/Mon.sh", 16, false },
		{ "a /SCRIPT\u017f./mon.sh/x", 19, false },
		{ "a/scripts/mon", 0, false },
	};
	struct kh_review_reads reads = { .list = list, .n = 2 };

	(void)state;
	kh_buf_init(&reads.relative, 64);
	assert_true(kh_buf_append(&reads.relative, "scripts/mon.sh", sizeof("scripts/mon.sh")));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t reach = kh_review_reads_reach(&reads, rows[i].path, rows[i].is_folder);

		if (reach != rows[i].reach)
			fail_msg("%s: %zu", rows[i].path, reach);
	}
	kh_buf_fini(&reads.relative);
}

static void a_link_to_the_whole_workspace_is_in_every_path(void **state)
{
	static char whole[] = "";
	static char *list[] = { whole };
	const struct kh_review_reads reads = { .list = list, .n = 1 };

	(void)state;
	assert_int_equal(kh_review_reads_reach(&reads, "A/b", false), 1);
	assert_int_equal(kh_review_reads_reach(&reads, ".../b", false), 3);
	assert_int_equal(kh_review_reads_reach(&reads, " ", false), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_known_in_any_spelling),
		cmocka_unit_test(a_link_to_the_whole_workspace_is_in_every_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
