/*
 * uplink.h - connections to the proxy, handed into a sandbox whose kernel is the engine's own
 *
 *   keyhole-init ══ the uplink, a socket pair (SOCK_SEQPACKET) ══ the process that stands by
 *                   any datagram asks for a connection ─▶          (supervisor.c) ──connect──▶ s
 *                ◀─ the connected socket, or why there is none
 *
 * One end is donated to the sandbox at its start. So that kernel has to open no socket of the
 * host's by its name, and is told to open none. The first message is KH_INIT_MET, with what other
 * engines let keyhole-init inherit.
 *
 * What asks is hostile. Nothing that it sends is looked at, and no descriptor of its is taken; it
 * gets connections to the one socket, each of which it is to have received before there are more
 * than KH_LIMIT_UPLINK_WAITING.
 */
#ifndef KEYHOLE_SANDBOX_UPLINK_H
#define KEYHOLE_SANDBOX_UPLINK_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* Makes the pair: pair[0] stays outside. What keyhole-init is to be given waits in it already; the
 * descriptors stay the caller's. */
bool kh_uplink_make(int pair[2], int control, const int stdio[3], struct kh_err *err);
/*
 * Answers one question, by a connection to the socket `name` in the current folder. *wants: what
 * the caller is to poll for, before it calls again. Return: false when nobody is there any more.
 */
bool kh_uplink_answer(int uplink, const char *name, short *wants);

#endif
