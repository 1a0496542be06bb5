/* config.h - keyhole.yaml as structs: read, checked, and encoded for the worker */
#ifndef KEYHOLE_CONFIG_CONFIG_H
#define KEYHOLE_CONFIG_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/base/log.h>
#include <keyhole/config/diagnostics.h>
#include <keyhole/config/home_template.h>
#include <keyhole/config/placement.h>
#include <keyhole/base/slice.h>
#include <keyhole/config/source.h>
#include <keyhole/config/shape.h>

/* TCP: a tcp:// rule, whose bytes keyhole does not read. */
enum kh_scheme { KH_SCHEME_NONE = 0, KH_SCHEME_HTTP, KH_SCHEME_HTTPS, KH_SCHEME_TCP };

/* The name ("http", "https", "tcp") and the default port (80, 443, 0: none). */
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

/* Parses "api.example.com", "*.example.com", "**", "10.0.0.0/8" or "[::1]". A wildcard over a
 * single label ("*.com") is an error. */
bool kh_host_pattern_parse(struct kh_host_pattern *out, struct kh_slice text, struct kh_err *err);
bool kh_host_pattern_matches(const struct kh_host_pattern *pattern, const struct kh_host *host);
/* Does `outer` match every host that `inner` matches? */
bool kh_host_pattern_covers(const struct kh_host_pattern *outer,
			    const struct kh_host_pattern *inner);

/* Does `outer` match every path that `inner` matches? Both are patterns as in rules; `inner` may be
 * NULL: any path. True only if that is certain; false also if it is too hard to tell. */
bool kh_path_pattern_covers(const char *outer, const char *inner);

/* The same, without space for the longest name, since there may be a million rules. */
struct kh_rule_host {
	enum kh_host_match match;
	union {
		char *name;	      /* EXACT, SUFFIX: canonical */
		struct kh_cidr range; /* RANGE */
	};
};
void kh_rule_host_expand(const struct kh_rule_host *host, struct kh_host_pattern *out);

/*
 * What a rule requires of a request besides its text. For a rule that allows, the named thing must
 * be there, and each occurrence of it must match one of the patterns. For a rule that denies, one
 * matching occurrence is enough. In patterns '*' stands for any bytes.
 */
enum kh_condition_kind {
	KH_CONDITION_NONE = 0,
	KH_CONDITION_QUERY,	   /* a query parameter */
	KH_CONDITION_HEADER,	   /* a header field; its name is in lower case */
	KH_CONDITION_CONTENT_TYPE, /* the media type, without its parameters; no name */
	KH_CONDITION_MODEL,	   /* the model that the request is for (model.h); no name */
	KH_CONDITION_KINDS,
};

struct kh_condition {
	enum kh_condition_kind kind;
	char *name;
	char **patterns;
	size_t n_patterns;
};

/* Sorted, without duplicates. */
struct kh_numbers {
	uint32_t *list;
	size_t count;
};

/*
 * geo: the countries and networks (ASNs) in which a dialled address must be. What is denied is
 * denied. A list that allows some denies all others of its kind. A country is its ISO 3166-1 code
 * of two capital letters, as the number first << 8 | second.
 */
struct kh_geo_rules {
	struct kh_numbers allow_countries, deny_countries;
	struct kh_numbers allow_asns, deny_asns;
	/* Is an address allowed whose country (network) is not known? Matters only if there is a
	 * list of that kind. Default, unless `unknown` is written: true if the lists only deny,
	 * false if they allow some. */
	bool allow_unknown_country, allow_unknown_asn;
	struct kh_where where;
};
void kh_geo_rules_free(struct kh_geo_rules *geo);
/* Do they say the same? NULL equals only NULL. Places are not compared. */
bool kh_geo_rules_eq(const struct kh_geo_rules *a, const struct kh_geo_rules *b);

/* A database of upstream.geo. */
struct kh_geo_file {
	bool named;
	char *path; /* absolute after reading; not in the snapshot */
	struct kh_where where;
};

