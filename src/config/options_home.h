/* options_home.h - the rows of `files`: what a command finds in its home (home_template.h)
 *
 * `in` is where they may be, `must` the flags of `needs`, and `member` of `type` gets them.
 */
#ifndef KEYHOLE_CONFIG_OPTIONS_HOME_H
#define KEYHOLE_CONFIG_OPTIONS_HOME_H

#include "config_internal.h"

#define KH_HOME_TEMPLATE_AT(member) .offset = offsetof(struct kh_home_template, member)

#define KH_HOME_TEMPLATE_ROWS(in, must, type_of, member, text) \
	{ .path = "files", \
	  .type = KH_OPTION_LIST, \
	  .flags = (in), \
	  .expects = "a list of files", \
	  .items = "files[]", \
	  .offset = offsetof(struct type_of, member), \
	  .add = kh_home_template_add, \
	  .doc = text }, \
		{ .path = "files[].path", \
		  .type = KH_OPTION_TEXT, \
		  .flags = (in) | KH_IS_REQUIRED, \
		  .expects = "a path below the home", \
		  .check = kh_home_template_check_path, \
		  KH_HOME_TEMPLATE_AT(path), \
		  .doc = "its path below the home" }, \
		{ .path = "files[].content", \
		  .type = KH_OPTION_TEXT, \
		  .flags = (in) | KH_IS_REQUIRED, \
		  .expects = "a text", \
		  KH_HOME_TEMPLATE_AT(content), \
		  .doc = "its content, in which `${NAME}` is the placeholder of that variable" }, \
	{ \
		.path = "files[].needs", .type = KH_OPTION_TEXT, .flags = (in) | (must), \
		.expects = "a variable", .check = kh_value_check_env, KH_HOME_TEMPLATE_AT(needs), \
		.doc = "only where this variable has a placeholder" \
	}

#endif
