/* config.h - keyhole.yaml as structs: read, checked, and carried to the worker */
#ifndef KEYHOLE_CONFIG_CONFIG_H
#define KEYHOLE_CONFIG_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/base/log.h>
#include <keyhole/config/placement.h>
#include <keyhole/base/slice.h>
#include <keyhole/config/source.h>
#include <keyhole/config/shape.h>

/* Where something stands; lines and columns from 1. `file` is an index into kh_config.files, or
 * KH_NO_FILE: in none of them. */
#define KH_NO_FILE UINT32_MAX
struct kh_where {
	uint32_t file;
	uint32_t line;
	uint32_t column;
};

/* TCP: bytes that nobody reads. */
enum kh_scheme { KH_SCHEME_NONE = 0, KH_SCHEME_HTTP, KH_SCHEME_HTTPS, KH_SCHEME_TCP };

/* "http", "https", "tcp"; 80, 443, 0. */
const char *kh_scheme_name(enum kh_scheme scheme);
uint16_t kh_scheme_port(enum kh_scheme scheme);

enum kh_host_match {
	KH_MATCH_NOTHING = 0,
	KH_MATCH_EXACT,	 /* `host` */
	KH_MATCH_SUFFIX, /* "*.example.com": `host` is example.com; one label or more in front */
	KH_MATCH_ANY,	 /* "**" */
	KH_MATCH_RANGE,	 /* an address or CIDR: `range` */
	KH_MATCH_KINDS,
};

struct kh_host_pattern {
	enum kh_host_match match;
	struct kh_host host;
	struct kh_cidr range;
};

/* "api.example.com", "*.example.com", "**", "10.0.0.0/8", "[::1]". A wildcard over one label
 * ("*.com") is refused here. */
bool kh_host_pattern_parse(struct kh_host_pattern *out, struct kh_slice text, struct kh_err *err);
bool kh_host_pattern_matches(const struct kh_host_pattern *pattern, const struct kh_host *host);
/* Does everything that `inner` matches match `outer` too? */
bool kh_host_pattern_covers(const struct kh_host_pattern *outer,
			    const struct kh_host_pattern *inner);

/* Does every path that `inner` (a pattern as in rules; NULL: any path) matches match `outer` too?
 * Never true where it is not so; false also where that is too hard to see. */
bool kh_path_pattern_covers(const char *outer, const char *inner);

/* The same without room for the longest name: there may be a million rules. */
struct kh_rule_host {
	enum kh_host_match match;
	union {
		char *name;	      /* EXACT, SUFFIX: canonical */
		struct kh_cidr range; /* RANGE */
	};
};
void kh_rule_host_expand(const struct kh_rule_host *host, struct kh_host_pattern *out);

/*
 * What a rule asks of a request beside its text. A rule that allows wants what is named to be
 * there, and each occurrence of it to match one of the patterns; to one that denies a single
 * occurrence is enough. In patterns '*' stands for any bytes.
 */
enum kh_condition_kind {
	KH_CONDITION_NONE = 0,
	KH_CONDITION_QUERY,	   /* a query parameter */
	KH_CONDITION_HEADER,	   /* a field; its name is in lower case */
	KH_CONDITION_CONTENT_TYPE, /* the media type, without its parameters; no name */
	KH_CONDITION_MODEL,	   /* the model that it is for (model.h); no name */
	KH_CONDITION_KINDS,
};

struct kh_condition {
	enum kh_condition_kind kind;
	char *name;
	char **patterns;
	size_t n_patterns;
};

/* Sorted, each once. */
struct kh_numbers {
	uint32_t *list;
	size_t count;
};

/*
 * geo: where addresses have to lie that are dialled. What is denied is denied; where something is
 * allowed, all else of its kind is not. A country is its two capital letters as a number
 * (first << 8 | second).
 */