/* What a limit counts or bounds. REQUESTS, BYTES_UP and BYTES_DOWN are rates (kh_quota_is_rate): so
 * much per period, and there may be several periods. */
enum kh_quota_kind {
	KH_QUOTA_NONE = 0,
	KH_QUOTA_REQUESTS,
	KH_QUOTA_BYTES_UP, /* bytes of content, as in the journal */
	KH_QUOTA_BYTES_DOWN,
	KH_QUOTA_CONCURRENCY, /* exchanges at a time */
	KH_QUOTA_CONNECTIONS, /* connections from sandboxes at a time */
	KH_QUOTA_MAX_BODY,
	KH_QUOTA_TUNNEL_LIFETIME,
	KH_QUOTA_KINDS,
};
/* "requests", "bytes_up" …: the key under `limits`. */
const char *kh_quota_name(enum kh_quota_kind kind);
/* Is it a rate: so much per period (struct kh_rate)? */
bool kh_quota_is_rate(enum kh_quota_kind kind);
/* Is its amount in bytes? If not, it is a count or a time. */
bool kh_quota_is_bytes(enum kh_quota_kind kind);
/* Is it a number of things at a time? */
bool kh_quota_is_places(enum kh_quota_kind kind);

/* A rate, as a token bucket: it holds `burst` and gains `amount` in each period. */
struct kh_rate {
	enum kh_quota_kind kind;
	uint32_t period_ms; /* a second, minute, hour or day */
	uint64_t amount;
	uint64_t burst; /* `amount` unless written */
	uint32_t slot;	/* in the ledger (quota.h); 0: none yet. The keeper sets it */
	struct kh_where where;
};
/* Formats "600/min" or "1GiB/h", with ", burst 20" if that differs from the amount. Return: `out`.
 */
enum { KH_RATE_BYTES = 96 };
const char *kh_rate_show(const struct kh_rate *rate, char out[KH_RATE_BYTES]);
/* Parses a duration or a size. Return: false: the text is none. */
bool kh_value_duration(struct kh_slice text, uint64_t *out_ms);
bool kh_value_size(struct kh_slice text, uint64_t *out_bytes);
/* Of the name of a tenant, a credential or a sandbox. Return: what is wrong with it, or NULL. */
const char *kh_value_check_id(struct kh_slice text);
/* Formats "90s" or "512KiB" in the shortest spelling. Return: `out`. */
enum { KH_VALUE_BYTES = 32 };
const char *kh_value_show_duration(uint64_t ms, char out[KH_VALUE_BYTES]);
const char *kh_value_show_size(uint64_t bytes, char out[KH_VALUE_BYTES]);
/* Formats a value of that kind: a number, a size or a duration. Return: `out`. */
const char *kh_quota_show(enum kh_quota_kind kind, uint64_t value, char out[KH_VALUE_BYTES]);

/* `limits` of the site, a tenant, a sandbox or a rule. */
struct kh_limits {
	struct kh_rate *rates; /* at most one of each kind and period */
	size_t n_rates;
	/* 0: there is no such limit. */
	uint32_t concurrency, connections;
	uint32_t concurrency_slot, connections_slot; /* as kh_rate.slot */
	uint32_t tunnel_lifetime_ms;
	uint64_t max_body;
	/* Of each limit that is set; a rate has its own. */
	struct kh_where where[KH_QUOTA_KINDS];
};
void kh_limits_free(struct kh_limits *limits);
/* The value of a limit that is no rate; 0: there is no such limit. */
uint64_t kh_limits_value(const struct kh_limits *limits, enum kh_quota_kind kind);

/* The parts of a rule that few rules have. */
struct kh_rule_more {
	struct kh_condition *conditions;
	size_t n_conditions;
	bool observe; /* a rule that denies, and only records what it would deny */
	bool has_max_body;
	uint64_t max_body;	  /* bytes; a request with a larger Content-Length does not match */
	struct kh_geo_rules *geo; /* only in a rule that allows; for addresses */
	struct kh_limits *limits; /* only in a rule that allows; NULL: none */
};
void kh_rule_more_free(struct kh_rule_more *more);

