/* snapshot_stand_in.c - what placeholders look like and are drawn from, in a snapshot, and back */
#include <keyhole/limits.h>

#include "snapshot_internal.h"

bool kh_put_stand_in(struct kh_buf *out, const struct kh_stand_in *stand_in)
{
	return kh_wire_put_u8(out, (uint8_t)stand_in->shape) &&
	       kh_wire_put_u8(out, stand_in->required) &&
	       kh_wire_put_u8(out, (uint8_t)stand_in->seen) &&
	       kh_wire_put_u32(out, stand_in->seen_len);
}

static enum kh_shape shape(struct kh_snapshot_in *in)
{
	uint8_t value = kh_wire_u8(&in->r);
	if (value >= KH_SHAPE_COUNT) {
		in->r.bad = true;
		return KH_SHAPE_NONE;
	}
	return (enum kh_shape)value;
}

struct kh_stand_in kh_in_stand_in(struct kh_snapshot_in *in)
{
	struct kh_stand_in stand_in = { .shape = shape(in) };
	stand_in.required = kh_in_flag(in);
	stand_in.seen = shape(in);
	stand_in.seen_len = kh_wire_u32(&in->r);
	if (stand_in.seen_len > KH_LIMIT_SECRET_BYTES)
		in->r.bad = true;
	return stand_in;
}

bool kh_put_stand_in_keys(struct kh_buf *out, const struct kh_config *config)
{
	bool ok = true;
	for (size_t i = 0; ok && i < KH_MARK_KEYS; i++)
		ok = kh_wire_put_bytes(out, kh_slice_of(config->stand_in_keys[i].bytes,
							sizeof(config->stand_in_keys[i].bytes)));
	return ok;
}

void kh_in_stand_in_keys(struct kh_snapshot_in *in)
{
	for (size_t i = 0; i < KH_MARK_KEYS; i++) {
		struct kh_stand_in_key *key = &in->config->stand_in_keys[i];
		struct kh_slice bytes = kh_wire_bytes(&in->r);
		if (bytes.len == sizeof(key->bytes))
			memcpy(key->bytes, bytes.ptr, bytes.len);
		else
			in->r.bad = true;
	}
}
