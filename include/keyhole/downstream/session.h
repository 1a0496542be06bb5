/* session.h - connections from sandboxes: what the worker plugs into a loop (struct kh_loop_ops) */
#ifndef KEYHOLE_DOWNSTREAM_SESSION_H
#define KEYHOLE_DOWNSTREAM_SESSION_H

#include <keyhole/loop/acceptor.h>

/* Serves an accepted connection until it ends. Takes over `fd`, and the place and the descriptor
 * that the acceptor has charged for it. Copies `peer`. On failure the connection is closed. */
void kh_session_new(struct kh_acceptor *acceptor, int fd, const struct kh_peer *peer);
/* Ends all sessions that came through that acceptor. `why` is a text for logs and journal. */
void kh_session_end_of_acceptor(struct kh_acceptor *acceptor, const char *why);

#endif
