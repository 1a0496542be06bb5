/* config_text.h - a configuration out of its text, and the policy that it makes */
#ifndef KEYHOLE_TESTS_CONFIG_TEXT_H
#define KEYHOLE_TESTS_CONFIG_TEXT_H

#include "unit.h"

#include <unistd.h>

#include <keyhole/config/config.h>
#include <keyhole/policy/policy.h>

/* It is sound. Files that it names lie in `folder` (NULL: they are not looked for). */
static inline struct kh_config *config_in(const char *folder, const char *yaml)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config =
		kh_config_parse("test.yaml", kh_slice_str(yaml), folder, "policies", &diags);
	if (!config)
		kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
	kh_diagnostics_fini(&diags);
	assert_non_null(config);
	return config;
}

static inline struct kh_config *config_of(const char *yaml)
{
	return config_in(NULL, yaml);
}

struct fixture {
	struct kh_config *config;
	struct kh_policy *policy;
};

/* Takes the configuration over. */
static inline struct fixture fixture_of(struct kh_config *config)
{
	struct kh_err err = KH_ERR_INIT;
	struct fixture f = { config, kh_policy_compile(config, &err) };
	if (!f.policy)
		fail_msg("%s", err.text);
	return f;
}

static inline struct fixture policy_of(const char *yaml)
{
	return fixture_of(config_of(yaml));
}

static inline void fini(struct fixture *f)
{
	kh_policy_unref(f->policy);
	kh_config_free(f->config);
}

#endif
