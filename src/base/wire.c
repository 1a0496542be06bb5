/* wire.c - integers in network byte order, strings after their length; a reader that trusts nothing
 */
#include <keyhole/base/wire.h>

#include <stdlib.h>

/* The length that stands for NULL, so that NULL and "" stay apart. */
static const uint32_t null_str = UINT32_MAX;

static bool put_int(struct kh_buf *buf, uint64_t value, unsigned bytes)
{
	unsigned char out[8];
	for (unsigned i = 0; i < bytes; i++)
		out[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
	return kh_buf_append(buf, out, bytes);
}

bool kh_wire_put_u8(struct kh_buf *buf, uint8_t value)
{
	return put_int(buf, value, 1);
}

bool kh_wire_put_u16(struct kh_buf *buf, uint16_t value)
{
	return put_int(buf, value, 2);
}

bool kh_wire_put_u32(struct kh_buf *buf, uint32_t value)
{
	return put_int(buf, value, 4);
}

bool kh_wire_put_u64(struct kh_buf *buf, uint64_t value)
{
	return put_int(buf, value, 8);
}

bool kh_wire_put_bytes(struct kh_buf *buf, struct kh_slice bytes)
{
	if (bytes.len >= null_str || kh_buf_room(buf) < 4 || kh_buf_room(buf) - 4 < bytes.len)
		return false;
	size_t before = kh_buf_len(buf);
	if (kh_wire_put_u32(buf, (uint32_t)bytes.len) && kh_buf_append_slice(buf, bytes))
		return true;
	kh_buf_truncate(buf, before); /* no memory half-way: all or nothing */
	return false;
}

bool kh_wire_put_str(struct kh_buf *buf, const char *str)
{
	if (!str)
		return kh_wire_put_u32(buf, null_str);
	return kh_wire_put_bytes(buf, kh_slice_str(str));
}

/* Takes `len` bytes off the front, or marks the reader bad. */
static struct kh_slice take(struct kh_wire_reader *r, size_t len)
{
	if (r->bad || r->rest.len < len) {
		r->bad = true;
		r->rest = (struct kh_slice){ "", 0 };
		return r->rest;
	}
	struct kh_slice out = kh_slice_sub(r->rest, 0, len);
	r->rest = kh_slice_sub(r->rest, len, r->rest.len);
	return out;
}

static uint64_t take_int(struct kh_wire_reader *r, unsigned bytes)
{
	struct kh_slice in = take(r, bytes);
	uint64_t value = 0;
	for (size_t i = 0; i < in.len; i++)
		value = value << 8 | (unsigned char)in.ptr[i];
	return value;
}

uint8_t kh_wire_u8(struct kh_wire_reader *r)
{
	return (uint8_t)take_int(r, 1);
}

uint16_t kh_wire_u16(struct kh_wire_reader *r)
{
	return (uint16_t)take_int(r, 2);
}

uint32_t kh_wire_u32(struct kh_wire_reader *r)
{
	return (uint32_t)take_int(r, 4);
}

uint64_t kh_wire_u64(struct kh_wire_reader *r)
{
	return take_int(r, 8);
}

struct kh_slice kh_wire_bytes(struct kh_wire_reader *r)
{
	/* A NULL's length is longer than any input, so it is bad here by itself. */
	return take(r, kh_wire_u32(r));
}

char *kh_wire_str(struct kh_wire_reader *r)
{
	uint32_t len = kh_wire_u32(r);
	if (r->bad || len == null_str)
		return NULL;
	struct kh_slice in = take(r, len);
	if (r->bad)
		return NULL;
	char *copy = kh_slice_dup(in);
	if (!copy) /* a NUL inside, or no memory */
		(void)take(r, SIZE_MAX);
	return copy;
}

uint32_t kh_wire_count(struct kh_wire_reader *r, uint32_t most)
{
	uint32_t n = kh_wire_u32(r);
	/* No element is shorter than a byte: nobody allocates for more than can be there. */
	if (n > most || n > r->rest.len)
		(void)take(r, SIZE_MAX);
	return r->bad ? 0 : n;
}

bool kh_wire_done(const struct kh_wire_reader *r)
{
	return !r->bad && r->rest.len == 0;
}
