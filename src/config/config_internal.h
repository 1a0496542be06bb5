/* config_internal.h - the reader of keyhole.yaml: tree, table of options, walker, checks */
#ifndef KEYHOLE_CONFIG_INTERNAL_H
#define KEYHOLE_CONFIG_INTERNAL_H

#include <keyhole/base/nearest.h>
#include <keyhole/config/config.h>
#include <keyhole/config/signing.h>

#include "keys.h"

/* tree.c, node.c: YAML as a tree in which every node knows where it is. */
enum kh_node_kind { KH_NODE_SCALAR = 1, KH_NODE_MAP, KH_NODE_LIST };

struct kh_yaml_node {
	enum kh_node_kind kind;
	bool plain; /* a scalar without quotes */
	uint32_t line;
	uint32_t column;
	struct kh_slice text;		/* a scalar's; terminated */
	const struct kh_yaml_node *key; /* of a map's child: its key, a scalar */
	struct kh_yaml_node *first;	/* children, in the order of the file */
	struct kh_yaml_node *last;
	struct kh_yaml_node *next;
	size_t count;
};

struct kh_yaml_tree {
	struct kh_tree_chunk *chunks;
	struct kh_yaml_node *root;
};

/* A rule as its keys, before they are understood together. */
struct kh_rule_draft {
#define KH_DRAFT_KEY(name, ...) const struct kh_yaml_node *name;
	KH_RULE_KEYS(KH_DRAFT_KEY)
#undef KH_DRAFT_KEY
#define KH_DRAFT_LIMIT(name, kind, member, ...) const struct kh_yaml_node *member;
	KH_LIMIT_KEYS(KH_DRAFT_LIMIT, )
#undef KH_DRAFT_LIMIT
};

/* The item of a named map ("credentials.*") that is being read, within another one or NULL. */
struct kh_reader_item {
	const struct kh_reader_item *above;
	const char *path; /* of its row */
	struct kh_slice name;
};

/* What one reading carries along. Errors are collected; nothing stops at the first. */
struct kh_reader {
	struct kh_config *config;
	struct kh_diagnostics *diags;
	const struct kh_options *options; /* the table that it reads by */
	const char *folder;	    /* of relative paths; NULL: the file system is left alone */
	const char *preset_dir;	    /* NULL: kh_preset_dir() */
	uint32_t file;		    /* being read: index into config->files */
	const char *preset;	    /* its name while a preset is read */
	struct kh_pending *pending; /* names to look up when everything is read */
	size_t n_pending;
	struct kh_rule_draft draft;	  /* the rule that is being read */
	const struct kh_rules *narrowing; /* the list that is one, while it is read */
	bool rules_only;		  /* a preset without its credentials */
	struct kh_preset **presets;	  /* read so far: a thousand tenants may use the same */
	size_t n_presets;
	struct kh_preset *cases;   /* the preset whose own `expect` is being read */
	struct kh_where authority; /* where that section is */
	const struct kh_reader_item *item;
	bool no_memory;
};

/* Return: false when the text is no tree at all; errors are in the reader's diagnostics. */
bool kh_tree_parse(struct kh_yaml_tree *tree, struct kh_slice yaml, struct kh_reader *reader);
void kh_tree_free(struct kh_yaml_tree *tree);
/* Memory that lives as long as the tree; a zeroed tree is an empty one. */
void *kh_tree_alloc(struct kh_yaml_tree *tree, size_t size);
/* The value of a key in a map, NULL where it is absent. */
const struct kh_yaml_node *kh_node_get(const struct kh_yaml_node *map, const char *key);
/* "a map", "a list", "text", "nothing": what a node is, for messages. */
const char *kh_node_what(const struct kh_yaml_node *node);
/* A scalar that holds nothing: `key:` and `key: ~`. */
bool kh_node_is_empty(const struct kh_yaml_node *node);

/* method.c */
bool kh_method_is_known(struct kh_slice method);
/* " (did you mean \"GET\"?)", or "" where none is near. */
const char *kh_method_hint(struct kh_slice method, char out[KH_NEAREST_BYTES]);

