/* options_stand_in.h - the rows of `placeholder`: what stands in for a credential */
#ifndef KEYHOLE_CONFIG_OPTIONS_STAND_IN_H
#define KEYHOLE_CONFIG_OPTIONS_STAND_IN_H

#include "config_internal.h"

#define KH_STAND_IN_AT(member) .offset = offsetof(struct kh_credential_config, member)

#define KH_STAND_IN_OPTIONS \
	{ .path = "credentials.*.placeholder", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
	  .doc = "what the sandbox holds in its place" }, \
		{ .path = "credentials.*.placeholder.env", \
		  .type = KH_OPTION_TEXT, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  KH_STAND_IN_AT(env_name), \
		  .check = kh_value_check_env, \
		  .doc = "the variable in which clients look for it; that of value.env unless " \
			 "said" }, \
		{ .path = "credentials.*.placeholder.prefix", \
		  .type = KH_OPTION_TEXT, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  KH_STAND_IN_AT(placeholder_prefix), \
		  .check = kh_value_check_prefix, \
		  .doc = "how a real one begins, for clients that look" }, \
	{ \
		.path = "credentials.*.placeholder.alphabet", .type = KH_OPTION_TEXT, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		KH_STAND_IN_AT(placeholder_alphabet), .check = kh_value_check_alphabet, \
		.doc = "the characters behind the prefix; letters and digits unless said" \
	}

#endif
