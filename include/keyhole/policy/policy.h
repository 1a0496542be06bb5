/* policy.h - decides whether a request may leave, and with which credential */
#ifndef KEYHOLE_POLICY_POLICY_H
#define KEYHOLE_POLICY_POLICY_H

#include <keyhole/base/path.h>
#include <keyhole/config/config.h>

/* Compiled once, immutable, shared by threads; reference-counted (atomically). */
struct kh_policy;

/* Keeps pointers into `config`, which must outlive the policy. Return: NULL with `err`. */
struct kh_policy *kh_policy_compile(const struct kh_config *config, struct kh_err *err);
struct kh_policy *kh_policy_ref(struct kh_policy *policy);
void kh_policy_unref(struct kh_policy *policy);

/*
 * A sandbox's own list of rules in addition to its tenant's (kh_listener_config.narrow,
 * kh_narrow_parse): a ceiling, which can only deny more. Compiled separately, so that a sandbox can
 * come and go without a new policy. Immutable, shared by threads, reference-counted (atomically).
 */
struct kh_narrowing;

/* Takes ownership of the rules, also on failure. Return: NULL with `err`: no memory, or a rule
 * would grant something (a credential, for example). */
struct kh_narrowing *kh_narrowing_new(struct kh_rules *rules, struct kh_err *err);
struct kh_narrowing *kh_narrowing_ref(struct kh_narrowing *narrowing);
void kh_narrowing_unref(struct kh_narrowing *narrowing);
/* Its rules; a view. */
const struct kh_rules *kh_narrowing_rules(const struct kh_narrowing *narrowing);
/* The narrowing of a listener of the configuration, by its index; NULL: it has none. Not a
 * reference: lives as long as the policy. */
const struct kh_narrowing *kh_policy_narrowing(const struct kh_policy *policy, size_t listener);

/* Iterates over the fields of a request's head that go upstream (without hop-by-hop fields). *at is
 * 0 for the first call. `next` returns false at the end. */
struct kh_request_fields {
	bool (*next)(void *head, size_t *at, struct kh_slice *name, struct kh_slice *value);
	void *head;
};

/*
 * The overrides in a request: fields and parameters that ask the server to use another method
 * (X-HTTP-Method-Override and the like), another host (X-Forwarded-Host and the like), or another
 * path (X-Original-URL and the like). Some servers obey, so the request must be allowed in each of
 * these readings too. kh_overrides_read (message.h) finds them.
 */
enum {
	KH_OVERRIDING_METHODS = 4,
	KH_OVERRIDING_BYTES = 32,
	KH_OVERRIDING_HOSTS = 2,
	KH_OVERRIDING_QUERIES = 2,
	/* Room for a key of 1,024 bytes, each percent-encoded, and the name of a bucket. */
	KH_OVERRIDING_SOURCE_BYTES = 3200
};
#define KH_OVERRIDING_ANY "*"
/* Does the request ask the server to read something else by itself (X-Amz-Copy-Source and the
 * like)? See kh_copy_source_read. */
