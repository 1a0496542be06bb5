/* mail_internal.h - what other threads leave for an event thread */
#ifndef KEYHOLE_LOOP_MAIL_INTERNAL_H
#define KEYHOLE_LOOP_MAIL_INTERNAL_H

#include <keyhole/loop/loop.h>
#include <keyhole/loop/questions.h>

enum kh_mail_kind {
	KH_MAIL_LEAF = 1,
	KH_MAIL_CREDENTIAL,
	KH_MAIL_ANSWER,
	KH_MAIL_DRAIN,
	KH_MAIL_RETIRE,
	KH_MAIL_SUPERSEDED,
	KH_MAIL_RELOAD,
	KH_MAIL_DYNAMIC_SANDBOX,
	KH_MAIL_DYNAMIC_SANDBOX_GONE
};

struct kh_mail {
	struct kh_mail *next;
	enum kh_mail_kind kind;
	struct kh_host host;
	char signer[KH_NAME_MOST_BYTES + 1]; /* LEAF: whose CA signed it */
	bool found;
	uint16_t index;
	uint32_t generation;
	struct kh_generation *gen; /* RELOAD: a reference */
	uint32_t question;	   /* ANSWER */
	struct kh_answered answered;
	struct kh_dynamic_sandbox
		*dynamic_sandbox; /* DYNAMIC_SANDBOX, DYNAMIC_SANDBOX_GONE: a reference */
};

#endif
