/*
 * ws_drive.h - builds WebSocket frames by hand, runs the codec over them, however they are cut, and
 * writes down what it says, so that a test compares one text
 *
 * Each piece that is given lies in memory of its own, exactly as large as it is: the sanitizer sees
 * a read past its end.
 */
#ifndef KEYHOLE_TESTS_WS_DRIVE_H
#define KEYHOLE_TESTS_WS_DRIVE_H

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/ws.h>

#include "unit.h"

enum { DRIVE_FIN = 0x80, DRIVE_BYTES = 4 << 20 };

/* §5.3, byte by byte. */
static inline void drive_mask(char *bytes, size_t len, const uint8_t key[4])
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)((uint8_t)bytes[i] ^ key[i % 4]);
}

/* A frame whose head says what it is told to say; `width` bytes of extended length. */
static inline void drive_put_wide(struct kh_buf *out, enum kh_ws_side side, unsigned first,
				  struct kh_slice payload, unsigned width)
{
	static const uint8_t key[4] = { 0x37, 0xfa, 0x21, 0x3d };
	unsigned mask = side == KH_WS_MASKED ? 0x80 : 0;

	assert_true(kh_buf_append_char(out, (char)first));
	assert_true(kh_buf_append_char(out, (char)(mask | (width == 0	? payload.len
							   : width == 2 ? 126U
									: 127U))));
	for (unsigned i = 0; i < width; i++)
		assert_true(kh_buf_append_char(
			out, (char)(uint8_t)((uint64_t)payload.len >> 8 * (width - 1 - i))));
	if (mask)
		assert_true(kh_buf_append(out, key, sizeof(key)));
	size_t before = kh_buf_len(out);
	assert_true(kh_buf_append_slice(out, payload));
	if (mask)
		drive_mask(out->data + out->head + before, payload.len, key);
}

static inline void drive_put(struct kh_buf *out, enum kh_ws_side side, unsigned first,
			     struct kh_slice payload)
{
	drive_put_wide(out, side, first, payload,
		       payload.len < 126       ? 0
		       : payload.len <= 0xffff ? 2
					       : 8);
}

static inline void drive_log(struct kh_buf *log, const struct kh_ws_frame *f)
{
	static const char *const names[] = { [KH_WS_TEXT] = "TEXT",
					     [KH_WS_BINARY] = "BINARY",
					     [KH_WS_CLOSE] = "CLOSE",
					     [KH_WS_PING] = "PING",
					     [KH_WS_PONG] = "PONG" };

	assert_true(kh_buf_printf(log, "%s%s", f->begin ? "" : "+", names[f->opcode]));
	if (f->opcode == KH_WS_CLOSE)
		assert_true(kh_buf_printf(log, " %u", f->close_code));
	size_t skip = f->opcode == KH_WS_CLOSE && f->payload.len ? 2 : 0;
	struct kh_slice text = kh_slice_sub(f->payload, skip, f->payload.len);
	if (text.len > 200)
		assert_true(kh_buf_printf(log, " (%zu)", text.len));
	else if (text.len)
		assert_true(kh_buf_append_char(log, ' ') && kh_buf_append_slice(log, text));
	assert_true(kh_buf_append_str(log, f->end ? ".\n" : "\n"));
}

/* Gives `bytes` in pieces of `step` (0: all at once). Return: what was said; the caller frees. */
static inline char *drive_ws_at(enum kh_ws_side side, struct kh_slice bytes, size_t step,
				uint64_t now_ms)
{
	struct kh_ws ws;
	struct kh_ws_frame frame;
	struct kh_buf log, kept;
	enum kh_ws_event event = KH_WS_NEED_MORE;
	size_t given = 0;

	kh_ws_init(&ws, side);
	kh_buf_init(&log, DRIVE_BYTES);
	kh_buf_init(&kept, DRIVE_BYTES);
	while (given < bytes.len && event != KH_WS_ERROR) {
		struct kh_slice piece = kh_slice_sub(bytes, given, step ? given + step : bytes.len);
		given += piece.len;
		assert_true(kh_buf_append_slice(&kept, piece));
		char *own = malloc(kh_buf_len(&kept) + 1), *at = own;
		size_t left = kh_buf_len(&kept);
		assert_non_null(own);
		at++; /* so that the bytes end where the block does */
		memcpy(at, kh_buf_view(&kept).ptr, left);
		while ((event = kh_ws_feed(&ws, now_ms, &at, &left, &frame)) == KH_WS_FRAME)
			drive_log(&log, &frame);
		kh_buf_clear(&kept);
		assert_true(kh_buf_append(&kept, at, left));
		assert_true(left <= KH_WS_HEAD_BYTES + KH_WS_PIECE_BYTES || event == KH_WS_ERROR);
		free(own);
	}
	if (event == KH_WS_ERROR) {
		assert_non_null(kh_ws_error_text(&ws));
		assert_true(kh_buf_printf(&log, "ERROR %u %s\n", kh_ws_error_code(&ws),
					  kh_ws_error_text(&ws)));
	} else {
		assert_int_equal(kh_ws_error_code(&ws), 0);
		if (!kh_ws_is_idle(&ws))
			assert_true(kh_buf_append_str(&log, "OPEN\n"));
	}
	kh_buf_fini(&kept);
	char *text = strdup(kh_buf_cstr(&log));
	kh_buf_fini(&log);
	assert_non_null(text);
	return text;
}

/* The same, however it is cut. */
static inline char *drive_ws(enum kh_ws_side side, struct kh_slice bytes)
{
	static const size_t steps[] = { 1, 2, 3, 5, 7, 13, 4096 };
	char *whole = drive_ws_at(side, bytes, 0, 0);

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		if (bytes.len > 4096 && steps[i] < 1000)
			continue;
		char *cut = drive_ws_at(side, bytes, steps[i], 0);
		assert_string_equal(cut, whole);
		free(cut);
	}
	return whole;
}

#endif
