/* session.h - connections from sandboxes: what a loop's worker wires (struct kh_loop_ops) */
#ifndef KEYHOLE_DOWNSTREAM_SESSION_H
#define KEYHOLE_DOWNSTREAM_SESSION_H

#include <keyhole/loop/acceptor.h>

/* With a place at the door, and a descriptor, that were taken. It serves whatever comes, until it
 * ends. */
void kh_session_new(struct kh_acceptor *door, int fd, const struct kh_peer *peer);
/* All that came through that door end. */
void kh_session_end_of_acceptor(struct kh_acceptor *door, const char *why);

#endif