struct kh_geo_rules {
	struct kh_numbers allow_countries, deny_countries;
	struct kh_numbers allow_asns, deny_asns;
	/* What lies in no known country (network), where a list names some: unless `unknown` says
	 * it, what only denies some leaves the rest, and what allows some leaves nothing else. */
	bool allow_unknown_country, allow_unknown_asn;
	struct kh_where where;
};
void kh_geo_rules_free(struct kh_geo_rules *geo);
/* NULL is none. */
bool kh_geo_rules_eq(const struct kh_geo_rules *a, const struct kh_geo_rules *b);

/* A database of upstream.geo. */
struct kh_geo_file {
	bool named;
	char *path; /* absolute after reading; not in the worker's snapshot */
	struct kh_where where;
};

/* What a limit is of. The first three have a period (or several). */
enum kh_quota_kind {
	KH_QUOTA_NONE = 0,
	KH_QUOTA_REQUESTS,
	KH_QUOTA_BYTES_UP, /* content, as the journal counts it */
	KH_QUOTA_BYTES_DOWN,
	KH_QUOTA_CONCURRENCY, /* exchanges at a time */
	KH_QUOTA_CONNECTIONS, /* from sandboxes, at a time */
	KH_QUOTA_MAX_BODY,
	KH_QUOTA_TUNNEL_LIFETIME,
	KH_QUOTA_KINDS,
};
/* "requests", "bytes_up" …: the key under `limits`. */
const char *kh_quota_name(enum kh_quota_kind kind);
/* Is it so much in a period (struct kh_rate)? */
bool kh_quota_is_rate(enum kh_quota_kind kind);
/* Is its amount one of bytes? Else it is counted, or a time. */
bool kh_quota_is_bytes(enum kh_quota_kind kind);
/* Is it so many at a time? */
bool kh_quota_is_places(enum kh_quota_kind kind);

/* So much in a period: a bucket that holds `burst` and fills again at that speed. */
struct kh_rate {
	enum kh_quota_kind kind;
	uint32_t period_ms; /* a second, minute, hour or day */
	uint64_t amount;
	uint64_t burst; /* `amount` unless written */
	uint32_t slot;	/* of the ledger (quota.h); 0: none yet. The keeper sets it */
	struct kh_where where;
};
/* "600/min", "1GiB/h"; with ", burst 20" where that is another number. */
enum { KH_RATE_BYTES = 96 };
const char *kh_rate_show(const struct kh_rate *rate, char out[KH_RATE_BYTES]);
/* Return: false when the text is no such value. */
bool kh_value_duration(struct kh_slice text, uint64_t *out_ms);
bool kh_value_size(struct kh_slice text, uint64_t *out_bytes);
/* "90s", "512KiB": the shortest spelling. */
enum { KH_VALUE_BYTES = 32 };
const char *kh_value_show_duration(uint64_t ms, char out[KH_VALUE_BYTES]);
const char *kh_value_show_size(uint64_t bytes, char out[KH_VALUE_BYTES]);
/* As the values of that kind are written: a number, a size or a duration. */
const char *kh_quota_show(enum kh_quota_kind kind, uint64_t value, char out[KH_VALUE_BYTES]);

/* `limits` of the site, a tenant, a sandbox or a rule. */
struct kh_limits {
	struct kh_rate *rates; /* a kind and period at most once */
	size_t n_rates;
	/* 0: no such limit. */
	uint32_t concurrency, connections;
	uint32_t concurrency_slot, connections_slot; /* as kh_rate.slot */
	uint32_t tunnel_lifetime_ms;
	uint64_t max_body;
	/* Of each kind that is there; a rate has its own. */
	struct kh_where where[KH_QUOTA_KINDS];
};
void kh_limits_free(struct kh_limits *limits);
/* Of a kind without a period: its value; 0: there is no such limit. */
uint64_t kh_limits_value(const struct kh_limits *limits, enum kh_quota_kind kind);

/* What few rules have. */
struct kh_rule_more {
	struct kh_condition *conditions;
	size_t n_conditions;
	bool observe; /* a denial that only says what it would deny */
	bool has_max_body;
	uint64_t max_body;	  /* bytes; a body that is announced larger does not match */
	struct kh_geo_rules *geo; /* of a rule that allows; asked of addresses, not of requests */
	struct kh_limits *limits; /* of a rule that allows; NULL: none */
};
void kh_rule_more_free(struct kh_rule_more *more);

