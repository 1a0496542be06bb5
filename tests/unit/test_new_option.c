/* test_new_option.c - a new option needs one row and one member of a struct, and nothing else
 *
 * The table gets a few rows more, of members behind those of a configuration. Reading, defaults,
 * bounds, hints, the way to the worker, the schema (by which editors complete) and the tables of
 * the pages know them.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/file.h>

#include "config/carry.h"

struct wider {
	struct kh_config config;
	uint32_t patience_ms;
	uint64_t room;
	unsigned colour;
	bool loud;
	char *motto;
};

static const char *const colours[] = { "red", "green", "blue", NULL };
static const char *check_motto(struct kh_slice text)
{
	return text.len <= 5 ? NULL : "is too long for a motto";
}

#define ROW(name, member_name, kind, ...) \
	{ \
		.path = "worker." name, .type = KH_OPTION_##kind, .flags = KH_IN_FILE, \
		.offset = offsetof(struct wider, member_name), \
		KH_CARRIED(kh_carry_value, wider, member_name), \
		.doc = "how much of " name " it has", __VA_ARGS__ \
	}
static const struct kh_option more[] = {
	ROW("patience", patience_ms, DURATION, .least = 10, .most = 60000, .fallback = "7s"),
	ROW("room", room, SIZE, .least = 1024, .most = 1 << 20, .fallback = "64KiB"),
	ROW("colour", colour, CHOICE, .choices = colours, .fallback = "green"),
	ROW("loud", loud, BOOL, .fallback = "false"),
	ROW("motto", motto, TEXT, .check = check_motto),
};
enum { MORE = sizeof(more) / sizeof(more[0]), BYTES = 1 << 20 };

static struct kh_option rows[1024];
static struct kh_options wide = { rows, 0 };

static int make_table(void **state)
{
	(void)state;
	wide.count = kh_options.count + MORE;
	assert_true(wide.count <= sizeof(rows) / sizeof(rows[0]));
	memcpy(rows, kh_options.rows, kh_options.count * sizeof(rows[0]));
	memcpy(rows + kh_options.count, more, sizeof(more));
	return 0;
}

/* What is wrong comes back as text. */
static void read_wide(struct wider *out, const char *yaml, struct kh_buf *said)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_reader reader = { .config = &out->config, .diags = &diags, .options = &wide };
	struct kh_yaml_tree tree;
	*out = (struct wider){ 0 };
	kh_walk_defaults(&reader, "", out);
	assert_true(kh_tree_parse(&tree, kh_slice_str(yaml), &reader));
	kh_walk(&reader, tree.root, KH_IN_FILE, out);
	kh_tree_free(&tree);
	kh_diagnostics_put(&diags, said);
	kh_diagnostics_fini(&diags);
}

static void assert_read(const char *worker, const char *says)
{
	char yaml[256];
	struct wider wider;
	struct kh_buf said;
	(void)snprintf(yaml, sizeof(yaml), "version: 1\nworker: { %s }\n", worker);
	kh_buf_init(&said, 4096);
	read_wide(&wider, yaml, &said);
	if (!strstr(kh_buf_cstr(&said), says) || (*says == '\0') != (kh_buf_len(&said) == 0))
		fail_msg("%s: %s", worker, kh_buf_cstr(&said));
	kh_buf_fini(&said);
	kh_walk_free(&wide, "", &wider);
}

static void it_is_read_with_defaults_bounds_and_hints(void **state)
{
	(void)state;
	struct wider wider;
	struct kh_buf said;
	kh_buf_init(&said, 4096);
	read_wide(&wider, "version: 1\n", &said);
	assert_int_equal(kh_buf_len(&said), 0);
	assert_int_equal(wider.patience_ms, 7000);
	assert_int_equal(wider.room, 65536);
	assert_int_equal(wider.colour, 1);
	assert_false(wider.loud);
	assert_null(wider.motto);
	kh_buf_fini(&said);
	kh_walk_free(&wide, "", &wider);
	assert_read("patience: 1m, room: 1KiB, colour: blue, loud: true, motto: aha", "");
	assert_read("patience: 2m", "worker.patience: expected something from 10ms to 1m");
	assert_read("room: 1", "worker.room: expected a size such as");
	assert_read("colour: gren", "worker.colour: expected one of red, green, blue, got \"gren\" "
				    "(did you mean \"green\"?)");
	assert_read("loud: 1", "worker.loud: expected true or false");
	assert_read("motto: too long", "worker.motto: \"too long\" is too long for a motto");
	assert_read("moto: a", "unknown key \"moto\" in worker (did you mean \"motto\"?)");
}

