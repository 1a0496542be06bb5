/* dynamic_sandbox_offer.c - passes dynamic sandboxes from one keeper to the next, at a handover */

#include "dynamic_sandboxes.h"

#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>

#include "handover_messages.h"

static bool offer(const struct kh_registry_entry *entry, struct kh_channel *to, struct kh_err *err)
{
	const int fds[] = { entry->fd, entry->pidfd };
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 8 * 7);
	return kh_wire_put_u64(&body, entry->number) && kh_wire_put_str(&body, entry->path) &&
	       kh_wire_put_u64(&body, entry->dev) && kh_wire_put_u64(&body, entry->ino) &&
	       kh_wire_put_u64(&body, entry->ends_ms) &&
	       kh_wire_put_u64(&body, entry->expires_ms) && kh_wire_put_u8(&body, entry->suspect) &&
	       kh_dynamic_sandbox_wish_put(&body, &entry->wish) &&
	       kh_channel_send(to, KH_HANDOVER_MSG_OFFER_DYNAMIC_SANDBOX, KH_HANDOVER_VERSION,
			       kh_buf_view(&body), fds, entry->pidfd >= 0 ? 2 : 1, err);
}

bool kh_registry_offer(const struct kh_registry *reg, struct kh_channel *to, struct kh_err *err)
{
	for (struct kh_node *node = reg->list.next; node != &reg->list; node = node->next)
		if (!offer(kh_container_of(node, struct kh_registry_entry, link), to, err))
			return false;
	return true;
}

bool kh_registry_take_offer(struct kh_registry *reg, struct kh_channel_message *message,
			    struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_registry_entry *entry = calloc(1, sizeof(*entry));
	if (!entry)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "sandboxes: no memory");
	*entry = (struct kh_registry_entry){
		.fd = -1, .pidfd = -1, .watch = -1, .number = kh_wire_u64(&r)
	};
	entry->path = kh_wire_str(&r);
	entry->dev = (dev_t)kh_wire_u64(&r);
	ino_t ino = (ino_t)kh_wire_u64(&r);
	entry->ends_ms = kh_wire_u64(&r);
	entry->expires_ms = kh_wire_u64(&r);
	entry->suspect = kh_wire_u8(&r) != 0;
	bool ok = !r.bad && entry->path && kh_dynamic_sandbox_wish_take(r.rest, &entry->wish) &&
		  message->n_fds == (entry->wish.pid ? 2 : 1);
	if (!ok) {
		kh_registry_entry_free(entry);
		return kh_err_set(err, KH_ERR_INTERNAL, "handover: the offer is not understood");
	}
	entry->ino = ino;
	entry->fd = kh_steal_fd(&message->fds[0]);
	if (entry->wish.pid)
		entry->pidfd = kh_steal_fd(&message->fds[1]);
	return kh_registry_adopt(reg, entry, err);
}