/* Most of a rule; the bytes of a tenant's, credential's or sandbox's name. */
enum { KH_RULE_CREDENTIALS = 4, KH_NAME_MOST_BYTES = 64 };

/* `METHODS SCHEME://HOST[:PORT][/PATH]`, METHODS "*" (or left out) or a list joined by commas;
 * `tcp://HOST:PORT`, which has neither methods nor a path. */
struct kh_rule {
	bool allow;
	bool client_auth_pass;	   /* client_auth: pass */
	bool closes_after_content; /* reuse_after_content: never */
	bool passthrough;	   /* tls: passthrough; an https rule without methods, path and
				      credential */
	bool no_websocket;	 /* websocket: false, or a credential goes in and it says nothing */
	bool websocket_unsaid;	 /* … the latter */
	bool exact_spelling;	 /* spelling: exact */
	bool placeholder_refuse; /* placeholder: refuse, in content as well */
	char *text;		 /* as written: for people, the refusal and the audit */
	char *preset;		 /* the preset that it came from, or NULL */
	struct kh_where where;
	char **methods; /* exact, case-sensitive tokens; none: any */
	size_t n_methods;
	enum kh_scheme scheme;
	struct kh_rule_host host;
	uint16_t port; /* the scheme's own where none is written; never 0 */
	char *path;    /* pattern in the normalised form of target.h ('*' within a segment, '**'
			  across);    NULL: any */
	/* Indices into kh_config.credentials: of them all go in (`credentials`), or the first whose
	 * source is present at start (`credential`). */
	uint16_t credentials[KH_RULE_CREDENTIALS];
	size_t n_credentials;
	bool all_credentials;
	struct kh_rule_more *more; /* NULL: nothing more */
};

/* Parses the text of a rule; `allow`, `where`, `preset`, credentials are the caller's. */
bool kh_rule_parse(struct kh_rule *out, struct kh_slice text, struct kh_err *err);
void kh_rule_fini(struct kh_rule *rule);
/* Is there anything beside its text that decides whether it matches, or what comes of that? */
bool kh_rule_asks_more(const struct kh_rule *rule);
/* Does it look at nothing but scheme, host and port? */
bool kh_rule_covers_all(const struct kh_rule *rule);

struct kh_rules {
	struct kh_rule *list;
	size_t count;
};
void kh_rules_fini(struct kh_rules *rules);

struct kh_credential_config {
	char *name;
	struct kh_where where;
	/* One for all tenants, or (by_tenant) one for each that has a value. Not in the snapshot.
	 */
	struct kh_source *sources;
	size_t n_sources;
	struct kh_mint *mint; /* NULL: the value goes in as it is. Not in the snapshot */
	/* Where its value goes in a request; NULL where it goes into none (of_proxy, of_listener).
	 */
	struct kh_placement *placement;
	struct kh_host_pattern *hosts; /* where it may go, ever */
	size_t n_hosts;
	char **paths; /* patterns as in rules; none: any */
	size_t n_paths;
	char **methods; /* none: any (never TRACE) */
	size_t n_methods;
	bool shared_host; /* strangers have names or paths at its hosts, and that is meant. Not in
			     the snapshot */
	bool allow_short; /* a value of fewer than KH_SECRET_LEAST_BYTES is taken */
	/* In the sandbox: the variable that clients look for, and what the placeholder looks like:
	 * a prefix
	 * ("sk-ant-api03-"); random characters of `placeholder_alphabet` follow up to the real
	 * length. */
	char *env_name;
	char *placeholder_prefix;
	char *placeholder_alphabet;
	struct kh_placeholder placeholder;
	char *preset;
	/* Its value is another one for each tenant. */
	bool by_tenant;
	/* A token is made for the repository of each request (scope "owner/repo"). */
	bool by_repository;
	/* It is a token that is made of the value, or what a command prints: there may be another
	 * one where an upstream refuses it. */
	bool renewable;
	/* Set by the keeper at start and carried in the snapshot: the source gave a value. */
	bool present;
	/* The password of upstream.proxy: no rule can name it, it sets no field, and its only host
	 * is that proxy's. */
	bool of_proxy;
	/* The token of a TCP listener: no rule can name it, and it goes nowhere. */
	bool of_listener;
};

