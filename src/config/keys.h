/* keys.h - the keys of a rule, and of `limits`: one line each
 *
 * A line becomes the row of an option (options_rule.h, options_limits.h) and the member of a rule's
 * draft that holds its node until the rule is whole.
 */
#ifndef KEYHOLE_CONFIG_KEYS_H
#define KEYHOLE_CONFIG_KEYS_H

/* X(name, where it may stand, what it takes, how it goes to the worker, documentation): `allow`,
 * `deny` and `use` are the rule itself, and what stays is in `query` or looked at once. */
#define KH_ANYWHERE (KH_IN_FILE | KH_IN_PRESET)
#define KH_RULE_KEYS(X) \
	X(allow, KH_ANYWHERE, \
	  KH_SHAPE(JSON_REF("rule_text"), "METHODS SCHEME://HOST[:PORT][/PATH]"), KH_STAYS, \
	  "requests that may leave") \
	X(deny, KH_ANYWHERE, KH_SHAPE(JSON_REF("rule_text"), "the same"), KH_STAYS, \
	  "requests that may not") \
	X(use, KH_ANYWHERE, KH_SHAPE(JSON_RULE_USE, "a name, or { NAME: { PARAMETER: VALUE } }"), \
	  KH_STAYS, "a preset's rules, spliced in here: its name, alone or with its parameters") \
	X(credential, KH_ANYWHERE | KH_OF_ALLOW, \
	  KH_SHAPE(JSON_RULE_CREDENTIAL, "a name, or a list of names"), \
	  KH_CARRIED(kh_carry_rule_credentials, kh_rule, credentials), \
	  "what goes in: a name, or several of which the first with a value is used") \
	X(credentials, KH_ANYWHERE | KH_OF_ALLOW, \
	  KH_SHAPE(JSON_RULE_CREDENTIALS, "a list of names"), KH_STAYS, \
	  "what goes in, all of them: a list of names") \
	X(client_auth, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("refuse", "pass"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, client_auth_pass), \
	  "refuse (the default) or pass authentication that the client brings itself") \
	X(tls, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("intercept", "passthrough"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, passthrough), \
	  "intercept (the default), or passthrough: TLS is not decrypted, only its SNI " \
	  "read") \
	X(websocket, KH_ANYWHERE | KH_OF_ALLOW, KH_SHAPE(JSON_TRUTH, "true or false"), \
	  KH_CARRIED(kh_carry_websocket, kh_rule, no_websocket), \
	  "true or false: whether a WebSocket may be opened; where not, one is refused with " \
	  "426, and other requests are not affected. The default is true, but false where a " \
	  "credential goes in: set true for an API whose WebSocket needs it") \
	X(spelling, KH_ANYWHERE, KH_WORDS("any", "exact"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, exact_spelling), \
	  "any (the default): to deny, the rule also matches other spellings of what it " \
	  "names (case, escapes), and what it allows must be allowed in each way a server " \
	  "may read it; exact: the rule compares what is written, and no other reading. Set " \
	  "exact where the server is known to tell the spellings apart") \
	X(placeholder, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("mark", "refuse"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, placeholder_refuse), \
	  "what becomes of content that holds a placeholder: mark (the default) forwards it " \
	  "and marks the journal's record, refuse answers 403. Set refuse where others can " \
	  "read the content. In a request's head a placeholder out of its place is always " \
	  "refused") \
	X(reuse_after_content, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("safe", "never"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, closes_after_content), \
	  "safe (the default), or never: a connection to the upstream serves no other request " \
	  "after one with content; for one that may leave content unread") \
	X(public_suffix, KH_ANYWHERE, KH_SHAPE("{\"const\":\"allow\"}", "`allow`"), KH_STAYS, \
	  "allow: a wildcard over names that anybody can have (*.github.io) is meant") \
	X(query, KH_ANYWHERE | KH_IN_PART | KH_OF_REQUEST, \
	  KH_SHAPE(JSON_RULE_QUERY, "a map of parameters to patterns"), \
	  KH_CARRIED(kh_carry_conditions, kh_rule_more, conditions), \
	  "query parameters that the request must have, each with a pattern or a list of " \
	  "them") \
	X(headers, KH_ANYWHERE | KH_OF_REQUEST, \
	  KH_SHAPE(JSON_RULE_HEADERS, "a map of field names to patterns"), KH_STAYS, \
	  "fields that the request must have, each with a pattern or a list of them") \
	X(content_type, KH_ANYWHERE | KH_OF_REQUEST, \
	  KH_SHAPE(JSON_REF("patterns"), "a media type, or a list of them"), KH_STAYS, \
	  "the media type of the content, or a list of them") \
	X(models, KH_ANYWHERE | KH_OF_REQUEST, \
	  KH_SHAPE(JSON_REF("patterns"), "a pattern, or a list of them"), KH_STAYS, \
	  "the model that the request is for, with '*' for any characters, or a list") \
	X(max_body, KH_ANYWHERE | KH_IN_PART | KH_OF_REQUEST, \
	  KH_SHAPE(JSON_REF("size"), "a size"), \
	  KH_CARRIED(kh_carry_max_body, kh_rule_more, max_body), "the largest content, as 1MiB") \
	X(mode, KH_ANYWHERE | KH_IN_PART, KH_WORDS("enforce", "observe"), \
	  KH_CARRIED(kh_carry_flag, kh_rule_more, observe), \
	  "enforce (the default); observe: what the rule would deny is marked and goes on") \
	X(geo, KH_IN_FILE | KH_IN_PART, KH_SHAPE(JSON_REF("geo"), "a map of lists"), \
	  KH_CARRIED(kh_carry_geo, kh_rule_more, geo), \
	  "where the addresses lie that are dialled for what the rule allows")

