/* test_options.c - the table of options holds together, and every option is documented */
#include "config_said.h"

enum { PAGE_BYTES = 1 << 20 };

static void assert_tables(const char *path, bool manual)
{
	struct kh_buf page, due;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&page, PAGE_BYTES);
	kh_buf_init(&due, PAGE_BYTES);
	if (!kh_file_read(path, &page, &err) ||
	    !kh_config_tables(kh_buf_view(&page), manual, &due, &err))
		fail_msg("%s: %s", path, err.text);
	const char *is = kh_buf_cstr(&page), *should = kh_buf_cstr(&due);
	for (size_t line = 1; *is || *should; line++) {
		size_t a = strcspn(is, "\n"), b = strcspn(should, "\n");
		if (a != b || memcmp(is, should, a) != 0)
			fail_msg("%s:%zu: is not \"%.*s\", as src/config/options.c has it: run "
				 "`make docs-tables`",
				 path, line, (int)b, should);
		is += a + (is[a] != '\0');
		should += b + (should[b] != '\0');
	}
	kh_buf_fini(&page);
	kh_buf_fini(&due);
}

static void the_tables_of_the_pages_are_those_of_the_options(void **state)
{
	(void)state;
	assert_tables("docs/configuration.md", false);
	assert_tables("docs/man/keyhole.yaml.5", true);
}

static void a_page_without_a_table_for_an_option_is_refused(void **state)
{
	(void)state;
	struct kh_buf out;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&out, PAGE_BYTES);
	assert_false(kh_config_tables(KH_SLICE("<!-- options: version -->\n"), false, &out, &err));
	assert_string_equal(err.text, "no table of the page has description");
	kh_buf_fini(&out);
}

static void the_table_of_options_holds_together(void **state)
{
	(void)state;
	for (size_t i = 0; i < kh_options.count; i++) {
		const struct kh_option *option = &kh_options.rows[i];
		assert_non_null(option->doc);
		assert_true(option->flags & (KH_IN_FILE | KH_IN_PRESET));
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(option->path, kh_options.rows[j].path);
		/* Whatever stands in a section or an item: that stands above it. */
		char parent[64];
		(void)snprintf(parent, sizeof(parent), "%s", option->path);
		char *dot = strrchr(parent, '.');
		bool found = dot == NULL;
		if (dot)
			*dot = '\0';
		for (size_t j = 0; j < i && !found; j++) {
			const struct kh_option *other = &kh_options.rows[j];
			found = strcmp(other->path, parent) == 0 ||
				(other->items && strcmp(other->items, parent) == 0);
		}
		if (!found)
			fail_msg("%s has no section above it", option->path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tables_of_the_pages_are_those_of_the_options),
		cmocka_unit_test(a_page_without_a_table_for_an_option_is_refused),
		cmocka_unit_test(the_table_of_options_holds_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
