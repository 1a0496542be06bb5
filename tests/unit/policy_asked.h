/* policy_asked.h - a policy, asked as a request asks it */
#ifndef KEYHOLE_TESTS_POLICY_ASKED_H
#define KEYHOLE_TESTS_POLICY_ASKED_H

#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/path.h>
#include <keyhole/policy/policy.h>

#include "policy/policy_internal.h"

/* Asks for "METHOD URL", the path through the same normaliser as a request's. */
static inline struct kh_decision ask(const struct fixture *f, uint16_t tenant, const char *method,
				     const char *url)
{
	struct kh_request_view view = { .method = kh_slice_str(method) };
	struct kh_decision decision;
	struct kh_host host;
	struct kh_buf store;
	bool tls = strncmp(url, "https://", 8) == 0;
	struct kh_slice rest = kh_slice_str(url + (tls ? 8 : 7));
	size_t slash = kh_slice_find(rest, '/', 0);
	struct kh_slice authority = kh_slice_sub(rest, 0, slash);
	size_t colon = kh_slice_find(authority, ':', 0);
	uint64_t port = tls ? 443 : 80;

	if (colon < authority.len)
		assert_true(
			kh_slice_to_u64(kh_slice_sub(authority, colon + 1, authority.len), &port));
	assert_true(kh_host_parse(&host, kh_slice_sub(authority, 0, colon), NULL));
	view.scheme = tls ? KH_SCHEME_HTTPS : KH_SCHEME_HTTP;
	view.host = &host;
	view.port = (uint16_t)port;
	kh_buf_init(&store, 65536);
	assert_true(kh_path_normalise(kh_slice_sub(rest, slash, rest.len), &store, NULL));
	size_t len = kh_buf_len(&store);
	bool differs;
	assert_true(kh_path_slashed(kh_buf_view(&store), &store, &differs));
	size_t both = kh_buf_len(&store);
	bool further;
	assert_true(kh_path_decoded(kh_slice_sub(kh_buf_view(&store), 0, len), &store, &further));
	view.path = kh_slice_sub(kh_buf_view(&store), 0, len);
	if (differs)
		view.path_slashed = kh_slice_sub(kh_buf_view(&store), len, both);
	if (further)
		view.path_decoded = kh_slice_sub(kh_buf_view(&store), both, kh_buf_len(&store));
	kh_policy_decide(f->policy, tenant, NULL, &view, &decision);
	kh_buf_fini(&store);
	return decision;
}

static inline bool allows(const struct fixture *f, const char *method, const char *url)
{
	struct kh_decision decision = ask(f, 0, method, url);
	/* What a decision says of itself always fits together. */
	assert_int_equal(decision.allow, decision.reason == KH_ERR_NONE);
	if (decision.allow)
		assert_true(decision.rule && decision.rule->allow);
	if (decision.reason == KH_ERR_DENIED_BY_RULE)
		assert_true(decision.rule && !decision.rule->allow);
	if (decision.reason == KH_ERR_NO_RULE)
		assert_null(decision.rule);
	return decision.allow;
}

#endif
