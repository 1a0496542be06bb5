/*
 * rendezvous.h - how keyhole-init connects to the launcher, for engines that pass it no descriptors
 *
 *   launcher: a listening socket ─▶ mounted in the sandbox's root (KH_MOUNT_SOCKET)
 *   keyhole-init, before anything else runs there, connects to it (--connect), and is given its
 *   end of the control socket and the command's three descriptors in one message
 * launcher: shuts the listening socket; the socket in the sandbox leads nowhere from then on
 *
 * So the control socket works in such an engine as in any other.
 */
#ifndef KEYHOLE_SANDBOX_RENDEZVOUS_H
#define KEYHOLE_SANDBOX_RENDEZVOUS_H

#include <stdbool.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

/* Makes an unbound socket. Return: -1 with `err`. */
int kh_rendezvous_new(struct kh_err *err);
/* Binds it to a name in a folder; everybody who can reach the folder may connect. Return: false
 * with errno. */
bool kh_rendezvous_bind(int listener, int folder, const char *name);
/*
 * Accepts a connection, passes the control socket's peer and the three descriptors over it, and
 * shuts the listener down. *met: it was done. Return: false with `err` on an error.
 */
bool kh_rendezvous_hand_over(int listener, int control, const int stdio[3], bool *met,
			     struct kh_err *err);

#endif
