/* events.h - decisions on their way from an event thread to those who watch (`keyhole ctl events`)
 */
#ifndef KEYHOLE_LOOP_EVENTS_H
#define KEYHOLE_LOOP_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>

/*
 * One ring a thread: the thread puts in, the admin thread takes out, and neither ever waits for the
 * other. What is put in can be taken once it is published, which is when the journal has it. What
 * finds no room is counted and gone.
 *
 * A ring is there from the first time that somebody watches to the end of its thread; while nobody
 * does, `watched` is false and an event thread does no more than look at it.
 */
struct kh_events {
	_Alignas(64) atomic_uint_fast64_t published;
	uint64_t filled; /* the thread's own: published, and what waits for the journal */
	atomic_uint_fast64_t lost;
	atomic_bool watched;
	_Alignas(64) atomic_uint_fast64_t taken;
	unsigned char bytes[KH_LIMIT_EVENTS_RING_BYTES];
};

/* Return: NULL without memory; freed by free(). */
struct kh_events *kh_events_new(void);

/* The thread's side. `events` may be NULL: nobody ever watched. */
static inline bool kh_events_is_watched(const struct kh_events *events)
{
	return events && atomic_load_explicit(&events->watched, memory_order_relaxed);
}
/* A record's body as the journal has it, and whose it is. */
void kh_events_put(struct kh_events *events, const char *tenant, const char *sandbox,
		   struct kh_slice record);
void kh_events_publish(struct kh_events *events);

/* The reader's side, one thread. */
/* What was published up to now is nobody's. */
void kh_events_skip(struct kh_events *events);
/* The next one, into `room`, which what it held before leaves. The views last until the next call.
 * Return: false: there is none (or no memory for it). */
struct kh_event {
	struct kh_slice tenant, sandbox, record;
};
bool kh_events_take(struct kh_events *events, struct kh_buf *room, struct kh_event *out);
/* How many found no room since this was asked last. */
uint64_t kh_events_lost(struct kh_events *events);

#endif
