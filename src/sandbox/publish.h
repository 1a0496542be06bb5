/*
 * publish.h - forwards ports of the host's loopback to servers inside the sandbox
 *
 *   a client on the host ─▶ 127.0.0.1:8080, a process of ours ═socket pair═▶ keyhole-init ─▶
 * 127.0.0.1:3000
 *
 * It does not use the proxy's socket. For each connection, one end of a socket pair for the bytes,
 * and one end of another for the notice of the server's end (KH_INIT_PUBLISHED), are sent over the
 * control socket. No socket of the host's network gets inside, and a socket pair can't be connected
 * to anything else.
 */
#ifndef KEYHOLE_SANDBOX_PUBLISH_H
#define KEYHOLE_SANDBOX_PUBLISH_H

#include <sys/types.h>

#include <keyhole/base/limits.h>
#include <keyhole/sandbox/sandbox.h>

struct kh_publish {
	pid_t pid; /* of the process; 0: none */
	int alive; /* closed at the sandbox's end */
};

/* Listens, and starts the process, if any port is published. `control` stays the caller's. */
bool kh_publish_begin(struct kh_publish *publish, const struct kh_sandbox_spec *spec, int control,
		      struct kh_err *err);
/* The sandbox has ended: accepts no more connections, delivers the bytes that servers had written,
 * and resets clients whose answer was cut off. */
void kh_publish_end(struct kh_publish *publish);

#endif