enum kh_copy {
	KH_COPY_NONE = 0,
	KH_COPY_UNREAD, /* unreadable, or in another place: nothing allows it */
	KH_COPY_READ,	/* in the request's own bucket */
};
struct kh_overrides {
	size_t n_methods;
	/* In capitals. "": empty; only rules for any method match it. KH_OVERRIDING_ANY: ambiguous;
	 * servers disagree on what it means (in "DELETE, GET" some take the first), so it may be
	 * any method that a rule denies. */
	char methods[KH_OVERRIDING_METHODS][KH_OVERRIDING_BYTES + 1];
	bool path; /* a field or parameter names a path; it counts as any path */
	/* The queries of the paths that fields name, without '?'; ptr NULL: a path without one. */
	size_t n_queries;
	struct kh_slice queries[KH_OVERRIDING_QUERIES];
	bool any_query; /* with `path`: a query that can't be read, or too many */
	bool any_field; /* with `path`: a parameter stands for fields, and may set any field */
	/* Other hosts. Each must be allowed by the same rule that allows the request. */
	size_t n_hosts;
	struct kh_overriding_host {
		struct kh_host host;
		uint16_t port; /* 0: none is given: the request's */
	} hosts[KH_OVERRIDING_HOSTS];
	struct kh_slice host_field; /* the name of the field with a host, as written; empty: none */
	bool any_host; /* a host that can't be read, or too many: nothing allows that */
	/* A source must be allowed as a GET of source_path at the request's own host. */
	enum kh_copy source;
	uint8_t source_form;  /* override_name.h's */
	bool source_in_query; /* in a parameter, or in a field and a parameter: percent-encoded */
	struct kh_slice source_field; /* its field or parameter as written, and the value */
	struct kh_slice source_value;
	size_t repositories; /* how many parameters name the repository of a blob; more than one is
				unreadable */
	struct kh_slice repository;
	size_t parameters; /* how many were looked at, in all of the request's queries */
	size_t source_len; /* READ: the length of source_path, in normal form */
	char source_path[KH_OVERRIDING_SOURCE_BYTES];
};
static inline bool kh_overrides_any(const struct kh_overrides *overrides)
{
	return overrides->n_methods > 0 || overrides->path || overrides->n_hosts > 0 ||
	       overrides->any_host || overrides->source != KH_COPY_NONE;
}

/* What is known about the (LLM) model that a request names. */
enum kh_model_state {
	KH_MODEL_UNREAD = 0, /* unknown: the content was not read and may name one */
	KH_MODEL_NONE,
	KH_MODEL_NAMED,
};

/* The canonical request (target.h). Views. */
struct kh_request_view {
	struct kh_slice method;
	enum kh_scheme scheme;
	const struct kh_host *host;
	uint16_t port;
	struct kh_slice path;	      /* normalised; %2F kept */
	struct kh_slice path_slashed; /* with %2F as '/'; ptr NULL: no %2F in it */
	struct kh_slice path_decoded; /* decoded further (path.h); ptr NULL: no difference */
	const struct kh_path_cuts *path_cuts; /* NULL: there are none */
	struct kh_slice query;		      /* as received, without '?'; ptr NULL: none */
	struct kh_request_fields fields;      /* next NULL: there are none */
	const struct kh_overrides *overrides; /* NULL: there are none */
	bool has_length;
	uint64_t length; /* of the content; with has_length */
	enum kh_model_state model_state;
	struct kh_slice model; /* with KH_MODEL_NAMED */
	uint64_t steps;	       /* of a decision, that making the view took */
};

/* A reading of a request: one way in which a server may understand it. The request must be allowed
 * in all readings, and with the same effect. */
enum kh_reading {
	KH_READ_PLAIN = 0,
	KH_READ_SLASHED,       /* %2F as '/' */
	KH_READ_OTHER_METHOD,  /* the method that a field or parameter names */
	KH_READ_OTHER_PATH,    /* any path, since a field or parameter names one */
	KH_READ_DECODED,       /* the path decoded further (kh_path_decoded) */
	KH_READ_CUT,	       /* the path cut at an escaped '?' or '#' (kh_path_cuts) */
	KH_READ_OTHER_ADDRESS, /* the IPv4 address that the IPv6 address embeds */
	KH_READ_OTHER_HOST,    /* the host that a field names */
	KH_READ_SOURCE,	       /* the copy source that a field or parameter names */
	/* Readings in which a deny rule matches another spelling of what it names: */
	KH_READ_METHOD_CASE,
	KH_READ_PATH_SPELLING,
	KH_READ_QUERY_SPELLING,
	KH_READ_FIELD_SPELLING,
	KH_READ_RESOLVED, /* a rule denies an address that the host's name resolves to */
};
/* As text for people: "" for the plain one, "the path decoded further" … */
const char *kh_reading_text(enum kh_reading reading);

/* Whose list of rules. */
enum kh_list { KH_LIST_TENANT = 0, KH_LIST_SITE, KH_LIST_SANDBOX };
/* "tenant", "site", "sandbox". */
const char *kh_list_name(enum kh_list list);

