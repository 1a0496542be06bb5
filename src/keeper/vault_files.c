/* vault_files.c - reads values of changed files again; an invalid one changes nothing */

#include "keeper_internal.h"

#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/log.h>

static bool rests(struct kh_vault *vault, const struct kh_holding *holding,
		  const struct kh_source *source)
{
	if (!kh_vault_in_backoff(holding, source))
		return false;
	kh_vault_pipes_look_again(vault, holding->rests_ms);
	return true;
}

/* A file that can't be read, or is no good, leaves what is there. */
static void read_file_again(struct kh_vault *vault, uint16_t index, struct kh_holding *holding)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	struct kh_secret *secret = NULL;
	struct kh_err err = KH_ERR_INIT;
	if (rests(vault, holding, holding->source))
		return;
	if (kh_vault_read_source(vault, index, holding, holding->source, &secret, &err) !=
	    KH_SOURCE_GOT) {
		char reason[KH_ERR_TEXT_BYTES];
		(void)snprintf(reason, sizeof(reason), "the credential %s has no value on the host",
			       credential->name);
		/* What is missing is so until something else is wrong with it. */
		if (holding->raw.secret || !holding->raw.why ||
		    strcmp(holding->raw.why, err.text) != 0)
			kh_vault_raw_failed(vault, index, holding, err.text, reason);
		holding->raw.due_ms = 0;
		return;
	}
	if (holding->raw.secret && kh_secret_same(holding->raw.secret, secret)) {
		kh_secret_unref(secret);
		if (holding->raw.failures > 0)
			kh_item_fill(&holding->raw, kh_secret_ref(holding->raw.secret), 0, 0);
		return;
	}
	kh_log_info("credential %s has %s value now", credential->name,
		    holding->raw.secret ? "another" : "a");
	kh_item_fill(&holding->raw, secret, 0, 0);
	kh_vault_raw_came(vault, index, holding, true);
}

static void read_client_again(struct kh_vault *vault, uint16_t index, struct kh_holding *holding)
{
	if (rests(vault, holding, &vault->config->credentials[index].mint->client_secret))
		return;
	struct kh_secret *before = holding->client_secret;
	kh_auto_free char *why_before = kh_steal_ptr(&holding->client_why);
	struct kh_err err = KH_ERR_INIT;
	holding->client_secret = NULL;
	if (kh_vault_read_client(vault, index, holding, &err) != KH_SOURCE_GOT) {
		if (!why_before || strcmp(why_before, err.text) != 0)
			kh_log_error("%s%s", err.text, before ? "; the one before serves on" : "");
		holding->client_secret = before;
		return;
	}
	bool same = before && kh_secret_same(before, holding->client_secret);
	const bool was_there = before != NULL;
	kh_secret_unref(before);
	if (same)
		return;
	kh_log_info("credential %s has %s client secret now",
		    vault->config->credentials[index].name, was_there ? "another" : "a");
	kh_vault_client_came(vault, index, holding);
	/* It was not taken without its client's secret, and no event of its own will come. */
	if (!holding->raw.secret && holding->source->kind == KH_SOURCE_ENV &&
	    kh_vault_read(vault, index, holding, &err) == KH_SOURCE_GOT)
		kh_vault_raw_came(vault, index, holding, true);
}

void kh_vault_look_at_files(struct kh_vault *vault)
{
	bool again = vault->look_again_ms && kh_clock_mono_ms() >= vault->look_again_ms;
	if (again)
		vault->look_again_ms = 0;
	if (!kh_watch_look(vault->watch) && !again)
		return;
	kh_watch_begin(vault); /* folders may be others now */
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		const struct kh_mint *mint = vault->config->credentials[i].mint;
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++) {
			struct kh_holding *holding = &vault->slots[i].holdings[j];
			if (mint && mint->client_secret.kind == KH_SOURCE_FILE)
				read_client_again(vault, (uint16_t)i, holding);
			if (holding->source->kind == KH_SOURCE_FILE)
				read_file_again(vault, (uint16_t)i, holding);
		}
	}
	kh_client_certs_renew(vault);
}
