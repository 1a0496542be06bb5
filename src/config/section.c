/* section.c - readers for options of listeners, tenants and `upstream` that need one of their own
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

void kh_config_read_version(struct kh_reader *reader, const struct kh_option *option,
			    const struct kh_yaml_node *node, void *base)
{
	(void)base;
	if (kh_reader_scalar(reader, option, node) && !kh_slice_eq(node->text, KH_SLICE("1")))
		kh_reader_error(reader, node,
				"version: this keyhole reads version 1 of the format, not \"%s\"",
				kh_esc(node->text));
}

bool kh_value_mode(struct kh_slice text, mode_t *out)
{
	mode_t mode = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '7')
			return false;
		mode = mode * 8 + (mode_t)(text.ptr[i] - '0');
	}
	*out = mode;
	return text.len >= 3 && text.len <= 4 && mode <= 0777;
}

void kh_config_read_mode(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_yaml_node *node, void *base)
{
	struct kh_listener_config *listener = base;
	mode_t mode;
	if (!kh_reader_scalar(reader, option, node))
		return;
	if (!kh_value_mode(node->text, &mode)) {
		kh_reader_error(reader, node, "%s: expected %s, got \"%s\"", option->path,
				option->expects, kh_esc(node->text));
		return;
	}
	listener->mode = mode;
	if (mode & S_IRWXO)
		kh_reader_warn(reader, node,
			       "%s: everybody on this host may use the socket, and with it the "
			       "tenant's credentials",
			       option->path);
}

void kh_config_user_by_name(struct kh_reader *reader, const struct kh_option *option,
			    const struct kh_yaml_node *node, uid_t *out)
{
	uint64_t number;
	if (!kh_reader_scalar(reader, option, node))
		return;
	/* cppcheck-suppress getpwnamCalled ; before any thread is started */
	const struct passwd *user = getpwnam(node->text.ptr);
	if (user)
		*out = user->pw_uid;
	else if (kh_slice_to_u64(node->text, &number) && number < UINT32_MAX)
		*out = (uid_t)number;
	else
		kh_reader_error(reader, node, "%s: no user is called \"%s\"", option->path,
				kh_esc(node->text));
}

void kh_config_read_owner(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, void *base)
{
	struct kh_listener_config *listener = base;
	kh_config_user_by_name(reader, option, node, &listener->owner);
}

void kh_config_read_group(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, void *base)
{
	struct kh_listener_config *listener = base;
	uint64_t number;
	if (!kh_reader_scalar(reader, option, node))
		return;
	/* cppcheck-suppress getgrnamCalled ; before any thread is started */
	const struct group *group = getgrnam(node->text.ptr);
	if (group)
		listener->group = group->gr_gid;
	else if (kh_slice_to_u64(node->text, &number) && number < UINT32_MAX)
		listener->group = (gid_t)number;
	else
		kh_reader_error(reader, node, "%s: no group is called \"%s\"", option->path,
				kh_esc(node->text));
}

void kh_config_tenant_by_name(struct kh_reader *reader, const struct kh_option *option,
			      const struct kh_yaml_node *node, uint16_t *out)
{
	if (!kh_reader_scalar(reader, option, node))
		return;
	int index = kh_config_tenant(reader->config, node->text.ptr);
	if (index >= 0) {
		*out = (uint16_t)index;
		return;
	}
	*out = 0;
	if (index == KH_NAME_SEVERAL)
		return; /* a duplicate key, which was said */
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, node->text);
	for (size_t i = 0; i < reader->config->n_tenants; i++)
		kh_nearest_offer(&nearest, reader->config->tenants[i].name);
	char hint[KH_NEAREST_BYTES];
	kh_reader_error(reader, node, "%s: no tenant is called \"%s\"%s", option->path,
			kh_esc(node->text), kh_nearest_hint(&nearest, hint));
}

void kh_config_read_tenant(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_yaml_node *node, void *base)
{
	struct kh_listener_config *listener = base;
	kh_config_tenant_by_name(reader, option, node, &listener->tenant);
}

void *kh_config_tenant_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_config *config = reader->config;
	const char *why = kh_value_check_id(node->key->text);
	if (why || config->n_tenants >= KH_NO_TENANT) {
		kh_reader_error(reader, node->key, "tenants: \"%s\" %s", kh_esc(node->key->text),
				why ? why : "is one too many");
		return NULL;
	}
	char *name = kh_slice_dup(node->key->text);
	struct kh_tenant_config *tenant =
		name ? kh_list_add(&config->tenants, &config->n_tenants, sizeof(*tenant)) : NULL;
	if (!tenant) {
		free(name);
		return kh_reader_no_memory(reader);
	}
	tenant->name = name;
	tenant->where = kh_reader_where(reader, node->key);
	return tenant;
}

