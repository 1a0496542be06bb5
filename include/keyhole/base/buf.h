/* buf.h - a byte queue that grows up to a cap and not one byte further */
#ifndef KEYHOLE_BASE_BUF_H
#define KEYHOLE_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/slice.h>

/*
 * Bytes are appended at the tail and consumed at the head. Memory is allocated on first use and may
 * move on every append, so a view of the content is valid until the next append. A wiping buffer
 * has held or may hold a credential: memory that it gives up (consumed, moved, freed) is
 * overwritten first, and its memory is hidden (hidden.h) unless kh_buf_hide_no_more says otherwise.
 */
struct kh_buf {
	char *data;
	size_t head; /* first byte not yet consumed */
	size_t tail; /* after the last byte */
	size_t alloc;
	size_t cap; /* most bytes held at a time; kh_buf_set_cap changes it, and nothing else */
	bool wipe;
	bool hide;
};

void kh_buf_init(struct kh_buf *buf, size_t cap_bytes);
void kh_buf_init_wiping(struct kh_buf *buf, size_t cap_bytes);
void kh_buf_fini(struct kh_buf *buf);
/* Changes the cap of a buffer that may hold something. Return: false: it holds more than that, and
 * nothing changed; the caller refuses what it holds. */
bool kh_buf_set_cap(struct kh_buf *buf, size_t cap_bytes) __attribute__((warn_unused_result));
/*
 * For a wiping buffer that holds a credential only now and then (a connection's). kh_buf_hide: from
 * now on its memory is hidden, and so is what it holds already. Return: false without memory: the
 * content is not hidden. kh_buf_hide_no_more: its next memory is not hidden.
 */
bool kh_buf_hide(struct kh_buf *buf);
void kh_buf_hide_no_more(struct kh_buf *buf);

static inline size_t kh_buf_len(const struct kh_buf *buf)
{
	return buf->tail - buf->head;
}

static inline size_t kh_buf_room(const struct kh_buf *buf)
{
	size_t len = kh_buf_len(buf);
	return len < buf->cap ? buf->cap - len : 0;
}

static inline struct kh_slice kh_buf_view(const struct kh_buf *buf)
{
	return (struct kh_slice){ buf->data ? buf->data + buf->head : "", kh_buf_len(buf) };
}

bool kh_buf_append_growing(struct kh_buf *buf, const void *bytes, size_t len);

/* All or nothing. Return: false over the cap or without memory, and the buffer is unchanged. */
static inline bool kh_buf_append(struct kh_buf *buf, const void *bytes, size_t len)
{
	/* A byte for a NUL stays free. */
	if (len >= buf->alloc - buf->tail || len > kh_buf_room(buf))
		return kh_buf_append_growing(buf, bytes, len);
	if (len)
		memcpy(buf->data + buf->tail, bytes, len);
	buf->tail += len;
	return true;
}

static inline bool kh_buf_append_slice(struct kh_buf *buf, struct kh_slice s)
{
	return kh_buf_append(buf, s.ptr, s.len);
}

static inline bool kh_buf_append_str(struct kh_buf *buf, const char *str)
{
	return kh_buf_append(buf, str, str ? strlen(str) : 0);
}

static inline bool kh_buf_append_char(struct kh_buf *buf, char c)
{
	return kh_buf_append(buf, &c, 1);
}

/* As kh_buf_append: all or nothing. */
bool kh_buf_append_u64(struct kh_buf *buf, unsigned long long value);
bool kh_buf_printf(struct kh_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for `len` bytes at the tail, which the caller fills and then commits (fewer are
 * allowed). Return: NULL over the cap or without memory. */
char *kh_buf_reserve(struct kh_buf *buf, size_t len);
void kh_buf_commit(struct kh_buf *buf, size_t len);
/* Takes `len` (≤ length) bytes from the head; an empty buffer starts again at its beginning. */
void kh_buf_consume(struct kh_buf *buf, size_t len);
/* Shortens to `len` bytes, from the tail. */
void kh_buf_truncate(struct kh_buf *buf, size_t len);
void kh_buf_clear(struct kh_buf *buf);
/* Gives the memory of an empty buffer back (idle connections). Does nothing when it holds bytes. */
void kh_buf_release(struct kh_buf *buf);
/* For a buffer that may stay as it is for long: moves a short content to a smaller block, or frees
 * the block of an empty buffer. Without memory the block stays. */
void kh_buf_shrink(struct kh_buf *buf);
/* The content with a NUL after it, which does not count; also for a full buffer. A view, as above.
 * Return: NULL without memory. */
const char *kh_buf_cstr(struct kh_buf *buf);

#endif
