/* policy.h - may this request leave, and with which credential */
#ifndef KEYHOLE_POLICY_POLICY_H
#define KEYHOLE_POLICY_POLICY_H

#include <keyhole/base/path.h>
#include <keyhole/config/config.h>

/* Compiled once, immutable, shared by threads; reference-counted (atomically). */
struct kh_policy;

/* Keeps a pointer into `config`, which must outlive it (the snapshot that the worker holds). */
struct kh_policy *kh_policy_compile(const struct kh_config *config, struct kh_err *err);
struct kh_policy *kh_policy_ref(struct kh_policy *policy);
void kh_policy_unref(struct kh_policy *policy);

/*
 * A sandbox's own list of rules, behind its tenant's (kh_listener_config.narrow, kh_narrow_parse):
 * it only takes away. Compiled by itself, so that a sandbox can come and go without a new policy;
 * immutable, shared by threads, reference-counted (atomically).
 */
struct kh_narrowing;

/* Takes the rules over, also on failure. NULL: one of them would bring something along. */
struct kh_narrowing *kh_narrowing_new(struct kh_rules *rules, struct kh_err *err);
struct kh_narrowing *kh_narrowing_ref(struct kh_narrowing *narrowing);
void kh_narrowing_unref(struct kh_narrowing *narrowing);
/* Its own. */
const struct kh_rules *kh_narrowing_rules(const struct kh_narrowing *narrowing);
/* Of a listener of the configuration, by its index; NULL where it has none. Lives as long as the
 * policy. */
const struct kh_narrowing *kh_policy_narrowing(const struct kh_policy *policy, size_t listener);

/* The fields of a request's head that go upstream (hop-by-hop ones are not among them), one a call;
 * *at is 0 at first. Return: false at the end. */
struct kh_request_fields {
	bool (*next)(void *head, size_t *at, struct kh_slice *name, struct kh_slice *value);
	void *head;
};

/*
 * What a request asks a server to take it for, whatever its first line says: other methods
 * (X-HTTP-Method-Override and its kin), another host (X-Forwarded-Host and its kin), or another
 * path (X-Original-URL and its kin). Some servers do, so it has to be allowed as each of these too.
 * kh_overrides_read (message.h) finds them.
 */
enum {
	KH_OVERRIDING_METHODS = 4,
	KH_OVERRIDING_BYTES = 32,
	KH_OVERRIDING_HOSTS = 2,
	KH_OVERRIDING_QUERIES = 2,
	/* A key of 1,024 bytes, all of them escaped, and a bucket's name. */
	KH_OVERRIDING_SOURCE_BYTES = 3200
};
#define KH_OVERRIDING_ANY "*"
/* What a server is asked to read by itself (X-Amz-Copy-Source and its kin): kh_copy_source_read. */
enum kh_copy {
	KH_COPY_NONE = 0,
	KH_COPY_UNREAD, /* what nobody can read, or elsewhere: nothing allows it */
	KH_COPY_READ,	/* in this request's own bucket */
};
struct kh_overrides {
	size_t n_methods;
	/* In capitals. One that is empty is "": rules for any method have it. One that can't be
	 * read is KH_OVERRIDING_ANY: servers find another one in it each (in "DELETE, GET" the
	 * first), so it may be whatever a rule denies. */
	char methods[KH_OVERRIDING_METHODS][KH_OVERRIDING_BYTES + 1];
	bool path; /* it names one, which may be any */
	/* The queries of the paths that fields name, without '?'; ptr NULL: a path without one. */
	size_t n_queries;
	struct kh_slice queries[KH_OVERRIDING_QUERIES];
	bool any_query; /* with `path`: one that can't be read, or too many */
	bool any_field; /* with `path`: a parameter stands for fields, and may set any */
	/* A host that it names must be allowed by the rule that allows the request. */
	size_t n_hosts;
	struct kh_overriding_host {
		struct kh_host host;
		uint16_t port; /* 0: none is written, so it is the request's */
	} hosts[KH_OVERRIDING_HOSTS];
	struct kh_slice host_field; /* that names one, as it was written; empty: none */
	bool any_host; /* it names one that can't be read, or too many: nothing allows that */
	/* A source must be allowed as a GET of it, at the request's own host. */
	enum kh_copy source;
	uint8_t source_form;  /* override_name.h's */
	bool source_in_query; /* a parameter says it, or a field and a parameter: it is escaped */
	struct kh_slice source_field; /* that names it, as it was written, and what it says */
	struct kh_slice source_value;
	size_t repositories; /* how many parameters name that of a blob; one can be read */
	struct kh_slice repository;
	size_t source_len; /* READ: of its path in normal form */
	char source_path[KH_OVERRIDING_SOURCE_BYTES];
};
static inline bool kh_overrides_any(const struct kh_overrides *overrides)
{
	return overrides->n_methods > 0 || overrides->path || overrides->n_hosts > 0 ||
	       overrides->any_host || overrides->source != KH_COPY_NONE;
}

