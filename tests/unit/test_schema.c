/* test_schema.c - the schema for editors knows every option of the table */
#include "unit.h"

#include <stdlib.h>

#include <jansson.h>

#include "config/config_internal.h"

static json_t *schema(void)
{
	struct kh_buf out;
	json_error_t error;
	kh_buf_init(&out, 1024 * 1024);
	assert_true(kh_config_schema(&out));
	json_t *made =
		json_loadb(kh_buf_view(&out).ptr, kh_buf_len(&out), JSON_REJECT_DUPLICATES, &error);
	if (!made)
		fail_msg("%s at %d", error.text, error.position);
	kh_buf_fini(&out);
	return made;
}

/* Every property of every object in it. */
static size_t count_described(const json_t *node, size_t *shapeless)
{
	const char *key;
	json_t *child;
	size_t n = 0, index;
	json_array_foreach(node, index, child) n += count_described(child, shapeless);
	json_object_foreach((json_t *)(uintptr_t)node, key, child)
	{
		n += count_described(child, shapeless);
		if (!json_is_object(json_object_get(child, "description")) &&
		    json_is_string(json_object_get(child, "description"))) {
			n++;
			*shapeless += json_object_size(child) == 1;
		}
	}
	return n;
}

static void every_option_stands_in_it_once(void **state)
{
	(void)state;
	json_t *made = schema();
	size_t due = 0, shapeless = 0;
	for (size_t i = 0; i < kh_options.count; i++)
		due += (kh_options.rows[i].flags & KH_IN_FILE) != 0;
	assert_int_equal(count_described(made, &shapeless), due);
	assert_int_equal(shapeless, 0);
	json_decref(made);
}

static void what_has_a_reader_of_its_own_has_a_shape(void **state)
{
	(void)state;
	for (size_t i = 0; i < kh_options.count; i++) {
		const struct kh_option *option = &kh_options.rows[i];
		if ((option->type == KH_OPTION_CUSTOM || option->type == KH_OPTION_NODE) &&
		    (option->flags & KH_IN_FILE) && !option->shape && !option->choices &&
		    !option->as)
			fail_msg("%s has no shape", option->path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_option_stands_in_it_once),
		cmocka_unit_test(what_has_a_reader_of_its_own_has_a_shape),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
