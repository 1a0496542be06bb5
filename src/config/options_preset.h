/* options_preset.h - the rows of the table of options that only a preset has */
#ifndef KEYHOLE_OPTIONS_PRESET_H
#define KEYHOLE_OPTIONS_PRESET_H

#include "config_internal.h"
#include "options_json.h"

#define KH_PRESET_IN(type, member) .offset = offsetof(struct type, member)

#define KH_PRESET_KEYS \
	{ .path = "description", \
	  .type = KH_OPTION_TEXT, \
	  .flags = KH_IN_PRESET | KH_IS_REQUIRED, \
	  .expects = "a text", \
	  KH_PRESET_IN(kh_preset_draft, description), \
	  .doc = "in a preset: what it opens, in one line" }, \
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
		  .doc = "in a preset: what a use of it may say, by name" }, \
		{ .path = "parameters.*.type", \
		  .type = KH_OPTION_CHOICE, \
		  .flags = KH_IN_PRESET | KH_IS_REQUIRED, \
		  KH_PRESET_IN(kh_parameter, type), \
		  .choices = kh_parameter_types, \
		  .expects = "boolean, or what each value of a list is", \
		  .doc = "boolean, or what each value of its list is" }, \
		{ .path = "parameters.*.values", \
		  .type = KH_OPTION_NODE, \
		  .flags = KH_IN_PRESET, \
		  KH_PRESET_IN(kh_parameter, values), \
		  .takes = "a list of words", \
		  .doc = "of the type word: the list of those that there are" }, \
		{ .path = "parameters.*.default", \
		  .type = KH_OPTION_NODE, \
		  .flags = KH_IN_PRESET, \
		  KH_PRESET_IN(kh_parameter, fallback), \
		  .takes = "a value, or a list of values", \
		  .doc = "what it is where a use does not say; without it, a use must" }, \
	{ \
		.path = "parameters.*.doc", .type = KH_OPTION_TEXT, \
		.flags = KH_IN_PRESET | KH_IS_REQUIRED, KH_PRESET_IN(kh_parameter, doc), \
		.expects = "a text", .doc = "what it is, in one line" \
	}

#define KH_RULE_WHEN \
	{ \
		.path = "rules[].when", .type = KH_OPTION_CUSTOM, .flags = KH_IN_PRESET, \
		.read = kh_config_read_nothing, \
		.takes = "a parameter's name, `not` and it, or a list of them", \
		.doc = "in a preset: a boolean parameter, or `not` and it, for which the rule is " \
		       "there; all of a list must hold" \
	}

#endif
