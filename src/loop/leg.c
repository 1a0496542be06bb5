/* leg.c - a connection with its output buffer */

#include <keyhole/base/hidden.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/leg.h>

/* Above the mark at which reading stops, one more read of the other side, framed anew, must still
 * fit. */
enum { LEG_CAP_BYTES = KH_LEG_HIGH_BYTES + 4 * KH_LEG_READ_BYTES + KH_LIMIT_HEAD_BYTES };

void kh_leg_init(struct kh_leg *leg, bool wiping)
{
	*leg = (struct kh_leg){ 0 };
	if (!wiping) {
		kh_buf_init(&leg->out, LEG_CAP_BYTES);
		return;
	}
	kh_buf_init_wiping(&leg->out, LEG_CAP_BYTES);
	kh_buf_hide_no_more(&leg->out);
}

void kh_leg_fini(struct kh_leg *leg)
{
	if (leg->stream)
		kh_stream_free(leg->stream);
	leg->stream = NULL;
	kh_buf_fini(&leg->out);
}

/* Return: false when the connection failed; *put says how much went. */
static bool write_some(struct kh_leg *leg, struct kh_slice bytes, size_t *put)
{
	*put = 0;
	while (*put < bytes.len) {
		size_t n = 0;
		switch (kh_stream_write(leg->stream, bytes.ptr + *put, bytes.len - *put, &n)) {
		case KH_IO_OK:
			*put += n;
			leg->written_bytes += n;
			break;
		case KH_IO_AGAIN:
			return true;
		case KH_IO_EOF:
		case KH_IO_TRUNCATED:
		case KH_IO_ERROR:
			leg->failed = true;
			return false;
		}
	}
	return true;
}

/* All has gone. A block of a usual size stays for the next head, until the connection rests. */
static void show(struct kh_leg *leg)
{
	enum { USUAL_BYTES = 20 * 1024 };

	if (leg->out.alloc > USUAL_BYTES)
		kh_buf_release(&leg->out);
	if (!leg->out.data)
		kh_buf_hide_no_more(&leg->out);
}

bool kh_leg_flush(struct kh_leg *leg)
{
	size_t put;

	if (leg->failed || !leg->stream)
		return false;
	if (kh_buf_len(&leg->out) == 0)
		return true;
	bool ok = write_some(leg, kh_buf_view(&leg->out), &put);
	kh_buf_consume(&leg->out, put);
	if (leg->out.hide && kh_buf_len(&leg->out) == 0)
		show(leg);
	return ok;
}

bool kh_leg_hide(struct kh_leg *leg)
{
	return kh_buf_hide(&leg->out);
}

uint64_t kh_leg_position(const struct kh_leg *leg)
{
	return leg->written_bytes + kh_buf_len(&leg->out);
}

bool kh_leg_rewind(struct kh_leg *leg, uint64_t position)
{
	if (leg->failed || leg->written_bytes > position)
		return false;
	kh_buf_truncate(&leg->out, (size_t)(position - leg->written_bytes));
	return true;
}

bool kh_leg_put(struct kh_leg *leg, struct kh_slice bytes)
{
	/* A small piece waits for the end of this turn's work, so that a head and its
	 * content leave as one record; a large one goes straight from where it is. */
	enum { DIRECT_BYTES = 8 * 1024 };

	if (leg->failed || !leg->stream)
		return false;
	if (bytes.len >= DIRECT_BYTES) {
		size_t put;
		if (!kh_leg_flush(leg))
			return false;
		if (kh_buf_len(&leg->out) == 0) {
			if (!write_some(leg, bytes, &put))
				return false;
			bytes = kh_slice_sub(bytes, put, bytes.len);
		}
	}
	if (kh_hidden_has(bytes.ptr) && !kh_leg_hide(leg))
		return false;
	return bytes.len == 0 || kh_buf_append_slice(&leg->out, bytes);
}
