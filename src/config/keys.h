/* keys.h - the keys of a rule, and of `limits`: one line each
 *
 * A line becomes the row of an option (options_rule.h, options_limits.h), and the member of a
 * rule's draft that holds its node until the rule has been read completely.
 */
#ifndef KEYHOLE_CONFIG_KEYS_H
#define KEYHOLE_CONFIG_KEYS_H

/* X(name, where it may be, what it takes, how it goes to the worker, documentation): `allow`,
 * `deny` and `use` are the rule itself, and what stays is in `query` or looked at once. */
#define KH_ANYWHERE (KH_IN_FILE | KH_IN_PRESET)
#define KH_RULE_KEYS(X) \
	X(allow, KH_ANYWHERE, \
	  KH_SHAPE(JSON_REF("rule_text"), "[METHODS] SCHEME://HOST[:PORT][/PATH]"), KH_STAYS, \
	  "requests to allow") \
	X(deny, KH_ANYWHERE, \
	  KH_SHAPE(JSON_REF("rule_text"), "[METHODS] SCHEME://HOST[:PORT][/PATH]"), KH_STAYS, \
	  "requests to deny") \
	X(use, KH_ANYWHERE, KH_SHAPE(JSON_RULE_USE, "a name, or { NAME: { PARAMETER: VALUE } }"), \
	  KH_STAYS, \
	  "insert the rules of a preset here: the name of the preset, alone " \
	  "or with parameters") \
	X(credential, KH_ANYWHERE | KH_OF_ALLOW, \
	  KH_SHAPE(JSON_RULE_CREDENTIAL, "a name, or a list of names"), \
	  KH_CARRIED(kh_carry_rule_credentials, kh_rule, credentials), \
	  "the credential to inject; of several, the first that has a value") \
	X(credentials, KH_ANYWHERE | KH_OF_ALLOW, \
	  KH_SHAPE(JSON_RULE_CREDENTIALS, "a list of names"), KH_STAYS, \
	  "several credentials to inject together") \
	X(client_auth, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("refuse", "pass"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, client_auth_pass), \
	  "what happens to authentication that the client sends: refuse (the " \
	  "default) or pass") \
	X(tls, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("intercept", "passthrough"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, passthrough), \
	  "intercept (the default), or passthrough: TLS is not decrypted; " \
	  "only its SNI is checked") \
	X(websocket, KH_ANYWHERE | KH_OF_ALLOW, KH_SHAPE(JSON_TRUTH, "true or false"), \
	  KH_CARRIED(kh_carry_websocket, kh_rule, no_websocket), \
	  "whether the client may open a WebSocket. false refuses one with " \
	  "426, and does not affect other requests. The default is true; if " \
	  "the rule sets a credential, it is false: set true for an API whose " \
	  "WebSocket needs the credential") \
	X(spelling, KH_ANYWHERE, KH_WORDS("any", "exact"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, exact_spelling), \
	  "any (the default): a rule that denies also matches other spellings " \
	  "(case, escapes), and a request is allowed only if each way to read " \
	  "it is allowed. exact: the rule compares only what is written. Set " \
	  "exact only if the server tells the spellings apart") \
	X(placeholder, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("mark", "refuse"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, placeholder_refuse), \
	  "for content with a placeholder: mark (the default) forwards it and " \
	  "marks the record in the journal; refuse answers 403. Set refuse if " \
	  "others can read the content. In the head of a request, a " \
	  "placeholder in a wrong place is always refused") \
	X(reuse_after_content, KH_ANYWHERE | KH_OF_ALLOW, KH_WORDS("safe", "never"), \
	  KH_CARRIED(kh_carry_flag, kh_rule, closes_after_content), \
	  "safe (the default), or never: a connection to the upstream serves no other request " \
	  "after one with content. Set never for an upstream that may leave content unread") \
	X(public_suffix, KH_ANYWHERE, KH_SHAPE("{\"const\":\"allow\"}", "`allow`"), KH_STAYS, \
	  "allow: permit a wildcard over names that anybody can have " \
	  "(*.github.io)") \
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
	  "the media types of the content that the rule matches") \
	X(models, KH_ANYWHERE | KH_OF_REQUEST, \
	  KH_SHAPE(JSON_REF("patterns"), "a pattern, or a list of them"), KH_STAYS, \
	  "the models that the rule matches; '*' stands for any characters") \
	X(max_body, KH_ANYWHERE | KH_IN_PART | KH_OF_REQUEST, \
	  KH_SHAPE(JSON_REF("size"), "a size"), \
	  KH_CARRIED(kh_carry_max_body, kh_rule_more, max_body), \
	  "the largest content of a request, such as 1MiB") \
	X(mode, KH_ANYWHERE | KH_IN_PART, KH_WORDS("enforce", "observe"), \
	  KH_CARRIED(kh_carry_flag, kh_rule_more, observe), \
	  "enforce (the default), or observe: requests that the rule would " \
	  "deny are not denied, and are marked in the journal") \
	X(geo, KH_IN_FILE | KH_IN_PART, KH_SHAPE(JSON_REF("geo"), "a map of lists"), \
	  KH_CARRIED(kh_carry_geo, kh_rule_more, geo), \
	  "for requests that the rule allows: countries and networks of " \
	  "upstream addresses")

