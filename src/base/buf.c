/*
 * buf.c - the capped byte queue
 *
 * Content is in data[head, tail). Room at the tail comes first from consumed bytes at the head (the
 * content moves down), then from a larger block, doubled each time up to the cap. There is always
 * room for one byte more than the content, so that kh_buf_cstr and vsnprintf have a place for their
 * NUL even in a full buffer.
 */
#include <keyhole/base/buf.h>

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/block.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/secret.h>

/* A buffer is small, or it has a block of the thread's store (block.h): nothing in between, so that
 * a head that is written line by line moves once. */
enum { FIRST_ALLOC_BYTES = 256, SECOND_ALLOC_BYTES = 4096 };

static size_t cap_of(size_t cap_bytes)
{
	size_t most = SIZE_MAX / 4; /* no sum of two lengths overflows */
	return cap_bytes < most ? cap_bytes : most;
}

static void init(struct kh_buf *buf, size_t cap_bytes, bool wipe)
{
	*buf = (struct kh_buf){ .cap = cap_of(cap_bytes), .wipe = wipe, .hide = wipe };
}

void kh_buf_init(struct kh_buf *buf, size_t cap_bytes)
{
	init(buf, cap_bytes, false);
}

void kh_buf_init_wiping(struct kh_buf *buf, size_t cap_bytes)
{
	init(buf, cap_bytes, true);
}

bool kh_buf_set_cap(struct kh_buf *buf, size_t cap_bytes)
{
	if (kh_buf_len(buf) > cap_bytes)
		return false;
	buf->cap = cap_of(cap_bytes);
	return true;
}

static void drop_block(struct kh_buf *buf)
{
	/* All of the block, not only the content: what was reserved and not committed counts too.
	 */
	if (buf->wipe && buf->data)
		kh_secret_wipe(buf->data, buf->alloc);
	if (buf->wipe)
		kh_hidden_give(buf->data);
	else
		kh_block_give(buf->data);
	buf->data = NULL;
	buf->alloc = 0;
}

void kh_buf_fini(struct kh_buf *buf)
{
	drop_block(buf);
	buf->head = buf->tail = 0;
}

/* Moves the content to the block's beginning. */
static void compact(struct kh_buf *buf)
{
	size_t len = kh_buf_len(buf);
	if (len)
		memmove(buf->data, buf->data + buf->head, len);
	if (buf->wipe)
		kh_secret_wipe(buf->data + len, buf->tail - len);
	buf->head = 0;
	buf->tail = len;
}

/* Into another block. Return: false without memory, or where the content and a NUL do not fit. */
static bool move(struct kh_buf *buf, size_t size)
{
	size_t len = kh_buf_len(buf);
	if (size < len + 1)
		return false;
	char *fresh = buf->hide ? kh_hidden_get(&size, KH_HIDDEN_BRIEF) : kh_block_get(&size);
	if (!fresh)
		return false;
	if (len)
		memcpy(fresh, buf->data + buf->head, len);
	drop_block(buf);
	buf->data = fresh;
	buf->alloc = size;
	buf->head = 0;
	buf->tail = len;
	return true;
}

static bool grow(struct kh_buf *buf, size_t need)
{
	size_t most = buf->cap + 1;
	size_t size = buf->alloc * 2;
	if (size < need)
		size = need;
	if (size <= FIRST_ALLOC_BYTES)
		size = FIRST_ALLOC_BYTES;
	else if (size < SECOND_ALLOC_BYTES)
		size = SECOND_ALLOC_BYTES;
	if (size > most)
		size = most;
	return size >= need && move(buf, size);
}

bool kh_buf_hide(struct kh_buf *buf)
{
	buf->hide = true;
	if (!buf->data || kh_hidden_has(buf->data))
		return true;
	if (kh_buf_len(buf) == 0) {
		kh_buf_release(buf);
		return true;
	}
	return move(buf, buf->alloc);
}

