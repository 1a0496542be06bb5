/* ctl_client.h - one question to a daemon's admin socket */
#ifndef KEYHOLE_CLI_CTL_CLIENT_H
#define KEYHOLE_CLI_CTL_CLIENT_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* What a daemon answered: its status, and its content up to the buffer's cap. */
struct kh_ctl_answer {
	uint16_t status;
	uid_t server; /* whose daemon it is */
	struct kh_buf content;
};

/* All of them refuse a server that is not to be believed (ctl_trust.h). */

/* Does anybody listen there, who would let us in? Return: false: somebody who is not to be
 * believed. */
bool kh_ctl_find(const char *socket_path, bool *there, struct kh_err *err);
void kh_ctl_answer_init(struct kh_ctl_answer *answer);
void kh_ctl_answer_fini(struct kh_ctl_answer *answer);
/* Blocks until the answer is whole, or some time has passed. Return: false: nobody answers there,
 * or not by HTTP. */
bool kh_ctl_ask(const char *socket_path, const char *method, const char *target,
		struct kh_slice content, struct kh_ctl_answer *out, struct kh_err *err);

/* The same for an answer that goes on: `take` gets each line of it, without its end, as it comes,
 * until one returns false, or the daemon ends it. Return: false: nobody answers there, not by HTTP,
 * or something else than lines, which *out holds then. */
bool kh_ctl_follow(const char *socket_path, const char *target,
		   bool (*take)(void *arg, struct kh_slice line), void *arg,
		   struct kh_ctl_answer *out, struct kh_err *err);

#endif
