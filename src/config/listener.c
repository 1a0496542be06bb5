/* listener.c - the entries of `listen`: a Unix socket, a vsock port, or a TCP port with a token */
#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

void kh_config_read_tcp(struct kh_reader *reader, const struct kh_option *option,
			const struct kh_yaml_node *node, void *base)
{
	struct kh_listener_config *listener = base;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_reader_scalar(reader, option, node))
		return;
	if (!kh_sockaddr_parse(&listener->tcp, node->text, 0, &err)) {
		kh_reader_error(reader, node, "%s: %s", option->path, err.text);
		listener->kind = KH_LISTEN_TCP; /* said once is enough */
		return;
	}
	bool v4 = listener->tcp.any.sa_family == AF_INET;
	uint16_t port = v4 ? listener->tcp.v4.sin_port : listener->tcp.v6.sin6_port;
	if (port == 0)
		kh_reader_error(reader, node, "%s: the port is missing", option->path);
	if (!kh_sockaddr_is_loopback(&listener->tcp))
		kh_reader_warn(reader, node,
			       "%s: others than this host can connect there; the token goes over "
			       "the network as it is, and is all that keeps them out",
			       option->path);
}

/* The credential that the token is, made when it is first spoken of. */
static struct kh_credential_config *token(struct kh_reader *reader, const struct kh_yaml_node *node,
					  struct kh_listener_config *listener)
{
	struct kh_config *config = reader->config;
	char name[64];
	if (listener->token >= 0)
		return &config->credentials[listener->token];
	struct kh_credential_config *made =
		kh_list_add(&config->credentials, &config->n_credentials, sizeof(*made));
	if (!made)
		return kh_reader_no_memory(reader);
	made->of_listener = true;
	made->where = kh_reader_where(reader, node);
	/* Blanks: no rule can name it. */
	(void)snprintf(name, sizeof(name), "token of listener %zu", config->n_listeners);
	made->name = kh_slice_dup(kh_slice_str(name));
	if (!made->name || config->n_credentials > UINT16_MAX)
		return kh_reader_no_memory(reader);
	listener->token = (int32_t)(config->n_credentials - 1);
	return made;
}

void kh_config_read_token_env(struct kh_reader *reader, const struct kh_option *option,
			      const struct kh_yaml_node *node, void *base)
{
	struct kh_credential_config *credential = token(reader, node, base);
	if (credential)
		kh_config_read_source_env(reader, option, node, credential);
}

void kh_config_read_token_file(struct kh_reader *reader, const struct kh_option *option,
			       const struct kh_yaml_node *node, void *base)
{
	struct kh_credential_config *credential = token(reader, node, base);
	if (credential)
		kh_config_read_source_file(reader, option, node, credential);
}

/* Return: NULL without memory. */
static char *name_of(const struct kh_listener_config *listener)
{
	char text[KH_SOCKADDR_TEXT_BYTES + 8] = "tcp:";
	switch (listener->kind) {
	case KH_LISTEN_UNIX:
		return kh_slice_dup(kh_slice_str(listener->unix_path));
	case KH_LISTEN_VSOCK:
		(void)snprintf(text, sizeof(text), "vsock:%u", listener->vsock_port);
		break;
	case KH_LISTEN_TCP:
		kh_sockaddr_format(&listener->tcp, text + strlen(text));
		break;
	case KH_LISTEN_KINDS:
		break;
	}
	return kh_slice_dup(kh_slice_str(text));
}

static void settle_kind(struct kh_reader *reader, struct kh_listener_config *listener,
			const struct kh_yaml_node *node)
{
	bool tcp = listener->tcp.len > 0 || listener->kind == KH_LISTEN_TCP;
	bool vsock = listener->vsock_port > 0;
	if ((listener->unix_path != NULL) + vsock + tcp != 1) {
		kh_reader_error(reader, node, "listen[]: expected one of unix, vsock and tcp");
		return;
	}
	listener->kind = tcp ? KH_LISTEN_TCP : vsock ? KH_LISTEN_VSOCK : KH_LISTEN_UNIX;
	if (tcp && listener->token < 0)
		kh_reader_error(reader, node,
				"listen[].token is missing: whoever can connect by TCP has to show "
				"one");
	if (!tcp && listener->token >= 0)
		kh_reader_error(reader, node, "listen[].token: goes with tcp only");
	if (vsock && listener->vsock_cid == 0)
		kh_reader_error(reader, node,
				"listen[].cid is missing: it says which virtual machine may "
				"connect");
	if (!vsock && listener->vsock_cid > 0)
		kh_reader_error(reader, node, "listen[].cid: goes with vsock only");
	if (!listener->unix_path && (listener->mode != 0600 || listener->owner != (uid_t)-1 ||
				     listener->group != (gid_t)-1))
		kh_reader_error(reader, node, "listen[]: mode, owner and group go with unix only");
	listener->name = name_of(listener);
	if (!listener->name)
		(void)kh_reader_no_memory(reader);
}