static void add_pin(struct kh_reader *reader, const struct kh_option *option,
		    const struct kh_yaml_node *node, uint16_t tenant)
{
	struct kh_config *config = reader->config;
	struct kh_err err = KH_ERR_INIT;
	struct kh_pin pin = { .tenant = tenant, .where = kh_reader_where(reader, node->key) };
	if (!kh_host_parse(&pin.host, node->key->text, &err)) {
		kh_reader_error(reader, node->key, "%s: %s", option->path, err.text);
		return;
	}
	for (size_t i = 0; i < config->n_pins; i++)
		if (config->pins[i].tenant == tenant &&
		    kh_host_eq(&config->pins[i].host, &pin.host)) {
			kh_reader_error(reader, node->key, "%s: \"%s\" is there already",
					option->path, pin.host.text);
			return;
		}
	if (node->kind != KH_NODE_SCALAR || kh_node_is_empty(node)) {
		kh_reader_error(reader, node,
				"%s: expected an address such as \"127.0.0.1:8443\", got %s",
				option->path, kh_node_what(node));
		return;
	}
	if (!kh_sockaddr_parse(&pin.addr, node->text, 0, &err)) {
		kh_reader_error(reader, node, "%s: %s", option->path, err.text);
		return;
	}
	struct kh_pin *slot = kh_list_add(&config->pins, &config->n_pins, sizeof(*slot));
	if (slot)
		*slot = pin;
	else
		(void)kh_reader_no_memory(reader);
}

static void add_pins(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, uint16_t tenant)
{
	if (node->kind != KH_NODE_MAP) {
		kh_reader_error(reader, node, "%s: expected %s, got %s", option->path,
				option->expects, kh_node_what(node));
		return;
	}
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		add_pin(reader, option, child, tenant);
}

void kh_config_read_pins(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_yaml_node *node, void *base)
{
	(void)base;
	add_pins(reader, option, node, KH_NO_TENANT);
}

void kh_config_read_tenant_pins(struct kh_reader *reader, const struct kh_option *option,
				const struct kh_yaml_node *node, void *base)
{
	const struct kh_tenant_config *tenant = base;
	add_pins(reader, option, node, (uint16_t)(tenant - reader->config->tenants));
}

/* The items of a list of scalars, one by one. Return: NULL at the end, and where there is no list
 * (which is said). */
static const struct kh_yaml_node *next_item(struct kh_reader *reader,
					    const struct kh_option *option,
					    const struct kh_yaml_node *list,
					    const struct kh_yaml_node *item)
{
	if (list->kind != KH_NODE_LIST) {
		kh_reader_error(reader, list, "%s: expected %s, got %s", option->path,
				option->expects, kh_node_what(list));
		return NULL;
	}
	item = item ? item->next : list->first;
	while (item && !kh_reader_scalar(reader, option, item))
		item = item->next;
	return item;
}

static void read_ranges(struct kh_reader *reader, const struct kh_option *option,
			const struct kh_yaml_node *node, struct kh_cidr **list, size_t *count)
{
	const struct kh_yaml_node *item = NULL;
	while ((item = next_item(reader, option, node, item))) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_cidr range;
		if (!kh_cidr_parse(&range, item->text, &err)) {
			kh_reader_error(reader, item, "%s: %s", option->path, err.text);
			continue;
		}
		if (range.prefix_bits == 0)
			kh_reader_warn(reader, item,
				       "%s: this opens every address, those of this host and of "
				       "the cloud's metadata too",
				       option->path);
		struct kh_cidr *slot = kh_list_add(list, count, sizeof(*slot));
		if (slot)
			*slot = range;
		else
			(void)kh_reader_no_memory(reader);
	}
}

void kh_config_read_ranges(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_yaml_node *node, void *base)
{
	(void)base;
	struct kh_config *config = reader->config;
	read_ranges(reader, option, node, &config->allow_addresses, &config->n_allow_addresses);
}

void kh_config_read_tenant_ranges(struct kh_reader *reader, const struct kh_option *option,
				  const struct kh_yaml_node *node, void *base)
{
	struct kh_tenant_config *tenant = base;
	read_ranges(reader, option, node, &tenant->allow_addresses, &tenant->n_allow_addresses);
}

void kh_config_read_servers(struct kh_reader *reader, const struct kh_option *option,
			    const struct kh_yaml_node *node, void *base)
{
	(void)base;
	struct kh_config *config = reader->config;
	const struct kh_yaml_node *item = NULL;
	while ((item = next_item(reader, option, node, item))) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_sockaddr server;
		if (!kh_sockaddr_parse(&server, item->text, 53, &err)) {
			kh_reader_error(reader, item, "%s: %s", option->path, err.text);
			continue;
		}
		struct kh_sockaddr *slot =
			kh_list_add(&config->nameservers, &config->n_nameservers, sizeof(*slot));
		if (slot)
			*slot = server;
		else
			(void)kh_reader_no_memory(reader);
	}
}
