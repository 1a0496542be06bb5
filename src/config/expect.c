/* expect.c - `expect`: requests, and what the rules must decide about them */
#include <stdlib.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

void *kh_expectation_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_config *config = reader->config;
	int tenant = reader->cases ? kh_preset_case_tenant(reader, node) : KH_NO_TENANT;
	if (tenant < 0 || (reader->preset && !reader->cases))
		return NULL; /* where a preset is used, its own cases are nobody's */
	struct kh_expectation *one =
		kh_list_add(&config->expectations, &config->n_expectations, sizeof(*one));
	if (!one)
		return kh_reader_no_memory(reader);
	one->where = kh_reader_where(reader, node);
	one->tenant = (uint16_t)tenant;
	one->listener = -1;
	return one;
}

/* It is said with the cases that do not hold, since it is no reason not to try the others. */
static void add_fault(struct kh_reader *reader, struct kh_expectation *one,
		      const struct kh_yaml_node *node, char *text)
{
	if (!text)
		(void)kh_reader_no_memory(reader);
	if (one->fault) { /* said once is enough */
		free(text);
		return;
	}
	one->fault = text;
	one->fault_where = kh_reader_where(reader, node);
}

void kh_config_read_expected_tenant(struct kh_reader *reader, const struct kh_option *option,
				    const struct kh_yaml_node *node, void *base)
{
	struct kh_expectation *one = base;
	const struct kh_config *config = reader->config;
	if (node->kind != KH_NODE_SCALAR ||
	    kh_config_tenant(config, node->text.ptr) != KH_NAME_NONE) {
		kh_config_tenant_by_name(reader, option, node, &one->tenant);
		return;
	}
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, node->text);
	for (size_t i = 0; i < config->n_tenants; i++)
		kh_nearest_offer(&nearest, config->tenants[i].name);
	char hint[KH_NEAREST_BYTES];
	add_fault(reader, one, node,
		  kh_strf("%s: no tenant is called \"%s\"%s", option->path, kh_esc(node->text),
			  kh_nearest_hint(&nearest, hint)));
}

void kh_config_read_expected_sandbox(struct kh_reader *reader, const struct kh_option *option,
				     const struct kh_yaml_node *node, void *base)
{
	struct kh_expectation *one = base;
	const struct kh_config *config = reader->config;
	if (!kh_reader_scalar(reader, option, node))
		return;
	one->listener = kh_config_sandbox(config, node->text.ptr);
	if (one->listener >= 0)
		return;
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, node->text);
	for (size_t i = 0; i < config->n_listeners; i++)
		if (config->listeners[i].sandbox)
			kh_nearest_offer(&nearest, config->listeners[i].sandbox);
	char hint[KH_NEAREST_BYTES];
	bool several = one->listener == KH_SANDBOX_SEVERAL;
	add_fault(reader, one, node,
		  kh_strf("%s: %s called \"%s\"%s", option->path,
			  several ? "more than one listener's sandbox is"
				  : "no listener's sandbox is",
			  kh_esc(node->text), several ? "" : kh_nearest_hint(&nearest, hint)));
	one->listener = -1;
}

void kh_config_read_expected_model(struct kh_reader *reader, const struct kh_option *option,
				   const struct kh_yaml_node *node, void *base)
{
	struct kh_expectation *one = base;
	if (!kh_reader_scalar(reader, option, node))
		return;
	one->model = kh_slice_dup(node->text);
	if (!one->model)
		kh_reader_error(reader, node, "%s: contains a NUL", option->path);
}

void kh_config_read_expected(struct kh_reader *reader, const struct kh_option *option,
			     const struct kh_yaml_node *node, void *base)
{
	struct kh_expectation *one = base;
	if (!kh_reader_scalar(reader, option, node))
		return;
	if (one->text) {
		kh_reader_error(reader, node, "expect[]: expected one of allow and deny");
		return;
	}
	one->allow = kh_slice_eq(node->key->text, KH_SLICE("allow"));
	one->where = kh_reader_where(reader, node);
	one->text = kh_slice_dup(node->text);
	if (!one->text)
		kh_reader_error(reader, node, "%s: contains a NUL", option->path);
}

void kh_config_read_expected_fields(struct kh_reader *reader, const struct kh_option *option,
				    const struct kh_yaml_node *node, void *base)
{
	struct kh_expectation *one = base;
	if (node->kind != KH_NODE_MAP || node->count > KH_LIMIT_FIELDS) {
		kh_reader_error(reader, node, "%s: expected %s, got %s", option->path,
				option->expects, kh_node_what(node));
		return;
	}
	for (const struct kh_yaml_node *child = node->first; child; child = child->next) {
		struct kh_condition *field =
			kh_list_add(&one->fields, &one->n_fields, sizeof(*field));
		char **value =
			field ? kh_list_add(&field->patterns, &field->n_patterns, sizeof(*value))
			      : NULL;
		if (!value) {
			(void)kh_reader_no_memory(reader);
			return;
		}
		field->kind = KH_CONDITION_HEADER;
		field->name = kh_slice_dup(child->key->text);
		if (child->kind == KH_NODE_SCALAR)
			*value = kh_slice_dup(child->text);
		if (!field->name || !*value)
			kh_reader_error(reader, child, "%s: expected %s", option->path,
					option->expects);
	}
}

void kh_expectation_done(struct kh_reader *reader, void *parent, void *item,
			 const struct kh_yaml_node *node)
{
	(void)parent;
	struct kh_expectation *one = item;
	if (!one->text)
		kh_reader_error(reader, node, "expect[]: expected one of allow and deny");
	if (one->fault) {
		one->tenant = 0;
		one->listener = -1;
		return;
	}
	if (one->listener >= 0) {
		uint16_t tenant = reader->config->listeners[one->listener].tenant;
		if (one->tenant != KH_NO_TENANT && one->tenant != tenant)
			add_fault(reader, one, node,
				  kh_strf("expect[].sandbox: belongs to another tenant than this"));
		one->tenant = tenant;
	}
	if (one->tenant != KH_NO_TENANT)
		return;
	one->tenant = 0;
	if (reader->config->n_tenants > 1)
		add_fault(reader, one, node,
			  kh_strf("expect[].tenant: which one? there are several tenants"));
}