/* A zeroed decision denies. */
struct kh_decision {
	bool allow;
	enum kh_err_code reason; /* of a denial: KH_ERR_DENIED_BY_RULE, KH_ERR_NO_RULE,
				    KH_ERR_TUNNEL_ONLY, KH_ERR_REQUEST_TOO_COMPLEX (out of steps) */
	const struct kh_rule
		*rule; /* the rule that decided; NULL: none matched. Lives as long as the policy */
	enum kh_list list;		 /* the list with that rule, or in which none matched */
	enum kh_reading reading;	 /* of a denial: the reading that is denied */
	const struct kh_rule *site_rule; /* with `allow`: the site's rule that allows it too; NULL:
					    the site has no rules */
	const struct kh_rule *narrow_rule; /* with `allow`: the narrowing's rule that allows it too;
					      NULL: no narrowing */
	bool websocket;	 /* with `allow`: may be a WebSocket; no rule that allows it refuses one */
	bool asks_model; /* not decided yet: a rule that was reached needs the model, which is
			    UNREAD */
	/* Of a request that passes only in mode observe: the reason why it would be denied, the
	 * rule (NULL: none allows it), and its list. */
	enum kh_err_code would;
	const struct kh_rule *would_rule;
	enum kh_list would_list;
	/* With `allow`: the tenant's rules would refuse it, but the tenant is in mode observe. The
	 * request gets no credential, and the client's own authentication is passed on. */
	bool bare;
	uint64_t steps; /* steps used, of KH_LIMIT_DECISION_STEPS */
};

/*
 * Decides a request. The lists are the site's rules (if any), the tenant's, and the sandbox's
 * narrowing (NULL: none). In each list, from top to bottom, the first match decides; no match
 * denies. All lists must allow; out->rule is the tenant's rule. A rule with passthrough does not
 * allow a request that keyhole reads. A request with %2F, with an escape that decodes further, for
 * an address that embeds another, or with overrides must be allowed in all readings. The rules that
 * allow it must then have the same credentials, client_auth, geo and max_body, agree on WebSocket,
 * and have no limits of their own, unless they are the same rule; a host that a field names must be
 * allowed by the very same rule. A deny rule also matches other spellings that some servers take
 * for the same (spelling.h), unless it has `spelling: exact`. A request that needs more than
 * KH_LIMIT_DECISION_STEPS is denied, which bounds the work that a sandbox can cause. Allocates only
 * for other spellings of a path of more than 256 bytes; without memory the deny rule matches.
 */
void kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
		      const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		      struct kh_decision *out);

/* May kh_policy_denies_address deny or note anything? If not, the request need not be read again.
 */
bool kh_policy_looks_at_addresses(const struct kh_policy *policy, uint16_t tenant,
				  const struct kh_narrowing *narrowing);
/*
 * Decides again about a request that was allowed by host name, for an address that the name
 * resolves to. It is denied if a deny rule for addresses matches `addr` and comes before the rule
 * that allowed the request, in the same list. A rule with `spelling: exact` only matches addresses
 * that the request itself names. `decision` is the one that allowed it; `unread`: it is a tunnel
 * that keyhole does not read. *steps counts the work over all addresses of the request; 0 at first.
 * Return: true: denied, and `out` says by which rule (NULL: out of steps, or there is no such
 * tenant). Else `out` has `would` if a denial is only observed, and `bare` if that is the tenant's
 * mode. Allocates as kh_policy_decide does.
 */
bool kh_policy_denies_address(const struct kh_policy *policy, uint16_t tenant,
			      const struct kh_narrowing *narrowing,
			      const struct kh_request_view *request, bool unread,
			      const struct kh_decision *decision, const struct kh_host *addr,
			      uint64_t *steps, struct kh_decision *out);

/* The first of the rules that allow it which refuses a WebSocket; NULL: none. *list (may be NULL):
 * whose rule. */
const struct kh_rule *kh_decision_no_websocket(const struct kh_decision *decision,
					       enum kh_list *list);
/* Of the rules that allow it, the one with the smallest max_body; NULL: none has one. */
const struct kh_rule *kh_decision_max_body(const struct kh_decision *decision);

