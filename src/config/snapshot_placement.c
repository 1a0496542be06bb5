/* snapshot_placement.c - where a credential goes, in a snapshot, and back
 *
 * What is read is held to what the configuration's reader takes: a name that frames the message
 * never comes through here either.
 */
#include <stdlib.h>

#include "snapshot_internal.h"

static bool put_fields(struct kh_buf *out, const struct kh_placement *placement)
{
	bool ok = kh_wire_put_u32(out, (uint32_t)placement->n_fields);
	for (size_t i = 0; ok && i < placement->n_fields; i++) {
		const struct kh_credential_field *field = &placement->fields[i];
		ok = kh_wire_put_str(out, field->name) && kh_wire_put_str(out, field->prefix) &&
		     kh_wire_put_str(out, field->suffix) &&
		     kh_wire_put_u8(out, (uint8_t)field->form) &&
		     kh_wire_put_str(out, field->username);
	}
	return ok;
}

bool kh_put_placement(struct kh_buf *out, const struct kh_placement *placement)
{
	if (!placement)
		return kh_wire_put_u8(out, KH_PLACEMENT_NONE);
	return kh_wire_put_u8(out, (uint8_t)placement->kind) &&
	       kh_wire_put_str(out, placement->key) && kh_wire_put_str(out, placement->name) &&
	       kh_wire_put_str(out, placement->pointer) && put_fields(out, placement) &&
	       kh_put_signing(out, placement);
}

static void read_fields(struct kh_snapshot_in *in, struct kh_placement *placement)
{
	uint32_t n = kh_wire_count(&in->r, KH_PLACEMENT_FIELDS_MOST);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_credential_field *field =
			kh_in_add(in, &placement->fields, &placement->n_fields, sizeof(*field));
		if (!field)
			return;
		field->name = kh_in_text(in);
		field->prefix = kh_in_text(in);
		field->suffix = kh_in_text(in);
		uint8_t form = kh_wire_u8(&in->r);
		field->form = form == KH_FIELD_BASIC ? KH_FIELD_BASIC : KH_FIELD_PLAIN;
		field->username = kh_wire_str(&in->r);
		if (form > KH_FIELD_BASIC || (form == KH_FIELD_PLAIN && field->username))
			in->r.bad = true;
	}
}

struct kh_placement *kh_in_placement(struct kh_snapshot_in *in)
{
	uint8_t kind = kh_wire_u8(&in->r);
	if (in->r.bad || kind == KH_PLACEMENT_NONE)
		return NULL;
	struct kh_placement *placement = calloc(1, sizeof(*placement));
	if (!placement || kind >= KH_PLACEMENT_KINDS) {
		in->r.bad = true;
		return placement;
	}
	placement->kind = (enum kh_placement_kind)kind;
	char *key = kh_in_text(in);
	placement->key = key ? kh_placement_find(kh_slice_str(key), placement->kind) : NULL;
	free(key);
	placement->name = kh_wire_str(&in->r);
	placement->pointer = kh_wire_str(&in->r);
	read_fields(in, placement);
	kh_in_signing(in, placement);
	if (!in->r.bad && (!placement->key || kh_placement_fault(placement)))
		in->r.bad = true;
	return placement;
}
