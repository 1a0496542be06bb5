/* dialer.h - a TCP connection to the first address that answers (RFC 8305) */
#ifndef KEYHOLE_NET_DIALER_H
#define KEYHOLE_NET_DIALER_H

#include <keyhole/base/charge.h>
#include <keyhole/net/geo.h>
#include <keyhole/net/resolver.h>

struct kh_dial;

/* Where an address has to lie. */
struct kh_dial_geo {
	struct kh_geo *db; /* NULL: there is none */
	struct kh_geo_levels levels;
};

/* `fd` is connected, non-blocking, TCP_NODELAY, close-on-exec, and now the callee's; or -1 with
 * `err`. `peer` is the address that was dialled. Never called before kh_dial_start has returned. */
typedef void kh_dial_cb(int fd, const struct kh_sockaddr *peer, const struct kh_err *err,
			void *arg);

/*
 * The guard is asked for every address right before connect(2), and once more with getpeername: a
 * list that passed the guard somewhere else does not count. Attempts start 250 ms apart. All
 * refused: ADDRESS_PROHIBITED, naming the class. `allow` as in guard.h; not asked for pinned
 * addresses.
 *
 * `geo` is asked in the same places, for pinned addresses too; NULL: it is not. The database is
 * referenced, the lists outlive the dial. GEO_PROHIBITED where it left none.
 */
struct kh_dial *kh_dial_start(struct event_base *base, const struct kh_addresses *addresses,
			      const struct kh_cidr *allow, size_t n_allow,
			      const struct kh_dial_geo *geo, uint32_t timeout_ms, kh_dial_cb *cb,
			      void *arg);
/*
 * From now on `account` is charged for the sockets of the dial: one descriptor for each attempt
 * under way but one, which whoever began the dial has paid for. A further attempt that the account
 * has no room for is not made: those under way are waited for, and the oldest gives way once it
 * has had its time. Where another account was charged, and this one has no room for as many, the
 * oldest end. NULL: nobody is charged, as from the beginning.
 */
void kh_dial_charge(struct kh_dial *dial, struct kh_account *account);
void kh_dial_cancel(struct kh_dial *dial);

#endif
