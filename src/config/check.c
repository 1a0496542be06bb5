/* check.c - checks of several options together, and of the host */
#include <dirent.h>
#include <unistd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/unsafe_folder.h>

#include "config_internal.h"

#define say(diags, where, ...) kh_diagnostics_add(diags, false, where, __VA_ARGS__)
#define warn(diags, where, ...) kh_diagnostics_add(diags, true, where, __VA_ARGS__)

/* The bytes of a path that bind() takes, without the terminator. */
enum { SOCKET_PATH_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };

static void warn_of_emptiness(struct kh_reader *reader)
{
	const struct kh_config *config = reader->config;
	struct kh_where top = { .file = reader->file, .line = 1, .column = 1 };
	if (config->n_tenants == 0)
		warn(reader->diags, top, "no tenants: nothing can be reached");
	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i].rules.count == 0)
			warn(reader->diags, config->tenants[i].where,
			     "tenant \"%s\" has no rules: every request of it is refused",
			     kh_esc_str(config->tenants[i].name));
}

static void mark_used(const struct kh_rules *rules, bool *used)
{
	for (size_t i = 0; i < rules->count; i++)
		for (size_t j = 0; j < rules->list[i].n_credentials; j++)
			used[rules->list[i].credentials[j]] = true;
}

/* A preset's credentials may be of no use here; one of the file is there for a reason. */
static void warn_of_unused(struct kh_reader *reader)
{
	const struct kh_config *config = reader->config;
	bool *used = calloc(config->n_credentials + 1, sizeof(*used));
	if (!used) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	for (size_t i = 0; i < config->n_tenants; i++)
		mark_used(&config->tenants[i].rules, used);
	for (size_t i = 0; i < config->n_credentials; i++)
		if (!used[i] && !config->credentials[i].preset &&
		    !config->credentials[i].of_proxy && !config->credentials[i].of_listener)
			warn(reader->diags, config->credentials[i].where,
			     "credential \"%s\" is used by no rule",
			     kh_esc_str(config->credentials[i].name));
	free(used);
}

/* Bytes of a path's folder, without the slash after it. */
static size_t folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) : 0;
}

static int compare_folders(const char *a, const char *b)
{
	size_t x = folder_len(a), y = folder_len(b);
	int order = memcmp(a, b, x < y ? x : y);
	return order ? order : (x > y) - (x < y);
}

static int compare_listeners(const void *a, const void *b)
{
	const struct kh_listener_config *x = *(const struct kh_listener_config *const *)a;
	const struct kh_listener_config *y = *(const struct kh_listener_config *const *)b;
	int order = compare_folders(x->unix_path, y->unix_path);
	if (order == 0)
		order = strcmp(x->unix_path, y->unix_path);
	return order ? order : (x->where.line > y->where.line) - (x->where.line < y->where.line);
}

/* The listeners with a path, ordered by folder and path. Heap; NULL without memory. */
static const struct kh_listener_config **by_path(const struct kh_config *config, size_t *n)
{
	const struct kh_listener_config **list =
		calloc(config->n_listeners + 1, sizeof(struct kh_listener_config *));
	*n = 0;
	for (size_t i = 0; list && i < config->n_listeners; i++)
		if (config->listeners[i].unix_path)
			list[(*n)++] = &config->listeners[i];
	if (list)
		qsort(list, *n, sizeof(struct kh_listener_config *), compare_listeners);
	return list;
}

static void check_listeners(struct kh_reader *reader)
{
	size_t n;
	const struct kh_listener_config **list = by_path(reader->config, &n);
	if (!list) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(list[i]->unix_path);
		if (len > SOCKET_PATH_BYTES)
			say(reader->diags, list[i]->where,
			    "listen[].unix: %zu bytes are too long for a Unix socket's path (%d at "
			    "most)",
			    len, (int)SOCKET_PATH_BYTES);
		if (i > 0 && strcmp(list[i - 1]->unix_path, list[i]->unix_path) == 0)
			say(reader->diags, list[i]->where,
			    "listen[].unix: \"%s\" is served by another listener already",
			    kh_esc_str(list[i]->unix_path));
	}
	free(list);
}

