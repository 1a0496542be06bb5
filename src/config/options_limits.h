/* options_limits.h - the rows of `limits`, which four owners have */
#ifndef KEYHOLE_CONFIG_OPTIONS_LIMITS_H
#define KEYHOLE_CONFIG_OPTIONS_LIMITS_H

#include <keyhole/limits.h>

#include "config_internal.h"

#define KH_A_RATE "a rate such as 600/min, a list of them, or { rate: …, burst: … }"
#define KH_A_BYTE_RATE "a rate such as 1GiB/h, a list of them, or { rate: …, burst: … }"

#define KH_REQUESTS_DOC "requests in a period: s, min, h or day"
#define KH_UP_DOC "bytes of content towards the internet in a period"
#define KH_DOWN_DOC "bytes of content from there in a period"
#define KH_CONCURRENCY_DOC "exchanges at a time"
#define KH_BODY_DOC "the largest content of a request; a larger one is a 413"
#define KH_LIFETIME_DOC "how long a CONNECT, WebSocket or tcp tunnel lasts"

#define KH_LIMIT_ROW(key_path, struct_name, member_name, wants, about) \
	{ \
		.path = key_path, .type = KH_OPTION_CUSTOM, .flags = KH_IN_FILE, \
		.offset = offsetof(struct struct_name, member_name), .expects = wants, \
		.read = kh_read_limit, .doc = about \
	}

/* `struct_name` has a `struct kh_limits *member_name`. */
#define KH_LIMITS(owner, struct_name, member_name, about) \
	{ .path = owner ".limits", .type = KH_OPTION_SECTION, .flags = KH_IN_FILE, .doc = about }, \
		KH_LIMIT_ROW(owner ".limits.requests", struct_name, member_name, KH_A_RATE, \
			     KH_REQUESTS_DOC), \
		KH_LIMIT_ROW(owner ".limits.bytes_up", struct_name, member_name, KH_A_BYTE_RATE, \
			     KH_UP_DOC), \
		KH_LIMIT_ROW(owner ".limits.bytes_down", struct_name, member_name, KH_A_BYTE_RATE, \
			     KH_DOWN_DOC), \
		KH_LIMIT_ROW(owner ".limits.concurrency", struct_name, member_name, \
			     "a whole number", KH_CONCURRENCY_DOC), \
		KH_LIMIT_ROW(owner ".limits.connections", struct_name, member_name, \
			     "a whole number", "connections from the sandbox's side at a time"), \
		KH_LIMIT_ROW(owner ".limits.max_body", struct_name, member_name, "a size", \
			     KH_BODY_DOC), \
		KH_LIMIT_ROW(owner ".limits.tunnel_lifetime", struct_name, member_name, \
			     "a duration", KH_LIFETIME_DOC)

/* A rule's are read when it is whole. */
#define KH_RULE_LIMIT(key, member_name, wants, about) \
	{ \
		.path = "rules[].limits." key, .type = KH_OPTION_NODE, .flags = KH_IN_FILE, \
		.offset = offsetof(struct kh_rule_draft, member_name), .expects = wants, \
		.doc = about \
	}
#define KH_RULE_LIMITS \
	{ .path = "rules[].limits", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE, \
	  .doc = "how much may go through by this rule" }, \
		KH_RULE_LIMIT("requests", requests, KH_A_RATE, KH_REQUESTS_DOC), \
		KH_RULE_LIMIT("bytes_up", bytes_up, KH_A_BYTE_RATE, KH_UP_DOC), \
		KH_RULE_LIMIT("bytes_down", bytes_down, KH_A_BYTE_RATE, KH_DOWN_DOC), \
		KH_RULE_LIMIT("concurrency", concurrency, "a whole number", KH_CONCURRENCY_DOC), \
		KH_RULE_LIMIT("max_body", most_body, "a size", KH_BODY_DOC), \
		KH_RULE_LIMIT("tunnel_lifetime", tunnel_lifetime, "a duration", \
			      "how long a WebSocket or tcp tunnel lasts")

/* `limits` at the top: of each listener. */
#define KH_LISTENER_LIMIT(key, member_name, highest, value, about) \
	{ \
		.path = "limits." key, .type = KH_OPTION_COUNT, .flags = KH_IN_FILE, \
		.offset = offsetof(struct kh_config, member_name), .least = 1, .most = highest, \
		.fallback = value, .doc = about \
	}
#define KH_LISTENER_LIMITS \
	{ .path = "limits", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE, \
	  .doc = "what bounds each listener, whatever its tenant's limits are" }, \
		KH_LISTENER_LIMIT("connections", max_connections, 1000000, "16384", \
				  "connections of a listener at a time"), \
		KH_LISTENER_LIMIT("exchanges", max_exchanges, 100000000, "100000", \
				  "requests on one connection before it is closed"), \
		{ .path = "limits.held_content", \
		  .type = KH_OPTION_SIZE, \
		  .flags = KH_IN_FILE, \
		  .offset = offsetof(struct kh_config, held_content), \
		  .least = 1024, \
		  .most = 268435456, \
		  .fallback = "16MiB", \
		  .doc = "content of a request that is held where a rule asks for the model in " \
			 "it" }, \
		KH_LISTENER_LIMIT("leaves", leaves_per_second, 10000, "50", \
				  "certificates minted for a listener in a second")

/* The defaults are written as text: hold them to what they mean. */
_Static_assert(KH_LIMIT_CONNECTIONS_PER_LISTENER == 16384 &&
		       KH_LIMIT_EXCHANGES_PER_CONNECTION == 100000 &&
		       KH_LIMIT_LEAVES_PER_SECOND == 50,
	       "the defaults of limits.* follow limits.h");

#endif
