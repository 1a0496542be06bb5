/*
 * dynamic_sandbox_check.c - checks whether a dynamic sandbox may be added; logs additions and
 * removals
 *
 * A worker that was taken over can claim to act for any user. So this is checked for every request:
 * the tenant is in the configuration; the user may use it, and may give the socket that owner and
 * mode; the names are valid names of folders. The number of sandboxes, and the memory that the
 * keeper needs for them, are bounded.
 */

#include "dynamic_sandboxes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/lru.h>

#include "keeper_internal.h"

/* As many descriptors as there may be, and how many of them dynamic sandboxes get: what is not
 * theirs comes off first. */
static size_t find_most(size_t n_listeners)
{
	const rlim_t others = 64 + 2 * (rlim_t)n_listeners;
	struct rlimit limit = { .rlim_cur = 1024, .rlim_max = 1024 };
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		rlim_t before = limit.rlim_cur;
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
			limit.rlim_cur = before;
	}
	rlim_t share = limit.rlim_cur / 8 * 5;
	share = share > others ? share - others : 0;
	return share < KH_LIMIT_DYNAMIC_SANDBOXES ? (size_t)share : KH_LIMIT_DYNAMIC_SANDBOXES;
}

bool kh_dynamic_sandbox_is_configured(const struct kh_config *config, size_t tenant, const char *id)
{
	for (size_t i = 0; i < config->n_listeners; i++)
		if (config->listeners[i].tenant == tenant &&
		    strcmp(config->listeners[i].sandbox, id) == 0)
			return true;
	return false;
}

/* One tenant leaves the others a quarter, however little room there is. */
static bool is_share_full(const struct kh_registry *reg, const struct kh_registry_share *share,
			  const struct kh_dynamic_sandbox_wish *wish)
{
	return share->count >= KH_LIMIT_DYNAMIC_SANDBOXES_PER_TENANT ||
	       share->count + share->held + (wish->pid ? 2 : 1) > reg->most / 4 * 3;
}

/* For one more: of descriptors, and of what the keeper remembers. */
static bool is_room(struct kh_registry *reg, const struct kh_config *config,
		    const struct kh_dynamic_sandbox_wish *wish, struct kh_err *err)
{
	const struct kh_registry_share *share =
		kh_lru_get(reg->by_tenant, kh_slice_str(wish->tenant));
	size_t narrow = share ? share->narrow_bytes : 0;

	reg->most = find_most(config->n_listeners);
	if (reg->count + reg->held + (wish->pid ? 2 : 1) > reg->most)
		return kh_err_set(
			err, KH_ERR_LIMIT,
			"there are %zu sandboxes, and no more than %zu may be (%s): remove some "
			"first",
			reg->count, reg->most,
			reg->most < KH_LIMIT_DYNAMIC_SANDBOXES ? "RLIMIT_NOFILE" : "of a daemon");
	if (share && is_share_full(reg, share, wish))
		return kh_err_set(
			err, KH_ERR_LIMIT,
			"the tenant has %zu sandboxes, and no more may be (%s): remove some first",
			share->count,
			share->count < KH_LIMIT_DYNAMIC_SANDBOXES_PER_TENANT
				? "three quarters of the room that RLIMIT_NOFILE leaves"
				: "of a tenant");
	if (narrow + wish->narrow_len > KH_LIMIT_NARROWINGS_PER_TENANT_BYTES ||
	    reg->narrow_bytes + wish->narrow_len > KH_LIMIT_NARROWINGS_BYTES)
		return kh_err_set(
			err, KH_ERR_LIMIT,
			"narrow: the sandboxes that are there have so many rules of their "
			"own that there is no room for more: remove some first");
	return true;
}

enum kh_dynamic_sandbox_result kh_dynamic_sandbox_check(struct kh_registry *reg,
							const struct kh_config *config,
							const struct kh_dynamic_sandbox_wish *wish,
							struct kh_err *err)
{
	int tenant = kh_config_tenant(config, wish->tenant);
	if (reg->busy) {
		kh_err_set(err, KH_ERR_SYSTEM, "not now: %s", reg->busy);
		return KH_DYNAMIC_SANDBOX_BUSY;
	}
	if (tenant < 0 || !config->admin.sandboxes) {
		kh_err_set(err, KH_ERR_CONFIG, "no tenant is called \"%s\"", wish->tenant);
		return KH_DYNAMIC_SANDBOX_UNKNOWN;
	}
	if (kh_dynamic_sandbox_is_configured(config, (size_t)tenant, wish->id)) {
		kh_err_set(err, KH_ERR_CONFIG,
			   "the configuration has a sandbox \"%s\" of the tenant \"%s\"", wish->id,
			   wish->tenant);
		return KH_DYNAMIC_SANDBOX_EXISTS;
	}
	char room[KH_DYNAMIC_SANDBOX_NAME_BYTES];
	if (kh_lru_get(reg->by_name, kh_dynamic_sandbox_name(wish->tenant, wish->id, room))) {
		kh_err_set(err, KH_ERR_CONFIG,
			   "there is a sandbox \"%s\" of the tenant \"%s\" already (remove it "
			   "first, or choose another id)",
			   wish->id, wish->tenant);
		return KH_DYNAMIC_SANDBOX_EXISTS;
	}
	if (kh_dynamic_sandbox_judge(config, geteuid(), wish, err) != KH_DYNAMIC_SANDBOX_ALLOWED)
		return KH_DYNAMIC_SANDBOX_REFUSED;
	return is_room(reg, config, wish, err) ? KH_DYNAMIC_SANDBOX_OK : KH_DYNAMIC_SANDBOX_FULL;
}

/* Only the worker can say who asked. */
static void say(const struct kh_registry_entry *entry, const char *what, uid_t uid, uint32_t pid,
		pid_t worker)
{
	kh_child_log_charged(
		KH_LOG_INFO,
		"sandbox %s of tenant %s: %s for user %u (process %u), as worker %ld says",
		kh_esc_str(entry->wish.id), kh_esc_str(entry->wish.tenant), what, (unsigned)uid,
		(unsigned)pid, (long)worker);
}

void kh_dynamic_sandbox_say_added(const struct kh_registry_entry *entry, pid_t worker)
{
	say(entry, "added", entry->wish.asker, entry->wish.asker_pid, worker);
}

void kh_dynamic_sandbox_say_removed(const struct kh_registry_entry *entry, uid_t uid, uint32_t pid,
				    pid_t worker)
{
	if (uid != KH_DYNAMIC_SANDBOX_NO_UID)
		say(entry, "removed", uid, pid, worker);
	else
		kh_dynamic_sandbox_say_ended(entry,
					     "removed, since whoever asked for it has gone away");
}

void kh_dynamic_sandbox_say_ended(const struct kh_registry_entry *entry, const char *why)
{
	kh_child_log_charged(KH_LOG_INFO, "sandbox %s of tenant %s: %s", kh_esc_str(entry->wish.id),
			     kh_esc_str(entry->wish.tenant), why);
}
