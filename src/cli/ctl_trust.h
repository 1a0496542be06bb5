/*
 * ctl_trust.h - how far who answers at an admin socket is believed
 *
 * The worker of a daemon answers there, and may have been taken over; and another user's process
 * could listen at a path that no daemon has. So the kernel says whose server it is, and a folder
 * that the answer names is looked at before anybody is shown it.
 */
#ifndef KEYHOLE_CLI_CTL_TRUST_H
#define KEYHOLE_CLI_CTL_TRUST_H

#include <stdio.h>
#include <sys/types.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/*
 * Whose server is at the other end of `fd`, which is connected to the socket at `path`? Root's and
 * the caller's own are believed; another user's, where nobody else could have put it there: each
 * folder on the way belongs to root, the caller or that user, and nobody else may write to it. A
 * symbolic link on the way has to be root's or the caller's. *uid gets the user.
 */
bool kh_ctl_judge_server(int fd, const char *path, uid_t *uid, struct kh_err *err);

/*
 * Holds the folder BASE/TENANT/ID of a sandbox that was added. Each of the three is a folder and no
 * symbolic link, belongs to root or `server`, and nobody else may write to it; in the last one is
 * nothing but the socket `s`. Return: descriptor (O_PATH); -1 with `err`, and *absent says that
 * there is no such BASE.
 */
int kh_ctl_hold_folder(const char *base, const char *tenant, const char *id, uid_t server,
		       bool *absent, struct kh_err *err);

/* Does `path` lead to what is held? */
bool kh_ctl_leads_to(const char *path, int held);

/* JSON with everything escaped that is not printable ASCII, so that no terminal obeys it. Return:
 * false: it could not be written. */
bool kh_ctl_put_json(FILE *out, struct kh_slice json);

#endif