static void check_authority(struct kh_reader *reader, const struct kh_where where)
{
	const struct kh_config *config = reader->config;
	if (!config->ca_certificate_path != !config->ca_key_path) {
		say(reader->diags, where,
		    "authority: certificate and key belong together, and %s is missing",
		    config->ca_key_path ? "certificate" : "key");
		return;
	}
	struct stat st;
	if (!config->ca_key_path || !reader->folder || stat(config->ca_key_path, &st) != 0)
		return;
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		say(reader->diags, where,
		    "authority.key: \"%s\" is open to others (mode %04o): whoever reads it can "
		    "pose as any server (chmod 0600)",
		    kh_esc_str(config->ca_key_path), (unsigned)(st.st_mode & 07777));
}

/* What the site opens is open to those that open more by themselves as well. */
static void join_addresses(struct kh_reader *reader)
{
	struct kh_config *config = reader->config;
	for (size_t t = 0; t < config->n_tenants; t++) {
		struct kh_tenant_config *tenant = &config->tenants[t];
		for (size_t i = 0; tenant->n_allow_addresses > 0 && i < config->n_allow_addresses;
		     i++) {
			struct kh_cidr *slot =
				kh_list_add(&tenant->allow_addresses, &tenant->n_allow_addresses,
					    sizeof(*slot));
			if (!slot) {
				(void)kh_reader_no_memory(reader);
				return;
			}
			*slot = config->allow_addresses[i];
		}
	}
}

void kh_config_check(struct kh_reader *reader)
{
	join_addresses(reader);
	check_authority(reader, reader->authority);
	check_listeners(reader);
	kh_config_check_listeners(reader);
	kh_config_check_admin(reader);
	kh_config_check_proxy(reader);
	kh_config_check_sources(reader);
	kh_config_check_geo(reader);
	for (size_t i = 0; i < reader->config->n_tenants; i++)
		kh_config_check_rules(reader, &reader->config->tenants[i].rules);
	/* What is missing may be missing because it could not be read. */
	if (reader->diags->errors > 0)
		return;
	warn_of_emptiness(reader);
	warn_of_unused(reader);
	kh_config_check_limits(reader);
}

/* A sandbox gets to see the folder of its socket: nothing else may be there. */
static void inspect_folder(const struct kh_listener_config *listener, const char *folder,
			   const char *own, struct kh_diagnostics *diags)
{
	DIR *dir = opendir(folder);
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    strcmp(entry->d_name, own) == 0)
			continue;
		warn(diags, listener->where,
		     "listen[].unix: the folder \"%s\" contains other files (\"%s\"), and the "
		     "sandbox "
		     "sees what is in it: give the socket a folder of its own",
		     kh_esc_str(folder), kh_esc_str(entry->d_name));
		break;
	}
	if (dir)
		(void)closedir(dir);
	/* Root can't know as whom the daemon is to run. */
	if (kh_file_others_may_rename(folder, geteuid() == 0 ? (uid_t)-1 : geteuid()))
		warn(diags, listener->where,
		     "listen[].unix: others may write to the folder \"%s\", so they can put a "
		     "socket of their own in this one's place (chmod go-w)",
		     kh_esc_str(folder));
}

/* The rule by which a tenant reaches a host that no rule of its names. Return: NULL where one
 * names it, or none allows it. */
static const struct kh_rule *wildcard_to(const struct kh_rules *rules, const struct kh_host *host)
{
	const struct kh_rule *found = NULL;
	for (size_t i = 0; i < rules->count; i++) {
		struct kh_host_pattern pattern;
		kh_rule_host_expand(&rules->list[i].host, &pattern);
		if (!rules->list[i].allow || !kh_host_pattern_matches(&pattern, host))
			continue;
		if (pattern.match == KH_MATCH_EXACT)
			return NULL;
		found = found ? found : &rules->list[i];
	}
	return found;
}

/* localhost, and names below it (RFC 6761 §6.3), are what each sandbox calls itself. */
static void inspect_pin_name(const struct kh_pin *pin, struct kh_diagnostics *diags)
{
	static const struct kh_slice below = KH_SLICE_INIT(".localhost");
	struct kh_slice name = kh_slice_str(pin->host.text);
	if (kh_slice_eq(name, KH_SLICE("localhost")) || kh_slice_has_suffix(name, below))
		warn(diags, pin->where,
		     "resolve: in a sandbox \"%s\" is the sandbox itself, and clients connect to "
		     "it "
		     "without a proxy: give the service another name, such as host.test",
		     pin->host.text);
}