/* The most credentials of a rule; the most bytes of the name of a tenant, credential or sandbox. */
enum { KH_RULE_CREDENTIALS = 4, KH_NAME_MOST_BYTES = 64 };

/* `METHODS SCHEME://HOST[:PORT][/PATH]`, METHODS "*" (or left out) or a list joined by commas;
 * `tcp://HOST:PORT`, which has neither methods nor a path. */
struct kh_rule {
	bool allow;
	bool client_auth_pass;	   /* client_auth: pass */
	bool closes_after_content; /* reuse_after_content: never */
	bool passthrough;  /* tls: passthrough; only in an https rule without methods, path and
			      credential */
	bool no_websocket; /* websocket: false; or it is not written, and a credential goes in */
	bool websocket_unsaid;	 /* … the second case */
	bool exact_spelling;	 /* spelling: exact */
	bool placeholder_refuse; /* placeholder: refuse: placeholders in content are refused too */
	char *text;		 /* as written; for messages, refusals and the journal */
	char *preset;		 /* the preset that it came from, or NULL */
	struct kh_where where;
	char **methods; /* case-sensitive; none: any method */
	size_t n_methods;
	enum kh_scheme scheme;
	struct kh_rule_host host;
	uint16_t port; /* the scheme's default if none is written; 0 never */
	char *path;    /* pattern in the normalised form of target.h ('*' within a segment, '**'
			  across);    NULL: any */
	/* Indices into kh_config.credentials: of them all go in (`credentials`), or the first whose
	 * value is present for the tenant (`credential`). */
	uint16_t credentials[KH_RULE_CREDENTIALS];
	size_t n_credentials;
	bool all_credentials;
	struct kh_rule_more *more; /* NULL: nothing more */
};

/* Parses the text of a rule. The caller sets `allow`, `where`, `preset` and the credentials, and
 * calls kh_rule_fini. Return: false with `err`. */
bool kh_rule_parse(struct kh_rule *out, struct kh_slice text, struct kh_err *err);
void kh_rule_fini(struct kh_rule *rule);
/* Has it conditions, `max_body` or `observe`, which decide for a request besides its text? */
bool kh_rule_asks_more(const struct kh_rule *rule);
/* Does it match every request to its scheme, host and port? */
bool kh_rule_covers_all(const struct kh_rule *rule);

/* That a list uses a preset, as its author wrote it. */
struct kh_preset_use {
	char *preset;
	char *arguments; /* as `--use` takes them: "repos=a/b,repos=c/d,push=true"; "": none. NULL:
			    a value has other characters than words to paste may have */
	bool narrowed;	 /* one of them is no boolean */
	struct kh_where where; /* line 0: on a command line */
};

struct kh_rules {
	struct kh_rule *list;
	size_t count;
	/* Not in the snapshot. */
	struct kh_preset_use *uses;
	size_t n_uses;
	/* Files of the presets that the rules came from, for a home. Not in the snapshot. */
	struct kh_home_templates files;
};
void kh_rules_fini(struct kh_rules *rules);

/* Whether one tenant has a value of a credential that has another one for each. */
struct kh_tenant_presence {
	uint16_t tenant; /* index */
	bool present;
};

