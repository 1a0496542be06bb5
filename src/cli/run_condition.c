/*
 * run_condition.c - why a rule that allows a place did not allow a request there
 *
 * A rule can ask for more than method, host and path: for a model, a query, fields or a type of
 * content. The journal has the model, and of a query only names. So the rules are asked again about
 * the place, and the first one that allows it but for such a condition is named.
 */
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/exchange/dry_run.h>
#include <keyhole/policy/policy.h>

#include "run_internal.h"

struct look {
	const struct kh_rule *rule;
	enum kh_mismatch why;
};

static void look_at(void *arg, const struct kh_looked_at *at)
{
	struct look *look = arg;
	bool beside = at->why == KH_OTHER_QUERY || at->why == KH_OTHER_HEADERS ||
		      at->why == KH_OTHER_CONTENT_TYPE || at->why == KH_BODY_TOO_LARGE ||
		      at->why == KH_OTHER_MODEL || at->why == KH_MODEL_NOT_READ;
	if (!look->rule && beside && at->rule->allow && at->list == KH_LIST_TENANT)
		*look = (struct look){ at->rule, at->why };
}

/* Each of a place's requests has the method that stands first. */
static bool ask(struct kh_dry_run *question, const struct kh_refused_place *place, const char *url)
{
	struct kh_slice method = kh_slice_str(place->methods);
	if (place->model[0] && strcmp(place->model, "*") != 0)
		kh_dry_run_model(question, kh_slice_str(place->model));
	return kh_dry_run_ask(question, kh_slice_sub(method, 0, kh_slice_find(method, ',', 0)),
			      kh_slice_str(url), NULL);
}

static bool put(struct kh_buf *out, const struct kh_config *config, const struct look *look,
		const struct kh_refused_place *place)
{
	const char *file = look->rule->where.file < config->n_files
				   ? config->files[look->rule->where.file]
				   : "";
	kh_auto_free char *line =
		kh_strf("%s%s:%u", look->rule->preset ? "preset " : "",
			look->rule->preset ? look->rule->preset : file, look->rule->where.line);
	if (!line || !kh_buf_printf(out, "the rule \"%s\" (%s) allows it only ",
				    kh_esc_str(look->rule->text), kh_esc_str(line)))
		return false;
	if (look->why == KH_OTHER_MODEL && place->model[0])
		return kh_buf_printf(out, "for other models, and it was for \"%s\"",
				     kh_esc_str(place->model));
	if (look->why == KH_OTHER_MODEL || look->why == KH_MODEL_NOT_READ)
		return kh_buf_append_str(out, "for some models");
	return kh_buf_printf(out, "under a condition that was not met (%s)",
			     kh_mismatch_name(look->why));
}

bool kh_run_condition_put(struct kh_buf *out, const struct kh_config *config,
			  const struct kh_refused_place *place)
{
	bool six = strchr(place->host, ':') && place->host[0] != '[';
	kh_auto_free char *url = kh_strf("%s://%s%s%s:%u%s", place->scheme, six ? "[" : "",
					 place->host, six ? "]" : "", place->port, place->example);
	struct kh_policy *policy =
		config && url && place->path ? kh_policy_compile(config, NULL) : NULL;
	struct look look = { .rule = NULL };
	struct kh_decision decision;
	struct kh_dry_run question;
	kh_dry_run_init(&question);
	if (policy && ask(&question, place, url))
		kh_policy_explain(policy, config->listeners[0].tenant, NULL, &question.view,
				  look_at, &look, &decision);
	kh_dry_run_fini(&question);
	kh_policy_unref(policy);
	return look.rule && put(out, config, &look, place);
}