#define KH_A_RATE "a rate such as 600/min, a list of them, or { rate: …, burst: … }"
#define KH_A_BYTE_RATE "a rate such as 1GiB/h, a list of them, or { rate: …, burst: … }"

/* What has no period: as what it is read, who carries it, the member of kh_limits, its bounds. */
#define KH_LIMIT(kind, function, name, low, high) \
	.as = KH_OPTION_##kind, KH_CARRIED(function, kh_limits, name), .least = low, .most = high

/* X(name, kind, member of a rule's draft, expected, schema, how it goes to the worker,
 * documentation, …): the rates are one list. */
#define KH_LIMIT_KEYS(X, ...) \
	X(requests, REQUESTS, requests, KH_A_RATE, JSON_RATES("rate"), \
	  KH_CARRIED(kh_carry_rates, kh_limits, rates), "requests in a period: s, min, h or day", \
	  __VA_ARGS__) \
	X(bytes_up, BYTES_UP, bytes_up, KH_A_BYTE_RATE, JSON_RATES("byte_rate"), KH_STAYS, \
	  "bytes of content towards the internet in a period", __VA_ARGS__) \
	X(bytes_down, BYTES_DOWN, bytes_down, KH_A_BYTE_RATE, JSON_RATES("byte_rate"), KH_STAYS, \
	  "bytes of content from there in a period", __VA_ARGS__) \
	X(concurrency, CONCURRENCY, concurrency, "a whole number", JSON_PLACES, \
	  KH_LIMIT(COUNT, kh_carry_concurrency, concurrency, 1, KH_LIMIT_QUOTA_PLACES), \
	  "exchanges at a time", __VA_ARGS__) \
	X(max_body, MAX_BODY, most_body, "a size", JSON_REF("size"), \
	  KH_LIMIT(SIZE, kh_carry_size, max_body, 1, UINT64_MAX), \
	  "the largest content of a request; a larger one is a 413", __VA_ARGS__) \
	X(tunnel_lifetime, TUNNEL_LIFETIME, tunnel_lifetime, "a duration", JSON_REF("duration"), \
	  KH_LIMIT(DURATION, kh_carry_number, tunnel_lifetime_ms, KH_LIMIT_LIFETIME_LEAST_MS, \
		   KH_LIMIT_LIFETIME_MOST_MS), \
	  "how long a WebSocket or tcp tunnel lasts, and a CONNECT tunnel unless it is a rule's", \
	  __VA_ARGS__)
/* What a rule has not. */
#define KH_LIMIT_KEYS_OF_OWNERS(X, ...) \
	X(connections, CONNECTIONS, , "a whole number", JSON_PLACES, \
	  KH_LIMIT(COUNT, kh_carry_connections, connections, 1, KH_LIMIT_QUOTA_PLACES), \
	  "connections from the sandbox's side at a time", __VA_ARGS__)

#endif
