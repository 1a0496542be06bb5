/* options_preset.h - the rows of the table of options that only a preset has */
#ifndef KEYHOLE_OPTIONS_PRESET_H
#define KEYHOLE_OPTIONS_PRESET_H

#include "config_internal.h"
#include "options_home.h"
#include "options_json.h"

#define KH_PRESET_IN(type, member) .offset = offsetof(struct type, member)

#define KH_PRESET_KEYS \
	{ .path = "description", \
	  .type = KH_OPTION_TEXT, \
	  .flags = KH_IN_PRESET | KH_IS_REQUIRED, \
	  .expects = "a text", \
	  KH_PRESET_IN(kh_preset_draft, description), \
	  .doc = "in a preset: what it allows, in one line" }, \
		{ .path = "source", \
		  .type = KH_OPTION_CUSTOM, \
		  .flags = KH_IN_PRESET, \
		  .expects = "the address of a page (https://...), or a list of them", \
		  .read = kh_config_read_sources, \
		  .doc = "in a preset: the pages that name its hosts" }, \
		{ .path = "parameters", \
		  .type = KH_OPTION_MAP, \
		  .flags = KH_IN_PRESET, \
		  .items = "parameters.*", \
		  KH_PRESET_IN(kh_preset_draft, parameters), \
		  .add = kh_parameter_add, \
		  .done = kh_parameter_done, \
		  .doc = "in a preset: the parameters that a `use` may set, by name" }, \
		{ .path = "parameters.*.type", \
		  .type = KH_OPTION_CHOICE, \
		  .flags = KH_IN_PRESET | KH_IS_REQUIRED, \
		  KH_PRESET_IN(kh_parameter, type), \
		  .choices = kh_parameter_types, \
		  .expects = "boolean, or what each value of a list is", \
		  .doc = "boolean, or the type of each value of its list" }, \
		{ .path = "parameters.*.values", \
		  .type = KH_OPTION_NODE, \
		  .flags = KH_IN_PRESET, \
		  KH_PRESET_IN(kh_parameter, values), \
		  .takes = "a list of words", \
		  .doc = "for the type word: the words that are allowed" }, \
		{ .path = "parameters.*.default", \
		  .type = KH_OPTION_NODE, \
		  .flags = KH_IN_PRESET, \
		  KH_PRESET_IN(kh_parameter, fallback), \
		  .takes = "a value, or a list of values", \
		  .doc = "the value if `use` does not set the parameter; without a default, " \
			 "every `use` must set it" }, \
		{ .path = "parameters.*.doc", \
		  .type = KH_OPTION_TEXT, \
		  .flags = KH_IN_PRESET | KH_IS_REQUIRED, \
		  KH_PRESET_IN(kh_parameter, doc), \
		  .expects = "a text", \
		  .doc = "what the parameter is, in one line" }, \
		KH_HOME_TEMPLATE_ROWS(KH_IN_PRESET, KH_IS_REQUIRED, kh_preset_draft, rules.files, \
				      "in a preset: files that tools look for, in a home " \
				      "without them"), \
		KH_WHEN("files[]", "file")

#define KH_RULE_WHEN KH_WHEN("rules[]", "rule")
/* expand.c has read it before the rest is read. */
#define KH_WHEN(items, what) \
	{ \
		.path = items ".when", .type = KH_OPTION_CUSTOM, .flags = KH_IN_PRESET, \
		.read = kh_config_read_nothing, \
		.takes = "a parameter's name, `not` and it, or a list of them", \
		.doc = "in a preset: the " what " exists only if this boolean parameter is " \
		       "true (with `not`: false); in a list, all must hold" \
	}

#endif