#define KH_A_RATE "a rate such as 600/min, a list of them, or { rate: …, burst: … }"
#define KH_A_BYTE_RATE "a rate such as 1GiB/h, a list of them, or { rate: …, burst: … }"

/* What has no period: as what it is read, who carries it, the member of kh_limits, its bounds. */
#define KH_LIMIT(kind, function, name, low, high) \
	.as = KH_OPTION_##kind, KH_CARRIED(function, kh_limits, name), .least = low, .most = high

/* X(name, kind, member of a rule's draft, expected, schema, how it goes to the worker,
 * documentation, …): the rates are one list. */
#define KH_LIMIT_KEYS(X, ...) \
	X(requests, REQUESTS, requests, KH_A_RATE, JSON_RATES("rate"), \
	  KH_CARRIED(kh_carry_rates, kh_limits, rates), "requests per period: s, min, h or day", \
	  __VA_ARGS__) \
	X(bytes_up, BYTES_UP, bytes_up, KH_A_BYTE_RATE, JSON_RATES("byte_rate"), KH_STAYS, \
	  "bytes of content sent to upstreams per period", __VA_ARGS__) \
	X(bytes_down, BYTES_DOWN, bytes_down, KH_A_BYTE_RATE, JSON_RATES("byte_rate"), KH_STAYS, \
	  "bytes of content received from upstreams per period", __VA_ARGS__) \
	X(concurrency, CONCURRENCY, concurrency, "a whole number", JSON_PLACES, \
	  KH_LIMIT(COUNT, kh_carry_concurrency, concurrency, 1, KH_LIMIT_QUOTA_PLACES), \
	  "exchanges at a time", __VA_ARGS__) \
	X(max_body, MAX_BODY, most_body, "a size", JSON_REF("size"), \
	  KH_LIMIT(SIZE, kh_carry_size, max_body, 1, UINT64_MAX), \
	  "the largest content of a request; larger content is refused with 413", __VA_ARGS__) \
	X(tunnel_lifetime, TUNNEL_LIFETIME, tunnel_lifetime, "a duration", JSON_REF("duration"), \
	  KH_LIMIT(DURATION, kh_carry_number, tunnel_lifetime_ms, KH_LIMIT_LIFETIME_LEAST_MS, \
		   KH_LIMIT_LIFETIME_MOST_MS), \
	  "how long a WebSocket or tcp tunnel may last; except at a rule, " \
	  "also a CONNECT tunnel", \
	  __VA_ARGS__)
/* What a rule has not. */
#define KH_LIMIT_KEYS_OF_OWNERS(X, ...) \
	X(connections, CONNECTIONS, , "a whole number", JSON_PLACES, \
	  KH_LIMIT(COUNT, kh_carry_connections, connections, 1, KH_LIMIT_QUOTA_PLACES), \
	  "connections from sandboxes at a time", __VA_ARGS__)

#endif
