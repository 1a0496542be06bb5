/* account.h - how much of the worker's resources each sandbox and tenant holds, and who is refused
 * more */
#ifndef KEYHOLE_BASE_ACCOUNT_H
#define KEYHOLE_BASE_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/err.h>

/*
 * Sandboxes share one worker. A resource is anything that one sandbox could use up for the others.
 * It is charged to an account before it is used. Accounts form a tree of three levels: the whole
 * worker, its tenants, their sandboxes. What a sandbox takes counts on all three.
 *
 * A resource is either held (memory, descriptors …: it is taken and given back) or spent
 * (signatures, bytes of the journal: it is never given back). Half of what was spent is forgotten
 * in each half-life. So a steady rate comes to a steady amount, and the same rule serves both
 * kinds.
 *
 * The rule is the dynamic threshold by which switches share their buffer memory (Choudhury and
 * Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). A tenant may have as much as is left of
 * the whole; a sandbox may have as much as is then left of its tenant's part. So the heaviest user
 * is refused first, something is always left for a newcomer, and nobody has to be counted: one
 * active tenant may fill a half, two a third each, n of them 1/(n + 1) each. A tenant's only
 * sandbox may have what the tenant may. One case is different: a sandbox that is the only one of
 * all may have seven eighths of the whole.
 *
 * Whatever others hold, an account may have its floor while anything is left:
 * 1/KH_ACCOUNT_TENANT_FLOOR or 1/KH_ACCOUNT_SANDBOX_FLOOR of the whole, and at least one unit.
 *
 * All functions are safe from any thread and take no lock. Two threads that ask at the same moment
 * may both be refused although one of them would have fitted. A NULL account has no bounds.
 */
enum kh_resource {
	KH_RESOURCE_MEMORY = 0, /* bytes of buffers of connections and exchanges */
	/* Descriptors of the worker: one for each connection, one for each exchange, and one for
	 * each further attempt to reach its upstream that runs beside the first. */
	KH_RESOURCE_DESCRIPTORS,
	KH_RESOURCE_LOOKUPS, /* names being resolved, until the last query to a nameserver has ended
			      */
	KH_RESOURCE_UP_WINDOW,	/* unread bytes that a shared upstream connection's windows allow */
	KH_RESOURCE_LEAVES,	/* leaves that the keeper was asked for and has not signed yet */
	KH_RESOURCE_SIGNATURES, /* leaves that the keeper signed; spent */
	KH_RESOURCE_JOURNAL,	/* bytes of records of refusals; spent */
	KH_RESOURCES
};

enum {
	KH_ACCOUNT_TENANT_FLOOR = 64,
	KH_ACCOUNT_SANDBOX_FLOOR = 256,
};

struct kh_account;

/* The account of the whole worker, with one reference. Until kh_account_bound each resource is
 * unbounded (SIZE_MAX). Return: NULL without memory. */
struct kh_account *kh_account_new_whole(void);
/* A tenant's account below the whole, or a sandbox's below a tenant's; holds a reference to
 * `parent`. Return: NULL without memory, or if `parent` is NULL. */
struct kh_account *kh_account_new(struct kh_account *parent);
struct kh_account *kh_account_ref(struct kh_account *account);
/* Everything must have been given back before the last unref. NULL is fine. */
void kh_account_unref(struct kh_account *account);
struct kh_account *kh_account_parent(const struct kh_account *account);

/* Of `limit` descriptors (RLIMIT_NOFILE), those that sandboxes share. The rest is for what belongs
 * to no sandbox: kept connections to upstreams, sockets to nameservers, the admin socket. */
static inline size_t kh_account_descriptors(size_t limit)
{
	return limit - limit / 4;
}

/* With `limit` descriptors, how many names may be resolved at a time if each may have so many
 * sockets to nameservers of its own? Their sockets must fit into half of what sandboxes do not
 * share (kept connections have the other half), so that the sockets need no bound of their own. At
 * most KH_LIMIT_RESOLVES, at least one. */
size_t kh_account_lookups(size_t limit, size_t sockets);

/* This process's hard RLIMIT_NOFILE, to which a worker raises its soft limit; at most 2^30. */
size_t kh_account_descriptor_limit(void);

/* Can a process that may have `limit` descriptors, and has `begun` already, serve `connections`
 * (the option `limits.connections`)? The daemon's log, `keyhole check` and `keyhole doctor` all ask
 * here. Return: false: err says how many fit, and how to raise the limit. */
bool kh_account_has_room_for(uint32_t connections, size_t limit, size_t begun, struct kh_err *err);

/* Sets how much of a resource there is, on the account of the whole. A bound below what is held
 * takes nothing away. For a spent resource the bound is at most KH_ACCOUNT_MOST_SPENT. */
#define KH_ACCOUNT_MOST_SPENT UINT32_MAX
void kh_account_bound(struct kh_account *whole, enum kh_resource resource, size_t most);
size_t kh_account_most(const struct kh_account *account, enum kh_resource resource);

/* Charges `amount` more to a sandbox's account: all of it or nothing. `now_ms` is monotonic and
 * used only for a spent resource. Return: false: that exceeds its share. */
bool kh_account_take(struct kh_account *account, enum kh_resource resource, size_t amount,
		     uint64_t now_ms);
/* Charges what exists already and can't be refused. Any level; not for a spent resource. */
void kh_account_put(struct kh_account *account, enum kh_resource resource, size_t amount);
/* Gives back what was taken or put. Not for a spent resource. */
void kh_account_give(struct kh_account *account, enum kh_resource resource, size_t amount);
/* Changes what the caller holds, *held, to `now`, by a take or a give. Return: false: it may not
 * grow, and nothing changed. */
bool kh_account_resize(struct kh_account *account, enum kh_resource resource, size_t *held,
		       size_t now);

/* What the account holds; of a spent resource, what is not forgotten yet. */
size_t kh_account_held(const struct kh_account *account, enum kh_resource resource,
		       uint64_t now_ms);
/* Whose share has no room for `amount` more: this sandbox's, its tenant's, or the whole. For the
 * text of a refusal. If others have given back since then, the answer is the sandbox. */
enum kh_account_level {
	KH_ACCOUNT_OF_SANDBOX = 0,
	KH_ACCOUNT_OF_TENANT,
	KH_ACCOUNT_OF_ALL,
};
enum kh_account_level kh_account_full(const struct kh_account *account, enum kh_resource resource,
				      size_t amount, uint64_t now_ms);
/* How often kh_account_take was refused for this account or one below it. */
uint64_t kh_account_refused(const struct kh_account *account, enum kh_resource resource);
/* "memory", "descriptors" … */
const char *kh_resource_name(enum kh_resource resource);

#endif
