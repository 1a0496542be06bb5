/*
 * signing.c - placements that do not copy the value: aws_sigv4, mtls, hmac
 *
 * Each is a section whose keys come here one by one; the first makes the placement. As in
 * placement.c, no message shows a value of the section.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/file.h>
#include <keyhole/base/sigv4_host.h>

#include "config_internal.h"

/* The one that an earlier key has made, or a new one. */
static struct kh_placement *placement_of(struct kh_reader *reader, const struct kh_option *option,
					 const struct kh_yaml_node *node,
					 struct kh_credential_config *credential,
					 enum kh_placement_kind kind)
{
	if (credential->placement && credential->placement->kind == kind)
		return credential->placement;
	return kh_placement_begin(reader, option, node, credential, kind);
}

static const char *name_fault(const char *name)
{
	return !name || kh_sigv4_is_name(kh_slice_str(name))
		       ? NULL
		       : "expected lower-case letters, digits and hyphens, as in us-east-1";
}

const char *kh_config_check_sigv4_name(struct kh_slice text)
{
	return name_fault(text.ptr);
}

const char *kh_config_check_hmac_sign(struct kh_slice text)
{
	return kh_hmac_template_fault(text.ptr, false);
}

const char *kh_sigv4_config_fault(const struct kh_sigv4_config *config)
{
	const char *why = name_fault(config->region);
	return why ? why : name_fault(config->service);
}

static struct kh_sigv4_config *sigv4_of(struct kh_reader *reader, const struct kh_option *option,
					const struct kh_yaml_node *node,
					struct kh_credential_config *credential)
{
	struct kh_placement *placement =
		placement_of(reader, option, node, credential, KH_PLACEMENT_SIGV4);
	if (!placement || placement->sigv4)
		return placement ? placement->sigv4 : NULL;
	placement->sigv4 = calloc(1, sizeof(*placement->sigv4));
	return placement->sigv4 ? placement->sigv4 : kh_reader_no_memory(reader);
}

void kh_config_read_sigv4(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, void *base)
{
	kh_value_part(reader, option, node, sigv4_of(reader, option, node, base));
}

/* A host that does not say what it serves needs to be told. */
static void check_sigv4_hosts(struct kh_reader *reader, const struct kh_yaml_node *node,
			      const struct kh_credential_config *credential)
{
	const struct kh_sigv4_config *config = credential->placement->sigv4;
	if (!config || (config->region && config->service))
		return;
	for (size_t i = 0; i < credential->n_hosts; i++) {
		const struct kh_host_pattern *pattern = &credential->hosts[i];
		char host[KH_HOST_MAX_BYTES + 4] = "x.";
		if (pattern->match == KH_MATCH_RANGE || pattern->host.len == 0)
			host[0] = '\0';
		else
			memcpy(host + (pattern->match == KH_MATCH_SUFFIX ? 2 : 0),
			       pattern->host.text, pattern->host.len + 1U);
		if (kh_sigv4_host_is_known(kh_slice_str(host)))
			continue;
		kh_reader_error(reader, node,
				"credentials.*.aws_sigv4: one of `hosts` is none of AWS's, which "
				"say what they serve: give it a region and a service");
		return;
	}
}

static struct kh_mtls_config *mtls_of(struct kh_reader *reader, const struct kh_option *option,
				      const struct kh_yaml_node *node,
				      struct kh_credential_config *credential)
{
	struct kh_placement *placement =
		placement_of(reader, option, node, credential, KH_PLACEMENT_MTLS);
	if (!placement || placement->mtls)
		return placement ? placement->mtls : NULL;
	placement->mtls = calloc(1, sizeof(*placement->mtls));
	return placement->mtls ? placement->mtls : kh_reader_no_memory(reader);
}

void kh_config_read_mtls(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_yaml_node *node, void *base)
{
	struct kh_mtls_config *config = mtls_of(reader, option, node, base);
	if (!config || !kh_reader_scalar(reader, option, node))
		return;
	if (reader->preset) {
		kh_reader_error(reader, node, "%s: a preset knows no file of this host",
				option->path);
		return;
	}
	if (memchr(node->text.ptr, '\0', node->text.len) ||
	    memmem(node->text.ptr, node->text.len, "-----BEGIN", 10)) {
		kh_reader_error(reader, node, "%s: expected the path of a file", option->path);
		return;
	}
	config->certificate = kh_reader_path(reader, option, node);
}

static struct kh_hmac_config *hmac_of(struct kh_reader *reader, const struct kh_option *option,
				      const struct kh_yaml_node *node,
				      struct kh_credential_config *credential)
{
	struct kh_placement *placement =
		placement_of(reader, option, node, credential, KH_PLACEMENT_HMAC);
	if (!placement || placement->hmac)
		return placement ? placement->hmac : NULL;
	placement->hmac = calloc(1, sizeof(*placement->hmac));
	if (!placement->hmac)
		return kh_reader_no_memory(reader);
	placement->hmac->key = KH_HMAC_PLAIN;
	return placement->hmac;
}

