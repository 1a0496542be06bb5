/* events.h - decisions, passed from an event thread to watchers (`keyhole ctl events`) */
#ifndef KEYHOLE_LOOP_EVENTS_H
#define KEYHOLE_LOOP_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>

/*
 * One ring buffer per event thread: the thread writes, the admin thread reads, and neither ever
 * waits for the other. A record can be read once it is published, which is when it is in the
 * journal. A record for which there is no room is dropped and counted.
 *
 * A ring is made when somebody watches for the first time, and lives until its thread ends. While
 * nobody watches, `watched` is false, and the event thread only reads that flag.
 */
struct kh_events {
	_Alignas(64) atomic_uint_fast64_t published;
	uint64_t filled; /* only for the writer: published, plus what waits for the journal */
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
/* Puts a record's body, as in the journal, with its tenant and sandbox (copied). */
void kh_events_put(struct kh_events *events, const char *tenant, const char *sandbox,
		   struct kh_slice record);
void kh_events_publish(struct kh_events *events);

/* The reader's side, one thread. */
/* Skips what has been published so far. */
void kh_events_skip(struct kh_events *events);
/* Takes the next one. Replaces the content of `room`; the views into it last until the next call.
 * Return: false: there is none (or no memory for it). */
struct kh_event {
	struct kh_slice tenant, sandbox, record;
};
bool kh_events_take(struct kh_events *events, struct kh_buf *room, struct kh_event *out);
/* How many were dropped since the last call. */
uint64_t kh_events_lost(struct kh_events *events);

#endif
