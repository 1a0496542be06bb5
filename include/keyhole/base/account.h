/* account.h - how much of the worker's resources each sandbox and tenant holds, and who is refused
 */
#ifndef KEYHOLE_BASE_ACCOUNT_H
#define KEYHOLE_BASE_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/err.h>

/*
 * Sandboxes share one worker. Whatever one of them can use up for the others is a resource, and is
 * charged to an account before it is used. Accounts form a tree of three levels: the worker, its
 * tenants, their sandboxes. What a sandbox takes counts on all three.
 *
 * A resource is either held (memory, descriptors …: taken, and given back) or spent (signatures,
 * bytes of the journal). What was spent is forgotten: half of it in each half-life, so that a
 * steady rate comes to a steady amount, and the same rule serves both kinds.
 *
 * The rule is the dynamic threshold that switches share their buffer memory by (Choudhury and
 * Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): a tenant may have as much as is left of
 * the whole, and a sandbox as much as is then left of its tenant's part. So the heaviest is refused
 * first, some is always left for whoever comes next, and nobody has to be counted: one tenant
 * alone may fill half, two a third each, n of them 1/(n + 1) each. A sandbox that is its tenant's
 * only one may have what the tenant may; one without any others may have seven eighths of all.
 *
 * Whatever the others have, an account may have its floor as long as anything is left:
 * 1/KH_ACCOUNT_TENANT_FLOOR and 1/KH_ACCOUNT_SANDBOX_FLOOR of the whole, and one at least.
 *
 * All functions are safe from any thread and take no lock. Two threads that ask at the same moment
 * may both be refused where one of them would have fitted. A NULL account has no bounds.
 */
enum kh_resource {
	KH_RESOURCE_MEMORY = 0, /* bytes of buffers of connections and exchanges */
	/* Of the worker; one for each connection, one for each exchange, one for each attempt to
	 * reach its upstream that is under way beside the first. */
	KH_RESOURCE_DESCRIPTORS,
	KH_RESOURCE_LOOKUPS,	/* names that are being resolved, until no nameserver is asked */
	KH_RESOURCE_UP_WINDOW,	/* bytes of a shared upstream connection's window, unread */
	KH_RESOURCE_LEAVES,	/* that the keeper was asked for and has not signed yet */
	KH_RESOURCE_SIGNATURES, /* leaves, which the keeper signs; spent */
	KH_RESOURCE_JOURNAL,	/* bytes of records of refusals; spent */
	KH_RESOURCES
};

enum {
	KH_ACCOUNT_TENANT_FLOOR = 64,
	KH_ACCOUNT_SANDBOX_FLOOR = 256,
};

struct kh_account;

/* The whole. No bound is set: SIZE_MAX for each. With one reference; NULL without memory. */
struct kh_account *kh_account_new_whole(void);
/* A tenant's under the whole, a sandbox's under a tenant's; holds a reference to `parent`. A NULL
 * parent gives NULL. */
struct kh_account *kh_account_new(struct kh_account *parent);
struct kh_account *kh_account_ref(struct kh_account *account);
/* Nothing may be held by it any more when the last reference goes. NULL is fine. */
void kh_account_unref(struct kh_account *account);
struct kh_account *kh_account_parent(const struct kh_account *account);

/* Of so many descriptors that a process may have (RLIMIT_NOFILE): those that are shared out. The
 * rest is for what belongs to no sandbox: kept connections to upstreams, sockets to nameservers,
 * the admin socket. */
static inline size_t kh_account_descriptors(size_t limit)
{
	return limit - limit / 4;
}

/* The hard limit of this process, which a worker raises its own to; at most 2^30. */
size_t kh_account_descriptor_limit(void);

/* Is `limits.connections` within reach of a process that may have `limit` descriptors and has
 * `begun` already? The one sum for the daemon's log, `keyhole check` and `keyhole doctor`. Return:
 * false: err says by how much it is not, and what gives more. */
bool kh_account_has_room_for(uint32_t connections, size_t limit, size_t begun, struct kh_err *err);

/* Of the whole: how much there is. A lower bound than what is held takes nothing away. Of what is
 * spent: KH_ACCOUNT_MOST_SPENT at the most. */
#define KH_ACCOUNT_MOST_SPENT UINT32_MAX
void kh_account_bound(struct kh_account *whole, enum kh_resource resource, size_t most);
size_t kh_account_most(const struct kh_account *account, enum kh_resource resource);

/* For a sandbox's account: `amount` more, all of it or nothing. `now_ms` is monotonic, and only
 * looked at for what is spent. Return: false: that is beyond its share. */
bool kh_account_take(struct kh_account *account, enum kh_resource resource, size_t amount,
		     uint64_t now_ms);
/* What is there already and can't be refused: it counts all the same. Any level. */
void kh_account_put(struct kh_account *account, enum kh_resource resource, size_t amount);
/* Gives back what was taken or put. Not of what is spent. */
void kh_account_give(struct kh_account *account, enum kh_resource resource, size_t amount);
/* Brings what the caller holds, *held, to `now`. What grows is taken; what shrinks is given back.
 * Return: false: it may not grow, and nothing is changed. */
bool kh_account_resize(struct kh_account *account, enum kh_resource resource, size_t *held,
		       size_t now);

/* What it holds, or has spent and is not forgotten. */
size_t kh_account_held(const struct kh_account *account, enum kh_resource resource,
		       uint64_t now_ms);
/* Who has no room for `amount` more: the sandbox of this account, its tenant, or all together. For
 * a text, after a refusal; what others give back meanwhile can't be told apart from the sandbox's
 * own share. */
enum kh_account_level {
	KH_ACCOUNT_OF_SANDBOX = 0,
	KH_ACCOUNT_OF_TENANT,
	KH_ACCOUNT_OF_ALL,
};
enum kh_account_level kh_account_full(const struct kh_account *account, enum kh_resource resource,
				      size_t amount, uint64_t now_ms);
/* How often it was refused. */
uint64_t kh_account_refused(const struct kh_account *account, enum kh_resource resource);
/* "memory", "descriptors" … */
const char *kh_resource_name(enum kh_resource resource);

#endif