/* rule.c. Each fault of the text of a rule, where kh_rule_parse gives the first. */
typedef void kh_rule_fault(void *arg, const struct kh_err *err);
void kh_rule_faults(struct kh_slice text, kh_rule_fault *each, void *arg);

/* diag.c */
/* The names of the files stand in the diagnostics too: they outlive a failed configuration. */
void kh_diagnostics_take_files(struct kh_diagnostics *d, const struct kh_config *config);
struct kh_option;
struct kh_where kh_reader_where(const struct kh_reader *reader, const struct kh_yaml_node *node);
/* A path of the table in the text, "credentials.*.value", is shown with the item's own name. */
void kh_reader_say(struct kh_reader *reader, bool warning, const struct kh_yaml_node *node,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
#define kh_reader_error(reader, node, ...) kh_reader_say(reader, false, node, __VA_ARGS__)
#define kh_reader_warn(reader, node, ...) kh_reader_say(reader, true, node, __VA_ARGS__)
/* Memory is gone: said once. Return: NULL. */
void *kh_reader_no_memory(struct kh_reader *reader);

/* value.c. Is it a path as it is, without a variable or a ~ of a shell? Where not, it was said. */
bool kh_reader_path_is_plain(struct kh_reader *reader, const struct kh_option *option,
			     const struct kh_yaml_node *node);

/* named_path.c. A path of this host, without a NUL: made absolute, and noted in the configuration.
 * Return: on the heap; NULL: it was said why. */
char *kh_reader_path(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node);
/* Notes a file that is read for the configuration: a preset's. */
void kh_reader_note_file(struct kh_reader *reader, const char *option, const char *path);
/* Notes the paths in a word of a command, or in a variable of its. */
void kh_reader_note_word(struct kh_reader *reader, const struct kh_option *option,
			 const char *word);
/* Notes those in a shell's script, as it would read them. */
void kh_reader_note_script(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_exec *exec, const char *script);

/* shell_word.c. Is this word of the command a script for a shell (sh -c SCRIPT)? */
bool kh_shell_runs(const struct kh_exec *exec, size_t i);
/* The script without its quotes, with the values of the variables that are known, and with this
 * byte in the place of what only the shell knows; NUL-terminated. Return: false without memory. */
enum { KH_SHELL_UNREAD = 1 };
bool kh_shell_word_read(const struct kh_exec *exec, const char *word, struct kh_buf *out);

/* pattern.c. Has a pattern of paths brackets with something in them, which people take for a set of
 * characters? And what is said of it. */
bool kh_pattern_has_brackets(struct kh_slice path);
extern const char kh_pattern_brackets_text[];

/* named_path.c */
void kh_named_paths_free(struct kh_config *config);

/* due.c */
/* Is it a map or a list (`kind`) with something in it? Where not, what the option expects is said.
 */
bool kh_reader_wants(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, enum kh_node_kind kind);
/* "got a list" and the like, where a scalar is due. Return: false when it is none. */
bool kh_reader_scalar(struct kh_reader *reader, const struct kh_option *option,
		      const struct kh_yaml_node *node);
void kh_reader_wrong_type(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node);

/* options.c: the one table. */
enum kh_option_type {
	KH_OPTION_SECTION = 1, /* a map with known keys, which have rows of their own */
	KH_OPTION_LIST,	       /* of items whose rows begin with "<items>." */
	KH_OPTION_MAP,	       /* the same with a name for each item */
	KH_OPTION_TEXT,	       /* char *, checked by `check` */
	KH_OPTION_PATH,	       /* char *, made absolute */
	KH_OPTION_BOOL,	       /* bool */
	KH_OPTION_COUNT,       /* uint32_t, least … most */
	KH_OPTION_DURATION,    /* uint32_t, milliseconds, least … most */
	KH_OPTION_SIZE,	       /* uint64_t, bytes, least … most */
	KH_OPTION_CHOICE,      /* an enum, index into `choices` */
	KH_OPTION_NODE, /* const struct kh_yaml_node *: its owner reads it when the item is whole */
	KH_OPTION_CUSTOM, /* `read` does it */
};

enum {
	KH_IN_FILE = 1,	     /* may be in keyhole.yaml */
	KH_IN_PRESET = 2,    /* may be in a preset */
	KH_IS_REQUIRED = 4,  /* an error where it is absent */
	KH_IS_QUIET = 8,     /* might be a misplaced secret: messages never show its value */
	KH_IN_TENANT = 16,   /* may be in one tenant's part of an option that is by tenant */
	KH_IN_PART = 32,     /* its member is in a struct of its own, below that of its item */
	KH_OF_ALLOW = 64,    /* a key of a rule that none has which denies, or is over tcp */
	KH_OF_REQUEST = 128, /* a key of a rule that asks of the request: over tcp there is none */
};

struct kh_carrier;
/* Reads the node of an option into the struct that its section or item fills. */
typedef void kh_option_reader(struct kh_reader *reader, const struct kh_option *option,
			      const struct kh_yaml_node *node, void *base);
/* Carries an option to the worker, or takes it there (carry.h). */
typedef void kh_option_carrier(struct kh_carrier *carrier, const struct kh_option *option,
			       void *base);

struct kh_option {
	const char *path; /* "timeouts.header", "listen[].unix", "credentials.*.hosts" */
	enum kh_option_type type;
	unsigned flags;
	size_t offset; /* in the struct that its section or item fills */
	uint64_t least;
	uint64_t most;
	const char *const *choices; /* ends in NULL */
	const char *items;	    /* LIST, MAP: "listen[]" */
	const char *fallback;	    /* the default, as it would be written; NULL: none */
	const char *expects;	    /* "a list of hosts": what a wrong type is told */
	const char *takes;	    /* the same for the documentation, where it has to say more */
	const char *doc;	    /* one line */
	/* As JSON Schema (options_json.h). CUSTOM, NODE: the whole of what is there; NULL: one
	 * of `choices`. */
	const char *shape;
	/* SECTION, LIST, MAP: how the keys of the map, or of an item, stand to each other: further
	 * members of its schema. `less`, LIST: those of its items that others of their kind lack.
	 */
	const char *between, *less;
	/* CUSTOM: how the part's member is read that its reader has made (kh_value_part): as BOOL
	 * (with two choices: whether it is the second), DURATION, CHOICE or TEXT. */
	enum kh_option_type as;
	/* TEXT, PATH: why the text won't do, NULL when it will; "": it is not what the row expects.
	 */
	const char *(*check)(struct kh_slice text);
	/* CUSTOM reads the node; SECTION: what to do with a node that is no map (NULL: an error).
	 */
	kh_option_reader *read;
	/* LIST, MAP: makes the item (NULL: it was refused), and looks at it when it is filled. */
	void *(*add)(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node);
	void (*done)(struct kh_reader *reader, void *parent, void *item,
		     const struct kh_yaml_node *node);
	/* To the worker and there (carry.h): NULL where it stays with the keeper. `base` is the
	 * struct in which it is when all is read, and `member` where. */
	kh_option_carrier *carry;
	size_t member;
};

struct kh_options {
	const struct kh_option *rows;
	size_t count;
};
extern const struct kh_options kh_options;
/* As kh_config_schema and kh_config_tables, of any table. */
bool kh_options_schema(const struct kh_options *options, struct kh_buf *out);
bool kh_options_tables(const struct kh_options *options, struct kh_slice text, bool manual,
		       struct kh_buf *out, struct kh_err *err);

/* walk.c: fills structs by the table. `in`: KH_IN_FILE or KH_IN_PRESET. */
void kh_walk(struct kh_reader *reader, const struct kh_yaml_node *root, unsigned in, void *base);
/* Sets the defaults of the rows below `prefix` ("" for the whole file) in a fresh struct. */
void kh_walk_defaults(struct kh_reader *reader, const char *prefix, void *base);
/* Frees the texts and paths of the rows below it, of a file. */
void kh_walk_free(const struct kh_options *options, const char *prefix, void *base);
/* The map of one more section, into the struct that it belongs to. */
void kh_walk_map(struct kh_reader *reader, const char *path, unsigned in,
		 const struct kh_yaml_node *map, void *base);
/* The row of a path. */
const struct kh_option *kh_walk_row(const struct kh_reader *reader, const char *path);
/* One option by its path, into the struct that it belongs to. */
void kh_walk_option(struct kh_reader *reader, const char *path, unsigned in,
		    const struct kh_yaml_node *node, void *base);
/* value.c: one scalar. Return: false when the text is no such value. */
/* Octal, as people write modes. */
bool kh_value_mode(struct kh_slice text, mode_t *out);
void kh_value_set(struct kh_reader *reader, const struct kh_option *option,
		  const struct kh_yaml_node *node, void *base);
/* One member of a struct that the option's reader has made; NULL: it could not. By `as`. */
void kh_value_part(struct kh_reader *reader, const struct kh_option *option,
		   const struct kh_yaml_node *node, void *part);
const char *kh_value_check_user(struct kh_slice text);
const char *kh_value_check_env(struct kh_slice text);
const char *kh_value_check_alphabet(struct kh_slice text);
const char *kh_value_check_prefix(struct kh_slice text);

/* section.c, credential.c, credential_value.c, rules.c: the readers that the table names. */
kh_option_reader kh_config_read_version;
kh_option_reader kh_config_read_mode;
kh_option_reader kh_config_read_owner;
/* A user's name or number. */
void kh_config_user_by_name(struct kh_reader *, const struct kh_option *,
			    const struct kh_yaml_node *, uid_t *out);
kh_option_reader kh_config_read_group;
kh_option_reader kh_config_read_tenant;
kh_option_reader kh_config_read_pins;
kh_option_reader kh_config_read_tenant_pins;
kh_option_reader kh_config_read_ranges;
kh_option_reader kh_config_read_tenant_ranges;
kh_option_reader kh_config_read_servers;
void kh_config_tenant_by_name(struct kh_reader *, const struct kh_option *,
			      const struct kh_yaml_node *, uint16_t *out);
/* listener.c: what listens, and for whom. */
kh_option_reader kh_config_read_tcp;
kh_option_reader kh_config_read_token_env;
kh_option_reader kh_config_read_token_file;
void kh_config_check_listeners(struct kh_reader *reader);
/* admin.c */
kh_option_reader kh_config_read_admin_metrics;
void *kh_admin_grant_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
void kh_admin_grant_done(struct kh_reader *, void *parent, void *item, const struct kh_yaml_node *);
kh_option_reader kh_config_read_admin_user;
kh_option_reader kh_config_read_admin_tenants;
/* Makes the acceptors of what was read. */
void kh_config_check_admin(struct kh_reader *reader);
/* Where the socket is, and the sandboxes, and no more; `admin` is a map. */
void kh_config_read_admin_places(struct kh_reader *reader, const struct kh_yaml_node *admin);
void *kh_listener_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
void kh_listener_done(struct kh_reader *, void *parent, void *item, const struct kh_yaml_node *);
void *kh_config_tenant_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
void kh_tenant_done(struct kh_reader *, void *parent, void *item, const struct kh_yaml_node *);

kh_option_reader kh_config_read_literal;
kh_option_reader kh_config_read_source_env;
kh_option_reader kh_config_read_source_file;
/* placement.c: each reads one kind. */
kh_option_reader kh_config_read_fields;
kh_option_reader kh_config_read_bearer;
kh_option_reader kh_config_read_azure;
kh_option_reader kh_config_read_basic_user;
/* `basic: {}` */
void kh_placement_basic(struct kh_reader *, const struct kh_yaml_node *,
			struct kh_credential_config *);
kh_option_reader kh_config_read_query;
kh_option_reader kh_config_read_cookie;
kh_option_reader kh_config_read_body_json;
kh_option_reader kh_config_read_body_form;
/* What is wrong with a placement as a whole, NULL when nothing is: what the snapshot's reader asks
 * as well. */
const char *kh_placement_fault(const struct kh_placement *placement);
/* Makes the credential's one placement, named by the option's last part. Return: NULL where it has
 * one already, which was said. */
struct kh_placement *kh_placement_begin(struct kh_reader *reader, const struct kh_option *option,
					const struct kh_yaml_node *node,
					struct kh_credential_config *credential,
					enum kh_placement_kind kind);
/* The literal of an option that is such a kind; NULL when there is none. */
const char *kh_placement_find(struct kh_slice key, enum kh_placement_kind kind);
extern const char kh_placement_options[]; /* "header, bearer …", for messages */
/* binding.c: hosts, paths, methods. */
/* signing.c: those that are no copy of the value. */
kh_option_reader kh_config_read_sigv4;
kh_option_reader kh_config_read_mtls;
kh_option_reader kh_config_read_hmac;
kh_option_reader kh_config_read_hmac_header;
/* What is wrong with the name of a field that a credential sets; NULL when nothing is. */
const char *kh_placement_name_fault(struct kh_slice name);
/* RFC 9110 section 5.6.2, of 64 bytes at most. */
bool kh_placement_is_token(struct kh_slice name);
/* The credential is whole. */
void kh_signing_config_done(struct kh_reader *, const struct kh_yaml_node *,
			    struct kh_credential_config *);
/* For rows of theirs. */
const char *kh_config_check_sigv4_name(struct kh_slice text);
const char *kh_config_check_hmac_sign(struct kh_slice text);
const char *kh_signing_config_fault(const struct kh_placement *placement);
kh_option_reader kh_config_read_hosts;
kh_option_reader kh_config_read_binding_paths;
kh_option_reader kh_config_read_binding_methods;
void kh_binding_add_host(struct kh_reader *, const struct kh_option *, const struct kh_yaml_node *,
			 struct kh_credential_config *);
/* What is wrong with one, NULL when nothing is; the path's normal form is appended. */
const char *kh_binding_path_fault(struct kh_slice text, struct kh_buf *normal);
const char *kh_binding_method_fault(struct kh_slice text);
/* Is the credential bound to all that the rule allows? */
bool kh_binding_covers(const struct kh_credential_config *credential, const struct kh_rule *rule);
/* What two of the rule's credentials that go in together would both write; NULL: nothing. */
const char *kh_binding_clash(const struct kh_config *config, const struct kh_rule *rule,
			     const char **one, const char **other);
/* Each rule is held to the bindings of its credentials. */
void kh_config_check_rules(struct kh_reader *reader, const struct kh_rules *rules);

/* up_proxy.c: upstream.proxy. */
kh_option_reader kh_config_read_proxy_url;
kh_option_reader kh_config_read_proxy_password_env;
kh_option_reader kh_config_read_proxy_password_file;
kh_option_reader kh_config_read_no_proxy;
const char *kh_value_check_username(struct kh_slice text);
void kh_config_check_proxy(struct kh_reader *reader);
/* The pattern of exactly this host. */
struct kh_host_pattern kh_host_pattern_of(const struct kh_host *host);

/* expect.c */
void *kh_expectation_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
void kh_expectation_done(struct kh_reader *, void *parent, void *item, const struct kh_yaml_node *);
kh_option_reader kh_config_read_expected_fields;
kh_option_reader kh_config_read_expected_tenant;
kh_option_reader kh_config_read_expected_sandbox;
kh_option_reader kh_config_read_expected_model;
kh_option_reader kh_config_read_expected;

void *kh_credential_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
void kh_credential_done(struct kh_reader *, void *parent, void *item, const struct kh_yaml_node *);

void *kh_rule_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
void kh_rule_done(struct kh_reader *, void *parent, void *item, const struct kh_yaml_node *);
/* Credentials may be named before they are read: their names wait until all are there. `extra` is
 * the list that belongs neither to the site nor to a tenant (a preset's). */
/* Of the last rule of the list. */
void kh_pending_add(struct kh_reader *reader, const struct kh_rules *rules,
		    const struct kh_yaml_node *name);
void kh_pending_resolve(struct kh_reader *reader, struct kh_rules *extra);
void kh_pending_fini(struct kh_reader *reader);
/* use_text.c: notes that `rules` use a preset with these arguments (a map or NULL). Return: false
 * without memory. */
bool kh_rules_note_use(struct kh_rules *rules, const char *preset, struct kh_where where,
		       const struct kh_yaml_node *arguments);
bool kh_rules_append(struct kh_rules *rules, struct kh_rules *more);

/* home_template.c */
const char *kh_home_template_check_path(struct kh_slice text);
void *kh_home_template_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
/* Moves all of `more` to the end. Return: false without memory. */
bool kh_home_templates_append(struct kh_home_templates *templates, struct kh_home_templates *more);

/* Is it a suffix below which anybody can have a name, by the Public Suffix List's private section?
 * Also where the list can't be read. */
bool kh_config_is_private_suffix(const char *name);
/* shared_host.c: an error where a host of the credential is shared with strangers. */
void kh_shared_host_check(struct kh_reader *reader, const struct kh_credential_config *credential);
kh_option_reader kh_config_read_shared_host;
/* suffix.c: an error where a wildcard over `name` covers what anybody can register. Return: it
 * does not. */
bool kh_config_check_registry(struct kh_reader *reader, const struct kh_yaml_node *node,
			      const char *name);
/* suffix.c: an error where a wildcard covers what anybody can have; `meant` (NULL: it is not):
 * where the rule says that a company's suffix is meant. Return: it may stand. */
bool kh_config_check_suffix(struct kh_reader *reader, const struct kh_yaml_node *node,
			    enum kh_host_match match, const char *name,
			    const struct kh_yaml_node *meant);

/* condition.c */
void kh_conditions_take(struct kh_reader *reader, struct kh_rule *rule,
			const struct kh_rule_draft *draft);
void kh_condition_fini(struct kh_condition *condition);
/* What is wrong with a condition, NULL when nothing is. */
const char *kh_condition_fault(enum kh_condition_kind kind, const char *name, const char *pattern);
/* What few rules have, made where it is not there. Return: NULL without memory. */
struct kh_rule_more *kh_rule_more(struct kh_rule *rule);

/* geo.c */
kh_option_reader kh_config_read_geo_file;
kh_option_reader kh_config_read_geo;
/* The key of a rule. */
void kh_geo_take(struct kh_reader *reader, struct kh_rule *rule, const struct kh_yaml_node *node);
/* What is wrong with one, as a text that says what it lacks; NULL when nothing is. */
const char *kh_geo_fault(const struct kh_config *config, const struct kh_geo_rules *geo);
/* Names that are looked up elsewhere lie nowhere that is known here. */
void kh_config_check_geo(struct kh_reader *reader);

/* quota.c: `limits` */
kh_option_reader kh_config_read_limit;
/* `narrowing`: why its list brings no limits along, NULL where it may. */
void kh_limits_take_rule(struct kh_reader *reader, struct kh_rule *rule,
			 const struct kh_rule_draft *draft, const char *narrowing);
/* What is wrong with a rate, NULL when nothing is. */
const char *kh_rate_fault(const struct kh_rate *rate);
/* check_quota.c: limits that can never be reached. */
void kh_config_check_limits(struct kh_reader *reader);

/* names.c: what has a name, without going through all of them. */
enum kh_names_kind { KH_NAMES_TENANTS, KH_NAMES_CREDENTIALS, KH_NAMES_SANDBOXES, KH_NAMES_KINDS };
enum { KH_NAME_NONE = KH_SANDBOX_NONE, KH_NAME_SEVERAL = KH_SANDBOX_SEVERAL };
/* Return: the index, or one of these. Without kh_names_begin it is slow. */
int kh_names_find(const struct kh_config *config, enum kh_names_kind kind, struct kh_slice name);
void kh_names_begin(struct kh_config *config);
void kh_names_end(struct kh_config *config);

/* check.c: what no single option shows. */
void kh_config_check(struct kh_reader *reader);

/* config.c */
bool kh_config_add_file(struct kh_config *config, const char *name, uint32_t *index);
/* Room for one more zeroed element: *list may move. Return: the element, NULL without memory. */
void *kh_list_add(void *list, size_t *count, size_t size);
int kh_config_credential(const struct kh_config *config, struct kh_slice name);

#include "preset_internal.h"
#include "value_internal.h"

#endif
