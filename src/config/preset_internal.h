/* preset_internal.h - presets while a configuration is read: their parameters, uses and cases */
#ifndef KEYHOLE_CONFIG_PRESET_INTERNAL_H
#define KEYHOLE_CONFIG_PRESET_INTERNAL_H

#include "config_internal.h"

/* parameter.c: what a use of a preset may say. All but the first are lists, and the type is that of
 * each value. */
enum kh_parameter_type {
	KH_PARAMETER_BOOLEAN = 0,
	KH_PARAMETER_LABEL,
	KH_PARAMETER_HOST,
	KH_PARAMETER_SEGMENT,
	KH_PARAMETER_REPO,
	KH_PARAMETER_PROJECT,
	KH_PARAMETER_WORD,
};
extern const char *const kh_parameter_types[];

/* Its nodes belong to the tree of the preset. */
struct kh_parameter {
	char *name;
	unsigned type;			     /* enum kh_parameter_type */
	const struct kh_yaml_node *values;   /* of a word: those that there are */
	const struct kh_yaml_node *fallback; /* NULL: a use must say it */
	char *doc;
};

struct kh_parameters {
	struct kh_parameter *list;
	size_t count;
};

void *kh_parameter_add(struct kh_reader *, void *parent, const struct kh_yaml_node *);
void kh_parameter_done(struct kh_reader *, void *parent, void *item, const struct kh_yaml_node *);
void kh_parameters_fini(struct kh_parameters *all);
const struct kh_parameter *kh_parameter_find(const struct kh_parameters *all, struct kh_slice name);
/* kh_nearest_hint over their names. */
const char *kh_parameter_hint(const struct kh_parameters *all, struct kh_slice name,
			      char hint[KH_NEAREST_BYTES]);
/* Is it a value of its kind, or a list of them? `what` is in front of the name in messages. */
bool kh_parameter_check(struct kh_reader *reader, const struct kh_parameter *parameter,
			const char *what, const struct kh_yaml_node *node);
/* What each parameter is in one use: a checked value or list, or the default. `arguments` (a map)
 * may be NULL. Return: false when something is wrong, which was said. */
bool kh_parameters_bind(struct kh_reader *reader, const char *preset,
			const struct kh_parameters *all, const struct kh_yaml_node *at,
			const struct kh_yaml_node *arguments, const struct kh_yaml_node **values);

/* expand.c: the tree of a preset with those values in it, in the memory of `tree`. */
const struct kh_yaml_node *kh_expand(struct kh_reader *reader, const struct kh_yaml_node *root,
				     const struct kh_parameters *parameters,
				     const struct kh_yaml_node *const *values,
				     struct kh_yaml_tree *tree);

/* preset.c */
struct kh_preset {
	char *name;
	uint32_t file;
	bool sound; /* its YAML and parameters are */
	struct kh_yaml_tree tree;
	struct kh_parameters parameters;
};

struct kh_preset_draft {
	char *description;
	size_t n_sources;
	struct kh_parameters parameters;
	struct kh_rules rules;
};
/* Reads policies/<name>.yaml: its credentials into the configuration, its rules to the
 * end of `rules`. `at` is where it was asked for, `arguments` (a map or NULL) its parameters. */
void kh_preset_splice(struct kh_reader *reader, struct kh_slice name, const struct kh_yaml_node *at,
		      const struct kh_yaml_node *arguments, struct kh_rules *rules);
/* use_text.c: a preset as it is written on a command line. The views are of `text` or of the
 * tree's, which is the caller's. Return: false when it is none, which was said. */
struct kh_use_text {
	struct kh_slice name;
	const struct kh_yaml_node *arguments; /* a map, or NULL */
};
bool kh_use_text_read(struct kh_reader *reader, const char *text, struct kh_yaml_tree *tree,
		      struct kh_use_text *out);
/* The same with one that is read already. */
void kh_preset_use(struct kh_reader *reader, const struct kh_preset *preset,
		   const struct kh_yaml_node *at, const struct kh_yaml_node *arguments,
		   struct kh_rules *rules);
/* The reader keeps what it has read; NULL when there is no such preset, which was said. */
const struct kh_preset *kh_preset_find(struct kh_reader *reader, struct kh_slice name,
				       const struct kh_yaml_node *at);
/* From memory. Return: NULL without memory. */
struct kh_preset *kh_preset_read(struct kh_reader *reader, const char *name, uint32_t file,
				 struct kh_slice yaml);
void kh_presets_fini(struct kh_reader *reader);
kh_option_reader kh_config_read_sources;
/* For keys that were looked at before. */
kh_option_reader kh_config_read_nothing;
/* preset_case.c: one more tenant, NULL without memory; the tenant of one case of a preset, -1 when
 * it can't be made. */
struct kh_tenant_config *kh_preset_case_tenant_add(struct kh_reader *reader);
int kh_preset_case_tenant(struct kh_reader *reader, const struct kh_yaml_node *node);

#endif