struct kh_credential_config {
	char *name;
	struct kh_where where;
	/* One source for all tenants, or (by_tenant) one for each tenant that has a value. Not in
	 * the snapshot. */
	struct kh_source *sources;
	size_t n_sources;
	struct kh_mint *mint; /* NULL: the value is used as it is. Not in the snapshot */
	/* Where its value goes in a request; NULL: into no request (of_proxy, of_listener). */
	struct kh_placement *placement;
	struct kh_host_pattern *hosts; /* the only hosts that it may go to */
	size_t n_hosts;
	char **paths; /* patterns as in rules; none: any path */
	size_t n_paths;
	char **methods; /* none: any method but TRACE */
	size_t n_methods;
	bool shared_host; /* other customers have names or paths at its hosts, and the operator
			     accepts that. Not in the snapshot */
	bool allow_short; /* a value of fewer than KH_SECRET_LEAST_BYTES is accepted */
	/* In the sandbox: the environment variable that clients read, and the form of the
	 * placeholder in it: a prefix ("sk-ant-api03-"), then random characters of
	 * `placeholder_alphabet` up to the length of the real value. */
	char *env_name;
	char *placeholder_prefix;
	char *placeholder_alphabet;
	struct kh_placeholder placeholder;
	char *preset;
	/* Each tenant has a value of its own. */
	bool by_tenant;
	/* A token is minted for the repository of each request (scope "owner/repo"). */
	bool by_repository;
	/* Its value is a minted token or the output of a command, so a new value can be made if an
	 * upstream refuses this one. */
	bool renewable;
	/* Set by the keeper and carried in the snapshot: the source gave a value. Read only by
	 * kh_credential_is_present. With `by_tenant` it is false, and `tenants` says it for each
	 * tenant that has a source, in the order of their indices. */
	bool present;
	struct kh_tenant_presence *tenants;
	size_t n_tenants;
	/* The password of upstream.proxy: no rule can name it, it sets no field, and its only host
	 * is that proxy. */
	bool of_proxy;
	/* The token of a TCP listener: no rule can name it, and it is never sent. */
	bool of_listener;
};

/* Is there a value for this tenant? False for a tenant without a source of its own, and for one
 * that does not exist. Where all have the same value, the tenant does not matter. */
bool kh_credential_is_present(const struct kh_credential_config *credential, uint16_t tenant);
/* Does it name a source of a value for this tenant, whether there is a value or not? */
bool kh_credential_is_for(const struct kh_credential_config *credential, uint16_t tenant);
/* For the operator: is there one for any tenant? */
bool kh_credential_is_present_for_any(const struct kh_credential_config *credential);
/* The keeper's. A tenant without a source of its own has none. Return: true: this has changed. */
bool kh_credential_set_present(struct kh_credential_config *credential, uint16_t tenant,
			       bool present);

/* In words, for people: where it goes ("bearer", "header x-api-key", "query key"), and where it may
 * ("api.example.com; paths /v1/x; methods GET"). Long lists are cut. */
bool kh_credential_put_kind(struct kh_buf *out, const struct kh_credential_config *credential);
bool kh_credential_put_binding(struct kh_buf *out, const struct kh_credential_config *credential);

/* observe: a request that would be denied is forwarded and marked. */
enum kh_mode { KH_MODE_ENFORCE = 0, KH_MODE_OBSERVE };

struct kh_tenant_config {
	char *name;
	struct kh_where where;
	struct kh_rules rules;
	enum kh_mode mode;
	struct kh_limits *limits; /* over all its sandboxes; NULL: none */
	/* Its own ranges and, after them, those of `upstream`; empty: only those of `upstream`
	 * apply. */
	struct kh_cidr *allow_addresses;
	size_t n_allow_addresses;
	struct kh_geo_rules *geo; /* NULL: none */
};

enum kh_listener_kind { KH_LISTEN_UNIX = 0, KH_LISTEN_VSOCK, KH_LISTEN_TCP, KH_LISTEN_KINDS };

struct kh_listener_config {
	enum kh_listener_kind kind;
	char *name; /* identifies it across reloads: the path, "vsock:3128", "tcp:127.0.0.1:3128" */
	char *unix_path; /* absolute after reading */
	uint32_t vsock_port, vsock_cid;
	struct kh_sockaddr tcp;
	int32_t token;	 /* index into kh_config.credentials; only and always with TCP, else -1 */
	uint16_t tenant; /* index */
	char *sandbox;	 /* id for the journal; the tenant's name if none is configured */
	/* In whose name its placeholders are made, for a sandbox that is to get the same ones in
	 * each run; NULL: in the name of `sandbox`. */
	char *placeholder_name;
	/* The sandbox's narrowing: rules that must also allow a request. `narrowed` and empty:
	 * nothing is allowed; not `narrowed`: there is none. */
	struct kh_rules narrow;
	bool narrowed;
	struct kh_limits *limits; /* NULL: none */
	mode_t mode;		  /* 0600 by default */
	uid_t owner;		  /* (uid_t)-1: unchanged */
	gid_t group;
	struct kh_where where;
};
static inline const char *kh_listener_placeholder_name(const struct kh_listener_config *listener)
{
	return listener->placeholder_name ? listener->placeholder_name : listener->sandbox;
}

