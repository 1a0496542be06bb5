/* dry_run.h - decides about a request that nobody sent, for `explain`, `expect` and
 * http://keyhole.internal/why */
#ifndef KEYHOLE_EXCHANGE_DRY_RUN_H
#define KEYHOLE_EXCHANGE_DRY_RUN_H

#include <keyhole/http/message.h>
#include <keyhole/llm/model.h>
#include <keyhole/policy/policy.h>
#include <keyhole/http/target.h>

/* The request as the proxy would read it; views of the caller's texts. It must not be moved once it
 * was asked. */
struct kh_dry_run {
	struct kh_message message;
	struct kh_target target;
	struct kh_authority authority;
	enum kh_scheme scheme;
	bool tunnel;	       /* CONNECT host:port */
	struct kh_slice named; /* the model that its content would name; empty: not given */
	struct kh_model model;
	const char *two_models; /* why no model may be named, a literal; NULL: it may */
	struct kh_request_view view;
	struct kh_overrides overrides;
	struct kh_forwarded forwarded;
};

/* The result: the decision, and what the proxy checks after it. */
struct kh_outcome {
	bool allow;
	enum kh_err_code reason;
	struct kh_decision decision;
	enum kh_tunnel_kind kind; /* of a tunnel */
	struct kh_slice carrier;  /* the client's own authentication, which is removed or refused */
	/* CREDENTIAL_BINDING: the credential that may not go in, and what it may not go to. */
	const struct kh_credential_config *credential;
	const char *fault;
	struct kh_err upgrade; /* with UPGRADE_UNSUPPORTED: the error */
};

/* May a request that the decision allows switch protocols? True if it does not ask for that.
 * Return: false with `err`. A refused upgrade is answered 426, whatever else is wrong with the
 * request, since clients then fall back at once. */
bool kh_exchange_upgrade_may_be(const struct kh_message *request,
				const struct kh_decision *decision, struct kh_err *err);

void kh_dry_run_init(struct kh_dry_run *question);
/* Adds a field. Return: false: there are KH_LIMIT_FIELDS already, or the name is empty. */
bool kh_dry_run_field(struct kh_dry_run *question, struct kh_slice name, struct kh_slice value);
/* Reads the request, after its fields, model and body were set. Return: false with `err`: the proxy
 * would not accept such a request. */
bool kh_dry_run_ask(struct kh_dry_run *question, struct kh_slice method, struct kh_slice url,
		    struct kh_err *err);
/* The same from "METHOD URL", or "URL" for a GET. */
bool kh_dry_run_ask_text(struct kh_dry_run *question, struct kh_slice text, struct kh_err *err);
void kh_dry_run_model(struct kh_dry_run *question, struct kh_slice name);
void kh_dry_run_body(struct kh_dry_run *question, uint64_t bytes);
void kh_dry_run_fini(struct kh_dry_run *question);

/* Decides. `config` is the configuration that the policy was compiled from. `out` has views of all
 * arguments. */
void kh_dry_run_answer(const struct kh_dry_run *question, const struct kh_config *config,
		       const struct kh_policy *policy, uint16_t tenant,
		       const struct kh_narrowing *narrowing, struct kh_outcome *out);
/* What the credential may not go to in this request, including methods and paths that fields and
 * parameters ask for, a literal; NULL: it may go in. */
const char *kh_dry_run_binding_fault(const struct kh_dry_run *question,
				     const struct kh_credential_config *credential);

#endif
