/*
 * fuzz_config.c - keyhole.yaml and the text of a rule
 *
 * Whatever comes in is refused with a message, or gives a configuration that survives the way to
 * the worker and makes a policy.
 */
#include <stdint.h>
#include <stdlib.h>

#include <keyhole/base/path.h>
#include <keyhole/policy/policy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 64 * 1024, SNAPSHOT_BYTES = 4 * 1024 * 1024 };

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void carry_over(const struct kh_config *config)
{
	struct kh_buf bytes;
	kh_buf_init(&bytes, SNAPSHOT_BYTES);
	require(kh_config_encode(config, &bytes));
	struct kh_config *back = kh_config_decode(kh_buf_view(&bytes), NULL);
	require(back != NULL);
	struct kh_policy *policy = kh_policy_compile(back, NULL);
	require(policy != NULL);
	kh_policy_unref(policy);
	kh_config_free(back);
	kh_buf_fini(&bytes);
}

static void try_yaml(struct kh_slice text)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config =
		kh_config_parse("fuzz", text, NULL, "/nonexistent/presets", &diags);
	require((config == NULL) == (diags.errors > 0));
	for (size_t i = 0; i < diags.count; i++)
		require(diags.list[i].text != NULL);
	if (config)
		carry_over(config);
	kh_config_free(config);
	kh_diagnostics_fini(&diags);
}

static void try_rule(struct kh_slice text)
{
	struct kh_rule rule;
	if (!kh_rule_parse(&rule, text, NULL))
		return;
	require(rule.port != 0 && rule.scheme != KH_SCHEME_NONE &&
		rule.host.match != KH_MATCH_NOTHING);
	if (rule.path) {
		/* A pattern is a path to the matcher, and a path matches itself. */
		require(kh_path_matches(kh_slice_str(rule.path), kh_slice_str(rule.path)));
		struct kh_buf again;
		kh_buf_init(&again, INPUT_BYTES);
		require(kh_path_normalise(kh_slice_str(rule.path), &again, NULL));
		require(kh_slice_eq(kh_buf_view(&again), kh_slice_str(rule.path)));
		kh_buf_fini(&again);
	}
	kh_rule_fini(&rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > INPUT_BYTES)
		return 0;
	try_yaml(kh_slice_of(data, size));
	try_rule(kh_slice_of(data, size));
	return 0;
}
