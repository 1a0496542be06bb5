/* vault_state.c - the status of one value of a credential, of its source and of what is made of it
 */

#include "keeper_internal.h"

static void fold(struct kh_vault_state *out, const struct kh_item *item)
{
	out->renewals += item->renewals;
	out->failures += item->all_failures;
	if (item->got_ms > out->got_ms)
		out->got_ms = item->got_ms;
	if (item->secret && item->expires_ms &&
	    (!out->expires_ms || item->expires_ms < out->expires_ms))
		out->expires_ms = item->expires_ms;
	if (item->why && item->failed_ms >= out->failed_ms) {
		out->failed_ms = item->failed_ms;
		out->why = item->why;
	}
}

/* The value was read, and what is made of it is there, or nobody has tried in vain. */
static bool is_ready(const struct kh_credential_config *credential,
		     const struct kh_holding *holding)
{
	bool is_pair = kh_client_cert_is(credential), made_one = false, failed = false;
	for (const struct kh_made *made = holding->made; made; made = made->next) {
		made_one |= kh_item_is_good(&made->item);
		failed |= made->item.failures > 0;
	}
	if (is_pair || (credential->mint && made_one))
		return made_one;
	return kh_item_is_good(&holding->raw) && !(credential->mint && failed);
}

void kh_vault_state(const struct kh_vault *vault, uint16_t index, size_t which,
		    struct kh_vault_state *out)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	const struct kh_vault_slot *slot = &vault->slots[index];
	*out = (struct kh_vault_state){ .source = "none" };
	out->mint = credential->mint ? credential->mint->key : NULL;
	if (which >= slot->n_holdings)
		return;
	const struct kh_holding *holding = &slot->holdings[which];
	struct kh_vault_state raw = { .source = NULL };
	out->source = kh_source_kind_name(holding->source->kind);
	out->ready = is_ready(credential, holding);
	bool made_of = credential->mint || kh_client_cert_is(credential);
	fold(made_of ? &raw : out, &holding->raw);
	if (made_of && raw.why) {
		out->why = raw.why;
		out->failed_ms = raw.failed_ms;
	}
	for (const struct kh_made *made = holding->made; made; made = made->next)
		fold(out, &made->item);
}
