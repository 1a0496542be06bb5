/* check_cases.c - the cases of `expect`: what rules must allow or deny */
#include "check_cases.h"

#include <keyhole/base/escape.h>
#include <keyhole/exchange/dry_run.h>

/* A case of `expect`: what the rules make of it must be what is there. */
static void check_case(const struct kh_config *config, const struct kh_policy *policy,
		       const struct kh_expectation *one, struct kh_diagnostics *diags)
{
	struct kh_dry_run q;
	struct kh_outcome answer = { 0 };
	struct kh_err err = KH_ERR_INIT;
	if (one->fault) {
		kh_diagnostics_add(diags, false, one->fault_where, "%s", one->fault);
		return;
	}
	kh_dry_run_init(&q);
	for (size_t i = 0; i < one->n_fields; i++)
		(void)kh_dry_run_field(&q, kh_slice_str(one->fields[i].name),
				       kh_slice_str(one->fields[i].patterns[0]));
	kh_dry_run_model(&q, kh_slice_str(one->model));
	bool read = kh_dry_run_ask_text(&q, kh_slice_str(one->text), &err);
	if (read)
		kh_dry_run_answer(&q, config, policy, one->tenant,
				  one->listener >= 0
					  ? kh_policy_narrowing(policy, (size_t)one->listener)
					  : NULL,
				  &answer);
	if (!read && (one->allow || err.code == KH_ERR_USAGE))
		kh_diagnostics_add(diags, false, one->where, "expect: \"%s\": %s",
				   kh_esc_str(one->text), err.text);
	else if (answer.allow != one->allow)
		kh_diagnostics_add(diags, false, one->where,
				   "expect: \"%s\" is %s: %s%s%s%s (keyhole explain shows why)",
				   kh_esc_str(one->text), answer.allow ? "allowed" : "denied",
				   answer.allow ? "" : kh_err_reason(answer.reason),
				   answer.decision.rule ? (answer.allow ? "by \"" : ", \"") : "",
				   answer.decision.rule ? kh_esc_str(answer.decision.rule->text)
							: "",
				   answer.decision.rule ? "\"" : "");
	kh_dry_run_fini(&q);
}

void kh_check_cases(const struct kh_config *config, const struct kh_policy *policy,
		    struct kh_diagnostics *diags)
{
	for (size_t i = 0; i < config->n_expectations; i++)
		check_case(config, policy, &config->expectations[i], diags);
}