/* What is known of the model that a request is for. */
enum kh_model_state {
	KH_MODEL_UNREAD = 0, /* its content, which was not looked at, may name one */
	KH_MODEL_NONE,
	KH_MODEL_NAMED,
};

/* The canonical request, as target.h makes it. */
struct kh_request_view {
	struct kh_slice method;
	enum kh_scheme scheme;
	const struct kh_host *host;
	uint16_t port;
	struct kh_slice path; /* normalised; %2F kept */
	struct kh_slice
		path_slashed; /* the other reading, %2F as '/'; ptr NULL where there is no %2F */
	struct kh_slice
		path_decoded; /* decoded further (path.h); ptr NULL where that is the same */
	const struct kh_path_cuts *path_cuts; /* NULL: there are none */
	struct kh_slice query;		 /* as it came, without '?'; ptr NULL where there is none */
	struct kh_request_fields fields; /* next NULL: there are none */
	const struct kh_overrides *overrides; /* NULL: there are none */
	bool has_length;
	uint64_t length; /* of the content, where it is announced */
	enum kh_model_state model_state;
	struct kh_slice model; /* with KH_MODEL_NAMED */
};

/* How a request was read; all readings of it must be allowed, and alike. */
enum kh_reading {
	KH_READ_PLAIN = 0,
	KH_READ_SLASHED,       /* %2F taken for '/' */
	KH_READ_OTHER_METHOD,  /* the one that a field or parameter names */
	KH_READ_OTHER_PATH,    /* any: a field or parameter names one */
	KH_READ_DECODED,       /* the path decoded further (kh_path_decoded) */
	KH_READ_CUT,	       /* the path cut at an escaped '?' or '#' (kh_path_cuts) */
	KH_READ_OTHER_ADDRESS, /* the IPv4 address that the IPv6 one carries */
	KH_READ_OTHER_HOST,    /* the one that a field names */
	KH_READ_SOURCE,	       /* what a field or parameter has the server read */
	/* In which a rule denies that names it in another spelling: */
	KH_READ_METHOD_CASE,
	KH_READ_PATH_SPELLING,
	KH_READ_QUERY_SPELLING,
	KH_READ_FIELD_SPELLING,
	KH_READ_RESOLVED, /* by an address that the host's name resolves into */
};
/* What it says to people: "" for the plain one, "the path decoded further" … */
const char *kh_reading_text(enum kh_reading reading);

/* Whose list. */
enum kh_list { KH_LIST_TENANT = 0, KH_LIST_SITE, KH_LIST_SANDBOX };
/* "tenant", "site", "sandbox". */
const char *kh_list_name(enum kh_list list);

/* A zeroed decision denies. */
struct kh_decision {
	bool allow;
	enum kh_err_code reason; /* of a denial: KH_ERR_DENIED_BY_RULE, KH_ERR_NO_RULE,
				    KH_ERR_TUNNEL_ONLY,
				    KH_ERR_REQUEST_TOO_COMPLEX (no rule was found in time) */
	const struct kh_rule
		*rule;		 /* that decided; NULL: none matched. Lives as long as the policy */
	enum kh_list list;	 /* that the rule is in, or that has none for it */
	enum kh_reading reading; /* of a denial: in which it is one */
	const struct kh_rule
		*site_rule; /* with `allow`: that of the ceiling; NULL: there is no ceiling */
	const struct kh_rule
		*narrow_rule; /* with `allow`: that of the narrowing; NULL: there is none */
	bool websocket;	      /* with `allow`: it may be one; neither rule has websocket: false */
	bool asks_model;      /* nothing is decided: a rule that is reached asks for it (UNREAD) */
	/* Of what goes through because it is only observed: what it would be denied for, by which
	 * rule (NULL: for want of one), and whose that is. */
	enum kh_err_code would;
	const struct kh_rule *would_rule;
	enum kh_list would_list;
	/* With `allow`: its tenant's rules, which only observe, would refuse it. No credential of
	 * `rule` goes in, and the client's own authentication passes. */
	bool bare;
	uint64_t steps; /* what it took, of KH_LIMIT_DECISION_STEPS */
};

