/* ws_write.c - writes WebSocket frames; close codes; UTF-8 checks across pieces */
#include "ws_internal.h"

enum { FIN = 0x80, MASKED = 0x80, LENGTH_16 = 126, LENGTH_64 = 127 };

void kh_ws_mask(char *to, const char *from, size_t len, const uint8_t key[4])
{
	uint64_t wide = 0, word;
	size_t at = 0;

	memcpy(&wide, key, 4);
	memcpy((char *)&wide + 4, key, 4);
	for (; len - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, from + at, sizeof(word));
		word ^= wide;
		memcpy(to + at, &word, sizeof(word));
	}
	for (; at < len; at++)
		to[at] = (char)((uint8_t)from[at] ^ key[at & 3]);
}

static size_t put_head(uint8_t *head, uint8_t first, uint64_t len, const uint8_t key[4])
{
	uint8_t mask = key ? MASKED : 0;
	size_t at = 2, width = 0;

	head[0] = first;
	if (len < LENGTH_16) {
		head[1] = (uint8_t)(mask | len);
	} else {
		width = len <= UINT16_MAX ? 2 : 8;
		head[1] = mask | (width == 2 ? LENGTH_16 : LENGTH_64);
	}
	for (size_t i = 0; i < width; i++)
		head[at++] = (uint8_t)(len >> 8 * (width - 1 - i));
	if (key) {
		memcpy(head + at, key, 4);
		at += 4;
	}
	return at;
}

bool kh_ws_put(struct kh_buf *out, const struct kh_ws_frame *frame, const uint8_t key[4])
{
	uint8_t head[KH_WS_HEAD_BYTES];
	uint8_t opcode = frame->begin ? (uint8_t)frame->opcode : KH_WS_CONTINUATION;
	size_t len = frame->payload.len;
	size_t used = put_head(head, (uint8_t)(opcode | (frame->end ? FIN : 0)), len, key);

	char *room = kh_buf_reserve(out, used + len);
	if (!room)
		return false;
	memcpy(room, head, used);
	if (key)
		kh_ws_mask(room + used, frame->payload.ptr, len, key);
	else if (len)
		memcpy(room + used, frame->payload.ptr, len);
	kh_buf_commit(out, used + len);
	return true;
}

bool kh_ws_put_close(struct kh_buf *out, uint16_t code, const char *reason, const uint8_t key[4])
{
	char payload[KH_WS_CONTROL_BYTES];
	struct kh_slice text = kh_slice_sub(kh_slice_str(reason), 0, sizeof(payload) - 2);
	struct kh_ws_frame frame = { .opcode = KH_WS_CLOSE, .begin = true, .end = true };

	if (kh_ws_code_may_be_sent(code)) {
		payload[0] = (char)(code >> 8);
		payload[1] = (char)(code & 0xff);
		if (text.len)
			memcpy(payload + 2, text.ptr, text.len);
		frame.payload = kh_slice_of(payload, 2 + text.len);
	}
	return kh_ws_put(out, &frame, key);
}

/* §7.4.1, §7.4.2 and IANA's registry (1012-1014); what nobody has registered is not sent. */
bool kh_ws_code_may_be_sent(uint16_t code)
{
	if (code >= 3000)
		return code < 5000;
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014);
}

/* The first byte of a code point (RFC 3629 §4). */
static bool take_lead(struct kh_utf8 *utf8, uint8_t byte)
{
	utf8->low = 0x80;
	utf8->high = 0xbf;
	if (byte < 0x80)
		utf8->need = 0;
	else if (byte >= 0xc2 && byte <= 0xdf)
		utf8->need = 1;
	else if (byte >= 0xe0 && byte <= 0xef)
		utf8->need = 2;
	else if (byte >= 0xf0 && byte <= 0xf4)
		utf8->need = 3;
	else
		return false;
	if (byte == 0xe0)
		utf8->low = 0xa0; /* shorter forms are for what is below */
	else if (byte == 0xed)
		utf8->high = 0x9f; /* surrogates */
	else if (byte == 0xf0)
		utf8->low = 0x90;
	else if (byte == 0xf4)
		utf8->high = 0x8f; /* U+10FFFF */
	return true;
}

bool kh_utf8_take(struct kh_utf8 *utf8, struct kh_slice bytes)
{
	static const uint64_t high_bits = 0x8080808080808080u;
	size_t at = 0;

	while (at < bytes.len) {
		uint64_t word;
		/* Most text is ASCII. */
		if (utf8->need == 0 && bytes.len - at >= sizeof(word)) {
			memcpy(&word, bytes.ptr + at, sizeof(word));
			if (!(word & high_bits)) {
				at += sizeof(word);
				continue;
			}
		}
		uint8_t byte = (uint8_t)bytes.ptr[at++];
		if (utf8->need == 0) {
			if (!take_lead(utf8, byte))
				return false;
			continue;
		}
		if (byte < utf8->low || byte > utf8->high)
			return false;
		utf8->low = 0x80;
		utf8->high = 0xbf;
		utf8->need--;
	}
	return true;
}
