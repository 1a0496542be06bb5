/* credential.c - an entry of `credentials`: its name, and that all its parts are there
 *
 * The parts have files of their own: the value (credential_value.c), where it goes (placement.c),
 * and where it may go (binding.c).
 *
 * No message of this file shows a value of the section: people paste keys where names belong.
 */
#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

/* A preset that is used again, with other parameters: its credential may go there as well. */
static void widen(struct kh_reader *reader, struct kh_credential_config *credential,
		  const struct kh_yaml_node *hosts)
{
	static const struct kh_option option = { .path = "credentials.*.hosts" };
	for (const struct kh_yaml_node *one = hosts ? hosts->first : NULL; one; one = one->next)
		kh_binding_add_host(reader, &option, one, credential);
	kh_shared_host_check(reader, credential);
}

void *kh_credential_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_config *config = reader->config;
	struct kh_slice name = node->key->text;
	const char *why = kh_value_check_id(name);
	if (why) {
		kh_reader_error(reader, node->key, "credentials: a name %s", why);
		return NULL;
	}
	if (reader->rules_only)
		return NULL;
	int there = kh_config_credential(config, name);
	if (there >= 0 && reader->preset) {
		/* The file's own goes before the preset's; a preset may be used more than once. */
		const char *preset = config->credentials[there].preset;
		if (preset && strcmp(preset, reader->preset) != 0)
			kh_reader_error(reader, node->key,
					"credential \"%s\" comes from the preset \"%s\" already",
					kh_esc(name), preset);
		else if (preset)
			widen(reader, &config->credentials[there], kh_node_get(node, "hosts"));
		return NULL;
	}
	if (there >= 0)
		return NULL; /* a duplicate key, which was said */
	if (config->n_credentials >= UINT16_MAX) {
		kh_reader_error(reader, node->key, "credentials: more than %d", UINT16_MAX);
		return NULL;
	}
	struct kh_credential_config *credential =
		kh_list_add(&config->credentials, &config->n_credentials, sizeof(*credential));
	if (!credential)
		return kh_reader_no_memory(reader);
	credential->name = kh_slice_dup(name);
	credential->where = kh_reader_where(reader, node->key);
	if (reader->preset)
		credential->preset = kh_slice_dup(kh_slice_str(reader->preset));
	if (!credential->name || (reader->preset && !credential->preset))
		(void)kh_reader_no_memory(reader);
	return credential;
}

void kh_credential_done(struct kh_reader *reader, void *parent, void *item,
			const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_credential_config *credential = item;
	kh_source_done(reader, credential, kh_node_get(node, "value"));
	kh_shared_host_check(reader, credential);
	const struct kh_yaml_node *basic = kh_node_get(node, "basic");
	/* Nothing more to say: its value is user:password. */
	if (!credential->placement && basic && basic->kind == KH_NODE_MAP && basic->count == 0)
		kh_placement_basic(reader, basic, credential);
	kh_signing_config_done(reader, node, credential);
	kh_mint_done(reader, credential, node);
	if (!credential->placement)
		kh_reader_error(reader, node, "credentials.*: where does it go? Expected one of %s",
				kh_placement_options);
	if (credential->placeholder.shape > KH_SHAPE_GENERIC &&
	    (credential->placeholder_prefix || credential->placeholder_alphabet))
		kh_reader_error(reader, node,
				"credentials.*.placeholder: a shape says prefix and alphabet "
				"itself: take one of the two");
	/* What would not be asked for must not be believed to be. */
	if (credential->placeholder.required && credential->placement &&
	    !kh_placement_shows_placeholder(credential->placement))
		kh_reader_error(reader, node,
				"credentials.*.require_placeholder: a credential in the content, "
				"hmac and mtls are not asked for a placeholder: leave it out, or "
				"place the credential in a field, a cookie or the query");
	/* Clients look for it where its source is, unless something else is said. */
	const struct kh_source *source = credential->sources;
	if (!credential->env_name && source && !source->tenant && !credential->mint &&
	    source->kind == KH_SOURCE_ENV) {
		credential->env_name = kh_slice_dup(kh_slice_str(source->name));
		if (!credential->env_name)
			(void)kh_reader_no_memory(reader);
	}
}
