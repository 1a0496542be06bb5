/* options_limits.h - the rows of `limits`, which four owners have: one line below each */
#ifndef KEYHOLE_CONFIG_OPTIONS_LIMITS_H
#define KEYHOLE_CONFIG_OPTIONS_LIMITS_H

#include <keyhole/base/limits.h>

#include "carry.h"
#include "config_internal.h"
#include "options_json.h"

#define KH_LIMIT_ROW(name, kind, draft_member, wants, json, carried, about, owner, type_name, \
		     member_name) \
	{ .path = owner ".limits." #name, \
	  .type = KH_OPTION_CUSTOM, \
	  .flags = KH_IN_FILE | KH_IN_PART, \
	  .offset = offsetof(struct type_name, member_name), \
	  .expects = wants, \
	  .read = kh_config_read_limit, \
	  .shape = json, \
	  carried, \
	  .doc = about },

/* `type_name` has a `struct kh_limits *member_name`. */
#define KH_LIMITS(owner, type_name, member_name, about) \
	{ .path = owner ".limits", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE, \
	  KH_CARRIED(kh_carry_limits, type_name, member_name), \
	  .doc = about }, \
		KH_LIMIT_KEYS(KH_LIMIT_ROW, owner, type_name, member_name) \
			KH_LIMIT_KEYS_OF_OWNERS(KH_LIMIT_ROW, owner, type_name, member_name)

/* A rule's are read when it is whole. */
#define KH_RULE_LIMIT_ROW(name, kind, draft_member, wants, json, carried, about, ...) \
	{ .path = "rules[].limits." #name, \
	  .type = KH_OPTION_NODE, \
	  .flags = KH_IN_FILE | KH_IN_PART, \
	  .offset = offsetof(struct kh_rule_draft, draft_member), \
	  .takes = wants, \
	  .shape = json, \
	  carried, \
	  .doc = about },
#define KH_RULE_LIMITS \
	{ .path = "rules[].limits", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE | KH_IN_PART, \
	  KH_CARRIED(kh_carry_limits, kh_rule_more, limits), \
	  .doc = "how much the requests that this rule allows may use" }, \
		KH_LIMIT_KEYS(KH_RULE_LIMIT_ROW, )
/* `limits` at the top: of each listener. */
#define KH_LISTENER_LIMIT(key, member_name, highest, value, about) \
	{ \
		.path = "limits." key, .type = KH_OPTION_COUNT, .flags = KH_IN_FILE, \
		.offset = offsetof(struct kh_config, member_name), \
		KH_CARRIED(kh_carry_value, kh_config, member_name), .least = 1, .most = highest, \
		.fallback = value, .doc = about \
	}
#define KH_LISTENER_LIMITS \
	{ .path = "limits", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE, \
	  .doc = "limits of each listener, besides the limits of its tenant" }, \
		KH_LISTENER_LIMIT("connections", max_connections, 1000000, "16384", \
				  "connections of a listener at a time"), \
		KH_LISTENER_LIMIT("exchanges", max_exchanges, 100000000, "100000", \
				  "requests on one connection before it is closed"), \
		{ .path = "limits.held_content", \
		  .type = KH_OPTION_SIZE, \
		  .flags = KH_IN_FILE, \
		  .offset = offsetof(struct kh_config, held_content), \
		  KH_CARRIED(kh_carry_value, kh_config, held_content), \
		  .least = 1024, \
		  .most = 268435456, \
		  .fallback = "16MiB", \
		  .doc = "content of a request that keyhole holds, for a rule with `models` " \
			 "or a signature over the content" }, \
		KH_LISTENER_LIMIT("leaves", leaves_per_second, 10000, "50", \
				  "certificates signed for a listener per second"), \
		KH_LISTENER_LIMIT( \
			"refusals", refusals_per_second, 100000, "10", \
			"refusals of a listener per second that get a record each; further " \
			"ones are counted in one record"), \
		KH_LISTENER_LIMIT("refusals_burst", refusals_burst, 1000000, "1000", \
				  "how many refusals get a record each if they come at once")

/* The defaults are written as text: hold them to what they mean. */
_Static_assert(KH_LIMIT_CONNECTIONS_PER_LISTENER == 16384 &&
		       KH_LIMIT_EXCHANGES_PER_CONNECTION == 100000 &&
		       KH_LIMIT_LEAVES_PER_SECOND == 50 && KH_LIMIT_REFUSALS_PER_SECOND == 10 &&
		       KH_LIMIT_REFUSALS_BURST == 1000,
	       "the defaults of limits.* follow limits.h");

#endif
