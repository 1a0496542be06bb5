/*
 * events.c - a ring of records between an event thread and the admin thread
 *
 * Positions only grow; the offset in the ring is the position modulo its size. An entry is a
 * length, the names of tenant and sandbox, each with its NUL, and the record. An entry may wrap
 * around the end at any byte.
 */

#include <keyhole/loop/events.h>

#include <stdlib.h>
#include <string.h>

enum { RING = KH_LIMIT_EVENTS_RING_BYTES };
_Static_assert((RING & (RING - 1)) == 0, "a power of two");

struct kh_events *kh_events_new(void)
{
	struct kh_events *events = aligned_alloc(_Alignof(struct kh_events), sizeof(*events));

	if (!events)
		return NULL;
	atomic_init(&events->published, 0);
	atomic_init(&events->lost, 0);
	atomic_init(&events->watched, false);
	atomic_init(&events->taken, 0);
	events->filled = 0;
	return events;
}

static void copy_in(struct kh_events *events, uint64_t at, const void *from, size_t len)
{
	size_t offset = at % RING, first = len < RING - offset ? len : RING - offset;

	memcpy(events->bytes + offset, from, first);
	memcpy(events->bytes, (const unsigned char *)from + first, len - first);
}

static void copy_out(const struct kh_events *events, uint64_t at, void *to, size_t len)
{
	size_t offset = at % RING, first = len < RING - offset ? len : RING - offset;

	memcpy(to, events->bytes + offset, first);
	memcpy((unsigned char *)to + first, events->bytes, len - first);
}

void kh_events_put(struct kh_events *events, const char *tenant, const char *sandbox,
		   struct kh_slice record)
{
	const struct kh_slice parts[] = { kh_slice_of(tenant, strlen(tenant) + 1),
					  kh_slice_of(sandbox, strlen(sandbox) + 1), record };
	size_t len = parts[0].len + parts[1].len + parts[2].len;
	uint64_t room = RING - (events->filled -
				atomic_load_explicit(&events->taken, memory_order_acquire));
	uint32_t length = (uint32_t)len;

	if (sizeof(length) + len > room) {
		atomic_fetch_add_explicit(&events->lost, 1, memory_order_relaxed);
		return;
	}
	uint64_t at = events->filled;
	copy_in(events, at, &length, sizeof(length));
	at += sizeof(length);
	for (int i = 0; i < 3; i++) {
		copy_in(events, at, parts[i].ptr, parts[i].len);
		at += parts[i].len;
	}
	events->filled = at;
}

void kh_events_publish(struct kh_events *events)
{
	atomic_store_explicit(&events->published, events->filled, memory_order_release);
}

void kh_events_skip(struct kh_events *events)
{
	uint64_t published = atomic_load_explicit(&events->published, memory_order_acquire);

	atomic_store_explicit(&events->taken, published, memory_order_release);
	(void)kh_events_lost(events);
}

/* Up to a NUL, which goes as well. */
static struct kh_slice cut_name(struct kh_slice *rest)
{
	size_t end = kh_slice_find(*rest, '\0', 0);
	struct kh_slice name = kh_slice_sub(*rest, 0, end);

	*rest = kh_slice_sub(*rest, end + 1, rest->len);
	return name;
}

bool kh_events_take(struct kh_events *events, struct kh_buf *room, struct kh_event *out)
{
	uint64_t taken = atomic_load_explicit(&events->taken, memory_order_relaxed),
		 published = atomic_load_explicit(&events->published, memory_order_acquire);
	uint32_t len;

	if (taken == published)
		return false;
	copy_out(events, taken, &len, sizeof(len));
	kh_buf_clear(room);
	char *bytes = kh_buf_reserve(room, len);
	if (!bytes)
		return false;
	copy_out(events, taken + sizeof(len), bytes, len);
	kh_buf_commit(room, len);
	atomic_store_explicit(&events->taken, taken + sizeof(len) + len, memory_order_release);
	out->record = kh_buf_view(room);
	out->tenant = cut_name(&out->record);
	out->sandbox = cut_name(&out->record);
	return true;
}

uint64_t kh_events_lost(struct kh_events *events)
{
	return atomic_exchange_explicit(&events->lost, 0, memory_order_relaxed);
}