/* `admin`: the admin socket and the metrics port, and who may use them (src/admin/admin.c). */
struct kh_admin_grant {
	uid_t uid;
	uint16_t *tenants; /* indices of the tenants that this user may see */
	size_t n_tenants;
	struct kh_where where;
};

struct kh_admin_config {
	char *unix_path;	    /* absolute after reading; NULL: none. Not in the snapshot */
	struct kh_sockaddr metrics; /* len 0: none. Not in the snapshot */
	/* The folder for sockets of dynamic sandboxes: absolute after reading; never NULL if
	 * unix_path is set. Not in the snapshot. */
	char *sandboxes;
	/* The Unix socket and the metrics port as listeners, in this order; without tenant and
	 * sandbox. Not in the snapshot. */
	struct kh_listener_config acceptors[2];
	size_t n_acceptors;
	struct kh_admin_grant *grants;
	size_t n_grants;
	struct kh_where where;
};
void kh_admin_config_fini(struct kh_admin_config *admin);
/* May this user see that tenant? Not for root and the daemon's own user, who may see all. */
bool kh_admin_may_see(const struct kh_admin_config *admin, uid_t uid, uint16_t tenant);

/* Instead of a tenant's index: no single tenant (the password of upstream.proxy, a pin for the
 * whole site, a credential with one value for all). */
#define KH_NO_TENANT UINT16_MAX

/* A name with a configured address, which is not looked up. */
struct kh_pin {
	struct kh_host host;
	struct kh_sockaddr addr;
	uint16_t tenant; /* the tenant whose sandboxes use it; KH_NO_TENANT: all */
	struct kh_where where;
};

/* upstream.proxy: an HTTP proxy through which upstreams are reached, by CONNECT. */
struct kh_proxy_config {
	struct kh_host host; /* kind NONE: there is none */
	uint16_t port;
	char *username;			  /* set if there is a password, else NULL */
	struct kh_host_pattern *no_proxy; /* these are dialled directly */
	size_t n_no_proxy;
	bool resolve_locally; /* look up the target here, check its addresses, and CONNECT to one of
				 them */
	struct kh_where where;
};

/* expect: a request and the decision that `keyhole check` compares with the rules'. Not in the
 * snapshot. */
struct kh_expectation {
	bool allow;
	uint16_t tenant;  /* index */
	int32_t listener; /* index of the listener whose narrowing applies; -1: none */
	char *text;	  /* "METHOD URL" */
	struct kh_where where;
	char *model;		     /* the model that the request is for, or NULL */
	struct kh_condition *fields; /* the request's fields: each a name and one value */
	size_t n_fields;
	/* The file does not have the tenant or the sandbox that it names, or it names none of
	 * several: this is the error, and there is no decision to compare. NULL: none of these. */
	char *fault;
	struct kh_where fault_where;
};

enum kh_durability { KH_DURABILITY_WRITTEN = 0, KH_DURABILITY_SYNCED };

/* Milliseconds. */
struct kh_timeouts {
	uint32_t header;    /* a request head, from its first byte to its last (slowloris) */
	uint32_t handshake; /* TLS, either side */
	uint32_t connect;   /* TCP, all addresses together */
	uint32_t resolve;
	uint32_t response;    /* from the end of the request to the final response head; generous,
				 since models take long */
	uint32_t idle_down;   /* between exchanges, sandbox side */
	uint32_t idle_up;     /* pooled upstream connection */
	uint32_t stall;	      /* content in either direction without a byte of progress */
	uint32_t total;	      /* an exchange from its request head to its end, even if bytes flow */
	uint32_t websocket;   /* an open WebSocket without a byte, pings included */
	uint32_t tunnel_idle; /* a tunnel whose content is not read, without a byte in either
				 direction */
	uint32_t tunnel;      /* such a tunnel, from its beginning to its end */
	uint32_t drain;	      /* after SIGTERM */
	uint32_t handover;    /* after SIGUSR2, in the old process */
};

