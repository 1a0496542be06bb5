/* test_agent_profile.c - profiles of agents, and what they may say */
#include <stdlib.h>
#include <string.h>

#include "config_said.h"

#include <keyhole/config/agent_profile.h>

#define HEAD "description: an agent\ncommands: [ one, two ]\n"

static struct kh_agent_profile *profile_of(const char *yaml, char *said, size_t room)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_agent_profile *profile =
		kh_agent_profile_parse("p.yaml", kh_slice_str(yaml), &diags);
	said[0] = '\0';
	if (diags.count > 0)
		(void)snprintf(said, room, "%u:%u %s", diags.list[0].where.line,
			       diags.list[0].where.column, diags.list[0].text);
	assert_int_equal(profile == NULL, diags.errors > 0);
	kh_diagnostics_fini(&diags);
	return profile;
}

static void test_a_profile_is_read_whole(void **state)
{
	static const char yaml[] =
		HEAD "presets:\n  - use: anthropic\n    keys: [ A_KEY, B_KEY ]\n  - use: npm\n"
		     "pass: [ MODEL ]\nenvironment: { X: \"1\" }\n"
		     "capture_range: 11.0.0.0/10\n"
		     "files:\n  - path: .a/b.json\n    needs: A_KEY\n    content: |\n      { }\n"
		     "guide: .a/GUIDE.md\n";
	char said[512];
	(void)state;
	struct kh_agent_profile *p = profile_of(yaml, said, sizeof(said));
	assert_non_null(p);
	assert_string_equal(p->description, "an agent");
	assert_int_equal(p->commands.count, 2);
	assert_string_equal(p->commands.list[1], "two");
	assert_int_equal(p->n_presets, 2);
	assert_string_equal(p->presets[0].use, "anthropic");
	assert_string_equal(p->presets[0].keys.list[1], "B_KEY");
	assert_int_equal(p->presets[1].keys.count, 0);
	assert_string_equal(p->pass.list[0], "MODEL");
	assert_string_equal(p->variables[0].name, "X");
	assert_string_equal(p->variables[0].value, "1");
	assert_string_equal(p->capture_range, "11.0.0.0/10");
	assert_string_equal(p->files.list[0].path, ".a/b.json");
	assert_string_equal(p->files.list[0].needs, "A_KEY");
	assert_string_equal(p->files.list[0].content, "{ }\n");
	assert_string_equal(p->guide, ".a/GUIDE.md");
	kh_agent_profile_free(p);
}

static void test_what_is_wrong_is_named_with_its_place(void **state)
{
	static const struct {
		const char *yaml, *said;
	} wrong[] = {
		{ "commands: [ a ]\n", "1:1 description is missing: it is a text" },
		{ "description: d\n",
		  "1:1 commands is missing: it is a list of names of programs" },
		{ HEAD "guid: x\n", "3:1 unknown key \"guid\" (did you mean \"guide\"?)" },
		{ "description: d\ncommands: [ a/b ]\n",
		  "2:13 commands: \"a/b\" must be the name of a program, without a folder" },
		{ HEAD "guide: /etc/passwd\n",
		  "3:8 guide: \"/etc/passwd\" must be a path below the home, such as "
		  ".config/agent.json" },
		{ HEAD "guide: a/../../b\n",
		  "3:8 guide: \"a/../../b\" must be a path below the home, such as "
		  ".config/agent.json" },
		{ HEAD "environment: [ A ]\n",
		  "3:14 environment: expected a map of variables, got a list" },
		{ HEAD "files: [ { path: a } ]\n",
		  "3:10 files[].content is missing: it is a text" },
	};
	char said[512];
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_null(profile_of(wrong[i].yaml, said, sizeof(said)));
		assert_string_equal(said, wrong[i].said);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_profile_is_read_whole),
		cmocka_unit_test(test_what_is_wrong_is_named_with_its_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
