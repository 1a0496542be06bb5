/* options_placeholder.h - the rows of `placeholder`: what a credential's placeholder looks like */
#ifndef KEYHOLE_CONFIG_OPTIONS_PLACEHOLDER_H
#define KEYHOLE_CONFIG_OPTIONS_PLACEHOLDER_H

#include "carry.h"
#include "config_internal.h"
#include "options_json.h"

#define KH_PLACEHOLDER_AT(name) \
	.offset = offsetof(struct kh_credential_config, name), \
	KH_CARRIED(kh_carry_value, kh_credential_config, name)

static const char *const kh_shape_words[] = { "auto", /* KH_SHAPE_NONE */
#define KH_SHAPE_WORD(name, word) word,
					      KH_SHAPE_TABLE(KH_SHAPE_WORD)
#undef KH_SHAPE_WORD
						      NULL };

#define KH_PLACEHOLDER_OPTIONS \
	{ .path = "credentials.*.placeholder", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
	  .doc = "the placeholder that the sandbox gets instead of the value" }, \
		{ .path = "credentials.*.placeholder.env", \
		  .type = KH_OPTION_TEXT, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  KH_PLACEHOLDER_AT(env_name), \
		  .check = kh_value_check_env, \
		  .doc = "the variable of the sandbox that contains the placeholder; by default " \
			 "that of value.env" }, \
		{ .path = "credentials.*.placeholder.prefix", \
		  .type = KH_OPTION_TEXT, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  KH_PLACEHOLDER_AT(placeholder_prefix), \
		  .check = kh_value_check_prefix, \
		  .doc = "how a placeholder begins, for clients that check it" }, \
		{ .path = "credentials.*.placeholder.alphabet", \
		  .type = KH_OPTION_TEXT, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  KH_PLACEHOLDER_AT(placeholder_alphabet), \
		  .check = kh_value_check_alphabet, \
		  .doc = "the characters after the prefix, with all capital letters or all " \
			 "digits; by default letters and digits" }, \
		{ .path = "credentials.*.placeholder.shape", \
		  .type = KH_OPTION_CHOICE, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  KH_PLACEHOLDER_AT(placeholder.shape), \
		  .choices = kh_shape_words, \
		  .fallback = "auto", \
		  .doc = "a named shape, instead of prefix and alphabet; auto: the shape of " \
			 "the real value" }, \
	{ \
		.path = "credentials.*.require_placeholder", .type = KH_OPTION_BOOL, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		KH_PLACEHOLDER_AT(placeholder.required), .fallback = "false", \
		.doc = "refuse a request that does not have the sandbox's placeholder " \
		       "where the value goes" \
	}

#endif