/* A name that is pinned for everybody often leads into the operator's own network. */
static void inspect_pin(const struct kh_config *config, const struct kh_pin *pin,
			struct kh_diagnostics *diags)
{
	for (size_t t = 0; t < config->n_tenants; t++) {
		const struct kh_tenant_config *tenant = &config->tenants[t];
		const struct kh_rule *rule = wildcard_to(&tenant->rules, &pin->host);
		if (!rule)
			continue;
		warn(diags, pin->where,
		     "upstream.resolve: tenant \"%s\" reaches \"%s\" by the wildcard of its rule "
		     "\"%s\", without the address guard (if it must not, pin the name in "
		     "tenants.NAME.resolve of the tenants that need it)",
		     kh_esc_str(tenant->name), pin->host.text, kh_esc_str(rule->text));
		return;
	}
}

/* `use: go` without the modules that may be asked for. */
static bool is_any_module(const struct kh_rule *rule)
{
	return rule->preset && strcmp(rule->preset, "go") == 0 && rule->path &&
	       strcmp(rule->path, "/*/*/**") == 0;
}

static void inspect_modules(const struct kh_config *config, struct kh_diagnostics *diags)
{
	for (size_t t = 0; t < config->n_tenants; t++) {
		const struct kh_tenant_config *tenant = &config->tenants[t];
		bool open = false;
		for (size_t i = 0; i < tenant->rules.count; i++)
			open = open || is_any_module(&tenant->rules.list[i]);
		if (open)
			warn(diags, tenant->where,
			     "tenant \"%s\": `use: go` allows any module, so data can "
			     "leave in a module's name: say which are asked for, as in "
			     "use: { go: { modules: [ golang.org/x ] } }",
			     kh_esc_str(tenant->name));
	}
}

static void inspect_place(const char *path, const char *what, struct kh_where where,
			  struct kh_diagnostics *diags)
{
	struct kh_err err = KH_ERR_INIT;
	/* Root can't know as whom the daemon is to run. */
	uid_t user = geteuid() == 0 ? (uid_t)-1 : geteuid();
	if (path && kh_unsafe_folder(path, user, &err) != KH_UNSAFE_NOT)
		warn(diags, where, "%s: %s", what, err.text);
}

/* What keyhole itself writes, or trusts as it trusts itself. The daemon refuses a
 * journal and a state where a folder belongs to another user. */
static void inspect_places(const struct kh_config *config, struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < config->n_credentials; i++) {
		const struct kh_credential_config *one = &config->credentials[i];
		if (one->mint)
			inspect_place(one->mint->state_path, "state", one->where, diags);
	}
	inspect_place(config->audit_path, "audit.file", (struct kh_where){ .line = 1, .column = 1 },
		      diags);
	inspect_place(config->ca_key_path, "ca.key", (struct kh_where){ .line = 1, .column = 1 },
		      diags);
}

void kh_config_inspect(const struct kh_config *config, struct kh_diagnostics *diags)
{
	size_t n;
	for (size_t i = 0; i < config->n_pins; i++)
		inspect_pin_name(&config->pins[i], diags);
	for (size_t i = 0; config->n_tenants > 1 && i < config->n_pins; i++)
		if (config->pins[i].tenant == KH_NO_TENANT)
			inspect_pin(config, &config->pins[i], diags);
	inspect_modules(config, diags);
	inspect_places(config, diags);
	const struct kh_listener_config **list = by_path(config, &n);
	for (size_t i = 0; list && i < n; i++) {
		const char *path = list[i]->unix_path;
		const char *slash = strrchr(path, '/');
		if (!slash)
			continue;
		struct kh_slice folder = kh_slice_of(path, slash == path ? 1 : folder_len(path));
		if (i > 0 && compare_folders(list[i - 1]->unix_path, path) == 0)
			warn(diags, list[i]->where,
			     "listen[].unix: shares its folder with \"%s\", and each sandbox sees "
			     "the other's socket: give each a folder of its own",
			     kh_esc_str(list[i - 1]->unix_path));
		char *copy = kh_slice_dup(folder);
		if (copy)
			inspect_folder(list[i], copy, slash + 1, diags);
		free(copy);
	}
	free(list);
	kh_diagnostics_take_files(diags, config);
	kh_diagnostics_sort(diags);
}
