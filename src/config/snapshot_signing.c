/* snapshot_signing.c - placements that are no copy of the value, in a snapshot, and back
 *
 * The worker gets no name of a variable and no path.
 */
#include <stdlib.h>

#include "snapshot_internal.h"

static bool put_hmac(struct kh_buf *out, const struct kh_hmac_config *hmac)
{
	bool ok = kh_wire_put_u8(out, (uint8_t)hmac->algorithm) &&
		  kh_wire_put_u8(out, (uint8_t)hmac->key) &&
		  kh_wire_put_u8(out, (uint8_t)hmac->encoding) &&
		  kh_wire_put_u8(out, (uint8_t)hmac->timestamp) &&
		  kh_wire_put_str(out, hmac->sign) &&
		  kh_wire_put_u32(out, (uint32_t)hmac->n_fields);
	for (size_t i = 0; ok && i < hmac->n_fields; i++)
		ok = kh_wire_put_str(out, hmac->fields[i].name) &&
		     kh_wire_put_str(out, hmac->fields[i].text);
	return ok;
}

static uint8_t take_choice(struct kh_snapshot_in *in, uint8_t most)
{
	uint8_t value = kh_wire_u8(&in->r);
	if (value > most)
		in->r.bad = true;
	return value > most ? 0 : value;
}

static void read_hmac(struct kh_snapshot_in *in, struct kh_placement *placement)
{
	struct kh_hmac_config *hmac = calloc(1, sizeof(*hmac));
	placement->hmac = hmac;
	if (!hmac) {
		in->r.bad = true;
		return;
	}
	hmac->algorithm = (enum kh_hmac_algorithm)take_choice(in, KH_HMAC_SHA1);
	hmac->key = (enum kh_hmac_text)take_choice(in, KH_HMAC_PLAIN);
	hmac->encoding = (enum kh_hmac_text)take_choice(in, KH_HMAC_BASE64);
	hmac->timestamp = (enum kh_hmac_time)take_choice(in, KH_HMAC_ISO_8601);
	hmac->sign = kh_in_text(in);
	uint32_t n = kh_wire_count(&in->r, KH_HMAC_FIELDS_MOST);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_hmac_field *field =
			kh_in_add(in, &hmac->fields, &hmac->n_fields, sizeof(*field));
		if (!field)
			return;
		field->name = kh_in_text(in);
		field->text = kh_in_text(in);
	}
}

bool kh_put_signing(struct kh_buf *out, const struct kh_placement *placement)
{
	const struct kh_sigv4_config *sigv4 = placement->sigv4;
	if (placement->kind == KH_PLACEMENT_HMAC)
		return put_hmac(out, placement->hmac);
	return placement->kind != KH_PLACEMENT_SIGV4 ||
	       (kh_wire_put_str(out, sigv4->region) && kh_wire_put_str(out, sigv4->service));
}

static void read_sigv4(struct kh_snapshot_in *in, struct kh_placement *placement)
{
	placement->sigv4 = calloc(1, sizeof(*placement->sigv4));
	if (!placement->sigv4) {
		in->r.bad = true;
		return;
	}
	placement->sigv4->region = kh_wire_str(&in->r);
	placement->sigv4->service = kh_wire_str(&in->r);
}

void kh_in_signing(struct kh_snapshot_in *in, struct kh_placement *placement)
{
	if (placement->kind == KH_PLACEMENT_SIGV4)
		read_sigv4(in, placement);
	if (placement->kind == KH_PLACEMENT_HMAC)
		read_hmac(in, placement);
	if (placement->kind != KH_PLACEMENT_MTLS)
		return;
	placement->mtls = calloc(1, sizeof(*placement->mtls)); /* what it has is the keeper's */
	if (!placement->mtls)
		in->r.bad = true;
}
