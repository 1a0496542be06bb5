/* carry_placement.c - placements in the snapshot
 *
 * The worker applies the same checks as the configuration's reader, so that it never accepts the
 * name of a field that frames the message. Names of environment variables and paths stay with the
 * keeper.
 */
#include "carry.h"

#include <stdlib.h>

static void carry_field(struct kh_carrier *c, void *element)
{
	struct kh_credential_field *field = element;
	kh_carry_name(c, &field->name);
	kh_carry_name(c, &field->prefix);
	kh_carry_name(c, &field->suffix);
	kh_carry_enum(c, &field->form, KH_FIELD_FORMS);
	kh_carry_str(c, &field->username);
	kh_carry_demand(c, field->form == KH_FIELD_BASIC || !field->username);
}

static void carry_hmac_field(struct kh_carrier *c, void *element)
{
	struct kh_hmac_field *field = element;
	kh_carry_name(c, &field->name);
	kh_carry_name(c, &field->text);
}

void kh_carry_hmac_fields(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	struct kh_hmac_config *hmac = base;
	(void)option;
	kh_carry_list(c, &hmac->fields, &hmac->n_fields, sizeof(*hmac->fields), KH_HMAC_FIELDS_MOST,
		      carry_hmac_field);
}

/* The literal of the option that said it. */
static void carry_key(struct kh_carrier *c, struct kh_placement *placement)
{
	char *key = kh_carry_reads(c) ? NULL : kh_slice_dup(kh_slice_str(placement->key));
	kh_carry_name(c, &key);
	if (kh_carry_reads(c))
		placement->key = key ? kh_placement_find(kh_slice_str(key), placement->kind) : NULL;
	free(key);
}

static void carry_kind(struct kh_carrier *c, struct kh_placement *placement)
{
	if (placement->kind == KH_PLACEMENT_SIGV4 &&
	    kh_carry_maybe(c, &placement->sigv4, sizeof(*placement->sigv4)))
		kh_carry_rows(c, "credentials.*.aws_sigv4", true, placement->sigv4);
	if (placement->kind == KH_PLACEMENT_HMAC &&
	    kh_carry_maybe(c, &placement->hmac, sizeof(*placement->hmac)))
		kh_carry_rows(c, "credentials.*.hmac", true, placement->hmac);
	if (placement->kind == KH_PLACEMENT_MTLS &&
	    kh_carry_maybe(c, &placement->mtls, sizeof(*placement->mtls)))
		kh_carry_rows(c, "credentials.*.mtls", true, placement->mtls);
}

void kh_carry_placement(struct kh_carrier *c, struct kh_placement **slot)
{
	struct kh_placement *placement = kh_carry_maybe(c, slot, sizeof(*placement));
	if (!placement)
		return;
	kh_carry_enum(c, &placement->kind, KH_PLACEMENT_KINDS);
	kh_carry_demand(c, placement->kind != KH_PLACEMENT_NONE);
	carry_key(c, placement);
	kh_carry_str(c, &placement->name);
	kh_carry_str(c, &placement->pointer);
	kh_carry_list(c, &placement->fields, &placement->n_fields, sizeof(*placement->fields),
		      KH_PLACEMENT_FIELDS_MOST, carry_field);
	carry_kind(c, placement);
	kh_carry_demand(c, placement->key && !kh_placement_fault(placement));
}