static void it_goes_to_the_worker(void **state)
{
	(void)state;
	struct wider sent, got = { 0 };
	struct kh_buf said, bytes;
	kh_buf_init(&said, 4096);
	kh_buf_init(&bytes, BYTES);
	read_wide(&sent,
		  "version: 1\nworker: { patience: 9s, room: 9KiB, colour: blue, loud: true, "
		  "motto: aha }\n",
		  &said);
	assert_int_equal(kh_buf_len(&said), 0);
	struct kh_carrier out = { .out = &bytes, .config = &sent.config, .options = &wide };
	kh_carry_config(&out, &sent.config);
	assert_false(out.in.bad);
	struct kh_carrier in = { .in = { .rest = kh_buf_view(&bytes) },
				 .config = &got.config,
				 .options = &wide };
	kh_carry_config(&in, &got.config);
	assert_true(kh_wire_done(&in.in));
	assert_int_equal(got.patience_ms, 9000);
	assert_int_equal(got.room, 9 * 1024);
	assert_int_equal(got.colour, 2);
	assert_true(got.loud);
	assert_string_equal(got.motto, "aha");
	kh_walk_free(&wide, "", &got);
	kh_walk_free(&wide, "", &sent);
	kh_buf_fini(&bytes);
	kh_buf_fini(&said);
}

static void an_editor_completes_it_by_the_schema(void **state)
{
	(void)state;
	struct kh_buf out;
	kh_buf_init(&out, BYTES);
	assert_true(kh_options_schema(&wide, &out));
	json_t *schema = json_loadb(kh_buf_view(&out).ptr, kh_buf_len(&out), 0, NULL);
	json_t *keys = json_object_get(
		json_object_get(json_object_get(json_object_get(schema, "properties"), "worker"),
				"properties"),
		"colour");
	assert_string_equal(json_string_value(json_object_get(keys, "description")),
			    "how much of colour it has");
	assert_string_equal(json_string_value(json_object_get(keys, "default")), "green");
	json_t *words = json_object_get(keys, "enum");
	assert_int_equal(json_array_size(words), 3);
	assert_string_equal(json_string_value(json_array_get(words, 2)), "blue");
	json_decref(schema);
	kh_buf_fini(&out);
}

static void the_pages_have_it(void **state)
{
	(void)state;
	static const struct {
		const char *page;
		bool manual;
		const char *says;
	} pages[] = {
		{ "docs/configuration.md", false,
		  "\n| `worker.patience` | a duration, 10ms to 1m | `7s` | how much of patience it "
		  "has |\n"
		  "| `worker.room` | a size, 1KiB to 1MiB | `64KiB` | how much of room it has |\n"
		  "| `worker.colour` | `red`, `green`, `blue` | `green` | how much of colour it "
		  "has "
		  "|\n" },
		{ "docs/man/keyhole.yaml.5", true,
		  "\n.It Cm worker.loud\nHow much of loud it has.\nValue: true or false.\n"
		  "Default:\n.Ql false .\n" },
	};
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		struct kh_buf page, made;
		struct kh_err err = KH_ERR_INIT;
		kh_buf_init(&page, BYTES);
		kh_buf_init(&made, BYTES);
		assert_true(kh_file_read(pages[i].page, &page, &err));
		assert_true(
			kh_options_tables(&wide, kh_buf_view(&page), pages[i].manual, &made, &err));
		assert_non_null(strstr(kh_buf_cstr(&made), pages[i].says));
		kh_buf_fini(&made);
		kh_buf_fini(&page);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_read_with_defaults_bounds_and_hints),
		cmocka_unit_test(it_goes_to_the_worker),
		cmocka_unit_test(an_editor_completes_it_by_the_schema),
		cmocka_unit_test(the_pages_have_it),
	};
	return cmocka_run_group_tests(tests, make_table, NULL);
}
