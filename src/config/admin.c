/* admin.c - `admin`: the admin socket, the metrics port, and who may use them */
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "config_internal.h"

enum { SOCKET_PATH_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };
#define NO_USER ((uid_t)-1)

void kh_config_read_admin_metrics(struct kh_reader *reader, const struct kh_option *option,
				  const struct kh_yaml_node *node, void *base)
{
	(void)base;
	struct kh_sockaddr *at = &reader->config->admin.metrics;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_reader_scalar(reader, option, node))
		return;
	if (!kh_sockaddr_parse(at, node->text, 0, &err)) {
		kh_reader_error(reader, node, "%s: %s", option->path, err.text);
		return;
	}
	if (!kh_sockaddr_is_loopback(at))
		kh_reader_warn(reader, node,
			       "%s: others than this host can connect there, and read the tenants' "
			       "names and how much they do",
			       option->path);
}

void *kh_admin_grant_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_admin_config *admin = &reader->config->admin;
	struct kh_admin_grant *grant =
		kh_list_add(&admin->grants, &admin->n_grants, sizeof(*grant));
	if (!grant)
		return kh_reader_no_memory(reader);
	grant->where = kh_reader_where(reader, node);
	grant->uid = NO_USER;
	return grant;
}

void kh_admin_grant_done(struct kh_reader *reader, void *parent, void *item,
			 const struct kh_yaml_node *node)
{
	(void)parent;
	const struct kh_admin_grant *grant = item;
	const struct kh_admin_config *admin = &reader->config->admin;
	for (size_t i = 0; i + 1 < admin->n_grants && grant->uid != NO_USER; i++)
		if (admin->grants[i].uid == grant->uid)
			kh_reader_error(reader, node, "admin.allow[]: user %u is there already",
					(unsigned)grant->uid);
}

void kh_config_read_admin_user(struct kh_reader *reader, const struct kh_option *option,
			       const struct kh_yaml_node *node, void *base)
{
	struct kh_admin_grant *grant = base;
	kh_config_user_by_name(reader, option, node, &grant->uid);
}

static void add_tenant(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, struct kh_admin_grant *grant)
{
	uint16_t index = 0;
	kh_config_tenant_by_name(reader, option, node, &index);
	uint16_t *slot = kh_list_add(&grant->tenants, &grant->n_tenants, sizeof(*slot));
	if (slot)
		*slot = index;
	else
		(void)kh_reader_no_memory(reader);
}

void kh_config_read_admin_tenants(struct kh_reader *reader, const struct kh_option *option,
				  const struct kh_yaml_node *node, void *base)
{
	if (node->kind == KH_NODE_SCALAR && !kh_node_is_empty(node)) {
		add_tenant(reader, option, node, base);
		return;
	}
	if (!kh_reader_wants(reader, option, node, KH_NODE_LIST))
		return;
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		add_tenant(reader, option, child, base);
}

static struct kh_listener_config *add_acceptor(struct kh_reader *reader, enum kh_listener_kind kind,
					       const char *name)
{
	struct kh_admin_config *admin = &reader->config->admin;
	struct kh_listener_config *acceptor = &admin->acceptors[admin->n_acceptors++];
	*acceptor = (struct kh_listener_config){ .kind = kind,
						 .token = -1,
						 .owner = (uid_t)-1,
						 .group = (gid_t)-1,
						 .mode = 0600,
						 .where = admin->where };
	acceptor->name = kh_slice_dup(kh_slice_str(name));
	if (!acceptor->name)
		(void)kh_reader_no_memory(reader);
	return acceptor;
}