void kh_buf_hide_no_more(struct kh_buf *buf)
{
	buf->hide = false;
}
/* `len` bytes and a NUL behind the tail. */
static bool make_room(struct kh_buf *buf, size_t len)
{
	if (len > kh_buf_room(buf))
		return false;
	if (buf->alloc - buf->tail > len)
		return true;
	size_t need = kh_buf_len(buf) + len + 1;
	/* Moving the content pays when at least half of the block is won by it; a queue that is
	   always nearly full would otherwise move everything for every few bytes. */
	if (need <= buf->alloc && (buf->head >= buf->alloc / 2 || buf->alloc > buf->cap)) {
		compact(buf);
		return true;
	}
	return grow(buf, need);
}

char *kh_buf_reserve(struct kh_buf *buf, size_t len)
{
	return make_room(buf, len) ? buf->data + buf->tail : NULL;
}

void kh_buf_commit(struct kh_buf *buf, size_t len)
{
	size_t most = buf->alloc > buf->tail ? buf->alloc - buf->tail - 1 : 0;
	buf->tail += len < most ? len : most;
}

bool kh_buf_append_growing(struct kh_buf *buf, const void *bytes, size_t len)
{
	if (!make_room(buf, len))
		return false;
	if (len)
		memcpy(buf->data + buf->tail, bytes, len);
	buf->tail += len;
	return true;
}

bool kh_buf_append_u64(struct kh_buf *buf, unsigned long long value)
{
	char digits[KH_U64_DIGITS];
	return kh_buf_append_slice(buf, kh_slice_from_u64(value, digits));
}

bool kh_buf_printf(struct kh_buf *buf, const char *fmt, ...)
{
	if (!make_room(buf, 0))
		return false;
	va_list args, again;
	va_start(args, fmt);
	va_copy(again, args);
	int need = vsnprintf(buf->data + buf->tail, buf->alloc - buf->tail, fmt, args);
	bool ok = need >= 0;
	if (ok && (size_t)need >= buf->alloc - buf->tail) {
		ok = make_room(buf, (size_t)need) &&
		     vsnprintf(buf->data + buf->tail, (size_t)need + 1, fmt, again) == need;
	}
	/* The NUL of the first try must not count, and the cap holds even where the block has more
	   room than that. */
	if (ok && (size_t)need > kh_buf_room(buf))
		ok = false;
	if (ok)
		buf->tail += (size_t)need;
	else if (buf->wipe)
		kh_secret_wipe(buf->data + buf->tail, buf->alloc - buf->tail);
	va_end(again);
	va_end(args);
	return ok;
}

void kh_buf_consume(struct kh_buf *buf, size_t len)
{
	size_t most = kh_buf_len(buf);
	if (len > most)
		len = most;
	if (buf->wipe && len)
		kh_secret_wipe(buf->data + buf->head, len);
	buf->head += len;
	if (buf->head == buf->tail)
		buf->head = buf->tail = 0;
}

void kh_buf_truncate(struct kh_buf *buf, size_t len)
{
	size_t now = kh_buf_len(buf);
	if (len >= now)
		return;
	if (buf->wipe)
		kh_secret_wipe(buf->data + buf->head + len, now - len);
	buf->tail = buf->head + len;
	if (len == 0)
		buf->head = buf->tail = 0;
}

void kh_buf_clear(struct kh_buf *buf)
{
	kh_buf_truncate(buf, 0);
}

void kh_buf_release(struct kh_buf *buf)
{
	if (kh_buf_len(buf))
		return;
	drop_block(buf);
	buf->head = buf->tail = 0;
}

void kh_buf_shrink(struct kh_buf *buf)
{
	size_t len = kh_buf_len(buf);
	size_t size = len < FIRST_ALLOC_BYTES ? FIRST_ALLOC_BYTES : len + 1;
	if (len == 0)
		kh_buf_release(buf);
	else if (buf->alloc / 2 > size)
		(void)move(buf, size);
}

const char *kh_buf_cstr(struct kh_buf *buf)
{
	if (!make_room(buf, 0))
		return NULL;
	buf->data[buf->tail] = 0;
	return buf->data + buf->head;
}
