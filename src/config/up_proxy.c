/* up_proxy.c - the `upstream.proxy` section: a proxy towards upstreams, and its password
 *
 * The password is one more credential of the configuration, so that the keeper reads it and the
 * worker asks for it as for any other. But no rule can name it, and its only host is the proxy's.
 * No message of this file shows a value of the section: people paste passwords where URLs belong.
 */
#include <stdlib.h>

#include "config_internal.h"

enum { USERNAME_BYTES = 255 };

static const char password_name[] = "upstream.proxy";

struct kh_host_pattern kh_host_pattern_of(const struct kh_host *host)
{
	struct kh_host_pattern made = { 0 };
	if (host->kind == KH_HOST_NAME) {
		made.match = KH_MATCH_EXACT;
		made.host = *host;
	} else if (host->kind != KH_HOST_NONE) {
		bool v4 = host->kind == KH_HOST_IPV4;
		made.match = KH_MATCH_RANGE;
		made.range.family = v4 ? 4 : 6;
		made.range.prefix_bits = v4 ? 32 : 128;
		memcpy(made.range.addr, host->addr, v4 ? 4 : 16);
	}
	return made;
}

void kh_config_read_proxy_url(struct kh_reader *reader, const struct kh_option *option,
			      const struct kh_yaml_node *node, void *base)
{
	(void)base;
	struct kh_proxy_config *proxy = &reader->config->proxy;
	if (!kh_reader_scalar(reader, option, node))
		return;
	struct kh_slice rest = node->text;
	const char *why = NULL;
	if (kh_slice_has_prefix(rest, KH_SLICE("https://")))
		why = " (TLS with the proxy itself is not spoken; what goes through it has its "
		      "own)";
	else if (kh_slice_find(rest, '@', 0) < rest.len)
		why = " (name and password have keys of their own: username and password)";
	else if (!kh_slice_has_prefix(rest, KH_SLICE("http://")))
		why = "";
	rest = kh_slice_sub(rest, strlen("http://"), rest.len);
	if (rest.len > 0 && rest.ptr[rest.len - 1] == '/')
		rest.len--;
	struct kh_host host;
	uint16_t port;
	if (!why && !kh_host_port_parse(&host, &port, rest, 0))
		why = " (the port has to be there, and nothing after it)";
	if (why) {
		kh_reader_error(reader, node, "%s: expected %s%s", option->path, option->expects,
				why);
		return;
	}
	proxy->host = host;
	proxy->port = port;
	proxy->where = kh_reader_where(reader, node);
}

/* RFC 7617 §2: no colon, which would end it, and no control byte. */
const char *kh_value_check_username(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f || text.ptr[i] == ':')
			return "must have no colon and no control character";
	return text.len > 0 && text.len <= USERNAME_BYTES ? NULL : "must have 1 to 255 bytes";
}

/* The credential that the password is, made when it is first spoken of. */
static struct kh_credential_config *password(struct kh_reader *reader,
					     const struct kh_yaml_node *node)
{
	struct kh_config *config = reader->config;
	int there = kh_config_proxy_password(config);
	if (there >= 0)
		return &config->credentials[there];
	struct kh_credential_config *made =
		kh_list_add(&config->credentials, &config->n_credentials, sizeof(*made));
	if (!made)
		return kh_reader_no_memory(reader);
	made->of_proxy = true;
	made->where = kh_reader_where(reader, node);
	made->name = kh_slice_dup(kh_slice_str(password_name));
	made->hosts = calloc(1, sizeof(*made->hosts));
	if (!made->name || !made->hosts)
		return kh_reader_no_memory(reader);
	made->hosts[made->n_hosts++] = kh_host_pattern_of(&config->proxy.host);
	return made;
}

void kh_config_read_proxy_password_env(struct kh_reader *reader, const struct kh_option *option,
				       const struct kh_yaml_node *node, void *base)
{
	(void)base;
	struct kh_credential_config *credential = password(reader, node);
	if (credential)
		kh_config_read_source_env(reader, option, node, credential);
}

void kh_config_read_proxy_password_file(struct kh_reader *reader, const struct kh_option *option,
					const struct kh_yaml_node *node, void *base)
{
	(void)base;
	struct kh_credential_config *credential = password(reader, node);
	if (credential)
		kh_config_read_source_file(reader, option, node, credential);
}

void kh_config_read_no_proxy(struct kh_reader *reader, const struct kh_option *option,
			     const struct kh_yaml_node *node, void *base)
{
	(void)base;
	struct kh_proxy_config *proxy = &reader->config->proxy;
	if (node->kind != KH_NODE_LIST) {
		kh_reader_error(reader, node, "%s: expected %s, got %s", option->path,
				option->expects, kh_node_what(node));
		return;
	}
	for (const struct kh_yaml_node *item = node->first; item; item = item->next) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_host_pattern pattern;
		if (!kh_reader_scalar(reader, option, item))
			continue;
		if (!kh_host_pattern_parse(&pattern, item->text, &err)) {
			kh_reader_error(reader, item, "%s: %s", option->path, err.text);
			continue;
		}
		struct kh_host_pattern *slot =
			kh_list_add(&proxy->no_proxy, &proxy->n_no_proxy, sizeof(*slot));
		if (slot)
			*slot = pattern;
		else
			(void)kh_reader_no_memory(reader);
	}
}

void kh_config_check_proxy(struct kh_reader *reader)
{
	const struct kh_config *config = reader->config;
	const struct kh_proxy_config *proxy = &config->proxy;
	int index = kh_config_proxy_password(config);
	bool has_source = index >= 0 && config->credentials[index].n_sources > 0;
	if (proxy->host.kind != KH_HOST_NONE && !proxy->username != !has_source)
		kh_diagnostics_add(reader->diags, false, proxy->where,
				   "upstream.proxy: username and password belong together, and %s "
				   "is missing",
				   proxy->username ? "password" : "username");
}