/* A file, folder, socket or program of this host that the configuration names, or a word of a
 * command that looks like one. */
struct kh_named_path {
	char *option; /* "credentials.key.value.file" */
	char *path;   /* absolute, unless it is unread */
	bool unread;  /* a path in a script that only the shell knows */
};

struct kh_config {
	char **files; /* names for messages; index 0 is the main file */
	size_t n_files;
	struct kh_named_path *named; /* all that the main file names, and presets' files.
					Not in the snapshot */
	size_t n_named;
	size_t named_bytes; /* of `named`. Not in the snapshot */
	char sha256[65];    /* of the main file, in hex; "" if there is none. Not in the snapshot */
	char presets_sha256[65]; /* of the digest before and the text, for each file of a preset
				    (only where there is an authority). Not in the snapshot */

	char *ca_certificate_path; /* NULL: a CA that is kept in memory until the daemon ends */
	char *ca_key_path;
	bool ca_per_tenant; /* each tenant has a CA of its own */
	struct kh_listener_config *listeners;
	size_t n_listeners;

	char *upstream_ca_file;	    /* in addition to the system's roots; NULL: none */
	bool upstream_system_roots; /* true unless switched off */
	bool upstream_http2;	    /* HTTP/2 is offered to upstreams; true unless switched off */
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
	uint64_t audit_reserve; /* bytes of disk that are kept free for records of allowed requests
				 */

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
	uint32_t max_connections; /* per listener */
	bool says_connections; /* limits.connections is written; else max_connections is the default
				*/
	uint32_t max_exchanges;			      /* per connection */
	uint32_t leaves_per_second;		      /* per listener */
	uint32_t refusals_per_second, refusals_burst; /* per listener; with a record each */
	uint64_t held_content; /* bytes of a request's content, if a rule needs to read it */

	uint32_t threads;	/* 0: one per core */
	uint64_t worker_memory; /* bytes that all connections together may keep */
	char *worker_user;	/* NULL: `keyhole` if that user exists, else a reserved uid */
	enum kh_log_level log_level;

	/* Set by the keeper: the keys that placeholders are derived from; the one in use is the
	 * first. */
	struct kh_placeholder_key placeholder_keys[KH_MARK_KEYS];

	/* Set by `keyhole run --ask`, in no file: how long a request that no rule allows waits for
	 * a person's answer, at most KH_LIMIT_QUESTION_MS. The admin socket then takes answers and
	 * nothing else. 0: nobody is asked. */
	uint32_t ask_ms;

	struct kh_names *names; /* only while the configuration is read (names.c), else NULL */
};

/* A configuration with every default and nothing else; kh_config_free frees it. Return: NULL
 * without memory. */
struct kh_config *kh_config_new(void);
void kh_config_free(struct kh_config *config);

/*
 * Reads a file by the table of options (src/config/options.c). All errors are collected, not only
 * the first. Relative paths are relative to the file's folder. Presets come from `preset_dir`
 * (NULL: kh_preset_dir()). Return: NULL if there was an error; warnings alone do not fail. `diags`
 * is filled in either case, and the caller calls kh_diagnostics_fini.
 */
struct kh_config *kh_config_load(const char *path, const char *preset_dir,
				 struct kh_diagnostics *diags);
/* Appends a mark of what kh_config_load has read: the texts of the file and of its presets. Two
 * configurations with the same mark were read from the same texts. Appends nothing if that is not
 * known, for example without a CA. Return: false: no memory. */
bool kh_config_put_mark(const struct kh_config *config, struct kh_buf *out);
/* Like kh_config_load, but an error if the file's content has another SHA-256 than `digest` (in
 * hex; NULL: any is right). */
struct kh_config *kh_config_load_as(const char *path, const char *digest, const char *preset_dir,
				    struct kh_diagnostics *diags);