/*
 * The rule that allows requests which a tenant's rules would deny, if the tenant is in mode
 * observe. It passes the client's own authentication on and has no credential. NULL: the tenant's
 * rules are enforced. Denials by the site or a narrowing, by the address guard and by the binding
 * of credentials are always enforced.
 */
const struct kh_rule *kh_policy_observing(const struct kh_policy *policy, uint16_t tenant);
/*
 * The tenant's rules would refuse the request for `reason`, by rule `by` (NULL: none allows it). If
 * the tenant is in mode observe, sets `allow`, `would` and `bare` together; no other function does.
 * A `would` that mode observe has already set is kept. Return: false: the rules are enforced, and
 * nothing has changed.
 */
bool kh_decision_observe(const struct kh_policy *policy, uint16_t tenant, enum kh_err_code reason,
			 const struct kh_rule *by, struct kh_decision *out);
/*
 * May a person be asked about a request that was decided so? Only if nothing speaks of it: no rule
 * of the tenant matches, the site's rules (if any) allow it, it has no other reading than the plain
 * one, no model was asked for, and the sandbox has no narrowing.
 */
bool kh_policy_may_ask(const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		       const struct kh_decision *decision);
/*
 * A person has allowed it: sets `allow`, with a rule that names no credential and does not pass on
 * the client's own authentication. Deny rules for addresses still apply. Return: false: nobody may
 * be asked about it (kh_policy_may_ask), and nothing has changed.
 */
bool kh_policy_take_answer(const struct kh_policy *policy, uint16_t tenant,
			   const struct kh_narrowing *narrowing,
			   const struct kh_request_view *request, struct kh_decision *out);
/* The request goes to an address for which kh_policy_denies_address returned `there`: copies its
 * `would`, unless `out` has one. Return: whether it was copied. */
bool kh_decision_mark_there(const struct kh_decision *there, struct kh_decision *out);
/* Is the client's own authentication passed on? */
static inline bool kh_decision_passes_auth(const struct kh_decision *decision)
{
	return decision->bare || decision->rule->client_auth_pass;
}

/* Does any rule for the scheme, host and port of `view` look at that field, in any spelling? *steps
 * counts the work for all fields of a request, 0 at first; above KH_LIMIT_DECISION_STEPS the
 * answer is yes. */
bool kh_policy_looks_at_field(const struct kh_policy *policy, uint16_t tenant,
			      const struct kh_narrowing *narrowing,
			      const struct kh_request_view *view, struct kh_slice name,
			      uint64_t *steps);

/* How a tunnel (CONNECT, SOCKS5, TLS without CONNECT) is treated. Zero denies. */
enum kh_tunnel_kind {
	KH_TUNNEL_DENIED = 0, /* only tcp rules match its host and port, and they deny */
	KH_TUNNEL_READ,	      /* keyhole reads it as HTTP and decides about each request */
	KH_TUNNEL_PASS,	      /* TLS passed on undecrypted (tls: passthrough) */
	KH_TUNNEL_RAW,	      /* bytes passed on unread (tcp://) */
};
/*
 * The tenant's first rule with this host and port, of any scheme, decides how the tunnel is
 * treated: an http or https rule, also one that denies, makes it READ; a tcp rule that denies only
 * rules out RAW. Without any rule it is READ, so that the client can read the refusal. The site's
 * rules and the narrowing must allow PASS and RAW too: RAW by a tcp rule; PASS by an https rule
 * that allows everything at this authority, since methods and paths of undecrypted requests can't
 * be checked. Rules in mode observe are ignored here; for PASS and RAW, out->would notes them.
 * `out` says which rule decided, also for DENIED. No allocation.
 */
enum kh_tunnel_kind kh_policy_tunnel(const struct kh_policy *policy, uint16_t tenant,
				     const struct kh_narrowing *narrowing,
				     const struct kh_host *host, uint16_t port,
				     struct kh_decision *out);

/*
 * The `geo` lists that an address must pass before it is dialled for an allowed request. NULL: no
 * list at that level. If one list denies the address, it is denied.
 */
