/* ctl_sandbox.h - `keyhole ctl sandbox add` and `remove`: what is asked, and the answer shown */
#ifndef KEYHOLE_CLI_CTL_SANDBOX_H
#define KEYHOLE_CLI_CTL_SANDBOX_H

#include <sys/types.h>

#include <jansson.h>

#include <keyhole/base/buf.h>

/* NULL: not given. */
struct kh_ctl_sandbox {
	const char *tenant, *id, *narrow, *ttl, *mode, *owner;
	const char *base; /* admin.sandboxes, where a configuration was given */
};

/* The first of --narrow, --ttl, --mode and --owner that was given; NULL: none was. */
const char *kh_ctl_sandbox_term(const struct kh_ctl_sandbox *given);
/* Tenant and id. Return: false: it has said what is wrong. */
bool kh_ctl_sandbox_check(const struct kh_ctl_sandbox *given);
/* The content of the request that adds it. Return: likewise. */
bool kh_ctl_sandbox_wish(const struct kh_ctl_sandbox *given, struct kh_buf *content);
/* The target of the request that removes it, on the heap; NULL: likewise. */
char *kh_ctl_sandbox_target(const struct kh_ctl_sandbox *given);
/* Is the folder that the answer names the one that a daemon of user `server` makes for it? Return:
 * likewise. */
bool kh_ctl_judge_added(const struct kh_ctl_sandbox *given, const json_t *answer, uid_t server);
bool kh_ctl_show_added(const json_t *answer);

#endif