/*
 * The site's rules (where there are any), then the tenant's, then the sandbox's narrowing (NULL:
 * there is none); each list top to bottom, the first match decides, no match denies, and all have
 * to allow. What is allowed is allowed by the tenant's rule. A rule with passthrough allows no
 * request that was read. A request with %2F, with an escape that decodes further, for an address
 * that carries another, or with overrides must be allowed in all readings, by rules that carry the
 * same credentials, client_auth, geo and max_body, refuse a WebSocket alike, and have no limits of
 * their own unless it is one and the same rule; a host that a field names, by the very same rule. A
 * rule that denies counts what some server takes for what it names (spelling.h). A rule with
 * `spelling: exact` takes the plain reading only. What would take more than KH_LIMIT_DECISION_STEPS
 * is denied. Allocates only to read a path of more than 256 bytes in other spellings; without
 * memory the rule that denies matches.
 */
void kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
		      const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		      struct kh_decision *out);

/*
 * What was allowed by a host's name, asked again of an address that the name resolves into: does a
 * rule deny it that names addresses and stands above the one that allows, in the same list?
 * `decision` is what allowed it; `unread`: it is a tunnel that nobody reads. With `spelling: exact`
 * a rule means addresses that are written. `steps` is the work that was done for the request so
 * far, over all of its addresses: 0 to begin with. Return: it is denied, and `out` says by which
 * rule (NULL: all of it would take too many steps). Else `out` has `would` where a denial is only
 * observed, and `bare` where that is the tenant's mode. Allocates as kh_policy_decide does.
 */
bool kh_policy_denies_address(const struct kh_policy *policy, uint16_t tenant,
			      const struct kh_narrowing *narrowing,
			      const struct kh_request_view *request, bool unread,
			      const struct kh_decision *decision, const struct kh_host *addr,
			      uint64_t *steps, struct kh_decision *out);

/* The first rule, of those that allow it, that refuses a WebSocket; NULL: none. *list (which may be
 * NULL): whose. */
const struct kh_rule *kh_decision_no_websocket(const struct kh_decision *decision,
					       enum kh_list *list);
/* The rule whose max_body is the smallest of those that allow it; NULL: none of them has one. */
const struct kh_rule *kh_decision_max_body(const struct kh_decision *decision);

/*
 * The rule under which that goes through which the rules of a tenant in mode observe would deny: it
 * lets the client's own authentication pass and carries none. NULL: the tenant's rules are
 * enforced. What the site or a narrowing denies, the address guard and the binding of credentials
 * are never only observed.
 */
const struct kh_rule *kh_policy_observing(const struct kh_policy *policy, uint16_t tenant);
/*
 * The tenant's rules would refuse it for that reason, by that rule (NULL: for want of one): where
 * they only observe it is allowed, marked and bare, all three at once. This is the only way to a
 * mark of the tenant's mode. What it was marked for already stays where that was the mode's too.
 * Return: false: they are enforced, and nothing has changed.
 */
bool kh_decision_observe(const struct kh_policy *policy, uint16_t tenant, enum kh_err_code reason,
			 const struct kh_rule *by, struct kh_decision *out);
/* It goes to an address of which kh_policy_denies_address said that: the mark of a rule that
 * observes, unless it has one. Return: it got it. */
bool kh_decision_mark_there(const struct kh_decision *there, struct kh_decision *out);
/* Does the client's own authentication pass? */
static inline bool kh_decision_passes_auth(const struct kh_decision *decision)
{
	return decision->bare || decision->rule->client_auth_pass;
}

/* Does a rule that this request may reach look at that field, in any spelling? `view`: its scheme,
 * host and port. */