/* In words, for people: where it goes ("bearer", "header x-api-key", "query key"), and where it may
 * ("api.example.com; paths /v1/x; methods GET"). Long lists are cut. */
bool kh_credential_put_kind(struct kh_buf *out, const struct kh_credential_config *credential);
bool kh_credential_put_binding(struct kh_buf *out, const struct kh_credential_config *credential);

/* observe: what would be denied goes through, and is marked. */
enum kh_mode { KH_MODE_ENFORCE = 0, KH_MODE_OBSERVE };

struct kh_tenant_config {
	char *name;
	struct kh_where where;
	struct kh_rules rules;
	enum kh_mode mode;
	struct kh_limits *limits; /* over all its sandboxes; NULL: none */
	/* Its own ranges, and those of upstream behind them; none: upstream's alone. */
	struct kh_cidr *allow_addresses;
	size_t n_allow_addresses;
	struct kh_geo_rules *geo; /* NULL: none */
};

enum kh_listener_kind { KH_LISTEN_UNIX = 0, KH_LISTEN_VSOCK, KH_LISTEN_TCP, KH_LISTEN_KINDS };

struct kh_listener_config {
	enum kh_listener_kind kind;
	char *name; /* its identity over reloads: the path, "vsock:3128", "tcp:127.0.0.1:3128" */
	char *unix_path; /* absolute after reading */
	uint32_t vsock_port, vsock_cid;
	struct kh_sockaddr tcp;
	int32_t token;	 /* index into the credentials; TCP has one, nothing else has (-1) */
	uint16_t tenant; /* index */
	char *sandbox;	 /* id for the audit; the tenant's name where none is given */
	/* The sandbox's own list beside the tenant's: it only takes away. An empty one leaves
	 * nothing; not `narrowed`: there is none. */
	struct kh_rules narrow;
	bool narrowed;
	struct kh_limits *limits; /* NULL: none */
	mode_t mode;		  /* 0600 unless written */
	uid_t owner;		  /* (uid_t)-1: leave */
	gid_t group;
	struct kh_where where;
};

/* `admin`: where the daemon is looked at and steered (src/admin/admin.c). */
struct kh_admin_grant {
	uid_t uid;
	uint16_t *tenants; /* indices: what that user gets to see */
	size_t n_tenants;
	struct kh_where where;
};

struct kh_admin_config {
	char *unix_path;	    /* absolute after reading; NULL: none. Not in the snapshot */
	struct kh_sockaddr metrics; /* len 0: none. Not in the snapshot */
	/* The folder of the sandboxes that are added: absolute after reading; with unix_path never
	 * NULL. Not in the snapshot. */
	char *sandboxes;
	/* The two as what is listened on, the Unix socket first; without tenant and sandbox. Not in
	 * the snapshot. */
	struct kh_listener_config acceptors[2];
	size_t n_acceptors;
	struct kh_admin_grant *grants;
	size_t n_grants;
	struct kh_where where;
};
void kh_admin_config_fini(struct kh_admin_config *admin);
/* May this user, who is neither root nor the daemon's own, see that tenant? */
bool kh_admin_may_see(const struct kh_admin_config *admin, uid_t uid, uint16_t tenant);

/* In the place of a tenant's index: for what belongs to none (the password of upstream.proxy, a
 * name that is pinned for the whole site), and for a credential whose value is one for all. */
#define KH_NO_TENANT UINT16_MAX

/* A name that is not looked up. */
struct kh_pin {
	struct kh_host host;
	struct kh_sockaddr addr;
	uint16_t tenant; /* whose sandboxes it is for; KH_NO_TENANT: everybody's */
	struct kh_where where;
};

