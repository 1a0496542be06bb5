/* readings.h - what rules decide about a spelling, and by which reading */
#ifndef KEYHOLE_TESTS_READINGS_H
#define KEYHOLE_TESTS_READINGS_H

#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/http/message.h>
#include <keyhole/exchange/dry_run.h>
#include <keyhole/base/spelling.h>

/* Asks both who decide: they agree. A field is "name: value"; NULL: none. */
static inline struct kh_decision ask(const struct fixture *f, const char *method, const char *url,
				     const char *field)
{
	struct kh_dry_run *q = calloc(1, sizeof(*q));
	struct kh_err err = KH_ERR_INIT;
	struct kh_decision decision, explained;
	assert_non_null(q);
	kh_dry_run_init(q);
	if (field) {
		struct kh_slice line = kh_slice_str(field);
		size_t colon = kh_slice_find(line, ':', 0);
		assert_true(kh_dry_run_field(q, kh_slice_sub(line, 0, colon),
					     kh_slice_sub(line, colon + 1, line.len)));
	}
	if (!kh_dry_run_ask(q, kh_slice_str(method), kh_slice_str(url), &err))
		fail_msg("%s: %s", url, err.text);
	kh_policy_decide(f->policy, 0, NULL, &q->view, &decision);
	kh_policy_explain(f->policy, 0, NULL, &q->view, NULL, NULL, &explained);
	if (decision.allow != explained.allow || decision.rule != explained.rule ||
	    decision.reading != explained.reading || decision.reason != explained.reason)
		fail_msg("%s %s %s: decide and explain differ", method, url, field ? field : "");
	kh_dry_run_fini(q);
	free(q);
	return decision;
}

static inline void denies(const struct fixture *f, const char *method, const char *url,
			  const char *field, enum kh_reading reading)
{
	struct kh_decision d = ask(f, method, url, field);
	if (d.allow || !d.rule)
		fail_msg("%s %s %s: should be denied by the rule", method, url, field ? field : "");
	if (d.reading != reading)
		fail_msg("%s %s %s: read with \"%s\"", method, url, field ? field : "",
			 kh_reading_text(d.reading));
}

static inline void allows(const struct fixture *f, const char *method, const char *url,
			  const char *field)
{
	if (!ask(f, method, url, field).allow)
		fail_msg("%s %s %s: should be allowed", method, url, field ? field : "");
}

static inline void refuses(const struct fixture *f, const char *method, const char *url,
			   const char *field)
{
	if (ask(f, method, url, field).allow)
		fail_msg("%s %s %s: should not be allowed", method, url, field ? field : "");
}

/* Fields that name a path, with its query. */
static const char *const path_fields[] = { "X-Original-URL", "X_Rewrite_Url", "X-Forwarded-Uri",
					   "X-Forwarded-Url", "Destination" };

#endif
