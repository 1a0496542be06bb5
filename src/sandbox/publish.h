/*
 * publish.h - ports of the host's loopback that lead to a server inside the sandbox
 *
 *   a client on the host ─▶ 127.0.0.1:8080, a process of ours ═socket pair═▶ keyhole-init ─▶
 * 127.0.0.1:3000
 *
 * The way in is the launcher's own: for each connection the control socket carries one end of a
 * socket pair for the bytes, and one end of another for the notice that the server has ended
 * (KH_INIT_PUBLISHED). The proxy's socket has no part in it. No socket of the host's network gets
 * inside: what is handed over can be connected to nothing else.
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

/* Listens, and starts the process, where anything is to be published. `control` is not taken over.
 */
bool kh_publish_begin(struct kh_publish *publish, const struct kh_sandbox_spec *spec, int control,
		      struct kh_err *err);
/* The sandbox has ended: nobody is let in any more, and what a server had written inside is given
 * to the clients that take it. A client whose answer was cut off is reset. */
void kh_publish_end(struct kh_publish *publish);

#endif