/* upstream.proxy: an HTTP proxy through which upstreams are reached, by CONNECT. */
struct kh_proxy_config {
	struct kh_host host; /* kind NONE: there is none */
	uint16_t port;
	char *username;			  /* with a password, or NULL */
	struct kh_host_pattern *no_proxy; /* dialled directly all the same */
	size_t n_no_proxy;
	bool resolve_locally; /* judge the target's addresses and name one of them to the proxy */
	struct kh_where where;
};

/* expect: a case that `keyhole check` holds the rules against. Not in the snapshot. */
struct kh_expectation {
	bool allow;
	uint16_t tenant;  /* index */
	int32_t listener; /* whose narrowing is asked too; -1: none is */
	char *text;	  /* "METHOD URL" */
	struct kh_where where;
	char *model;		     /* that the request is for, or NULL */
	struct kh_condition *fields; /* of the request: each a name and its one value */
	size_t n_fields;
};

enum kh_durability { KH_DURABILITY_WRITTEN = 0, KH_DURABILITY_SYNCED };

/* Milliseconds. */
struct kh_timeouts {
	uint32_t header;    /* whole request head, from its first byte (slowloris) */
	uint32_t handshake; /* TLS, either side */
	uint32_t connect;   /* TCP, all addresses together */
	uint32_t resolve;
	uint32_t response;    /* request sent until the head of the final response: models think */
	uint32_t idle_down;   /* between exchanges, sandbox side */
	uint32_t idle_up;     /* pooled upstream connection */
	uint32_t stall;	      /* a body in either direction without a byte of progress */
	uint32_t total;	      /* an exchange from its head to its end, however busy */
	uint32_t websocket;   /* an open WebSocket without a byte, pings included */
	uint32_t tunnel_idle; /* a tunnel that nobody reads, without a byte in either direction */
	uint32_t tunnel;      /* one altogether */
	uint32_t drain;	      /* after SIGTERM */
	uint32_t handover;    /* after SIGUSR2, in the old process */
};

struct kh_config {
	char **files; /* names for messages; index 0 is the main file */
	size_t n_files;
	char sha256[65]; /* of the main file, hexadecimal; "" where it is none. Not in the snapshot
			  */

	char *ca_certificate_path; /* NULL: a CA for this life only, kept in memory */
	char *ca_key_path;
	bool ca_per_tenant; /* each tenant has one of its own */
	struct kh_listener_config *listeners;
	size_t n_listeners;

	char *upstream_ca_file;	    /* beside the system's roots, or NULL */
	bool upstream_system_roots; /* true unless switched off */
	bool upstream_http2;	    /* offered to upstreams; true unless switched off */
	struct kh_pin *pins;	    /* upstream.resolve, tenants.*.resolve */
	size_t n_pins;
	struct kh_cidr *allow_addresses;
	size_t n_allow_addresses;
	struct kh_sockaddr *nameservers; /* none: those of /etc/resolv.conf */
	size_t n_nameservers;
	struct kh_proxy_config proxy;	       /* upstream.proxy */
	struct kh_geo_file country_db, asn_db; /* upstream.geo */

	char *audit_path; /* NULL: the command chooses */
	enum kh_durability durability;
	uint64_t audit_reserve; /* bytes that stay free for what is allowed */

	struct kh_credential_config *credentials;
	size_t n_credentials;
	struct kh_rules site; /* none: no ceiling */
	struct kh_geo_rules *site_geo;
	struct kh_limits *site_limits; /* over all tenants; NULL: none */
	struct kh_tenant_config *tenants;
	size_t n_tenants;

	struct kh_expectation *expectations;
	size_t n_expectations;

	struct kh_admin_config admin;

	struct kh_timeouts timeouts;
	uint32_t max_connections;   /* a listener */
	bool says_connections;	    /* the file has limits.connections; else it is the default */
	uint32_t max_exchanges;	    /* a connection */
	uint32_t leaves_per_second; /* a listener */
	uint32_t refusals_per_second, refusals_burst; /* a listener; with a record each */
	uint64_t held_content; /* of a request, where a rule asks for what is in it */