/* "/run/keyhole/acme" sees what is in it and below. */
static bool is_within(const char *path, const char *folder, size_t len)
{
	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static void check_unseen(struct kh_reader *reader, const char *option, const char *path)
{
	const struct kh_config *config = reader->config;
	for (size_t i = 0; i < config->n_listeners; i++) {
		const char *socket = config->listeners[i].unix_path;
		const char *slash = socket ? strrchr(socket, '/') : NULL;
		size_t len = slash ? (size_t)(slash - socket) : 0;
		bool same = slash && strncmp(path, socket, len) == 0 && path[len] == '\0';
		if (!slash || !(same || is_within(path, socket, len)))
			continue;
		kh_diagnostics_add(reader->diags, false, config->admin.where,
				   "%s: \"%s\" is where the sandbox of \"%s\" sees it: give it a "
				   "folder that no listener has",
				   option, kh_esc_str(path), kh_esc_str(socket));
		return;
	}
}

static void check_path(struct kh_reader *reader)
{
	const struct kh_config *config = reader->config;
	const char *path = config->admin.unix_path;
	if (strlen(path) > SOCKET_PATH_BYTES)
		kh_diagnostics_add(
			reader->diags, false, config->admin.where,
			"admin.unix: %zu bytes are too long for a Unix socket's path (%d "
			"at most)",
			strlen(path), (int)SOCKET_PATH_BYTES);
	check_unseen(reader, "admin.unix", path);
}

/* Beside the socket unless it is said. */
static void settle_sandboxes(struct kh_reader *reader)
{
	struct kh_admin_config *admin = &reader->config->admin;
	const char *slash = strrchr(admin->unix_path, '/');
	if (admin->sandboxes || !slash)
		return;
	kh_auto_free char *folder =
		kh_slice_dup(kh_slice_of(admin->unix_path, (size_t)(slash - admin->unix_path)));
	admin->sandboxes = folder ? kh_path_join(folder[0] ? folder : "/", "sandboxes") : NULL;
	if (!admin->sandboxes)
		(void)kh_reader_no_memory(reader);
}

void kh_config_check_admin(struct kh_reader *reader)
{
	struct kh_admin_config *admin = &reader->config->admin;
	char name[KH_SOCKADDR_TEXT_BYTES + 8] = "tcp:";
	if (admin->n_grants > 0 && !admin->unix_path)
		kh_diagnostics_add(reader->diags, false, admin->grants[0].where,
				   "admin.allow: goes with admin.unix only");
	if (admin->unix_path) {
		struct kh_listener_config *acceptor =
			add_acceptor(reader, KH_LISTEN_UNIX, admin->unix_path);
		acceptor->unix_path = kh_slice_dup(kh_slice_str(admin->unix_path));
		/* Who connects is told by the kernel, and is held against the list. */
		acceptor->mode = admin->n_grants > 0 ? 0666 : 0600;
		if (!acceptor->unix_path)
			(void)kh_reader_no_memory(reader);
		check_path(reader);
		settle_sandboxes(reader);
		if (admin->sandboxes)
			check_unseen(reader, "admin.sandboxes", admin->sandboxes);
	} else if (admin->sandboxes) {
		kh_diagnostics_add(reader->diags, false, admin->where,
				   "admin.sandboxes: goes with admin.unix only");
	}
	if (admin->metrics.len == 0)
		return;
	kh_sockaddr_format(&admin->metrics, name + strlen(name));
	add_acceptor(reader, KH_LISTEN_TCP, name)->tcp = admin->metrics;
	for (size_t i = 0; i < reader->config->n_listeners; i++)
		if (reader->config->listeners[i].name &&
		    strcmp(reader->config->listeners[i].name, name) == 0)
			kh_diagnostics_add(reader->diags, false, admin->where,
					   "admin.metrics: \"%s\" is a listener's", name + 4);
}

void kh_config_read_admin_places(struct kh_reader *reader, const struct kh_yaml_node *admin)
{
	static const char *const rows[] = { "admin.unix", "admin.sandboxes" };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct kh_yaml_node *node = kh_node_get(admin, rows[i] + strlen("admin."));
		if (node)
			kh_walk_option(reader, rows[i], KH_IN_FILE, node, reader->config);
	}
	if (reader->config->admin.unix_path)
		settle_sandboxes(reader);
}

const struct kh_listener_config *kh_config_acceptor(const struct kh_config *config, size_t index)
{
	return index < config->n_listeners ? &config->listeners[index]
					   : &config->admin.acceptors[index - config->n_listeners];
}

size_t kh_config_acceptors(const struct kh_config *config)
{
	return config->n_listeners + config->admin.n_acceptors;
}

bool kh_admin_may_see(const struct kh_admin_config *admin, uid_t uid, uint16_t tenant)
{
	for (size_t i = 0; i < admin->n_grants; i++)
		for (size_t j = 0; admin->grants[i].uid == uid && j < admin->grants[i].n_tenants;
		     j++)
			if (admin->grants[i].tenants[j] == tenant)
				return true;
	return false;
}
