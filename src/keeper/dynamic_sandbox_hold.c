/*
 * dynamic_sandbox_hold.c - dynamic sandboxes that end with a process: the keeper watches its pidfd
 *
 * epoll goes on watching a closed descriptor while another process has the same open file: the
 * other keeper in a handover, or a child between fork and exec. So the descriptor is always removed
 * from the epoll set before it is closed. And the event data is a number, never a pointer: an event
 * for an entry that is gone finds nothing, and then the epoll set is made again.
 */

#include "dynamic_sandboxes.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/lru.h>

static void keep_entry(void *value)
{
	(void)value; /* it is by_name's */
}

static struct kh_slice key_of(const uint64_t *number)
{
	return kh_slice_of((const char *)number, sizeof(*number));
}

bool kh_dynamic_sandbox_holds_open(struct kh_registry *reg)
{
	reg->by_number = kh_lru_new(KH_LIMIT_DYNAMIC_SANDBOXES, keep_entry);
	return reg->by_number != NULL;
}

bool kh_dynamic_sandbox_hold(struct kh_registry_entry *entry, struct kh_err *err)
{
	entry->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)entry->wish.pid, 0);
	if (entry->pidfd >= 0)
		return true;
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "hold");
	/* One answer, whatever there may be now under that number. */
	return kh_err_set(err, KH_ERR_USAGE, "hold: the process that connected has ended");
}

static bool watch(struct kh_registry *reg, struct kh_registry_entry *entry, struct kh_err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = entry->number };
	if (reg->watch < 0)
		reg->watch = epoll_create1(EPOLL_CLOEXEC);
	if (reg->watch < 0 || epoll_ctl(reg->watch, EPOLL_CTL_ADD, entry->pidfd, &event) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "process %u", entry->wish.pid);
	entry->watch = reg->watch;
	return true;
}

bool kh_dynamic_sandbox_hold_watch(struct kh_registry *reg, struct kh_registry_entry *entry,
				   struct kh_err *err)
{
	struct kh_slice key = key_of(&entry->number);
	if (kh_lru_get(reg->by_number, key))
		return kh_err_set(err, KH_ERR_INTERNAL, "two sandboxes have the number %llu",
				  (unsigned long long)entry->number);
	return (kh_lru_put(reg->by_number, key, entry) ||
		kh_err_set(err, KH_ERR_NO_MEMORY, "sandboxes: no memory")) &&
	       (entry->pidfd < 0 || watch(reg, entry, err));
}

void kh_dynamic_sandbox_hold_forget(struct kh_registry *reg, const struct kh_registry_entry *entry)
{
	struct kh_slice key = key_of(&entry->number);
	if (kh_lru_get(reg->by_number, key) == entry)
		(void)kh_lru_take(reg->by_number, key);
}

void kh_dynamic_sandbox_hold_end(struct kh_registry_entry *entry)
{
	if (entry->watch >= 0)
		(void)epoll_ctl(entry->watch, EPOLL_CTL_DEL, entry->pidfd, NULL);
	entry->watch = -1;
	if (entry->pidfd >= 0)
		(void)close(entry->pidfd);
	entry->pidfd = -1;
}

static void drop_watch(struct kh_registry *reg)
{
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next)
		kh_container_of(node, struct kh_registry_entry, link)->watch = -1;
	if (reg->watch >= 0)
		(void)close(reg->watch);
	reg->watch = -1;
}

/* Return: all that are held are watched, by another epoll; else none is. */
static bool watch_anew(struct kh_registry *reg)
{
	struct kh_err err = KH_ERR_INIT;
	drop_watch(reg);
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next) {
		struct kh_registry_entry *entry =
			kh_container_of(node, struct kh_registry_entry, link);
		if (entry->pidfd < 0 || watch(reg, entry, &err))
			continue;
		kh_log_error("sandboxes that are held are not watched: %s (it is tried again)",
			     err.text);
		drop_watch(reg);
		return false;
	}
	return true;
}

struct kh_registry_entry *kh_dynamic_sandbox_hold_ended(struct kh_registry *reg)
{
	struct epoll_event event;
	while ((reg->watch >= 0 || (reg->held && watch_anew(reg))) &&
	       epoll_wait(reg->watch, &event, 1, 0) == 1) {
		uint64_t number = event.data.u64;
		struct kh_registry_entry *entry = kh_lru_get(reg->by_number, key_of(&number));
		if (entry && entry->pidfd >= 0)
			return entry;
		/* It can't be taken out by itself: its descriptor is closed. */
		if (!watch_anew(reg))
			break;
	}
	return NULL;
}
