/*
 * uplink.h - connections to the proxy, handed into a sandbox whose kernel is the engine's own
 *
 *   keyhole-init ══ the uplink, a socket pair (SOCK_SEQPACKET) ══ the process that stands by
 *                   any datagram asks for a connection ─▶          (supervisor.c) ──connect──▶ s
 *                ◀─ the connected socket, or why there is none
 *
 * The sandbox gets one end at its start. So its kernel does not need to open sockets of the host by
 * name, and is configured to open none. The first message is KH_INIT_MET, with what keyhole-init
 * inherits in other engines.
 *
 * The sandbox is hostile. The content of its datagrams is ignored, and no descriptors are received.
 * It only gets connections to that one socket, and at most KH_LIMIT_UPLINK_WAITING that it has not
 * received yet.
 */
#ifndef KEYHOLE_SANDBOX_UPLINK_H
#define KEYHOLE_SANDBOX_UPLINK_H

#include <stdbool.h>

#include <keyhole/base/err.h>

/* Makes the pair: pair[0] stays outside. The descriptors for keyhole-init are already queued in it;
 * the caller keeps its own copies. */
bool kh_uplink_make(int pair[2], int control, const int stdio[3], struct kh_err *err);
/*
 * Answers one request with a connection to the socket `name` in the current folder. *wants: the
 * events to poll for before the next call. Return: false: the other end is closed.
 */
bool kh_uplink_answer(int uplink, const char *name, short *wants);

#endif
