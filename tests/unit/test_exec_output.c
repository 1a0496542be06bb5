/* test_exec_output.c - what a command printed: text, JSON, and JSON that is none */
#include "unit.h"

#include <string.h>

#include <keeper/job_internal.h>

#define VALUE "sk-printed-0123456789"

enum { NOW = 1800000000 };

struct exec_output_case {
	const char *said;
	struct kh_exec exec;
	bool document;
	const char *value; /* NULL: refused */
	const char *words; /* of the refusal */
};

static void check(const struct exec_output_case *c)
{
	struct kh_exec_output exec_output;
	struct kh_err err = KH_ERR_INIT;
	bool ok = kh_exec_output_read(&exec_output, kh_slice_str(c->said), &c->exec, c->document,
				      (uint64_t)NOW * 1000, &err);
	if (ok != (c->value != NULL))
		fail_msg("%s: %s", c->said, err.text);
	if (ok && !kh_slice_eq(kh_buf_view(&exec_output.value), kh_slice_str(c->value)))
		fail_msg("%s: another value", c->said);
	if (!ok && !strstr(err.text, c->words))
		fail_msg("%s: %s", c->said, err.text);
	if (strstr(err.text, "sk-printed"))
		fail_msg("shown: %s", err.text);
	kh_exec_output_fini(&exec_output);
}

static char member[] = "a.key";

static void what_begins_like_json_and_is_none_is_no_value(void **state)
{
	(void)state;
	static const char *const broken[] = {
		"{\"token\":\"" VALUE "\"",
		"{\"token\":\"" VALUE,
		"{\"token\":\"" VALUE "\"}}",
		"{\"token\":\"" VALUE "\"} and more",
		"{\"token\":\"" VALUE "\",\"token\":\"another\"}",
		"{'token':'" VALUE "'}",
		"{" VALUE "}",
		"{",
		"[",
		"[\"" VALUE "\"",
		" {\"token\":\"" VALUE "\"",
		"\n\t{\"token\":\"" VALUE "\"",
	};
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		for (int document = 0; document < 2; document++) {
			const struct exec_output_case c = { .said = broken[i],
							    .document = document,
							    .words = "write format: text" };
			check(&c);
		}
	}
}

static void text_is_taken_as_it_is_where_that_is_said(void **state)
{
	(void)state;
	const struct exec_output_case table[] = {
		{ "{" VALUE "\n", { .format = KH_EXEC_TEXT }, false, "{" VALUE, NULL },
		{ "{\"token\":\"x\"}",
		  { .format = KH_EXEC_TEXT },
		  false,
		  "{\"token\":\"x\"}",
		  NULL },
		{ "[" VALUE, { .format = KH_EXEC_TEXT }, true, "[" VALUE, NULL },
		{ "{" VALUE "\nmore", { .first_line = true }, false, "{" VALUE, NULL },
		{ VALUE "}", { .format = KH_EXEC_AUTO }, false, VALUE "}", NULL },
		{ "\"" VALUE "\"", { .format = KH_EXEC_AUTO }, false, "\"" VALUE "\"", NULL },
		{ "\357\273\277" VALUE, { .format = KH_EXEC_AUTO }, false, VALUE, NULL },
		{ "\357\273\277" VALUE, { .format = KH_EXEC_TEXT }, false, VALUE, NULL },
		{ "\357\273\277{\"token\":\"" VALUE "\"}",
		  { .format = KH_EXEC_AUTO },
		  false,
		  VALUE,
		  NULL },
		{ "\357\273\277", { .format = KH_EXEC_AUTO }, false, NULL, "prints nothing" },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		check(&table[i]);
}

static void json_is_asked_for(void **state)
{
	(void)state;
	const struct exec_output_case table[] = {
		{ "\"" VALUE "\"\n", { .format = KH_EXEC_JSON }, false, VALUE, NULL },
		{ "\"" VALUE "\"", { .format = KH_EXEC_JSON }, true, VALUE, NULL },
		{ "{\"token\":\"" VALUE "\"}", { .format = KH_EXEC_JSON }, false, VALUE, NULL },
		{ "{\"a\":{\"key\":\"" VALUE "\"}}",
		  { .format = KH_EXEC_JSON, .json = member },
		  false,
		  VALUE,
		  NULL },
		{ VALUE, { .format = KH_EXEC_JSON }, false, NULL, "is no JSON" },
		{ "{\"token\":\"" VALUE, { .format = KH_EXEC_JSON }, false, NULL, "is no JSON" },
		{ "{\"token\":\"" VALUE, { .json = member }, false, NULL, "is no JSON" },
		{ "\"" VALUE "\"",
		  { .format = KH_EXEC_JSON, .json = member },
		  false,
		  NULL,
		  "is no JSON" },
		{ "12345678", { .format = KH_EXEC_JSON }, false, NULL, "shape that is not known" },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		check(&table[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_begins_like_json_and_is_none_is_no_value),
		cmocka_unit_test(text_is_taken_as_it_is_where_that_is_said),
		cmocka_unit_test(json_is_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
