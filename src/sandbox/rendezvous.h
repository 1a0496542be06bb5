/*
 * rendezvous.h - where keyhole-init finds the launcher, for engines that hand it no descriptors
 *
 *   launcher: a listening socket ─▶ mounted in the sandbox's root (KH_MOUNT_SOCKET)
 *   keyhole-init, before anything else runs there, connects to it (--connect), and is given its
 *   end of the control socket and the command's three descriptors in one message
 *   launcher: shuts the listening socket; what lies in the sandbox leads nowhere from then on
 *
 * So all that goes over the control socket works in such an engine as in any other.
 */
#ifndef KEYHOLE_SANDBOX_RENDEZVOUS_H
#define KEYHOLE_SANDBOX_RENDEZVOUS_H

#include <stdbool.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

/* A socket that is bound nowhere yet. Return: -1. */
int kh_rendezvous_new(struct kh_err *err);
/* Gives it a name in a folder, which everybody may connect to who can get there. Return: false with
 * errno. */
bool kh_rendezvous_bind(int listener, int folder, const char *name);
/*
 * Somebody connects, where nobody else can: gives them the control socket's peer and the
 * three, and shuts it. Return: false where it can't be done; *met says whether it was.
 */
bool kh_rendezvous_hand_over(int listener, int control, const int stdio[3], bool *met,
			     struct kh_err *err);

#endif
