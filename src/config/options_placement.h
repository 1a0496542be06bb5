/* options_placement.h - the rows of placements, one per kind, and of a credential's binding */
#ifndef KEYHOLE_CONFIG_OPTIONS_PLACEMENT_H
#define KEYHOLE_CONFIG_OPTIONS_PLACEMENT_H

#include "carry.h"
#include "config_internal.h"
#include "options_json.h"

/* Values are never shown: what is there by mistake may be a key. */
#define KH_PLACEMENT(name, form, wants, reader, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, .expects = wants, \
		.read = reader, form, .doc = text \
	}

#define KH_PLACEMENT_OPTIONS \
	KH_PLACEMENT("header", .shape = JSON_HEADER, \
		     "a map of field names to templates such as { authorization: \"Bearer {}\" }", \
		     kh_config_read_fields, "the fields to set; {} stands for the value"), \
		KH_PLACEMENT("bearer", .shape = JSON_YES, "true", kh_config_read_bearer, \
			     "set Authorization: Bearer VALUE"), \
		{ .path = "credentials.*.basic", \
		  .type = KH_OPTION_SECTION, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  .expects = "{ username: NAME }, or {} where the value is user:password", \
		  .doc = "set Authorization: Basic, with the value as the password; {}: the " \
			 "value is user:password" }, \
		KH_PLACEMENT("basic.username", \
			     .shape = \
				     "{\"type\":[\"string\",\"number\"],\"pattern\":\"^[^:]+$\"}", \
			     "a user's name", kh_config_read_basic_user, \
			     "the user name, such as x-access-token"), \
		KH_PLACEMENT("azure", .shape = JSON_YES, "true", kh_config_read_azure, \
			     "set api-key: VALUE, for Azure's APIs"), \
		KH_PLACEMENT("query", .shape = JSON_MEMBER, "the name of a parameter", \
			     kh_config_read_query, \
			     "the query parameter to set to the value, percent-encoded"), \
		KH_PLACEMENT("cookie", \
			     .shape = "{\"type\":\"string\",\"minLength\":1,\"maxLength\":48}", \
			     "the name of a cookie", kh_config_read_cookie, \
			     "the cookie to set to the value; all other cookies are removed"), \
		{ .path = "credentials.*.body", \
		  .type = KH_OPTION_SECTION, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  .expects = "{ json: /PATH/TO/MEMBER } or { form: NAME }", \
		  .between = JSON_ONE_SOURCE, \
		  .doc = "the place in the request's content where the value goes: one of " \
			 "json and form" }, \
		KH_PLACEMENT("body.json", .shape = "{\"type\":\"string\",\"pattern\":\"^/[^/]\"}", \
			     "a pointer such as /auth/key", kh_config_read_body_json, \
			     "in JSON: a pointer to a member (RFC 6901)"), \
		KH_PLACEMENT("body.form", .shape = JSON_MEMBER, "the name of a member", \
			     kh_config_read_body_form, \
			     "in a form (application/x-www-form-urlencoded): a member")

/* One or several. */
#define KH_BINDING(name, carried, wants, reader, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, .expects = wants, \
		.read = reader, .shape = JSON_REF("hosts"), .carry = carried, .doc = text \
	}

#define KH_BINDING_OPTIONS \
	{ .path = "credentials.*.hosts", \
	  .type = KH_OPTION_CUSTOM, \
	  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_REQUIRED | KH_IS_QUIET, \
	  .expects = "a list of hosts", \
	  .read = kh_config_read_hosts, \
	  .shape = JSON_REF("hosts"), \
	  .carry = kh_carry_hosts, \
	  .doc = "the hosts that the credential may go to, whatever a rule says" }, \
		KH_BINDING("paths", kh_carry_paths, "a list of paths", \
			   kh_config_read_binding_paths, \
			   "the paths that the credential may go to, written as in rules; by " \
			   "default any path"), \
		KH_BINDING("methods", kh_carry_methods, "a list of methods", \
			   kh_config_read_binding_methods, \
			   "the methods that the credential may go with; by default GET, HEAD, " \
			   "POST, PUT, PATCH, DELETE and OPTIONS"), \
		KH_PLACEMENT("shared_host", .shape = "{\"const\":\"accept\"}", "accept", \
			     kh_config_read_shared_host, \
			     "accept: allow hosts that you share with strangers (buckets, " \
			     "queues, sites). By default such a host is an error. Set this only " \
			     "if neither a host of your own nor `paths` can name what is yours"), \
	{ \
		.path = "credentials.*.allow_short", .type = KH_OPTION_BOOL, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		.offset = offsetof(struct kh_credential_config, allow_short), \
		KH_CARRIED(kh_carry_value, kh_credential_config, allow_short), \
		.fallback = "false", \
		.doc = "accept a value of fewer than 8 bytes, which keyhole can't tell " \
		       "from other text" \
	}

#endif
