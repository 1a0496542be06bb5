/* test_options.c - the table of options holds together, and every option is documented */
#include "config_said.h"

/* A page of the documentation names every option, with its default where it has one. */
static void assert_documented(const char *page, const char *before, const char *after)
{
	struct kh_buf text;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&text, TEXT_BYTES);
	if (!kh_file_read(page, &text, &err))
		fail_msg("%s", err.text);
	const char *all = kh_buf_cstr(&text);
	for (size_t i = 0; i < kh_options_count; i++) {
		const struct kh_option *option = &kh_options[i];
		char name[128];
		(void)snprintf(name, sizeof(name), "%s%s%s", before, option->path, after);
		const char *at = strstr(all, name);
		if (!at) {
			fail_msg("%s says nothing of %s", page, option->path);
			return;
		}
		const char *end = strstr(at + strlen(name), before);
		size_t span = end ? (size_t)(end - at) : strlen(at);
		if (option->fallback &&
		    !memmem(at, span, option->fallback, strlen(option->fallback)))
			fail_msg("%s: the default of %s is %s", page, option->path,
				 option->fallback);
	}
	kh_buf_fini(&text);
}

static void every_option_is_documented(void **state)
{
	(void)state;
	assert_documented("docs/configuration.md", "\n| `", "`");
	assert_documented("docs/man/keyhole.yaml.5", "\n.It Cm ", "\n");
}

static void the_table_of_options_holds_together(void **state)
{
	(void)state;
	for (size_t i = 0; i < kh_options_count; i++) {
		const struct kh_option *option = &kh_options[i];
		assert_non_null(option->doc);
		assert_true(option->flags & (KH_IN_FILE | KH_IN_PRESET));
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(option->path, kh_options[j].path);
		/* Whatever stands in a section or an item: that stands above it. */
		char parent[64];
		(void)snprintf(parent, sizeof(parent), "%s", option->path);
		char *dot = strrchr(parent, '.');
		bool found = dot == NULL;
		if (dot)
			*dot = '\0';
		for (size_t j = 0; j < i && !found; j++) {
			const struct kh_option *other = &kh_options[j];
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
		cmocka_unit_test(every_option_is_documented),
		cmocka_unit_test(the_table_of_options_holds_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
