/* wire.h - the encoding of what keeper, worker and launcher tell each other */
#ifndef KEYHOLE_BASE_WIRE_H
#define KEYHOLE_BASE_WIRE_H

#include <stdint.h>

#include <keyhole/base/buf.h>

/* Integers in network order; a string is a u32 length and its bytes. Writers return false as
 * kh_buf. */
bool kh_wire_put_u8(struct kh_buf *buf, uint8_t value);
bool kh_wire_put_u16(struct kh_buf *buf, uint16_t value);
bool kh_wire_put_u32(struct kh_buf *buf, uint32_t value);
bool kh_wire_put_u64(struct kh_buf *buf, uint64_t value);
bool kh_wire_put_bytes(struct kh_buf *buf, struct kh_slice bytes);
/* NULL is kept apart from "". */
bool kh_wire_put_str(struct kh_buf *buf, const char *str);

/* A reader over bytes that outlive it. After the first value that does not fit, `bad` is set, stays
 * set, and every further read gives 0, the empty view or NULL: check once, at the end. */
struct kh_wire_reader {
	struct kh_slice rest;
	bool bad;
};

uint8_t kh_wire_u8(struct kh_wire_reader *r);
uint16_t kh_wire_u16(struct kh_wire_reader *r);
uint32_t kh_wire_u32(struct kh_wire_reader *r);
uint64_t kh_wire_u64(struct kh_wire_reader *r);
struct kh_slice kh_wire_bytes(struct kh_wire_reader *r);
/* A terminated copy on the heap, or NULL where NULL was put (or `bad`). */
char *kh_wire_str(struct kh_wire_reader *r);
/* How many elements follow: a u32, refused when more than `most` or than the bytes left could hold.
 */
uint32_t kh_wire_count(struct kh_wire_reader *r, uint32_t most);
/* Return: nothing was bad and nothing is left. */
bool kh_wire_done(const struct kh_wire_reader *r);

#endif
