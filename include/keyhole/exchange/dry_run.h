/* dry_run.h - a request that nobody sent, for `explain`, `expect` and http://keyhole.internal/why
 */
#ifndef KEYHOLE_EXCHANGE_DRY_RUN_H
#define KEYHOLE_EXCHANGE_DRY_RUN_H

#include <keyhole/http/message.h>
#include <keyhole/llm/model.h>
#include <keyhole/policy/policy.h>
#include <keyhole/http/target.h>

/* Read as the proxy would read it; views into the caller's texts. */
struct kh_dry_run {
	struct kh_message message;
	struct kh_target target;
	struct kh_authority authority;
	enum kh_scheme scheme;
	bool tunnel;	       /* CONNECT host:port */
	struct kh_slice named; /* the model that its content names; empty: not said */
	struct kh_model model;
	const char *two_models; /* why nothing may say the model; NULL: it may be said */
	struct kh_request_view view;
	struct kh_overrides overrides;
	struct kh_forwarded forwarded;
};

/* What comes of it: the decision, and what the proxy looks at behind it. */
struct kh_outcome {
	bool allow;
	enum kh_err_code reason;
	struct kh_decision decision;
	enum kh_tunnel_kind kind; /* of a tunnel */
	struct kh_slice carrier;  /* the client's own authentication, which is removed or refused */
	/* CREDENTIAL_BINDING: the credential that may not go in, and what its binding leaves out.
	 */
	const struct kh_credential_config *credential;
	const char *fault;
	struct kh_err upgrade; /* UPGRADE_UNSUPPORTED: the answer to it */
};

/* May a request that the decision allows switch protocols? True where it does not ask for it. A
 * refused upgrade is 426 whatever else is wrong with it: clients fall back at once then. */
bool kh_exchange_upgrade_may_be(const struct kh_message *request,
				const struct kh_decision *decision, struct kh_err *err);

void kh_dry_run_init(struct kh_dry_run *question);
/* Return: false when there is room for no more, or it is no field. */
bool kh_dry_run_field(struct kh_dry_run *question, struct kh_slice name, struct kh_slice value);
/* Fields come first. Return: false when the proxy would not take such a request. */
bool kh_dry_run_ask(struct kh_dry_run *question, struct kh_slice method, struct kh_slice url,
		    struct kh_err *err);
/* "METHOD URL"; GET where there is no method. */
bool kh_dry_run_ask_text(struct kh_dry_run *question, struct kh_slice text, struct kh_err *err);
void kh_dry_run_model(struct kh_dry_run *question, struct kh_slice name);
void kh_dry_run_body(struct kh_dry_run *question, uint64_t bytes);
void kh_dry_run_fini(struct kh_dry_run *question);

/* `config`: what the policy was made of. */
void kh_dry_run_answer(const struct kh_dry_run *question, const struct kh_config *config,
		       const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, struct kh_outcome *out);
/* Why the credential may not go into this request, fields and parameters that ask for another
 * method or path included; NULL: it may. */
const char *kh_dry_run_binding_fault(const struct kh_dry_run *question,
				     const struct kh_credential_config *credential);

#endif
