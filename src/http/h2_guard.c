/*
 * h2_guard.c - bounds the work that a peer causes without sending a useful request
 *
 * Two token buckets. One is for streams that end before they are complete, whether the peer resets
 * them or we do because of what it sent. The other is for frames without useful content. Useful
 * work also refills that one, so that the WINDOW_UPDATEs and PINGs of a busy connection never
 * count.
 */
#include "h2_internal.h"

enum { WORTH = 4 }; /* idle frames that a frame of use brings with it */

static void refill(struct kh_h2_bucket *bucket, uint64_t now_ms, uint32_t per_second, uint32_t most)
{
	uint64_t more = (now_ms - bucket->filled_ms) * per_second / 1000;

	if (now_ms < bucket->filled_ms || more == 0)
		return;
	bucket->filled_ms = now_ms;
	bucket->tokens = more >= most - bucket->tokens ? most : bucket->tokens + (uint32_t)more;
}

static bool take(struct kh_h2_bucket *bucket)
{
	if (bucket->tokens == 0)
		return false;
	bucket->tokens--;
	return true;
}

/* Who may have more streams than that may give up all of them at once. */
static uint32_t most_resets(const struct kh_h2 *h2)
{
	return h2->settings.max_streams > KH_LIMIT_H2_RESETS ? h2->settings.max_streams
							     : KH_LIMIT_H2_RESETS;
}

void kh_h2_guard_init(struct kh_h2 *h2)
{
	h2->resets.tokens = most_resets(h2);
	h2->idle_frames.tokens = KH_LIMIT_H2_IDLE_FRAMES;
}

bool kh_h2_guard_reset(struct kh_h2 *h2)
{
	refill(&h2->resets, h2->now_ms, KH_LIMIT_H2_RESETS_PER_SECOND, most_resets(h2));
	return take(&h2->resets);
}

void kh_h2_guard_work(struct kh_h2 *h2)
{
	h2->idle_frames.tokens += WORTH;
	if (h2->idle_frames.tokens > KH_LIMIT_H2_IDLE_FRAMES)
		h2->idle_frames.tokens = KH_LIMIT_H2_IDLE_FRAMES;
}

/* A reader that takes little at a time says so often: Go's servers send an update of each window
 * for every 4 KiB that a handler reads. Here two of them are free for every KiB. */
void kh_h2_guard_sent(struct kh_h2 *h2, size_t bytes)
{
	enum { BYTES_WORTH_A_FRAME = 512 };

	h2->sent_bytes += bytes;
	h2->idle_frames.tokens += (uint32_t)(h2->sent_bytes / BYTES_WORTH_A_FRAME);
	h2->sent_bytes %= BYTES_WORTH_A_FRAME;
	if (h2->idle_frames.tokens > KH_LIMIT_H2_IDLE_FRAMES)
		h2->idle_frames.tokens = KH_LIMIT_H2_IDLE_FRAMES;
}

bool kh_h2_guard_idle(struct kh_h2 *h2)
{
	refill(&h2->idle_frames, h2->now_ms, KH_LIMIT_H2_IDLE_FRAMES_PER_SECOND,
	       KH_LIMIT_H2_IDLE_FRAMES);
	return take(&h2->idle_frames);
}

/* Where no stream is open, nobody is harmed when the connection ends. A server may have had a
 * window's worth of content on its way when the last stream was given up. */
bool kh_h2_guard_untold(struct kh_h2 *h2, size_t bytes)
{
	enum { BYTES_WORTH_A_FRAME = 256 };

	if (h2->settings.role != KH_H2_CLIENT || h2->n_streams > 0)
		return true;
	h2->uncounted_bytes += bytes;
	size_t frames = h2->uncounted_bytes / BYTES_WORTH_A_FRAME;
	h2->uncounted_bytes %= BYTES_WORTH_A_FRAME;
	refill(&h2->idle_frames, h2->now_ms, KH_LIMIT_H2_IDLE_FRAMES_PER_SECOND,
	       KH_LIMIT_H2_IDLE_FRAMES);
	bool ok = frames <= h2->idle_frames.tokens;
	h2->idle_frames.tokens -= ok ? (uint32_t)frames : h2->idle_frames.tokens;
	return ok;
}

bool kh_h2_guard_frame(struct kh_h2 *h2, const nghttp2_frame_hd *hd)
{
	switch (hd->type) {
	case NGHTTP2_CONTINUATION:
		return ++h2->continuations <= KH_LIMIT_H2_CONTINUATIONS;
	case NGHTTP2_HEADERS: /* it may be for a stream that is over, or to be refused */
		h2->continuations = 0;
		break;
	case NGHTTP2_DATA:
		if (hd->length > 0 || (hd->flags & NGHTTP2_FLAG_END_STREAM))
			return true;
		break;
	case NGHTTP2_RST_STREAM: /* counted where its stream is known */
		return true;
	default:
		break;
	}
	return kh_h2_guard_idle(h2);
}

bool kh_h2_guard_queue(const struct kh_h2 *h2)
{
	/* Of a stream: a head, what comes before it, trailers, windows. */
	enum { OF_A_STREAM = KH_LIMIT_INTERIM_RESPONSES + 4 };

	return nghttp2_session_get_outbound_queue_size(h2->session) <=
	       KH_LIMIT_H2_UNSENT_FRAMES + (size_t)most_resets(h2) + h2->n_streams * OF_A_STREAM;
}
