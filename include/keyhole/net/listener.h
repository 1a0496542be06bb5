/* listener.h - what sandboxes connect to */
#ifndef KEYHOLE_NET_LISTENER_H
#define KEYHOLE_NET_LISTENER_H

#include <sys/stat.h>

#include <keyhole/config/config.h>

/*
 * Binds and listens (keeper's side): the folder is made where it is absent (0755), a dead socket of
 * that name is removed (a live one is an error that says who holds it), mode and owner are set
 * before anybody can connect (bound in a folder of its own, renamed). A port of vsock or TCP is
 * bound as it is. Close-on-exec, non-blocking. *made: the socket's inode, of a Unix socket; NULL is
 * fine. Return: -1 on error.
 */
int kh_listener_open(const struct kh_listener_config *config, struct stat *made,
		     struct kh_err *err);
/* A Unix socket of this name in a folder that is open. */
int kh_listener_open_in(int dir, const char *name, const struct kh_listener_config *config,
			struct stat *made, struct kh_err *err);
/* Mode and owner as the configuration has them, of a socket that is open: where its path does not
 * lead to that inode (st_dev, st_ino) any more, whatever is there is left alone: an error. */
bool kh_listener_dress(const struct kh_listener_config *config, const struct stat *socket,
		       struct kh_err *err);
/* Takes its name away, where it still leads to that inode. Return: the folder it was in, which the
 * caller closes; -1: nothing was taken away. */
int kh_listener_remove(const char *path, const struct stat *socket);

/* Nobody can connect to it any more, though it is open: who held it has shut it down. */
bool kh_listener_is_dead(int listener);
/* Closes a dead listener of a port. A worker may have made a connection of it, whose far end would
 * hold the port for as long as it likes: that is cut off, so the port can be bound anew. */
void kh_listener_abandon(int listener);

/* A port's options that a worker may set (socket_options.h) are as those of a new socket. */
void kh_listener_reset(int listener);

struct kh_peer {
	pid_t pid; /* as SO_PEERCRED gave it; 0 where unknown */
	uid_t uid;
	gid_t gid;
	uint32_t cid;			      /* of vsock; else 0, which is nobody's */
	char address[KH_SOCKADDR_TEXT_BYTES]; /* of TCP, "vsock:CID"; else "" */
};

enum kh_accept { KH_ACCEPT_GOT = 1, KH_ACCEPT_AGAIN, KH_ACCEPT_RETRY_LATER, KH_ACCEPT_BROKEN };
/* accept4 with the peer noted. RETRY_LATER: out of descriptors or memory; the caller waits a
 * moment, the listener stays. BROKEN: not a listening socket any more. */
enum kh_accept kh_listener_accept(int listener, int *fd, struct kh_peer *peer);

#endif
