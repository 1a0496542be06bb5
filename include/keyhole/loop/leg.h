/* leg.h - a connection with its output buffer */
#ifndef KEYHOLE_LOOP_LEG_H
#define KEYHOLE_LOOP_LEG_H

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/tls/tls.h>

struct kh_leg {
	struct kh_stream *stream; /* NULL: not connected */
	struct kh_buf out;
	uint64_t written_bytes;
	bool failed; /* a write failed: nothing more is written */
};

/* From HIGH_BYTES of output on, the other side is not read (back-pressure); READ_BYTES is the size
 * of one read. */
enum { KH_LEG_HIGH_BYTES = KH_LIMIT_RELAY_BYTES, KH_LEG_READ_BYTES = 16 * 1024 };

void kh_leg_init(struct kh_leg *leg, bool wiping);
void kh_leg_fini(struct kh_leg *leg);
/* Buffers a small piece until kh_leg_flush. Of a large one (8 KiB or more) it first flushes, then
 * writes at once what fits, and buffers the rest. Return: false: the connection failed, the
 * buffer's cap is reached, or no hidden memory. */
bool kh_leg_put(struct kh_leg *leg, struct kh_slice bytes);
/* Writes what is buffered, as far as the connection takes it. Return: false: the connection
 * failed. */
bool kh_leg_flush(struct kh_leg *leg);
/* Call it before a credential is put: the buffer is hidden memory (hidden.h) until it is empty.
 * kh_leg_put does it by itself for bytes that are in hidden memory. Return: false without
 * memory. */
bool kh_leg_hide(struct kh_leg *leg);
/* The position after everything that was put: how many bytes, since the beginning. */
uint64_t kh_leg_position(const struct kh_leg *leg);
/* Removes what was put after `position`. Return: false: some of it has been written, or the
 * connection failed. */
bool kh_leg_rewind(struct kh_leg *leg, uint64_t position);
static inline bool kh_leg_is_full(const struct kh_leg *leg)
{
	return kh_buf_len(&leg->out) >= KH_LEG_HIGH_BYTES;
}

#endif
