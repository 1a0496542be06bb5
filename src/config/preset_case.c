/* preset_case.c - the tenants under which a preset's own test cases are decided */
#include <stdio.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

struct kh_tenant_config *kh_preset_case_tenant_add(struct kh_reader *reader)
{
	struct kh_config *config = reader->config;
	char name[32];
	if (config->n_tenants >= UINT16_MAX - 1)
		return kh_reader_no_memory(reader);
	(void)snprintf(name, sizeof(name), config->n_tenants ? "case-%zu" : "default",
		       config->n_tenants);
	struct kh_tenant_config *tenant =
		kh_list_add(&config->tenants, &config->n_tenants, sizeof(*tenant));
	if (tenant)
		tenant->name = kh_slice_dup(kh_slice_str(name));
	return tenant && tenant->name ? tenant : kh_reader_no_memory(reader);
}

int kh_preset_case_tenant(struct kh_reader *reader, const struct kh_yaml_node *node)
{
	const struct kh_yaml_node *with = kh_node_get(node, "with");
	if (!with && reader->config->tenants[0].rules.count > 0)
		return 0;
	if (with && with->kind != KH_NODE_MAP) {
		kh_reader_error(reader, with, "expect[].with: expected a map of parameters, got %s",
				kh_node_what(with));
		return -1;
	}
	const struct kh_tenant_config *tenant = kh_preset_case_tenant_add(reader);
	size_t index = reader->config->n_tenants - 1;
	if (!tenant)
		return -1;
	kh_preset_use(reader, reader->cases, node, with, &reader->config->tenants[index].rules);
	return (int)index;
}