bool kh_policy_looks_at_field(const struct kh_policy *policy, uint16_t tenant,
			      const struct kh_narrowing *narrowing,
			      const struct kh_request_view *view, struct kh_slice name);

/* What becomes of a tunnel (CONNECT, SOCKS5, TLS straight away). Zero denies. */
enum kh_tunnel_kind {
	KH_TUNNEL_DENIED = 0, /* nothing but tcp rules speak of it, and they deny */
	KH_TUNNEL_READ,	      /* what is inside is read as HTTP, and decided request by request */
	KH_TUNNEL_PASS,	      /* tls: passthrough */
	KH_TUNNEL_RAW,	      /* tcp:// */
};
/*
 * The tenant's first rule that speaks of this host and port, under whatever scheme, says how the
 * tunnel is treated: an http or https rule has it read, also one that denies; a tcp rule that
 * denies only takes tcp away. No rule at all: READ, where the refusal can be said. PASS and RAW
 * pass the site's rules and the narrowing too: RAW by a tcp rule there; PASS by an https rule that
 * allows everything at this authority, since what is not decrypted can't be held to methods and
 * paths. A rule in mode observe has no say in it: with PASS and RAW, out->would is for it. `out`
 * says which rule decided, also for DENIED. No allocation.
 */
enum kh_tunnel_kind kh_policy_tunnel(const struct kh_policy *policy, uint16_t tenant,
				     const struct kh_narrowing *narrowing,
				     const struct kh_host *host, uint16_t port,
				     struct kh_decision *out);

/*
 * Where an address has to lie that is dialled for what was allowed: the lists of `geo` that hold
 * for it. NULL: that one asks nothing. What one of them denies is denied.
 */
enum kh_geo_level { KH_GEO_SITE = 0, KH_GEO_TENANT, KH_GEO_SITE_RULE, KH_GEO_RULE, KH_GEO_LEVELS };
struct kh_geo_levels {
	const struct kh_geo_rules *at[KH_GEO_LEVELS];
};
/* They live as long as the policy's configuration. */
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
	KH_MODEL_NOT_READ, /* nobody can say: nothing behind it is looked at */
	KH_OTHER_SPELLING, /* spelling: exact, and this reading is another spelling */
};
/* "host", "path" …: the part of the rule that does not match; "" for none. */
const char *kh_mismatch_name(enum kh_mismatch why);

/* A rule that was looked at on the way to a decision. */
struct kh_looked_at {
	const struct kh_rule *rule;
	enum kh_list list;
	enum kh_reading reading;
	struct kh_slice method; /* in that reading */
	enum kh_mismatch why;
};
/*
 * The same question, answered by looking at every rule from top to bottom, without the index: shows
 * each one up to the one that decides. For people and for tests: linear in the rules.
 */
void kh_policy_explain(const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		       void (*show)(void *arg, const struct kh_looked_at *rule), void *arg,
		       struct kh_decision *out);

/* Is there any path and method that the tenant may use at this authority? For CONNECT: which never
 * opens anything by itself, but says early what will be refused. */
bool kh_policy_knows_host(const struct kh_policy *policy, uint16_t tenant,
			  const struct kh_narrowing *narrowing, enum kh_scheme scheme,
			  const struct kh_host *host, uint16_t port);

/* Warns of rules that never decide, that the site leaves nothing of, or that open any host. */
void kh_policy_inspect(const struct kh_policy *policy, struct kh_diagnostics *diags);

/* How large the policy is: rules, and bytes on the heap beside the configuration's. */
struct kh_policy_size {
	size_t rules;
	size_t bytes;
};
struct kh_policy_size kh_policy_size(const struct kh_policy *policy);

/*
 * What is allowed near a refused request, for its text: first the rules that allow something at the
 * same host, else one of each host that the tenant's rules allow; the narrowing's where that is
 * given. Return: how many texts were put in (at most `most`); *more says that there were others.
 */
size_t kh_policy_nearby(const struct kh_policy *policy, uint16_t tenant,
			const struct kh_narrowing *narrowing, const struct kh_host *host,
			const char **texts, size_t most, bool *more);

/* `*` stays within a segment, `**` crosses them; both views in normalised form. At most the
 * path's length times the longest text between two stars, never exponential. */
bool kh_path_matches(struct kh_slice pattern, struct kh_slice path);

#endif
