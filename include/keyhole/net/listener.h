/* listener.h - what sandboxes connect to */
#ifndef KEYHOLE_NET_LISTENER_H
#define KEYHOLE_NET_LISTENER_H

#include <sys/stat.h>

#include <keyhole/config/config.h>

/*
 * Binds and listens (the keeper's side). Of a Unix socket: makes its folder if absent (0755), and
 * removes a dead socket of that name (a live one is an error that says who holds it). Nobody can
 * connect before mode and owner are set, since the socket is bound in a private folder and then
 * renamed. *made (NULL is fine) gets its inode. A port of vsock or TCP is just bound. Return: a
 * descriptor for the caller, close-on-exec and non-blocking; -1 with `err`.
 */
int kh_listener_open(const struct kh_listener_config *config, struct stat *made,
		     struct kh_err *err);
/* As kh_listener_open, for a Unix socket `name` in an open folder. */
int kh_listener_open_in(int dir, const char *name, const struct kh_listener_config *config,
			struct stat *made, struct kh_err *err);
/* Sets mode and owner of an open Unix socket as configured. If its path no longer leads to the
 * inode `socket` (st_dev, st_ino), it changes nothing and returns an error. */
bool kh_listener_dress(const struct kh_listener_config *config, const struct stat *socket,
		       struct kh_err *err);
/* Unlinks the socket, if `path` still leads to that inode. Return: a descriptor of its folder,
 * which the caller closes; -1: nothing was unlinked. */
int kh_listener_remove(const char *path, const struct stat *socket);

/* Has another holder of this open listener shut it down, so that nobody can connect any more? */
bool kh_listener_is_dead(int listener);
/* Closes a dead listener of a port. A worker may have turned it into a connection, whose peer could
 * keep the port busy for as long as it likes. So it is reset, and the port can be bound again. */
void kh_listener_abandon(int listener);

/* Resets the socket options that a worker may set (socket_options.h) to the values of a new
 * socket. */
void kh_listener_reset(int listener);

struct kh_peer {
	pid_t pid; /* from SO_PEERCRED; 0: unknown */
	uid_t uid;
	gid_t gid;
	uint32_t cid;			      /* of vsock; else 0, which no peer has */
	char address[KH_SOCKADDR_TEXT_BYTES]; /* of TCP; of vsock "vsock:CID"; else "" */
};

enum kh_accept { KH_ACCEPT_GOT = 1, KH_ACCEPT_AGAIN, KH_ACCEPT_RETRY_LATER, KH_ACCEPT_BROKEN };
/* accept4(2) that also fills `peer`. GOT: *fd is the caller's. RETRY_LATER: out of descriptors or
 * memory; try again after a moment. BROKEN: no longer a listening socket. */
enum kh_accept kh_listener_accept(int listener, int *fd, struct kh_peer *peer);

#endif
