/* dialer.h - a TCP connection to the first address that answers (RFC 8305) */
#ifndef KEYHOLE_NET_DIALER_H
#define KEYHOLE_NET_DIALER_H

#include <keyhole/base/charge.h>
#include <keyhole/net/geo.h>
#include <keyhole/net/resolver.h>

struct kh_dial;

/* The geo lists that an address must pass (kh_geo_allows). */
struct kh_dial_geo {
	struct kh_geo *db; /* NULL: no database */
	struct kh_geo_levels levels;
};

/* The end of a dial. `fd` is connected, non-blocking, TCP_NODELAY and close-on-exec, and the callee
 * owns it; or -1 with `err`. `peer` is the address that was dialled (NULL on error). Called once,
 * never before kh_dial_start has returned; the dial has been freed by then. */
typedef void kh_dial_cb(int fd, const struct kh_sockaddr *peer, const struct kh_err *err,
			void *arg);

/*
 * Dials the first address that answers; copies `addresses` and `allow` (as in guard.h). The guard
 * checks every address right before connect(2), and again with getpeername, whatever was checked
 * elsewhere; it does not check pinned addresses. Attempts start 250 ms apart. If the guard refuses
 * all: ADDRESS_PROHIBITED, with the class. Return: NULL without memory.
 *
 * `geo` (NULL: not checked) is checked at the same two points, for pinned addresses too. The dial
 * holds a reference to the database; the lists must outlive the dial. If it refuses all:
 * GEO_PROHIBITED.
 */
struct kh_dial *kh_dial_start(struct event_base *base, const struct kh_addresses *addresses,
			      const struct kh_cidr *allow, size_t n_allow,
			      const struct kh_dial_geo *geo, uint32_t timeout_ms, kh_dial_cb *cb,
			      void *arg);
/*
 * Charges `account` from now on for the sockets of the dial: one descriptor for each attempt in
 * progress except one, which whoever began the dial has been charged for. If the account has no
 * room for a further attempt, the dial waits for those in progress, and the oldest is given up
 * after its time. If the charge moves from another account and this one has less room, the oldest
 * attempts end. NULL: nobody is charged, as at the beginning.
 */
void kh_dial_charge(struct kh_dial *dial, struct kh_account *account);
void kh_dial_cancel(struct kh_dial *dial);

#endif