void *kh_listener_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_config *config = reader->config;
	struct kh_listener_config *listener =
		kh_list_add(&config->listeners, &config->n_listeners, sizeof(*listener));
	if (!listener)
		return kh_reader_no_memory(reader);
	listener->where = kh_reader_where(reader, node);
	listener->owner = (uid_t)-1;
	listener->group = (gid_t)-1;
	listener->tenant = KH_NO_TENANT;
	listener->token = -1;
	reader->narrowing = &listener->narrow;
	return listener;
}

void kh_listener_done(struct kh_reader *reader, void *parent, void *item,
		      const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_listener_config *listener = item;
	reader->narrowing = NULL;
	/* An empty list is one too, and leaves nothing. */
	listener->narrowed = kh_node_get(node, "narrow") != NULL;
	settle_kind(reader, listener, node);
	if (listener->tenant == KH_NO_TENANT) {
		listener->tenant = 0;
		if (reader->config->n_tenants != 1) {
			kh_reader_error(reader, node,
					"listen[].tenant is missing: it says whose rules apply");
			return;
		}
	}
	if (listener->sandbox || listener->tenant >= reader->config->n_tenants)
		return;
	const char *name = reader->config->tenants[listener->tenant].name;
	listener->sandbox = kh_slice_dup(kh_slice_str(name));
	if (!listener->sandbox)
		(void)kh_reader_no_memory(reader);
}

static int compare_names(const void *a, const void *b)
{
	const struct kh_listener_config *x = *(const struct kh_listener_config *const *)a;
	const struct kh_listener_config *y = *(const struct kh_listener_config *const *)b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->where.line > y->where.line) - (x->where.line < y->where.line);
}

/* Those that have a name, ordered by it. Heap; NULL without memory. */
static const struct kh_listener_config **by_name(const struct kh_config *config, size_t *n)
{
	const struct kh_listener_config **list =
		calloc(config->n_listeners + 1, sizeof(struct kh_listener_config *));
	*n = 0;
	for (size_t i = 0; list && i < config->n_listeners; i++)
		if (config->listeners[i].name)
			list[(*n)++] = &config->listeners[i];
	if (list)
		qsort(list, *n, sizeof(struct kh_listener_config *), compare_names);
	return list;
}

size_t *kh_config_match_listeners(const struct kh_config *of, const struct kh_config *among)
{
	size_t n, n_among;
	const struct kh_listener_config **list = by_name(of, &n);
	const struct kh_listener_config **others = by_name(among, &n_among);
	size_t *found = malloc((of->n_listeners + 1) * sizeof(*found));

	for (size_t i = 0; found && i < of->n_listeners; i++)
		found[i] = KH_LISTENER_NONE;
	for (size_t i = 0, j = 0; list && others && found && i < n; i++) {
		while (j < n_among && strcmp(others[j]->name, list[i]->name) < 0)
			j++;
		if (j < n_among && strcmp(others[j]->name, list[i]->name) == 0)
			found[list[i] - of->listeners] = (size_t)(others[j] - among->listeners);
	}
	if (!list || !others) {
		free(found);
		found = NULL;
	}
	free(list);
	free(others);
	return found;
}

/* No two of a port; paths are check.c's. */
void kh_config_check_listeners(struct kh_reader *reader)
{
	size_t n;
	const struct kh_listener_config **list = by_name(reader->config, &n);
	if (!list) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	for (size_t i = 1; i < n; i++)
		if (list[i]->kind != KH_LISTEN_UNIX &&
		    strcmp(list[i - 1]->name, list[i]->name) == 0)
			kh_diagnostics_add(reader->diags, false, list[i]->where,
					   "listen[]: \"%s\" is served by another listener already",
					   kh_esc_str(list[i]->name));
	free(list);
}
