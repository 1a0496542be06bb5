/*
 * agent_profile.h - what a coding agent needs besides a sandbox
 *
 * A profile is a file policies/agents/NAME.yaml. `keyhole run` uses the one that names its command:
 * it says which presets fit, which variables are set, and which files the agent finds in a new
 * home, so that it neither asks what a person has answered by starting keyhole, nor starts a
 * sandbox of its own inside this one.
 */
#ifndef KEYHOLE_CONFIG_AGENT_PROFILE_H
#define KEYHOLE_CONFIG_AGENT_PROFILE_H

#include <keyhole/config/config.h>
#include <keyhole/config/home_template.h>

struct kh_words_of {
	char **list;
	size_t count;
};

/* One of `presets`. */
struct kh_agent_preset {
	char *use;		 /* as after --use */
	struct kh_words_of keys; /* variables; one of them must be set. None: it is always used */
};

struct kh_agent_variable {
	char *name, *value;
};

struct kh_agent_profile {
	char *name;
	char *path; /* of its file */
	char *description;
	struct kh_words_of commands;
	struct kh_agent_preset *presets;
	size_t n_presets;
	struct kh_words_of pass; /* variables of the caller's that it gets as they are, if set */
	struct kh_agent_variable *variables;
	size_t n_variables;
	char *capture_range; /* as after --capture-range, checked by the code that uses it. NULL:
				none */
	struct kh_home_templates files;
	char *guide; /* below the home: a file that it reads at each start. NULL: none */
};

/* From memory; `name` is for messages. `diags` is filled either way. Return: NULL. */
struct kh_agent_profile *kh_agent_profile_parse(const char *name, struct kh_slice yaml,
						struct kh_diagnostics *diags);
/* From policies/agents. Return: NULL, and `diags` says why. */
struct kh_agent_profile *kh_agent_profile_load(const char *name, struct kh_diagnostics *diags);
void kh_agent_profile_free(struct kh_agent_profile *profile);
/* The names of the profiles, sorted, on the heap: each of them, and the list. */
char **kh_agent_profile_names(size_t *n);

#endif
