/* options_placement.h - the rows of where a credential goes, one a kind, and of what binds it */
#ifndef KEYHOLE_CONFIG_OPTIONS_PLACEMENT_H
#define KEYHOLE_CONFIG_OPTIONS_PLACEMENT_H

#include "carry.h"
#include "config_internal.h"
#include "options_json.h"

/* Values are never shown: what stands there by mistake may be a key. */
#define KH_PLACEMENT(name, form, wants, reader, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, .expects = wants, \
		.read = reader, form, .doc = text \
	}

#define KH_PLACEMENT_OPTIONS \
	KH_PLACEMENT("header", .shape = JSON_HEADER, \
		     "a map of field names to templates such as { authorization: \"Bearer {}\" }", \
		     kh_config_read_fields, "the fields that it sets; {} stands for the value"), \
		KH_PLACEMENT("bearer", .shape = JSON_YES, "true", kh_config_read_bearer, \
			     "true: Authorization: Bearer VALUE"), \
		{ .path = "credentials.*.basic", \
		  .type = KH_OPTION_SECTION, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  .expects = "{ username: NAME }, or {} where the value is user:password", \
		  .doc = "Authorization: Basic, with the value as the password; {}: it is " \
			 "user:password" }, \
		KH_PLACEMENT("basic.username", \
			     .shape = \
				     "{\"type\":[\"string\",\"number\"],\"pattern\":\"^[^:]+$\"}", \
			     "a user's name", kh_config_read_basic_user, \
			     "who it belongs to, such as x-access-token"), \
		KH_PLACEMENT("azure", .shape = JSON_YES, "true", kh_config_read_azure, \
			     "true: api-key: VALUE, as Azure's APIs want it"), \
		KH_PLACEMENT("query", .shape = JSON_MEMBER, "the name of a parameter", \
			     kh_config_read_query, \
			     "the query parameter that it is, percent-encoded"), \
		KH_PLACEMENT("cookie", \
			     .shape = "{\"type\":\"string\",\"minLength\":1,\"maxLength\":48}", \
			     "the name of a cookie", kh_config_read_cookie, \
			     "the cookie that it is; the request has no other"), \
		{ .path = "credentials.*.body", \
		  .type = KH_OPTION_SECTION, \
		  .flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		  .expects = "{ json: /PATH/TO/MEMBER } or { form: NAME }", \
		  .between = JSON_ONE_SOURCE, \
		  .doc = "a text in the request's content that it replaces: one of json and " \
			 "form" }, \
		KH_PLACEMENT("body.json", .shape = "{\"type\":\"string\",\"pattern\":\"^/[^/]\"}", \
			     "a pointer such as /auth/key", kh_config_read_body_json, \
			     "where it is in JSON: a pointer to a member (RFC 6901)"), \
		KH_PLACEMENT("body.form", .shape = JSON_MEMBER, "the name of a member", \
			     kh_config_read_body_form, \
			     "the member of a form (application/x-www-form-urlencoded)")

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
	  .doc = "where it may go, whatever a rule says" }, \
		KH_BINDING("paths", kh_carry_paths, "a list of paths", \
			   kh_config_read_binding_paths, \
			   "the paths that it may go to, as in rules; any unless said"), \
		KH_BINDING("methods", kh_carry_methods, "a list of methods", \
			   kh_config_read_binding_methods, \
			   "the methods that it may go with; GET, HEAD, POST, PUT, PATCH, " \
			   "DELETE and OPTIONS unless said"), \
		KH_PLACEMENT("shared_host", .shape = "{\"const\":\"accept\"}", "accept", \
			     kh_config_read_shared_host, \
			     "accept: it may go to hosts where strangers have names " \
			     "or paths too (buckets, queues, sites). The default is " \
			     "that such a host is an error. Set it only where neither " \
			     "a host of your own nor paths can say what is yours"), \
	{ \
		.path = "credentials.*.allow_short", .type = KH_OPTION_BOOL, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, \
		.offset = offsetof(struct kh_credential_config, allow_short), \
		KH_CARRIED(kh_carry_value, kh_credential_config, allow_short), \
		.fallback = "false", \
		.doc = "take a value of fewer than 8 bytes, which can't be told from other text" \
	}

#endif
