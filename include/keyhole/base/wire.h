/* wire.h - the encoding of messages between keyhole's processes */
#ifndef KEYHOLE_BASE_WIRE_H
#define KEYHOLE_BASE_WIRE_H

#include <stdint.h>

#include <keyhole/base/buf.h>

/* Integers are in network byte order. A string is a u32 length and its bytes. Writers return false
 * as kh_buf_append does. */
bool kh_wire_put_u8(struct kh_buf *buf, uint8_t value);
bool kh_wire_put_u16(struct kh_buf *buf, uint16_t value);
bool kh_wire_put_u32(struct kh_buf *buf, uint32_t value);
bool kh_wire_put_u64(struct kh_buf *buf, uint64_t value);
bool kh_wire_put_bytes(struct kh_buf *buf, struct kh_slice bytes);
/* NULL and "" stay different. */
bool kh_wire_put_str(struct kh_buf *buf, const char *str);

/* A reader over bytes that must outlive it. After the first value that does not fit, `bad` is set
 * and stays set, and every read gives 0, the empty view or NULL. So one check at the end is enough.
 */
struct kh_wire_reader {
	struct kh_slice rest;
	bool bad;
};

uint8_t kh_wire_u8(struct kh_wire_reader *r);
uint16_t kh_wire_u16(struct kh_wire_reader *r);
uint32_t kh_wire_u32(struct kh_wire_reader *r);
uint64_t kh_wire_u64(struct kh_wire_reader *r);
struct kh_slice kh_wire_bytes(struct kh_wire_reader *r);
/* A NUL-terminated copy on the heap, the caller's; NULL if NULL was put, or if the reader is `bad`
 * (also without memory, or if the string holds a NUL). */
char *kh_wire_str(struct kh_wire_reader *r);
/* How many elements follow: a u32. The reader is bad if that is more than `most`, or more than the
 * bytes left. */
uint32_t kh_wire_count(struct kh_wire_reader *r, uint32_t most);
/* Return: true: all values fitted, and no bytes are left. */
bool kh_wire_done(const struct kh_wire_reader *r);

#endif