static void read_hmac_fields(struct kh_reader *reader, const struct kh_option *option,
			     const struct kh_yaml_node *node, struct kh_hmac_config *config)
{
	if (node->kind != KH_NODE_MAP || node->count == 0) {
		kh_reader_error(reader, node, "%s: expected %s", option->path, option->expects);
		return;
	}
	for (const struct kh_yaml_node *child = node->first; child; child = child->next) {
		const char *why = kh_placement_name_fault(child->key->text);
		if (!why && child->kind != KH_NODE_SCALAR)
			why = "expected a template such as \"{signature}\"";
		if (!why)
			why = kh_hmac_template_fault(child->text.ptr, true);
		if (!why && config->n_fields == KH_HMAC_FIELDS_MOST)
			why = "more than 8 fields";
		for (size_t i = 0; !why && i < config->n_fields; i++)
			if (kh_slice_eq_nocase(kh_slice_str(config->fields[i].name),
					       child->key->text))
				why = "this field is set already";
		if (why) {
			kh_reader_error(reader, child->key, "%s: %s", option->path, why);
			continue;
		}
		struct kh_hmac_field *field =
			kh_list_add(&config->fields, &config->n_fields, sizeof(*field));
		if (!field) {
			(void)kh_reader_no_memory(reader);
			return;
		}
		field->name = kh_slice_dup(child->key->text);
		field->text = kh_slice_dup(child->text);
		if (!field->name || !field->text)
			(void)kh_reader_no_memory(reader);
	}
}

void kh_config_read_hmac(struct kh_reader *reader, const struct kh_option *option,
			 const struct kh_yaml_node *node, void *base)
{
	kh_value_part(reader, option, node, hmac_of(reader, option, node, base));
}

void kh_config_read_hmac_header(struct kh_reader *reader, const struct kh_option *option,
				const struct kh_yaml_node *node, void *base)
{
	struct kh_hmac_config *config = hmac_of(reader, option, node, base);
	if (config)
		read_hmac_fields(reader, option, node, config);
}

/* ---- as a whole ---- */

void kh_signing_config_done(struct kh_reader *reader, const struct kh_yaml_node *node,
			    struct kh_credential_config *credential)
{
	static const struct kh_option sigv4 = { .path = "credentials.*.aws_sigv4.region" };
	const struct kh_yaml_node *section = kh_node_get(node, "aws_sigv4");
	/* `aws_sigv4: {}`: nothing more to say. */
	if (section && section->kind == KH_NODE_MAP && section->count == 0)
		(void)sigv4_of(reader, &sigv4, section, credential);
	static const struct kh_option mtls = { .path = "credentials.*.mtls.certificate" };
	const struct kh_yaml_node *other = kh_node_get(node, "mtls");
	if (other && other->kind == KH_NODE_MAP && other->count == 0)
		(void)mtls_of(reader, &mtls, other, credential);
	const struct kh_yaml_node *hmac = kh_node_get(node, "hmac");
	if (credential->placement && credential->placement->hmac && hmac) {
		const char *why = kh_hmac_config_fault(credential->placement->hmac);
		if (why && (!credential->placement->hmac->sign || kh_node_get(hmac, "header")))
			kh_reader_error(reader, hmac->key, "credentials.*.hmac: %s", why);
		else if (why)
			kh_reader_error(
				reader, hmac->key,
				"credentials.*.hmac.header is missing: where {signature} goes");
	}
	if (credential->placement && credential->placement->kind == KH_PLACEMENT_SIGV4)
		check_sigv4_hosts(reader, section ? section->key : node, credential);
}

const char *kh_signing_config_fault(const struct kh_placement *placement)
{
	if ((placement->kind == KH_PLACEMENT_SIGV4) != (placement->sigv4 != NULL))
		return "a signature, or none, where it is the other way";
	if ((placement->kind == KH_PLACEMENT_MTLS) != (placement->mtls != NULL))
		return "a certificate, or none, where it is the other way";
	if ((placement->kind == KH_PLACEMENT_HMAC) != (placement->hmac != NULL))
		return "an HMAC, or none, where it is the other way";
	for (size_t i = 0; placement->hmac && i < placement->hmac->n_fields; i++)
		if (kh_placement_name_fault(kh_slice_str(placement->hmac->fields[i].name)))
			return "a name that no credential's field has";
	if (placement->hmac && kh_hmac_config_fault(placement->hmac))
		return kh_hmac_config_fault(placement->hmac);
	if (placement->sigv4 && kh_sigv4_config_fault(placement->sigv4))
		return kh_sigv4_config_fault(placement->sigv4);
	return NULL;
}
