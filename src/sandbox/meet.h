/*
 * meet.h - where keyhole-init finds the launcher, for engines that hand it no descriptors
 *
 *   launcher: a listening socket ─▶ laid in the sandbox's root, or mounted there (KH_MOUNT_SOCKET)
 *   keyhole-init, before anything else runs there, connects to it (--connect), and is given its
 *   end of the control socket and the command's three descriptors in one message
 *   launcher: shuts the listening socket; what lies in the sandbox leads nowhere from then on
 *
 * So all that goes over the control socket works in such an engine as in any other.
 */
#ifndef KEYHOLE_SANDBOX_MEET_H
#define KEYHOLE_SANDBOX_MEET_H

#include <stdbool.h>
#include <sys/types.h>

#include <keyhole/err.h>

/* A socket that is bound nowhere yet. Return: -1. */
int kh_meet_new(struct kh_err *err);
/* Gives it a name in a folder, which everybody may connect to who can get there. Return: false with
 * errno. */
bool kh_meet_bind(int listener, int folder, const char *name);
#define KH_MEET_ANYBODY ((uid_t)-1)
/*
 * Somebody is at the door: gives the control socket's peer and the three to the one that comes as
 * this uid (KH_MEET_ANYBODY: nobody else gets at the door), and shuts it. Return: false where it
 * can't be done; *met says whether it was, and *dialled who called connect(): where a kernel of the
 * engine's own is inside, that is who opens files for it.
 */
bool kh_meet_hand_over(int listener, uid_t uid, int control, const int stdio[3], bool *met,
		       pid_t *dialled, struct kh_err *err);

#endif
