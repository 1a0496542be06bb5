/*
 * fuzz_ws.c - WebSocket frames: a second reader, any cut, and what is written is read back
 *
 * The second reader has all bytes before it and takes whole frames, from top to bottom; the two
 * share neither a state nor a table. The first byte of the input chooses the side and the cut.
 */
#include <stdlib.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/ws.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

/* Opcode, length and bytes of each message and control frame, an error's code at the end. */
struct trace {
	struct kh_buf log;     /* payloads joined */
	struct kh_buf rewrite; /* the same, as we would send it on */
	bool over;
};

static void trace_init(struct trace *t)
{
	*t = (struct trace){ 0 };
	kh_buf_init(&t->log, 64 << 20);
	kh_buf_init(&t->rewrite, 64 << 20);
}

static void trace_fini(struct trace *t)
{
	kh_buf_fini(&t->log);
	kh_buf_fini(&t->rewrite);
}

static void on_frame(struct trace *t, const struct kh_ws_frame *f, const uint8_t key[4])
{
	CHECK(f->payload.len <= KH_WS_PIECE_BYTES);
	CHECK(!(f->opcode & 8) || (f->begin && f->end && f->payload.len <= KH_WS_CONTROL_BYTES));
	CHECK(kh_ws_put(&t->rewrite, f, key));
	/* Controls between fragments go to a line of their own, so fragments are not joined there:
	 * each piece is marked with what it belongs to. */
	for (size_t i = 0; i < f->payload.len; i++)
		CHECK(kh_buf_printf(&t->log, "%x%02x", f->opcode, (uint8_t)f->payload.ptr[i]));
	if (f->begin)
		CHECK(kh_buf_printf(&t->log, "<%x", f->opcode));
	if (f->end)
		CHECK(kh_buf_printf(&t->log, "%x>", f->opcode));
}

static void read_cut(struct trace *t, enum kh_ws_side side, struct kh_slice bytes, size_t step)
{
	static const uint8_t key[4] = { 0xde, 0xad, 0, 0xef };
	struct kh_ws ws;
	struct kh_ws_frame frame;
	enum kh_ws_event event = KH_WS_NEED_MORE;
	char *kept = NULL;
	size_t n_kept = 0, given = 0;

	kh_ws_init(&ws, side);
	while (event != KH_WS_ERROR && given < bytes.len) {
		struct kh_slice piece = kh_slice_sub(bytes, given, given + step);
		char *own = malloc(n_kept + piece.len), *at = own;
		size_t left = n_kept + piece.len;
		CHECK(own);
		if (n_kept)
			memcpy(own, kept, n_kept);
		memcpy(own + n_kept, piece.ptr, piece.len);
		given += piece.len;
		while ((event = kh_ws_feed(&ws, 0, &at, &left, &frame)) == KH_WS_FRAME)
			on_frame(t, &frame, side == KH_WS_MASKED ? key : NULL);
		CHECK(event == KH_WS_ERROR || left < KH_WS_HEAD_BYTES + KH_WS_PIECE_BYTES);
		free(kept);
		n_kept = left;
		kept = malloc(left + 1);
		CHECK(kept);
		memcpy(kept, at, left);
		free(own);
	}
	free(kept);
	t->over = event == KH_WS_ERROR;
	CHECK((kh_ws_error_code(&ws) != 0) == t->over);
	if (t->over)
		CHECK(kh_ws_code_may_be_sent(kh_ws_error_code(&ws)));
}

/* ---- the second reader ---- */

/* How many bytes the code point at s[at] has; 0: none begins there; -1: the end cuts one off. What
 * is missing may be anything, so there is a least value that it can have and a greatest. */
static int code_point(const uint8_t *s, size_t len, size_t at)
{
	static const uint32_t shortest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t least, most;
	bool cut = false;

	if (s[at] < 0x80)
		return 1;
	int n = s[at] >> 5 == 6 ? 2 : s[at] >> 4 == 14 ? 3 : s[at] >> 3 == 30 ? 4 : 0;
	if (n == 0)
		return 0;
	least = most = s[at] & (0x7fu >> n);
	for (int i = 1; i < n; i++) {
		cut = cut || at + (size_t)i == len;
		if (!cut && s[at + (size_t)i] >> 6 != 2)
			return 0;
		least = least << 6 | (cut ? 0 : s[at + (size_t)i] & 0x3fu);
		most = most << 6 | (cut ? 0x3fu : s[at + (size_t)i] & 0x3fu);
	}
	if (most < shortest[n] || least > 0x10ffff || (least >= 0xd800 && most <= 0xdfff))
		return 0;
	return cut ? -1 : n;
}

static bool is_utf8(const struct kh_buf *text, bool whole)
{
	const uint8_t *s = (const uint8_t *)kh_buf_view(text).ptr;
	size_t at = 0, len = kh_buf_len(text);

	while (at < len) {
		int n = code_point(s, len, at);
		if (n == 0)
			return false;
		if (n < 0)
			return !whole;
		at += (size_t)n;
	}
	return true;
}