enum kh_geo_level { KH_GEO_SITE = 0, KH_GEO_TENANT, KH_GEO_SITE_RULE, KH_GEO_RULE, KH_GEO_LEVELS };
struct kh_geo_levels {
	const struct kh_geo_rules *at[KH_GEO_LEVELS];
};
/* The lists live as long as the policy's configuration. */
struct kh_geo_levels kh_policy_geo(const struct kh_policy *policy, uint16_t tenant,
				   const struct kh_decision *decision);
static inline bool kh_geo_asks(const struct kh_geo_levels *levels)
{
	return levels->at[KH_GEO_SITE] || levels->at[KH_GEO_TENANT] ||
	       levels->at[KH_GEO_SITE_RULE] || levels->at[KH_GEO_RULE];
}

/* Why a rule does not match. */
enum kh_mismatch {
	KH_MATCHES = 0,
	KH_OTHER_SCHEME,
	KH_OTHER_HOST,
	KH_OTHER_PORT,
	KH_OTHER_METHOD,
	KH_OTHER_PATH,
	KH_OTHER_QUERY,
	KH_OTHER_HEADERS,
	KH_OTHER_CONTENT_TYPE,
	KH_BODY_TOO_LARGE,
	KH_OTHER_MODEL,
	KH_MODEL_NOT_READ, /* unknown: the rules after it are not looked at */
	KH_OTHER_SPELLING, /* the rule has spelling: exact, and this reading is another spelling */
};
/* The part of the rule that does not match, "host", "path" …; "" for KH_MATCHES. */
const char *kh_mismatch_name(enum kh_mismatch why);

/* A rule that was compared with the request before the decision. */
struct kh_looked_at {
	const struct kh_rule *rule;
	enum kh_list list;
	enum kh_reading reading;
	struct kh_slice method; /* the method in that reading */
	enum kh_mismatch why;
};
/*
 * As kh_policy_decide, but without the index: compares every rule from top to bottom, and calls
 * `show` for each, up to the one that decides. For people and tests; its time is linear in the
 * number of rules.
 */
void kh_policy_explain(const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		       void (*show)(void *arg, const struct kh_looked_at *rule), void *arg,
		       struct kh_decision *out);

/* Is there any path and method that the tenant may use at this authority? For CONNECT, so that a
 * useless one is refused early. True permits nothing: each request is decided by itself. */
bool kh_policy_knows_host(const struct kh_policy *policy, uint16_t tenant,
			  const struct kh_narrowing *narrowing, enum kh_scheme scheme,
			  const struct kh_host *host, uint16_t port);

/* Would every HTTP request in a tunnel to there be refused, of either scheme? Then `out` says why,
 * by the rule of the tenant that denies all of it, if one does. */
bool kh_policy_bars(const struct kh_policy *policy, uint16_t tenant,
		    const struct kh_narrowing *narrowing, const struct kh_host *host, uint16_t port,
		    struct kh_decision *out);

/* Warns about rules that never decide, of which the site's rules allow nothing, or that allow any
 * host. */
void kh_policy_inspect(const struct kh_policy *policy, struct kh_diagnostics *diags);

/* The size of the policy: rules, and bytes of heap besides the configuration's. */
struct kh_policy_size {
	size_t rules;
	size_t bytes;
};
struct kh_policy_size kh_policy_size(const struct kh_policy *policy);

/*
 * Suggestions for the text of a refusal: the rules that allow something at the same host; if there
 * are none, one rule per host that the tenant's rules allow. A rule of which a denial in front of
 * it or the site's rules leave nothing is not among them, as far as a bounded search finds that
 * out. With a narrowing, its rules instead of the tenant's. Return: how many texts were put into
 * `texts` (at most `most`; they live as long as the rules); *more: there were others.
 */
size_t kh_policy_nearby(const struct kh_policy *policy, uint16_t tenant,
			const struct kh_narrowing *narrowing, const struct kh_host *host,
			const char **texts, size_t most, bool *more);

/* `*` matches within a segment, `**` across segments; both views in normal form. The time is at
 * most the path's length times the longest text between two stars, so a pattern can't make it
 * exponential. */
bool kh_path_matches(struct kh_slice pattern, struct kh_slice path);

#endif