	uint32_t threads;	/* 0: one a core */
	uint64_t worker_memory; /* bytes that all connections together may keep */
	char *worker_user;	/* NULL: `keyhole` where it exists, else a reserved uid */
	enum kh_log_level log_level;

	/* Set by the keeper: what placeholders are drawn from, the one in use first. */
	struct kh_placeholder_key placeholder_keys[KH_MARK_KEYS];

	struct kh_names *names; /* while it is read (names.c); NULL afterwards */
};

/* One message, error or warning: "file:line:column: error: text". */
struct kh_diagnostic {
	bool warning;
	struct kh_where where;
	char *text;
};

struct kh_diagnostics {
	struct kh_diagnostic *list;
	size_t count;
	size_t errors;
	char **files; /* what kh_where.file stands for, also when there is no configuration */
	size_t n_files;
};

void kh_diagnostics_fini(struct kh_diagnostics *d);
/* In the order of the files once they are sorted; one that is there already is not added. */
void kh_diagnostics_add(struct kh_diagnostics *d, bool warning, struct kh_where where,
			const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void kh_diagnostics_sort(struct kh_diagnostics *d);
const char *kh_diagnostics_file(const struct kh_diagnostics *d, uint32_t index);

/* A configuration with every default and nothing else. */
struct kh_config *kh_config_new(void);
void kh_config_free(struct kh_config *config);

/*
 * Reads a file (libyaml) by the table of options (src/config/options.c). All errors are collected,
 * not only the first. Relative paths are taken from the file's folder; presets from `preset_dir`
 * (kh_preset_dir() where NULL).
 * Return: NULL when there was an error; warnings alone do not fail. `diags` is filled either way.
 */
struct kh_config *kh_config_load(const char *path, const char *preset_dir,
				 struct kh_diagnostics *diags);
/* The same from memory; `name` stands in messages. For tests and fuzzing. */
struct kh_config *kh_config_parse(const char *name, struct kh_slice yaml, const char *folder,
				  const char *preset_dir, struct kh_diagnostics *diags);
/*
 * Only where the daemon of a file is asked, whatever else is wrong with the file: of the
 * configuration that is returned, `admin.unix_path` and `admin.sandboxes` alone are read.
 * Return: NULL where `admin.unix` can't be read.
 */
struct kh_config *kh_config_load_admin(const char *path);
/*
 * What `keyhole run --use a,b` means without a file: one tenant "default" whose rules are those
 * presets.
 */
struct kh_config *kh_config_from_presets(const char *const *presets, size_t n,
					 const char *preset_dir, struct kh_diagnostics *diags);
/* Adds a preset at the front of a tenant's rules (`run -c FILE --use …`). A preset is a name here,
 * NAME:KEY=VALUE,… or what `use` takes in a file, in braces. */
bool kh_config_use(struct kh_config *config, size_t tenant, const char *preset,
		   const char *preset_dir, struct kh_diagnostics *diags);
/*
 * A narrowing in a file of its own, for a sandbox that is made while the daemon runs: a map with
 * the one key `narrow`, read as that of a listener. In its rules `where.file` is KH_NO_FILE. `out`
 * is the caller's (kh_rules_fini).
 * Return: false when there was an error, and then `out` is empty; `diags` is filled either way.
 */
bool kh_narrow_parse(const char *name, struct kh_slice yaml, const char *preset_dir,
		     struct kh_rules *out, struct kh_diagnostics *diags);
/*
 * A preset with the cases of its own: a configuration in which the tenant "default" uses it as it
 * is, another one for each case that names parameters, and those cases. A preset without a source
 * or a case is warned about. NULL when there was an error.
 */
struct kh_config *kh_preset_cases(const char *preset, const char *preset_dir,
				  struct kh_diagnostics *diags);
struct kh_config *kh_preset_cases_parse(const char *name, struct kh_slice yaml,
					struct kh_diagnostics *diags);
/* The names of the presets of a folder (NULL: kh_preset_dir()), sorted, on the heap: each of them,
 * and the list. Return: NULL and n 0 when there are none. */
char **kh_preset_names(const char *preset_dir, size_t *n);
/* "$KEYHOLE_PRESETS", else ../share/keyhole/policies beside the binary, else policies/ of the build
 * tree. */
const char *kh_preset_dir(void);
/*
 * Warns of what a sound configuration lets out by its rules, and of what makes it unsafe on this
 * host (a listener's folder that holds other files). For `keyhole check`.
 */
void kh_config_inspect(const struct kh_config *config, struct kh_diagnostics *diags);
/* Prints each as "file:line:column: error: text", one write a line. `config` may be NULL. */
/* The same lines, as many as there is room for. */
void kh_diagnostics_put(const struct kh_diagnostics *d, struct kh_buf *out);
void kh_diagnostics_print(const struct kh_diagnostics *d, const struct kh_config *config, int fd);
/* Its sources one after the other: of its values, then of its client's secret; NULL behind them. */
const struct kh_source *kh_source_of_credential(const struct kh_credential_config *credential,
						size_t i);
/* Is this variable one of them? */
bool kh_source_is_variable(const struct kh_credential_config *credential, const char *name);
/* Index of the password of upstream.proxy among the credentials, -1 when there is none. */
int kh_config_proxy_password(const struct kh_config *config);
/* The pin of this name: the tenant's own, else the site's; with KH_NO_TENANT the site's alone.
 * Return: NULL where the name has to be looked up. */
const struct kh_pin *kh_config_pin(const struct kh_config *config, uint16_t tenant,
				   const struct kh_host *host);
/* By upstream.proxy, and not directly: there is one, and the host is neither pinned (for this
 * tenant, as in kh_config_pin) nor in no_proxy. */
bool kh_config_goes_by_proxy(const struct kh_config *config, uint16_t tenant,
			     const struct kh_host *host);
/* The ranges that this tenant's sandboxes may be connected to although they are special. */
const struct kh_cidr *kh_config_allowed_addresses(const struct kh_config *config, size_t tenant,
						  size_t *n);
/* All that is listened on: the listeners, then the acceptors of `admin`. */
size_t kh_config_acceptors(const struct kh_config *config);
const struct kh_listener_config *kh_config_acceptor(const struct kh_config *config, size_t index);
/* Index of a tenant by name, -1 when there is none. */
int kh_config_tenant(const struct kh_config *config, const char *name);
/* For each listener of `of`: its index among those of `among`, by name, or KH_LISTENER_NONE. Heap;
 * NULL without memory. */
#define KH_LISTENER_NONE SIZE_MAX
size_t *kh_config_match_listeners(const struct kh_config *of, const struct kh_config *among);
/* Index of the listener of a sandbox by its id; KH_SANDBOX_NONE, or KH_SANDBOX_SEVERAL when more
 * than one have it. */
enum { KH_SANDBOX_NONE = -1, KH_SANDBOX_SEVERAL = -2 };
int kh_config_sandbox(const struct kh_config *config, const char *id);

/* A JSON Schema (draft 2020-12) of keyhole.yaml, for editors (schema.c). */
bool kh_config_schema(struct kh_buf *out);
/* A page of the documentation with its tables of options made anew (tables.c); `manual`: in
 * mdoc(7), else in Markdown. Return: false where no table of the page has some option. */
bool kh_config_tables(struct kh_slice text, bool manual, struct kh_buf *out, struct kh_err *err);

/* The worker's part (no sources, no paths of keys) as bytes for a sealed memfd, and back
 * (snapshot.c). The decoder trusts nothing: every index and enum is checked. */
bool kh_config_encode(const struct kh_config *config, struct kh_buf *out);
struct kh_config *kh_config_decode(struct kh_slice bytes, struct kh_err *err);
/* Likewise a narrowing alone. Return: false leaves `out` empty. */
bool kh_snapshot_encode_narrow(const struct kh_rules *rules, struct kh_buf *out);
bool kh_snapshot_decode_narrow(struct kh_slice bytes, struct kh_rules *out, struct kh_err *err);

#endif