struct second {
	struct kh_buf text; /* of the message that is open */
	unsigned open, controls;
	bool done;
};

static bool second_frame(struct second *s, unsigned first, struct kh_slice payload)
{
	unsigned opcode = first & 15;
	bool fin = first >> 7;

	if (opcode >= 8) {
		if (!fin || payload.len > 125 || ++s->controls > KH_LIMIT_WS_CONTROLS_BURST)
			return false;
		s->done = opcode == 8;
		if (opcode != 8 || payload.len == 0)
			return true;
		if (payload.len == 1)
			return false;
		unsigned code = (unsigned)(uint8_t)payload.ptr[0] * 256 + (uint8_t)payload.ptr[1];
		struct kh_buf reason;
		kh_buf_init(&reason, 200);
		kh_buf_append_slice(&reason, kh_slice_sub(payload, 2, payload.len));
		bool ok = is_utf8(&reason, true) && code >= 1000 && code < 5000 && code != 1004 &&
			  code != 1005 && code != 1006 && (code < 1015 || code >= 3000);
		kh_buf_fini(&reason);
		return ok;
	}
	if ((opcode == 0) != (s->open != 0))
		return false;
	if (opcode)
		s->open = opcode;
	if (s->open == KH_WS_TEXT) {
		kh_buf_append_slice(&s->text, payload);
		if (!is_utf8(&s->text, fin))
			return false;
	}
	if (fin) {
		s->open = 0;
		kh_buf_clear(&s->text);
	}
	return true;
}

/* Are all the whole frames in here good? A frame that is cut off by the end counts as good if its
 * head does; the payload's faults then depend on pieces and are not compared. */
static bool second_reads(enum kh_ws_side side, struct kh_slice b, bool *compare)
{
	const uint8_t *p = (const uint8_t *)b.ptr, *end = p + b.len;
	struct second s = { 0 };
	bool good = true;

	*compare = true;
	kh_buf_init(&s.text, 64 << 20);
	while (good && !s.done && end - p >= 2) {
		unsigned first = p[0], masked = p[1] >> 7, wide = 0;
		uint64_t len = p[1] & 127;
		const uint8_t *at = p + 2;
		unsigned opcode = first & 15;
		good = !(first & 0x70) && opcode != 3 && !(opcode >= 4 && opcode <= 7) &&
		       opcode <= 10 && masked == (side == KH_WS_MASKED) &&
		       (opcode < 8 || (first >> 7 && len < 126)) &&
		       (opcode >= 8 || (opcode == 0) == (s.open != 0));
		if (!good)
			break;
		wide = len == 126 ? 2 : len == 127 ? 8 : 0;
		if ((size_t)(end - at) < wide)
			break;
		if (wide)
			for (len = 0; wide > 0; wide--)
				len = len << 8 | *at++;
		good = len <= KH_LIMIT_WS_FRAME_BYTES && !((p[1] & 127) == 126 && len < 126) &&
		       !((p[1] & 127) == 127 && len < 65536);
		if (!good || (size_t)(end - at) < (masked ? 4 : 0))
			break;
		const uint8_t *key = at;
		at += masked ? 4 : 0;
		if ((uint64_t)(end - at) < len) {
			*compare = false;
			break;
		}
		char *plain = malloc((size_t)len + 1);
		CHECK(plain);
		for (size_t i = 0; i < len; i++)
			plain[i] = (char)(masked ? at[i] ^ key[i % 4] : at[i]);
		good = second_frame(&s, first, kh_slice_of(plain, (size_t)len));
		free(plain);
		p = at + len;
	}
	kh_buf_fini(&s.text);
	return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace whole, cut, again;
	bool compare;

	if (size < 2)
		return 0;
	enum kh_ws_side side = data[0] & 1 ? KH_WS_MASKED : KH_WS_BARE;
	struct kh_slice bytes = kh_slice_of(data + 1, size - 1);
	trace_init(&whole);
	trace_init(&cut);
	trace_init(&again);
	read_cut(&whole, side, bytes, bytes.len);
	read_cut(&cut, side, bytes, (size_t)(data[0] >> 1) + 1);
	CHECK(whole.over == cut.over);
	CHECK(kh_slice_eq(kh_buf_view(&whole.log), kh_buf_view(&cut.log)));
	CHECK(kh_slice_eq(kh_buf_view(&whole.rewrite), kh_buf_view(&cut.rewrite)));

	bool good = second_reads(side, bytes, &compare);
	if (compare)
		CHECK(good == !whole.over);
	else
		CHECK(good);

	/* What we would send on says the same. */
	if (kh_buf_len(&whole.rewrite))
		read_cut(&again, side, kh_buf_view(&whole.rewrite), kh_buf_len(&whole.rewrite));
	CHECK(!again.over);
	CHECK(kh_slice_eq(kh_buf_view(&whole.log), kh_buf_view(&again.log)));
	trace_fini(&whole);
	trace_fini(&cut);
	trace_fini(&again);
	return 0;
}
