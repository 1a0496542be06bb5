/* options_source.h - the rows of `value`: where a credential comes from */
#ifndef KEYHOLE_CONFIG_OPTIONS_SOURCE_H
#define KEYHOLE_CONFIG_OPTIONS_SOURCE_H

#include "config_internal.h"

#define KH_SOURCE_OPTIONS \
	{ .path = "credentials.*.value", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_REQUIRED | KH_IS_QUIET, \
	  .expects = "{ env: NAME } or { file: PATH }", \
	  .read = kh_read_literal, \
	  .doc = "where the secret comes from: one of env and file" }, \
		{ .path = "credentials.*.value.env", \
		  .type = KH_OPTION_CUSTOM, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  .expects = "the name of a variable", \
		  .read = kh_read_source_env, \
		  .doc = "the variable of keyhole's own environment that holds it" }, \
	{ \
		.path = "credentials.*.value.file", .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, .expects = "a path", \
		.read = kh_read_source_file, .doc = "the file that holds it" \
	}

#endif
