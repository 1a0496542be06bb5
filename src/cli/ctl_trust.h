/*
 * ctl_trust.h - checks whether the process that answers at an admin socket can be trusted
 *
 * The daemon's worker answers there, and may have been taken over. Or, if no daemon runs, another
 * user's process could listen at the path. So the kernel is asked which user runs the server, and a
 * folder in the answer is checked before it is shown to a sandbox.
 */
#ifndef KEYHOLE_CLI_CTL_TRUST_H
#define KEYHOLE_CLI_CTL_TRUST_H

#include <stdio.h>
#include <sys/types.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/*
 * Checks the server at the other end of `fd`, which is connected to the socket at `path`; *uid gets
 * its user. Servers of root and of the caller are trusted. Another user's server is trusted if
 * nobody else could have put it there: each folder on the path belongs to root, the caller or that
 * user, and nobody else may write to it; symbolic links on the path belong to root or the caller.
 * Return: false with `err`.
 */
bool kh_ctl_judge_server(int fd, const char *path, uid_t *uid, struct kh_err *err);

/*
 * Opens and checks the folder BASE/TENANT/ID of a dynamic sandbox. Each of the three must be a
 * folder and not a symbolic link, belong to root or `server`, and be writable for nobody else; the
 * last one must only contain the socket `s`. Return: a descriptor (O_PATH), the caller's; -1 with
 * `err`; *absent: BASE does not exist.
 */
int kh_ctl_hold_folder(const char *base, const char *tenant, const char *id, uid_t server,
		       bool *absent, struct kh_err *err);

/* Does `path` lead to the folder `held`? */
bool kh_ctl_leads_to(const char *path, int held);

/* Writes JSON with everything escaped that is not printable ASCII, so that it can't control a
 * terminal. Return: false: write error. */
bool kh_ctl_put_json(FILE *out, struct kh_slice json);

#endif
