/* ctl_sandbox.h - `keyhole ctl sandbox add` and `remove`: composes the request and shows the
 * answer */
#ifndef KEYHOLE_CLI_CTL_SANDBOX_H
#define KEYHOLE_CLI_CTL_SANDBOX_H

#include <sys/types.h>

#include <jansson.h>

#include <keyhole/base/buf.h>

/* Arguments of the command; NULL: not given. */
struct kh_ctl_sandbox {
	const char *tenant, *id, *narrow, *ttl, *mode, *owner;
	const char *base; /* admin.sandboxes, if a configuration was given */
};

/* The first of --narrow, --ttl, --mode and --owner that was given; NULL: none was. */
const char *kh_ctl_sandbox_term(const struct kh_ctl_sandbox *given);
/* Checks tenant and id of `keyhole ctl sandbox VERB`. Return: false: an error was printed. */
bool kh_ctl_sandbox_check(const struct kh_ctl_sandbox *given, const char *verb);
/* Writes the content of the request to add it. Return: false: an error was printed. */
bool kh_ctl_sandbox_wish(const struct kh_ctl_sandbox *given, struct kh_buf *content);
/* The target of the request to remove it, on the heap; NULL: an error was printed. */
char *kh_ctl_sandbox_target(const struct kh_ctl_sandbox *given);
/* Checks that the folder in the answer is the one that a daemon of user `server` would make.
 * Return: false: an error was printed. */
bool kh_ctl_judge_added(const struct kh_ctl_sandbox *given, const json_t *answer, uid_t server);
bool kh_ctl_show_added(const json_t *answer);

#endif
