/* test_json_load.c - documents of others as trees: how deep they nest is bounded before they are */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/limits.h>

enum { MOST = KH_LIMIT_JSON_TREE_DEPTH, STACK_BYTES = 256 * 1024 };

/* `depth` times `open`, then `core`, then `depth` times `shut`. */
static char *nested(size_t depth, const char *open, const char *core, const char *shut)
{
	size_t len = depth * (strlen(open) + strlen(shut)) + strlen(core);
	char *text = malloc(len + 1), *at = text;
	assert_non_null(text);
	for (size_t i = 0; i < depth; i++)
		at = stpcpy(at, open);
	at = stpcpy(at, core);
	for (size_t i = 0; i < depth; i++)
		at = stpcpy(at, shut);
	return text;
}

static bool is_taken(size_t depth, const char *open, const char *core, const char *shut)
{
	kh_auto_free char *text = nested(depth, open, core, shut);
	json_error_t why = { .line = 0 };
	json_t *tree = kh_json_load(kh_slice_str(text), JSON_DECODE_ANY, &why);
	bool is = tree != NULL;
	json_decref(tree);
	assert_true(is || why.line > 0);
	return is;
}

static void a_document_nests_up_to_the_bound_and_no_deeper(void **state)
{
	(void)state;
	assert_true(is_taken(0, "", "true", ""));
	assert_true(is_taken(MOST, "[", "", "]"));
	assert_false(is_taken(MOST + 1, "[", "", "]"));
	assert_true(is_taken(MOST, "{\"a\":", "1", "}"));
	assert_false(is_taken(MOST + 1, "{\"a\":", "1", "}"));
	assert_false(is_taken(MOST / 2 + 1, "[{\"a\":", "1", "}]"));
	/* Many beside each other are no nesting. */
	assert_true(is_taken(1, "[",
			     "[],{},[],{},[],{},[],{},[],{},[],{},[],{},[],{},[],{},[],{},[],"
			     "{},[],{},[],{},[],{},[],{},[],{},[],{},[],{},[],{},[],{}",
			     "]"));
}

static void a_bracket_in_a_string_opens_nothing(void **state)
{
	(void)state;
	kh_auto_free char *many = nested(10 * MOST, "[{", "", "");
	kh_auto_free char *text = NULL;
	assert_true(asprintf(&text, "[\"\\\"%s\\\\\", \"%s\"]", many, many) > 0);
	json_t *tree = kh_json_load(kh_slice_str(text), 0, NULL);
	assert_int_equal(json_array_size(tree), 2);
	json_decref(tree);
	/* A string that has ended hides none. */
	free(kh_steal_ptr(&text));
	assert_true(asprintf(&text, "[\"\\\\\", %s", many) > 0);
	assert_null(kh_json_load(kh_slice_str(text), 0, NULL));
}

static void where_it_nests_too_deep_is_said(void **state)
{
	(void)state;
	json_error_t why;
	kh_auto_free char *text = nested(MOST + 1, "\n[", "", "]");
	assert_null(kh_json_load(kh_slice_str(text), 0, &why));
	assert_int_equal(why.line, MOST + 2);
	assert_string_equal(why.text, "it nests deeper than 32 levels");
	/* What jansson says of other faults is as it was. */
	assert_null(kh_json_load(KH_SLICE("{\"a\":1,\"a\":2}"), JSON_REJECT_DUPLICATES, &why));
	assert_non_null(strstr(why.text, "duplicate"));
	assert_null(kh_json_load(KH_SLICE(""), 0, NULL));
}

static void *load_and_dump(void *arg)
{
	json_t *tree = kh_json_load(kh_slice_str(arg), 0, NULL);
	kh_auto_free char *dumped = tree ? json_dumps(tree, 0) : NULL;
	json_decref(tree);
	return NULL;
}

/* As on the admin interface's thread. */
static void no_document_uses_up_a_small_stack(void **state)
{
	static const size_t depths[] = { MOST, 1000, 2040, 1000 * 1000 };
	(void)state;
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		kh_auto_free char *text = nested(depths[i], "[", "", "]");
		pthread_attr_t attr;
		pthread_t thread;
		assert_int_equal(pthread_attr_init(&attr), 0);
		assert_int_equal(pthread_attr_setstacksize(&attr, STACK_BYTES), 0);
		assert_int_equal(pthread_create(&thread, &attr, load_and_dump, text), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		(void)pthread_attr_destroy(&attr);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_nests_up_to_the_bound_and_no_deeper),
		cmocka_unit_test(a_bracket_in_a_string_opens_nothing),
		cmocka_unit_test(where_it_nests_too_deep_is_said),
		cmocka_unit_test(no_document_uses_up_a_small_stack),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