/* The same from memory; `name` is used as the file's name in messages. For tests and fuzzing. */
struct kh_config *kh_config_parse(const char *name, struct kh_slice yaml, const char *folder,
				  const char *preset_dir, struct kh_diagnostics *diags);
/*
 * Reads only where the admin socket of this configuration is: the result has only `admin.unix_path`
 * and `admin.sandboxes`. Other mistakes in the file do not matter. Return: NULL if `admin.unix`
 * can't be read.
 */
struct kh_config *kh_config_load_admin(const char *path);
/* Refuses a configuration that names what a sandbox could change (writable.h). Return: false with
 * `err`, which names the file, the option, the path and the reason. */
bool kh_config_check_named(const struct kh_config *config, struct kh_err *err);
/*
 * The configuration of `keyhole run --use a,b` without a file: one tenant "default" whose rules are
 * those presets. Return: as kh_config_load.
 */
struct kh_config *kh_config_from_presets(const char *const *presets, size_t n,
					 const char *preset_dir, struct kh_diagnostics *diags);
/* Adds a preset at the front of a tenant's rules (`run -c FILE --use …`). A preset is given as
 * NAME, as NAME:KEY=VALUE,… or as a map in braces, as `use` takes it in a file. Return: false with
 * an error in `diags`. */
bool kh_config_use(struct kh_config *config, size_t tenant, const char *preset,
		   const char *preset_dir, struct kh_diagnostics *diags);
/*
 * The text of a rule as it is written on a command line (`run --allow 'GET https://host/path*'`):
 * what kh_rule_parse takes, but for a method that HTTP does not know and a host that is any host.
 * Return: false when it is none: *at is the byte of `text` (at most its length) where it goes
 * wrong.
 */
bool kh_allow_text_parse(struct kh_rule *out, struct kh_slice text, size_t *at, struct kh_err *err);
/* Adds a rule that allows it, and has no credential, after a tenant's other rules: what one of them
 * decides stays decided. Its place is the file KH_ALLOW_FILE, at no line. */
#define KH_ALLOW_FILE "--allow"
bool kh_config_allow(struct kh_config *config, size_t tenant, const char *text,
		     struct kh_diagnostics *diags);
/*
 * Reads a narrowing from a file of its own, for a dynamic sandbox: a map with the one key `narrow`,
 * as in a listener. In its rules `where.file` is KH_NO_FILE. The caller frees `out`
 * (kh_rules_fini). Return: false if there was an error; then `out` is empty. `diags` is filled in
 * either case.
 */
bool kh_narrow_parse(const char *name, struct kh_slice yaml, const char *preset_dir,
		     struct kh_rules *out, struct kh_diagnostics *diags);
/*
 * A preset with its own test cases: a configuration in which the tenant "default" uses the preset
 * with its defaults (if each parameter has one), and another tenant uses it for each case that
 * names parameters. The cases are its expectations. A preset without a source or a case gets a
 * warning. Return: NULL if there was an error.
 */
struct kh_config *kh_preset_cases(const char *preset, const char *preset_dir,
				  struct kh_diagnostics *diags);
struct kh_config *kh_preset_cases_parse(const char *name, struct kh_slice yaml,
					struct kh_diagnostics *diags);
/* The names of the presets in a folder (NULL: kh_preset_dir()), sorted. The caller frees each name
 * and the list. Return: NULL and n 0 if there are none. */
char **kh_preset_names(const char *preset_dir, size_t *n);
struct kh_preset_parameter {
	char *name, *type, *doc;
	char *fallback; /* as a use would say it, "a,b"; NULL: a use must say it */
};
/* What a preset says of itself, without being used (preset_about.c). */
struct kh_preset_about {
	char *name, *path, *description;
	struct kh_preset_parameter *parameters;
	size_t n_parameters;
	char **variables; /* from which its keys come */
	size_t n_variables;
};
/* Return: false when it can't be read: `diags` says why. */
bool kh_preset_about(const char *name, const char *preset_dir, struct kh_preset_about *out,
		     struct kh_diagnostics *diags);
