/* session.h - connections from sandboxes: what a loop's worker wires (struct kh_loop_ops) */
#ifndef KEYHOLE_DOWNSTREAM_SESSION_H
#define KEYHOLE_DOWNSTREAM_SESSION_H

#include <keyhole/loop/acceptor.h>

/* With a place at the acceptor, and a descriptor, that were taken. It serves whatever comes, until
 * it ends. */
void kh_session_new(struct kh_acceptor *acceptor, int fd, const struct kh_peer *peer);
/* All that came through that acceptor end. */
void kh_session_end_of_acceptor(struct kh_acceptor *acceptor, const char *why);

#endif