void kh_preset_about_fini(struct kh_preset_about *about);
/* The folder of presets: $KEYHOLE_PRESETS, else ../share/keyhole/policies beside the binary, else
 * policies/ of the build tree, else that of the installation. Static. */
const char *kh_preset_dir(void);
/*
 * Warns about what a valid configuration lets out by its rules, and about what makes it unsafe on
 * this host (a listener's folder that holds other files). For `keyhole check`.
 */
void kh_config_inspect(const struct kh_config *config, struct kh_diagnostics *diags);
/* The i-th source of a credential: those of its values, then that of its client secret; NULL after
 * the last. */
const struct kh_source *kh_source_of_credential(const struct kh_credential_config *credential,
						size_t i);
/* Is this environment variable one of its sources? */
bool kh_source_is_variable(const struct kh_credential_config *credential, const char *name);
/* Index of the password of upstream.proxy among the credentials, -1 when there is none. */
int kh_config_proxy_password(const struct kh_config *config);
/* The pin of this host: the tenant's own, else the site's; with KH_NO_TENANT only the site's.
 * Return: NULL: the name must be looked up. */
const struct kh_pin *kh_config_pin(const struct kh_config *config, uint16_t tenant,
				   const struct kh_host *host);
/* Is this host reached through upstream.proxy and not directly? True if there is a proxy and the
 * host is neither pinned (as in kh_config_pin) nor in no_proxy. */
bool kh_config_goes_by_proxy(const struct kh_config *config, uint16_t tenant,
			     const struct kh_host *host);
/* The special-purpose ranges (private addresses and similar) that this tenant's sandboxes may reach
 * nevertheless. *n: how many. */
const struct kh_cidr *kh_config_allowed_addresses(const struct kh_config *config, size_t tenant,
						  size_t *n);
/* The number of all listening sockets, and one of them: the listeners, then the acceptors of
 * `admin`. */
size_t kh_config_acceptors(const struct kh_config *config);
const struct kh_listener_config *kh_config_acceptor(const struct kh_config *config, size_t index);
/* Index of a tenant by name, -1 when there is none. */
int kh_config_tenant(const struct kh_config *config, const char *name);
/* For each listener of `of`: the index of the listener with its name in `among`, or
 * KH_LISTENER_NONE. On the heap; NULL without memory. */
#define KH_LISTENER_NONE SIZE_MAX
size_t *kh_config_match_listeners(const struct kh_config *of, const struct kh_config *among);
/* The index of the listener with this sandbox id; KH_SANDBOX_NONE, or KH_SANDBOX_SEVERAL if more
 * than one has it. */
enum { KH_SANDBOX_NONE = -1, KH_SANDBOX_SEVERAL = -2 };
int kh_config_sandbox(const struct kh_config *config, const char *id);

/* Appends a JSON Schema (draft 2020-12) of keyhole.yaml, for editors (schema.c). Return: false as
 * kh_buf_append. */
bool kh_config_schema(struct kh_buf *out);
/* Appends a page of the documentation with its tables of options regenerated (tables.c); `manual`:
 * in mdoc(7), else in Markdown. Return: false with `err`, for example if no table of the page has
 * some option. */
bool kh_config_tables(struct kh_slice text, bool manual, struct kh_buf *out, struct kh_err *err);

/* The worker's part of a configuration (no sources, no paths of keys) as bytes for a sealed memfd,
 * and back (snapshot.c). The decoder trusts nothing: it checks every index and enum. kh_config_free
 * frees its result; NULL with `err`. */
bool kh_config_encode(const struct kh_config *config, struct kh_buf *out);
struct kh_config *kh_config_decode(struct kh_slice bytes, struct kh_err *err);
/* The same for a narrowing alone. Return: false: `out` of the decoder is empty. */
bool kh_snapshot_encode_narrow(const struct kh_rules *rules, struct kh_buf *out);
bool kh_snapshot_decode_narrow(struct kh_slice bytes, struct kh_rules *out, struct kh_err *err);

#endif
